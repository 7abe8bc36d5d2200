/*-------------------------------------------------------------------------
 *
 * parallel_plan.h
 *	  The plan by which parallel workers read a source, and whether there is one.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PARALLEL_PLAN_H
#define FASTED_PARALLEL_PLAN_H

#include "executor/spi.h"
#include "source.h"

typedef struct ParallelPlan
{
	SPIPlanPtr	plan;
	char	   *query;
	int			nworkers;
} ParallelPlan;

/*
 * Within SPI and in a GUC nest level of the caller's, in which the plan must be
 * executed too.  False: workers may not be used, or don't pay.  rows is the
 * planner's estimate for the source's own query.
 */
extern bool PlanParallelRead(const VectorSource *source, uint64 rows, ParallelPlan *plan);

/* In the caller's GUC nest level. */
extern void SetForThisQuery(const char *name, const char *value);

/* The plan of a prepared query; NULL: it has none.  Release it. */
extern PlannedStmt *PlanOf(SPIPlanPtr plan, CachedPlan **cached);

extern void InstallPlannerHook(void);

#endif							/* FASTED_PARALLEL_PLAN_H */
