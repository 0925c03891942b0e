#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_replay: gpupool-replay as a user meets it: every option, what is refused and how, exit codes,
# what goes to which stream and what is left on the disk. TAP on standard output.
#
#   GPUPOOL_REPLAY      the program
#   GPUPOOL_TRACE_DIR   the project's traces

set -u
suites=$(cd "$(dirname "$0")" && pwd) || exit 99
replay=${GPUPOOL_REPLAY:?"the program to test"}
traces=${GPUPOOL_TRACE_DIR:?"the folder of traces"}
case $replay in /*) ;; *) replay=$PWD/$replay ;; esac
traces=$(cd "$traces" && pwd) || exit 99
unset NO_COLOR
. "$suites/cli.sh"
tool=gpupool-replay
mkdir box

# run ARGUMENT...: runs the program in an empty folder; sets $code, and the files out and err.
run() {
	command="gpupool-replay $(echo "$*" | tr -cd '[:print:]')"
	rm -rf box
	mkdir box
	(cd box && "$replay" "$@") >out 2>err
	code=$?
}

nothing_written() {
	[ -z "$(ls -A box)" ]
}

# ---- traces of our own ----

# Blocks of mixed sizes, freed in another order than they came; $1 blocks, times in microseconds.
make_trace() {
	awk -v n="$1" 'BEGIN {
		printf "{\"format\":\"gpupool-trace\",\"version\":1,\"name\":\"made\",\n\"events\":[\n"
		for (i = 1; i <= n; i++) {
			printf "{\"op\":\"alloc\",\"id\":%d,\"size\":%d,\"t\":%d},\n", i,
				(i * 7919 % 97 + 1) * 4096, t += 1000
			if (i % 2 == 0)
				printf "{\"op\":\"free\",\"id\":%d,\"t\":%d},\n", i - 1, t += 1000
		}
		for (i = 2; i <= n; i += 2)
			printf "{\"op\":\"free\",\"id\":%d,\"t\":%d}%s\n", i, t += 1000,
				i + 2 <= n ? "," : ""
		print "]}"
	}'
}

make_trace 200 >made.json
make_trace 4000 >long.json
sed 's/,"t":[0-9]*//; s/"made"/"timeless"/' made.json >timeless.json
sed 's/"made"/"..\/..\/up"/' made.json >up.json
sed '6s/"size":[0-9]*/"size":-1/' made.json >negative.json
sed '5s/"op":"free"/"op":"fere"/' made.json >unknown_op.json
head -c 300 made.json >cut.json
: >empty.json
made=$work/made.json
sim="--device=sim --repeat=1"

# ---- information ----

