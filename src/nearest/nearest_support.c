/*-------------------------------------------------------------------------
 *
 * nearest_support.c
 *	  What the planner asks about the functions: rows, cost, what is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "nearest/nearest.h"
#include "nodes/supportnodes.h"
#include "scan/estimate.h"
#include "scan/source_planning.h"

PG_FUNCTION_INFO_V1(fasted_knn_join_support);

/* The arguments from "a" on; NIL: it is no such call. */
static List *
ArgumentsOf(Node *node)
{
	List	   *args = (node != NULL && IsA(node, FuncExpr)) ? ((FuncExpr *) node)->args : NIL;
	int			first = list_length(args) - NEAREST_NARGS;

	return first == 0 || first == 1 ? list_copy_tail(args, first) : NIL;
}

static void
ConsiderSources(PlannerInfo *root, List *args)
{
	if (root == NULL || args == NIL)
		return;
	ConsiderSource(root, list_nth(args, NEAREST_A), list_nth(args, NEAREST_A_COLUMN));
	ConsiderSource(root, list_nth(args, NEAREST_B), list_nth(args, NEAREST_B_COLUMN));
}

static bool
SetRows(SupportRequestRows *request)
{
	List	   *args = ArgumentsOf(request->node);

	if (args == NIL)
		return false;
	request->rows = EstimateNearest(request->root, args).rows;
	return true;
}

static bool
SetCost(SupportRequestCost *request)
{
	List	   *args = ArgumentsOf(request->node);
	NearestEstimate estimate;

	if (args == NIL)
		return false;
	estimate = EstimateNearest(request->root, args);
	request->startup = 0.0;
	request->per_tuple = estimate.read_cost + estimate.compute_cost;
	return true;
}

/* Support function of both forms. */
Datum
fasted_knn_join_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	bool		answered = false;

	if (IsA(request, SupportRequestSimplify))
	{
		SupportRequestSimplify *simplify = (SupportRequestSimplify *) request;

		ConsiderSources(simplify->root, ArgumentsOf((Node *) simplify->fcall));
		/* the call stays as it is */
	}
	else if (IsA(request, SupportRequestRows))
		answered = SetRows((SupportRequestRows *) request);
	else if (IsA(request, SupportRequestCost))
		answered = SetCost((SupportRequestCost *) request);
	PG_RETURN_POINTER(answered ? request : NULL);
}
