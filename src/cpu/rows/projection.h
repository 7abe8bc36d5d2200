/*-------------------------------------------------------------------------
 *
 * projection.h
 *	  Projections of rows, which prune a join: products in FP32, and projected rows.
 *
 * A projection turns rows into level rows of 32, 64 and 128 components.  All but the last component
 * are coordinates along leading directions.  The last is the norm of the residual.  Level rows are
 * packed and tested like full rows.  Rows are ordered so that near rows are adjacent; then most
 * tiles have no pair that passes. doc/internals/bound-pruning.md proves that no pair is lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PROJECTION_H
#define FASTED_CPU_PROJECTION_H

#include <math.h>

#include "../state/worker.h"

/* Largest number of columns of a product: the directions and the extra ones of fit.c, in whole tiles. */
#define PRODUCT_COLUMNS 192

/* Returns the number of columns of a product, padded to whole tiles. */
static inline uint32_t
cpu_product_columns(const FastedContext *context, uint32_t columns)
{
	uint32_t	step = context->product_kernel->tile_cols;

	return (columns + step - 1) / step * step;
}

/*
 * Return the index of the residual and of the error bound of a level in a projected row, which holds
 * the directions and then both for each level.  The error bound is NaN for a row without pairs, and
 * infinite for an out-of-range row.
 */
static inline uint32_t
projected_residual(const Projection *projection, uint32_t level)
{
	return projection->directions + 2 * level;
}

static inline uint32_t
projected_moved(const Projection *projection, uint32_t level)
{
	return projected_residual(projection, level) + 1;
}

/* Returns the number of directions of a level row. */
static inline uint32_t
level_directions(const Projection *projection, uint32_t level)
{
	uint32_t	most = LEVEL_WORDS(level) - 1;

	return projection->directions < most ? projection->directions : most;
}

/*
 * Returns the kernel that multiplies slivers: this one or, if its tiles are higher than its slivers,
 * another one with the same width; NULL if there is none.
 */
extern const CpuKernel *cpu_product_kernel(const CpuKernel *kernel);

/* Packs rows as an operand, invalid rows and padding as zeros.  False if the join is being closed. */
extern bool cpu_pack_operand(Worker *worker, const PackLayout *layout, const float *const *rows,
							 size_t count, const float *centre, double scale, float *packed);

/* Multiplies one sliver of `a` with all columns of `b`: sums[row of the sliver][column]. */
extern void cpu_multiply_sliver(const CpuKernel *kernel, const float *a, const PackLayout *a_layout,
								size_t sliver, const float *b, const PackLayout *b_layout,
								double *sums);

/* Returns the number of levels.  Level rows have at most half of the dimensions, except in tests. */
extern uint32_t cpu_prune_levels(const FastedContext *context);

/* Returns the number of directions for this many levels. */
extern uint32_t cpu_most_directions(const FastedContext *context, uint32_t levels);

/* Returns the largest number of floats of a projected row. */
extern uint32_t cpu_projected_stride(const FastedContext *context);

/* Returns the bytes of a worker's buffer: a packed sliver, its product, and rows of a level. */
extern size_t cpu_project_buffer_bytes(const FastedContext *context);

/* Returns the bytes of a projection. */
extern size_t cpu_projection_bytes(const FastedContext *context);

/* Returns a new projection with one reference, or NULL if out of memory. */
extern Projection *cpu_projection_new(FastedContext *context);

/* Drops one reference; the last one frees the projection.  NULL is allowed. */
extern void cpu_projection_drop(FastedContext *context, Projection *projection);

/* Sets a projected row that has no coordinates, and the error bound NaN or infinity. */
extern void cpu_project_bound(const Projection *projection, float bound, float *out);

/* Projects the rows of one sliver, except NULL. moved[r] bounds the distance from the exact row. */
extern void cpu_project_sliver(Worker *worker, const Projection *projection,
							   const float *const *rows, const double *moved, float *out);

/* --- computation of a projection from a sample of rows: fit.c */

/* Returns the bytes of the context's fit buffer, in which a projection is computed. */
extern size_t cpu_fit_bytes(const FastedContext *context);

/* Computes a projection and its levels' encodings.  False if there is none or the join is being closed. */
extern bool cpu_fit(Worker *worker, Projection *projection);

/* Computes a cheap trial projection.  Returns true if few pairs of other rows are within its reach. */
extern bool cpu_fit_promises(Worker *worker, Projection *projection);

#endif							/* FASTED_CPU_PROJECTION_H */
