/*-------------------------------------------------------------------------
 *
 * cpu_workers.c
 *	  Threads and the phases of a round.
 *
 * The caller begins a round.  Workers then go through its phases by
 * themselves: whoever finishes a phase last begins the next one.
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cpu_join.h"

#define STACK_BYTES (256 * 1024)

uint64_t
cpu_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

/*
 * Workers rest when so many milliseconds have gone by, unless this is called
 * again; those that do so now go on.  With the lock held.
 */
void
cpu_rest_after(FastedJoin *join, uint64_t ms)
{
	atomic_store(&join->rest_at, cpu_now() + ms * UINT64_C(1000000));
	if (join->resting > 0)
		pthread_cond_broadcast(&join->rest_cond);
}

/* Waits until the caller is back, or closes the join. */
void
cpu_rest(FastedJoin *join)
{
	pthread_mutex_lock(&join->lock);
	join->resting++;
	while (!cpu_stopping(join) && cpu_now() >= atomic_load(&join->rest_at))
		pthread_cond_wait(&join->rest_cond, &join->lock);
	join->resting--;
	pthread_mutex_unlock(&join->lock);
}

/* With the lock held. */
static void
begin_phase(FastedJoin *join, Phase phase)
{
	atomic_store(&join->next_claim, 0);
	join->phase = phase;
	join->phase_number++;
	join->at_work = join->nthreads;
	pthread_cond_broadcast(&join->work_cond);
}

/* The slot that came last is packed as slot A is, or is to be. */
static void
begin_packing(FastedJoin *join)
{
	cpu_slot_lay_out(join, join->slot_b, atomic_load(&join->int8));
	begin_phase(join, PHASE_PACK);
}

/* With the lock held, by the worker that finished last. */
static void
finish_phase(FastedJoin *join)
{
	switch (join->phase)
	{
		case PHASE_CENTRE:
			cpu_choose_scale(join);
			begin_phase(join, PHASE_CHOOSE);
			break;
		case PHASE_CHOOSE:
			begin_packing(join);
			break;
		case PHASE_PACK:
			atomic_fetch_add(&join->prepare_ns, cpu_now() - join->round_start);
			begin_phase(join, PHASE_JOIN);
			break;
		case PHASE_JOIN:
		case PHASE_IDLE:
			join->phase = PHASE_IDLE;
			join->round_over = true;
			pthread_cond_signal(&join->out_cond);
			break;
	}
}

static void
run_phase(Worker *worker, Phase phase)
{
	switch (phase)
	{
		case PHASE_CENTRE:
			cpu_centre(worker);
			break;
		case PHASE_CHOOSE:
			cpu_choose_filter(worker);
			break;
		case PHASE_PACK:
			cpu_pack(worker);
			break;
		case PHASE_JOIN:
			cpu_join_units(worker);
			break;
		case PHASE_IDLE:
			break;
	}
}

static void *
worker_main(void *arg)
{
	Worker	   *worker = arg;
	FastedJoin *join = worker->join;
	uint64_t	seen = 0;

	fasted_cpu_reset_fpu();
	pthread_mutex_lock(&join->lock);
	for (;;)
	{
		Phase		phase;

		while (!cpu_stopping(join) && join->phase_number == seen)
			pthread_cond_wait(&join->work_cond, &join->lock);
		if (cpu_stopping(join))
			break;
		seen = join->phase_number;
		phase = join->phase;
		pthread_mutex_unlock(&join->lock);

		run_phase(worker, phase);

		pthread_mutex_lock(&join->lock);
		if (--join->at_work == 0 && !cpu_stopping(join))
			finish_phase(join);
	}
	pthread_mutex_unlock(&join->lock);
	return NULL;
}

/*
 * Begins the join of slot_a and slot_b, whose rows are complete.  A slot that
 * is joined with itself brings a centre and a scale of its own; they then hold
 * for all its partners.
 */
