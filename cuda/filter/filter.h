/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  What a filter is given: two sets of rows, an order, a place for hits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_H
#define FASTED_CUDA_FILTER_H

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "filter/block_order.h"
#include "output/connect.h"
#include "rows/row_table.h"

namespace fasted
{

/*
 * How the filter's warps hand their hits to the recheck.
 *
 * The candidate buffer is cut into chunks.  A warp owns one chunk at a time and
 * fills it without asking anybody: one global atomic a chunk, never one a pair.
 * What a warp finds in one step (a warp tile, say) is counted before it is
 * written, so it is written whole or not at all.
 */

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

/* One side of a join: quantised, with the rows as staged and the number of the first one. */
struct JoinSide
{
	RowTable	table;
	QuantisedRows quantised;
	uint64_t	first_row = 0;
	const uint32_t *overflow = nullptr; /* approximate only: a value does not fit FP16 */
	uint32_t   *counts = nullptr;	/* where each row's pairs are counted; null: nowhere */
	const uint32_t *labels = nullptr;	/* of rows by number: filter_rows.h; null: all rows meet */
};

struct FilterParams
{
	QuantisedRows a;
	QuantisedRows b;
	uint32_t	row_bytes;		/* as row_bytes() has it */
	TileOrder	order;
	CandidateBuffer candidates;
	float		eps2;			/* approximate only */
};

/*
 * The list of voided work has room for this much a multiprocessor: every warp
 * that runs there, for the tile in hand and those already taken, and what the
 * blocks have taken and not begun.  Where tiles are sent to a ring ahead of the warps:
 * those in it, the one that was just taken from it, and two that are sent before
 * "stop" is seen; and of runs of tiles, the rest of one and the next.
 */
constexpr uint32_t kVoidedPerMultiprocessor = 640;

constexpr bool
list_is_long_enough(uint32_t tiles_ahead, uint32_t warps)
{
	return (tiles_ahead + 3) * warps + 4 <= kVoidedPerMultiprocessor;
}

/* The shape of a kernel's tiles, and of the squares they are taken in. */
struct TileShape
{
	uint32_t	tile_m;
	uint32_t	tile_n;
	uint32_t	side;
};

/* mma.sync, compute capability 8.0 and later, every criterion; tiles of 128 x 128. */
void launch_filter_mma(const FilterParams &params, Criterion criterion, const Device &device,
					   cudaStream_t stream);

/* wgmma and TMA, compute capability 9.0; not FP64. */
bool filter_wgmma_available(const Device &device);
TileShape	wgmma_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						const Device &device);
extern uint32_t wgmma_cluster;	/* to measure: blocks of a cluster; 0: by the rows */
void launch_filter_wgmma(const FilterParams &params, Criterion criterion, const Device &device,
						 cudaStream_t stream);

/* The same machines, INT8 rows with folded thresholds, of so many bytes (row_table.h). */
TileShape	folded_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						 const Device &device);
void launch_filter_folded(const FilterParams &params, uint32_t row_bytes, const Device &device,
						  cudaStream_t stream);

/* From candidates to pairs. */
struct RefineParams
{
	JoinSide	a;
	JoinSide	b;
	bool		self;			/* of a set with itself: the lesser number first */
	double		eps;
	CandidateBuffer candidates;
	FastedPair *pairs;			/* room for every candidate; null: they are not kept */
	Connecting	connect;		/* then pairs has room for every candidate, but few come there */

	/* Nearest rows: what eps is of each row of a, in its place; null: eps is. */
	const double *radii = nullptr;
	bool		not_itself = false;	/* no row is its own neighbour */
	bool		either = false;	/* the radius of either row will do */

	uint32_t	look_mask = 0;	/* when to look whether the join is cancelled; launch_refine knows */
};

/* Rechecks every candidate; approximate: passes all of them on. */
void launch_refine(const RefineParams &params, bool approximate,
				   const Device &device, cudaStream_t stream);

/*
 * Ends the round: writes its report and plans the next one.  The flags say whether a
 * value of either side does not fit (approximate only, else null).
 */
void launch_advance(const CandidateBuffer &candidates, const uint32_t *overflow_a,
					const uint32_t *overflow_b, unsigned long long budget,
					RoundReport *report, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_H */
