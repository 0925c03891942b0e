# SPDX-License-Identifier: Apache-2.0
#
# mirror.gp: device time on the GPU and as simulated, by allocator and kind of call.
#
#   gnuplot -c mirror.gp DIR OUTPUT.png|OUTPUT.svg ["LABEL LABEL ..."]
#
# Reads DIR/summary.tsv and DIR/mirror.tsv (gpupool-replay --mirror). Two bars a row, both as a share
# of what was measured on that allocator: where the simulation is true, they look alike. Shares,
# because allocators are far apart; the times stand beside them.

dir = ARG1 ; output_file = ARG2 ; only = ARG3
here = ARG0[1:strlen(ARG0) - strlen("mirror.gp")]
load here."style.gp"

# ---- what there is ----

names = "" ; calls = ""
seen(list, s) = strstrt(" ".list." ", " ".s." ") > 0
wanted(s) = only eq "" || seen(only, s)
add_name(s) = wanted(s) && !seen(names, s) ? (names = names." ".s, 1) : 0
add_call(s) = s ne "all" && !seen(calls, s) ? (calls = calls." ".s, 1) : 0
stats dir."/mirror.tsv" using (add_name(stringcolumn("label")), \
	add_call(stringcolumn("call")), 1) nooutput
n_rows = words(names)
n_calls = words(calls)

if (n_rows == 0) {
	nothing_text = "nothing to compare: no allocator has a result on both devices"
	eval nothing_to_draw
	exit
}

place(list, s) = sum [k = 1:words(list)] (word(list, k) eq s ? k : 0)
array total_gpu[n_rows + 1]
array total_sim[n_rows + 1]
array held_gpu[n_rows + 1]
array held_sim[n_rows + 1]
array memory[n_rows + 1]
array match[n_rows + 1]
array part_gpu[(n_rows + 1) * (n_calls + 1)]
array part_sim[(n_rows + 1) * (n_calls + 1)]
do for [i = 1:n_rows + 1] {
	total_gpu[i] = 0 ; total_sim[i] = 0 ; held_gpu[i] = 0 ; held_sim[i] = 0
	memory[i] = "" ; match[i] = ""
}
do for [i = 1:(n_rows + 1) * (n_calls + 1)] { part_gpu[i] = 0 ; part_sim[i] = 0 }
cell(i, k) = (i - 1) * n_calls + k
# What is not drawn lands in a last row, or a last cell, that nobody looks at.
row_at(s) = place(names, s) ? place(names, s) : n_rows + 1
stats dir."/mirror.tsv" using (i = row_at(stringcolumn("label")), \
	k = place(calls, stringcolumn("call")), \
	c = k ? cell(i, k) : (n_rows + 1) * (n_calls + 1), \
	part_gpu[c] = column("cuda_ns"), part_sim[c] = column("sim_ns"), \
	total_gpu[i] = column("cuda_ns"), total_sim[i] = column("sim_ns"), \
	held_gpu[i] = column("cuda_peak_reserved_bytes"), \
	held_sim[i] = column("sim_peak_reserved_bytes"), \
	memory[i] = stringcolumn("memory"), match[i] = stringcolumn("memory_match"), i) nooutput

# ---- picture ----

head_px = 170 ; foot_px = 190 ; row_px = 96
height = head_px + foot_px + n_rows * row_px
eval open_picture
set multiplot title "GPU and simulation — ".title_text font bold(28) offset 0, -0.3
set label 9 "device time of one run through the trace, as a share of what was measured" \
	at screen 0.5, 1 - 66.0 / height center font plain(19) textcolor rgb grey

row_of(i) = n_rows - i
widest = 1.3
share(i, ns) = total_gpu[i] > 0 ? ns / total_gpu[i] : 0
do for [i = 1:n_rows] { widest = larger(widest, share(i, total_sim[i])) }
right_end = widest > 2 ? 2 : widest * 1.02
set xrange [0:right_end * 100]
set yrange [-0.6:n_rows - 0.4]
set lmargin at screen 0.135 ; set rmargin at screen 0.64
set tmargin at screen 1 - real(head_px) / height
set bmargin at screen real(foot_px) / height
set grid noytics
unset ytics
set xtics 25
set format x "%g %%"
set xlabel "of the measured device time" offset 0, 0.3

