/*-------------------------------------------------------------------------
 *
 * test_block_ring.c
 *	  Blocks passed to parallel workers: none is lost, whatever a worker does between any two
 *	  checks of the writer.
 *
 * The ring uses PostgreSQL's locks, so this test needs its headers.  A function that runs
 * whenever the writer releases a lock acts as the workers, as if the writer were descheduled
 * there.
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

#include "../../src/base/block_ring.c"

/* PostgreSQL's names for these are macros. */
#undef printf
#undef vprintf
#include "tap.h"

#define PROCESSES 3
#define BLOCKS (PROCESSES * 8)
#define ROWS 1024

typedef struct Block
{
	uint32_t	nrows;
	uint64_t	values[ROWS];
} Block;

/* The PostgreSQL functions that the ring calls. */
static TimestampTz clock_us = 1000000;	/* 0 would mean: not yet checked */

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
ConditionVariablePrepareToSleep(ConditionVariable *variable)
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

/* Waiting advances the clock; readers may run meanwhile. */
static void (*while_waiting) (void);

bool
ConditionVariableTimedSleep(ConditionVariable *variable, long ms, uint32 event)
{
	clock_us += ms * 1000;
	if (while_waiting != NULL)
		while_waiting();
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

/* Workers take all full blocks.  Each releases its last block or retains it. */
static BlockRing *ring;
static bool workers_run;
static int	keep;				/* number of workers that retain a block */
static int	kept[PROCESSES];
static int	nkept;
static uint64_t consumed;		/* number and sum of the rows read; rows are numbered from 0 */
static uint64_t consumed_sum;

static void
consume(int number)
{
	Block *block = BlockRingData(ring, number);

	for (uint32_t i = 0; i < block->nrows; i++)
		consumed_sum += block->values[i];
	consumed += block->nrows;
	block->nrows = 0;
}

static void
give_back_kept(void)
{
	while (nkept > 0)
		BlockRingRelease(ring, kept[--nkept]);
}

static void
lock_released(void)
{
	int			number;

	if (!workers_run)
		return;
	workers_run = false;		/* locks of the workers must not call this function */
	give_back_kept();
	while ((number = BlockRingTakeFull(ring)) >= 0)
	{
		consume(number);
		if (nkept < keep)
			kept[nkept++] = number;
		else
			BlockRingRelease(ring, number);
	}
	workers_run = true;
}

static void
new_ring(void)
{
	free(ring);
	ring = must_alloc(BlockRingSize(BLOCKS, sizeof(Block)));
	memset(ring, 0x5a, BlockRingSize(BLOCKS, sizeof(Block)));
	BlockRingInit(ring, BLOCKS, sizeof(Block));
	workers_run = false;
	nkept = 0;
	consumed = consumed_sum = 0;
}

static void
fill(int number, uint64_t *next_row)
{
	Block *block = BlockRingData(ring, number);

	block->nrows = 1 + random_below(ROWS);
	for (uint32_t i = 0; i < block->nrows; i++)
		block->values[i] = (*next_row)++;
}

/* Workers take all blocks right after the writer has found them full. */
static void
workers_come_between_two_looks(void)
{
	uint64_t	next_row = 0;
	bool		full = false;
	int			number;

	new_ring();
	for (int i = 0; i < BLOCKS; i++)
	{
		number = BlockRingTakeAny(ring, &full);
		ok(number >= 0 && !full, "block %d is empty", i);
		fill(number, &next_row);
		BlockRingPublish(ring, number);
	}
	workers_run = true;
	number = BlockRingTakeAny(ring, &full);
	workers_run = false;
	ok(number >= 0, "the writer gets a block though workers took all meanwhile");
	ok(full, "the block is full: none was empty when the writer checked");
	consume(number);
	ok(consumed == next_row, "%llu of %llu rows were read", (unsigned long long) consumed,
	   (unsigned long long) next_row);
}

/* Runs the writer, with workers after random lock releases. */
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
		number = BlockRingTakeAny(ring, &full);
		if (full)
		{
			workers_run = false;
			consume(number);
			BlockRingRelease(ring, number);
			continue;
		}
		fill(number, &next_row);
		BlockRingPublish(ring, number);
	}
	workers_run = false;
	give_back_kept();
	BlockRingFinish(ring);
	while ((number = BlockRingWaitFull(ring)) >= 0)
	{
		consume(number);
		BlockRingRelease(ring, number);
	}
	ok(consumed == next_row && consumed_sum == next_row * (next_row - 1) / 2,
	   "each of %llu rows was read once, %d workers retain a block",
	   (unsigned long long) next_row, keeping);
}

/* Readers wait for a writer that has not started, and stop waiting for one that left. */
static void
waiting(void)
{
	bool		full;
	TimestampTz begin;
	int			number;

	new_ring();
	BlockRingEnter(ring);
	number = BlockRingTakeAny(ring, &full);
	((Block *) BlockRingData(ring, number))->nrows = 1;
	BlockRingPublish(ring, number);
	BlockRingLeave(ring);
	begin = clock_us;
	ok(BlockRingWaitFull(ring) == number && clock_us == begin, "a full block is immediate");
	ok(BlockRingWaitFull(ring) < 0 && clock_us - begin >= AWAY_MS * 1000 &&
	   clock_us - begin <= (AWAY_MS + LOOK_AGAIN_MS) * 1000, "limited wait for an absent writer");
	BlockRingRelease(ring, number);
	BlockRingReset(ring);
	number = BlockRingTakeAny(ring, &full);
	ok(number >= 0 && !full, "after a reset all blocks are empty");
}

static void
read_one_later(void)
{
	if (clock_us > 100000)
		BlockRingRelease(ring, BlockRingTakeFull(ring));
}

static void
stop_later(void)
{
	if (clock_us > 100000)
		BlockRingStop(ring);
}

/* Writers wait until a reader releases a block or wants no more blocks. */
static void
waiting_writers(void)
{
	int			number;

	new_ring();
	clock_us = 0;
	for (int i = 0; i < BLOCKS; i++)
		BlockRingPublish(ring, BlockRingWaitEmpty(ring));
	ok(clock_us == 0 && BlockRingFull(ring) == BLOCKS, "empty blocks are returned immediately");
	while_waiting = read_one_later;
	number = BlockRingWaitEmpty(ring);
	ok(number == BLOCKS - 1 || number == 0, "a writer gets the first block that was read");
	ok(clock_us > 100000 && BlockRingFull(ring) == BLOCKS - 1, "the writer waited until a block was read");
	clock_us = 0;
	while_waiting = stop_later;
	ok(BlockRingWaitEmpty(ring) < 0 && clock_us > 100000, "no block after readers have stopped");
	while_waiting = NULL;

	clock_us = 0;
	BlockRingWait(ring, 0, 10);
	ok(clock_us == 0, "a reader does not wait if there is a full block");
	while (BlockRingFull(ring) > 0)
		(void) BlockRingTakeFull(ring);
	BlockRingWait(ring, 0, 10);
	ok(clock_us == 10000, "a reader waits for a limited time if there is none");
	BlockRingFinish(ring);
	BlockRingWait(ring, 0, 10);
	ok(clock_us == 10000 && BlockRingFinished(ring) == 1, "no wait after a writer has finished");
}

int
main(void)
{
	random_seed();
	workers_come_between_two_looks();
	many_blocks(0);
	many_blocks(PROCESSES - 1);
	waiting();
	waiting_writers();
	free(ring);
	return tap_done();
}
