/*-------------------------------------------------------------------------
 *
 * plan.c
 *	  Decides which calls the node can run, and creates its paths and plans.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/stratnum.h"
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
#include "parser/parsetree.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

/*
 * Methods by function number.  Functions may share a node name, which is registered only once:
 * plans of all of them are then read with the methods of the first.
 */
static CustomScanMethods scan_methods[FUNCTIONS];

/* --- calls that the node can run */

/* Returns the call if the range table entry is one plain function call; otherwise NULL. */
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
 * Returns the address of a C function that returns a set and has a support function, as all
 * functions of fasted in FROM do; otherwise NULL.  For a function with SECURITY DEFINER or a
 * SET clause, fmgr returns the address of its security wrapper instead.
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

/*
 * Raises the error for ids that the parser took for values of another type than that of id_type
 * (FindIdType): their argument is not at its place in the call as written.
 */
pg_noreturn static void
ReportIdType(const FunctionPlan *served, Oid type)
{
	int			place = FindIdType(served->call->funcid);

	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("id_type must be argument %d of %s as written, also by name", place + 1,
					served->function->name),
			 errdetail("PostgreSQL takes the type of the ids from the argument that is written at this position, which is of type %s.",
					   format_type_be(type)),
			 errhint("Write id_type directly after %s.", served->function->arguments[place - 1].name)));
}

/*
 * Returns true if the node can produce what the query uses of the call: only plain columns, and no rows
 * to be locked or rechecked by EvalPlanQual.  Error: the parser took the ids for values of another type.
 */
static bool
UsesPlainColumns(PlannerInfo *root, const RelOptInfo *rel, const FunctionPlan *served)
{
	List	   *used = list_copy(rel->reltarget->exprs);
	ListCell   *cell;

	if (get_plan_rowmark(root->rowMarks, rel->relid) != NULL)
		return false;
	foreach(cell, list_concat_copy(rel->baserestrictinfo, rel->joininfo))
		used = lappend(used, lfirst_node(RestrictInfo, cell)->clause);
	foreach(cell, PullVars((Node *) used))
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno != rel->relid)
			continue;
		if (var->varattno < 1 || var->varattno > served->function->ncolumns)
			return false;
		if (!OidIsValid(served->function->columns[var->varattno - 1]) &&
			var->vartype != served->key_type)
			ReportIdType(served, var->vartype);
	}
	return true;
}

/* Returns true, and sets the call's fields, if the range table entry is a call that the node can run. */
static bool
IsServed(PlannerInfo *root, RelOptInfo *rel, const RangeTblEntry *rte, FunctionPlan *served)
{
	served->call = fasted_setting_scan_node ? CallInFrom(rte) : NULL;
	if (served->call == NULL)
		return false;
	served->number = FindFunction(CalledFunction(served->call->funcid));
	if (served->number < 0)
		return false;
	served->function = NumberedFunction(served->number);
	served->args = CallArguments(served->call, &served->key_type);
	return list_length(served->args) == served->function->nargs &&
		UsesPlainColumns(root, rel, served);
}

/* --- a plan's fields: the call and the bounds in custom_exprs, the rest in custom_private */

static void
WriteFunctionPlan(const FunctionPlan *plan, CustomScan *scan)
{
	/* nodeRead in a worker would read a Float without a decimal point as an Integer */
	char	   *rows = psprintf("%.1f", plan->estimated_rows);

	scan->custom_exprs = lcons(plan->call, list_copy(plan->bounds));
	scan->custom_private = list_make3(list_make3_int(plan->number, plan->count, plan->ids), plan->strategies,
									  makeFloat(rows));
	scan->methods = &scan_methods[plan->number];
}

FunctionPlan
ReadFunctionPlan(const CustomScan *scan)
{
	FunctionPlan plan;
	List	   *numbers = linitial(scan->custom_private);

	plan.call = linitial_node(FuncExpr, scan->custom_exprs);
	plan.args = CallArguments(plan.call, &plan.key_type);
	plan.number = linitial_int(numbers);
	plan.function = NumberedFunction(plan.number);
	plan.count = lsecond_int(numbers);
	plan.ids = lthird_int(numbers);
	plan.bounds = list_copy_tail(scan->custom_exprs, 1);
	plan.strategies = lsecond(scan->custom_private);
	plan.estimated_rows = floatVal(lthird(scan->custom_private));
	return plan;
}

/*
 * Sets the scan tuple to the columns that are used: first those of the target list, so that many plans
 * need no projection, then others of the relation's target, of which the planner may later compute any,
 * and of conditions.  Returns whether ids are among them.
 */
