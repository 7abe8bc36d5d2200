/*-------------------------------------------------------------------------
 *
 * cpu_plan.c
 *	  How many rows and threads there is memory for, and how a join is cut into work.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <unistd.h>

#include "cpu_levels.h"
#include "cpu_phases.h"

/* Pairs of a block, when memory allows; blocks for few threads. */
#define BLOCK_PAIRS 4096
#define BLOCK_PAIRS_MIN 64
#define BLOCKS_MIN 32

/* Rows whose lists there is always memory for, however long these are. */
#define FREE_LISTS(context) (2 * (uint64_t) (context)->kernel->tile_cols)

#define CHUNK_BYTES ((size_t) 8 << 20)
#define MAX_THREADS 1024

/* Multiply-adds for which one more thread pays. */
#define THREAD_WORK 4e6

/* Units for each thread, at least, so that all end at about the same time. */
#define UNITS_PER_THREAD 16

/* Strips for each thread at least: groups of blocks are no larger. */
#define STRIPS_PER_THREAD 8

#define THREADS_PER_SLICE 4

/* Blocks are no larger than such a part of a group. */
#define BLOCKS_A_GROUP 4

/* Below, the recheck takes hardly longer than the product of fine rows. */
#define FINE_DIMENSIONS 64

/* Sampled rows: a block of them, or fewer of many dimensions. */
#define SAMPLE_COORDINATES (1 << 18)
#define SAMPLE_ROWS_LEAST 96

/* The sets that a context is to hold without exceeding its memory. */
#define PLANNED_SETS 3

/* Long rows are left: their samples would be as large as all else. */
#define MOST_DIMENSIONS 8192

/* Fewer dimensions than two levels' are left. */
#define LEAST_DIMENSIONS LEVEL_WORDS(1)

/* Half of the machine, unless the caller sets a limit. */
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
 * Whether INT8 is tried.  With fewer than 32 dimensions rows would be padded to
 * more bytes than they have in FP32.
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

/* How many threads at most; they may take a quarter of the memory. */
static int
limit_threads(const FastedContext *context, uint64_t limit)
{
	const FastedOptions *options = &context->options;
	int			threads = options->threads;

	if (threads <= 0)
		threads = fasted_processors();
	if (options->max_threads > 0 && threads > options->max_threads)
		threads = options->max_threads;
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	return (int) cpu_clamp(limit / 4 / cpu_worker_bytes(context, false), 1, (uint32_t) threads);
}

/* Rows of a sample: a block of them, or fewer of many dimensions or for want of memory. */
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

/* What is not rows or of rows: a few sets' chunks, forms and padding, and all else. */
static uint64_t
fixed_bytes(const FastedContext *context, uint64_t limit)
{
	uint64_t	row_bytes = context->options.dimensions * sizeof(float);
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
		+ limit / 64;			/* pieces are rounded up to pages */
}

/* How many rows fit, and how many threads at most. */
static void
plan_memory(FastedContext *context, uint64_t limit)
{
	uint64_t	fixed;

	context->slice = cpu_slice_length(context->kernel, context->options.dimensions, 8);
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
		+ (context->may_prune ? cpu_levels_row_bytes(context) : 0)
		+ sizeof(uint32_t);		/* counts */
	context->row_limit = cpu_clamp(fixed < limit ? (limit - fixed) / context->row_bytes : 0,
								   2 * context->kernel->tile_cols, FASTED_MAX_ROWS);
}

/*
 * Does the filter multiply so many bytes at once that rows of the first level are
 * padded?  The costs of cpu_filter.c are not such a kernel's: beside its products,
 * rechecks and comparisons of sums take several times as long.
 */
static bool
pads_levels(const FastedContext *context)
{
	const CpuKernel *kernel = context->kernel;

	return context->may_use_int8 &&
		cpu_int8_words(kernel, LEVEL_WORDS(0)) * 4 > LEVEL_WORDS(0) * kernel->int8->bytes;
}

/* Called by the plan of memory, when INT8 is decided on. */
static bool
cpu_may_prune(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	if (options->prune == FASTED_PRUNE_OFF || options->dimensions > MOST_DIMENSIONS || context->product_kernel == NULL)
		return false;
	return options->prune == FASTED_PRUNE_FORCE ||
		(options->dimensions >= LEAST_DIMENSIONS && !pads_levels(context));
}

