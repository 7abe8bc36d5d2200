/*-------------------------------------------------------------------------
 *
 * scan_explain.h
 *	  What EXPLAIN says of an engine, whichever node it worked for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_EXPLAIN_H
#define FASTED_SCAN_EXPLAIN_H

#include "commands/explain.h"
#include "join/join.h"

/* What computed, or would compute where no engine has run (an empty name). */
extern void ExplainEngine(const FastedStats *stats, struct ExplainState *es);

/* Rows met without one. */
extern void ExplainNoEngine(struct ExplainState *es);

/* "exact", or what fasted.refine = off gives. */
extern void ExplainPrecision(struct ExplainState *es);

/*
 * The statistics of a run added to those of the runs before it: texts of the last run that
 * had an engine, the largest sizes, and sums of the other numbers.
 */
extern FastedStats SumStatistics(const FastedStats *sum, const FastedStats *run);

/*
 * Adds a join, also one that is still at work or was stopped early by a LIMIT, to the
 * statistics and the seconds of reading of the joins before it.  Returns false if no engine
 * ran for it.
 */
extern bool AddJoinStatistics(FastedStats *sum, double *read_seconds, const VectorJoin *join);

/* What it did, in so many runs together. */
extern void ExplainWork(const FastedStats *stats, int runs, struct ExplainState *es);

/* What depends on the machine, to be left out with TIMING OFF. */
extern void ExplainMachine(const FastedStats *stats, struct ExplainState *es);
extern void ExplainFilterRate(const FastedStats *stats, int runs, struct ExplainState *es);

#endif							/* FASTED_SCAN_EXPLAIN_H */
