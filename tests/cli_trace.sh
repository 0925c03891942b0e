#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_trace: gpupool-trace as a user meets it: every command, what is refused and how, exit codes,
# what goes to which stream and what is left on the disk. TAP on standard output.
#
#   GPUPOOL_TRACE       the program
#   GPUPOOL_REPLAY      gpupool-replay, which must read what it writes
#   GPUPOOL_TRACE_DIR   the project's traces

set -u
suites=$(cd "$(dirname "$0")" && pwd) || exit 99
trace=${GPUPOOL_TRACE:?"the program to test"}
replay=${GPUPOOL_REPLAY:?"the program that reads the results"}
traces=${GPUPOOL_TRACE_DIR:?"the folder of traces"}
case $trace in /*) ;; *) trace=$PWD/$trace ;; esac
case $replay in /*) ;; *) replay=$PWD/$replay ;; esac
traces=$(cd "$traces" && pwd) || exit 99
LC_ALL=C
export LC_ALL
. "$suites/cli.sh"
tool=gpupool-trace
mkdir box

# run ARGUMENT...: runs the program in an empty folder; sets $code, and the files out and err.
run() {
	rm -rf box
	mkdir box
	again "$@"
}

# again ARGUMENT...: the same, in the folder as it is.
again() {
	command="gpupool-trace $*"
	(cd box && "$trace" "$@") >out 2>err
	code=$?
}

# number KEY FILE: of a document on one line
number() {
	sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p" "$2"
}

llm=$traces/llm.json

# ---- information ----

for c in '' info lint convert slice merge; do
	# shellcheck disable=SC2086 # none or one word
	run $c --help
	[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(lines out)" -le 30 ] && ! grep -q '.\{81\}' out &&
		has out '^Usage: gpupool-trace' '^Examples:' '^  --version'
	ok $? "${c:-gpupool-trace} --help fits a screen and has examples"
done
run --version
[ "$code" -eq 0 ] && has out '^gpupool-trace (gpupool) [0-9]'
ok $? "--version"

# ---- info ----

run info "$llm"
[ "$code" -eq 0 ] && [ ! -s err ] && has out '^  events     19 956: 10 198 allocations' \
	'^  load       9.23 GiB (9905417496 bytes)' '^  live       [^ ].\{59\}$' \
	'^Sizes, the most frequent' '^Lifetimes' '^Streams: 1' '^Threads: 1' \
	'^Never freed: 449 blocks' 'step 11$' '^  recorded '
ok $? "info"
run info --json "$llm"
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 1 ] && [ "$(number events out)" = 19956 ] &&
	[ "$(number load_bytes out)" = 9905417496 ] && has out '"never_freed":{"count":449,'
ok $? "info --json"
run info "$traces"/tiny_*
[ "$code" -eq 0 ] && [ "$(grep -c '^  events ' out)" -eq "$(find "$traces" -name 'tiny_*' | wc -l)" ]
ok $? "info of several files"
cat >notes.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"n","notes":["a \u001b[31m note"],"n_events":4}
{"op":"alloc","id":1,"size":4096,"assumed":true}
{"op":"alloc","id":2,"size":1,"stream":139637976727552,"thread":77,"t":5}
{"op":"free","id":1,"t":9}
{"op":"sync","thread":5,"t":9}
END
run info "$work/notes.jsonl"
[ "$code" -eq 0 ] && [ ! -s err ] && has out '^  note       a ?.31m note$' \
	'^  assumed    1 blocks, 4 KiB' '0x7f0000000000' ' 77 '
ok $? "info tells notes, assumed blocks and original handles"
run convert "$work/notes.jsonl" x.json
[ "$code" -eq 0 ] && [ "$(grep -c 'note: a ' err)" -eq 1 ]
ok $? "elsewhere a note is told once"

# ---- lint ----

cat >bad.jsonl <<'END'
{"format":"gpupool-trace","version":1,"n_events":10}
{"op":"alloc","id":1,"size":100,"addr":1000}
{"op":"alloc","id":1,"size":100}
{"op":"free","id":9}
{"op":"alloc","id":2,"size":0,"t":5}
{"op":"alloc","id":3,"size":100,"addr":1050,"t":4}
nonsense
{"op":"free","id":1,"t":6}
{"op":"free","id":1,"t":6}
{"op":"free","id":3,"t":6}
{"op":"free","id"
END
run lint "$work/bad.jsonl"
[ "$code" -eq 1 ] && [ ! -s err ] && [ "$(lines out)" -eq 11 ] &&
	has out 'bad.jsonl:3: error: .*\[duplicate_id\]$' 'bad.jsonl:4: error: .*\[unknown_id\]$' \
		'bad.jsonl:6: error: time goes back .*\[time_back\]$' 'bad.jsonl:7: error: .*\[bad_event\]$' \
		'bad.jsonl:9: error: .*double free.*\[unknown_id\]$' 'bad.jsonl:11: error: .*\[tail\]$' \
		'event 3: error: .* block of event 1 .*\[overlap\]$' 'event 2: warning: .*\[leak\]$' \
		'bad.jsonl:11: error: the line ends too early.*\[bad_event\]$' \
		'event 2: note: .*\[zero_size\]$' ': 8 errors, 1 warnings, 1 notes$'
ok $? "lint lists all of it, with its place, and exits with 1"
run lint --level=error "$work/bad.jsonl"
[ "$code" -eq 1 ] && [ "$(lines out)" -eq 9 ] && has out ': 8 errors, 1 warnings, 1 notes$'
ok $? "lint --level=error shows errors and counts the rest"
run lint "$traces"/tiny_lifo.json "$traces"/llm.json
[ "$code" -eq 0 ] && has out 'lifo.json: 0 errors, 0 warnings' 'llm.json: 0 errors, 449 warnings'
ok $? "lint of good files exits with 0"
echo '{"format":"gpupool-trace","version":2}' >future.json
run lint "$work/future.json" "$traces/tiny_lifo.json"
[ "$code" -eq 2 ] && has err 'version' && has out 'lifo.json: 0 errors'
ok $? "lint of a file that cannot be read exits with 2, and goes on"

# ---- convert ----

round() {
	again convert --quiet "$1" a.json && again convert --quiet a.json b.gpt &&
		again convert --quiet b.gpt c.jsonl && again convert --quiet c.jsonl d.json &&
		cmp box/a.json box/d.json && again convert --quiet d.json e.gpt && cmp box/b.gpt box/e.gpt
}

for f in "$traces"/*.json "$traces"/*.jsonl "$traces"/*.gz; do
	[ -e "$f" ] || continue
	case $f in
	*.gz)
		if ! "$trace" info --quiet "$f" >out 2>err; then
			has err 'no zlib'
			ok $? "no zlib: $(basename "$f") is refused"
			continue
		fi
		;;
	esac
	run info "$f"
	round "$f" && [ "$(find box -type f | wc -l)" -eq 5 ]
	ok $? "JSON, binary, JSON Lines and back: $(basename "$f")"
done
run convert "$llm"
[ "$code" -eq 0 ] && [ "$(lines out)" -eq 19957 ] && [ "$(lines err)" -eq 1 ]
ok $? "JSON Lines on standard output without another word"
run convert --to=binary --output=- "$llm"
cp out x.gpt
[ "$code" -eq 0 ] && again info - <x.gpt && has out 'gpupool_binary' '19 956'
ok $? "binary through a pipe"
run convert --to=rmm_csv "$llm" log.csv
[ "$code" -eq 0 ] && has err 'no place for: 8 mark' &&
	[ "$(head -n 1 box/log.csv)" = Thread,Time,Action,Pointer,Size,Stream ] &&
	[ "$(lines box/log.csv)" -eq 19948 ]
ok $? "RMM log, and what it has no place for"
run convert "$llm" x.minimalloc.csv
[ "$code" -eq 0 ] && [ "$(lines box/x.minimalloc.csv)" -eq 10199 ]
ok $? "lifetimes by the ending of the name"
echo old >box/kept.json
again convert "$work/bad.jsonl" kept.json
[ "$code" -eq 2 ] && [ "$(cat box/kept.json)" = old ] && has err 'bad.jsonl:3:'
ok $? "a bad trace leaves the old file alone"
again convert --lenient "$work/bad.jsonl" kept.json
[ "$code" -eq 0 ] && has err -- '--lenient skipped' && [ "$(lines box/kept.json)" -ge 6 ]
ok $? "--lenient converts what is left"
if [ -c /dev/full ]; then
	run convert "$llm" /dev/full --to=json
	[ "$code" -eq 2 ] && has err 'No space left'
	ok $? "a full disk"
fi

# ---- slice ----

run slice --mark='step 7' --to-mark='step 9' "$llm" two.json
[ "$code" -eq 0 ] &&
	"$replay" --device=sim --repeat=1 --alloc=raw --check --json --out=o box/two.json >out 2>err &&
	has out '"failures"' && has box/two.json '"assumed":true' 'events 3552 to 9697 of 19956'
ok $? "a slice by mark replays"
run slice --mark='step 7' "$llm" one.gpt
[ "$code" -eq 0 ] && again info --json one.gpt && [ "$(sed 's/.*"assumed":{"count":\([0-9]*\).*/\1/' out)" -gt 400 ]
ok $? "until the next mark"
# The most that is live is that of the whole, in the part where it is.
run slice --events=.. "$llm"
[ "$code" -eq 2 ]
ok $? "--events=.. says nothing"
load_of() {
	again slice --quiet "$@" part.gpt && again info --json part.gpt && number load_bytes out
}
run info --json "$llm"
at=$(number load_event out)
[ "$(load_of --events=$((at - 5))..$((at + 5)) "$llm")" = 9905417496 ] &&
	[ "$(load_of --events=.."$at" "$llm")" = 9905417496 ] &&
	[ "$(load_of --events="$at".. "$llm")" = 9905417496 ] &&
	[ "$(load_of --events=$((at + 1)).. "$llm")" -lt 9905417497 ]
