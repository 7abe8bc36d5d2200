/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  Stores the rows' keys, and computes their ranks if they do not arrive in sorted order.
 *
 * Tables are mostly read in key order.  Row numbers then sort like keys, and uniqueness is checked
 * as keys arrive.  Otherwise rows are ranked once, so that no pair requires a key comparison, which
 * for text would cost more than the pair itself.
 *
 * With parallel workers, rows never arrive in key order, and comparing a million keys takes as long
 * as reading them.  Integer keys are therefore ranked by an array of all possible keys if these are
 * few, else by a radix sort, lowest digit first.  While a GPU joins, this process only has to poll
 * the GPU, so a thread sorts.  The thread calls no PostgreSQL function: its memory is allocated
 * before it starts, and it ends when a flag is set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "engine/engine.h"
#include "fmgr.h"
#include "join/row_set.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Keys processed between interrupt checks. */
#define ROWS_PER_CHECK 1024

/* --- a radix sort of rows by integer keys */

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Rows processed between interrupt checks of the radix sort. */
#define RADIX_ROWS_PER_CHECK (1 << 20)

/* Minimum rows for a thread; fewer are sorted within two milliseconds. */
#define ROWS_FOR_THREAD (1 << 17)

/* Keys are dense if at most this many times their number are possible, from least to largest. */
#define DENSE_SPAN (sizeof(RankedRow) / sizeof(uint32))

/* Interval between interrupt checks while waiting for the thread, in nanoseconds. */
#define WAIT_NS 500000

typedef struct RankedRow
{
	uint64		key;			/* relative to the least key */
	uint32		row;
} RankedRow;

typedef struct IntegerRank
{
	const Datum *keys;
	uint32		count;
	uint32	   *rank;
	RankedRow  *rows;
	RankedRow  *other;
	uint32		duplicate;		/* a row with a duplicate key; count: none */

	bool		in_thread;		/* a thread sorts and has not been joined */
	pthread_t	thread;
	pg_atomic_uint32 stop;		/* requests the thread to end */
	pg_atomic_uint32 done;
	Cleanup		cleanup;
} IntegerRank;

/*
 * Returns true if the sort is to stop before row i.  Checks the flag only every
 * RADIX_ROWS_PER_CHECK rows.
 */
static inline bool
IsStopRequested(IntegerRank *ranking, uint32 i)
{
	return i % RADIX_ROWS_PER_CHECK == 0 && pg_atomic_read_u32(&ranking->stop) != 0;
}

/*
 * Computes the least key and the number of keys from the least to the largest, or UINT64_MAX if
 * that is too large for 64 bits.
 */
static int64
LeastKey(IntegerRank *ranking, uint64 *span)
{
	int64		least = (int64) ranking->keys[0];
	int64		largest = least;

	for (uint32 i = 0; i < ranking->count && !IsStopRequested(ranking, i); i++)
	{
		least = Min(least, (int64) ranking->keys[i]);
		largest = Max(largest, (int64) ranking->keys[i]);
	}
	*span = (uint64) largest - (uint64) least;
	*span += *span < PG_UINT64_MAX;
	return least;
}

/*
 * Ranks keys by an array with an element for each possible key.  The memory for rows has capacity
 * for DENSE_SPAN times the number of keys.
 */
static void
RankDense(IntegerRank *ranking, int64 least, uint64 span)
{
	const uint32 none = ranking->count;
	uint32	   *row_of = (uint32 *) ranking->rows;
	uint32		rank = 0;

	for (uint64 at = 0; at < span; at++)
		row_of[at] = none;
	for (uint32 i = 0; i < ranking->count; i++)
	{
		uint32	   *row = &row_of[(uint64) ranking->keys[i] - (uint64) least];

		if (IsStopRequested(ranking, i))
			return;
		if (*row != none && (ranking->duplicate == none ||
							 (int64) ranking->keys[i] > (int64) ranking->keys[ranking->duplicate]))
			ranking->duplicate = i;
		*row = i;
	}
	for (uint64 at = 0; at < span; at++)
		if (row_of[at] != none)
			ranking->rank[row_of[at]] = rank++;
}

