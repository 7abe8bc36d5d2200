/*-------------------------------------------------------------------------
 *
 * nearest_engine.c
 *	  Simulates the CUDA engine in joins for nearest neighbours: the CPU engine, which fails in a
 *	  requested function.
 *
 * The limit of device memory, in kB, selects the function (enum Place); 1: no function fails.
 * Built with the CPU engine's files.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu/state/join.h"
#include "engine/engine.h"

enum Place
{
	PLACE_OPEN = 2,
	PLACE_SET_OPEN,
	PLACE_STAGE,
	PLACE_STAGE_LATER,			/* after rows have been committed */
	PLACE_COMMIT,
	PLACE_COMMIT_LATER,			/* second call: for side 1, if there are two sides with few rows */
	PLACE_SEAL,
	PLACE_JOIN_OPEN,
	PLACE_NEXT,
	PLACE_NEAREST,
	PLACE_JOIN_OPEN_LATER		/* second call */
};

static FastedEngine engine;
static const FastedEngine *cpu;
static int	place;
static int	commits;
static int	joins;

static FastedStatus
at(int here, FastedStatus status)
{
	return place == here ? FASTED_DEVICE_FAILED : status;
}

static FastedStatus
engine_probe(const char *devices, char *reason, size_t size)
{
	(void) devices;
	(void) reason;
	(void) size;
	return FASTED_OK;
}

static FastedStatus
engine_open(const FastedOptions *options, FastedContext **context)
{
	FastedOptions own = *options;

	place = (int) (options->device_memory_limit / 1024);
	commits = joins = 0;
	own.devices = NULL;
	own.threads = 1;
	own.device_memory_limit = 0;
	return at(PLACE_OPEN, cpu->open(&own, context));
}

static void
engine_stats(const FastedContext *context, FastedStats *stats)
{
	cpu->stats(context, stats);
	strcpy(stats->engine, "cuda");
}

static FastedStatus
engine_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	return at(PLACE_SET_OPEN, cpu->set_open(context, options, set));
}

/* Limits the staging buffer to few rows, so that stage is called often. */
static FastedStatus
engine_stage(FastedSet *set, float **rows, size_t *capacity)
{
	FastedStatus status = cpu->stage(set, rows, capacity);

	if (*capacity > 100)
		*capacity = 100;
	return at(commits > 0 ? PLACE_STAGE_LATER : PLACE_STAGE, status);
}

static FastedStatus
engine_commit(FastedSet *set, size_t nrows)
{
	return at(commits++ > 0 ? PLACE_COMMIT_LATER : PLACE_COMMIT, cpu->commit(set, nrows));
}

static FastedStatus
engine_seal(FastedSet *set)
{
	return at(PLACE_SEAL, cpu->seal(set));
}

static FastedStatus
engine_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
				 FastedJoin **join)
{
	return at(joins++ > 0 ? PLACE_JOIN_OPEN_LATER : PLACE_JOIN_OPEN,
			  cpu->join_open(context, problem, a, b, join));
}

static FastedStatus
engine_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	return at(PLACE_NEXT, cpu->next(join, timeout_ms, batch));
}

static FastedStatus
engine_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			   FastedNeighbor *neighbors)
{
	return at(PLACE_NEAREST, cpu->nearest(join, first_row, nrows, lengths, neighbors));
}

extern __attribute__((visibility("default"))) const FastedEngine *fasted_engine(void);

const FastedEngine *
fasted_engine(void)
{
	cpu = fasted_cpu_engine();
	engine = *cpu;
	engine.name = "cuda";
	engine.probe = engine_probe;
	engine.open = engine_open;
	engine.stats = engine_stats;
	engine.set_open = engine_set_open;
	engine.stage = engine_stage;
	engine.commit = engine_commit;
	engine.seal = engine_seal;
	engine.join_open = engine_join_open;
	engine.next = engine_next;
	engine.nearest = engine_nearest;
	return &engine;
}
