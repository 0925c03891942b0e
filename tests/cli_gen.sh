#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_gen: gpupool-gen from the outside. The program is $GPUPOOL_GEN. Output is TAP.
# With $GPUPOOL_TRACE (gpupool-trace) set, every pattern is also read back by it.

set -u
gen=${GPUPOOL_GEN:?the program under test}
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
n=0

# ok DESCRIPTION COMMAND...: one test, which passes when the command succeeds.
ok()
{
	what=$1
	shift
	n=$((n + 1))
	if "$@" >"$dir/said" 2>&1; then
		echo "ok $n - $what"
	else
		echo "not ok $n - $what"
		sed 's/^/# /' "$dir/said"
	fi
}

# exits CODE TEXT ARGUMENTS...: the exit code, and one line on standard error that holds TEXT.
exits()
{
	code=$1
	text=$2
	shift 2
	"$gen" "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	cat "$dir/err"
	[ $got -eq "$code" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] && grep -qF -e "$text" "$dir/err"
}

# says TEXT ARGUMENTS...: success, and the summary on standard error holds TEXT.
says()
{
	text=$1
	shift
	"$gen" "$@" 2>"$dir/err" >"$dir/out" || return 1
	cat "$dir/err"
	grep -qF -e "$text" "$dir/err"
}

lines()
{
	"$gen" "$@" --quiet >"$dir/out" && [ "$(wc -l <"$dir/out")" -eq "$expected" ]
}

same()
{
	"$gen" random --count=500 --seed=7 --output="$dir/a.jsonl" --quiet &&
		"$gen" --seed 7 random --count 500 --quiet >"$dir/b.jsonl" &&
		cmp "$dir/a.jsonl" "$dir/b.jsonl"
}

# The `source` key of a trace, run as a command, makes the same trace.
source_repeats()
{
	"$gen" sawtooth --jitter=0.3 --seed=5 --streams=2 --keep --quiet >"$dir/a" || return 1
	command=$(sed -n '1s/.*"source":"gpupool-gen \([^"]*\)".*/\1/p' "$dir/a")
	[ -n "$command" ] || return 1
	# shellcheck disable=SC2086 # it is a list of words
	"$gen" $command --quiet >"$dir/b" && cmp "$dir/a" "$dir/b"
}

gzip_is_the_same()
{
	"$gen" churn --output="$dir/c.jsonl" --quiet || return 1
	"$gen" churn --output="$dir/c.jsonl.gz" --quiet 2>"$dir/err"
	case $? in
	0) gzip -dc "$dir/c.jsonl.gz" | cmp - "$dir/c.jsonl" ;;
	*) grep -q "no gzip" "$dir/err" && [ ! -e "$dir/c.jsonl.gz" ] ;;
	esac
}

nothing_left()
{
	mkdir "$dir/empty" && ! "$gen" ramp --size=2G --max-size=1G --output="$dir/empty/x" \
		2>/dev/null && [ -z "$(ls -A "$dir/empty")" ]
}

keeps_old_file()
{
	echo old >"$dir/old" && ! "$gen" churn --live=0 --output="$dir/old" 2>/dev/null &&
		[ "$(cat "$dir/old")" = old ]
}

# Memory must not grow with the count: a hundred times more events fit in the same 64 MiB.
streams()
{
	(ulimit -v 65536 && "$gen" churn --count=2000000 --size=256 --quiet >/dev/null)
}

readable()
{
	"$gen" "$1" --streams=2 --interval=10 --output="$dir/t.jsonl" --quiet &&
		"$GPUPOOL_TRACE" info "$dir/t.jsonl"
}

patterns=$("$gen" --list | grep '^[a-z]')
plan=28
[ -n "${GPUPOOL_TRACE:-}" ] && plan=$((plan + 5))
echo "1..$plan"

ok "five patterns are listed" [ "$(echo "$patterns" | wc -l)" -eq 5 ]
ok "--help names the usage" sh -c "'$gen' --help | grep -q '^Usage: gpupool-gen PATTERN'"
ok "a pattern's --help shows its options" sh -c "'$gen' churn --help | grep -q -e --live="
ok "a pattern's --help shows no others" sh -c "! '$gen' random --help | grep -q -e --live="
ok "--version" sh -c "'$gen' --version | grep -q gpupool"
expected=2001
ok "churn writes a pair for each of 1000" lines churn
expected=1001
ok "churn --keep leaves what is live" lines churn --count=600 --live=200 --keep
expected=2001
ok "random has 2 n operations" lines random
ok "the cudaMalloc case: 1000 of 1 MiB" says "load counted 1048576 bytes (1 MiB), by closed form 1048576" churn
ok "the pool case: a million of 256 B" says "2 000 000 events, 1 000 000 allocations" churn --count=1000000 --size=256
ok "random has no closed form" says "no closed form" random
ok "checkerboard load is count * size" says "by closed form 1073741824" checkerboard --rounds=6
ok "same seed, same bytes; file and standard output alike" same
ok "the source key repeats the trace" source_repeats
ok "gzip holds the same text" gzip_is_the_same
if { (ulimit -v 65536 && "$gen" --version >/dev/null); } 2>/dev/null; then
	ok "churn runs in constant memory" streams
else
	n=$((n + 1))
	echo "ok $n - churn runs in constant memory # SKIP a sanitizer needs more than 64 MiB"
fi
ok "a refusal leaves no file" nothing_left
ok "a refusal leaves the old file" keeps_old_file
ok "no pattern" exits 2 "expected a pattern"
ok "unknown pattern, nearest suggested" exits 2 "did you mean random?" randm --count=5
ok "two patterns" exits 2 "one pattern only" churn ramp
ok "an option of another pattern" exits 2 "random does not take it" random --live=3
ok "unknown option" exits 2 "did you mean --count?" churn --cuont=3
ok "a count of 0" exits 2 "--count=0" churn --count=0
ok "a fraction of bytes" exits 2 "--size=x" churn --size=x
ok "a folder that is not there" exits 2 "No such file" churn --output="$dir/none/x"
ok "a name with a control character" exits 2 "printable" churn --name="$(printf 'a\tb')"
if [ -w /dev/full ]; then
	ok "a full disk" exits 2 "No space left" churn --count=100000 --output=/dev/full
else
	n=$((n + 1))
	echo "ok $n - a full disk # SKIP no /dev/full"
fi
if [ -n "${GPUPOOL_TRACE:-}" ]; then
	for p in $patterns; do
		ok "gpupool-trace reads $p" readable "$p"
	done
fi
