/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  One array of keys, and their ranks where they come in another order.
 *
 * Tables mostly come in the order of their key: then row numbers order as keys
 * do, and uniqueness is seen on the way.  Else the rows are ranked once, so that
 * no pair needs a comparison of keys (which for text costs more than the pair).
 *
 * With parallel workers rows never come in the order of their keys, and comparing a million of
 * them takes as long as reading them.  So integers are sorted digit by digit, lowest first, as
 * far as they differ.  While a GPU joins, the session has nothing to do but to sort, yet it has
 * to poll the GPU.  So a thread sorts, which calls nothing of PostgreSQL's: its memory is there
 * before, and it ends when it is told to.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "base/interrupts.h"
#include "engine/engine.h"
#include "fmgr.h"
#include "join/keys.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "rows/source.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Fewer integers are sorted sooner by comparing them. */
#define RADIX_ROWS 256

/* Keys between two looks for interrupts. */
#define ROWS_PER_CHECK 1024

/* --- a radix sort of rows by integer keys */

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Rows between two looks for interrupts. */
#define RADIX_ROWS_PER_CHECK (1 << 20)

/* Fewer are sorted within two milliseconds. */
#define ROWS_FOR_THREAD (1 << 17)

/* Between two looks for interrupts of whoever waits for the thread. */
#define WAIT_NS 500000

typedef struct RankedRow
{
	uint64		key;			/* above the least one */
	uint32		row;
} RankedRow;

struct IntegerRank
{
	const Datum *keys;
	uint32		count;
	uint32	   *rank;
	RankedRow  *rows;
	RankedRow  *other;
	uint32		twice;			/* a row whose key another row has; count: none */

	bool		beside;			/* in a thread */
	bool		joined;			/* which has ended */
	pthread_t	thread;
	pg_atomic_uint32 stop;		/* it is to end */
	pg_atomic_uint32 done;
	Cleanup		cleanup;
};

/* Answers interrupts, or tells the thread that it is to end. */
static bool
IsStopped(IntegerRank *ranking)
{
	if (ranking->beside)
		return pg_atomic_read_u32(&ranking->stop) != 0;
	CHECK_FOR_INTERRUPTS();
	return false;
}

/* Before row i: is it time to look, and is that the end? */
static inline bool
StopsAt(IntegerRank *ranking, uint32 i)
{
	return i % RADIX_ROWS_PER_CHECK == 0 && IsStopped(ranking);
}

/* Returns how many bits the keys take. */
static int
FillRows(IntegerRank *ranking)
{
	const Datum *keys = ranking->keys;
	RankedRow  *rows = ranking->rows;
	int64		least = (int64) keys[0];
	uint64		all = 0;
	int			bits = 0;

	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (StopsAt(ranking, i))
			return 0;
		least = Min(least, (int64) keys[i]);
	}
	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (StopsAt(ranking, i))
			return 0;
		rows[i].key = (uint64) keys[i] - (uint64) least;
		rows[i].row = i;
		all |= rows[i].key;
	}
	while (bits < 64 && (all >> bits) != 0)
		bits++;
	return bits;
}

/* Sorts by one digit and keeps, within it, the order there was. */
static void
SortByDigit(IntegerRank *ranking, int shift)
{
	const RankedRow *from = ranking->rows;
	RankedRow  *to = ranking->other;
	uint32		position[DIGIT_VALUES] = {0};
	uint32		sum = 0;

	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (StopsAt(ranking, i))
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
		if (StopsAt(ranking, i))
			return;
		to[position[(from[i].key >> shift) % DIGIT_VALUES]++] = from[i];
	}
	ranking->other = ranking->rows;
	ranking->rows = to;
}

static void
Rank(IntegerRank *ranking)
{
	int			bits = FillRows(ranking);

	for (int shift = 0; shift < bits && !IsStopped(ranking); shift += DIGIT_BITS)
		SortByDigit(ranking, shift);
	for (uint32 i = 0; i < ranking->count; i++)
	{
		if (StopsAt(ranking, i))
			return;
		if (i > 0 && ranking->rows[i].key == ranking->rows[i - 1].key)
			ranking->twice = ranking->rows[i].row;
		ranking->rank[ranking->rows[i].row] = i;
	}
}

