/*-------------------------------------------------------------------------
 *
 * pack.h
 *	  Packs rows of numbers, and computes their thresholds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PACK_H
#define FASTED_CPU_PACK_H

#include <float.h>

#include "../state/worker.h"

/* A sliver of rows to be packed: their encoding, eps and destination. */
struct PackJob
{
	const FastedContext *context;
	const Encoding *encoding;
	double		eps;
	double		eps_upper;		/* upper bound of eps in the encoding's scale; not for products */
	double		spread;			/* for inner products: see fasted_product_half */
	PackedRows *to;
	const float *rows[FASTED_MAX_WIDTH];	/* rows of the sliver; NULL: a row without pairs */
	double		moved[FASTED_MAX_WIDTH];	/* bounds of their distances from the exact rows */
};

/* The largest squared norm of a packed row in range.  Thresholds are at most that, well within FP32. */
#define NORM2_LIMIT 0x1p120

/* Packs a sliver.  Returns a bit mask of rows out of range or not finite, which are packed as zeros. */
static inline uint32_t
cpu_pack_in_range(const CpuKernel *kernel, PackSliver *pack)
{
	uint32_t	out_of_range = 0;

	kernel->pack(pack);
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		if (pack->norm2[r] <= NORM2_LIMIT && pack->error2[r] <= NORM2_LIMIT)
			continue;
		pack->rows[r] = NULL;
		out_of_range |= 1U << r;
	}
	if (out_of_range != 0)
		kernel->pack(pack);
	return out_of_range;
}

/* Returns the bound of row r, job->moved[r], in the scale of packed rows, rounded up. */
static inline double
cpu_moved(const PackJob *job, uint32_t r, double scale)
{
	return job->moved[r] * scale * (1.0 + DBL_EPSILON);
}

/* Returns the largest distance of two filter rows whose distance is at most eps. */
extern double cpu_reach(const FastedContext *context, double eps);

/* Returns an upper bound of cpu_reach in the scale of the packed rows. */
extern double cpu_eps_upper(const FastedJoin *join, const Encoding *encoding,
							const CpuFilter *filter, double eps);

/* Returns a job that packs rows into `to`, with thresholds for eps.  The rows have to be loaded. */
extern PackJob cpu_pack_job(const FastedJoin *join, const Encoding *encoding,
							const CpuFilter *filter, double eps, PackedRows *to);

/*
 * Inner product: returns a good spread for fasted_product_half, the ratio of the packing errors of two
 * rows to their distance; else zero.
 */
extern double cpu_product_spread(const FastedJoin *join, const Encoding *encoding,
								 const CpuFilter *filter, double eps);

/*
 * Return the part of a row, or of its INT16 row, in the squared distance of the packed rows of a pair:
 * for inner products within eps, and for any metric within the eps of the job.
 */
extern double cpu_product_half(const FastedContext *context, const Encoding *encoding,
							   const PackedRows *rows, size_t row, double eps, double spread,
							   bool int16);
extern double cpu_half_of(const PackJob *job, size_t row, bool int16);

/* Sets the threshold of an INT16 row for the eps of a job. */
extern void cpu_set_int16_threshold(const PackJob *job, size_t row);

/* Sets a row's thresholds.  That of a column is larger by flip_sum: see cpu_flip_sum. */
extern void cpu_set_threshold(const PackJob *job, size_t row, uint32_t flip_sum);

/* Recomputes the thresholds of one sliver for the eps of a job. */
extern void cpu_set_thresholds(const PackJob *job, uint32_t width, size_t sliver);

/* Returns true if rows of this encoding and filter get INT16 rows, too. */
extern bool cpu_has_int16(const FastedJoin *join, const Encoding *encoding, const CpuFilter *filter);

/* Loads a row into its place of the sliver to be packed. */
extern void cpu_load_row(Worker *worker, PackJob *job, size_t place, const float *row);

/* Implements CpuFilter.pack_set for numbers.  Places beyond the last row are padding. */
extern void cpu_pack_set_sliver(Worker *worker, int i, size_t sliver);

/* Determines what has to be packed, when encoding and filter are known; false if nothing has. */
extern bool cpu_begin_packing(FastedJoin *join);

#endif							/* FASTED_CPU_PACK_H */
