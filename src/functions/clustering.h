/*-------------------------------------------------------------------------
 *
 * clustering.h
 *	  Functions that return one row for each source row with a vector, computed from its pairs.
 *
 *	  clustering.c	the run: read, join, compute the results, and return rows in the order of ids;
 *					and fasted_neighbors
 *	  cluster.c		fasted_cluster
 *	  keep_one.c	fasted_keep_one
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTERING_H
#define FASTED_CLUSTERING_H

#include "base/interrupts.h"
#include "functions/function.h"

/* The first arguments.  The function's own follow, and then id_column, metric, partition_by. */
enum
{
	CLUSTERING_RELATION,
	CLUSTERING_COLUMN,
	CLUSTERING_EPS,
	CLUSTERING_OWN
};

/* The parts that all their descriptors have in common. */
#define CLUSTERING_ARGUMENTS \
	{"relation", true, NULL}, {"vector_column", true, NULL}, {"eps", true, "Eps"}
#define CLUSTERING_LAST_ARGUMENTS \
	{"id_column", false, NULL}, {"metric", true, "Metric"}, {"partition_by", false, "Partition Column"}

#define CLUSTERING_DESCRIPTOR(own_arguments) \
	.node_name = "FastedClustering", \
	.nargs = CLUSTERING_OWN + (own_arguments) + 3, \
	.nsources = 1, \
	.sources = {{CLUSTERING_RELATION, CLUSTERING_COLUMN, CLUSTERING_OWN + (own_arguments)}}, \
	.eps = CLUSTERING_EPS, \
	.metric = CLUSTERING_OWN + (own_arguments) + 1, \
	.nullable = true, \
	.whole_rows = true, \
	.output_label = "Clustering Time", \
	.estimate = EstimateClustering, \
	.fill = FillClustering, \
	.rewind = RewindClustering

typedef struct Clustering Clustering;

/*
 * How a function computes its results from the pairs.  The callbacks are called in this order:
 *
 *	  rank		with FASTED_OUTPUT_REPRESENTATIVES only: returns the rows' ranks, by row number
 *	  begin		before the first pairs
 *	  take		for each batch of pairs
 *	  count		if the engine counts pairs: with the number of pairs of each row
 *	  finish	after the last pairs, when the engine has been released
 *	  result	for each row, in the order of ids: sets the columns after the id.  Rows may be
 *				requested again from the first one on.
 *
 * output is the request to the engine: pairs, counts, connections or representatives (engine.h).
 * An engine that lacks the latter two returns all pairs instead, without counts.
 */
typedef struct ClusteringMethods
{
	FastedOutput output;
	const uint32 *(*rank) (Clustering *run);	/* or NULL */
	void		(*begin) (Clustering *run);
	void		(*take) (Clustering *run, const FastedPair *pairs, size_t npairs);
	void		(*count) (Clustering *run, const uint32 *counts);	/* or NULL */
	void		(*finish) (Clustering *run);	/* or NULL */
	void		(*result) (Clustering *run, uint32 row, Datum *values, bool *nulls);
} ClusteringMethods;

/* The state of a run: the first field of each function's own struct. */
struct Clustering
{
	FunctionRun base;
	const ClusteringMethods *methods;

	/* Set by the function before the join. */
	uint32		core_pairs;		/* a row with this many pairs is a core row (engine.h) */
	char	   *order_column;	/* see OrderSource; or NULL */
	bool		descending;

	/* The rows that are joined. */
	const KeySet *keys;
	uint32		count;
	const uint32 *by_id;		/* row numbers in the order of ids; NULL: the identity */
	const uint32 *order;		/* each row's position in the source's order; NULL if unknown */

	bool		reduced;		/* the engine has the requested output; set before begin */
	uint64		npairs;
	uint64		pair_bytes;		/* peak memory of stored pairs */
	uint32		next;			/* position, in the order of ids, of the next row to return */
	Progress	progress;		/* shown while the results are computed */
	Cleanup		cleanup;
};

/* Reads and joins the rows, and computes the results. */
extern void RunClustering(Clustering *run, const ClusteringMethods *methods);

/* FunctionDescriptor's fill and rewind. */
extern bool FillClustering(FunctionRun *base, OutputBlock *block);
extern void RewindClustering(FunctionRun *base);

/* Pairs, or rows, between two checks for interrupts: about a millisecond. */
#define CLUSTERING_STRIDE (64 * 1024)

#endif							/* FASTED_CLUSTERING_H */