/* Could sets for which there is memory be worth it? */
static bool
cpu_prune_suits(const FastedContext *context, uint64_t limit)
{
	return context->options.prune == FASTED_PRUNE_FORCE ||
		(context->row_limit >= 2 * PRUNED_AREA_A_ROW && context->fit_bytes <= limit / 16);
}

/*
 * Called by open.  Where memory is for fewer rows than pruning pays for, none is
 * kept for it.
 */
void
cpu_plan_memory(FastedContext *context)
{
	uint64_t	limit = memory_limit(&context->options);

	context->may_use_int8 = may_use_int8(context);
	context->may_use_fine = context->may_use_int8 && context->kernel->int8->dot_fine != NULL &&
		context->options.dimensions >= FINE_DIMENSIONS;
	context->product_kernel = cpu_product_kernel(context->kernel);
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

/* Lists of k for so many rows take the memory of how many rows? */
uint64_t
cpu_list_rows(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);

	if (rows <= free_rows)
		return 0;
	return ((rows - free_rows) * list_bytes(k) + context->row_bytes - 1) / context->row_bytes;
}

/* So many rows' memory has room for how many with lists of k? */
uint64_t
cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);
	uint64_t	bytes = list_bytes(k);

	if (rows <= free_rows)
		return rows;
	return free_rows + (rows - free_rows) * context->row_bytes / (context->row_bytes + bytes);
}

/* How often so many claims go before slice s of all: s / slices of them, rounded down. */
static uint64_t
claims_before(const FastedJoin *join, uint64_t claims, uint64_t s)
{
	uint64_t	slices = join->problem.slices;

	return claims / slices * s + claims % slices * s / slices;
}

/* --- joins in which only rows of one group meet; these lie together, in the order they came in */

/* How many columns a row meets in its group, in the mean. */
static double
group_columns(const FastedJoin *join)
{
	double		columns = 0.0;
	double		rows = 0.0;

	for (uint32_t g = 0; g < join->problem.ngroups; g++)
	{
		FastedSpan	a = fasted_group_rows(&join->problem.groups[g], join->row_side);
		FastedSpan	b = fasted_group_rows(&join->problem.groups[g], !join->row_side);

		if (b.first == b.end)
			continue;
		columns += (double) (a.end - a.first) * (b.end - b.first);
		rows += a.end - a.first;
	}
	return rows > 0.0 ? columns / rows : 0.0;
}

/* Rows of a block, a multiple of step, that groups are worth. */
static uint32_t
group_block(const FastedJoin *join, uint32_t step)
{
	double		most = join->group_columns / BLOCKS_A_GROUP;

	if (most >= FASTED_MAX_BLOCK)
		return FASTED_MAX_BLOCK / step * step;
	return most < step ? step : (uint32_t) most / step * step;
}

/* The join's strips, of blocks as high and as many blocks wide as planned; false: memory ran out. */
static bool
plan_strips(FastedJoin *join)
{
	uint32_t	width = (uint32_t) join->order.group * join->block_rows;
	uint32_t	nspans = (uint32_t) join->order.rows;
	uint32_t	nstripes = (uint32_t) ceil_div(join->col_set->rows.rows, width);

	free(join->spans);
	free(join->stripes);
	join->spans = malloc(nspans * sizeof(FastedSpan));
	join->stripes = malloc(((size_t) nstripes + 1) * sizeof(FastedStripe));
	if (join->spans == NULL || join->stripes == NULL)
		return false;
	fasted_find_spans(join->problem.groups, join->problem.ngroups, join->row_side, join->self,
					  join->block_rows, join->spans, nspans);
	join->strips = (FastedGroupTiles) {
		.spans = join->spans,.stripes = join->stripes,.nstripes = nstripes,
		.count = fasted_find_stripes(join->spans, nspans, width, join->stripes, nstripes)
	};
	return true;
}

/* --- the work of a join */

/*
 * Blocks whose pairs feed all threads.  Of slices they must be the same wherever
 * these are joined, however many threads there are and by whatever kernel: those for
 * some threads, of whole tiles of every kernel.  False: memory ran out.
 */
