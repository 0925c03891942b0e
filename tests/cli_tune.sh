#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_tune: gpupool-tune as a user meets it: the table, the line to paste, what is refused and how,
# exit codes, what goes to which stream. TAP on standard output.
#
#   GPUPOOL_TUNE        the program
#   GPUPOOL_TRACE_DIR   the project's traces

set -u
suites=$(cd "$(dirname "$0")" && pwd) || exit 99
tune=${GPUPOOL_TUNE:?"the program to test"}
traces=${GPUPOOL_TRACE_DIR:?"the folder of traces"}
case $tune in /*) ;; *) tune=$PWD/$tune ;; esac
traces=$(cd "$traces" && pwd) || exit 99
LC_ALL=C
export LC_ALL
. "$suites/cli.sh"
tool=gpupool-tune program=$tune

# ---- information ----

run --help
[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(lines out)" -le 34 ] && ! grep -q '.\{81\}' out &&
	has out '^Usage: gpupool-tune' '^Examples:' '^  --capacity=SIZE'
ok $? "--help fits a screen"
run --list
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 60 ] && [ "$(head -n 1 out)" = '(defaults)' ] &&
	[ "$(sort -u out | wc -l)" -eq 60 ] && has out 'fraction:0.95$'
ok $? "--list: 60 settings, no two alike"
run --list --limit=8GiB
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 60 ] && ! grep -q fraction out
ok $? "with a limit none brings its own"
run --list --torch-version=2.6
[ "$code" -eq 0 ] && [ "$(lines out)" -gt 30 ] && ! grep -q -e large_segment -e fraction out
ok $? "an older release has fewer"
run --list --grid=none --conf=max_split_size_mb:70 --alloc=buddy:min_block=512
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 3 ] && [ "$(tail -n 1 out)" = buddy:min_block=512 ]
ok $? "the user's own alone"

# ---- a job that defaults serve badly: large blocks, each cut for a small one that stays ----

# 91 MiB is freed and 2 MiB of its segment kept, so that the next 91 MiB needs a new one.
awk 'BEGIN {
	m = 1048576
	print "{\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"cut\",\"device\":{\"total_bytes\":8589934592}}"
	for (i = 0; i < 20; i++) {
		printf "{\"op\":\"alloc\",\"id\":%d,\"size\":%d}\n", 2 * i + 1, 91 * m
		printf "{\"op\":\"free\",\"id\":%d}\n", 2 * i + 1
		printf "{\"op\":\"alloc\",\"id\":%d,\"size\":%d}\n", 2 * i + 2, 11 * m
	}
}' >cut.jsonl

run cut.jsonl
[ "$code" -eq 0 ] && [ ! -s err ] && has out '^cut: 60 events, load 300 MiB, on a card with 8 GiB' \
	'^\* .*expandable_segments:True$' '(defaults)$' ' of 60 settings' &&
	tail -n 1 out | grep -q '^PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # reserves [0-9]* MiB instead of '
ok $? "the line to paste"
run --json cut.jsonl
python3 - out <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
rows = {r.get("conf"): r for r in d["rows"]}
usual, grown = rows[""], rows["expandable_segments:True"]
need = 19 * 11 + 91
assert len(rows) == 60 and d["trace"]["need_bytes"] == need << 20
assert d["trace"]["need_event"] == 58 and d["goal"] == "memory"
assert grown["peak_reserved_bytes"] < usual["peak_reserved_bytes"]
assert d["advice"]["conf"] == "expandable_segments:True"
for r in d["rows"]:
    assert r["survives"] and r["failure"] is None and r["retries"] == 0, r
    assert r["smallest_capacity_bytes"] >= need << 20, r
    assert r["smallest_capacity_bytes"] % (2 << 20) == 0, r
peaks = [r["peak_reserved_bytes"] for r in d["rows"]]
assert peaks == sorted(peaks)
END
ok $? "--json: exact, sorted, all rows"
smallest=$(python3 -c 'import json
for r in json.load(open("out"))["rows"]:
    if r.get("conf") == "": print(r["smallest_capacity_bytes"])')
run --json --grid=none --no-search --capacity="$smallest" cut.jsonl
has out '"survives":true' && has out '"smallest_capacity_bytes":null' &&
	run --json --grid=none --no-search --capacity=$((smallest - 2097152)) cut.jsonl && has out '"survives":false'
ok $? "the smallest card is enough, and one page less is not"
run --capacity=$((smallest - 2097152)) cut.jsonl
[ "$code" -eq 0 ] && has out 'smallest card first' 'fails at event [0-9]*: [0-9.]* MiB more, .*(defaults)$' &&
	tail -n 1 out | grep -q '^PYTORCH_.*# survives on .*, where the defaults fail at event'
ok $? "a card that only some survive on"
run --capacity=200MiB cut.jsonl
[ "$code" -eq 0 ] && ! grep -q PYTORCH out &&
	tail -n 1 out | grep -q '^no setting helps: the job needs 300 MiB live at event 58, the card has 200 MiB; the smallest'
ok $? "a card that is too small for anything"
run --limit=100MiB --json cut.jsonl
has out '"goal":"fit"' '"limit_bytes":104857600' '"conf":null,"text":"no setting helps: '
ok $? "a limit that is too low"
run --goal=speed --top=2 cut.jsonl
[ "$code" -eq 0 ] && has out 'least time in the driver first' '^\* ' &&
	[ "$(grep -c -e MiB -e GiB out)" -le 6 ]
ok $? "--goal=speed, --top"
run --top=0 --threads=1 cut.jsonl
cp out one
run --top=0 --threads=7 cut.jsonl
cmp -s one out
ok $? "any number of threads gives the same"
run --alloc=segregated --grid=none --conf='roundup_power2_divisions:[64:8,>:1]' --json cut.jsonl
[ "$code" -eq 0 ] && has out '"allocator":"segregated"' 'divisions:\[64:8,>:1\]' && [ ! -s err ]
ok $? "another back end in the table"
run --grid=none --conf='roundup_power2_divisions:[64:8,>:1]' --conf=max_split_size_mb:32 cut.jsonl
[ "$code" -eq 0 ] && has out '  roundup_power2_divisions:\[64:8,>:1\]$'
ok $? "own settings in the table"

# ---- recordings ----

cat >late.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"late"}
{"op":"alloc","id":1,"size":4194304,"assumed":true}
{"op":"alloc","id":2,"size":1048576,"t":5}
END
run late.jsonl
[ "$code" -eq 0 ] && has out '^Caution: the recording began late, with 1 blocks (4 MiB)' 'on a card with 140 GiB'
ok $? "a caution where blocks are assumed"
cat >trim.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"trim","device":{"total_bytes":1073741824}}
{"op":"segment_alloc","size":33554432,"addr":4194304}
{"op":"alloc","id":1,"size":33554432}
{"op":"free","id":1}
{"op":"segment_free","size":33554432,"addr":4194304}
{"op":"alloc","id":2,"size":67108864}
END
run --json --grid=none trim.jsonl
has out '"inferred_trims":1' '"peak_reserved_bytes":67108864' && run --json --grid=none --ignore-trims trim.jsonl &&
	has out '"inferred_trims":0' '"peak_reserved_bytes":100663296'
ok $? "a cache that the program emptied is emptied here too"
sed 's/^{"op":"alloc","id":2/{"op":"oom","size":1}\n&/' trim.jsonl >oom.jsonl
run --json --grid=none oom.jsonl
has out '"inferred_trims":0'
ok $? "what a failing request gave back is not"
run "$traces/tiny_empty.json"
[ "$code" -eq 0 ] && has out '^no setting helps: the job needs 0 B'
ok $? "an empty recording"
run --json --grid=short cut.jsonl late.jsonl
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 2 ]
ok $? "several recordings"

# ---- refusals ----

refuses 2 'expected a recording'
refuses 2 'No such file' nothing.json
refuses 2 'Unrecognized CachingAllocator option: max_split, did you mean' --conf=max_split:5 cut.jsonl
refuses 2 'too small, must be >= 20' --conf=max_split_size_mb:5 cut.jsonl
refuses 2 'single True/False' --conf=expandable_segments:yes cut.jsonl
refuses 2 'expecting .* value\|expected : after' --conf=expandable_segments cut.jsonl
refuses 2 'two ways to say the same' --limit=1GiB --conf=per_process_memory_fraction:0.5 cut.jsonl
refuses 2 'since PyTorch 2.11' --torch-version=2.5 --conf=large_segment_size_mb:30 cut.jsonl
refuses 2 'expected one such as' --torch-version=1.13 cut.jsonl
refuses 2 'expected auto, memory, speed or fit' --goal=money cut.jsonl
refuses 2 'expected full, short or none' --grid=huge cut.jsonl
refuses 2 'from 2 MiB' --capacity=1 cut.jsonl
refuses 2 'without --no-search' --goal=fit --no-search cut.jsonl
refuses 2 'a decorator' --alloc=check cut.jsonl
refuses 2 'alloc=nothing' --alloc=nothing cut.jsonl
refuses 2 'profile' --profile=/nonexistent cut.jsonl
refuses 2 'from 1 to 1024' --threads=0 cut.jsonl
if [ -c /dev/full ]; then
	command="cut.jsonl >/dev/full"
	"$tune" cut.jsonl >/dev/full 2>err
	code=$?
	: >out
	[ "$code" -eq 2 ] && has err 'No space left'
	ok $? "a full disk"
fi

echo "1..$n"
[ "$failed" -eq 0 ]
