/*-------------------------------------------------------------------------
 *
 * pair_pool.h
 *	  Blocks of pairs, passed from the workers to the caller.
 *
 * The number of blocks is fixed: a worker that finds no free block waits until the caller has
 * drained one.  So memory is bounded and no pair is lost.  There must be more blocks than workers,
 * plus one held by the caller.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_PAIR_POOL_H
#define FASTED_CPU_PAIR_POOL_H

#include "../../engine/engine.h"
#include "memory.h"

typedef struct PairBlock
{
	struct PairBlock *next;
	FastedPair *pairs;
	size_t		npairs;
	uint64_t	since;			/* time of the first pair, in nanoseconds */
} PairBlock;

typedef struct PairPool
{
	PairBlock  *blocks;			/* the blocks and then their pairs, in one allocation */
	size_t		nblocks;
	size_t		block_pairs;	/* capacity of one block in pairs */
	PairBlock  *free_list;
	PairBlock  *queue_head;		/* filled blocks, oldest first */
	PairBlock  *queue_tail;		/* undefined while the queue is empty */
} PairPool;

/*
 * Ensures that the pool has at least nblocks blocks of block_pairs pairs each.  If the pool grows,
 * the contents of all blocks are lost.  Returns false if out of memory; the pool is then empty.
 */
extern bool pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs,
							  MemoryCount *count);

/* Frees all blocks. */
extern void pair_pool_free(PairPool *pool, MemoryCount *count);

/* Marks all blocks as free. */
extern void pair_pool_reset(PairPool *pool);

/* Marks a block as free.  The caller holds the lock. */
extern void pair_pool_release(PairPool *pool, PairBlock *block);

/* Removes and returns the first block of a list; NULL if there is none.  The caller holds the lock. */
extern PairBlock *pair_pool_pop(PairBlock **list);

/* Appends a filled block to the queue.  The caller holds the lock. */
extern void pair_pool_push(PairPool *pool, PairBlock *block);

#endif							/* FASTED_CPU_PAIR_POOL_H */
