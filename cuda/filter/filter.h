/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  What a filter is given: two sets of rows, an order, a place for hits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_H
#define FASTED_CUDA_FILTER_H

#include <cstdint>

#include "device/device.h"
#include "filter/candidates.cuh"
#include "output/connect.h"
#include "rows/quantised.h"
#include "rows/row_table.h"

namespace fasted
{

/* One side of a join: quantised, with the rows as staged and the number of the first one. */
struct JoinSide
{
	RowTable	table;
	QuantisedRows quantised;
	uint64_t	first_row = 0;
	const uint32_t *overflow = nullptr; /* approximate only: a value does not fit FP16 */
	uint32_t   *counts = nullptr;	/* where each row's pairs are counted; null: nowhere */
	const uint32_t *labels = nullptr;	/* filter_rows.h; null: all rows meet */
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

/* The same machines, INT8 rows with folded thresholds, of so many bytes (quantised.h). */
TileShape	folded_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						 const Device &device);
void launch_filter_folded(const FilterParams &params, uint32_t row_bytes, const Device &device,
						  cudaStream_t stream);

/* What launch_filter_mma does for FP64: rows in FP32, products in FP64. */
void launch_filter_fp64(const FilterParams &params, const Device &device, cudaStream_t stream);

/*
 * From candidates to pairs, and from one round to the next.
 */

struct RefineParams
{
	RowTable	a;
	RowTable	b;
	uint64_t	first_row_a;	/* global numbers of the first rows */
	uint64_t	first_row_b;
	bool		self;			/* of a set with itself: the lesser number first */
	double		eps;
	CandidateBuffer candidates;
	FastedPair *pairs;			/* room for every candidate; null: they are not kept */
	uint32_t   *counts_a;		/* of each row's pairs; null: not wanted */
	uint32_t   *counts_b;
	const uint32_t *labels_a;	/* of rows by number: filter_rows.h; null: all rows meet */
	const uint32_t *labels_b;
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
