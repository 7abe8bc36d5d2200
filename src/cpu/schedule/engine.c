/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  Implementation of the engine interface: contexts, sets of rows, joins.
 *
 * The folders of the CPU engine.  A folder includes only itself and those above it.
 *
 *	  kernels	  products, packing and distances, for each instruction set; choice of a kernel
 *	  store		  memory; input rows; lists of neighbors; blocks of pairs
 *	  state		  contexts, sets, joins and workers; packed rows; the filter as an object
 *	  rows		  filter rows, encodings, packing, projection, order
 *	  filter	  the filters; choice among them; hit map of a strip, and its recheck
 *	  nearest	  initial radii of a join for nearest neighbors
 *	  schedule	  memory and work plans; threads and phases of a join; this file
 *
 * The packed rows of a set depend on an encoding and a filter.  Sets that are joined share their
 * encoding.  Thresholds also depend on eps.  Only the caller's thread allocates and frees memory.
 *
 * The path of a row: it is stored (store/row_store.h), converted to a filter row (rows/filter_row.h),
 * packed (rows/pack.h) by a filter (state/cpu_filter.h), and compared in strips (filter/strip.h).  The
 * candidates are rechecked (filter/recheck.h), and pairs are passed to the caller in blocks
 * (store/pair_pool.h).
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../filter/choice.h"
#include "../filter/components.h"
#include "../filter/filters.h"
#include "../filter/level_choice.h"
#include "../rows/levels.h"
#include "../rows/order.h"
#include "schedule.h"

/* --- sets */

/* Returns the chunk size in bytes, limited to the expected number of rows. */
static size_t
chunk_bytes(const FastedContext *context, const FastedSetOptions *options)
{
	size_t		row_bytes = fasted_row_bytes(&context->options);
	size_t		bytes = context->plan.chunk_bytes;

	if (options->expected_rows > 0 && options->expected_rows < bytes / row_bytes)
		bytes = options->expected_rows * row_bytes;
	if (options->most_rows > 0 && options->most_rows < bytes / row_bytes)
		bytes = options->most_rows * row_bytes;
	return bytes;
}

static FastedStatus
cpu_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	FastedSet  *set = calloc(1, sizeof(*set));

	*result = set;
	if (set == NULL)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY,
						"Could not allocate memory for a set of rows.");
	set->context = context;
	set->options = *options;
	set->eps = set->levels.eps = NAN;
	row_store_init(&set->rows, fasted_row_floats(&context->options), chunk_bytes(context, options),
				   options->expected_rows == 0);
	set->next = context->sets;
	context->sets = set;
	return FASTED_OK;
}

static FastedStatus
cpu_set_reset(FastedSet *set, uint64_t first_row)
{
	const FastedJoin *join = set->context->join;

	if (join != NULL && (join->sets[0] == set || join->sets[1] == set))
		return cpu_fail(set->context, FASTED_INTERNAL,
						"cannot reset a set of rows that is in use by a join");
	if (set->rows.rows > set->held)
		set->held = set->rows.rows;
	set->rows.rows = set->rows.offered = 0;
	set->options.first_row = first_row;
	set->sealed = false;
	set->lists.k = 0;
	cpu_set_discard_packed(set);
	return FASTED_OK;
}

static void
cpu_set_close(FastedSet *set)
{
	FastedContext *context;
	FastedSet **link;

	if (set == NULL)
		return;
	context = set->context;
	for (link = &context->sets; *link != set;)
		link = &(*link)->next;
	*link = set->next;
	cpu_set_discard_packed(set);
	row_store_free(&set->rows, &context->memory);
	cpu_packed_free(context, &set->packed);
	cpu_levels_free(context, &set->levels);
	fasted_cpu_unmap(set->counts, set->counts_capacity * sizeof(uint32_t), &context->memory);
	neighbor_lists_free(&set->lists, &context->memory);
	free(set);
}

/* Returns the number of rows for which this set holds memory, staged rows included. */
static uint64_t
held_rows(const FastedSet *set)
{
	uint64_t	rows = set->rows.rows + set->rows.offered;

	return rows > set->held ? rows : set->held;
}

