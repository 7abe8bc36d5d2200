/*-------------------------------------------------------------------------
 *
 * cpu_filter.h
 *	  A strip is filtered, its candidates are rechecked, and pairs are handed out:
 *	  cpu_filter.c, cpu_nearest.c, cpu_recheck.c.
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
	uint8_t    *hits;			/* of its first row */
	size_t		hit_stride;
} Tile;

/* The slice from word k on of rows of tiles and columns, as a sweep wants it. */
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

/* Does the filter go by the rows' radii now?  Not while a sample is looked at. */
static inline bool
cpu_goes_by_radii(const FastedJoin *join)
{
	return join->phase == PHASE_JOIN && join->nearest;
}

/* What the ways on from a level cost, in bytes of a tile's row. */
typedef struct PruneCosts
{
	double		level[FASTED_PRUNE_LEVELS];
	double		full;			/* at all dimensions */
	double		recheck;		/* of one candidate */
} PruneCosts;

/* cpu_filter.c: the filter at one level or all */
extern PruneCosts cpu_prune_costs(const FastedJoin *join);
extern uint32_t cpu_count_hits(const CpuKernel *kernel, const Tile *tile);
extern void cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b,
						   const Tile *tile);
extern void cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
							 const Strip *strip);
extern void cpu_prune_strip(Worker *worker, const Strip *strip);

/* cpu_nearest.c */
extern void cpu_find_choice_eps(Worker *worker);
extern bool cpu_begin_nearest(FastedJoin *join);
extern void cpu_set_near_strip(Worker *worker, const Strip *strip);
extern void cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
									TileSweep *sweep);

/* --- cpu_recheck.c */

/*
 * How candidates are rechecked: rows as they came, or the first one widened, go into
 * a number, that and the rows' squares into the distance.
 */
typedef struct Recheck
{
	RowFunction rows;
	RowFunction wide;			/* NULL: doubles are not widened */
	const double *squares_a;	/* NULL: the number is the distance */
	const double *squares_b;
} Recheck;

static inline Recheck
cpu_recheck(const FastedContext *context, const PackedRows *a, const PackedRows *b)
{
	const CpuKernel *kernel = context->kernel;
	bool		doubles = context->doubles;

	if (!context->cosine)
		return (Recheck) {.rows = doubles ? kernel->distance_double : kernel->distance,
			.wide = doubles ? NULL : kernel->distance_wide};
	return (Recheck) {.rows = doubles ? kernel->dot_double : kernel->dot,
		.wide = doubles ? NULL : kernel->dot_wide,
		.squares_a = a->squares,.squares_b = b->squares};
}

/* The canonical distance of the rows at these places, whose number this is. */
static inline double
cpu_distance(const Recheck *recheck, double number, size_t row, size_t col)
{
	return recheck->squares_a == NULL ? number
		: fasted_exact_cosine_of(number, recheck->squares_a[row], recheck->squares_b[col]);
}

/* At least so many blocks, all free; those that are out are lost where it grows. */
extern bool pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs,
							  MemoryCount *count);
extern void pair_pool_free(PairPool *pool, MemoryCount *count);

/* All blocks are free again. */
extern void pair_pool_reset(PairPool *pool);

/* With the lock held: a block is free; the first block of a list, which it leaves, or NULL. */
extern void pair_pool_release(PairPool *pool, PairBlock *block);
extern PairBlock *pair_pool_pop(PairBlock **list);

extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);
extern void cpu_flush_block(Worker *worker);

#endif							/* FASTED_CPU_FILTER_H */
