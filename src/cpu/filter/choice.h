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
 * Finds the encoding of the larger set, and whether both sets have it.  Returns false if a filter must
 * be chosen from a sample, because no earlier join has done so.
 */
extern bool cpu_find_known_encoding(FastedJoin *join);

/* Implements CpuFilter.prepare_choice for numbers. */
extern bool cpu_prepare_choice_of_numbers(FastedJoin *join);

/* Nearest neighbors: sets the eps for which the filter is chosen, the median radius of sampled rows. */
extern void cpu_find_choice_eps(Worker *worker);

/* Phase of a join: tests the larger set's encoding, and chooses it if it is good. */
extern void cpu_try_encoding(Worker *worker);

/*
 * Phase of a join: chooses the filter, and the new encoding.  With FP32 the tested encoding may still be
 * chosen: it may have been bad for INT8 only.
 */
extern void cpu_choose_filter(Worker *worker);

/* Records the encoding and the choice in the sets, at the end of every join. */
extern void cpu_keep_encodings(FastedJoin *join);

#endif							/* FASTED_CPU_CHOICE_H */
