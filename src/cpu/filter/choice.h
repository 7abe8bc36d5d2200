/*-------------------------------------------------------------------------
 *
 * choice.h
 *	  Choice of the encoding and the filter of a join, from samples.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CHOICE_H
#define FASTED_CPU_CHOICE_H

#include "../state/worker.h"

/*
 * Finds the encoding of the larger set, and whether both sets have it.  Returns true if a filter need
 * not be chosen from a sample, also because an earlier join has done so.
 */
extern bool cpu_find_known_encoding(FastedJoin *join);

/*
 * Determines which encodings the sets have, and what has to be decided.  Returns false if out of
 * memory.  Implements CpuFilter.prepare_choice for numbers.
 */
extern bool cpu_prepare_choice_of_numbers(FastedJoin *join);

/* Phase of a join: tests the larger set's encoding, and chooses it if it is good. */
extern void cpu_try_encoding(Worker *worker);

/*
 * Phase of a join: chooses the filter, and the new encoding.  With FP32 the tested encoding may still be
 * chosen: it may have been bad for INT8 only.
 */
extern void cpu_choose_filter(Worker *worker);

/*
 * Records the encoding and the choice of a join in its sets.  Called at the end of every join, also of
 * an unfinished one.
 */
extern void cpu_keep_encodings(FastedJoin *join);

#endif							/* FASTED_CPU_CHOICE_H */
