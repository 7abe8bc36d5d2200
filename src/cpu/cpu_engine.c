/*-------------------------------------------------------------------------
 *
 * cpu_engine.c
 *	  The CPU engine's interface: rows in, pairs out, panel by panel.
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

#include "cpu_join.h"

static FastedStatus
cpu_probe(const char *devices, char *reason, size_t size)
{
	(void) devices;
	if (reason != NULL && size > 0)
		reason[0] = '\0';
	return FASTED_OK;
}

/* Is this a problem for this engine? */
static FastedStatus
check_problem(FastedJoin *join)
{
	const FastedProblem *problem = &join->problem;

	if (problem->dimensions < 1 || problem->dimensions > FASTED_MAX_DIMENSIONS)
		return cpu_fail(join, FASTED_UNSUPPORTED,
						"vectors must have between 1 and %u dimensions, not %u",
						FASTED_MAX_DIMENSIONS, problem->dimensions);
	if (!(problem->eps >= 0.0))
		return cpu_fail(join, FASTED_UNSUPPORTED,
						"eps must be zero, positive or infinite");
	if (problem->approximate)
		return cpu_fail(join, FASTED_UNSUPPORTED,
						"the CPU engine gives exact results only; approximate results need a GPU");

	join->kernel = fasted_cpu_choose_kernel(problem->kernel);
	if (join->kernel == NULL)
	{
		for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
		{
			if (strcmp(problem->kernel, fasted_cpu_kernel(k)->name) == 0)
				return cpu_fail(join, FASTED_UNSUPPORTED,
								"this processor cannot run the CPU kernel \"%s\"",
								problem->kernel);
		}
		return cpu_fail(join, FASTED_UNSUPPORTED,
						"there is no CPU kernel \"%.32s\"", problem->kernel);
	}
	return FASTED_OK;
}

/* Waits are measured on a clock that nobody sets. */
static bool
init_locks(FastedJoin *join)
{
	pthread_condattr_t attr;
	bool		ok;

	if (pthread_condattr_init(&attr) != 0)
		return false;
	ok = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
		pthread_mutex_init(&join->lock, NULL) == 0 &&
		pthread_cond_init(&join->work_cond, &attr) == 0 &&
		pthread_cond_init(&join->free_cond, &attr) == 0 &&
		pthread_cond_init(&join->out_cond, &attr) == 0 &&
		pthread_cond_init(&join->rest_cond, &attr) == 0;
	pthread_condattr_destroy(&attr);
	return ok;
}

/* The processor's own name. */
static void
device_name(char *name, size_t size)
{
	struct utsname system;
#if defined(__x86_64__)
	unsigned	brand[13] = {0};
	const char *text = (const char *) brand;
	bool		known = true;

	for (unsigned i = 0; i < 3; i++)
		known = known && __get_cpuid(0x80000002U + i, &brand[4 * i],
									 &brand[4 * i + 1], &brand[4 * i + 2],
									 &brand[4 * i + 3]);
	if (known)
	{
		while (*text == ' ')
			text++;
		snprintf(name, size, "%s", text);
		return;
	}
#endif
	snprintf(name, size, "%s", uname(&system) == 0 ? system.machine : "cpu");
}

static FastedStatus
cpu_open(const FastedProblem *problem, FastedJoin **result)
{
	FastedJoin *join = calloc(1, sizeof(*join));
	FastedStatus status;

	*result = NULL;
	if (join == NULL)
		return FASTED_OUT_OF_MEMORY;
	/* the memory of this join comes after that of the last one, not beside it */
	release_wait();
	if (!init_locks(join))
	{
		free(join);
		return FASTED_OUT_OF_MEMORY;
	}
	*result = join;
	join->problem = *problem;
	status = check_problem(join);
	/* the caller's strings need not live on */
	join->problem.kernel = join->problem.devices = NULL;
	device_name(join->device, sizeof(join->device));
	if (FASTED_FAILED(status))
		return status;

	cpu_plan_memory(join);
	row_store_init(&join->slots[0].rows, problem->dimensions, join->chunk_bytes);
	join->slot_a = join->slot_b = join->filling = &join->slots[0];
	return FASTED_OK;
}

