# Functions of run-tests that report results: one line for each stage, the failures at the end,
# and all output in a file.  A script must source lib.bash first.
# shellcheck shell=bash disable=SC2154

passed=0
failed=0
summary=()

# open_log FILE FAILURES: sends all output to FILE or, if it cannot be written, to a new
# file in the temporary directory.  Failures are collected in FAILURES.
open_log() {
	all_output=$1
	failures=$2
	: >"$failures"
	if ! { mkdir -p "$(dirname "$1")" && : >"$1"; } 2>/dev/null; then
		all_output=$(mktemp "${TMPDIR:-/tmp}/fasted-check-XXXXXX.log")
	fi
	echo "All output is in $all_output"
}

# Print the output of the current stage, and the number of its lines that match a pattern.
stage_output() { tail -n "+$stage_begin" "$all_output"; }
count() { stage_output | grep -cE "$1" || true; }

# Lines by which a test reports its failure, and lines of errors, many of which tests expect.
verdicts='^not ok|[.][.][.] (FAIL|ERROR|FAILED)|^(FAIL|ERROR): [^ ]|^#   Failed test|Dubious|Failed [0-9]+/|Sanitizer|runtime error|: status [0-9]'
errors='(error|ERROR|FATAL|PANIC):'

# failed_parts NAME: prints verdicts with the lines that follow, the first lines of pg_regress's
# differences, and the end of the stage's output; without verdicts, also the first errors.
failed_parts() {
	echo "== $1: failures"
	stage_output | awk -v verdicts="$verdicts" '
		/^diff / { diffs = 1 }
		diffs { if (++shown <= 150) print; next }
		/^# test_/ { program = $0 }
		$0 ~ verdicts { if (program != "") print program; program = ""; left = 16 }
		left > 0 && !/^ok |[.][.][.] ok/ { left--; if (++lines <= 150) print }'
	echo "-- the end of its output:"
	stage_output | tail -n 40
	if (($(count "$verdicts|^diff ") == 0)); then stage_output | grep -E -m 20 "$errors" || true; fi
}

# stage NAME OK_PATTERN FAILED_PATTERN COMMAND...: runs it and counts its tests by
# the lines it prints.  If a pattern is empty, the last line is used if it says
# "N passed, N failed"; otherwise the whole stage is one test.  If FASTED_STAGES is set, only
# "build" and the stages named there run.
stage() {
	local name=$1 ok_pattern=$2 failed_pattern=$3 status=0 ok=0 bad=0 closing line begin=$SECONDS
	shift 3
	if [[ " ${FASTED_STAGES:-$name} build " != *" $name "* ]]; then return; fi
	printf '   %-14s ' "$name"
	say "$name" >>"$all_output"
	stage_begin=$(($(wc -l <"$all_output") + 1))
	"$@" </dev/null >>"$all_output" 2>&1 || status=$?
	if [[ -n $ok_pattern ]]; then
		ok=$(count "$ok_pattern")
		bad=$(count "$failed_pattern")
		if ((status == 0 && ok == 0 && bad == 0)); then
			echo "$name: no test was run" >>"$all_output"
			bad=1
		fi
	elif closing=$(stage_output | tail -n 1 | grep -E '^[0-9]+ passed, [0-9]+ failed'); then
		read -r ok _ bad _ <<<"$closing"
	elif ((status == 0)); then
		ok=1
	fi
	if ((status != 0 && bad == 0)); then bad=1; fi
	passed=$((passed + ok))
	failed=$((failed + bad))
	line=$(printf '%4d passed %4d failed %5d s' "$ok" "$bad" "$((SECONDS - begin))")
	echo "$line"
	summary+=("$(printf '%-14s %s' "$name" "$line")")
	if ((bad > 0)); then failed_parts "$name" >>"$failures"; fi
	return "$((bad > 0))"
}

# finish TITLE: prints the failures, the file of all output, and the totals.  A stage of
# FASTED_STAGES that did not run is a failure.
finish() {
	local line name
	for name in ${FASTED_STAGES:-}; do
		[[ " ${summary[*]} " == *" $name "* ]] && continue
		echo "stage $name did not run" >>"$failures"
		failed=$((failed + 1))
	done
	cat "$failures"
	{
		say "Summary ($1)"
		for line in "${summary[@]}"; do echo "   $line"; done
	} >>"$all_output"
	echo "All output is in $all_output"
	echo "$passed passed, $failed failed" | tee -a "$all_output"
	exit "$((failed > 0))"
}
