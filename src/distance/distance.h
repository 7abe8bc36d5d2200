/*-------------------------------------------------------------------------
 *
 * distance.h
 *	  SQL functions of two vectors: their distance, and whether it is within eps.
 *
 * Right in any plan; join_node/ computes joins on them by an engine.
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
extern PGDLLEXPORT Datum fasted_within(PG_FUNCTION_ARGS);

/*
 * The canonical distance of finite vectors, as engines have them (fasted_scale_direction has
 * seen doubles whose cosine distance is wanted); NaN, if it is a cosine distance of a zero
 * vector.
 */
extern double ExactDistance(FastedMetric metric, FastedElement element, const float *x,
							const float *y, uint32 dimensions);

/*
 * The share of pairs of rows whose vectors a and b are within eps, from ANALYZE's
 * statistics; a few for each row, where these say nothing, or eps is NULL or not
 * known yet.
 */
extern double EstimateShare(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric);

#endif							/* FASTED_DISTANCE_H */
