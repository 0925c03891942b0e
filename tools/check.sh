#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with debugging and runs every test; the last line is "N passed, N failed".
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$root/tools/lib/setup.sh"

usage() {
  cat <<'TEXT'
Usage: tools/check.sh [OPTION]...
Installs what is missing (as tools/quickstart.sh does), builds gpupool into
build-debug and runs the whole test suite. Where clang-format 14 is installed,
the format of the sources counts as one test more.

  --sanitize   once more under AddressSanitizer and UndefinedBehaviorSanitizer
  --tsan       the tests with threads once more under ThreadSanitizer
  --valgrind   unit and conformance tests once more under valgrind
  --long       every recording against the model of PyTorch's allocator: those in
               traces/ and in the folder that GPUPOOL_RECORDINGS names, if any
  --long=DIR   the same with the recordings in DIR
  --werror     warnings of the compiler are errors
  --help       this text

The last line is "N passed, N failed", counted over all runs, each case of a
test by itself. Exit: 0 all passed, 1 something failed, 2 usage.
TEXT
}

sanitize=false tsan=false valgrind=false long=false recordings=${GPUPOOL_RECORDINGS:-}
options=(--buildtype=debug)
needs=(compiler meson ninja pkg-config jansson sqlite zlib cmocka gnuplot python)
for arg in "$@"; do
  case $arg in
    --sanitize) sanitize=true ;;
    --tsan) tsan=true ;;
    --valgrind) valgrind=true needs+=(valgrind) ;;
    --long) long=true ;;
    --long=?*) long=true recordings=${arg#*=} ;;
    --werror) options+=(-Dwerror=true) ;;
    -h | --help) usage && exit 0 ;;
    *) printf 'check.sh: unknown option "%s"\n\n' "$arg" >&2 && usage >&2 && exit 2 ;;
  esac
done

[ -z "$recordings" ] || [ -d "$recordings" ] || {
  printf 'check.sh: %s: no such folder of recordings\n' "$recordings" >&2 && exit 2
}

passed=0 failed=0

# count LOG: "passed failed skipped". Cases that a test prints as TAP count each by itself; a test
# that fails without saying which case counts once.
count() {
  python3 - "$1" <<'PYTHON'
import json, re, sys
passed = failed = skipped = 0
try:
    runs = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
except OSError:
    runs = []
for run in runs:
    cases = re.findall(r"^(not )?ok\b([^\n]*)", run.get("stdout") or "", re.M)
    bad = sum(1 for no, text in cases if no)
    skip = sum(1 for no, text in cases if not no and re.search(r"# *skip", text, re.I))
    good = len(cases) - bad - skip
    result = run["result"]
    if not cases:
        good, skip = result in ("OK", "EXPECTEDFAIL"), result == "SKIP"
    if not bad and result not in ("OK", "EXPECTEDFAIL", "SKIP"):
        bad = 1
    passed, failed, skipped = passed + good, failed + bad, skipped + skip
if not runs:
    failed += 1
print(passed, failed, skipped)
PYTHON
}

# run_tests WHAT FOLDER ARGUMENT...: meson test; adds to the totals and never fails by itself.
run_tests() {
  local what=$1 logs=$2/meson-logs good bad skip
  say "Testing: $what"
  rm -f "$logs"/testlog*.json
  meson test -C "$2" --no-rebuild --print-errorlogs "${@:3}" >&2 || true
  # With a setup or below a wrapper, the log is named after it.
  read -r good bad skip < <(count "$logs"/testlog*.json)
  printf '%s: %d passed, %d failed, %d skipped\n' "$what" "$good" "$bad" "$skip"
  passed=$((passed + good)) failed=$((failed + bad))
}

# build_or_count WHAT FOLDER OPTION...: a build that fails is one failure.
build_or_count() {
  build "${@:2}" && return 0
  printf '%s: the build failed\n' "$1"
  failed=$((failed + 1))
  return 1
}

# Other versions of clang-format than .clang-format is written for want other line breaks.
check_format() {
  clang-format --version 2>/dev/null | grep -q 'version 14\.' || return 0
  say 'Checking the format'
  if (cd "$root" && find allocators replay tests tools -name '*.[ch]' -print0 |
    xargs -0 clang-format --dry-run -Werror) >&2; then
    passed=$((passed + 1))
  else
    printf 'format: clang-format -i would change the files named above\n'
    failed=$((failed + 1))
  fi
}

# Sanitized programs are two to ten times slower. They do without CUDA, which only a GPU would use.
run_sanitized() {
  local folder=$root/build-asan
  build_or_count sanitizers "$folder" "${options[@]}" -Db_sanitize=address,undefined \
    -Db_lundef=false -Dcuda=disabled || return 0
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 \
  UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    run_tests 'address and undefined behaviour' "$folder" --timeout-multiplier=5
}

# ThreadSanitizer does not start where the kernel spreads addresses wider than it was built for;
# without spreading (setarch -R) it does, where the container allows that.
tsan_launcher() {
  local probe=$1/probe
  mkdir -p "$1"
  printf 'int main(void) { return 0; }\n' >"$probe.c"
  ${CC:-cc} -fsanitize=thread "$probe.c" -o "$probe" 2>/dev/null || return 1
  "$probe" 2>/dev/null && return 0
  setarch "$(uname -m)" -R "$probe" 2>/dev/null && echo "setarch $(uname -m) -R"
}

run_tsan() {
  local folder=$root/build-tsan launcher
  if ! launcher=$(tsan_launcher "$folder.probe"); then
    rm -rf "$folder.probe"
    say "ThreadSanitizer does not run on this machine: left out"
    return 0
  fi
  rm -rf "$folder.probe"
  build_or_count threads "$folder" "${options[@]}" -Db_sanitize=thread -Db_lundef=false \
    -Dcuda=disabled || return 0
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
    run_tests threads "$folder" --timeout-multiplier=10 --suite=threads \
    ${launcher:+"--wrap=$launcher"}
}

run_valgrind() {
  run_tests valgrind "$root/build-debug" --timeout-multiplier=30 --suite=unit --suite=conformance \
    --setup=valgrind
}

# One case for each recording; anything but a difference in one (exit 1) is a case of its own.
run_long() {
  local line
  say 'Verifying recordings'
  while read -r line; do
    printf '%s\n' "$line" >&2
    case $line in
      'ok '*) passed=$((passed + 1)) ;;
      'not ok '*) failed=$((failed + 1)) ;;
    esac
  done < <("$root/tools/verify_recordings.py" "$root/build-debug/tools/gpupool-replay" \
    "$root/traces" ${recordings:+"$recordings"} || [ $? = 1 ] || echo "not ok - tools/verify_recordings.py")
}

install_missing "${needs[@]}"
check_format
if build_or_count build "$root/build-debug" "${options[@]}"; then
  run_tests 'all tests' "$root/build-debug"
  ! $valgrind || run_valgrind
  ! $long || run_long
fi
! $sanitize || run_sanitized
! $tsan || run_tsan
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
