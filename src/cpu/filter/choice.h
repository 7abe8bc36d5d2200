/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  Choice of the form and the filter of a join, from samples.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CHOICE_H
#define FASTED_CPU_CHOICE_H

#include "../state/worker.h"

/*
 * Determines which forms the sets have, and what has to be decided.  Returns false if out of
 * memory.
 */
extern bool cpu_prepare_choice(FastedJoin *join);

/* Phase of a join: tests the larger set's form, and chooses it if it is good. */
extern void cpu_try_form(Worker *worker);

/*
 * Phase of a join: chooses the filter, and the new form.  With FP32 the tested form may still be
 * chosen: it may have been bad for INT8 only.
 */
extern void cpu_choose_filter(Worker *worker);

/*
 * Records the form and the choice of a join in its sets.  Called at the end of every join, also of
 * an unfinished one.
 */
extern void cpu_keep_forms(FastedJoin *join);

#endif							/* FASTED_CPU_CHOICE_H */