run --help
[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(lines out)" -le 44 ] && [ "$(lines out)" -ge 24 ] &&
	has out '^Usage: gpupool-replay' Examples: --alloc=NAME --wrap= --check --device= --capacity= \
		--profile= --mirror --inject= --on-oom= --fail-on-oom --explain --threads= --threads-mode= --scale-sizes= --cap-sizes= --pace --plan --work= --repeat= --windows= --lenient \
		--out= --json --list --quiet --help --version
ok $? "--help fits a screen and names every option"

run --version
[ "$code" -eq 0 ] && [ ! -s err ] && has out '^gpupool-replay (gpupool) [0-9]*\.[0-9]*\.[0-9]*$'
ok $? "--version"

run --list
[ "$code" -eq 0 ] && [ ! -s err ] &&
	has out '^raw ' '^fixed ' '^segregated ' '^buddy ' '^slab ' '^hybrid ' '^async ' '^check ' '^fault ' \
		'when_empty=' 'min_block=SIZE' 'follow_events=true|false'
ok $? "--list has allocators, decorators and options"

# ---- a plain replay ----

run $sim "$made"
[ "$code" -eq 0 ] && [ ! -s err ] &&
	has out '^made: 400 events, load .* on simulated' '^raw ' '^hybrid ' '^Results: gpupool-out/made '
ok $? "every allocator, results where they are said to be"
! grep -q -e "$(printf '\033')" out
ok $? "no colour outside a terminal"
[ "$(ls -A box/gpupool-out/made | wc -l)" -eq $((2 + 3 * $(grep -c '"label"' box/gpupool-out/made/result.json))) ] &&
	! ls -A box/gpupool-out/made | grep -q -e '\.tmp$' -e '^\.' &&
	has box/gpupool-out/made/result.json '"schema": 1' '"utilization"' '"p99_99"' '"ns_per_op"' &&
	has box/gpupool-out/made/raw.curve.tsv '^first_event	last_event	t_ns	requested_min	' &&
	has box/gpupool-out/made/raw.alloc.hgrm Percentile && has box/gpupool-out/made/raw.free.hgrm Percentile
ok $? "the files beside the document, and no others"

# A card whose driver maps no memory: the profile has those calls by no name that is known.
sed 's/"cuMem/"notMem/' "$traces/../allocators/device/profiles/h200.json" >plain_card.json
run $sim --profile="$work/plain_card.json" --out=plain --json "$made"
[ "$code" -eq 0 ] && has err 'stitch: left out: simulated NVIDIA H200 maps no memory' &&
	! grep -q '"allocator": "stitch"' out && has out '"allocator": "hybrid"' '"allocator": "torch"'
ok $? "all is without what needs virtual memory on such a device"

run $sim --alloc=async:threshold=1G --out=w "$made"
[ "$code" -eq 0 ] && [ ! -s err ] && has box/w/result.json '"threshold": "1G"' '"deferred": "stream"' '"async_alloc"'
ok $? "the driver's own pool, and what its options came to"
refuses 2 'async:threshold=3x: threshold=3x: expected a size, or max' $sim --alloc=async:threshold=3x "$made"
refuses 2 'expected helper or stream' $sim --alloc=async:deferred=later "$made"

# shellcheck disable=SC2086
run $sim --out=here/there --alloc=raw "$made"
[ "$code" -eq 0 ] && [ -s box/here/there/result.json ] && [ "$(ls -A box)" = here ]
ok $? "--out"
run $sim --out here --alloc raw "$made"
[ "$code" -eq 0 ] && [ -s box/here/result.json ]
ok $? "values by the next argument"

run $sim --alloc=buddy --alloc=raw --alloc=buddy:min_block=4K "$made"
[ "$code" -eq 0 ] && [ -s box/gpupool-out/made/buddy-2.curve.tsv ] &&
	[ "$(grep -e '^buddy' -e '^raw' out | cut -d' ' -f1 | tr '\n' ' ')" = "buddy raw buddy-2 " ] &&
	has out '^  buddy-2  *buddy:min_block=4K$' && has box/gpupool-out/made/result.json '"min_block": "4K"'
ok $? "rows in the order asked for, labels unique"

(cd box && cat "$made" | "$replay" $sim --alloc=raw -) >out 2>err
code=$?
command="... | gpupool-replay -"
[ "$code" -eq 0 ] && has out '^made: 400 events'
ok $? "a trace from standard input"

run $sim --alloc=raw "$work/up.json"
[ "$code" -eq 0 ] && [ "$(ls -A box)" = gpupool-out ] && [ "$(ls box/gpupool-out)" = "-..-up" ]
ok $? "a trace's name cannot leave the folder"

# ---- JSON ----

run $sim --alloc=raw --json "$made"
[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(head -c 1 out)" = "{" ] && [ "$(tail -n 1 out)" = "}" ] &&
	! grep -q -e Results: out && cmp -s out box/gpupool-out/made/result.json
ok $? "--json: the document alone, the same as the one saved"

run $sim --alloc=raw --json=f.json "$made"
[ "$code" -eq 0 ] && has out '^raw ' && cmp -s box/f.json box/gpupool-out/made/result.json
ok $? "--json=FILE: the document there, the table here"

run $sim --alloc=raw --json "$made" "$work/timeless.json" "$made"
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 3 ] && [ "$(grep -c '^{.*}$' out)" -eq 3 ] &&
	[ "$(ls box/gpupool-out | tr '\n' ' ')" = "made made-2 timeless " ]
ok $? "several traces: one document a line, one folder each"

run $sim --alloc=raw --json=f.json --out=o "$made" "$work/timeless.json"
[ "$code" -eq 0 ] && [ "$(lines box/f.json)" -eq 2 ] && [ -s box/o/made/result.json ] &&
	[ -s box/o/timeless/result.json ]
ok $? "several traces with --out and --json=FILE"

# ---- work for the device ----

# total COLUMN LABEL: of the summary in box/w
total() {
	awk -F '\t' -v column="$1" -v label="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
		$at["label"] == label { print $at[column] }' box/w/summary.tsv
}

for kind in memset busy:50 busy:0.5 recorded; do
	run $sim --work=$kind --alloc=raw --alloc=hybrid --out=w "$made"
	[ "$code" -eq 0 ] && [ ! -s err ] && has out ", with work: $kind" ' stalled -' 'GPU idle' '^stalled: ' &&
		[ "$(grep -c '"stall_ns": {' box/w/result.json)" -eq 2 ] &&
		[ "$(grep -c '"device_idle_ns": {' box/w/result.json)" -eq 2 ] &&
		has box/w/result.json "\"kind\": \"${kind%:*}\"" '"total": ' '"pieces": 200' &&
		[ "$(total work raw)" = "$kind" ] && [ "$(total free_stall_ns raw)" -gt 0 ] &&
		[ "$(total free_stall_ns hybrid)" -eq 0 ]
	ok $? "--work=$kind: raw waits at its frees, hybrid does not"
done
grep '"total"' box/w/result.json >first
run $sim --work=recorded --alloc=raw --alloc=hybrid --out=w "$made"
grep '"total"' box/w/result.json >second
[ "$(lines first)" -eq 12 ] && cmp -s first second
ok $? "--work: the same stalls a second time"
run $sim --work=busy:20 --pace=10 --alloc=raw --out=w "$made"
[ "$code" -eq 0 ] && has out 'paced at 10 times' 'with work: busy:20' && has box/w/result.json '"response_ns"' '"stall_ns"'
ok $? "--work with --pace"
run $sim --work=memset --wrap=check:contents=false --alloc=all --out=w "$made" && run $sim --work=busy:5 --check --out=w "$made"
[ "$code" -eq 0 ]
ok $? "--work with check: memsets without its pattern, or kernels"
run $sim --work=none --alloc=raw --out=w "$made"
[ "$code" -eq 0 ] && ! grep -q -e stalled -e 'with work' out && ! grep -q stall_ns box/w/result.json &&
	has box/w/result.json '"work": "none"' && [ "$(total free_stall_ns raw)" -eq 0 ]
ok $? "--work=none: nothing of it"

# ---- every other option ----

run $sim --check "$made"
[ "$code" -eq 0 ] && has out 'times include: check' && has box/gpupool-out/made/result.json '"check"'
ok $? "--check finds nothing wrong with any allocator"

run $sim --alloc=raw --wrap=fault:every=50 "$made"
[ "$code" -eq 0 ] && has out '^Requests that failed' '^  raw .* first at event .*: 4 '
ok $? "failed requests are explained, and no error"
run $sim --alloc=raw --wrap=fault:every=50 --fail-on-oom "$made"
[ "$code" -eq 1 ] && has err '^gpupool-replay: raw: 4 requests failed' && [ -s box/gpupool-out/made/result.json ]
ok $? "--fail-on-oom: exit 1, and the result is there"
run $sim --alloc=raw --fail-on-oom "$made"
[ "$code" -eq 0 ]
ok $? "--fail-on-oom without a failure: exit 0"
run $sim --alloc=raw --wrap=fault:every=50 --on-oom=stop --json "$made"
[ "$code" -eq 0 ] && has out '"status": "stopped"' '"on_oom": "stop"' && [ "$(grep -c '"count": 1,' out)" -ge 1 ]
ok $? "--on-oom=stop"
# 20 and 20 MiB are 64 for buddy; torch may hold no more than 30.
run $sim --capacity=64MiB --alloc=buddy --alloc=torch:limit=30MiB --explain "$traces/tiny_oom.json"
[ "$code" -eq 0 ] &&
	has out '^buddy: event 3: alloc of 20 MiB on stream 0 failed: rounding: blocks of 40 MiB take up 64 MiB' \
		'^torch: event 2: alloc of 20 MiB .*: limit: 20 MiB are live; .* 10 MiB over the limit of 30 MiB' \
		'^    live      40 MiB in 2 blocks, 64 MiB as granted$' '^    stream 0  ' \
		'^    tried     expandable_segments=true .*fails there too$' \
		'limit=0  *serves it, fails later, at event 5$' '^    nearest   --alloc=torch:limit=0$' &&
	! has out 'would help: --explain'
ok $? "--explain: the reason, the facts, the setting that helps"
printf '%s\n' '{"format":"gpupool-trace","version":1,"name":"held","events":[' \
	'{"op":"alloc","id":1,"size":5242880},{"op":"alloc","id":2,"size":5242880},' \
	'{"op":"alloc","id":3,"size":5242880},{"op":"alloc","id":4,"size":5242880},' \
	'{"op":"free","id":1},{"op":"free","id":2},{"op":"free","id":3},' \
	'{"op":"alloc","id":5,"size":12582912,"stream":77}]}' >held.json
run $sim --capacity=24MiB --alloc=torch --explain "$work/held.json"
[ "$code" -eq 0 ] &&
	has out '^torch: event 7: alloc of 12 MiB on stream 1 failed: held by another stream: a piece of 15 MiB' \
		'^    stream 0  5 MiB in 1 block; 15 MiB cached' '^    pool  *large: 0 B free on stream 1' \
		'^    pinned    a segment of 20 MiB at 0x[0-9a-f]*, by 1 block of 5 MiB$' \
		'^  *5 MiB  *stream 0, since event 3: 4 events$' '^    nearest   none of these serves it'
ok $? "--explain: who holds what, and the block that is in the way"
run $sim --capacity=64MiB --alloc=buddy --explain --json "$traces/tiny_oom.json"
[ "$code" -eq 0 ] && has out '"oom": {' '"class": "rounding"' '"fragmented": 1' '"settings": \[' '"best_setting": null'
ok $? "--explain --json"
run $sim --capacity=64MiB --alloc=raw "$traces/tiny_oom.json"
[ "$code" -eq 0 ] && has out 'would help: --explain$' && ! has out '^raw: event' &&
	has box/gpupool-out/tiny-oom/result.json '"class": "over_capacity"' '"settings": null'
ok $? "without --explain: the facts in the document, no settings, and a hint"
run $sim --explain --alloc=raw "$made"
[ "$code" -eq 0 ] && ! has out 'failed: '
ok $? "--explain without a failure says nothing"
run $sim --alloc=raw --wrap=fault:nth=3,result=error "$made"
[ "$code" -eq 1 ] && has err '^gpupool-replay: raw: ' && has out '^raw .*error$' '^Runs without a result' &&
	has box/gpupool-out/made/result.json '"status": "error"' '"why": "'
ok $? "an allocator that breaks: exit 1, shown and saved"

run $sim --alloc=buddy:grow=prealloc,initial=1G --capacity=64MiB "$made"
[ "$code" -eq 0 ] && has err '^gpupool-replay: buddy:grow' && has out '^Runs without a result'
ok $? "a preallocation that does not fit: no error, but told"
run $sim --alloc=buddy:grow=prealloc,initial=1G --capacity=64MiB --fail-on-oom "$made"
[ "$code" -eq 1 ]
ok $? "the same with --fail-on-oom: exit 1"
run $sim --quiet --alloc=buddy:grow=prealloc,initial=1G --capacity=64MiB --fail-on-oom "$made"
[ "$code" -eq 1 ] && [ "$(lines err)" -eq 1 ] && has err '^gpupool-replay: buddy:grow'
ok $? "... which --quiet does not silence"

run $sim --alloc=raw --capacity=4MiB --json "$made"
[ "$code" -eq 0 ] && has out '"gpu_bytes": 4194304' '"over_capacity": [1-9]'
ok $? "--capacity"
run $sim --alloc=raw --windows=7 "$made"
[ "$code" -eq 0 ] && [ "$(lines box/gpupool-out/made/raw.curve.tsv)" -le 8 ] &&
	[ "$(lines box/gpupool-out/made/raw.curve.tsv)" -ge 4 ]
ok $? "--windows"
run $sim --alloc=segregated --threads=2 --json "$made"
[ "$code" -eq 0 ] && has out '"threads": 2'
ok $? "--threads"
run $sim --alloc=segregated --threads=2 "$made"
[ "$code" -eq 0 ] && has out ', 2 threads$' "^The times of calls are measured and have no driver's in them"
ok $? "--threads: what the times are then"
run $sim --alloc=segregated --alloc=raw --threads=1,2 --threads-mode=each --scale-sizes=1/16 --cap-sizes=64K \
	--json=both.json "$made"
[ "$code" -eq 0 ] && has out '^Operations per second by threads (each replays the whole trace)$' \
	'^allocator  *1  *2  speed-up' '^segregated .*%' '^raw ' '^Measured by the wall clock' &&
	has box/both.json '"label": "segregated-t2"' '"threads_mode": "each"' '"speedup": [0-9]' &&
	has err 'times 1/16$' 'sizes above 65536 bytes' && [ -s box/gpupool-out/made/raw-t1.alloc.hgrm ]
ok $? "--threads with a list: a run for each, one table"
run $sim --alloc=segregated --threads=1,2 "$made"
[ "$code" -eq 0 ] && has out '^segregated-t1 ' '^segregated-t2 ' '(each has a share of the trace)$'
ok $? "... where threads share the trace: after the usual table"
run $sim --alloc=hybrid --check --threads=2 --threads-mode=chain "$made"
[ "$code" -eq 0 ] && has out 'frees what the one before it allocated)$'
ok $? "--threads-mode=chain"
for trace in '{"op":"alloc","id":1,"size":0},{"op":"free","id":1}' '{"op":"sync"}' ''; do
	echo '{"format":"gpupool-trace","version":1,"name":"idle","events":['"$trace"']}' >"$work/idle.json"
	run $sim --alloc=raw --alloc=hybrid --threads=1,2 --threads-mode=each "$work/idle.json"
	[ "$code" -eq 0 ] && has out '^hybrid  *-  *-$'
	ok $? "... nothing to replay: '$trace'"
done
run $sim --alloc=raw --pace=100 --json "$made"
[ "$code" -eq 0 ] && has out '"lateness_ns"' '"response_ns"' '"pace": 100'
ok $? "--pace=SPEED"
run $sim --alloc=raw --pace "$made"
[ "$code" -eq 0 ] && has out 'paced at 1 times' '^Paced, p50'
ok $? "--pace"
run $sim --lenient --alloc=raw --json "$work/negative.json"
[ "$code" -eq 0 ] && [ "$(lines err)" -eq 1 ] && has err 'negative.json: --lenient skipped 1 ' && has out '"skipped"'
ok $? "--lenient counts what it skips"
run $sim --lenient --quiet --alloc=raw "$work/negative.json"
[ "$code" -eq 0 ] && [ ! -s err ] && has out '^raw '
ok $? "--quiet"

# ---- devices ----

run --repeat=1 --alloc=raw --json "$made"
[ "$code" -eq 0 ] && {
	{ has out '"device": "cuda"' && [ ! -s err ]; } ||
		{ has out '"device": "sim"' && [ "$(lines err)" -eq 1 ] && has err 'no GPU to use'; }
}
ok $? "--device=auto: the GPU, or one line that says why not"
run --repeat=1 --alloc=raw --device=cuda "$made"
if [ "$code" -eq 0 ]; then
	has out 'measured on the device'
	ok $? "--device=cuda"
else
	[ "$code" -eq 3 ] && [ "$(lines err)" -eq 1 ] && has err '--device=cuda: ' && nothing_written
	ok $? "--device=cuda without a GPU: exit 3, one line, nothing written"
fi

run --repeat=1 --mirror --alloc=segregated --alloc=raw "$made"
if [ "$code" -eq 0 ]; then
	has out '^segregated .* same ' '^raw ' ' and simulated$' 'ratio' &&
		has box/gpupool-out/made/result.json '"label": "raw-sim"' '"memory_equal": true' &&
		has box/gpupool-out/made/mirror.tsv '^label	call	' '^segregated	all	.*	equal	must$'
	ok $? "--mirror"
else
	[ "$code" -eq 3 ] && [ "$(lines err)" -eq 1 ] && has err '^gpupool-replay: --mirror needs a GPU: ' &&
		nothing_written
	ok $? "--mirror without a GPU: exit 3, one line, nothing written"
fi

# ---- --verify-recording ----

recorded=$traces/tiny_recording.json
run $sim --alloc=torch --verify-recording --json "$recorded"
[ "$code" -le 1 ] && has out '"compared": [1-9]'
ok $? "--verify-recording: the figures are in the document"
# Two megabytes are free in a graph's pool, and not to be had by others. Given back: the graph is gone.
cat >pools.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"pools"}
{"op":"segment_alloc","size":2097152,"addr":1073741824,"pool":3}
{"op":"alloc","id":1,"size":512,"addr":1073741824,"pool":3}
{"op":"free","id":1}
{"op":"segment_alloc","size":2097152,"addr":1075838976}
{"op":"alloc","id":2,"size":512,"addr":1075838976}
{"op":"alloc","id":3,"size":512,"addr":1073741824,"pool":3}
{"op":"free","id":3}
{"op":"segment_free","size":2097152,"addr":1073741824,"pool":3}
{"op":"free","id":2}
END
run $sim --alloc=torch --verify-recording "$work/pools.jsonl"
[ "$code" -eq 0 ] && has err 'the recording agrees in all 6 '
ok $? "--verify-recording: private pools are kept apart"
sed 's/,"pool":3//' pools.jsonl >nopools.jsonl
run $sim --alloc=torch --verify-recording "$work/nopools.jsonl"
[ "$code" -eq 1 ] && has err 'recorded 0x40200000, the model gives 0x40000000'
ok $? "--verify-recording: without them it differs"
if [ -n "$(gzip -dc "$traces/diffusion.jsonl.gz" 2>/dev/null | head -c 1)" ] &&
	"$replay" $sim --quiet --repeat=1 --alloc=raw --out=probe "$traces/diffusion.jsonl.gz" >/dev/null 2>&1; then
	run $sim --verify-recording --json "$traces/diffusion.jsonl.gz"
	[ "$code" -eq 0 ] && has err 'the recording agrees in all 8571 ' &&
		has out '"compared": 8571' '"matched": 8571' '"first_divergence": null'
	ok $? "--verify-recording: a real recording, every address and device call"
	run $sim --conf=roundup_power2_divisions:4 --verify-recording --json "$traces/diffusion.jsonl.gz"
	[ "$code" -eq 1 ] && has err 'differs from the recording: event [0-9]*: ' && has out '"event": [0-9]'
	ok $? "--verify-recording: other settings than the recorded ones differ, exit 1"
