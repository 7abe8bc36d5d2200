/*-------------------------------------------------------------------------
 *
 * distance_share.c
 *	  Finds the columns behind two vectors, and asks their statistics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distance/distance_share.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "rows/distance_statistics.h"

/* Rows within eps of a row, where nothing is known. */
#define DEFAULT_NEIGHBOURS 10.0

/* The column of a table that the vector is made of; NULL: there is no such one. */
static Var *
ColumnOf(PlannerInfo *root, Node *vector)
{
	/* in HAVING it may be made of aggregates */
	List	   *vars = pull_var_clause(vector, PVC_RECURSE_PLACEHOLDERS | PVC_INCLUDE_AGGREGATES |
									   PVC_INCLUDE_WINDOWFUNCS);
	Var		   *var = list_length(vars) == 1 ? linitial(vars) : NULL;

	if (var == NULL || !IsA(var, Var) || var->varlevelsup > 0 || IS_SPECIAL_VARNO(var->varno) ||
		var->varattno <= 0 || planner_rt_fetch(var->varno, root)->rtekind != RTE_RELATION)
		return NULL;
	return var;
}

static double
RowsOf(PlannerInfo *root, const Var *column)
{
	if (root->simple_rel_array == NULL || root->simple_rel_array[column->varno] == NULL)
		return 0.0;
	return root->simple_rel_array[column->varno]->tuples;
}

/* The share of a column's pairs of rows that are within eps; negative: not known. */
static double
ShareOfColumn(PlannerInfo *root, const Var *column, FastedMetric metric, double eps)
{
	const RangeTblEntry *rte = planner_rt_fetch(column->varno, root);

	return ShareWithin(rte->relid, column->varattno, rte->inh, metric, eps);
}

static bool
IsSameColumn(PlannerInfo *root, const Var *a, const Var *b)
{
	return a->varattno == b->varattno &&
		planner_rt_fetch(a->varno, root)->relid == planner_rt_fetch(b->varno, root)->relid;
}

double
EstimateShare(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric)
{
	Node	   *radius = eps == NULL ? NULL : estimate_expression_value(root, eps);
	bool		known = radius != NULL && IsA(radius, Const);
	Var		   *columns[2] = {ColumnOf(root, a), ColumnOf(root, b)};
	double		rows = DEFAULT_NEIGHBOURS;
	double		share = -1.0;

	if (known && ((Const *) radius)->constisnull)
		return 0.0;
	if (columns[0] != NULL && columns[1] != NULL && IsSameColumn(root, columns[0], columns[1]))
		columns[1] = NULL;
	/* of two columns, that of the one whose rows are closer together */
	for (int i = 0; i < 2; i++)
	{
		double		distance = known ? DatumGetFloat8(((Const *) radius)->constvalue) : -1.0;

		if (columns[i] == NULL)
			continue;
		rows = Max(rows, RowsOf(root, columns[i]));
		if (distance >= 0.0)
			share = Max(share, ShareOfColumn(root, columns[i], metric, distance));
	}
	return share >= 0.0 ? share : Min(1.0, DEFAULT_NEIGHBOURS / rows);
}
