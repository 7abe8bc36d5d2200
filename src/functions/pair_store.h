/*-------------------------------------------------------------------------
 *
 * pair_store.h
 *	  Pairs in memory up to fasted.memory_limit, and beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_STORE_H
#define FASTED_PAIR_STORE_H

#include "engine/engine.h"
#include "join/row_set.h"

typedef struct PairStore
{
	FastedPair *pairs;			/* those in memory; allocated in the current memory context */
	size_t		count;
	size_t		capacity;
	size_t		max_count;		/* maximum number of pairs in memory */
	FastedPair *scratch;		/* space for sorting */
	size_t		scratch_count;	/* its size, in pairs */
	SpillFile  *file;			/* each row of floats is a pair; NULL: all pairs are in memory */
	uint64		spilled;		/* pairs in the file */
} PairStore;

/* A caller that sorts pairs needs half of the memory for that. */
extern void PairStoreInit(PairStore *store, bool sorts);
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
	if (unlikely(store->count == store->capacity))
		PairStoreGrow(store);
	store->pairs[store->count++] = pair;
}

/* Appends the pairs in memory to the file, and empties the memory. */
extern void PairStoreWrite(PairStore *store);

/* Reads npairs pairs from the file, beginning with number first, to position `at` in memory. */
extern void PairStoreRead(PairStore *store, uint64 first, size_t npairs, size_t at);

/* Sorts the pairs in memory by b.  Processes interrupts. */
extern void PairStoreSort(PairStore *store);

extern void PairStoreEnd(PairStore *store);

#endif							/* FASTED_PAIR_STORE_H */
