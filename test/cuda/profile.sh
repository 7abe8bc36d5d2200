#!/bin/bash
# Profiles one launch of a kernel with Nsight Compute: profile.sh KERNEL D
cd "$(dirname "$0")/../../bench/kernel/build" || exit 1
ncu --clock-control none --kernel-name "regex:$1" --launch-skip ${SKIP:-0} --launch-count 1 \
	--section SpeedOfLight --section MemoryWorkloadAnalysis --section InstructionStats \
	--section WarpStateStats --section Occupancy \
	--metrics group:smsp__pcsamp_warp_stall_reasons \
	./kernel_bench --d "$2" --runs 1 2>&1 | grep -E '^ +[A-Za-z_].* [0-9.,]+ *$|Kernel|kernel'
