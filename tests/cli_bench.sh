#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_bench: the benchmark as a program: options, what it prints, its JSON; and figures that do not depend on
# the machine. Times are not looked at. The program is $GPUPOOL_BENCH.

set -u
bench=${GPUPOOL_BENCH:?the program under test}
traces=${GPUPOOL_TRACE_DIR:?the folder of the traces}
. "$(dirname "$0")/cli.sh"

# that NAME COMMAND...: one test, which passes when the command succeeds.
that()
{
	what=$1
	shift
	"$@"
	ok $? "$what"
}

run()
{
	command="bench_hotpath $*"
	"$bench" "$@" >out 2>err
	code=$?
}

fails()
{
	code_expected=$1 words=$2
	shift 2
	run "$@"
	[ $code -eq "$code_expected" ] && [ ! -s out ] && [ "$(lines err)" -eq 1 ] && has err "$words"
}

# figure FILE GROUP ROW COLUMN: its median
figure()
{
	tr -d '\n' <"$1" | tr '{' '\n' |
		sed -n 's/.*"group": "'"$2"'", *"row": "'"$3"'", *"column": "'"$4"'", *"median": \([0-9.e+-]*\).*/\1/p'
}

quick()
{
	run --runs=2 --table=recordings --alloc=lists --alloc=arena:fit=best --alloc=hybrid \
		--json=figures.json "$traces/llm.json"
	[ $code -eq 0 ] && [ ! -s err ] &&
		has out '^Recordings' 'hybrid  *[0-9]' 'alloc p99.9' '2 whole runs'
}

json()
{
	has figures.json '"gpupool_bench"' '"cpu"' '"timer_overhead_ns"' '"runs": 2' &&
		[ -n "$(figure figures.json 'warm, ns per call' hybrid llm)" ] &&
		[ -n "$(figure figures.json 'host bytes per live block' hybrid llm)" ]
}

# Powers of two, never joined, hold more than the load; best fit hardly does.
tight()
{
	awk -v lists="$(figure figures.json 'peak reserved . load' lists llm)" \
		-v arena="$(figure figures.json 'peak reserved . load' 'arena:fit=best' llm)" \
		'BEGIN { exit !(lists > 1.2 && arena >= 1 && arena < 1.1) }'
}

counts()
{
	run --count --alloc=hybrid "$traces/tiny_lifo.json" &&
		[ $code -eq 0 ] && [ "$(cut -f 1-3 out)" = "Recordings	hybrid	tiny_lifo" ]
}

that "a recording" quick
that "... as JSON" json
that "... memory, by rules of the textbooks" tight
that "one replay for callgrind" counts
that "no such trace" fails 2 "nowhere" nowhere.json
that "no such setting of an allocator" fails 2 "lifo" --alloc=lists:order=never "$traces/tiny_lifo.json"
that "no such table" fails 2 "expected" --table=figures
that "a trace without allocations" fails 2 "expected some allocations" "$traces/tiny_empty.json"

echo "1..$n"
[ "$failed" -eq 0 ]
