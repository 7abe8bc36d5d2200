/*-------------------------------------------------------------------------
 *
 * join_clause.h
 *	  Join clauses that bound the distance of two vectors.
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, or <=, or the other way round
 *	  fasted_cosine_distance(a, b) < x ...
 *	  a <-> b < x, a <=> b < x ...	of pgvector's vector and halfvec; also as functions
 *	  1 - (a <=> b) > y		of those, and 1 - fasted_cosine_distance(a, b) > y
 *
 * a is of one side of the join and b of the other; x has one value while the
 * join is computed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_CLAUSE_H
#define FASTED_JOIN_CLAUSE_H

#include "nodes/pathnodes.h"

typedef enum DistanceForm
{
	FORM_WITHIN,				/* fasted_within: x must not be negative */
	FORM_DISTANCE,				/* a distance of ours */
	FORM_FOREIGN				/* one that is computed in FP32 */
} DistanceForm;

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

/* Is the clause such a one?  Which side the vectors are of is not asked: no outer, inner. */
extern bool RecognizeDistanceClause(RestrictInfo *rinfo, DistanceClause *clause);

/* The same for sides of these relations. */
extern bool MatchDistanceClause(RestrictInfo *rinfo, Relids outer, Relids inner,
								DistanceClause *clause);

/*
 * The expression of the distance up to which pairs satisfy the clause: the bound, or 1 minus
 * the bound of a similarity.
 */
extern Expr *RadiusOf(const DistanceClause *clause);

/*
 * Can the evaluation of a vector or of a bound raise an error?  The answer is false only for
 * columns, constants, parameters, those casts that accept every value, sums and differences.
 */
extern bool MayRaise(const Node *expr);

#endif							/* FASTED_JOIN_CLAUSE_H */
