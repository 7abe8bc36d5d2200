/*-------------------------------------------------------------------------
 *
 * cpu_plan.c
 *	  Plans how many rows and threads fit into memory, and partitions a join into work items.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <unistd.h>

#include "cpu_levels.h"
#include "cpu_phases.h"

/* Pairs per block if memory allows, the least number of pairs, and the least number of blocks. */
#define BLOCK_PAIRS 4096
#define BLOCK_PAIRS_MIN 64
#define BLOCKS_MIN 32

/* Number of rows whose neighbor lists always fit into memory, however long they are. */
#define FREE_LISTS(context) (2 * (uint64_t) (context)->kernel->tile_cols)

#define CHUNK_BYTES ((size_t) 8 << 20)
#define MAX_THREADS 1024

/* Multiply-adds for which one more thread pays off. */
#define THREAD_WORK 4e6

/* Least number of units per thread, so that all threads end at about the same time. */
#define UNITS_PER_THREAD 16

/* Least number of strips per thread.  It limits the size of squares of blocks. */
#define STRIPS_PER_THREAD 8

#define THREADS_PER_SLICE 4

/* The mean partition is at least this number of blocks wide. */
#define BLOCKS_PER_PARTITION 4

/* Below this dimension the recheck takes hardly longer than a product of INT16 rows. */
#define INT16_DIMENSIONS 64

/* Limits of a sample, which is at most one block: total coordinates, and least number of rows. */
#define SAMPLE_COORDINATES (1 << 18)
#define SAMPLE_ROWS_LEAST 96

/* Number of sets that a context can hold without exceeding its memory limit. */
#define PLANNED_SETS 3

/*
 * Rows of more dimensions are not pruned: their samples would take as much memory as all other
 * buffers together.
 */
#define MOST_DIMENSIONS 8192

/* Rows of fewer dimensions than the second level has are not pruned. */
#define LEAST_DIMENSIONS LEVEL_WORDS(1)

/* Returns the memory limit in bytes: the caller's, or else half of the machine's memory. */
static uint64_t
memory_limit(const FastedOptions *options)
{
	long		pages = sysconf(_SC_PHYS_PAGES);
	long		size = sysconf(_SC_PAGESIZE);

	if (options->memory_limit > 0)
		return options->memory_limit;
	if (pages <= 0 || size <= 0)
		return UINT64_C(1) << 32;
	return (uint64_t) pages * (uint64_t) size / 2;
}

/*
 * Returns true if INT8 may be used.  Rows of fewer than 32 dimensions would be padded to 32 and
 * may then take more bytes than in FP32.
 */
static bool
may_use_int8(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	return context->kernel->int8 != NULL &&
		options->dimensions <= FASTED_INT8_MOST_DIMENSIONS &&
		(options->filter == FASTED_FILTER_INT8 ||
		 (options->filter == FASTED_FILTER_AUTO && options->dimensions >= 32));
}

size_t
cpu_pool_blocks(int threads)
{
	return 4 * threads > BLOCKS_MIN ? 4 * (size_t) threads : BLOCKS_MIN;
}

/* Returns the largest number of threads.  Together they may take a quarter of the memory. */
static int
limit_threads(const FastedContext *context, uint64_t limit)
{
	const FastedOptions *options = &context->options;
	int			threads = options->threads;

	if (threads <= 0)
		threads = fasted_processors();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	return (int) cpu_clamp(limit / 4 / cpu_worker_bytes(context, false), 1, (uint32_t) threads);
}

/* Returns the number of sampled rows: one block, or fewer if rows are long or memory is short. */
static uint32_t
limit_sample(const FastedContext *context, uint64_t limit)
{
	uint32_t	step = context->kernel->tile_cols;
	uint32_t	rows = cpu_clamp(SAMPLE_COORDINATES / context->options.dimensions,
								 SAMPLE_ROWS_LEAST, kernel_block(context->kernel));

	while (rows > step && 2 * rows * cpu_packed_row_bytes(context, FULL_STAGE) > limit / 16)
		rows -= step;
	return rows < step ? step : rows;
}

