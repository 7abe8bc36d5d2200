/*-------------------------------------------------------------------------
 *
 * ptx_tma.h
 *	  Bulk copies to shared memory (sm_90, TMA).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_PTX_TMA_H
#define FASTED_CUDA_PTX_TMA_H

#include <cuda.h>

#include <cstdint>

namespace fasted
{
namespace ptx
{

/* Bulk copies; one thread issues them, the barrier counts their bytes. */

__device__ __forceinline__ void
copy_tile(uint32_t to, const CUtensorMap *map, int x, int y, uint32_t barrier)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
				 "[%0], [%1, {%2, %3}], [%4];\n"
				 :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

/* The same into all blocks of "mask", at the same address, for each one's barrier. */
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

}								/* namespace ptx */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_PTX_TMA_H */
