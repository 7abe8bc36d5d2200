/*-------------------------------------------------------------------------
 *
 * threads.c
 *	  Threads, the phases of a join, and its units of work.
 *
 * The caller begins a join.  Workers then execute its phases by themselves: the last worker that
 * finishes a phase begins the next one.  Threads are started when a join first needs them, and are
 * retained for later joins.
 *
 * A unit is a strip: one block of rows against some adjacent blocks of columns.  So the first
 * block stays in the cache, and all candidates of a row are rechecked together.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../filter/choice.h"
#include "../filter/filters.h"
#include "../filter/level_choice.h"
#include "../filter/near_thresholds.h"
#include "../filter/recheck.h"
#include "../filter/strip.h"
#include "../nearest/radii.h"
#include "../rows/encoding.h"
#include "../rows/levels.h"
#include "../rows/order.h"
#include "../rows/pack.h"
#include "../rows/projection.h"
#include "schedule.h"

#define STACK_BYTES (256 * 1024)

/* A block that is not full is passed to the caller at this age. */
#define FLUSH_AFTER_NS UINT64_C(20000000)

/* How often workers add to the context's statistics. */
#define REPORT_EVERY_NS UINT64_C(1000000)

/* --- units of work */

/* Nearest neighbors: maps a work item so that squares on the diagonal, where near rows are, come first. */
static uint64_t
diagonal_first(const FastedJoin *join, uint64_t item)
{
	uint64_t	square = item / join->work.order.square;
	uint64_t	squares = ceil_div(join->work.order.rows, join->work.order.square);
	uint64_t	i = square;
	uint64_t	j = square;

	if (square >= squares)
	{
		fasted_triangle_pair(square - squares, &i, &j);
		j++;
	}
	return (fasted_triangle(j) + i) * join->work.order.square + item % join->work.order.square;
}

/* Finds the strip of a work item within partitions.  Returns false if the item is empty. */
static bool
locate_partition_strip(const FastedJoin *join, uint64_t item, Strip *strip)
{
	uint32_t	block = join->work.block_rows;
	uint32_t	width = (uint32_t) join->work.order.square * block;
	uint32_t	stripe = fasted_stripe_of(&join->work.strips, item, 0);
	uint32_t	i = join->work.stripes[stripe].row + (uint32_t) (item - join->work.stripes[stripe].first);
	FastedSpan	columns = fasted_span_within(&join->work.strips, i, (uint64_t) stripe * width, width);
	size_t		left = join->row_set->rows.rows - (size_t) i * block;

	if (columns.first == columns.end)
		return false;
	strip->first_a = (size_t) i * block;
	strip->rows_a = left < block ? (uint32_t) left : block;
	strip->first_b = (size_t) (columns.first / block) * block;
	strip->block_rows = block;
	strip->blocks = (columns.end - 1) / block - columns.first / block + 1;
	strip->diagonal = join->self && strip->first_a == strip->first_b;
	return true;
}

/*
 * Finds the strip of a work item: one row of a square of blocks.  Returns false if the item is
 * empty.
 */
static bool
locate_strip(const FastedJoin *join, uint64_t item, Strip *strip)
{
	uint32_t	block = join->work.block_rows;
	size_t		end_a = join->row_set->rows.rows;

	if (join->problem.partitions != NULL)
		return locate_partition_strip(join, item, strip);
	if (join->self && join->nearest)
		item = diagonal_first(join, item);
	*strip = (Strip) {.block_rows = block};
	for (uint64_t in = 0; in < join->work.order.square; in++)
	{
		uint64_t	i;
		uint64_t	j;

		if (!fasted_order_unit(&join->work.order, item * join->work.order.square + in, &i, &j) ||
			strip->blocks++ > 0)
			continue;
		strip->first_a = i * block;
		strip->rows_a = end_a - strip->first_a < block ? end_a - strip->first_a : block;
		strip->first_b = j * block;
		strip->diagonal = join->self && i == j;
	}
	return strip->blocks > 0;
}

