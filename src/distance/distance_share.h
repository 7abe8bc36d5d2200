/*-------------------------------------------------------------------------
 *
 * distance_share.h
 *	  How many pairs of rows are within a distance, as far as the planner can know.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_DISTANCE_SHARE_H
#define FASTED_DISTANCE_SHARE_H

#include "engine/engine.h"
#include "nodes/pathnodes.h"

/*
 * The share of pairs of rows whose vectors a and b are within eps, from ANALYZE's
 * statistics; a few for each row, where these say nothing, or eps is NULL or not
 * known yet.
 */
extern double EstimateShare(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric);

#endif							/* FASTED_DISTANCE_SHARE_H */