void
cpu_begin_round(FastedJoin *join)
{
	uint32_t	block = join->block_rows;
	Slot	   *slot = join->slot_b;
	bool		self = join->slot_a == join->slot_b;

	pthread_mutex_lock(&join->lock);
	join->order.rows = (join->slot_a->rows.rows + block - 1) / block;
	join->order.cols = (slot->rows.rows + block - 1) / block;
	join->order.triangle = self;
	join->round_over = false;
	join->round_start = cpu_now();
	cpu_rest_after(join, CALLER_AWAY_MS);
	if (self)
	{
		memset(join->sample_peak, 0, sizeof(join->sample_peak));
		begin_phase(join, PHASE_CENTRE);
	}
	else
		begin_packing(join);
	pthread_mutex_unlock(&join->lock);
}

/* Room for one worker, on memory that no other worker's cache lines share. */
static bool
init_worker(FastedJoin *join, Worker *worker)
{
	uint32_t	d = join->problem.dimensions;
	size_t		block = join->block_rows;

	worker->join = join;
	if (d > join->slice)
	{
		worker->partial = fasted_cpu_map(block * block * sizeof(float),
										 &join->memory);
		if (worker->partial == NULL)
			return false;
	}
	worker->hits = fasted_cpu_map(block * join->hit_stride, &join->memory);
	worker->wide = fasted_cpu_map((d + 31) * sizeof(double), &join->memory);
	if (join->may_use_int8)
	{
		worker->image = fasted_cpu_map(cpu_image_bytes(join), &join->memory);
		if (worker->image == NULL)
			return false;
	}
	return worker->hits != NULL && worker->wide != NULL;
}

static void
free_worker(FastedJoin *join, Worker *worker)
{
	size_t		block = join->block_rows;

	fasted_cpu_unmap(worker->partial, block * block * sizeof(float),
					 &join->memory);
	fasted_cpu_unmap(worker->hits, block * join->hit_stride, &join->memory);
	fasted_cpu_unmap(worker->wide, (join->problem.dimensions + 31) * sizeof(double),
					 &join->memory);
	fasted_cpu_unmap(worker->image, cpu_image_bytes(join), &join->memory);
}

/*
 * Starts as many threads as there are workers, or as many as the system
 * grants.  Signals are for the caller's own thread.
 */
static void
create_threads(FastedJoin *join)
{
	pthread_attr_t attr;
	sigset_t	all;
	sigset_t	before;
	size_t		stack = STACK_BYTES;
	long		least = sysconf(_SC_THREAD_STACK_MIN);

	if (pthread_attr_init(&attr) != 0)
		return;
	if (least > 0 && stack < 2 * (size_t) least)
		stack = 2 * (size_t) least;
	(void) pthread_attr_setstacksize(&attr, stack);
	sigfillset(&all);
	if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0)
	{
		while (join->nthreads < join->nworkers)
		{
			Worker	   *worker = &join->workers[join->nthreads];

			if (pthread_create(&worker->thread, &attr, worker_main, worker) != 0)
				break;
			join->nthreads++;
		}
		(void) pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_attr_destroy(&attr);
}

FastedStatus
cpu_start_workers(FastedJoin *join)
{
	join->workers = calloc((size_t) join->nworkers, sizeof(Worker));
	if (join->workers == NULL)
		return cpu_fail(join, FASTED_OUT_OF_MEMORY, "out of memory for threads");
	for (int i = 0; i < join->nworkers; i++)
	{
		if (!init_worker(join, &join->workers[i]))
			return cpu_fail(join, FASTED_OUT_OF_MEMORY,
							"out of memory for %d threads", join->nworkers);
	}
	create_threads(join);
	if (join->nthreads == 0)
		return cpu_fail(join, FASTED_OUT_OF_MEMORY,
						"could not create a thread");
	return FASTED_OK;
}

void
cpu_stop_workers(FastedJoin *join)
{
	pthread_mutex_lock(&join->lock);
	atomic_store(&join->stop, true);
	pthread_cond_broadcast(&join->work_cond);
	pthread_cond_broadcast(&join->free_cond);
	pthread_cond_broadcast(&join->rest_cond);
	pthread_mutex_unlock(&join->lock);

	for (int i = 0; i < join->nthreads; i++)
		pthread_join(join->workers[i].thread, NULL);
	join->nthreads = 0;
	for (int i = 0; join->workers != NULL && i < join->nworkers; i++)
		free_worker(join, &join->workers[i]);
	free(join->workers);
	join->workers = NULL;
}
