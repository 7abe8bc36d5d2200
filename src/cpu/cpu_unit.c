/*-------------------------------------------------------------------------
 *
 * cpu_unit.c
 *	  A unit of work: one pair of blocks, filtered, then rechecked.
 *
 * The filter leaves a bit map of the block pair.  The recheck walks it row by
 * row, so that a row is promoted to FP64 once for all its candidates.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_join.h"

/* A block that is not full is handed over when it gets this old. */
#define FLUSH_AFTER_NS UINT64_C(20000000)

/* The block pair at work, with row numbers of the slots. */
typedef struct Unit
{
	size_t		first_a;
	size_t		first_b;
	uint32_t	rows_a;
	uint32_t	rows_b;
	bool		diagonal;
} Unit;

static void
locate_unit(const FastedJoin *join, uint64_t i, uint64_t j, Unit *unit)
{
	size_t		end_a = join->slot_a->rows.rows;
	size_t		end_b = join->slot_b->rows.rows;
	uint32_t	block = join->block_rows;

	unit->first_a = i * block;
	unit->first_b = j * block;
	unit->rows_a = end_a - unit->first_a < block ? end_a - unit->first_a : block;
	unit->rows_b = end_b - unit->first_b < block ? end_b - unit->first_b : block;
	unit->diagonal = join->slot_a == join->slot_b && i == j;
}

/*
 * Sweeps all tiles of the block pair, slice by slice.  On the diagonal only
 * tiles with some column beyond their first row.
 */
static void
filter_unit(Worker *worker, const Unit *unit)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->kernel;
	const Slot *slot_a = join->slot_a;
	const Slot *slot_b = join->slot_b;
	uint32_t	d = join->problem.dimensions;
	uint32_t	tiles = (unit->rows_a + kernel->tile_rows - 1) / kernel->tile_rows;
	size_t		column_size = (size_t) tiles * kernel->tile_rows
		* kernel->tile_cols;
	TileSweep	sweep = {.a_threshold = slot_a->threshold + unit->first_a};

	memset(worker->hits, 0, (size_t) unit->rows_a * FASTED_HIT_BYTES);
	for (uint32_t k = 0; k < d; k += join->slice)
	{
		sweep.depth = d - k < join->slice ? d - k : join->slice;
		sweep.first = k == 0;
		sweep.last = k + sweep.depth == d;
		sweep.a = slot_a->packed
			+ pack_offset(&slot_a->layout, kernel->width,
						  unit->first_a / kernel->width, k);

		for (uint32_t col = 0; col < unit->rows_b; col += kernel->tile_cols)
		{
			if (cpu_stopping(join))
				return;
			sweep.b = slot_b->packed
				+ pack_offset(&slot_b->layout, kernel->width,
							  (unit->first_b + col) / kernel->width, k);
			sweep.tiles = tiles;
			if (unit->diagonal)
			{
				uint32_t	above = col + kernel->tile_cols - 1;
				uint32_t	useful = (above + kernel->tile_rows - 1)
					/ kernel->tile_rows;

				sweep.tiles = useful < tiles ? useful : tiles;
			}
			sweep.partial = worker->partial + col / kernel->tile_cols * column_size;
			sweep.b_threshold = slot_b->threshold + unit->first_b + col;
			sweep.hits = worker->hits + col / 8;
			kernel->sweep(&sweep);
		}
	}
}

/* Hands over the block being filled. */
static void
flush_block(Worker *worker)
{
	FastedJoin *join = worker->join;

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
	worker->pairs++;
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

/* The columns of one row's map, in order; on the diagonal those beyond row. */
static uint32_t
list_columns(const uint8_t *map, const Unit *unit, uint32_t row,
			 uint8_t *columns)
{
	uint32_t	count = 0;

	for (uint32_t word = 0; word < FASTED_HIT_BYTES / 8; word++)
	{
		for (uint64_t bits = hit_word(map, word); bits != 0; bits &= bits - 1)
		{
			uint32_t	col = 64 * word + (uint32_t) __builtin_ctzll(bits);

			if (!unit->diagonal || col > row)
				columns[count++] = (uint8_t) col;
		}
	}
	return count;
}

static void
prefetch_row(const float *row, uint32_t dimensions)
{
	uint32_t	lines = dimensions < 256 ? dimensions : 256;

	for (uint32_t k = 0; k < lines; k += 16)
		__builtin_prefetch(row + k);
}

/* Rechecks the candidates of one row; false when the join is being closed. */
static bool
refine_row(Worker *worker, const Unit *unit, uint32_t row)
{
	FastedJoin *join = worker->join;
	const RowStore *rows_b = &join->slot_b->rows;
	uint32_t	d = join->problem.dimensions;
	uint8_t		columns[8 * FASTED_HIT_BYTES];
	uint32_t	count = list_columns(worker->hits + (size_t) row * FASTED_HIT_BYTES,
									 unit, row, columns);
	const float *next;

	if (count == 0)
		return true;
	next = row_store_row(rows_b, unit->first_b + columns[0]);
	prefetch_row(next, d);
	fasted_cpu_widen(row_store_row(&join->slot_a->rows, unit->first_a + row),
					 d, worker->wide);
	for (uint32_t c = 0; c < count; c++)
	{
		const float *y = next;
		double		dist;

		if (c + 1 < count)
		{
			next = row_store_row(rows_b, unit->first_b + columns[c + 1]);
			prefetch_row(next, d);
		}
		dist = join->kernel->distance(worker->wide, y, d);
		if (dist <= join->problem.eps &&
			!emit_pair(worker,
					   (uint32_t) (join->slot_a->first_row + unit->first_a + row),
					   (uint32_t) (join->slot_b->first_row + unit->first_b
								   + columns[c]),
					   dist))
			return false;
		if (cpu_stopping(join))
			return false;
	}
	worker->candidates += count;
	return true;
}

/* Phase three: units until there are no more. */
void
cpu_join_units(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint64_t	numbers = fasted_order_numbers(&join->order);
	uint64_t	number;

	while ((number = cpu_claim(join)) < numbers && !cpu_stopping(join))
	{
		Unit		unit;
		uint64_t	i;
		uint64_t	j;
		uint64_t	begin = cpu_now();
		uint64_t	filtered;
		uint64_t	end;

		if (!fasted_order_unit(&join->order, number, &i, &j))
			continue;
		locate_unit(join, i, j, &unit);
		filter_unit(worker, &unit);
		filtered = cpu_now();
		for (uint32_t row = 0; row < unit.rows_a && !cpu_stopping(join); row++)
		{
			if (!refine_row(worker, &unit, row))
				break;
		}
		end = cpu_now();

		atomic_fetch_add(&join->filter_ns, filtered - begin);
		atomic_fetch_add(&join->refine_ns, end - filtered);
		atomic_fetch_add(&join->candidates, worker->candidates);
		atomic_fetch_add(&join->pairs, worker->pairs);
		worker->candidates = worker->pairs = 0;
		if (cpu_stopping(join))
			break;
		atomic_fetch_add(&join->units_done, 1);
		if (worker->block != NULL && end - worker->block->since > FLUSH_AFTER_NS)
			flush_block(worker);
	}
	if (worker->block != NULL)
		flush_block(worker);
}
