/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  Adds paths of the join node to the planner, estimates their cost, and creates plans from
 *	  them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "base/guc.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "function_node/function_node.h"
#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "functions/function.h"
#include "rows/input_queue.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

static set_join_pathlist_hook_type previous_join_hook = NULL;
static create_upper_paths_hook_type previous_upper_hook = NULL;

/* Fixed startup cost of an engine: threads and memory. */
#define BEGIN_COST 50.0

/* Private data of a join path. */
typedef struct JoinPathData
{
	DistanceClause clause;
	JoinPlan	plan;			/* type, flags and keys; completed when the plan is created */
	RelOptInfo *joinrel;
	RelOptInfo *rels[2];		/* both sides */
	List	   *restrictlist;	/* all clauses */
	Index		nulling_join;	/* outer join that nulls inner columns; 0: none or unknown */
	double		partition_selectivity;	/* fraction of row pairs with equal keys */
	Var		   *late[2];		/* late-materialized vector columns; shared rows: both or none */
	RestrictInfo *order;		/* ordering clause of shared rows; NULL: none */
	List	   *distances;		/* distances that the query selects and the engine computes */
	Aggref	   *count;			/* count(*) to compute; NULL: return rows */
} JoinPathData;

/* --- the path of one side, and the columns that it returns */

/* Returns true if the clause is a filter above an outer join, not a condition of the join. */
static bool
IsFilterAboveJoin(const JoinPathData *data, const RestrictInfo *rinfo)
{
	return IS_OUTER_JOIN(data->plan.type) && RINFO_IS_PUSHED_DOWN(rinfo, data->joinrel->relids);
}

/* Returns a Var for the ctid of a table's row. */
static Var *
CtidVar(Index relid)
{
	return makeVar(relid, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
}

/* Returns a copy of the inner side's expression that refers to the outer side instead. */
static Node *
AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner)
{
	node = copyObject(node);
	ChangeVarNodes(node, inner->relid, outer->relid, 0);
	return node;
}

/* Returns true if the relation is a table or materialized view without children or TABLESAMPLE. */
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

/*
 * Returns the side's vector column if it can be late-materialized, else NULL.  Only the distance
 * clause may use the column, and no expression may use the ctid.  The side's plan must be a table
 * scan itself.  The table must be a heap, in which a row version keeps its ctid while a snapshot
 * sees it.
 */
static Var *
LateVectorOf(PlannerInfo *root, const JoinPathData *data, int number)
{
	RelOptInfo *side = data->rels[number];
	Var		   *vector = (Var *) data->clause.written[number];
	Bitmapset  *used = NULL;
	Relation	table;
	bool		heap;
	ListCell   *cell;

	/* from bit varying to bit */
	if (IsA(vector, RelabelType))
		vector = (Var *) ((RelabelType *) vector)->arg;
	/* a pseudoconstant condition would add a Result node above the scan */
	if (!IsPlainTable(root, side) || extract_actual_clauses(side->baserestrictinfo, true) != NIL ||
		!IsA(vector, Var) || vector->varattno <= 0)
		return NULL;
	pull_varattnos((Node *) data->joinrel->reltarget->exprs, side->relid, &used);
	foreach(cell, data->restrictlist)
		if (lfirst(cell) != data->clause.rinfo)
			pull_varattnos((Node *) lfirst_node(RestrictInfo, cell)->clause, side->relid, &used);
	if (bms_is_member(vector->varattno - FirstLowInvalidHeapAttributeNumber, used) ||
		bms_is_member(SelfItemPointerAttributeNumber - FirstLowInvalidHeapAttributeNumber, used))
		return NULL;
	table = table_open(planner_rt_fetch(side->relid, root)->relid, NoLock);
	heap = table->rd_tableam == GetHeapamTableAmRoutine();
	table_close(table, NoLock);
	return heap ? vector : NULL;
}