fi
rm -rf probe
run $sim --alloc=torch --torch-version=2.5 --conf=expandable_segments:True --json "$made"
[ "$code" -eq 0 ] && has out '"torch_version": "2.5"' '"expandable_segments": "true"'
ok $? "--torch-version together with --conf"
refuses 2 'torch_version=new: expected one such as' $sim --alloc=torch --torch-version=new "$made"
refuses 2 '--torch-version: expected --alloc=torch' $sim --alloc=raw --torch-version=2.5 "$made"
refuses 2 '--verify-recording: expected --alloc=torch' $sim --alloc=raw --verify-recording "$recorded"

# ---- refusals ----

refuses 2 'expected a trace' --device=sim
refuses 2 'did you mean --alloc?' --aloc=raw "$made"
refuses 2 'unknown option' --confidence=x "$made"
refuses 2 '--conf=max_split_size_mb:10: .*must be >= 20' --conf=max_split_size_mb:10 "$made"
refuses 2 'did you mean expandable_segments?' --conf=expandable_segment:True "$made"
refuses 2 '--conf: expected --alloc=torch' --alloc=raw --conf=expandable_segments:True "$made"
refuses 2 '--conf: expected once' --conf=backend:native --conf=backend:native "$made"
refuses 2 'unknown option' -v "$made"
refuses 2 '--alloc: expected a value' "$made" --alloc
refuses 2 '--alloc=buddi: .*buddy' $sim --alloc=buddi "$made"
refuses 2 '--alloc=buddy:min_blok=1: unknown option.*min_block' $sim --alloc=buddy:min_blok=1 "$made"
refuses 2 '--alloc=buddy:min_block=3: ' $sim --alloc=buddy:min_block=3 "$made"
refuses 2 '--alloc=buddy:min_block: ' $sim --alloc=buddy:min_block "$made"
refuses 2 '--alloc=all:x=1: ' $sim --alloc=all:x=1 "$made"
refuses 2 '--alloc=: ' $sim --alloc= "$made"
refuses 2 '--alloc=check: a decorator' $sim --alloc=check "$made"
refuses 2 '--alloc=buddi: ' $sim --alloc=raw --alloc=buddi "$made"
refuses 2 '--wrap=raw: not a decorator' $sim --wrap=raw "$made"
refuses 2 '--wrap=chek: ' $sim --wrap=chek "$made"
refuses 2 '--wrap=fault:nth=x: ' $sim --wrap=fault:nth=x "$made"
refuses 2 '--check=1: this option takes no value' --check=1 "$made"
refuses 2 '--device=gpu: expected auto, sim or cuda' --device=gpu "$made"
refuses 2 '--capacity=lots: expected a size' --capacity=lots "$made"
refuses 2 '--capacity=0: expected a size from' --capacity=0 "$made"
refuses 2 '--capacity=524288: expected at least a page of the device, 2 MiB' $sim --capacity=512K "$made"
refuses 2 '--repeat=0: expected a whole number' --repeat=0 "$made"
refuses 2 '--repeat=1.5: expected a whole number' --repeat=1.5 "$made"
refuses 2 '--windows=-1: expected a whole number' --windows=-1 "$made"
refuses 2 '--threads=0: expected a whole number' --threads=0 "$made"
refuses 2 '--threads=4x: expected a whole number' --threads=1,2,4x "$made"
refuses 2 '--threads=: expected a whole number' --threads=1, "$made"
refuses 2 '--threads-mode=all: expected share, each or chain' --threads=2 --threads-mode=all "$made"
refuses 2 '--threads-mode: expected --threads=N' --threads-mode=each "$made"
refuses 2 '--explain: expected without --threads-mode' --explain --threads=2 --threads-mode=each "$made"
refuses 2 '--scale-sizes=0: expected a whole number' --scale-sizes=0/16 "$made"
refuses 2 '--scale-sizes=N/x: expected a whole number' --scale-sizes=1/x "$made"
refuses 2 '--scale-sizes=half' --scale-sizes=half "$made"
refuses 2 '--verify-recording: expected without' --verify-recording --cap-sizes=1M "$made"
refuses 2 '--pace=0: expected a number' --pace=0 "$made"
refuses 2 '--pace=nan: expected a number' --pace=nan "$made"
refuses 2 '--pace: expected without --threads' --pace --threads=2 "$made"
refuses 2 'has no times' $sim --pace "$work/timeless.json"
refuses 2 '--work=: expected none, memset, busy:US or recorded' --work= "$made"
refuses 2 '--work=busy: expected none, memset' --work=busy "$made"
refuses 2 '--work=busy:0: expected a number' --work=busy:0 "$made"
refuses 2 '--work=busy:x: expected a number' --work=busy:x "$made"
refuses 2 '--work=busy:nan: expected a number' --work=busy:nan "$made"
refuses 2 '--work: expected without --threads' --work=memset --threads=2 "$made"
refuses 2 'would overwrite the pattern that check compares' $sim --work=memset --check "$made"
refuses 2 '--work=recorded: .*has no times' $sim --work=recorded "$work/timeless.json"
refuses 2 '--on-oom=wait: expected skip or stop' --on-oom=wait "$made"
refuses 2 'nowhere.tsv' --device=sim --profile="$work/nowhere.tsv" "$made"
refuses 2 'made.json' --device=sim --profile="$made" "$made"
refuses 2 '--alloc=stitch: this device maps no memory' --device=sim --profile="$work/plain_card.json" \
	--alloc=stitch "$made"
