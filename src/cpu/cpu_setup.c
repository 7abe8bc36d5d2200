/*-------------------------------------------------------------------------
 *
 * cpu_setup.c
 *	  What a join will hold: threads, blocks and memory, planned before use.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"
#include "processors.h"

/* Pairs of a block, when memory allows; blocks for few threads. */
#define BLOCK_PAIRS 4096
#define BLOCK_PAIRS_MIN 64
#define BLOCKS_MIN 32

#define CHUNK_BYTES ((size_t) 8 << 20)
#define MAX_THREADS 1024

/* Multiply-adds for which one more thread pays. */
#define THREAD_WORK 4e6

/* Units for each thread, at least, so that all end at about the same time. */
#define UNITS_PER_THREAD 16

/*
 * Blocks along the side of a group at most (see tile_order.h), and strips for
 * each thread at least.
 */
#define GROUP_BLOCKS 8
#define STRIPS_PER_THREAD 8

FastedStatus
cpu_fail(FastedJoin *join, FastedStatus status, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	vsnprintf(join->error, sizeof(join->error), format, args);
	va_end(args);
	join->failed = true;
	return status;
}

/* Half of the machine, unless the caller sets a limit. */
static uint64_t
memory_limit(const FastedProblem *problem)
{
	long		pages = sysconf(_SC_PHYS_PAGES);
	long		size = sysconf(_SC_PAGESIZE);

	if (problem->memory_limit > 0)
		return problem->memory_limit;
	if (pages <= 0 || size <= 0)
		return UINT64_C(1) << 32;
	return (uint64_t) pages * (uint64_t) size / 2;
}

/*
 * Whether INT8 is tried.  With fewer than 32 dimensions rows would be padded to
 * more bytes than they have in FP32.
 */
static bool
may_use_int8(const FastedJoin *join)
{
	const FastedProblem *problem = &join->problem;

	return join->kernel->int8 != NULL &&
		problem->dimensions <= FASTED_INT8_MOST_DIMENSIONS &&
		(problem->filter == FASTED_FILTER_INT8 ||
		 (problem->filter == FASTED_FILTER_AUTO && problem->dimensions >= 32));
}

/* Bytes of a packed row: in FP32, or in INT8 as row and as column of a tile. */
static size_t
packed_row_bytes(const FastedJoin *join)
{
	size_t		bytes = join->problem.dimensions * sizeof(float);

	if (join->may_use_int8 && bytes < 2 * cpu_padded(join))
		bytes = 2 * cpu_padded(join);
	return bytes;
}

static size_t
threshold_row_bytes(const FastedJoin *join)
{
	return (join->may_use_int8 ? 2 : 1) * sizeof(float);
}

/*
 * Words of a slice: a column of tiles takes three quarters of the L1 cache.
 * Slices are of even length.
 */
static uint32_t
slice_length(const CpuKernel *kernel, uint32_t words)
{
	long		cache = 0;
	uint32_t	most;
	uint32_t	slices;

#ifdef _SC_LEVEL1_DCACHE_SIZE
	cache = sysconf(_SC_LEVEL1_DCACHE_SIZE);
#endif
	if (cache < 16 * 1024 || cache > 256 * 1024)
		cache = 32 * 1024;
	most = (uint32_t) cache / 4 * 3 / (kernel->tile_cols * sizeof(float));
	if (most > 256)
		most = 256;
	slices = (words + most - 1) / most;
	return ((words + slices - 1) / slices + 7) / 8 * 8;
}

/* Memory that each worker has for itself. */
static uint64_t
worker_bytes(const FastedJoin *join)
{
	uint64_t	bytes = (uint64_t) FASTED_MAX_BLOCK * GROUP_BLOCKS
		* FASTED_HIT_BYTES
		+ (join->problem.dimensions + 31) * sizeof(double);

	if (join->may_use_int8)
		bytes += cpu_image_bytes(join);
	if (join->problem.dimensions > join->slice)
		bytes += FASTED_MAX_BLOCK * FASTED_MAX_BLOCK * sizeof(float);
	return bytes;
}

static uint64_t
pool_blocks(int threads)
{
	return 4 * threads > BLOCKS_MIN ? 4 * threads : BLOCKS_MIN;
}

