/*-------------------------------------------------------------------------
 *
 * join_order.c
 *	  Recognises strict orders by their B-tree operators, and compares by these.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_attribute.h"
#include "join_node/join_order.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* A column, perhaps with another name of its type. */
static Var *
AsColumn(Node *node)
{
	while (IsA(node, RelabelType))
		node = (Node *) ((RelabelType *) node)->arg;
	return IsA(node, Var) && ((Var *) node)->varlevelsup == 0 ? (Var *) node : NULL;
}

static bool
AreOneColumn(PlannerInfo *root, const Var *a, const Var *b)
{
	RangeTblEntry *x = planner_rt_fetch(a->varno, root);
	RangeTblEntry *y = planner_rt_fetch(b->varno, root);

	return a->varno != b->varno && a->varattno == b->varattno && a->varattno > 0 &&
		x->rtekind == RTE_RELATION && y->rtekind == RTE_RELATION && x->relid == y->relid;
}

bool
RecognizeRowOrder(PlannerInfo *root, RestrictInfo *rinfo, RowOrder *order)
{
	OpExpr	   *clause = (OpExpr *) rinfo->clause;
	Var		   *left;
	Var		   *right;
	bool		reversed;

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return false;
	left = AsColumn(linitial(clause->args));
	right = AsColumn(lsecond(clause->args));
	if (left == NULL || right == NULL || !AreOneColumn(root, left, right) ||
		!OidIsValid(get_equality_op_for_ordering_op(clause->opno, &reversed)))
		return false;
	*order = (RowOrder) {.rinfo = rinfo,.left = left,.right = right,
		.operator = clause->opno,.collation = clause->inputcollid};
	return true;
}

static bool
IsNeverNull(PlannerInfo *root, const RelOptInfo *rel, AttrNumber column)
{
#if PG_VERSION_NUM >= 170000
	return bms_is_member(column, rel->notnullattnums);
#else
	Oid			table = planner_rt_fetch(rel->relid, root)->relid;
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(column));
	bool		found = HeapTupleIsValid(tuple) && ((Form_pg_attribute) GETSTRUCT(tuple))->attnotnull;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return found;
#endif
}

/* Of all rows, now and not only at the end of a transaction, by the order's own equality. */
static bool
MakesUnique(const IndexOptInfo *index, const RowOrder *order)
{
	return index->unique && index->immediate && !index->hypothetical &&
		index->indpred == NIL && index->nkeycolumns == 1 &&
		index->indexkeys[0] == order->left->varattno &&
		index->indexcollations[0] == order->collation &&
		op_in_opfamily(order->operator, index->opfamily[0]);
}

bool
IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RowOrder *order)
{
	ListCell   *cell;

	if (!IsNeverNull(root, rel, order->left->varattno))
		return false;
	foreach(cell, rel->indexlist)
		if (MakesUnique(lfirst(cell), order))
			return true;
	return false;
}

SortSupport
BeginRowOrder(Oid operator, Oid collation)
{
	SortSupport order = palloc0(sizeof(SortSupportData));

	order->ssup_cxt = CurrentMemoryContext;
	order->ssup_collation = collation;
	/* which makes > of < by turning its answers round */
	PrepareSortSupportFromOrderingOp(operator, order);
	return order;
}
