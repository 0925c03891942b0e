#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install: what `meson install` puts into a folder works from there with nothing in the
# environment, and a program from outside compiles against it. Output is TAP. Needs meson and
# pkg-config in $PATH.
#
# GPUPOOL_BUILD  the build folder            GPUPOOL_SOURCE  the folder of the project
# GPUPOOL_CC     compiler and its options    GPUPOOL_TRACE_DIR  a folder with tiny_lifo.json

set -u
build=${GPUPOOL_BUILD:?the build folder}
source=${GPUPOOL_SOURCE:?the folder of the project}
cc=${GPUPOOL_CC:?the compiler}
trace=${GPUPOOL_TRACE_DIR:?the folder of the traces}/tiny_lifo.json
unset GPUPOOL_PLOT_DIR GPUPOOL_TRACE_DIR LD_LIBRARY_PATH
for tool in meson pkg-config; do
	if ! command -v $tool >/dev/null; then
		echo "1..0 # SKIP $tool is not in \$PATH"
		exit 0
	fi
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
n=0

# ok DESCRIPTION COMMAND...: one test, which passes when the command succeeds.
ok()
{
	what=$1
	shift
	n=$((n + 1))
	if "$@" >"$dir/said" 2>&1; then
		echo "ok $n - $what"
	else
		echo "not ok $n - $what"
		sed 's/^/# /' "$dir/said"
	fi
}

# holds FOLDER FILE...: all of them are there and are not empty.
holds()
{
	folder=$1
	shift
	for file in "$@"; do
		[ -s "$folder/$file" ] || { echo "no $folder/$file" && return 1; }
	done
}

# Of libraries, only those that every system has or that are asked for: never the CUDA runtime.
needs_no_cuda_runtime()
{
	for program in "$bin"/gpupool-*; do
		ldd "$program" || return 1
	done >"$dir/needs"
	! grep -e libcudart -e libgpupool -e 'not found' "$dir/needs"
}

# same_traces: each file of traces/ that the sources have, byte by byte
same_traces()
{
	for file in "$source"/traces/*.json "$source"/traces/*.gz "$source"/traces/*.md; do
		cmp "$file" "$prefix/share/gpupool/traces/${file##*/}" || return 1
	done
}

compiles()
{
	PKG_CONFIG_PATH=$pc_dir
	export PKG_CONFIG_PATH
	flags=$(pkg-config --cflags --libs --static gpupool) || return 1
	echo "$flags"
	# shellcheck disable=SC2086 # lists of words
	$cc -Wall -Wextra -Wpedantic -Werror "$source/tests/example_embed.c" $flags -o "$dir/embed"
}

embeds()
{
	LD_LIBRARY_PATH=${pc_dir%/pkgconfig} "$dir/embed" && rm "$dir/embed"
}

same_version()
{
	version=$(PKG_CONFIG_PATH=$pc_dir pkg-config --modversion gpupool)
	"$bin/gpupool-replay" --version | grep -F "$version"
}

draws()
{
	"$bin/gpupool-plot" "$dir/run" && holds "$dir/run" memory.png compare.svg
}

ok "installs" meson install -C "$build" --no-rebuild --destdir "$dir/moved"
bin=$(find "$dir/moved" -name gpupool-replay -type f)
bin=${bin%/*} prefix=${bin%/bin*}
pc_dir=$(find "$dir/moved" -name gpupool.pc)
pc_dir=${pc_dir%/*}

ok "programs" holds "$bin" gpupool-calibrate gpupool-gen gpupool-plot gpupool-replay \
	gpupool-trace gpupool-tune
ok "headers" holds "$prefix/include/gpupool" allocator.h base.h device/device.h
ok "man pages" holds "$prefix/share/man/man1" gpupool-calibrate.1 gpupool-gen.1 gpupool-plot.1 \
	gpupool-replay.1 gpupool-trace.1 gpupool-tune.1
ok "documents" holds "$prefix/share/doc/gpupool" LICENSE README.md
ok "traces" same_traces
ok "programs need no CUDA runtime and no library of ours" needs_no_cuda_runtime
ok "replays" "$bin/gpupool-replay" --device=sim --alloc=all --repeat=1 --out="$dir/run" "$trace"
ok "generates" "$bin/gpupool-gen" churn --count=10
ok "looks into a trace" "$bin/gpupool-trace" info "$trace"
if command -v gnuplot >/dev/null; then
	ok "finds its scripts and draws" draws
else
	n=$((n + 1))
	echo "ok $n - finds its scripts and draws # SKIP gnuplot is not installed"
fi
ok "pkg-config and programs agree on the version" same_version
ok "a program from outside compiles" compiles
ok "a program from outside runs" embeds
echo "1..$n"
