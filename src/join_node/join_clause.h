/*-------------------------------------------------------------------------
 *
 * join_clause.h
 *	  Join clauses that bound the distance of two vectors.
 *
 *	  fasted_within(a, b, x)
 *	  fasted_distance(a, b) < x, or <=, or the other way round
 *	  a <-> b < x, l2_distance(a, b) < x ...	of pgvector's vector and halfvec
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
	FORM_WITHIN,				/* fasted_within: the engine's answer is its own */
	FORM_DISTANCE,				/* fasted_distance: so is the distance */
	FORM_FOREIGN				/* computed in FP32: near x, the clause itself decides */
} DistanceForm;

typedef struct DistanceClause
{
	RestrictInfo *rinfo;		/* all of it */
	DistanceForm form;
	bool		strict;			/* below x; else x too */
	Expr	   *outer;			/* as real[], of the outer side */
	Expr	   *inner;
	Expr	   *radius;			/* x */
} DistanceClause;

/* Is the join clause such a one, for sides of these relations? */
extern bool MatchDistanceClause(RestrictInfo *rinfo, Relids outer, Relids inner,
								DistanceClause *clause);

#endif							/* FASTED_JOIN_CLAUSE_H */
