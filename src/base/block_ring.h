/*-------------------------------------------------------------------------
 *
 * block_ring.h
 *	  Blocks of rows in shared memory that go round between the processes of a parallel plan.
 *
 * Writers take empty blocks, fill them and publish them; readers take full blocks, read
 * them and release them.  A process owns the block whose number it has taken.  However
 * many rows there are, the memory is the same.
 *
 * Two plan nodes use a ring: workers write blocks that the leader reads (rows/intake.c), or
 * the leader writes blocks that workers read (function_node/outlet.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BLOCK_RING_H
#define FASTED_BLOCK_RING_H

typedef struct BlockRing BlockRing;

extern Size BlockRingSize(int nblocks, Size block_bytes);
extern void BlockRingInit(BlockRing *ring, int nblocks, Size block_bytes);

/* All blocks are empty again.  No other process may use the ring. */
extern void BlockRingReset(BlockRing *ring);

extern void *BlockRingData(BlockRing *ring, int number);

/* The number of a full block; negative: there is none. */
extern int	BlockRingTakeFull(BlockRing *ring);

/*
 * The number of an empty block, or where there is none, of a full one.  It is an error if
 * there is neither, so readers must not keep all of the blocks.
 */
extern int	BlockRingTakeAny(BlockRing *ring, bool *full);

/* Makes the block a full one, which wakes a reader, or an empty one, which wakes a writer. */
extern void BlockRingPublish(BlockRing *ring, int number);
extern void BlockRingRelease(BlockRing *ring, int number);

/* The number of full blocks.  Cheap enough for every row. */
extern uint32 BlockRingFull(BlockRing *ring);

/*
 * A writer writes no further block.  BlockRingFinished returns the number of these calls;
 * what such writers wrote before is visible then.
 */
extern void BlockRingFinish(BlockRing *ring);
extern uint32 BlockRingFinished(BlockRing *ring);

/* Readers want no further block. */
extern void BlockRingStop(BlockRing *ring);
extern bool BlockRingIsStopped(BlockRing *ring);

/* For a writer: waits for an empty block; negative: readers want no further block. */
extern int	BlockRingWaitEmpty(BlockRing *ring);

/*
 * For a reader: waits until there is a full block, or the number of writers that have
 * finished is another one, or somebody calls BlockRingWake, but at most so long.
 */
extern void BlockRingWait(BlockRing *ring, uint32 finished, long timeout_ms);
extern void BlockRingWake(BlockRing *ring);

/*
 * For the only writer: it begins to write, or it does something else.  BlockRingWaitFull, for
 * readers, waits for a full block, before the writer has begun and while it is at its work.
 * Negative: it has finished, or been away for a while and left no block.
 */
extern void BlockRingEnter(BlockRing *ring);
extern void BlockRingLeave(BlockRing *ring);
extern int	BlockRingWaitFull(BlockRing *ring);

#endif							/* FASTED_BLOCK_RING_H */
