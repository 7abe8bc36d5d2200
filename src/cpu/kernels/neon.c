/*-------------------------------------------------------------------------
 *
 * neon.c
 *	  The CPU kernels for 64-bit ARM: tiles of 8 x 8, in FP32 and bits, and in INT8 with SDOT.
 *
 * 16 vectors of sums, 2 of b and the words of a fit into the 32 registers.  Both factors of SDOT
 * are signed, so packed rows of a and b are identical.
 *
 * The speed has not been measured: the tests run under an emulator.
 *
 *-------------------------------------------------------------------------
 */
#include "../../engine/exact_distance.h"
#include "kernel.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <math.h>
#include <sys/auxv.h>

#include "row_body.h"

#define WIDTH 8
#define TILE_ROWS 8
#define TILE_SLIVERS 1
#define LANES 4

typedef int32_t Hit __attribute__((vector_size(16)));

#define HIT_ANY(h) (vmaxvq_u32((uint32x4_t) (h)) != 0)
#define HIT_BITS(h) vaddvq_u32(vandq_u32((uint32x4_t) (h), (uint32x4_t) {1, 2, 4, 8}))

/* --- FP32 */

#define TARGET
#define KERNEL(name) name##_neon
#define Word float
#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		FOR_VECS(v) \
			(c)[v] = vfmaq_n_f32((c)[v], (b)[v], *(a)); \
	} while (0)

#define FP32_ROWS
#define DOUBLES 2
#define DoubleVec float64x2_t
#define DOUBLE_LOAD(p) vld1q_f64(p)
#define DOUBLE_WIDEN(p) vcvt_f64_f32(vld1_f32(p))
#define DOUBLE_LOAD_REST(p, n, v) load_rest_double_neon(p, (int) (n) - 2 * (v))
#define DOUBLE_WIDEN_REST(p, n, v) load_rest_neon(p, (int) (n) - 2 * (v))
#define DOUBLE_FMA(x, y, z) vfmaq_f64(z, x, y)
#define DOUBLE_FOLD(v) (vgetq_lane_f64(v, 0) + vgetq_lane_f64(v, 1))

/* Loads the first `left` of two doubles; the others are zero. */
static inline __attribute__((always_inline)) float64x2_t
load_rest_double_neon(const double *p, int left)
{
	return left >= 2 ? vld1q_f64(p) : (float64x2_t) {left > 0 ? *p : 0.0, 0.0};
}

/* Loads the first `left` of two floats as FP64; the others are zero. */
static inline __attribute__((always_inline)) float64x2_t
load_rest_neon(const float *p, int left)
{
	return left >= 2 ? vcvt_f64_f32(vld1_f32(p)) : (float64x2_t) {left > 0 ? (double) *p : 0.0, 0.0};
}

#include "tile_kernel.inc.h"

static bool
available_neon(void)
{
	return true;
}

/* --- bits */

#define KERNEL(name) name##_neon_bits
#define Word int32_t
#define BYTE_COUNTS(x) vcntq_u8((uint8x16_t) (x))
#define SUM_BYTES(x) vpaddlq_u16(vpaddlq_u8((uint8x16_t) (x)))
#define BITS_ROWS

#include "tile_kernel.inc.h"

static const CpuKernel bits_neon = {
	.name = "neon",
	.available = available_neon,
	.recheck_words = 400,
	BITS_OF(neon_bits),
};

const CpuKernel fasted_kernel_neon = {
	.name = "neon",
	.available = available_neon,
	.bits = &bits_neon,
	TILES_OF(neon),
	ROWS_OF(neon),
};

/* --- INT8 */

#undef TARGET
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#define KERNEL(name) name##_sdot
#define Word int32_t
#define VEC_MULTIPLY_ROW(c, a, b) \
	do \
	{ \
		int8x16_t	splat = vreinterpretq_s8_s32(vdupq_n_s32(*(a))); \
 \
		FOR_VECS(v) \
			(c)[v] = vdotq_s32((c)[v], vreinterpretq_s8_s32((b)[v]), splat); \
	} while (0)
#define INT8_ROWS

#include "tile_kernel.inc.h"

static const Int8Kernel int8_sdot = {
	.name = "int8",
	.bytes = 1,
	.speed = 1,
	.product = PRODUCT_OF(sweep_sdot, 0),
	INTEGERS_OF(sdot),
};

static bool
available_sdot(void)
{
#ifdef HWCAP_ASIMDDP
	return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
	return false;
#endif
}

const CpuKernel fasted_kernel_sdot = {
	.name = "sdot",
	.available = available_sdot,
	.int8 = &int8_sdot,
	.bits = &bits_neon,
	TILES_OF(neon),
	ROWS_OF(neon),
};

#endif							/* __aarch64__ */
