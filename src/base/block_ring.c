/*-------------------------------------------------------------------------
 *
 * block_ring.c
 *	  Lists of empty and full blocks, guarded by a spinlock, and functions that wait for blocks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/block_ring.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Time for which readers wait for a writer that has left. */
#define AWAY_MS 100

/* Time after which a waiting process checks again, in case it missed a signal. */
#define LOOK_AGAIN_MS 20

struct BlockRing
{
	slock_t		lock;			/* guards the lists of blocks */
	ConditionVariable freed;	/* writers wait for an empty block */
	ConditionVariable filled;	/* readers wait for a full one */
	Size		block_bytes;
	int			nblocks;
	pg_atomic_uint32 nfinished;
	pg_atomic_uint32 stopped;
	pg_atomic_uint64 left_at;	/* when the only writer left; 0: it is writing, or has not begun */

	/*
	 * Numbers of the blocks that no process owns.  Empty blocks are a stack, which keeps the
	 * blocks in use in the CPU caches.  Full blocks are a queue, from index nblocks on.
	 */
	int			nempty;
	int			first_full;		/* index of the first one in the queue */
	pg_atomic_uint32 nfull;		/* number of full blocks; written under the lock */
	int			numbers[FLEXIBLE_ARRAY_MEMBER];
};

static Size
HeaderSize(int nblocks)
{
	return MAXALIGN(offsetof(BlockRing, numbers) + 2 * nblocks * sizeof(int));
}

Size
BlockRingSize(int nblocks, Size block_bytes)
{
	return add_size(HeaderSize(nblocks), mul_size(nblocks, MAXALIGN(block_bytes)));
}

void
BlockRingReset(BlockRing *ring)
{
	pg_atomic_init_u32(&ring->nfinished, 0);
	pg_atomic_init_u32(&ring->stopped, 0);
	pg_atomic_init_u32(&ring->nfull, 0);
	pg_atomic_init_u64(&ring->left_at, 0);
	ring->nempty = ring->nblocks;
	for (int i = 0; i < ring->nblocks; i++)
		ring->numbers[i] = ring->nblocks - 1 - i;
	ring->first_full = 0;
}

void
BlockRingInit(BlockRing *ring, int nblocks, Size block_bytes)
{
	SpinLockInit(&ring->lock);
	ConditionVariableInit(&ring->freed);
	ConditionVariableInit(&ring->filled);
	ring->block_bytes = MAXALIGN(block_bytes);
	ring->nblocks = nblocks;
	BlockRingReset(ring);
}

void *
BlockRingData(BlockRing *ring, int number)
{
	return (char *) ring + HeaderSize(ring->nblocks) + number * ring->block_bytes;
}

/* --- taking and releasing blocks */

/*
 * Takes an empty block if `empty`, or else a full block if `full`.  Returns its number, or -1.
 * Both lists are checked under one lock.  Otherwise, readers might empty all full blocks between
 * the two checks, and neither check would find a block.
 */
static int
Take(BlockRing *ring, bool empty, bool full, bool *is_full)
{
	int			number = -1;
	uint32		nfull;

	SpinLockAcquire(&ring->lock);
	nfull = pg_atomic_read_u32(&ring->nfull);
	*is_full = !empty || ring->nempty == 0;
	if (!*is_full)
		number = ring->numbers[--ring->nempty];
	else if (full && nfull > 0)
	{
		number = ring->numbers[ring->nblocks + ring->first_full];
		ring->first_full = (ring->first_full + 1) % ring->nblocks;
		pg_atomic_write_u32(&ring->nfull, nfull - 1);
	}
	SpinLockRelease(&ring->lock);
	return number;
}

int
BlockRingTakeFull(BlockRing *ring)
{
	bool		is_full;

	return Take(ring, false, true, &is_full);
}

int
BlockRingTakeAny(BlockRing *ring, bool *full)
{
	int			number = Take(ring, true, true, full);

	if (number < 0)
		elog(ERROR, "no block of the ring is available");
	return number;
}

void
BlockRingPublish(BlockRing *ring, int number)
{
	uint32		nfull;

	SpinLockAcquire(&ring->lock);
	nfull = pg_atomic_read_u32(&ring->nfull);
	ring->numbers[ring->nblocks + (ring->first_full + nfull) % ring->nblocks] = number;
	pg_atomic_write_u32(&ring->nfull, nfull + 1);
	SpinLockRelease(&ring->lock);
	ConditionVariableSignal(&ring->filled);
}

void
BlockRingRelease(BlockRing *ring, int number)
{
	SpinLockAcquire(&ring->lock);
	ring->numbers[ring->nempty++] = number;
	SpinLockRelease(&ring->lock);
	ConditionVariableSignal(&ring->freed);
}

uint32
BlockRingFull(BlockRing *ring)
{
	return pg_atomic_read_u32(&ring->nfull);
}

/* --- the end of writing and reading */

void
BlockRingFinish(BlockRing *ring)
{
	pg_atomic_fetch_add_u32(&ring->nfinished, 1);
	ConditionVariableBroadcast(&ring->filled);
}

/* An atomic operation with a result is a full memory barrier. */
uint32
BlockRingFinished(BlockRing *ring)
{
	return pg_atomic_fetch_add_u32(&ring->nfinished, 0);
}

void
BlockRingStop(BlockRing *ring)
{
	pg_atomic_write_u32(&ring->stopped, 1);
	ConditionVariableBroadcast(&ring->freed);
}

bool
BlockRingIsStopped(BlockRing *ring)
{
	return pg_atomic_read_u32(&ring->stopped) != 0;
}

void
BlockRingEnter(BlockRing *ring)
{
	pg_atomic_write_u64(&ring->left_at, 0);
}

void
BlockRingLeave(BlockRing *ring)
{
	pg_atomic_write_u64(&ring->left_at, GetCurrentTimestamp());
}

static bool
WriterIsGone(BlockRing *ring)
{
	TimestampTz left_at = (TimestampTz) pg_atomic_read_u64(&ring->left_at);

	return left_at != 0 && TimestampDifferenceExceeds(left_at, GetCurrentTimestamp(), AWAY_MS);
}

/* --- waiting; interrupts are processed meanwhile */

int
BlockRingWaitEmpty(BlockRing *ring)
{
	bool		is_full;
	int			number = Take(ring, true, false, &is_full);

	if (number >= 0)
		return number;
	ConditionVariablePrepareToSleep(&ring->freed);
	while ((number = Take(ring, true, false, &is_full)) < 0 && !BlockRingIsStopped(ring))
		(void) ConditionVariableTimedSleep(&ring->freed, LOOK_AGAIN_MS, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	return number;
}

void
BlockRingWait(BlockRing *ring, uint32 finished, long timeout_ms)
{
	ConditionVariablePrepareToSleep(&ring->filled);
	/* check again, since signals sent before PrepareToSleep are not seen */
	if (BlockRingFull(ring) == 0 && BlockRingFinished(ring) == finished)
		(void) ConditionVariableTimedSleep(&ring->filled, timeout_ms, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

void
BlockRingWake(BlockRing *ring)
{
	ConditionVariableBroadcast(&ring->filled);
}

int
BlockRingWaitFull(BlockRing *ring)
{
	for (;;)
	{
		bool		end = BlockRingFinished(ring) > 0 || WriterIsGone(ring);
		int			number = BlockRingTakeFull(ring);

		if (number >= 0 || end)
			return number;
		BlockRingWait(ring, 0, LOOK_AGAIN_MS);
	}
}
