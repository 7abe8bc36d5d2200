/*-------------------------------------------------------------------------
 *
 * join_order.c
 *	  Recognises strict orders by their B-tree operators, and compares by these.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_order.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

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