/*
 * Returns the bytes that do not depend on the number of rows: workers, pool, and for a few sets
 * chunks, forms and padding.
 */
static uint64_t
fixed_bytes(const FastedContext *context, uint64_t limit)
{
	uint64_t	row_bytes = context->bits ? 0 : context->options.dimensions * sizeof(float);
	uint64_t	stored_bytes = fasted_row_bytes(&context->options);
	uint64_t	packed_bytes = cpu_packed_row_bytes(context, FULL_STAGE)
		+ cpu_packed_side_bytes(context, FULL_STAGE);
	uint64_t	padding = PLANNED_SETS * context->kernel->tile_cols
		+ 2 * cpu_whole_tiles(context, context->sample_rows);

	return context->thread_limit * cpu_worker_bytes(context, false)
		+ cpu_pool_blocks(context->thread_limit) * context->block_pairs * sizeof(FastedPair)
		+ PLANNED_SETS * (context->chunk_bytes > stored_bytes ? context->chunk_bytes : stored_bytes)
		+ (PLANNED_SETS + 1) * 2 * row_bytes	/* forms */
		+ padding * packed_bytes
		+ (context->may_prune ? context->fit_bytes
		   + (PLANNED_SETS + 1) * cpu_projection_bytes(context) : 0)
		+ limit / 64;			/* allocations are rounded up to pages */
}

/* Computes the limits of rows and threads, and the sizes of blocks of pairs, chunks and samples. */
static void
plan_memory(FastedContext *context, uint64_t limit)
{
	uint64_t	fixed;

	context->longest_slice = cpu_longest_slice(context->kernel);
	context->slice = cpu_slice_length(context, cpu_filter_words(context), 8);
	context->thread_limit = limit_threads(context, limit);
	context->block_pairs = BLOCK_PAIRS;
	while (context->block_pairs > BLOCK_PAIRS_MIN &&
		   cpu_pool_blocks(context->thread_limit) * context->block_pairs * sizeof(FastedPair)
		   > limit / 8)
		context->block_pairs /= 2;
	context->chunk_bytes = limit / 64 < CHUNK_BYTES ? limit / 64 : CHUNK_BYTES;
	context->sample_rows = limit_sample(context, limit);

	fixed = fixed_bytes(context, limit);
	context->row_bytes = fasted_row_bytes(&context->options)
		+ cpu_packed_row_bytes(context, FULL_STAGE) + cpu_packed_side_bytes(context, FULL_STAGE)
		+ cpu_levels_row_bytes(context)
		+ sizeof(uint32_t);		/* counts, or the order of components */
	context->row_limit = cpu_clamp(fixed < limit ? (limit - fixed) / context->row_bytes : 0,
								   2 * context->kernel->tile_cols, FASTED_MAX_ROWS);
}

/* Returns true if joins may be pruned.  The field may_use_int8 must be set. */
static bool
cpu_may_prune(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	if (options->prune == FASTED_PRUNE_OFF || options->dimensions > MOST_DIMENSIONS ||
		context->product_kernel == NULL || context->product)
		return false;
	return options->prune == FASTED_PRUNE_FORCE ||
		options->dimensions >= LEAST_DIMENSIONS;
}

/* Returns true if pruning can pay for sets that fit into memory. */
static bool
cpu_prune_suits(const FastedContext *context, uint64_t limit)
{
	return context->options.prune == FASTED_PRUNE_FORCE ||
		(context->row_limit >= 2 * PRUNED_PAIRS_PER_ROW && context->fit_bytes <= limit / 16);
}

/*
 * Plans the memory of a context that is being opened.  If only sets too small for pruning fit into
 * memory, none is reserved for pruning.
 */
