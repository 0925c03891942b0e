# SPDX-License-Identifier: Apache-2.0
#
# panels.gp: a grid of panels, one per allocator, over a common time axis. Loaded by memory.gp and
# fragmentation.gp after style.gp, with panel_of(i), the curve of allocator i, and
# note_of(i), what to say beside its name, defined.
#
#   open_panels    eval'ed with picture_title, subtitle, y_label and y_format set: picture,
#                  headline and multiplot
#   begin_panel    eval'ed in the loop over i, before the plot: place, axes, name and note_of(i),
#                  in red where requests failed
#   begin_legend   eval'ed after the loop, before the plot that names the lines
#   x_of(0)        the time of a window in the axis' unit
#   few(y)         y where a line through so few windows would not be seen, else nothing

n_columns = n_runs <= 1 ? 1 : n_runs <= 4 ? 2 : 3
n_rows = n_runs ? (n_runs + n_columns - 1) / n_columns : 1

last_t = 0
last_event = 0
n_windows = 0
do for [i = 1:n_runs] {
	stats panel_of(i) using (last_t = larger(last_t, column("t_ns")), \
		last_event = larger(last_event, column("last_event")), 1) nooutput
	n_windows = larger(n_windows, STATS_records)
}
# Without recorded times, the place in the trace is the time.
by_time = last_t > 0
x_unit = by_time ? ns_unit(last_t) : 1
x_label = by_time ? "time (".ns_name(x_unit).")" : "event"
x_of(dummy) = by_time ? column("t_ns") / x_unit : column("last_event")
x_end = by_time ? last_t / x_unit : last_event
few(y) = n_windows < 3 ? y : NaN

# In pixels: room around the grid, and between its panels.
head_px = 150 ; foot_px = 130 ; left_px = 110 ; right_px = 30 ; gap_x_px = 40 ; gap_y_px = 90
panel_px = n_rows == 1 ? 520 : 300
height = head_px + foot_px + n_rows * panel_px + (n_rows - 1) * gap_y_px
panel_width_px = (width - left_px - right_px - (n_columns - 1) * gap_x_px) / real(n_columns)

open_panels = 'eval open_picture; \
	set multiplot title picture_title font bold(28) offset 0, -0.3; \
	set xrange [x_end > 0 ? 0 : -1:x_end > 0 ? x_end : 1]; \
	eval !by_time && last_event < 8 ? "set xtics 1" : ""; \
	set label 9 subtitle at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey'

begin_panel = 'column_of = (i - 1) % n_columns; row_of = (i - 1) / n_columns; \
	x0 = left_px + column_of * (panel_width_px + gap_x_px); \
	y0 = height - head_px - row_of * (panel_px + gap_y_px); \
	set lmargin at screen x0 / real(width); \
	set rmargin at screen (x0 + panel_width_px) / real(width); \
	set tmargin at screen y0 / real(height); \
	set bmargin at screen (y0 - panel_px) / real(height); \
	set ylabel (column_of == 0 ? y_label : "") offset 0.5, 0; \
	set format y (column_of == 0 ? y_format : ""); \
	set xlabel (i + n_columns > n_runs ? x_label : "") offset 0, 0.3; \
	set label 1 plain_text(short(word(labels, i), 24)) at graph 0, 1.08 left font bold(22); \
	set label 3 note_of(i) at graph 1, 1.08 right font plain(18) \
		textcolor rgb run_failures[i] > 0 ? vermillion : "#303030"; \
	eval i > 1 ? "unset label 9" : ""'
failed_text(i) = run_failures[i] > 0 ? sprintf("%.0f failed", run_failures[i]) : ""

# The legend is a last, empty panel along the foot, which a figure fills with `plot NaN ... title`.
key_font = plain(19)
begin_legend = 'unset label; unset border; unset tics; unset xlabel; unset ylabel; unset grid; \
	set lmargin at screen 0.02; set rmargin at screen 0.98; \
	set bmargin at screen 0; set tmargin at screen 50.0 / height; set xrange [0:1]; \
	set yrange [0:1]; set key inside center center horizontal Left reverse maxrows 1 samplen 2.5 \
		width 1 font key_font'