ok $? "as many bytes are live in the slice as in the whole"
[ "$(load_of --time=200ms..0.4s "$llm")" -lt 9905417496 ] && has out 'events 3587 to 5400 of 19956'
ok $? "by time"
cat >deferred.jsonl <<'END'
{"format":"gpupool-trace","version":1}
{"op":"segment_alloc","size":100,"addr":4096,"t":1}
{"op":"segment_map","size":64,"addr":8192,"pool":200,"t":1}
{"op":"alloc","id":1,"size":10,"thread":4,"t":1}
{"op":"alloc","id":2,"size":20,"pool":7,"t":2}
{"op":"free","id":1,"thread":4,"t":3}
{"op":"segment_unmap","size":16,"addr":8208,"t":3}
{"op":"sync","t":10}
{"op":"alloc","id":3,"size":40,"t":11}
{"op":"reclaim","id":1,"t":12}
{"op":"free","id":2,"t":13}
{"op":"free","id":3,"t":14}
{"op":"reclaim","id":2,"t":20}
END
cat >want.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"","source":"events 7 to 10 of 12","n_events":10}
{"op":"alloc","id":1,"size":10,"thread":4,"assumed":true}
{"op":"alloc","id":2,"size":20,"pool":7,"assumed":true}
{"op":"free","id":1,"thread":4}
{"op":"segment_alloc","size":100,"addr":4096}
{"op":"segment_map","size":16,"addr":8192,"pool":200}
{"op":"segment_map","size":32,"addr":8224,"pool":200}
{"op":"sync"}
{"op":"alloc","id":3,"size":40,"t":1}
{"op":"reclaim","id":1,"t":2}
{"op":"free","id":2,"t":3}
{"op":"reclaim","id":2,"t":3}
END
sed -i 's/"n_events":10/"n_events":11/' want.jsonl
run slice --events=7..10 "$work/deferred.jsonl"
[ "$code" -eq 0 ] && diff "$work/want.jsonl" out >diff.out
ok $? "live, waiting and held: all of it is at the start"