refuses 2 '--profile=x: a cost model is for --device=sim' --profile=x --device=cuda "$made"
refuses 2 '--mirror: expected without --device=sim' $sim --mirror "$made"
refuses 2 '--mirror: expected without --threads' --mirror --threads=2 "$made"
for inject in lost lost:0 lost:x lots:3 : '' slow:3 slow:3: slow:x:3 fail:-1 leak:many sticky:1:2; do
	refuses 2 '--inject.*: expected' $sim --inject="$inject" "$made"
done
refuses 2 '--inject=lost:0: expected a whole number' $sim --inject=lost:0 "$made"
refuses 2 '--inject=slow:3:x: expected a whole number' $sim --inject=slow:3:x "$made"
refuses 2 '--out=: expected a value' --out= "$made"
refuses 2 "made.json: cannot write here: " $sim --out="$made" "$made"
refuses 2 "cannot write here: " $sim --out=/proc/gpupool/x "$made"
refuses 2 "cannot write here: " $sim --out=new/folder --json=/proc/gpupool/x "$made"
refuses 2 '--json=: expected a value' --json= "$made"
refuses 2 'cannot write here: File name too long' $sim --json="$(printf '%0300d' 0)" "$made"
refuses 2 'missing.json' $sim "$work/missing.json"
refuses 2 'missing.json' $sim "$made" "$work/missing.json"
refuses 2 "$work" $sim "$work"
refuses 2 'empty.json:' $sim "$work/empty.json"
refuses 2 'cut.json:[0-9]*: ' $sim "$work/cut.json"
refuses 2 'negative.json:6: .*size' $sim "$work/negative.json"
refuses 2 'unknown_op.json:5: .*fere' $sim "$work/unknown_op.json"
refuses 2 'x.json' $sim "$work/$(printf 'esc\033[31m\nx.json')"

