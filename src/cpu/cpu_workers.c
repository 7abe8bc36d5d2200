/*-------------------------------------------------------------------------
 *
 * cpu_workers.c
 *	  Threads, the phases of a join, and its units of work.
 *
 * The caller begins a join.  Workers then go through its phases by
 * themselves: whoever finishes a phase last begins the next one.  Threads are
 * started when a join is the first that is worth so many, and stay for later ones.
 *
 * A unit is a strip, one block against some neighbours, so that the first stays in the cache,
 * and a row's candidates come together.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../engine/engine.h"
#include "cpu_filter.h"
#include "cpu_groups.h"
#include "cpu_phases.h"
#include "cpu_plan.h"
#include "cpu_recheck.h"
#include "cpu_workers.h"

#define STACK_BYTES (256 * 1024)

#define HITS_BYTES ((size_t) FASTED_MAX_BLOCK * GROUP_BLOCKS * FASTED_HIT_BYTES)

/* A block that is not full is handed over when it gets this old. */
#define FLUSH_AFTER_NS UINT64_C(20000000)

/* --- units of work */

/*
 * Nearest rows: groups on the diagonal come first, where near rows are together, so
 * that radii are small for the others.
 */
static uint64_t
diagonal_first(const FastedJoin *join, uint64_t claim)
{
	uint64_t	group = claim / join->order.group;
	uint64_t	groups = ceil_div(join->order.rows, join->order.group);
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

	cpu_rest_if_alone(context);
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
static void
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

/* --- phases */

/* With the lock held. */
static void
begin_phase(FastedJoin *join, Phase phase)
{
	FastedContext *context = join->context;

	atomic_store(&context->next_claim, phase == PHASE_JOIN ? join->first_claim : 0);
	join->phase = phase;
	context->phase_number++;
	context->at_work = context->engaged;
	pthread_cond_broadcast(&context->work_cond);
}

/* What slices of this join depend on. */
static void
note_orders(FastedJoin *join)
{
	FastedContext *context = join->context;
	uint64_t	hash = atomic_load(&context->order_hash);

	for (int i = 0; i < (join->self ? 1 : 2); i++)
	{
		if (join->sets[i]->levels.ordered)
			hash = fasted_mix_order(fasted_mix_order(hash, 2 * join->number + i), join->sets[i]->levels.order_hash);
	}
	atomic_store(&context->order_hash, hash);
}

/* Rows are packed: units of work are next. */
static void
begin_units(FastedJoin *join)
{
	join->packed = true;
	note_orders(join);
	atomic_fetch_add(&join->context->prepare_ns, cpu_now() - join->begun_at);
	begin_phase(join, cpu_finds_nearest(join) && cpu_begin_nearest(join) ? PHASE_RADII : PHASE_JOIN);
}

/* And whether there are levels. */
static void
begin_packing(FastedJoin *join)
{
	cpu_begin_packing(join);
	if (join->packing[0] == PACKED_ALREADY && join->packing[1] == PACKED_ALREADY)
		begin_units(join);
	else
		begin_phase(join, PHASE_PACK);
}

/* There is a projection, or it turned out that there is none. */
static void
begin_levels(FastedJoin *join)
{
	if (!cpu_begin_levels(join))
		begin_packing(join);
	else if (join->projecting)
		begin_phase(join, PHASE_PROJECT);
	else
		begin_phase(join, PHASE_LEVELS);
}

/* Form and filter are known. */
static void
begin_pruning(FastedJoin *join)
{
	if (!join->pruning)
		begin_packing(join);
	else if (join->fitting)
		begin_phase(join, PHASE_FIT);
	else
		begin_levels(join);
}

/* With the lock held, by the worker that finished last. */
static void
finish_phase(FastedJoin *join)
{
	switch (join->phase)
	{
		case PHASE_TRY:
			if (join->form != NULL)
				begin_pruning(join);
			else
				begin_phase(join, PHASE_CENTRE);
			break;
		case PHASE_CENTRE:
			cpu_find_scale(join);
			begin_phase(join, PHASE_CHOOSE);
			break;
		case PHASE_CHOOSE:
			begin_pruning(join);
			break;
		case PHASE_FIT:
			begin_levels(join);
			break;
		case PHASE_PROJECT:
			begin_phase(join, PHASE_ORDER);
			break;
		case PHASE_ORDER:
			cpu_begin_level_packing(join);
			begin_phase(join, PHASE_LEVELS);
			break;
		case PHASE_LEVELS:
			begin_phase(join, PHASE_TEST);
			break;
		case PHASE_TEST:
			begin_packing(join);
			break;
		case PHASE_PACK:
			begin_units(join);
			break;
		case PHASE_RADII:
			begin_phase(join, PHASE_JOIN);
			break;
		case PHASE_JOIN:
		case PHASE_OVER:
			join->phase = PHASE_OVER;
			pthread_cond_signal(&join->context->out_cond);
			break;
	}
}

static void
run_phase(Worker *worker, Phase phase)
{
	switch (phase)
	{
		case PHASE_TRY:
			cpu_try_form(worker);
			break;
		case PHASE_CENTRE:
			cpu_find_centre(worker);
			break;
		case PHASE_CHOOSE:
			cpu_choose_filter(worker);
			break;
		case PHASE_FIT:
			cpu_fit_projection(worker);
			break;
		case PHASE_PROJECT:
			cpu_project(worker);
			break;
		case PHASE_ORDER:
			cpu_order(worker);
			break;
		case PHASE_LEVELS:
			cpu_pack_set_levels(worker);
			break;
		case PHASE_TEST:
			cpu_test_levels(worker);
			break;
		case PHASE_PACK:
			cpu_pack(worker);
			break;
		case PHASE_RADII:
			cpu_find_radii(worker);
			break;
		case PHASE_JOIN:
			cpu_join_units(worker);
			break;
		case PHASE_OVER:
			break;
	}
}

/* Waits for a phase that this worker is to take part in; false: there will be none. */
static bool
wait_for_phase(Worker *worker)
{
	FastedContext *context = worker->context;

	do
	{
		while (!context->quit && context->phase_number == worker->seen)
			pthread_cond_wait(&context->work_cond, &context->lock);
		worker->seen = context->phase_number;
	} while (!context->quit && worker->number >= context->engaged);
	return !context->quit;
}

static void *
worker_main(void *arg)
{
	Worker	   *worker = arg;
	FastedContext *context = worker->context;
	const Int8Kernel *int8 = context->may_use_int8 ? context->kernel->int8 : NULL;

	fasted_cpu_reset_fpu();
	pthread_mutex_lock(&context->lock);
	while (wait_for_phase(worker))
	{
		FastedJoin *join = context->join;
		Phase		phase = join->phase;

		worker->join = join;
		pthread_mutex_unlock(&context->lock);

		if (int8 != NULL && int8->begin != NULL)
			int8->begin();
		run_phase(worker, phase);
		if (int8 != NULL && int8->end != NULL)
			int8->end();

		pthread_mutex_lock(&context->lock);
		if (--context->at_work > 0)
			continue;
		if (cpu_stopping(context))
			pthread_cond_signal(&context->out_cond);
		else
			finish_phase(join);
	}
	pthread_mutex_unlock(&context->lock);
	return NULL;
}

/* Begins with what its sets lack. */
void
cpu_begin_join(FastedJoin *join)
{
	FastedContext *context = join->context;

	pthread_mutex_lock(&context->lock);
	context->engaged = join->nworkers;
	join->begun_at = cpu_now();
	cpu_rest_after(context, CALLER_AWAY_MS);
	if (join->form != NULL)
		begin_pruning(join);
	else
		begin_phase(join, join->trial ? PHASE_TRY : PHASE_CENTRE);
	pthread_mutex_unlock(&context->lock);
}

/* Returns when no worker is at work on it. */
void
cpu_stop_join(FastedJoin *join)
{
	FastedContext *context = join->context;

	pthread_mutex_lock(&context->lock);
	atomic_store(&context->stop, true);
	pthread_cond_broadcast(&context->free_cond);
	pthread_cond_broadcast(&context->rest_cond);
	while (context->at_work > 0)
		pthread_cond_wait(&context->out_cond, &context->lock);
	for (int i = 0; i < context->nthreads; i++)
		context->workers[i].block = NULL;
	atomic_store(&context->stop, false);
	pthread_mutex_unlock(&context->lock);
}

/* --- threads */

/*
 * Room for one worker, on memory that no other worker's cache lines share, and
 * enough for any join of the context.
 */
static bool
init_worker(FastedContext *context, Worker *worker)
{
	uint32_t	d = context->options.dimensions;
	MemoryCount *memory = &context->memory;

	memset(worker, 0, sizeof(*worker));
	worker->context = context;
	worker->number = (int) (worker - context->workers);
	worker->seen = context->phase_number;
	if (d > context->slice)
	{
		worker->partial = fasted_cpu_map_lazily(CPU_PARTIAL_BYTES, memory);
		if (worker->partial == NULL)
			return false;
	}
	worker->hits = fasted_cpu_map(HITS_BYTES, memory);
	worker->wide = fasted_cpu_map((d + 31) * sizeof(double), memory);
	if (context->may_use_int8)
	{
		worker->image = fasted_cpu_map(cpu_image_bytes(context), memory);
		if (worker->image == NULL)
			return false;
	}
	if (context->may_prune)
	{
		worker->project_room = fasted_cpu_map(cpu_project_room_bytes(context), memory);
		if (worker->project_room == NULL)
			return false;
	}
	if (cpu_changes_rows(context))
	{
		worker->directions = fasted_cpu_map(cpu_direction_bytes(context), memory);
		if (worker->directions == NULL)
			return false;
	}
	return worker->hits != NULL && worker->wide != NULL;
}

static void
free_worker(FastedContext *context, Worker *worker)
{
	MemoryCount *memory = &context->memory;

	fasted_cpu_unmap(worker->partial, CPU_PARTIAL_BYTES, memory);
	fasted_cpu_unmap(worker->hits, HITS_BYTES, memory);
	fasted_cpu_unmap(worker->wide, (context->options.dimensions + 31) * sizeof(double), memory);
	fasted_cpu_unmap(worker->image, cpu_image_bytes(context), memory);
	fasted_cpu_unmap(worker->project_room, cpu_project_room_bytes(context), memory);
	worker->project_room = NULL;
	fasted_cpu_unmap(worker->directions, cpu_direction_bytes(context), memory);
	worker->partial = worker->wide = NULL;
	worker->hits = NULL;
	worker->image = worker->directions = NULL;
}

/*
 * Starts threads until there are so many, or as many as the system grants.  False: a
 * worker has no memory.
 */
static bool
create_threads(FastedContext *context, int nworkers)
{
	while (context->nthreads < nworkers)
	{
		Worker	   *worker = &context->workers[context->nthreads];
		bool		room = init_worker(context, worker);

		if (!room || !fasted_start_thread(&worker->thread, STACK_BYTES, worker_main, worker))
		{
			free_worker(context, worker);
			return room;
		}
		context->nthreads++;
	}
	return true;
}

/* As many workers as this, or as many as can be had: one at least. */
FastedStatus
cpu_reserve_workers(FastedContext *context, int nworkers)
{
	if (context->workers == NULL)
		context->workers = fasted_cpu_map_lazily(context->thread_limit * sizeof(Worker), &context->memory);
	if (context->workers == NULL)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for threads");
	if (context->nthreads >= nworkers)
		return FASTED_OK;
	if (!create_threads(context, nworkers))
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for %d threads", nworkers);
	if (context->nthreads == 0)
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "could not create a thread");
	return FASTED_OK;
}

/* Room for sums of every worker, also where no slice needs it; false: memory ran out. */
bool
cpu_reserve_sums(FastedContext *context)
{
	for (int i = 0; i < context->nthreads; i++)
	{
		Worker	   *worker = &context->workers[i];

		if (worker->partial == NULL)
			worker->partial = fasted_cpu_map_lazily(CPU_PARTIAL_BYTES, &context->memory);
		if (worker->partial == NULL)
			return false;
	}
	return true;
}

/* No join is at work. */
void
cpu_end_workers(FastedContext *context)
{
	pthread_mutex_lock(&context->lock);
	context->quit = true;
	pthread_cond_broadcast(&context->work_cond);
	pthread_mutex_unlock(&context->lock);

	for (int i = 0; i < context->nthreads; i++)
	{
		pthread_join(context->workers[i].thread, NULL);
		free_worker(context, &context->workers[i]);
	}
	fasted_cpu_unmap(context->workers, context->thread_limit * sizeof(Worker), &context->memory);
	context->workers = NULL;
}
