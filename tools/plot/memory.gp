# SPDX-License-Identifier: Apache-2.0
#
# memory.gp: what each allocator holds over time, one panel each, all on one scale.
#
#   gnuplot -c memory.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv and DIR/LABEL.curve.tsv. The lines go through the last value of each window;
# a stroke at its end spans the smallest and the largest: a peak shows however short it was.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("memory.gp")]
load here."style.gp"
panel_of(i) = dir."/".word(labels, i).".curve.tsv"
note_of(i) = "peak ".(run_failures[i] > 0 ? bytes_text(run_reserved[i]).", ".failed_text(i) : \
	held_text(run_reserved[i], run_load[i]))
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
# Strokes shorter than a pixel or so are left out.
stroke(length) = length > top / 300.0 ? length / unit : NaN
eval open_panels
set yrange [0:top / unit * 1.04 + (top == 0)]

do for [i = 1:n_runs] {
	eval begin_panel
	# A filled staircase of one piece: as `fillsteps` it would be thousands in an SVG.
	set table $rows
	plot panel_of(i) using (x_of(0)):(column("requested_last") / unit) with table
	unset table
	set print $stairs
	print "x\ty"
	y = "0"
	do for [k = 1:|$rows|] {
		print word($rows[k], 1)."\t".y
		y = word($rows[k], 2)
		print word($rows[k], 1)."\t".y
	}
	unset print
	plot $stairs using 1:2 with filledcurves y1=0 fillstyle solid noborder linecolor rgb "#B8B8B8", \
		panel_of(i) using (x_of(0)):(column("requested_min") / unit):(0): \
			(stroke(column("requested_max") - column("requested_min"))) \
			with vectors nohead dashtype 1 linecolor rgb "#909090" linewidth 0.7, \
		'' using (x_of(0)):(column("granted_min") / unit):(0): \
			(stroke(column("granted_max") - column("granted_min"))) \
			with vectors nohead dashtype 1 linecolor rgb blue linewidth 0.7, \
		'' using (x_of(0)):(column("granted_last") / unit) with steps dashtype 1 \
			linecolor rgb blue linewidth 0.9, \
		'' using (x_of(0)):(column("reserved_min") / unit):(0): \
			(stroke(column("reserved_max") - column("reserved_min"))) \
			with vectors nohead dashtype 1 linecolor rgb vermillion linewidth 1.2, \
		'' using (x_of(0)):(column("reserved_last") / unit) with steps dashtype 1 \
			linecolor rgb vermillion linewidth 1.8, \
		'' using (x_of(0)):(few(column("granted_last") / unit)) with points pointtype 6 \
			pointsize 1.6 * point_scale linecolor rgb blue, \
		'' using (x_of(0)):(few(column("reserved_last") / unit)) with points pointtype 7 \
			pointsize point_scale linecolor rgb vermillion, \
		run_load[i] / unit with lines linecolor rgb black dashtype (8, 6) linewidth 1
}
eval begin_legend
plot NaN with filledcurves y1=0 fillstyle solid noborder linecolor rgb "#B8B8B8" \
		title "requested", \
	NaN with lines linecolor rgb blue dashtype 1 linewidth 0.9 title "granted", \
	NaN with lines linecolor rgb vermillion dashtype 1 linewidth 1.8 title "reserved", \
	NaN with lines linecolor rgb black dashtype (8, 6) linewidth 1 title "load"
unset multiplot
unset output