# ---- output that cannot be written ----

if [ -c /dev/full ]; then
	command="gpupool-replay >/dev/full"
	rm -rf box && mkdir box
	(cd box && "$replay" $sim --alloc=raw --json "$made") 2>err >/dev/full
	code=$?
	[ "$code" -eq 2 ] && [ "$(lines err)" -eq 1 ] && has err 'standard output: No space left'
	ok $? "a full standard output: exit 2"
	run $sim --alloc=raw --json=/dev/full "$made"
	[ "$code" -eq 2 ] && has err '--json=/dev/full: No space left' && [ -c /dev/full ]
	ok $? "--json=FILE on a full disk: exit 2"
else
	n=$((n + 2))
	echo "ok $((n - 1)) - a full standard output # SKIP no /dev/full"
	echo "ok $n - --json=FILE on a full disk # SKIP no /dev/full"
fi
# A limit to the size of files, of 4 or 8 KiB by what the shell takes for a block.
command="ulimit -f 8; gpupool-replay"
rm -rf box && mkdir box
(ulimit -f 8 && cd box && "$replay" $sim --alloc=raw "$work/long.json") >out 2>err
code=$?
[ "$code" -eq 2 ] && has err 'raw.curve.tsv: File too large; no result was saved' && nothing_written
ok $? "a limit to the size of files: exit 2, nothing left behind"
run $sim --alloc=raw --json=/dev/null "$made"
[ "$code" -eq 0 ] && [ -c /dev/null ]
ok $? "--json=/dev/null leaves the device alone"

