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
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "scan/estimate.h"
#include "scan/scan_node.h"
#include "scan/self_join.h"
#include "session/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static set_rel_pathlist_hook_type previous_hook = NULL;

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

Oid
KeyTypeOfCall(const FuncExpr *call, int first)
{
	return first == 0 ? INT8OID : exprType(linitial(call->args));
}

/*
 * Is this one of our functions, to be called as it is?  (With SECURITY DEFINER
 * or settings of its own, fmgr puts another function before it.)
 */
static bool
IsSelfJoin(Oid funcid, int *first)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	bool		candidate = false;
	FmgrInfo	function;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_proc proc = (Form_pg_proc) GETSTRUCT(tuple);

		candidate = proc->prolang == ClanguageId && proc->proretset &&
			OidIsValid(proc->prosupport);
		ReleaseSysCache(tuple);
	}
	if (!candidate)
		return false;

	fmgr_info(funcid, &function);
	*first = function.fn_addr == fasted_self_join_typed ? 1 : 0;
	return *first == 1 || function.fn_addr == fasted_self_join;
}

/*
 * Whole rows are not ours to make, nor columns that the query takes for another
 * type: the parser takes id_type's from the argument that is written first, even
 * if that was given another name.  The executor reports it of a function's rows.
 */
static bool
IsOurColumn(const Var *var, Oid key_type)
{
	switch (var->varattno)
	{
		case COLUMN_ID_A:
		case COLUMN_ID_B:
			return var->vartype == key_type;
		case COLUMN_DIST:
			return var->vartype == FLOAT8OID;
		default:
			return false;
	}
}

static bool
UsesOnlyColumns(Node *node, Index relid, Oid key_type)
{
	List	   *vars = pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									   PVC_RECURSE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, vars)
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno == relid && !IsOurColumn(var, key_type))
			return false;
	}
	return true;
}

static bool
IsPlainUse(PlannerInfo *root, RelOptInfo *rel, Oid key_type)
{
	ListCell   *cell;

	if (get_plan_rowmark(root->rowMarks, rel->relid) != NULL ||
		!UsesOnlyColumns((Node *) rel->reltarget->exprs, rel->relid, key_type))
		return false;
	foreach(cell, rel->baserestrictinfo)
		if (!UsesOnlyColumns((Node *) lfirst_node(RestrictInfo, cell)->clause, rel->relid, key_type))
			return false;
	foreach(cell, rel->joininfo)
		if (!UsesOnlyColumns((Node *) lfirst_node(RestrictInfo, cell)->clause, rel->relid, key_type))
			return false;
	return true;
}

FuncExpr *
ServedCall(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, int *first)
{
	RangeTblFunction *function;
	FuncExpr   *call;

	if (!fasted_setting_scan_node || rte->rtekind != RTE_FUNCTION ||
		rte->funcordinality || list_length(rte->functions) != 1)
		return NULL;
	function = linitial_node(RangeTblFunction, rte->functions);
	if (!IsA(function->funcexpr, FuncExpr) || function->funccolnames != NIL)
		return NULL;
	call = (FuncExpr *) function->funcexpr;
	if (!IsSelfJoin(call->funcid, first) ||
		list_length(call->args) != SELF_JOIN_NARGS + *first ||
		!IsPlainUse(root, rel, KeyTypeOfCall(call, *first)))
		return NULL;
	return call;
}

/* --- path */

static CustomPath *
MakeScanPath(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first, int workers)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	path->path.rows = path->path.param_info != NULL ?
		path->path.param_info->ppi_rows : rel->rows;
	path->path.parallel_workers = workers;
	path->path.parallel_aware = path->path.parallel_safe = workers > 0;
	CostScan(root, rel, call, first, &path->path);
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make2(call, makeInteger(first));
	path->methods = &path_methods;
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

static void
OfferScan(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	FuncExpr   *call;
	int			first;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_FUNCTION || IS_DUMMY_REL(rel))
		return;
	call = ServedCall(root, rel, rte, &first);
	if (call == NULL)
		return;

	/* Not in competition with the function scan, but instead of it. */
	rel->pathlist = NIL;
	add_path(rel, (Path *) MakeScanPath(root, rel, call, first, 0));
	OfferParallelScan(root, rel, call, first);
}

/* --- plan */

/*
 * Where its parent does not mind, the planner asks a scan for all columns.  We
 * give no more than are used.
 */
static List *
PruneTargetList(List *tlist, const PathTarget *target)
{
	List	   *pruned = NIL;
	ListCell   *cell;

	foreach(cell, tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (IsA(entry->expr, Var) && !list_member(target->exprs, entry->expr))
			continue;
		entry = flatCopyTargetEntry(entry);
		entry->resno = list_length(pruned) + 1;
		pruned = lappend(pruned, entry);
	}
	return pruned;
}

/* Adds the columns of relid that node uses, in the order of their appearance. */
static List *
AddColumns(List *scan_tlist, Node *node, Index relid)
{
	List	   *vars = pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									   PVC_RECURSE_PLACEHOLDERS);
	ListCell   *cell;

	foreach(cell, vars)
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno != relid || tlist_member((Expr *) var, scan_tlist) != NULL)
			continue;
		scan_tlist = lappend(scan_tlist, makeTargetEntry((Expr *) copyObject(var),
														 list_length(scan_tlist) + 1,
														 NULL, false));
	}
	return scan_tlist;
}

static List *
ColumnNumbers(List *scan_tlist)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		columns = lappend_int(columns, castNode(Var, entry->expr)->varattno);
	}
	return columns;
}

/*
 * The scan tuple begins with the target list, so that there is nothing to
 * project if that is all.  The planner may replace our target list later, by
 * one that uses whatever is in the relation's target.
 */
static Plan *
PlanScan(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
		 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *quals = extract_actual_clauses(clauses, false);
	List	   *scan_tlist = NIL;
	ScanPlan	plan = {0};

	plan.call = linitial_node(FuncExpr, path->custom_private);
	plan.first = intVal(lsecond(path->custom_private));
	scan->scan.plan.targetlist = PruneTargetList(tlist, path->path.pathtarget);
	scan->scan.plan.qual = TakeConditions(quals, rel->relid, &plan.conditions);
	scan_tlist = AddColumns(scan_tlist, (Node *) scan->scan.plan.targetlist, rel->relid);
	scan_tlist = AddColumns(scan_tlist, (Node *) rel->reltarget->exprs, rel->relid);
	scan_tlist = AddColumns(scan_tlist, (Node *) scan->scan.plan.qual, rel->relid);

	plan.columns = ColumnNumbers(scan_tlist);
	plan.estimated_pairs = rel->tuples;
	scan->custom_scan_tlist = scan_tlist;
	scan->flags = path->flags;
	WriteScanPlan(&plan, scan);
	return &scan->scan.plan;
}

void
InstallScanPlanner(void)
{
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = OfferScan;
}

void
InstallScanNode(void)
{
	RegisterCustomScanMethods(&fasted_scan_methods);
	InstallScanPlanner();
	InstallCountPlanner();
}
