/*-------------------------------------------------------------------------
 *
 * pair_store.h
 *	  A store for pairs: in memory up to a limit, and beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_STORE_H
#define FASTED_PAIR_STORE_H

#include "base/interrupts.h"
#include "engine/engine.h"
#include "join/row_set.h"

/* A growing array of pairs, outside of the memory contexts. */
typedef struct PairMemory
{
	FastedPair *pairs;
	size_t		capacity;		/* in pairs */
	Cleanup		cleanup;
} PairMemory;

/* Creates an empty array, which is freed with the current memory context, if not before. */
extern PairMemory *PairMemoryCreate(void);

/* Raises the capacity to this number of pairs; the pairs remain.  Error: out of memory. */
extern void PairMemoryGrow(PairMemory *memory, size_t capacity);

/* Has the kernel allocate all pages, and checks for interrupts.  Overwrites the contents. */
extern void PairMemoryTouch(PairMemory *memory);
extern void PairMemoryFree(PairMemory *memory);

static inline uint64
PairMemoryBytes(const PairMemory *memory)
{
	return memory->capacity * sizeof(FastedPair);
}

typedef struct PairStore
{
	PairMemory *memory;
	size_t		count;			/* pairs in memory */
	size_t		max_count;		/* maximum number of pairs in memory */
	SpillFile  *file;			/* temporary file; NULL if all pairs are in memory */
	uint64		spilled;		/* pairs in the file */
} PairStore;

/* Initializes an empty store, whose memory is limited to 1 / parts of fasted.memory_limit. */
extern void PairStoreInit(PairStore *store, int parts);

/* Enlarges the memory.  The store must not be full. */
extern void PairStoreGrow(PairStore *store);

/* Returns true if the caller must write or remove pairs before it adds another pair. */
static inline bool
PairStoreIsFull(const PairStore *store)
{
	return store->count == store->max_count;
}

static inline void
PairStoreAdd(PairStore *store, FastedPair pair)
{
	if (unlikely(store->count == store->memory->capacity))
		PairStoreGrow(store);
	store->memory->pairs[store->count++] = pair;
}

/* Appends pairs to the file; the pairs in memory remain. */
extern void PairStoreWrite(PairStore *store, const FastedPair *pairs, size_t npairs);

/* Reads npairs pairs from the file, beginning with number first. */
extern void PairStoreRead(const PairStore *store, uint64 first, FastedPair *pairs, size_t npairs);

extern void PairStoreEnd(PairStore *store);

/*
 * Sorts pairs by b, where b < nrows.  scratch has the capacity for npairs pairs.  Returns the
 * sorted array, which is pairs or scratch.
 */
extern FastedPair *SortBySecond(FastedPair *pairs, FastedPair *scratch, size_t npairs,
								uint32 nrows);

typedef struct PairMerge PairMerge;

/*
 * Begins to merge the sorted runs in the store's file.  Each run has run_pairs pairs; the last one
 * may have fewer.  Allocates in the current memory context.
 */
extern PairMerge *PairMergeBegin(const PairStore *store, size_t run_pairs);

/*
 * Returns the number of the next pairs, all of which have the same b, and sets *pairs, which is
 * valid until the next call.  Returns zero if there are no more pairs.
 */
extern size_t PairMergeNext(PairMerge *merge, const FastedPair **pairs);

extern void PairMergeEnd(PairMerge *merge);

#endif							/* FASTED_PAIR_STORE_H */
