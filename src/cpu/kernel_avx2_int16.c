/*-------------------------------------------------------------------------
 *
 * kernel_avx2_int16.c
 *	  The INT16 filter for AVX2: tiles of 4 x 24, as in FP32.
 *
 * VPMADDWD multiplies two pairs of 16-bit numbers and adds them: twice the products
 * of an FMA, an addition beside.  Sums are modulo 2^32 and exact in the end, for
 * rows' norms are limited (doc/bound-int8.md, section 8).
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__x86_64__)

#include "int8_body.h"
#include "tile_avx2.h"

#define KERNEL(name) name##_avx2_int16
#define TARGET __attribute__((target("avx2,fma")))

typedef int32_t Word;
typedef __m256i Vec;

#define VEC_ZERO() _mm256_setzero_si256()
#define VEC_LOAD(p) _mm256_loadu_si256((const __m256i *) (p))
#define VEC_STORE(p, v) _mm256_storeu_si256((__m256i *) (p), v)
#define VEC_SPLAT(p) _mm256_set1_epi32(*(p))
/*
 * A row of a tile by hand, as in kernel_avx2.c.  Products need a register of their own,
 * so that one vector of b stays in memory.
 */
#define MULTIPLY_ROW(c, a, b0, b1, b2) \
	__asm__ volatile ("vpbroadcastd %[x], %%ymm15\n\t" \
					  "vpmaddwd %[y0], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c0], %[c0]\n\t" \
					  "vpmaddwd %[y1], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c1], %[c1]\n\t" \
					  "vpmaddwd %[y2], %%ymm15, %%ymm14\n\t" \
					  "vpaddd %%ymm14, %[c2], %[c2]" \
					  : [c0] "+x" ((c)[0]), [c1] "+x" ((c)[1]), [c2] "+x" ((c)[2]) \
					  : [y0] "x" (b0), [y1] "x" (b1), [y2] "m" (b2), [x] "m" (*(a)) \
					  : "xmm14", "xmm15", "memory")
#define MULTIPLY_WORD(sums, a, b, sliver) \
	do \
	{ \
		Vec			b0 = VEC_LOAD(b); \
		Vec			b1 = VEC_LOAD((b) + (sliver)); \
		const Vec  *b2 = (const Vec *) ((b) + 2 * (sliver)); \
 \
		FOR_ROWS(i) \
			MULTIPLY_ROW((sums)[i], (a) + i, b0, b1, *b2); \
	} while (0)
#define VEC_REACHES(g, a, b) REACHES_AVX2_INT32(g, a, b)

#include "tile_kernel.inc.h"

TARGET static void
transform_avx2_int16(const Int8Transform *transform, const float *row, float *image)
{
	transform_row(transform, row, image);
}

TARGET static void
round_avx2_int16(const float *image, float factor, uint32_t padded, int8_t *values,
				 Int8Sums *sums)
{
	round_row_int16(image, factor, padded, FASTED_INT16_NORM2, values, sums);
}

const Int8Kernel fasted_int16_avx2 = {
	.bytes = 2,
	.word_step = 8,
	.a_words = 1,
	.b_words = 1,
	.sweep = sweep_avx2_int16,
	.transform = transform_avx2_int16,
	.round = round_avx2_int16,
};

#endif							/* __x86_64__ */
