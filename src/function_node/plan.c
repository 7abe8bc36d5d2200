/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Which calls the node serves, and its paths and plans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "base/guc.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "function_node/function_node.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* A call that the node serves. */
typedef struct ServedCall
{
	FuncExpr   *call;
	int			number;			/* of the function */
	const FunctionDescriptor *function;
	int			first;			/* 1 if id_type comes before the other arguments, else 0 */
} ServedCall;

/* The node of each function.  A name is registered once: the first one's reads plans of all. */
static CustomScanMethods scan_methods[FUNCTIONS];

/* --- which calls */

Oid
KeyTypeOfCall(const FuncExpr *call, int first)
{
	return first == 0 ? INT8OID : exprType(linitial(call->args));
}

/* The call, if it is all that this item of FROM has; else NULL. */
static FuncExpr *
CallInFrom(const RangeTblEntry *rte)
{
	RangeTblFunction *function;

	if (rte->rtekind != RTE_FUNCTION || rte->funcordinality || list_length(rte->functions) != 1)
		return NULL;
	function = linitial_node(RangeTblFunction, rte->functions);
	if (!IsA(function->funcexpr, FuncExpr) || function->funccolnames != NIL)
		return NULL;
	return (FuncExpr *) function->funcexpr;
}

/*
 * What is called, if it may be one of our functions that return sets, called as it
 * is.  (With SECURITY DEFINER or settings of its own, fmgr puts another function
 * before it.)  Else NULL.
 */
static PGFunction
CalledFunction(Oid funcid)
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
		return NULL;
	fmgr_info(funcid, &function);
	return function.fn_addr;
}

static List *
PullVars(Node *node)
{
	return pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
						   PVC_RECURSE_PLACEHOLDERS);
}

/* Is nothing of the call used but columns of these types?  whole: or the row as a whole. */
static bool
UsesOnly(const RelOptInfo *rel, const Oid *types, int ncolumns, bool whole)
{
	List	   *used = list_copy(rel->reltarget->exprs);
	ListCell   *cell;

	foreach(cell, list_concat_copy(rel->baserestrictinfo, rel->joininfo))
		used = lappend(used, lfirst_node(RestrictInfo, cell)->clause);
	foreach(cell, PullVars((Node *) used))
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno != rel->relid || (whole && var->varattno == InvalidAttrNumber))
			continue;
		if (var->varattno < 1 || var->varattno > ncolumns ||
			var->vartype != types[var->varattno - 1])
			return false;
	}
	return true;
}

/* Variables of all columns of the call. */
static List *
ColumnsOfCall(PlannerInfo *root, const RelOptInfo *rel)
{
	List	   *vars;

	expandRTE(planner_rt_fetch(rel->relid, root), rel->relid, 0,
#if PG_VERSION_NUM >= 180000
			  VAR_RETURNING_DEFAULT,
#endif
			  -1, false, NULL, &vars);
	return vars;
}

/*
 * Does the query use nothing of the call but columns of their types?  Whole rows are
 * not ours to make, as locking wants them; nor are columns that the query takes for
 * another type: the parser takes id_type's from the argument that is written first,
 * even if that was given another name.  The executor reports it of a function's rows.
 *
 * Where rows of others are locked or changed, each row of the call may be kept whole beside the
 * other one, to be looked at again.
 */
static bool
UsesPlainColumns(PlannerInfo *root, RelOptInfo *rel, const ServedCall *served)
{
	const FunctionDescriptor *function = served->function;
	const PlanRowMark *mark = get_plan_rowmark(root->rowMarks, rel->relid);
	Oid			types[OUTLET_COLUMNS];

	for (int i = 0; i < function->ncolumns; i++)
		types[i] = OidIsValid(function->columns[i]) ? function->columns[i] :
			KeyTypeOfCall(served->call, served->first);
	if (mark == NULL)
		return UsesOnly(rel, types, function->ncolumns, false);
	return function->whole_rows && mark->markType == ROW_MARK_COPY &&
		UsesOnly(rel, types, function->ncolumns, true);
}

static bool
IsServed(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, ServedCall *served)
{
	served->call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	if (served->call == NULL)
		return false;
	served->number = FindFunction(CalledFunction(served->call->funcid), &served->first);
	if (served->number < 0)
		return false;
	served->function = NumberedFunction(served->number);
	return list_length(served->call->args) == served->function->nargs + served->first &&
		UsesPlainColumns(root, rel, served);
}

