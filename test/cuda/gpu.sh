#!/bin/bash
# Builds, tests and runs benchmarks on a machine with a GPU.
#
#	test/cuda/gpu.sh [check] [mutation] [sanitizer] [large] [bench] ...
#
# gpu.log and kernel.json are written to $OUT (default: test/cuda/build); the end of each step's
# log is printed.  All steps are run; the exit status is nonzero if one fails.

cd "$(dirname "$0")/../.." || exit 1
out=${OUT:-$PWD/test/cuda/build}
jobs=$(nproc)
failed=0

log=$(mktemp)
mkdir -p "$out"
: >"$out/gpu.log"

step()
{
	local name=$1 seconds=$SECONDS result=ok
	shift
	"$@" >"$log" 2>&1 || result=FAILED
	echo "== $name: $result, $((SECONDS - seconds)) s" | tee -a "$out/gpu.log"
	cat "$log" >>"$out/gpu.log"
	if [ $result != ok ]; then
		failed=1
		grep -a '^not ok' "$log" | head -30
		tail -30 "$log"
	fi
	tail -"${TAIL:-4}" "$log"
}

test_goals="build-check"
case " $* " in *" mutation "*) test_goals="$test_goals build/fasted_no_rho.so build/fasted_no_gamma.so" ;; esac
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
		check) TAIL=60 step check make -s -C test/cuda check ;;
		*) TAIL=12 step "$name" make -s -C test/cuda "check-$name" ;;
	esac
done
exit $failed
