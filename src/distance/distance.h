/*-------------------------------------------------------------------------
 *
 * distance.h
 *	  SQL functions of two vectors: their distance or similarity, and whether it is within eps.
 *
 * They work in any plan; join_node/ uses an engine for joins on them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISTANCE_H
#define FASTED_DISTANCE_H

#include "engine/engine.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"

/*
 * The canonical distance of two vectors, bit for bit as engines compute it.  Doubles for
 * a cosine distance must have been scaled by fasted_scale_direction.  The cosine distance
 * of a zero vector is NaN.
 */
extern double ExactDistance(FastedMetric metric, FastedElement element, const float *x,
							const float *y, uint32 dimensions);

/* What a function computes of two vectors, and how it rounds. */
typedef enum DistanceFunctionKind
{
	WITHIN_FUNCTION,			/* fasted_within; an eps below every distance is an error */
	DISTANCE_FUNCTION,			/* the canonical distance, by fasted or pgvector */
	SIMILARITY_FUNCTION,		/* a similarity of fasted, rounded otherwise than its distance */
	PGVECTOR_DISTANCE,			/* rounded otherwise than the canonical one: in FP32, unless of bits */
	PGVECTOR_PRODUCT			/* the negative of such a distance */
} DistanceFunctionKind;

/* A function of two vectors that joins recognize. */
typedef struct DistanceFunction
{
	const char *name;
	PGFunction	address;		/* NULL: a function of pgvector, known by its name only */
	DistanceFunctionKind kind;
	FastedMetric metric;		/* WITHIN_FUNCTION: any metric of the same kind of elements */
} DistanceFunction;

/*
 * Returns the description of the function that is called with these arguments, or NULL if joins do
 * not recognize it.  A function of pgvector must belong to the extension, and its arguments must be
 * bits, or of a type of pgvector that has an immutable cast to real[].
 */
extern const DistanceFunction *FindDistanceFunction(Oid funcid, List *args);

/* Returns true if the object of this catalog belongs to the extension pgvector. */
extern bool IsOfPgvector(Oid class, Oid object);

/* Returns a copy of the expression with an explicit cast, or NULL if there is no cast. */
extern Node *CastVector(Node *vector, Oid type);

/* --- estimate.c: from the statistics of ANALYZE, as far as the current user may see them */

/*
 * The number of dimensions, for estimates of costs; 0 if unknown.  32 bits count as one dimension.
 * A type modifier needs no privilege.
 */
extern double KnownDimensions(Oid relid, AttrNumber column);

/* Estimated number of distinct values of a column in this number of rows. */
extern double EstimateGroups(Oid relid, AttrNumber column, double rows);

/*
 * The fraction of all pairs of rows that are within eps of each other, estimated from the
 * vectors in the column's statistics.  Returns a negative number if no statistics have
 * vectors of the metric.  children says whether to include the rows of child tables.
 */
extern double ShareWithin(Oid relid, AttrNumber column, bool children, FastedMetric metric,
						  double eps);

/*
 * Estimates the fraction of pairs of rows whose vectors a and b are within eps, from the
 * statistics of ANALYZE.  Assumes a few neighbours for each row if there are none, or if
 * eps is NULL or not known yet.  The metric does not matter if eps is NULL.
 */
extern double EstimateSelectivity(PlannerInfo *root, Node *a, Node *b, Node *eps,
								  FastedMetric metric);

#endif							/* FASTED_DISTANCE_H */