/* Joins one strip.  Returns false if the join is being closed. */
static bool
join_strip(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint64_t	begin;
	uint64_t	filtered;
	uint64_t	end;
	bool		done;

	(void) cpu_may_continue(context);
	begin = fasted_now();
	if (join->nearest)
		cpu_set_near_strip(worker, strip);
	if (join->pruning.levels != 0)
		cpu_prune_strip(worker, strip);
	else
		cpu_filter_strip(worker, &join->row_set->packed, &join->col_set->packed, strip, false);
	filtered = fasted_now();
	done = !cpu_stopping(context) && cpu_refine_strip(worker, strip);
	end = fasted_now();
	worker->work.filter_seconds += 1e-9 * (double) (filtered - begin);
	worker->work.refine_seconds += 1e-9 * (double) (end - filtered);
	/* not after each strip: strips may be so short that the lock would be contended */
	if (end >= worker->report_at)
	{
		cpu_report(worker, false);
		worker->report_at = end + REPORT_EVERY_NS;
	}
	if (done && worker->block != NULL && end - worker->block->since > FLUSH_AFTER_NS)
		cpu_report(worker, true);
	return done;
}

/* Joins strips until none is left.  Empty work items count as done. */
static void
join_units(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	uint64_t	item;

	worker->near.cols = 0;
	while ((item = cpu_next_item(context)) < join->work.end_item && !cpu_stopping(context))
	{
		Strip		strip;

		if (!cpu_is_in_slice(join, item))
			continue;
		if (locate_strip(join, item, &strip) && !join_strip(worker, &strip))
			break;
		worker->work.units_done++;
	}
	cpu_report(worker, worker->block != NULL);
}

/* --- phases */

/* Adds the sets' row orders, on which the slices depend, to the statistics' hash. */
static void
note_orders(FastedJoin *join)
{
	uint64_t   *hash = &join->context->stats.order_hash;

	for (int i = 0; i < join->nsets; i++)
	{
		const SetLevels *levels = &join->sets[i]->levels;

		if (levels->ordered)
			*hash = fasted_hash_order(fasted_hash_order(*hash, 2 * join->work.number + i), levels->order_hash);
	}
}

static bool
begin_trial(FastedJoin *join)
{
	return join->choice.encoding == ENCODING_TESTED || join->choice.encoding == ENCODING_COMMON_TESTED;
}

static bool
lacks_encoding(FastedJoin *join)
{
	return join->encoding == NULL;
}

static bool
begin_fit(FastedJoin *join)
{
	return join->pruning.state == PRUNING_FIT;
}

static bool
begin_packing(FastedJoin *join)
{
	cpu_choose_levels(join);
	return cpu_begin_packing(join);
}

static bool
prunes(FastedJoin *join)
{
	return join->pruning.state != PRUNING_OFF;
}

/* Called when all rows are packed. */
static bool
begin_radii(FastedJoin *join)
{
	join->packed = ROWS_PACKED;
	note_orders(join);
	join->context->stats.prepare_seconds += 1e-9 * (double) (fasted_now() - join->begun_at);
	return join->nearest && cpu_begin_nearest(join);
}

static void
pack_rows(Worker *worker)
{
	cpu_do_slivers(worker, worker->join->packing, PACK_THRESHOLDS,
				   worker->join->filter->pack_set);
}

/*
 * The phases of a join.  `begin` is called with the lock held.  If it returns false, the phase is
 * skipped.
 */
static const struct PhaseWork
{
	bool		(*begin) (FastedJoin *join);	/* NULL: the phase is never skipped */
	void		(*run) (Worker *worker);
	bool		alone;			/* only one worker runs it */
}			phases[PHASE_OVER] = {
	[PHASE_TRY] = {begin_trial, cpu_try_encoding, true},
	[PHASE_CENTRE] = {lacks_encoding, cpu_find_centre, false},
	[PHASE_CHOOSE] = {lacks_encoding, cpu_choose_filter, true},
	[PHASE_FIT] = {begin_fit, cpu_fit_projection, true},
	[PHASE_PROJECT] = {cpu_begin_projecting, cpu_project, false},
	[PHASE_ORDER] = {prunes, cpu_order, false},
	[PHASE_LEVELS] = {cpu_begin_levels, cpu_pack_levels, false},
	[PHASE_TEST] = {cpu_begin_testing, cpu_test_levels, false},
	[PHASE_FOLD] = {cpu_begin_fold, cpu_choose_fold, true},
	[PHASE_SORT] = {cpu_begin_sort, cpu_sort_rows, false},
	[PHASE_PACK] = {begin_packing, pack_rows, false},
	[PHASE_GROUP] = {cpu_begin_grouping, cpu_group_rows, false},
	[PHASE_RADII] = {begin_radii, cpu_find_radii, false},
	[PHASE_JOIN] = {NULL, join_units, false},
};

