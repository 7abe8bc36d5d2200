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

extern PGDLLEXPORT Datum fasted_distance(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_cosine_distance(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_negative_inner_product(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_hamming_distance(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_jaccard_distance(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_cosine_similarity(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_jaccard_similarity(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_within(PG_FUNCTION_ARGS);

/*
 * The canonical distance of two vectors, bit for bit as engines compute it.  Doubles for
 * a cosine distance must have been scaled by fasted_scale_direction.  The cosine distance
 * of a zero vector is NaN.
 */
extern double ExactDistance(FastedMetric metric, FastedElement element, const float *x,
							const float *y, uint32 dimensions);

/* Returns a copy of the expression with an explicit cast, or NULL if there is no cast. */
extern Node *CastVector(Node *vector, Oid type);

/*
 * Estimates the fraction of pairs of rows whose vectors a and b are within eps, from the
 * statistics of ANALYZE.  Assumes a few neighbours for each row if there are none, or if
 * eps is NULL or not known yet.
 */
extern double EstimateShare(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric);

#endif							/* FASTED_DISTANCE_H */
