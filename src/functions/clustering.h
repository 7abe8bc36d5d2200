/*-------------------------------------------------------------------------
 *
 * clustering.h
 *	  Functions that return one row for each row with a vector, by its pairs.
 *
 *	  clustering.c	the run: reads, joins, what the function makes of the pairs, then rows in
 *					order of id; and fasted_neighbors
 *	  cluster.c, keep_one.c		what the other functions make of the pairs
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTERING_H
#define FASTED_CLUSTERING_H

#include "base/interrupts.h"
#include "functions/function.h"

/* Arguments before those of the function's own; behind these come id_column, metric, partition_by. */
enum
{
	CLUSTERING_RELATION,
	CLUSTERING_COLUMN,
	CLUSTERING_EPS,
	CLUSTERING_OWN
};

/* What all their descriptors have in common. */
#define CLUSTERING_ARGUMENTS \
	{"relation", true, NULL}, {"vector_column", true, NULL}, {"eps", true, "Eps"}
#define CLUSTERING_LAST_ARGUMENTS \
	{"id_column", false, NULL}, {"metric", true, "Metric"}, {"partition_by", false, "Partition Column"}

#define CLUSTERING_DESCRIPTOR(own_arguments) \
	.node_name = "FastedGroups", \
	.nargs = CLUSTERING_OWN + (own_arguments) + 3, \
	.nsources = 1, \
	.sources = {{CLUSTERING_RELATION, CLUSTERING_COLUMN, CLUSTERING_OWN + (own_arguments)}}, \
	.eps = CLUSTERING_EPS, \
	.metric = CLUSTERING_OWN + (own_arguments) + 1, \
	.nullable = true, \
	.whole_rows = true, \
	.output_label = "Group Time", \
	.estimate = EstimateClustering, \
	.fill = FillClustering, \
	.rewind = RewindClustering

typedef struct Clustering Clustering;

/*
 * What a function makes of the pairs.  Its calls: begin; take with each batch of pairs; count
 * with the number of pairs that each row has, where the engine counts them; finish, when there
 * are no more and the engine is gone; and result for each row, in order of id, which sets the
 * columns behind the id.  All results may be asked for once more, from the first on.
 *
 * It says what it wants of the engine: pairs, counts, connections or keepers (engine.h).
 * Instead of the latter two it may get all pairs, uncounted.  For keepers it is asked for
 * ranks before all else.
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

/* The run of each of the functions begins with it. */
struct Clustering
{
	FunctionRun base;
	const ClusteringMethods *methods;

	/* What the function sets before the join. */
	uint32		core_pairs;		/* of connections: so many pairs make a row a core row */
	char	   *order_column;	/* see OrderSource; NULL */
	bool		descending;

	/* The rows that take part. */
	const KeySet *keys;
	uint32		count;
	const uint32 *by_id;		/* row numbers in order of id; NULL: they are in it */
	const uint32 *order;		/* places in the source's order, where that is known; or NULL */

	bool		reduced;		/* it gets what it wants, and not all pairs; known when it begins */
	uint64		npairs;
	uint64		pair_bytes;		/* the most room that pairs took */
	uint32		next;			/* the place, by id, of the next row */
	Progress	progress;		/* while rows are grouped */
	Cleanup		cleanup;
};

/* Reads, joins, and has the function make of the pairs what it does. */
extern void RunClustering(Clustering *run, const ClusteringMethods *methods);

/* As the descriptor has them. */
extern bool FillClustering(FunctionRun *base, OutletBlock *block);
extern void RewindClustering(FunctionRun *base);

/* Pairs, or rows, between two looks for interrupts: about a millisecond. */
#define GROUP_STRIDE (64 * 1024)

#endif							/* FASTED_CLUSTERING_H */
