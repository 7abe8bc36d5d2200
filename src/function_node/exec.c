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

#include <math.h>

#include "access/relation.h"
#include "access/stratnum.h"
#include "base/compat.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
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
	scan->bounds = ExecInitExprList(scan->plan.bounds, state);
	if (FindIdType(scan->plan.call->funcid) >= 0)
		scan->id_type = ExecInitExpr(list_nth(scan->plan.call->args, FindIdType(scan->plan.call->funcid)), state);
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
	bool		isnull = true;

	if (scan->values != NULL)
		return scan->values;
	if (scan->id_type != NULL)
		(void) ExecEvalExpr(scan->id_type, scan->css.ss.ps.ps_ExprContext, &isnull);
	RequireNullIdType(isnull);
	values = MemoryContextAlloc(scan->argument_context, nargs * sizeof(NullableDatum));
	for (int n = 0; n < nargs; n++)
		values[n] = EvaluateArgument(scan, n);
	RequireArguments(scan->plan.function, values);
	scan->values = values;
	return values;
}

/* --- the run */

/*
 * Reduces the call's eps to the bounds; to NaN if no distance satisfies them.
 *
 * PostgreSQL sorts NaN above all other float8 values, and a distance is never NaN.  So every distance
 * is below a bound of NaN.
 */
static void
ReduceEps(FunctionCall *call, List *strategies, List *bounds, ExprContext *econtext)
{
	ListCell   *strategy;
	ListCell   *cell;

	forboth(strategy, strategies, cell, bounds)
	{
		bool		isnull;
		double		bound = DatumGetFloat8(ExecEvalExpr((ExprState *) lfirst(cell), econtext, &isnull));

		if (!isnull && isnan(bound))
			continue;
		if (!isnull && lfirst_int(strategy) == BTLessStrategyNumber)
			bound = bound == -HUGE_VAL ? NAN : nextafter(bound, -HUGE_VAL);
		if (isnull || !(bound >= LeastDistance(call->metric)))
			call->eps = NAN;	/* a comparison with NULL is not true */
		else if (bound < call->eps)
			call->eps = bound;
	}
}

static void
BeginRun(FunctionNode *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->context);
	const FunctionPlan *plan = &scan->plan;
	FunctionCall call = MakeFunctionCall(plan->function, EvaluateArguments(scan),
										 plan->key_type);

	call.ids = plan->ids;
	ReduceEps(&call, plan->strategies, scan->bounds, scan->css.ss.ps.ps_ExprContext);
	call.count = plan->count;
	scan->run = BeginFunctionRun(&call, &scan->totals);
	MemoryContextSwitchTo(old);
}

FunctionTotals
CurrentTotals(const FunctionNode *scan)
{
	return scan->run == NULL ? scan->totals : RunTotals(scan->run);
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

/* Fills the block with at least one row, such as count(*).  Returns false if there are no more rows. */
static bool
ProduceBlock(FunctionNode *scan, OutputBlock *block)
{
	bool		more;

	if (scan->run == NULL)
		BeginRun(scan);
	more = FillRows(scan->run, block);
	scan->over = !more || scan->plan.count;
	if (scan->over && scan->plan.function->rewind == NULL)
		EndRun(scan);
	return more;
}

/*
 * --- rows, in blocks, which the leader of a parallel plan shares with workers
 *
 * In a parallel plan the leader runs the call and fills blocks.  Workers take blocks and execute
 * the nodes above this one: they aggregate, join, and check conditions.  Blocks hold Datums
 * rather than row numbers, since workers do not have the ids.  Hence only ids that are passed by
 * value can be shared.
 *
 * To avoid deadlocks, no process waits for a process that may wait for it.  A worker may be
 * blocked by a full tuple queue or at a barrier of a hash join.  So the leader never waits for
 * workers: it consumes blocks that no worker takes.  Workers wait for the leader only before it
 * has begun and while it fills blocks.  If the leader has executed other nodes for a while and
 * there is no full block, the worker's scan ends.  No row is lost, because the leader scans to the
 * end.
 */

/* Seconds for which the leader leaves all blocks to workers before it takes one itself. */
#define FILL_SECONDS 0.02

/* Blocks per process: one that it reads, and full ones that are waiting. */
#define BLOCKS_PER_PROCESS 8

/* Returns the number of columns of the scan tuple. */
static inline int
CountColumns(const FunctionNode *scan)
{
	return scan->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
}

static int
CountBlocks(const ParallelContext *pcxt)
{
	return (pcxt->nworkers + 1) * BLOCKS_PER_PROCESS;
}

static Size
BlockBytes(const FunctionNode *scan)
{
	return offsetof(OutputBlock, values) + scan->plan.function->ncolumns * OUTPUT_ROWS * sizeof(Datum);
}

static Size
EstimateSharedOutput(CustomScanState *node, ParallelContext *pcxt)
{
	FunctionNode *scan = (FunctionNode *) node;

	return BlockRingSize(CountBlocks(pcxt), BlockBytes(scan));
}

/*
 * Makes this process, the leader, fill the ring.  Workers could not, since they cannot read
 * temporary tables.  parallel_leader_participation may have been turned off since the query was
 * planned.  Then no workers are launched, so that the leader executes the plan alone.
 */
static void
AttachLeader(FunctionNode *scan, ParallelContext *pcxt, BlockRing *ring)
{
	if (!parallel_leader_participation)
		ReinitializeParallelWorkers(pcxt, 0);
	scan->ring = ring;
	scan->ring_block = -1;
}

static void
InitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	AttachLeader(scan, pcxt, shared);
	BlockRingInit(scan->ring, CountBlocks(pcxt), BlockBytes(scan));
}

