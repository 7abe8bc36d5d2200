/*-------------------------------------------------------------------------
 *
 * ptx_wgmma.h
 *	  Products by a warpgroup, and its registers (sm_90a).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_WGMMA_H
#define FASTED_CUDA_PTX_WGMMA_H

#include <cstdint>

namespace fasted
{
namespace ptx
{

/* Warpgroup products. */

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
 * Describes rows of 128 bytes in shared memory, eight of them (1024 bytes) a
 * group, swizzled as the copy engine's 128-byte mode does.
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
 * Describes rows in shared memory as blocks of 8 rows x 16 bytes, 128 bytes each:
 * all blocks of eight rows, then those of the next eight.
 */
__device__ __forceinline__ uint64_t
wgmma_blocks(uint32_t address, uint32_t row_bytes)
{
	return (uint64_t) ((address & 0x3ffff) >> 4)
		| (uint64_t) (128 >> 4) << 16
		| (uint64_t) (8 * row_bytes >> 4) << 32;
}

/*
 * d = a b + (add ? d : 0), one step of K: the tiles of 64 and 256 rows lie in
 * shared memory, 32 bytes of each row; a thread has 128 of the 64 x 256 sums.
 */
#define FASTED_128_NAMES \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
	"%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
	"%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
	"%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
	"%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define FASTED_128_OPERANDS(CONSTRAINT) \
	CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3]), CONSTRAINT(d[4]), CONSTRAINT(d[5]), CONSTRAINT(d[6]), CONSTRAINT(d[7]), \
	CONSTRAINT(d[8]), CONSTRAINT(d[9]), CONSTRAINT(d[10]), CONSTRAINT(d[11]), CONSTRAINT(d[12]), CONSTRAINT(d[13]), CONSTRAINT(d[14]), CONSTRAINT(d[15]), \
	CONSTRAINT(d[16]), CONSTRAINT(d[17]), CONSTRAINT(d[18]), CONSTRAINT(d[19]), CONSTRAINT(d[20]), CONSTRAINT(d[21]), CONSTRAINT(d[22]), CONSTRAINT(d[23]), \
	CONSTRAINT(d[24]), CONSTRAINT(d[25]), CONSTRAINT(d[26]), CONSTRAINT(d[27]), CONSTRAINT(d[28]), CONSTRAINT(d[29]), CONSTRAINT(d[30]), CONSTRAINT(d[31]), \
	CONSTRAINT(d[32]), CONSTRAINT(d[33]), CONSTRAINT(d[34]), CONSTRAINT(d[35]), CONSTRAINT(d[36]), CONSTRAINT(d[37]), CONSTRAINT(d[38]), CONSTRAINT(d[39]), \
	CONSTRAINT(d[40]), CONSTRAINT(d[41]), CONSTRAINT(d[42]), CONSTRAINT(d[43]), CONSTRAINT(d[44]), CONSTRAINT(d[45]), CONSTRAINT(d[46]), CONSTRAINT(d[47]), \
	CONSTRAINT(d[48]), CONSTRAINT(d[49]), CONSTRAINT(d[50]), CONSTRAINT(d[51]), CONSTRAINT(d[52]), CONSTRAINT(d[53]), CONSTRAINT(d[54]), CONSTRAINT(d[55]), \
	CONSTRAINT(d[56]), CONSTRAINT(d[57]), CONSTRAINT(d[58]), CONSTRAINT(d[59]), CONSTRAINT(d[60]), CONSTRAINT(d[61]), CONSTRAINT(d[62]), CONSTRAINT(d[63]), \
	CONSTRAINT(d[64]), CONSTRAINT(d[65]), CONSTRAINT(d[66]), CONSTRAINT(d[67]), CONSTRAINT(d[68]), CONSTRAINT(d[69]), CONSTRAINT(d[70]), CONSTRAINT(d[71]), \
	CONSTRAINT(d[72]), CONSTRAINT(d[73]), CONSTRAINT(d[74]), CONSTRAINT(d[75]), CONSTRAINT(d[76]), CONSTRAINT(d[77]), CONSTRAINT(d[78]), CONSTRAINT(d[79]), \
	CONSTRAINT(d[80]), CONSTRAINT(d[81]), CONSTRAINT(d[82]), CONSTRAINT(d[83]), CONSTRAINT(d[84]), CONSTRAINT(d[85]), CONSTRAINT(d[86]), CONSTRAINT(d[87]), \
	CONSTRAINT(d[88]), CONSTRAINT(d[89]), CONSTRAINT(d[90]), CONSTRAINT(d[91]), CONSTRAINT(d[92]), CONSTRAINT(d[93]), CONSTRAINT(d[94]), CONSTRAINT(d[95]), \
	CONSTRAINT(d[96]), CONSTRAINT(d[97]), CONSTRAINT(d[98]), CONSTRAINT(d[99]), CONSTRAINT(d[100]), CONSTRAINT(d[101]), CONSTRAINT(d[102]), CONSTRAINT(d[103]), \
	CONSTRAINT(d[104]), CONSTRAINT(d[105]), CONSTRAINT(d[106]), CONSTRAINT(d[107]), CONSTRAINT(d[108]), CONSTRAINT(d[109]), CONSTRAINT(d[110]), CONSTRAINT(d[111]), \
	CONSTRAINT(d[112]), CONSTRAINT(d[113]), CONSTRAINT(d[114]), CONSTRAINT(d[115]), CONSTRAINT(d[116]), CONSTRAINT(d[117]), CONSTRAINT(d[118]), CONSTRAINT(d[119]), \
	CONSTRAINT(d[120]), CONSTRAINT(d[121]), CONSTRAINT(d[122]), CONSTRAINT(d[123]), CONSTRAINT(d[124]), CONSTRAINT(d[125]), CONSTRAINT(d[126]), CONSTRAINT(d[127])

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
 * Before the first product of some, and after the last one.  The sums are
 * operands, so that the compiler moves them before and reads them after.
 */
