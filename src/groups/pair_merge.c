/*-------------------------------------------------------------------------
 *
 * pair_merge.c
 *	  A heap of the runs by their next pair.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "groups/pair_merge.h"
#include "lib/binaryheap.h"
#include "utils/memutils.h"

/* Pairs of a run that are in memory: within these bounds, as many as the store held. */
#define LEAST_ROOM 256
#define MOST_ROOM (64 * 1024)

typedef struct PairRun
{
	uint64		next;			/* in the file: what has not been read */
	uint64		end;
	FastedPair *pairs;			/* what has */
	size_t		count;
	size_t		used;
} PairRun;

struct PairMerge
{
	const PairStore *store;
	PairRun    *runs;
	size_t		room;			/* pairs of each run in memory */
	FastedPair *pairs;			/* room for those of all */
	binaryheap *heap;			/* the run with the least next pair is the first */
	PairRun    *given;			/* whose pairs the caller has; NULL: none */
};

/* The heap's first is its greatest: that with the least b. */
static int
CompareRuns(Datum a, Datum b, void *arg)
{
	const PairRun *x = (const PairRun *) DatumGetPointer(a);
	const PairRun *y = (const PairRun *) DatumGetPointer(b);
	uint32		x_row = x->pairs[x->used].b;
	uint32		y_row = y->pairs[y->used].b;

	return (x_row < y_row) - (x_row > y_row);
}

/* Has the run a next pair?  It is in memory then. */
static bool
FillRun(const PairMerge *merge, PairRun *run)
{
	if (run->used < run->count)
		return true;
	run->used = 0;
	run->count = Min(merge->room, run->end - run->next);
	if (run->count == 0)
		return false;
	PairStoreRead(merge->store, run->next, run->pairs, run->count);
	run->next += run->count;
	return true;
}

PairMerge *
PairMergeBegin(const PairStore *store, size_t run_pairs)
{
	PairMerge  *merge = palloc0(sizeof(PairMerge));
	size_t		nruns = (store->filed + run_pairs - 1) / run_pairs;
	size_t		room = store->most / Max(nruns, 1);

	merge->store = store;
	merge->room = Min(Max(room, LEAST_ROOM), MOST_ROOM);
	merge->runs = MemoryContextAllocHuge(CurrentMemoryContext, nruns * sizeof(PairRun));
	merge->pairs = MemoryContextAllocHuge(CurrentMemoryContext,
										  nruns * merge->room * sizeof(FastedPair));
	merge->heap = binaryheap_allocate(nruns, CompareRuns, NULL);
	for (size_t i = 0; i < nruns; i++)
	{
		PairRun    *run = &merge->runs[i];

		run->next = i * run_pairs;
		run->end = Min(run->next + run_pairs, store->filed);
		run->pairs = merge->pairs + i * merge->room;
		run->count = run->used = 0;
		if (FillRun(merge, run))
			binaryheap_add_unordered(merge->heap, PointerGetDatum(run));
	}
	binaryheap_build(merge->heap);
	return merge;
}

size_t
PairMergeNext(PairMerge *merge, const FastedPair **pairs)
{
	PairRun    *run = merge->given;
	size_t		first;

	if (run != NULL)
	{
		if (FillRun(merge, run))
			binaryheap_replace_first(merge->heap, PointerGetDatum(run));
		else
			(void) binaryheap_remove_first(merge->heap);
	}
	if (binaryheap_empty(merge->heap))
		return 0;

	run = merge->given = (PairRun *) DatumGetPointer(binaryheap_first(merge->heap));
	first = run->used;
	do
		run->used++;
	while (run->used < run->count && run->pairs[run->used].b == run->pairs[first].b);
	*pairs = run->pairs + first;
	return run->used - first;
}

void
PairMergeEnd(PairMerge *merge)
{
	binaryheap_free(merge->heap);
	pfree(merge->pairs);
	pfree(merge->runs);
	pfree(merge);
}
