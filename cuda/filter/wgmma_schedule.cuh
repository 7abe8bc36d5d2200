/*-------------------------------------------------------------------------
 *
 * wgmma_schedule.cuh
 *	  The wgmma filter: its tiles, its shared memory layout, and the scheduling of tiles.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_WGMMA_SCHEDULE_CUH
#define FASTED_CUDA_WGMMA_SCHEDULE_CUH

#include <cstdint>

#include "device/ptx.h"
#include "filter/filter.h"

namespace fasted
{

/*
 * A block computes tiles of 128 x 256 products: two consumer warpgroups of 64 x 256, 128
 * accumulators per thread.  Three do not fit: ptxas needs 154 registers for such a product, but
 * limits a block of four warpgroups to 128.
 *
 *		row of A or B      |  K block  |  K block  |  K block  | steps |	K block: 128 bytes,
 *		                        |           |                       	the width of the swizzle
 *		ring A (128 rows)  [ stage 0 | stage 1 | ... ]   full / empty barriers for each stage
 *		ring B (256 rows)  [ stage 0 | stage 1 | ... ]
 *
 * A run is a row of tiles that use the same rows of A.  If all K blocks of these rows fit into the
 * ring, they remain resident for the whole run, and only B is copied for each tile.  For longer
 * rows, a run is one tile.
 */

namespace wgmma
{

constexpr uint32_t kGroupRows = 64; /* M of one wgmma instruction */
constexpr uint32_t kConsumers = 2;	/* warpgroups that compute products */
constexpr uint32_t kTileM = kConsumers * kGroupRows;
constexpr uint32_t kConsumerThreads = kConsumers * 128;
constexpr uint32_t kConsumerWarps = kConsumers * 4;
constexpr uint32_t kThreads = 128 + kConsumerThreads;

/*
 * The block's 65536 registers: 128 threads with 40 and 256 threads with 232, of which 128 are
 * accumulators.
 */
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

constexpr uint32_t kBlockBytes = 128;
constexpr uint32_t kSteps = kBlockBytes / kStepBytes;
constexpr uint32_t kStageBytesA = kTileM * kBlockBytes;
constexpr uint32_t kStageBytesB = kTileN * kBlockBytes;
constexpr uint32_t kMostStages = 8;
constexpr uint32_t kTilesAhead = 4; /* tiles whose thresholds are in shared memory */

/*
 * Bounds of the side of a square.  A run is as wide as a square, and a square is a number of tiles
 * high.
 */
constexpr uint32_t kLeastSide = 1024;
constexpr uint32_t kMostSide = 4096;
static_assert(kLeastSide % (2 * kTileM) == 0 && kLeastSide % kTileN == 0,
			  "tiles, of clusters of two blocks too, divide squares");

/* A tile, passed from the scheduling thread to the other threads. */
struct alignas(16) ScheduledTile
{
	uint64_t	item;			/* work item: the run of the tile */
	uint32_t	number;			/* number of the tile within the run */
	uint32_t	warp;			/* the only warp that emits candidates, or kAllWarps */
	uint32_t	row;			/* matrix row and column of the cluster's first product */
	uint32_t	column;
	uint32_t	flags;
	uint32_t	reserved;
};

constexpr uint32_t kFirstOfRun = 1; /* the rows of A must be copied */
constexpr uint32_t kLastOfRun = 2;	/* the rows of A are not used again */
constexpr uint32_t kWhole = 4;		/* every product is a requested pair */
constexpr uint32_t kEnd = 8;		/* no tile: the queue is empty */

struct alignas(16) TileStage
{
	uint32_t	tx[kTileM];		/* thresholds, FP32 or INT32 */
	uint32_t	ty[kTileN];
	uint32_t	minima[kTileN / kMinimaColumns];	/* minimum of ty per 64 columns */
	ScheduledTile scheduled;
};

constexpr uint32_t kThresholdBytes =
	(kTileM + kTileN + kTileN / kMinimaColumns) * sizeof(uint32_t);

/*
 * Scheduled tiles and barriers in shared memory.  Warpgroups that compute wait for "full" barriers
 * and arrive at "empty" barriers.
 */
struct Control
{
	alignas(16) TileStage tiles[kTilesAhead];
	alignas(8) uint64_t ready[kTilesAhead];	/* `scheduled` is set */
	uint64_t	tile_full[kTilesAhead]; /* thresholds are copied */
	uint64_t	tile_empty[kTilesAhead];
	uint64_t	peer_empty[kTilesAhead];	/* stages free in the other blocks of the cluster */
	uint64_t	a_full[kMostStages];
	uint64_t	a_empty[kMostStages];
	uint64_t	b_full[kMostStages];
	uint64_t	b_empty[kMostStages];
};

/* Number of stages of each ring in shared memory. */
struct Rings
{
	uint32_t	stages_a;
	uint32_t	stages_b;

