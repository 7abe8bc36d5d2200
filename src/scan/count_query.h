/*-------------------------------------------------------------------------
 *
 * count_query.h
 *	  Queries whose whole result is the number of their rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_COUNT_QUERY_H
#define FASTED_COUNT_QUERY_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"

/* The query's count(*), if that is all that becomes of the rows it reads; else NULL. */
extern Aggref *OnlyCount(PlannerInfo *root);

/*
 * A path of a node that takes the place of such a query's aggregate too, in the upper
 * relation output: its cost and what it is made of come before it is offered.
 */
extern CustomPath *MakeCountPath(PlannerInfo *root, RelOptInfo *output,
								 const CustomPathMethods *methods);
extern void OfferCountPath(RelOptInfo *output, CustomPath *path);

/* Its plan, over the relation input: the scan tuple is the aggregate, and tlist computes with it. */
extern CustomScan *MakeCountScan(const CustomPath *path, const Aggref *count,
								 const RelOptInfo *input, List *tlist);

#endif							/* FASTED_COUNT_QUERY_H */
