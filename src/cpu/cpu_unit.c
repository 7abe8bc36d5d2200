/*-------------------------------------------------------------------------
 *
 * cpu_unit.c
 *	  Units of work: pairs of blocks, filtered, then rechecked.
 *
 * A worker claims a strip at a time, one block against some neighbours, so
 * that the first stays in the cache, and a row's candidates come together.
 * The filter leaves a bit map of the strip.  The recheck lists its bits,
 * row by row, and looks ahead in the list: rows are fetched before they are
 * needed, and a row with several candidates is promoted to FP64 once.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_join.h"

/* A block that is not full is handed over when it gets this old. */
#define FLUSH_AFTER_NS UINT64_C(20000000)

/* Candidates whose rows are fetched ahead, and how much of each row. */
#define PREFETCH_AHEAD 2
#define PREFETCH_MOST 512

/* Candidates of one row for which its promotion to FP64 is kept. */
#define WIDEN_FROM 3

/* Claimed numbers are rows of groups; false when this one has no block. */
static bool
locate_strip(const FastedJoin *join, uint64_t claim, Strip *strip)
{
	uint32_t	block = join->block_rows;
	size_t		end_a = join->slot_a->rows.rows;

	strip->blocks = 0;
	for (uint64_t in = 0; in < join->order.group; in++)
	{
		uint64_t	i;
		uint64_t	j;

		if (!fasted_order_unit(&join->order, claim * join->order.group + in,
							   &i, &j))
			continue;
		if (strip->blocks++ == 0)
		{
			strip->first_a = i * block;
			strip->rows_a = end_a - strip->first_a < block
				? end_a - strip->first_a : block;
			strip->first_b = j * block;
			strip->diagonal = join->slot_a == join->slot_b && i == j;
		}
	}
	return strip->blocks > 0;
}

/*
 * Sweeps all tiles of one block pair, slice by slice.  On the diagonal only
 * tiles with some column beyond their first row.
 */
static void
filter_block(Worker *worker, const Slot *slot_a, const Slot *slot_b,
			 const Strip *strip, uint32_t number)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->kernel;
	void		(*sweep_tiles) (const TileSweep *sweep) =
		slot_b->layout.int8 ? kernel->int8->sweep : kernel->sweep;
	uint32_t	words = slot_b->layout.words;
	uint32_t	slice = slot_b->layout.slice;
	uint32_t	tiles = (strip->rows_a + kernel->tile_rows - 1) / kernel->tile_rows;
	size_t		column_size = (size_t) tiles * kernel->tile_rows
		* kernel->tile_cols;
	size_t		first_b = strip->first_b + (size_t) number * join->block_rows;
	size_t		left_b = slot_b->rows.rows - first_b;
	uint32_t	rows_b = left_b < join->block_rows ? left_b : join->block_rows;
	TileSweep	sweep = {
		.a_threshold = (const uint32_t *) slot_a->as_a.threshold + strip->first_a,
		.hit_stride = join->hit_stride,
	};

	for (uint32_t k = 0; k < words; k += slice)
	{
		if (k > 0)
			cpu_rest_if_alone(join, cpu_now());
		sweep.depth = words - k < slice ? words - k : slice;
		sweep.first = k == 0;
		sweep.last = k + sweep.depth == words;
		sweep.a = (const uint32_t *) slot_a->as_a.packed
			+ pack_offset(&slot_a->layout, kernel->width,
						  strip->first_a / kernel->width, k);

		for (uint32_t col = 0; col < rows_b; col += kernel->tile_cols)
		{
			if (cpu_stopping(join))
				return;
			sweep.b = (const uint32_t *) slot_b->as_b.packed
				+ pack_offset(&slot_b->layout, kernel->width,
							  (first_b + col) / kernel->width, k);
			sweep.tiles = tiles;
			if (strip->diagonal && number == 0)
			{
				uint32_t	above = col + kernel->tile_cols - 1;
				uint32_t	useful = (above + kernel->tile_rows - 1)
					/ kernel->tile_rows;

				sweep.tiles = useful < tiles ? useful : tiles;
			}
			sweep.partial = (uint32_t *) worker->partial
				+ col / kernel->tile_cols * column_size;
			sweep.b_threshold = (const uint32_t *) slot_b->as_b.threshold
				+ first_b + col;
			sweep.hits = worker->hits + number * FASTED_HIT_BYTES + col / 8;
			sweep_tiles(&sweep);
		}
	}
}

/* Fills the worker's hit map. */
void
cpu_filter_strip(Worker *worker, const Slot *slot_a, const Slot *slot_b,
				 const Strip *strip)
{
	memset(worker->hits, 0, strip->rows_a * worker->join->hit_stride);
	for (uint32_t number = 0; number < strip->blocks; number++)
		filter_block(worker, slot_a, slot_b, strip, number);
}

/* Hands over the block being filled. */
static void
flush_block(Worker *worker)
{
	FastedJoin *join = worker->join;

	atomic_fetch_add(&join->pairs, worker->block->npairs);
	pthread_mutex_lock(&join->lock);
	pair_pool_push(&join->pool, worker->block);
	worker->block = NULL;
	pthread_cond_signal(&join->out_cond);
	pthread_mutex_unlock(&join->lock);
}

