# SPDX-License-Identifier: Apache-2.0
#
# compare.gp: all allocators of a run side by side: memory held, latency, time per operation.
#
#   gnuplot -c compare.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv. One row per allocator, one panel per question; the number beside each mark
# saves reading it off the axis.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("compare.gp")]
load here."style.gp"

if (n_runs == 0) {
	nothing_text = "nothing to compare: the run measured no allocator"
	eval nothing_to_draw
	exit
}

head_px = 180 ; foot_px = 150 ; row_px = 78
height = head_px + foot_px + n_runs * row_px
eval open_picture
set multiplot title "Allocators compared — ".title_text font bold(28) offset 0, -0.3
set label 9 "load: the most that is requested at once; no allocator can hold less" \
	at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey

# Row 1 stands at the top.
row_of(i) = n_runs - i
text_drop = 0.34 # numbers stand under their marks
set yrange [-0.6:n_runs - 0.4]
set tmargin at screen 1 - real(head_px) / height
set bmargin at screen real(foot_px) / height
set grid noytics
unset ytics
panel_left(k) = 0.125 + (k - 1) * 0.2205
panel_right(k) = panel_left(k) + 0.197
begin_panel = 'set lmargin at screen panel_left(k); set rmargin at screen panel_right(k); \
	set label 1 panel_name at graph 0, screen 1 - 148.0 / height left font bold(21)'

do for [i = 1:n_runs] {
	failed = run_failures[i] > 0 ? sprintf("%.0f failed", run_failures[i]) : ""
	if (run_status[i] ne "ok") { failed = run_status[i].(failed eq "" ? "" : ", ".failed) }
	set label 100 + i plain_text(short(word(labels, i), 16)) at screen 0.115, first row_of(i) \
		right font bold(20)
	set label 200 + i failed at screen 0.115, first row_of(i) - text_drop right font plain(17) \
		textcolor rgb vermillion
}

# ---- memory ----

k = 1
panel_name = "memory held at the peak"
eval begin_panel
top = 0
do for [i = 1:n_runs] { top = larger(top, larger(run_load[i], run_reserved[i])) }
unit = bytes_unit(top)
set xrange [0:top > 0 ? top / unit * 1.08 : 1]
# Four steps or so, of 1, 2 or 5 times a power of ten.
raw_step = larger(top / unit / 4, 1e-9)
decade = 10**floor(log10(raw_step))
step = raw_step / decade
set xtics decade * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10)
set xlabel bytes_name(unit) offset 0, 0.3
do for [i = 1:n_runs] {
	held = held_text(run_reserved[i], run_load[i])
	if (run_status[i] eq "error" && run_reserved[i] == 0) { held = "not measured" }
	set label 300 + i held at graph 0.98, first row_of(i) - text_drop right font plain(17) front
}
# The load is a stroke across each row, so that it never runs through the numbers.
bar(x) = x / unit / 2 # a box is given by its middle and half its width
plot for [i = 1:n_runs] '+' using (bar(run_reserved[i])):(row_of(i)):(bar(run_reserved[i])):(0.2) \
		every ::0::0 with boxxyerror fillstyle solid noborder linecolor rgb "#F3C7A6" notitle, \
	for [i = 1:n_runs] '+' using (bar(run_granted[i])):(row_of(i)):(bar(run_granted[i])):(0.09) \
		every ::0::0 with boxxyerror fillstyle solid noborder linecolor rgb blue notitle, \
	for [i = 1:n_runs] '+' using (run_load[i] / unit):(row_of(i) - 0.23):(0):(0.53) every ::0::0 \
		with vectors nohead linecolor rgb black dashtype 1 linewidth 1.4 notitle
unset label 9
do for [i = 1:n_runs] { unset label 100 + i ; unset label 200 + i ; unset label 300 + i }

# ---- time: from a filled mark to a hollow one, on a logarithmic axis ----

array near[n_runs]
array far[n_runs]
set logscale x 10
find_range = 'do for [i = 1:n_runs] { \
		if (near[i] > 0) { \
			low = near[i] < low ? near[i] : low; \
			high = larger(larger(high, far[i]), near[i]) \
		} \
	}'
time_panel = 'eval begin_panel; \
	eval high > 0 ? time_axis : "set xrange [1:10]"; \
	do for [i = 1:n_runs] { \
		said = near[i] > 0 ? time_text(i) : "not measured"; \
		set label 300 + i said \
			at graph 0.98, first row_of(i) - text_drop right font plain(17) \
			textcolor rgb near[i] > 0 ? "black" : grey front \
	}'
