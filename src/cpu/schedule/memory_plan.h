/*-------------------------------------------------------------------------
 *
 * memory_plan.h
 *	  Plan of the memory of a context.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_MEMORY_PLAN_H
#define FASTED_CPU_MEMORY_PLAN_H

#include "../state/context.h"

/* Returns the memory limit in bytes: the caller's, or else half of the machine's memory. */
extern uint64_t cpu_memory_limit(const FastedOptions *options);

/*
 * Plans the memory of a context that is being opened.  If only sets too small for pruning fit into
 * memory, none is reserved for pruning.
 */
extern void cpu_plan_memory(FastedContext *context);

/* FastedEngine.fits: returns whether sets with these numbers of rows fit into memory together. */
extern bool cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets);

/*
 * Returns the number of rows without lists that take as much memory as the lists of k neighbors
 * of `rows` rows.
 */
extern uint64_t cpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k);

/*
 * Returns how many rows with lists of k neighbors fit into the memory of `rows` rows without
 * lists.
 */
extern uint64_t cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k);

/* Returns the number of blocks of pairs for this many threads. */
extern size_t cpu_pool_blocks(int threads);

#endif							/* FASTED_CPU_MEMORY_PLAN_H */
