/*-------------------------------------------------------------------------
 *
 * cpu_recheck.c
 *	  The recheck of a strip's candidates, and what becomes of pairs.
 *
 * The bits of a strip's map are listed row by row.  The recheck looks ahead in the
 * list: rows are fetched before they are needed, and a row with several candidates
 * is promoted to FP64 once.
 *
 * Of many dimensions INT8 finds several candidates a pair, and the recheck of one
 * waits for its rows: 4 bytes a coordinate.  Fine rows have 2, their products cost
 * next to nothing, and few that pass are too far apart.  No pair is lost:
 * doc/bound-int8.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "cpu_groups.h"
#include "cpu_recheck.h"

/* Candidates whose rows are fetched ahead, and how much of each row. */
#define PREFETCH_AHEAD 2
#define PREFETCH_MOST 1024

/* Candidates of one row for which its promotion to FP64 is kept. */
#define WIDEN_FROM 3

/* Candidates whose rows are fetched ahead. */
#define FETCH_AHEAD 4

/* --- blocks of pairs */

void
pair_pool_release(PairPool *pool, PairBlock *block)
{
	block->next = pool->free_list;
	pool->free_list = block;
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

static PairBlock *
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

static void
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

/* Hands over the block being filled. */
void
cpu_flush_block(Worker *worker)
{
	FastedContext *context = worker->context;

	atomic_fetch_add(&context->pairs, worker->block->npairs);
	pthread_mutex_lock(&context->lock);
	pair_pool_push(&context->pool, worker->block);
	worker->block = NULL;
	pthread_cond_signal(&context->out_cond);
	pthread_mutex_unlock(&context->lock);
}

/* Waits for a free block; false when the join is being closed. */
static bool
fetch_block(Worker *worker)
{
	FastedContext *context = worker->context;

	pthread_mutex_lock(&context->lock);
	while (!cpu_stopping(context) &&
		   (worker->block = pair_pool_get(&context->pool)) == NULL)
		pthread_cond_wait(&context->free_cond, &context->lock);
	pthread_mutex_unlock(&context->lock);
	if (worker->block == NULL)
		return false;
	worker->block->since = cpu_now();
	return true;
}

static bool
emit_pair(Worker *worker, uint32_t a, uint32_t b, double dist)
{
	FastedPair *pair;

	if (worker->block == NULL && !fetch_block(worker))
		return false;
	pair = &worker->block->pairs[worker->block->npairs++];
	pair->a = a;
	pair->b = b;
	pair->dist = dist;
	if (worker->block->npairs == worker->context->pool.block_pairs)
		cpu_flush_block(worker);
	return true;
}

/* --- the list of candidates */

/* 64 bits of a hit map; bit b of the answer is column 64 word + b. */
static uint64_t
hit_word(const uint8_t *map, uint32_t word)
{
	uint64_t	bits;

	memcpy(&bits, map + 8 * word, sizeof(bits));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	bits = __builtin_bswap64(bits);
#endif
	return bits;
}

/* Appends one row's candidates in one block to the list. */
void
cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number)
{
	const uint8_t *map = worker->hits + row * worker->join->hit_stride
		+ number * FASTED_HIT_BYTES;
	uint32_t	first = number * strip->block_rows;
	bool		diagonal = strip->diagonal && number == 0;

	for (uint32_t word = 0; word < FASTED_HIT_BYTES / 8; word++)
	{
		for (uint64_t bits = hit_word(map, word); bits != 0; bits &= bits - 1)
		{
			uint32_t	col = 64 * word + (uint32_t) __builtin_ctzll(bits);

			/* each pair once, and no row with itself */
			if (!diagonal || col > row)
				worker->list[worker->listed++] = (Candidate) {
					.row = (uint16_t) row,
					.col = (uint16_t) (first + col),
				};
		}
	}
}

static void
fetch(const int16_t *row, uint32_t padded)
{
	for (uint32_t k = 0; k < padded; k += 32)
		__builtin_prefetch(row + k);
}

/*
 * Drops the worker's candidates, from the first one that is not compared yet, that are
 * too far apart; how many there are then.
 */
