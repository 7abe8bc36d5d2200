/*-------------------------------------------------------------------------
 *
 * call_exec.h
 *	  What the executor would do for a function in FROM, for the node in its place.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CALL_EXEC_H
#define FASTED_CALL_EXEC_H

#include "fmgr.h"
#include "nodes/execnodes.h"

/* May the current user call it?  An error says no. */
extern void CheckExecutePrivilege(Oid function);

/*
 * The relation, argument n of the call, if it is known before the first row; else
 * InvalidOid.
 */
extern Oid	KnownRelation(const FuncExpr *call, int n, PlanState *state);

/* The arguments of a call, from begin to end. */
typedef struct CallArguments
{
	const FuncExpr *call;
	List	   *states;
	Bitmapset  *params;			/* executor's parameters in them */
	MemoryContext context;		/* the values are copied to it */
	NullableDatum *values;		/* NULL: not evaluated yet */
} CallArguments;

extern CallArguments BeginArguments(const FuncExpr *call, PlanState *state);

/*
 * Their values, in an fcinfo with room for all of them.  They are evaluated once, and again
 * only after RescanArguments was true; valid until then.
 */
extern void EvaluateArguments(CallArguments *arguments, ExprContext *econtext,
							  FunctionCallInfo fcinfo);

/* In a rescan: may they have other values now? */
extern bool RescanArguments(CallArguments *arguments, const PlanState *state);

/*
 * The next row that the conditions are true of, projected; next gives the scan tuples,
 * and an empty slot behind the last one.
 */
extern TupleTableSlot *NextCallRow(CustomScanState *node,
								   TupleTableSlot *(*next) (CustomScanState *node));

#endif							/* FASTED_CALL_EXEC_H */
