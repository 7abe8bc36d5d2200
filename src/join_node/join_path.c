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
#if PG_VERSION_NUM < 170000
#include "optimizer/geqo.h"
#endif
#include "base/guc.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "rows/statistics.h"
#include "scan/estimate.h"

static set_join_pathlist_hook_type previous_hook = NULL;
#if PG_VERSION_NUM < 170000
static join_search_hook_type previous_search = NULL;
#endif

static const CustomPathMethods path_methods = {
	.CustomName = "FastedJoin",
	.PlanCustomPath = PlanJoinNode
};

/* What it costs to begin at all: threads, memory. */
#define BEGIN_COST 50.0

/* --- may it be offered? */

/*
 * May the join be evaluated once more, for one row that was changed meanwhile
 * (EvalPlanQual)?  Then the scans return that row, whatever the snapshot sees; and two
 * sides of one table need not have the same.
 */
static bool
MayBeRechecked(const PlannerInfo *root)
{
	return root->rowMarks != NIL || root->parse->rowMarks != NIL ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT);
}

static bool
IsServedType(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI;
}

static bool
IsServedClause(const RestrictInfo *rinfo)
{
	return !contain_volatile_functions((Node *) rinfo->clause) &&
		!contain_subplans((Node *) rinfo->clause);
}

/*
 * Puts pseudoconstant clauses into a list of their own.  They are never conditions of an outer
 * join, but filters of its rows, and have one value while the join runs: the node evaluates
 * them before it reads a row.
 */
static void
TakeOneTimeClauses(JoinPathData *data)
{
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			data->one_time = lappend(data->one_time, lfirst(cell));
		else
			others = lappend(others, lfirst(cell));
	}
	data->restrictlist = others;
}

/* Is there a distance clause?  Cheap where there is none, as in nearly all joins. */
static bool
FindDistanceClause(const JoinPathData *data, RelOptInfo *joinrel, DistanceClause *clause)
{
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (IS_OUTER_JOIN(data->type) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids))
			continue;
		if (MatchDistanceClause(rinfo, data->outer->relids, data->inner->relids, clause))
			return true;
	}
	return false;
}

static bool
AreServedClauses(const List *restrictlist)
{
	ListCell   *cell;

	foreach(cell, restrictlist)
		if (!IsServedClause(lfirst_node(RestrictInfo, cell)))
			return false;
	return true;
}

/* The equalities by which rows are grouped; shared rows have one key each. */
static List *
FindGroupKeys(const JoinPathData *data, RelOptInfo *joinrel)
{
	List	   *keys = NIL;
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);
		GroupKey   *key = NULL;

		if (!IS_OUTER_JOIN(data->type) || !RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids))
			key = AsGroupKey(rinfo, data->outer->relids, data->inner->relids);
		if (key != NULL && (!data->shared ||
							equal(key->outer, AsOuter((Node *) key->inner, data->outer, data->inner))))
			keys = lappend(keys, key);
	}
	return keys;
}

/*
 * A clause that puts shared rows in order.  It is the first to be evaluated, so it
 * must not be one that waits for others because it may tell of what they hide.
 */
static void
FindOrder(PlannerInfo *root, JoinPathData *data, RelOptInfo *joinrel)
{
	RowOrder	order;
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (IS_OUTER_JOIN(data->type) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids))
			continue;
		if ((rinfo->security_level == 0 || rinfo->leakproof) && RecognizeRowOrder(root, rinfo, &order))
			data->order = order;
	}
}

/*
 * Only by a single pass over their vectors are these left in their tables: groups
 * come in an order that is not the table's, and whether a vector may be evaluated
 * depends on the other rows.
 */
static void
FindVectorsToLeave(PlannerInfo *root, JoinPathData *data, RelOptInfo *joinrel)
{
	RelOptInfo *sides[2] = {data->outer, data->inner};

	if (data->keys != NIL || data->may_raise || data->outside != NULL || MayBeRechecked(root))
		return;
	for (int i = 0; i < 2; i++)
		data->left[i] = CanLeaveVectors(root, joinrel, sides[i], &data->clause, data->restrictlist);
	if (data->shared)
		data->left[0] = data->left[1] = data->left[0] && data->left[1];
}