/* Returns how many more rows fit into this set. */
static uint64_t
rows_left(const FastedSet *set)
{
	const FastedContext *context = set->context;
	uint64_t	most = context->plan.row_limit;
	uint64_t	others = 0;

	for (const FastedSet *other = context->sets; other != NULL; other = other->next)
	{
		if (other != set)
			others += held_rows(other)
				+ cpu_rows_for_lists(context, held_rows(other), other->options.neighbors);
	}
	most = most > others ? cpu_rows_with_lists(context, most - others, set->options.neighbors) : 0;
	if (set->options.most_rows > 0 && most > set->options.most_rows)
		most = set->options.most_rows;
	return most > set->rows.rows ? most - set->rows.rows : 0;
}

static FastedStatus
cpu_stage(FastedSet *set, float **rows, size_t *capacity)
{
	uint64_t	left = rows_left(set);

	*rows = NULL;
	*capacity = 0;
	if (set->sealed)
		return cpu_fail(set->context, FASTED_INTERNAL, "cannot stage rows in a sealed set");
	if (left == 0)
		return FASTED_FULL;
	*rows = row_store_offer(&set->rows, left, capacity, &set->context->memory);
	if (*rows == NULL)
		return cpu_fail(set->context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for more than %zu rows.",
						set->rows.rows);
	return FASTED_OK;
}

static FastedStatus
cpu_commit(FastedSet *set, size_t nrows)
{
	if (set->sealed || !row_store_commit(&set->rows, nrows))
		return cpu_fail(set->context, FASTED_INTERNAL,
						"cannot commit %zu rows that have not been staged", nrows);
	return FASTED_OK;
}

/* Rows are copied at once.  Registering is allowed so that callers of put also run without a GPU. */
static bool
cpu_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	(void) memory;
	(void) bytes;
	return !set->sealed;
}

static void
cpu_unregister_memory(FastedSet *set)
{
	(void) set;
}

static FastedStatus
cpu_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	float	   *buffer;
	size_t		capacity;
	FastedStatus status = cpu_stage(set, &buffer, &capacity);

	*taken = 0;
	if (status != FASTED_OK)
		return status;
	if (capacity > nrows)
		capacity = nrows;
	memcpy(buffer, rows, capacity * set->rows.row_floats * sizeof(float));
	*taken = capacity;
	return cpu_commit(set, capacity);
}

static FastedStatus
cpu_wait_read(FastedSet *set, bool all)
{
	(void) all;
	(void) set;
	return FASTED_OK;
}

static FastedStatus
cpu_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	const RowStore *store = &set->rows;
	size_t		floats = store->row_floats;

	if (set->sealed || first_row > store->rows || nrows > store->rows - first_row)
		return cpu_fail(set->context, FASTED_INTERNAL,
						"cannot read back rows that have not been staged");
	for (size_t i = 0; i < nrows; i++)
		memcpy(rows + i * floats, row_store_row(store, first_row + i), floats * sizeof(float));
	return FASTED_OK;
}

static FastedStatus
cpu_select_rows(FastedSet *set, const FastedSet *from, const uint32_t *positions, size_t nrows)
{
	const RowStore *store = &from->rows;
	FastedStatus status = FASTED_OK;
	size_t		taken;

	if (set->sealed || !from->sealed || from->context != set->context ||
		(nrows > 0 && positions[nrows - 1] >= store->rows))
		return cpu_fail(set->context, FASTED_INTERNAL, "cannot select rows of a set");
	if (nrows > rows_left(set))
		return FASTED_FULL;
	for (size_t i = 0; i < nrows && status == FASTED_OK; i++)
		status = cpu_put(set, row_store_row(store, positions[i]), 1, &taken);
	return status;
}

static FastedStatus
cpu_seal(FastedSet *set)
{
	if (set->sealed)
		return cpu_fail(set->context, FASTED_INTERNAL, "set of rows is already sealed");
	set->rows.offered = 0;
	set->sealed = true;
	if (!cpu_packed_reserve(set->context, &set->packed, set->rows.rows, FULL_STAGE))
		return cpu_fail(set->context, FASTED_OUT_OF_MEMORY,
						"Could not allocate memory for a join of %zu rows.", set->rows.rows);
	return FASTED_OK;
}

