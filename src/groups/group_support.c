/*-------------------------------------------------------------------------
 *
 * group_support.c
 *	  What the planner asks about the functions: rows, cost, what is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "groups/group_function.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "scan/estimate.h"
#include "scan/source_planning.h"

PG_FUNCTION_INFO_V1(fasted_groups_support);

/* The arguments from "relation" on; NIL: it is no such call. */
static List *
ArgumentsOf(Node *node)
{
	List	   *args = (node != NULL && IsA(node, FuncExpr)) ? ((FuncExpr *) node)->args : NIL;

	if (list_length(args) <= GROUP_OWN)
		return NIL;
	/* behind "relation" comes a name; behind id_type, of whatever type, "relation" */
	return exprType(lsecond(args)) == NAMEOID ? args : list_copy_tail(args, 1);
}

/* Support function of all of them, in both forms. */
Datum
fasted_groups_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	List	   *args;
	double		rows;
	Cost		cost;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;

		args = ArgumentsOf((Node *) simplify->fcall);
		if (simplify->root != NULL && args != NIL)
			ConsiderSource(simplify->root, list_nth(args, GROUP_RELATION),
						   list_nth(args, GROUP_COLUMN));
		PG_RETURN_POINTER(NULL);	/* the call stays as it is */
	}
	if (IsA(request, SupportRequestRows))
	{
		SupportRequestRows *estimate = (SupportRequestRows *) request;

		args = ArgumentsOf(estimate->node);
		if (args == NIL)
			PG_RETURN_POINTER(NULL);
		EstimateRowFunction(estimate->root, args, &rows, &cost);
		estimate->rows = rows;
		PG_RETURN_POINTER(request);
	}
	if (IsA(request, SupportRequestCost))
	{
		SupportRequestCost *estimate = (SupportRequestCost *) request;

		args = ArgumentsOf(estimate->node);
		if (args == NIL)
			PG_RETURN_POINTER(NULL);
		EstimateRowFunction(estimate->root, args, &rows, &cost);
		estimate->startup = 0.0;
		estimate->per_tuple = cost;
		PG_RETURN_POINTER(request);
	}
	PG_RETURN_POINTER(NULL);
}
