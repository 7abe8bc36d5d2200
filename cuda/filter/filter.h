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

#include "filter/block_order.h"
#include "filter/candidates.cuh"
#include "rows/row_table.h"

namespace fasted
{

/* What rows are quantised to. */
enum class Precision
{
	kFp16,						/* products summed in FP32; thresholds in FP32 */
	kInt8						/* products summed in INT32; thresholds in INT32 */
};

constexpr uint32_t
element_bytes(Precision precision)
{
	return precision == Precision::kInt8 ? 1 : 2;
}

/*
 * The K of one tensor core instruction, in bytes of a row: 16 numbers in FP16,
 * 32 in INT8, and a sector of the L2 cache.  Rows are padded to a multiple of
 * it, with zeros.  The paper aligns rows to 128 bytes; at d = 65 that costs 256
 * bytes a row instead of 160, and a copy that begins inside a line still moves
 * whole sectors.
 */
constexpr uint32_t kStepBytes = 32;

/* Bytes of a quantised row. */
constexpr uint32_t
row_bytes(uint32_t dimensions, Precision precision)
{
	return (dimensions * element_bytes(precision) + kStepBytes - 1) / kStepBytes * kStepBytes;
}

/*
 * Thresholds are padded with what no product reaches, to a multiple of this and
 * by as much again: no tile, and no pair of tiles, is higher.
 */
constexpr uint32_t kThresholdPad = 512;

constexpr uint32_t
padded_thresholds(uint64_t rows)
{
	return (uint32_t) ((rows + kThresholdPad - 1) / kThresholdPad * kThresholdPad
					   + kThresholdPad);
}

/* One side of a join, quantised. */
struct QuantisedRows
{
	const void *values;			/* rows x row_bytes */
	const uint32_t *thresholds; /* t of filter_bound.h in FP32 or INT32, or the paper's s_i */
	const uint32_t *minima;		/* of the thresholds of 64 rows each (row_order.h) */
	uint32_t	rows;
};

/* The same, with the rows as staged and the number of the first one. */
struct JoinSide
{
	RowTable	table;
	QuantisedRows quantised;
	uint64_t	first_row = 0;
	const uint32_t *overflow = nullptr; /* approximate only: a value does not fit FP16 */
	uint32_t   *counts = nullptr;	/* where each row's pairs are counted; null: nowhere */
};

struct FilterParams
{
	QuantisedRows a;
	QuantisedRows b;
	uint32_t	row_bytes;		/* a multiple of kStepBytes */
	TileOrder	order;
	CandidateBuffer candidates;
	float		eps2;			/* approximate only */
};

/* What makes a product a hit (epilogue.cuh). */
enum class Criterion
{
	kFp16,						/* certified */
	kInt8,
	kPaper						/* the paper's own, in FP16, approximate */
};

/* The same for the FP64 filter, which reads the rows themselves. */
struct Fp64Params
{
	RowTable	a;
	RowTable	b;
	uint32_t	dimensions;
	double		eps;
	TileOrder	order;
	CandidateBuffer candidates;
};

/* What the launchers need to know of the device. */
struct Device
{
	int			ordinal;
	int			capability;		/* 90 for 9.0 */
	int			multiprocessors;
	int			shared_per_multiprocessor;
	char		name[96];
};

/*
 * The list of voided work has room for this much a multiprocessor: every warp
 * that runs there, for the tile in hand and those already taken, and what the
 * blocks have taken and not begun.
 */
constexpr uint32_t kVoidedPerMultiprocessor = 96;

/* The shape of a kernel's tiles, and of the squares they are taken in. */
struct TileShape
{
	uint32_t	tile_m;
	uint32_t	tile_n;
	uint32_t	side;
};

/* mma.sync, compute capability 8.0 and later; tiles of 128 x 128. */
void launch_filter_mma(const FilterParams &params, Criterion criterion, const Device &device,
					   cudaStream_t stream);

/* wgmma and TMA, compute capability 9.0. */
bool filter_wgmma_available(const Device &device);
TileShape	wgmma_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
						const Device &device);
extern uint32_t wgmma_cluster;	/* to measure: blocks of a cluster; 0: by the rows */
void launch_filter_wgmma(const FilterParams &params, Criterion criterion, const Device &device,
						 cudaStream_t stream);

/* Every distance in canonical FP64; tiles of 128 x 128. */
void launch_filter_fp64(const Fp64Params &params, const Device &device,
						cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_H */
