/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  fasted_cluster: density-based clustering (DBSCAN) from pairs in any order.
 *
 * M. Ester, H.-P. Kriegel, J. Sander and X. Xu, A Density-Based Algorithm for
 * Discovering Clusters in Large Spatial Databases with Noise, KDD 1996.  A row with at
 * least min_samples rows within eps, including itself, is a core row.  Core rows within
 * eps of each other belong to the same cluster.  Any other row belongs to the cluster of its
 * nearest core row within eps.  Of several at the same distance, the one with the smallest id
 * is chosen.  A row without a core row within eps is noise.
 *
 * There is one pass over all pairs, and a second pass over the stored pairs.  A row that is known
 * to be a core row remains one.  So a pair of two known core rows unites their sets immediately and
 * is dropped.  Any other pair is stored, since it is not yet known whether its rows are core rows.
 * It is one of the first min_samples - 2 pairs of one of its rows, which bounds the number of stored
 * pairs per row.
 *
 * Only engine rows (JoinEngineRows) are processed.  Further copies of a row have its result.
 *
 * An engine with FASTED_OUTPUT_CONNECTIONS drops redundant pairs itself and returns few.  They
 * are stored until the engine returns the numbers of pairs, which tell which rows are core rows.
 * With min_samples 1 all rows are core rows, and no pair is stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "functions/clustering.h"
#include "functions/pair_store.h"
#include "utils/memutils.h"

/* Prefetch distance, in pairs. */
#define FETCH_AHEAD 16

typedef struct Dbscan
{
	Clustering	base;

	uint32		engine_rows;	/* number of engine rows */
	uint32	   *row_of;			/* row by engine row; NULL: the same */
	uint32	   *engine_row;		/* engine row by row, if row_of is not NULL */

	/* by engine row */
	uint32	   *neighbors;		/* number of pairs so far */
	uint32	   *parent;			/* disjoint sets of core rows */
	uint32	   *nearest;		/* for other rows: nearest core row, or the row itself */
	double	   *nearest_dist;	/* distance to it */
	int32	   *number;			/* number of the cluster with this root; negative: not assigned */
	int32		nclusters;		/* clusters that have a number */

	PairStore	stored;			/* pairs whose rows were not both known to be core rows */
} Dbscan;

static void
Begin(Clustering *run)
{
	Dbscan	   *dbscan = (Dbscan *) run;

	dbscan->engine_rows = JoinEngineRows(run->base.join, &dbscan->row_of, &dbscan->engine_row);
	dbscan->neighbors = SameRowNumbers(run->count, 0);
	dbscan->parent = OwnRowNumbers(run->count);
	PairStoreInit(&dbscan->stored, false);
}

static inline bool
IsCore(const Dbscan *dbscan, uint32 row)
{
	return dbscan->neighbors[row] >= dbscan->base.core_pairs;
}

/* Prefetches the data of the rows of a later pair, which are scattered in memory. */
static inline void
FetchRows(const Dbscan *dbscan, const FastedPair *pairs, size_t i, size_t npairs)
{
	if (i + FETCH_AHEAD >= npairs)
		return;
	pairs += i + FETCH_AHEAD;
	__builtin_prefetch(&dbscan->parent[pairs->a], 1);
	__builtin_prefetch(&dbscan->neighbors[pairs->a], 1);
	__builtin_prefetch(&dbscan->parent[pairs->b], 1);
	__builtin_prefetch(&dbscan->neighbors[pairs->b], 1);
}

/* Unites the stored pairs whose rows are core rows by now, and removes them from the store. */
static void
UnitePairs(Dbscan *dbscan)
{
	FastedPair *pairs = dbscan->stored.pairs;
	size_t		kept = 0;

	for (size_t i = 0; i < dbscan->stored.count; i++)
	{
		CheckEveryRows(i);
		if (IsCore(dbscan, pairs[i].a) && IsCore(dbscan, pairs[i].b))
			UniteSets(dbscan->parent, pairs[i].a, pairs[i].b);
		else
			pairs[kept++] = pairs[i];
	}
	dbscan->stored.count = kept;
}

/*
 * Makes space in the full store: by uniting pairs, or else by writing all pairs to the file.
 * Uniting is worth another pass if it removes at least half of the pairs.
 */
static void
MakeSpace(Dbscan *dbscan)
{
	PairStore  *stored = &dbscan->stored;

	dbscan->base.other_bytes = stored->max_count * sizeof(FastedPair);
	UnitePairs(dbscan);
	if (stored->count <= stored->max_count / 2)
		return;
	PairStoreWrite(stored);
}

static void
Take(Clustering *run, const FastedPair *pairs, size_t npairs)
{
	Dbscan	   *dbscan = (Dbscan *) run;
	uint32		core_pairs = run->core_pairs;
	uint32		one = run->reduced ? 0 : 1;

	for (size_t i = 0; i < npairs; i++)
	{
		bool		a_is_core = (dbscan->neighbors[pairs[i].a] += one) >= core_pairs;
		bool		b_is_core = (dbscan->neighbors[pairs[i].b] += one) >= core_pairs;

		FetchRows(dbscan, pairs, i, npairs);
		if (a_is_core && b_is_core)
		{
			UniteSets(dbscan->parent, pairs[i].a, pairs[i].b);
			continue;
		}
		if (PairStoreIsFull(&dbscan->stored))
			MakeSpace(dbscan);
		PairStoreAdd(&dbscan->stored, pairs[i]);
	}
}

