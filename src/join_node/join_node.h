/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A join method of the planner: two relations, joined by an engine.
 *
 * Offered where a join clause bounds the distance of two vectors (join_clause.h).
 * Both sides are read, their rows are kept (kept_rows.h), and their vectors go to an
 * engine; what it finds is checked by the other clauses.  So the result is the
 * nested loop's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

#include "join_node/join_clause.h"
#include "join_node/join_groups.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* What a plan holds, beside the plans of both sides. */
typedef struct JoinPlan
{
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceForm form;
	bool		cosine;
	bool		strict;
	int			outer_columns;	/* of the scan tuple; those of the inner side follow */

	/*
	 * One relation with itself, and the same rows of it: read once.  Which columns of
	 * the outer side's the inner one's are; NIL: it is read by itself.
	 */
	List	   *shared_columns;
	bool		shared;
	Expr	   *outer;			/* vectors, of the scan tuple */
	Expr	   *inner;
	Expr	   *radius;
	List	   *join_quals;		/* all of them, in the order of evaluation */
	int			distance_qual;	/* which of them bounds the distance */
	List	   *other_quals;	/* above an outer join */

	/* Equalities beside the distance: expressions, hash functions, collations. */
	List	   *outer_keys;
	List	   *inner_keys;
	List	   *outer_hashes;
	List	   *inner_hashes;
	List	   *key_collations;
} JoinPlan;

extern void WriteJoinPlan(const JoinPlan *plan, CustomScan *scan);
extern JoinPlan ReadJoinPlan(const CustomScan *scan);

/* What a path holds. */
typedef struct JoinPathData
{
	DistanceClause clause;
	JoinType	type;
	List	   *restrictlist;
	SpecialJoinInfo *sjinfo;
	RelOptInfo *outer;
	RelOptInfo *inner;
	bool		shared;
	List	   *keys;			/* GroupKeys */
} JoinPathData;

/* join_shared.c: do both sides read the same rows of one relation, with one vector each? */
extern bool SidesAreAlike(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner,
						  const DistanceClause *clause);

/* The path of the outer side, with what the inner one needs of its rows. */
extern Path *SharedPath(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner);

/* An expression of the inner side as one of the outer side's. */
extern Node *AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner);

/* join_plan.c */
extern Plan *PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						  List *clauses, List *custom_plans);

/* join_exec.c */
extern const CustomScanMethods fasted_join_methods;

/* join_estimate.c */
extern void InstallJoinEstimates(void);

/* join_path.c */
extern void InstallJoinNode(void);

#endif							/* FASTED_JOIN_NODE_H */
