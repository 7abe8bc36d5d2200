/*-------------------------------------------------------------------------
 *
 * count_query.h
 *	  Queries whose whole result is the number of their rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_COUNT_QUERY_H
#define FASTED_COUNT_QUERY_H

#include "nodes/pathnodes.h"

/* The query's count(*), if that is all that becomes of the rows it reads; else NULL. */
extern Aggref *OnlyCount(PlannerInfo *root);

#endif							/* FASTED_COUNT_QUERY_H */
