/*-------------------------------------------------------------------------
 *
 * citus_explain.h
 *	  EXPLAIN (ANALYZE) of a node of ours that Citus runs as a subplan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CITUS_EXPLAIN_H
#define FASTED_CITUS_EXPLAIN_H

#include "nodes/execnodes.h"

/*
 * Citus (13.2) takes every custom scan in such a subplan for its own if it has run
 * queries of Citus, and reads what is not there, which ends the server's process.  So
 * when a node begins that reads such a table, this raises an error instead.
 */
extern void RefuseCitusExplain(const EState *estate, int eflags, Oid relid);

#endif							/* FASTED_CITUS_EXPLAIN_H */
