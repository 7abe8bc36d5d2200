/*-------------------------------------------------------------------------
 *
 * call_exec.c
 *	  Privileges, and what is known when the query begins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "scan/call_exec.h"
#include "session/compat.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"

void
CheckExecutePrivilege(Oid function)
{
	if (!FASTED_MAY_EXECUTE(function, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

Oid
KnownRelation(const FuncExpr *call, int n, PlanState *state)
{
	Expr	   *argument = list_nth(call->args, n);
	bool		isnull;
	Datum		relation;

	if (!IsA(argument, Const) &&
		!(IsA(argument, Param) && ((Param *) argument)->paramkind == PARAM_EXTERN))
		return InvalidOid;
	/* EXPLAIN (GENERIC_PLAN) has no values */
	if (IsA(argument, Param) && state->state->es_param_list_info == NULL)
		return InvalidOid;
	relation = ExecEvalExprSwitchContext(ExecInitExpr(argument, state), state->ps_ExprContext,
										 &isnull);
	return isnull ? InvalidOid : DatumGetObjectId(relation);
}

/* --- arguments */

static bool
FindParams(Node *node, Bitmapset **params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		*params = bms_add_member(*params, ((Param *) node)->paramid);
	return expression_tree_walker(node, FindParams, params);
}

CallArguments
BeginArguments(const FuncExpr *call, PlanState *state)
{
	CallArguments arguments = {.call = call};

	arguments.states = ExecInitExprList(call->args, state);
	(void) FindParams((Node *) call->args, &arguments.params);
	return arguments;
}

void
EvaluateArguments(const CallArguments *arguments, ExprContext *econtext, FunctionCallInfo fcinfo)
{
	ListCell   *cell;
	int			n = 0;

	InitFunctionCallInfoData(*fcinfo, NULL, list_length(arguments->states), InvalidOid, NULL, NULL);
	foreach(cell, arguments->states)
	{
		fcinfo->args[n].value = ExecEvalExpr((ExprState *) lfirst(cell), econtext,
											 &fcinfo->args[n].isnull);
		n++;
	}
}

/* What an argument's own subquery depends on is not looked for. */
bool
ArgumentsMayDiffer(const CallArguments *arguments, const PlanState *state)
{
	const Bitmapset *changed = state->chgParam;

	return bms_overlap(changed, arguments->params) ||
		(!bms_is_empty(changed) && contain_subplans((Node *) arguments->call->args));
}

/* --- rows */

/*
 * ExecScan would take the node for one that stands for a table whose row is being
 * looked at again, where it is in a subquery of an UPDATE that had to wait.
 */
TupleTableSlot *
NextCallRow(CustomScanState *node, TupleTableSlot *(*next) (CustomScanState *node))
{
	PlanState  *state = &node->ss.ps;
	ExprContext *econtext = state->ps_ExprContext;
	ProjectionInfo *projection = state->ps_ProjInfo;

	for (;;)
	{
		TupleTableSlot *slot = next(node);

		ResetExprContext(econtext);
		if (TupIsNull(slot))
			return projection == NULL ? slot : ExecClearTuple(projection->pi_state.resultslot);
		econtext->ecxt_scantuple = slot;
		if (state->qual == NULL || ExecQual(state->qual, econtext))
			return projection == NULL ? slot : ExecProject(projection);
		InstrCountFiltered1(state, 1);
		CHECK_FOR_INTERRUPTS();
	}
}
