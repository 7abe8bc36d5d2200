/*-------------------------------------------------------------------------
 *
 * strip.c
 *	  Filters a strip, at all dimensions or at the join's pruning levels first.
 *
 * The result is a hit map of the strip, one bit per pair.  With pruning, all tiles are tested at the
 * first level.  Tiles with hits are tested at the next level, and finally at all dimensions, unless
 * rechecking the remaining hits costs less.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "components.h"
#include "near_thresholds.h"
#include "strip.h"

/* Cost of a recheck: per dimension, and fixed. */
#define RECHECK_DIMENSION_COST 48.0
#define RECHECK_COST 8192.0

/*
 * Sweeps all tiles of one block pair, segment by segment.  On the diagonal, tiles without a column
 * beyond their first row are skipped.
 */
static void
filter_block(Worker *worker, const PackedRows *a, const PackedRows *b,
			 const Strip *strip, uint32_t number, bool sparse)
{
	bool		nearest = cpu_uses_radii(worker->join);
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->kernel;
	uint32_t	tiles = (strip->rows_a + kernel->tile_rows - 1) / kernel->tile_rows;
	size_t		column_size = (size_t) tiles * kernel->tile_rows
		* kernel->tile_cols;
	size_t		first_b = strip->first_b + (size_t) number * strip->block_rows;
	size_t		left_b = b->rows - first_b;
	uint32_t	rows_b = left_b < strip->block_rows ? left_b : strip->block_rows;
	TileSweep	sweep = {
		.hit_stride = worker->join->work.hit_stride,
		.sparse = sparse,
	};

	for (uint32_t k = 0; k < b->layout.words; k += b->layout.segment)
	{
		if (k > 0)
			(void) cpu_may_continue(context);
		for (uint32_t col = 0; col < rows_b; col += kernel->tile_cols)
		{
			FastedSpan	useful;
			uint32_t	row;

			if (cpu_stopping(context))
				return;
			useful = (FastedSpan) {0, tiles};
			if (strip->diagonal && number == 0)
			{
				uint32_t	above = col + kernel->tile_cols - 1;
				uint32_t	most = (above + kernel->tile_rows - 1) / kernel->tile_rows;

				if (most < tiles)
					useful.end = most;
			}
			if (b->filter->useful_tiles != NULL)
				useful = b->filter->useful_tiles(worker->join, strip, first_b + col, useful);
			if (nearest && worker->join->problem.components != NULL)
				useful = cpu_mixed_tiles(worker->join, strip, first_b + col, useful);
			if (useful.first >= useful.end)
				continue;
			/* a sweep begins with a whole sliver */
			row = useful.first * kernel->tile_rows / kernel->width * kernel->width;
			cpu_point_at_segment(&sweep, kernel, a, strip->first_a + row, b, first_b + col, k);
			sweep.tiles = useful.end - row / kernel->tile_rows;
			sweep.a_threshold = (const uint32_t *) a->as_a.threshold + strip->first_a + row;
			sweep.partial = (uint32_t *) worker->partial
				+ col / kernel->tile_cols * column_size;
			sweep.b_threshold = (const uint32_t *) b->as_b.threshold
				+ first_b + col;
			sweep.hits = worker->hits + row * sweep.hit_stride + number * FASTED_HIT_BYTES + col / 8;
			if (nearest)
				cpu_point_at_thresholds(worker, a, strip->first_a + row, first_b + col, &sweep);
			cpu_product(kernel, b->filter)->sweep(&sweep);
			memset(worker->has_hits + row, true, sweep.tiles * kernel->tile_rows);
		}
	}
}

void
cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
				 const Strip *strip, bool sparse)
{
	memset(worker->hits, 0, strip->rows_a * worker->join->work.hit_stride);
	memset(worker->has_hits, false, sizeof(worker->has_hits));
	for (uint32_t number = 0; number < strip->blocks; number++)
		filter_block(worker, a, b, strip, number, sparse);
}

/* --- costs */

PruneCosts
cpu_prune_costs(const FastedJoin *join)
{
	const FastedContext *context = join->context;
	const CpuKernel *kernel = context->kernel;
	uint32_t	d = context->options.dimensions;
	PruneCosts	costs = {
		.full = join->filter->cost(context, d),
		.recheck = cpu_integer_speed(context) * (RECHECK_COST + RECHECK_DIMENSION_COST * d) /
			(kernel->tile_rows * kernel->tile_cols),
	};

	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		costs.level[level] = cpu_level_filter(context)->cost(context, LEVEL_WORDS(level));
	return costs;
}

/* --- levels */

/* Returns the bits of a tile's row. */
static uint64_t
hit_bits(const uint8_t *hits, uint32_t columns)
{
	return cpu_hit_word(hits) & (UINT64_MAX >> (64 - columns));
}

/* Clears a tile row's bits that are not in `bits`.  Returns the remaining ones. */
static uint64_t
keep_bits(uint8_t *hits, uint32_t columns, uint64_t bits)
{
	uint64_t	kept = hit_bits(hits, columns) & bits;
	uint64_t	word = (cpu_hit_word(hits) & ~(UINT64_MAX >> (64 - columns))) | kept;

#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	memcpy(hits, &word, sizeof(word));
	return kept;
}

/* Counts the bits of a word, which usually has very few. */
static uint32_t
count_bits(uint64_t bits)
{
	uint32_t	count = 0;

	for (; bits != 0; bits &= bits - 1)
		count++;
	return count;
}

