/*-------------------------------------------------------------------------
 *
 * filter.h
 *	  What a filter is given: two sets of rows, an order, a place for hits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_H
#define FASTED_CUDA_FILTER_H

#include <cuda_fp16.h>

#include <cstdint>

#include "block_order.h"
#include "candidates.cuh"
#include "row_table.h"

namespace fasted
{

/*
 * FP16 rows are padded to a multiple of 16 dimensions: the K of one tensor core
 * instruction, and 32 bytes, a sector of the L2 cache.  The paper aligns rows to
 * 128 bytes; at d = 65 that costs 256 bytes a row instead of 160, and a copy
 * that begins inside a line still moves whole sectors.
 */
constexpr uint32_t kStepK = 16;

/* Thresholds are padded with +infinity to the largest tile side. */
constexpr uint32_t kThresholdPad = 256;

/* One side of a join, quantised. */
struct QuantisedRows
{
	const __half *values;		/* rows x stride */
	const float *thresholds;	/* t of filter_bound.h, or the paper's s_i */
	uint32_t	rows;
};

struct FilterParams
{
	QuantisedRows a;
	QuantisedRows b;
	uint32_t	stride;			/* in values; a multiple of kStepK */
	uint32_t	k_steps;		/* stride / kStepK */
	TileOrder	order;
	CandidateBuffer candidates;
	float		eps2;			/* approximate only */
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
 * that runs there, for the tile in hand and those already taken.
 */
constexpr uint32_t kVoidedPerMultiprocessor = 64;

/* mma.sync, compute capability 8.0 and later; tiles of 128 x 128. */
void launch_filter_mma(const FilterParams &params, bool approximate,
					   const Device &device, cudaStream_t stream);

/* wgmma and TMA, compute capability 9.0; tiles of 128 x 256. */
bool filter_wgmma_available(const Device &device);
void launch_filter_wgmma(const FilterParams &params, bool approximate,
						 const Device &device, cudaStream_t stream);

/* Every distance in canonical FP64; tiles of 128 x 128. */
void launch_filter_fp64(const Fp64Params &params, const Device &device,
						cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_H */