static uint32_t
cpu_fine_keep(Worker *worker, const Strip *strip, uint32_t first)
{
	const FastedJoin *join = worker->join;
	int32_t		(*dot) (const int16_t *x, const int16_t *y, uint32_t padded) =
		join->context->kernel->int8->dot_fine;
	const FineRows *a = &join->row_set->fine;
	const FineRows *b = &join->col_set->fine;
	uint32_t	padded = cpu_padded(join->context);
	const int16_t *rows = a->values + strip->first_a * padded;
	const int16_t *cols = b->values + strip->first_b * padded;
	Candidate  *list = worker->list;
	uint32_t	kept = first;

	for (uint32_t c = first; c < worker->listed; c++)
	{
		Candidate	pair = list[c];
		int32_t		product;

		if (c + FETCH_AHEAD < worker->listed)
			fetch(cols + (size_t) list[c + FETCH_AHEAD].col * padded, padded);
		product = dot(rows + (size_t) pair.row * padded, cols + (size_t) pair.col * padded, padded);
		list[kept] = pair;
		kept += product >= a->threshold[strip->first_a + pair.row]
			+ b->threshold[strip->first_b + pair.col];
	}
	return worker->listed = kept;
}

/* Puts the worker's candidates in the order of their rows, by counting. */
static void
cpu_sort_candidates(Worker *worker)
{
	Candidate	sorted[CANDIDATE_LIST];
	uint16_t	place[FASTED_MAX_BLOCK + 1] = {0};

	for (uint32_t c = 0; c < worker->listed; c++)
		place[worker->list[c].row + 1]++;
	for (uint32_t row = 0; row < FASTED_MAX_BLOCK; row++)
		place[row + 1] += place[row];
	for (uint32_t c = 0; c < worker->listed; c++)
		sorted[place[worker->list[c].row]++] = worker->list[c];
	memcpy(worker->list, sorted, worker->listed * sizeof(Candidate));
}

/* --- the recheck */

/* The row at this place among the packed ones. */
static const float *
row_at(const FastedSet *set, size_t place)
{
	return row_store_row(&set->rows, cpu_row_at(set, place));
}

static void
prefetch_row(const float *row, uint32_t floats)
{
	uint32_t	end = floats < PREFETCH_MOST ? floats : PREFETCH_MOST;

	for (uint32_t k = 0; k < end; k += 16)
		__builtin_prefetch(row + k);
}

/* Fetches the rows of a candidate that is soon to be rechecked. */
static void
prefetch_candidate(const Worker *worker, const Strip *strip, uint32_t c)
{
	const FastedJoin *join = worker->join;
	uint32_t	floats = fasted_row_floats(&join->context->options);

	if (c >= worker->listed)
		return;
	if (c == 0 || worker->list[c].row != worker->list[c - 1].row)
		prefetch_row(row_at(join->row_set, strip->first_a + worker->list[c].row),
					 floats);
	prefetch_row(row_at(join->col_set, strip->first_b + worker->list[c].col), floats);
}

/* Do so many candidates from c on share one row that widening it pays? */
static bool
row_repeats(const Worker *worker, uint32_t c)
{
	return c + WIDEN_FROM <= worker->listed &&
		worker->list[c + WIDEN_FROM - 1].row == worker->list[c].row;
}

static void
count_for(const FastedSet *set, size_t row)
{
	atomic_fetch_add_explicit(&set->counts[row], 1, memory_order_relaxed);
}

/* What neighbours at the same distance are ordered by: of a row of set b. */
static uint32_t
rank_of(const FastedJoin *join, size_t row)
{
	return join->problem.ranks != NULL ? join->problem.ranks[row]
		: (uint32_t) (join->sets[1]->options.first_row + row);
}

/* A pair that may be of neighbours: each row's list decides. */
static void
offer_pair(const FastedJoin *join, size_t row, size_t col, double dist)
{
	NeighborLists *lists = &join->sets[0]->lists;
	bool		row_is_a = join->row_set == join->sets[0];

	if (join->self || row_is_a)
		neighbor_lists_offer(lists, row, rank_of(join, col), dist);
	if (join->self || !row_is_a)
		neighbor_lists_offer(lists, col, rank_of(join, row), dist);
}

/* A pair of the result, by places, handed out or counted; false when the join is being closed. */
static bool
take_pair(Worker *worker, size_t row, size_t col, double dist)
{
	const FastedJoin *join = worker->join;
	uint32_t	a;
	uint32_t	b;

	row = cpu_row_at(join->row_set, row);
	col = cpu_row_at(join->col_set, col);
	if (join->problem.output != FASTED_OUTPUT_PAIRS)
	{
		if (join->problem.output == FASTED_OUTPUT_COUNTS)
		{
			count_for(join->row_set, row);
			count_for(join->col_set, col);
		}
		else if (cpu_finds_nearest(join))
			offer_pair(join, row, col, dist);
		worker->counted++;
		return true;
	}
	a = (uint32_t) (join->row_set->options.first_row + row);
	b = (uint32_t) (join->col_set->options.first_row + col);
	if (join->self ? a < b : join->row_set == join->sets[0])
		return emit_pair(worker, a, b, dist);
	return emit_pair(worker, b, a, dist);
}

