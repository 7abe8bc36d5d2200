/*-------------------------------------------------------------------------
 *
 * cpu_filter.h
 *	  Filtering of strips, recheck of candidates and output of pairs: cpu_filter.c,
 *	  cpu_nearest.c, cpu_recheck.c, cpu_components.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FILTER_H
#define FASTED_CPU_FILTER_H

#include "../engine/exact_distance.h"
#include "cpu_levels.h"

typedef struct Tile
{
	size_t		row;
	size_t		col;
	uint8_t    *hits;			/* hit map of the tile's first row */
	size_t		hit_stride;
} Tile;

/* Points a sweep at the slice that begins with word k, for the given rows of tiles and columns. */
static inline void
cpu_point_at_slice(TileSweep *sweep, const CpuKernel *kernel, const PackedRows *a, size_t row,
				   const PackedRows *b, size_t col, uint32_t k)
{
	uint32_t	width = kernel->width;

	sweep->depth = slice_depth(&b->layout, k);
	sweep->first = k == 0;
	sweep->last = k + sweep->depth == b->layout.words;
	sweep->a = (const uint32_t *) a->as_a.packed
		+ pack_offset(&a->layout, width, row / width, k) + row % width;
	sweep->b = (const uint32_t *) b->as_b.packed + pack_offset(&b->layout, width, col / width, k);
}

static inline void
cpu_sweep(const CpuKernel *kernel, const PackedRows *b, const TileSweep *sweep)
{
	(b->layout.int8 ? kernel->int8->sweep : kernel->sweep) (sweep);
}

/* Returns true if thresholds come from the rows' radii.  They do not while a sample is tested. */
static inline bool
cpu_uses_radii(const FastedJoin *join)
{
	return join->phase == PHASE_JOIN && join->nearest;
}

/* Costs of the steps that may follow a level, in bytes per row of a tile. */
typedef struct PruneCosts
{
	double		level[FASTED_PRUNE_LEVELS];
	double		full;			/* filtering at all dimensions */
	double		recheck;		/* recheck of one candidate */
} PruneCosts;

/* cpu_filter.c: the filter, with or without pruning levels */
extern PruneCosts cpu_prune_costs(const FastedJoin *join);
extern uint32_t cpu_count_hits(const CpuKernel *kernel, const Tile *tile);
extern void cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b,
						   const Tile *tile);
extern void cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
							 const Strip *strip, bool sparse);
extern void cpu_prune_strip(Worker *worker, const Strip *strip);

/* cpu_nearest.c */
extern void cpu_find_choice_eps(Worker *worker);
extern bool cpu_begin_nearest(FastedJoin *join);
extern void cpu_set_near_strip(Worker *worker, const Strip *strip);
extern void cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
									TileSweep *sweep);

/* cpu_components.c */
extern bool cpu_reserve_grouping(FastedJoin *join);
extern bool cpu_begin_grouping(FastedJoin *join);
extern void cpu_group_rows(Worker *worker);
extern void cpu_end_grouping(FastedJoin *join);
extern void cpu_bound_radii(FastedJoin *join);
extern FastedSpan cpu_mixed_tiles(const FastedJoin *join, const Strip *strip, size_t col,
								  FastedSpan tiles);
extern void cpu_keep_components(Worker *worker, const Strip *strip, uint32_t row, uint32_t first);
extern double cpu_mutual_reachability(const FastedJoin *join, size_t row, size_t col, double dist);

/* --- cpu_recheck.c */

/*
 * Functions that recheck candidates.  A function of the two input rows computes a value; the first
 * row may be widened to FP64.  The distance is that value, or is computed from it and the rows'
 * squares.
 */
typedef struct Recheck
{
	bool		negative;		/* the distance is the negative value */
	RowFunction rows;
	RowFunction wide;			/* NULL: rows of doubles are not widened */
	/*
	 * The distance, from the value and the squares of both rows; NULL: the value is the distance, or
	 * its negative.
	 */
	double		(*of_squares) (double value, double xx, double yy);
	const double *squares_a;
	const double *squares_b;
} Recheck;

/* The Jaccard distance, from the numbers of bits in both rows and in each row. */
static inline double
cpu_jaccard_of(double common, double xx, double yy)
{
	return fasted_exact_jaccard_of((uint32_t) common, (uint32_t) xx, (uint32_t) yy);
}

static inline Recheck
cpu_recheck(const FastedContext *context, const PackedRows *a, const PackedRows *b)
{
	const CpuKernel *kernel = context->kernel;
	bool		doubles = context->doubles;

	if (!context->cosine && !context->product && !context->jaccard)
		return (Recheck) {.rows = doubles ? kernel->distance_double : kernel->distance,
			.wide = doubles ? NULL : kernel->distance_wide};
	return (Recheck) {.rows = doubles ? kernel->dot_double : kernel->dot,
		.wide = doubles ? NULL : kernel->dot_wide,.negative = context->product,
		.of_squares = context->cosine ? fasted_exact_cosine_of : context->jaccard ? cpu_jaccard_of : NULL,
		.squares_a = a->squares,.squares_b = b->squares};
}

/* Returns the canonical distance of the rows at these places, from their recheck value. */
static inline double
cpu_distance(const Recheck *recheck, double number, size_t row, size_t col)
{
	if (recheck->of_squares == NULL)
		return recheck->negative ? 0.0 - number : number;
	return recheck->of_squares(number, recheck->squares_a[row], recheck->squares_b[col]);
}

/*
 * Ensures that the pool has at least nblocks blocks.  If the pool grows, the contents of all blocks
 * are lost.
 */
extern bool pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs,
							  MemoryCount *count);
extern void pair_pool_free(PairPool *pool, MemoryCount *count);

/* Marks all blocks as free. */
extern void pair_pool_reset(PairPool *pool);

/*
 * Both need the lock.  Release marks a block as free; pop removes a list's first block, or returns
 * NULL.
 */
extern void pair_pool_release(PairPool *pool, PairBlock *block);
extern PairBlock *pair_pool_pop(PairBlock **list);

extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);
extern void cpu_flush_block(Worker *worker);

#endif							/* FASTED_CPU_FILTER_H */
