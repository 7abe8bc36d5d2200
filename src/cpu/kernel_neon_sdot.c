/*-------------------------------------------------------------------------
 *
 * kernel_neon_sdot.c
 *	  The INT8 filter for 64-bit ARM with SDOT: tiles of 8 x 8, as in FP32.
 *
 * Both factors of SDOT have a sign, so that rows of a are as those of b.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_kernel.h"

#if defined(__aarch64__)

#include "int8_body.h"
#include "tile_neon.h"

#define KERNEL(name) name##_sdot
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))

typedef int32_t Word;
typedef int32x4_t Vec;

#define VEC_ZERO() vdupq_n_s32(0)
#define VEC_LOAD(p) vld1q_s32(p)
#define VEC_STORE(p, v) vst1q_s32(p, v)
#define VEC_SPLAT(p) vdupq_n_s32(*(p))
#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		int8x16_t	splat = vreinterpretq_s8_s32(vdupq_n_s32(*(a))); \
 \
		FOR_VECS(v) \
			(c)[v] = vdotq_s32((c)[v], vreinterpretq_s8_s32((b)[v]), splat); \
	} while (0)
#define VEC_REACHES(g, a, b) vcgeq_s32(vsubq_s32(g, b), a)

#include "tile_kernel.inc.h"

static void
transform_sdot(const Int8Transform *transform, const float *row, float *image)
{
	transform_row(transform, row, image);
}

static void
round_sdot(const float *image, float factor, uint32_t padded, int8_t *values, Int8Sums *sums)
{
	round_row_int8(image, factor, padded, values, sums);
}

const Int8Kernel fasted_int8_sdot = {
	.bytes = 1,
	.word_step = 8,
	.a_words = 1,
	.b_words = 1,
	.sweep = sweep_sdot,
	.transform = transform_sdot,
	.round = round_sdot,
};

#endif							/* __aarch64__ */
