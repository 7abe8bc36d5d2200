/*-------------------------------------------------------------------------
 *
 * join.c
 *	  A join from its opening to its end: reads rows, starts what finds the pairs, and waits for
 *	  them.
 *
 * The engine's memory and threads are not managed by PostgreSQL.  A cleanup callback therefore
 * closes the engine, however the query ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/xact.h"
#include "join/join.h"
#include "portability/instr_time.h"
#include "utils/memutils.h"

/* Minimum number of rows for the NOTICE: most pairs of a few rows may well be near. */
#define MANY_ROWS 1000

/* Lists of neighbors between two checks for interrupts. */
#define LISTS_PER_CHECK 64

static void
Close(void *arg)
{
	VectorJoin *join = arg;

	EngineRunClose(&join->run);
	ProgressEnd(&join->progress);
}

/*
 * Raises the NOTICE if it is enabled and the number of pairs found so far requires it.  Pairs of rows
 * that are withheld from the engine are not counted.
 */
static void
NoticeManyPairs(VectorJoin *join)
{
	static TimestampTz noticed = 0; /* start time of the last statement that raised it */
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	uint64		nrows = join->rows[0].count;
	uint64		pairs = JoinStatistics(join).pairs;
	const FastedOptions *options = &join->run.problem.options;
	double		eps = join->request.problem.eps;

	if (!join->request.notices || eps >= GreatestDistance(options->metric, options->dimensions) ||
		noticed == statement || nrows < MANY_ROWS || pairs <= nrows * (nrows - 1) / 4)
		return;
	noticed = statement;
	ereport(NOTICE,
			(errmsg("more than half of all pairs of rows of \"%s\" are within eps",
					join->request.sources[0]->relation),
			 errdetail("There are " UINT64_FORMAT " pairs of " UINT64_FORMAT " rows, and eps is %.15g.",
					   nrows * (nrows - 1) / 2, nrows, eps),
			 fasted_metric_rules(options->metric)->similarity_of_squares != NULL ?
			 errhint("For %s, eps is a distance: similarity 0.95 is distance 0.05.", MetricName(options->metric)) :
			 errhint("Use fasted_epsilon to find an eps for a desired mean number of neighbors.")));
}

void
JoinShowProgress(VectorJoin *join, ProgressPhase phase)
{
	ProgressNumbers numbers = {0};

	for (int side = 0; side < join->run.problem.sides; side++)
	{
		numbers.rows_read += join->rows[side].count;
		numbers.rows_expected += join->run.problem.expected_rows[side];
	}
	join->progress_stale = false;
	if (phase >= PROGRESS_JOINING)
	{
		FastedStats stats = JoinStatistics(join);

		numbers.units_done = stats.units_done;
		numbers.units_total = stats.units_total;
		numbers.pairs = stats.pairs;
	}
	ProgressShow(&join->progress, phase, &numbers);
}

void
JoinUpdateProgress(VectorJoin *join, ProgressPhase phase)
{
	if (ProgressIsDue(&join->progress))
		JoinShowProgress(join, phase);
}

void
JoinOpenEngine(VectorJoin *join)
{
	if (join->run.join == NULL && !join->run.failed)
		EngineRunOpen(&join->run);
	join->output = join->run.output;
}

/* --- opening */

/* Initializes the rows, and opens the engine if the number of dimensions is known. */
static void
InitRows(VectorJoin *join)
{
	for (int side = 0; side < join->run.problem.sides; side++)
	{
		if (join->keys[side] != NULL)
			KeySetReset(join->keys[side]);
		RowSetInit(&join->rows[side], join, side);
	}
	if (join->request.sources[0] == NULL && join->request.most_rows == 0)
		JoinOpenEngine(join);
}

/* Sets the engine options. */
static void
SetOptions(EngineRun *run, const JoinRequest *request)
{
	FastedOptions *options = &run->problem.options;
	const VectorSource *source = request->sources[0];

	EngineRunInit(run);
	run->problem.problem = request->problem;
	run->problem.searches = request->searches;
	run->caller_row_bytes = request->caller_row_bytes;
	run->problem.sides = source == NULL ? request->sides : request->sources[1] != NULL ? 2 : 1;
	options->metric = source != NULL ? source->metric : request->metric;
	options->element = source != NULL ? source->element : request->element;
	if (source == NULL)
	{
		options->dimensions = request->dimensions;
		memcpy(run->problem.expected_rows, request->expected_rows, sizeof(request->expected_rows));
	}
}

/*
 * The join has a memory context of its own.  The copied sources are allocated in the caller's context,
 * because the keys may outlive the join.
 */
