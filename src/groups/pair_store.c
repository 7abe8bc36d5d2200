/*-------------------------------------------------------------------------
 *
 * pair_store.c
 *	  How much memory pairs get, and the file for what is more.
 *
 * The file is the one that takes vectors, of rows as long as a pair.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "groups/pair_store.h"

/* Room at first, in pairs. */
#define FIRST_ROOM (16 * 1024)

#define PAIR_FLOATS (sizeof(FastedPair) / sizeof(float))

StaticAssertDecl(sizeof(FastedPair) % sizeof(float) == 0, "a pair is as long as a row of floats");

void
PairStoreInit(PairStore *store, int parts)
{
	Size		bytes = (Size) fasted_setting_memory_limit * 1024 / parts;

	memset(store, 0, sizeof(*store));
	store->memory = PairMemoryCreate();
	store->most = Max(bytes / sizeof(FastedPair), FIRST_ROOM);
}

void
PairStoreGrow(PairStore *store)
{
	PairMemoryGrow(store->memory, Min(Max(2 * store->memory->room, FIRST_ROOM), store->most));
}

void
PairStoreWrite(PairStore *store, const FastedPair *pairs, size_t npairs)
{
	if (store->file == NULL)
		store->file = SpillCreate(PAIR_FLOATS * sizeof(float));
	SpillAppend(store->file, (const float *) pairs, npairs);
	store->filed += npairs;
}

void
PairStoreRead(const PairStore *store, uint64 first, FastedPair *pairs, size_t npairs)
{
	SpillRead(store->file, first, (float *) pairs, npairs);
}

void
PairStoreEnd(PairStore *store)
{
	PairMemoryFree(store->memory);
	if (store->file != NULL)
		SpillClose(store->file);
	store->file = NULL;
}
