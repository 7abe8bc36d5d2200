/*-------------------------------------------------------------------------
 *
 * nearest_node.h
 *	  The scan node that takes the place of fasted_knn_join in FROM.
 *
 * It hands rows on as soon as a row of a has all of its neighbours; PostgreSQL would
 * store the whole result before the first row of it is seen.
 *
 *	  nearest_plan.c		which calls the node serves; path and plan
 *	  nearest_count.c		SELECT count(*) without a row being formed
 *	  nearest_exec.c		begin, next row, rescan, end
 *	  nearest_explain.c		what EXPLAIN says
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAREST_NODE_H
#define FASTED_NEAREST_NODE_H

#include "commands/explain.h"
#include "nearest/nearest_run.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "scan/call_exec.h"
#include "scan/outlet_scan.h"

#define NEAREST_NODE_NAME "FastedNearest"

/* What the plan says beyond what every plan says. */
typedef struct NearestPlan
{
	FuncExpr   *call;
	int			first;			/* position of argument "a": 0 or 1 */
	bool		count;			/* count(*) of all rows is the only column */
	List	   *columns;		/* of the scan tuple: column numbers, IntList */
} NearestPlan;

typedef struct NearestScan
{
	OutletScan	out;
	NearestPlan plan;
	CallArguments arguments;
	List	   *held_relations; /* from begin to end */
	MemoryContext context;		/* the run lives here */
	NearestRun *run;			/* NULL: not begun, or over */
	int			runs;
	NearestTotals totals;		/* of the runs that are over */
} NearestScan;

/* Sets a hook and registers the node; once, when the library is loaded. */
extern void InstallNearestNode(void);

/* nearest_plan.c: the call that the node serves, or NULL; and a plan. */
extern FuncExpr *ServedNearest(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte,
							   int *first);
extern void CostNearestPath(PlannerInfo *root, RelOptInfo *rel, const FuncExpr *call, int first,
							Path *path);
extern NearestPlan ReadNearestPlan(const CustomScan *scan);

/* nearest_count.c */
extern void InstallNearestCount(void);

/* nearest_exec.c: the totals of all runs until now; and, by name, the methods. */
extern NearestTotals NearestTotalsUntilNow(const NearestScan *scan);
extern const CustomScanMethods nearest_scan_methods;

/* nearest_explain.c */
extern void ExplainNearest(CustomScanState *node, List *ancestors, struct ExplainState *es);

#endif							/* FASTED_NEAREST_NODE_H */
