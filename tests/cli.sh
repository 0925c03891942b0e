# SPDX-License-Identifier: Apache-2.0
#
# cli.sh: what the command-line suites of gpupool-replay, -trace and -tune share; they source it. TAP
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