/* Called by open: how many rows fit, and how many threads at most. */
void
cpu_plan_memory(FastedJoin *join)
{
	uint64_t	limit = memory_limit(&join->problem);
	uint64_t	row_bytes = join->problem.dimensions * sizeof(float);
	uint64_t	per_thread;
	uint64_t	fixed;
	uint64_t	least = 2 * join->kernel->tile_cols;
	int			threads = join->problem.threads;

	join->may_use_int8 = may_use_int8(join);
	join->slice = slice_length(join->kernel, join->problem.dimensions);
	if (threads <= 0)
		threads = fasted_processors();
	if (join->problem.max_threads > 0 && threads > join->problem.max_threads)
		threads = join->problem.max_threads;
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	per_thread = worker_bytes(join);
	while (threads > 1 && threads * per_thread > limit / 4)
		threads--;
	join->thread_limit = threads;

	join->block_pairs = BLOCK_PAIRS;
	while (join->block_pairs > BLOCK_PAIRS_MIN &&
		   pool_blocks(threads) * join->block_pairs * sizeof(FastedPair)
		   > limit / 8)
		join->block_pairs /= 2;

	join->chunk_bytes = CHUNK_BYTES;
	if (join->chunk_bytes > limit / 64)
		join->chunk_bytes = limit / 64;
	if (join->problem.expected_rows > 0 &&
		join->problem.expected_rows < join->chunk_bytes / row_bytes)
		join->chunk_bytes = join->problem.expected_rows * row_bytes;

	fixed = threads * per_thread
		+ pool_blocks(threads) * join->block_pairs * sizeof(FastedPair)
		+ 2 * (join->chunk_bytes > row_bytes ? join->chunk_bytes : row_bytes)
		+ 2 * row_bytes			/* centres */
		+ limit / 64;			/* pieces are rounded up to pages */
	join->row_limit = fixed < limit
		? (limit - fixed) / (row_bytes + packed_row_bytes(join)
							 + threshold_row_bytes(join)) : 0;
	if (join->row_limit < least)
		join->row_limit = least;
	if (join->row_limit > FASTED_MAX_ROWS)
		join->row_limit = FASTED_MAX_ROWS;
}

/* No more threads than there is work for, and blocks that feed them all. */
static void
plan_threads(FastedJoin *join, uint64_t rows)
{
	uint32_t	step = join->kernel->tile_cols;
	double		work = 0.5 * (double) rows * (double) rows
		* join->problem.dimensions;
	double		useful = 1.0 + work / THREAD_WORK;
	uint64_t	units;

	join->nworkers = join->thread_limit;
	if (useful < join->nworkers)
		join->nworkers = (int) useful;

	join->block_rows = FASTED_MAX_BLOCK;
	for (;;)
	{
		units = fasted_triangle((rows + join->block_rows - 1)
								/ join->block_rows);
		if (units >= (uint64_t) join->nworkers * UNITS_PER_THREAD ||
			join->block_rows <= step || join->nworkers == 1)
			break;
		join->block_rows -= step;
	}
	if (units < (uint64_t) join->nworkers)
		join->nworkers = (int) units;

	join->order.group = GROUP_BLOCKS;
	while (join->order.group > 1 && units / join->order.group
		   < (uint64_t) join->nworkers * STRIPS_PER_THREAD)
		join->order.group /= 2;
	join->hit_stride = join->order.group * FASTED_HIT_BYTES;
}

static uint64_t
panel_blocks(const FastedJoin *join, uint64_t panel)
{
	uint64_t	left = join->total_rows - panel * join->panel_rows;
	uint64_t	rows = left < join->panel_rows ? left : join->panel_rows;

	return (rows + join->block_rows - 1) / join->block_rows;
}

/* Units of all rounds; all panels but the last are alike. */
static uint64_t
count_units(const FastedJoin *join)
{
	uint64_t	full = join->npanels - 1;
	uint64_t	blocks = panel_blocks(join, 0);
	uint64_t	last = panel_blocks(join, full);
	uint64_t	units = fasted_triangle(last);

	if (full > 0)
		units += full * fasted_triangle(blocks) + full * blocks * last
			+ fasted_triangle(full - 1) * blocks * blocks;
	return units;
}