static bool
PlanColumns(CustomScan *scan, RelOptInfo *rel, const FunctionDescriptor *function)
{
	bool		ids = false;
	ListCell   *cell;

	foreach(cell, PullVars((Node *) list_make3(scan->scan.plan.targetlist, rel->reltarget->exprs,
											   scan->scan.plan.qual)))
	{
		Var		   *var = lfirst_node(Var, cell);
		List	  **columns = &scan->custom_scan_tlist;

		if ((Index) var->varno != rel->relid || tlist_member((Expr *) var, *columns) != NULL)
			continue;
		*columns = lappend(*columns, makeTargetEntry(copyObject((Expr *) var), list_length(*columns) + 1,
													 NULL, false));
		ids |= !OidIsValid(function->columns[var->varattno - 1]);
	}
	return ids;
}

/* --- conditions that compare dist with a value that does not depend on the row */

static bool
IsDistance(const Node *node, Index relid)
{
	const Var  *var = (const Var *) node;

	return IsA(node, Var) && (Index) var->varno == relid && var->varattno == COLUMN_DIST &&
		var->varlevelsup == 0;
}

/*
 * If the clause compares dist with an expression of type float8 that has the same value for all rows,
 * sets *bound to that expression, and returns the btree strategy of the comparison.  Otherwise returns
 * InvalidStrategy.
 */
static int
BoundOf(const Node *clause, Index relid, Node **bound)
{
	const OpExpr *comparison = (const OpExpr *) clause;
	bool		commuted;
	Oid			operator;
	Oid			left;
	Oid			right;

	if (!IsA(clause, OpExpr) || list_length(comparison->args) != 2)
		return InvalidStrategy;
	commuted = !IsDistance(linitial(comparison->args), relid);
	operator = commuted ? get_commutator(comparison->opno) : comparison->opno;
	*bound = commuted ? linitial(comparison->args) : lsecond(comparison->args);
	if (!OidIsValid(operator) || (commuted && !IsDistance(lsecond(comparison->args), relid)) ||
		contain_var_clause(*bound) || contain_volatile_functions(*bound))
		return InvalidStrategy;
	op_input_types(operator, &left, &right);
	return left != FLOAT8OID || right != FLOAT8OID ? InvalidStrategy :
		get_op_opfamily_strategy(operator, lookup_type_cache(FLOAT8OID, TYPECACHE_BTREE_OPFAMILY)->btree_opf);
}

/*
 * Sets *bounds to the upper bounds of dist in the clauses, expressions of type float8, and *strategies to
 * the btree strategies of their operators.  Returns the clauses that the executor must evaluate.
 */
static List *
TakeBounds(List *clauses, Index relid, List **strategies, List **bounds)
{
	List	   *left = NIL;
	ListCell   *cell;

	*strategies = *bounds = NIL;
	foreach(cell, clauses)
	{
		Node	   *bound;
		int			strategy = BoundOf(lfirst(cell), relid, &bound);

		if (strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber ||
			strategy == BTEqualStrategyNumber)
		{
			*strategies = lappend_int(*strategies, strategy);
			*bounds = lappend(*bounds, bound);
		}
		if (strategy != BTLessStrategyNumber && strategy != BTLessEqualStrategyNumber)
			left = lappend(left, lfirst(cell));
	}
	return left;
}

/* Sets *strategies and *bounds of the relation's conditions; returns true if there are no others. */
static bool
AllAreBounds(const RelOptInfo *rel, const FunctionDescriptor *function, List **strategies, List **bounds)
{
	ListCell   *cell;

	if (!function->takes_bounds)
		return rel->baserestrictinfo == NIL;
	foreach(cell, rel->baserestrictinfo)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return false;
	return TakeBounds(extract_actual_clauses(rel->baserestrictinfo, false), rel->relid,
					  strategies, bounds) == NIL;
}

/*
 * PlanCustomPath.  A path's custom_private is the call and the function's number.  For count(*) the
 * Aggref and the call's RelOptInfo follow.
 */
