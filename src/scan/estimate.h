/*-------------------------------------------------------------------------
 *
 * estimate.h
 *	  What the planner is told about a join: rows and cost.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ESTIMATE_H
#define FASTED_ESTIMATE_H

#include "nodes/pathnodes.h"
#include "nodes/primnodes.h"

/* The dimensions of vectors that nothing is known of. */
#define DEFAULT_DIMENSIONS 256.0

/*
 * Floating-point operations (2 n n d) for the price of one operator: what two
 * cores compute while PostgreSQL evaluates an operator or two.
 */
#define FLOP_PER_OPERATOR 10000.0

/*
 * Sets the costs of a path that runs this call.  Its rows are those of all
 * processes before, and those of each afterwards.
 */
extern void CostScan(PlannerInfo *root, RelOptInfo *rel, const FuncExpr *call,
					 int first, Path *path);

/*
 * For a function that returns a row for each row of its source: how many those are,
 * and what the function costs.  args are its arguments from "relation" on.
 */
extern void EstimateRowFunction(PlannerInfo *root, List *args, double *rows, Cost *cost);

/* Arguments of fasted_knn_join after the optional id_type, by position. */
enum
{
	NEAREST_A,
	NEAREST_A_COLUMN,
	NEAREST_B,
	NEAREST_B_COLUMN,
	NEAREST_K,
	NEAREST_A_ID,
	NEAREST_B_ID,
	NEAREST_METRIC,
	NEAREST_MAX_DISTANCE,
	NEAREST_PARTITION_BY,
	NEAREST_NARGS
};

/* Of fasted_knn_join, by its arguments from "a" on: rows of the result, and costs. */
typedef struct NearestEstimate
{
	double		rows;
	Cost		read_cost;
	Cost		compute_cost;
	Cost		first_cost;		/* the part of it before the first rows come */
} NearestEstimate;

extern NearestEstimate EstimateNearest(PlannerInfo *root, List *args);

#endif							/* FASTED_ESTIMATE_H */
