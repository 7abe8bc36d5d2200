/*-------------------------------------------------------------------------
 *
 * join_bound.h
 *	  From the bound of a distance clause to the engine's eps, and from a vector to the engine's row.
 *
 * The engine's metric, eps and rows are such that the engine misses no pair for which the clause is
 * true.  join_bound.c states the proofs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_BOUND_H
#define FASTED_JOIN_BOUND_H

#include "join_node/join_clause.h"

/* What becomes of a row, according to its vector. */
typedef enum VectorUse
{
	HAS_NO_VECTOR,				/* the vector is null, or a clause on outer columns is false */
	PASSED_TO_ENGINE,
	CLAUSES_DECIDE,				/* its row is a fallback row */
	NEVER_MATCHES
} VectorUse;

/* What is known of the bound in one execution.  Zero before that. */
typedef struct BoundValue
{
	bool		known;			/* the bound has been evaluated: the next fields are set */
	bool		empty;			/* no pair can match */
	bool		clauses_decide; /* no engine: clauses are evaluated for every pair */
	double		radius;			/* the bound as a distance */
	double		surely_within;	/* unless exact: the clause is true below this distance */
	double		norms[2];		/* with has_margin: the greatest norms of both sides so far */
} BoundValue;

typedef struct JoinBound
{
	DistanceKind kind;
	FastedElement element;		/* element type of the engine's rows */
	FastedMetric metric;		/* of the engine.  pgvector's cosine distance: L2 of unit vectors */
	bool		of_pgvector;	/* the distance is pgvector's, and rounded otherwise */
	bool		exact;			/* the engine's distance alone decides the clause */
	bool		has_margin;		/* rows have another dimension for the error of an inner product */
	bool		shared;			/* both sides have the same rows */
	BoundValue	value;
} JoinBound;

/* Returns the bound for clauses of a kind.  The engine's metric is among the fields that it sets. */
extern JoinBound MakeJoinBound(const DistanceKind *kind, FastedElement element, bool shared);

/* Sets the value that the bound has in this execution.  surely_within depends on the dimensions. */
extern void SetBound(JoinBound *bound, Datum value, bool isnull);

/*
 * Returns the engine's eps for vectors with this number of dimensions.  No match is beyond it.  Sets
 * surely_within if it does not depend on the vectors.
 */
extern double EngineEps(JoinBound *bound, int dimensions);

/*
 * Sets surely_within if it depends on the norms of the vectors.  They are known when all vectors
 * have been converted.
 */
extern void FinishSurelyWithin(JoinBound *bound, int dimensions);

/*
 * Converts a vector with this number of dimensions in place to the engine's row, and returns its
 * use.  There must be space for EngineDimensions.
 */
extern VectorUse ConvertVector(JoinBound *bound, int side, float *vector, int dimensions);

/* Returns true if the distance of every row of the engine to itself is 0, and the pair matches. */
extern bool EqualRowsMatch(const JoinBound *bound);

/* Returns true if the engine's distance decides clauses with such a function. */
static inline bool
IsExactFunction(DistanceFunctionKind function)
{
	return function == WITHIN_FUNCTION || function == DISTANCE_FUNCTION;
}

/* Returns true if the engine's rows have a dimension for the error of pgvector's inner product. */
static inline bool
HasMargin(const DistanceKind *kind)
{
	return kind->function == PGVECTOR_DISTANCE && fasted_metric_rules(kind->metric)->negative_product;
}

/* Returns the number of dimensions of the engine's rows, given that of the vectors. */
static inline uint32
EngineDimensions(const JoinBound *bound, int dimensions)
{
	return dimensions + bound->has_margin;
}

#endif							/* FASTED_JOIN_BOUND_H */