/* How many rows the slot being filled is to have. */
static uint64_t
wanted_rows(const FastedJoin *join)
{
	uint64_t	panel;
	uint64_t	left;

	if (!join->started)
		return join->row_limit;
	panel = join->filling == join->slot_a ? join->panel_a : join->panel_b;
	left = join->total_rows - panel * join->panel_rows;
	return left < join->panel_rows ? left : join->panel_rows;
}

static FastedStatus
cpu_stage(FastedJoin *join, float **rows, size_t *capacity)
{
	Slot	   *slot = join->filling;
	uint64_t	most;

	*rows = NULL;
	*capacity = 0;
	most = slot == NULL ? 0 : wanted_rows(join);
	if (slot == NULL || slot->rows.rows >= most)
	{
		join->refused = true;
		return FASTED_FULL;
	}
	*rows = row_store_offer(&slot->rows, most - slot->rows.rows, capacity,
							&join->memory);
	if (*rows == NULL)
		return cpu_fail(join, FASTED_OUT_OF_MEMORY,
						"out of memory after %llu rows",
						(unsigned long long) slot->rows.rows);
	return FASTED_OK;
}

static FastedStatus
cpu_commit(FastedJoin *join, size_t nrows)
{
	if (join->filling == NULL || !row_store_commit(&join->filling->rows, nrows))
		return cpu_fail(join, FASTED_INTERNAL,
						"%zu rows were committed without room for them", nrows);
	return FASTED_OK;
}

/* Rows from anywhere are copied at once: nothing has to be kept for them. */
static bool
cpu_lend(FastedJoin *join, void *memory, size_t bytes)
{
	(void) memory;
	(void) bytes;
	return !join->started;
}

static void
cpu_withdraw(FastedJoin *join)
{
	(void) join;
}

static FastedStatus
cpu_put(FastedJoin *join, const float *rows, size_t nrows, size_t *taken)
{
	float	   *room;
	size_t		capacity;
	FastedStatus status = cpu_stage(join, &room, &capacity);

	*taken = 0;
	if (status != FASTED_OK)
		return status;
	if (capacity > nrows)
		capacity = nrows;
	memcpy(room, rows, capacity * join->problem.dimensions * sizeof(float));
	*taken = capacity;
	return cpu_commit(join, capacity);
}

static FastedStatus
cpu_settle(FastedJoin *join)
{
	(void) join;
	return FASTED_OK;
}

static FastedStatus
cpu_read_back(FastedJoin *join, uint64_t first_row, size_t nrows, float *rows)
{
	const RowStore *store = &join->slots[0].rows;
	size_t		d = join->problem.dimensions;

	if (join->started || !join->refused ||
		first_row > store->rows || nrows > store->rows - first_row)
		return cpu_fail(join, FASTED_INTERNAL,
						"rows that are not staged were to be read back");
	for (size_t i = 0; i < nrows; i++)
		memcpy(rows + i * d, row_store_row(store, first_row + i),
			   d * sizeof(float));
	return FASTED_OK;
}

static FastedStatus
cpu_start(FastedJoin *join, uint64_t total_rows)
{
	uint64_t	staged = join->slots[0].rows.rows;
	FastedStatus status;

	if (join->started || total_rows < staged || total_rows > FASTED_MAX_ROWS)
		return cpu_fail(join, FASTED_INTERNAL,
						"a join of %llu rows was started with %llu staged",
						(unsigned long long) total_rows,
						(unsigned long long) staged);
	join->total_rows = total_rows;
	join->npanels = 1;
	if (total_rows < 2)
	{
		join->started = join->all_over = true;
		join->filling = NULL;
		return FASTED_OK;
	}

	status = cpu_plan_rounds(join);
	if (!FASTED_FAILED(status))
		status = cpu_start_workers(join);
	if (FASTED_FAILED(status))
		return status;
	join->started = true;
	if (join->npanels == 1)
	{
		join->filling = NULL;
		cpu_begin_round(join);
	}
	else
		join->wanted = true;	/* panel 0, in slot A */
	return FASTED_OK;
}

