/*-------------------------------------------------------------------------
 *
 * engine_run.h
 *	  An engine at work for a join, and what its failures mean.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ENGINE_RUN_H
#define FASTED_ENGINE_RUN_H

#include "engine/panel_join.h"
#include "join/options.h"

/* What an engine has left of a join that is over, for the next one of its kind. */
typedef struct EngineSpare
{
	const FastedEngine *engine;
	PanelJoin  *join;			/* NULL: there is none */
	uint32		dimensions;
	bool		failed;			/* a GPU did, in place of which the CPU computes from then on */
} EngineSpare;

typedef struct EngineRun
{
	MemoryContext context;		/* for an engine's last words */
	const FastedEngine *engine; /* NULL before the first vector */
	PanelJoin  *join;			/* NULL once it is closed */
	FastedOutput output;		/* all pairs, where the engine does not have what was asked */
	bool		fallible;		/* "auto" chose a GPU: the CPU can still do it */
	bool		failed;			/* and the GPU did fail */
	EngineSpare *spare;			/* of joins for the same problem; or NULL */
	uint32		dimensions;
	double		row_pairs;		/* for the choice of an engine; zero: as rows are expected */
} EngineRun;

/*
 * Chooses an engine, the CPU's after a failure, and opens a join there.  Of the
 * problem's options only the dimensions are the caller's; of its output see "output".
 */
extern void EngineRunOpen(EngineRun *run, const JoinOptions *options, const PanelProblem *problem);

/* No pair has been given yet, or none of this round of pairs. */
extern void EngineRunAgain(EngineRun *run, const JoinOptions *options);

/*
 * Reports a failure of the engine; returns other statuses.  While the CPU can
 * still take over, the failure is only noted (failed) and returned, and the engine
 * is closed.
 */
extern FastedStatus EngineRunCheck(EngineRun *run, FastedStatus status);

/* May be called twice. */
extern void EngineRunClose(EngineRun *run);

/* Instead, where there is a place for it: leaves it for the next join. */
extern void EngineRunLeave(EngineRun *run);

/* The same for what no join took. */
extern void EngineSpareClose(EngineSpare *spare);

#endif							/* FASTED_ENGINE_RUN_H */