VectorJoin *
JoinOpen(const JoinRequest *request)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted join",
												  ALLOCSET_DEFAULT_SIZES);
	VectorJoin *join = MemoryContextAllocZero(context, sizeof(VectorJoin));
	MemoryContext old = MemoryContextSwitchTo(context);

	join->context = join->run.context = context;
	join->request = *request;
	join->output = request->problem.output;
	join->backend = &few_rows;
	join->next_copy = NO_COPY;
	SetOptions(&join->run, request);
	CleanupRegister(&join->cleanup, Close, join);
	INSTR_TIME_SET_CURRENT(join->begun);
	ProgressBegin(&join->progress,
				  request->sources[0] != NULL ? request->sources[0]->relid : request->relid);
	for (int side = 0; side < 2 && request->sources[side] != NULL; side++)
	{
		VectorSource *compared = MemoryContextAlloc(old, sizeof(VectorSource));

		*compared = *request->sources[side];
		compared->element = join->run.problem.options.element;
		join->request.sources[side] = compared;
		join->keys[side] = KeySetCreate(compared);
	}
	if (join->run.problem.sides == 1)
		join->keys[1] = join->keys[0];
	InitRows(join);
	MemoryContextSwitchTo(old);
	return join;
}

/* --- rows */

/* Flushes the other side first. */
RowSink *
JoinSink(VectorJoin *join, int side)
{
	if (join->run.problem.sides == 2)
		RowSetFlush(&join->rows[!side]);
	return &join->rows[side].sink;
}

bool
JoinPush(VectorJoin *join, int side, const float *row)
{
	const FastedOptions *options = &join->run.problem.options;
	RowSink    *sink = JoinSink(join, side);
	float	   *buffer;

	if (sink->buffer_for_rows(sink, &buffer) == 0)
		return false;
	memcpy(buffer, row, RowBytes(options->element, options->dimensions));
	sink->take_rows(sink, NULL, 1);
	return true;
}

static void *
Copy(MemoryContext context, const void *from, Size bytes)
{
	return memcpy(MemoryContextAllocHuge(context, Max(bytes, 1)), from, bytes);
}

/*
 * Returns whether a self-join finds only vectors at distance 0: then it is a hash join.  Hamming
 * distances are whole numbers.
 */
static bool
FindsEqualRows(const VectorJoin *join)
{
	const FastedOptions *options = &join->run.problem.options;
	const MetricRules *rules = fasted_metric_rules(options->metric);
	double		eps = join->request.problem.eps;

	return join->run.problem.sides == 1 &&
		!rules->has_direction && !rules->negative_product && (eps == 0.0 || (rules->is_count && eps < 1.0));
}