/* --- joins */

static void
cpu_join_close(FastedJoin *join)
{
	FastedContext *context;

	if (join == NULL)
		return;
	context = join->context;
	cpu_stop_join(join);
	cpu_keep_encodings(join);
	cpu_keep_levels(join);
	cpu_end_grouping(join);
	pair_pool_reset(&context->pool);
	context->caller_block = NULL;
	context->join = NULL;
	free(join->work.spans);
	free(join->work.stripes);
	free(join);
}

static FastedStatus
check_problem(FastedContext *context, const FastedProblem *problem, const FastedSet *a,
			  const FastedSet *b)
{
	if (!(problem->eps >= 0.0) && (!context->metric->negative_product || isnan(problem->eps)))
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"The value of eps must not be negative or NaN.");
	if ((uint64_t) problem->slice + problem->more_slices >= (problem->slices > 0 ? problem->slices : 1))
		return cpu_fail(context, FASTED_INTERNAL, "invalid slice number %u of %u",
						problem->slice + problem->more_slices, problem->slices);
	if (problem->output == FASTED_OUTPUT_CONNECTIONS || problem->output == FASTED_OUTPUT_REPRESENTATIVES)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"The CPU engine does not return connections or representatives.");
	if (problem->output == FASTED_OUTPUT_NEAREST)
	{
		if (problem->k < 1 || problem->k > FASTED_MAX_NEIGHBORS)
			return cpu_fail(context, FASTED_UNSUPPORTED,
							"The number of nearest neighbors must be between 1 and %u, not %u.",
							FASTED_MAX_NEIGHBORS, problem->k);
		if (problem->slices > 1)
			return cpu_fail(context, FASTED_UNSUPPORTED,
							"A join for nearest neighbors cannot be divided into slices.");
		if (problem->continues && (a == b || a->lists.k != problem->k ||
								 !(a->lists.eps == problem->eps)))
			return cpu_fail(context, FASTED_INTERNAL,
							"no matching neighbor lists to continue from");
	}
	if (problem->components != NULL && (problem->output != FASTED_OUTPUT_NEAREST || a == b))
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"Components require a join of two sets for nearest neighbors.");
	if (problem->partitions != NULL &&
		!fasted_partitions_are_valid(problem->partitions, problem->npartitions, a->rows.rows, b->rows.rows,
								 a == b))
		return cpu_fail(context, FASTED_INTERNAL, "invalid partitions");
	if (!a->sealed || !b->sealed || context->join != NULL)
		return cpu_fail(context, FASTED_INTERNAL,
						"cannot open a join: a set is not sealed, or another join is open");
	return FASTED_OK;
}

static FastedJoin *
make_join(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b)
{
	FastedJoin *join = calloc(1, sizeof(*join));
	bool		swap = a->rows.rows > b->rows.rows;

	if (join == NULL)
		return NULL;
	join->context = context;
	join->problem = *problem;
	if (join->problem.slices == 0)
		join->problem.slices = 1;
	join->sets[0] = a;
	join->sets[1] = b;
	join->self = a == b;
	join->nsets = join->self ? 1 : 2;
	join->nearest = problem->output == FASTED_OUTPUT_NEAREST;
	/* tiles are wider than high, so the smaller set fills them better as rows */
	join->row_side = swap;
	join->row_set = swap ? b : a;
	join->col_set = swap ? a : b;
	join->choice.int16_pays = true;
	join->filter = context->filter;
	join->phase = PHASE_OVER;
	return join;
}

static bool
zero_counts(FastedJoin *join)
{
	MemoryCount *memory = &join->context->memory;

	if (join->problem.output != FASTED_OUTPUT_COUNTS || join->problem.continues)
		return true;
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		fasted_cpu_unmap(set->counts, set->counts_capacity * sizeof(uint32_t), memory);
		set->counts_capacity = set->rows.rows;
		set->counts = fasted_cpu_map(set->counts_capacity * sizeof(uint32_t), memory);
		if (set->counts == NULL)
			return false;
	}
	return true;
}