/* --- what a plan holds: the call and the bounds in custom_exprs, all else in custom_private */

static void
WriteFunctionPlan(const FunctionPlan *plan, int number, CustomScan *scan)
{
	/* Written to a worker and read back, a number without a point is an Integer. */
	char	   *rows = psprintf("%.1f", plan->estimated_rows);

	scan->custom_exprs = lcons(plan->call, list_copy(plan->conditions.dist_bounds));
	scan->custom_private = list_make5(list_make3_int(number, plan->first, plan->count),
									  plan->columns,
									  plan->conditions.dist_operators,
									  plan->conditions.id_operators,
									  makeFloat(rows));
	scan->methods = &scan_methods[number];
}

FunctionPlan
ReadFunctionPlan(const CustomScan *scan)
{
	FunctionPlan plan;
	List	   *numbers = linitial(scan->custom_private);

	plan.call = linitial_node(FuncExpr, scan->custom_exprs);
	plan.function = NumberedFunction(linitial_int(numbers));
	plan.first = lsecond_int(numbers);
	plan.count = lthird_int(numbers);
	plan.columns = lsecond(scan->custom_private);
	plan.conditions.dist_bounds = list_copy_tail(scan->custom_exprs, 1);
	plan.conditions.dist_operators = lthird(scan->custom_private);
	plan.conditions.id_operators = lfourth(scan->custom_private);
	plan.estimated_rows = floatVal(list_nth(scan->custom_private, 4));
	return plan;
}

/* --- which columns */

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

/* The columns of relid that these use, in the order of their appearance, as a target list. */
static List *
UsedColumns(List *expressions, Index relid)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, PullVars((Node *) expressions))
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno == relid && tlist_member((Expr *) var, columns) == NULL)
			columns = lappend(columns, makeTargetEntry((Expr *) copyObject(var),
													   list_length(columns) + 1, NULL, false));
	}
	return columns;
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
 * Sets the node's target list and the columns of its scan tuple, those that are used
 * by it, by the relation's target and by the conditions in plan.qual, which are there.
 *
 * The scan tuple begins with the target list, so that there is nothing to
 * project if that is all.  The planner may replace our target list later, by
 * one that uses whatever is in the relation's target.
 */
static void
PlanColumns(CustomScan *scan, RelOptInfo *rel, const PathTarget *target, List *tlist)
{
	Plan	   *plan = &scan->scan.plan;

	plan->targetlist = PruneTargetList(tlist, target);
	scan->custom_scan_tlist = UsedColumns(list_make3(plan->targetlist, rel->reltarget->exprs,
													 plan->qual), rel->relid);
}

/* A column's name as the query has it; the whole row has none. */
static char *
NameOfColumn(const RangeTblEntry *rte, const Var *var)
{
	return var->varattno > 0 ? strVal(list_nth(rte->eref->colnames, var->varattno - 1)) : NULL;
}

/*
 * If whole rows are wanted, the scan tuple is all columns, and the row.  The order of columns
 * is that in which a row is taken apart; their names become the row's.
 */
static void
PlanWholeRow(PlannerInfo *root, CustomScan *scan, const RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	List	   *vars = ColumnsOfCall(root, rel);
	List	   *tlist = NIL;
	ListCell   *cell;

	vars = lappend(vars, makeWholeRowVar(rte, rel->relid, 0, false));
	foreach(cell, vars)
		tlist = lappend(tlist, makeTargetEntry(lfirst(cell), list_length(tlist) + 1,
											   NameOfColumn(rte, lfirst_node(Var, cell)), false));
	scan->custom_scan_tlist = tlist;
}

/* Are the conditions of the relation all such that the node itself checks them? */
static bool
AllConditionsTaken(const RelOptInfo *rel, const FunctionDescriptor *function,
				   PairConditions *conditions)
{
	ListCell   *cell;

	if (!function->takes_conditions)
		return rel->baserestrictinfo == NIL;
	foreach(cell, rel->baserestrictinfo)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return false;
	return TakeConditions(extract_actual_clauses(rel->baserestrictinfo, false), rel->relid,
						  conditions) == NIL;
}

