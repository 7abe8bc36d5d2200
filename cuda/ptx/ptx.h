/*-------------------------------------------------------------------------
 *
 * ptx.h
 *	  The instructions that CUDA C++ has no name for, for sm_80 and later.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_H
#define FASTED_CUDA_PTX_H

#include <cstdint>

namespace fasted
{
namespace ptx
{

__device__ __forceinline__ uint32_t
shared_address(const void *pointer)
{
	return (uint32_t) __cvta_generic_to_shared(pointer);
}

/*
 * Copies 16 bytes to shared memory without passing L1 and registers; zeros
 * instead where "valid" is false (the source is then not read).
 */
__device__ __forceinline__ void
copy_async_16(uint32_t to, const void *from, bool valid)
{
	int			bytes = valid ? 16 : 0;

	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
				 :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void
copy_async_commit()
{
	asm volatile("cp.async.commit_group;\n" ::: "memory");
}

/* Waits until at most N of this thread's groups are under way. */
template <int N>
__device__ __forceinline__ void
copy_async_wait()
{
	asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory");
}

/* Four 8 x 16-byte matrices; lane l names row l % 8 of matrix l / 8. */
__device__ __forceinline__ void
load_matrix_x4(uint32_t (&r)[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
				 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
				 : "r"(address) : "memory");
}

/* d += a b, 16 x 8, 32 bytes of K: 16 numbers in FP16, summed in FP32. */
__device__ __forceinline__ void
mma_step(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
				 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
				   "r"(b0), "r"(b1));
}

/* The same for 32 numbers in INT8, summed in INT32. */
__device__ __forceinline__ void
mma_step(int32_t (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
				 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
				   "r"(b0), "r"(b1));
}

/*
 * The same for 16 numbers in FP64: lane l has columns l % 4 + 4 s of row l / 4 + 8 h
 * in a[2 s + h], and of column l / 4 in b[s].  sm_80 has it in pieces only.
 */
__device__ __forceinline__ void
mma_step(double (&d)[4], const double (&a)[8], const double (&b)[4])
{
#if __CUDA_ARCH__ >= 900
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, "
				 "{%0,%1,%2,%3};\n"
				 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
				 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]),
				   "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
	for (int i = 0; i < 8; i++)
		asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
					 "{%0,%1}, {%2}, {%3}, {%0,%1};\n"
					 : "+d"(d[i % 2 * 2]), "+d"(d[i % 2 * 2 + 1])
					 : "d"(a[i]), "d"(b[i / 2]));
#endif
}

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_H */
