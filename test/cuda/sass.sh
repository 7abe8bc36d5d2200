#!/usr/bin/env bash
# Are the kernels compiled to what they are written for?  Needs nvcc and cuobjdump,
# no GPU; speaks TAP.
#
#	sass.sh BUILD_DIRECTORY
#
# The Hopper filter must use warpgroup products in FP16 and INT8, TMA, copies to
# all blocks of a cluster and setmaxnreg, that of folded rows INT8 products and plain
# copies; the other one mma.sync in both, and in
# FP64 the largest product that there is.  Nothing may be spilled, and the compiler may not serialise a product.
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

# compile NAME ARCH [SOURCE]: $build/sass_NAME.o, the compiler's remarks beside it.
compile()
{
	"$nvcc" -std=c++17 -O3 -I../../cuda -I../../src -gencode "arch=compute_$2,code=sm_$2" \
		-Xptxas -v -c -o "$build/sass_$1.o" ../../cuda/*/"${3:-$1}.cu" 2>"$build/sass_$1.log"
	ok $? "$1 compiles for sm_$2"
	! grep -q 'serialized\|C75[0-9][0-9]' "$build/sass_$1.log"
	ok $? "$1: no product is serialised"
	! grep -qE '[1-9][0-9]* bytes (stack|spill)' "$build/sass_$1.log"
	ok $? "$1: nothing is spilled"
	cuobjdump --dump-sass "$build/sass_$1.o" >"$build/sass_$1.txt"
}

# uses NAME INSTRUCTION KERNEL: does every kernel whose name has KERNEL have it?
uses()
{
	awk -v kernel="$3" -v instruction="$2" '
		/Function :/ { if (here && !found) bad = 1; here = $3 ~ kernel; found = 0; some += here }
		here && index($0, instruction) { found = 1 }
		END { exit bad || !some || (here && !found) }' "$build/sass_$1.txt"
	ok $? "$1: $2 in every kernel of $3"
}

mkdir -p "$build"
compile filter_wgmma 90a
uses filter_wgmma HGMMA 'wgmma_kernel.*Fp16Test'
uses filter_wgmma HGMMA 'wgmma_kernel.*PaperTest'
uses filter_wgmma IGMMA 'wgmma_kernel.*Int8Test'
uses filter_wgmma UTMALDG wgmma_kernel
uses filter_wgmma MULTICAST 'wgmma_kernelILi2'
uses filter_wgmma USETMAXREG wgmma_kernel
uses filter_wgmma VIMNMX3 'wgmma_kernel.*Int8Test'
compile filter_folded 90a
uses filter_folded IGMMA folded_kernel
uses filter_folded UBLKCP folded_kernel
compile filter_mma 80
uses filter_mma HMMA.16816 'filter_kernel.*Fp16Test'
uses filter_mma IMMA.16832 'filter_kernel.*Int8Test'
compile fp64 90a filter_mma
uses fp64 DMMA.16x8x16 'filter_kernel.*Fp64Test'
uses fp64 LDS.128 'filter_kernel.*Fp64Test'
compile refine 90a
compile quantise_int8 90a
echo "1..$tests"
exit $failed
