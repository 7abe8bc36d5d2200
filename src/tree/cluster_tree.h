/*-------------------------------------------------------------------------
 *
 * cluster_tree.h
 *	  HDBSCAN's clusters from a minimum spanning tree.
 *
 * The steps are those of R. Campello, D. Moulavi, A. Zimek and J. Sander, Hierarchical Density
 * Estimates for Data Clustering, Visualization, and Outlier Detection (2015), with the parameters,
 * conventions and results of scikit-learn's HDBSCAN: the single-linkage dendrogram of the sorted
 * edges, the tree condensed by min_cluster_size, the selection of clusters by excess of mass or of
 * leaves, labels, and membership probabilities.  Outlier scores are those of GLOSH, as in the
 * hdbscan package.
 *
 * This file is plain C without PostgreSQL.  One thread does the work; the caller polls for its end.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CLUSTER_TREE_H
#define FASTED_CLUSTER_TREE_H

#include "spanning_tree.h"

typedef struct ClusterParameters
{
	uint32_t	min_cluster_size;	/* at least 2 */
	uint32_t	max_cluster_size;	/* 0: no limit; excess of mass only */
	bool		leaf;			/* select the leaves of the condensed tree, not excess of mass */
	double		epsilon;		/* cluster_selection_epsilon, >= 0 */
	bool		allow_single_cluster;
} ClusterParameters;

/* The result for a node. */
typedef struct ClusterLabel
{
	int32_t		cluster;		/* numbered from 0 by smallest node; -1: noise */
	double		probability;	/* 0 to 1; 0 for noise */
	double		outlier_score;	/* 0 to 1 */
	double		birth_distance; /* a row belongs to the cluster if connected at most at this distance */
	double		death_distance; /* its probability is then 1 at most at this distance; noise: neither is set */
} ClusterLabel;

typedef struct ClusterTree ClusterTree;

/* Returns the peak of memory, in bytes, for n nodes, without the edges and labels. */
extern uint64_t clusters_bytes(uint32_t n);

/*
 * Starts to compute the labels of n nodes from the edges of their spanning forest, ordered by weight,
 * which is not negative.  Each tree is clustered as if it were the only one.  The edges and labels must
 * remain valid until the work has ended.  Returns NULL if out of memory.
 */
extern ClusterTree *clusters_start(const TreeEdge *edges, uint32_t nedges, uint32_t n,
								   const ClusterParameters *parameters, ClusterLabel *labels);

/* Waits for at most timeout_ms milliseconds.  Returns TREE_BUSY, TREE_DONE or TREE_OUT_OF_MEMORY. */
extern TreeStatus clusters_wait(ClusterTree *tree, int timeout_ms);

/* Stops the work and frees its memory; NULL is allowed. */
extern void clusters_free(ClusterTree *tree);

#endif							/* FASTED_CLUSTER_TREE_H */
