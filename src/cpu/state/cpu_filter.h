/*-------------------------------------------------------------------------
 *
 * cpu_filter.h
 *	  The filter as an object: how rows are packed, compared and rechecked.
 *
 * Modules below the folder filter use the filters (filter/filters.h) by this table only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CPU_FILTER_H
#define FASTED_CPU_CPU_FILTER_H

#include "../../engine/host_device.h"
#include "context.h"

typedef struct PackJob PackJob;
typedef struct NearSide NearSide;
typedef struct NearThresholds NearThresholds;
typedef struct StageThresholds StageThresholds;
typedef struct Strip Strip;

struct CpuFilter
{
	/* The name in statistics; NULL: that of the kernel's integer filter. */
	const char *name;

	/*
	 * Sums of tiles, and thresholds, are INT32, and rows of tiles have other thresholds than columns.
	 * Otherwise sums and thresholds are FP32.
	 */
	bool		integer_sums;

	/* Packed rows are integers computed by an encoding's transform, with which INT16 rows may go. */
	bool		transforms;

	/* --- packed rows */

	/* Packs the rows loaded into a job as one sliver, and computes their thresholds. */
	void		(*pack) (Worker *worker, const PackJob *job, size_t sliver);

	/* Returns the threshold of a row of tiles, as a word.  `half` is its part in the squared distance. */
	uint32_t	(*threshold) (const PackedRows *packed, size_t place, double half);

	/* Packs one sliver of set i of a join, or recomputes its thresholds: see Packing. */
	void		(*pack_set) (Worker *worker, int i, size_t sliver);

	/* Inner product: returns a good spread for fasted_product_half. */
	double		(*product_spread) (const FastedContext *context, const Encoding *encoding, double eps);

	/* --- comparison */

	/*
	 * Returns those of the given row tiles of a strip that may have a pair with the column tile that
	 * begins at `col`.  NULL: all of them.
	 */
	FastedSpan	(*useful_tiles) (const FastedJoin *join, const Strip *strip, size_t col,
								 FastedSpan tiles);

	/* Returns the cost of a tile at this number of dimensions, per row: see level_choice.c. */
	double		(*cost) (const FastedContext *context, uint32_t dimensions);

	/* --- nearest neighbors */

	/* Computes the thresholds of the current strip at a stage from the radii of both sides. */
	void		(*near_thresholds) (NearThresholds *near, const NearSide *a, const NearSide *b,
									StageThresholds *stage);

	/* --- choice */

	/*
	 * Determines which encodings the sets of a join have and what has to be decided, and allocates what
	 * this takes; false if out of memory.  Called for the context's filter.
	 */
	bool		(*prepare_choice) (FastedJoin *join);
};

/* Returns how the kernel multiplies rows that this filter has packed. */
static inline const TileProduct *
cpu_product(const CpuKernel *kernel, const CpuFilter *filter)
{
	return filter->transforms ? &kernel->int8->product : &kernel->product;
}

/* Returns the factor by which an encoding multiplies centred rows. */
static inline double
cpu_scale(const CpuFilter *filter, const Encoding *encoding)
{
	return filter->transforms ? (double) encoding->transform.scale : encoding->scale;
}

#endif							/* FASTED_CPU_CPU_FILTER_H */
