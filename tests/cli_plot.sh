#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_plot: gpupool-plot from the outside, on folders made up here. The program is $GPUPOOL_PLOT,
# its scripts are in $GPUPOOL_PLOT_DIR. Output is TAP. Needs gnuplot; without it the tests skip.

set -u
plot=${GPUPOOL_PLOT:?the program under test}
scripts=${GPUPOOL_PLOT_DIR:?the folder of the plot scripts}
case $plot in /*) ;; *) plot=$PWD/$plot ;; esac
case $scripts in /*) ;; *) GPUPOOL_PLOT_DIR=$PWD/$scripts && scripts=$GPUPOOL_PLOT_DIR ;; esac
if ! command -v gnuplot >/dev/null; then
	echo "1..0 # SKIP gnuplot is not installed"
	exit 0
fi
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
n=0
figures="memory fragmentation latency compare"

ok()
{
	what=$1
	shift
	n=$((n + 1))
	if "$@" >said 2>&1; then
		echo "ok $n - $what"
	else
		echo "not ok $n - $what"
		sed 's/^/# /' said
	fi
}

# ---- folders as gpupool-replay --out writes them ----

header="trace device label status events load_bytes peak_granted_bytes peak_reserved_bytes failures \
alloc_p50_ns alloc_p99_ns free_p50_ns free_p99_ns ns_per_op device_ns_per_op"

# begin DIR: an empty summary
begin()
{
	mkdir -p "$1"
	echo "$header" | tr ' ' '\t' >"$1/summary.tsv"
}

# curve WINDOWS TIMED: a sawtooth
curve()
{
	awk -v n="$1" -v timed="$2" 'BEGIN {
		OFS = "\t"
		printf "first_event\tlast_event\tt_ns"
		split("requested granted reserved internal external external_sq", names, " ")
		for (i = 1; i <= 6; i++)
			printf "\t%s_min\t%s_max\t%s_last", names[i], names[i], names[i]
		print ""
		for (w = 0; w < n; w++) {
			q = (w % 10 + 1) * 1048576
			print w * 4, w * 4 + 3, timed * w * 1000, q / 2, q, q, q, q * 1.1, q, 8e6,
				12e6, 12e6, 0.1, 0.2, 0.1, 0, 0.5, 0.3, 0, 0.4, 0.2
		}
	}'
}

# hgrm CALLS
hgrm()
{
	echo "       Value     Percentile TotalCount 1/(1-Percentile)"
	echo
	awk -v n="$1" 'BEGIN {
		for (p = 0; n > 1 && p < 1 - 1 / n; p += (1 - p) / 4)
			printf "%12.3f %14.12f %10d %14.2f\n", 10 + 40 / (1 - p), p, p * n + 1, 1 / (1 - p)
		if (n)
			printf "%12.3f %14.12f %10d\n", 5000, 1, n
	}'
	echo "#[Mean    =       20.000, StdDeviation   =        1.000]"
	echo "#[Max     =     5000.000, Total count    = $1]"
}

# run DIR TRACE LABEL STATUS WINDOWS TIMED ALLOCS FREES FAILURES
run()
{
	curve "$5" "$6" >"$1/$3.curve.tsv"
	hgrm "$7" >"$1/$3.alloc.hgrm"
	hgrm "$8" >"$1/$3.free.hgrm"
	load=$(($5 > 0 ? 10485760 : 0))
	lat=$(($7 > 0 ? 20 : 0))
	printf '%s\tsim\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$2" "$3" "$4" $(($5 * 4)) \
		$load $((load * 11 / 10)) $((load * 12 / 10)) "$9" $lat $((lat * 5)) $(($8 > 0 ? lat : 0)) \
		$(($8 > 0 ? lat * 3 : 0)) $lat.5 $((lat / 4)) >>"$1/summary.tsv"
}

begin full
i=0
for label in raw fixed segregated buddy slab hybrid; do
	i=$((i + 1))
	run full "llama 7B" $label ok 60 1 1000 1000 $((i == 4 ? 12 : 0))
done
begin one && run one tiny hybrid ok 60 0 100 100 0
begin event && run event tiny raw ok 1 0 1 0 0 && run event tiny hybrid ok 1 0 1 0 0
begin empty && run empty tiny_empty raw ok 0 0 0 0 0
begin failed && run failed tiny raw error 0 0 0 0 3 && run failed tiny hybrid stopped 3 1 9 4 1
begin many
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do
	run many tiny "buddy-$i" ok 20 1 100 100 0
done
begin odd && run odd '{/Bold x} \n `touch pwned` $HOME ^_@ %s|' raw ok 10 1 10 10 0
begin none
mkdir threads
for t in 0 1 2 4; do
	[ $t -eq 0 ] && echo "$header series threads ops_per_s ops_per_s_min ops_per_s_max" && continue
	for a in raw hybrid; do
		echo "llm sim $a-t$t ok 8 1 1 1 0 1 1 1 1 1 1 $a $t ${t}0000 ${t}0000 ${t}1000"
	done
done | tr ' ' '\t' >threads/summary.tsv

# As replay --work writes it.
begin worked
sed -i 's/$/\twork\talloc_stall_ns\tfree_stall_ns\ttrim_stall_ns\tlongest_stall_ns\talloc_idle_ns\tfree_idle_ns\ttrim_idle_ns/' worked/summary.tsv
run worked tiny raw ok 60 1 1000 1000 0 && run worked tiny hybrid ok 60 1 1000 1000 0
run worked tiny slab error 0 0 0 0 0
sed -i '2s/$/\tbusy:50\t0\t7000000\t0\t20000\t1000\t90000\t0/; 3s/$/\tbusy:50\t0\t0\t3000000\t3000000\t1000\t0\t500/
	4s/$/\tnone\t0\t0\t0\t0\t0\t0\t0/' worked/summary.tsv
cp -r worked idle && sed -i 's/busy:50/none/' idle/summary.tsv

# ---- checks ----

is_png()
{
	[ "$(od -A n -N 4 -c "$1" | tr -d ' \n')" = '211PNG' ]
}

is_svg()
{
	head -c 200 "$1" | grep -q '<svg\|<?xml' && tail -n 3 "$1" | grep -q '^</svg>'
}

# draws DIR: every figure in both forms, nothing on standard error, nothing else left behind
draws()
{
	rm -f "$1"/*.png "$1"/*.svg
	"$plot" "$@" >out 2>err || { cat err; return 1; }
	cat err
	[ "$(wc -l <out)" -eq 8 ] || return 1
	for f in $figures; do
		is_png "$1/$f.png" && is_svg "$1/$f.svg" || return 1
	done
	! find "$1" -name '.gpupool*' | grep -q .
}

quietly()
{
	draws "$@" && [ ! -s err ]
}

svg_says()
{
	# Text stands between tags, on lines of their own.
	sed -n 's/<[^>]*>//g; /[^[:space:]]/p' "$1" >text
	grep -qF -e "$2" text || { grep -v gnuplot_plot text; return 1; }
}

# fails CODE TEXT ARGUMENTS...
fails()
{
	code=$1
	text=$2
	shift 2
	"$plot" "$@" >out 2>err
	got=$?
	cat err
	[ $got -eq "$code" ] && grep -qF -e "$text" err
}

# The scripts by hand.
by_hand()
{
	rm -f hand.svg
	gnuplot -c "$scripts/$1.gp" full hand.svg "raw hybrid" 2>err
	cat err
	is_svg hand.svg && svg_says hand.svg hybrid && ! svg_says hand.svg buddy
}

only_one()
{
	mkdir -p pictures && "$plot" --only=compare --format=png --out=pictures/new full >out &&
		[ "$(cat out)" = pictures/new/compare.png ] && is_png pictures/new/compare.png &&
		[ "$(ls -A pictures/new)" = compare.png ]
}

strange_folder()
{
	cp -r one '|touch pwned; "`x' && "$plot" --only=memory '|touch pwned; "`x' >out &&
		is_png '|touch pwned; "`x/memory.png' && [ ! -e pwned ]
}

# Stalls are drawn where there is something to draw, or where they are asked for.
stalls()
{
	"$plot" --format=svg worked >out 2>err && [ "$(wc -l <out)" -eq 5 ] && grep -q '^worked/stall.svg$' out &&
		svg_says worked/stall.svg "a kernel of 50 µs behind each allocation; modelled" &&
		svg_says worked/stall.svg "7 ms, longest 20 µs"
}

no_stalls()
{
	"$plot" --format=svg idle >out 2>err && [ "$(wc -l <out)" -eq 4 ] && ! grep -q stall err &&
		"$plot" --format=svg --only=stall idle >out 2>err && [ ! -s out ] &&
		grep -q 'stall: no work was queued' err && [ ! -e idle/stall.svg ] &&
		"$plot" --format=svg --only=stall one >out 2>err && [ ! -s out ]
}

scaling()
{
	"$plot" threads >out && [ "$(sort out | tr '\n' ' ')" = "threads/scaling.png threads/scaling.svg " ] &&
		is_png threads/scaling.png && svg_says threads/scaling.svg hybrid &&
		svg_says threads/scaling.svg speed-up && "$plot" --only=scaling one >out &&
		svg_says one/scaling.svg "no scaling"
}

missing_file()
{
	cp -r full partial && rm partial/slab.curve.tsv && draws partial &&
		grep -q 'slab: no memory to read' err && ! svg_says partial/memory.svg slab &&
		svg_says partial/latency.svg slab
}

bad_label()
{
	cp -r one bad && sed 's/hybrid/..\/hybrid/' one/summary.tsv >bad/summary.tsv &&
		fails 2 "bad/summary.tsv:2: a bad label" bad
}

cut_summary()
{
	cp -r one cut && cut -f 1-5 one/summary.tsv >cut/summary.tsv &&
		fails 2 "cut/summary.tsv:1: no summary, expected the columns" cut &&
		{ cat one/summary.tsv && echo x; } >cut/summary.tsv &&
		fails 2 "cut/summary.tsv:3: a line of another length" cut &&
		: >cut/summary.tsv && fails 2 "cut/summary.tsv:1: an empty file" cut
}

broken_script()
{
	mkdir -p broken && cp "$scripts"/*.gp broken && echo 'plot nonsense(' >broken/memory.gp &&
		(GPUPOOL_PLOT_DIR=$PWD/broken fails 1 'gnuplot: "' one) &&
		[ "$(find one -name '.gpupool*' | wc -l)" -eq 0 ]
}

# A picture that could not be drawn leaves the one of an earlier run.
keeps_old()
{
	echo old >one/memory.png && ! GPUPOOL_PLOT_DIR=$PWD/broken "$plot" one 2>err >out &&
		[ "$(cat one/memory.png)" = old ]
}

# A mirrored run: two allocators on both devices.
mirrored()
{
	begin mirrored
	for label in raw hybrid raw-sim hybrid-sim; do
		sed -n 2p one/summary.tsv | awk -F '\t' -v OFS='\t' -v l=$label \
			'{ $2 = (l ~ /-sim$/ ? "simulated " : "") "NVIDIA H200"; $3 = l; print }' \
			>>mirrored/summary.tsv
	done
	{
		echo "label call cuda_calls sim_calls cuda_ns sim_ns ratio cuda_peak_reserved_bytes" \
			"sim_peak_reserved_bytes memory memory_match"
		echo "raw reserve 10 10 400000 500000 1.2500 4194304 6291456 differs may"
		echo "raw release 10 10 600000 500000 0.8333 4194304 6291456 differs may"
		echo "raw all 20 20 1000000 1000000 1.0000 4194304 6291456 differs may"
		echo "hybrid map 2 2 100000 300000 3.0000 2097152 2097152 equal must"
		echo "hybrid all 2 2 100000 300000 3.0000 2097152 2097152 equal must"
	} | tr ' ' '\t' >mirrored/mirror.tsv
	quietly_only mirror mirrored && svg_says mirrored/mirror.svg "× 3.00" &&
		svg_says mirrored/mirror.svg "the same" && svg_says mirrored/mirror.svg "6 MiB" &&
		svg_says mirrored/mirror.svg reserve && svg_says mirrored/mirror.svg "NVIDIA H200 and simulated" &&
		! svg_says mirrored/mirror.svg raw-sim
}

# quietly_only FIGURE DIR
quietly_only()
{
	"$plot" --only="$1" "$2" >out 2>err
	got=$?
	cat err
	[ $got -eq 0 ] && [ ! -s err ] && is_png "$2/$1.png" && is_svg "$2/$1.svg"
}

cut_mirror()
{
	cp -r mirrored half && printf 'hybrid\tall\t2\n' >>half/mirror.tsv &&
		fails 2 "half/mirror.tsv:7: no table of a mirror" half &&
		echo x >half/mirror.tsv && fails 2 "half/mirror.tsv:1: no table of a mirror" half &&
		: >half/mirror.tsv && fails 2 "half/mirror.tsv:1: no table of a mirror" half
}

mirror_missing()
{
	"$plot" --only=mirror one >out 2>err && [ ! -s out ] && grep -q 'mirror: no mirror.tsv' err
}

echo "1..35"
ok "six allocators" quietly full
ok "... the title names the trace and says that it is simulated" svg_says full/memory.svg "llama 7B · simulated device"
ok "... failures are named" svg_says full/memory.svg "peak 12 MiB, 12 failed"
ok "... and in the comparison" svg_says full/compare.svg "12 failed"
ok "... memory held beside its bound" svg_says full/compare.svg "12 MiB = 1.20 × load"
ok "one allocator" quietly one
ok "... no times recorded: by event" svg_says one/memory.svg event
ok "a single event" quietly event
ok "... nothing was freed" svg_says event/latency.svg none
ok "an empty trace" draws empty
ok "... says so in the picture" svg_says empty/memory.svg "no events"
ok "... and on standard error" grep -q "nothing to draw" err
ok "a run that failed and one that was stopped" draws failed
ok "... are marked" svg_says failed/compare.svg "stopped, 1 failed"
ok "thirteen allocators" quietly many
ok "a trace with a strange name" quietly odd
ok "... shown as it is, and not obeyed" svg_says odd/memory.svg '{/Bold x}'
ok "a summary without runs" draws none
ok "a folder with a strange name" strange_folder
ok "--only, --format, --out" only_one
ok "stalls" stalls
ok "... none" no_stalls
ok "runs that differ in their threads: their scaling alone" scaling
ok "a file is missing" missing_file
ok "memory.gp by hand" by_hand memory
ok "compare.gp by hand" by_hand compare
ok "a mirrored run" mirrored
ok "... asked for where there is none" mirror_missing
ok "... cut short" cut_mirror
ok "a label that leaves the folder" bad_label
ok "a summary cut short" cut_summary
ok "gnuplot's errors are shown" broken_script
ok "the old picture stays" keeps_old
ok "no gnuplot: what to install" fails 1 "install it" --gnuplot=gnuplot-is-not-here one
ok "no such folder" fails 2 "expected a folder" nowhere
