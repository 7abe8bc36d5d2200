/*-------------------------------------------------------------------------
 *
 * wgmma_schedule.cuh
 *	  Which tile a block, or a cluster of blocks, of the wgmma filter is next.
 *
 * One thread a cluster takes runs from the queue, the next one in good time, so
 * that nobody waits for the atomic, and tells every block of the cluster tile by
 * tile.  The other blocks' scheduling threads tell it which of their slots are
 * free again.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_WGMMA_SCHEDULE_CUH
#define FASTED_CUDA_WGMMA_SCHEDULE_CUH

#include "filter/wgmma_runs.h"
#include "filter/wgmma_shape.h"
#include "ptx/ptx_mbarrier.h"

namespace fasted
{
namespace wgmma
{

/* A position in a ring of barriers. */
struct Ring
{
	uint32_t	index = 0;
	uint32_t	parity = 0;

	__device__ __forceinline__ void
	next(uint32_t size)
	{
		if (++index == size)
		{
			index = 0;
			parity ^= 1;
		}
	}
};

/* Takes work from the queue, one run at a time. */
class WorkAhead
{
public:
	__device__ __forceinline__ explicit WorkAhead(const CandidateBuffer &buffer)
		: buffer_(buffer),
		length_(buffer.state->again + (buffer.state->fresh_end - buffer.state->fresh_first))
	{
		ask();
	}

	/* False: there is none, or a warp found no room for its candidates. */
	__device__ __forceinline__ bool
	take(Work *work)
	{
		if (asked_ >= length_ || stopped())
			return false;
		*work = at(asked_);
		ask();
		return true;
	}

	/* Is no more work to be begun?  As seen a moment ago. */
	__device__ __forceinline__ bool
	stopped()
	{
		bool		stopped = stop_;

		stop_ = is_stopped(buffer_.state);
		return stopped;
	}

	/* After "stop": what was taken, but not begun, is to be done again. */
	__device__ __forceinline__ void
	give_back()
	{
		if (asked_ < length_)
			give_back(at(asked_));
	}

	__device__ __forceinline__ void
	give_back(const Work &work)
	{
		uint32_t	to = atomicAdd(&buffer_.state->voided, 1u);

		if (to < buffer_.list_size)
			buffer_.voided[to] = work;
	}

private:
	__device__ __forceinline__ Work
	at(unsigned long long number) const
	{
		const WorkState *state = buffer_.state;

		if (number < state->again)
			return buffer_.lists[state->list][number];
		return {state->fresh_first + (number - state->again), kAllWarps, 0};
	}

	__device__ __forceinline__ void
	ask()
	{
		asked_ = atomicAdd(&buffer_.state->taken, 1ULL);
	}

	const CandidateBuffer &buffer_;
	unsigned long long length_;
	unsigned long long asked_ = 0;
	bool		stop_ = false;
};

/* Writes a tile's place into the slots of all blocks of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
announce(Control &control, uint32_t slot, const TilePlace &place)
{
	uint32_t	placed = ptx::shared_address(&control.placed[slot]);

	if (kCluster == 1)
	{
		control.tiles[slot].place = place;
		ptx::barrier_arrive(placed);
		return;
	}

	const uint64_t *words = (const uint64_t *) &place;
	uint32_t	to = ptx::shared_address(&control.tiles[slot].place);

#pragma unroll
	for (uint32_t rank = 0; rank < kCluster; rank++)
	{
#pragma unroll
		for (uint32_t i = 0; i < sizeof(TilePlace) / 8; i++)
			ptx::store_cluster(ptx::cluster_address(to + i * 8, rank), words[i]);
		ptx::barrier_arrive_cluster(ptx::cluster_address(placed, rank));
	}
}

/* Waits until the slot is free in all blocks of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
wait_for_slot(Control &control, const Ring &tile)
{
	ptx::barrier_wait(ptx::shared_address(&control.tile_empty[tile.index]), tile.parity ^ 1);
	if (kCluster > 1)
		ptx::barrier_wait_cluster(ptx::shared_address(&control.peer_empty[tile.index]),
								  tile.parity);
}

/* The scheduling thread of a cluster's first block. */
template <int kCluster>
__device__ __forceinline__ void
schedule(const FilterParams &f, Control &control)
{
	WorkAhead	queue(f.candidates);
	Ring		tile;
	Work		work;
	Square		square;
	Run			run;
	bool		stopped = false;

	while (!stopped && queue.take(&work))
	{
		if (!locate_run(f.order, work.item, &square, &run))
			continue;

		/* of work to be done again: one warp's tile, or the rest of a run */
		bool		again = work.warp != kAllWarps;
		uint32_t	first = max(run.first, work.resume);
		uint32_t	end = again ? work.resume + 1 : run.end;

		for (uint32_t n = first; n < end; n++)
		{
			uint32_t	column = run.column + n * kTileN;

			stopped = queue.stopped();
			if (stopped)
			{
				queue.give_back({work.item, work.warp, n});
				break;
			}
			wait_for_slot<kCluster>(control, tile);
			announce<kCluster>(control, tile.index,
							   {work.item, n, work.warp, run.row, column,
								   (n == first ? kFirstOfRun : 0)
								   | (n + 1 == end ? kLastOfRun : 0)
								   | (whole_tile(f.order, run.row, column) ? kWhole : 0), 0});
			tile.next(kTilesAhead);
		}
	}
	wait_for_slot<kCluster>(control, tile);
	announce<kCluster>(control, tile.index, {0, 0, 0, 0, 0, kEnd, 0});
	queue.give_back();
}

/* The scheduling thread of another block: says which slots are free. */
__device__ __forceinline__ void
forward_free_slots(Control &control)
{
	Ring		tile;

	for (;;)
	{
		ptx::barrier_wait(ptx::shared_address(&control.tile_empty[tile.index]),
						  tile.parity ^ 1);
		ptx::barrier_arrive_cluster(ptx::cluster_address(
			ptx::shared_address(&control.peer_empty[tile.index]), 0));
		ptx::barrier_wait_cluster(ptx::shared_address(&control.placed[tile.index]),
								  tile.parity);
		if (control.tiles[tile.index].place.flags & kEnd)
			break;
		tile.next(kTilesAhead);
	}
}

}								/* namespace wgmma */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_WGMMA_SCHEDULE_CUH */
