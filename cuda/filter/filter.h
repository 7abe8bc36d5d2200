/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  Arguments of the filter kernels: two operands of quantized rows, the order of the tiles,
 *	  and the buffer for candidates.
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
 * How the warps of the filter pass candidate pairs to the recheck (refine.cu).
 *
 * The candidate buffer is divided into chunks.  A warp owns one chunk at a time and fills it
 * without synchronization, so there is one global atomic per chunk and none per pair.  A warp
 * counts the candidates of one step (one warp tile, for example) before it writes them.  It writes
 * either all of them or none.
 */

/*
 * log2 of the pairs per chunk, from 32 (what one warp rechecks) to 256. In small chunks,
 * neighboring pairs were found at about the same time and share rows, which makes the recheck
 * faster if rows have many dimensions.  Large chunks need fewer atomics per warp, which makes the
 * filter faster if rows have few dimensions.
 */
constexpr uint32_t kSmallChunkShift = 5;
constexpr uint32_t kLargeChunkShift = 8;

/* Maximum number of pairs that a warp writes in one step: a warp tile of 64 x 64. */
constexpr uint32_t kMostAtOnce = 4096;

/* The candidate buffer and the work queue (block_order.h). All pointers are device pointers. */
struct CandidateBuffer
{
	uint2	   *pairs;			/* place of each row in its operand */
	uint32_t   *counts;			/* pairs in each chunk; zero when a round begins */
	uint32_t	chunks;
	uint32_t	chunk_shift;	/* chunks have 2^chunk_shift pairs */
	WorkState  *state;
	Work	   *lists[2];		/* unfinished work, see WorkState.list */
	uint32_t	list_size;
	Work	   *voided;			/* work that this round could not finish */
};

/* Returns true if no further work may be started, because of a full buffer or cancellation. */
__device__ __forceinline__ bool
is_stopped(const WorkState *state)
{
	static_assert(offsetof(WorkState, stop) % 8 == 0 && offsetof(WorkState, cancelled)
				  == offsetof(WorkState, stop) + 4, "both are read at once");
	return *(volatile unsigned long long *) &state->stop != 0;
}

/* Takes the next work of the queue, by one thread of a block; false if it is empty or stopped. */
__device__ __forceinline__ bool
next_work(const CandidateBuffer &buffer, Work *work)
{
	WorkState  *state = buffer.state;

	if (is_stopped(state))
		return false;

	unsigned long long taken = atomicAdd(&state->taken, 1ULL);

	if (taken < state->unfinished)
	{
		*work = buffer.lists[state->list][taken];
		return true;
	}
	work->item = state->fresh_first + (taken - state->unfinished);
	work->warp = kAllWarps;
	work->resume = 0;
	return work->item < state->fresh_end;
}

/* Adds work to the list of unfinished work.  Rounds checks the length of the list. */
__device__ __forceinline__ void
add_unfinished(const CandidateBuffer &buffer, const Work &work)
{
	uint32_t	at = atomicAdd(&buffer.state->voided, 1u);

	if (at < buffer.list_size)
		buffer.voided[at] = work;
}

/* Writes the candidates of one warp. All lanes of the warp must call each function together. */
class CandidateWriter
{
public:
	__device__ __forceinline__ CandidateWriter() : slot_(0), end_(0) {}

	/* Reserves `wanted` consecutive slots; returns false if the candidate buffer is full. */
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

		/* all chunks but the last become full; close() stores the count of the last one */
		for (uint32_t i = lane; i + 1 < chunks; i += 32)
			buffer.counts[first + i] = size;
		slot_ = first << buffer.chunk_shift;
		end_ = (first + chunks) << buffer.chunk_shift;
		return true;
	}

	/* Returns the first of `count` slots that reserve() has reserved. */
	__device__ __forceinline__ uint32_t
	next_slots(uint32_t count)
	{
		uint32_t	slot = slot_;

		slot_ += count;
		return slot;
	}

	/* Adds this warp's item, from "resume" on, to the unfinished work, and stops the round. */
	__device__ __forceinline__ void
	save_unfinished(const CandidateBuffer &buffer, uint64_t item, uint32_t warp,
			uint32_t resume)
	{
		if (threadIdx.x % 32 == 0)
		{
			add_unfinished(buffer, {item, warp, resume});
			*(volatile uint32_t *) &buffer.state->stop = 1;
		}
		__syncwarp();
	}

	/* Stores the number of pairs in the last chunk. Must be called before the kernel ends. */
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
	uint32_t	end_;			/* end of this warp's chunk; 0 if it has none */
};