static void *
RankInThread(void *argument)
{
	IntegerRank *ranking = argument;

	Rank(ranking);
	/* a full barrier: whoever sees it sees the ranks */
	pg_atomic_fetch_add_u32(&ranking->done, 1);
	return NULL;
}

static bool
StartThread(IntegerRank *ranking)
{
	if (!fasted_start_thread(&ranking->thread, 0, RankInThread, ranking))
		return false;
	(void) pthread_setname_np(ranking->thread, "fasted keys");
	return true;
}

static void
JoinThread(void *arg)
{
	IntegerRank *ranking = arg;

	if (ranking->beside && !ranking->joined)
	{
		pg_atomic_write_u32(&ranking->stop, 1);
		pthread_join(ranking->thread, NULL);
		ranking->joined = true;
	}
}

/*
 * Begins to find the position of each of keys[] in their order as signed integers, which
 * become rank[].  A thread does it, if beside is set and it pays; keys and rank stay until
 * then.  What it takes, 32 bytes a row meanwhile, is the current memory context's: when that
 * goes, the thread ends.
 */
static IntegerRank *
IntegerRankBegin(const Datum *keys, uint32 count, uint32 *rank, bool beside)
{
	IntegerRank *ranking = palloc0(sizeof(IntegerRank));
	Size		bytes = (Size) count * sizeof(RankedRow);

	ranking->keys = keys;
	ranking->count = ranking->twice = count;
	ranking->rank = rank;
	if (count == 0)
		return ranking;
	ranking->rows = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	ranking->other = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
	pg_atomic_init_u32(&ranking->stop, 0);
	pg_atomic_init_u32(&ranking->done, 0);
	ranking->beside = beside && count >= ROWS_FOR_THREAD;
	if (ranking->beside && StartThread(ranking))
	{
		CleanupRegister(&ranking->cleanup, JoinThread, ranking);
		return ranking;
	}
	ranking->beside = false;
	Rank(ranking);
	return ranking;
}

static bool
IntegerRankIsDone(IntegerRank *ranking)
{
	/* with a barrier */
	return !ranking->beside || pg_atomic_fetch_add_u32(&ranking->done, 0) != 0;
}

/*
 * Waits until rank is complete.  Returns a row whose key another row has too, or count if there
 * is none.  Then the memory context may go.
 */
static uint32
IntegerRankEnd(IntegerRank *ranking)
{
	while (!IntegerRankIsDone(ranking))
	{
		struct timespec rest = {.tv_nsec = WAIT_NS};

		CheckJoinInterrupts();
		nanosleep(&rest, NULL);
	}
	JoinThread(ranking);
	return ranking->twice;
}

/* --- keys */

static void
PrepareOrder(KeySet *keys, SortSupport order)
{
	PrepareTypeOrder(keys->source->key_type, keys->source->key_collation, CurrentMemoryContext, order);
}

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
	PrepareOrder(keys, &keys->order);
	keys->capacity = 1024;
	keys->values = palloc(keys->capacity * sizeof(Datum));
	keys->ascending = true;
	MemoryContextSwitchTo(old);
	return keys;
}

/* What there is to sort by goes with its memory. */
static void
EndSorting(KeySet *keys)
{
	if (keys->sorting != NULL)
		MemoryContextDelete(keys->sorting);
	keys->sorting = NULL;
	keys->ranking = NULL;
}

void
KeySetReset(KeySet *keys)
{
	EndSorting(keys);
	if (!keys->typbyval)
		for (uint32 i = 0; i < keys->count; i++)
		{
			if (i % ROWS_PER_CHECK == 0)
				CheckJoinInterrupts();
			pfree(DatumGetPointer(keys->values[i]));
		}
	keys->count = 0;
	keys->ascending = true;
	if (keys->rank != NULL)
		pfree(keys->rank);
	keys->rank = NULL;
	if (keys->by_rank != NULL)
		pfree(keys->by_rank);
	keys->by_rank = NULL;
}

static void
MakeRoom(KeySet *keys, size_t more)
{
	while (keys->capacity - keys->count < more)
	{
		keys->capacity = Min((uint64) keys->capacity * 2, PG_UINT32_MAX);
		keys->values = repalloc_huge(keys->values, (Size) keys->capacity * sizeof(Datum));
	}
}

