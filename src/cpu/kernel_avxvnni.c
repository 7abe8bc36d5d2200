/*-------------------------------------------------------------------------
 *
 * kernel_avxvnni.c
 *	  The INT8 filter for AVX-VNNI: tiles of 4 x 24, as in FP32.
 *
 * kernel_avx512_int8.c says what VPDPBUSD does.
 *
 *-------------------------------------------------------------------------
 */
#include "kernel_avxvnni.h"

#ifdef FASTED_HAVE_AVXVNNI

#include <cpuid.h>

#include "int8_body.h"
#include "tile_avx2.h"

#define KERNEL(name) name##_avxvnni
#define TARGET __attribute__((target("avx2,fma")))

#ifdef FASTED_AVXVNNI_EVEX
#define ENCODING "%{evex%} "
#else
#define ENCODING "%{vex%} "
#endif

typedef int32_t Word;
typedef __m256i Vec;

#define VEC_ZERO() _mm256_setzero_si256()
#define VEC_LOAD(p) _mm256_loadu_si256((const __m256i *) (p))
#define VEC_STORE(p, v) _mm256_storeu_si256((__m256i *) (p), v)
#define VEC_SPLAT(p) _mm256_set1_epi32(*(p))
/* By hand, as in kernel_avx2.c. */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vpbroadcastd %[x], %%ymm15\n\t" \
					  ENCODING "vpdpbusd %[b0], %%ymm15, %[c0]\n\t" \
					  ENCODING "vpdpbusd %[b1], %%ymm15, %[c1]\n\t" \
					  ENCODING "vpdpbusd %[b2], %%ymm15, %[c2]" \
					  : [c0] "+x" ((c)[0]), [c1] "+x" ((c)[1]), [c2] "+x" ((c)[2]) \
					  : [b0] "x" ((b)[0]), [b1] "x" ((b)[1]), [b2] "x" ((b)[2]), [x] "m" (*(a)) \
					  : "xmm15", "memory")
#define VEC_REACHES(g, a, b) REACHES_AVX2_INT32(g, a, b)

#include "tile_kernel.inc.h"

TARGET static void
transform_avxvnni(const Int8Transform *transform, const float *row, float *image)
{
	transform_row(transform, row, image);
}

TARGET static void
round_avxvnni(const float *image, float factor, uint32_t padded, int8_t *values, Int8Sums *sums)
{
	round_row_int8(image, factor, padded, values, sums);
}

TARGET static void
round_fine_avxvnni(const float *image, float factor, uint32_t padded, int16_t *values,
				   Int8Sums *sums)
{
	round_row_int16(image, factor, padded, FASTED_FINE_NORM2, (int8_t *) values, sums);
}

/* Modulo 2^32. */
TARGET static int32_t
dot_fine_avxvnni(const int16_t *x, const int16_t *y, uint32_t padded)
{
	Vec			sums[2] = {VEC_ZERO(), VEC_ZERO()};
	__m128i		low;

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int half = 0; half < 2; half++)
			sums[half] = _mm256_add_epi32(sums[half],
										  _mm256_madd_epi16(VEC_LOAD(x + k + 16 * half),
															VEC_LOAD(y + k + 16 * half)));
	}
	sums[0] = _mm256_add_epi32(sums[0], sums[1]);
	low = _mm_add_epi32(_mm256_castsi256_si128(sums[0]), _mm256_extracti128_si256(sums[0], 1));
	low = _mm_add_epi32(low, _mm_shuffle_epi32(low, 0x4e));
	low = _mm_add_epi32(low, _mm_shuffle_epi32(low, 0xb1));
	return _mm_cvtsi128_si32(low);
}

bool
fasted_avxvnni_present(void)
{
#ifdef FASTED_AVXVNNI_EVEX
	return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
	const unsigned avx_vnni = 1U << 4;
	unsigned	a;
	unsigned	b;
	unsigned	c;
	unsigned	d;

	return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & avx_vnni) != 0;
#endif
}

const Int8Kernel fasted_int8_avxvnni = {
	.bytes = 1,
	.word_step = 8,
	.a_words = 1,
	.b_words = 1,
	.a_flip = UINT32_C(0x80808080),
	.sweep = sweep_avxvnni,
	.transform = transform_avxvnni,
	.round = round_avxvnni,
	.round_fine = round_fine_avxvnni,
	.dot_fine = dot_fine_avxvnni,
};

#endif							/* FASTED_HAVE_AVXVNNI */