/* Fills rows with the keys, relative to the least key. */
static void
FillRows(IntegerRank *ranking, int64 least)
{
	for (uint32 i = 0; i < ranking->count && !IsStopRequested(ranking, i); i++)
	{
		ranking->rows[i].key = (uint64) ranking->keys[i] - (uint64) least;
		ranking->rows[i].row = i;
	}
}

/* Sorts stably by the digit that starts at bit shift. */
static void
SortByDigit(IntegerRank *ranking, int shift)
{
	const RankedRow *from = ranking->rows;
	RankedRow  *to = ranking->other;
	uint32		position[DIGIT_VALUES] = {0};
	uint32		sum = 0;

	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (IsStopRequested(ranking, i))
			return;
		position[(from[i].key >> shift) % DIGIT_VALUES]++;
	}
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		uint32		n = position[digit];

		position[digit] = sum;
		sum += n;
	}
	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (IsStopRequested(ranking, i))
			return;
		to[position[(from[i].key >> shift) % DIGIT_VALUES]++] = from[i];
	}
	ranking->other = ranking->rows;
	ranking->rows = to;
}

static void
Rank(IntegerRank *ranking)
{
	uint64		span;
	int64		least = LeastKey(ranking, &span);

	if (span <= DENSE_SPAN * (uint64) ranking->count)
	{
		RankDense(ranking, least, span);
		return;
	}
	FillRows(ranking, least);
	for (int shift = 0; shift < 64 && (span - 1) >> shift != 0; shift += DIGIT_BITS)
		SortByDigit(ranking, shift);
	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (IsStopRequested(ranking, i))
			return;
		if (i > 0 && ranking->rows[i].key == ranking->rows[i - 1].key)
			ranking->duplicate = ranking->rows[i].row;
		ranking->rank[ranking->rows[i].row] = i;
	}
}

static void *
RankInThread(void *argument)
{
	IntegerRank *ranking = argument;

	Rank(ranking);
	/* a full barrier, which makes the ranks visible before the flag */
	pg_atomic_fetch_add_u32(&ranking->done, 1);
	return NULL;
}

static void
JoinThread(void *arg)
{
	IntegerRank *ranking = arg;

	if (!ranking->in_thread)
		return;
	pg_atomic_write_u32(&ranking->stop, 1);
	pthread_join(ranking->thread, NULL);
	ranking->in_thread = false;
}

/*
 * Starts ranking the keys as signed integers.  rank[i] becomes the position of keys[i].  count must
 * be at least one.  A large sort runs in a thread; keys and rank must remain valid until it is
 * done.  Temporary memory of 32 bytes per row belongs to the current memory context, whose deletion
 * ends the thread.  Returns NULL if the thread cannot be created.
 */
static IntegerRank *
IntegerRankBegin(const Datum *keys, uint32 count, uint32 *rank)
{
	IntegerRank *ranking = palloc0(sizeof(IntegerRank));
	Size		bytes = (Size) count * sizeof(RankedRow);

	ranking->keys = keys;
	ranking->count = ranking->duplicate = count;
	ranking->rank = rank;
	ranking->rows = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	ranking->other = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	pg_atomic_init_u32(&ranking->stop, 0);
	pg_atomic_init_u32(&ranking->done, 0);
	if (count < ROWS_FOR_THREAD)
		(void) RankInThread(ranking);
	else if (fasted_start_thread(&ranking->thread, 0, RankInThread, ranking))
	{
		ranking->in_thread = true;
		(void) pthread_setname_np(ranking->thread, "fasted keys");
		CleanupRegister(&ranking->cleanup, JoinThread, ranking);
	}
	else
		return NULL;
	return ranking;
}

static inline bool
IsRanked(IntegerRank *ranking)
{
	/* a full barrier */
	return pg_atomic_fetch_add_u32(&ranking->done, 0) != 0;
}