static void
ReinitializeSharedOutput(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	AttachLeader((FunctionNode *) node, pcxt, shared);
	BlockRingReset(shared);
}

static void
InitializeSharedOutputInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	FunctionNode *scan = (FunctionNode *) node;

	scan->ring = shared;
	scan->ring_block = -1;
}

/*
 * ShutdownCustomScan.  No more rows are requested, at least for now: a cursor that pauses calls
 * this, too.  Pauses the run and detaches from the ring, whose shared memory is about to be freed.
 */
static void
DetachSharedOutput(CustomScanState *node)
{
	FunctionNode *scan = (FunctionNode *) node;

	if (scan->run != NULL)
		PauseFunctionRun(scan->run);
	if (scan->ring == NULL)
		return;
	if (!IsParallelWorker())
		BlockRingFinish(scan->ring);
	scan->ring = NULL;
	scan->block = NULL;
}

/*
 * Fills and publishes blocks until none is empty, or until FILL_SECONDS have passed, so that the
 * nodes above get rows from time to time.  Then returns the number of a full block, which is the
 * leader's own.  Returns a negative number if there are no more blocks.
 */
static int
FillBlocks(FunctionNode *scan)
{
	BlockRing *ring = scan->ring;
	instr_time	begin = RunClock();

	for (;;)
	{
		bool		full;
		int			number = BlockRingTakeAny(ring, &full);

		if (full)
			return number;
		if (scan->over || !ProduceBlock(scan, BlockRingData(ring, number)))
		{
			BlockRingRelease(ring, number);
			BlockRingFinish(ring);
			return BlockRingTakeFull(ring);
		}
		if (SecondsSince(begin) > FILL_SECONDS)
			return number;
		BlockRingPublish(ring, number);
	}
}

/* Takes the next block of the ring.  Returns false if there are no more blocks. */
static bool
NextSharedBlock(FunctionNode *scan)
{
	BlockRing *ring = scan->ring;

	if (scan->ring_block >= 0)
		BlockRingRelease(ring, scan->ring_block);
	scan->ring_block = -1;
	scan->block = NULL;

	if (!IsParallelWorker())
	{
		BlockRingEnter(ring);
		scan->ring_block = FillBlocks(scan);
		BlockRingLeave(ring);
	}
	else
		scan->ring_block = BlockRingWaitFull(ring);

	if (scan->ring_block < 0)
	{
		/* the leader must return all rows */
		if (!IsParallelWorker() && !scan->over)
			elog(ERROR, "fasted scan ended before its last row");
		return false;
	}
	scan->block = BlockRingData(ring, scan->ring_block);
	scan->next_row = 0;
	return true;
}

/* --- rows */

/* Makes the next block the current one.  Returns false if there are no more rows. */
static bool
NextBlock(FunctionNode *scan)
{
	if (scan->ring != NULL)
		return NextSharedBlock(scan);
	scan->block = NULL;
	if (scan->over || !ProduceBlock(scan, scan->own_block))
		return false;
	scan->block = scan->own_block;
	scan->next_row = 0;
	return true;
}

/* Returns the scan tuple's slot with the next row, or empty if there are no more rows. */
static pg_attribute_always_inline TupleTableSlot *
NextScanTuple(FunctionNode *scan)
{
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	uint32		row;

	if (unlikely(scan->block == NULL || scan->next_row == scan->block->nrows) &&
		!NextBlock(scan))
		return ExecClearTuple(slot);

	/* a node above may have materialized the slot */
	if (unlikely(TTS_SHOULDFREE(slot)))
		ExecClearTuple(slot);
	row = scan->next_row++;
	switch (CountColumns(scan))
	{
		default:
			for (int i = 4; i < CountColumns(scan); i++)
				slot->tts_values[i] = scan->block->values[scan->columns[i]][row];
			/* FALLTHROUGH */
		case 4:
			slot->tts_values[3] = scan->block->values[scan->columns[3]][row];
			/* FALLTHROUGH */
		case 3:
			slot->tts_values[2] = scan->block->values[scan->columns[2]][row];
			/* FALLTHROUGH */
		case 2:
			slot->tts_values[1] = scan->block->values[scan->columns[1]][row];
			/* FALLTHROUGH */
		case 1:
			slot->tts_values[0] = scan->block->values[scan->columns[0]][row];
			/* FALLTHROUGH */
		case 0:
			break;
	}
	for (int i = 0; scan->plan.function->nullable && i < CountColumns(scan); i++)
		slot->tts_isnull[i] = scan->block->nulls[scan->columns[i]][row];
	slot->tts_nvalid = slot->tts_tupleDescriptor->natts;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	return slot;
}

