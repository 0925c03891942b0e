# SPDX-License-Identifier: Apache-2.0
#
# style.gp: what the pictures share. A figure's script sets dir, output_file and only (labels with
# blanks between them; "": all in the summary) and loads this file: `load` does away with ARG1 ...
# It reads DIR/summary.tsv and leaves behind:
#
#   n_runs, labels            allocators to draw, in the order of the summary
#   run_VALUE[i]              columns of the summary, i = 1 .. n_runs; 0 where nothing was measured
#   title_text                trace, device, and "simulated" where that is what it is
#   open_picture              eval'ed with `height` set (pixels): terminal and output
#
# Colours: M. Okabe and K. Ito, "Color Universal Design" (2008); told apart by people with any
# common colour blindness. Every colour has its own dash or marker too, for grey print.

set encoding utf8
set datafile separator "\t"
set datafile missing "-"
set datafile columnheaders

# ---- the summary ----

n_all = 0
all_labels = ""
trace = "" ; device = "" ; devices = ""
stats dir."/summary.tsv" using (n_all = n_all + 1, \
	all_labels = all_labels." ".stringcolumn("label"), \
	trace = stringcolumn("trace"), \
	device = device eq "" ? stringcolumn("device") : device, \
	devices = stringcolumn("device"), n_all) nooutput

labels = ""
do for [i = 1:n_all] {
	w = word(all_labels, i)
	if (only eq "" || strstrt(" ".only." ", " ".w." ")) { labels = labels." ".w }
}
n_runs = words(labels)
# Arrays cannot be empty; a figure without runs says so instead of drawing.
array run_status[n_runs + 1]
array run_load[n_runs + 1]
array run_granted[n_runs + 1]
array run_reserved[n_runs + 1]
array run_failures[n_runs + 1]
array run_alloc_p50[n_runs + 1]
array run_alloc_p99[n_runs + 1]
array run_free_p50[n_runs + 1]
array run_free_p99[n_runs + 1]
array run_own[n_runs + 1]
array run_device[n_runs + 1]

do for [i = 1:n_runs + 1] {
	run_status[i] = "ok"
	run_load[i] = 0 ; run_granted[i] = 0 ; run_reserved[i] = 0 ; run_failures[i] = 0
	run_alloc_p50[i] = 0 ; run_alloc_p99[i] = 0 ; run_free_p50[i] = 0 ; run_free_p99[i] = 0
	run_own[i] = 0 ; run_device[i] = 0
}

slot(s) = sum [i = 1:n_runs] (word(labels, i) eq s ? i : 0)
stats dir."/summary.tsv" using (k = slot(stringcolumn("label")), k = k ? k : n_runs + 1, \
	run_status[k] = stringcolumn("status"), \
	run_load[k] = column("load_bytes"), \
	run_granted[k] = column("peak_granted_bytes"), \
	run_reserved[k] = column("peak_reserved_bytes"), \
	run_failures[k] = column("failures"), \
	run_alloc_p50[k] = column("alloc_p50_ns"), \
	run_alloc_p99[k] = column("alloc_p99_ns"), \
	run_free_p50[k] = column("free_p50_ns"), \
	run_free_p99[k] = column("free_p99_ns"), \
	run_own[k] = column("ns_per_op"), \
	run_device[k] = column("device_ns_per_op"), k) nooutput

# ---- words and numbers for people ----

# Names are not ours: no mark-up in them. (To turn it off altogether would cost the SVG its bold
# type.)
plain_char(c) = c eq "\n" ? " " : c eq "\\" ? "∖" : strstrt("{}^_@&~", c) ? "\\".c : c
plain_text(s) = strlen(s) == 0 ? "" : plain_char(s[1:1]).plain_text(s[2:])
short(s, n) = strlen(s) > n ? s[1:n - 1]."…" : s
# The device is called "simulated ..." by gpupool-replay where that is what it is.
is_simulated = device eq "sim" || strstrt(device, "simulated") == 1
# Runs on the GPU come first where there are both (--mirror).
device_text = (device eq "sim" ? "simulated device" : device). \
	(devices ne device ? " and simulated" : "")
title_text = plain_text(short(trace, 60))." · ".plain_text(short(device_text, 40))

digits_of(x) = x == floor(x) || x >= 99.95 ? 0 : x < 9.995 ? 2 : 1
three(x) = sprintf(sprintf("%%.%df", digits_of(x)), x)
bytes_unit(x) = \
	x >= 2**40 ? 2**40 : x >= 2**30 ? 2**30 : x >= 2**20 ? 2**20 : x >= 2**10 ? 2**10 : 1
