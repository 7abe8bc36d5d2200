/*-------------------------------------------------------------------------
 *
 * pair_store.c
 *	  A store for pairs, in memory or in a temporary file; sorting and merging of pairs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE				/* mremap */
#endif

#include "postgres.h"

#include <sys/mman.h>

#include "base/guc.h"
#include "base/interrupts.h"
#include "functions/pair_store.h"
#include "lib/binaryheap.h"
#include "utils/memutils.h"

/* --- a growing array of pairs, outside of the memory contexts */

/* At most the size of a page; and the number of bytes between two checks for interrupts. */
#define TOUCH_STEP 4096
#define TOUCH_BYTES_PER_CHECK (4 * 1024 * 1024)

void
PairMemoryFree(PairMemory *memory)
{
	if (memory->pairs == NULL)
		return;
	munmap(memory->pairs, memory->capacity * sizeof(FastedPair));
	memory->pairs = NULL;
	memory->capacity = 0;
}

static void
FreeCallback(void *arg)
{
	PairMemoryFree(arg);
}

PairMemory *
PairMemoryCreate(void)
{
	PairMemory *memory = palloc0(sizeof(PairMemory));

	CleanupRegister(&memory->cleanup, FreeCallback, memory);
	return memory;
}

void
PairMemoryGrow(PairMemory *memory, size_t capacity)
{
	void	   *pairs;

	if (memory->pairs == NULL)
		pairs = mmap(NULL, capacity * sizeof(FastedPair), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		pairs = mremap(memory->pairs, memory->capacity * sizeof(FastedPair),
					   capacity * sizeof(FastedPair), MREMAP_MAYMOVE);
	if (pairs == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Could not allocate memory for %zu pairs.", capacity),
				 errhint("Reduce fasted.memory_limit, so that more pairs are written to a temporary file.")));
#ifdef MADV_HUGEPAGE
	(void) madvise(pairs, capacity * sizeof(FastedPair), MADV_HUGEPAGE);
#endif
	memory->pairs = pairs;
	memory->capacity = capacity;
}

void
PairMemoryTouch(PairMemory *memory)
{
	volatile char *bytes = (volatile char *) memory->pairs;
	Size		size = memory->capacity * sizeof(FastedPair);

	for (Size i = 0; i < size; i += TOUCH_STEP)
	{
		if (i % TOUCH_BYTES_PER_CHECK == 0)
			CheckJoinInterrupts();
		bytes[i] = 0;
	}
}

/*
 * --- a store: in memory up to a limit, and beyond it in a temporary file
 *
 * The file is a SpillFile, as for vectors: each row of floats holds a pair.
 */

/* Initial capacity, in pairs. */
#define INITIAL_CAPACITY (16 * 1024)

#define PAIR_FLOATS (sizeof(FastedPair) / sizeof(float))

StaticAssertDecl(sizeof(FastedPair) % sizeof(float) == 0, "a pair is as long as a row of floats");

void
PairStoreInit(PairStore *store, int parts)
{
	Size		bytes = (Size) fasted_setting_memory_limit * 1024 / parts;

	memset(store, 0, sizeof(*store));
	store->memory = PairMemoryCreate();
	store->max_count = Max(bytes / sizeof(FastedPair), INITIAL_CAPACITY);
}

void
PairStoreGrow(PairStore *store)
{
	size_t		capacity = Max(2 * store->memory->capacity, INITIAL_CAPACITY);

	PairMemoryGrow(store->memory, Min(capacity, store->max_count));
}

void
PairStoreWrite(PairStore *store, const FastedPair *pairs, size_t npairs)
{
	if (store->file == NULL)
		store->file = SpillCreate(PAIR_FLOATS * sizeof(float));
	SpillAppend(store->file, (const float *) pairs, npairs);
	store->spilled += npairs;
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

/*
 * --- sorting pairs by their second row: an LSD radix sort
 *
 * Row numbers have at most 31 bits, so it takes three passes at most.
 */

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Pairs between two checks for interrupts. */
#define PAIRS_PER_CHECK (256 * 1024)

/* Sets the position in the sorted array of the first pair with each value of the digit. */
static void
FindPositions(const FastedPair *pairs, size_t npairs, int shift, size_t *positions)
{
	size_t		sum = 0;

	memset(positions, 0, DIGIT_VALUES * sizeof(size_t));
	for (size_t i = 0; i < npairs; i++)
	{
		if (i % PAIRS_PER_CHECK == 0)
			CheckJoinInterrupts();
		positions[(pairs[i].b >> shift) % DIGIT_VALUES]++;
	}
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		size_t		n = positions[digit];

		positions[digit] = sum;
		sum += n;
	}
}