void
cpu_plan_memory(FastedContext *context)
{
	uint64_t	limit = memory_limit(&context->options);

	context->may_use_int8 = may_use_int8(context);
	context->may_use_int16 = context->may_use_int8 && context->kernel->int8->dot_int16 != NULL &&
		context->options.dimensions >= INT16_DIMENSIONS;
	context->product_kernel = context->bits ? NULL : cpu_product_kernel(context->kernel);
	context->may_prune = cpu_may_prune(context);
	if (context->may_prune)
		context->fit_bytes = cpu_fit_bytes(context);
	plan_memory(context, limit);
	if (context->may_prune && !cpu_prune_suits(context, limit))
	{
		context->may_prune = false;
		plan_memory(context, limit);
	}
}

bool
cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	uint64_t	left = context->row_limit;

	for (int i = 0; i < nsets; i++)
	{
		if (rows[i] > left)
			return false;
		left -= rows[i];
	}
	return true;
}

static uint64_t
list_bytes(uint32_t k)
{
	return neighbor_list_bytes(k < FASTED_MAX_NEIGHBORS ? k : FASTED_MAX_NEIGHBORS);
}

/*
 * Returns the number of rows without lists that take as much memory as the lists of k neighbors
 * of `rows` rows.
 */
uint64_t
cpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);

	if (rows <= free_rows)
		return 0;
	return ((rows - free_rows) * list_bytes(k) + context->row_bytes - 1) / context->row_bytes;
}

/*
 * Returns how many rows with lists of k neighbors fit into the memory of `rows` rows without
 * lists.
 */
uint64_t
cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);
	uint64_t	bytes = list_bytes(k);

	if (rows <= free_rows)
		return rows;
	return free_rows + (rows - free_rows) * context->row_bytes / (context->row_bytes + bytes);
}

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
	double		most = join->partition_columns / BLOCKS_PER_PARTITION;

	if (most >= FASTED_MAX_BLOCK)
		return FASTED_MAX_BLOCK / step * step;
	return most < step ? step : (uint32_t) most / step * step;
}

/*
 * Computes the strips of a join within partitions, for the planned size of blocks and squares.
 * Returns false if out of memory.
 */
