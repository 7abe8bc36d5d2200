/*-------------------------------------------------------------------------
 *
 * several_engine.c
 *	  Simulates the CUDA engine on a machine with three GPUs, each of which is the CPU engine.
 *
 * The limit of device memory, in kB, is the number of the call of next in which the second device
 * fails, plus one.  If it is less than 2, no call fails.  If it is OPEN_FAILS, open fails.  Built
 * with the CPU engine's files.
 *
 * The engine is ready to be opened after WARM_CALLS calls of warm, as if a GPU had been
 * initialized meanwhile.  At the end of the process, stop writes a line to the server's log.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "connecting.h"
#include "engine/device_list.h"
#include "engine/engine.h"

#define DEVICES 3
#define OPEN_FAILS 3000
#define WARM_CALLS 20

static FastedEngine engine;
static FastedContext *second;	/* context of the second device */
static long calls_left;
static int	warm_calls;
static int	idle_timeout;

/* Returns the devices in the list, or all devices if it is empty. */
static int
engine_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = 0;

	for (int i = 0; i < DEVICES && count < most; i++)
	{
		const char *text = devices;
		FastedDeviceName name;
		bool		wanted = fasted_any_device(devices);

		while (!wanted && *text != '\0' && fasted_next_device(&text, &name))
			wanted = name.ordinal == i;
		if (wanted)
			snprintf(names[count++], FASTED_DEVICE_NAME, "%d", i);
	}
	return count;
}

static bool
engine_describe(int ordinal, char *text, size_t size)
{
	snprintf(text, size, "model %d", ordinal);
	return ordinal < DEVICES;
}

static FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	char		names[1][FASTED_DEVICE_NAME];

	if (engine_devices(devices, names, 1) > 0)
		return FASTED_OK;
	snprintf(reason, size, "No GPU matches \"%s\".", devices);
	return FASTED_UNKNOWN_DEVICE;
}

static bool
engine_warm(const FastedOptions *options)
{
	(void) options;
	return ++warm_calls > WARM_CALLS;
}

static void
engine_stop(void)
{
	fprintf(stderr, "simulated GPUs stopped, idle_timeout %d\n", idle_timeout);
}

static FastedStatus
engine_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions own = *options;
	FastedStatus status;

	warm_calls = 0;
	idle_timeout = options->idle_timeout;
	if (options->device_memory_limit / 1024 == OPEN_FAILS)
		own.kernel = "none";
	own.devices = NULL;
	own.threads = 1;
	own.device_memory_limit = 0;
	status = fasted_cpu_engine()->open(&own, context);
	if (options->devices != NULL && strcmp(options->devices, "1") == 0)
	{
		second = *context;
		calls_left = (long) (options->device_memory_limit / 1024);
	}
	return status;
}

/* Adds rows of another device's set, as stage and commit do. */
static FastedStatus
copy_rows(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	size_t		row = from->rows.row_floats * sizeof(float);

	for (uint64_t end = first + nrows; first < end; first++)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = fasted_cpu_engine()->stage(set, &room, &capacity);

		if (status != FASTED_OK)
			return status;
		memcpy(room, row_store_row(&from->rows, first), row);
		status = fasted_cpu_engine()->commit(set, 1);
		if (status != FASTED_OK)
			return status;
	}
	return FASTED_OK;
}

/* The staging buffer of the CPU engine follows the rows that the set already has. */
static FastedStatus
copy_staged(FastedSet *set, const FastedSet *from, size_t nrows)
{
	return copy_rows(set, from, from->rows.rows, nrows);
}

/* The first field of a join is its context. */
static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	if (*(FastedContext **) join == second && calls_left > 1 && --calls_left == 1)
		return FASTED_DEVICE_FAILED;
	return connecting_next(join, timeout_ms, batch);
}

/* The last join of a context for nearest neighbours. */
#define CONTEXTS 16
typedef struct Found
{
	FastedContext *context;
	FastedSet  *a;
	FastedSet  *b;
	uint64_t	first_b;
	bool		further;		/* it continued the join of an earlier panel */
} Found;
static Found found_by[CONTEXTS];

static Found *
found_of(FastedContext *context)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	Found	   *found = NULL;

	/* devices open their joins in parallel threads */
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS; i++)
	{
		if (found_by[i].context == context)
		{
			found = &found_by[i];
			break;
		}
		if (found_by[i].context == NULL)
			found = &found_by[i];
	}
	if (found == NULL)
		abort();
	found->context = context;
	pthread_mutex_unlock(&lock);
	return found;
}

static void
engine_close(FastedContext *context)
{
	*found_of(context) = (Found) {0};
	if (context == second)
		second = NULL;			/* a later context may get the same address */
	fasted_cpu_engine()->close(context);
}

/*
 * The CPU engine does not support slices of joins for nearest neighbours.  So the first slice of
 * two panels on a device finds all neighbours, and its later slices find none.  Neighbours that
 * several devices have found are in the result once.
 */
static FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
				 FastedJoin **join)
{
	FastedProblem whole = *problem;
	Found	   *found = found_of(context);

	if (problem->output != FASTED_OUTPUT_NEAREST)
		return connecting_join_open(context, problem, a, b, join);
	whole.slices = whole.slice = whole.more_slices = 0;
	if (problem->continues && found->a == a && found->b == b &&
		found->first_b == b->options.first_row)
	{
		whole.continues = found->further;
		if (found->further)
		{
			FastedStatus status = fasted_cpu_engine()->set_open(context, &(FastedSetOptions) {0}, &b);

			if (status == FASTED_OK)
				status = fasted_cpu_engine()->seal(b);
			if (status != FASTED_OK)
				return status;
		}
	}
	else
		*found = (Found) {context, a, b, b->options.first_row, problem->continues};
	return connecting_join_open(context, &whole, a, b, join);
}

static FastedStatus
engine_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			   FastedNeighbor *neighbors)
{
	return fasted_cpu_engine()->nearest(((ConnectingJoin *) join)->join, first_row, nrows, lengths,
										neighbors);
}

extern __attribute__((visibility("default"))) const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	engine = *fasted_cpu_engine();
	engine.name = "cuda";
	engine.probe = engine_probe;
	engine.devices = engine_devices;
	engine.describe = engine_describe;
	engine.warm = engine_warm;
	engine.stop = engine_stop;
	engine.open = engine_open;
	engine.copy_staged = copy_staged;
	engine.copy_rows = copy_rows;
	make_connecting(&engine);
	engine.next = engine_next;
	engine.close = engine_close;
	engine.join_open = engine_join_open;
	engine.nearest = engine_nearest;
	engine.rows_for_lists = fasted_cpu_engine()->rows_for_lists;
	return &engine;
}
