/*-------------------------------------------------------------------------
 *
 * ptx_sm90.h
 *	  The instructions of sm_90a: barriers in shared memory, bulk copies, wgmma.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_SM90_H
#define FASTED_CUDA_PTX_SM90_H

#include <cuda.h>

#include <cstdint>

#include "ptx.h"

namespace fasted
{
namespace ptx
{

/* Barriers in shared memory, by their address. */

__device__ __forceinline__ void
barrier_init(uint32_t barrier, uint32_t arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n"
				 :: "r"(barrier), "r"(arrivals) : "memory");
}

/* Makes the initialised barriers known to the copy engine. */
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

/* Arrives, and lets the barrier wait for this many bytes as well. */
__device__ __forceinline__ void
barrier_arrive_expect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n"
				 :: "r"(barrier), "r"(bytes) : "memory");
}

/* Waits for the end of the phase of this parity. */
__device__ __forceinline__ void
barrier_wait(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n"
				 ".reg .pred done;\n"
				 "again:\n"
				 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
				 "@done bra finished;\n"
				 "bra again;\n"
				 "finished:\n"
				 "}\n" :: "r"(barrier), "r"(parity) : "memory");
}

/* Hardware barriers of a block, by number; both wait and arrive count. */

__device__ __forceinline__ void
named_barrier_wait(uint32_t number, uint32_t threads)
{
	asm volatile("bar.sync %0, %1;\n" :: "r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void
named_barrier_arrive(uint32_t number, uint32_t threads)
{
	asm volatile("bar.arrive %0, %1;\n" :: "r"(number), "r"(threads) : "memory");
}

/* Bulk copies; one thread issues them, the barrier counts their bytes. */

__device__ __forceinline__ void
copy_tile(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
				 "[%0], [%1, {%2, %3}], [%4];\n"
				 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
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
wgmma_fence()
{
	asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
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

/* d = a b + (add ? d : 0), 64 x 256 x 16: FP16 in, FP32 out. */
__device__ __forceinline__ void
wgmma_64x256x16(float (&d)[128], uint64_t a, uint64_t b, int add)
{
	asm volatile("{\n"
		".reg .pred p;\n"
		"setp.ne.b32 p, %130, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
		"%0, %1, %2, %3, %4, %5, %6, %7, "
		"%8, %9, %10, %11, %12, %13, %14, %15, "
		"%16, %17, %18, %19, %20, %21, %22, %23, "
		"%24, %25, %26, %27, %28, %29, %30, %31, "
		"%32, %33, %34, %35, %36, %37, %38, %39, "
		"%40, %41, %42, %43, %44, %45, %46, %47, "
		"%48, %49, %50, %51, %52, %53, %54, %55, "
		"%56, %57, %58, %59, %60, %61, %62, %63, "
		"%64, %65, %66, %67, %68, %69, %70, %71, "
		"%72, %73, %74, %75, %76, %77, %78, %79, "
		"%80, %81, %82, %83, %84, %85, %86, %87, "
		"%88, %89, %90, %91, %92, %93, %94, %95, "
		"%96, %97, %98, %99, %100, %101, %102, %103, "
		"%104, %105, %106, %107, %108, %109, %110, %111, "
		"%112, %113, %114, %115, %116, %117, %118, %119, "
		"%120, %121, %122, %123, %124, %125, %126, %127"
		"}, %128, %129, p, 1, 1, 0, 0;\n"
		"}\n" :
		"+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
		"+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
		"+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
		"+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
		"+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
		"+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
		"+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
		"+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
		"+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
		"+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
		"+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
		"+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
		"+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
		"+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
		"+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
		"+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
		: "l"(a), "l"(b), "r"(add));
}

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_SM90_H */