/* Rechecks the list and empties it; false when the join is being closed. */
static bool
refine_list(Worker *worker, const Strip *strip)
{
	FastedContext *context = worker->context;
	const FastedSet *row_set = worker->join->row_set;
	const FastedSet *col_set = worker->join->col_set;
	Recheck		recheck = cpu_recheck(context, &row_set->packed, &col_set->packed);
	double		eps = worker->join->problem.eps;
	uint32_t	d = context->options.dimensions;
	int			wide = -1;		/* the row that was widened last */

	cpu_rest_if_alone(context);
	for (uint32_t c = 0; c < PREFETCH_AHEAD; c++)
		prefetch_candidate(worker, strip, c);
	for (uint32_t c = 0; c < worker->listed; c++)
	{
		Candidate	pair = worker->list[c];
		size_t		row = strip->first_a + pair.row;
		size_t		col = strip->first_b + pair.col;
		const float *x = row_at(row_set, row);
		const float *y = row_at(col_set, col);
		double		dist;

		prefetch_candidate(worker, strip, c + PREFETCH_AHEAD);
		if (recheck.doubles == NULL && pair.row != wide && row_repeats(worker, c))
		{
			context->kernel->widen(x, d, worker->wide);
			wide = pair.row;
		}
		dist = cpu_distance(&recheck, pair.row == wide ? recheck.wide(worker->wide, y, d)
							: cpu_recheck_rows(&recheck, x, y, d), row, col);
		if (dist <= eps && !take_pair(worker, row, col, dist))
			return false;
		if (cpu_stopping(context))
			return false;
	}
	worker->listed = 0;
	return true;
}

/* Lists the candidates of one row in one block, of its group where there are groups. */
static void
list_candidates(Worker *worker, const Strip *strip, uint32_t row, uint32_t number)
{
	uint32_t	listed = worker->listed;

	cpu_list_row(worker, strip, row, number);
	if (worker->join->problem.groups != NULL)
		cpu_keep_group(worker, strip, row, listed);
	worker->candidates += worker->listed - listed;
}

static bool
list_is_full(const Worker *worker)
{
	return worker->listed + FASTED_MAX_BLOCK > CANDIDATE_LIST;
}

/*
 * Row by row: a row's candidates come together, so that it is read once.
 */
static bool
refine_by_rows(Worker *worker, const Strip *strip)
{
	for (uint32_t row = 0; row < strip->rows_a; row++)
	{
		if (!worker->has_hits[row])
			continue;
		for (uint32_t number = 0; number < strip->blocks; number++)
		{
			if (list_is_full(worker) && !refine_list(worker, strip))
				return false;
			list_candidates(worker, strip, row, number);
		}
	}
	return refine_list(worker, strip);
}

/*
 * Fine rows, of which a block or two fit into the cache, block by block.  What passes,
 * of all blocks, is then put in the order of rows.
 */
static bool
refine_by_blocks(Worker *worker, const Strip *strip)
{
	for (uint32_t number = 0; number < strip->blocks; number++)
	{
		uint32_t	compared = worker->listed;

		for (uint32_t row = 0; row < strip->rows_a; row++)
		{
			if (!worker->has_hits[row])
				continue;
			if (list_is_full(worker))
				compared = cpu_fine_keep(worker, strip, compared);
			if (list_is_full(worker))
			{
				cpu_sort_candidates(worker);
				if (!refine_list(worker, strip))
					return false;
				compared = 0;
			}
			list_candidates(worker, strip, row, number);
		}
		cpu_fine_keep(worker, strip, compared);
		if (cpu_stopping(worker->context))
			return false;
	}
	cpu_sort_candidates(worker);
	return refine_list(worker, strip);
}

/* Rechecks all candidates of the strip; false when the join is being closed. */
bool
cpu_refine_strip(Worker *worker, const Strip *strip)
{
	worker->listed = 0;
	return worker->join->fine ? refine_by_blocks(worker, strip) : refine_by_rows(worker, strip);
}
