#!/usr/bin/env bash
# Runs the tests of the CUDA engine that were built in the directory BUILD:
#
#	check.sh BUILD				on the GPU
#	check.sh BUILD --unit		joins by unit tests on the GPU
#	check.sh BUILD TOOL...		small cases with tools of compute-sanitizer
#
# Tests that can run in parallel come first, FASTED_JOBS (8) on each GPU.  Tests that measure times or
# free memory follow one at a time.  Each TAP output is printed in one piece.  All tests run even if
# some fail.  A test that crashes or was not built counts as a failed test.
set -uo pipefail
build=$(realpath "$1")
shift
gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true)
max_jobs=$((${FASTED_JOBS:-8} * (gpus > 0 ? gpus : 1)))
all=$(seq -s , 0 "$((gpus > 0 ? gpus - 1 : 0))")
failed=0
started=0
pids=()

# finish NAME STATUS SECONDS: prints the output and status of a test.
finish() {
	cat "$build/$1.tap"
	[[ $2 == 0 ]] || grep -q '^not ok' "$build/$1.tap" || echo "not ok $(($(grep -c '^ok' "$build/$1.tap") + 1)) - $1 runs to its end"
	echo "# $1: $([[ $2 == 0 ]] && echo passed || echo "status $2"), $3 s"
	[[ $2 == 0 ]] || failed=1
}

# beside NAME COMMAND...: runs a test in the background, on the GPUs in turn.
beside() {
	local name=$1 seconds
	shift
	while (($(jobs -rp | wc -l) >= max_jobs)); do wait -n || true; done
	seconds=$SECONDS
	(
		status=0
		CUDA_VISIBLE_DEVICES=${visible-$((started % (gpus > 0 ? gpus : 1)))} "$@" >"$build/$name.tap" 2>&1 || status=$?
		flock 9
		finish "$name" "$status" "$((SECONDS - seconds))"
		exit "$failed"
	) 9>>"$build/lock" &
	pids+=($!)
	started=$((started + 1))
}

# alone NAME COMMAND...: runs a test in the foreground.
alone() {
	local name=$1 seconds=$SECONDS status=0
	shift
	"$@" >"$build/$name.tap" 2>&1 || status=$?
	finish "$name" "$status" "$((SECONDS - seconds))"
}

library=(env FASTED_ENGINE_LIBRARY="$build/fasted_cuda.so")

# await: waits for the tests in the background, each of which prints its result when it ends.
await() {
	local pid
	for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
}

# Joins that unit tests compare with brute force, in all ways of this engine; long ones first.  Brute
# force takes most of the time, so that most programs run with fewer cases.
unit_tests() {
	local unit=$build/unit metric name quick=("${library[@]}" FASTED_QUICK=1)
	for metric in 0 1 2; do beside "joins-$metric" "${quick[@]}" "$unit/test_joins" "$metric"; done
	for name in components partitions sets engine set_limits; do
		beside "unit-$name" "${library[@]}" "$unit/test_$name"
	done
	for name in bits prune; do beside "unit-$name" "${quick[@]}" "$unit/test_$name"; done
	for metric in 0 1 2; do
		visible=$all beside "joins-three-$metric" "${quick[@]}" FASTED_ENGINE_DEVICES=3 "$unit/test_joins" "$metric"
	done
	visible=$all beside bits-three "${quick[@]}" FASTED_ENGINE_DEVICES=3 "$unit/test_bits"
}

if [[ ${1:-} == --unit ]]; then
	unit_tests
	await
	exit "$failed"
fi

# With racecheck, a join takes about a second.  Therefore tests whose kernels are covered by other
# tests are skipped: quantise, devices.
if (($# > 0)); then
	for tool in "$@"; do
		run=(compute-sanitizer --tool "$tool" --error-exitcode 1)
		tests=(prune connections representatives)
		# without padding, a write after an array may hit the next array undetected
		[[ $tool != memcheck ]] || run+=(--padding 4096)
		for name in joins partitions bits components nearest; do
			beside "$tool-$name" "${library[@]}" "${run[@]}" "$build/unit/test_$name" --small
		done
		if [[ $tool != racecheck ]]; then
			tests+=(devices)
			beside "$tool-quantise" "${run[@]}" "$build/quantise_test"
		fi
		for name in "${tests[@]}"; do beside "$tool-$name" "${run[@]}" "$build/${name}_test" --small; done
		beside "$tool-instruction" "${run[@]}" "$build/instruction_test"
	done
	await
	exit "$failed"
fi

# Long tests come first.  The unit tests run with this engine; those of nearest neighbors also with a
# build that compares rows of a set once even if they are few, and with several GPUs.
once=(env FASTED_QUICK=1 FASTED_ENGINE_LIBRARY="$build/fasted_once.so")
beside fault_test "$build/fault_test"
unit_tests
visible=$all beside devices_test "$build/devices_test"
beside nearest "${library[@]}" "$build/unit/test_nearest"
for name in prune_test connections_test; do beside "$name" "$build/$name"; done
beside nearest-once "${once[@]}" "$build/unit/test_nearest"
visible=$all beside nearest-once-two "${once[@]}" FASTED_ENGINE_DEVICES=2 "$build/unit/test_nearest"
visible=$all beside nearest-three "${library[@]}" FASTED_QUICK=1 FASTED_ENGINE_DEVICES=3 "$build/unit/test_nearest"
beside double "${library[@]}" FASTED_QUICK=1 "$build/unit/test_double"
for name in representatives_test quantise_test instruction_test; do beside "$name" "$build/$name"; done
await

alone set_test "$build/set_test"
alone life_test "$build/life_test"
alone life_test-idle "$build/life_test" --idle 10
alone life_test-crowded "$build/life_test" --crowded
alone life_test-fault "$build/life_test" --fault
exit "$failed"
