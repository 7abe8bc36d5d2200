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

/* Prepares the fold and the order of rows.  Returns false if out of memory. */
extern bool cpu_prepare_bits(FastedJoin *join, bool may_sort);

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

/*
 * Returns those row tiles of a strip whose numbers of bits allow a pair with the column tile that
 * begins at `col`, among the tiles given.
 */
extern FastedSpan cpu_useful_tiles(const FastedJoin *join, const Strip *strip, size_t col,
								   FastedSpan tiles);

/* Packs one sliver of a set, or recomputes its thresholds. */
extern void cpu_pack_bits(Worker *worker, int i, size_t sliver);

#endif							/* FASTED_CPU_BITS_H */