static Plan *
PlanFunction(PlannerInfo *root, RelOptInfo *rel, CustomPath *path,
			 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *quals = extract_actual_clauses(clauses, false);
	int			number = intVal(lsecond(path->custom_private));
	FunctionPlan plan = {
		.call = linitial_node(FuncExpr, path->custom_private),
		.number = number,.function = NumberedFunction(number),
		.count = list_length(path->custom_private) > 2,.ids = true
	};

	if (plan.count)
	{
		Aggref	   *count = copyObject(lthird_node(Aggref, path->custom_private));

		rel = lfourth(path->custom_private);
		(void) AllAreBounds(rel, plan.function, &plan.strategies, &plan.bounds);
		scan->scan.plan.targetlist = tlist;
		scan->custom_scan_tlist = list_make1(makeTargetEntry((Expr *) count, 1, NULL, false));
		scan->custom_relids = rel->relids;
	}
	else
	{
		scan->scan.plan.qual = plan.function->takes_bounds ?
			TakeBounds(quals, rel->relid, &plan.strategies, &plan.bounds) : quals;
		scan->scan.plan.targetlist = tlist;
		plan.ids = PlanColumns(scan, rel, plan.function);
	}
	plan.estimated_rows = rel->tuples;
	scan->flags = path->flags;
	WriteFunctionPlan(&plan, scan);
	return &scan->scan.plan;
}

/* --- paths */

static const CustomPathMethods path_methods = {
	.CustomName = "FastedFunction",
	.PlanCustomPath = PlanFunction
};

/*
 * Returns true if workers may execute the nodes above the scan.  The leader runs the call itself,
 * so it must participate, and no process may have to wait for it.  Hence partial paths of a
 * subquery must end at its aggregate and must not reach an Append.  While the leader waits for
 * pairs it does not forward rows of workers, so LIMIT without aggregation gets no workers.
 */
static bool
MayBeParallel(PlannerInfo *root, RelOptInfo *rel, const FunctionPlan *served)
{
	const Query *query = root->parse;
	bool		reads_all = query->hasAggs || query->groupClause != NIL ||
		query->distinctClause != NIL;

	if (!served->function->parallel || !root->glob->parallelModeOK ||
		!parallel_leader_participation ||
		rel->reloptkind != RELOPT_BASEREL || !bms_is_empty(rel->lateral_relids) ||
		!FLOAT8PASSBYVAL || !get_typbyval(served->key_type))
		return false;
	if (!reads_all && (root->query_level > 1 || query->limitCount != NULL))
		return false;
	return is_parallel_safe(root, (Node *) served->call->args) &&
		is_parallel_safe(root, (Node *) rel->baserestrictinfo) &&
		is_parallel_safe(root, (Node *) rel->reltarget->exprs);
}

/*
 * Returns the number of workers of a partial path, or zero: as many as would scan a table with the
 * rows of the call.  Sets consider_parallel if there are any.
 */
static int
WorkersOfCall(PlannerInfo *root, RelOptInfo *rel, const FunctionPlan *served)
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
 * Sets the path's rows and costs.  The rows of a partial path are those of one process: they are
 * divided as in get_parallel_divisor, where the leader counts less the more workers there are.
 */
static void
CostPath(PlannerInfo *root, RelOptInfo *rel, const FunctionPlan *served, Path *path)
{
	FunctionEstimate estimate = EstimateCall(root, served->function, served->args);
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

/* Creates a path without costs. */
static CustomPath *
NewPath(RelOptInfo *parent, PathTarget *target, double rows, const FunctionPlan *served)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = parent;
	path->path.pathtarget = target;
	path->path.rows = rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;
	path->custom_private = list_make2(served->call, makeInteger(served->number));
	return path;
}

/* Creates a path that returns the call's rows; workers is 0 unless the path is partial. */
static Path *
MakePath(PlannerInfo *root, RelOptInfo *rel, const FunctionPlan *served, int workers)
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

/* set_rel_pathlist_hook.  Replaces the paths of a function scan by paths of the node. */
static void
ReplacePaths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	FunctionPlan	served;
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

/* --- SELECT count(*) without forming rows */

/* Returns true for a query with aggregates but without GROUP BY, HAVING and set functions. */
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
 * create_upper_paths_hook.  If count(*) is the only output, and all conditions are bounds,
 * the node also replaces the Aggregate and returns the engine's count.  This is far
 * cheaper than forming rows, so all other paths are removed.
 */
static void
ReplaceCountPath(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	Aggref	   *count;
	FunctionPlan	served;
	List	   *strategies;
	List	   *bounds;
	CustomPath *path;

	if (previous_upper_hook != NULL)
		previous_upper_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_BASEREL ||
		IS_DUMMY_REL(input) || !bms_is_empty(input->lateral_relids))
		return;
	count = OnlyCount(root);
	if (count == NULL || !IsServed(root, input, planner_rt_fetch(input->relid, root), &served) ||
		served.function->count == NULL ||
		!AllAreBounds(input, served.function, &strategies, &bounds))
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
	set_rel_pathlist_hook = ReplacePaths;
	previous_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = ReplaceCountPath;
}
