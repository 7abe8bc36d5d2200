/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  When the planner is offered the node, and at what cost.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "base/guc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "function_node/function_node.h"
#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#if PG_VERSION_NUM < 170000
#include "optimizer/geqo.h"
#endif
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "rows/source.h"
#include "utils/rel.h"

static set_join_pathlist_hook_type previous_join_hook = NULL;
#if PG_VERSION_NUM < 170000
static join_search_hook_type previous_search = NULL;
#endif
static create_upper_paths_hook_type previous_upper_hook = NULL;

static const CustomPathMethods path_methods = {
	.CustomName = "FastedJoin",
	.PlanCustomPath = PlanJoinNode
};

/* What it costs to begin at all: threads, memory. */
#define BEGIN_COST 50.0

/* --- one side: which columns of it are read, and how */

Var *
PlaceVar(Index relid)
{
	return makeVar(relid, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
}

Node *
AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner)
{
	node = copyObject(node);
	ChangeVarNodes(node, inner->relid, outer->relid, 0);
	return node;
}

/* A table of its own, all of which is read. */
static bool
IsPlainTable(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;

	if (rel->reloptkind != RELOPT_BASEREL || rel->rtekind != RTE_RELATION)
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	return !rte->inh && rte->tablesample == NULL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW);
}

/* Rows stay in place there for as long as a snapshot sees them. */
static bool
IsHeap(PlannerInfo *root, RelOptInfo *rel)
{
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	bool		heap = table->rd_tableam == GetHeapamTableAmRoutine();

	table_close(table, NoLock);
	return heap;
}

/*
 * The column of the side's vectors, if these can be left in their table; else NULL.  Nobody but
 * the distance clause may want the column, and nobody the rows' places, and the scan must be the
 * side's plan itself.
 */
static Var *
VectorToLeave(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *side, const JoinPathData *data)
{
	Var		   *vector = (Var *) data->clause.first;
	Bitmapset  *used = NULL;
	ListCell   *cell;

	/* a pseudoconstant condition is checked before the scan is begun, by a node above it */
	if (!IsPlainTable(root, side) || extract_actual_clauses(side->baserestrictinfo, true) != NIL)
		return NULL;
	if (!IsA(vector, Var) || (Index) vector->varno != side->relid)
		vector = (Var *) data->clause.second;
	if (!IsA(vector, Var) || (Index) vector->varno != side->relid || vector->varattno <= 0)
		return NULL;
	pull_varattnos((Node *) joinrel->reltarget->exprs, side->relid, &used);
	foreach(cell, data->restrictlist)
		if (lfirst(cell) != data->clause.rinfo)
			pull_varattnos((Node *) lfirst_node(RestrictInfo, cell)->clause, side->relid, &used);
	if (bms_is_member(vector->varattno - FirstLowInvalidHeapAttributeNumber, used) ||
		bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber, used))
		return NULL;
	return IsHeap(root, side) ? vector : NULL;
}

/*
 * A scan of the table itself, which can return columns that the planner did not
 * foresee: from an index or from parallel workers these would not come.
 */
static Path *
ScanOfTable(PlannerInfo *root, RelOptInfo *rel)
{
	Path	   *cheapest = NULL;
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);
		bool		scan = path->pathtype == T_SeqScan || path->pathtype == T_IndexScan ||
			path->pathtype == T_BitmapHeapScan;

		if (scan && path->param_info == NULL && !path->parallel_aware &&
			(cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return cheapest != NULL ? cheapest : create_seqscan_path(root, rel, NULL, 0);
}

/* The path of a side's rows: for the inner side too, if that is not NULL; with their places. */
static Path *
PathOfSide(PlannerInfo *root, RelOptInfo *side, RelOptInfo *inner, bool places)
{
	Path	   *path;
	PathTarget *target;
	ListCell   *cell;

	if (inner == NULL && !places)
		return side->cheapest_total_path;
	path = ScanOfTable(root, side);
	target = copy_pathtarget(path->pathtarget);
	if (inner != NULL)
		foreach(cell, inner->reltarget->exprs)
			add_new_column_to_pathtarget(target, (Expr *) AsOuter(lfirst(cell), side, inner));
	if (places)
		add_new_column_to_pathtarget(target, (Expr *) PlaceVar(side->relid));
	set_pathtarget_cost_width(root, target);
	return (Path *) create_projection_path(root, side, path, target);
}

/*
 * --- a relation with itself
 *
 * Where both sides have the same rows, these are read once.  Each pair is found once, and is a
 * match both ways.
 */

/* Are all clauses of one side ones of the other?  A clause may be there twice. */
static bool
HasAllClauses(RelOptInfo *rel, RelOptInfo *other)
{
	List	   *clauses = NIL;
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
		clauses = lappend(clauses, lfirst_node(RestrictInfo, cell)->clause);
	foreach(cell, other->baserestrictinfo)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, cell)->clause;

		if (contain_volatile_functions(clause) ||
			!list_member(clauses, AsOuter(clause, rel, other)))
			return false;
	}
	return true;
}

