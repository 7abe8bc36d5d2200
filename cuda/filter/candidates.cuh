/*-------------------------------------------------------------------------
 *
 * candidates.cuh
 *	  How the filter's warps hand their hits to the recheck.
 *
 * The candidate buffer is cut into chunks.  A warp owns one chunk at a time and
 * fills it without asking anybody: one global atomic a chunk, never one a pair.
 * What a warp finds in one step (a warp tile, say) is counted before it is
 * written, so it is written whole or not at all.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_CANDIDATES_CUH
#define FASTED_CUDA_CANDIDATES_CUH

#include <cstddef>
#include <cstdint>

#include "filter/block_order.h"

namespace fasted
{

/*
 * Pairs in a chunk, from 32 (what one warp rechecks) to 256.  Small chunks keep
 * pairs of the same time, so of the same rows, together, which the recheck of
 * long rows likes; large ones cost a warp fewer atomics, which short tiles like.
 */
constexpr uint32_t kSmallChunkShift = 5;
constexpr uint32_t kLargeChunkShift = 8;

/* The most that a warp writes in one step: a warp tile of 64 x 64 hits. */
constexpr uint32_t kMostAtOnce = 4096;

/* What the filter kernels share with the rest; device pointers. */
struct CandidateBuffer
{
	uint2	   *pairs;			/* row numbers within each operand */
	float	   *squares;		/* approximate only: the squared distances */
	uint32_t   *counts;			/* pairs in each chunk; zero before a round */
	uint32_t	chunks;
	uint32_t	chunk_shift;	/* a chunk has 2^chunk_shift pairs */
	WorkState  *state;
	Work	   *lists[2];		/* work to do again, see WorkState.list */
	uint32_t	list_size;
	Work	   *voided;			/* this round's */
};

/* Is no more work to be begun, in this round or at all? */
__device__ __forceinline__ bool
is_stopped(const WorkState *state)
{
	static_assert(offsetof(WorkState, stop) % 8 == 0 && offsetof(WorkState, cancelled)
				  == offsetof(WorkState, stop) + 4, "both are read at once");
	return *(volatile unsigned long long *) &state->stop != 0;
}

/* The next item of the queue, for one thread of a block. */
__device__ __forceinline__ bool
take_work(const CandidateBuffer &buffer, Work *work)
{
	WorkState  *state = buffer.state;

	if (is_stopped(state))
		return false;

	unsigned long long taken = atomicAdd(&state->taken, 1ULL);

	if (taken < state->again)
	{
		*work = buffer.lists[state->list][taken];
		return true;
	}
	work->item = state->fresh_first + (taken - state->again);
	work->warp = kAllWarps;
	work->resume = 0;
	return work->item < state->fresh_end;
}

/* One per warp; every function is called by all of its lanes. */
class CandidateWriter
{
public:
	__device__ __forceinline__ CandidateWriter() : slot_(0), end_(0) {}

	/* Makes room for "wanted" pairs in a row; false when there is none. */
	__device__ __forceinline__ bool
	reserve(const CandidateBuffer &buffer, uint32_t wanted)
	{
		if (slot_ + wanted <= end_)
			return true;
		close(buffer);

		uint32_t	lane = threadIdx.x % 32;
		uint32_t	size = 1u << buffer.chunk_shift;
		uint32_t	chunks = (wanted + size - 1) >> buffer.chunk_shift;
		uint32_t	first = 0;

		if (lane == 0)
			first = atomicAdd(&buffer.state->chunks_used, chunks);
		first = __shfl_sync(0xffffffff, first, 0);
		if (first + chunks > buffer.chunks)
			return false;

		/* all but the last will be full; close() knows the last one's count */
		for (uint32_t i = lane; i + 1 < chunks; i += 32)
			buffer.counts[first + i] = size;
		slot_ = first << buffer.chunk_shift;
		end_ = (first + chunks) << buffer.chunk_shift;
		return true;
	}

	/* The first of the slots that reserve made sure of. */
	__device__ __forceinline__ uint32_t
	take(uint32_t count)
	{
		uint32_t	slot = slot_;

		slot_ += count;
		return slot;
	}

	/* Gives this warp's work back, from "resume" on. */
	__device__ __forceinline__ void
	give_up(const CandidateBuffer &buffer, uint64_t item, uint32_t warp,
			uint32_t resume)
	{
		if (threadIdx.x % 32 == 0)
		{
			uint32_t	at = atomicAdd(&buffer.state->voided, 1u);

			if (at < buffer.list_size)
				buffer.voided[at] = {item, warp, resume};
			*(volatile uint32_t *) &buffer.state->stop = 1;
		}
		__syncwarp();
	}

	/* Before the kernel ends: says how full the last chunk is. */
	__device__ __forceinline__ void
	close(const CandidateBuffer &buffer)
	{
		if (end_ != 0 && threadIdx.x % 32 == 0)
			buffer.counts[(end_ >> buffer.chunk_shift) - 1] =
				(1u << buffer.chunk_shift) - (end_ - slot_);
		slot_ = end_ = 0;
	}

private:
	uint32_t	slot_;			/* the next free slot */
	uint32_t	end_;			/* the end of this warp's chunk; zero: none */
};

/* Sum over the lanes before this one. */
__device__ __forceinline__ uint32_t
warp_prefix(uint32_t value)
{
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	sum = value;

#pragma unroll
	for (int o = 1; o < 32; o *= 2)
	{
		uint32_t	other = __shfl_up_sync(0xffffffff, sum, o);

		if (lane >= o)
			sum += other;
	}
	return sum - value;
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_CANDIDATES_CUH */
