/*-------------------------------------------------------------------------
 *
 * distance_support.c
 *	  What the planner is told about fasted_within; being asked loads the library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/arguments.h"
#include "distance/distance.h"
#include "distance/distance_share.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"

PG_FUNCTION_INFO_V1(fasted_distance_support);

/* fasted_within(a, b, eps, metric) */
static double
ShareOfCall(PlannerInfo *root, List *args)
{
	Node	   *name = estimate_expression_value(root, lfourth(args));
	FastedMetric metric;

	if (IsA(name, Const) && ((Const *) name)->constisnull)
		return 0.0;
	if (IsA(name, Const) && FindMetric(DatumGetTextPP(((Const *) name)->constvalue), &metric))
		return EstimateShare(root, linitial(args), lsecond(args), lthird(args), metric);
	return EstimateShare(root, linitial(args), lsecond(args), NULL, FASTED_METRIC_L2);
}

Datum
fasted_distance_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestSelectivity))
	{
		SupportRequestSelectivity *selectivity = (SupportRequestSelectivity *) request;

		if (list_length(selectivity->args) == 4)
		{
			selectivity->selectivity = ShareOfCall(selectivity->root, selectivity->args);
			PG_RETURN_POINTER(request);
		}
	}
	PG_RETURN_POINTER(NULL);
}