/*
 * Returns true if the path scans an index in the order of an operator, such as v <-> constant.  With
 * an index of pgvector, such a scan omits rows.  Subqueries are not searched: their own clauses ask
 * for the scan.
 */
static bool
IsOrderedByIndex(const Path *path)
{
	ListCell   *cell;

	switch (nodeTag(path))
	{
		case T_IndexPath:
			return ((const IndexPath *) path)->indexorderbys != NIL;
		case T_NestPath:
		case T_MergePath:
		case T_HashPath:
			return IsOrderedByIndex(((const JoinPath *) path)->outerjoinpath) ||
				IsOrderedByIndex(((const JoinPath *) path)->innerjoinpath);
		case T_MaterialPath:
		case T_MemoizePath:
		case T_UniquePath:
		case T_ProjectionPath:
		case T_GatherPath:
			/* these structs begin with the same fields, as do the next two */
			return IsOrderedByIndex(((const MaterialPath *) path)->subpath);
		case T_AppendPath:
		case T_MergeAppendPath:
			foreach(cell, ((const AppendPath *) path)->subpaths)
				if (IsOrderedByIndex(lfirst(cell)))
					return true;
			return false;
		default:
			return false;
	}
}

/*
 * Returns the relation's cheapest path that omits no rows, or NULL if the planner kept none.  With
 * of_table, returns a non-parallel scan of the table itself.  Such a scan can return columns that the
 * planner did not foresee, unlike an index-only scan or a Gather.
 */
static Path *
CheapestPath(PlannerInfo *root, RelOptInfo *rel, bool of_table)
{
	Path	   *cheapest = NULL;
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);
		bool		scan = path->pathtype == T_SeqScan || path->pathtype == T_IndexScan ||
			path->pathtype == T_BitmapHeapScan;

		if (PATH_REQ_OUTER(path) == NULL && !IsOrderedByIndex(path) &&
			(!of_table || (scan && !path->parallel_aware)) &&
			(cheapest == NULL || path->total_cost < cheapest->total_cost))
			cheapest = path;
	}
	return cheapest == NULL && of_table ? create_seqscan_path(root, rel, NULL, 0) : cheapest;
}

/*
 * Returns a path that reads a side by parallel workers, or NULL.  Path reads it by the leader alone.
 *
 * Workers convert a late-materialized vector.  Without late materialization, they pass the columns as
 * they are; this requires equality keys, because such a side is read before its vectors are used.
 * There is no clause on single outer rows: the leader could not evaluate it on rows whose vector the
 * workers convert.
 *
 * The size of the table alone decides whether workers read it, as in fasted's functions.  The costs
 * are therefore those of path.
 */
static Path *
ParallelPathOfSide(PlannerInfo *root, const JoinPathData *data, int number, PathTarget *target,
				   const Path *path)
{
	RelOptInfo *side = data->rels[number];
	Expr	   *vector = data->late[number] == NULL ? NULL : data->clause.vectors[number];
	Path	   *read;
	int			workers;
	ListCell   *cell;

	/* the engine's rows have more dimensions than the workers' (join_bound.c) */
	if (vector != NULL && HasMargin(&data->clause.kind))
		return NULL;
	if ((vector == NULL && data->plan.keys[number] == NIL) || path->pathtype != T_SeqScan ||
		!root->glob->parallelModeOK || !side->consider_parallel ||
		!is_parallel_safe(root, (Node *) vector))
		return NULL;
	foreach(cell, data->plan.shared ? NIL : data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (!IsFilterAboveJoin(data, rinfo) &&
			!bms_overlap(rinfo->clause_relids, data->rels[INNER_SIDE]->relids))
			return NULL;
	}
	workers = CountScanWorkers(planner_rt_fetch(side->relid, root)->relid, side);
	if (workers <= 0)
		return NULL;
	read = create_seqscan_path(root, side, NULL, workers);
	read = (Path *) create_projection_path(root, side, read, target);
	if (!read->parallel_safe)
		return NULL;
	read = InputPath(root, read, vector);
	read->startup_cost = path->startup_cost;
	read->total_cost = path->total_cost;
	return read;
}