# ---- a device that fails ----

run $sim --alloc=hybrid --alloc=raw --alloc=hybrid --inject=lost:150 "$made"
[ "$code" -eq 3 ] && has err '^gpupool-replay: raw: event .*cudaErrorDevicesUnavailable' &&
	! grep -q -e leak err && has out ', lost at call 150$' '^hybrid .* -$' '^raw .* error$' '^hybrid-2 .* -$' &&
	has box/gpupool-out/made/result.json '"status": "ok"' '"status": "error"' '"lost_call": 150' \
		'"why": "event .*injected: the device is lost since call 150'
ok $? "a lost device: exit 3, the other runs are kept, the reason is in the document"

run $sim --alloc=raw --inject=sticky:7 --threads=2 "$made"
[ "$code" -eq 3 ] && [ "$(lines err)" -eq 1 ] && has err 'cudaErrorIllegalAddress'
ok $? "a sticky error, on two threads"
run $sim --alloc=raw --inject=sticky:7 --pace=1000 --check --explain "$made"
[ "$code" -eq 3 ] && [ "$(lines err)" -eq 1 ] && has err 'cudaErrorIllegalAddress'
ok $? "a sticky error, paced and checked"

run $sim --alloc=raw --inject=fail:3 --inject=slow:5:1000000000 --inject=leak:2M --capacity=1GiB "$made"
[ "$code" -eq 0 ] && has out 'out of memory at call 3, slow at call 5, leaking 2 MiB at each release' &&
	has box/gpupool-out/made/result.json '"slow_ns": 1000000000' '"max": [0-9]\{10\}'