/* The share of pairs of rows that have equal keys. */
static double
ShareOfGroups(PlannerInfo *root, const JoinPathData *data, SpecialJoinInfo *sjinfo)
{
	List	   *clauses = NIL;
	ListCell   *cell;

	foreach(cell, data->keys)
		clauses = lappend(clauses, ((GroupKey *) lfirst(cell))->rinfo);
	return clauselist_selectivity(root, clauses, 0, data->type, sjinfo);
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

/* Two sides that share their rows are read once, and of each two pairs one is computed. */
void
CostJoin(PlannerInfo *root, CustomPath *path, const JoinPathData *data)
{
	double		dimensions = DimensionsOf(root, data->clause.outer);
	double		pairs = data->shared ? 0.5 : 1.0;
	double		rows = 0.0;
	Path	   *own = &path->path;
	QualCost	quals;
	ListCell   *cell;

	cost_qual_eval(&quals, list_concat_copy(data->restrictlist, data->one_time), root);
	own->startup_cost = BEGIN_COST + quals.startup + own->pathtarget->cost.startup;
	foreach(cell, path->custom_paths)
	{
		Path	   *side = lfirst(cell);

		own->startup_cost += side->total_cost;
		rows += side->rows;
	}
	pairs *= data->outer->rows * data->inner->rows;
	if (data->keys != NIL)
	{
		pairs *= data->group_share;
		own->startup_cost += 2.0 * rows * cpu_operator_cost * list_length(data->keys);
	}
	own->startup_cost += rows * (cpu_tuple_cost + dimensions * cpu_operator_cost / 16.0);
	own->total_cost = own->startup_cost +
		2.0 * pairs * dimensions * cpu_operator_cost / FLOP_PER_OPERATOR +
		own->rows * (cpu_tuple_cost + quals.per_tuple + own->pathtarget->cost.per_tuple);
}

/* --- path */

static void
AddJoinPath(PlannerInfo *root, RelOptInfo *joinrel, const JoinPathData *data)
{
	CustomPath *path = makeNode(CustomPath);
	Path	   *own = &path->path;

	own->pathtype = T_CustomScan;
	own->parent = joinrel;
	own->pathtarget = joinrel->reltarget;
	own->param_info = data->outside;
	own->rows = data->outside != NULL ? data->outside->ppi_rows : joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = data->shared ?
		list_make1(PathOfSide(root, data->outer, data->inner, data->left[0])) :
		list_make2(PathOfSide(root, data->outer, NULL, data->left[0]),
				   PathOfSide(root, data->inner, NULL, data->left[1]));
	path->custom_private = list_make1((void *) data);
#if PG_VERSION_NUM >= 170000
	path->custom_restrictinfo = data->restrictlist;
#endif
	path->methods = &path_methods;
	CostJoin(root, path, data);
	add_path(joinrel, own);
}

bool
IsJoinPath(const Path *path)
{
	return IsA(path, CustomPath) && ((const CustomPath *) path)->methods == &path_methods;
}

/*
 * Sides may depend on relations outside the join (LATERAL): then it is one for each row
 * of those, with the clauses that this allows.  False: the join can't be served.
 */
static bool
FindOutside(PlannerInfo *root, RelOptInfo *joinrel, JoinPathData *data,
			const JoinPathExtraData *extra)
{
	Path	   *outer = data->outer->cheapest_total_path;
	Path	   *inner = data->inner->cheapest_total_path;
	Relids		needed;

	if (outer == NULL || inner == NULL)
		return false;
	needed = bms_union(PATH_REQ_OUTER(outer), PATH_REQ_OUTER(inner));
	if (bms_is_empty(needed))
		return bms_is_empty(joinrel->lateral_relids);
	/* a partition's join would need the path once more, for a partition of the others */
	if (bms_overlap(needed, joinrel->relids) || !bms_overlap(needed, extra->param_source_rels) ||
		!bms_is_subset(joinrel->lateral_relids, needed) ||
		joinrel->reloptkind != RELOPT_JOINREL || enable_partitionwise_join)
		return false;
	data->restrictlist = list_copy(data->restrictlist);
	data->outside = get_joinrel_parampathinfo(root, joinrel, outer, inner, extra->sjinfo, needed,
											  &data->restrictlist);
	return true;
}

/*
 * Rows to be changed, of a table with children, are known by columns that are no table's:
 * a scan tuple can't have these.
 */
static bool
HasRowIdentity(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->reltarget->exprs)
	{
		const Node *column = lfirst(cell);

		if (IsA(column, Var) && ((const Var *) column)->varno == ROWID_VAR)
			return true;
	}
	return false;
}