/*
 * Returns the path that reads a side, or NULL if there is none that reads all rows.  For shared rows
 * it returns the inner columns too.  For late materialization it returns the ctid.
 */
static Path *
PathOfSide(PlannerInfo *root, const JoinPathData *data, int number)
{
	RelOptInfo *side = data->rels[number];
	RelOptInfo *inner = data->rels[INNER_SIDE];
	Path	   *path;
	Path	   *read;
	PathTarget *target;
	bool		of_table = data->plan.shared || data->late[number] != NULL;
	ListCell   *cell;

	if (!of_table && !IsPlainTable(root, side))
		return CheapestPath(root, side, false);
	path = CheapestPath(root, side, true);
	target = copy_pathtarget(path->pathtarget);
	if (data->plan.shared)
		foreach(cell, inner->reltarget->exprs)
			add_new_column_to_pathtarget(target, (Expr *) AsOuter(lfirst(cell), side, inner));
	if (data->late[number] != NULL)
		add_new_column_to_pathtarget(target, (Expr *) CtidVar(side->relid));
	set_pathtarget_cost_width(root, target);
	read = ParallelPathOfSide(root, data, number, target, path);
	if (read != NULL)
		return read;
	if (of_table)
		return (Path *) create_projection_path(root, side, path, target);
	read = CheapestPath(root, side, false);
	return read != NULL ? read : path;
}

/*
 * --- self-joins
 *
 * If both sides have the same rows, the node reads these shared rows once.  The engine finds each
 * pair once, and the pair is a match in both directions.
 */

/* Returns true if both sides have the same restriction clauses, in any order. */
static bool
HaveSameClauses(RelOptInfo *outer, RelOptInfo *inner)
{
	List	   *clauses = extract_actual_clauses(outer->baserestrictinfo, false);
	List	   *others = extract_actual_clauses(inner->baserestrictinfo, false);

	others = (List *) AsOuter((Node *) others, outer, inner);
	return !contain_volatile_functions((Node *) clauses) &&
		extract_actual_clauses(outer->baserestrictinfo, true) == NIL &&
		extract_actual_clauses(inner->baserestrictinfo, true) == NIL &&
		list_difference(clauses, others) == NIL && list_difference(others, clauses) == NIL;
}

/* Returns true if both sides read the same rows and use the same vector expression. */
static bool
SidesAreIdentical(PlannerInfo *root, const JoinPathData *data)
{
	RelOptInfo *outer = data->rels[OUTER_SIDE];
	RelOptInfo *inner = data->rels[INNER_SIDE];
	ListCell   *cell;

	if (!IsPlainTable(root, outer) || !IsPlainTable(root, inner) ||
		planner_rt_fetch(outer->relid, root)->relid != planner_rt_fetch(inner->relid, root)->relid ||
		outer->userid != inner->userid)
		return false;
	foreach(cell, inner->reltarget->exprs)
		if (!IsA(lfirst(cell), Var) || ((Var *) lfirst(cell))->varattno == InvalidAttrNumber)
			return false;
	return HaveSameClauses(outer, inner) &&
		equal(data->clause.vectors[OUTER_SIDE],
			  AsOuter((Node *) data->clause.vectors[INNER_SIDE], outer, inner));
}

/* --- conditions for the node */

/*
 * Returns true if EvalPlanQual may re-evaluate the join for a row that was updated concurrently.
 * In that case the scans return that row regardless of the snapshot.  The two sides of a self-join
 * may then differ.
 */
static bool
MayBeRechecked(const PlannerInfo *root)
{
	return root->rowMarks != NIL || root->parse->rowMarks != NIL ||
		(root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT);
}

/* Finds a distance clause among the join conditions.  Returns false quickly for most joins. */
static bool
FindDistanceClause(JoinPathData *data)
{
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (!IsFilterAboveJoin(data, rinfo) && MatchDistanceClause(rinfo, data->rels, &data->clause))
			return true;
	}
	return false;
}