/* So many rows, and padding to whole tiles. */
static uint64_t
whole_tiles(const FastedJoin *join, uint64_t rows)
{
	uint64_t	step = join->kernel->tile_cols;

	return (rows + step - 1) / step * step;
}

/* Sets up a slot for this many rows; those it holds already stay. */
bool
cpu_slot_reserve(FastedJoin *join, Slot *slot, uint64_t rows)
{
	size_t		padded = whole_tiles(join, rows);

	slot->packed_bytes = padded * packed_row_bytes(join);
	slot->threshold_bytes = padded * threshold_row_bytes(join);
	slot->packed = fasted_cpu_map(slot->packed_bytes, &join->memory);
	slot->threshold = fasted_cpu_map(slot->threshold_bytes, &join->memory);
	return slot->packed != NULL && slot->threshold != NULL;
}

/*
 * Where the packed rows and thresholds are, of as many rows as there are.  In
 * INT8 both sides have their own, columns first.
 */
void
cpu_slot_lay_out(const FastedJoin *join, Slot *slot, bool int8)
{
	uint32_t	d = join->problem.dimensions;
	PackLayout *layout = &slot->layout;

	layout->int8 = int8;
	layout->words = int8 ? cpu_padded(join) / 4 : d;
	layout->slice = int8 ? slice_length(join->kernel, layout->words) : join->slice;
	layout->padded_rows = whole_tiles(join, slot->rows.rows);
	slot->as_a.packed = slot->as_b.packed = slot->packed;
	slot->as_a.threshold = slot->as_b.threshold = slot->threshold;
	if (int8)
	{
		slot->as_a.packed = (uint32_t *) slot->packed
			+ layout->padded_rows * layout->words;
		slot->as_a.threshold = (int32_t *) slot->threshold + layout->padded_rows;
	}
}

void
cpu_slot_free(FastedJoin *join, Slot *slot)
{
	row_store_free(&slot->rows, &join->memory);
	fasted_cpu_unmap(slot->packed, slot->packed_bytes, &join->memory);
	fasted_cpu_unmap(slot->threshold, slot->threshold_bytes, &join->memory);
	slot->packed = slot->threshold = NULL;
}

/* Called by start: panels, blocks, and the memory of all of it. */
FastedStatus
cpu_plan_rounds(FastedJoin *join)
{
	uint64_t	step = join->kernel->tile_cols;
	uint64_t	staged = join->slots[0].rows.rows;
	bool		ok;

	if (join->total_rows == staged)
	{
		join->panel_rows = join->total_rows;
		join->npanels = 1;
	}
	else
	{
		uint64_t	most = join->row_limit / 2 / step * step;

		join->npanels = (join->total_rows + most - 1) / most;
		join->panel_rows = (join->total_rows + join->npanels - 1) / join->npanels;
		join->panel_rows = whole_tiles(join, join->panel_rows);
		join->npanels = (join->total_rows + join->panel_rows - 1)
			/ join->panel_rows;
		row_store_free(&join->slots[0].rows, &join->memory);
		row_store_init(&join->slots[0].rows, join->problem.dimensions,
					   join->chunk_bytes);
		row_store_init(&join->slots[1].rows, join->problem.dimensions,
					   join->chunk_bytes);
	}
	plan_threads(join, join->panel_rows);
	join->units_total = count_units(join);

	join->centre = fasted_cpu_map(join->problem.dimensions * sizeof(float),
								  &join->memory);
	join->int8_centre = fasted_cpu_map(join->problem.dimensions * sizeof(float),
									   &join->memory);
	ok = join->centre != NULL && join->int8_centre != NULL &&
		cpu_slot_reserve(join, &join->slots[0], join->panel_rows) &&
		(join->npanels == 1 ||
		 cpu_slot_reserve(join, &join->slots[1], join->panel_rows)) &&
		pair_pool_init(&join->pool, pool_blocks(join->nworkers),
					   join->block_pairs, &join->memory);
	if (!ok)
		return cpu_fail(join, FASTED_OUT_OF_MEMORY,
						"out of memory for a join of %llu rows",
						(unsigned long long) join->panel_rows);
	return FASTED_OK;
}
