/*-------------------------------------------------------------------------
 *
 * join.c
 *	  Reads, starts and polls; once more on the CPU where a GPU fails.
 *
 * The engine's memory and threads are not PostgreSQL's, so a cleanup closes the engine,
 * however the query ends.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/interrupts.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "join/engines.h"
#include "join/join.h"
#include "join/remote_join.h"
#include "portability/instr_time.h"
#include "rows/reader.h"
#include "utils/memutils.h"

/* Of fewer rows, most may well be near. */
#define MANY_ROWS 1000

struct Join
{
	MemoryContext context;
	Cleanup		cleanup;
	const VectorSource *sources[2];
	const RowArray *array;		/* the rows, if they are in memory */
	RowPusher  *pusher;			/* whoever has them, if not */
	RemoteJoin *remote;			/* whose workers do it; NULL: it is done here */
	JoinOptions options;
	FastedProblem problem;

	EngineRun	run;
	int			opened;			/* engines so far */
	uint32	   *order;			/* the places in their source of rows that came by partition */
	MemoryContext groups;		/* their partitions, and the rows while they are read; or NULL */
	uint32		npartitions;
	int			sides;
	RowSet		rows[2];
	instr_time	begun;
	double		read_seconds;
	Progress	progress;
	bool		unseen;			/* pairs have come since progress was shown */
	bool		notices;		/* JoinNoticeManyPairs */
};

static void
Close(void *arg)
{
	Join	   *join = arg;

	EngineRunClose(&join->run);
	ProgressEnd(&join->progress);
}

void
JoinNoticeManyPairs(Join *join)
{
	join->notices = join->options.metric == FASTED_METRIC_COSINE ?
		join->problem.eps < 2.0 : !isinf(join->problem.eps);
}

/* Raises the notice if it is wanted and due, by the number of pairs found so far. */
static void
NoticeManyPairs(Join *join)
{
	static TimestampTz noticed = 0; /* when the statement began that got the last notice */
	TimestampTz statement = GetCurrentStatementStartTimestamp();
	uint64		nrows = join->rows[0].count;
	bool		cosine = join->options.metric == FASTED_METRIC_COSINE;

	if (!join->notices || noticed == statement || nrows < MANY_ROWS ||
		JoinPairs(join) <= nrows * (nrows - 1) / 4)
		return;
	noticed = statement;
	ereport(NOTICE,
			(errmsg("more than half of all pairs of rows of \"%s\" are within eps",
					join->sources[0]->relation),
			 errdetail("There are " UINT64_FORMAT " pairs of " UINT64_FORMAT " rows, and eps is %.15g.",
					   nrows * (nrows - 1) / 2, nrows, join->problem.eps),
			 cosine ? errhint("For cosine, eps is a distance: similarity 0.95 is distance 0.05.") :
			 errhint("fasted_epsilon finds an eps by the number of neighbours that rows shall have.")));
}

static void
ShowProgress(Join *join, ProgressPhase phase)
{
	ProgressNumbers numbers = {0};

	for (int side = 0; side < join->sides; side++)
	{
		numbers.rows_read += join->rows[side].count;
		numbers.rows_expected += join->rows[side].expected_rows;
	}
	join->unseen = false;
	if (join->remote != NULL)
		numbers.pairs = RemoteJoinPairs(join->remote);
	else if (phase == PROGRESS_JOINING)
	{
		FastedStats stats;

		panel_join_stats(join->run.join, &stats);
		numbers.units_done = stats.units_done;
		numbers.units_total = stats.units_total;
		numbers.pairs = stats.pairs;
	}
	ProgressShow(&join->progress, phase, &numbers);
}

static void
OpenEngine(RowSet *rows)
{
	Join	   *join = rows->owner;
	PanelProblem problem = {.problem = join->problem,.sides = join->sides};

	if (join->run.join != NULL)
		return;					/* the other side's first vector was the first */
	problem.options.dimensions = rows->dimensions;
	for (int side = 0; side < join->sides; side++)
		problem.expected_rows[side] = join->rows[side].expected_rows;
	join->opened++;
	EngineRunOpen(&join->run, &join->options, &problem);
}