/*
 * Adds the clause to the equality keys if it compares one expression from each side.  Only rows
 * with equal keys can match then.  Returns false if the clause is not such an equality.
 */
static bool
AddPartitionKey(RestrictInfo *rinfo, JoinPathData *data)
{
	OpExpr	   *clause = (OpExpr *) rinfo->clause;
	JoinPlan   *plan = &data->plan;
	bool		swapped = !bms_is_subset(rinfo->left_relids, data->rels[OUTER_SIDE]->relids);
	Node	   *keys[2];
	Oid			hashes[2];

	if (!rinfo->can_join || !OidIsValid(rinfo->hashjoinoperator) || !IsA(clause, OpExpr) ||
		list_length(clause->args) != 2 || !op_strict(rinfo->hashjoinoperator) ||
		!get_op_hash_functions(rinfo->hashjoinoperator, &hashes[swapped], &hashes[!swapped]))
		return false;
	for (int i = 0; i < 2; i++)
	{
		Relids		used = i == swapped ? rinfo->left_relids : rinfo->right_relids;

		if (!bms_is_subset(used, data->rels[i]->relids))
			return false;
		keys[i] = list_nth(clause->args, i != swapped);
	}
	/* shared rows need the same key expression on both sides */
	if (plan->shared && !equal(keys[OUTER_SIDE], AsOuter(keys[INNER_SIDE], data->rels[OUTER_SIDE],
														 data->rels[INNER_SIDE])))
		return false;
	for (int i = 0; i < 2; i++)
	{
		plan->keys[i] = lappend(plan->keys[i], keys[i]);
		plan->hashes[i] = lappend_oid(plan->hashes[i], hashes[i]);
	}
	plan->key_collations = lappend_oid(plan->key_collations, clause->inputcollid);
	return true;
}

/*
 * Finds the equality keys and the ordering clause of shared rows.  The ordering clause is evaluated
 * first, so it must be leakproof or have security level 0.
 */
static void
FindKeys(PlannerInfo *root, JoinPathData *data, SpecialJoinInfo *sjinfo)
{
	List	   *equalities = NIL;
	ListCell   *cell;

	foreach(cell, data->restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (IsFilterAboveJoin(data, rinfo))
			continue;
		if (AddPartitionKey(rinfo, data))
			equalities = lappend(equalities, rinfo);
		if (data->plan.shared && (rinfo->security_level == 0 || rinfo->leakproof) &&
			IsRowOrder(root, rinfo))
			data->order = rinfo;
	}
	data->partition_selectivity = clauselist_selectivity(root, equalities, 0, data->plan.type, sjinfo);
}

/*
 * Chooses the vector columns to late-materialize.  This requires a single pass over the vectors.
 * With equality keys, rows are visited in a different order than the table's.
 */
static void
FindLateVectors(PlannerInfo *root, JoinPathData *data)
{
	if (data->plan.keys[OUTER_SIDE] != NIL || MayBeRechecked(root))
		return;
	for (int i = 0; i < 2; i++)
		data->late[i] = LateVectorOf(root, data, i);
	if (data->plan.shared && (data->late[0] == NULL || data->late[1] == NULL))
		data->late[0] = data->late[1] = NULL;
}

/* Finds the distances in an expression that the engine computes.  Always returns false. */
static bool
FindDistances(Node *node, JoinPathData *data)
{
	if (node == NULL)
		return false;
	if (IsEngineDistance(&data->clause, (Expr *) node))
		data->distances = list_append_unique(data->distances, node);
	return expression_tree_walker(node, FindDistances, data);
}

/* --- cost */

