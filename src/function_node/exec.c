/*-------------------------------------------------------------------------
 *
 * exec.c
 *	  The node at run time: begin, run, rescan, end.
 *
 * The run begins when the first row is requested, as a function would be called then: with the
 * current user and the active snapshot of that moment.  It ends after the last row, so that the
 * engine's memory is released before the query ends.  The result of a clustering function is
 * kept until the node ends or an argument changes.  So a subquery that is rescanned many times
 * reads and joins only once.  On error, the join is released with its memory context (join.h).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "base/compat.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "function_node/function_node.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rows/reader.h"
#include "utils/acl.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* --- arguments */

typedef struct ParamSearch
{
	const List *subplans;		/* of the whole statement */
	Bitmapset  *params;			/* found so far */
} ParamSearch;

/*
 * Adds the PARAM_EXEC parameters of an expression, and of its subplans, to search->params.  In a
 * worker the list of subplans has NULL for those that are not parallel safe.
 */
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

static void
BeginArguments(FunctionNode *scan)
{
	PlanState  *state = &scan->css.ss.ps;
	ParamSearch search = {.subplans = state->state->es_plannedstmt->subplans};

	scan->arguments = ExecInitExprList(scan->plan.args, state);
	scan->bounds = ExecInitExprList(scan->plan.conditions.dist_bounds, state);
	(void) FindParams((Node *) scan->plan.args, &search);
	scan->params = search.params;
	scan->argument_context = AllocSetContextCreate(CurrentMemoryContext, "fasted arguments",
												   ALLOCSET_SMALL_SIZES);
}

/* Evaluates argument n; a value by reference is copied to argument_context. */
static NullableDatum
EvaluateArgument(const FunctionNode *scan, int n)
{
	NullableDatum argument;
	int16		typlen;
	bool		typbyval;

	argument.value = ExecEvalExpr((ExprState *) list_nth(scan->arguments, n),
								  scan->css.ss.ps.ps_ExprContext, &argument.isnull);
	get_typlenbyval(exprType(list_nth(scan->plan.args, n)), &typlen, &typbyval);
	if (!argument.isnull && !typbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(scan->argument_context);

		argument.value = datumCopy(argument.value, typbyval, typlen);
		MemoryContextSwitchTo(old);
	}
	return argument;
}

/*
 * Returns the arguments' values, which are evaluated once.  A rescan uses the same values, even of
 * volatile arguments, just as a FunctionScan rescans its stored rows.
 */
static const NullableDatum *
EvaluateArguments(FunctionNode *scan)
{
	int			nargs = list_length(scan->arguments);
	NullableDatum *values;

	if (scan->values != NULL)
		return scan->values;
	values = MemoryContextAlloc(scan->argument_context, nargs * sizeof(NullableDatum));
	for (int n = 0; n < nargs; n++)
		values[n] = EvaluateArgument(scan, n);
	scan->values = values;
	return values;
}

/* --- the run */

static void
BeginRun(FunctionNode *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	const FunctionPlan *plan = &scan->plan;
	FunctionCall call = MakeFunctionCall(plan->function, EvaluateArguments(scan),
										 plan->key_type);

	call.columns = plan->columns;
	call.filter = EvaluateConditions(&plan->conditions, scan->bounds,
									 scan->css.ss.ps.ps_ExprContext);
	call.count = plan->count;
	call.timed = scan->timed;
	scan->run = BeginFunctionRun(&call);
	MemoryContextSwitchTo(old);
}

FunctionTotals
CurrentTotals(const FunctionNode *scan)
{
	return scan->run == NULL ? scan->totals : AddRun(&scan->totals, scan->run);
}

/* Ends the current run, if any, even if it has more rows, and adds it to the totals. */
static void
EndRun(FunctionNode *scan)
{
	MemoryContext old;

	if (scan->run == NULL)
		return;
	old = MemoryContextSwitchTo(scan->css.ss.ps.state->es_query_cxt);
	scan->totals = CurrentTotals(scan);
	MemoryContextSwitchTo(old);
	EndFunctionRun(scan->run);
	scan->run = NULL;
	MemoryContextReset(scan->context);
}

bool
ProduceBlock(FunctionNode *scan, OutputBlock *block)
{
	if (scan->run == NULL)
		BeginRun(scan);
	if (FillRows(scan->run, block))
		return true;
	scan->over = true;
	if (scan->plan.function->rewind == NULL)
		EndRun(scan);
	return false;
}

uint64
CountScan(FunctionNode *scan)
{
	uint64		count;

	BeginRun(scan);
	count = CountRows(scan->run);
	EndRun(scan);
	return count;
}

/* --- whole rows */

static void
BeginWholeRows(FunctionNode *scan)
{
	const CustomScan *plan = (CustomScan *) scan->css.ss.ps.plan;
	TupleDesc	desc = scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor;

	if (scan->plan.columns == NIL || llast_int(scan->plan.columns) != InvalidAttrNumber)
		return;
	scan->relation = castNode(Var, linitial_node(TargetEntry, plan->custom_scan_tlist)->expr)->varno;
	scan->row = CreateTemplateTupleDesc(desc->natts - 1);
	for (int i = 1; i < desc->natts; i++)
		TupleDescCopyEntry(scan->row, i, desc, i);
	scan->row = BlessTupleDesc(scan->row);
	scan->row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted row",
											  ALLOCSET_SMALL_SIZES);
}

void
AddWholeRow(FunctionNode *scan, TupleTableSlot *slot)
{
	int			whole = scan->row->natts;
	MemoryContext old;

	MemoryContextReset(scan->row_context);
	old = MemoryContextSwitchTo(scan->row_context);
	slot->tts_values[whole] = HeapTupleGetDatum(heap_form_tuple(scan->row, slot->tts_values,
																slot->tts_isnull));
	slot->tts_isnull[whole] = false;
	MemoryContextSwitchTo(old);
}

