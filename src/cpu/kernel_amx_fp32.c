/*-------------------------------------------------------------------------
 *
 * kernel_amx_fp32.c
 *	  The FP32 filter beside AMX: tiles of 8 x 32 by AVX-512, four to one of AMX.
 *
 * 16 vectors of sums, 2 of b and the broadcasts of a.
 *
 *-------------------------------------------------------------------------
 */
#include "kernel_amx.h"

#ifdef FASTED_HAVE_AMX

#define TILE_SLIVERS 2

#include "tile_avx512.h"

#define KERNEL(name) name##_amx_fp32
#define TARGET __attribute__((target("avx512f,avx512vl,avx2,fma")))

typedef float Word;
typedef __m512 Vec;

#define VEC_ZERO() _mm512_setzero_ps()
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_SPLAT(p) _mm512_set1_ps(*(p))
/* By hand, as in kernel_avx2.c. */
#define VEC_MULTIPLY_ROW(c, a, b) \
	__asm__ volatile ("vbroadcastss %[x], %%zmm31\n\t" \
					  "vfmadd231ps %[b0], %%zmm31, %[c0]\n\t" \
					  "vfmadd231ps %[b1], %%zmm31, %[c1]" \
					  : [c0] "+v" ((c)[0]), [c1] "+v" ((c)[1]) \
					  : [b0] "v" ((b)[0]), [b1] "v" ((b)[1]), [x] "m" (*(a)) \
					  : "xmm31", "memory")
#define VEC_REACHES(g, a, b) _mm512_cmp_ps_mask(g, _mm512_add_ps(a, b), _CMP_GE_OQ)

#include "tile_kernel.inc.h"

void
fasted_sweep_amx_fp32(const TileSweep *sweep)
{
	TileSweep	parts = *sweep;

	parts.tiles *= AMX_TILE / TILE_ROWS;
	sweep_amx_fp32(&parts);
}

#endif							/* FASTED_HAVE_AMX */