static double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

static void
ForAllKeys(Join *join, void (*work) (KeySet *keys))
{
	for (int side = 0; side < join->sides; side++)
		if (join->rows[side].keys != NULL)
			work(join->rows[side].keys);
}

/*
 * The order of keys is wanted when pairs are; before, if the engine goes by it.  A GPU does
 * not need this process for anything else, so they are sorted beside its work.
 */
static void
OrderKeys(Join *join)
{
	bool		beside = join->run.engine != fasted_cpu_engine() &&
		join->problem.output != FASTED_OUTPUT_NEAREST &&
		join->problem.output != FASTED_OUTPUT_KEEPERS;

	ForAllKeys(join, beside ? KeySetBeginFinish : KeySetFinish);
}

/* All rows are pushed: the engine begins, if there is a row. */
static void
Start(Join *join)
{
	const RowSet *rows = &join->rows[0];
	uint64		counts[2] = {rows->count, join->rows[1].count};

	if (join->sides == 1)
		ereport(DEBUG1,
				(errmsg_internal("fasted: read " UINT64_FORMAT " rows in %.3f s, " UINT64_FORMAT
								 " of them by %d workers, " UINT64_FORMAT " from lent memory",
								 rows->count, SecondsSince(join->begun),
								 rows->worker_rows, rows->nworkers, rows->put_rows)));
	ShowProgress(join, PROGRESS_PREPARING);
	OrderKeys(join);
	if (join->problem.output == FASTED_OUTPUT_NEAREST)
		JoinRank(join, JoinKeysOf(join, 1)->rank);
	EngineRunCheck(&join->run, panel_join_start(join->run.join, counts));
}

