/*-------------------------------------------------------------------------
 *
 * wgmma_shape.h
 *	  The wgmma filter's tiles, and what it keeps in shared memory.
 *
 * A block computes tiles of 128 x 256 products: two warpgroups of 64 x 256, 128
 * accumulators a thread.  (Three do not fit: ptxas wants 154 registers for such
 * a product and gives a block of four warpgroups 128.)
 *
 * Rows pass through shared memory in slices of 128 bytes (the width of the
 * swizzle), in two rings: one of A's slices (128 rows), one of B's (256 rows).
 * A run is a row of tiles with the same A.  Where the slices of A's rows fit
 * into the ring at once, they stay there for the whole run, and only B passes.
 * Longer rows have runs of one tile.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_WGMMA_SHAPE_H
#define FASTED_CUDA_WGMMA_SHAPE_H

#include <cstdint>

#include "filter/filter.h"
#include "filter/wgmma_runs.h"
#include "rows/row_order.h"

namespace fasted
{
namespace wgmma
{

constexpr uint32_t kGroupRows = 64; /* the M of one wgmma */
constexpr uint32_t kConsumers = 2;	/* warpgroups that multiply */
constexpr uint32_t kTileM = kConsumers * kGroupRows;
constexpr uint32_t kConsumerThreads = kConsumers * 128;
constexpr uint32_t kConsumerWarps = kConsumers * 4;
constexpr uint32_t kThreads = 128 + kConsumerThreads;

/*
 * The block's 65536 registers: 128 threads with 40 and 256 with 232, of which
 * 128 hold products.
 */
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;

constexpr uint32_t kSliceBytes = 128;
constexpr uint32_t kSteps = kSliceBytes / kStepBytes;
constexpr uint32_t kSlotBytesA = kTileM * kSliceBytes;
constexpr uint32_t kSlotBytesB = kTileN * kSliceBytes;
constexpr uint32_t kMostSlots = 8;
constexpr uint32_t kTilesAhead = 4; /* tiles whose thresholds are in memory */

/* A run is as wide as a square, and a square as high as a number of tiles. */
constexpr uint32_t kLeastSide = 1024;
constexpr uint32_t kMostSide = 4096;
static_assert(kLeastSide % (2 * kTileM) == 0 && kLeastSide % kTileN == 0,
			  "tiles, of clusters of two blocks too, divide squares");

/* What the scheduling thread tells the others about a tile. */
struct alignas(16) TilePlace
{
	uint64_t	item;			/* the run that the tile belongs to */
	uint32_t	number;			/* which of the run's tiles it is */
	uint32_t	warp;			/* the only warp to report hits, or kAllWarps */
	uint32_t	row;			/* of the cluster's first product */
	uint32_t	column;
	uint32_t	flags;
	uint32_t	reserved;
};

constexpr uint32_t kFirstOfRun = 1; /* A is new */
constexpr uint32_t kLastOfRun = 2;	/* A is not used again */
constexpr uint32_t kWhole = 4;		/* every product is a pair that is asked for */
constexpr uint32_t kEnd = 8;		/* no tile: there is no more work */

struct alignas(16) TileSlot
{
	uint32_t	tx[kTileM];		/* thresholds, FP32 or INT32 */
	uint32_t	ty[kTileN];
	uint32_t	minima[kTileN / kMinimaColumns];	/* of ty */
	TilePlace	place;
};

constexpr uint32_t kThresholdBytes =
	(kTileM + kTileN + kTileN / kMinimaColumns) * sizeof(uint32_t);

/* Barriers: "full" is for the warpgroups that multiply, "empty" is from them. */
struct Control
{
	alignas(16) TileSlot tiles[kTilesAhead];
	alignas(8) uint64_t placed[kTilesAhead];	/* the place is known */
	uint64_t	tile_full[kTilesAhead]; /* and the thresholds are there */
	uint64_t	tile_empty[kTilesAhead];
	uint64_t	peer_empty[kTilesAhead];	/* in the other blocks of a cluster */
	uint64_t	a_full[kMostSlots];
	uint64_t	a_empty[kMostSlots];
	uint64_t	b_full[kMostSlots];
	uint64_t	b_empty[kMostSlots];
};

/* How shared memory is divided between the two rings. */
struct Rings
{
	uint32_t	slots_a;
	uint32_t	slots_b;

	constexpr uint32_t bytes() const { return slots_a * kSlotBytesA + slots_b * kSlotBytesB; }
};

constexpr uint32_t kAlignment = 1024;	/* of a swizzled tile */
constexpr uint32_t kSharedBytes = 227 * 1024;
constexpr uint32_t kRingBytes = (kSharedBytes - kAlignment - sizeof(Control)) / 16 * 16;

constexpr uint32_t
slices_of(uint32_t row_bytes)
{
	return (row_bytes + kSliceBytes - 1) / kSliceBytes;
}

constexpr uint32_t kMostResidentSlices = 7;

/* Does A stay for a whole run? */
constexpr bool
resident(uint32_t row_bytes)
{
	return slices_of(row_bytes) <= kMostResidentSlices;
}

/*
 * Room for the next run's A where it can be had, and three slots or more for B.
 */
constexpr Rings
rings_for(uint32_t row_bytes)
{
	uint32_t	slices = slices_of(row_bytes);

	return slices <= 2 ? Rings{slices * 2, 4}
		: slices <= 3 ? Rings{5, 4}
		: resident(row_bytes) ? Rings{7, 3}
		: Rings{4, 4};
}

static_assert(rings_for(128).bytes() <= kRingBytes && rings_for(256).bytes() <= kRingBytes
			  && rings_for(384).bytes() <= kRingBytes
			  && rings_for(896).bytes() <= kRingBytes && rings_for(4096).bytes() <= kRingBytes,
			  "the rings fit");

static_assert(list_is_long_enough(kTilesAhead, kConsumerWarps),
			  "the list of voided work is too short");

}								/* namespace wgmma */
}								/* namespace fasted */

#endif							/* FASTED_CUDA_WGMMA_SHAPE_H */