/* Exclusive prefix sum over the lanes of a warp. */
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

/* One operand of a join: staged rows, their quantized form, and the first row's number. */
struct JoinSide
{
	RowTable	table;
	QuantisedRows quantised;
	uint64_t	first_row = 0;
	uint32_t   *counts = nullptr;	/* number of pairs per row; null: not counted */
	const uint32_t *labels = nullptr;	/* partition label by row number; null: no partitions */

	/* See FastedComponents; both by row number.  Null: rows of all components are compared. */
	const uint32_t *components = nullptr;
	const double *cores = nullptr;
};

struct FilterParams
{
	QuantisedRows a;
	QuantisedRows b;
	uint32_t	row_bytes;		/* bytes of a quantized row, see row_bytes() */
	TileOrder	order;
	CandidateBuffer candidates;
};

/*
 * Capacity of the list of unfinished work, in entries per multiprocessor.  It covers each warp of
 * the multiprocessor with its current tile and the tiles already scheduled, and work that a block
 * has taken but not started.  If tiles are scheduled ahead in a ring, it also covers the tiles in
 * the ring, one tile just removed from it, and two scheduled before "stop" is seen.  For runs of
 * tiles, it covers the rest of one run and the next run.
 */
constexpr uint32_t kVoidedPerMultiprocessor = 640;

constexpr bool
list_is_long_enough(uint32_t tiles_ahead, uint32_t warps)
{
	return (tiles_ahead + 3) * warps + 4 <= kVoidedPerMultiprocessor;
}

/* Size of a kernel's block tiles and of the squares that order them (block_order.h), in rows. */
struct TileShape
{
	uint32_t	tile_m;
	uint32_t	tile_n;
	uint32_t	side;
};

/* mma.sync filter: compute capability 8.0 and later, all precisions, tiles of 128 x 128. */
void launch_filter_mma(const FilterParams &params, Precision precision, const Device &device,
					   cudaStream_t stream);

/* wgmma filter with TMA copies: compute capability 9.0, FP16 and INT8. */
bool filter_wgmma_available(const Device &device);
TileShape	wgmma_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						const Device &device);
void launch_filter_wgmma(const FilterParams &params, Precision precision, const Device &device,
						 cudaStream_t stream);

/*
 * Folded filter: capability 9.0, INT8 rows of row_bytes bytes with folded thresholds (see
 * row_table.h).
 */
TileShape	folded_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						 const Device &device);
void launch_filter_folded(const FilterParams &params, uint32_t row_bytes, const Device &device,
						  cudaStream_t stream);

/* Arguments of the exact recheck, which turns candidates into pairs. */
struct RefineParams
{
	JoinSide	a;
	JoinSide	b;
	bool		self;			/* self-join: the smaller row number comes first */
	double		eps;
	CandidateBuffer candidates;
	FastedPair *pairs;			/* capacity for all candidates; null: pairs are not stored */
	Connecting	connect;		/* clustering (connect.h); `pairs` then receives few pairs */

	/*
	 * Nearest neighbors: the radius of each row of a, by row number; null: eps applies.  With
	 * components, distances are replaced by mutual reachability distances.
	 */
	const double *radii = nullptr;
	bool		exclude_self = false;	/* exclude the pair of a row with itself */
	bool		symmetric = false;	/* the distance may be within the radius of either row */

	uint32_t	cancel_check_mask = 0;	/* see launch_refine */
};

/* Computes the exact distance of every candidate and emits the pairs within eps. */
void launch_refine(const RefineParams &params, const Device &device, cudaStream_t stream);

/*
 * Ends the round: writes its report and plans the next round, of at most `budget` new work items.
 */
void launch_advance(const CandidateBuffer &candidates, unsigned long long budget,
					RoundReport *report, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_H */
