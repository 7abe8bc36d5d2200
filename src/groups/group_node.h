/*-------------------------------------------------------------------------
 *
 * group_node.h
 *	  The scan node that takes the place of a function that groups rows, in FROM.
 *
 * PostgreSQL would store the whole result of the function.  The node hands its rows
 * on, in order of id, from what the function keeps of each row, and EXPLAIN ANALYZE
 * has the engine's numbers.
 *
 *	  group_plan.c		which calls the node serves; path and plan
 *	  group_exec.c		begin, next row, rescan, end
 *	  group_explain.c	what EXPLAIN says
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_NODE_H
#define FASTED_GROUP_NODE_H

#include "commands/explain.h"
#include "groups/group_function.h"
#include "groups/group_run.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "scan/call_exec.h"
#include "scan/call_row.h"

#define GROUP_NODE_NAME "FastedGroups"

/* What the plan says beyond what every plan says. */
typedef struct GroupPlan
{
	FuncExpr   *call;
	const GroupFunction *function;
	int			first;			/* position of argument "relation": 0 or 1 */
	List	   *columns;		/* of the scan tuple: column numbers, IntList */
} GroupPlan;

/* Of all runs. */
typedef struct GroupTotals
{
	int			runs;
	FastedStats stats;
	double		read_seconds;
	double		wait_seconds;
	double		group_seconds;
	uint64		bytes;
	uint64		filed_pairs;
	List	   *shares;			/* of the last run: JoinShares */
} GroupTotals;

typedef struct GroupScan
{
	CustomScanState css;
	GroupPlan	plan;
	CallArguments arguments;
	List	   *held_relations; /* from begin to end */
	MemoryContext context;		/* the run lives here */
	GroupRun   *run;			/* NULL: not begun */
	CallRow		row;
	GroupTotals totals;
} GroupScan;

/* Sets a hook and registers the node; once, when the library is loaded. */
extern void InstallGroupNode(void);

/* group_plan.c */
extern GroupPlan ReadGroupPlan(const CustomScan *scan);

/* group_exec.c, by name */
extern const CustomScanMethods group_scan_methods;

/* group_explain.c */
extern void ExplainGroups(CustomScanState *node, List *ancestors, struct ExplainState *es);

#endif							/* FASTED_GROUP_NODE_H */
