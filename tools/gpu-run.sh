#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Replays the reference traces through all allocators on a real GPU and, beside it, on the simulated
# one, and draws the pictures: what results/ holds for an H200.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: tools/gpu-run.sh [BUILD [OUT [JOB...]]]
Needs an NVIDIA GPU with its driver, and gpupool built in BUILD (default: build-release;
tools/quickstart.sh makes one). Writes OUT/JOB/DEVICE (default: results/local).

JOBs (default: all of them):
  calibrate    what the driver's calls cost: a device profile    about 30 s
  llm          traces/llm.json: six steps of LLM training      about 30 s
  churn_1MiB   1 000 pairs of 1 MiB: what cudaMalloc costs      about 5 s
  churn_256B   1 000 000 pairs of 256 bytes: what a pool saves  about 6 minutes,
               nearly all of it cudaMalloc and cudaFree
  scaling      1, 2, 4, 8, 16 threads, each with its copy of a job  about 4 minutes
TEXT
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${1:-$root/build-release}") out=$(realpath -m "${2:-$root/results/local}")
shift $(($# < 2 ? $# : 2))
jobs=("$@")
[ $# -gt 0 ] || jobs=(calibrate llm churn_1MiB churn_256B scaling)

calibrate=$build/tools/gpupool-calibrate
replay=$build/tools/gpupool-replay gen=$build/tools/gpupool-gen plot=$build/tools/gpupool-plot
if [ ! -x "$replay" ]; then
  printf 'gpu-run.sh: no %s; build first: tools/quickstart.sh\n' "$replay" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# job NAME FOLDER TRACE OPTION...: the same replay on both devices; results name the trace as it is
# called in its folder
job() {
  local name=$1 trace=$3 device
  cd "$2"
  for device in cuda sim; do
    printf '\n== %s on %s\n' "$name" "$device"
    "$replay" --device=$device --alloc=all --windows=400 --out="$out/$name/$device" "${@:4}" "$trace"
    if command -v gnuplot >/dev/null; then
      "$plot" "$out/$name/$device"
    fi
  done
}

# scaling: threads that each replay a whole trace, and chains of them, on both devices
scaling() {
  local device mode trace
  cd "$root"
  for device in cuda sim; do
    for mode in each chain; do
      for trace in llm_train llm_serve; do
        [ $mode = each ] || [ $trace = llm_train ] || continue
        printf '\n== scaling, %s %s on %s\n' $mode $trace $device
        "$replay" --device=$device --alloc=all --threads=1,2,4,8,16 --threads-mode=$mode \
          --scale-sizes=1/16 --repeat=3 --out="$out/scaling/$device-$mode-$trace" \
          "traces/$trace.jsonl.gz"
        if command -v gnuplot >/dev/null; then
          "$plot" "$out/scaling/$device-$mode-$trace"
        fi
      done
    done
  done
}

for name in "${jobs[@]}"; do
  case $name in
    calibrate)
      mkdir -p "$out/calibrate"
      "$calibrate" --out="$out/calibrate/profile.json" | tee "$out/calibrate/table.txt"
      ;;
    llm)
      job llm "$root" traces/llm.json --repeat=9
      ;;
    churn_1MiB)
      "$gen" churn --count=1000 --size=1MiB --output="$scratch/churn_1MiB.jsonl"
      job churn_1MiB "$scratch" churn_1MiB.jsonl --repeat=9
      ;;
    churn_256B)
      "$gen" churn --count=1000000 --size=256 --output="$scratch/churn_256B.jsonl"
      job churn_256B "$scratch" churn_256B.jsonl --repeat=1
      ;;
    scaling) scaling ;;
    *)
      printf 'gpu-run.sh: unknown job "%s"\n\n' "$name" >&2
      usage >&2
      exit 2
      ;;
  esac
done
command -v gnuplot >/dev/null ||
  printf '\nNo gnuplot here: copy %s to a machine that has it and run gpupool-plot on each folder.\n' "$out"
