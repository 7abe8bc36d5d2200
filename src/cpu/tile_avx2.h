/*-------------------------------------------------------------------------
 *
 * tile_avx2.h
 *	  What the tiles of AVX2 have in common, in FP32, INT8 and INT16.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TILE_AVX2_H
#define FASTED_TILE_AVX2_H

#include <immintrin.h>

#define WIDTH 8
#define TILE_ROWS 4
#define TILE_SLIVERS 3
#define LANES 8

typedef __m256 Hit;

#define HIT_NONE() _mm256_setzero_ps()
#define HIT_OR(h, g) _mm256_or_ps(h, g)
#define HIT_ANY(h) (_mm256_movemask_ps(h) != 0)
#define HIT_BITS(h) (unsigned) _mm256_movemask_ps(h)

/* For sums and thresholds in INT32: g - b >= a, that is, not a > g - b. */
#define REACHES_AVX2_INT32(g, a, b) \
	_mm256_castsi256_ps(_mm256_xor_si256(_mm256_cmpgt_epi32(a, _mm256_sub_epi32(g, b)), \
										 _mm256_set1_epi32(-1)))

#endif							/* FASTED_TILE_AVX2_H */