/* Of partitions: rows that were read go on in their order. */
static void
ReadPartitions(Join *join)
{
	MemoryContext reading = AllocSetContextCreate(join->context, "fasted partitions",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old;
	GroupedRows *rows;
	const FastedRowGroup *groups;
	uint32		ngroups;

	if (join->groups != NULL)
		MemoryContextDelete(join->groups);
	join->groups = AllocSetContextCreate(join->context, "fasted groups", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(reading);
	rows = ReadGroupedRows(join->sources, join->sides);
	groups = GroupsOfRows(rows, &ngroups);
	/* as long as the keys, which may outlive the join */
	MemoryContextSwitchTo(join->rows[0].keys->context);
	if (join->sources[0]->order_column != NULL)
		join->order = OrderOfGroupedRows(rows, 0);
	MemoryContextSwitchTo(join->groups);
	join->npartitions = ngroups;
	/* one partition has all rows */
	join->problem.groups = NULL;
	join->problem.ngroups = 0;
	if (ngroups > 1)
	{
		FastedRowGroup *copy = palloc_extended((Size) ngroups * sizeof(FastedRowGroup), MCXT_ALLOC_HUGE);

		memcpy(copy, groups, (Size) ngroups * sizeof(FastedRowGroup));
		join->problem.groups = copy;
		join->problem.ngroups = ngroups;
	}
	MemoryContextSwitchTo(join->context);
	for (int side = 0; side < join->sides && !(join->run.failed && side > 0); side++)
		PushGroupedRows(rows, side, JoinSink(join, side));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(reading);
}

/* Until an engine fails that was opened here: what failed before is not asked again. */
static void
ReadSources(Join *join)
{
	int			opened = join->opened;

	if (join->sources[0]->group_column != NULL)
	{
		ReadPartitions(join);
		return;
	}
	/* the engine is chosen at the first vector of either side, by the rows of both */
	if (join->sides == 2)
		join->rows[1].expected_rows = PlannedRows(PlanSource(join->sources[1]));
	for (int side = 0; side < join->sides; side++)
	{
		ReadVectors(join->sources[side], JoinSink(join, side));
		if (join->run.failed && join->opened > opened)
			break;
	}
}

static void
PushRows(Join *join)
{
	if (join->pusher != NULL)
	{
		if (join->rows[0].dimensions > 0)
			OpenEngine(&join->rows[0]);
		if (!join->run.failed)
			join->pusher->push(join->pusher, join);
	}
	else if (join->array != NULL)
		RowSetPushArray(&join->rows[0], join->array);
	else
		ReadSources(join);
}

/*
 * Pushes all rows into the engine, and starts it.  If a GPU was chosen and fails
 * before it gave a pair, here or later (failed is set), the CPU does it: then rows are
 * pushed once more.  The snapshot is the same, so they are too.
 */
static void
ReadAndStart(Join *join)
{
	do
	{
		for (int side = 0; side < join->sides && join->run.failed; side++)
			RowSetReset(&join->rows[side]);
		PushRows(join);
		if (join->run.engine == NULL)
			return;
		for (int side = 0; side < join->sides; side++)
			RowSetFlush(&join->rows[side]);
		if (!join->run.failed)
			Start(join);
	} while (join->run.failed);
}

/* What all joins begin with, in a context of its own. */
static Join *
Create(const VectorSource *const *sources, const FastedProblem *problem, int sides)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted join",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Join	   *join = palloc0(sizeof(Join));

	join->context = join->run.context = context;
	join->sides = sides;
	join->problem = *problem;
	join->options = OptionsFromSettings();
	if (sources[0] != NULL)
	{
		join->options.metric = sources[0]->metric;
		join->options.element = sources[0]->element;
	}
	CleanupRegister(&join->cleanup, Close, join);
	INSTR_TIME_SET_CURRENT(join->begun);
	ProgressBegin(&join->progress, sources[0] != NULL ? sources[0]->relid : InvalidOid);
	for (int side = 0; side < sides; side++)
	{
		join->sources[side] = sources[side];
		RowSetInit(&join->rows[side], &join->run, side, sources[side], &join->progress);
		join->rows[side].first_vector = OpenEngine;
		join->rows[side].owner = join;
		join->rows[side].other = sides == 2 ? &join->rows[!side] : NULL;
	}
	MemoryContextSwitchTo(old);
	return join;
}

static Join *
Begin(Join *join)
{
	MemoryContext old = MemoryContextSwitchTo(join->context);

	ReadAndStart(join);
	join->read_seconds = SecondsSince(join->begun);
	if (join->run.engine != NULL)
		ShowProgress(join, PROGRESS_JOINING);
	MemoryContextSwitchTo(old);
	return join;
}

static void
RequireExactCosine(const JoinOptions *options)
{
	if (options->exact || options->metric == FASTED_METRIC_L2)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("approximate results are for Euclidean distances only"),
			 errdetail("The metric is cosine, and fasted.refine is off."),
			 errhint("Use \"SET fasted.refine = on\".")));
}

/* What workers send of their slices. */
static SliceOutput
SliceOutputOf(const FastedProblem *problem)
{
	switch (problem->output)
	{
		case FASTED_OUTPUT_COUNT:
			return SLICE_COUNT;
		case FASTED_OUTPUT_COUNTS:
			return SLICE_COUNTS;
		case FASTED_OUTPUT_CONNECTIONS:
			/* a row with a pair is a core row then, and connected by one */
			return problem->core_pairs <= 1 ? SLICE_CONNECTIONS : SLICE_PAIRS;
		default:
			return SLICE_PAIRS;
	}
}

/* The paper's result is of floats. */
static const VectorSource *
AsItIsCompared(const VectorSource *source)
{
	VectorSource *rounded;

	if (fasted_setting_refine || source->element == FASTED_ELEMENT_REAL)
		return source;
	rounded = palloc(sizeof(VectorSource));
	*rounded = *source;
	rounded->element = FASTED_ELEMENT_REAL;
	return rounded;
}

