/*-------------------------------------------------------------------------
 *
 * level_choice.h
 *	  Choice of the pruning levels of a join.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_LEVEL_CHOICE_H
#define FASTED_CPU_LEVEL_CHOICE_H

#include "../state/worker.h"

/*
 * Unless the caller forces pruning, a join is pruned only if it has at least this many pairs per
 * row.  A self-join of 20000 rows has that many, and takes a tenth of a second.
 */
#define PRUNED_PAIRS_PER_ROW 10000

/*
 * Decides whether pruning may pay, allocates its memory, and finds the sets' projection.  Returns
 * false if out of memory.
 */
extern bool cpu_prepare_pruning(FastedJoin *join);

/* Phase of a join: computes a projection, or disables pruning if it would not help. */
extern void cpu_fit_projection(Worker *worker);

/*
 * Determines what the sets need for the projection.  Returns true if rows have to be projected.
 * The caller holds the lock.
 */
extern bool cpu_begin_projecting(FastedJoin *join);

/*
 * Marks the sets as ordered and lays out their level rows.  Returns true if pruning is enabled.
 * The caller holds the lock.
 */
extern bool cpu_begin_levels(FastedJoin *join);

/*
 * Determines which rows of tiles are tested.  Returns false if there is nothing to test, because
 * the join is not pruned, or at all levels.  The caller holds the lock.
 */
extern bool cpu_begin_testing(FastedJoin *join);

/* Phase of a join: tests rows of tiles; each is one work item. */
extern void cpu_test_levels(Worker *worker);

/*
 * Chooses the levels by the costs of the tested tiles.  0: test tiles at all dimensions at once.
 * The caller holds the lock.
 */
extern void cpu_choose_levels(FastedJoin *join);

/*
 * Records the join's levels in its sets.  Called at the end of every join, also of an unfinished
 * one.  If the projection of a set was not completed, its order and packed rows are discarded.
 */
extern void cpu_keep_levels(FastedJoin *join);

#endif							/* FASTED_CPU_LEVEL_CHOICE_H */
