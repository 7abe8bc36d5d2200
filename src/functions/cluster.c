/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  fasted_cluster: density-based clusters, by pairs in any order.
 *
 * M. Ester, H.-P. Kriegel, J. Sander and X. Xu, A Density-Based Algorithm for
 * Discovering Clusters in Large Spatial Databases with Noise, KDD 1996.  A row with at
 * least min_points rows within eps, itself among them, is a core row; core rows within
 * eps of each other are of one cluster.  Another row is of the cluster of its nearest
 * core row within eps (the one with the smallest id, if there are several), and
 * noise if there is none.
 *
 * There is one pass over the pairs, and one over those that were kept.
 * A row that has been seen to be a core row remains one.  So a pair of two such rows
 * unites their sets at once and is forgotten.  Any other pair is kept, for it is not
 * known yet what it will be: of two core rows, of a core row and one in its reach, or
 * of two that are none.  It came as one of the first min_points - 2 pairs of
 * one of its rows, so no more than that are kept for each row.
 *
 * An engine that finds connections does the same where it finds the pairs.  Then few come
 * here, and all but those of components are kept until it says which rows are core rows.
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

/* Pairs between the one looked at and the one whose rows are fetched. */
#define FETCH_AHEAD 16

typedef struct Dbscan
{
	Clustering	base;

	/* by row number */
	uint32	   *neighbors;		/* seen so far */
	uint32	   *parent;			/* disjoint sets of core rows */
	uint32	   *nearest;		/* to one that is no core row: a core row, or itself */
	double	   *nearest_dist;
	int32	   *number;			/* of the cluster with this root; negative: none yet */
	int32		nclusters;		/* with a number */

	PairStore	open;			/* pairs that could not be used when they came */
} Dbscan;

static void
Begin(Clustering *run)
{
	Dbscan	   *dbscan = (Dbscan *) run;

	dbscan->neighbors = SameRowNumbers(run->count, 0);
	dbscan->parent = OwnRowNumbers(run->count);
	PairStoreInit(&dbscan->open, 1);
}

static inline bool
IsCore(const Dbscan *dbscan, uint32 row)
{
	return dbscan->neighbors[row] >= dbscan->base.core_pairs;
}

/* Rows lie anywhere: what a later pair needs is on its way while others are looked at. */
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

/* Unites what are core rows by now, and keeps the other pairs. */
static void
UnitePairs(Dbscan *dbscan)
{
	FastedPair *pairs = dbscan->open.memory->pairs;
	size_t		kept = 0;

	for (size_t i = 0; i < dbscan->open.count; i++)
	{
		if (i % GROUP_STRIDE == 0)
			CheckJoinInterrupts();
		if (IsCore(dbscan, pairs[i].a) && IsCore(dbscan, pairs[i].b))
			UniteSets(dbscan->parent, pairs[i].a, pairs[i].b);
		else
			pairs[kept++] = pairs[i];
	}
	dbscan->open.count = kept;
}

/* To look through all pairs again pays if it makes room for as many as it leaves. */
static void
MakeRoom(Dbscan *dbscan)
{
	PairStore  *open = &dbscan->open;

	UnitePairs(dbscan);
	if (open->count <= open->most / 2)
		return;
	PairStoreWrite(open, open->memory->pairs, open->count);
	open->count = 0;
}

static void
Take(Clustering *run, const FastedPair *pairs, size_t npairs)
{
	Dbscan	   *dbscan = (Dbscan *) run;
	uint32		wanted = run->core_pairs;
	uint32		one = run->reduced ? 0 : 1;

	for (size_t i = 0; i < npairs; i++)
	{
		bool		a_is_core = (dbscan->neighbors[pairs[i].a] += one) >= wanted;
		bool		b_is_core = (dbscan->neighbors[pairs[i].b] += one) >= wanted;

		FetchRows(dbscan, pairs, i, npairs);
		if (a_is_core && b_is_core)
		{
			UniteSets(dbscan->parent, pairs[i].a, pairs[i].b);
			continue;
		}
		if (PairStoreIsFull(&dbscan->open))
			MakeRoom(dbscan);
		PairStoreAdd(&dbscan->open, pairs[i]);
	}
}

/* --- all pairs have come */

/* The engine counted. */
static void
KeepCounts(Clustering *run, const uint32 *counts)
{
	Dbscan	   *dbscan = (Dbscan *) run;

	CopyRowNumbers(dbscan->neighbors, counts, run->count);
}

static void
OfferCore(Dbscan *dbscan, uint32 row, uint32 core, double dist)
{
	uint32		nearest = dbscan->nearest[row];

	if (nearest != row &&
		(dist > dbscan->nearest_dist[row] ||
		 (dist == dbscan->nearest_dist[row] && KeyBelow(dbscan->base.keys, nearest, core))))
		return;
	dbscan->nearest[row] = core;
	dbscan->nearest_dist[row] = dist;
}

static void
UsePairs(Dbscan *dbscan, const FastedPair *pairs, size_t npairs)
{
	for (size_t i = 0; i < npairs; i++)
	{
		bool		a_is_core = IsCore(dbscan, pairs[i].a);
		bool		b_is_core = IsCore(dbscan, pairs[i].b);

		FetchRows(dbscan, pairs, i, npairs);
		if (i % GROUP_STRIDE == 0)
			CheckJoinInterrupts();
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
	PairStore  *open = &dbscan->open;
	uint64		filed = open->filed;
	uint32		nrows = run->count;

	run->pair_bytes = PairMemoryBytes(open->memory);
	run->base.totals.filed_pairs = filed;
	dbscan->nearest = OwnRowNumbers(nrows);
	dbscan->nearest_dist = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nrows * sizeof(double));
	dbscan->number = (int32 *) SameRowNumbers(nrows, (uint32) -1);

	UsePairs(dbscan, open->memory->pairs, open->count);
	for (uint64 first = 0; first < filed; first += open->most)
	{
		size_t		n = Min(open->most, filed - first);

		PairStoreRead(open, first, open->memory->pairs, n);
		UsePairs(dbscan, open->memory->pairs, n);
	}
	PairStoreEnd(open);
}

/* Clusters get their numbers as their rows come: by their smallest id. */
static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	Dbscan	   *dbscan = (Dbscan *) run;
	bool		core = IsCore(dbscan, row);
	uint32		root;

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
	.count = KeepCounts,
	.finish = Finish,
	.result = Result
};

static void
BeginCluster(FunctionRun *base)
{
	Dbscan	   *dbscan = (Dbscan *) base;
	int32		min_points = DatumGetInt32(base->call.args[CLUSTERING_OWN].value);

	if (min_points < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("min_points must be at least 1"),
				 errhint("A row counts itself: 1 connects rows by their pairs, and leaves no noise.")));
	dbscan->base.core_pairs = (uint32) min_points - 1;
	RunClustering(&dbscan->base, &cluster_methods);
}

const FunctionDescriptor cluster_function = {
	CLUSTERING_DESCRIPTOR(1),
	.name = "fasted_cluster",
	.window = "fasted_dbscan",
	.arguments = {CLUSTERING_ARGUMENTS, {"min_points", true, "Min Points"}, CLUSTERING_LAST_ARGUMENTS},
	.ncolumns = 3,
	.columns = {InvalidOid, INT4OID, BOOLOID},
	.run_size = sizeof(Dbscan),
	.begin = BeginCluster
};
