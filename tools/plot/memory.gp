# SPDX-License-Identifier: Apache-2.0
#
# memory.gp: what each allocator holds over time, one panel each, all on one scale.
#
#   gnuplot -c memory.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv and DIR/LABEL.curve.tsv. A window's smallest and largest values bound the
# bands, its largest is the line: a peak shows however short it was.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("memory.gp")]
load here."style.gp"
panel_of(i) = dir."/".word(labels, i).".curve.tsv"
load here."panels.gp"

if (n_runs == 0) {
	nothing_text = "no memory curve: the trace has no events"
	eval nothing_to_draw
	exit
}

top = 0
do for [i = 1:n_runs] { top = larger(top, larger(run_load[i], run_reserved[i])) }
unit = bytes_unit(top)
y_label = bytes_name(unit)
picture_title = "Memory over time — ".title_text
subtitle = "load: the most that is requested at once; no allocator can hold less"
y_format = "%g"
eval open_panels
set yrange [0:top / unit * 1.04 + (top == 0)]

do for [i = 1:n_runs] {
	eval begin_panel
	held = sprintf("peak %s", bytes_text(run_reserved[i]))
	if (run_load[i] > 0) { held = held.sprintf(" = %.2f × load", run_reserved[i] / run_load[i]) }
	set label 2 held at graph 1, 1.08 right font plain(18) textcolor rgb "#303030"
	plot panel_of(i) using (x_of(0)):(column("reserved_min") / unit):(column("reserved_max") / unit) \
			with filledcurves fillstyle solid 0.25 noborder linecolor rgb vermillion, \
		'' using (x_of(0)):(column("requested_max") / unit) with filledcurves y1=0 \
			fillstyle solid noborder linecolor rgb "#CCCCCC", \
		'' using (x_of(0)):(column("requested_min") / unit) with filledcurves y1=0 \
			fillstyle solid noborder linecolor rgb "#A0A0A0", \
		'' using (x_of(0)):(column("granted_max") / unit) with @line_style dashtype 1 \
			linecolor rgb blue linewidth 0.9, \
		'' using (x_of(0)):(column("reserved_max") / unit) with @line_style dashtype 1 \
			linecolor rgb vermillion linewidth 1.8, \
		run_load[i] / unit with lines linecolor rgb black dashtype (8, 6) linewidth 1
}
eval begin_legend
plot NaN with filledcurves y1=0 fillstyle solid noborder linecolor rgb "#A0A0A0" title "requested, least", \
	NaN with filledcurves y1=0 fillstyle solid noborder linecolor rgb "#CCCCCC" title "requested, most", \
	NaN with lines linecolor rgb blue dashtype 1 linewidth 0.9 title "granted", \
	NaN with lines linecolor rgb vermillion dashtype 1 linewidth 1.8 title "reserved", \
	NaN with lines linecolor rgb black dashtype (8, 6) linewidth 1 title "load"
unset multiplot
unset output
