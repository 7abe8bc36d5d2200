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
 * This file is plain C without PostgreSQL.
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

/* Returns the size, in bytes, of the memory that find_clusters needs for n nodes. */
extern uint64_t clusters_bytes(uint32_t n);

/*
 * Sets the labels of n nodes from the edges of their spanning forest, ordered by weight, which is not
 * negative.  Each tree is clustered as if it were the only one.  `memory` has clusters_bytes(n) bytes,
 * aligned for doubles.  check() is called about once in a millisecond, and may leave by longjmp.
 */
extern void find_clusters(const TreeEdge *edges, uint32_t nedges, uint32_t n,
						  const ClusterParameters *parameters, ClusterLabel *labels,
						  void *memory, void (*check) (void));

#endif							/* FASTED_CLUSTER_TREE_H */
