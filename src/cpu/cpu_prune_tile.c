/*-------------------------------------------------------------------------
 *
 * cpu_prune_tile.c
 *	  A strip is filtered at its join's levels.
 *
 * All tiles at the first level; those with pairs left at the next, unless so few are
 * left that to recheck them costs less; and so on, to all dimensions.  What is left in
 * the end are bits of the hit map, as without pruning.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_prune.h"

static uint64_t
hit_bits(const uint8_t *hits, uint32_t columns)
{
	uint64_t	bits = 0;

	memcpy(&bits, hits, columns / 8);
	return bits;
}

uint32_t
cpu_count_hits(const CpuKernel *kernel, const Tile *tile)
{
	uint32_t	count = 0;

	for (uint32_t r = 0; r < kernel->tile_rows; r++)
	{
		uint64_t	bits = hit_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols);

		if (bits != 0)
			count += (uint32_t) __builtin_popcountll(bits);
	}
	return count;
}

/* Adds one tile's hits, at all words of these packed rows. */
void
cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b, const Tile *tile)
{
	const CpuKernel *kernel = worker->context->kernel;
	uint32_t	width = kernel->width;
	uint32_t	words = b->layout.words;
	size_t		within = tile->row % width;
	TileSweep	sweep = {
		.tiles = 1,
		.partial = worker->partial,
		.a_threshold = (const uint32_t *) a->as_a.threshold + tile->row,
		.b_threshold = (const uint32_t *) b->as_b.threshold + tile->col,
		.hits = tile->hits,
		.hit_stride = tile->hit_stride,
	};

	for (uint32_t k = 0; k < words; k += b->layout.slice)
	{
		sweep.depth = words - k < b->layout.slice ? words - k : b->layout.slice;
		sweep.first = k == 0;
		sweep.last = k + sweep.depth == words;
		sweep.a = (const uint32_t *) a->as_a.packed
			+ pack_offset(&a->layout, width, tile->row / width, k) + within;
		sweep.b = (const uint32_t *) b->as_b.packed
			+ pack_offset(&b->layout, width, tile->col / width, k);
		(b->layout.int8 ? kernel->int8->sweep : kernel->sweep) (&sweep);
	}
}

/* Tests a tile that has hits once more; what is left are hits of both. */
static uint32_t
test_again(Worker *worker, const PackedRows *a, const PackedRows *b, const Tile *tile)
{
	const CpuKernel *kernel = worker->context->kernel;
	uint32_t	bytes = kernel->tile_cols / 8;
	uint64_t	before[FASTED_MAX_WIDTH];
	uint32_t	count = 0;

	for (uint32_t r = 0; r < kernel->tile_rows; r++)
	{
		before[r] = hit_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols);
		memset(tile->hits + r * tile->hit_stride, 0, bytes);
	}
	cpu_sweep_tile(worker, a, b, tile);
	for (uint32_t r = 0; r < kernel->tile_rows; r++)
	{
		uint8_t    *hits = tile->hits + r * tile->hit_stride;

		before[r] &= hit_bits(hits, kernel->tile_cols);
		memcpy(hits, &before[r], bytes);
		count += (uint32_t) __builtin_popcountll(before[r]);
	}
	return count;
}

/* A tile with hits of the first level goes on. */
static void
follow_tile(Worker *worker, const PruneCosts *costs, const Tile *tile, uint32_t hits)
{
	FastedJoin *join = worker->join;

	for (uint32_t level = costs->first + 1; level < join->projection->levels; level++)
	{
		if ((join->levels & 1U << level) == 0)
			continue;
		if (hits * costs->recheck <= costs->level[level])
			return;
		worker->tiles[level]++;
		hits = test_again(worker, &join->row_set->levels.packed[level],
						  &join->col_set->levels.packed[level], tile);
	}
	if (hits * costs->recheck <= costs->full)
		return;
	worker->full_tiles++;
	(void) test_again(worker, &join->row_set->packed, &join->col_set->packed, tile);
}

/* The tiles of one block pair after the first level. */
static void
follow_block(Worker *worker, const PruneCosts *costs, const Strip *strip, uint32_t number)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	size_t		first_b = strip->first_b + (size_t) number * strip->block_rows;
	size_t		left = join->col_set->rows.rows - first_b;
	uint32_t	rows_b = left < strip->block_rows ? (uint32_t) left : strip->block_rows;

	for (uint32_t row = 0; row < strip->rows_a; row += kernel->tile_rows)
	{
		uint8_t    *hits = worker->hits + row * join->hit_stride + number * FASTED_HIT_BYTES;

		if (cpu_stopping(join->context))
			return;
		for (uint32_t col = 0; col < rows_b; col += kernel->tile_cols)
		{
			Tile		tile = {
				.row = strip->first_a + row,.col = first_b + col,.hits = hits + col / 8,
				.hit_stride = join->hit_stride
			};
			uint32_t	count = cpu_count_hits(kernel, &tile);

			worker->tiles[costs->first]++;
			if (count > 0)
				follow_tile(worker, costs, &tile, count);
		}
	}
}

static PruneCosts
costs_of(const FastedJoin *join)
{
	PruneCosts	costs = {
		.first = (uint32_t) __builtin_ctz(join->levels),
		.full = cpu_full_cost(join),
		.recheck = cpu_recheck_cost(join->context),
	};

	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		costs.level[level] = cpu_level_cost(join->context, level);
	return costs;
}

/* Fills the worker's hit map, as cpu_filter_strip does. */
void
cpu_prune_strip(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	PruneCosts	costs = costs_of(join);

	cpu_filter_strip(worker, &join->row_set->levels.packed[costs.first],
					 &join->col_set->levels.packed[costs.first], strip);
	for (uint32_t number = 0; number < strip->blocks; number++)
	{
		cpu_rest_if_alone(join->context, cpu_now());
		follow_block(worker, &costs, strip, number);
	}
}
