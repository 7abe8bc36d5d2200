/*-------------------------------------------------------------------------
 *
 * panels.c
 *	  A join by an engine: starts it when all rows have been read, and polls it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/join.h"
#include "portability/instr_time.h"

/* --- the start */

static void
ForAllKeys(VectorJoin *join, void (*work) (KeySet *keys))
{
	for (int side = 0; side < join->run.problem.sides; side++)
		if (join->keys[side] != NULL)
			work(join->keys[side]);
}

/*
 * Starts sorting the keys.  Their order is needed when pairs are returned, or earlier if the engine
 * uses it.  While a GPU joins, this process is otherwise idle, so the keys are sorted during the
 * join.
 */
static void
OrderKeys(VectorJoin *join)
{
	FastedOutput output = join->request.problem.output;
	bool		concurrently = join->run.engine != fasted_cpu_engine() &&
		output != FASTED_OUTPUT_NEAREST && output != FASTED_OUTPUT_REPRESENTATIVES;

	ForAllKeys(join, concurrently ? KeySetStartSort : KeySetFinish);
}

/* Determines which rows the engine has. */
static void
FinishCopies(VectorJoin *join)
{
	const PanelProblem *problem = &join->run.problem;
	bool		self = problem->sides == 1;
	bool		nearest = problem->problem.output == FASTED_OUTPUT_NEAREST;
	RowSet	   *rows = &join->rows[problem->sides - 1];
	MemoryContext old = MemoryContextSwitchTo(join->context);

	if (rows->copies != NULL)
		rows->withheld = CopiesWithheld(rows->copies);
	if (rows->withheld > 0)
	{
		/* allocated by ReadPartitions */
		CopiesAdjust(rows->copies, unconstify(FastedPartition *, problem->problem.partitions),
					 problem->problem.npartitions, self);
		/* for connections, it does not matter which of the copies are withheld */
		join->copied = CopiesFinish(rows->copies, nearest ? join->keys[1]->rank : NULL, self);
		if (!nearest && join->request.notices)
			CopiesWeigh(rows->copies, &join->copied);
	}
	else if (rows->copies != NULL && problem->problem.output == FASTED_OUTPUT_REPRESENTATIVES)
		join->copy_of = CopiesNoted(rows->copies);
	CopiesFree(rows->copies);
	rows->copies = NULL;
	MemoryContextSwitchTo(old);
}

void
StartPanels(VectorJoin *join)
{
	const RowSet *rows = &join->rows[0];
	PanelJoin  *panel_join = join->run.join;
	uint64		counts[2];

	if (join->run.problem.sides == 1)
		ereport(DEBUG1,
				(errmsg_internal("fasted: read " UINT64_FORMAT " rows in %.3f s, " UINT64_FORMAT
								 " of them by %d workers, " UINT64_FORMAT " from registered memory",
								 rows->count, SecondsSince(join->begun),
								 rows->sink.worker_rows, rows->sink.nworkers, rows->direct_rows)));
	JoinShowProgress(join, PROGRESS_PREPARING);
	OrderKeys(join);
	FinishCopies(join);
	for (int side = 0; side < 2; side++)
		counts[side] = rows[side].count - rows[side].withheld;
	if (join->output == FASTED_OUTPUT_NEAREST)
		panel_join_rank(panel_join, join->copied.ranks != NULL ? join->copied.ranks :
						join->keys[1]->rank);
	else
		panel_join_rank(panel_join, join->ranks);
	EngineRunCheck(&join->run, panel_join_start(panel_join, counts));
}

void
JoinAgain(VectorJoin *join, double eps)
{
	FastedProblem *problem = &join->run.problem.problem;

	problem->eps = join->request.problem.eps = eps;
	if (join->run.join != NULL)
		EngineRunCheck(&join->run, panel_join_again(join->run.join, problem));
}

void
JoinSearch(VectorJoin *join, const PanelSearch *search)
{
	join->searched = search->rows;
	EngineRunCheck(&join->run, panel_join_search(join->run.join, search));
}

/* --- results */

/* JoinBackend.next.  Also finishes sorting the keys. */
static FastedStatus
Next(VectorJoin *join, FastedBatch *batch)
{
	EngineRun  *run = &join->run;
	FastedStatus status;

	ForAllKeys(join, KeySetPoll);
	status = EngineRunCheck(run, panel_join_next(run->join, JOIN_POLL_MS, batch));
	if (status == FASTED_WANT_ROWS)
		/* a search has two sides, both of which are rows of a self-join */
		RowSetFeed(&join->rows[join->searched != NULL ? 0 : batch->side], batch->side,
				   batch->side == 0 ? join->searched : NULL, batch->first_row, batch->row_count);
	if (status != FASTED_OK && status != FASTED_DONE)
		return FASTED_AGAIN;
	ForAllKeys(join, KeySetFinish);
	if (status == FASTED_DONE)
		join->counts = panel_join_counts(run->join, 0);
	else
		join->progress_stale = true;
	return status;
}

const FastedNeighbor *
JoinNearest(const VectorJoin *join, uint64 engine_row, uint32 *length)
{
	return panel_join_nearest(join->run.join, engine_row, length);
}

/* JoinBackend.statistics. */
static FastedStats
Statistics(const VectorJoin *join)
{
	FastedStats stats;

	panel_join_stats(join->run.join, &stats);
	for (int side = 0; side < join->run.problem.sides; side++)
		stats.rows += join->rows[side].withheld;
	return stats;
}

/* JoinBackend.pause. */
static void
Pause(VectorJoin *join)
{
	panel_join_pause(join->run.join);
}

const JoinBackend panels = {
	.next = Next,.statistics = Statistics,.pause = Pause
};

/*
 * The CPU engine's slices are the same for every kernel and filter unless it has reordered rows.  A
 * GPU's tiles depend on its model and on the filter.  Several GPUs of one model use the same tiles
 * as one.
 */
void
JoinDescribeCut(const VectorJoin *join, char *text, size_t size)
{
	FastedStats stats;
	uint64_t	outer;
	uint64_t	inner;

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
		/* for several GPUs, the name is followed by " (", their names and shares */
		int			kind = strcspn(stats.device, "(");

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
