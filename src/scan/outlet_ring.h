/*-------------------------------------------------------------------------
 *
 * outlet_ring.h
 *	  Blocks of rows on their way to parallel workers, in shared memory.
 *
 * One process, the dealer, fills blocks; the others, and the dealer itself when
 * it finds no free one, take and consume them.
 *
 * Nobody may wait for a process that may wait for him: a worker may be stuck
 * before a full tuple queue or at a barrier of a hash join.  So the dealer never
 * waits for workers: what nobody takes, it consumes itself.  And workers wait for
 * the dealer only before it has begun, and while it is at its work.  When it has
 * been away for a while and left no block, they go: a worker that goes early
 * loses no row, for the dealer stays to the end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_OUTLET_RING_H
#define FASTED_OUTLET_RING_H

#include "scan/outlet_block.h"

typedef struct OutletRing OutletRing;

extern Size OutletRingSize(int ncolumns, int nprocesses);

extern void OutletRingInit(OutletRing *ring, int ncolumns, int nprocesses);
extern void OutletRingReset(OutletRing *ring);

extern OutletBlock *OutletRingBlock(OutletRing *ring, int number);

/* For the dealer: its comings and goings, and the end of all rows. */
extern void OutletRingEnter(OutletRing *ring);
extern void OutletRingLeave(OutletRing *ring);
extern void OutletRingFinish(OutletRing *ring);

/*
 * For the dealer: the number of a block to fill, or where there is none, of one
 * that was filled.  There always is one of them: nobody keeps more than one.
 */
extern int	OutletRingTakeAny(OutletRing *ring, bool *full);

/* The number of a block that was filled; negative: none. */
extern int	OutletRingTakeFull(OutletRing *ring);
extern void OutletRingPublish(OutletRing *ring, int number);
extern void OutletRingRelease(OutletRing *ring, int number);

/* For a worker: as OutletRingTakeFull, but waits; negative: go. */
extern int	OutletRingWait(OutletRing *ring);

#endif							/* FASTED_OUTLET_RING_H */
