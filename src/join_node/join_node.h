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
#include "join_node/join_order.h"
#include "nodes/extensible.h"
#include "nodes/plannodes.h"

/* What a plan holds, beside the plans of both sides. */
typedef struct JoinPlan
{
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	bool		count;			/* the only row is the number of matches: the last column of the scan tuple */
	bool		distance_decides;	/* then: a pair within the radius, of equal keys, is to be counted */
	DistanceForm form;
	bool		cosine;
	bool		strict;
	bool		similarity;
	int			outer_columns;	/* of the scan tuple; those of the inner side follow */

	/*
	 * One relation with itself, and the same rows of it: read once.  Which columns of
	 * the outer side's the inner one's are; NIL: it is read by itself.
	 */
	List	   *shared_columns;
	bool		shared;

	/*
	 * By side (0: outer, 1: inner, unless shared): which column of it is the vector,
	 * and which its place in the table, if it is left there; else -1.
	 */
	int			left_vector[2];
	int			left_place[2];

	/*
	 * Shared rows: a clause that puts them in order, by a column of the outer side's.
	 * InvalidOid: there is none.
	 */
	Oid			order_operator;
	Oid			order_collation;
	int			order_column;
	bool		order_swapped;	/* it is inner < outer */
	int			order_qual;		/* which of the join quals; -1: none */
	Expr	   *outer;			/* vectors, of the scan tuple */
	Expr	   *inner;
	Expr	   *bound;			/* what the distance or the similarity is compared with */
	List	   *join_quals;		/* all of them, in the order of evaluation */
	int			distance_qual;	/* which of them bounds the distance */
	int			outer_quals;	/* so many of them come before all others, and are about the outer side alone */
	bool		may_raise;		/* the evaluation of a vector that other clauses leave out can be an error */
	List	   *other_quals;	/* above an outer join */
	List	   *one_time_quals; /* about neither side: false, and there is no row */

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
	List	   *one_time;		/* its pseudoconstant clauses, which are not in that list */
	Index		nulling_join;	/* the outer join that makes nulls of inner columns; 0: none, or not said */
	double		group_share;	/* of pairs of rows, that have equal keys */
	RelOptInfo *outer;
	RelOptInfo *inner;
	ParamPathInfo *outside;		/* relations that sides depend on; NULL: none */
	bool		shared;
	bool		may_raise;		/* see JoinPlan */
	bool		left[2];		/* vectors are left in their table; shared: the first */
	RowOrder	order;			/* of shared rows; without a clause: there is none */
	List	   *keys;			/* GroupKeys */
	Aggref	   *count;			/* count(*) of it; NULL: its rows */
	bool		distance_decides;	/* see JoinPlan */
} JoinPathData;

/* join_shared.c: do both sides read the same rows of one relation, with one vector each? */
extern bool SidesAreAlike(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner,
						  const DistanceClause *clause);

/* A table of its own, all of which is read. */
extern bool IsPlainTable(PlannerInfo *root, RelOptInfo *rel);

/* Can the vectors of the side, of a join of these clauses, be left in their table? */
extern bool CanLeaveVectors(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *side,
							const DistanceClause *clause, List *restrictlist);

/* The path of a side's rows: for the inner side too, if that is not NULL; with their places. */
extern Path *PathOfSide(PlannerInfo *root, RelOptInfo *side, RelOptInfo *inner, bool places);

/* The place of a row of a table. */
extern Var *PlaceVar(Index relid);

/* An expression of the inner side as one of the outer side's. */
extern Node *AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner);

/* join_plan.c */
extern Plan *PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						  List *clauses, List *custom_plans);

/* join_exec.c */
extern const CustomScanMethods fasted_join_methods;

/* join_estimate.c */
extern void InstallJoinEstimates(void);

/* join_count.c */
extern void InstallJoinCount(void);

/* join_path.c */
extern bool IsJoinPath(const Path *path);
extern void CostJoin(PlannerInfo *root, CustomPath *path, const JoinPathData *data);
extern void InstallJoinNode(void);

#endif							/* FASTED_JOIN_NODE_H */
