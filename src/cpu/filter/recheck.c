/*-------------------------------------------------------------------------
 *
 * recheck.c
 *	  Recheck of a strip's candidates, and output of pairs.
 *
 * The bits of a strip's hit map are listed row by row.  Rows are prefetched ahead of their
 * recheck.
 *
 * With many dimensions INT8 finds several candidates per true pair.  A recheck waits for the memory of
 * its rows.  INT16 rows have half the bytes, and their products are cheap.  Comparing them first removes
 * most false candidates, and no pair: doc/internals/bound-int8.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "components.h"
#include "recheck.h"
#include "strip.h"

/* Number of candidates prefetched ahead, and bytes per row at most; the number for INT16 rows. */
#define PREFETCH_AHEAD 2
#define PREFETCH_MOST 4096
#define FETCH_AHEAD 4

/* --- blocks of pairs */

/* Waits for a free block.  Returns false if the join is being closed. */
static bool
fetch_block(Worker *worker)
{
	FastedContext *context = worker->context;

	pthread_mutex_lock(&context->threads.lock);
	while (!cpu_stopping(context) &&
		   (worker->block = pair_pool_pop(&context->pool.free_list)) == NULL)
		pthread_cond_wait(&context->threads.free_cond, &context->threads.lock);
	pthread_mutex_unlock(&context->threads.lock);
	if (worker->block == NULL)
		return false;
	worker->block->npairs = 0;
	worker->block->since = fasted_now();
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
		cpu_report(worker, true);
	return true;
}

/* --- the list of candidates */

void
cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number)
{
	const uint8_t *map = worker->hits + row * worker->join->work.hit_stride
		+ number * FASTED_HIT_BYTES;
	uint32_t	first = number * strip->block_rows;
	bool		diagonal = strip->diagonal && number == 0;

	for (uint32_t word = 0; word < FASTED_HIT_BYTES / 8; word++)
	{
		for (uint64_t bits = cpu_hit_word(map + 8 * word); bits != 0; bits &= bits - 1)
		{
			uint32_t	col = 64 * word + (uint32_t) __builtin_ctzll(bits);

			/* list each pair once, and no row with itself */
			if (!diagonal || col > row)
				worker->list[worker->listed++] = (Candidate) {
					.row = (uint16_t) row,
					.col = (uint16_t) (first + col),
				};
		}
	}
}

static void
prefetch(const void *row, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 64)
		__builtin_prefetch((const char *) row + at);
}

/* Removes candidates from `first` on that are too far apart as INT16 rows.  Returns the new number. */
static uint32_t
keep_near_int16(Worker *worker, const Strip *strip, uint32_t first)
{
	const FastedJoin *join = worker->join;
	int32_t		(*dot) (const int16_t *x, const int16_t *y, uint32_t padded) =
		join->context->kernel->int8->dot_int16;
	const Int16Rows *a = &join->row_set->packed.fine;
	const Int16Rows *b = &join->col_set->packed.fine;
	uint32_t	padded = join->context->padded;
	const int16_t *rows = a->values + strip->first_a * padded;
	const int16_t *cols = b->values + strip->first_b * padded;
	Candidate  *list = worker->list;
	uint32_t	kept = first;

	for (uint32_t c = first; c < worker->listed; c++)
	{
		Candidate	pair = list[c];
		int32_t		product;

		if (c + FETCH_AHEAD < worker->listed)
			prefetch(cols + (size_t) list[c + FETCH_AHEAD].col * padded, padded * sizeof(int16_t));
		product = dot(rows + (size_t) pair.row * padded, cols + (size_t) pair.col * padded, padded);
		list[kept] = pair;
		kept += product >= a->threshold[strip->first_a + pair.row]
			+ b->threshold[strip->first_b + pair.col];
	}
	return worker->listed = kept;
}

/* Sorts the worker's candidates by row, using counting sort. */
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

/* Prefetches the rows of candidate c. */
static void
prefetch_candidate(const Worker *worker, const Strip *strip, uint32_t c)
{
	const FastedJoin *join = worker->join;
	size_t		bytes = fasted_row_bytes(&join->context->options);

	if (bytes > PREFETCH_MOST)
		bytes = PREFETCH_MOST;
	if (c >= worker->listed)
		return;
	if (c == 0 || worker->list[c].row != worker->list[c - 1].row)
		prefetch(cpu_stored_row(join->row_set, strip->first_a + worker->list[c].row), bytes);
	prefetch(cpu_stored_row(join->col_set, strip->first_b + worker->list[c].col), bytes);
}

/* Returns the rank of a row of set b, which orders neighbours at the same distance. */
static uint32_t
rank_of(const FastedJoin *join, size_t row)
{
	return join->problem.ranks != NULL ? join->problem.ranks[row]
		: (uint32_t) (join->sets[1]->options.first_row + row);
}

