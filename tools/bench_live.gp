# SPDX-License-Identifier: Apache-2.0
#
# bench_live.gp: ns per call by number of live blocks, a line for each allocator.
#
#   gnuplot -c bench_live.gp live.tsv OUTPUT.png
#
# Colours as in plot/style.gp, told apart by people with any common colour blindness.

set encoding utf8
set datafile separator "\t"
stats ARG1 skip 1 nooutput
n = int(STATS_columns) - 1
set terminal pngcairo size 1600, 900 font "DejaVu Sans,15" background "white" linewidth 2
set output ARG2
array colours[8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#707070"]
set logscale xy 10
set format x "10^{%T}"
set xrange [80:1.3e6]
set grid linecolor rgb "#CCCCCC" linewidth 0.6
set border 3 linecolor rgb "#707070"
set tics nomirror
set key outside right noenhanced
set xlabel "live blocks"
set title "Cost of a call by live blocks: blocks freed and allocated by chance (ns)" font "DejaVu Sans:Bold,18"
plot for [i = 1:n] ARG1 using 1:(column(i + 1)) with linespoints \
	linecolor rgb colours[(i - 1) % 8 + 1] dashtype 1 + (i > 8) pointtype 4 + i title columnhead(i + 1)