/* --- keys */

KeySet *
KeySetCreate(const VectorSource *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted keys",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	KeySet	   *keys = palloc0(sizeof(KeySet));

	keys->source = source;
	keys->context = context;
	get_typlenbyval(source->key_type, &keys->typlen, &keys->typbyval);
	PrepareTypeOrder(source->key_type, source->key_collation, context, &keys->order);
	keys->copies = AllocSetContextCreate(context, "fasted key copies", ALLOCSET_DEFAULT_SIZES);
	keys->capacity = 1024;
	keys->values = palloc(keys->capacity * sizeof(Datum));
	keys->ascending = true;
	MemoryContextSwitchTo(old);
	return keys;
}

static void
ReportDuplicate(const KeySet *keys, uint32 row)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key column \"%s\" of relation \"%s\" is not unique",
					keys->source->key_column, keys->source->relation),
			 errdetail("More than one row with a vector has %s.",
					   KeyName(keys->source, keys->values[row])),
			 errhint("Specify a unique column with %s => '...', for example one that a view computes with row_number().",
					 keys->source->id_argument)));
}

/*
 * Frees the sort's memory and ends its thread.  Reports an error if duplicate is a row with a
 * duplicate key; it is the number of rows if there is none.
 */
static void
EndSorting(KeySet *keys, uint32 duplicate)
{
	MemoryContextDelete(keys->sorting);
	keys->sorting = NULL;
	keys->ranking = NULL;
	if (duplicate < keys->count)
		ReportDuplicate(keys, duplicate);
}

void
KeySetReset(KeySet *keys)
{
	if (keys->sorting != NULL)
		EndSorting(keys, keys->count);
	MemoryContextReset(keys->copies);
	keys->count = 0;
	keys->ascending = true;
	if (keys->rank != NULL)
		pfree(keys->rank);
	keys->rank = NULL;
	if (keys->by_rank != NULL)
		pfree(keys->by_rank);
	keys->by_rank = NULL;
}

static Datum
CopyKey(const KeySet *keys, Datum key)
{
	MemoryContext old = MemoryContextSwitchTo(keys->copies);

	key = keys->typlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(key)) :
		datumCopy(key, false, keys->typlen);
	MemoryContextSwitchTo(old);
	return key;
}

void
KeySetAdd(KeySet *keys, const Datum *more, size_t n)
{
	while (keys->capacity - keys->count < n)
	{
		keys->capacity = Min((uint64) keys->capacity * 2, PG_UINT32_MAX);
		keys->values = repalloc_huge(keys->values, (Size) keys->capacity * sizeof(Datum));
	}
	for (size_t i = 0; i < n; i++)
	{
		Datum		key = keys->typbyval ? more[i] : CopyKey(keys, more[i]);

		if (keys->ascending && keys->count > 0 &&
			ApplySortComparator(keys->values[keys->count - 1], false, key, false, &keys->order) >= 0)
			keys->ascending = false;
		keys->values[keys->count++] = key;
	}
}

/* Returns true if the keys are signed integers that sort like their Datums. */
static bool
AreIntegers(const KeySet *keys)
{
#if SIZEOF_DATUM >= 8
	return keys->typbyval &&
		(keys->order.comparator == ssup_datum_signed_cmp ||
		 keys->order.comparator == ssup_datum_int32_cmp);
#else
	return false;
#endif
}

/* Element of the comparison sort.  The key is abbreviated if its type supports that. */
typedef struct SortedRow
{
	Datum		key;
	uint32		row;
} SortedRow;

typedef struct RowOrder
{
	const KeySet *keys;
	SortSupportData support;
} RowOrder;

static int
CompareRows(const void *a, const void *b, void *arg)
{
	const SortedRow *x = a;
	const SortedRow *y = b;
	RowOrder   *order = arg;
	int			result = ApplySortComparator(x->key, false, y->key, false, &order->support);

	if (result != 0 || order->support.abbrev_converter == NULL)
		return result;
	return ApplySortAbbrevFullComparator(order->keys->values[x->row], false,
										 order->keys->values[y->row], false, &order->support);
}

