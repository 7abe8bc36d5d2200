/*-------------------------------------------------------------------------
 *
 * join_plan.h
 *	  The plan data of the join node, and how a CustomScan holds it.
 *
 * The scan tuple of the node consists of an outer row followed by an inner row.  All expressions
 * are evaluated on the scan tuple.  Expressions of one side are evaluated while the other side's
 * columns are null.  If the node computes count(*), that is the last column.
 *
 * In arrays of two elements, element 0 belongs to the outer side and element 1 to the inner side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_PLAN_H
#define FASTED_JOIN_PLAN_H

#include "join_node/join_clause.h"
#include "nodes/plannodes.h"

/* A new field also needs a row in plan_fields (join_plan.c). */
typedef struct JoinPlan
{
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceKind distance;
	bool		count;			/* return count(*) in the last column of the scan tuple */
	bool		distance_decides;	/* count every pair within the radius that has equal keys */
	bool		shared;			/* self-join of identical rows, which are read once */
	int			outer_columns;	/* outer columns of the scan tuple; inner columns follow */

	int			late_vector[2]; /* child plan's column of late vectors; -1: none */
	int			late_ctid[2];	/* column of its row's ctid */
	int			order_qual;		/* index of the row-ordering clause in join_quals; -1: none */
	int			distance_qual;	/* index of the distance clause in join_quals */
	int			outer_quals;	/* number of leading join_quals that use only outer columns */

	List	   *shared_columns; /* IntList: for each inner column, the outer column that holds it */
	List	   *hashes[2];		/* OidLists: hash functions of the equality clauses */
	List	   *key_collations; /* OidList */

	/* expressions over the scan tuple */
	Expr	   *vectors[2];
	Expr	   *bound;			/* bound of the distance or similarity */
	List	   *keys[2];		/* operands of the equality clauses */
	List	   *join_quals;		/* all join clauses, in evaluation order */
	List	   *other_quals;	/* filters above an outer join */
} JoinPlan;

/* Stores the plan data in the lists of a CustomScan, without a copy of the expressions. */
extern void WriteJoinPlan(const JoinPlan *plan, CustomScan *scan);

/* Returns the plan data of a CustomScan.  Its lists and expressions are those of the plan. */
extern JoinPlan ReadJoinPlan(const CustomScan *scan);

#endif							/* FASTED_JOIN_PLAN_H */
