/*-------------------------------------------------------------------------
 *
 * levels.h
 *	  Order and level rows of a set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_LEVELS_H
#define FASTED_CPU_LEVELS_H

#include "../state/worker.h"

/* Returns the pruning memory per row: order, level rows, and temporary projected rows. */
extern size_t cpu_levels_row_bytes(const FastedContext *context);

/* Allocates the order and the level rows of the sets of a join.  Returns false if out of memory. */
extern bool cpu_reserve_orders(FastedJoin *join);

/* Frees the order and the level rows. */
extern void cpu_levels_free(FastedContext *context, SetLevels *levels);

/* Discards a set's packed rows and the order of its rows. */
extern void cpu_set_discard_packed(FastedSet *set);

/* Computes the hash of the order of a set's rows.  Returns false if the join is being closed. */
extern bool cpu_hash_order(FastedSet *set);

/* Extracts a level row from a projected row. */
extern void cpu_level_row(const Projection *projection, const float *projected, uint32_t level,
						  float *row);

/* Returns the largest distance of two level rows of a pair, in the level's scale. */
extern double cpu_level_eps_upper(const FastedContext *context, const Projection *projection,
								  uint32_t level, double eps);

/* Phase of a join: projects the rows of the sets that have no projected rows, by slivers. */
extern void cpu_project(Worker *worker);

/* Phase of a join: orders the sets; each set is one work item. */
extern void cpu_order(Worker *worker);

/* Phase of a join: packs level rows, or computes their thresholds for another eps, by slivers. */
extern void cpu_pack_levels(Worker *worker);

#endif							/* FASTED_CPU_LEVELS_H */
