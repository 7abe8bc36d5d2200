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
#include "engine/engine.h"

/* What computed, or would compute where no engine has run (an empty name). */
extern void ExplainEngine(const FastedStats *stats, struct ExplainState *es);

/* Rows met without one. */
extern void ExplainNoEngine(struct ExplainState *es);

/* "exact", or what fasted.refine = off gives. */
extern void ExplainPrecision(struct ExplainState *es);

/* A run added to those before: texts and sizes of the run, sums of the rest. */
extern FastedStats SumStatistics(const FastedStats *sum, const FastedStats *run);

/* Its tiles alone. */
extern void AddTiles(FastedStats *sum, const FastedStats *run);

/* What it did, in so many runs together. */
extern void ExplainWork(const FastedStats *stats, int runs, struct ExplainState *es);

/* What depends on the machine, to be left out with TIMING OFF. */
extern void ExplainMachine(const FastedStats *stats, struct ExplainState *es);
extern void ExplainFilterRate(const FastedStats *stats, int runs, struct ExplainState *es);

#endif							/* FASTED_SCAN_EXPLAIN_H */