/* Begins this phase, or the first later phase that is not skipped.  The caller holds the lock. */
static void
begin_phase(FastedJoin *join, Phase phase)
{
	FastedContext *context = join->context;

	while (phase < PHASE_OVER && phases[phase].begin != NULL && !phases[phase].begin(join))
		phase++;
	join->phase = phase;
	if (phase == PHASE_OVER)
	{
		pthread_cond_signal(&context->threads.out_cond);
		return;
	}
	atomic_store(&context->threads.next_item, phase == PHASE_JOIN ? join->work.first_item : 0);
	context->threads.phase_number++;
	context->threads.at_work = context->threads.engaged;
	pthread_cond_broadcast(&context->threads.work_cond);
}

/*
 * Waits for a phase that this worker takes part in.  Returns false if the context is being closed.
 */
static bool
wait_for_phase(Worker *worker)
{
	FastedContext *context = worker->context;

	do
	{
		while (!context->threads.quit && context->threads.phase_number == worker->seen)
			pthread_cond_wait(&context->threads.work_cond, &context->threads.lock);
		worker->seen = context->threads.phase_number;
	} while (!context->threads.quit && worker->number >= context->threads.engaged);
	return !context->threads.quit;
}

static void *
worker_main(void *arg)
{
	Worker	   *worker = arg;
	FastedContext *context = worker->context;
	const Int8Kernel *int8 = context->integer_filter != NULL ? context->kernel->int8 : NULL;

	fasted_cpu_reset_fpu();
	pthread_mutex_lock(&context->threads.lock);
	while (wait_for_phase(worker))
	{
		FastedJoin *join = context->join;
		Phase		phase = join->phase;

		worker->join = join;
		pthread_mutex_unlock(&context->threads.lock);

		if (int8 != NULL && int8->begin != NULL)
			int8->begin();
		if (!phases[phase].alone || cpu_next_item(context) == 0)
			phases[phase].run(worker);
		if (int8 != NULL && int8->end != NULL)
			int8->end();

		pthread_mutex_lock(&context->threads.lock);
		if (--context->threads.at_work > 0)
			continue;
		if (cpu_stopping(context))
			pthread_cond_signal(&context->threads.out_cond);
		else
			begin_phase(join, phase + 1);
	}
	pthread_mutex_unlock(&context->threads.lock);
	return NULL;
}

void
cpu_begin_join(FastedJoin *join)
{
	FastedContext *context = join->context;

	pthread_mutex_lock(&context->threads.lock);
	context->threads.engaged = join->work.nworkers;
	join->begun_at = fasted_now();
	cpu_rest_after(context, CALLER_AWAY_MS);
	begin_phase(join, PHASE_TRY);
	pthread_mutex_unlock(&context->threads.lock);
}

void
cpu_stop_join(FastedJoin *join)
{
	FastedContext *context = join->context;

	pthread_mutex_lock(&context->threads.lock);
	atomic_store(&context->threads.stop, true);
	pthread_cond_broadcast(&context->threads.free_cond);
	pthread_cond_broadcast(&context->threads.rest_cond);
	while (context->threads.at_work > 0)
		pthread_cond_wait(&context->threads.out_cond, &context->threads.lock);
	for (int i = 0; i < context->threads.nthreads; i++)
		context->threads.workers[i].block = NULL;
	atomic_store(&context->threads.stop, false);
	pthread_mutex_unlock(&context->threads.lock);
}

/* --- threads */

/* Bytes of a block pair's sums, needed if rows have several segments, or for nearest neighbors. */
#define PARTIAL_BYTES (FASTED_MAX_BLOCK * FASTED_MAX_BLOCK * sizeof(float))

/*
 * Assigns a worker's buffers within an allocation that begins at `piece`.  They suffice for any
 * join of the context.  Returns the size.
 */
