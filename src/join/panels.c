/*-------------------------------------------------------------------------
 *
 * panels.c
 *	  A join by an engine: starts it when all rows have been read, and polls it.  A join of few rows,
 *	  or none, without one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/row_numbers.h"
#include "distance/distance.h"
#include "join/join.h"
#include "utils/memutils.h"

/* --- the start */

static void
FinishKeys(VectorJoin *join)
{
	for (int side = 0; side < join->run.problem.sides; side++)
		if (join->keys[side] != NULL)
			KeySetFinish(join->keys[side]);
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
	}
	else if (rows->copies != NULL && problem->problem.output == FASTED_OUTPUT_REPRESENTATIVES)
		join->copy_of = CopiesNoted(rows->copies);
	if (rows->copies != NULL)
		MemoryContextDelete(GetMemoryChunkContext(rows->copies));
	rows->copies = NULL;
	MemoryContextSwitchTo(old);
}

void
StartPanels(VectorJoin *join)
{
	const RowSet *rows = &join->rows[0];
	PanelJoin  *panel_join = join->run.join;
	uint64		counts[2];
	FastedStatus status;

	/* other joins need the order only when pairs are returned: see Next */
	if (join->request.problem.output == FASTED_OUTPUT_NEAREST ||
		join->request.problem.output == FASTED_OUTPUT_REPRESENTATIVES)
		FinishKeys(join);
	FinishCopies(join);
	for (int side = 0; side < 2; side++)
		counts[side] = rows[side].count - rows[side].withheld;
	if (join->output == FASTED_OUTPUT_NEAREST)
		panel_join_rank(panel_join, join->copied.ranks != NULL ? join->copied.ranks :
						join->keys[1]->rank);
	else
		panel_join_rank(panel_join, join->ranks);
	status = panel_join_start(panel_join, counts);
	EngineRunCheck(&join->run, status);
}

/* --- results */

/* JoinBackend.next.  Sorts the keys when the engine is at work, because this process is otherwise idle. */
static FastedStatus
Next(VectorJoin *join, FastedBatch *batch)
{
	EngineRun  *run = &join->run;
	FastedStatus status;

	status = EngineRunCheck(run, panel_join_next(run->join, JOIN_POLL_MS, batch));
	if (status == FASTED_WANT_ROWS)
		/* a search has two sides, both of which are rows of a self-join */
		RowSetFeed(&join->rows[join->searched != NULL ? 0 : batch->side], batch->side,
				   batch->side == 0 ? join->searched : NULL, batch->first_row, batch->row_count);
	FinishKeys(join);
	if (status != FASTED_OK && status != FASTED_DONE)
		return FASTED_AGAIN;
	if (status == FASTED_DONE)
		join->counts = panel_join_counts(run->join, 0);
	else
		join->progress_stale = true;
	return status;
}

/* --- lists, and rows by engine row */

static inline uint32
RowOf(const VectorJoin *join, uint32 engine_row)
{
	return join->copied.next == NULL ? engine_row : join->copied.row_of[engine_row];
}

/* JoinBackend.next_list.  The list of an engine row is also that of its copies. */
static bool
NextList(VectorJoin *join)
{
	FastedBatch *batch = &join->batch;
	NeighborList *list = &join->list;
	uint64		row = batch->first_row;

	list->copied = join->next_copy != NO_COPY;
	if (list->copied)
		list->row = join->next_copy;
	else
	{
		if (batch->row_count == 0)
			return false;
		batch->first_row++;
		batch->row_count--;
		list->neighbors = panel_join_nearest(join->run.join, row, &list->length);
		list->first_rank = 1;
		list->row = join->searched == NULL ? RowOf(join, row) :
			join->positions == NULL ? row : join->positions[row];
	}
	if (join->copied.next != NULL && join->searched == NULL)
		join->next_copy = join->copied.next[list->row];
	return true;
}

uint32
JoinEngineRows(const VectorJoin *join, uint32 **row_of, uint32 **engine_row)
{
	uint32		all = join->rows[0].count;
	uint32		count = all - join->rows[0].withheld;

	*row_of = *engine_row = NULL;
	if (join->copied.next == NULL)
		return count;
	*row_of = AllocRowNumbers(count);
	*engine_row = AllocRowNumbers(all);
	CopyRowNumbers(*row_of, join->copied.row_of, count);
	for (uint32 i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		for (uint32 row = (*row_of)[i]; row != NO_COPY; row = join->copied.next[row])
			(*engine_row)[row] = i;
	}
	return count;
}

/* --- searches */

/*
 * Returns the search by engine row instead of key rank, and the positions of its rows in search->rows.
 * Its arrays are allocated in the current memory context.
 */
