# SPDX-License-Identifier: Apache-2.0
#
# cli.sh: what the command-line suites of gpupool-replay, -trace, -tune and -calibrate share; they source it. TAP
# on standard output. A suite's run() leaves what it ran in $command, the exit code in $code, and the
# files out and err; a folder box, where there is one, is where the program ran.

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 99
n=0
failed=0

# ok CONDITION_RESULT NAME: one test; on failure shows the last run.
ok() {
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
		return
	fi
	failed=$((failed + 1))
	echo "not ok $n - $2"
	echo "# command: $command"
	echo "# exit code: $code"
	sed 's/^/# stdout: /' out | cut -c 1-300 | head -n 30
	sed 's/^/# stderr: /' err | head -n 20
	[ ! -d box ] || echo "# left in the folder: $(ls -A box | tr '\n' ' ')"
}

lines() {
	wc -l <"$1" | tr -d ' '
}

# has FILE WORDS...: all of these (basic regular expressions) are in the file.
has() {
	file=$1
	shift
	for word; do
		grep -q -e "$word" "$file" || return 1
	done
}

# run ARGUMENT...: runs $program, which is called $tool; sets $code, and the files out and err. A suite
# whose program leaves files runs it in an empty folder instead: it has a run() of its own.
run() {
	command="$tool $*"
	"$program" "$@" >out 2>err
	code=$?
}

# refuses CODE WORDS ARGUMENT...: that code, nothing on stdout, one line with the words on stderr, and
# nothing written.
refuses() {
	want=$1
	words=$2
	shift 2
	run "$@"
	[ "$code" -eq "$want" ] && [ ! -s out ] && [ "$(lines err)" -eq 1 ] &&
		has err "^$tool" "$words" && { [ ! -d box ] || [ -z "$(ls -A box)" ]; }
	ok $? "refused: $(echo "$*" | tr -cd '[:print:]')"
}
