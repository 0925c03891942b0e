# SPDX-License-Identifier: Apache-2.0
#
# fragmentation.gp: how much of the memory held is of no use, over time, one panel per allocator.
#
#   gnuplot -c fragmentation.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv and DIR/LABEL.curve.tsv. External: 1 - largest hole / all holes. Internal:
# 1 - requested / granted. The lines go through the last value of each window, a pale stroke at its
# end spans the smallest and the largest.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("fragmentation.gp")]
load here."style.gp"
panel_of(i) = dir."/".word(labels, i).".curve.tsv"
note_of(i) = failed_text(i)
load here."panels.gp"

if (n_runs == 0) {
	nothing_text = "no fragmentation curve: the trace has no events"
	eval nothing_to_draw
	exit
}

picture_title = "Fragmentation over time — ".title_text
subtitle = "pale strokes: from the least to the most since the point before"
y_label = ""
y_format = "%g %%"
# Strokes shorter than a pixel or so are left out.
stroke(length) = length > 1 / 300.0 ? length * 100 : NaN
eval open_panels
set yrange [0:104]
set ytics 25

do for [i = 1:n_runs] {
	eval begin_panel
	plot panel_of(i) using (x_of(0)):(column("external_min") * 100):(0): \
			(stroke(column("external_max") - column("external_min"))) \
			with vectors nohead dashtype 1 linecolor rgb "#EAA97A" linewidth 0.7, \
		'' using (x_of(0)):(column("internal_min") * 100):(0): \
			(stroke(column("internal_max") - column("internal_min"))) \
			with vectors nohead dashtype 1 linecolor rgb sky linewidth 0.7, \
		'' using (x_of(0)):(column("external_last") * 100) with steps dashtype 1 \
			linecolor rgb vermillion linewidth 1, \
		'' using (x_of(0)):(column("internal_last") * 100) with steps dashtype 1 \
			linecolor rgb blue linewidth 1.8, \
		'' using (x_of(0)):(few(column("external_last") * 100)) with points pointtype 7 \
			pointsize point_scale linecolor rgb vermillion, \
		'' using (x_of(0)):(few(column("internal_last") * 100)) with points pointtype 6 \
			pointsize 1.6 * point_scale linecolor rgb blue
}
eval begin_legend
plot NaN with lines linecolor rgb vermillion dashtype 1 linewidth 1 \
		title "external: free memory outside the largest hole", \
	NaN with lines linecolor rgb blue dashtype 1 linewidth 1.8 \
		title "internal: granted beyond what was requested"
unset multiplot
unset output
