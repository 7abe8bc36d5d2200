/*-------------------------------------------------------------------------
 *
 * pair_store.h
 *	  Pairs that are kept: in memory up to a limit, beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_STORE_H
#define FASTED_PAIR_STORE_H

#include "base/interrupts.h"
#include "engine/engine.h"
#include "join/row_set.h"

typedef struct PairMemory
{
	FastedPair *pairs;
	size_t		room;
	Cleanup		cleanup;
} PairMemory;

/* Goes with the current memory context, if it is not freed before. */
extern PairMemory *PairMemoryCreate(void);

/* Makes room for so many pairs, which is more than before; those there are stay. */
extern void PairMemoryGrow(PairMemory *memory, size_t room);

/* Lets the system make the memory, page by page; what is in there is lost. */
extern void PairMemoryTouch(PairMemory *memory);
extern void PairMemoryFree(PairMemory *memory);

static inline uint64
PairMemoryBytes(const PairMemory *memory)
{
	return memory->room * sizeof(FastedPair);
}

typedef struct PairStore
{
	PairMemory *memory;
	size_t		count;			/* pairs in memory */
	size_t		most;			/* that it may hold */
	SpillFile  *file;			/* NULL: all are in memory */
	uint64		filed;			/* pairs in it */
} PairStore;

/* So much of fasted.memory_limit for pairs: all, or one part of so many. */
extern void PairStoreInit(PairStore *store, int parts);

/* Makes room for more pairs in memory; not if it is full. */
extern void PairStoreGrow(PairStore *store);

/* Whoever adds a pair to a full store first writes or drops some. */
static inline bool
PairStoreIsFull(const PairStore *store)
{
	return store->count == store->most;
}

static inline void
PairStoreAdd(PairStore *store, FastedPair pair)
{
	if (unlikely(store->count == store->memory->room))
		PairStoreGrow(store);
	store->memory->pairs[store->count++] = pair;
}

/* Appends pairs to the file. */
extern void PairStoreWrite(PairStore *store, const FastedPair *pairs, size_t npairs);

/* Reads pairs of the file, from number first on. */
extern void PairStoreRead(const PairStore *store, uint64 first, FastedPair *pairs, size_t npairs);

extern void PairStoreEnd(PairStore *store);

/*
 * Sorts pairs by b, where b < nrows; scratch has room for as many.  Returns where
 * the result is: pairs or scratch.
 */
extern FastedPair *SortBySecond(FastedPair *pairs, FastedPair *scratch, size_t npairs,
								uint32 nrows);

typedef struct PairMerge PairMerge;

/*
 * The store's file holds runs of run_pairs pairs each, the last one of what is left,
 * and each in order.  Allocates in the current memory context.
 */
extern PairMerge *PairMergeBegin(const PairStore *store, size_t run_pairs);

/* The next pairs, all with the same b; valid until the next call.  Zero: no more. */
extern size_t PairMergeNext(PairMerge *merge, const FastedPair **pairs);

extern void PairMergeEnd(PairMerge *merge);

#endif							/* FASTED_PAIR_STORE_H */