# ---- merge ----

run merge --output=m.gpt "$llm" "$traces/tiny_streams.json" "$traces/tiny_threads.json"
[ "$code" -eq 0 ] && again info --json m.gpt && [ "$(number events out)" = $((19956 + 13 + 8)) ] &&
	[ "$(number load_bytes out)" -le $((9905417496 + 3145728 + 196608)) ] &&
	[ "$(number load_bytes out)" -ge 9905417496 ] &&
	has out '"name":"llm + tiny streams + tiny threads"' 'those of tiny_threads.json'
ok $? "merge has all events, and at most the sum of the loads"
again lint --level=error m.gpt
[ "$code" -eq 0 ]
ok $? "nothing of different files meets"
cat >a.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"a"}
{"op":"alloc","id":1,"size":10,"addr":4096,"pool":2,"t":5}
{"op":"free","id":1,"t":9}
END
cat >want.jsonl <<'END'
{"format":"gpupool-trace","version":1,"name":"a + a","source":"merged: a.jsonl + a.jsonl","notes":["streams 0 to 0 and threads 0 to 0 are those of a.jsonl","streams 1 to 1 and threads 1 to 1 are those of a.jsonl"],"n_events":4}
{"op":"alloc","id":1,"size":10,"addr":4096,"pool":2,"t":5}
{"op":"alloc","id":2,"size":10,"stream":1,"thread":1,"addr":281474976714752,"pool":4,"t":5}
{"op":"free","id":1,"t":9}
{"op":"free","id":2,"thread":1,"t":9}
END
run merge "$work/a.jsonl" "$work/a.jsonl"
[ "$code" -eq 0 ] && diff "$work/want.jsonl" out >diff.out
ok $? "the same file twice is two of it"
sed 's/"pool":2/"pool":200/' a.jsonl >b.jsonl

