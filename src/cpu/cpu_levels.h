/*-------------------------------------------------------------------------
 *
 * cpu_levels.h
 *	  Level rows, used for pruning: cpu_project.c, cpu_levels.c, cpu_fit.c.
 *
 * A projection turns rows into level rows of 32, 64 and 128 components.  All but the last component
 * are coordinates along leading directions.  The last is the norm of the residual.  Level rows are
 * packed and tested like full rows.  Rows are ordered so that near rows are adjacent; then most
 * tiles have no pair that passes. doc/internals/bound-pruning.md proves that no pair is lost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_LEVELS_H
#define FASTED_CPU_LEVELS_H

#include <math.h>

#include "../engine/filter_bound.h"
#include "cpu_prepare.h"

/*
 * Largest number of columns of a product: the directions in whole tiles, and the extra ones of
 * cpu_fit.c.
 */
#define PRODUCT_COLUMNS 192

/*
 * Unless the caller forces pruning, a join is pruned only if it has at least this many pairs per
 * row.  A self-join of 20000 rows has that many, and takes a tenth of a second.
 */
#define PRUNED_PAIRS_PER_ROW 10000

/* Returns the number of columns of a product, padded to whole tiles. */
static inline uint32_t
cpu_product_columns(const FastedContext *context, uint32_t columns)
{
	uint32_t	step = context->product_kernel->tile_cols;

	return (columns + step - 1) / step * step;
}

/*
 * Indexes in a projected row, which holds the directions, then a residual and an error bound per
 * level.
 */
static inline uint32_t
projected_residual(const Projection *projection, uint32_t level)
{
	return projection->directions + 2 * level;
}

static inline uint32_t
projected_moved(const Projection *projection, uint32_t level)
{
	return projection->directions + 2 * level + 1;
}

/* The error bound is NaN for a row without pairs, and infinite for an out-of-range row. */
static inline bool
projected_has_pairs(const Projection *projection, const float *projected)
{
	return !isnan(projected[projected_moved(projection, 0)]);
}

/* Returns the number of directions of a level row. */
static inline uint32_t
level_directions(const Projection *projection, uint32_t level)
{
	uint32_t	most = LEVEL_WORDS(level) - 1;

	return projection->directions < most ? projection->directions : most;
}

/* cpu_project.c: FP32 products by the filter's kernels, projections, projection of rows */
extern const CpuKernel *cpu_product_kernel(const CpuKernel *kernel);
extern bool cpu_pack_operand(Worker *worker, const PackLayout *layout, const float *const *rows,
							 size_t count, const float *centre, double scale, float *packed);
extern void cpu_multiply_sliver(const CpuKernel *kernel, const float *a, const PackLayout *a_layout,
								size_t sliver, const float *b, const PackLayout *b_layout,
								double *sums);
extern uint32_t cpu_prune_levels(const FastedContext *context);
extern uint32_t cpu_most_directions(const FastedContext *context, uint32_t levels);
extern uint32_t cpu_projected_stride(const FastedContext *context);
extern size_t cpu_project_buffer_bytes(const FastedContext *context);
extern size_t cpu_projection_bytes(const FastedContext *context);
extern Projection *cpu_projection_new(FastedContext *context);
extern void cpu_projection_drop(FastedContext *context, Projection *projection);
extern void cpu_project_sliver(Worker *worker, const Projection *projection,
							   const float *const *rows, const double *moved, float *out);
extern void cpu_project_bound(const Projection *projection, float bound, float *out);

/* cpu_levels.c: order of rows (buffer holds 8 bytes per row), and level rows */
extern bool cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
						 size_t rows, void *buffer, uint32_t *order);
extern size_t cpu_levels_row_bytes(const FastedContext *context);
extern bool cpu_levels_reserve(FastedContext *context, SetLevels *levels, size_t rows);
extern void cpu_levels_free(FastedContext *context, SetLevels *levels);
extern void cpu_set_forget_form(FastedSet *set);
extern bool cpu_hash_order(FastedSet *set);
extern void cpu_level_row(const Projection *projection, const float *projected, uint32_t level,
						  float *row);
extern double cpu_level_eps_upper(const FastedContext *context, const Projection *projection,
								  uint32_t level, double eps);

/* Phases of pruning, run by all workers. */
extern void cpu_project(Worker *worker);
extern void cpu_order(Worker *worker);
extern void cpu_pack_levels(Worker *worker);

/* cpu_fit.c */
extern size_t cpu_fit_bytes(const FastedContext *context);
extern bool cpu_fit(Worker *worker, Projection *projection);
extern bool cpu_fit_promises(Worker *worker, Projection *projection);

#endif							/* FASTED_CPU_LEVELS_H */
