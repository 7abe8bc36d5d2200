/*-------------------------------------------------------------------------
 *
 * failing_engine.c
 *	  Stands in for the CUDA engine, and fails where it is told to.
 *
 * The place comes as the limit of device memory, in kB (enum Place).  What it
 * can't do otherwise it does honestly: it is no good at joins, and reports no
 * pair but the one that PLACE_AFTER_PAIR asks for.  It has one device, 0, of name
 * GPU-0f0f0f0f-....
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
	PLACE_STAGE,
	PLACE_COMMIT,
	PLACE_READ_BACK,
	PLACE_START,
	PLACE_NEXT,
	PLACE_WANT_ROWS,			/* stage fails when rows are fed again */
	PLACE_AFTER_PAIR,
	PLACE_PUT,					/* from here on, memory is lent */
	PLACE_SETTLE,
	PLACE_LENT,					/* until next */
	PLACE_UNSUPPORTED			/* what it can't do is asked of it */
};

#define UUID "GPU-0f0f0f0f-0000-0000-0000-000000000000"

struct FastedJoin
{
	int			place;
	uint32_t	dimensions;
	uint64_t	rows;
	uint64_t	total;
	bool		started;
	int			calls;
	const volatile char *lent;
	size_t		lent_bytes;
	float	   *room;
	char		error[100];
};

static int	open_joins = 0;

static FastedStatus
fail(FastedJoin *join, const char *where)
{
	snprintf(join->error, sizeof(join->error), "It was told to fail in %s.", where);
	return FASTED_DEVICE_FAILED;
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
			snprintf(reason, size, "There is no such GPU.\nThere are: 0 (" UUID ").");
			return FASTED_UNKNOWN_DEVICE;
		}
	}
	snprintf(reason, size, "%d joins were not closed.", open_joins);
	return open_joins == 0 ? FASTED_OK : FASTED_NO_DEVICE;
}

static FastedStatus
engine_open(const FastedProblem *problem, FastedJoin **result)
{
	FastedJoin *join = calloc(1, sizeof(FastedJoin));

	*result = join;
	if (join == NULL)
		return FASTED_OUT_OF_MEMORY;
	open_joins++;
	join->place = (int) (problem->device_memory_limit / 1024);
	join->dimensions = problem->dimensions;
	join->room = malloc(10 * sizeof(float) * problem->dimensions);
	if (join->place == PLACE_UNSUPPORTED)
	{
		snprintf(join->error, sizeof(join->error), "rows are too long for it\nTake shorter ones.");
		return FASTED_UNSUPPORTED;
	}
	return join->place == PLACE_OPEN ? fail(join, "open") : FASTED_OK;
}

static FastedStatus
engine_stage(FastedJoin *join, float **rows, size_t *capacity)
{
	bool		few = join->place == PLACE_READ_BACK || join->place == PLACE_WANT_ROWS;

	if (join->place == PLACE_STAGE || (join->place == PLACE_WANT_ROWS && join->started))
		return fail(join, "stage");
	if (few && join->rows >= 20)
		return FASTED_FULL;
	*rows = join->room;
	*capacity = 10;
	return FASTED_OK;
}

static FastedStatus
engine_commit(FastedJoin *join, size_t nrows)
{
	join->rows += nrows;
	return join->place == PLACE_COMMIT ? fail(join, "commit") : FASTED_OK;
}

static bool
engine_lend(FastedJoin *join, void *memory, size_t bytes)
{
	if (join->place < PLACE_PUT)
		return false;
	join->lent = memory;
	join->lent_bytes = bytes;
	return true;
}

/* The memory must still be there, to its end. */
static void
engine_withdraw(FastedJoin *join)
{
	if (join->lent != NULL)
		(void) join->lent[join->lent_bytes - 1];
	join->lent = NULL;
}

static FastedStatus
engine_put(FastedJoin *join, const float *rows, size_t nrows, size_t *taken)
{
	const char *from = (const char *) rows;

	*taken = nrows;
	join->rows += nrows;
	if (from < join->lent || from + nrows * join->dimensions * sizeof(float) > join->lent + join->lent_bytes)
		return fail(join, "put, of rows elsewhere");
	return join->place == PLACE_PUT ? fail(join, "put") : FASTED_OK;
}

static FastedStatus
engine_settle(FastedJoin *join)
{
	return join->place == PLACE_SETTLE ? fail(join, "settle") : FASTED_OK;
}

static FastedStatus
engine_read_back(FastedJoin *join, uint64_t first_row, size_t nrows, float *rows)
{
	(void) first_row;
	memset(rows, 0, nrows * join->dimensions * sizeof(float));
	return join->place == PLACE_READ_BACK ? fail(join, "read_back") : FASTED_OK;
}

static FastedStatus
engine_start(FastedJoin *join, uint64_t total_rows)
{
	join->started = true;
	join->total = total_rows;
	return join->place == PLACE_START ? fail(join, "start") : FASTED_OK;
}

static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	static const FastedPair pair = {0, 1, 0.0};

	(void) timeout_ms;
	if (join->place == PLACE_WANT_ROWS)
	{
		batch->first_row = 0;
		batch->row_count = join->total;
		return FASTED_WANT_ROWS;
	}
	if (join->place == PLACE_AFTER_PAIR && join->calls++ == 0)
	{
		batch->pairs = &pair;
		batch->npairs = 1;
		return FASTED_OK;
	}
	return join->place >= PLACE_NEXT ? fail(join, "next") : FASTED_DONE;
}

static void
engine_pause(FastedJoin *join)
{
	(void) join;
}

static void
engine_stats(const FastedJoin *join, FastedStats *stats)
{
	(void) join;
	memset(stats, 0, sizeof(*stats));
}

static const char *
engine_last_error(const FastedJoin *join)
{
	return join == NULL ? "" : join->error;
}

static void
engine_close(FastedJoin *join)
{
	if (join == NULL)
		return;
	open_joins--;
	engine_withdraw(join);
	free(join->room);
	free(join);
}

extern const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	static const FastedEngine engine = {
		.abi = FASTED_ENGINE_ABI,
		.name = "failing",
		.probe = engine_probe,
		.open = engine_open,
		.stage = engine_stage,
		.commit = engine_commit,
		.lend = engine_lend,
		.withdraw = engine_withdraw,
		.put = engine_put,
		.settle = engine_settle,
		.read_back = engine_read_back,
		.start = engine_start,
		.next = engine_next,
		.pause = engine_pause,
		.stats = engine_stats,
		.last_error = engine_last_error,
		.close = engine_close
	};

	return &engine;
}
