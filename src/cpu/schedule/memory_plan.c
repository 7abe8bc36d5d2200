/*-------------------------------------------------------------------------
 *
 * memory_plan.c
 *	  Plans how many rows and threads fit into memory.
 *
 *-------------------------------------------------------------------------
 */
#include <unistd.h>

#include "../../engine/filter_bound.h"
#include "../filter/filters.h"
#include "../filter/level_choice.h"
#include "../rows/levels.h"
#include "../rows/projection.h"
#include "schedule.h"

/* Pairs per block if memory allows, the least number of pairs, and the least number of blocks. */
#define BLOCK_PAIRS 4096
#define BLOCK_PAIRS_MIN 64
#define BLOCKS_MIN 32

/* Number of rows whose neighbor lists always fit into memory, however long they are. */
#define FREE_LISTS(context) (2 * (uint64_t) (context)->kernel->tile_cols)

#define CHUNK_BYTES ((size_t) 8 << 20)
#define MAX_THREADS 1024

/* Below this dimension the recheck takes hardly longer than a product of INT16 rows. */
#define INT16_DIMENSIONS 64

/* Limits of a sample, which is at most one block: total coordinates, and least number of rows. */
#define SAMPLE_COORDINATES (1 << 18)
#define SAMPLE_ROWS_LEAST 96

/* Number of sets that a context can hold without exceeding its memory limit. */
#define PLANNED_SETS 3

/* Dimensions of pruned rows: those of the second level, and those whose samples fit into memory. */
#define LEAST_DIMENSIONS LEVEL_WORDS(1)
#define MOST_DIMENSIONS 8192

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

/* Returns true if INT8 may be used.  Rows of fewer than 32 dimensions would be padded to 32. */
static bool
may_use_int8(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	return context->kernel->int8 != NULL && options->dimensions <= FASTED_INT8_MOST_DIMENSIONS &&
		(options->filter == FASTED_FILTER_INT8 ||
		 (options->filter == FASTED_FILTER_AUTO && options->dimensions >= 32));
}

size_t
cpu_pool_blocks(int threads)
{
	return 4 * threads > BLOCKS_MIN ? 4 * (size_t) threads : BLOCKS_MIN;
}

int
cpu_limit_workers(const FastedContext *context, int workers, bool sums)
{
	return (int) cpu_clamp(memory_limit(&context->options) / 4 / cpu_worker_bytes(context, sums), 1,
						   (uint32_t) workers);
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
 * chunks, encodings and padding.
 */
static uint64_t
fixed_bytes(const FastedContext *context, uint64_t limit)
{
	uint64_t	row_bytes = context->metric->of_bits ? 0 : context->options.dimensions * sizeof(float);
	uint64_t	stored_bytes = fasted_row_bytes(&context->options);
	uint64_t	packed_bytes = cpu_packed_bytes(context, FULL_STAGE);
	uint64_t	padding = PLANNED_SETS * context->kernel->tile_cols
		+ 2 * cpu_whole_tiles(context, context->plan.sample_rows);

	return context->plan.thread_limit * cpu_worker_bytes(context, false)
		+ cpu_pool_blocks(context->plan.thread_limit) * context->plan.block_pairs * sizeof(FastedPair)
		+ PLANNED_SETS * (context->plan.chunk_bytes > stored_bytes ? context->plan.chunk_bytes : stored_bytes)
		+ (PLANNED_SETS + 1) * 2 * row_bytes	/* encodings */
		+ padding * packed_bytes
		+ (context->plan.may_prune ? context->plan.fit_bytes
		   + (PLANNED_SETS + 1) * cpu_projection_bytes(context) : 0)
		+ limit / 64;			/* allocations are rounded up to pages */
}

/* Computes the limits of rows and threads, and the sizes of blocks of pairs, chunks and samples. */
static void
plan_memory(FastedContext *context, uint64_t limit)
{
	int			threads = context->options.threads > 0 ? context->options.threads : fasted_processors();
	uint64_t	fixed;

	context->plan.longest_segment = cpu_longest_segment(context->kernel);
	context->plan.segment = cpu_segment_words(context, cpu_filter_words(context), 8);
	context->plan.thread_limit =
		cpu_limit_workers(context, threads < MAX_THREADS ? threads : MAX_THREADS, false);
	context->plan.block_pairs = BLOCK_PAIRS;
	while (context->plan.block_pairs > BLOCK_PAIRS_MIN &&
		   cpu_pool_blocks(context->plan.thread_limit) * context->plan.block_pairs * sizeof(FastedPair)
		   > limit / 8)
		context->plan.block_pairs /= 2;
	context->plan.chunk_bytes = limit / 64 < CHUNK_BYTES ? limit / 64 : CHUNK_BYTES;
	context->plan.sample_rows = limit_sample(context, limit);

	fixed = fixed_bytes(context, limit);
	context->plan.row_bytes = fasted_row_bytes(&context->options)
		+ cpu_packed_bytes(context, FULL_STAGE)
		+ cpu_levels_row_bytes(context)
		+ sizeof(uint32_t);		/* counts, or the order of components */
	context->plan.row_limit = cpu_clamp(fixed < limit ? (limit - fixed) / context->plan.row_bytes : 0,
								   2 * context->kernel->tile_cols, FASTED_MAX_ROWS);
}

/* Returns true if joins may be pruned.  The field product_kernel must be set. */
static bool
may_prune(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	return options->prune != FASTED_PRUNE_OFF && options->dimensions <= MOST_DIMENSIONS &&
		context->product_kernel != NULL && !context->metric->negative_product &&
		(options->prune == FASTED_PRUNE_FORCE || options->dimensions >= LEAST_DIMENSIONS);
}

/* Returns true if pruning can pay for sets that fit into memory. */
static bool
pruning_suits(const FastedContext *context, uint64_t limit)
{
	return context->options.prune == FASTED_PRUNE_FORCE ||
		(context->plan.row_limit >= 2 * PRUNED_PAIRS_PER_ROW && context->plan.fit_bytes <= limit / 16);
}

void
cpu_plan_memory(FastedContext *context)
{
	uint64_t	limit = memory_limit(&context->options);

	context->integer_filter = may_use_int8(context) ? &cpu_filter_integers : NULL;
	context->plan.may_use_int16 = context->integer_filter != NULL &&
		context->kernel->int8->dot_int16 != NULL &&
		context->options.dimensions >= INT16_DIMENSIONS;
	context->product_kernel = context->metric->of_bits ? NULL : cpu_product_kernel(context->kernel);
	context->plan.may_prune = may_prune(context);
	if (context->plan.may_prune)
		context->plan.fit_bytes = cpu_fit_bytes(context);
	plan_memory(context, limit);
	if (context->plan.may_prune && !pruning_suits(context, limit))
	{
		context->plan.may_prune = false;
		plan_memory(context, limit);
	}
}

bool
cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	uint64_t	left = context->plan.row_limit;

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

uint64_t
cpu_rows_for_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);

	if (rows <= free_rows)
		return 0;
	return ((rows - free_rows) * list_bytes(k) + context->plan.row_bytes - 1) / context->plan.row_bytes;
}

uint64_t
cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k)
{
	uint64_t	free_rows = FREE_LISTS(context);
	uint64_t	bytes = list_bytes(k);

	if (rows <= free_rows)
		return rows;
	return free_rows + (rows - free_rows) * context->plan.row_bytes / (context->plan.row_bytes + bytes);
}
