/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  Estimates the selectivity of a bound on the distance of two vectors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distance/distance.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rows/source.h"

/* Assumed number of rows within eps of each row, without statistics. */
#define DEFAULT_NEIGHBOURS 10.0

/* The only column of a table in the vector expression; NULL if there is none, or several. */
static Var *
OnlyColumn(PlannerInfo *root, Node *vector)
{
	/* in HAVING, the expression may contain aggregates */
	List	   *vars = pull_var_clause(vector, PVC_RECURSE_PLACEHOLDERS | PVC_INCLUDE_AGGREGATES |
									   PVC_INCLUDE_WINDOWFUNCS);
	Var		   *var = list_length(vars) == 1 ? linitial(vars) : NULL;

	if (var == NULL || !IsA(var, Var) || var->varlevelsup > 0 || IS_SPECIAL_VARNO(var->varno) ||
		var->varattno <= 0 || planner_rt_fetch(var->varno, root)->rtekind != RTE_RELATION)
		return NULL;
	return var;
}

double
EstimateSelectivity(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric)
{
	Node	   *radius = eps == NULL ? NULL : estimate_expression_value(root, eps);
	bool		known = radius != NULL && IsA(radius, Const);
	Var		   *columns[2] = {OnlyColumn(root, a), OnlyColumn(root, b)};
	double		rows = DEFAULT_NEIGHBOURS;
	double		selectivity = -1.0;

	if (known && ((Const *) radius)->constisnull)
		return 0.0;
	if (columns[0] != NULL && columns[1] != NULL && columns[0]->varattno == columns[1]->varattno &&
		planner_rt_fetch(columns[0]->varno, root)->relid == planner_rt_fetch(columns[1]->varno, root)->relid)
		columns[1] = NULL;
	/* for two columns, use the greater fraction */
	for (int i = 0; i < 2; i++)
	{
		double		distance = known ? DatumGetFloat8(((Const *) radius)->constvalue) : 0.0;
		const RangeTblEntry *rte;
		const RelOptInfo *rel;

		if (columns[i] == NULL)
			continue;
		rel = root->simple_rel_array == NULL ? NULL : root->simple_rel_array[columns[i]->varno];
		if (rel != NULL)
			rows = Max(rows, rel->tuples);
		rte = planner_rt_fetch(columns[i]->varno, root);
		if (known && distance >= LeastDistance(metric))
			selectivity = Max(selectivity, ShareWithin(rte->relid, columns[i]->varattno, rte->inh,
													   metric, distance));
	}
	return selectivity >= 0.0 ? selectivity : Min(1.0, DEFAULT_NEIGHBOURS / rows);
}
