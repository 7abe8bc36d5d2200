/*-------------------------------------------------------------------------
 *
 * block_ring.h
 *	  A ring of blocks in shared memory, for rows exchanged by the processes of a parallel plan.
 *
 * Writers take empty blocks, fill them and publish them.  Readers take full blocks, read them and
 * release them.  A process owns the block whose number it has taken.  In rows/input_queue.c workers write
 * blocks that the leader reads, in function_node/exec.c the leader writes blocks that workers read.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BLOCK_RING_H
#define FASTED_BLOCK_RING_H

typedef struct BlockRing BlockRing;

extern Size BlockRingSize(int nblocks, Size block_bytes);
extern void BlockRingInit(BlockRing *ring, int nblocks, Size block_bytes);

/* Makes all blocks empty again.  No other process may use the ring at that time. */
extern void BlockRingReset(BlockRing *ring);

extern void *BlockRingData(BlockRing *ring, int number);

/* Takes a full block and returns its number; negative if there is none. */
extern int	BlockRingTakeFull(BlockRing *ring);

/*
 * Takes an empty block, or a full one if there is no empty one.  Raises an error if there is neither,
 * so readers must not own all blocks at the same time.
 */
extern int	BlockRingTakeAny(BlockRing *ring, bool *full);

/* Publish makes the block full and wakes a reader; Release makes it empty and wakes a writer. */
extern void BlockRingPublish(BlockRing *ring, int number);
extern void BlockRingRelease(BlockRing *ring, int number);

/* Returns the number of full blocks.  This is cheap enough to be called for every row. */
extern uint32 BlockRingFull(BlockRing *ring);

/*
 * Called by each writer after its last block; returns the number of writers that have done so, and
 * all that these have written is then visible to the caller.
 */
extern void BlockRingFinish(BlockRing *ring);
extern uint32 BlockRingFinished(BlockRing *ring);

/* Called by readers that want no more blocks. */
extern void BlockRingStop(BlockRing *ring);
extern bool BlockRingIsStopped(BlockRing *ring);

/* For a writer: waits for an empty block.  Returns -1 if readers want no more blocks. */
extern int	BlockRingWaitEmpty(BlockRing *ring);

/*
 * For a reader: waits until there is a full block, the number of finished writers differs from
 * `finished`, BlockRingWake is called, or the time is over.
 */
extern void BlockRingWait(BlockRing *ring, uint32 finished, long timeout_ms);
extern void BlockRingWake(BlockRing *ring);

/*
 * For a ring with a single writer, which tells when it starts and stops writing.
 * BlockRingWaitFull, for readers, waits for a full block before the writer has entered and while
 * it is writing.  It returns -1 if no full block is left and the writer has finished, or has
 * left some time ago.
 */
extern void BlockRingEnter(BlockRing *ring);
extern void BlockRingLeave(BlockRing *ring);
extern int	BlockRingWaitFull(BlockRing *ring);

#endif							/* FASTED_BLOCK_RING_H */
