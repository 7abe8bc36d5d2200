/*-------------------------------------------------------------------------
 *
 * pair_store.c
 *	  Pairs in memory up to fasted.memory_limit, and beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "functions/pair_store.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/* Initial capacity, in pairs. */
#define INITIAL_CAPACITY (16 * 1024)

StaticAssertDecl(sizeof(FastedPair) % sizeof(float) == 0, "a pair is as long as a row of floats");

void
PairStoreInit(PairStore *store)
{
	Size		bytes = (Size) fasted_setting_memory_limit * 1024;

	memset(store, 0, sizeof(*store));
	store->capacity = INITIAL_CAPACITY;
	store->max_count = Max(bytes / sizeof(FastedPair), INITIAL_CAPACITY);
	store->pairs = palloc(store->capacity * sizeof(FastedPair));
}

void
PairStoreGrow(PairStore *store)
{
	store->capacity = Min(2 * store->capacity, store->max_count);
	store->pairs = repalloc_huge(store->pairs, store->capacity * sizeof(FastedPair));
}

void
PairStoreWrite(PairStore *store)
{
	if (store->file == NULL)
		store->file = SpillCreate(sizeof(FastedPair));
	SpillAppend(store->file, (const float *) store->pairs, store->count);
	store->spilled += store->count;
	store->count = 0;
}

void
PairStoreRead(PairStore *store, uint64 first, size_t npairs, size_t at)
{
	SpillRead(store->file, first, (float *) (store->pairs + at), npairs);
}

#define ST_SORT SortByB
#define ST_ELEMENT_TYPE FastedPair
#define ST_COMPARE(x, y) ((x)->b < (y)->b ? -1 : (x)->b > (y)->b)
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

void
PairStoreSort(PairStore *store)
{
	SortByB(store->pairs, store->count);
}

void
PairStoreEnd(PairStore *store)
{
	pfree(store->pairs);
	store->pairs = NULL;
	if (store->file != NULL)
		SpillClose(store->file);
	store->file = NULL;
}