/* False: its work is not one to divide. */
static bool
BeginRemote(Join *join, SliceOutput output)
{
	MemoryContext old;
	RemoteProblem problem = {
		.sources = {join->sources[0], join->sources[1]},.output = output,
		.eps = join->problem.eps,.k = join->problem.k
	};
	KeySet	   *keys[2] = {join->rows[0].keys, join->rows[1].keys};

	/* workers know nothing of partitions */
	if (join->sources[0]->group_column != NULL)
		return false;
	/* vectors are hashed as their column has them, and rows are other ones */
	for (int side = 0; side < join->sides; side++)
		if ((join->sources[side]->form == VECTOR_FLOAT8) != (join->options.element == FASTED_ELEMENT_DOUBLE))
			return false;
	old = MemoryContextSwitchTo(join->context);
	join->remote = RemoteJoinBegin(&problem, keys);
	MemoryContextSwitchTo(old);
	if (join->remote == NULL)
		return false;
	for (int side = 0; side < join->sides; side++)
		join->rows[side].count = keys[side]->count;
	join->read_seconds = SecondsSince(join->begun);
	ShowProgress(join, PROGRESS_JOINING);
	return true;
}

Join *
JoinBegin(const VectorSource *source, double eps, FastedOutput output)
{
	FastedProblem problem = {.eps = eps,.output = output};

	return JoinBeginProblem(source, &problem);
}

Join *
JoinBeginProblem(const VectorSource *source, const FastedProblem *problem)
{
	const VectorSource *compared = AsItIsCompared(source);
	Join	   *join = Create(&compared, problem, 1);

	RequireExactCosine(&join->options);
	return BeginRemote(join, SliceOutputOf(&join->problem)) ? join : Begin(join);
}

Join *
JoinBeginSlice(const VectorSource *source, double eps, FastedOutput output, const JoinSlice *slice)
{
	FastedProblem problem = {
		.eps = eps,.output = output,.slice = slice->slice,.slices = slice->slices,
		.alike = slice->alike
	};
	const VectorSource *compared = AsItIsCompared(source);
	Join	   *join = Create(&compared, &problem, 1);

	RequireExactCosine(&join->options);
	join->rows[0].print = slice->print;
	return Begin(join);
}

/*
 * The CPU engine cuts rows alike by every kernel and filter, unless it has put them in an
 * order.  A GPU's tiles depend on its kind and on the filter; several of a kind cut as one
 * does.
 */
void
JoinDescribeCut(const Join *join, char *text, size_t size)
{
	FastedStats stats;
	uint64_t	outer;
	uint64_t	inner;
	int			kind;

	strlcpy(text, "no engine", size);
	if (join->run.join == NULL)
		return;
	panel_join_stats(join->run.join, &stats);
	panel_join_sizes(join->run.join, &outer, &inner);
	if (strcmp(stats.engine, "cpu") == 0)
		snprintf(text, size, "cpu, panels of " UINT64_FORMAT " and " UINT64_FORMAT " rows",
				 (uint64) outer, (uint64) inner);
	else
	{
		/* of several it is followed by " (", their names and shares */
		kind = strcspn(stats.device, "(");
		while (kind > 0 && stats.device[kind - 1] == ' ')
			kind--;
		snprintf(text, size, "%s, %.*s, %s, %s at %u, panels of " UINT64_FORMAT " and " UINT64_FORMAT " rows",
				 stats.engine, kind, stats.device, stats.kernel, stats.filter,
				 stats.filter_dimensions, (uint64) outer, (uint64) inner);
	}
	if (stats.order_hash != 0)
		snprintf(text + strlen(text), size - strlen(text), ", order %08x%08x",
				 (uint32) (stats.order_hash >> 32), (uint32) stats.order_hash);
}

Join *
JoinBeginRows(const VectorSource *source, const RowArray *rows, double eps)
{
	VectorSource *numbered = palloc(sizeof(VectorSource));
	const VectorSource *sources[1] = {numbered};
	FastedProblem problem = {.eps = eps,.output = FASTED_OUTPUT_PAIRS};
	Join	   *join;

	*numbered = *source;
	numbered->key_type = INT8OID;
	numbered->key_collation = InvalidOid;
	join = Create(sources, &problem, 1);
	join->array = rows;
	/* rows in memory are joined for their exact distances, never for the paper's result */
	join->options.exact = true;
	return Begin(join);
}

