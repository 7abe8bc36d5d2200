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

/* Sets the costs of a path that runs this call; its rows are set already. */
extern void CostScan(PlannerInfo *root, RelOptInfo *rel, const FuncExpr *call,
					 int first, Path *path);

/* The table's rows and dimensions as the planner knows them; false: it doesn't. */
extern bool EstimateProblem(PlannerInfo *root, const FuncExpr *call, int first,
							double *rows, double *dimensions);

#endif							/* FASTED_ESTIMATE_H */
