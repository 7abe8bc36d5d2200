/*-------------------------------------------------------------------------
 *
 * distance_support.c
 *	  What the planner is told about fasted_within; being asked loads the library.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "distance/distance.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "scan/distance_statistics.h"
#include "session/arguments.h"

PG_FUNCTION_INFO_V1(fasted_distance_support);

/* Rows within eps of a row, where nothing is known. */
#define DEFAULT_NEIGHBOURS 10.0

/* The share of a column's pairs of rows that are within eps; negative: not known. */
static double
ShareOfColumn(PlannerInfo *root, Node *vector, FastedMetric metric, double eps, double *rows)
{
	List	   *vars = pull_var_clause(vector, PVC_RECURSE_PLACEHOLDERS);
	Var		   *var = list_length(vars) == 1 ? linitial_node(Var, vars) : NULL;
	RangeTblEntry *rte;

	if (var == NULL || var->varlevelsup > 0 || IS_SPECIAL_VARNO(var->varno))
		return -1.0;
	rte = planner_rt_fetch(var->varno, root);
	if (rte->rtekind != RTE_RELATION || var->varattno <= 0)
		return -1.0;
	if (root->simple_rel_array != NULL && root->simple_rel_array[var->varno] != NULL)
		*rows = Max(*rows, root->simple_rel_array[var->varno]->tuples);
	return ShareWithin(rte->relid, var->varattno, metric, eps);
}

static bool
IsNull(const Node *node)
{
	return IsA(node, Const) && ((const Const *) node)->constisnull;
}

/* Of two columns, that of the one whose rows are closer together. */
static double
EstimateShare(PlannerInfo *root, List *args)
{
	Node	   *radius = estimate_expression_value(root, lthird(args));
	Node	   *name = estimate_expression_value(root, lfourth(args));
	FastedMetric metric = FASTED_METRIC_L2;
	double		rows = DEFAULT_NEIGHBOURS;
	double		share = -1.0;
	double		eps;

	if (IsNull(radius) || IsNull(name))
		return 0.0;
	eps = IsA(radius, Const) ? DatumGetFloat8(((Const *) radius)->constvalue) : -1.0;
	if (!IsA(name, Const) || !FindMetric(DatumGetTextPP(((Const *) name)->constvalue), &metric))
		eps = -1.0;
	for (int i = 0; i < 2; i++)
	{
		double		own = ShareOfColumn(root, list_nth(args, i), metric, eps, &rows);

		if (eps >= 0.0)
			share = Max(share, own);
	}
	return share >= 0.0 ? share : Min(1.0, DEFAULT_NEIGHBOURS / rows);
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
			selectivity->selectivity = EstimateShare(selectivity->root, selectivity->args);
			PG_RETURN_POINTER(request);
		}
	}
	PG_RETURN_POINTER(NULL);
}
