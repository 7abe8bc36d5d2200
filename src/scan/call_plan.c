/*-------------------------------------------------------------------------
 *
 * call_plan.c
 *	  Looks at the call, and at the columns of it that are used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/prep.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "scan/call_plan.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* --- which calls */

Oid
KeyTypeOfCall(const FuncExpr *call, int first)
{
	return first == 0 ? INT8OID : exprType(linitial(call->args));
}

FuncExpr *
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

PGFunction
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

/* whole: the row as a whole is one of them. */
static bool
UsesOnly(Node *node, Index relid, const Oid *types, int ncolumns, bool whole)
{
	ListCell   *cell;

	foreach(cell, PullVars(node))
	{
		Var		   *var = lfirst_node(Var, cell);

		if ((Index) var->varno != relid)
			continue;
		if (whole && var->varattno == InvalidAttrNumber)
			continue;
		if (var->varattno < 1 || var->varattno > ncolumns ||
			var->vartype != types[var->varattno - 1])
			return false;
	}
	return true;
}

static bool
ClausesUseOnly(List *clauses, Index relid, const Oid *types, int ncolumns, bool whole)
{
	ListCell   *cell;

	foreach(cell, clauses)
		if (!UsesOnly((Node *) lfirst_node(RestrictInfo, cell)->clause, relid, types, ncolumns,
					  whole))
			return false;
	return true;
}

static bool
RelationUsesOnly(RelOptInfo *rel, const Oid *types, int ncolumns, bool whole)
{
	return UsesOnly((Node *) rel->reltarget->exprs, rel->relid, types, ncolumns, whole) &&
		ClausesUseOnly(rel->baserestrictinfo, rel->relid, types, ncolumns, whole) &&
		ClausesUseOnly(rel->joininfo, rel->relid, types, ncolumns, whole);
}

bool
UsesPlainColumns(PlannerInfo *root, RelOptInfo *rel, const Oid *types, int ncolumns)
{
	return get_plan_rowmark(root->rowMarks, rel->relid) == NULL &&
		RelationUsesOnly(rel, types, ncolumns, false);
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

/* Does the query take all columns for what they are? */
static bool
HasTypes(List *vars, const Oid *types, int ncolumns)
{
	ListCell   *cell;

	foreach(cell, vars)
		if (((Var *) lfirst(cell))->vartype != types[foreach_current_index(cell)])
			return false;
	return list_length(vars) == ncolumns;
}

bool
UsesPlainColumnsOrRow(PlannerInfo *root, RelOptInfo *rel, const Oid *types, int ncolumns)
{
	const PlanRowMark *mark = get_plan_rowmark(root->rowMarks, rel->relid);

	if (mark == NULL)
		return UsesPlainColumns(root, rel, types, ncolumns);
	return mark->markType == ROW_MARK_COPY &&
		HasTypes(ColumnsOfCall(root, rel), types, ncolumns) &&
		RelationUsesOnly(rel, types, ncolumns, true);
}

/* --- path */

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
int
WorkersOfCall(PlannerInfo *root, RelOptInfo *rel, FuncExpr *call, int first, int ncolumns)
{
	double		width = MAXALIGN(SizeofHeapTupleHeader) + ncolumns * sizeof(Datum) +
		sizeof(ItemIdData);
	int			workers = 0;

	if (MayBeParallel(root, rel, call, first))
		workers = compute_parallel_worker(rel, ceil(rel->tuples * width / BLCKSZ), -1,
										  max_parallel_workers_per_gather);
	if (workers > 0)
		rel->consider_parallel = true;
	return workers;
}

CustomPath *
MakeCallPath(RelOptInfo *rel, PlannerInfo *root, const CustomPathMethods *methods, int workers)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.param_info = get_baserel_parampathinfo(root, rel, rel->lateral_relids);
	path->path.rows = path->path.param_info != NULL ?
		path->path.param_info->ppi_rows : rel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = methods;
	path->path.parallel_workers = workers;
	path->path.parallel_aware = path->path.parallel_safe = workers > 0;
	return path;
}

double
ShareOfCall(const Path *path)
{
	double		leader = 1.0 - 0.3 * path->parallel_workers;

	return 1.0 / (path->parallel_workers + Max(leader, 0.0));
}

