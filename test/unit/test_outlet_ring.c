/*-------------------------------------------------------------------------
 *
 * test_outlet_ring.c
 *	  Blocks on their way to parallel workers: none is lost, whatever a worker
 *	  does between any two looks of the dealer.
 *
 * The ring knows PostgreSQL's locks, so this needs its headers.  Workers are
 * played by a function that runs wherever the dealer gives a lock free, as if
 * the dealer were descheduled there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

static void lock_released(void);

#undef SpinLockRelease
#define SpinLockRelease(lock) do { S_UNLOCK(lock); lock_released(); } while (0)

#include "../../src/scan/outlet_ring.c"

/* PostgreSQL's names for these are macros. */
#undef printf
#undef vprintf
#include "tap.h"

#define PROCESSES 3
#define COLUMNS 2

/* What the ring calls of PostgreSQL. */
static TimestampTz clock_us;

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	printf("Bail out! a lock is held twice\n");
	exit(EXIT_FAILURE);
}

bool
errstart(int level, const char *domain)
{
	ok(false, "the ring raised no error");
	exit(tap_done());
}

bool
errstart_cold(int level, const char *domain)
{
	return errstart(level, domain);
}

int
errmsg_internal(const char *format,...)
{
	return 0;
}

void
errfinish(const char *file, int line, const char *function)
{
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return clock_us;
}

bool
TimestampDifferenceExceeds(TimestampTz from, TimestampTz to, int ms)
{
	return to - from >= ms * INT64CONST(1000);
}

void
ConditionVariableInit(ConditionVariable *variable)
{
}

void
ConditionVariableSignal(ConditionVariable *variable)
{
}

void
ConditionVariableBroadcast(ConditionVariable *variable)
{
}

/* Whoever waits lets time pass. */
bool
ConditionVariableTimedSleep(ConditionVariable *variable, long ms, uint32 event)
{
	clock_us += ms * 1000;
	return true;
}

#if PG_VERSION_NUM >= 170000
bool
ConditionVariableCancelSleep(void)
{
	return false;
}
#else
void
ConditionVariableCancelSleep(void)
{
}
#endif

/* Workers take all that is full, and each gives its last block back or keeps it. */
static OutletRing *ring;
static bool workers_run;
static int	keep;				/* so many workers keep one */
static int	kept[PROCESSES];
static int	nkept;
static uint64_t consumed;		/* rows, numbered from 0: their sum and count */
static uint64_t consumed_sum;

static void
consume(int number)
{
	OutletBlock *block = OutletRingBlock(ring, number);

	for (uint32_t i = 0; i < block->nrows; i++)
		consumed_sum += (uint64_t) block->values[COLUMNS - 1][i];
	consumed += block->nrows;
	block->nrows = 0;
}

static void
give_back_kept(void)
{
	while (nkept > 0)
		OutletRingRelease(ring, kept[--nkept]);
}

static void
lock_released(void)
{
	int			number;

	if (!workers_run)
		return;
	workers_run = false;		/* their own locks do not come back here */
	give_back_kept();
	while ((number = OutletRingTakeFull(ring)) >= 0)
	{
		consume(number);
		if (nkept < keep)
			kept[nkept++] = number;
		else
			OutletRingRelease(ring, number);
	}
	workers_run = true;
}

static void
new_ring(void)
{
	free(ring);
	ring = must_alloc(OutletRingSize(COLUMNS, PROCESSES));
	memset(ring, 0x5a, OutletRingSize(COLUMNS, PROCESSES));
	OutletRingInit(ring, COLUMNS, PROCESSES);
	workers_run = false;
	nkept = 0;
	consumed = consumed_sum = 0;
}

static void
fill(int number, uint64_t *next_row)
{
	OutletBlock *block = OutletRingBlock(ring, number);

	block->nrows = 1 + random_below(OUTLET_ROWS);
	for (uint32_t i = 0; i < block->nrows; i++)
		block->values[COLUMNS - 1][i] = (Datum) (*next_row)++;
}

/* All blocks are full when workers come, right after the dealer has looked. */
static void
workers_come_between_two_looks(void)
{
	uint64_t	next_row = 0;
	bool		full = false;
	int			number;

	new_ring();
	for (int i = 0; i < PROCESSES * BLOCKS_EACH; i++)
	{
		number = OutletRingTakeAny(ring, &full);
		ok(number >= 0 && !full, "block %d is empty", i);
		fill(number, &next_row);
		OutletRingPublish(ring, number);
	}
	workers_run = true;
	number = OutletRingTakeAny(ring, &full);
	workers_run = false;
	ok(number >= 0, "the dealer gets a block though all were taken meanwhile");
	ok(full, "a full one: none was empty when it looked");
	consume(number);
	ok(consumed == next_row, "%llu of %llu rows came through", (unsigned long long) consumed,
	   (unsigned long long) next_row);
}

/* The dealer at work, with workers after each lock at random. */
static void
many_blocks(int keeping)
{
	uint64_t	next_row = 0;
	bool		full;
	int			number;

	new_ring();
	keep = keeping;
	for (int i = 0; i < 20000; i++)
	{
		workers_run = random_below(40) == 0;
		number = OutletRingTakeAny(ring, &full);
		if (full)
		{
			workers_run = false;
			consume(number);
			OutletRingRelease(ring, number);
			continue;
		}
		fill(number, &next_row);
		OutletRingPublish(ring, number);
	}
	workers_run = false;
	give_back_kept();
	OutletRingFinish(ring);
	while ((number = OutletRingWait(ring)) >= 0)
	{
		consume(number);
		OutletRingRelease(ring, number);
	}
	ok(consumed == next_row && consumed_sum == next_row * (next_row - 1) / 2,
	   "each of %llu rows came through once, %d workers keeping a block",
	   (unsigned long long) next_row, keeping);
}

/* Workers wait for a dealer that has not begun, and leave one that went away. */
static void
waiting(void)
{
	bool		full;
	TimestampTz begin;
	int			number;

	new_ring();
	OutletRingEnter(ring);
	number = OutletRingTakeAny(ring, &full);
	OutletRingBlock(ring, number)->nrows = 1;
	OutletRingPublish(ring, number);
	OutletRingLeave(ring);
	begin = clock_us;
	ok(OutletRingWait(ring) == number && clock_us == begin, "a full block is there at once");
	ok(OutletRingWait(ring) < 0 && clock_us - begin >= AWAY_MS * 1000 &&
	   clock_us - begin <= (AWAY_MS + WAIT_MS) * 1000, "a dealer that is away is waited for a while");
	OutletRingRelease(ring, number);
	OutletRingReset(ring);
	number = OutletRingTakeAny(ring, &full);
	ok(number >= 0 && !full, "after a reset all blocks are empty");
}

int
main(void)
{
	random_seed();
	workers_come_between_two_looks();
	many_blocks(0);
	many_blocks(PROCESSES - 1);
	waiting();
	free(ring);
	return tap_done();
}
