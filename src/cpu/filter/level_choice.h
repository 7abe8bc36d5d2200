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

/* Least number of pairs per row of a pruned join: those of a self-join of 20000 rows, of 0.1 s. */
#define PRUNED_PAIRS_PER_ROW 10000

/* Decides whether pruning may pay, and prepares it: memory, projection.  False if out of memory. */
extern bool cpu_prepare_pruning(FastedJoin *join);

/* Phase of a join: computes a projection, or disables pruning if it would not help. */
extern void cpu_fit_projection(Worker *worker);

/* Determines what the sets need for the projection.  Returns true if rows have to be projected. */
extern bool cpu_begin_projecting(FastedJoin *join);

/* Marks the sets as ordered and lays out their level rows.  Returns true if pruning is enabled. */
extern bool cpu_begin_levels(FastedJoin *join);

/* Determines which rows of tiles are tested.  False if none, because all or no levels are used. */
extern bool cpu_begin_testing(FastedJoin *join);

/* Phase of a join: tests rows of tiles; each is one work item. */
extern void cpu_test_levels(Worker *worker);

/* Chooses the levels by the costs of the tested tiles.  0: test tiles at all dimensions at once. */
extern void cpu_choose_levels(FastedJoin *join);

/*
 * Records the levels in the sets, at the end of every join.  If the projection of a set was not
 * completed, its order and packed rows are discarded.
 */
extern void cpu_keep_levels(FastedJoin *join);

#endif							/* FASTED_CPU_LEVEL_CHOICE_H */