# Room beyond the outer decades, for their labels.
time_axis = 'set xrange [10**floor(log10(low)) / 1.7:10**ceil(log10(high)) * 1.7]; \
	eval "set xtics ".ns_sparse(low, high)'
# Every decade, or every second or third where they would not fit.
ns_sparse(a, b) = "(".ns_list(floor(log10(a)), ceil(log10(b)))."1e300)"
ns_step(a, b) = b - a > 6 ? 3 : b - a > 3 ? 2 : 1
ns_list(a, b) = a > b ? "" : ns_item(a).ns_more(a + ns_step(a, b), b, ns_step(a, b))
ns_more(a, b, step) = a > b ? "" : ns_item(a).ns_more(a + step, b, step)
ns_item(e) = sprintf("\"%s\" 1e%d, ", e < 0 ? sprintf("%g ns", 10.0**e) : \
	sprintf("%g %s", 10.0**e / ns_unit(10.0**e), ns_name(ns_unit(10.0**e))), e)
draw_time = 'plot for [i = 1:n_runs] "+" \
		using (positive(near[i])):(row_of(i)):(far[i] - near[i]):(0) every ::0::0 \
		with vectors nohead linecolor rgb colour linewidth 1.6 dashtype 1 notitle, \
	for [i = 1:n_runs] "+" using (positive(far[i])):(row_of(i)) every ::0::0 \
		with points pointtype 7 pointsize 2.3 * point_scale linecolor rgb colour notitle, \
	for [i = 1:n_runs] "+" using (positive(far[i])):(row_of(i)) every ::0::0 \
		with points pointtype 7 pointsize 1.5 * point_scale linecolor rgb "white" notitle, \
	for [i = 1:n_runs] "+" using (positive(near[i])):(row_of(i)) every ::0::0 \
		with points pointtype 7 pointsize 2 * point_scale linecolor rgb colour notitle'

time_text(i) = ns_text(near[i])." / ".ns_text(far[i])
colour = blue
set xlabel "latency of a call" offset 0, 0.3
# One scale for both operations.
low = 1e300 ; high = 0
do for [i = 1:n_runs] { near[i] = run_free_p50[i] ; far[i] = run_free_p99[i] }
eval find_range
do for [i = 1:n_runs] { near[i] = run_alloc_p50[i] ; far[i] = run_alloc_p99[i] }
eval find_range

k = 2
panel_name = "allocation: p50, p99"
eval time_panel
eval draw_time

k = 3
panel_name = "free: p50, p99"
do for [i = 1:n_runs] { near[i] = run_free_p50[i] ; far[i] = run_free_p99[i] }
eval time_panel
eval draw_time

k = 4
panel_name = "time per operation"
colour = green
set xlabel "whole trace, mean" offset 0, 0.3
time_text(i) = ns_text(near[i]).(run_device[i] > 0 ? " + ".ns_text(run_device[i])." device" : "")
do for [i = 1:n_runs] { near[i] = run_own[i] ; far[i] = run_own[i] + run_device[i] }
low = 1e300 ; high = 0
eval find_range
eval time_panel
eval draw_time

# ---- legend ----

unset logscale
do for [i = 1:n_runs] { unset label 300 + i }
unset label 1 ; unset border ; unset tics ; unset grid ; unset xlabel
set lmargin at screen 0.02 ; set rmargin at screen 0.98
set bmargin at screen 0 ; set tmargin at screen 55.0 / height
set xrange [0:1] ; set yrange [0:1]
key_font = plain(18)
set key inside center center horizontal Left reverse maxrows 1 samplen 2 width -1 font key_font
plot NaN with boxes fillstyle solid noborder linecolor rgb "#F3C7A6" title "reserved", \
	NaN with boxes fillstyle solid noborder linecolor rgb blue title "granted", \
	NaN with lines linecolor rgb black dashtype 1 linewidth 1.4 title "load", \
	NaN with points pointtype 7 pointsize 2 * point_scale linecolor rgb blue title "p50", \
	NaN with points pointtype 6 pointsize 2 * point_scale linecolor rgb blue title "p99", \
	NaN with points pointtype 7 pointsize 2 * point_scale linecolor rgb green title "allocator", \
	NaN with points pointtype 6 pointsize 2 * point_scale linecolor rgb green title "with device"
unset multiplot
unset output
