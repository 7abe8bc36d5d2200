/*-------------------------------------------------------------------------
 *
 * failing_engine.c
 *	  Simulates the CUDA engine, and fails in a requested function.
 *
 * The limit of device memory, in kB, selects the function (enum Place).  This engine does not
 * compute distances.  It returns no pairs, except a single one for PLACE_AFTER_PAIR.  It has one
 * device, with ordinal 0 and the UUID that is defined below.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device_list.h"
#include "engine/engine.h"

enum Place
{
	PLACE_PROBE = 1,
	PLACE_OPEN,
	PLACE_SET_OPEN,
	PLACE_STAGE,
	PLACE_COMMIT,
	PLACE_READ_BACK,
	PLACE_SEAL,
	PLACE_JOIN_OPEN,
	PLACE_NEXT,
	PLACE_RESET,				/* before rows are loaded in panels */
	PLACE_WANT_ROWS,			/* stage fails when panels are loaded */
	PLACE_AFTER_PAIR,
	PLACE_PUT,					/* this place and the following ones register memory */
	PLACE_WAIT_READ,
	PLACE_REGISTERED,			/* next fails, after rows were put from registered memory */
	PLACE_UNSUPPORTED			/* open reports an unsupported option, with a hint */
};

/* Maximum number of rows of a set, at places that need full sets (is_small). */
#define FEW_ROWS 20

#define UUID "GPU-0f0f0f0f-0000-0000-0000-000000000000"

struct FastedJoin
{
	struct FastedContext *context;
	int			calls;
};

struct FastedSet
{
	struct FastedContext *context;
	uint64_t	rows;
	const volatile char *registered;
	size_t		registered_bytes;
	float	   *room;
};

struct FastedContext
{
	int			place;
	uint32_t	dimensions;
	int			resets;
	FastedSet  *sets[5];
	int			nsets;
	FastedJoin	join;
	char		error[100];
};

static int	open_contexts = 0;

static FastedStatus
fail(FastedContext *context, const char *where)
{
	snprintf(context->error, sizeof(context->error), "The engine was told to fail in %s.", where);
	return FASTED_DEVICE_FAILED;
}

/* Returns true if sets are full after FEW_ROWS rows. */
static bool
is_small(const FastedContext *context)
{
	return context->place == PLACE_READ_BACK || context->place == PLACE_RESET ||
		context->place == PLACE_WANT_ROWS;
}

static FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	FastedDeviceName name;

	while (!fasted_any_device(devices))
	{
		if (!fasted_next_device(&devices, &name))
			return FASTED_NO_DEVICE;
		if (!fasted_is_device(&name, 0, UUID))
		{
			snprintf(reason, size, "No GPU matches the list.\nAvailable GPUs: 0 (" UUID ").");
			return FASTED_UNKNOWN_DEVICE;
		}
	}
	snprintf(reason, size, "%d contexts were not closed.", open_contexts);
	return open_contexts == 0 ? FASTED_OK : FASTED_NO_DEVICE;
}

static FastedStatus
engine_open(const FastedOptions *options, FastedContext **result)
{
	FastedContext *context = calloc(1, sizeof(FastedContext));

	*result = context;
	if (context == NULL)
		return FASTED_OUT_OF_MEMORY;
	open_contexts++;
	context->place = (int) (options->device_memory_limit / 1024);
	context->dimensions = options->dimensions;
	if (context->place == PLACE_UNSUPPORTED)
	{
		snprintf(context->error, sizeof(context->error),
				 "The rows are too long.\nUse shorter rows.");
		return FASTED_UNSUPPORTED;
	}
	return context->place == PLACE_OPEN ? fail(context, "open") : FASTED_OK;
}

static void
engine_stats(const FastedContext *context, FastedStats *stats)
{
	(void) context;
	memset(stats, 0, sizeof(*stats));
	strcpy(stats->device, "simulated GPU");
}

static const char *
engine_last_error(const FastedContext *context)
{
	return context == NULL ? "" : context->error;
}

/* Reads the last byte: the memory must still exist. */
static void
engine_unregister_memory(FastedSet *set)
{
	if (set->registered != NULL)
		(void) set->registered[set->registered_bytes - 1];
	set->registered = NULL;
}

static void
engine_close(FastedContext *context)
{
	if (context == NULL)
		return;
	open_contexts--;
	for (int i = 0; i < context->nsets; i++)
	{
		engine_unregister_memory(context->sets[i]);
		free(context->sets[i]->room);
		free(context->sets[i]);
	}
	free(context);
}

static bool
engine_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	uint64_t	sum = 0;

	for (int i = 0; i < nsets; i++)
		sum += rows[i];
	return !is_small(context) || sum <= FEW_ROWS;
}

