/*-------------------------------------------------------------------------
 *
 * pair_store.h
 *	  Pairs that are kept: in memory up to a limit, beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_STORE_H
#define FASTED_PAIR_STORE_H

#include "groups/pair_memory.h"
#include "join/spill.h"

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

#endif							/* FASTED_PAIR_STORE_H */