array colours[8] = [blue, orange, green, purple, sky, vermillion, black, grey]
colour_of(k) = colours[(k - 1) % 8 + 1]
n_objects = 0
add_bar = 'x = 0; do for [k = 1:n_calls] { \
		w = share(i, is_sim ? part_sim[cell(i, k)] : part_gpu[cell(i, k)]) * 100; \
		if (w > 0 && x < right_end * 100) { \
			n_objects = n_objects + 1; \
			x1 = x + w > right_end * 100 ? right_end * 100 : x + w; \
			set object n_objects rectangle from x, y - 0.15 to x1, y + 0.15 front \
				fillcolor rgb colour_of(k) fillstyle solid (is_sim ? 0.45 : 1) \
				border linecolor rgb colour_of(k) linewidth 0.6 \
		}; \
		x = x + w \
	}'
do for [i = 1:n_rows] {
	is_sim = 0 ; y = row_of(i) + 0.18
	eval add_bar
	is_sim = 1 ; y = row_of(i) - 0.18
	eval add_bar
}

# Within a quarter of what was measured.
set object 9000 rectangle from 75, graph 0 to 125, graph 1 behind \
	fillcolor rgb "#EFEFEF" fillstyle solid noborder
set arrow 9000 from 100, graph 0 to 100, graph 1 nohead linecolor rgb grey dashtype 2 front

ratio_text(i) = total_gpu[i] > 0 ? sprintf("× %.2f", total_sim[i] / total_gpu[i]) : "–"
memory_text(i) = memory[i] eq "equal" ? "the same" : bytes_text(held_sim[i])
set label 10 "time" at screen 0.775, 1 - 148.0 / height right font bold(21)
set label 11 "ratio" at screen 0.855, 1 - 148.0 / height right font bold(21)
set label 12 "memory" at screen 0.985, 1 - 148.0 / height right font bold(21)
do for [i = 1:n_rows] {
	bad = memory[i] ne "equal" && match[i] eq "must"
	set label 100 + i plain_text(short(word(names, i), 16)) at screen 0.125, first row_of(i) \
		right font bold(20)
	set label 200 + i "GPU  ".ns_text(total_gpu[i]) \
		at screen 0.775, first row_of(i) + 0.18 right font plain(18)
	set label 300 + i "simulated  ".ns_text(total_sim[i]) \
		at screen 0.775, first row_of(i) - 0.18 right font plain(18) textcolor rgb grey
	set label 400 + i ratio_text(i) at screen 0.855, first row_of(i) right font bold(20)
	set label 500 + i bytes_text(held_gpu[i]) \
		at screen 0.985, first row_of(i) + 0.18 right font plain(18)
	set label 600 + i memory_text(i) at screen 0.985, first row_of(i) - 0.18 right font plain(18) \
		textcolor rgb bad ? vermillion : grey
}
plot NaN notitle

# ---- legend ----

unset object ; unset arrow ; unset label ; unset border ; unset tics ; unset grid ; unset xlabel
set lmargin at screen 0.02 ; set rmargin at screen 0.98
set bmargin at screen 0 ; set tmargin at screen 90.0 / height
set xrange [0:1] ; set yrange [0:1]
key_font = plain(18)
set key inside center center horizontal Left reverse maxrows 2 samplen 2 font key_font
plot for [k = 1:n_calls] NaN with boxes fillstyle solid noborder linecolor rgb colour_of(k) \
		title plain_text(word(calls, k)), \
	NaN with boxes fillstyle solid 0.45 noborder linecolor rgb grey title "simulated", \
	NaN with boxes fillstyle solid noborder linecolor rgb "#EFEFEF" title "within 25 %"
unset multiplot
unset output
