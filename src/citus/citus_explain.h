/*-------------------------------------------------------------------------
 *
 * citus_explain.h
 *	  EXPLAIN (ANALYZE) of joins that the workers of a Citus cluster share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_EXPLAIN_H
#define FASTED_CITUS_EXPLAIN_H

#include "commands/explain.h"
#include "nodes/execnodes.h"

/*
 * Raises an error when a node begins that reads a Citus table in EXPLAIN (ANALYZE), and that
 * Citus has run before as a subplan.  Citus (13.2) would take every custom scan in such a subplan
 * for its own, and read what is not there, which ends the server's process.  Such a subplan is
 * recognized by its instruments, though it is not to be run.
 */
extern void RefuseCitusExplain(const EState *estate, int eflags, Oid relid);

/* Shows a line with each worker's part of the work: a list of WorkerShare of the last run, or NIL. */
extern void ExplainShares(List *shares, struct ExplainState *es);

#endif							/* FASTED_CITUS_EXPLAIN_H */