static double
DimensionsOf(PlannerInfo *root, Expr *vector)
{
	List	   *vars = pull_var_clause((Node *) vector, PVC_RECURSE_PLACEHOLDERS);
	Var		   *var = list_length(vars) == 1 ? linitial_node(Var, vars) : NULL;
	RangeTblEntry *rte = var == NULL ? NULL : planner_rt_fetch(var->varno, root);
	double		dimensions = 0.0;

	if (var != NULL && rte->rtekind == RTE_RELATION && var->varattno > 0)
		dimensions = KnownDimensions(rte->relid, var->varattno);
	return dimensions > 0 ? dimensions : DEFAULT_DIMENSIONS;
}

/* Sets the costs of the path.  For shared rows, half of the pairs are computed. */
static void
CostJoin(PlannerInfo *root, CustomPath *path, const JoinPathData *data)
{
	double		dimensions = DimensionsOf(root, data->clause.vectors[OUTER_SIDE]);
	double		pairs = data->plan.shared ? 0.5 : 1.0;
	double		rows = 0.0;
	Path	   *own = &path->path;
	QualCost	quals;
	ListCell   *cell;

	cost_qual_eval(&quals, data->restrictlist, root);
	own->startup_cost = BEGIN_COST + quals.startup + own->pathtarget->cost.startup;
	foreach(cell, path->custom_paths)
	{
		Path	   *side = lfirst(cell);

		own->startup_cost += side->total_cost;
		rows += side->rows;
	}
	pairs *= data->rels[OUTER_SIDE]->rows * data->rels[INNER_SIDE]->rows * data->partition_selectivity;
	own->startup_cost += 2.0 * rows * cpu_operator_cost * list_length(data->plan.keys[OUTER_SIDE]);
	own->startup_cost += rows * (cpu_tuple_cost + dimensions * cpu_operator_cost / 16.0);
	own->total_cost = own->startup_cost +
		2.0 * pairs * dimensions * cpu_operator_cost / FLOP_PER_OPERATOR +
		own->rows * (cpu_tuple_cost + quals.per_tuple + own->pathtarget->cost.per_tuple);
}

/* --- the plan */

/* Returns the security level for the evaluation order; 0 for cheap leakproof clauses. */
static Index
LevelOf(const RestrictInfo *rinfo)
{
	return rinfo->leakproof && rinfo->eval_cost.per_tuple < 10 * cpu_operator_cost ? 0 :
		rinfo->security_level;
}

static int
CompareQuals(const ListCell *a, const ListCell *b)
{
	const RestrictInfo *x = lfirst(a);
	const RestrictInfo *y = lfirst(b);

	if (LevelOf(x) != LevelOf(y))
		return LevelOf(x) < LevelOf(y) ? -1 : 1;
	return x->eval_cost.per_tuple < y->eval_cost.per_tuple ? -1 :
		x->eval_cost.per_tuple > y->eval_cost.per_tuple;
}

/*
 * Returns a copy of an expression for use above the join.  From PostgreSQL 16 on, inner columns
 * that an outer join may null are marked with that join.
 */
static Node *
AboveJoin(Node *node, const JoinPathData *data)
{
#if PG_VERSION_NUM >= 160000
	if (data->nulling_join != 0)
		return add_nulling_relids(copyObject(node), data->rels[INNER_SIDE]->relids,
								  bms_make_singleton(data->nulling_join));
#endif
	return copyObject(node);
}

/* Returns the index of the column in a child plan's target list. */
static int
FindColumn(const void *column, List *tlist)
{
	TargetEntry *entry = tlist_member((Expr *) column, tlist);

	if (entry == NULL)
		elog(ERROR, "column not found in the target list of a side of a fasted join");
	return entry->resno - 1;
}