ok $? "out of memory once, slow once, leaking: a result"

# ---- more streams than a pool keeps apart ----

awk 'BEGIN { for (i = 0; i < 3000; i++) print "{\"op\":\"alloc\",\"id\":" i ",\"size\":4096,\"stream\":" i "}" }' |
	sed '1i {"format":"gpupool-trace","version":1,"name":"many"}' >many.jsonl
run $sim --alloc=segregated --alloc=buddy --alloc=stitch --alloc=raw "$work/many.jsonl"
[ "$code" -eq 0 ] && [ "$(grep -c '104 refused' out)" -eq 3 ] && has out 'kept the job alive: raw$'
ok $? "requests of streams beyond the 2 896th are refused, and counted"

# ---- plans ----

run $sim --alloc=plan --alloc=buddy --check --json "$made"
[ "$code" -eq 0 ] && has out '"height_bytes"' '"bound_bytes"' '"above_plan": 0.0' '"allocator": "plan"'
ok $? "--alloc=plan makes a plan and holds to it"
run $sim --alloc=raw --plan=5 "$made"
[ "$code" -eq 0 ] && has out 'Best plan of the whole trace: ' 'raw  *reserves .* % more'
ok $? "--plan: how far above"
run $sim --alloc=raw "$made"
[ "$code" -eq 0 ] && ! grep -q plan out && ! grep -q plan box/gpupool-out/made/result.json
ok $? "no plan unless asked for"
refuses 2 '--plan=0: expected a number' $sim --plan=0 "$made"
awk 'BEGIN { for (i = 1; i <= 60000; i++) print "{\"op\":\"alloc\",\"id\":" i ",\"size\":" i % 977 * 512 + 512 "}" }' |
	sed '1i {"format":"gpupool-trace","version":1,"name":"crowd"}' >crowd.jsonl