/*
 * Like ExecScanFetch for a relation with ROW_MARK_COPY.  EvalPlanQualFetchRowMark sets all columns
 * but the last one, which is the whole row.
 */
bool
FetchRecheckedRow(FunctionNode *scan, TupleTableSlot *slot)
{
	EPQState   *again = scan->css.ss.ps.state->es_epq_active;
	Index		relation = scan->relation;

	if (again == NULL || again->relsubs_rowmark[relation - 1] == NULL)
		return false;
	ExecClearTuple(slot);
	if (!again->relsubs_done[relation - 1] && EvalPlanQualFetchRowMark(again, relation, slot))
		AddWholeRow(scan, slot);
	again->relsubs_done[relation - 1] = true;
	return true;
}

/* --- relations that the call reads: they stay open until the node ends */

/* Opens the relation and appends it to the list, unless it has been dropped. */
static List *
OpenRelation(List *relations, Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	return rel == NULL ? relations : lappend(relations, rel);
}

/*
 * Opens the relation and all relations that a SELECT from it reads, as the executor opens the
 * tables of a plan.  Then TRUNCATE or ALTER TABLE in the same session fails because the table is
 * in use.  So a cursor sees the rows as of its DECLARE, however late the first FETCH is.
 */
static List *
OpenRelations(List *relations, Oid relid)
{
	ListCell   *cell;
	ListCell   *child;

	foreach(cell, FindSourceRelations(relid))
	{
		relations = OpenRelation(relations, lfirst_oid(cell));
		foreach(child, find_all_inheritors(lfirst_oid(cell), AccessShareLock, NULL))
			if (lfirst_oid(child) != lfirst_oid(cell))
				relations = OpenRelation(relations, lfirst_oid(child));
	}
	return relations;
}

/* Returns the relation of source n if it is a constant or external parameter, or InvalidOid. */
static Oid
KnownRelation(const FunctionNode *scan, int n)
{
	PlanState  *state = (PlanState *) &scan->css.ss.ps;
	Expr	   *argument = list_nth(scan->plan.args, scan->plan.function->sources[n].relation);
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

/* --- the node */

static void
CheckExecutePrivilege(Oid function)
{
	if (!FASTED_MAY_EXECUTE(function, GetUserId()))
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

/*
 * PostgreSQL never counts the rows of a plan that it only explains.  An extension may do so, for EXPLAIN
 * (ANALYZE) of a subplan that it has run before.  It may then take every custom scan for its own, and crash.
 */
static void
RefuseForeignExplain(const EState *estate, int eflags)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 &&
		(estate->es_instrument & (INSTRUMENT_TIMER | INSTRUMENT_ROWS)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("EXPLAIN (ANALYZE) does not support fasted functions in a subplan of another extension"),
				 errhint("Use \"SET fasted.scan_node = off\", or run EXPLAIN for the function call in a query of its own.")));
}

static void
BeginScan(CustomScanState *node, EState *estate, int eflags)
{
	FunctionNode *scan = (FunctionNode *) node;
	Oid			previous = InvalidOid;

	RefuseForeignExplain(estate, eflags);
	CheckExecutePrivilege(scan->plan.call->funcid);
	BeginArguments(scan);
	BeginWholeRows(scan);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "fasted scan",
										  ALLOCSET_DEFAULT_SIZES);
	for (int n = 0; n < scan->plan.function->nsources; n++)
	{
		Oid			relid = KnownRelation(scan, n);

		if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsParallelWorker() && relid != previous)
			scan->open_relations = OpenRelations(scan->open_relations, relid);
		previous = relid;
	}
	scan->timed = (estate->es_instrument & INSTRUMENT_TIMER) != 0;
	BeginOutput(scan);
}

static void
RescanScan(CustomScanState *node)
{
	FunctionNode *scan = (FunctionNode *) node;

	bool		other_arguments = bms_overlap(node->ss.ps.chgParam, scan->params);

	RestartOutput(scan);
	if (other_arguments || scan->plan.function->rewind == NULL)
		EndRun(scan);
	else if (scan->run != NULL)
		scan->plan.function->rewind(scan->run);
	if (other_arguments)
	{
		scan->values = NULL;
		MemoryContextReset(scan->argument_context);
	}
}

static void
EndScan(CustomScanState *node)
{
	FunctionNode *scan = (FunctionNode *) node;
	ListCell   *cell;

	DetachSharedOutput(node);
	EndRun(scan);
	foreach(cell, scan->open_relations)
		relation_close(lfirst(cell), NoLock);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedFunction",
	.BeginCustomScan = BeginScan,
	.ExecCustomScan = NextOutputRow,
	.EndCustomScan = EndScan,
	.ReScanCustomScan = RescanScan,
	.EstimateDSMCustomScan = EstimateSharedOutput,
	.InitializeDSMCustomScan = InitializeSharedOutput,
	.ReInitializeDSMCustomScan = ReinitializeSharedOutput,
	.InitializeWorkerCustomScan = InitializeSharedOutputInWorker,
	.ShutdownCustomScan = DetachSharedOutput,
	.ExplainCustomScan = ExplainFunctionNode
};

Node *
CreateFunctionNode(CustomScan *plan)
{
	FunctionNode *scan = palloc0(sizeof(FunctionNode));

	NodeSetTag(scan, T_CustomScanState);
	scan->css.methods = &exec_methods;
	scan->plan = ReadFunctionPlan(plan);
	return (Node *) scan;
}
