/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A join method of the planner: two relations, joined by an engine.  What is known while a
 *	  query is planned: clauses, paths, and what a plan holds.
 *
 * The node is offered where a join clause bounds the distance of two vectors (DistanceClause).
 * Both sides are read, their rows are kept (KeptRows), and their vectors are given to an
 * engine.  The pairs that the engine finds are checked by the other clauses, so the result is
 * that of a nested loop.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* --- join_clause.c: clauses that the node knows */

typedef enum DistanceForm
{
	FORM_WITHIN,				/* fasted_within: x must not be negative */
	FORM_DISTANCE,				/* a distance of ours */
	FORM_FOREIGN				/* one that is computed in FP32 */
} DistanceForm;

/*
 * A join clause that bounds the distance of two vectors:
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, or <=, or the other way round
 *	  fasted_cosine_distance(a, b) < x ...
 *	  a <-> b < x, a <=> b < x ...	of pgvector's vector and halfvec; also as functions
 *	  1 - (a <=> b) > y		of those, and 1 - fasted_cosine_distance(a, b) > y
 *
 * a is of one side of the join and b of the other; x has one value while the join is computed.
 */
typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* all of it */
	DistanceForm form;
	bool		cosine;			/* else Euclidean: then the engine's distance is ours */
	bool		strict;			/* below x; else x too */
	bool		similarity;		/* 1 - distance is compared with the bound: NaN is no small one */
	Expr	   *first;			/* both vectors, as they are written */
	Expr	   *second;
	Expr	   *outer;			/* as real[] or double precision[], of the outer side */
	Expr	   *inner;
	Expr	   *bound;			/* x or y, as double precision */
} DistanceClause;

/* Is the clause such a clause, with one vector of each side? */
extern bool MatchDistanceClause(RestrictInfo *rinfo, Relids outer, Relids inner,
								DistanceClause *clause);

/*
 * Can the evaluation of vectors or of a bound raise an error?  The answer is false only for
 * columns, constants, parameters, those casts that accept every value, sums and differences.
 */
extern bool MayRaise(Node *expr, void *context);

/*
 * A clause that puts the rows of a pair in order: a.x < b.x, of one column.  In a join of a
 * relation with itself it says of each pair which of its rows is the outer one, if any, and
 * that no row meets itself.
 */
typedef struct RowOrder
{
	RestrictInfo *rinfo;
	Var		   *left;			/* comes before the right one */
	Var		   *right;
	Oid			operator;		/* as it is written */
	Oid			collation;
} RowOrder;

/* Is the clause such an order?  Otherwise *order is left as it is. */
extern bool RecognizeRowOrder(PlannerInfo *root, RestrictInfo *rinfo, RowOrder *order);

/* Are no two rows alike in that column of the table, so that each pair has an order? */
extern bool IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RowOrder *order);

/* Tells the planner the selectivity of comparisons of a distance. */
extern void InstallJoinEstimates(void);

/* --- join_plan.c: what a plan holds, beside the plans of both sides */

typedef struct JoinPlan
{
	/* Numbers, up to shared_columns. */
	JoinType	type;			/* INNER, LEFT, SEMI or ANTI */
	DistanceForm form;
	bool		cosine;
	bool		strict;
	bool		similarity;
	bool		may_raise;		/* the evaluation of a vector that other clauses leave out can be an error */
	bool		count;			/* the only row is the number of matches: the last column of the scan tuple */
	bool		distance_decides;	/* then: a pair within the radius, of equal keys, is to be counted */
	int			outer_columns;	/* of the scan tuple; those of the inner side follow */

	/*
	 * By side (0: outer, 1: inner): which column of its rows is the vector, and which its place
	 * in the table, if it is left there; else -1.  Shared rows: the same of both.
	 */
	int			left_vector[2];
	int			left_place[2];

	/* Shared rows: a clause that puts them in order, by a column of the outer side's. */
	Oid			order_operator;
	Oid			order_collation;
	int			order_column;
	bool		order_swapped;	/* it is inner < outer */
	int			order_qual;		/* which of the join quals; -1: none */
	int			distance_qual;	/* which of them bounds the distance */
	int			outer_quals;	/* so many of them come before all others, and are about the outer side alone */

	/*
	 * One relation with itself, and the same rows of it: read once.  Which columns of
	 * the outer side's the inner one's are; NIL: it is read by itself.
	 */
	bool		shared;
	List	   *shared_columns;

	/* Equalities beside the distance: hash functions, collations, expressions of the scan tuple. */
	List	   *outer_hashes;
	List	   *inner_hashes;
	List	   *key_collations;
	List	   *outer_keys;
	List	   *inner_keys;

	Expr	   *outer;			/* vectors, of the scan tuple */
	Expr	   *inner;
	Expr	   *bound;			/* what the distance or the similarity is compared with */
	List	   *join_quals;		/* all of them, in the order of evaluation */
	List	   *other_quals;	/* above an outer join */
	List	   *one_time_quals; /* about neither side: false, and there is no row */
} JoinPlan;

extern Plan *PlanJoinNode(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist,
						  List *clauses, List *custom_plans);
extern JoinPlan ReadJoinPlan(const CustomScan *scan);

/* --- join_path.c: what a path holds */

typedef struct JoinPathData
{
	DistanceClause clause;
	JoinPlan	plan;			/* what is known of it: type, flags, and keys as they are in clauses */
	List	   *restrictlist;	/* all clauses that are not pseudoconstant */
	List	   *quals;			/* those of the join itself */
	List	   *above;			/* those above an outer join */
	List	   *one_time;		/* pseudoconstant clauses */
	Index		nulling_join;	/* the outer join that makes nulls of inner columns; 0: none, or not said */
	double		group_share;	/* of pairs of rows, that have equal keys */
	RelOptInfo *outer;
	RelOptInfo *inner;
	ParamPathInfo *outside;		/* relations that sides depend on; NULL: none */
	Var		   *left[2];		/* vectors that are left in their table; shared: both or none */
	RowOrder	order;			/* of shared rows; without a clause: there is none */
	Aggref	   *count;			/* count(*) of it; NULL: its rows */
} JoinPathData;

/* The place of a row of a table. */
extern Var *PlaceVar(Index relid);

/* An expression of the inner side as one of the outer side's. */
extern Node *AsOuter(Node *node, RelOptInfo *outer, RelOptInfo *inner);

/*
 * Adds the clause to the keys, if it is an equality of an expression of each side: only rows
 * with equal keys meet.  Returns false if it is no such equality (join_clause.c).
 */
extern bool AddGroupKey(RestrictInfo *rinfo, JoinPathData *data);

extern void InstallJoinNode(void);

/* join_exec.c */
extern const CustomScanMethods fasted_join_methods;

#endif							/* FASTED_JOIN_NODE_H */
