/*-------------------------------------------------------------------------
 *
 * engines.h
 *	  Which engine computes a join, and how its failures become errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ENGINES_H
#define FASTED_ENGINES_H

#include "base/compat.h"
#include "engine/engine.h"
#include "join/options.h"

/*
 * The engine for a join of about so many pairs of rows, found or not, as the options
 * say.  Raises an error when the CUDA engine is asked for and can't work here.
 */
extern const FastedEngine *ChooseEngine(const JoinOptions *options, double row_pairs,
										uint32 dimensions);

/*
 * Why the CUDA engine cannot compute a join here, or NULL if it can.  Creates no context on
 * a GPU and raises no error.
 */
extern const char *CudaProblem(void);

/* Describes a GPU in a text of at most size bytes; returns false if there is none with this ordinal. */
extern bool DescribeGpu(int ordinal, char *text, size_t size);

/* Raises the error for a failed status; engine_text may be NULL. */
pg_noreturn extern void ReportEngineFailure(const FastedEngine *engine,
											FastedStatus status,
											const char *engine_text);

#endif							/* FASTED_ENGINES_H */