/* --- after the last pair */

/* ClusteringMethods.count: copies the numbers of pairs, which the engine counted. */
static void
CopyCounts(Clustering *run, const uint32 *counts)
{
	Dbscan	   *dbscan = (Dbscan *) run;

	CopyRowNumbers(dbscan->neighbors, counts, dbscan->engine_rows);
}

/* Returns whether the id of engine row a is smaller than that of b. */
static bool
IsBelow(const Dbscan *dbscan, uint32 a, uint32 b)
{
	return KeyBelow(dbscan->base.keys, NumberOfRow(dbscan->row_of, a), NumberOfRow(dbscan->row_of, b));
}

/* Makes core the row's nearest core row if it is nearer, or as near and has a smaller id. */
static void
OfferCore(Dbscan *dbscan, uint32 row, uint32 core, double dist)
{
	uint32		nearest = dbscan->nearest[row];

	if (nearest != row &&
		(dist > dbscan->nearest_dist[row] ||
		 (dist == dbscan->nearest_dist[row] && IsBelow(dbscan, nearest, core))))
		return;
	dbscan->nearest[row] = core;
	dbscan->nearest_dist[row] = dist;
}

/* Second pass: unites core rows, and finds the nearest core rows of other rows. */
static void
UsePairs(Dbscan *dbscan, const FastedPair *pairs, size_t npairs)
{
	for (size_t i = 0; i < npairs; i++)
	{
		bool		a_is_core = IsCore(dbscan, pairs[i].a);
		bool		b_is_core = IsCore(dbscan, pairs[i].b);

		FetchRows(dbscan, pairs, i, npairs);
		CheckEveryRows(i);
		if (a_is_core && b_is_core)
			UniteSets(dbscan->parent, pairs[i].a, pairs[i].b);
		else if (a_is_core)
			OfferCore(dbscan, pairs[i].b, pairs[i].a, pairs[i].dist);
		else if (b_is_core)
			OfferCore(dbscan, pairs[i].a, pairs[i].b, pairs[i].dist);
	}
}

static void
Finish(Clustering *run)
{
	Dbscan	   *dbscan = (Dbscan *) run;
	PairStore  *stored = &dbscan->stored;
	uint64		spilled = stored->spilled;
	uint32		nrows = run->count;

	run->other_bytes = Max(run->other_bytes, stored->count * sizeof(FastedPair));
	run->base.totals.spilled_pairs = spilled;
	dbscan->nearest = OwnRowNumbers(nrows);
	dbscan->nearest_dist = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nrows * sizeof(double));
	dbscan->number = (int32 *) SameRowNumbers(nrows, (uint32) -1);

	UsePairs(dbscan, stored->pairs, stored->count);
	for (uint64 first = 0; first < spilled; first += stored->max_count)
	{
		size_t		n = Min(stored->max_count, spilled - first);

		PairStoreRead(stored, first, n, 0);
		UsePairs(dbscan, stored->pairs, n);
	}
	PairStoreEnd(stored);
}

/* Numbers the clusters in the order in which rows are returned: by their smallest id. */
static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	Dbscan	   *dbscan = (Dbscan *) run;
	bool		core;
	uint32		root;

	row = NumberOfRow(dbscan->engine_row, row);
	core = IsCore(dbscan, row);
	values[2] = BoolGetDatum(core);
	if (!core && dbscan->nearest[row] == row)
	{
		nulls[1] = true;
		return;
	}
	root = FindRoot(dbscan->parent, dbscan->nearest[row]);
	if (dbscan->number[root] < 0)
		dbscan->number[root] = dbscan->nclusters++;
	values[1] = Int32GetDatum(dbscan->number[root]);
}

static const ClusteringMethods cluster_methods = {
	.output = FASTED_OUTPUT_CONNECTIONS,
	.begin = Begin,
	.take = Take,
	.count = CopyCounts,
	.finish = Finish,
	.result = Result
};

static void
BeginCluster(FunctionRun *base)
{
	Dbscan	   *dbscan = (Dbscan *) base;

	dbscan->base.core_pairs = (uint32) IntegerArgument(&base->call, CLUSTERING_AFTER_EPS, 1, 0) - 1;
	OpenClustering(&dbscan->base, &cluster_methods);
}

const FunctionDescriptor cluster_function = {
	CLUSTERING_DESCRIPTOR(2),
	.eps = CLUSTERING_EPS,
	.name = "fasted_cluster",
	.window = "fasted_dbscan",
	.arguments = {CLUSTERING_ARGUMENTS, {"eps", true, "Eps"}, {"min_samples", true, "Min Samples"}, CLUSTERING_LAST_ARGUMENTS},
	.ncolumns = 3,
	.columns = {InvalidOid, INT4OID, BOOLOID},
	.run_size = sizeof(Dbscan),
	.begin = BeginCluster
};