/*
 * A path's custom_private is the call and its numbers; then, of count(*), the aggregate and the
 * relation.
 */
static Plan *
PlanFunction(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
			 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *quals = extract_actual_clauses(clauses, false);
	int			number = linitial_int(lsecond(path->custom_private));
	FunctionPlan plan = {
		.call = linitial_node(FuncExpr, path->custom_private),
		.function = NumberedFunction(number),
		.first = lsecond_int(lsecond(path->custom_private)),
		.count = list_length(path->custom_private) > 2
	};

	if (plan.count)
	{
		Aggref	   *count = copyObject(lthird_node(Aggref, path->custom_private));

		rel = lfourth(path->custom_private);
		(void) AllConditionsTaken(rel, plan.function, &plan.conditions);
		scan->scan.plan.targetlist = tlist;
		scan->custom_scan_tlist = list_make1(makeTargetEntry((Expr *) count, 1, NULL, false));
		scan->custom_relids = rel->relids;
	}
	else
	{
		scan->scan.plan.qual = plan.function->takes_conditions ?
			TakeConditions(quals, rel->relid, &plan.conditions) : quals;
		PlanColumns(scan, rel, path->path.pathtarget, tlist);
		if (get_plan_rowmark(root->rowMarks, rel->relid) != NULL)
			PlanWholeRow(root, scan, rel);
		plan.columns = ColumnNumbers(scan->custom_scan_tlist);
	}
	plan.estimated_rows = rel->tuples;
	scan->flags = path->flags;
	WriteFunctionPlan(&plan, number, scan);
	return &scan->scan.plan;
}

/* --- paths */

static const CustomPathMethods path_methods = {
	.CustomName = "FastedFunction",
	.PlanCustomPath = PlanFunction
};

/*
 * Can workers do what stands above the scan?  The call itself is the leader's,
 * who must take part, and no other process may have to wait for it: partial
 * paths of a subquery go no further than its aggregate, not into an append.  And
 * while the leader waits for further pairs it hands on no row that a worker has,
 * so where the first rows are enough there are no workers.
 */
static bool
MayBeParallel(PlannerInfo *root, RelOptInfo *rel, const ServedCall *served)
{
	const Query *query = root->parse;
	bool		reads_all = query->hasAggs || query->groupClause != NIL ||
		query->distinctClause != NIL;

	if (!served->function->parallel || !root->glob->parallelModeOK ||
		!parallel_leader_participation ||
		rel->reloptkind != RELOPT_BASEREL || !bms_is_empty(rel->lateral_relids) ||
		!FLOAT8PASSBYVAL || !get_typbyval(KeyTypeOfCall(served->call, served->first)))
		return false;
	if (!reads_all && (root->query_level > 1 || query->limitCount != NULL))
		return false;
	return is_parallel_safe(root, (Node *) served->call->args) &&
		is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&
		is_parallel_safe(root, (Node *) rel->reltarget->exprs);
}

/* As many workers as would read a table of these rows; zero: there are none. */
static int
WorkersOfCall(PlannerInfo *root, RelOptInfo *rel, const ServedCall *served)
{
	double		width = MAXALIGN(SizeofHeapTupleHeader) +
		served->function->ncolumns * sizeof(Datum) + sizeof(ItemIdData);
	int			workers = 0;

	if (MayBeParallel(root, rel, served))
		workers = compute_parallel_worker(rel, ceil(rel->tuples * width / BLCKSZ), -1,
										  max_parallel_workers_per_gather);
	if (workers > 0)
		rel->consider_parallel = true;
	return workers;
}

/*
 * Of the rows of all processes each takes its share: the leader where it has time to, as core
 * has it.
 */
static void
CostPath(PlannerInfo *root, RelOptInfo *rel, const ServedCall *served, Path *path)
{
	FunctionEstimate estimate = served->function->estimate(root, list_copy_tail(served->call->args,
																				 served->first));
	double		leader = 1.0 - 0.3 * path->parallel_workers;
	double		share = 1.0 / (path->parallel_workers + Max(leader, 0.0));
	QualCost	quals;

	cost_qual_eval(&quals, rel->baserestrictinfo, root);
	path->rows = clamp_row_est(path->rows * share);
	path->startup_cost = estimate.startup + quals.startup + path->pathtarget->cost.startup;
	path->total_cost = path->startup_cost + estimate.total - estimate.startup +
		rel->tuples * (estimate.per_row + quals.per_tuple * share) +
		path->rows * path->pathtarget->cost.per_tuple;
}

