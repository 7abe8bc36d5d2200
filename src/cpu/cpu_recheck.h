/*-------------------------------------------------------------------------
 *
 * cpu_recheck.h
 *	  Candidates are rechecked, and pairs handed out: cpu_recheck.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_RECHECK_H
#define FASTED_CPU_RECHECK_H

#include "../engine/exact_distance.h"
#include "cpu_state.h"

/*
 * How candidates are rechecked: rows as they came, or the first one widened, go into
 * a number, that and the rows' squares into the distance.  Doubles are never widened.
 */
typedef struct Recheck
{
	double		(*rows) (const float *x, const float *y, uint32_t dimensions);
	double		(*wide) (const double *x, const float *y, uint32_t dimensions);
	double		(*doubles) (const double *x, const double *y, uint32_t dimensions); /* or NULL */
	const double *squares_a;	/* NULL: the number is the distance */
	const double *squares_b;
} Recheck;

static inline Recheck
cpu_recheck(const FastedContext *context, const PackedRows *a, const PackedRows *b)
{
	const CpuKernel *kernel = context->kernel;

	bool		doubles = cpu_has_doubles(context);

	if (!cpu_is_cosine(context))
		return (Recheck) {.rows = kernel->distance,.wide = kernel->distance_wide,
			.doubles = doubles ? kernel->distance_double : NULL};
	return (Recheck) {.rows = kernel->dot,.wide = kernel->dot_wide,
		.doubles = doubles ? kernel->dot_double : NULL,
		.squares_a = a->squares,.squares_b = b->squares};
}

/* The number of two rows as they came. */
static inline double
cpu_recheck_rows(const Recheck *recheck, const float *x, const float *y, uint32_t dimensions)
{
	return recheck->doubles == NULL ? recheck->rows(x, y, dimensions)
		: recheck->doubles((const double *) x, (const double *) y, dimensions);
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

/* With the lock held: a block is free; the oldest filled one, or NULL. */
extern void pair_pool_release(PairPool *pool, PairBlock *block);
extern PairBlock *pair_pool_pop(PairPool *pool);

extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);
extern void cpu_flush_block(Worker *worker);

#endif							/* FASTED_CPU_RECHECK_H */