static PanelSearch
SearchByRow(const VectorJoin *join, const PanelSearch *search, uint32 **positions)
{
	const uint32 *rank = join->keys[0]->rank;
	uint32		count = join->rows[0].count - join->rows[0].withheld;
	uint32	   *rows = AllocRowNumbers(search->nrows);
	double	   *bound = MemoryContextAllocHuge(CurrentMemoryContext, search->nrows * sizeof(double));
	double	   *core = MemoryContextAllocHuge(CurrentMemoryContext, count * sizeof(double));
	uint32	   *component = AllocRowNumbers(count);
	uint32	   *position = SameRowNumbers(join->rows[0].count, PG_UINT32_MAX);	/* by key rank */
	uint32		n = 0;

	*positions = AllocRowNumbers(search->nrows);
	for (uint32 i = 0; i < search->nrows; i++)
	{
		CheckEveryRows(i);
		position[search->rows[i]] = i;
	}
	for (uint32 row = 0; row < count; row++)
	{
		uint32		node = rank == NULL ? RowOf(join, row) : rank[RowOf(join, row)];
		uint32		i = position[node];

		CheckEveryRows(row);
		if (i != PG_UINT32_MAX)
		{
			rows[n] = row;
			(*positions)[n] = i;
			bound[n++] = search->bound[i];
		}
		component[row] = search->component[node];
		core[row] = search->core[node];
	}
	pfree(position);
	Assert(n == search->nrows);
	return (PanelSearch) {
		.rows = rows,.nrows = n,.bound = bound,.component = component,.core = core
	};
}

void
JoinSearch(VectorJoin *join, const PanelSearch *search)
{
	MemoryContext old = MemoryContextSwitchTo(join->context);
	PanelSearch by_row = *search;
	uint32	   *positions = NULL;

	if (join->searching != NULL)
		MemoryContextReset(join->searching);
	else
		join->searching = AllocSetContextCreate(join->context, "fasted search", ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(join->searching);
	if (join->keys[0]->rank != NULL || join->rows[0].withheld > 0)
		by_row = SearchByRow(join, search, &positions);
	join->searched = by_row.rows;
	join->positions = positions;
	EngineRunCheck(&join->run, panel_join_search(join->run.join, &by_row));
	MemoryContextSwitchTo(old);
}

/* --- statistics */

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
	.next = Next,.next_list = NextList,.statistics = Statistics,.pause = Pause
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

/* --- few rows */

/* Appends the pairs of a partition whose canonical distance is at most eps to join->few. */
static void
JoinPartition(VectorJoin *join, const FastedPartition *partition)
{
	const FastedOptions *options = &join->run.problem.options;
	bool		self = join->run.problem.sides == 1;
	const float *rows = join->rows[0].buffer;
	const float *others = join->rows[!self].buffer;
	Size		floats = RowFloats(options->element, options->dimensions);

	for (uint32 a = partition->first_a; a < partition->first_a + partition->rows_a; a++)
		for (uint32 b = self ? a + 1 : partition->first_b; b < partition->first_b + partition->rows_b; b++)
		{
			double		dist = ExactDistance(options->metric, options->element, rows + a * floats,
											 others + b * floats, options->dimensions);

			/* a NaN cosine distance is not within any eps */
			if (dist <= join->request.problem.eps)
				join->few[join->nfew++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
}

/* Finds all pairs, or counts the pairs of each row. */
static FastedStatus
NextOfFew(VectorJoin *join, FastedBatch *batch)
{
	const FastedProblem *problem = &join->run.problem.problem;
	uint32		nrows = join->rows[0].used;
	FastedPartition all = {.rows_a = nrows,.rows_b = join->rows[join->run.problem.sides - 1].used};
	uint32	   *counts;

	if (nrows == 0 || join->few != NULL)
		return FASTED_DONE;
	join->few = MemoryContextAlloc(join->context, SMALL_JOIN_PAIRS * sizeof(FastedPair));
	for (uint32 i = 0; i < problem->npartitions; i++)
		JoinPartition(join, &problem->partitions[i]);
	if (problem->npartitions == 0)
		JoinPartition(join, &all);
	batch->pairs = join->few;
	batch->npairs = join->nfew;
	if (join->output != FASTED_OUTPUT_COUNTS)
		return join->nfew > 0 ? FASTED_OK : FASTED_DONE;
	join->counts = counts = MemoryContextAllocZero(join->context, nrows * sizeof(uint32));
	for (uint64 i = 0; i < join->nfew; i++)
	{
		counts[join->few[i].a]++;
		counts[join->few[i].b]++;
	}
	return FASTED_DONE;
}

static FastedStats
StatisticsOfFew(const VectorJoin *join)
{
	return (FastedStats) {.pairs = join->nfew};
}

const JoinBackend few_rows = {
	.next = NextOfFew,.statistics = StatisticsOfFew
};
