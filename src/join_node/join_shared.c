/*-------------------------------------------------------------------------
 *
 * join_shared.c
 *	  Joins of a relation with itself, whose sides have the same rows.
 *
 * They are read once, each pair is found once, and is a match both ways.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "join_node/join_node.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

Node *
AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner)
{
	node = copyObject(node);
	ChangeVarNodes(node, inner->relid, outer->relid, 0);
	return node;
}

bool
IsPlainTable(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte;

	if (rel->reloptkind != RELOPT_BASEREL || rel->rtekind != RTE_RELATION)
		return false;
	rte = planner_rt_fetch(rel->relid, root);
	return !rte->inh && rte->tablesample == NULL &&
		(rte->relkind == RELKIND_RELATION || rte->relkind == RELKIND_MATVIEW);
}

static bool
HasClause(List *restrictlist, Node *clause)
{
	ListCell   *cell;

	foreach(cell, restrictlist)
		if (equal(lfirst_node(RestrictInfo, cell)->clause, clause))
			return true;
	return false;
}

/* Are all clauses of one side ones of the other?  A clause may be there twice. */
static bool
HasAllClauses(RelOptInfo *rel, RelOptInfo *other)
{
	ListCell   *cell;

	foreach(cell, other->baserestrictinfo)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, cell)->clause;

		if (contain_volatile_functions(clause) ||
			!HasClause(rel->baserestrictinfo, AsOuter(clause, rel, other)))
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

bool
SidesAreAlike(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner, const DistanceClause *clause)
{
	if (!IsPlainTable(root, outer) || !IsPlainTable(root, inner) ||
		planner_rt_fetch(outer->relid, root)->relid != planner_rt_fetch(inner->relid, root)->relid ||
		outer->userid != inner->userid || !HasOnlyColumns(inner))
		return false;
	return HasAllClauses(outer, inner) && HasAllClauses(inner, outer) &&
		equal(clause->outer, AsOuter((Node *) clause->inner, outer, inner));
}
