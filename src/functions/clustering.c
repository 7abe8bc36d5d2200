/*-------------------------------------------------------------------------
 *
 * clustering.c
 *	  The run of a clustering function: join, results, rows in the order of ids; fasted_neighbors.
 *
 * Each function processes pairs as the engine returns them, and stores those that it still needs.
 * The engine and the vectors are released before the function computes its results, for which
 * it may need as much memory as the vectors took.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "functions/clustering.h"
#include "utils/memutils.h"

/* --- the join */

/* Copies the rows' keys from the join, when the keys have been sorted. */
static void
NoteRows(Clustering *run)
{
	VectorJoin *join = run->base.join;

	run->keys = join->keys[0];
	run->count = run->nresults = run->keys->count;
	run->by_id = run->keys->rank == NULL ? NULL : RowsOfNumbers(run->keys->rank, run->count);
}

bool
StartClustering(Clustering *run)
{
	VectorJoin *join = run->base.join;

	/* if the GPU has failed meanwhile, not all rows were read */
	if (run->methods->rank != NULL && !join->run.failed)
	{
		KeySetFinish(join->keys[0]);
		NoteRows(run);
		JoinRank(join, run->methods->rank(run));
	}
	return JoinStart(join);
}

void
OpenClustering(Clustering *run, const ClusteringMethods *methods)
{
	FunctionCall *call = &run->base.call;
	bool		nearest = methods->output == FASTED_OUTPUT_NEAREST;
	JoinRequest request = {
		.problem = {
			.eps = nearest ? HUGE_VAL : call->eps,.output = methods->output,
			.core_pairs = run->core_pairs,.k = run->neighbors
		},
		.searches = nearest,.caller_row_bytes = run->row_bytes,
		.most_rows = call->most_rows,.notices = call->rows == NULL
	};
	VectorSource *source = call->rows != NULL ? call->rows :
		ResolveCallSource(call, 0, call->sources[0].id_column);

	/* every row with a vector is in the result; a zero vector has no neighbours (cosine) */
	source->skip_zeros = false;
	if (call->partition_by != NULL)
		PartitionSource(source, call->partition_by);
	if (run->order_column != NULL)
		run->ordered = OrderSource(source, run->order_column, run->descending);
	request.sources[0] = source;
	run->methods = methods;
	run->base.join = JoinOpen(&request);
	if (call->rows != NULL)
		return;
	do
		JoinRead(run->base.join);
	while (!StartClustering(run));
}

/* Passes all pairs, and the counts, to the function. */
static void
TakePairs(Clustering *run)
{
	FunctionRun *base = &run->base;
	const FastedPair *pairs;
	size_t		npairs;
	bool		more = NextPairs(base, &pairs, &npairs);

	/* keys may be sorted until the first batch */
	if (run->methods->rank == NULL)
		NoteRows(run);
	run->reduced = base->join->output != FASTED_OUTPUT_PAIRS;
	run->methods->begin(run);
	while (more)
	{
		instr_time	begin = RunClock();

		run->methods->take(run, pairs, npairs);
		base->totals.output_seconds += SecondsSince(begin);
		more = NextPairs(base, &pairs, &npairs);
	}
	if (base->join->counts != NULL)
		run->methods->count(run, base->join->counts);
}

/* --- after the join */

static void
EndProgress(void *arg)
{
	ProgressEnd(&((Clustering *) arg)->progress);
}

/* Shows the phase in pg_stat_fasted_progress until ProgressEnd, on error too. */
static void
ShowProgress(Clustering *run)
{
	ProgressNumbers numbers = {
		.rows_read = run->count,.rows_expected = run->count,.pairs = run->npairs
	};

	CleanupRegister(&run->cleanup, EndProgress, run);
	ProgressBegin(&run->progress, run->keys->source->relid);
	ProgressShow(&run->progress, PROGRESS_CLUSTERING, &numbers);
}

/* Computes the results, and measures time and memory. */
static void
Finish(Clustering *run)
{
	FunctionTotals *totals = &run->base.totals;
	instr_time	begin = RunClock();

	ShowProgress(run);
	if (run->methods->finish != NULL)
		run->methods->finish(run);
	ProgressEnd(&run->progress);
	totals->output_seconds += SecondsSince(begin);
	totals->bytes = MemoryContextMemAllocated(CurrentMemoryContext, true) + run->other_bytes;
}

/* Joins the rows and computes the results. */
static void
Compute(Clustering *run)
{
	if (run->methods->nearest != NULL)
	{
		NoteRows(run);
		run->methods->nearest(run);
	}
	else
		TakePairs(run);
	run->npairs = JoinStatistics(run->base.join).pairs;
	MemoryContextSetParent(run->keys->context, CurrentMemoryContext);	/* ids outlive the join */
	FinishJoin(&run->base);
	Finish(run);
	run->computed = true;
}

/* --- rows */

bool
FillClustering(FunctionRun *base, OutputBlock *block)
{
	Clustering *run = (Clustering *) base;

	CheckJoinInterrupts();
	if (!run->computed)
		Compute(run);
	for (; block->nrows < OUTPUT_ROWS && run->next < run->nresults; block->nrows++)
	{
		uint32		row = NumberOfRow(run->by_id, run->next);
		Datum		values[OUTPUT_COLUMNS];
		bool		nulls[OUTPUT_COLUMNS] = {false};

		values[0] = run->keys->values[row];
		run->methods->result(run, row, values, nulls);
		for (int i = 0; i < base->call.function->ncolumns; i++)
		{
			block->values[i][block->nrows] = values[i];
			block->nulls[i][block->nrows] = nulls[i];
		}
		run->next++;
	}
	return block->nrows > 0;
}

void
RewindClustering(FunctionRun *base)
{
	((Clustering *) base)->next = 0;
}

/* --- fasted_neighbors: the number of neighbours of each row */

typedef struct Neighbors
{
	Clustering	base;
	uint32	   *counts;			/* by row number */
} Neighbors;

static void
BeginCounts(Clustering *run)
{
	((Neighbors *) run)->counts = AllocRowNumbers(run->count);
}

/* ClusteringMethods.count.  The engine counts the pairs and returns none. */
static void
CopyCounts(Clustering *run, const uint32 *counts)
{
	CopyRowNumbers(((Neighbors *) run)->counts, counts, run->count);
}

static void
SetCount(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	values[1] = Int64GetDatum((int64) ((Neighbors *) run)->counts[row]);
}

static const ClusteringMethods neighbors_methods = {
	.output = FASTED_OUTPUT_COUNTS,
	.begin = BeginCounts,
	.count = CopyCounts,
	.result = SetCount
};

static void
BeginNeighbors(FunctionRun *base)
{
	OpenClustering((Clustering *) base, &neighbors_methods);
}

const FunctionDescriptor neighbors_function = {
	CLUSTERING_DESCRIPTOR(1),
	.eps = CLUSTERING_EPS,
	.name = "fasted_neighbors",
	.window = "fasted_neighbor_count",
	.arguments = {CLUSTERING_ARGUMENTS, {"eps", true, "Eps"}, CLUSTERING_LAST_ARGUMENTS},
	.ncolumns = 2,
	.columns = {InvalidOid, INT8OID},
	.run_size = sizeof(Neighbors),
	.begin = BeginNeighbors
};
