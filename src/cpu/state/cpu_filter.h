/*-------------------------------------------------------------------------
 *
 * cpu_filter.h
 *	  The filter as an object: how rows are packed, compared and rechecked.
 *
 * There are three filters: for numbers in FP32 (filter/fp32.c), for numbers in INT8 or INT16
 * (filter/integers.c), and for rows of bits (filter/bits.c).  Modules below the folder filter use them by
 * this table only.
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
	/* Returns the name of the filter in statistics. */
	const char *(*name) (const CpuKernel *kernel);

	/* Sums of tiles, and thresholds, are INT32; otherwise FP32. */
	bool		integer_sums;

	/*
	 * The packed rows are integers that an encoding's transform has computed from numbers.  Only they
	 * may be accompanied by INT16 rows.
	 */
	bool		transforms;

	/* --- packed rows */

	/*
	 * Returns the number of words of a packed row.  `dimensions` is the number of dimensions, or the
	 * number of words to which a row of bits is folded.
	 */
	uint32_t	(*words) (const CpuKernel *kernel, uint32_t dimensions);

	/* Returns the number of which the words of a segment are a multiple; itself a multiple of 8. */
	uint32_t	(*word_step) (const CpuKernel *kernel);

	/* Returns true if rows of tiles are packed in another way than columns. */
	bool		(*sides_differ) (const CpuKernel *kernel);

	/* Rows of tiles have other thresholds than columns even if both are packed alike. */
	bool		two_thresholds;

	/* Packs the rows loaded into a job as one sliver, and computes their thresholds. */
	void		(*pack) (Worker *worker, const PackJob *job, size_t sliver);

	/* Recomputes the thresholds of one sliver for the eps of a job. */
	void		(*set_thresholds) (const PackJob *job, uint32_t width, size_t sliver);

	/* Packs one sliver of set i of a join, or recomputes its thresholds: see Packing. */
	void		(*pack_set) (Worker *worker, int i, size_t sliver);

	/* Returns the factor by which an encoding multiplies centred rows. */
	double		(*scale) (const Encoding *encoding);

	/* Inner product: returns a good spread for fasted_product_half. */
	double		(*product_spread) (const FastedContext *context, const Encoding *encoding, double eps);

	/* --- comparison */

	/* Multiplies the tiles of a sweep. */
	void		(*sweep) (const CpuKernel *kernel, const TileSweep *sweep);

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

	/*
	 * Returns the threshold of a row, as a word.  `half` is its part in the squared distance.  Used by
	 * near_thresholds of numbers; NULL for bits.
	 */
	uint32_t	(*near_threshold) (const NearSide *side, size_t place, double half);

	/*
	 * Initial radii: returns the term that is added to minus twice a product to give the squared
	 * distance of a column from a row, up to a term of the row.
	 */
	float		(*column_term) (const FastedJoin *join, const PackedRows *cols, size_t place);

	/* Returns the side of the squares in which partial sums are stored; 0: they are stored by rows. */
	uint32_t	(*partial_side) (const CpuKernel *kernel);

	/* --- choice */

	/*
	 * Determines which encodings the sets of a join have, what has to be decided, and allocates what
	 * this takes.  Returns false if out of memory.  Called for the context's filter.
	 */
	bool		(*prepare_choice) (FastedJoin *join);
};

#endif							/* FASTED_CPU_CPU_FILTER_H */