/* Offers a pair to the neighbor lists of its rows. */
static void
offer_pair(const FastedJoin *join, size_t row, size_t col, double dist)
{
	NeighborLists *lists = &join->sets[0]->lists;
	bool		row_is_a = join->row_set == join->sets[0];

	if (join->problem.components != NULL)
		dist = row_is_a ? cpu_mutual_reachability(join, row, col, dist)
			: cpu_mutual_reachability(join, col, row, dist);
	if (join->self || row_is_a)
		neighbor_lists_offer(lists, row, rank_of(join, col), dist);
	if (join->self || !row_is_a)
		neighbor_lists_offer(lists, col, rank_of(join, row), dist);
}

/* Emits or counts a pair of the result, given by places.  False if the join is being closed. */
static bool
output_pair(Worker *worker, size_t row, size_t col, double dist)
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
			atomic_fetch_add_explicit(&join->row_set->counts[row], 1, memory_order_relaxed);
			atomic_fetch_add_explicit(&join->col_set->counts[col], 1, memory_order_relaxed);
		}
		else if (join->nearest)
			offer_pair(join, row, col, dist);
		worker->work.pairs++;
		return true;
	}
	a = (uint32_t) (join->row_set->options.first_row + row);
	b = (uint32_t) (join->col_set->options.first_row + col);
	if (join->self ? a < b : join->row_set == join->sets[0])
		return emit_pair(worker, a, b, dist);
	return emit_pair(worker, b, a, dist);
}

/* Rechecks the listed candidates and empties the list.  False if the join is being closed. */
static bool
refine_list(Worker *worker, const Strip *strip)
{
	FastedContext *context = worker->context;
	const FastedSet *row_set = worker->join->row_set;
	const FastedSet *col_set = worker->join->col_set;
	double		eps = worker->join->problem.eps;

	(void) cpu_may_continue(context);
	for (uint32_t c = 0; c < PREFETCH_AHEAD; c++)
		prefetch_candidate(worker, strip, c);
	for (uint32_t c = 0; c < worker->listed; c++)
	{
		Candidate	pair = worker->list[c];
		size_t		row = strip->first_a + pair.row;
		size_t		col = strip->first_b + pair.col;
		double		dist;

		prefetch_candidate(worker, strip, c + PREFETCH_AHEAD);
		dist = cpu_distance(context, &row_set->packed, &col_set->packed, row, col,
							cpu_stored_row(row_set, row), cpu_stored_row(col_set, col));
		if (dist <= eps && !output_pair(worker, row, col, dist))
			return false;
		if (cpu_stopping(context))
			return false;
	}
	worker->listed = 0;
	return true;
}

/* Removes a row's candidates, listed from `first` on, that are not in its partition. */
static void
keep_partition(Worker *worker, const Strip *strip, uint32_t row, uint32_t first)
{
	const FastedJoin *join = worker->join;
	uint32_t	kept = first;
	FastedSpan	columns;

	if (first == worker->listed)
		return;
	columns = cpu_rows_met(join, join->row_side, (uint32_t) (strip->first_a + row));
	for (uint32_t c = first; c < worker->listed; c++)
	{
		size_t		column = strip->first_b + worker->list[c].col;

		if (column >= columns.first && column < columns.end)
			worker->list[kept++] = worker->list[c];
	}
	worker->listed = kept;
}

/* Lists a row's candidates in one block, except those in another partition or in the same component. */
static void
list_candidates(Worker *worker, const Strip *strip, uint32_t row, uint32_t number)
{
	uint32_t	listed = worker->listed;

	cpu_list_row(worker, strip, row, number);
	if (worker->join->problem.partitions != NULL)
		keep_partition(worker, strip, row, listed);
	worker->work.candidates += worker->listed - listed;
	if (worker->join->problem.components != NULL)
		cpu_keep_components(worker, strip, row, listed);
}

static bool
list_is_full(const Worker *worker)
{
	return worker->listed + FASTED_MAX_BLOCK > CANDIDATE_LIST;
}

/* Rechecks row by row, so that all candidates of a row are rechecked together. */
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
 * Compares INT16 rows block by block, because only a block or two fit into the cache.  The
 * remaining candidates of all blocks are then sorted by row and rechecked.
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
				compared = keep_near_int16(worker, strip, compared);
			if (list_is_full(worker))
			{
				cpu_sort_candidates(worker);
				if (!refine_list(worker, strip))
					return false;
				compared = 0;
			}
			list_candidates(worker, strip, row, number);
		}
		keep_near_int16(worker, strip, compared);
		if (cpu_stopping(worker->context))
			return false;
	}
	cpu_sort_candidates(worker);
	return refine_list(worker, strip);
}

bool
cpu_refine_strip(Worker *worker, const Strip *strip)
{
	worker->listed = 0;
	return worker->join->fine ? refine_by_blocks(worker, strip) : refine_by_rows(worker, strip);
}