__device__ __forceinline__ void
wgmma_fence(float (&d)[128])
{
	asm volatile("wgmma.fence.sync.aligned;\n" : FASTED_128_OPERANDS("+f") :: "memory");
}

__device__ __forceinline__ void
wgmma_fence(int32_t (&d)[128])
{
	asm volatile("wgmma.fence.sync.aligned;\n" : FASTED_128_OPERANDS("+r") :: "memory");
}

__device__ __forceinline__ void
wgmma_finish(float (&d)[128])
{
	asm volatile("wgmma.wait_group.sync.aligned 0;\n" : FASTED_128_OPERANDS("+f") :: "memory");
}

__device__ __forceinline__ void
wgmma_finish(int32_t (&d)[128])
{
	asm volatile("wgmma.wait_group.sync.aligned 0;\n" : FASTED_128_OPERANDS("+r") :: "memory");
}

/* The same for tiles of 64 and 128 rows. */
#define FASTED_64_NAMES \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define FASTED_64_OPERANDS(CONSTRAINT) \
	CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3]), CONSTRAINT(d[4]), CONSTRAINT(d[5]), CONSTRAINT(d[6]), CONSTRAINT(d[7]), \
	CONSTRAINT(d[8]), CONSTRAINT(d[9]), CONSTRAINT(d[10]), CONSTRAINT(d[11]), CONSTRAINT(d[12]), CONSTRAINT(d[13]), CONSTRAINT(d[14]), CONSTRAINT(d[15]), \
	CONSTRAINT(d[16]), CONSTRAINT(d[17]), CONSTRAINT(d[18]), CONSTRAINT(d[19]), CONSTRAINT(d[20]), CONSTRAINT(d[21]), CONSTRAINT(d[22]), CONSTRAINT(d[23]), \
	CONSTRAINT(d[24]), CONSTRAINT(d[25]), CONSTRAINT(d[26]), CONSTRAINT(d[27]), CONSTRAINT(d[28]), CONSTRAINT(d[29]), CONSTRAINT(d[30]), CONSTRAINT(d[31]), \
	CONSTRAINT(d[32]), CONSTRAINT(d[33]), CONSTRAINT(d[34]), CONSTRAINT(d[35]), CONSTRAINT(d[36]), CONSTRAINT(d[37]), CONSTRAINT(d[38]), CONSTRAINT(d[39]), \
	CONSTRAINT(d[40]), CONSTRAINT(d[41]), CONSTRAINT(d[42]), CONSTRAINT(d[43]), CONSTRAINT(d[44]), CONSTRAINT(d[45]), CONSTRAINT(d[46]), CONSTRAINT(d[47]), \
	CONSTRAINT(d[48]), CONSTRAINT(d[49]), CONSTRAINT(d[50]), CONSTRAINT(d[51]), CONSTRAINT(d[52]), CONSTRAINT(d[53]), CONSTRAINT(d[54]), CONSTRAINT(d[55]), \
	CONSTRAINT(d[56]), CONSTRAINT(d[57]), CONSTRAINT(d[58]), CONSTRAINT(d[59]), CONSTRAINT(d[60]), CONSTRAINT(d[61]), CONSTRAINT(d[62]), CONSTRAINT(d[63])

__device__ __forceinline__ void
wgmma_step(int32_t (&d)[64], uint64_t a, uint64_t b, int add)
{
	asm volatile("{\n"
				 ".reg .pred p;\n"
				 "setp.ne.b32 p, %66, 0;\n"
				 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" FASTED_64_NAMES
				 "}, %64, %65, p;\n"
				 "}\n"
				 : FASTED_64_OPERANDS("+r") : "l"(a), "l"(b), "r"(add));
}

__device__ __forceinline__ void
wgmma_fence(int32_t (&d)[64])
{
	asm volatile("wgmma.fence.sync.aligned;\n" : FASTED_64_OPERANDS("+r") :: "memory");
}

__device__ __forceinline__ void
wgmma_finish(int32_t (&d)[64])
{
	asm volatile("wgmma.wait_group.sync.aligned 0;\n" : FASTED_64_OPERANDS("+r") :: "memory");
}

#undef FASTED_64_OPERANDS
#undef FASTED_64_NAMES
#undef FASTED_WGMMA
#undef FASTED_128_OPERANDS
#undef FASTED_128_NAMES

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_WGMMA_H */