FastedPair *
SortBySecond(FastedPair *pairs, FastedPair *scratch, size_t npairs, uint32 nrows)
{
	size_t		positions[DIGIT_VALUES];

	for (int shift = 0; shift < 32 && (nrows - 1) >> shift > 0; shift += DIGIT_BITS)
	{
		FastedPair *sorted = scratch;

		FindPositions(pairs, npairs, shift, positions);
		for (size_t i = 0; i < npairs; i++)
		{
			if (i % PAIRS_PER_CHECK == 0)
				CheckJoinInterrupts();
			sorted[positions[(pairs[i].b >> shift) % DIGIT_VALUES]++] = pairs[i];
		}
		scratch = pairs;
		pairs = sorted;
	}
	return pairs;
}

/* --- merging sorted runs in a file by their second row: a heap of the runs by their next pair */

/*
 * Bounds for the number of pairs of each run in memory.  Within them, all runs together get as
 * many pairs as the store may hold.
 */
#define MIN_BUFFER_PAIRS 256
#define MAX_BUFFER_PAIRS (64 * 1024)

typedef struct PairRun
{
	uint64		next;			/* number, in the file, of the first pair that was not read */
	uint64		end;			/* end of the run in the file */
	FastedPair *pairs;			/* buffer of pairs that were read */
	size_t		count;			/* pairs in the buffer */
	size_t		used;			/* pairs of these that were returned */
} PairRun;

struct PairMerge
{
	const PairStore *store;
	PairRun    *runs;
	size_t		capacity;		/* size of a run's buffer, in pairs */
	FastedPair *pairs;			/* buffers of all runs */
	binaryheap *heap;			/* runs; the first one has the pair with the smallest b */
	PairRun    *returned;		/* run whose pairs were returned last, or NULL */
};

/* A binaryheap has its greatest element first, so this reverses the order of b. */
static int
CompareRuns(Datum a, Datum b, void *arg)
{
	const PairRun *x = (const PairRun *) DatumGetPointer(a);
	const PairRun *y = (const PairRun *) DatumGetPointer(b);
	uint32		x_row = x->pairs[x->used].b;
	uint32		y_row = y->pairs[y->used].b;

	return (x_row < y_row) - (x_row > y_row);
}

/* Reads more pairs if the buffer has been used.  Returns false if the run has no more pairs. */
static bool
FillRun(const PairMerge *merge, PairRun *run)
{
	if (run->used < run->count)
		return true;
	run->used = 0;
	run->count = Min(merge->capacity, run->end - run->next);
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
	size_t		nruns = (store->spilled + run_pairs - 1) / run_pairs;
	size_t		capacity = store->max_count / Max(nruns, 1);

	merge->store = store;
	merge->capacity = Min(Max(capacity, MIN_BUFFER_PAIRS), MAX_BUFFER_PAIRS);
	merge->runs = MemoryContextAllocHuge(CurrentMemoryContext, nruns * sizeof(PairRun));
	merge->pairs = MemoryContextAllocHuge(CurrentMemoryContext,
										  nruns * merge->capacity * sizeof(FastedPair));
	merge->heap = binaryheap_allocate(nruns, CompareRuns, NULL);
	for (size_t i = 0; i < nruns; i++)
	{
		PairRun    *run = &merge->runs[i];

		run->next = i * run_pairs;
		run->end = Min(run->next + run_pairs, store->spilled);
		run->pairs = merge->pairs + i * merge->capacity;
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
	PairRun    *run = merge->returned;
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

	run = merge->returned = (PairRun *) DatumGetPointer(binaryheap_first(merge->heap));
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
