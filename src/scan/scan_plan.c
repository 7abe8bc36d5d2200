/*-------------------------------------------------------------------------
 *
 * scan_plan.c
 *	  Which calls the scan node serves, and its path and plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "scan/call_plan.h"
#include "scan/estimate.h"
#include "scan/scan_node.h"
#include "scan/self_join.h"
#include "session/guc.h"
#include "utils/lsyscache.h"

static Plan *PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
					  List *tlist, List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "FastedSelfJoin",
	.PlanCustomPath = PlanScan
};

/* --- what a plan holds */

void
WriteScanPlan(const ScanPlan *plan, CustomScan *scan)
{
	/* Written to a worker and read back, a number without a point is an Integer. */
	char	   *pairs = psprintf("%.1f", plan->estimated_pairs);

	scan->custom_exprs = lcons(plan->call, list_copy(plan->conditions.dist_bounds));
	scan->custom_private = list_make5(list_make2_int(plan->first, plan->count),
									  plan->columns,
									  plan->conditions.dist_operators,
									  plan->conditions.id_operators,
									  makeFloat(pairs));
	scan->methods = &fasted_scan_methods;
}

ScanPlan
ReadScanPlan(const CustomScan *scan)
{
	ScanPlan	plan;
	List	   *numbers = linitial(scan->custom_private);

	plan.call = castNode(FuncExpr, linitial(scan->custom_exprs));
	plan.first = linitial_int(numbers);
	plan.count = lsecond_int(numbers);
	plan.columns = lsecond(scan->custom_private);
	plan.conditions.dist_bounds = list_copy_tail(scan->custom_exprs, 1);
	plan.conditions.dist_operators = lthird(scan->custom_private);
	plan.conditions.id_operators = lfourth(scan->custom_private);
	plan.estimated_pairs = floatVal(list_nth(scan->custom_private, 4));
	return plan;
}

/* --- which calls */

/* first: the position of argument "relation". */
static bool
IsSelfJoin(Oid funcid, int *first)
{
	PGFunction	function = CalledFunction(funcid);

	*first = function == fasted_self_join_typed ? 1 : 0;
	return *first == 1 || function == fasted_self_join;
}

FuncExpr *
ServedCall(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, int *first)
{
	FuncExpr   *call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	Oid			types[3] = {InvalidOid, InvalidOid, FLOAT8OID};

	if (call == NULL || !IsSelfJoin(call->funcid, first) ||
		list_length(call->args) != SELF_JOIN_NARGS + *first)
		return NULL;
	types[0] = types[1] = KeyTypeOfCall(call, *first);
	return UsesPlainColumns(root, rel, types, lengthof(types)) ? call : NULL;
}

/* --- path */

static CustomPath *
MakeScanPath(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first, int workers)
{
	CustomPath *path = MakeCallPath(rel, root, &path_methods);

	path->path.parallel_workers = workers;
	path->path.parallel_aware = path->path.parallel_safe = workers > 0;
	CostScan(root, rel, call, first, &path->path);
	path->custom_private = list_make2(call, makeInteger(first));
	return path;
}

/*
 * Can workers do what stands above the scan?  The call itself is the leader's,
 * who must take part, and no other process may have to wait for it: partial
 * paths of a subquery go no further than its aggregate, not into an append.  And
 * while the leader waits for further pairs it hands on no row that a worker has,
 * so where the first rows are enough there are no workers.
 */
static bool
MayBeParallel(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first)
{
	Oid			key_type = KeyTypeOfCall(call, first);
	const Query *query = root->parse;
	bool		reads_all = query->hasAggs || query->groupClause != NIL ||
		query->distinctClause != NIL;

	if (!root->glob->parallelModeOK || !parallel_leader_participation ||
		rel->reloptkind != RELOPT_BASEREL || !bms_is_empty(rel->lateral_relids) ||
		!FLOAT8PASSBYVAL || !get_typbyval(key_type))
		return false;
	if (!reads_all && (root->query_level > 1 || query->limitCount != NULL))
		return false;
	return is_parallel_safe(root, (Node *) call->args) &&
		is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&
		is_parallel_safe(root, (Node *) rel->reltarget->exprs);
}

/* As many workers as would read a table of these rows. */
static int
WorkerCount(RelOptInfo *rel)
{
	double		width = MAXALIGN(SizeofHeapTupleHeader) + 3 * sizeof(Datum) + sizeof(ItemIdData);

	return compute_parallel_worker(rel, ceil(rel->tuples * width / BLCKSZ), -1,
								   max_parallel_workers_per_gather);
}

static void
OfferParallelScan(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first)
{
	int			workers;

	if (!MayBeParallel(root, rel, call, first))
		return;
	workers = WorkerCount(rel);
	if (workers == 0)
		return;
	rel->consider_parallel = true;
	add_partial_path(rel, (Path *) MakeScanPath(root, rel, call, first, workers));
}

static CustomPath *
OfferScan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	int			first;
	FuncExpr   *call = ServedCall(root, rel, rte, &first);

	if (call == NULL)
		return NULL;
	OfferParallelScan(root, rel, call, first);
	return MakeScanPath(root, rel, call, first, 0);
}

/* --- plan */

static Plan *
PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *quals = extract_actual_clauses(clauses, false);
	ScanPlan	plan = {0};

	plan.call = linitial_node(FuncExpr, path->custom_private);
	plan.first = intVal(lsecond(path->custom_private));
	scan->scan.plan.qual = TakeConditions(quals, rel->relid, &plan.conditions);
	plan.columns = PlanCallColumns(scan, rel, path->path.pathtarget, tlist);
	plan.estimated_pairs = rel->tuples;
	scan->flags = path->flags;
	WriteScanPlan(&plan, scan);
	return &scan->scan.plan;
}

void
InstallScanNode(void)
{
	InstallCallNode(&fasted_scan_methods, OfferScan);
	InstallCountPlanner();
}