Join *
JoinBeginPushed(RowPusher *pusher, int sides, FastedElement element, uint32 dimensions,
				const uint64 *expected_rows, FastedMetric metric, double eps, FastedOutput output)
{
	const VectorSource *sources[2] = {NULL, NULL};
	FastedProblem problem = {
		.eps = eps,.output = output,.groups = pusher->groups,.ngroups = pusher->ngroups
	};
	Join	   *join = Create(sources, &problem, sides);

	join->pusher = pusher;
	join->options.exact = true;
	join->options.metric = metric;
	join->options.element = element;
	for (int side = 0; side < sides; side++)
	{
		join->rows[side].element = element;
		join->rows[side].dimensions = dimensions;
		join->rows[side].expected_rows = expected_rows[side];
	}
	return Begin(join);
}

/* Those of the other side are on their way no longer. */
static RowSet *
TurnTo(Join *join, int side)
{
	if (join->sides == 2)
		RowSetFlush(&join->rows[!side]);
	return &join->rows[side];
}

bool
JoinPush(Join *join, int side, const float *row)
{
	return RowSetPush(TurnTo(join, side), row);
}

RowSink *
JoinSink(Join *join, int side)
{
	return &TurnTo(join, side)->sink;
}

Join *
JoinBeginNearest(const NearestProblem *nearest)
{
	const VectorSource *sources[2] = {nearest->a, nearest->b};
	FastedProblem problem = {
		.eps = nearest->most,.output = FASTED_OUTPUT_NEAREST,.k = nearest->k
	};
	Join	   *join = Create(sources, &problem, nearest->b != NULL ? 2 : 1);

	join->pusher = nearest->pusher;
	join->options.exact = true;
	join->options.nearest = true;
	/* workers look for one more, which may be the row itself */
	if (join->pusher == NULL && nearest->k < FASTED_MAX_NEIGHBORS && BeginRemote(join, SLICE_NEAREST))
		return join;
	return Begin(join);
}

uint32
JoinPartitions(const Join *join)
{
	return join->npartitions;
}

bool
JoinIsDivided(const Join *join)
{
	return join->remote != NULL;
}

uint32
JoinFirstRank(const Join *join)
{
	return RemoteJoinRank(join->remote);
}

void
JoinAgain(Join *join, double eps)
{
	join->problem.eps = eps;
	if (join->run.engine == NULL)
		return;					/* no vector at all */
	EngineRunAgain(&join->run, &join->options);
	EngineRunCheck(&join->run, panel_join_again(join->run.join, &join->problem));
	if (join->run.failed)
		ReadAndStart(join);
}

/* Now and then while the join computes. */
static void
LookAtJoin(Join *join)
{
	if (!ProgressIsDue(&join->progress))
		return;
	ShowProgress(join, PROGRESS_JOINING);
	NoticeManyPairs(join);
}

static bool
NextFromEngine(Join *join, FastedBatch *batch)
{
	EngineRun  *run = &join->run;

	for (;;)
	{
		CheckJoinInterrupts();
		LookAtJoin(join);
		ForAllKeys(join, KeySetLook);
		switch (EngineRunCheck(run, panel_join_next(run->join, JOIN_POLL_MS, batch)))
		{
			case FASTED_OK:
				run->fallible = false;
				join->unseen = true;
				return true;
			case FASTED_DONE:
				return false;
			case FASTED_WANT_ROWS:
				RowSetFeed(&join->rows[batch->side], batch->first_row, batch->row_count);
				break;
			default:
				break;
		}
		if (run->failed)
			ReadAndStart(join);
	}
}

/* With it the keys are in order. */
static bool
NextBatch(Join *join, FastedBatch *batch)
{
	bool		more;

	if (join->remote != NULL)
	{
		LookAtJoin(join);
		return RemoteJoinNext(join->remote, &batch->pairs, &batch->npairs);
	}
	if (join->run.engine == NULL)
		return false;			/* no vector at all */
	more = NextFromEngine(join, batch);
	ForAllKeys(join, KeySetFinish);
	return more;
}

bool
JoinNext(Join *join, const FastedPair **pairs, size_t *npairs)
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

bool
JoinNextRows(Join *join, uint64 *first, uint64 *count)
{
	FastedBatch batch;

	if (!NextBatch(join, &batch))
		return false;
	*first = batch.first_row;
	*count = batch.row_count;
	return true;
}