/* Asks for a panel in this slot, from scratch. */
static void
want_panel(FastedJoin *join, Slot *slot, uint64_t panel)
{
	slot->rows.rows = 0;
	slot->rows.offered = 0;
	slot->first_row = panel * join->panel_rows;
	join->filling = slot;
	join->wanted = true;
}

/* A round is over: what comes next?  The order is told in cpu_join.h. */
static void
advance(FastedJoin *join)
{
	join->round_over = false;
	if (join->panel_a + 1 == join->npanels)
		join->all_over = true;
	else if (join->panel_b == join->panel_a + 1)
	{
		Slot	   *slot = join->slot_b;

		join->slot_a = join->slot_b = slot;
		join->panel_a = join->panel_b;
		cpu_begin_round(join);
	}
	else
	{
		if (join->panel_b == join->panel_a)
		{
			join->panel_b = join->npanels - 1;
			join->slot_b = join->slot_a == &join->slots[0]
				? &join->slots[1] : &join->slots[0];
		}
		else
			join->panel_b--;
		want_panel(join, join->slot_b, join->panel_b);
	}
}

/* Names the rows still missing; false when there are none, and work begins. */
static bool
ask_for_rows(FastedJoin *join, FastedBatch *batch)
{
	uint64_t	have = join->filling->rows.rows;

	batch->first_row = join->filling->first_row + have;
	batch->row_count = wanted_rows(join) - have;
	if (batch->row_count > 0)
		return true;
	join->wanted = false;
	join->filling = NULL;
	cpu_begin_round(join);
	return false;
}

static struct timespec
deadline_after(int timeout_ms)
{
	uint64_t	when = cpu_now()
		+ (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * UINT64_C(1000000);

	return (struct timespec) {
		.tv_sec = (time_t) (when / UINT64_C(1000000000)),
		.tv_nsec = (long) (when % UINT64_C(1000000000)),
	};
}

/* The caller is done with the last batch. */
static void
take_back(FastedJoin *join)
{
	if (join->handed_out == NULL)
		return;
	pair_pool_release(&join->pool, join->handed_out);
	join->handed_out = NULL;
	pthread_cond_signal(&join->free_cond);
}

/*
 * Waits for a block of pairs or for the end of the round: FASTED_OK,
 * FASTED_AGAIN, or FASTED_DONE for the round.
 */
static FastedStatus
wait_for_block(FastedJoin *join, int timeout_ms, const struct timespec *deadline)
{
	FastedStatus status = FASTED_OK;
	int			rc = 0;

	pthread_mutex_lock(&join->lock);
	cpu_rest_after(join, CALLER_AWAY_MS + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0));
	take_back(join);
	while ((join->handed_out = pair_pool_pop(&join->pool)) == NULL)
	{
		if (join->round_over)
			status = FASTED_DONE;
		else if (rc != 0)
			status = FASTED_AGAIN;
		else
		{
			rc = pthread_cond_timedwait(&join->out_cond, &join->lock, deadline);
			continue;
		}
		break;
	}
	pthread_mutex_unlock(&join->lock);
	return status;
}

static FastedStatus
cpu_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	struct timespec deadline = deadline_after(timeout_ms);

	memset(batch, 0, sizeof(*batch));
	if (!join->started)
		return cpu_fail(join, FASTED_INTERNAL,
						"pairs were asked for before the join was started");
	for (;;)
	{
		FastedStatus status;

		if (join->all_over)
			return FASTED_DONE;
		if (join->wanted && ask_for_rows(join, batch))
			return FASTED_WANT_ROWS;

		status = wait_for_block(join, timeout_ms, &deadline);
		if (status == FASTED_OK)
		{
			batch->pairs = join->handed_out->pairs;
			batch->npairs = join->handed_out->npairs;
		}
		if (status != FASTED_DONE)
			return status;
		advance(join);
	}
}

