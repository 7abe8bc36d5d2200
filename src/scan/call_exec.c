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
	relation = ExecEvalExprSwitchContext(ExecInitExpr(argument, state), state->ps_ExprContext,
										 &isnull);
	return isnull ? InvalidOid : DatumGetObjectId(relation);
}