/*
 * The outer join whose nulls the inner side's columns may be above this one.  From
 * PostgreSQL 16 on each column says so itself, and may say more, or not yet that, where outer
 * joins have changed places (build_joinrel_tlist): such joins are not served.
 */
static bool
FindNullingJoin(JoinPathData *data, const RelOptInfo *joinrel, const SpecialJoinInfo *sjinfo)
{
#if PG_VERSION_NUM >= 160000
	if (!IS_OUTER_JOIN(data->type) || sjinfo->ojrelid == 0)
		return true;
	data->nulling_join = sjinfo->ojrelid;
	return bms_is_member(sjinfo->ojrelid, joinrel->relids) &&
		bms_num_members(joinrel->relids) ==
		bms_num_members(data->outer->relids) + bms_num_members(data->inner->relids) + 1 &&
		!bms_overlap(sjinfo->commute_above_r, joinrel->relids);
#else
	return true;
#endif
}

static void
OfferJoin(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType type, JoinPathExtraData *extra)
{
	JoinPathData found = {.type = type,.restrictlist = extra->restrictlist,
		.outer = outerrel,.inner = innerrel};
	JoinPathData *data;

	if (previous_hook != NULL)
		previous_hook(root, joinrel, outerrel, innerrel, type, extra);
	if (!fasted_setting_join_node || !IsServedType(type) ||
		HasRowIdentity(outerrel) || HasRowIdentity(innerrel) ||
		!FindNullingJoin(&found, joinrel, extra->sjinfo) ||
		!FindDistanceClause(&found, joinrel, &found.clause) ||
		!FindOutside(root, joinrel, &found, extra))
		return;
	TakeOneTimeClauses(&found);
	if (!AreServedClauses(found.restrictlist))
		return;
	/* without another clause every vector is compared */
	found.may_raise = list_length(found.restrictlist) > 1 &&
		(MayRaise((Node *) found.clause.outer) || MayRaise((Node *) found.clause.inner) ||
		 MayRaise((Node *) found.clause.bound));
	data = palloc(sizeof(JoinPathData));
	*data = found;
	data->shared = data->outside == NULL && !MayBeRechecked(root) &&
		SidesAreAlike(root, outerrel, innerrel, &data->clause);
	data->keys = FindGroupKeys(data, joinrel);
	data->group_share = data->keys == NIL ? 1.0 : ShareOfGroups(root, data, extra->sjinfo);
	if (data->shared)
		FindOrder(root, data, joinrel);
	FindVectorsToLeave(root, data, joinrel);
	AddJoinPath(root, joinrel, data);
}

#if PG_VERSION_NUM < 170000

/*
 * Before version 17 PostgreSQL calls no hook for a join that has pseudoconstant clauses, as
 * its own plan of a custom path would lose them.  This node evaluates them itself.  So the
 * planner is told that there are none while it looks for joins; when it makes a plan of what
 * it has found, it knows of them again.  Not where somebody else would be misled: another
 * extension with that hook, or a foreign data wrapper.
 */
static bool
IsAloneInJoins(const PlannerInfo *root)
{
	if (set_join_pathlist_hook != OfferJoin || previous_hook != NULL || !fasted_setting_join_node)
		return false;
	for (int i = 1; i < root->simple_rel_array_size; i++)
		if (root->simple_rel_array[i] != NULL && root->simple_rel_array[i]->fdwroutine != NULL)
			return false;
	return true;
}

static RelOptInfo *
SearchJoins(PlannerInfo *root, int levels_needed, List *initial_rels)
{
	bool		pseudoconstants = root->hasPseudoConstantQuals;
	RelOptInfo *found;

	if (IsAloneInJoins(root))
		root->hasPseudoConstantQuals = false;
	if (previous_search != NULL)
		found = previous_search(root, levels_needed, initial_rels);
	else if (enable_geqo && levels_needed >= geqo_threshold)
		found = geqo(root, levels_needed, initial_rels);
	else
		found = standard_join_search(root, levels_needed, initial_rels);
	root->hasPseudoConstantQuals = pseudoconstants;
	return found;
}

#endif

void
InstallJoinNode(void)
{
	RegisterCustomScanMethods(&fasted_join_methods);
	previous_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = OfferJoin;
#if PG_VERSION_NUM < 170000
	previous_search = join_search_hook;
	join_search_hook = SearchJoins;
#endif
	InstallJoinEstimates();
	InstallJoinCount();
}
