/*-------------------------------------------------------------------------
 *
 * integer_rank.c
 *	  A radix sort of rows by integer keys.
 *
 * With parallel workers rows never come in the order of their keys, and
 * comparing a million of them takes as long as reading them.  So integers are
 * sorted digit by digit, lowest first, as far as they differ.
 *
 * While a GPU joins, the session has nothing to do but to sort, yet the GPU wants to be
 * looked at.  So a thread sorts, which calls nothing of PostgreSQL's: its memory is there
 * before, and it ends when it is told to.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "base/cleanup.h"
#include "base/interrupts.h"
#include "engine/thread.h"
#include "join/integer_rank.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/memutils.h"

#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

/* Rows between two looks for interrupts. */
#define ROWS_PER_CHECK (1 << 20)

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
	return i % ROWS_PER_CHECK == 0 && IsStopped(ranking);
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

IntegerRank *
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

bool
IntegerRankIsDone(IntegerRank *ranking)
{
	/* with a barrier */
	return !ranking->beside || pg_atomic_fetch_add_u32(&ranking->done, 0) != 0;
}

uint32
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
