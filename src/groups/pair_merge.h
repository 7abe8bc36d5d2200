/*-------------------------------------------------------------------------
 *
 * pair_merge.h
 *	  Runs of pairs in a file, merged by their second row.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_MERGE_H
#define FASTED_PAIR_MERGE_H

#include "groups/pair_store.h"

typedef struct PairMerge PairMerge;

/*
 * The store's file holds runs of run_pairs pairs each, the last one of what is left,
 * and each in order.  Allocates in the current memory context.
 */
extern PairMerge *PairMergeBegin(const PairStore *store, size_t run_pairs);

/* The next pairs, all with the same b; valid until the next call.  Zero: no more. */
extern size_t PairMergeNext(PairMerge *merge, const FastedPair **pairs);

extern void PairMergeEnd(PairMerge *merge);

#endif							/* FASTED_PAIR_MERGE_H */
