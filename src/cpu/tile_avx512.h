/*-------------------------------------------------------------------------
 *
 * tile_avx512.h
 *	  What the tiles of AVX-512 have in common, in FP32 and in INT8.
 *
 * One kernel has both filters, so that the shape of a tile must be the same: 24
 * vectors of sums, 3 of b and the broadcasts of a, of 32 registers.  Beside AMX it
 * is a part of AMX's tile: kernel_amx_fp32.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TILE_AVX512_H
#define FASTED_TILE_AVX512_H

#include <immintrin.h>

#define WIDTH 16
#define TILE_ROWS 8
#ifndef TILE_SLIVERS
#define TILE_SLIVERS 3
#endif
#define LANES 16

typedef __mmask16 Hit;

#define HIT_NONE() 0
#define HIT_OR(h, g) _mm512_kor(h, g)
#define HIT_ANY(h) ((h) != 0)
#define HIT_BITS(h) (unsigned) (h)

/* VEC_MULTIPLY_ROW of two instructions.  By hand, as in kernel_avx2.c. */
#define MULTIPLY_ROW_AVX512(broadcast, multiply, c, a, b) \
	__asm__ volatile (broadcast " %[x], %%zmm31\n\t" \
					  multiply " %[b0], %%zmm31, %[c0]\n\t" \
					  multiply " %[b1], %%zmm31, %[c1]\n\t" \
					  multiply " %[b2], %%zmm31, %[c2]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]), [c2] "+v" ((c)[2]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [b2] "v" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm31", "memory")

#endif							/* FASTED_TILE_AVX512_H */
