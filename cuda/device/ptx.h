/*-------------------------------------------------------------------------
 *
 * ptx.h
 *	  Wrappers for PTX instructions that CUDA C++ does not provide, for sm_80 and later.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_H
#define FASTED_CUDA_PTX_H

#include <cuda.h>

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
 * Copies 16 bytes to shared memory, bypassing L1 and registers.  If valid is false, writes
 * zeros and does not read the source.
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

/* Waits until at most N of the groups committed by this thread are incomplete. */
template <int N>
__device__ __forceinline__ void
copy_async_wait()
{
	asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory");
}

/* Loads four matrices of 8 rows x 16 bytes; lane l has the address of row l % 8 of matrix l / 8. */
__device__ __forceinline__ void
load_matrix_x4(uint32_t (&r)[4], uint32_t address)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
				 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
				 : "r"(address) : "memory");
}

/* d += a b for a 16 x 8 tile and 32 bytes of K: 16 dimensions in FP16, summed in FP32. */
__device__ __forceinline__ void
mma_step(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
				 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
				 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
				 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
				   "r"(b0), "r"(b1));
}

/* The same for 32 dimensions in INT8, summed in INT32. */
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
 * The same for 16 dimensions in FP64.  Lane l holds dimensions l % 4 + 4 s of row l / 4 + 8 h in
 * a[2 s + h].  It holds the same dimensions of column l / 4 in b[s].  Before sm_90, the instruction
 * exists for 8 x 8 tiles and 4 dimensions only.
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

/* --- barriers in shared memory (sm_90), within a block and across a cluster */

__device__ __forceinline__ void
barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n"
				 :: "r"(barrier), "r"(arrivals) : "memory");
}

/* Makes initialised barriers visible to the copy engine (TMA) and to the cluster. */
__device__ __forceinline__ void
barrier_init_fence()
{
	asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void
barrier_arrive(uint32_t barrier)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n"
				 :: "r"(barrier) : "memory");
}

/* Arrives, and makes the current phase wait for this many bytes of asynchronous copies. */
__device__ __forceinline__ void
barrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
				 :: "r"(barrier), "r"(bytes) : "memory");
}

/*
 * barrier_wait: waits until the phase with this parity is complete.  barrier_wait_cluster: waits for
 * arrivals from other blocks of the cluster, whose writes are visible afterwards.
 */
#define FASTED_WAIT(NAME, SEMANTICS) \
	__device__ __forceinline__ void \
	NAME(uint32_t barrier, uint32_t parity) \
	{ \
		asm volatile("{\n" \
					 ".reg .pred done;\n" \
					 "again:\n" \
					 "mbarrier.try_wait.parity" SEMANTICS ".shared::cta.b64 done, [%0], %1;\n" \
					 "@done bra finished;\n" \
					 "bra again;\n" \
					 "finished:\n" \
					 "}\n" :: "r"(barrier), "r"(parity) : "memory"); \
	}

FASTED_WAIT(barrier_wait, "")
FASTED_WAIT(barrier_wait_cluster, ".acquire.cluster")

/* Returns the address of the same barrier in the block of the cluster with this rank. */
__device__ __forceinline__ uint32_t
cluster_address(uint32_t address, uint32_t rank)
{
	uint32_t	there;

	asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(address), "r"(rank));
	return there;
}

/*
 * Arrives at a barrier of any block of the cluster, after reading data only.  Because nothing was
 * written, the default semantics suffice, and no writes have to be made visible.
 */
__device__ __forceinline__ void
barrier_arrive_read(uint32_t cluster_barrier)
{
	asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
				 :: "r"(cluster_barrier) : "memory");
}

/* Arrives at a barrier of any block of the cluster, and makes earlier writes visible. */
__device__ __forceinline__ void
barrier_arrive_cluster(uint32_t cluster_barrier)
{
	asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n"
				 :: "r"(cluster_barrier) : "memory");
}

/* Synchronizes all threads of all blocks of the cluster. */
__device__ __forceinline__ void
cluster_sync()
{
	asm volatile("barrier.cluster.arrive.release;\n"
				 "barrier.cluster.wait.acquire;\n" ::: "memory");
}

__device__ __forceinline__ uint32_t
cluster_rank()
{
	uint32_t	rank;

	asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
	return rank;
}

__device__ __forceinline__ void
store_cluster(uint32_t cluster_address, uint64_t value)
{
	asm volatile("st.shared::cluster.u64 [%0], %1;\n"
				 :: "r"(cluster_address), "l"(value) : "memory");
}

/* --- bulk copies to shared memory (sm_90, TMA): one thread issues a copy, and the barrier
 * counts its bytes */