/* Adds the clauses by security level, then by cost, like order_qual_clauses in a nested loop. */
static void
AddQuals(PlannerInfo *root, const JoinPathData *data, JoinPlan *plan)
{
	List	   *ordered = list_copy(data->restrictlist);
	QualCost	cost;
	ListCell   *cell;

	plan->order_qual = -1;
	/* caches each clause's cost in eval_cost */
	cost_qual_eval(&cost, ordered, root);
	list_sort(ordered, CompareQuals);
	foreach(cell, ordered)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (IsFilterAboveJoin(data, rinfo))
		{
			plan->other_quals = lappend(plan->other_quals, copyObject(rinfo->clause));
			continue;
		}
		if (rinfo == data->clause.rinfo)
			plan->distance_qual = list_length(plan->join_quals);
		if (rinfo == data->order)
			plan->order_qual = list_length(plan->join_quals);
		if (plan->outer_quals == list_length(plan->join_quals) &&
			!bms_overlap(rinfo->clause_relids, data->rels[INNER_SIDE]->relids))
			plan->outer_quals++;
		plan->join_quals = lappend(plan->join_quals, AboveJoin((Node *) rinfo->clause, data));
	}
}

/*
 * Returns a copy of an expression in which calls of these distances have an input collation, without
 * any effect.  Otherwise PostgreSQL would replace them by the columns of the scan tuple, which are not
 * set yet when clauses are evaluated.
 */
static Node *
MarkDistances(Node *node, List *distances)
{
	if (node == NULL)
		return NULL;
	if (!list_member(distances, node))
		return expression_tree_mutator(node, MarkDistances, distances);
	node = copyObject(node);
	exprSetInputCollation(node, C_COLLATION_OID);
	return node;
}

/* Returns the target list of the scan tuple: the columns of both sides, the distances, and count(*). */
static List *
ScanColumns(const JoinPathData *data, List *plans, JoinPlan *plan)
{
	RelOptInfo *outer = data->rels[OUTER_SIDE];
	RelOptInfo *inner = data->rels[INNER_SIDE];
	List	   *outer_tlist = ((Plan *) linitial(plans))->targetlist;
	List	   *inner_columns = plan->shared ? inner->reltarget->exprs :
		get_tlist_exprs(((Plan *) lsecond(plans))->targetlist, true);
	List	   *columns = list_concat(copyObject(get_tlist_exprs(outer_tlist, true)),
									  (List *) AboveJoin((Node *) inner_columns, data));
	List	   *tlist = NIL;
	ListCell   *cell;

	columns = list_concat(columns, copyObject(data->distances));
	if (plan->count)
		columns = lappend(columns, copyObject(data->count));
	foreach(cell, columns)
		tlist = lappend(tlist, makeTargetEntry(lfirst(cell), list_length(tlist) + 1, NULL, false));
	plan->outer_columns = list_length(outer_tlist);
	if (plan->shared)
		foreach(cell, inner_columns)
			plan->shared_columns =
				lappend_int(plan->shared_columns,
							FindColumn(AsOuter(lfirst(cell), outer, inner), outer_tlist));
	return tlist;
}

static Plan *
PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
			 List *custom_plans)
{
	CustomScan *scan = makeNode(CustomScan);
	const JoinPathData *data = linitial(path->custom_private);
	JoinPlan	plan = data->plan;

	scan->custom_scan_tlist = ScanColumns(data, custom_plans, &plan);
	AddQuals(root, data, &plan);
	for (int i = 0; i < 2; i++)
	{
		int			read = plan.shared ? OUTER_SIDE : i;
		List	   *columns = ((Plan *) list_nth(custom_plans, read))->targetlist;

		plan.late_vector[i] = plan.late_ctid[i] = -1;
		if (data->late[read] != NULL)
		{
			plan.late_vector[i] = FindColumn(data->late[read], columns);
			plan.late_ctid[i] = FindColumn(CtidVar(data->late[read]->varno), columns);
		}
		plan.vectors[i] = (Expr *) AboveJoin((Node *) data->clause.vectors[i], data);
		plan.keys[i] = (List *) AboveJoin((Node *) plan.keys[i], data);
	}
	plan.distance = data->clause.kind;
	plan.bound = copyObject(data->clause.bound);
	plan.join_quals = (List *) MarkDistances((Node *) plan.join_quals, data->distances);
	plan.distances = (List *) MarkDistances((Node *) data->distances, data->distances);
	scan->scan.plan.targetlist = tlist;
	scan->custom_plans = custom_plans;
	scan->flags = path->flags;
	scan->methods = &fasted_join_methods;
	WriteJoinPlan(&plan, scan);
	return &scan->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "FastedJoin",
	.PlanCustomPath = PlanJoinNode
};

