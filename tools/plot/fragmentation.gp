# SPDX-License-Identifier: Apache-2.0
#
# fragmentation.gp: how much of the memory held is of no use, over time, one panel per allocator.
#
#   gnuplot -c fragmentation.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv and DIR/LABEL.curve.tsv. External: 1 - largest hole / all holes. Internal:
# 1 - requested / granted. Bands span a window's smallest and largest value.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("fragmentation.gp")]
load here."style.gp"
panel_of(i) = dir."/".word(labels, i).".curve.tsv"
load here."panels.gp"

if (n_runs == 0) {
	nothing_text = "no fragmentation curve: the trace has no events"
	eval nothing_to_draw
	exit
}

picture_title = "Fragmentation over time — ".title_text
subtitle = "bands and lines hold every value between two points in time, however short-lived"
y_label = ""
y_format = "%g %%"
eval open_panels
set yrange [0:104]
set ytics 25

do for [i = 1:n_runs] {
	eval begin_panel
	plot panel_of(i) using (x_of(0)):(column("external_min") * 100):(column("external_max") * 100) \
			with filledcurves fillstyle solid 0.35 noborder linecolor rgb vermillion, \
		'' using (x_of(0)):(column("external_max") * 100) with @line_style dashtype 1 \
			linecolor rgb vermillion linewidth 1, \
		'' using (x_of(0)):(column("internal_min") * 100):(column("internal_max") * 100) \
			with filledcurves fillstyle solid 0.35 noborder linecolor rgb blue, \
		'' using (x_of(0)):(column("internal_max") * 100) with @line_style dashtype 1 \
			linecolor rgb blue linewidth 1.8
}
eval begin_legend
plot NaN with lines linecolor rgb vermillion dashtype 1 linewidth 1 \
		title "external: free memory outside the largest hole", \
	NaN with lines linecolor rgb blue dashtype 1 linewidth 1.8 \
		title "internal: granted beyond what was requested"
unset multiplot
unset output