const FastedNeighbor *
JoinNearest(const Join *join, uint64 row, uint32 *length)
{
	return panel_join_nearest(join->run.join, row, length);
}

uint64
JoinPairs(const Join *join)
{
	FastedStats stats;

	if (join->remote != NULL)
		return RemoteJoinPairs(join->remote);
	if (join->run.join == NULL)
		return 0;				/* no vector at all */
	panel_join_stats(join->run.join, &stats);
	return stats.pairs;
}

uint64
JoinCount(Join *join)
{
	const FastedPair *pairs;
	size_t		npairs;

	if (JoinNext(join, &pairs, &npairs))
		elog(ERROR, "the %s engine hands out pairs that it should count", join->run.engine->name);
	return JoinPairs(join);
}

const uint32 *
JoinCounts(const Join *join)
{
	if (join->remote != NULL)
		return RemoteJoinCounts(join->remote);
	return join->run.join != NULL ? panel_join_counts(join->run.join, 0) : NULL;
}

FastedOutput
JoinOutput(const Join *join)
{
	if (join->remote != NULL)
		return SliceOutputOf(&join->problem) == SLICE_COUNTS ? FASTED_OUTPUT_COUNTS : FASTED_OUTPUT_PAIRS;
	return join->run.join != NULL ? join->run.output : join->problem.output;
}

const uint32 *
JoinOrder(const Join *join)
{
	return join->remote != NULL ? RemoteJoinOrder(join->remote) : join->order;
}

void
JoinRank(Join *join, const uint32 *ranks)
{
	if (join->run.join != NULL)
		panel_join_rank(join->run.join, ranks);
}

void
JoinPause(Join *join)
{
	if (join->run.join == NULL)
		return;
	panel_join_pause(join->run.join);
	if (join->unseen)
		ShowProgress(join, PROGRESS_JOINING);
}

const KeySet *
JoinKeys(const Join *join)
{
	return JoinKeysOf(join, 0);
}

KeySet *
JoinKeysOf(const Join *join, int side)
{
	return join->rows[side < join->sides ? side : 0].keys;
}

bool
JoinStatistics(const Join *join, FastedStats *stats, double *read_seconds)
{
	*read_seconds = join->read_seconds;
	if (join->remote != NULL)
	{
		*stats = RemoteJoinStatistics(join->remote);
		return stats->engine[0] != '\0';
	}
	if (join->run.join == NULL)
		return false;
	panel_join_stats(join->run.join, stats);
	return true;
}

List *
JoinShares(const Join *join)
{
	return join->remote != NULL ? RemoteJoinShares(join->remote) : NIL;
}

static void
LogStatistics(const Join *join)
{
	FastedStats stats;

	if (join->run.join == NULL || !message_level_is_interesting(DEBUG1))
		return;
	panel_join_stats(join->run.join, &stats);
	ereport(DEBUG1,
			(errmsg_internal("fasted: " UINT64_FORMAT " rows of %u dimensions in %.3f s, read in %.3f s",
							 stats.rows, stats.dimensions, SecondsSince(join->begun),
							 join->read_seconds),
			 errdetail_internal("engine %s, kernel %s, filter %s, threads %d, panels %u, candidates "
								UINT64_FORMAT ", pairs " UINT64_FORMAT
								", prepare %.3f s, filter %.3f s, refine %.3f s, memory " UINT64_FORMAT " kB",
								stats.engine, stats.kernel, stats.filter, stats.threads,
								stats.panels, stats.candidates, stats.pairs,
								stats.prepare_seconds, stats.filter_seconds,
								stats.refine_seconds, stats.host_bytes / 1024)));
}

void
JoinRun(Join *join, PairSink *sink)
{
	const FastedPair *pairs;
	size_t		npairs;

	while (JoinNext(join, &pairs, &npairs))
		sink->take(sink, pairs, npairs);
}

void
JoinEnd(Join *join)
{
	LogStatistics(join);
	for (int side = 0; side < join->sides; side++)
		if (join->rows[side].spill != NULL)
			SpillClose(join->rows[side].spill);
	MemoryContextDelete(join->context); /* closes the engine */
}