/* --- the path */

static void
AddJoinPath(PlannerInfo *root, const JoinPathData *data)
{
	CustomPath *path = makeNode(CustomPath);
	Path	   *own = &path->path;

	own->pathtype = T_CustomScan;
	own->parent = data->joinrel;
	own->pathtarget = data->joinrel->reltarget;
	own->rows = data->joinrel->rows;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	for (int i = 0; i < (data->plan.shared ? 1 : 2); i++)
	{
		Path	   *side = PathOfSide(root, data, i);

		if (side == NULL)
			return;
		path->custom_paths = lappend(path->custom_paths, side);
	}
	path->custom_private = list_make1((void *) data);
#if PG_VERSION_NUM >= 170000
	path->custom_restrictinfo = data->restrictlist;
#endif
	path->methods = &path_methods;
	CostJoin(root, path, data);
	add_path(data->joinrel, own);
}

/*
 * Returns true if a side depends on another relation (LATERAL), or if the join has a condition without
 * columns, which PostgreSQL evaluates in a node of its own.  Neither is supported.
 */
static bool
DependsOnOthers(const JoinPathData *data)
{
	ListCell   *cell;

	for (int i = 0; i < 2; i++)
		if (data->rels[i]->cheapest_total_path == NULL ||
			PATH_REQ_OUTER(data->rels[i]->cheapest_total_path) != NULL)
			return true;
	foreach(cell, data->restrictlist)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	return !bms_is_empty(data->joinrel->lateral_relids);
}

/*
 * Finds the outer join that may null the inner side's columns.  From PostgreSQL 16 on, columns are
 * marked with the joins that may null them.  If outer joins have been reordered, the marks may
 * differ from this join alone (build_joinrel_tlist).  Returns false for such joins, which the node
 * does not support.
 */
static bool
FindNullingJoin(JoinPathData *data, const SpecialJoinInfo *sjinfo)
{
#if PG_VERSION_NUM >= 160000
	Relids		relids = data->joinrel->relids;

	if (!IS_OUTER_JOIN(data->plan.type) || sjinfo->ojrelid == 0)
		return true;
	data->nulling_join = sjinfo->ojrelid;
	return bms_is_member(sjinfo->ojrelid, relids) &&
		bms_num_members(relids) == bms_num_members(data->rels[OUTER_SIDE]->relids) +
		bms_num_members(data->rels[INNER_SIDE]->relids) + 1 &&
		!bms_overlap(sjinfo->commute_above_r, relids);
#else
	return true;
#endif
}

static void
OfferJoin(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *outerrel, RelOptInfo *innerrel,
		  JoinType type, JoinPathExtraData *extra)
{
	JoinPathData found = {.plan.type = type,.restrictlist = extra->restrictlist,
		.joinrel = joinrel,.rels = {outerrel, innerrel}};
	JoinPathData *data = &found;
	List	   *clauses;

	if (previous_join_hook != NULL)
		previous_join_hook(root, joinrel, outerrel, innerrel, type, extra);
	/*
	 * In an UPDATE or DELETE of an inheritance tree, row identity columns belong to no table.  The
	 * scan tuple cannot contain such columns.
	 */
	if (root->row_identity_vars != NIL && bms_is_member(root->parse->resultRelation, joinrel->relids))
		return;
	if (!fasted_setting_join_node ||
		(type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI) ||
		!FindNullingJoin(data, extra->sjinfo) ||
		!FindDistanceClause(data) || DependsOnOthers(data))
		return;
	data->plan.shared = !MayBeRechecked(root) && SidesAreIdentical(root, data);
	FindKeys(root, data, extra->sjinfo);
	clauses = get_actual_clauses(data->restrictlist);
	if (contain_volatile_functions((Node *) clauses) || contain_subplans((Node *) clauses))
		return;
	FindLateVectors(root, data);
	if (type == JOIN_INNER)
	{
		(void) FindDistances((Node *) root->processed_tlist, data);
		(void) FindDistances(root->parse->havingQual, data);
	}
	data = palloc(sizeof(JoinPathData));
	*data = found;
	AddJoinPath(root, data);
}

