/*-------------------------------------------------------------------------
 *
 * bits.h
 *	  The filter for rows of bits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_BITS_H
#define FASTED_CPU_BITS_H

#include "../state/worker.h"

/* The filter for rows of bits. */
extern const CpuFilter cpu_filter_bits;

/* Returns true unless no pair of a row with this number of bits is within eps. */
extern bool cpu_bits_have_pairs(const FastedContext *context, double ones, double eps);

/* Returns true if the fold has to be chosen. */
extern bool cpu_begin_fold(FastedJoin *join);

/* Phase of a join: chooses the number of words to which rows are folded, by the cost of a pair. */
extern void cpu_choose_fold(Worker *worker);

/* Determines which sets have to be sorted.  Returns true if one has. */
extern bool cpu_begin_sort(FastedJoin *join);

/*
 * Phase of a join: sorts the sets by the number of bits of their rows; each set is one work item.
 */
extern void cpu_sort_rows(Worker *worker);

#endif							/* FASTED_CPU_BITS_H */