static CustomPath *
NewPath(RelOptInfo *parent, PathTarget *target, double rows, const ServedCall *served)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = parent;
	path->path.pathtarget = target;
	path->path.rows = rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_private = list_make2(served->call, list_make2_int(served->number, served->first));
	return path;
}

/* A path that gives the rows of the call; workers: of a partial path, else 0. */
static Path *
MakePath(PlannerInfo *root, RelOptInfo *rel, const ServedCall *served, int workers)
{
	ParamPathInfo *param = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	CustomPath *path = NewPath(rel, rel->reltarget, param != NULL ? param->ppi_rows : rel->rows,
							   served);

	path->path.param_info = param;
	path->path.parallel_workers = workers;
	path->path.parallel_aware = path->path.parallel_safe = workers > 0;
	CostPath(root, rel, served, &path->path);
	return &path->path;
}

static set_rel_pathlist_hook_type previous_pathlist_hook = NULL;

/* The node's path comes not in competition with the function scan, but instead of it. */
static void
OfferPaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	ServedCall	served;
	int			workers;

	if (previous_pathlist_hook != NULL)
		previous_pathlist_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_FUNCTION || IS_DUMMY_REL(rel) || !IsServed(root, rel, rte, &served))
		return;
	workers = WorkersOfCall(root, rel, &served);
	if (workers > 0)
		add_partial_path(rel, MakePath(root, rel, &served, workers));
	rel->pathlist = NIL;
	add_path(rel, MakePath(root, rel, &served, 0));
}

/* --- SELECT count(*) without a row being formed */

static bool
IsPlainAggregate(const Query *query)
{
	return query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		query->havingQual == NULL && !query->hasTargetSRFs;
}

Aggref *
OnlyCount(PlannerInfo *root)
{
	AggInfo    *info;
	Aggref	   *count;

	if (!IsPlainAggregate(root->parse) || list_length(root->agginfos) != 1)
		return NULL;
	info = linitial(root->agginfos);
#if PG_VERSION_NUM >= 160000
	count = linitial_node(Aggref, info->aggrefs);
#else
	count = info->representative_aggref;
#endif
	if (count->aggfnoid != F_COUNT_ || count->aggfilter != NULL)
		return NULL;
	return count;
}

static create_upper_paths_hook_type previous_upper_hook = NULL;

/*
 * When that is all there is (no other aggregate, no grouping, no condition that
 * only the executor can check), the node takes the place of the aggregate too,
 * and adds up what the engine says.  It is far cheaper than to form the rows: there is no other
 * path.
 */
static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	Aggref	   *count;
	ServedCall	served;
	PairConditions conditions;
	CustomPath *path;

	if (previous_upper_hook != NULL)
		previous_upper_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_BASEREL ||
		IS_DUMMY_REL(input) || !bms_is_empty(input->lateral_relids))
		return;
	count = OnlyCount(root);
	if (count == NULL || !IsServed(root, input, planner_rt_fetch(input->relid, root), &served) ||
		served.function->count == NULL ||
		!AllConditionsTaken(input, served.function, &conditions))
		return;

	path = NewPath(output, root->upper_targets[UPPERREL_GROUP_AGG], 1, &served);
	CostPath(root, input, &served, &path->path);
	path->path.startup_cost = path->path.total_cost;
	path->custom_private = lappend(lappend(path->custom_private, count), input);
	output->pathlist = NIL;
	output->partial_pathlist = NIL;
	add_path(output, &path->path);
}

void
InstallFunctionNode(void)
{
	for (int i = 0; i < FUNCTIONS; i++)
	{
		scan_methods[i].CustomName = NumberedFunction(i)->node_name;
		scan_methods[i].CreateCustomScanState = CreateFunctionNode;
		if (GetCustomScanMethods(scan_methods[i].CustomName, true) == NULL)
			RegisterCustomScanMethods(&scan_methods[i]);
	}
	previous_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = OfferPaths;
	previous_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
}