	constexpr uint32_t bytes() const { return stages_a * kStageBytesA + stages_b * kStageBytesB; }
};

constexpr uint32_t kAlignment = 1024;	/* bytes, required for a swizzled tile */
constexpr uint32_t kSharedBytes = 227 * 1024;
constexpr uint32_t kRingBytes = (kSharedBytes - kAlignment - sizeof(Control)) / 16 * 16;

constexpr uint32_t
k_blocks_of(uint32_t row_bytes)
{
	return (row_bytes + kBlockBytes - 1) / kBlockBytes;
}

constexpr uint32_t kMostResidentBlocks = 7;

/* Returns true if the rows of A remain resident for a whole run. */
constexpr bool
resident(uint32_t row_bytes)
{
	return k_blocks_of(row_bytes) <= kMostResidentBlocks;
}

/*
 * Divides shared memory between the rings: three or more stages for B and, if possible, space for
 * the A of the next run.
 */
constexpr Rings
rings_for(uint32_t row_bytes)
{
	uint32_t	blocks = k_blocks_of(row_bytes);

	return blocks <= 2 ? Rings{blocks * 2, 4}
		: blocks <= 3 ? Rings{5, 4}
		: resident(row_bytes) ? Rings{7, 3}
		: Rings{4, 4};
}

static_assert(rings_for(128).bytes() <= kRingBytes && rings_for(256).bytes() <= kRingBytes
			  && rings_for(384).bytes() <= kRingBytes
			  && rings_for(896).bytes() <= kRingBytes && rings_for(4096).bytes() <= kRingBytes,
			  "the rings fit");

static_assert(list_is_long_enough(kTilesAhead, kConsumerWarps),
			  "the list of unfinished work is too short");

/* Side of the squares: as large as possible without leaving multiprocessors idle. */
inline uint32_t
side_for(uint32_t tile_m, uint32_t least, uint32_t rows_a, uint32_t rows_b, bool self,
		 const Device &device)
{
	uint32_t	side = kMostSide;

	for (; side > least; side /= 2)
	{
		uint64_t	squares = ceil_div(rows_a, side) * ceil_div(rows_b, side);

		if (squares / (self ? 2 : 1) * (side / tile_m) >= (uint64_t) device.multiprocessors * 16)
			break;
	}
	return side;
}

/*
 * Scheduling of the tiles of a block, or of a cluster of blocks.
 *
 * One thread per cluster takes runs from the queue.  It requests each run early, so that no thread
 * waits for the atomic operation, and passes it to every block of the cluster tile by tile.  The
 * scheduling threads of the other blocks tell it which of their stages are free.
 */

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

/* Takes runs from the queue, requesting one run ahead. */
class WorkAhead
{
public:
	__device__ __forceinline__ explicit WorkAhead(const CandidateBuffer &buffer)
		: buffer_(buffer), length_(queue_length(*buffer.state))
	{
		request_next();
	}

	/* Returns false if the queue is empty or stopped. */
	__device__ __forceinline__ bool
	next(Work *work)
	{
		if (requested_ >= length_ || stopped())
			return false;
		*work = at(requested_);
		request_next();
		return true;
	}

	/* Returns true if the queue was stopped at the time of the previous call. */
	__device__ __forceinline__ bool
	stopped()
	{
		bool		stopped = stop_;

		stop_ = is_stopped(buffer_.state);
		return stopped;
	}