/* Ranks keys of any type.  Returns a row with a duplicate key; the number of rows if none. */
static uint32
RankByComparing(KeySet *keys)
{
	RowOrder	order = {.keys = keys,.support = {.abbreviate = true}};
	SortedRow  *rows;
	uint32		duplicate = keys->count;

	PrepareTypeOrder(keys->source->key_type, keys->source->key_collation, CurrentMemoryContext,
					 &order.support);
	rows = MemoryContextAllocHuge(CurrentMemoryContext, (Size) keys->count * sizeof(SortedRow));
	for (uint32 i = 0; i < keys->count; i++)
	{
		if (i % ROWS_PER_CHECK == 0)
			CHECK_FOR_INTERRUPTS();
		rows[i].key = keys->values[i];
		if (order.support.abbrev_converter != NULL)
			rows[i].key = order.support.abbrev_converter(rows[i].key, &order.support);
		rows[i].row = i;
	}
	qsort_interruptible(rows, keys->count, sizeof(SortedRow), CompareRows, &order);
	for (uint32 i = 0; i < keys->count; i++)
	{
		if (i % ROWS_PER_CHECK == 0)
			CheckJoinInterrupts();
		if (duplicate == keys->count && i > 0 && CompareRows(&rows[i - 1], &rows[i], &order) == 0)
			duplicate = rows[i].row;
		keys->rank[rows[i].row] = i;
	}
	pfree(rows);
	return duplicate;
}

void
KeySetStartSort(KeySet *keys)
{
	uint32		duplicate = keys->count;
	MemoryContext old;

	if (keys->ascending || keys->rank != NULL)
		return;
	keys->rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(uint32));
	/* includes the memory of the type's comparison support */
	keys->sorting = AllocSetContextCreate(keys->context, "fasted sorting", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(keys->sorting);
	if (AreIntegers(keys))
		keys->ranking = IntegerRankBegin(keys->values, keys->count, keys->rank);
	if (keys->ranking == NULL)
		duplicate = RankByComparing(keys);
	MemoryContextSwitchTo(old);
	if (keys->ranking == NULL)
		EndSorting(keys, duplicate);
	else
		KeySetPoll(keys);
}

void
KeySetPoll(KeySet *keys)
{
	if (keys->ranking != NULL && IsRanked(keys->ranking))
		EndSorting(keys, keys->ranking->duplicate);
}

void
KeySetFinish(KeySet *keys)
{
	struct timespec rest = {.tv_nsec = WAIT_NS};

	KeySetStartSort(keys);
	while (keys->ranking != NULL && !IsRanked(keys->ranking))
	{
		CheckJoinInterrupts();
		nanosleep(&rest, NULL);
	}
	KeySetPoll(keys);
}

const Datum *
KeySetInOrder(KeySet *keys)
{
	if (keys->rank == NULL)
		return keys->values;
	if (keys->by_rank == NULL)
	{
		keys->by_rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(Datum));
		for (uint32 i = 0; i < keys->count; i++)
		{
			if (i % ROWS_PER_CHECK == 0)
				CheckJoinInterrupts();
			keys->by_rank[keys->rank[i]] = keys->values[i];
		}
	}
	return keys->by_rank;
}

uint32 *
KeySetSort(KeySet *keys)
{
	MemoryContext old = MemoryContextSwitchTo(keys->context);
	uint32	   *places;

	KeySetFinish(keys);
	places = keys->rank == NULL ? OwnRowNumbers(keys->count) :
		RowsOfNumbers(keys->rank, keys->count);
	MemoryContextSwitchTo(old);
	if (keys->rank == NULL)
		return places;
	(void) KeySetInOrder(keys);
	pfree(keys->values);
	pfree(keys->rank);
	keys->values = keys->by_rank;
	keys->capacity = keys->count;
	keys->by_rank = NULL;
	keys->rank = NULL;
	keys->ascending = true;
	return places;
}
