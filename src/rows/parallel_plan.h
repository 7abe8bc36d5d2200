/*-------------------------------------------------------------------------
 *
 * parallel_plan.h
 *	  The plan by which parallel workers read a source, and whether there is one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PARALLEL_PLAN_H
#define FASTED_PARALLEL_PLAN_H

#include "nodes/plannodes.h"
#include "rows/source.h"

/*
 * A plan whose top is a Gather, in a GUC nest level of the caller's, in which it
 * must be executed too.  NULL: workers may not be used, or don't pay.  rows is the
 * planner's estimate for the source's own query.
 */
extern PlannedStmt *PlanParallelRead(const VectorSource *source, uint64 rows);

/* In the caller's GUC nest level. */
extern void SetForThisQuery(const char *name, const char *value);

extern void InstallPlannerHook(void);

#endif							/* FASTED_PARALLEL_PLAN_H */