void
CostCallPath(PlannerInfo *root, RelOptInfo *rel, Path *path, Cost startup, Cost total)
{
	double		share = ShareOfCall(path);
	QualCost	quals;

	cost_qual_eval(&quals, rel->baserestrictinfo, root);
	path->rows = clamp_row_est(path->rows * share);
	path->startup_cost = startup + quals.startup + path->pathtarget->cost.startup;
	path->total_cost = path->startup_cost + total - startup +
		rel->tuples * (cpu_tuple_cost + quals.per_tuple * share) +
		path->rows * path->pathtarget->cost.per_tuple;
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

/* Adds the columns of relid that node uses, in the order of their appearance. */
static List *
AddColumns(List *scan_tlist, Node *node, Index relid)
{
	ListCell   *cell;

	foreach(cell, PullVars(node))
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
List *
PlanCallColumns(CustomScan *scan, RelOptInfo *rel, const PathTarget *target, List *tlist)
{
	Plan	   *plan = &scan->scan.plan;
	List	   *columns = NIL;

	plan->targetlist = PruneTargetList(tlist, target);
	columns = AddColumns(columns, (Node *) plan->targetlist, rel->relid);
	columns = AddColumns(columns, (Node *) rel->reltarget->exprs, rel->relid);
	columns = AddColumns(columns, (Node *) plan->qual, rel->relid);
	scan->custom_scan_tlist = columns;
	return ColumnNumbers(columns);
}

Plan *
PlanCall(const CustomScanMethods *methods, RelOptInfo *rel, const CustomPath *path,
		 List *tlist, List *clauses)
{
	CustomScan *scan = makeNode(CustomScan);
	List	   *columns;

	scan->scan.plan.qual = extract_actual_clauses(clauses, false);
	columns = PlanCallColumns(scan, rel, path->path.pathtarget, tlist);
	scan->custom_exprs = list_make1(linitial(path->custom_private));
	scan->custom_private = list_make2(lsecond(path->custom_private), columns);
	scan->flags = path->flags;
	scan->methods = methods;
	return &scan->scan.plan;
}

/* A column's name as the query has it; the whole row has none. */
static char *
NameOfColumn(const RangeTblEntry *rte, const Var *var)
{
	return var->varattno > 0 ? strVal(list_nth(rte->eref->colnames, var->varattno - 1)) : NULL;
}

/* The order of columns is that in which a row is taken apart; their names become the row's. */
void
PlanCallRow(PlannerInfo *root, CustomScan *scan, const RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	List	   *vars;
	List	   *tlist = NIL;
	ListCell   *cell;

	if (get_plan_rowmark(root->rowMarks, rel->relid) == NULL)
		return;
	vars = ColumnsOfCall(root, rel);
	vars = lappend(vars, makeWholeRowVar(rte, rel->relid, 0, false));
	foreach(cell, vars)
		tlist = lappend(tlist, makeTargetEntry(lfirst(cell), list_length(tlist) + 1,
											   NameOfColumn(rte, lfirst_node(Var, cell)), false));
	scan->custom_scan_tlist = tlist;
	lsecond(scan->custom_private) = ColumnNumbers(tlist);
}

/* --- which nodes there are */

#define MOST_NODES 3

static OfferCallPath offers[MOST_NODES];
static int	noffers = 0;
static set_rel_pathlist_hook_type previous_hook = NULL;

static void
OfferCalls(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	CustomPath *path = NULL;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_FUNCTION || IS_DUMMY_REL(rel))
		return;
	for (int i = 0; i < noffers && path == NULL; i++)
		path = offers[i] (root, rel, rte);
	if (path == NULL)
		return;
	rel->pathlist = NIL;
	add_path(rel, (Path *) path);
}

void
InstallCallNode(const CustomScanMethods *methods, OfferCallPath offer)
{
	Assert(noffers < MOST_NODES);
	RegisterCustomScanMethods(methods);
	if (noffers == 0)
	{
		previous_hook = set_rel_pathlist_hook;
		set_rel_pathlist_hook = OfferCalls;
	}
	offers[noffers++] = offer;
}
