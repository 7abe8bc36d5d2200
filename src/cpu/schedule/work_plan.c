/*-------------------------------------------------------------------------
 *
 * work_plan.c
 *	  Partitions a join into work items.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>

#include "schedule.h"

/* Multiply-adds for which one more thread pays off. */
#define THREAD_WORK 4e6

/* Least number of units per thread, so that all threads end at about the same time. */
#define UNITS_PER_THREAD 16

/* Least number of strips per thread.  It limits the size of squares of blocks. */
#define STRIPS_PER_THREAD 8

#define THREADS_PER_SLICE 4

/* The mean partition is at least this number of blocks wide. */
#define BLOCKS_PER_PARTITION 4

/* Returns the number of work items before slice s: items * s / slices, rounded down. */
static uint64_t
items_before(const FastedJoin *join, uint64_t items, uint64_t s)
{
	uint64_t	slices = join->problem.slices;

	return items / slices * s + items % slices * s / slices;
}

/* --- joins within partitions, whose rows are adjacent and in input order */

/* Returns the mean number of columns per row within its partition. */
static double
partition_columns(const FastedJoin *join)
{
	double		columns = 0.0;
	double		rows = 0.0;

	for (uint32_t g = 0; g < join->problem.npartitions; g++)
	{
		FastedSpan	a = fasted_partition_rows(&join->problem.partitions[g], join->row_side);
		FastedSpan	b = fasted_partition_rows(&join->problem.partitions[g], !join->row_side);

		if (b.first == b.end)
			continue;
		columns += (double) (a.end - a.first) * (b.end - b.first);
		rows += a.end - a.first;
	}
	return rows > 0.0 ? columns / rows : 0.0;
}

/* Returns the rows per block that suit the partitions, a multiple of step. */
static uint32_t
partition_block(const FastedJoin *join, uint32_t step)
{
	double		most = fmin(join->work.partition_columns / BLOCKS_PER_PARTITION, FASTED_MAX_BLOCK);

	return cpu_clamp((uint64_t) most, step, FASTED_MAX_BLOCK) / step * step;
}

/*
 * Computes the strips of a join within partitions, for the planned size of blocks and squares.
 * Returns false if out of memory.
 */
static bool
plan_strips(FastedJoin *join)
{
	uint32_t	width = (uint32_t) join->work.order.square * join->work.block_rows;
	uint32_t	nspans = (uint32_t) join->work.order.rows;
	uint32_t	nstripes = (uint32_t) ceil_div(join->col_set->rows.rows, width);

	free(join->work.spans);
	free(join->work.stripes);
	join->work.spans = malloc(nspans * sizeof(FastedSpan));
	join->work.stripes = malloc(((size_t) nstripes + 1) * sizeof(FastedStripe));
	if (join->work.spans == NULL || join->work.stripes == NULL)
		return false;
	fasted_find_spans(join->problem.partitions, join->problem.npartitions, join->row_side, join->self,
					  join->work.block_rows, join->work.spans, nspans);
	join->work.strips = (FastedPartitionTiles) {
		.spans = join->work.spans,.stripes = join->work.stripes,.nstripes = nstripes,
		.count = fasted_find_stripes(join->work.spans, nspans, width, join->work.stripes, nstripes)
	};
	return true;
}

/* --- the work of a join */

/*
 * Chooses the block size so that there is work for all threads.  Blocks of slices must be the same
 * on every machine, for any number of threads and any kernel.  So they are planned for
 * THREADS_PER_SLICE threads per slice, and consist of whole tiles of every kernel.  Returns false
 * if out of memory.
 */
static bool
plan_blocks(FastedJoin *join)
{
	uint64_t	slices = join->problem.slices;
	uint32_t	step = slices > 1 ? FASTED_COMMON_COLS : join->context->kernel->tile_cols;
	uint64_t	wanted = slices == 1 ? (uint64_t) join->work.nworkers : slices * THREADS_PER_SLICE;
	bool		partitioned = join->problem.partitions != NULL;
	uint64_t	units;

	join->work.order.triangle = join->self;
	if (partitioned)
		join->work.partition_columns = partition_columns(join);
	join->work.block_rows = partitioned ? partition_block(join, step) : FASTED_MAX_BLOCK / step * step;
	for (;;)
	{
		join->work.order.rows = ceil_div(join->row_set->rows.rows, join->work.block_rows);
		join->work.order.cols = ceil_div(join->col_set->rows.rows, join->work.block_rows);
		join->work.order.square = 1;
		if (partitioned && !plan_strips(join))
			return false;
		units = partitioned ? join->work.strips.count : fasted_order_units(&join->work.order);
		if (units >= wanted * UNITS_PER_THREAD || join->work.block_rows <= step || wanted == 1)
			break;
		join->work.block_rows -= step;
	}
	if (units < (uint64_t) join->work.nworkers)
		join->work.nworkers = (int) units;
	join->work.order.square = SQUARE_BLOCKS;
	while (join->work.order.square > 1 && units / join->work.order.square < wanted * STRIPS_PER_THREAD)
		join->work.order.square /= 2;
	join->work.hit_stride = join->work.order.square * FASTED_HIT_BYTES;
	return !partitioned || plan_strips(join);
}

bool
cpu_plan_join(FastedJoin *join)
{
	double		work = cpu_join_area(join) * cpu_filter_words(join->context)
		/ join->problem.slices * (1 + join->problem.more_slices);
	double		useful = 1.0 + work / THREAD_WORK;
	uint64_t	items;

	join->work.nworkers = join->context->plan.thread_limit;
	if (useful < join->work.nworkers)
		join->work.nworkers = (int) useful;
	if (join->nearest)			/* as many as have memory for their sums: cpu_reserve_workers */
		join->work.nworkers = cpu_limit_workers(join->context, join->work.nworkers, true);
	if (!plan_blocks(join))
		return false;
	items = join->problem.partitions != NULL ? join->work.strips.count
		: fasted_order_numbers(&join->work.order) / join->work.order.square;
	join->work.number = ++join->context->joins;
	join->work.interleaved = join->problem.slices > 1 && join->problem.identical_kernels &&
		join->problem.partitions == NULL;
	join->work.end_item = items;
	if (!join->work.interleaved)
	{
		join->work.first_item = items_before(join, items, join->problem.slice);
		join->work.end_item = items_before(join, items, (uint64_t) join->problem.slice + 1
										   + join->problem.more_slices);
	}
	return true;
}

uint64_t
cpu_count_items(const FastedJoin *join)
{
	uint64_t	slices = join->problem.slices;
	uint64_t	count = join->work.end_item / slices * (join->problem.more_slices + 1);

	if (!join->work.interleaved)
		return join->work.end_item - join->work.first_item;
	for (uint64_t item = join->work.end_item / slices * slices; item < join->work.end_item; item++)
		count += cpu_is_in_slice(join, item);
	return count;
}
