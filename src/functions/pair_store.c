/*-------------------------------------------------------------------------
 *
 * pair_store.c
 *	  Pairs in memory up to fasted.memory_limit, and beyond it in a temporary file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/guc.h"
#include "base/interrupts.h"
#include "base/large_memory.h"
#include "functions/pair_store.h"
#include "utils/memutils.h"

/*
 * Initial capacity, in pairs: malloc maps so much memory, so that unused pages take no memory, and growing
 * copies no pairs.
 */
#define INITIAL_CAPACITY (2 * 1024 * 1024)

/* Pairs that any limit admits. */
#define LEAST_CAPACITY (16 * 1024)

StaticAssertDecl(sizeof(FastedPair) % sizeof(float) == 0, "a pair is as long as a row of floats");

void
PairStoreInit(PairStore *store, bool sorts)
{
	Size		bytes = (Size) fasted_setting_memory_limit * 1024 / (sorts ? 2 : 1);

	memset(store, 0, sizeof(*store));
	store->max_count = Max(bytes / sizeof(FastedPair), LEAST_CAPACITY);
	store->capacity = Min(INITIAL_CAPACITY, store->max_count);
	store->pairs = AllocPages(CurrentMemoryContext, store->capacity * sizeof(FastedPair));
	store->scratch = palloc(0);
}

void
PairStoreGrow(PairStore *store)
{
	store->capacity = Min(2 * store->capacity, store->max_count);
	store->pairs = ReallocPages(store->pairs, store->capacity * sizeof(FastedPair));
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

/* --- sorting by b: an LSD radix sort, with an even number of passes, so that the pairs remain in place */

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

static inline uint32
Digit(FastedPair pair, int shift)
{
	return ((uint64) pair.b >> shift) % DIGIT_VALUES;
}

/* Sorts pairs stably by the digit of b that starts at bit `shift`. */
static void
SortByDigit(const FastedPair *from, FastedPair *to, size_t count, int shift)
{
	size_t		position[DIGIT_VALUES] = {0};
	size_t		sum = 0;

	for (size_t i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		position[Digit(from[i], shift)]++;
	}
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		sum += position[digit];
		position[digit] = sum - position[digit];
	}
	for (size_t i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		to[position[Digit(from[i], shift)]++] = from[i];
	}
}

void
PairStoreSort(PairStore *store)
{
	uint32		bits = 0;

	if (store->scratch_count < store->count)
	{
		pfree(store->scratch);
		store->scratch_count = store->count;
		store->scratch = AllocPages(CurrentMemoryContext, store->count * sizeof(FastedPair));
		/* sorting writes to all pages at random: new ones would delay checks for interrupts */
		for (size_t i = 0; i < store->count; i += HUGE_PAGE / sizeof(FastedPair))
		{
			CheckJoinInterrupts();
			store->scratch[i].b = 0;
		}
	}
	for (size_t i = 0; i < store->count; i++)
		bits |= store->pairs[i].b;
	for (int shift = 0; (uint64) bits >> shift != 0; shift += 2 * DIGIT_BITS)
	{
		SortByDigit(store->pairs, store->scratch, store->count, shift);
		SortByDigit(store->scratch, store->pairs, store->count, shift + DIGIT_BITS);
	}
}

void
PairStoreEnd(PairStore *store)
{
	pfree(store->pairs);
	pfree(store->scratch);
	store->pairs = NULL;
	if (store->file != NULL)
		SpillClose(store->file);
	store->file = NULL;
}