void
KeySetAddAll(KeySet *keys, const Datum *more, size_t n)
{
	size_t		i = 0;

	while (i < n && (keys->ascending || !keys->typbyval))
		KeySetAdd(keys, more[i++]);
	MakeRoom(keys, n - i);
	memcpy(keys->values + keys->count, more + i, (n - i) * sizeof(Datum));
	keys->count += n - i;
}

void
KeySetAdd(KeySet *keys, Datum key)
{
	MakeRoom(keys, 1);
	if (!keys->typbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(keys->context);

		key = keys->typlen == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(key)) :
			datumCopy(key, false, keys->typlen);
		MemoryContextSwitchTo(old);
	}
	if (keys->ascending && keys->count > 0 &&
		ApplySortComparator(keys->values[keys->count - 1], false, key, false,
							&keys->order) >= 0)
		keys->ascending = false;
	keys->values[keys->count++] = key;
}

static void
ReportDuplicate(const KeySet *keys, uint32 row)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key column \"%s\" of \"%s\" is not unique",
					keys->source->key_column, keys->source->relation),
			 errdetail("More than one row with a vector has %s.",
					   KeyName(keys->source, keys->values[row])),
			 errhint("Name a unique column with %s => '...', for example of a view that adds row_number().",
					 keys->source->id_argument)));
}

/* Are they signed integers, of whatever width, that fill a Datum? */
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

/* A row on its way to its rank; the key is abbreviated, where its type can do so. */
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

/* Any keys, by comparing them; returns a row with the key of another one, or their number. */
static uint32
RankByComparing(KeySet *keys)
{
	RowOrder	order = {.keys = keys,.support = {.abbreviate = true}};
	SortedRow  *rows;
	uint32		twice = keys->count;

	PrepareOrder(keys, &order.support);
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
		if (twice == keys->count && i > 0 && CompareRows(&rows[i - 1], &rows[i], &order) == 0)
			twice = rows[i].row;
		keys->rank[rows[i].row] = i;
	}
	pfree(rows);
	return twice;
}

static void
Finish(KeySet *keys, bool beside)
{
	MemoryContext old;
	uint32		twice;

	if (keys->ascending || keys->rank != NULL)
		return;

	keys->rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(uint32));
	/* what a type needs to compare goes with it */
	keys->sorting = AllocSetContextCreate(keys->context, "fasted sorting", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(keys->sorting);
	if (AreIntegers(keys) && keys->count >= RADIX_ROWS)
	{
		keys->ranking = IntegerRankBegin(keys->values, keys->count, keys->rank, beside);
		twice = keys->count;
	}
	else
		twice = RankByComparing(keys);
	MemoryContextSwitchTo(old);
	if (keys->ranking == NULL)
		EndSorting(keys);
	if (twice < keys->count)
		ReportDuplicate(keys, twice);
}

void
KeySetFinish(KeySet *keys)
{
	uint32		twice;

	Finish(keys, false);
	if (keys->ranking == NULL)
		return;
	twice = IntegerRankEnd(keys->ranking);
	EndSorting(keys);
	if (twice < keys->count)
		ReportDuplicate(keys, twice);
}

void
KeySetBeginFinish(KeySet *keys)
{
	Finish(keys, true);
	KeySetLook(keys);
}

void
KeySetLook(KeySet *keys)
{
	if (keys->ranking != NULL && IntegerRankIsDone(keys->ranking))
		KeySetFinish(keys);
}

uint32 *
KeySetSort(KeySet *keys)
{
	uint32	   *places = MemoryContextAllocHuge(keys->context, Max(1, (Size) keys->count) * sizeof(uint32));
	uint32	   *rank;
	Datum	   *values;

	KeySetFinish(keys);
	rank = keys->rank;
	for (uint32 row = 0; row < keys->count; row++)
	{
		if (row % ROWS_PER_CHECK == 0)
			CheckJoinInterrupts();
		places[rank == NULL ? row : rank[row]] = row;
	}
	if (rank == NULL)
		return places;
	values = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(Datum));
	for (uint32 row = 0; row < keys->count; row++)
	{
		if (row % ROWS_PER_CHECK == 0)
			CheckJoinInterrupts();
		values[row] = keys->values[places[row]];
	}
	pfree(keys->values);
	pfree(rank);
	keys->values = values;
	keys->capacity = keys->count;
	keys->rank = NULL;
	keys->ascending = true;
	return places;
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