static size_t
carve_worker(const FastedContext *context, Worker *worker, uintptr_t piece)
{
	uint32_t	d = context->options.dimensions;
	uint32_t	padded = context->padded < LEVEL_MOST_WORDS ? LEVEL_MOST_WORDS : context->padded;
	uintptr_t	next = piece;

	/* the last row's bits may be read as a word */
	worker->hits = fasted_carve(&next, FASTED_MAX_BLOCK * SQUARE_BLOCKS * FASTED_HIT_BYTES
								+ sizeof(uint64_t));
	if (context->integer_filter != NULL)
		worker->image = fasted_carve(&next, 2 * padded * sizeof(float));
	if (context->plan.may_prune)
		worker->project_buffer = fasted_carve(&next, cpu_project_buffer_bytes(context));
	if (context->metric->has_direction || context->doubles)
		worker->directions = fasted_carve(&next, context->kernel->width * d * sizeof(float));
	return next - piece;
}

uint64_t
cpu_worker_bytes(const FastedContext *context, bool sums)
{
	Worker		worker;

	sums = sums || cpu_filter_words(context) > context->plan.segment;
	return sizeof(Worker) + carve_worker(context, &worker, 0) + (sums ? PARTIAL_BYTES : 0);
}

/* Allocates the buffer of sums.  Returns false if out of memory. */
static bool
reserve_sums(FastedContext *context, Worker *worker)
{
	if (worker->partial == NULL)
		worker->partial = fasted_cpu_map_lazily(PARTIAL_BYTES, &context->memory);
	return worker->partial != NULL;
}

static bool
init_worker(FastedContext *context, Worker *worker)
{
	void	   *piece;

	memset(worker, 0, sizeof(*worker));
	worker->context = context;
	worker->number = (int) (worker - context->threads.workers);
	worker->seen = context->threads.phase_number;
	worker->bytes = carve_worker(context, worker, 0);
	piece = fasted_cpu_map(worker->bytes, &context->memory);
	(void) carve_worker(context, worker, (uintptr_t) piece);
	return piece != NULL &&
		(cpu_filter_words(context) <= context->plan.segment || reserve_sums(context, worker));
}

static void
free_worker(FastedContext *context, Worker *worker)
{
	fasted_cpu_unmap(worker->hits, worker->bytes, &context->memory);
	fasted_cpu_unmap(worker->partial, PARTIAL_BYTES, &context->memory);
}

FastedStatus
cpu_reserve_workers(FastedContext *context, int nworkers, bool sums)
{
	if (context->threads.workers == NULL)
		context->threads.workers = fasted_cpu_map_lazily(context->plan.thread_limit * sizeof(Worker),
														  &context->memory);
	if (context->threads.workers == NULL)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for threads.");
	while (context->threads.nthreads < nworkers)
	{
		Worker	   *worker = &context->threads.workers[context->threads.nthreads];
		bool		ready = init_worker(context, worker);

		if (!ready || !fasted_start_thread(&worker->thread, STACK_BYTES, worker_main, worker))
		{
			free_worker(context, worker);
			if (ready)
				break;			/* use as many as the system allows */
			return cpu_fail(context, FASTED_OUT_OF_MEMORY,
							"Could not allocate memory for %d threads.", nworkers);
		}
		context->threads.nthreads++;
	}
	if (context->threads.nthreads == 0)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not create a thread.");
	for (int i = 0; i < context->threads.nthreads && sums; i++)
	{
		if (!reserve_sums(context, &context->threads.workers[i]))
			return cpu_fail(context, FASTED_OUT_OF_MEMORY, "Could not allocate memory for a join.");
	}
	return FASTED_OK;
}

void
cpu_end_workers(FastedContext *context)
{
	pthread_mutex_lock(&context->threads.lock);
	context->threads.quit = true;
	pthread_cond_broadcast(&context->threads.work_cond);
	pthread_mutex_unlock(&context->threads.lock);

	for (int i = 0; i < context->threads.nthreads; i++)
	{
		pthread_join(context->threads.workers[i].thread, NULL);
		free_worker(context, &context->threads.workers[i]);
	}
	fasted_cpu_unmap(context->threads.workers, context->plan.thread_limit * sizeof(Worker), &context->memory);
	context->threads.workers = NULL;
}