static bool
plan_strips(FastedJoin *join)
{
	uint32_t	width = (uint32_t) join->order.square * join->block_rows;
	uint32_t	nspans = (uint32_t) join->order.rows;
	uint32_t	nstripes = (uint32_t) ceil_div(join->col_set->rows.rows, width);

	free(join->spans);
	free(join->stripes);
	join->spans = malloc(nspans * sizeof(FastedSpan));
	join->stripes = malloc(((size_t) nstripes + 1) * sizeof(FastedStripe));
	if (join->spans == NULL || join->stripes == NULL)
		return false;
	fasted_find_spans(join->problem.partitions, join->problem.npartitions, join->row_side, join->self,
					  join->block_rows, join->spans, nspans);
	join->strips = (FastedPartitionTiles) {
		.spans = join->spans,.stripes = join->stripes,.nstripes = nstripes,
		.count = fasted_find_stripes(join->spans, nspans, width, join->stripes, nstripes)
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
	uint64_t	wanted = slices == 1 ? (uint64_t) join->nworkers : slices * THREADS_PER_SLICE;
	bool		partitioned = join->problem.partitions != NULL;
	uint64_t	units;

	join->order.triangle = join->self;
	if (partitioned)
		join->partition_columns = partition_columns(join);
	join->block_rows = partitioned ? partition_block(join, step) : FASTED_MAX_BLOCK / step * step;
	for (;;)
	{
		join->order.rows = ceil_div(join->row_set->rows.rows, join->block_rows);
		join->order.cols = ceil_div(join->col_set->rows.rows, join->block_rows);
		join->order.square = 1;
		if (partitioned && !plan_strips(join))
			return false;
		units = partitioned ? join->strips.count : fasted_order_units(&join->order);
		if (units >= wanted * UNITS_PER_THREAD || join->block_rows <= step || wanted == 1)
			break;
		join->block_rows -= step;
	}
	if (units < (uint64_t) join->nworkers)
		join->nworkers = (int) units;
	join->order.square = SQUARE_BLOCKS;
	while (join->order.square > 1 && units / join->order.square < wanted * STRIPS_PER_THREAD)
		join->order.square /= 2;
	join->hit_stride = join->order.square * FASTED_HIT_BYTES;
	return !partitioned || plan_strips(join);
}

/* Plans the threads, blocks and work items of a join.  Returns false if out of memory. */
bool
cpu_plan_join(FastedJoin *join)
{
	double		work = cpu_join_area(join) * cpu_filter_words(join->context)
		/ join->problem.slices * (1 + join->problem.more_slices);
	double		useful = 1.0 + work / THREAD_WORK;
	uint64_t	items;

	join->nworkers = join->context->thread_limit;
	if (useful < join->nworkers)
		join->nworkers = (int) useful;
	if (join->nearest)
	{
		/* as many as have memory for their sums: cpu_reserve_workers */
		uint64_t	each = cpu_worker_bytes(join->context, true);

		join->nworkers = (int) cpu_clamp(memory_limit(&join->context->options) / 4 / each,
										 1, (uint32_t) join->nworkers);
	}
	if (!plan_blocks(join))
		return false;
	items = join->problem.partitions != NULL ? join->strips.count
		: fasted_order_numbers(&join->order) / join->order.square;
	join->number = ++join->context->joins;
	join->interleaved = join->problem.slices > 1 && join->problem.identical_kernels &&
		join->problem.partitions == NULL;
	if (join->interleaved)
	{
		join->end_item = items;
		return true;
	}
	join->first_item = items_before(join, items, join->problem.slice);
	join->end_item = items_before(join, items, (uint64_t) join->problem.slice + 1
								  + join->problem.more_slices);
	return true;
}

/*
 * Returns the sum of floor((step * n + start) / 2^32) over 0 <= n < count, modulo 2^64.  It counts
 * the lattice points below a line: rows of points first, then, with the axes swapped, the
 * remaining columns, as in Euclid's algorithm.  Requires step < 2^32, start < 2^33, count < 2^32.
 */
static uint64_t
sum_of_quotients(uint64_t step, uint64_t start, uint64_t count)
{
	uint64_t	divisor = UINT64_C(1) << 32;
	uint64_t	sum = 0;

	for (;;)
	{
		uint64_t	last;
		uint64_t	former = divisor;

		if (count > 0)
			sum += count * (count - 1) / 2 * (step / divisor);
		sum += count * (start / divisor);
		step %= divisor;
		last = step * count + start % divisor;
		if (last < divisor)
			return sum;
		count = last / divisor;
		start = last % divisor;
		divisor = step;
		step = former;
	}
}

/* Returns the least place in slice s or a later slice: see cpu_is_in_slice. */
static uint64_t
first_place(const FastedJoin *join, uint64_t s)
{
	return ((s << 32) + join->problem.slices - 1) / join->problem.slices;
}

/*
 * Returns the number of the slice's work items.  For 10^8 rows, testing them one by one would take
 * seconds.
 */
uint64_t
cpu_count_items(const FastedJoin *join)
{
	uint64_t	all = UINT64_C(1) << 32;
	uint64_t	rest = join->end_item % all;
	uint64_t	from;
	uint64_t	to;
	uint64_t	start;

	if (!join->interleaved)
		return join->end_item - join->first_item;
	from = first_place(join, join->problem.slice);
	to = first_place(join, (uint64_t) join->problem.slice + 1 + join->problem.more_slices);
	/* each place occurs once in 2^32 items */
	start = (uint32_t) join->number * GOLDEN_RATIO_STEP + all;
	return join->end_item / all * (to - from) +
		sum_of_quotients(GOLDEN_RATIO_STEP, start - from, rest) -
		sum_of_quotients(GOLDEN_RATIO_STEP, start - to, rest);
}
