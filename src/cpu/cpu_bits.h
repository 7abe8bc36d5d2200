/*-------------------------------------------------------------------------
 *
 * cpu_bits.h
 *	  Preparation of rows of bits for the filter: cpu_bits.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_BITS_H
#define FASTED_CPU_BITS_H

#include "cpu_state.h"

extern bool cpu_prepare_bits(FastedJoin *join, bool may_sort);
extern bool cpu_bits_have_pairs(const FastedContext *context, double ones, double eps);
extern FastedSpan cpu_useful_tiles(const FastedJoin *join, const Strip *strip, size_t col,
								   FastedSpan tiles);

/* Phases of a join. */
extern bool cpu_begin_fold(FastedJoin *join);
extern void cpu_choose_fold(Worker *worker);
extern bool cpu_begin_sort(FastedJoin *join);
extern void cpu_sort_rows(Worker *worker);
extern void cpu_pack_bits(Worker *worker, int i, size_t sliver);

#endif							/* FASTED_CPU_BITS_H */
