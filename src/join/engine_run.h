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

typedef struct EngineRun
{
	MemoryContext context;		/* for an engine's last words */
	const FastedEngine *engine; /* NULL before the first vector */
	PanelJoin  *join;			/* NULL once it is closed */
	FastedOutput output;		/* all pairs, where the engine does not have what was asked */
	bool		fallible;		/* "auto" chose a GPU: the CPU can still do it */
	bool		failed;			/* and the GPU did fail */
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

#endif							/* FASTED_ENGINE_RUN_H */
