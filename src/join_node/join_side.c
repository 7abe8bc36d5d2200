/*-------------------------------------------------------------------------
 *
 * join_side.c
 *	  The planner's view of one side: which columns of it are read, and how.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "join_node/join_node.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "storage/itemptr.h"
#include "utils/rel.h"

Var *
PlaceVar(Index relid)
{
	return makeVar(relid, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);
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

static bool
Uses(Node *node, const Var *column)
{
	ListCell   *cell;

	foreach(cell, pull_var_clause(node, PVC_RECURSE_PLACEHOLDERS))
	{
		const Var  *var = lfirst_node(Var, cell);

		if (var->varno == column->varno && var->varattno == column->varattno)
			return true;
	}
	return false;
}

/* A condition that is checked before the scan is begun, by a node above it. */
static bool
HasGate(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->baserestrictinfo)
		if (lfirst_node(RestrictInfo, cell)->pseudoconstant)
			return true;
	return false;
}

/*
 * Does nobody but the distance clause want the column, and nobody the rows' places, and is
 * the scan the side's plan itself?
 */
bool
CanLeaveVectors(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *side,
				const DistanceClause *clause, List *restrictlist)
{
	Expr	   *vector = clause->first;
	Var		   *place = PlaceVar(side->relid);
	ListCell   *cell;

	if (!IsPlainTable(root, side) || HasGate(side))
		return false;
	if (!IsA(vector, Var) || (Index) ((Var *) vector)->varno != side->relid)
		vector = clause->second;
	if (!IsA(vector, Var) || (Index) ((Var *) vector)->varno != side->relid ||
		((Var *) vector)->varattno <= 0 || Uses((Node *) joinrel->reltarget->exprs, (Var *) vector) ||
		Uses((Node *) joinrel->reltarget->exprs, place))
		return false;
	foreach(cell, restrictlist)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if ((rinfo != clause->rinfo && Uses((Node *) rinfo->clause, (Var *) vector)) ||
			Uses((Node *) rinfo->clause, place))
			return false;
	}
	return IsHeap(root, side);
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

Path *
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
