# SPDX-License-Identifier: Apache-2.0
#
# stall.gp: what calls cost while the device had work: how long the host waited for the device, and
# how long the device had nothing left to do, each of alloc, free and trim.
#
#   gnuplot -c stall.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv of a replay with --work. One row per allocator, one panel per side; bars are
# sums over the whole trace on a linear scale, because that is what adds to the run time.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("stall.gp")]
load here."style.gp"

if (n_runs == 0) {
	nothing_text = "no stalls: the run measured no allocator"
	eval nothing_to_draw
	exit
}

# ---- sums by call ----

array stall_alloc[n_runs + 1]
array stall_free[n_runs + 1]
array stall_trim[n_runs + 1]
array stall_longest[n_runs + 1]
array idle_alloc[n_runs + 1]
array idle_free[n_runs + 1]
array idle_trim[n_runs + 1]
do for [i = 1:n_runs + 1] {
	stall_alloc[i] = 0 ; stall_free[i] = 0 ; stall_trim[i] = 0 ; stall_longest[i] = 0
	idle_alloc[i] = 0 ; idle_free[i] = 0 ; idle_trim[i] = 0
}
work = "none"
stats dir."/summary.tsv" using (k = slot(stringcolumn("label")), k = k ? k : n_runs + 1, \
	work = stringcolumn("work") ne "none" ? stringcolumn("work") : work, \
	stall_alloc[k] = column("alloc_stall_ns"), \
	stall_free[k] = column("free_stall_ns"), \
	stall_trim[k] = column("trim_stall_ns"), \
	stall_longest[k] = column("longest_stall_ns"), \
	idle_alloc[k] = column("alloc_idle_ns"), \
	idle_free[k] = column("free_idle_ns"), \
	idle_trim[k] = column("trim_idle_ns"), k) nooutput

# ---- picture ----

head_px = 190 ; foot_px = 150 ; row_px = 78
height = head_px + foot_px + n_runs * row_px
eval open_picture
set multiplot title "Stalls — ".title_text font bold(28) offset 0, -0.3
work_text = work eq "memset" ? "a memset of each block behind its allocation" : \
	work eq "recorded" ? "kernels for the recorded time behind each allocation" : \
	"a kernel of ".work[6:]." µs behind each allocation"
set label 9 work_text.(is_simulated ? "; modelled" : "; timed by events on the GPU") \
	at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey

row_of(i) = n_runs - i
text_drop = 0.34
set yrange [-0.6:n_runs - 0.4]
set tmargin at screen 1 - real(head_px) / height
set bmargin at screen real(foot_px) / height
set grid noytics
unset ytics
panel_left(k) = 0.125 + (k - 1) * 0.44
panel_right(k) = panel_left(k) + 0.40

do for [i = 1:n_runs] {
	broken = run_status[i] ne "ok" ? run_status[i] : ""
	set label 100 + i plain_text(short(word(labels, i), 16)) at screen 0.115, first row_of(i) \
		right font bold(20)
	set label 200 + i broken at screen 0.115, first row_of(i) - text_drop right font plain(17) \
		textcolor rgb vermillion
}

array a[n_runs]
array b[n_runs]
array c[n_runs]
sum_of(i) = a[i] + b[i] + c[i]
share(x, i) = sum_of(i) > 0 && x > 0 ? sprintf("%.0f %%", 100.0 * x / sum_of(i)) : ""
bar_text(i) = run_status[i] eq "error" ? "not measured" : sum_of(i) > 0 ? ns_text(sum_of(i)) : "none"
draw_panel = 'top = 0; \
	do for [i = 1:n_runs] { top = larger(top, sum_of(i)) }; \
	unit = top > 0 ? ns_unit(top) : 1e6; \
	eval tics_of; \
	set lmargin at screen panel_left(k); set rmargin at screen panel_right(k); \
	set label 1 panel_name at graph 0, screen 1 - 130.0 / height left font bold(22); \
	set label 2 panel_note at graph 0, screen 1 - 158.0 / height left font plain(17) \
		textcolor rgb grey; \
	set xrange [0:top > 0 ? top / unit * 1.08 : 1]; \
	set xlabel "sum over the trace (".ns_name(unit).")" offset 0, 0.3; \
	do for [i = 1:n_runs] { \
		said = bar_text(i).(k == 1 && stall_longest[i] > 0 \
			? ", longest ".ns_text(stall_longest[i]) : ""); \
		set label 300 + i said at graph 0.98, first row_of(i) - text_drop right \
			font plain(17) textcolor rgb sum_of(i) > 0 ? "black" : grey front \
	}; \
	plot for [i = 1:n_runs] "+" using (middle(0, a[i])):(row_of(i)):(half(a[i])):(0.2) \
			every ::0::0 with boxxyerror fillstyle solid noborder linecolor rgb blue notitle, \
		for [i = 1:n_runs] "+" using (middle(a[i], b[i])):(row_of(i)):(half(b[i])):(0.2) \
			every ::0::0 with boxxyerror fillstyle solid noborder linecolor rgb vermillion \
			notitle, \
		for [i = 1:n_runs] "+" using (middle(a[i] + b[i], c[i])):(row_of(i)):(half(c[i])):(0.2) \
			every ::0::0 with boxxyerror fillstyle solid noborder linecolor rgb green notitle; \
	unset label 9; \
	do for [i = 1:n_runs] { unset label 100 + i; unset label 200 + i; unset label 300 + i }'
middle(from, x) = (from + x / 2.0) / unit
half(x) = x > 0 ? x / 2.0 / unit : NaN
tics_of = 'raw_step = larger(top / unit / 5.0, 1e-9); decade = 10**floor(log10(raw_step)); \
	step = raw_step / decade; \
	set xtics decade * (step < 1.5 ? 1 : step < 3.5 ? 2 : step < 7.5 ? 5 : 10)'

k = 1
panel_name = "the host waits for the device"
panel_note = "calls stalled until queued work had ended"
do for [i = 1:n_runs] { a[i] = stall_alloc[i] ; b[i] = stall_free[i] ; c[i] = stall_trim[i] }
eval draw_panel

k = 2
panel_name = "the device waits for the host"
panel_note = "calls went on when no work was left"
do for [i = 1:n_runs] { a[i] = idle_alloc[i] ; b[i] = idle_free[i] ; c[i] = idle_trim[i] }
eval draw_panel

# ---- legend ----

unset label ; unset border ; unset tics ; unset grid ; unset xlabel
set lmargin at screen 0.02 ; set rmargin at screen 0.98
set bmargin at screen 0 ; set tmargin at screen 55.0 / height
set xrange [0:1] ; set yrange [0:1]
key_font = plain(18)
set key inside center center horizontal Left reverse maxrows 1 samplen 2 width -1 font key_font
plot NaN with boxes fillstyle solid noborder linecolor rgb blue title "in allocations", \
	NaN with boxes fillstyle solid noborder linecolor rgb vermillion title "in frees", \
	NaN with boxes fillstyle solid noborder linecolor rgb green title "in trims"
unset multiplot
unset output