# ---- refusals ----

refuses 2 'expected a command'
refuses 2 'did you mean info' inof
refuses 2 'unknown command' xyzzy "$llm"
refuses 2 'unknown option' --quiet
refuses 2 'expected a trace' info
refuses 2 'expected a trace' lint
refuses 2 'expected a trace' convert
refuses 2 'expected one trace and one output' convert "$llm" a.json b.json
refuses 2 'expected one output' convert --output=a.json "$llm" b.json
refuses 2 'no format has this ending' convert "$llm" a.csv
refuses 2 '--to=csv: expected one of gpupool_binary' convert --to=csv "$llm"
refuses 2 '--output=: expected a path' convert --output= "$llm"
refuses 2 '/nonexistent/x.json: No such file' convert "$llm" /nonexistent/x.json
refuses 2 'nowhere.json' convert nowhere.json x.json
refuses 2 'bad.jsonl:3: ' info "$work/bad.jsonl"
refuses 2 '--gpu=x: expected a whole number' info --gpu=x "$llm"
refuses 2 '--memory=gpu: expected device, host or any' info --memory=gpu "$llm"
refuses 2 '--ends=in: expected exclusive or inclusive' info --ends=in "$llm"
refuses 2 '--level=bad: expected error, warning or note' lint --level=bad "$llm"
refuses 2 'expected one of --events' slice "$llm"
refuses 2 'expected one of --events' slice --events=1.. --time=1.. "$llm"
refuses 2 '--events=5: expected FROM..TO' slice --events=5 "$llm"
refuses 2 '--events=0: expected a whole number from 1' slice --events=0..5 "$llm"
refuses 2 'expected a whole number' slice --events=x..5 "$llm"
refuses 2 'nothing lies in this part' slice --events=5..2 "$llm"
refuses 2 'nothing lies in this part' slice --events=20000.. "$llm"
refuses 2 '--time=1x..2: expected FROM..TO' slice --time=1x..2 "$llm"
refuses 2 '--time=-5..2: expected FROM..TO' slice --time=-5..2 "$llm"
refuses 2 '--mark=zz: the trace has no such mark' slice --mark=zz "$llm"
refuses 2 'no such mark behind' slice --mark='step 8' --to-mark='step 7' "$llm"
refuses 2 'nothing lies in this part' slice --to-mark='live before the cut' "$llm"
refuses 2 'nothing lies' slice --events=1.. "$traces/tiny_empty.json"
refuses 2 '"pool" is 400, expected at most 255' merge "$work/b.jsonl" "$work/b.jsonl"
refuses 2 'expected 2 to 1024 traces' merge "$llm"

echo "1..$n"
[ $failed -eq 0 ]