/* ExecProcNode for a scan without conditions and projection. */
static TupleTableSlot *
NextPlainRow(PlanState *state)
{
	return NextScanTuple((FunctionNode *) state);
}

/*
 * ExecProcNode for all other scans.  ExecScan cannot be used: if the node is in a subquery of an
 * UPDATE, ExecScan would apply an EvalPlanQual recheck of the updated table to this node.
 */
static TupleTableSlot *
NextCheckedRow(PlanState *state)
{
	FunctionNode *scan = (FunctionNode *) state;
	ExprContext *econtext = state->ps_ExprContext;

	for (;;)
	{
		TupleTableSlot *slot = NextScanTuple(scan);

		ResetExprContext(econtext);
		if (TupIsNull(slot))
			return state->ps_ProjInfo == NULL ? slot :
				ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
		econtext->ecxt_scantuple = slot;
		if (state->qual == NULL || ExecQual(state->qual, econtext))
			return state->ps_ProjInfo == NULL ? slot : ExecProject(state->ps_ProjInfo);
		InstrCountFiltered1(state, 1);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
BeginOutput(FunctionNode *scan)
{
	PlanState  *state = &scan->css.ss.ps;
	TupleTableSlot *slot = scan->css.ss.ss_ScanTupleSlot;
	List	   *columns = castNode(CustomScan, state->plan)->custom_scan_tlist;

	Assert(CountColumns(scan) <= OUTPUT_COLUMNS);
	scan->own_block = palloc0(sizeof(OutputBlock));
	memset(slot->tts_isnull, false, CountColumns(scan) * sizeof(bool));
	for (int i = 0; !scan->plan.count && i < CountColumns(scan); i++)
		scan->columns[i] = castNode(Var, list_nth_node(TargetEntry, columns, i)->expr)->varattno - 1;

	/* set ExecProcNode, to save the call of ExecCustomScan for each row */
	if (state->qual == NULL && state->ps_ProjInfo == NULL)
		state->ExecProcNode = NextPlainRow;
	else
		state->ExecProcNode = NextCheckedRow;
}

/* Prepares for a rescan: discards the current block. */
static void
RestartOutput(FunctionNode *scan)
{
	ExecClearTuple(scan->css.ss.ss_ScanTupleSlot);
	ExecScanReScan(&scan->css.ss);
	scan->block = NULL;
	scan->over = false;
}

static TupleTableSlot *
NextOutputRow(CustomScanState *node)
{
	return node->ss.ps.ExecProcNode(&node->ss.ps);
}

/* --- relations that the call reads */

/* Sets *value to argument n.  Returns false unless it is a constant or external parameter, and not null. */
static bool
KnownArgument(const FunctionNode *scan, int n, Datum *value)
{
	PlanState  *state = (PlanState *) &scan->css.ss.ps;
	Expr	   *argument = list_nth(scan->plan.args, n);
	bool		isnull;

	if (!IsA(argument, Const) &&
		!(IsA(argument, Param) && ((Param *) argument)->paramkind == PARAM_EXTERN))
		return false;
	/* EXPLAIN (GENERIC_PLAN) has no values */
	if (IsA(argument, Param) && state->state->es_param_list_info == NULL)
		return false;
	*value = ExecEvalExprSwitchContext(ExecInitExpr(argument, state), state->ps_ExprContext, &isnull);
	return !isnull;
}

/*
 * Opens all tables that the call reads, also below views and as children, as the executor opens those of
 * a plan.  Then TRUNCATE or ALTER TABLE in the same session fails because the table is in use.  So a
 * cursor sees the rows as of its DECLARE, however late the first FETCH is.
 */
static void
OpenRelations(FunctionNode *scan)
{
	for (int n = 0; n < scan->plan.function->nsources; n++)
	{
		const SourceArguments *source = &scan->plan.function->sources[n];
		SourceFacts facts = {0};
		Datum		relid;
		Datum		column;
		ListCell   *cell;
		ListCell   *child;

		if (KnownArgument(scan, source->relation, &relid) &&
			KnownArgument(scan, source->vector_column, &column))
			(void) FindSourceFacts(DatumGetObjectId(relid), NameStr(*DatumGetName(column)), &facts);
		foreach(cell, facts.relations)
			foreach(child, find_all_inheritors(lfirst_oid(cell), AccessShareLock, NULL))
			{
				Relation	rel = try_relation_open(lfirst_oid(child), AccessShareLock);

				if (rel != NULL)
					scan->open_relations = lappend(scan->open_relations, rel);
			}
	}
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

	RefuseForeignExplain(estate, eflags);
	CheckExecutePrivilege(scan->plan.call->funcid);
	BeginArguments(scan);
	scan->context = AllocSetContextCreate(estate->es_query_cxt, "fasted scan",
										  ALLOCSET_DEFAULT_SIZES);
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 && !IsParallelWorker())
		OpenRelations(scan);
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
