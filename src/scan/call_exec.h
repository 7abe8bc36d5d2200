/*-------------------------------------------------------------------------
 *
 * call_exec.h
 *	  What the executor would do for a function in FROM, for the node in its place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CALL_EXEC_H
#define FASTED_CALL_EXEC_H

#include "nodes/execnodes.h"

/* May the current user call it?  An error says no. */
extern void CheckExecutePrivilege(Oid function);

/*
 * The relation, argument n of the call, if it is known before the first row; else
 * InvalidOid.
 */
extern Oid	KnownRelation(const FuncExpr *call, int n, PlanState *state);

#endif							/* FASTED_CALL_EXEC_H */