/*
 * --- SELECT count(*) over a join by the node, without forming rows
 *
 * For such a query the node replaces the aggregate too.  If the condition consists of the distance
 * clause and equalities only, every pair that the engine finds counts.  The engine then counts the
 * pairs itself if its distance is exactly the clause's.  The same holds for a.id < b.id over shared
 * rows with unique ids, where each pair is one match.
 */

/*
 * Returns a path that computes count(*) over the join.  No row is formed if the engine counts.  The
 * path's parent remains the join relation, whose relations it represents.
 */
static Path *
CountPath(PlannerInfo *root, const CustomPath *join, Aggref *count)
{
	CustomPath *path = makeNode(CustomPath);
	Path	   *own = &path->path;
	JoinPathData *data = palloc(sizeof(JoinPathData));

	*path = *join;
	*data = *(JoinPathData *) linitial(join->custom_private);
	data->count = count;
	data->distances = NIL;
	data->plan.count = true;
	data->plan.distance_decides =
		list_length(data->restrictlist) ==
		1 + list_length(data->plan.keys[OUTER_SIDE]) + (data->order != NULL) &&
		(data->order == NULL || IsTotalOrder(root, data->rels[OUTER_SIDE], data->order));
	path->custom_private = list_make1(data);
	if (data->plan.distance_decides && IsExactFunction(data->clause.kind.function))
		own->rows = 0.0;
	CostJoin(root, path, data);
	own->total_cost += own->rows * cpu_operator_cost;
	own->rows = 1.0;
	own->startup_cost = own->total_cost;
	own->pathtarget = root->upper_targets[UPPERREL_GROUP_AGG];
	return own;
}

/* Adds the distances to the columns that a path of the node returns. */
static void
ReturnDistances(Path *path, const JoinPathData *data)
{
	path->pathtarget = copy_pathtarget(path->pathtarget);
	add_new_columns_to_pathtarget(path->pathtarget, data->distances);
}

/*
 * Lets inner joins by the node return distances to aggregates and window functions, because PostgreSQL
 * passes only the columns of their arguments.  Adds a count(*) path based on the cheapest such join.
 */
static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	CustomPath *join = NULL;
	Aggref	   *count;
	ListCell   *cell;

	if (previous_upper_hook != NULL)
		previous_upper_hook(root, stage, input, output, extra);
	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_WINDOW) ||
		input->reloptkind != RELOPT_JOINREL || IS_DUMMY_REL(input))
		return;
	foreach(cell, input->pathlist)
	{
		CustomPath *path = lfirst(cell);
		const JoinPathData *data;

		if (IsA(path, ProjectionPath))
			path = (CustomPath *) ((ProjectionPath *) path)->subpath;
		if (!IsA(path, CustomPath) || path->methods != &path_methods)
			continue;
		data = linitial(path->custom_private);
		/* grouping sets null the columns of a distance above the aggregate, but not the distance */
		if (root->parse->groupingSets == NIL)
			ReturnDistances(lfirst(cell), data);
		if (data->plan.type == JOIN_INNER &&
			(join == NULL || path->path.total_cost < join->path.total_cost))
			join = path;
	}
	count = join == NULL || stage == UPPERREL_WINDOW ? NULL : OnlyCount(root);
	if (count != NULL)
		add_path(output, CountPath(root, join, count));
}

void
InstallJoinNode(void)
{
	RegisterCustomScanMethods(&fasted_join_methods);
	previous_join_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = OfferJoin;
	previous_upper_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
	InstallJoinEstimates();
}
