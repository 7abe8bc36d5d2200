/*-------------------------------------------------------------------------
 *
 * pair_pool.c
 *	  A list of free blocks, and a queue of filled ones.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "pair_pool.h"

bool
pair_pool_reserve(PairPool *pool, size_t nblocks, size_t block_pairs, MemoryCount *count)
{
	if (nblocks <= pool->nblocks)
		return true;
	pair_pool_free(pool, count);
	pool->nblocks = nblocks;
	pool->block_pairs = block_pairs;
	pool->blocks = calloc(nblocks, sizeof(*pool->blocks));
	pool->pairs = fasted_cpu_map_lazily(nblocks * block_pairs * sizeof(FastedPair), count);
	if (pool->blocks == NULL || pool->pairs == NULL)
	{
		pair_pool_free(pool, count);
		return false;
	}
	pair_pool_reset(pool);
	return true;
}

void
pair_pool_reset(PairPool *pool)
{
	pool->free_list = pool->queue_head = pool->queue_tail = NULL;
	for (size_t i = pool->nblocks; i-- > 0;)
	{
		pool->blocks[i].pairs = pool->pairs + i * pool->block_pairs;
		pair_pool_release(pool, &pool->blocks[i]);
	}
}

void
pair_pool_free(PairPool *pool, MemoryCount *count)
{
	fasted_cpu_unmap(pool->pairs,
					 pool->nblocks * pool->block_pairs * sizeof(FastedPair),
					 count);
	free(pool->blocks);
	memset(pool, 0, sizeof(*pool));
}

PairBlock *
pair_pool_get(PairPool *pool)
{
	PairBlock  *block = pool->free_list;

	if (block != NULL)
	{
		pool->free_list = block->next;
		block->next = NULL;
		block->npairs = 0;
	}
	return block;
}

void
pair_pool_release(PairPool *pool, PairBlock *block)
{
	block->next = pool->free_list;
	pool->free_list = block;
}

void
pair_pool_push(PairPool *pool, PairBlock *block)
{
	block->next = NULL;
	if (pool->queue_tail == NULL)
		pool->queue_head = block;
	else
		pool->queue_tail->next = block;
	pool->queue_tail = block;
}

PairBlock *
pair_pool_pop(PairPool *pool)
{
	PairBlock  *block = pool->queue_head;

	if (block != NULL)
	{
		pool->queue_head = block->next;
		if (pool->queue_head == NULL)
			pool->queue_tail = NULL;
		block->next = NULL;
	}
	return block;
}
