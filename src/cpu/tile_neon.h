/*-------------------------------------------------------------------------
 *
 * tile_neon.h
 *	  What the tiles of NEON have in common, in FP32 and in INT8.
 *
 * 8 x 8: 16 vectors of sums, 2 of b and the words of a, of 32 registers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TILE_NEON_H
#define FASTED_TILE_NEON_H

#include <arm_neon.h>

#define WIDTH 8
#define TILE_ROWS 8
#define TILE_SLIVERS 1
#define LANES 4

typedef uint32x4_t Hit;

#define HIT_NONE() vdupq_n_u32(0)
#define HIT_OR(h, g) vorrq_u32(h, g)
#define HIT_ANY(h) (vmaxvq_u32(h) != 0)
#define HIT_BITS(h) vaddvq_u32(vandq_u32(h, (uint32x4_t) {1, 2, 4, 8}))

#endif							/* FASTED_TILE_NEON_H */
