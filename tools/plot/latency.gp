# SPDX-License-Identifier: Apache-2.0
#
# latency.gp: the distribution of the latency of allocations and of frees, all allocators in one
# panel each.
#
#   gnuplot -c latency.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv, DIR/LABEL.alloc.hgrm and DIR/LABEL.free.hgrm. The horizontal axis stretches
# the tail (1 / (1 - percentile), as HdrHistogram's own plots do), so that one call in ten thousand
# is as easy to see as the median.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("latency.gp")]
load here."style.gp"

if (n_runs == 0) {
	nothing_text = "no latencies: nothing was allocated"
	eval nothing_to_draw
	exit
}

histogram_of(i, op) = dir."/".word(labels, i).".".op.".hgrm"

# Columns: value, percentile, count so far, 1 / (1 - percentile), with blanks between them.
set datafile separator whitespace
unset datafile columnheaders
# The last line, the maximum, is at infinity: drawn where one call of all calls is.
stretch(percentile, count) = percentile < 1 ? 1 / (1 - percentile) : larger(1, count)

most = 10
least_ns = 1e12
most_ns = 1
array n_lines[2]
do for [k = 1:2] {
	n_lines[k] = 0
	do for [i = 1:n_runs] {
		stats histogram_of(i, word("alloc free", k)) using (most = larger(most, column(3)), \
			v = larger(1, column(1)), least_ns = v < least_ns ? v : least_ns, \
			most_ns = larger(most_ns, v), n_lines[k] = n_lines[k] + (column(3) > 0), 1) nooutput
	}
}

# A marker on every ninth line of a file; on each where a file has few.
every_point = n_lines[1] + n_lines[2] > 40 * n_runs ? -9 : -1

n_key_columns = n_runs < 6 ? n_runs : 6
n_key_rows = (n_runs + n_key_columns - 1) / n_key_columns
head_px = is_simulated ? 155 : 130 ; panel_px = 560 ; foot_px = 115 + 40 * n_key_rows
height = head_px + panel_px + foot_px
eval open_picture
set multiplot title "Latency — ".title_text font bold(28) offset 0, -0.3

if (is_simulated) {
	set label 9 "the allocator's own time as measured here, driver calls as modelled" \
		at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey
}

set logscale x 10
set logscale y 10
set xrange [0.95:most * 1.3]
if (least_ns > most_ns) { least_ns = 1 }
set yrange [0.8 * 10**floor(log10(least_ns)):larger(most_ns * 1.3, 10)]
set xtics ("0" 1, "50" 2, "90" 10, "99" 100, "99.9" 1e3, "99.99" 1e4, "99.999" 1e5, \
	"99.9999" 1e6, "99.99999" 1e7, "99.999999" 1e8)
set xlabel "percentile of calls (%)" offset 0, 0.2
set tmargin at screen 1 - real(head_px) / height
set bmargin at screen real(foot_px) / height
left_of(k) = k == 1 ? 0.075 : 0.545

do for [k = 1:2] {
	op = word("alloc free", k)
	set lmargin at screen left_of(k)
	set rmargin at screen left_of(k) + 0.435
	eval "set ytics ".(k == 1 ? ns_ticks : ns_blank_ticks)
	set mytics 10
	set label 1 (k == 1 ? "latency of an allocation" : "latency of a free") \
		at graph 0, 1.05 left font bold(22)
	set label 2 (n_lines[k] ? "" : "none") at graph 0.5, 0.5 center font plain(24) textcolor rgb grey
	plot 0 notitle, for [i = 1:n_runs] histogram_of(i, op) \
		using (stretch(column(2), column(3))):(larger(1, column(1))) \
		with linespoints linetype i linewidth 1.4 pointsize 1.1 * point_scale \
		pointinterval every_point notitle
}

unset logscale
unset label ; unset border ; unset tics ; unset grid ; unset xlabel
set lmargin at screen 0.03 ; set rmargin at screen 0.97
set bmargin at screen 0 ; set tmargin at screen (20.0 + 40 * n_key_rows) / height
set xrange [0:1] ; set yrange [0:1]
key_font = plain(20)
set key inside center center horizontal Left reverse maxrows n_key_rows samplen 3 width -1 \
	font key_font
plot for [i = 1:n_runs] NaN with linespoints linetype i linewidth 1.4 pointsize 1.1 * point_scale \
	title plain_text(short(word(labels, i), 24))
unset multiplot
unset output
