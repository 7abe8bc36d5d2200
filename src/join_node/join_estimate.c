/*-------------------------------------------------------------------------
 *
 * join_estimate.c
 *	  Tells the planner how selective comparisons of a distance are.
 *
 * PostgreSQL assumes a third of all pairs for each inequality, a distance's too.  So
 * before it sizes joins we fill in the places where it keeps a clause's selectivity
 * once it is known: then all joins have it, by whatever method, and what is above.
 * norm_selec is the share of all pairs; outer_selec, in a semi or anti join, that of
 * the outer rows that have a match.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "distance/distance.h"
#include "join_node/join_node.h"
#include "join_node/join_order.h"
#include "optimizer/paths.h"

static set_rel_pathlist_hook_type previous_hook = NULL;

/* The semi or anti join whose condition the clause is; NULL: none. */
static SpecialJoinInfo *
FindSemiJoin(PlannerInfo *root, const RestrictInfo *rinfo)
{
	ListCell   *cell;

	foreach(cell, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst(cell);

		if ((join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
			bms_overlap(rinfo->clause_relids, join->syn_lefthand) &&
			bms_overlap(rinfo->clause_relids, join->syn_righthand))
			return join;
	}
	return NULL;
}

/* The rows of the relations among these that the clause is about. */
static double
RowsOf(PlannerInfo *root, const RestrictInfo *rinfo, Relids relids)
{
	double		rows = 1.0;

	for (int i = -1; (i = bms_next_member(relids, i)) >= 0;)
		if (bms_is_member(i, rinfo->clause_relids) && root->simple_rel_array[i] != NULL)
			rows *= root->simple_rel_array[i]->rows;
	return rows;
}

static void
SetDistanceSelectivity(PlannerInfo *root, const DistanceClause *clause)
{
	double		share = EstimateShare(root, (Node *) clause->first, (Node *) clause->second,
									  (Node *) RadiusOf(clause),
									  clause->cosine ? FASTED_METRIC_COSINE : FASTED_METRIC_L2);
	SpecialJoinInfo *semi = FindSemiJoin(root, clause->rinfo);

	clause->rinfo->norm_selec = clause->rinfo->outer_selec = share;
	/* of rows that lie anywhere, so many have a match */
	if (semi != NULL)
		clause->rinfo->outer_selec =
			-expm1(-share * RowsOf(root, clause->rinfo, semi->syn_righthand));
}

/* Is there an earlier clause of the same relations that bounds a distance? */
static bool
HasRival(List *clauses, const RestrictInfo *rinfo)
{
	DistanceClause other;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *earlier = lfirst_node(RestrictInfo, cell);

		if (earlier == rinfo)
			break;
		if (bms_equal(earlier->required_relids, rinfo->required_relids) &&
			RecognizeDistanceClause(earlier, &other))
			return true;
	}
	return false;
}

/* a.x < b.x beside a distance: of each pair one way round. */
static void
SetOrderSelectivity(PlannerInfo *root, List *clauses, const RestrictInfo *distance)
{
	RowOrder	order;
	ListCell   *cell;

	foreach(cell, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->norm_selec < 0.0 &&
			bms_equal(rinfo->required_relids, distance->required_relids) &&
			RecognizeRowOrder(root, rinfo, &order))
			rinfo->norm_selec = 0.5;
	}
}

static void
EstimateClauses(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	DistanceClause clause;
	ListCell   *cell;

	if (previous_hook != NULL)
		previous_hook(root, rel, rti, rte);
	foreach(cell, rel->joininfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, cell);

		if (rinfo->norm_selec >= 0.0 || rinfo->pseudoconstant ||
			!RecognizeDistanceClause(rinfo, &clause))
			continue;
		/* what two bounds leave is about what one of them does */
		if (HasRival(rel->joininfo, rinfo))
			rinfo->norm_selec = rinfo->outer_selec = 1.0;
		else
			SetDistanceSelectivity(root, &clause);
		SetOrderSelectivity(root, rel->joininfo, rinfo);
	}
}

void
InstallJoinEstimates(void)
{
	previous_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = EstimateClauses;
}