/* Creates empty neighbor lists, or retains those of the last join.  False if out of memory. */
static bool
begin_lists(FastedJoin *join)
{
	FastedSet  *set = join->sets[0];

	if (!join->nearest || join->problem.continues)
		return true;
	if (!neighbor_lists_begin(&set->lists, set->rows.rows, join->problem.k, join->problem.eps,
							  &set->context->memory))
		return false;
	if (join->problem.components != NULL)
		cpu_bound_radii(join);
	return true;
}

static FastedStatus
start_work(FastedJoin *join)
{
	FastedContext *context = join->context;
	FastedStatus status;

	if (!cpu_plan_join(join))
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a join.");
	status = cpu_reserve_workers(context, join->work.nworkers, join->nearest);
	if (status != FASTED_OK)
		return status;
	if (join->work.nworkers > context->threads.nthreads)
		join->work.nworkers = context->threads.nthreads;
	if ((join->problem.output == FASTED_OUTPUT_PAIRS &&
		 !pair_pool_reserve(&context->pool, cpu_pool_blocks(join->work.nworkers), context->plan.block_pairs,
							&context->memory)) ||
		!cpu_prepare_pruning(join) || !context->filter->prepare_choice(join) || !cpu_reserve_grouping(join))
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a join.");
	context->stats.units_total += cpu_count_items(join);
	cpu_begin_join(join);
	return FASTED_OK;
}

static FastedStatus
cpu_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
			  FastedSet *b, FastedJoin **result)
{
	FastedStatus status = check_problem(context, problem, a, b);
	FastedJoin *join;

	*result = NULL;
	if (status != FASTED_OK)
		return status;
	join = make_join(context, problem, a, b);
	if (join == NULL || !zero_counts(join) || !begin_lists(join))
	{
		free(join);
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a join.");
	}
	context->join = join;
	if (cpu_join_area(join) > 0.0)
		status = start_work(join);
	if (status != FASTED_OK)
		cpu_join_close(join);
	else
		*result = join;
	return status;
}

static FastedStatus
cpu_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedContext *context = join->context;
	struct timespec deadline = fasted_deadline(timeout_ms);
	PairBlock  *block;
	int			rc = 0;
	bool		over;

	memset(batch, 0, sizeof(*batch));
	pthread_mutex_lock(&context->threads.lock);
	cpu_rest_after(context, CALLER_AWAY_MS + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0));
	if (context->caller_block != NULL)
	{
		/* the caller has finished with the last batch */
		pair_pool_release(&context->pool, context->caller_block);
		pthread_cond_signal(&context->threads.free_cond);
	}
	while ((block = pair_pool_pop(&context->pool.queue_head)) == NULL && join->phase != PHASE_OVER && rc == 0)
		rc = pthread_cond_timedwait(&context->threads.out_cond, &context->threads.lock, &deadline);
	context->caller_block = block;
	over = join->phase == PHASE_OVER;
	pthread_mutex_unlock(&context->threads.lock);
	if (block == NULL)
		return over ? FASTED_DONE : FASTED_AGAIN;
	batch->pairs = block->pairs;
	batch->npairs = block->npairs;
	return FASTED_OK;
}

static void
cpu_pause(FastedJoin *join)
{
	pthread_mutex_lock(&join->context->threads.lock);
	cpu_rest_after(join->context, PAUSE_MS);
	pthread_mutex_unlock(&join->context->threads.lock);
}

static FastedStatus
cpu_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	const FastedSet *set = join->sets[side == 1];
	uint64_t	rows = set->rows.rows;

	if (join->problem.output != FASTED_OUTPUT_COUNTS || side < 0 || side > (join->self ? 0 : 1) ||
		first_row > rows || nrows > rows - first_row)
		return cpu_fail(join->context, FASTED_INTERNAL,
						"requested counts are not available from this join");
	for (size_t i = 0; i < nrows; i++)
		counts[i] = atomic_load_explicit(&set->counts[first_row + i], memory_order_relaxed);
	return FASTED_OK;
}

