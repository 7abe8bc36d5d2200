/*-------------------------------------------------------------------------
 *
 * spanning_tree.c
 *	  The minimum spanning tree of rows, from their nearest rows; fasted_spanning_tree.
 *
 * spanning_tree.h describes the algorithm.  A self-join returns the nearest rows of each row.  Then
 * rounds of Boruvka's algorithm alternate with searches for rows of other components.  The engine
 * keeps all rows until the tree is complete.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "engine/processors.h"
#include "functions/clustering.h"
#include "utils/memutils.h"

/* Maximum time to wait for the threads of a tree before checking for interrupts. */
#define TREE_POLL_MS 10

/*
 * Least length of neighbour lists, and their least length beyond min_samples.  Longer lists make
 * searches rarer.
 */
#define LEAST_NEIGHBORS 16
#define MORE_NEIGHBORS 7

/* Of the memory limit, the tree may use (TREE_SHARES - 1) / TREE_SHARES, and the engine the rest. */
#define TREE_SHARES 4

/* --- memory */

/* Bytes per row of the arrays of a search, of the engine's copies, and of the rows in the order of ids. */
#define SEARCH_ROW_BYTES (8 * sizeof(uint32) + 5 * sizeof(double))

/* Returns the peak of memory, in bytes, for lists of k neighbours, with the copy of core distances. */
static uint64
TreeBytes(const TreeRun *run, uint32 nrows, uint32 k)
{
	return tree_bytes(nrows, k) +
		nrows * (uint64) (SEARCH_ROW_BYTES + (run->keeps_core ? sizeof(double) : 0));
}

void
RequireTreeMemory(const TreeRun *run, uint64 bytes, const char *purpose)
{
	if (bytes > (uint64) fasted_setting_memory_limit * 1024)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("%s of %u rows exceeds fasted.memory_limit", purpose, run->base.count),
				 errdetail("The limit is %d kB, and " UINT64_FORMAT " kB are needed.",
						   fasted_setting_memory_limit, (bytes + 1023) / 1024),
				 errhint("Increase fasted.memory_limit.")));
}

void
FreeTree(void *arg)
{
	TreeRun    *run = arg;
	SpanningTree *tree = run->tree;

	run->tree = NULL;
	tree_free(tree);
}

/* --- neighbour lists */

