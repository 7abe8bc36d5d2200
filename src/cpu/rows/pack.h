/*-------------------------------------------------------------------------
 *
 * pack.h
 *	  Packs rows of numbers, and computes their thresholds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PACK_H
#define FASTED_CPU_PACK_H

#include "../state/worker.h"

/* A sliver of rows to be packed: their form, eps and destination. */
typedef struct PackJob
{
	const FastedContext *context;
	const Form *form;
	double		eps;
	double		eps_upper;		/* upper bound of eps in the form's scale; not for products */
	double		spread;			/* for inner products: see fasted_product_half */
	PackedRows *to;
	const float *rows[FASTED_MAX_WIDTH];	/* rows of the sliver; NULL: a row without pairs */
	double		moved[FASTED_MAX_WIDTH];	/* bounds of their distances from the exact rows */
} PackJob;

/*
 * The largest squared norm of a packed row; a row above it is out of range.  Inner products and
 * thresholds are at most that, well within FP32.
 */
#define NORM2_LIMIT 0x1p120

/*
 * Packs a sliver.  Rows that are out of range or not finite are packed as zeros.  Returns a bit
 * mask of them.
 */
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

/* Returns the scale of packed rows. */
static inline double
cpu_form_scale(const Form *form, bool int8)
{
	return int8 ? (double) form->transform.scale : form->scale;
}

/* Returns the largest distance of two filter rows whose distance is at most eps. */
extern double cpu_reach(const FastedContext *context, double eps);

/* Returns an upper bound of cpu_reach in the scale of the packed rows. */
extern double cpu_eps_upper(const FastedJoin *join, const Form *form, bool int8, double eps);

/*
 * Returns a job that packs rows of this form and filter into `to`, with thresholds for eps.  The
 * rows have to be loaded.
 */
extern PackJob cpu_pack_job(const FastedJoin *join, const Form *form, bool int8, double eps,
							PackedRows *to);

/*
 * Returns a good spread for fasted_product_half: the ratio of the packing errors of two rows to
 * their distance.  The distance is that of two large rows with this inner product, within limits.
 * FP32 rows have smaller errors than their products.
 */
extern double cpu_product_spread(const FastedContext *context, const Form *form, bool int8,
								 double eps);

/* Inner product: returns the share of a row, or of its INT16 row, for pairs within eps. */
extern double cpu_product_half(const FastedContext *context, const Form *form,
							   const PackedRows *rows, size_t row, double eps, double spread,
							   bool int16);

/* Returns true if rows of this form get INT16 rows when their filter is INT8. */
extern bool cpu_has_int16(const FastedJoin *join, const Form *form);

/* Loads a row into its place of the sliver to be packed. */
extern void cpu_load_row(Worker *worker, PackJob *job, size_t place, const float *row);

/* Packs the rows loaded into a job as one sliver, and computes their thresholds. */
extern void cpu_pack_sliver(Worker *worker, const PackJob *job, size_t sliver);

/* Recomputes the thresholds of one sliver for another eps. */
extern void cpu_set_thresholds(Worker *worker, const PackJob *job, size_t sliver);

/*
 * Packs one sliver of a set, or recomputes its thresholds.  Places beyond the last row are
 * padding.
 */
extern void cpu_pack_set_sliver(Worker *worker, int i, size_t sliver);

/*
 * Determines what has to be packed, when form and filter are known.  Returns false if nothing has.
 * The caller holds the lock.
 */
extern bool cpu_begin_packing(FastedJoin *join);

#endif							/* FASTED_CPU_PACK_H */
