/*-------------------------------------------------------------------------
 *
 * pair_pool.c
 *	  Blocks of pairs: a list of free blocks, and a queue of filled blocks.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "pair_pool.h"

void
pair_pool_release(PairPool *pool, PairBlock *block)
{
	block->next = pool->free_list;
	pool->free_list = block;
}

void
pair_pool_reset(PairPool *pool)
{
	FastedPair *pairs = (FastedPair *) (pool->blocks + pool->nblocks);

	pool->free_list = pool->queue_head = NULL;
	for (size_t i = pool->nblocks; i-- > 0;)
	{
		pool->blocks[i].pairs = pairs + i * pool->block_pairs;
		pair_pool_release(pool, &pool->blocks[i]);
	}
}

static size_t
pool_bytes(const PairPool *pool)
{
	return pool->nblocks * (sizeof(PairBlock) + pool->block_pairs * sizeof(FastedPair));
}

void
pair_pool_free(PairPool *pool, MemoryCount *count)
{
	fasted_cpu_unmap(pool->blocks, pool_bytes(pool), count);
	memset(pool, 0, sizeof(*pool));
}

bool
pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs, MemoryCount *count)
{
	if (nblocks <= pool->nblocks)
		return true;
	pair_pool_free(pool, count);
	pool->nblocks = nblocks;
	pool->block_pairs = block_pairs;
	pool->blocks = fasted_cpu_map_lazily(pool_bytes(pool), count);
	if (pool->blocks == NULL)
		pool->nblocks = 0;
	pair_pool_reset(pool);
	return pool->blocks != NULL;
}

PairBlock *
pair_pool_pop(PairBlock **list)
{
	PairBlock  *block = *list;

	if (block != NULL)
	{
		*list = block->next;
		block->next = NULL;
	}
	return block;
}

void
pair_pool_push(PairPool *pool, PairBlock *block)
{
	if (pool->queue_head == NULL)
		pool->queue_head = block;
	else
		pool->queue_tail->next = block;
	pool->queue_tail = block;
}
