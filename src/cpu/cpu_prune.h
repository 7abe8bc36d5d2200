/*-------------------------------------------------------------------------
 *
 * cpu_prune.h
 *	  Pruning: tiles are tested at few dimensions first.
 *
 * A projection turns rows into level rows of 32, 64 and 128 numbers: so many leading
 * directions but one, and the norm of the rest.  Level rows are packed, and tested, as
 * rows are.  Rows are in an order in which near ones come together, so that most
 * tiles have no pair that passes.
 *
 *	  cpu_product.c		inner products in FP32 by the filter's kernels
 *	  cpu_eigen.c		leading eigenvectors of a small matrix
 *	  cpu_fit.c			a projection is found from a sample
 *	  cpu_project.c		rows are projected
 *	  cpu_kd_order.c	the order of rows
 *	  cpu_levels.c		level rows of a set, packed
 *	  cpu_prune.c		when: the phases of a join that pruning adds
 *	  cpu_prune_test.c	which levels: a sample of tiles
 *	  cpu_prune_tile.c	a strip is filtered
 *
 * That no pair is lost is proved in doc/bound-pruning.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PRUNE_H
#define FASTED_CPU_PRUNE_H

#include <math.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"

/* Numbers of a level row. */
#define LEVEL_WORDS(level) (UINT32_C(32) << (level))
#define LEVEL_MOST_WORDS LEVEL_WORDS(FASTED_PRUNE_LEVELS - 1)

/* Columns of a product at most: the directions in whole tiles, and some that help to find them. */
#define PRODUCT_COLUMNS 192

/* So many columns of a product, and padding to whole tiles. */
static inline uint32_t
cpu_product_columns(const FastedContext *context, uint32_t columns)
{
	uint32_t	step = context->product_kernel->tile_cols;

	return (columns + step - 1) / step * step;
}

struct Projection
{
	int			holders;
	uint32_t	directions;
	uint32_t	levels;
	uint32_t	stride;			/* numbers of a projected row */
	float	   *centre;
	double		scale;			/* a power of two */
	double		eta;			/* bounds the Frobenius norm of P P' - I */
	PackLayout	layout;
	float	   *packed;			/* the directions, as columns of a product */
	float	   *level_centres;
	Form		forms[FASTED_PRUNE_LEVELS]; /* of level rows */
};

/* Of a projected row: the directions, and two numbers a level. */
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

/* Bounds are NaN of a row that has no pairs, and infinite of one that is near every row. */
static inline bool
projected_has_pairs(const Projection *projection, const float *projected)
{
	return !isnan(projected[projected_moved(projection, 0)]);
}

/* Directions of a level row. */
static inline uint32_t
level_directions(const Projection *projection, uint32_t level)
{
	uint32_t	most = LEVEL_WORDS(level) - 1;

	return projection->directions < most ? projection->directions : most;
}

/* cpu_product.c: packs rows as operands of products, and multiplies one sliver with all columns. */
extern bool cpu_pack_operand(Worker *worker, const PackLayout *layout, const float *const *rows,
							 size_t count, const float *centre, double scale, float *packed);
extern void cpu_multiply_sliver(const CpuKernel *kernel, const float *a, const PackLayout *a_layout,
								size_t sliver, const float *b, const PackLayout *b_layout,
								double *sums);

/* cpu_eigen.c: turns symmetric n x n numbers into values and vectors, the largest first. */
extern void cpu_eigenvectors(double *matrix, double *vectors, uint32_t *places, uint32_t n);

/* cpu_fit.c */
extern bool cpu_fit(Worker *worker, Projection *projection);
extern bool cpu_fit_promises(Worker *worker, Projection *projection);

/* cpu_project.c */
extern uint32_t cpu_prune_levels(const FastedContext *context);
extern uint32_t cpu_most_directions(const FastedContext *context, uint32_t levels);
extern uint32_t cpu_projected_stride(const FastedContext *context);
extern Projection *cpu_projection_new(FastedContext *context);
extern void cpu_project_sliver(Worker *worker, const Projection *projection,
							   const float *const *rows, const double *moved, float *out);
extern void cpu_project_nothing(const Projection *projection, float *out);

/* cpu_kd_order.c: room is for a key of 8 bytes a row; false: it was stopped. */
extern bool cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
						 size_t rows, void *room, uint32_t *order);

/* cpu_levels.c */
extern void cpu_level_row(const Projection *projection, const float *projected, uint32_t level,
						  float *row);
extern double cpu_level_eps_upper(const FastedContext *context, const Projection *projection,
								  uint32_t level, double eps);

/* cpu_prune_test.c */
extern uint32_t cpu_choose_levels(Worker *worker);
extern double cpu_level_cost(const FastedContext *context, uint32_t level);
extern double cpu_full_cost(const FastedJoin *join);
extern double cpu_recheck_cost(const FastedContext *context);

/* cpu_prune_tile.c */
typedef struct Tile
{
	size_t		row;
	size_t		col;
	uint8_t    *hits;			/* of its first row */
	size_t		hit_stride;
} Tile;

/* What the ways on from a level cost. */
typedef struct PruneCosts
{
	uint32_t	first;			/* level */
	double		level[FASTED_PRUNE_LEVELS];
	double		full;
	double		recheck;		/* of one candidate */
} PruneCosts;

extern uint32_t cpu_count_hits(const CpuKernel *kernel, const Tile *tile);
extern void cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b,
						   const Tile *tile);

#endif							/* FASTED_CPU_PRUNE_H */
