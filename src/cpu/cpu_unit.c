/*-------------------------------------------------------------------------
 *
 * cpu_unit.c
 *	  Units of work: pairs of blocks, filtered, then rechecked.
 *
 * A worker claims a strip at a time, one block against some neighbours, so
 * that the first stays in the cache, and a row's candidates come together.
 * The filter leaves a bit map of the strip.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_join.h"

/* A block that is not full is handed over when it gets this old. */
#define FLUSH_AFTER_NS UINT64_C(20000000)

/*
 * Nearest rows: groups on the diagonal come first, where near rows are together, so
 * that radii are small for the others.
 */
static uint64_t
diagonal_first(const FastedJoin *join, uint64_t claim)
{
	uint64_t	group = claim / join->order.group;
	uint64_t	groups = fasted_order_groups(join->order.rows, join->order.group);
	uint64_t	i = group;
	uint64_t	j = group;

	if (group >= groups)
	{
		fasted_triangle_pair(group - groups, &i, &j);
		j++;
	}
	return (fasted_triangle(j) + i) * join->order.group + claim % join->order.group;
}

/* Claimed numbers are rows of groups; false when this one has no block. */
static bool
locate_strip(const FastedJoin *join, uint64_t claim, Strip *strip)
{
	uint32_t	block = join->block_rows;
	size_t		end_a = join->row_set->rows.rows;

	if (join->problem.groups != NULL)
		return cpu_locate_group_strip(join, claim, strip);
	if (join->self && cpu_finds_nearest(join))
		claim = diagonal_first(join, claim);
	strip->block_rows = block;
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
			strip->diagonal = join->self && i == j;
		}
	}
	return strip->blocks > 0;
}

/*
 * Sweeps all tiles of one block pair, slice by slice.  On the diagonal only
 * tiles with some column beyond their first row.
 */
static void
filter_block(Worker *worker, const PackedRows *a, const PackedRows *b,
			 const Strip *strip, uint32_t number)
{
	bool		nearest = cpu_goes_by_radii(worker->join);
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->kernel;
	void		(*sweep_tiles) (const TileSweep *sweep) =
		b->layout.int8 ? kernel->int8->sweep : kernel->sweep;
	uint32_t	words = b->layout.words;
	uint32_t	slice = b->layout.slice;
	uint32_t	tiles = (strip->rows_a + kernel->tile_rows - 1) / kernel->tile_rows;
	size_t		column_size = (size_t) tiles * kernel->tile_rows
		* kernel->tile_cols;
	size_t		first_b = strip->first_b + (size_t) number * strip->block_rows;
	size_t		left_b = b->rows - first_b;
	uint32_t	rows_b = left_b < strip->block_rows ? left_b : strip->block_rows;
	TileSweep	sweep = {
		.a_threshold = (const uint32_t *) a->as_a.threshold + strip->first_a,
		.hit_stride = worker->join->hit_stride,
	};

	for (uint32_t k = 0; k < words; k += slice)
	{
		if (k > 0)
			cpu_rest_if_alone(context, cpu_now());
		sweep.depth = words - k < slice ? words - k : slice;
		sweep.first = k == 0;
		sweep.last = k + sweep.depth == words;
		sweep.a = (const uint32_t *) a->as_a.packed
			+ pack_offset(&a->layout, kernel->width,
						  strip->first_a / kernel->width, k);

		for (uint32_t col = 0; col < rows_b; col += kernel->tile_cols)
		{
			if (cpu_stopping(context))
				return;
			sweep.b = (const uint32_t *) b->as_b.packed
				+ pack_offset(&b->layout, kernel->width,
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
			sweep.b_threshold = (const uint32_t *) b->as_b.threshold
				+ first_b + col;
			sweep.hits = worker->hits + number * FASTED_HIT_BYTES + col / 8;
			if (nearest)
				cpu_point_at_thresholds(worker, a, strip->first_a, first_b + col, &sweep);
			sweep_tiles(&sweep);
		}
	}
}

/* Fills the worker's hit map. */
void
cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
				 const Strip *strip)
{
	memset(worker->hits, 0, strip->rows_a * worker->join->hit_stride);
	memset(worker->has_hits, true, sizeof(worker->has_hits));
	for (uint32_t number = 0; number < strip->blocks; number++)
		filter_block(worker, a, b, strip, number);
}

/* Counts what a strip took; atomically, for stats may look at any time. */
static void
count_strip(Worker *worker, uint64_t filter_ns, uint64_t refine_ns)
{
	FastedContext *context = worker->context;

	atomic_fetch_add(&context->filter_ns, filter_ns);
	atomic_fetch_add(&context->refine_ns, refine_ns);
	atomic_fetch_add(&context->candidates, worker->candidates);
	atomic_fetch_add(&context->pairs, worker->counted);
	worker->candidates = worker->counted = 0;
	for (int level = 0; level < FASTED_PRUNE_LEVELS && context->join->levels != 0; level++)
	{
		atomic_fetch_add(&context->tiles[level], worker->tiles[level]);
		worker->tiles[level] = 0;
	}
	atomic_fetch_add(&context->full_tiles, worker->full_tiles);
	worker->full_tiles = 0;
}

/* One strip; false when the join is being closed. */
static bool
join_strip(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint64_t	begin;
	uint64_t	filtered;
	uint64_t	end;
	bool		done;

	cpu_rest_if_alone(context, cpu_now());
	begin = cpu_now();
	if (cpu_finds_nearest(join))
		cpu_set_near_strip(worker, strip);
	if (join->levels != 0)
		cpu_prune_strip(worker, strip);
	else
		cpu_filter_strip(worker, &join->row_set->packed, &join->col_set->packed, strip);
	filtered = cpu_now();
	done = !cpu_stopping(context) && cpu_refine_strip(worker, strip);
	end = cpu_now();
	count_strip(worker, filtered - begin, end - filtered);
	if (done && worker->block != NULL && end - worker->block->since > FLUSH_AFTER_NS)
		cpu_flush_block(worker);
	return done;
}

/* Strips until there are no more.  Some numbers name none: they are done at once. */
void
cpu_join_units(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint64_t	claim;

	worker->near.cols = 0;
	while ((claim = cpu_claim(context)) < join->end_claim && !cpu_stopping(context))
	{
		Strip		strip;

		if (!cpu_is_in_slice(join, claim))
			continue;
		if (locate_strip(join, claim, &strip) && !join_strip(worker, &strip))
			break;
		atomic_fetch_add(&context->units_done, 1);
	}
	if (worker->block != NULL)
		cpu_flush_block(worker);
}