__device__ __forceinline__ void
copy_tile(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
				 "[%0], [%1, {%2, %3}], [%4];\n"
				 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

/* Copies a tile to all blocks in mask, at the same address, with the barrier of each block. */
__device__ __forceinline__ void
copy_tile_to_all(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t barrier,
				 uint16_t mask)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
				 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;\n"
				 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
}

__device__ __forceinline__ void
copy_bulk(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
				 "[%0], [%1], %2, [%3];\n"
				 :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

__device__ __forceinline__ void
prefetch_map(const CUtensorMap *map)
{
	asm volatile("prefetch.tensormap [%0];\n" :: "l"(map) : "memory");
}

/* Names of asm operands (%0, ...), and the operands d[i], d[i + 1], ... */
#define FASTED_64_NAMES \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define FASTED_128_NAMES FASTED_64_NAMES ", " \
	"%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
	"%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
	"%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
	"%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define FASTED_8_OPERANDS(CONSTRAINT, i) \
	CONSTRAINT(d[i]), CONSTRAINT(d[i + 1]), CONSTRAINT(d[i + 2]), CONSTRAINT(d[i + 3]), \
	CONSTRAINT(d[i + 4]), CONSTRAINT(d[i + 5]), CONSTRAINT(d[i + 6]), CONSTRAINT(d[i + 7])

#define FASTED_64_OPERANDS(CONSTRAINT, i) \
	FASTED_8_OPERANDS(CONSTRAINT, i), FASTED_8_OPERANDS(CONSTRAINT, i + 8), \
	FASTED_8_OPERANDS(CONSTRAINT, i + 16), FASTED_8_OPERANDS(CONSTRAINT, i + 24), \
	FASTED_8_OPERANDS(CONSTRAINT, i + 32), FASTED_8_OPERANDS(CONSTRAINT, i + 40), \
	FASTED_8_OPERANDS(CONSTRAINT, i + 48), FASTED_8_OPERANDS(CONSTRAINT, i + 56)

#define FASTED_128_OPERANDS(CONSTRAINT) \
	FASTED_64_OPERANDS(CONSTRAINT, 0), FASTED_64_OPERANDS(CONSTRAINT, 64)

/*
 * Returns whether any of the integers is negative.  All must be between -2^23 + 1 and 2^30.
 *
 * If its bits are read as FP32, an integer from -2^23 + 1 to -1 is a NaN, and one from 0 to
 * 2^30 is not.  One instruction checks two numbers for NaN and writes a predicate instead of a
 * register.  It therefore hardly slows down concurrent matrix products.
 *
 * All instructions are in one asm statement, so that the compiler cannot replace them.  There are
 * six chains, because each comparison waits for the previous predicate in its chain.
 */
__device__ __forceinline__ bool
any_negative(const int32_t (&d)[64])
{
	int			any;

#define FASTED_CHECK(SETP, CHAIN, OR, x, y) SETP ".f32 " CHAIN ", %" #x ", %" #y OR ";\n"
#define FASTED_CHECK_12(SETP, OR, a, b, c, d, e, f, g, h, i, j, k, l) \
	FASTED_CHECK(SETP, "p0", OR(", p0"), a, b) FASTED_CHECK(SETP, "p1", OR(", p1"), c, d) \
	FASTED_CHECK(SETP, "p2", OR(", p2"), e, f) FASTED_CHECK(SETP, "p3", OR(", p3"), g, h) \
	FASTED_CHECK(SETP, "p4", OR(", p4"), i, j) FASTED_CHECK(SETP, "p5", OR(", p5"), k, l)
#define FASTED_NONE(text) ""
#define FASTED_TEXT(text) text

	asm("{\n"
		".reg .pred p0, p1, p2, p3, p4, p5;\n"
		FASTED_CHECK_12("setp.nan", FASTED_NONE, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
		FASTED_CHECK_12("setp.nan.or", FASTED_TEXT, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
		FASTED_CHECK_12("setp.nan.or", FASTED_TEXT, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36)
		FASTED_CHECK_12("setp.nan.or", FASTED_TEXT, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48)
		FASTED_CHECK_12("setp.nan.or", FASTED_TEXT, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60)
		FASTED_CHECK("setp.nan.or", "p0", ", p0", 61, 62) FASTED_CHECK("setp.nan.or", "p1", ", p1", 63, 64)
		"or.pred p0, p0, p1;\n"
		"or.pred p2, p2, p3;\n"
		"or.pred p4, p4, p5;\n"
		"or.pred p0, p0, p2;\n"
		"or.pred p0, p0, p4;\n"
		"selp.s32 %0, 1, 0, p0;\n"
		"}\n"
		: "=r"(any)
		: FASTED_64_OPERANDS("r", 0));
	return any != 0;
}

/* --- matrix products by a warpgroup, and its register allocation (sm_90a) */

template <int kRegisters>
__device__ __forceinline__ void
registers_release()
{
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" :: "n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void
registers_acquire()
{
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" :: "n"(kRegisters));
}

__device__ __forceinline__ void
wgmma_commit()
{
	asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

template <int N>
__device__ __forceinline__ void
wgmma_wait()
{
	asm volatile("wgmma.wait_group.sync.aligned %0;\n" :: "n"(N) : "memory");
}

/*
 * Returns the matrix descriptor of an operand with rows of 128 bytes in shared memory, in groups
 * of eight rows (1024 bytes), with 128-byte swizzling as done by TMA.
 */
__device__ __forceinline__ uint64_t
wgmma_operand(uint32_t address)
{
	return (uint64_t) ((address & 0x3ffff) >> 4)
		| (uint64_t) 1 << 16
		| (uint64_t) (1024 >> 4) << 32
		| (uint64_t) 1 << 62;
}

/*
 * Returns the matrix descriptor of an operand without swizzling.  It consists of blocks of 8 rows
 * by 16 bytes (128 bytes): first all blocks of the first eight rows, then those of the next eight.
 */
__device__ __forceinline__ uint64_t
wgmma_blocks(uint32_t address, uint32_t row_bytes)
{
	return (uint64_t) ((address & 0x3ffff) >> 4)
		| (uint64_t) (128 >> 4) << 16
		| (uint64_t) (8 * row_bytes >> 4) << 32;
}

/*
 * d = a b + (add ? d : 0) for one step of K, 32 bytes of each row.  The tiles a (64 rows) and b
 * (256 rows) are in shared memory.  Each thread holds 128 of the 64 x 256 sums.
 */
#define FASTED_WGMMA(TYPES, CONSTRAINT, END) \
	asm volatile("{\n" \
				 ".reg .pred p;\n" \
				 "setp.ne.b32 p, %130, 0;\n" \
				 "wgmma.mma_async.sync.aligned.m64n256" TYPES " {" FASTED_128_NAMES \
				 "}, %128, %129, p" END ";\n" \
				 "}\n" \
				 : FASTED_128_OPERANDS(CONSTRAINT) : "l"(a), "l"(b), "r"(add))

/* 16 dimensions in FP16, summed in FP32. */
__device__ __forceinline__ void
wgmma_step(float (&d)[128], uint64_t a, uint64_t b, int add)
{
	FASTED_WGMMA("k16.f32.f16.f16", "+f", ", 1, 1, 0, 0");
}

/* 32 dimensions in INT8, summed in INT32. */
__device__ __forceinline__ void
wgmma_step(int32_t (&d)[128], uint64_t a, uint64_t b, int add)
{
	FASTED_WGMMA("k32.s32.s8.s8", "+r", "");
}

/*
 * wgmma_fence must precede the first product of a sequence, and wgmma_finish must follow the last
 * one.  The sums are asm operands, so that the compiler does not move accesses across these calls.
 */
#define FASTED_WGMMA_ORDER(NUMBER, COUNT, OPERANDS) \
	__device__ __forceinline__ void \
	wgmma_fence(NUMBER (&d)[COUNT]) \
	{ \
		asm volatile("wgmma.fence.sync.aligned;\n" : OPERANDS :: "memory"); \
	} \
	__device__ __forceinline__ void \
	wgmma_finish(NUMBER (&d)[COUNT]) \
	{ \
		asm volatile("wgmma.wait_group.sync.aligned 0;\n" : OPERANDS :: "memory"); \
	}

FASTED_WGMMA_ORDER(float, 128, FASTED_128_OPERANDS("+f"))
FASTED_WGMMA_ORDER(int32_t, 128, FASTED_128_OPERANDS("+r"))
FASTED_WGMMA_ORDER(int32_t, 64, FASTED_64_OPERANDS("+r", 0))

/* The same for INT8 tiles of 64 and 128 rows. */
__device__ __forceinline__ void
wgmma_step(int32_t (&d)[64], uint64_t a, uint64_t b, int add)
{
	asm volatile("{\n"
				 ".reg .pred p;\n"
				 "setp.ne.b32 p, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" FASTED_64_NAMES
				 "}, %64, %65, p;\n"
				 "}\n"
				 : FASTED_64_OPERANDS("+r", 0) : "l"(a), "l"(b), "r"(add));
}

#undef FASTED_CHECK
#undef FASTED_CHECK_12
#undef FASTED_NONE
#undef FASTED_TEXT
#undef FASTED_WAIT
#undef FASTED_64_OPERANDS
#undef FASTED_64_NAMES
#undef FASTED_WGMMA
#undef FASTED_WGMMA_ORDER
#undef FASTED_128_OPERANDS
#undef FASTED_8_OPERANDS
#undef FASTED_128_NAMES

}								/* namespace ptx */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_H */
