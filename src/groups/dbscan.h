/*-------------------------------------------------------------------------
 *
 * dbscan.h
 *	  Density-based clusters, by pairs in any order.
 *
 * M. Ester, H.-P. Kriegel, J. Sander and X. Xu, A Density-Based Algorithm for
 * Discovering Clusters in Large Spatial Databases with Noise, KDD 1996.  A row with at
 * least min_points rows within eps, itself among them, is a core row; core rows within
 * eps of each other are of one cluster.  Another row is of the cluster of its nearest
 * core row within eps (the one with the smallest id, if there are several), and
 * noise if there is none.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DBSCAN_H
#define FASTED_DBSCAN_H

#include "groups/grouping.h"
#include "groups/pair_store.h"

typedef struct Dbscan
{
	Grouping	base;
	uint32		wanted;			/* neighbours that make a core row */
	const GroupRows *rows;

	/* by row number */
	uint32	   *neighbors;		/* seen so far */
	uint32	   *parent;			/* disjoint sets of core rows */
	uint32	   *nearest;		/* to one that is no core row: a core row, or itself */
	double	   *nearest_dist;
	int32	   *number;			/* of the cluster with this root; negative: none yet */
	int32		nclusters;		/* with a number */

	PairStore	open;			/* pairs that could not be used when they came */
} Dbscan;

/* min_points is at least 1; results are cluster (or null) and core. */
extern Grouping *DbscanCreate(int32 min_points);

#endif							/* FASTED_DBSCAN_H */
