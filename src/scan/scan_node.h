/*-------------------------------------------------------------------------
 *
 * scan_node.h
 *	  The scan node that takes the place of fasted_self_join in FROM.
 *
 * PostgreSQL stores the whole result of a function in FROM before the first row
 * of it is seen.  This node hands rows on as the engine finds them instead.
 *
 *	  estimate.c		the planner's numbers: rows, cost (support function)
 *	  scan_plan.c		which calls the node serves; path and plan
 *	  scan_conditions.c	conditions that are applied to pairs, before tuples
 *	  scan_count.c		SELECT count(*) without a row being formed; count_query.c knows one
 *	  scan_exec.c		begin, next row, rescan, end
 *	  outlet_block.c		pairs of row numbers become blocks of column values
 *	  outlet_scan.c		rows of blocks, which in a parallel plan the leader deals
 *	  scan_explain.c	what EXPLAIN says
 *
 * The node scans no relation that the planner knows (scanrelid is 0): its scan
 * tuple has just the columns of the call that are used (custom_scan_tlist).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_NODE_H
#define FASTED_SCAN_NODE_H

#include "commands/explain.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "scan/scan_conditions.h"

/* Columns of the result. */
#define COLUMN_ID_A 1
#define COLUMN_ID_B 2
#define COLUMN_DIST 3

/*
 * What the plan says beyond what every plan says.  custom_exprs begins with the
 * call itself (a FuncExpr), then come the bounds of the conditions.
 */
typedef struct ScanPlan
{
	FuncExpr   *call;
	int			first;			/* position of argument "relation": 0 or 1 */
	List	   *columns;		/* of the scan tuple: column numbers, IntList */
	bool		count;			/* the only row is the number of pairs */
	double		estimated_pairs;
	PairConditions conditions;
} ScanPlan;

extern void WriteScanPlan(const ScanPlan *plan, CustomScan *scan);
extern ScanPlan ReadScanPlan(const CustomScan *scan);

/* Sets hooks and registers the node; once, when the library is loaded. */
extern void InstallScanNode(void);

/* scan_plan.c: the call that the node can serve for this relation, or NULL. */
extern FuncExpr *ServedCall(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte,
							int *first);

/* scan_count.c */
extern void InstallCountPlanner(void);

/* scan_exec.c, by name */
extern const CustomScanMethods fasted_scan_methods;

/* scan_explain.c */
extern void ExplainScan(CustomScanState *node, List *ancestors, struct ExplainState *es);

#endif							/* FASTED_SCAN_NODE_H */
