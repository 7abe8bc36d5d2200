/*-------------------------------------------------------------------------
 *
 * outlet_ring.c
 *	  A ring of blocks between the leader, who fills it, and the workers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "scan/outlet_ring.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

/* Blocks for each process: one at work, the rest in store. */
#define BLOCKS_EACH 8

/* How long workers wait for a dealer that has gone elsewhere, and look for it. */
#define AWAY_MS 100
#define WAIT_MS 20

struct OutletRing
{
	slock_t		lock;			/* guards all but the blocks' contents */
	ConditionVariable changed;
	bool		begun;
	bool		present;		/* the dealer is at its work */
	bool		finished;
	TimestampTz left_at;
	Size		block_size;
	int			nblocks;

	/*
	 * The numbers of blocks that nobody has: empty ones as a stack, so that those
	 * in use stay in the caches; then, from nblocks on, filled ones as a queue.
	 */
	int			nempty;
	int			first_full;		/* place in the queue */
	int			nfull;
	int			numbers[FLEXIBLE_ARRAY_MEMBER];
};

static Size
OneBlock(int ncolumns)
{
	return MAXALIGN(offsetof(OutletBlock, values) + ncolumns * OUTLET_ROWS * sizeof(Datum));
}

static Size
Header(int nblocks)
{
	return MAXALIGN(offsetof(OutletRing, numbers) + 2 * nblocks * sizeof(int));
}

Size
OutletRingSize(int ncolumns, int nprocesses)
{
	int			nblocks = nprocesses * BLOCKS_EACH;

	return add_size(Header(nblocks), mul_size(nblocks, OneBlock(ncolumns)));
}

void
OutletRingReset(OutletRing *ring)
{
	ring->begun = ring->present = ring->finished = false;
	ring->nempty = ring->nblocks;
	for (int i = 0; i < ring->nblocks; i++)
		ring->numbers[i] = ring->nblocks - 1 - i;
	ring->first_full = ring->nfull = 0;
}

void
OutletRingInit(OutletRing *ring, int ncolumns, int nprocesses)
{
	SpinLockInit(&ring->lock);
	ConditionVariableInit(&ring->changed);
	ring->block_size = OneBlock(ncolumns);
	ring->nblocks = nprocesses * BLOCKS_EACH;
	OutletRingReset(ring);
}

OutletBlock *
OutletRingBlock(OutletRing *ring, int number)
{
	return (OutletBlock *) ((char *) ring + Header(ring->nblocks) + number * ring->block_size);
}

void
OutletRingEnter(OutletRing *ring)
{
	SpinLockAcquire(&ring->lock);
	ring->begun = ring->present = true;
	SpinLockRelease(&ring->lock);
}

void
OutletRingLeave(OutletRing *ring)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&ring->lock);
	ring->present = false;
	ring->left_at = now;
	SpinLockRelease(&ring->lock);
}

void
OutletRingFinish(OutletRing *ring)
{
	SpinLockAcquire(&ring->lock);
	ring->finished = true;
	SpinLockRelease(&ring->lock);
	ConditionVariableBroadcast(&ring->changed);
}

/* Under the lock: the number of a block, which is the caller's then; or -1. */
static int
TakeEmpty(OutletRing *ring)
{
	return ring->nempty > 0 ? ring->numbers[--ring->nempty] : -1;
}

static int
TakeFull(OutletRing *ring)
{
	int			number;

	if (ring->nfull == 0)
		return -1;
	number = ring->numbers[ring->nblocks + ring->first_full];
	if (++ring->first_full == ring->nblocks)
		ring->first_full = 0;
	ring->nfull--;
	return number;
}

/*
 * Under one lock: between two, workers might take all that are full and give
 * them back empty, so that neither look finds one.
 */
int
OutletRingTakeAny(OutletRing *ring, bool *full)
{
	int			number;

	SpinLockAcquire(&ring->lock);
	number = TakeEmpty(ring);
	*full = number < 0;
	if (*full)
		number = TakeFull(ring);
	SpinLockRelease(&ring->lock);
	if (number < 0)
		elog(ERROR, "fasted scan has lost its blocks");
	return number;
}

int
OutletRingTakeFull(OutletRing *ring)
{
	int			number;

	SpinLockAcquire(&ring->lock);
	number = TakeFull(ring);
	SpinLockRelease(&ring->lock);
	return number;
}

void
OutletRingPublish(OutletRing *ring, int number)
{
	int			place;

	SpinLockAcquire(&ring->lock);
	place = ring->first_full + ring->nfull++;
	if (place >= ring->nblocks)
		place -= ring->nblocks;
	ring->numbers[ring->nblocks + place] = number;
	SpinLockRelease(&ring->lock);
	ConditionVariableSignal(&ring->changed);
}

void
OutletRingRelease(OutletRing *ring, int number)
{
	SpinLockAcquire(&ring->lock);
	ring->numbers[ring->nempty++] = number;
	SpinLockRelease(&ring->lock);
}

int
OutletRingWait(OutletRing *ring)
{
	int			number;

	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		go;

		SpinLockAcquire(&ring->lock);
		number = TakeFull(ring);
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
