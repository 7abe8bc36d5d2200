/*-------------------------------------------------------------------------
 *
 * clustering.h
 *	  Functions that return one row for each source row with a vector, computed from its pairs.
 *
 *	  clustering.c	the run: read, join, compute the results, and return rows in the order of ids;
 *					and fasted_neighbors
 *	  cluster.c		fasted_cluster
 *	  keep_one.c	fasted_keep_one
 *	  spanning_tree.c	the minimum spanning tree, from each row's nearest rows; fasted_spanning_tree,
 *					which returns a row for each edge
 *	  hdbscan.c		fasted_hdbscan
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTERING_H
#define FASTED_CLUSTERING_H

#include "base/interrupts.h"
#include "functions/function.h"

/* The first arguments.  The function's own follow, of which eps is the first, then metric, id_column, partition_by. */
enum
{
	CLUSTERING_RELATION,
	CLUSTERING_COLUMN,
	CLUSTERING_OWN,
	CLUSTERING_EPS = CLUSTERING_OWN,
	CLUSTERING_AFTER_EPS
};

/* The parts that all their descriptors have in common. */
#define CLUSTERING_ARGUMENTS {"relation", true, "Relation"}, {"vector_column", true, "Vector Column"}
#define CLUSTERING_LAST_ARGUMENTS \
	{"metric", true, "Metric"}, {"id_column", false, "Key Column"}, {"partition_by", false, "Partition Column"}

/* own_arguments: number of the function's own arguments. */
#define CLUSTERING_DESCRIPTOR(own_arguments) \
	.node_name = "FastedClustering", \
	.output_label = "Clustering Time", \
	.nargs = CLUSTERING_OWN + (own_arguments) + 3, \
	.nsources = 1, \
	.sources = {{CLUSTERING_RELATION, CLUSTERING_COLUMN, CLUSTERING_OWN + (own_arguments) + 1}}, \
	.metric = CLUSTERING_OWN + (own_arguments), \
	.nullable = true, \
	.fill = FillClustering, \
	.rewind = RewindClustering

typedef struct Clustering Clustering;

/*
 * How a function computes its results from the pairs.  The callbacks are called in this order:
 *
 *	  rank		before the join starts: returns the rows' ranks, by row number.  If a GPU fails, it is
 *				called again for rows in another order.
 *	  begin		before the first pairs
 *	  take		for each batch of pairs
 *	  count		if the engine counts pairs: with the number of pairs of each row
 *	  nearest	with FASTED_OUTPUT_NEAREST only, instead of begin, take and count: takes the rows'
 *				neighbours from the join
 *	  finish	after the last pairs, when the engine has been released
 *	  result	for each row, in the order of ids: sets the columns after the id.  Rows may be
 *				requested again from the first one on.
 *
 * output is the request to the engine: pairs, counts, connections, representatives or nearest rows
 * (engine.h).  An engine that lacks connections or representatives returns all pairs instead, without
 * counts.
 */
typedef struct ClusteringMethods
{
	FastedOutput output;
	const uint32 *(*rank) (Clustering *run);	/* or NULL */
	void		(*begin) (Clustering *run);
	void		(*take) (Clustering *run, const FastedPair *pairs, size_t npairs);
	void		(*count) (Clustering *run, const uint32 *counts);	/* or NULL */
	void		(*nearest) (Clustering *run);	/* or NULL */
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
	uint32		neighbors;		/* number of nearest rows, with FASTED_OUTPUT_NEAREST */
	uint64		row_bytes;		/* memory per row that takes memory from the engine (JoinRequest) */
	char	   *order_column;	/* see OrderSource; or NULL */
	bool		descending;

	/* The rows that are joined. */
	const VectorSource *ordered;	/* result of OrderSource; or NULL */
	const KeySet *keys;
	uint32		count;
	const uint32 *by_id;		/* row numbers in the order of ids; NULL: the identity */

	bool		computed;		/* the join has ended, and the results are known */
	bool		reduced;		/* the engine has the requested output; set before begin */
	uint64		npairs;
	uint64		other_bytes;	/* peak memory outside of memory contexts, such as stored pairs */
	uint32		nresults;		/* number of rows to return: `count`, unless `finish` changes it */
	uint32		next;			/* position, in the order of ids, of the next row to return */
	Progress	progress;		/* shown while the results are computed */
	Cleanup		cleanup;
};

/*
 * Opens the join.  Unless a window function passes its rows to the join, also reads them and starts
 * the join.  The first FillClustering computes the results.
 */
extern void OpenClustering(Clustering *run, const ClusteringMethods *methods);

/* Starts the join of a window function.  Returns as JoinStart does. */
extern bool StartClustering(Clustering *run);

extern bool FillClustering(FunctionRun *base, OutputBlock *block);
extern void RewindClustering(FunctionRun *base);

/* --- spanning_tree.c */

/*
 * The state of a run that computes a minimum spanning tree.  Its nodes are the positions of rows in
 * the order of ids.
 */
typedef struct TreeRun
{
	Clustering	base;
	uint32		min_samples;	/* see spanning_tree.h */

	SpanningTree *tree;			/* NULL if there are no edges */
	Cleanup		cleanup;		/* frees it, since it is not memory of PostgreSQL */
	const TreeEdge *edges;		/* ordered by weight */
	uint32		nedges;

	/* If keeps_core: core distances by node; NULL if there are no edges. */
	bool		keeps_core;
	double	   *core;
} TreeRun;

/* Opens a clustering that computes the tree (BuildTree) before methods->finish; min_samples is at least 1. */
extern void OpenTree(TreeRun *run, int32 min_samples, const ClusteringMethods *methods);
extern void BuildTree(Clustering *run);

/* Raises an error if the bytes exceed fasted.memory_limit; purpose: what they hold. */
extern void RequireTreeMemory(const TreeRun *run, uint64 bytes, const char *purpose);

/* Frees the tree and its edges, if it has not been freed.  arg: the TreeRun. */
extern void FreeTree(void *arg);

#endif							/* FASTED_CLUSTERING_H */
