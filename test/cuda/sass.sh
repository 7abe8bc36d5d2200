#!/usr/bin/env bash
# Checks that the compiled kernels use the intended instructions.  Needs nvcc and cuobjdump, but
# no GPU; prints TAP.
#
#	sass.sh BUILD_DIRECTORY
#
# Of the Hopper filters, the wgmma filter must use warpgroup products in FP16 and INT8, TMA,
# multicast copies and setmaxnreg; the folded one INT8 products and bulk copies.  The other
# filter must use mma.sync in both, and the largest product in FP64.  No register may be
# spilled, and no product serialized.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
build=$1
nvcc=${NVCC:-nvcc}
tests=0
failed=0

ok()
{
	tests=$((tests + 1))
	if [ "$1" = 0 ]; then
		echo "ok $tests - $2"
	else
		echo "not ok $tests - $2"
		failed=1
	fi
}

# compile NAME ARCH [SOURCE]: makes $build/sass_NAME.o, with the compiler's output in a log, in the background.
compile()
{
	{
		"$nvcc" -std=c++17 -O3 -I../../cuda -I../../src -gencode "arch=compute_$2,code=sm_$2" \
			-Xptxas -v -c -o "$build/sass_$1.o" ../../cuda/*/"${3:-$1}.cu" &&
			cuobjdump --dump-sass "$build/sass_$1.o" >"$build/sass_$1.txt"
	} >"$build/sass_$1.log" 2>&1 &
	compilers[$1]=$!
}

# compiled NAME: waits for the compiler.
compiled()
{
	wait "${compilers[$1]}"
	ok $? "$1 compiles"
	! grep -q 'serialized\|C75[0-9][0-9]' "$build/sass_$1.log"
	ok $? "$1: no product is serialized"
	! grep -qE '[1-9][0-9]* bytes (stack|spill)' "$build/sass_$1.log"
	ok $? "$1: no register is spilled"
}

# uses NAME INSTRUCTION KERNEL: checks that all kernels matching KERNEL have the instruction.
uses()
{
	awk -v kernel="$3" -v instruction="$2" '
		/Function :/ { if (here && !found) bad = 1; here = $3 ~ kernel; found = 0; some += here }
		here && index($0, instruction) { found = 1 }
		END { exit bad || !some || (here && !found) }' "$build/sass_$1.txt"
	ok $? "$1: $2 in every kernel of $3"
}

mkdir -p "$build"
declare -A compilers
for name in filter_wgmma filter_folded refine quantise_int8; do compile "$name" 90a; done
compile filter_mma 80
compile fp64 90a filter_mma
compiled filter_wgmma
uses filter_wgmma HGMMA 'wgmma_kernel.*Fp16Test'
uses filter_wgmma IGMMA 'wgmma_kernel.*Int8Test'
uses filter_wgmma UTMALDG wgmma_kernel
uses filter_wgmma MULTICAST 'wgmma_kernelILi2'
uses filter_wgmma USETMAXREG wgmma_kernel
uses filter_wgmma VIMNMX3 'wgmma_kernel.*Int8Test'
compiled filter_folded
uses filter_folded IGMMA folded_kernel
uses filter_folded UBLKCP folded_kernel
compiled filter_mma
uses filter_mma HMMA.16816 'filter_kernel.*Fp16Test'
uses filter_mma IMMA.16832 'filter_kernel.*Int8Test'
compiled fp64
uses fp64 DMMA.16x8x16 'filter_kernel.*Fp64Test'
uses fp64 LDS.128 'filter_kernel.*Fp64Test'
compiled refine
compiled quantise_int8
echo "1..$tests"
exit $failed