static void
cpu_pause(FastedJoin *join)
{
	pthread_mutex_lock(&join->lock);
	cpu_rest_after(join, PAUSE_MS);
	pthread_mutex_unlock(&join->lock);
}

static void
cpu_stats(const FastedJoin *join, FastedStats *stats)
{
	/* atomic_load wants no const in C11 */
	FastedJoin *open_join = (FastedJoin *) (uintptr_t) join;

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->engine, sizeof(stats->engine), "cpu");
	snprintf(stats->filter, sizeof(stats->filter), "%s",
			 atomic_load(&open_join->int8) ? "int8" : "fp32");
	stats->filter_sampled = atomic_load(&open_join->filter_sampled);
	stats->sampled_candidates = atomic_load(&open_join->sampled_candidates);
	stats->sampled_pairs = atomic_load(&open_join->sampled_pairs);
	memcpy(stats->device, join->device, sizeof(stats->device));
	if (join->kernel != NULL)
		snprintf(stats->kernel, sizeof(stats->kernel), "%s", join->kernel->name);
	stats->threads = join->nthreads;
	stats->rows = join->started ? join->total_rows : join->slots[0].rows.rows;
	stats->dimensions = join->problem.dimensions;
	stats->panels = (uint32_t) join->npanels;
	stats->units_total = join->units_total;
	stats->units_done = atomic_load(&open_join->units_done);
	stats->candidates = atomic_load(&open_join->candidates);
	stats->pairs = atomic_load(&open_join->pairs);
	stats->host_bytes = join->memory.peak;
	stats->prepare_seconds = 1e-9 * (double) atomic_load(&open_join->prepare_ns);
	stats->filter_seconds = 1e-9 * (double) atomic_load(&open_join->filter_ns);
	stats->refine_seconds = 1e-9 * (double) atomic_load(&open_join->refine_ns);
}

static const char *
cpu_last_error(const FastedJoin *join)
{
	return join == NULL ? "out of memory" : join->error;
}

static void
cpu_close(FastedJoin *join)
{
	if (join == NULL)
		return;
	cpu_stop_workers(join);
	join->memory.release = release_begin();
	pair_pool_free(&join->pool, &join->memory);
	for (int i = 0; i < 2; i++)
		cpu_slot_free(join, &join->slots[i]);
	fasted_cpu_unmap(join->centre, join->problem.dimensions * sizeof(float),
					 &join->memory);
	fasted_cpu_unmap(join->int8_centre, join->problem.dimensions * sizeof(float),
					 &join->memory);
	pthread_cond_destroy(&join->rest_cond);
	pthread_cond_destroy(&join->out_cond);
	pthread_cond_destroy(&join->free_cond);
	pthread_cond_destroy(&join->work_cond);
	pthread_mutex_destroy(&join->lock);
	release_end(join->memory.release);
	free(join);
}

static const FastedEngine cpu_engine = {
	.abi = FASTED_ENGINE_ABI,
	.name = "cpu",
	.probe = cpu_probe,
	.open = cpu_open,
	.stage = cpu_stage,
	.commit = cpu_commit,
	.lend = cpu_lend,
	.withdraw = cpu_withdraw,
	.put = cpu_put,
	.settle = cpu_settle,
	.read_back = cpu_read_back,
	.start = cpu_start,
	.next = cpu_next,
	.pause = cpu_pause,
	.stats = cpu_stats,
	.last_error = cpu_last_error,
	.close = cpu_close,
};

const FastedEngine *
fasted_cpu_engine(void)
{
	return &cpu_engine;
}
