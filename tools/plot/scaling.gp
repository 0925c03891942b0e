# SPDX-License-Identifier: Apache-2.0
#
# scaling.gp: operations per second by number of threads, and how much faster that is than one
# thread.
#
#   gnuplot -c scaling.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv: a line of the picture is a series, a point of it a run. Bars span the
# repetitions.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("scaling.gp")]
load here."style.gp"

if (n_runs == 0) {
	nothing_text = "no scaling: the runs do not differ in their threads"
	eval nothing_to_draw
	exit
}

# ---- runs into series ----

array run_threads[n_runs]
array run_rate[n_runs]
array run_slowest[n_runs]
array run_fastest[n_runs]
array run_series[n_runs]
stats dir."/summary.tsv" using (k = slot(stringcolumn("label")), k == 0 ? 0 : ( \
	run_series[k] = stringcolumn("series"), \
	run_threads[k] = column("threads"), \
	run_rate[k] = column("ops_per_s"), \
	run_slowest[k] = column("ops_per_s_min"), \
	run_fastest[k] = column("ops_per_s_max"), k)) nooutput

series = " "
most = 1 ; low = 1e300 ; high = 0
do for [i = 1:n_runs] {
	if (!strstrt(series, " ".run_series[i]." ")) { series = series.run_series[i]." " }
	most = larger(most, run_threads[i])
	if (run_rate[i] > 0) {
		low = run_rate[i] < low ? run_rate[i] : low
		high = larger(high, run_rate[i])
	}
}
n_series = words(series)
if (high == 0) { low = 1 ; high = 1 }
# Row i of a plot over all runs: NaN where it is of another series.
of(s, i, x) = run_series[i] eq word(series, s) && run_rate[i] > 0 ? x : NaN
alone(s) = sum [i = 1:n_runs] (of(s, i, 1) == 1 && run_threads[i] == 1 ? run_rate[i] : 0)
array single[n_series]
do for [s = 1:n_series] { single[s] = alone(s) }

# ---- picture ----

n_key_columns = n_series < 6 ? n_series : 6
n_key_rows = (n_series + n_key_columns - 1) / n_key_columns
head_px = is_simulated ? 155 : 130 ; panel_px = 560 ; foot_px = 115 + 40 * n_key_rows
height = head_px + panel_px + foot_px
eval open_picture
set multiplot title "Threads — ".title_text font bold(28) offset 0, -0.3
if (is_simulated) {
	set label 9 "by the wall clock; driver calls cost what the simulator takes, no modelled time" \
		at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey
}

set logscale x 2
set logscale y 10
set xrange [0.85:most * 1.18]
set xlabel "threads" offset 0, 0.2
set tmargin at screen 1 - real(head_px) / height
set bmargin at screen real(foot_px) / height
# One more than runs: the end of the range may fall to rounding. What is beyond repeats the last.
set samples n_runs + 1
thread_ticks = ""
do for [e = 0:10] {
	if (2**e <= most) { thread_ticks = thread_ticks.sprintf("%s%d", e ? "," : "", 2**e) }
}
eval "set xtics (".thread_ticks.")"

rate_unit(x) = x >= 1e9 ? 1e9 : x >= 1e6 ? 1e6 : x >= 1e3 ? 1e3 : 1
rate_name(u) = u >= 1e9 ? " G" : u >= 1e6 ? " M" : u >= 1e3 ? " k" : ""
rate_ticks = ""
first = floor(log10(low)) ; last = ceil(log10(high))
do for [e = first:last] {
	rate_ticks = rate_ticks.sprintf("%s\"%g%s\" 1e%d", e > first ? ", " : "", \
		10.0**e / rate_unit(10.0**e), rate_name(rate_unit(10.0**e)), e)
}

set lmargin at screen 0.075
set rmargin at screen 0.485
set yrange [low / 1.5:high * 1.5]
eval "set ytics (".rate_ticks.")"
set mytics 10
set label 1 "operations per second, all threads together" at graph 0, 1.05 left font bold(22)
at_run(k) = int(k) + 1 > n_runs ? n_runs : int(k) + 1
plot for [s = 1:n_series] "+" using (of(s, at_run(column(0)), run_threads[at_run(column(0))])): \
		(of(s, at_run(column(0)), run_rate[at_run(column(0))])): \
		(run_slowest[at_run(column(0))]):(run_fastest[at_run(column(0))]) \
		with yerrorbars linetype s dashtype 1 linewidth 1 pointsize 0 notitle, \
	for [s = 1:n_series] "+" using (of(s, at_run(column(0)), run_threads[at_run(column(0))])): \
		(of(s, at_run(column(0)), run_rate[at_run(column(0))])) \
		with linespoints linetype s linewidth 1.6 pointsize 1.4 * point_scale notitle

set lmargin at screen 0.56
set rmargin at screen 0.97
low = 1 ; high = most
do for [i = 1:n_runs] {
	do for [s = 1:n_series] {
		if (run_series[i] eq word(series, s) && single[s] > 0 && run_rate[i] > 0) {
			v = run_rate[i] / single[s]
			low = v < low ? v : low
			high = larger(high, v)
		}
	}
}
set yrange [low / 1.3:high * 1.3]
set ytics ("1/64" 1.0/64, "1/16" 1.0/16, "1/4" 0.25, "1/2" 0.5, "1" 1, "2" 2, "4" 4, "8" 8, "16" 16, \
	"32" 32, "64" 64, "128" 128)
unset mytics
set label 1 "speed-up over one thread" at graph 0, 1.05 left font bold(22)
set label 2 "grey: as many times as threads" at graph 1, 1.05 right font plain(19) \
	textcolor rgb grey
speedup(s, i) = single[s] > 0 ? of(s, i, run_rate[i] / single[s]) : NaN
plot x with lines linecolor rgb grey dashtype 1 linewidth 0.8 notitle, \
	for [s = 1:n_series] "+" using (of(s, at_run(column(0)), run_threads[at_run(column(0))])): \
		(speedup(s, at_run(column(0)))) \
		with linespoints linetype s linewidth 1.6 pointsize 1.4 * point_scale notitle

unset logscale
unset label ; unset border ; unset tics ; unset grid ; unset xlabel
set lmargin at screen 0.03 ; set rmargin at screen 0.97
set bmargin at screen 0 ; set tmargin at screen (20.0 + 40 * n_key_rows) / height
set xrange [0:1] ; set yrange [0:1]
key_font = plain(20)
set key inside center center horizontal Left reverse maxrows n_key_rows samplen 3 width -1 \
	font key_font
plot for [s = 1:n_series] NaN with linespoints linetype s linewidth 1.6 pointsize 1.4 * point_scale \
	title plain_text(short(word(series, s), 24))
unset multiplot
unset output