static FastedStatus
engine_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	FastedSet  *set = calloc(1, sizeof(FastedSet));

	(void) options;
	*result = set;
	if (set == NULL)
		return FASTED_OUT_OF_MEMORY;
	set->context = context;
	set->room = malloc(10 * sizeof(float) * context->dimensions);
	context->sets[context->nsets++] = set;
	return context->place == PLACE_SET_OPEN ? fail(context, "set_open") : FASTED_OK;
}

static FastedStatus
engine_stage(FastedSet *set, float **rows, size_t *capacity)
{
	FastedContext *context = set->context;

	if (context->place == PLACE_STAGE || (context->place == PLACE_WANT_ROWS && context->resets > 0))
		return fail(context, "stage");
	if (is_small(context) && set->rows >= FEW_ROWS)
		return FASTED_FULL;
	*rows = set->room;
	*capacity = 10;
	return FASTED_OK;
}

static FastedStatus
engine_commit(FastedSet *set, size_t nrows)
{
	set->rows += nrows;
	return set->context->place == PLACE_COMMIT ? fail(set->context, "commit") : FASTED_OK;
}

static bool
engine_register_memory(FastedSet *set, void *memory, size_t bytes)
{
	if (set->context->place < PLACE_PUT)
		return false;
	set->registered = memory;
	set->registered_bytes = bytes;
	return true;
}

static FastedStatus
engine_put(FastedSet *set, const float *rows, size_t nrows, size_t *taken)
{
	FastedContext *context = set->context;
	const char *from = (const char *) rows;

	*taken = nrows;
	set->rows += nrows;
	if (from < set->registered ||
		from + nrows * context->dimensions * sizeof(float) > set->registered + set->registered_bytes)
		return fail(context, "put, of rows elsewhere");
	return context->place == PLACE_PUT ? fail(context, "put") : FASTED_OK;
}

static FastedStatus
engine_wait_read(FastedSet *set, bool all)
{
	(void) all;
	return set->context->place == PLACE_WAIT_READ ? fail(set->context, "wait_read") : FASTED_OK;
}

static FastedStatus
engine_read_back(FastedSet *set, uint64_t first_row, size_t nrows, float *rows)
{
	(void) first_row;
	memset(rows, 0, nrows * set->context->dimensions * sizeof(float));
	return set->context->place == PLACE_READ_BACK ? fail(set->context, "read_back") : FASTED_OK;
}

static FastedStatus
engine_seal(FastedSet *set)
{
	return set->context->place == PLACE_SEAL ? fail(set->context, "seal") : FASTED_OK;
}

static FastedStatus
engine_set_reset(FastedSet *set, uint64_t first_row)
{
	(void) first_row;
	set->rows = 0;
	set->context->resets++;
	return set->context->place == PLACE_RESET ? fail(set->context, "set_reset") : FASTED_OK;
}

/* engine_close frees the set's memory. */
static void
engine_set_close(FastedSet *set)
{
	if (set != NULL)
		engine_unregister_memory(set);
}

static FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
				 FastedJoin **join)
{
	(void) problem;
	(void) a;
	(void) b;
	context->join.context = context;
	*join = &context->join;
	return context->place == PLACE_JOIN_OPEN ? fail(context, "join_open") : FASTED_OK;
}

static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	static const FastedPair pair = {0, 1, 0.0};

	(void) timeout_ms;
	if (join->context->place == PLACE_AFTER_PAIR && join->calls++ == 0)
	{
		batch->pairs = &pair;
		batch->npairs = 1;
		return FASTED_OK;
	}
	return join->context->place >= PLACE_NEXT ? fail(join->context, "next") : FASTED_DONE;
}

static void
engine_pause(FastedJoin *join)
{
	(void) join;
}

static FastedStatus
engine_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	(void) side;
	(void) first_row;
	memset(counts, 0, nrows * sizeof(uint32_t));
	return fail(join->context, "counts");
}

static void
engine_join_close(FastedJoin *join)
{
	(void) join;
}

extern __attribute__((visibility("default"))) const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	static const FastedEngine engine = {
		.abi = FASTED_ENGINE_ABI,
		.name = "failing",
		.probe = engine_probe,
		.open = engine_open,
		.stats = engine_stats,
		.last_error = engine_last_error,
		.close = engine_close,
		.fits = engine_fits,
		.set_open = engine_set_open,
		.stage = engine_stage,
		.commit = engine_commit,
		.register_memory = engine_register_memory,
		.unregister_memory = engine_unregister_memory,
		.put = engine_put,
		.wait_read = engine_wait_read,
		.read_back = engine_read_back,
		.seal = engine_seal,
		.set_reset = engine_set_reset,
		.set_close = engine_set_close,
		.join_open = engine_join_open,
		.next = engine_next,
		.pause = engine_pause,
		.counts = engine_counts,
		.join_close = engine_join_close
	};

	return &engine;
}