run $sim --alloc=raw --plan=0.001 "$work/crowd.jsonl"
[ "$code" -eq 0 ] && has err '--plan=0.001: no plan was ready' && ! grep -q 'Best plan' out
ok $? "--plan: no plan in that time, and the replay all the same"
refuses 2 'no plan was ready in that time, expected more seconds' $sim --alloc=plan --plan=0.001 "$work/crowd.jsonl"
refuses 2 '--alloc=plan: .* for one thread' $sim --alloc=plan --threads=2 "$made"
run $sim --alloc=plan --capacity=2MiB "$made"
[ "$code" -eq 0 ] && has out 'Runs without a result' 'a plan of'
ok $? "a plan that does not fit the device is a result"

# ---- interruption ----

command="gpupool-replay --repeat=10000, interrupted"
rm -rf box && mkdir box
(cd box && exec "$replay" --device=sim --repeat=10000 --out=o "$work/long.json") >out 2>err &
pid=$!
tries=0
while [ ! -d box/o ] && [ $tries -lt 300 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
sleep 0.5
kill -INT $pid
wait $pid
code=$?
[ "$code" -eq 130 ] && has out partial && has err 'interrupted' && has box/o/result.json '"partial": true' '"status": "partial"'
ok $? "SIGINT: exit 130, what there is shown and saved, marked partial"

# ---- the project's own traces ----

for trace in "$traces"/tiny_*.json; do
	[ -e "$trace" ] || continue
	run $sim --check "$trace"
	[ "$code" -eq 0 ]
	ok $? "$(basename "$trace") on every allocator"
done

echo "1..$n"
[ $failed -eq 0 ]