uint32_t
cpu_count_hits(const CpuKernel *kernel, const Tile *tile)
{
	uint32_t	count = 0;

	for (uint32_t r = 0; r < kernel->tile_rows; r++)
		count += count_bits(hit_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols));
	return count;
}

void
cpu_sweep_tile(Worker *worker, const PackedRows *a, const PackedRows *b, const Tile *tile)
{
	const CpuKernel *kernel = worker->context->kernel;
	TileSweep	sweep = {
		.tiles = 1,
		.partial = worker->partial,
		.a_threshold = (const uint32_t *) a->as_a.threshold + tile->row,
		.b_threshold = (const uint32_t *) b->as_b.threshold + tile->col,
		.hits = tile->hits,
		.hit_stride = tile->hit_stride,
	};

	if (cpu_uses_radii(worker->join))
		cpu_point_at_thresholds(worker, a, tile->row, tile->col, &sweep);
	for (uint32_t k = 0; k < b->layout.words; k += b->layout.segment)
	{
		cpu_point_at_segment(&sweep, kernel, a, tile->row, b, tile->col, k);
		cpu_product(kernel, b->filter)->sweep(&sweep);
	}
}

/* Tests a tile again, with other packed rows.  Hits of both tests remain; returns their number. */
static uint32_t
test_again(Worker *worker, const PackedRows *a, const PackedRows *b, const Tile *tile)
{
	const CpuKernel *kernel = worker->context->kernel;
	uint64_t	before[FASTED_MAX_TILE];
	uint32_t	count = 0;

	for (uint32_t r = 0; r < kernel->tile_rows; r++)
	{
		before[r] = hit_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols);
		(void) keep_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols, 0);
	}
	cpu_sweep_tile(worker, a, b, tile);
	for (uint32_t r = 0; r < kernel->tile_rows; r++)
		count += count_bits(keep_bits(tile->hits + r * tile->hit_stride, kernel->tile_cols,
									  before[r]));
	return count;
}

/* Tests a tile with hits of the first level at further levels. */
static void
prune_tile(Worker *worker, const PruneCosts *costs, uint32_t first, const Tile *tile,
		   uint32_t hits)
{
	FastedJoin *join = worker->join;

	for (uint32_t level = first + 1; level < join->pruning.projection->levels; level++)
	{
		if ((join->pruning.levels & 1U << level) == 0)
			continue;
		if (hits * costs->recheck <= costs->level[level])
			return;
		worker->work.pruned_tiles[level]++;
		hits = test_again(worker, &join->row_set->levels.packed[level],
						  &join->col_set->levels.packed[level], tile);
	}
	if (hits * costs->recheck <= costs->full)
		return;
	worker->work.full_tiles++;
	(void) test_again(worker, &join->row_set->packed, &join->col_set->packed, tile);
}

/* Computes the bitwise OR of the hit maps of a row of tiles.  False if there are no hits. */
static bool
merge_hits(const uint8_t *hits, size_t hit_stride, uint32_t rows, uint64_t *all)
{
	memset(all, 0, FASTED_HIT_BYTES + sizeof(*all));
	for (uint32_t r = 0; r < rows; r++)
	{
		uint64_t	words[FASTED_HIT_BYTES / 8];

		memcpy(words, hits + r * hit_stride, FASTED_HIT_BYTES);
		for (uint32_t w = 0; w < FASTED_HIT_BYTES / 8; w++)
			all[w] |= words[w];
	}
	return (all[0] | all[1] | all[2] | all[3]) != 0;
}

/* Tests the tiles of one block pair at the levels after the first. */
static void
prune_block(Worker *worker, const PruneCosts *costs, uint32_t first, const Strip *strip,
			uint32_t number)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	size_t		first_b = strip->first_b + (size_t) number * strip->block_rows;
	size_t		left = join->col_set->rows.rows - first_b;
	uint32_t	rows_b = left < strip->block_rows ? (uint32_t) left : strip->block_rows;

	for (uint32_t row = 0; row < strip->rows_a; row += kernel->tile_rows)
	{
		uint8_t    *hits = worker->hits + row * join->work.hit_stride + number * FASTED_HIT_BYTES;
		uint64_t	all[FASTED_HIT_BYTES / 8 + 1];

		if (cpu_stopping(join->context))
			return;
		worker->work.pruned_tiles[first] += (rows_b + kernel->tile_cols - 1) / kernel->tile_cols;
		if (!merge_hits(hits, join->work.hit_stride, kernel->tile_rows, all))
			continue;
		memset(worker->has_hits + row, true, kernel->tile_rows);
		for (uint32_t col = 0; col < rows_b; col += kernel->tile_cols)
		{
			Tile		tile = {
				.row = strip->first_a + row,.col = first_b + col,.hits = hits + col / 8,
				.hit_stride = join->work.hit_stride
			};

			if (hit_bits((const uint8_t *) all + col / 8, kernel->tile_cols) != 0)
				prune_tile(worker, costs, first, &tile, cpu_count_hits(kernel, &tile));
		}
	}
}

void
cpu_prune_strip(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	PruneCosts	costs = cpu_prune_costs(join);
	uint32_t	first = (uint32_t) __builtin_ctz(join->pruning.levels);

	cpu_filter_strip(worker, &join->row_set->levels.packed[first],
					 &join->col_set->levels.packed[first], strip, true);
	memset(worker->has_hits, false, sizeof(worker->has_hits));
	for (uint32_t number = 0; number < strip->blocks; number++)
	{
		(void) cpu_may_continue(join->context);
		prune_block(worker, &costs, first, strip, number);
	}
}
