/*-------------------------------------------------------------------------
 *
 * switches.h
 *	  The optimisations of the paper's section 3.3, one switch each.
 *
 * A configuration of the mma.sync filter is a type derived from AllOn with some
 * members changed.  The engine uses AllOn; bench/kernel compiles one more for
 * every row of the paper's leave-one-out table (Table 6).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_SWITCHES_H
#define FASTED_CUDA_SWITCHES_H

#include "rows/quantised.h"

namespace fasted
{

struct AllOn
{
	/* 3.3.2 block tile: warps that share what is in shared memory */
	static constexpr int kWarpsM = 2;
	static constexpr int kWarpsN = 2;
	static constexpr int kWarpRows = 64;	/* of a warp's products; always 64 columns */

	/* bytes of a row's slice that a step multiplies */
	static constexpr int kStep = kStepBytes;

	/* 3.3.4 copies that bypass registers; false needs kStages = 1 */
	static constexpr bool kAsyncCopy = true;

	/* 3.3.5 depth of the pipeline; 1: none */
	static constexpr int kStages = 2;

	/* 3.3.6 blocks on a multiprocessor at a time */
	static constexpr int kBlocksPerSm = 2;

	/* 3.3.7 fragments in registers serve 4 and 8 products; false: one each */
	static constexpr bool kWarpTile = true;

	/* 3.3.8 Equation 2: unit u of row r is stored at place u xor flip(r) */
	static constexpr bool kSwizzle = true;
	static __device__ __forceinline__ int flip(int row) { return row & 7; }

	/* 3.3.9 shared memory aligned to 128 bytes */
	static constexpr bool kAligned = true;

	/* Past the paper: K in steps of 16 to the end, not padded to 64. */
	static constexpr bool kShortLastStep = true;
};

/*
 * Three stages fit where a multiprocessor has 227 KiB of shared memory.  They
 * were slower on an H200 (313 against 326 TFLOPS at d = 4096).
 */
struct ThreeStages : AllOn
{
	static constexpr int kStages = 3;
};

/*
 * Section 3.3.1, the order of the block tiles, is TileOrder::squares; the upper
 * triangle is TileOrder::triangle.  Section 3.3.3, L1 given to shared memory,
 * is the carve-out that launch_filter_mma asks for.
 */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_SWITCHES_H */
