/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  When the planner is offered the node, and at what cost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_node.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "scan/distance_statistics.h"
#include "session/guc.h"

static set_join_pathlist_hook_type previous_hook = NULL;

static const CustomPathMethods path_methods = {
	.CustomName = "FastedJoin",
	.PlanCustomPath = PlanJoinNode
};

#define DEFAULT_DIMENSIONS 256.0

/*
 * Floating-point operations (2 n m d) for the price of one operator, as in
 * scan/estimate.c; and what it costs to begin at all: threads, memory.
 */
#define FLOP_PER_OPERATOR 10000.0
#define BEGIN_COST 50.0

/* --- may it be offered? */

/*
 * A join that may have to be evaluated once more for one row that was changed
 * meanwhile, or that locks rows, stays what it was.
 */
static bool
MayBeRechecked(const PlannerInfo *root)
{
	return root->rowMarks != NIL || root->parse->rowMarks != NIL ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT);
}

/* Nulls that the join makes, where PostgreSQL 16 marks columns by them. */
static bool
IsServedType(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI;
}

static bool
IsServedClause(const RestrictInfo *rinfo)
{
	return !rinfo->pseudoconstant && !contain_volatile_functions((Node *) rinfo->clause) &&
		!contain_subplans((Node *) rinfo->clause);
}

/* Is there a distance clause, and can all others be evaluated here? */
static bool
FindDistanceClause(RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel, JoinType type,
				   List *restrictlist, DistanceClause *clause)
{
	ListCell   *cell;
	bool		found = false;

	foreach(cell, restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (!IsServedClause(rinfo))
			return false;
		if (found || (IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids)))
			continue;
		found = MatchDistanceClause(rinfo, outerrel->relids, innerrel->relids, clause);
	}
	return found;
}

/* --- cost */

static double
DimensionsOf(PlannerInfo *root, Expr *vector)
{
	List	   *vars = pull_var_clause((Node *) vector, PVC_RECURSE_PLACEHOLDERS);
	double		dimensions = 0.0;

	if (list_length(vars) == 1)
	{
		Var		   *var = linitial_node(Var, vars);
		RangeTblEntry *rte = planner_rt_fetch(var->varno, root);

		if (rte->rtekind == RTE_RELATION && var->varattno > 0)
			dimensions = KnownDimensions(rte->relid, var->varattno);
	}
	return dimensions > 0 ? dimensions : DEFAULT_DIMENSIONS;
}

static void
CostJoin(PlannerInfo *root, CustomPath *path, Path *outer, Path *inner,
		 const DistanceClause *clause, List *restrictlist)
{
	double		dimensions = DimensionsOf(root, clause->outer);
	double		rows = outer->rows + inner->rows;
	Path	   *own = &path->path;
	QualCost	quals;

	cost_qual_eval(&quals, restrictlist, root);
	own->startup_cost = BEGIN_COST + outer->total_cost + inner->total_cost + quals.startup +
		own->pathtarget->cost.startup +
		rows * (cpu_tuple_cost + dimensions * cpu_operator_cost / 16.0);
	own->total_cost = own->startup_cost +
		2.0 * outer->rows * inner->rows * dimensions * cpu_operator_cost / FLOP_PER_OPERATOR +
		own->rows * (cpu_tuple_cost + quals.per_tuple + own->pathtarget->cost.per_tuple);
}

/* --- path */

static void
AddJoinPath(PlannerInfo *root, RelOptInfo *joinrel, Path *outer, Path *inner,
			const DistanceClause *clause, JoinType type, JoinPathExtraData *extra)
{
	CustomPath *path = makeNode(CustomPath);
	DistanceClause *kept = palloc(sizeof(DistanceClause));
	Path	   *own = &path->path;

	*kept = *clause;
	own->pathtype = T_CustomScan;
	own->parent = joinrel;
	own->pathtarget = joinrel->reltarget;
	own->rows = joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make2(outer, inner);
	path->custom_private = list_make4(kept, makeInteger(type), extra->restrictlist, extra->sjinfo);
#if PG_VERSION_NUM >= 170000
	path->custom_restrictinfo = extra->restrictlist;
#endif
	path->methods = &path_methods;
	CostJoin(root, path, outer, inner, clause, extra->restrictlist);
	add_path(joinrel, own);
}

static void
OfferJoin(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType type, JoinPathExtraData *extra)
{
	Path	   *outer = outerrel->cheapest_total_path;
	Path	   *inner = innerrel->cheapest_total_path;
	DistanceClause clause;

	if (previous_hook != NULL)
		previous_hook(root, joinrel, outerrel, innerrel, type, extra);
	if (!fasted_setting_join_node || !IsServedType(type) || MayBeRechecked(root) ||
		outer == NULL || inner == NULL || outer->param_info != NULL || inner->param_info != NULL ||
		!bms_is_empty(joinrel->lateral_relids) ||
		!FindDistanceClause(joinrel, outerrel, innerrel, type, extra->restrictlist, &clause))
		return;
	AddJoinPath(root, joinrel, outer, inner, &clause, type, extra);
}

void
InstallJoinNode(void)
{
	RegisterCustomScanMethods(&fasted_join_methods);
	previous_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = OfferJoin;
}