bytes_name(u) = \
	u >= 2**40 ? "TiB" : u >= 2**30 ? "GiB" : u >= 2**20 ? "MiB" : u >= 2**10 ? "KiB" : "bytes"
bytes_text(x) = x == x ? three(x / bytes_unit(x))." ".bytes_name(bytes_unit(x)) : "–"
held_text(held, load) = bytes_text(held). \
	(load > 0 && held > 0 ? sprintf(" = %.2f × load", held / load) : "")
ns_unit(x) = x >= 1e9 ? 1e9 : x >= 1e6 ? 1e6 : x >= 1e3 ? 1e3 : 1
ns_name(u) = u >= 1e9 ? "s" : u >= 1e6 ? "ms" : u >= 1e3 ? "µs" : "ns"

ns_text(x) = x == x ? three(x / ns_unit(x))." ".ns_name(ns_unit(x)) : "–"
positive(x) = x > 0 ? x : NaN
# A NaN, which is what text in place of a number gives, changes nothing.
larger(a, b) = b == b && !(a >= b) ? b : a

# Ticks of a logarithmic axis of nanoseconds: 1 ns, 10 ns, 100 ns, 1 µs, ...
ns_ticks = "("
ns_blank_ticks = "("
do for [e = 0:11] {
	comma = e ? ", " : ""
	ns_ticks = ns_ticks.sprintf("%s\"%g %s\" 1e%d", comma, 10.0**e / ns_unit(10.0**e), \
		ns_name(ns_unit(10.0**e)), e)
	ns_blank_ticks = ns_blank_ticks.sprintf("%s\"\" 1e%d", comma, e)
}
ns_ticks = ns_ticks.")"
ns_blank_ticks = ns_blank_ticks.")"

# ---- picture ----

width = 1600
font_face = "DejaVu Sans"
is_svg = strlen(output_file) > 4 && output_file[strlen(output_file) - 3:] eq ".svg"
# An SVG's font sizes are pixels; pngcairo's are points of 4/3 pixel.
plain(px) = sprintf("%s,%d", font_face, is_svg ? px : px * 3 / 4)
# ... and its points are twice as large.
point_scale = is_svg ? 0.5 : 1
bold(px) = sprintf("%s:Bold,%d", font_face, is_svg ? px : px * 3 / 4)
terminal_command(h) = sprintf( \
	"set terminal %s size %d, %d font \"%s\" background \"white\" linewidth %s", \
	is_svg ? "svg" : "pngcairo", width, h, plain(20), is_svg ? "1.6 dynamic" : "2")
open_picture = 'eval terminal_command(height); set output output_file'

black = "#000000" ; orange = "#E69F00" ; sky = "#56B4E9" ; green = "#009E73"
blue = "#0072B2" ; vermillion = "#D55E00" ; purple = "#CC79A7" ; grey = "#707070"
maroon = "#882255" ; navy = "#332288" # of P. Tol's palette for the same purpose

set linetype 1 linecolor rgb blue dashtype 1 pointtype 7
set linetype 2 linecolor rgb vermillion dashtype (14, 5) pointtype 5
set linetype 3 linecolor rgb green dashtype (8, 3, 2, 3) pointtype 9
set linetype 4 linecolor rgb purple dashtype (4, 3) pointtype 13
set linetype 5 linecolor rgb orange dashtype 1 pointtype 4
set linetype 6 linecolor rgb sky dashtype (14, 4, 2, 4, 2, 4) pointtype 6
set linetype 7 linecolor rgb black dashtype (2, 3) pointtype 8
set linetype 8 linecolor rgb grey dashtype (10, 4) pointtype 12
set linetype 9 linecolor rgb maroon dashtype 1 pointtype 10
set linetype 10 linecolor rgb navy dashtype (6, 6) pointtype 11
set linetype cycle 10

set border 3 linecolor rgb grey linewidth 0.8
set tics nomirror scale 0.6 textcolor rgb "#303030"
set grid back linecolor rgb "#CCCCCC" linewidth 0.6
unset key

# One line in the middle of an otherwise empty picture.
nothing_text = ""
nothing_to_draw = 'height = 400; eval open_picture; reset; unset border; unset tics; unset key; \
	set title title_text font bold(26); set xrange [0:1]; set yrange [0:1]; \
	set label nothing_text at graph 0.5, 0.5 center font plain(26) textcolor rgb grey; \
	plot NaN notitle; unset output'
