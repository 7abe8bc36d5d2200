/*-------------------------------------------------------------------------
 *
 * cpu_phases.h
 *	  Phases of a join that look at samples: cpu_choice.c, cpu_prune.c, cpu_radii.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PHASES_H
#define FASTED_CPU_PHASES_H

#include "cpu_state.h"

/* cpu_choice.c */
extern bool cpu_prepare_choice(FastedJoin *join);
extern void cpu_try_form(Worker *worker);
extern void cpu_choose_filter(Worker *worker);
extern void cpu_keep_forms(FastedJoin *join);

/* cpu_radii.c */
extern void cpu_find_radii(Worker *worker);

/* cpu_prune.c */
extern bool cpu_prepare_pruning(FastedJoin *join);
extern void cpu_fit_projection(Worker *worker);
extern bool cpu_begin_levels(FastedJoin *join);
extern void cpu_project(Worker *worker);
extern void cpu_order(Worker *worker);
extern void cpu_begin_level_packing(FastedJoin *join);
extern void cpu_pack_set_levels(Worker *worker);
extern void cpu_test_levels(Worker *worker);
extern void cpu_keep_levels(FastedJoin *join);

#endif							/* FASTED_CPU_PHASES_H */
