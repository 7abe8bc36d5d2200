/*-------------------------------------------------------------------------
 *
 * join_clause.h
 *	  Recognizes join clauses that bound the distance of two vectors, and clauses that order the
 *	  rows of a self-join; estimates their selectivity.
 *
 * In arrays of two elements, element 0 belongs to the outer side and element 1 to the inner side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_CLAUSE_H
#define FASTED_JOIN_CLAUSE_H

#include "distance/distance.h"
#include "engine/metric_rules.h"
#include "nodes/pathnodes.h"

#define OUTER_SIDE 0
#define INNER_SIDE 1

typedef struct DistanceKind
{
	DistanceFunctionKind function;	/* not PGVECTOR_PRODUCT */
	FastedMetric metric;
	bool		strict;			/* < or >; false: <= or >= */
	bool		similarity;		/* a similarity is compared; 1 - NaN exceeds every bound */
} DistanceKind;

/*
 * A join clause that bounds the distance of two vectors:
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, also with <= or with the operands exchanged
 *	  fasted_cosine_distance(a, b) < x ..., and the other distances of fasted
 *	  a <-> b < x, a <=> b < x, a <#> b < x ...
 *							for arrays, and for pgvector's vector and halfvec; also as functions
 *	  a <~> b < x, a <%> b < x ...	for bits; also as pgvector's functions
 *	  fasted_cosine_similarity(a, b) > y, fasted_jaccard_similarity(a, b) > y, also with >=
 *	  1 - (a <=> b) > y, 1 - (a <%> b) > y
 *							for pgvector, and 1 - fasted_cosine_distance(a, b) > y ...
 *	  -(a <#> b) > z, (a <#> b) * -1 > z, inner_product(a, b) > z
 *							as a <#> b < x, where x = -z
 *	  (a <~> b) / n < q		as a <~> b <= x, for constants n and q
 *	  (one of these) IS TRUE
 *
 * The vectors a and b belong to different sides of the join.  The bound x or y is constant during
 * the join.
 */
typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* the whole clause */
	DistanceKind kind;
	Expr	   *written[2];		/* a and b as written in the query */
	Expr	   *vectors[2];		/* cast to real[], unless they are double precision[] or bits */
	Expr	   *bound;			/* x or y, as double precision */
} DistanceClause;

/*
 * Returns true and fills in *clause, except the vectors to be read, if rinfo is such a comparison, of
 * any vectors and with any bound.
 */
extern bool RecognizeDistance(RestrictInfo *rinfo, DistanceClause *clause);

/* Returns true and fills in *clause if rinfo is a distance clause with one vector from each side. */
extern bool MatchDistanceClause(RestrictInfo *rinfo, RelOptInfo *const rels[2],
								DistanceClause *clause);

/*
 * Returns true if evaluating the expression may raise an error.  Returns false only for columns,
 * constants, parameters, casts that accept every value, sums and differences.  A subquery may raise
 * one.  root is the PlannerInfo.
 */
extern bool MayRaise(Node *expr, void *root);

/*
 * Returns true if the clause compares one column of both rows, as in a.x < b.x.  In a self-join,
 * such a clause determines which row of a pair is the outer row.  It also excludes pairs of a row
 * with itself.
 */
extern bool IsRowOrder(PlannerInfo *root, const RestrictInfo *rinfo);

/* Returns true if the column is unique and not null, so that the clause orders all row pairs. */
extern bool IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RestrictInfo *order);

/* Installs a planner hook that sets the selectivity of distance clauses. */
extern void InstallJoinEstimates(void);

#endif							/* FASTED_JOIN_CLAUSE_H */
