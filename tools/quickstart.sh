#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh checkout to a first comparison: installs what is missing, builds, replays a trace of
# a language model with every allocator, and draws the result.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/tools/lib/setup.sh"

usage() {
  cat <<'TEXT'
Usage: tools/quickstart.sh [TRACE [OPTION...]]
Installs what is missing (Debian and Ubuntu: apt-get, with sudo unless you are
root), builds gpupool into build-release, replays TRACE (traces/llm.json) with
every allocator, and draws pictures. OPTIONs go to gpupool-replay.

  --help    this text

Examples:
  tools/quickstart.sh
  tools/quickstart.sh my-trace.json.gz --capacity=24GiB
The table goes to standard output, everything else to standard error.
TEXT
}

# draw FOLDER: the pictures, which are worth having but not worth failing for.
draw() {
  if "$tools/gpupool-plot" "$1" >"$1/pictures.txt"; then
    say "Pictures:"
    sed 's/^/    /' "$1/pictures.txt" >&2
  else
    say "No pictures: gpupool-plot failed (see above); the results are in $1"
  fi
  rm -f "$1/pictures.txt"
}

case ${1:-} in
  -h | --help) usage && exit 0 ;;
  -*) usage >&2 && exit 2 ;;
esac

trace=${1:-$root/traces/llm.json}
[ $# = 0 ] || shift
[ "$trace" = - ] || [ -r "$trace" ] || { echo "quickstart.sh: $trace: no such trace" >&2 && exit 2; }

install_missing compiler meson ninja pkg-config jansson sqlite zlib gnuplot
build "$root/build-release" --buildtype=release -Dtests=disabled

tools=$root/build-release/tools
name=$(basename "$trace")
out=$root/gpupool-out/${name%%.*}
mkdir -p "$out"
say "Replaying $trace with every allocator"
"$tools/gpupool-replay" --alloc=all --out="$out" "$@" "$trace"
draw "$out"
