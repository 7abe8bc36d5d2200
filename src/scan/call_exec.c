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
#include "base/compat.h"
#include "scan/call_exec.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

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

typedef struct ParamSearch
{
	const List *subplans;		/* of the whole statement */
	Bitmapset  *params;			/* found so far */
} ParamSearch;

/* Those that a subquery depends on, too; a worker has only those that are safe there. */
static bool
FindParams(Node *node, ParamSearch *search)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		search->params = bms_add_member(search->params, ((Param *) node)->paramid);
	if (IsA(node, SubPlan))
	{
		const Plan *plan = list_nth(search->subplans, ((SubPlan *) node)->plan_id - 1);

		if (plan != NULL)
			search->params = bms_add_members(search->params, plan->extParam);
	}
	return expression_tree_walker(node, FindParams, search);
}

CallArguments
BeginArguments(const FuncExpr *call, PlanState *state)
{
	CallArguments arguments = {.call = call};
	ParamSearch search = {.subplans = state->state->es_plannedstmt->subplans};

	arguments.states = ExecInitExprList(call->args, state);
	(void) FindParams((Node *) call->args, &search);
	arguments.params = search.params;
	arguments.context = AllocSetContextCreate(CurrentMemoryContext, "fasted arguments",
											  ALLOCSET_SMALL_SIZES);
	return arguments;
}

static NullableDatum
EvaluateArgument(const CallArguments *arguments, int n, ExprContext *econtext)
{
	NullableDatum argument;
	int16		typlen;
	bool		typbyval;

	argument.value = ExecEvalExpr((ExprState *) list_nth(arguments->states, n), econtext,
								  &argument.isnull);
	get_typlenbyval(exprType(list_nth(arguments->call->args, n)), &typlen, &typbyval);
	if (!argument.isnull && !typbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(arguments->context);

		argument.value = datumCopy(argument.value, typbyval, typlen);
		MemoryContextSwitchTo(old);
	}
	return argument;
}

/*
 * A run begins again with the values of the last one, as PostgreSQL scans again what a
 * function has returned: volatile arguments have one value.
 */
void
EvaluateArguments(CallArguments *arguments, ExprContext *econtext, FunctionCallInfo fcinfo)
{
	int			nargs = list_length(arguments->states);

	InitFunctionCallInfoData(*fcinfo, NULL, nargs, InvalidOid, NULL, NULL);
	if (arguments->values == NULL)
	{
		NullableDatum *values = MemoryContextAlloc(arguments->context,
												   nargs * sizeof(NullableDatum));

		for (int n = 0; n < nargs; n++)
			values[n] = EvaluateArgument(arguments, n, econtext);
		arguments->values = values;
	}
	memcpy(fcinfo->args, arguments->values, nargs * sizeof(NullableDatum));
}

bool
RescanArguments(CallArguments *arguments, const PlanState *state)
{
	if (!bms_overlap(state->chgParam, arguments->params))
		return false;
	arguments->values = NULL;
	MemoryContextReset(arguments->context);
	return true;
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
