#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures on a real GPU what results/ holds. Each job is a function job_NAME with a line "#job" for
# the usage in front of it; a new one needs nothing else. It runs in a subshell, in the project's
# root, and finds:
#
#   $here                          OUT/NAME, its folder, made; what it prints is $here/log.txt, too
#   $scratch                       a folder that goes away
#   $recordings                    traces of real programs, by their names in traces/
#   tool NAME ARGUMENT...          a program of the build: tool gpupool-gen, tool test_device_cuda
#   replay FOLDER ARGUMENT...      gpupool-replay into $here/FOLDER, with windows for a picture
#   on_both ARGUMENT...            replay cuda, replay sim
#
# Its exit code is the job's; a job that fails does not keep the others from running.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
recordings="llm_train llm_serve vision_train diffusion multi_stream"

# ---- jobs, in the order in which they run ----

#job calibrate   what the driver's calls cost: a device profile           30 s
job_calibrate() {
  tool gpupool-calibrate --out="$here/profile.json" | tee "$here/table.txt"
}

#job tests       the GPU suite                                            60 s
job_tests() {
  local failed=0
  for test in device_cuda work_cuda oom_cuda "contents cuda" "check_contents cuda" "growth cuda"; do
    # shellcheck disable=SC2086
    suite "" $test || failed=1
  done
  return $failed
}

#job memcheck    the same below compute-sanitizer, but for the full card  3 minutes
job_memcheck() {
  local failed=0
  for test in device_cuda work_cuda "contents cuda" "check_contents cuda" "growth cuda"; do
    # Errors of calls are no errors of memory: the suite asks for the impossible and looks at the answer.
    # shellcheck disable=SC2086
    suite "compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1" $test || failed=1
  done
  return $failed
}

#job llm         traces/llm.json on the GPU and simulated                 30 s
job_llm() {
  on_both --repeat=9 traces/llm.json
}

#job mirror      the five recordings: where the simulation differs        1 minute
job_mirror() {
  local failed=0 profile=$out/calibrate/profile.json
  # What this very card was found to cost, if it was measured; else the built-in profile.
  [ -e "$profile" ] && profile=--profile=$profile || profile=
  for name in $recordings; do
    # shellcheck disable=SC2086
    replay "$name" --mirror --repeat=3 $profile "traces/$name.jsonl.gz" || failed=1
  done
  return $failed
}

#job work        the same with GPU work behind each allocation            1 minute
job_work() {
  local failed=0
  for name in $recordings; do
    replay "$name" --device=cuda --work=memset --repeat=1 "traces/$name.jsonl.gz" || failed=1
  done
  for work in memset busy:50 recorded; do
    for device in cuda sim; do
      replay "llm-${work%:*}-$device" --device=$device --work=$work --repeat=1 traces/llm.json || failed=1
    done
  done
  return $failed
}

#job check       the same with the contents of every block verified       1 minute
job_check() {
  for name in $recordings; do
    replay "$name" --device=cuda --check --repeat=1 "traces/$name.jsonl.gz"
  done
}

#job churn_1MiB  1 000 pairs of 1 MiB: what cudaMalloc costs              5 s
job_churn_1MiB() {
  churn --count=1000 --size=1MiB --repeat=9
}

#job churn_256B  100 000 pairs of 256 bytes: what a pool saves            1 minute
job_churn_256B() {
  churn --count=100000 --size=256 --repeat=1
}

#job scaling     1 to 16 threads, each with a job of its own, and chains  4 minutes
job_scaling() {
  local failed=0 train=traces/llm_train.jsonl.gz threads=--threads=1,2,4,8,16
  local each="$threads --threads-mode=each --scale-sizes=1/16 --repeat=3"
  # shellcheck disable=SC2086
  {
    replay each --device=cuda $each $train || failed=1
    # Sizes up to 1 MiB, and `fixed` with a block that they all fit in.
    tool gpupool-replay --device=cuda --alloc=all --alloc=fixed:block=1MiB,when_empty=grow --windows=400 \
      --out="$here/each-1MiB" $each --cap-sizes=1MiB $train || failed=1
    replay chain --device=cuda $threads --threads-mode=chain --scale-sizes=1/16 --repeat=3 $train || failed=1
  }
  return $failed
}

#job colour      slab colouring and reuse as the GPU sees them              10 s
job_colour() {
  tool bench_colour_cuda
}

#job bench       the allocators' own code; needs no GPU                     2 minutes
job_bench() {
  GPUPOOL_TRACE_DIR=traces tool bench_hotpath --json="$here/bench.json"
}

#job plots       the pictures of all that is in OUT; needs gnuplot, no GPU
job_plots() {
  local failed=0
  while read -r summary; do
    tool gpupool-plot "$(dirname "$summary")" || failed=1
  done < <(find "$out" -name summary.tsv | sort)
  return $failed
}

# ---- what they share ----