static bool
HasOnlyColumns(RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->reltarget->exprs)
		if (!IsA(lfirst(cell), Var) || ((Var *) lfirst(cell))->varattno == InvalidAttrNumber)
			return false;
	return true;
}

/* Do both sides read the same rows of one relation, with one vector each? */
static bool
SidesAreAlike(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner, const DistanceClause *clause)
{
	if (!IsPlainTable(root, outer) || !IsPlainTable(root, inner) ||
		planner_rt_fetch(outer->relid, root)->relid != planner_rt_fetch(inner->relid, root)->relid ||
		outer->userid != inner->userid || !HasOnlyColumns(inner))
		return false;
	return HasAllClauses(outer, inner) && HasAllClauses(inner, outer) &&
		equal(clause->outer, AsOuter((Node *) clause->inner, outer, inner));
}

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

/* Is the clause a filter above an outer join, and not a condition of the join itself? */
static bool
IsAbove(const JoinPathData *data, const RestrictInfo *rinfo, const RelOptInfo *joinrel)
{
	return IS_OUTER_JOIN(data->plan.type) && RINFO_IS_PUSHED_DOWN(rinfo, joinrel->relids);
}

/* Is there a distance clause?  Cheap where there is none, as in nearly all joins. */
static bool
FindDistanceClause(JoinPathData *data, const RelOptInfo *joinrel)
{
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (!IsAbove(data, rinfo, joinrel) &&
			MatchDistanceClause(rinfo, data->outer->relids, data->inner->relids, &data->clause))
			return true;
	}
	return false;
}

/*
 * Divides the clauses.  Those that are pseudoconstant are never conditions of an outer join, but
 * filters of its rows, and have one value while the join runs: the node evaluates them before it
 * reads a row.
 */
static void
DivideClauses(JoinPathData *data, const RelOptInfo *joinrel)
{
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->pseudoconstant)
		{
			data->one_time = lappend(data->one_time, rinfo);
			continue;
		}
		others = lappend(others, rinfo);
		if (IsAbove(data, rinfo, joinrel))
			data->above = lappend(data->above, rinfo);
		else
			data->quals = lappend(data->quals, rinfo);
	}
	data->restrictlist = others;
}

/*
 * The equalities by which rows are grouped.  A clause that puts shared rows in order is the
 * first to be evaluated, so it must not be one that waits for others because it may tell of what
 * they hide.
 */
