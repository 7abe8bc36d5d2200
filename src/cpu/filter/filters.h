/*-------------------------------------------------------------------------
 *
 * filters.h
 *	  The filters (cpu_filter.h), and the phases of rows of bits.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_FILTERS_H
#define FASTED_CPU_FILTERS_H

#include "../state/worker.h"

/* The filters for numbers in FP32; in INT8, or in INT16 on CPUs without products of INT8; for bits. */
extern const CpuFilter cpu_filter_fp32;
extern const CpuFilter cpu_filter_integers;
extern const CpuFilter cpu_filter_bits;

/* Returns true if the fold of rows of bits has to be chosen. */
extern bool cpu_begin_fold(FastedJoin *join);

/* Phase of a join: chooses the number of words to which rows are folded, by the cost of a pair. */
extern void cpu_choose_fold(Worker *worker);

/* Determines which sets have to be sorted.  Returns true if one has. */
extern bool cpu_begin_sort(FastedJoin *join);

/* Phase of a join: sorts rows by their number of bits; each set is one work item. */
extern void cpu_sort_rows(Worker *worker);

#endif							/* FASTED_CPU_FILTERS_H */
