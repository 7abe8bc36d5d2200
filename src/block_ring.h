/*-------------------------------------------------------------------------
 *
 * block_ring.h
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
#ifndef FASTED_BLOCK_RING_H
#define FASTED_BLOCK_RING_H

#include "row_block.h"

typedef struct BlockRing BlockRing;

extern Size BlockRingSize(int ncolumns, int nprocesses);

/* claimed: the caller will deal.  Else the first who asks does. */
extern void BlockRingInit(BlockRing *ring, int ncolumns, int nprocesses, bool claimed);
extern void BlockRingReset(BlockRing *ring, bool claimed);

/* Is it this process that deals, from now on? */
extern bool BlockRingClaim(BlockRing *ring);

extern RowBlock *BlockRingBlock(BlockRing *ring, int number);

/* For the dealer: its comings and goings, and the end of all rows. */
extern void BlockRingEnter(BlockRing *ring);
extern void BlockRingLeave(BlockRing *ring);
extern void BlockRingFinish(BlockRing *ring);

/*
 * For the dealer: the number of a block to fill, or where there is none, of one
 * that was filled.  There always is one of them: nobody keeps more than one.
 */
extern int	BlockRingTakeAny(BlockRing *ring, bool *full);

/* The number of a block that was filled; negative: none. */
extern int	BlockRingTakeFull(BlockRing *ring);
extern void BlockRingPublish(BlockRing *ring, int number);
extern void BlockRingRelease(BlockRing *ring, int number);

/* For a worker: as BlockRingTakeFull, but waits; negative: go. */
extern int	BlockRingWait(BlockRing *ring);

#endif							/* FASTED_BLOCK_RING_H */
