/*-------------------------------------------------------------------------
 *
 * block_ring.c
 *	  Blocks of rows on their way to parallel workers, in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "block_ring.h"
#include "pgstat.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Blocks for each process: one at work, the rest in store. */
#define BLOCKS_EACH 8

/* How long workers wait for a dealer that has gone elsewhere, and look for it. */
#define AWAY_MS 100
#define WAIT_MS 20

typedef enum BlockState
{
	BLOCK_EMPTY,
	BLOCK_TAKEN,				/* being filled or consumed */
	BLOCK_FULL
} BlockState;

struct BlockRing
{
	slock_t		lock;			/* guards all but the blocks' contents */
	ConditionVariable changed;
	bool		claimed;		/* there is a dealer */
	bool		begun;
	bool		present;		/* the dealer is at its work */
	bool		finished;
	TimestampTz left_at;
	Size		block_size;
	int			nblocks;
	int			next_full;		/* where to look first */
	uint8		state[FLEXIBLE_ARRAY_MEMBER];
};

static Size
OneBlock(int ncolumns)
{
	return MAXALIGN(offsetof(RowBlock, values) + ncolumns * BLOCK_ROWS * sizeof(Datum));
}

static Size
Header(int nblocks)
{
	return MAXALIGN(offsetof(BlockRing, state) + nblocks);
}

Size
BlockRingSize(int ncolumns, int nprocesses)
{
	int			nblocks = nprocesses * BLOCKS_EACH;

	return add_size(Header(nblocks), mul_size(nblocks, OneBlock(ncolumns)));
}

void
BlockRingReset(BlockRing *ring, bool claimed)
{
	ring->claimed = claimed;
	ring->begun = ring->present = ring->finished = false;
	ring->next_full = 0;
	memset(ring->state, BLOCK_EMPTY, ring->nblocks);
}

void
BlockRingInit(BlockRing *ring, int ncolumns, int nprocesses, bool claimed)
{
	SpinLockInit(&ring->lock);
	ConditionVariableInit(&ring->changed);
	ring->block_size = OneBlock(ncolumns);
	ring->nblocks = nprocesses * BLOCKS_EACH;
	BlockRingReset(ring, claimed);
}

RowBlock *
BlockRingBlock(BlockRing *ring, int number)
{
	return (RowBlock *) ((char *) ring + Header(ring->nblocks) + number * ring->block_size);
}

bool
BlockRingClaim(BlockRing *ring)
{
	bool		mine;

	SpinLockAcquire(&ring->lock);
	mine = !ring->claimed;
	ring->claimed = true;
	SpinLockRelease(&ring->lock);
	return mine;
}

void
BlockRingEnter(BlockRing *ring)
{
	SpinLockAcquire(&ring->lock);
	ring->begun = ring->present = true;
	SpinLockRelease(&ring->lock);
}

void
BlockRingLeave(BlockRing *ring)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&ring->lock);
	ring->present = false;
	ring->left_at = now;
	SpinLockRelease(&ring->lock);
}

void
BlockRingFinish(BlockRing *ring)
{
	SpinLockAcquire(&ring->lock);
	ring->finished = true;
	SpinLockRelease(&ring->lock);
	ConditionVariableBroadcast(&ring->changed);
}

/* Under the lock: the next block in this state, taken; or -1. */
static int
Take(BlockRing *ring, BlockState state)
{
	for (int i = 0; i < ring->nblocks; i++)
	{
		int			number = (ring->next_full + i) % ring->nblocks;

		if (ring->state[number] == state)
		{
			ring->state[number] = BLOCK_TAKEN;
			if (state == BLOCK_FULL)
				ring->next_full = (number + 1) % ring->nblocks;
			return number;
		}
	}
	return -1;
}

/*
 * Under one lock: between two, workers might take all that are full and give
 * them back empty, so that neither look finds one.
 */
int
BlockRingTakeAny(BlockRing *ring, bool *full)
{
	int			number;

	SpinLockAcquire(&ring->lock);
	number = Take(ring, BLOCK_EMPTY);
	*full = number < 0;
	if (*full)
		number = Take(ring, BLOCK_FULL);
	SpinLockRelease(&ring->lock);
	if (number < 0)
		elog(ERROR, "fasted scan has lost its blocks");
	return number;
}

int
BlockRingTakeFull(BlockRing *ring)
{
	int			number;

	SpinLockAcquire(&ring->lock);
	number = Take(ring, BLOCK_FULL);
	SpinLockRelease(&ring->lock);
	return number;
}

static void
SetState(BlockRing *ring, int number, BlockState state)
{
	SpinLockAcquire(&ring->lock);
	ring->state[number] = state;
	SpinLockRelease(&ring->lock);
}

void
BlockRingPublish(BlockRing *ring, int number)
{
	SetState(ring, number, BLOCK_FULL);
	ConditionVariableSignal(&ring->changed);
}

void
BlockRingRelease(BlockRing *ring, int number)
{
	SetState(ring, number, BLOCK_EMPTY);
}

int
BlockRingWait(BlockRing *ring)
{
	int			number;

	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		go;

		SpinLockAcquire(&ring->lock);
		number = Take(ring, BLOCK_FULL);
		go = ring->finished ||
			(ring->begun && !ring->present &&
			 TimestampDifferenceExceeds(ring->left_at, now, AWAY_MS));
		SpinLockRelease(&ring->lock);
		if (number >= 0 || go)
			break;
		(void) ConditionVariableTimedSleep(&ring->changed, WAIT_MS, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return number;
}
