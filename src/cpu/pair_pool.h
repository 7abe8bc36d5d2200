/*-------------------------------------------------------------------------
 *
 * pair_pool.h
 *	  Blocks of result pairs on their way from the workers to the caller.
 *
 * There is a fixed number of blocks.  A worker that finds none waits until the
 * caller has drained one, so memory is bounded however many pairs there are,
 * and no pair is lost.  There must be more blocks than workers, plus one with
 * the caller: then some block is always free, queued, or being filled by
 * someone who is not waiting.
 *
 * Get, release, push and pop are called with the context's lock held.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_POOL_H
#define FASTED_PAIR_POOL_H

#include "../engine/engine.h"
#include "row_store.h"

typedef struct PairBlock
{
	struct PairBlock *next;
	FastedPair *pairs;
	size_t		npairs;
	uint64_t	since;			/* when the first pair came, nanoseconds */
} PairBlock;

typedef struct PairPool
{
	PairBlock  *blocks;
	FastedPair *pairs;
	size_t		nblocks;
	size_t		block_pairs;	/* room of one block */
	PairBlock  *free_list;
	PairBlock  *queue_head;		/* filled, oldest first */
	PairBlock  *queue_tail;
} PairPool;

/* At least so many blocks, all free; those that are out are lost where it grows. */
extern bool pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs,
							  MemoryCount *count);
extern void pair_pool_free(PairPool *pool, MemoryCount *count);

/* All blocks are free again. */
extern void pair_pool_reset(PairPool *pool);

/* A free block, emptied; NULL when there is none. */
extern PairBlock *pair_pool_get(PairPool *pool);
extern void pair_pool_release(PairPool *pool, PairBlock *block);

/* The queue of filled blocks; pop returns NULL when it is empty. */
extern void pair_pool_push(PairPool *pool, PairBlock *block);
extern PairBlock *pair_pool_pop(PairPool *pool);

#endif							/* FASTED_PAIR_POOL_H */