static bool
plan_blocks(FastedJoin *join)
{
	uint64_t	slices = join->problem.slices;
	uint32_t	step = slices > 1 ? FASTED_COMMON_COLS : join->context->kernel->tile_cols;
	uint64_t	wanted = slices == 1 ? (uint64_t) join->nworkers : slices * THREADS_PER_SLICE;
	bool		grouped = join->problem.groups != NULL;
	uint64_t	units;

	join->order.triangle = join->self;
	if (grouped)
		join->group_columns = group_columns(join);
	join->block_rows = grouped ? group_block(join, step) : FASTED_MAX_BLOCK / step * step;
	for (;;)
	{
		join->order.rows = ceil_div(join->row_set->rows.rows, join->block_rows);
		join->order.cols = ceil_div(join->col_set->rows.rows, join->block_rows);
		join->order.group = 1;
		if (grouped && !plan_strips(join))
			return false;
		units = grouped ? join->strips.count : fasted_order_units(&join->order);
		if (units >= wanted * UNITS_PER_THREAD || join->block_rows <= step || wanted == 1)
			break;
		join->block_rows -= step;
	}
	if (units < (uint64_t) join->nworkers)
		join->nworkers = (int) units;
	join->order.group = GROUP_BLOCKS;
	while (join->order.group > 1 && units / join->order.group < wanted * STRIPS_PER_THREAD)
		join->order.group /= 2;
	join->hit_stride = join->order.group * FASTED_HIT_BYTES;
	return !grouped || plan_strips(join);
}

/* No more threads than there is work for, and the blocks and claims of the slice; false: no memory. */
bool
cpu_plan_join(FastedJoin *join)
{
	double		work = cpu_join_area(join) * join->context->options.dimensions
		/ join->problem.slices * (1 + join->problem.more_slices);
	double		useful = 1.0 + work / THREAD_WORK;
	uint64_t	claims;

	join->nworkers = join->context->thread_limit;
	if (useful < join->nworkers)
		join->nworkers = (int) useful;
	if (join->nearest)
	{
		/* those for whose sums there is memory: cpu_reserve_workers */
		uint64_t	each = cpu_worker_bytes(join->context, true);

		join->nworkers = (int) cpu_clamp(memory_limit(&join->context->options) / 4 / each,
										 1, (uint32_t) join->nworkers);
	}
	if (!plan_blocks(join))
		return false;
	claims = join->problem.groups != NULL ? join->strips.count
		: fasted_order_numbers(&join->order) / join->order.group;
	join->number = ++join->context->joins;
	join->spread = join->problem.slices > 1 && join->problem.alike && join->problem.groups == NULL;
	if (join->spread)
	{
		join->end_claim = claims;
		return true;
	}
	join->first_claim = claims_before(join, claims, join->problem.slice);
	join->end_claim = claims_before(join, claims, (uint64_t) join->problem.slice + 1 + join->problem.more_slices);
	return true;
}

/*
 * The sum of (step n + start) / 2^32, rounded down, over all n < count, modulo 2^64.  That
 * counts the points of a lattice below a line: of rows or, turned, of columns, which are
 * fewer, and so on as in Euclid's algorithm.  step < 2^32, start < 2^33, count < 2^32.
 */
static uint64_t
sum_of_quotients(uint64_t step, uint64_t start, uint64_t count)
{
	uint64_t	divisor = UINT64_C(1) << 32;
	uint64_t	sum = 0;

	for (;;)
	{
		uint64_t	last;
		uint64_t	turned = divisor;

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
		step = turned;
	}
}

/* The least place that is not before slice s of all: cpu_is_in_slice. */
static uint64_t
first_place(const FastedJoin *join, uint64_t s)
{
	return ((s << 32) + join->problem.slices - 1) / join->problem.slices;
}

/* How many numbers below end_claim are of the slice.  One by one would take seconds for 10^8 rows. */
uint64_t
cpu_claims_of(const FastedJoin *join)
{
	uint64_t	all = UINT64_C(1) << 32;
	uint64_t	rest = join->end_claim % all;
	uint64_t	from;
	uint64_t	to;
	uint64_t	start;

	if (!join->spread)
		return join->end_claim - join->first_claim;
	from = first_place(join, join->problem.slice);
	to = first_place(join, (uint64_t) join->problem.slice + 1 + join->problem.more_slices);
	/* each place comes once in so many claims */
	start = (uint32_t) join->number * SPREAD_STEP + all;
	return join->end_claim / all * (to - from) +
		sum_of_quotients(SPREAD_STEP, start - from, rest) -
		sum_of_quotients(SPREAD_STEP, start - to, rest);
}
