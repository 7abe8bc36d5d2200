/*-------------------------------------------------------------------------
 *
 * ptx_mbarrier.h
 *	  Barriers in shared memory (sm_90), in a block and across a cluster of blocks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_MBARRIER_H
#define FASTED_CUDA_PTX_MBARRIER_H

#include <cstdint>

#include "ptx/ptx.h"

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

/* The same barrier in another block of the cluster, by its rank. */
__device__ __forceinline__ uint32_t
cluster_address(uint32_t address, uint32_t rank)
{
	uint32_t	there;

	asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(address), "r"(rank));
	return there;
}

/*
 * Says to any block of the cluster that this warp has read something: nothing
 * was written, so nothing has to be made visible.
 */
__device__ __forceinline__ void
barrier_arrive_read(uint32_t cluster_barrier)
{
	asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];\n"
				 :: "r"(cluster_barrier) : "memory");
}

/* Arrives at a barrier of any block of the cluster. */
__device__ __forceinline__ void
barrier_arrive_cluster(uint32_t cluster_barrier)
{
	asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n"
				 :: "r"(cluster_barrier) : "memory");
}

/* Waits for arrivals from other blocks of the cluster, and sees what they wrote. */
__device__ __forceinline__ void
barrier_wait_cluster(uint32_t barrier, uint32_t parity)
{
	asm volatile("{\n"
				 ".reg .pred done;\n"
				 "again:\n"
				 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
				 "@done bra finished;\n"
				 "bra again;\n"
				 "finished:\n"
				 "}\n" :: "r"(barrier), "r"(parity) : "memory");
}

/* All threads of all blocks of the cluster. */
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

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_MBARRIER_H */