static void
FindKeysAndOrder(PlannerInfo *root, JoinPathData *data, SpecialJoinInfo *sjinfo)
{
	List	   *equalities = NIL;
	ListCell   *cell;

	foreach(cell, data->quals)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (AddGroupKey(rinfo, data))
			equalities = lappend(equalities, rinfo);
		if (data->plan.shared && (rinfo->security_level == 0 || rinfo->leakproof))
			(void) RecognizeRowOrder(root, rinfo, &data->order);
	}
	data->group_share = clauselist_selectivity(root, equalities, 0, data->plan.type, sjinfo);
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

	if (data->plan.outer_keys != NIL || data->plan.may_raise || data->outside != NULL ||
		MayBeRechecked(root))
		return;
	for (int i = 0; i < 2; i++)
		data->left[i] = VectorToLeave(root, joinrel, sides[i], data);
	if (data->plan.shared && (data->left[0] == NULL || data->left[1] == NULL))
		data->left[0] = data->left[1] = NULL;
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
static void
CostJoin(PlannerInfo *root, CustomPath *path, const JoinPathData *data)
{
	double		dimensions = DimensionsOf(root, data->clause.outer);
	double		pairs = data->plan.shared ? 0.5 : 1.0;
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
	pairs *= data->outer->rows * data->inner->rows * data->group_share;
	own->startup_cost += 2.0 * rows * cpu_operator_cost * list_length(data->plan.outer_keys);
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
	path->custom_paths = data->plan.shared ?
		list_make1(PathOfSide(root, data->outer, data->inner, data->left[0] != NULL)) :
		list_make2(PathOfSide(root, data->outer, NULL, data->left[0] != NULL),
				   PathOfSide(root, data->inner, NULL, data->left[1] != NULL));
	path->custom_private = list_make1((void *) data);
#if PG_VERSION_NUM >= 170000
	path->custom_restrictinfo = data->restrictlist;
#endif
	path->methods = &path_methods;
	CostJoin(root, path, data);
	add_path(joinrel, own);
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
	if (!IS_OUTER_JOIN(data->plan.type) || sjinfo->ojrelid == 0)
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
	JoinPathData found = {.plan.type = type,.restrictlist = extra->restrictlist,
		.outer = outerrel,.inner = innerrel};
	JoinPathData *data = &found;
	const DistanceClause *distance = &found.clause;
	List	   *clauses;

	if (previous_join_hook != NULL)
		previous_join_hook(root, joinrel, outerrel, innerrel, type, extra);
	if (!fasted_setting_join_node ||
		(type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI) ||
		HasRowIdentity(outerrel) || HasRowIdentity(innerrel) ||
		!FindNullingJoin(data, joinrel, extra->sjinfo) ||
		!FindDistanceClause(data, joinrel) ||
		!FindOutside(root, joinrel, data, extra))
		return;
	DivideClauses(data, joinrel);
	clauses = get_actual_clauses(data->restrictlist);
	if (contain_volatile_functions((Node *) clauses) || contain_subplans((Node *) clauses))
		return;
	/* without another clause every vector is compared */
	data->plan.may_raise = list_length(clauses) > 1 &&
		MayRaise((Node *) list_make3(distance->outer, distance->inner, distance->bound), NULL);
	data->plan.shared = data->outside == NULL && !MayBeRechecked(root) &&
		SidesAreAlike(root, outerrel, innerrel, distance);
	FindKeysAndOrder(root, data, extra->sjinfo);
	FindVectorsToLeave(root, data, joinrel);
	data = palloc(sizeof(JoinPathData));
	*data = found;
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
	if (set_join_pathlist_hook != OfferJoin || previous_join_hook != NULL || !fasted_setting_join_node)
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

/*
 * --- SELECT count(*) over a join by the node, without a row being formed
 *
 * When that is all there is, the node takes the place of the aggregate too.  If the
 * distance and equalities are the whole condition, the pairs that the engine finds are
 * those to be counted, so it counts them itself where its distance is the clause's.
 * So it is with a.id < b.id over shared rows, if no two of them have one id: it makes
 * one match of each pair.
 */

static bool
IsInnerJoin(const Path *path)
{
	const CustomPath *join = (const CustomPath *) path;

	return IsA(join, CustomPath) && join->methods == &path_methods &&
		((JoinPathData *) linitial(join->custom_private))->plan.type == JOIN_INNER;
}

/* The cheapest path of the inner join by the node; NULL: there is none. */
static CustomPath *
FindJoinPath(const RelOptInfo *input)
{
	Path	   *cheapest = NULL;
	ListCell   *cell;

	foreach(cell, input->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (IsA(path, ProjectionPath))
			path = ((ProjectionPath *) path)->subpath;
		if (IsInnerJoin(path) && (cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return (CustomPath *) cheapest;
}

/*
 * A path that costs what the join does, but that no row passes where the engine counts.  Its
 * parent is the join still, whose relations it stands for.
 */
static Path *
CountPath(PlannerInfo *root, const CustomPath *join, Aggref *count)
{
	CustomPath *path = makeNode(CustomPath);
	Path	   *own = &path->path;
	JoinPathData *data = palloc(sizeof(JoinPathData));
	bool		ordered;

	*path = *join;
	*data = *(JoinPathData *) linitial(join->custom_private);
	ordered = data->order.rinfo != NULL;
	data->count = count;
	data->plan.count = true;
	data->plan.distance_decides =
		list_length(data->restrictlist) == 1 + list_length(data->plan.outer_keys) + ordered &&
		(!ordered || IsTotalOrder(root, data->outer, &data->order));
	path->custom_private = list_make1(data);
	if (data->plan.distance_decides && data->clause.form != FORM_FOREIGN)
		own->rows = 0.0;
	CostJoin(root, path, data);
	own->total_cost += own->rows * cpu_operator_cost;
	own->rows = 1.0;
	own->startup_cost = own->total_cost;
	own->pathtarget = root->upper_targets[UPPERREL_GROUP_AGG];
	return own;
}

static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	CustomPath *join;
	Aggref	   *count;

	if (previous_upper_hook != NULL)
		previous_upper_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_JOINREL || IS_DUMMY_REL(input))
		return;
	join = FindJoinPath(input);
	count = join == NULL ? NULL : OnlyCount(root);
	if (count != NULL)
		add_path(output, CountPath(root, join, count));
}

void
InstallJoinNode(void)
{
	RegisterCustomScanMethods(&fasted_join_methods);
	previous_join_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = OfferJoin;
#if PG_VERSION_NUM < 170000
	previous_search = join_search_hook;
	join_search_hook = SearchJoins;
#endif
	previous_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
	InstallJoinEstimates();
}