static FastedStatus
cpu_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			FastedNeighbor *neighbors)
{
	const NeighborLists *lists = &join->sets[0]->lists;

	if (!join->nearest || first_row > lists->rows || nrows > lists->rows - first_row)
		return cpu_fail(join->context, FASTED_INTERNAL,
						"requested neighbors are not available from this join");
	for (size_t i = 0; i < nrows; i++)
		lengths[i] = neighbor_lists_sorted(lists, first_row + i, neighbors + i * lists->k);
	return FASTED_OK;
}

/* --- contexts */

static FastedStatus
cpu_probe(const char *devices, char *reason, size_t size)
{
	(void) devices;
	if (reason != NULL && size > 0)
		reason[0] = '\0';
	return FASTED_OK;
}

/* Checks the options and chooses the kernel. */
static FastedStatus
check_options(FastedContext *context)
{
	const FastedOptions *options = &context->options;

	if (options->dimensions < 1 || options->dimensions > FASTED_MAX_DIMENSIONS)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"Vectors must have between 1 and %u dimensions, not %u.",
						FASTED_MAX_DIMENSIONS, options->dimensions);
	if (context->metric == NULL)
		return cpu_fail(context, FASTED_UNSUPPORTED, "Metric %d is unknown.", (int) options->metric);
	if (context->metric->of_bits != (options->element == FASTED_ELEMENT_BIT))
		return cpu_fail(context, FASTED_UNSUPPORTED, "Metric %d is not for elements of type %d.",
						(int) options->metric, (int) options->element);

	context->kernel = fasted_cpu_choose_kernel(options->kernel);
	if (context->kernel == NULL)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"This CPU does not support the CPU kernel \"%.32s\".\n"
						"Use \"SET fasted.cpu_kernel = auto\".",
						options->kernel);
	if (context->metric->of_bits)
		context->kernel = kernel_of_bits(context->kernel);
	context->dot = context->doubles ? context->kernel->dot_double : context->kernel->dot;
	context->distance = context->metric->of_product ? context->dot
		: context->doubles ? context->kernel->distance_double : context->kernel->distance;
	return FASTED_OK;
}