/* Creates the tree for lists of k neighbours. */
static void
CreateTree(TreeRun *run, uint32 k)
{
	const FastedOptions *options = &run->base.base.join->run.problem.options;
	int			threads = options->threads > 0 ? options->threads : fasted_processors();

	RequireTreeMemory(run, TreeBytes(run, run->base.count, k) / (TREE_SHARES - 1) * TREE_SHARES,
					  "the spanning tree");
	run->tree = tree_create(run->base.count, k, run->min_samples, threads);
	if (run->tree == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Could not allocate memory for the spanning tree of %u rows.", run->base.count)));
}

/* Adds the lists of all rows. */
static void
AddLists(TreeRun *run)
{
	const uint32 *rank = run->base.keys->rank;
	const NeighborList *list;

	while ((list = NextList(&run->base.base, true)) != NULL)
	{
		tree_add_list(run->tree, NumberOfRow(rank, list->row), list->neighbors, list->length);
		if (list->copied)
			tree_add_copy(run->tree, NumberOfRow(rank, list->row));
	}
}

static int
CompareNeighbors(const void *a, const void *b)
{
	const FastedNeighbor *x = a;
	const FastedNeighbor *y = b;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Adds lists of all neighbours, from the pairs of few rows, which are joined without an engine. */
static void
AddFewLists(TreeRun *run)
{
	const uint32 *rank = run->base.keys->rank;
	uint32		nrows = run->base.count;
	const FastedPair *pairs;
	size_t		npairs;
	FastedNeighbor *lists = palloc((Size) nrows * nrows * sizeof(FastedNeighbor));
	uint32	   *lengths = palloc0(nrows * sizeof(uint32));

	(void) NextPairs(&run->base.base, &pairs, &npairs);
	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = NumberOfRow(rank, pairs[i].a);
		uint32		b = NumberOfRow(rank, pairs[i].b);

		lists[a * nrows + lengths[a]++] = (FastedNeighbor) {.row = b,.dist = pairs[i].dist};
		lists[b * nrows + lengths[b]++] = (FastedNeighbor) {.row = a,.dist = pairs[i].dist};
	}
	for (uint32 node = 0; node < nrows; node++)
	{
		FastedNeighbor *list = lists + node * nrows;

		qsort(list, lengths[node], sizeof(FastedNeighbor), CompareNeighbors);
		tree_add_list(run->tree, node, list, lengths[node]);
	}
	pfree(lists);
	pfree(lengths);
}

/* Searches for the nearest rows of other components that the tree asks for. */
static void
Search(TreeRun *run)
{
	VectorJoin *join = run->base.base.join;
	TreeSearch	wanted = tree_searched(run->tree);
	PanelSearch search = {
		.rows = wanted.nodes,.nrows = wanted.count,.bound = wanted.bound,
		.component = wanted.component,.core = wanted.core
	};
	const NeighborList *list;

	JoinSearch(join, &search);
	while ((list = JoinNextList(join, true)) != NULL)
		if (list->length > 0)
			tree_found(run->tree, list->row, *list->neighbors);
}

/* --- the tree */

/* Adds edges until a search is needed.  Returns false if the tree is complete instead. */
static bool
Advance(TreeRun *run)
{
	VectorJoin *join = run->base.base.join;
	TreeStatus	status;

	tree_advance(run->tree);
	while ((status = tree_wait(run->tree, TREE_POLL_MS)) == TREE_BUSY)
	{
		CheckJoinInterrupts();
		JoinUpdateProgress(join, PROGRESS_SPANNING_TREE);
	}
	return status == TREE_SEARCH;
}

/* Computes the tree from its lists. */
static void
ComputeTree(TreeRun *run)
{
	FunctionTotals *totals = &run->base.base.totals;
	instr_time	begin = RunClock();

	while (Advance(run))
		Search(run);
	totals->tree_seconds += SecondsSince(begin);
	totals->tree = tree_stats(run->tree);
	run->base.other_bytes = totals->tree.bytes;
	if (run->keeps_core)
	{
		Size		bytes = (Size) run->base.count * sizeof(double);

		run->core = MemoryContextAllocHuge(CurrentMemoryContext, bytes);
		memcpy(run->core, tree_searched(run->tree).core, bytes);
	}
	tree_trim(run->tree);
	run->edges = tree_edges(run->tree, &run->nedges);
}

void
BuildTree(Clustering *clustering)
{
	TreeRun    *run = (TreeRun *) clustering;
	bool		few = clustering->base.join->output == FASTED_OUTPUT_PAIRS;

	/* with fewer rows than min_samples, all core distances are infinite */
	if (clustering->count < Max(run->min_samples, 2))
		return;
	CreateTree(run, Min(few ? PG_UINT32_MAX : clustering->neighbors, clustering->count - 1));
	if (few)
		AddFewLists(run);
	else
		AddLists(run);
	ComputeTree(run);
}

void
OpenTree(TreeRun *run, int32 min_samples, const ClusteringMethods *methods)
{
	run->min_samples = (uint32) min_samples;
	run->base.neighbors = Min(Max(run->min_samples + MORE_NEIGHBORS, LEAST_NEIGHBORS),
							  FASTED_MAX_NEIGHBORS);
	run->base.row_bytes = TreeBytes(run, 1024 * 1024, run->base.neighbors) / (1024 * 1024);
	CleanupRegister(&run->cleanup, FreeTree, run);
	OpenClustering(&run->base, methods);
}

/* --- fasted_spanning_tree */

/* Sets the number of rows to return: one for each edge. */
static void
Finish(Clustering *run)
{
	run->nresults = ((TreeRun *) run)->nedges;
}

/* Sets all columns from the next edge.  The row does not matter. */
static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	const TreeEdge *edge = &((TreeRun *) run)->edges[run->next];
	const Datum *ids = run->keys->values;

	values[0] = ids[NumberOfRow(run->by_id, edge->a)];
	values[1] = ids[NumberOfRow(run->by_id, edge->b)];
	values[2] = Float8GetDatum(edge->weight);
}

static const ClusteringMethods tree_methods = {
	.output = FASTED_OUTPUT_NEAREST,
	.nearest = BuildTree,
	.finish = Finish,
	.result = Result
};

static void
BeginTree(FunctionRun *base)
{
	OpenTree((TreeRun *) base, IntegerArgument(&base->call, CLUSTERING_OWN, 1, 0), &tree_methods);
}

const FunctionDescriptor spanning_tree_function = {
	CLUSTERING_DESCRIPTOR(1),
	.name = "fasted_spanning_tree",
	.arguments = {CLUSTERING_ARGUMENTS, {"min_samples", true, "Min Samples"}, CLUSTERING_LAST_ARGUMENTS},
	.ncolumns = 3,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID},
	.builds_tree = true,
	.run_size = sizeof(TreeRun),
	.begin = BeginTree
};