/* Reads all rows of sources with partitions, then pushes them in partition order. */
static void
ReadPartitions(VectorJoin *join)
{
	PanelProblem *problem = &join->run.problem;
	const VectorSource *source = join->request.sources[0];
	MemoryContext reading = AllocSetContextCreate(join->context, "fasted partitions",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(reading);
	PartitionedRows *rows;

	/* a GPU is initialized meanwhile; the engine is opened after all rows have been read */
	(void) EngineIsReady(&join->run);
	rows = ReadPartitionedRows(join->request.sources, problem->sides);
	MemoryContextSwitchTo(old);
	/* same lifetime as the keys, which may outlive the join */
	if (source->order_column != NULL)
		join->order = Copy(join->keys[0]->context, rows->order[0], rows->count[0] * sizeof(uint32));
	if (source->partition_column != NULL)
		join->npartitions = rows->npushed;
	/* a single partition contains all rows */
	problem->problem.npartitions = rows->npushed > 1 ? rows->npushed : 0;
	problem->problem.partitions = rows->npushed <= 1 ? NULL :
		Copy(join->context, rows->pushed, rows->npushed * sizeof(FastedPartition));
	for (int side = 0; side < problem->sides; side++)
		problem->expected_rows[side] = rows->count[side];
	for (int side = 0; side < problem->sides && !join->run.failed; side++)
	{
		RowSink    *sink = JoinSink(join, side);

		PushPartitionedRows(rows, side, sink);
	}
	MemoryContextDelete(reading);
}

static void
ReadSources(VectorJoin *join)
{
	const VectorSource *const *sources = join->request.sources;
	int			sides = join->run.problem.sides;

	/* the engine is chosen at the first vector of either side, from the row counts of both */
	if (sides == 2)
		join->run.problem.expected_rows[1] = PlannedRows(PlanSource(sources[1]));
	for (int side = 0; side < sides && !join->run.failed; side++)
	{
		RowSink    *sink = JoinSink(join, side);

		ReadVectors(sources[side], sink);
	}
}

/* Starts a distributed join.  Returns false if other servers do not take part. */
static bool
BeginDistributed(VectorJoin *join)
{
	const JoinRequest *request = &join->request;
	const JoinDistributor *distributor;

	if (request->searches || request->finds_zeros)
		return false;
	distributor = FindDistributor();
	if (distributor == NULL || !distributor->distribute(join, request))
		return false;
	for (int side = 0; side < join->run.problem.sides; side++)
		join->rows[side].count = join->keys[side]->count;
	return true;
}

void
JoinRead(VectorJoin *join)
{
	MemoryContext old = MemoryContextSwitchTo(join->context);

	if (!BeginDistributed(join))
	{
		if (join->request.sources[0]->partition_column != NULL || FindsEqualRows(join))
			ReadPartitions(join);
		else
			ReadSources(join);
	}
	MemoryContextSwitchTo(old);
}

/* --- the start */

void
JoinRank(VectorJoin *join, const uint32 *ranks)
{
	join->ranks = ranks;
}

/* Empties the join for the CPU engine, after a GPU has failed. */
static void
ResetRows(VectorJoin *join)
{
	memset(&join->copied, 0, sizeof(join->copied));
	join->copy_of = NULL;
	join->nzeros = 0;
	join->run.failed = false;
	InitRows(join);
}

static void
LogReading(const VectorJoin *join)
{
	const RowSet *rows = &join->rows[0];

	if (join->run.problem.sides == 1)
		ereport(DEBUG1,
				(errmsg_internal("fasted: read " UINT64_FORMAT " rows in %.3f s, " UINT64_FORMAT
								 " of them by %d workers, " UINT64_FORMAT " from registered memory",
								 rows->count, join->read_seconds,
								 rows->sink.worker_rows, rows->sink.nworkers, rows->direct_rows)));
}

bool
JoinStart(VectorJoin *join)
{
	EngineRun  *run = &join->run;
	MemoryContext old = MemoryContextSwitchTo(join->context);
	bool		failed;

	join->read_seconds = SecondsSince(join->begun);
	for (int side = 0; side < run->problem.sides && run->engine != NULL; side++)
		RowSetFlush(&join->rows[side]);
	if (run->engine != NULL && !run->failed)
	{
		LogReading(join);
		JoinShowProgress(join, PROGRESS_PREPARING);
		StartPanels(join);
	}
	failed = run->failed;
	if (!failed)
	{
		run->can_fall_back = false;
		if (run->engine != NULL)
			join->backend = &panels;
		if (join->backend != &few_rows)
			JoinShowProgress(join, PROGRESS_JOINING);
	}
	else
		ResetRows(join);
	MemoryContextSwitchTo(old);
	return !failed;
}

VectorJoin *
JoinBegin(const JoinRequest *request)
{
	VectorJoin *join = JoinOpen(request);

	do
		JoinRead(join);
	while (!JoinStart(join));
	return join;
}

/* --- batches */

/* Updates the progress view and checks the NOTICE, if enough time has passed. */
static void
UpdateProgress(VectorJoin *join)
{
	if (!ProgressIsDue(&join->progress))
		return;
	JoinShowProgress(join, join->searched != NULL ? PROGRESS_SPANNING_TREE : PROGRESS_JOINING);
	NoticeManyPairs(join);
}

/* Waits for the next batch.  Returns false at the end. */
static bool
NextBatch(VectorJoin *join, FastedBatch *batch)
{
	FastedStatus status;

	do
	{
		CheckJoinInterrupts();
		UpdateProgress(join);
		status = join->backend->next(join, batch);
	} while (status == FASTED_AGAIN);
	return status == FASTED_OK;
}

bool
JoinNext(VectorJoin *join, const FastedPair **pairs, size_t *npairs)
{
	FastedBatch batch;

	if (!NextBatch(join, &batch))
	{
		NoticeManyPairs(join);
		return false;
	}
	*pairs = batch.pairs;
	*npairs = batch.npairs;
	return true;
}

const NeighborList *
JoinNextList(VectorJoin *join, bool wait)
{
	if (++join->nlists % LISTS_PER_CHECK == 0)
		CheckJoinInterrupts();
	while (join->backend->next_list == NULL || !join->backend->next_list(join))
		if (!wait || !NextBatch(join, &join->batch))
			return NULL;
	return &join->list;
}

uint64
JoinCount(VectorJoin *join)
{
	const FastedPair *pairs;
	size_t		npairs;

	if (JoinNext(join, &pairs, &npairs))
		elog(ERROR, "fasted %s engine returned pairs instead of counting them", join->run.engine->name);
	return JoinStatistics(join).pairs;
}

void
JoinPause(VectorJoin *join)
{
	if (join->backend->pause == NULL)
		return;
	join->backend->pause(join);
	if (join->progress_stale)
		JoinShowProgress(join, PROGRESS_JOINING);
}

FastedStats
JoinStatistics(const VectorJoin *join)
{
	return join->backend->statistics(join);
}

List *
JoinShares(const VectorJoin *join)
{
	return join->backend->shares != NULL ? join->backend->shares(join) : NIL;
}

static void
LogStatistics(const VectorJoin *join)
{
	FastedStats stats;

	if (join->run.join == NULL || !message_level_is_interesting(DEBUG1))
		return;
	panel_join_stats(join->run.join, &stats);
	ereport(DEBUG1,
			(errmsg_internal("fasted: " UINT64_FORMAT " rows of %u dimensions in %.3f s, read in %.3f s",
							 stats.rows, stats.dimensions, SecondsSince(join->begun),
							 join->read_seconds),
			 errdetail_internal("engine %s, kernel %s, filter %s, panels %u", stats.engine, stats.kernel,
								stats.filter, stats.panels)));
}

void
JoinEnd(VectorJoin *join)
{
	LogStatistics(join);
	for (int side = 0; side < join->run.problem.sides; side++)
		if (join->rows[side].spill != NULL)
			SpillClose(join->rows[side].spill);
	MemoryContextDelete(join->context); /* closes the engine */
}