	/* After "stop": adds the run that was requested but not started to the unfinished work. */
	__device__ __forceinline__ void
	save_unfinished()
	{
		if (requested_ < length_)
			add_unfinished(buffer_, at(requested_));
	}

private:
	__device__ __forceinline__ Work
	at(unsigned long long number) const
	{
		const WorkState *state = buffer_.state;

		if (number < state->unfinished)
			return buffer_.lists[state->list][number];
		return {state->fresh_first + (number - state->unfinished), kAllWarps, 0};
	}

	__device__ __forceinline__ void
	request_next()
	{
		requested_ = atomicAdd(&buffer_.state->taken, 1ULL);
	}

	const CandidateBuffer &buffer_;
	unsigned long long length_;
	unsigned long long requested_ = 0;
	bool		stop_ = false;
};

/* Writes a scheduled tile into the stage of every block of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
publish(Control &control, uint32_t stage, const ScheduledTile &tile)
{
	uint32_t	ready = ptx::shared_address(&control.ready[stage]);

	if (kCluster == 1)
	{
		control.tiles[stage].scheduled = tile;
		ptx::barrier_arrive(ready);
		return;
	}

	const uint64_t *words = (const uint64_t *) &tile;
	uint32_t	to = ptx::shared_address(&control.tiles[stage].scheduled);

#pragma unroll
	for (uint32_t rank = 0; rank < kCluster; rank++)
	{
#pragma unroll
		for (uint32_t i = 0; i < sizeof(ScheduledTile) / 8; i++)
			ptx::store_cluster(ptx::cluster_address(to + i * 8, rank), words[i]);
		ptx::barrier_arrive_cluster(ptx::cluster_address(ready, rank));
	}
}

/* Waits until the stage is free in every block of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
wait_for_stage(Control &control, const Ring &tile)
{
	ptx::barrier_wait(ptx::shared_address(&control.tile_empty[tile.index]), tile.parity ^ 1);
	if (kCluster > 1)
		ptx::barrier_wait_cluster(ptx::shared_address(&control.peer_empty[tile.index]),
								  tile.parity);
}

/* Runs in the scheduling thread of a cluster's first block. */
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

	while (!stopped && queue.next(&work))
	{
		if (!locate_run(f.order, work.item, &square, &run))
			continue;

		/* unfinished work: one warp's tile, or the rest of a run */
		bool		resumed = work.warp != kAllWarps;
		uint32_t	first = max(run.first, work.resume);
		uint32_t	end = resumed ? work.resume + 1 : run.end;

		for (uint32_t n = first; n < end; n++)
		{
			uint32_t	column = run.column + n * kTileN;

			stopped = queue.stopped();
			if (stopped)
			{
				add_unfinished(f.candidates, {work.item, work.warp, n});
				break;
			}
			wait_for_stage<kCluster>(control, tile);
			publish<kCluster>(control, tile.index,
							   {work.item, n, work.warp, run.row, column,
								   (n == first ? kFirstOfRun : 0)
								   | (n + 1 == end ? kLastOfRun : 0)
								   | (whole_tile(f.order, run.row, column) ? kWhole : 0), 0});
			tile.next(kTilesAhead);
		}
	}
	wait_for_stage<kCluster>(control, tile);
	publish<kCluster>(control, tile.index, {0, 0, 0, 0, 0, kEnd, 0});
	queue.save_unfinished();
}

/* Runs in the scheduling thread of the other blocks: tells the first block which stages are free. */
__device__ __forceinline__ void
forward_free_stages(Control &control)
{
	Ring		tile;

	for (;;)
	{
		ptx::barrier_wait(ptx::shared_address(&control.tile_empty[tile.index]),
						  tile.parity ^ 1);
		ptx::barrier_arrive_cluster(ptx::cluster_address(
			ptx::shared_address(&control.peer_empty[tile.index]), 0));
		ptx::barrier_wait_cluster(ptx::shared_address(&control.ready[tile.index]),
								  tile.parity);
		if (control.tiles[tile.index].scheduled.flags & kEnd)
			break;
		tile.next(kTilesAhead);
	}
}

}								/* namespace wgmma */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_WGMMA_SCHEDULE_CUH */