tool() {
  local name=$1 folder=tools
  shift
  [[ $name == test_* ]] && folder=tests
  [[ $name == bench_* ]] && folder=tests/bench
  "$build/$folder/$name" "$@"
}

replay() {
  local folder=$1
  shift
  printf '\n== %s\n' "$folder"
  tool gpupool-replay --alloc=all --windows=400 --out="$here/$folder" "$@"
}

on_both() {
  local failed=0
  for device in cuda sim; do
    replay $device --device=$device "$@" || failed=1
  done
  return $failed
}

# suite WRAPPER NAME ARGUMENT...: a test, its TAP beside the log
suite() {
  local wrapper=$1 name=$2 code
  shift 2
  # shellcheck disable=SC2086
  $wrapper "$build/tests/test_$name" "$@" >"$here/$name.tap" 2>&1
  code=$?
  printf '%s: %d passed, %d failed, exit code %d\n' "$name" "$(grep -c '^ok' "$here/$name.tap")" \
    "$(grep -c '^not ok [0-9]' "$here/$name.tap")" $code
  return $code
}

# churn COUNT SIZE OPTION...: results name the trace as it is called in its folder
churn() {
  local trace=${FUNCNAME[1]#job_}.jsonl
  tool gpupool-gen churn "$1" "$2" --output="$scratch/$trace" || return
  cd "$scratch" || return
  on_both "${@:3}" "$trace"
}

# What it was measured on: no host name, no user, no paths.
describe_machine() {
  printf 'date      %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
  printf 'gpupool   %s%s\n' "$(tool gpupool-replay --version | head -n 1)" \
    "$(git -C "$root" log -1 --format=', commit %h' 2>/dev/null)"
  printf 'cpu       %s, %s cores\n' \
    "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)" "$(nproc)"
  printf 'memory    %s\n' "$(sed -n 's/^MemTotal: *//p' /proc/meminfo)"
  printf 'os        %s, %s\n' "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(uname -srm)"
  if ! command -v nvidia-smi >/dev/null; then
    printf 'gpu       not told: no nvidia-smi\n'
    return
  fi
  local fields="name driver_version memory.total compute_cap clocks.sm clocks.mem clocks.max.sm \
clocks.max.mem power.limit ecc.mode.current mig.mode.current persistence_mode"
  for field in $fields; do
    printf 'gpu %-18s %s\n' "$field" \
      "$(nvidia-smi --id=0 --query-gpu="$field" --format=csv,noheader 2>/dev/null)"
  done
  nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/gpu cuda               \1/p'
}

usage() {
  cat <<'TEXT'
Usage: tools/gpu-run.sh [BUILD [OUT [JOB...]]]
Needs an NVIDIA GPU with its driver, and gpupool built in BUILD (default: build-release;
tools/quickstart.sh makes one). Writes OUT/JOB and OUT/machine.txt (default: results/local).

JOBs (default: all of them), with about how long each takes:
TEXT
  sed -n 's/^#job /  /p' "${BASH_SOURCE[0]}"
}

has_gpu() {
  tool gpupool-replay --device=cuda --alloc=raw --repeat=1 --quiet --out="$scratch/gpu" \
    "$root/traces/tiny_lifo.json" >/dev/null
}

# run NAME: one job, its log without the folders of this machine, and how it went
run() {
  local start=$SECONDS code log=/dev/null
  here=$out/$1
  if [ "$1" != plots ]; then
    mkdir -p "$here" || return
    log=$here/log.txt
  fi
  printf '\n==== %s\n' "$1"
  (cd "$root" && "job_$1") 2>&1 | sed -u "s|$out/||g; s|$scratch/||g; s|$build/||g; s|$root/||g" | tee "$log"
  code=${PIPESTATUS[0]}
  printf '\n==== %s: exit code %d, %d s\n' "$1" "$code" $((SECONDS - start))
  return "$code"
}

case ${1:-} in -h | --help) usage && exit 0 ;; esac
build=$(realpath -m "${1:-$root/build-release}") out=$(realpath -m "${2:-$root/results/local}")
shift $(($# < 2 ? $# : 2))
jobs=("$@")
[ $# -gt 0 ] || mapfile -t jobs < <(sed -n 's/^#job \([^ ]*\).*/\1/p' "${BASH_SOURCE[0]}")
for name in "${jobs[@]}"; do
  if ! declare -F "job_$name" >/dev/null; then
    printf 'gpu-run.sh: unknown job "%s"\n\n' "$name" >&2
    usage >&2
    exit 2
  fi
done
if [ ! -x "$build/tools/gpupool-replay" ]; then
  printf 'gpu-run.sh: no programs in %s; build first: tools/quickstart.sh\n' "$build" >&2
  exit 2
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out" || exit 2
if [ "${jobs[*]}" != plots ]; then
  has_gpu || exit 3
  describe_machine | tee "$out/machine.txt"
fi
failed=()
for name in "${jobs[@]}"; do
  run "$name" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\ngpu-run.sh: with errors: %s\n' "${failed[*]}" >&2
  exit 1
fi
