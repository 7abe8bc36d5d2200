#!/bin/bash
# Builds, tests and measures on a machine with a GPU, in one go.
#
#	test/cuda/gpu.sh [check] [mutation] [sanitizer] [large] [bench] ...
#
# Results go to $OUT (default: test/cuda/build), one log a step; the end of each
# log is printed.  Fails if a step fails, after all of them.

cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-$PWD/test/cuda/build}
jobs=$(nproc)
failed=0

step()
{
	local name=$1 seconds=$SECONDS
	shift
	mkdir -p "$out"
	if "$@" >"$out/$name.log" 2>&1; then
		echo "== $name: ok, $((SECONDS - seconds)) s"
	else
		echo "== $name: FAILED, $((SECONDS - seconds)) s"
		failed=1
		grep -a '^not ok' "$out/$name.log" | head -30
		tail -30 "$out/$name.log"
	fi
	tail -"${TAIL:-4}" "$out/$name.log"
}

test_goals="build/instruction_test build/engine_test"
case " $* " in *" mutation "*) test_goals="$test_goals build/mutant_rho build/mutant_gamma" ;; esac
step build make -s -j"$jobs" -C test/cuda $test_goals
for name in "$@"; do
	case $name in
		bench)
			step bench-build make -s -j"$jobs" -C bench/kernel build/kernel_bench
			TAIL=20 step bench bench/kernel/build/kernel_bench --json "$out/kernel.json"
			;;
		bench-few)
			TAIL=20 step bench-few bench/kernel/build/kernel_bench --selectivity 0.01 --d 64,128,256
			;;
		bench-mma)
			TAIL=20 step bench-mma bench/kernel/build/kernel_bench --kernel mma.sync
			;;
		switches)
			step switches-build make -s -j"$jobs" -C bench/kernel build/switches_bench
			TAIL=20 step switches bench/kernel/build/switches_bench
			;;
		check) TAIL=60 step check make -s -C test/cuda check ;;
		*) TAIL=12 step "$name" make -s -C test/cuda "check-$name" ;;
	esac
done
exit $failed