/* Initializes the lock and the condition variables, which use the monotonic clock. */
static bool
init_locks(FastedContext *context)
{
	pthread_condattr_t attr;
	bool		ok;

	if (pthread_condattr_init(&attr) != 0)
		return false;
	ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
		pthread_mutex_init(&context->threads.lock, NULL) == 0 &&
		pthread_cond_init(&context->threads.work_cond, &attr) == 0 &&
		pthread_cond_init(&context->threads.free_cond, &attr) == 0 &&
		pthread_cond_init(&context->threads.out_cond, &attr) == 0 &&
		pthread_cond_init(&context->threads.rest_cond, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return ok;
}

static char processor_name[96];
static pthread_once_t processor_named = PTHREAD_ONCE_INIT;

/* Stores the CPU's model name.  It is read once, because CPUID makes a virtual machine exit. */
static void
find_processor_name(void)
{
	struct utsname system;
#if defined(__x86_64__)
	unsigned	brand[13] = {0};
	const char *text = (const char *) brand;

	for (unsigned i = 0; i < 3; i++)
		(void) __get_cpuid(0x80000002U + i, &brand[4 * i], &brand[4 * i + 1],
						   &brand[4 * i + 2], &brand[4 * i + 3]);
	while (*text == ' ')
		text++;
	snprintf(processor_name, sizeof(processor_name), "%s", text);
	if (*text != '\0')
		return;
#endif
	snprintf(processor_name, sizeof(processor_name), "%s", uname(&system) == 0 ? system.machine : "cpu");
}

/* Fills in the statistics that are known when the context is opened. */
static void
name_all(FastedContext *context)
{
	FastedStats *stats = &context->stats;

	pthread_once(&processor_named, find_processor_name);
	snprintf(stats->engine, sizeof(stats->engine), "cpu");
	snprintf(stats->filter, sizeof(stats->filter), "%s", context->filter->name);
	snprintf(stats->device, sizeof(stats->device), "%s", processor_name);
	if (context->kernel != NULL)
		snprintf(stats->kernel, sizeof(stats->kernel), "%s", context->kernel->name);
	stats->dimensions = context->options.dimensions;
}

static FastedStatus
cpu_open(const FastedOptions *options, FastedContext **result)
{
	FastedContext *context = calloc(1, sizeof(*context));
	FastedStatus status;

	*result = NULL;
	if (context == NULL)
		return FASTED_OUT_OF_MEMORY;
	if (!init_locks(context))
	{
		free(context);
		return FASTED_OUT_OF_MEMORY;
	}
	*result = context;
	context->options = *options;
	context->metric = fasted_metric_rules(options->metric);
	context->doubles = options->element == FASTED_ELEMENT_DOUBLE;
	context->filter = options->element == FASTED_ELEMENT_BIT ? &cpu_filter_bits : &cpu_filter_fp32;
	context->length = context->filter == &cpu_filter_bits ? fasted_bit_words(options->dimensions)
		: options->dimensions;
	context->padded = (options->dimensions + 31) / 32 * 32;
	status = check_options(context);
	/* the caller may free its strings */
	context->options.kernel = context->options.devices = NULL;
	name_all(context);
	if (!FASTED_FAILED(status))
		cpu_plan_memory(context);
	return status;
}

static void
cpu_stats(const FastedContext *context, FastedStats *stats)
{
	pthread_mutex_t *lock = (pthread_mutex_t *) (uintptr_t) &context->threads.lock;

	pthread_mutex_lock(lock);
	*stats = context->stats;
	pthread_mutex_unlock(lock);
	stats->threads = context->join != NULL ? context->join->work.nworkers : context->threads.nthreads;
	stats->host_bytes = context->memory.peak;
}

static const char *
cpu_last_error(const FastedContext *context)
{
	return context == NULL ? "Could not allocate memory for a context." : context->error;
}

static void
cpu_close(FastedContext *context)
{
	if (context == NULL)
		return;
	cpu_join_close(context->join);
	cpu_end_workers(context);
	pair_pool_free(&context->pool, &context->memory);
	while (context->sets != NULL)
		cpu_set_close(context->sets);
	for (int i = 0; i < 2; i++)
		cpu_packed_free(context, &context->samples[i]);
	fasted_cpu_unmap(context->fit_buffer, context->plan.fit_bytes, &context->memory);
	pthread_cond_destroy(&context->threads.rest_cond);
	pthread_cond_destroy(&context->threads.out_cond);
	pthread_cond_destroy(&context->threads.free_cond);
	pthread_cond_destroy(&context->threads.work_cond);
	pthread_mutex_destroy(&context->threads.lock);
	free(context);
}

static const FastedEngine cpu_engine = {
	.abi = FASTED_ENGINE_ABI,
	.name = "cpu",
	.probe = cpu_probe,
	.open = cpu_open,
	.stats = cpu_stats,
	.last_error = cpu_last_error,
	.close = cpu_close,
	.fits = cpu_fits,
	.set_open = cpu_set_open,
	.stage = cpu_stage,
	.commit = cpu_commit,
	.register_memory = cpu_register_memory,
	.unregister_memory = cpu_unregister_memory,
	.put = cpu_put,
	.wait_read = cpu_wait_read,
	.read_back = cpu_read_back,
	.seal = cpu_seal,
	.set_reset = cpu_set_reset,
	.set_close = cpu_set_close,
	.join_open = cpu_join_open,
	.next = cpu_next,
	.pause = cpu_pause,
	.counts = cpu_counts,
	.nearest = cpu_nearest,
	.rows_for_lists = cpu_rows_for_lists,
	.select_rows = cpu_select_rows,
	.join_close = cpu_join_close,
};

const FastedEngine *
fasted_cpu_engine(void)
{
	return &cpu_engine;
}