/* Waits for a free block; false when the join is being closed. */
static bool
fetch_block(Worker *worker)
{
	FastedJoin *join = worker->join;

	pthread_mutex_lock(&join->lock);
	while (!cpu_stopping(join) &&
		   (worker->block = pair_pool_get(&join->pool)) == NULL)
		pthread_cond_wait(&join->free_cond, &join->lock);
	pthread_mutex_unlock(&join->lock);
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
	if (worker->block->npairs == worker->join->pool.block_pairs)
		flush_block(worker);
	return true;
}

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
	uint32_t	first = number * worker->join->block_rows;
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
prefetch_row(const float *row, uint32_t dimensions)
{
	uint32_t	end = dimensions < PREFETCH_MOST ? dimensions : PREFETCH_MOST;

	for (uint32_t k = 0; k < end; k += 16)
		__builtin_prefetch(row + k);
}

/* Fetches the rows of a candidate that is soon to be rechecked. */
static void
prefetch_candidate(const Worker *worker, const Strip *strip, uint32_t c)
{
	const FastedJoin *join = worker->join;
	uint32_t	d = join->problem.dimensions;

	if (c >= worker->listed)
		return;
	if (c == 0 || worker->list[c].row != worker->list[c - 1].row)
		prefetch_row(row_store_row(&join->slot_a->rows,
								   strip->first_a + worker->list[c].row), d);
	prefetch_row(row_store_row(&join->slot_b->rows,
							   strip->first_b + worker->list[c].col), d);
}

/* Do so many candidates from c on share one row that widening it pays? */
static bool
row_repeats(const Worker *worker, uint32_t c)
{
	return c + WIDEN_FROM <= worker->listed &&
		worker->list[c + WIDEN_FROM - 1].row == worker->list[c].row;
}

/* A pair of the result, handed out or counted; false when the join is being closed. */
static bool
take_pair(Worker *worker, uint32_t a, uint32_t b, double dist)
{
	if (worker->join->problem.output == FASTED_OUTPUT_PAIRS)
		return emit_pair(worker, a, b, dist);
	worker->counted++;
	return true;
}

/* Rechecks the list and empties it; false when the join is being closed. */
static bool
refine_list(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->kernel;
	size_t		first_a = join->slot_a->first_row + strip->first_a;
	size_t		first_b = join->slot_b->first_row + strip->first_b;
	uint32_t	d = join->problem.dimensions;
	int			wide = -1;		/* the row that was widened last */

	cpu_rest_if_alone(join, cpu_now());
	for (uint32_t c = 0; c < PREFETCH_AHEAD; c++)
		prefetch_candidate(worker, strip, c);
	for (uint32_t c = 0; c < worker->listed; c++)
	{
		Candidate	pair = worker->list[c];
		const float *x = row_store_row(&join->slot_a->rows,
									   strip->first_a + pair.row);
		const float *y = row_store_row(&join->slot_b->rows,
									   strip->first_b + pair.col);
		double		dist;

		prefetch_candidate(worker, strip, c + PREFETCH_AHEAD);
		if (pair.row != wide && row_repeats(worker, c))
		{
			kernel->widen(x, d, worker->wide);
			wide = pair.row;
		}
		dist = pair.row == wide ? kernel->distance_wide(worker->wide, y, d)
			: kernel->distance(x, y, d);
		if (dist <= join->problem.eps &&
			!take_pair(worker, (uint32_t) (first_a + pair.row),
					   (uint32_t) (first_b + pair.col), dist))
			return false;
		if (cpu_stopping(join))
			return false;
	}
	worker->candidates += worker->listed;
	worker->listed = 0;
	return true;
}

/* Rechecks all candidates of the strip; false when the join is being closed. */
static bool
refine_strip(Worker *worker, const Strip *strip)
{
	worker->listed = 0;
	for (uint32_t row = 0; row < strip->rows_a; row++)
	{
		for (uint32_t number = 0; number < strip->blocks; number++)
		{
			if (worker->listed + FASTED_MAX_BLOCK > CANDIDATE_LIST &&
				!refine_list(worker, strip))
				return false;
			cpu_list_row(worker, strip, row, number);
		}
	}
	return refine_list(worker, strip);
}

/* Counts what a strip took; atomically, for stats may look at any time. */
static void
count_strip(Worker *worker, uint64_t filter_ns, uint64_t refine_ns)
{
	FastedJoin *join = worker->join;

	atomic_fetch_add(&join->filter_ns, filter_ns);
	atomic_fetch_add(&join->refine_ns, refine_ns);
	atomic_fetch_add(&join->candidates, worker->candidates);
	atomic_fetch_add(&join->pairs, worker->counted);
	worker->candidates = worker->counted = 0;
}

/* Strips until there are no more. */
void
cpu_join_units(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint64_t	claims = fasted_order_numbers(&join->order) / join->order.group;
	uint64_t	claim;

	while ((claim = cpu_claim(join)) < claims && !cpu_stopping(join))
	{
		Strip		strip;
		uint64_t	begin;
		uint64_t	filtered;
		uint64_t	end;
		bool		done;

		if (!locate_strip(join, claim, &strip))
			continue;
		cpu_rest_if_alone(join, cpu_now());
		begin = cpu_now();
		cpu_filter_strip(worker, join->slot_a, join->slot_b, &strip);
		filtered = cpu_now();
		done = !cpu_stopping(join) && refine_strip(worker, &strip);
		end = cpu_now();
		count_strip(worker, filtered - begin, end - filtered);
		if (!done)
			break;
		atomic_fetch_add(&join->units_done, strip.blocks);
		if (worker->block != NULL && end - worker->block->since > FLUSH_AFTER_NS)
			flush_block(worker);
	}
	if (worker->block != NULL)
		flush_block(worker);
}
