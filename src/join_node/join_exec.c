/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  Executes the join node: reads both sides and returns matches, or their number. Also
 *	  prints the node's properties in EXPLAIN (doc/reference.md).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

/*
 * --- one execution
 *
 * An execution passes through phases, each of which is a function.  It returns true if it has stored
 * a match in cursor.last.  Otherwise it sets the next phase, or NULL at the end.  Only the phases that
 * fill read a side; those that fetch do not.
 */

static bool FetchPair(JoinNode *node);
static bool FetchUnmatched(JoinNode *node);

static bool
Fill(JoinNode *node)
{
	node->run.phase = FillBatch(node) ? FetchPair : FetchUnmatched;
	return false;
}

static bool
FillFirst(JoinNode *node)
{
	BeginFilling(node);
	node->run.phase = Fill;
	return false;
}

static bool
FetchPair(JoinNode *node)
{
	if (NextPair(node))
		return true;
	node->run.phase = Fill;
	return false;
}

static bool
FetchUnmatched(JoinNode *node)
{
	if (NextUnmatched(node))
		return true;
	node->run.phase = NULL;
	return false;
}

/* Stores the next match or unmatched outer row in cursor.last.  Returns false at the end. */
static bool
NextMatch(JoinNode *node)
{
	while (node->run.phase != NULL)
		if (node->run.phase(node))
			return true;
	return false;
}

/* Ends the execution, if any, and prepares the next one. */
static void
EndRun(JoinNode *node)
{
	EndJoin(node);
	for (int i = 0; i < 2; i++)
		EndSide(&node->sides[i]);
	node->run = (JoinRun) {.phase = FillFirst};
	node->bound.value = (BoundValue) {0};
	MemoryContextReset(node->context);
}

/* Stores the distance of the last match, whose rows are in the scan tuple, in its columns there. */
static void
LoadDistances(JoinNode *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	TupleTableSlot *scan = econtext->ecxt_scantuple;
	double		dist = node->run.cursor.last.dist;
	int			column = node->first_distance;
	ListCell   *cell;

	/* vectors that the query selects distances of are not late-materialized */
	foreach(cell, node->clauses.distances)
	{
		scan->tts_isnull[column] = false;
		scan->tts_values[column] = !isnan(dist) ? Float8GetDatum(dist) :
			ExecEvalExprSwitchContext(lfirst(cell), econtext, &scan->tts_isnull[column]);
		column++;
	}
}

/* Copies the columns of the result from the retained rows of the last match, and its distance. */
static TupleTableSlot *
CopyMatch(JoinNode *node, TupleTableSlot *result)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* a parent node may have materialized the last result */
	if (TTS_SHOULDFREE(result))
		ExecClearTuple(result);
	CopyColumns(outer, &outer->to_result, node->run.cursor.last.outer, result);
	CopyColumns(inner, &inner->to_result, node->run.cursor.last.inner, result);
	for (int i = -1; (i = bms_next_member(node->distances_to_result, i)) >= 0;)
	{
		result->tts_values[i] = Float8GetDatum(node->run.cursor.last.dist);
		result->tts_isnull[i] = false;
	}
	result->tts_flags &= ~TTS_FLAG_EMPTY;
	result->tts_nvalid = result->tts_tupleDescriptor->natts;
	return result;
}

/* ExecProcNode of a node that returns rows. */
static TupleTableSlot *
NextRow(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	ProjectionInfo *projection = state->ps_ProjInfo;
	TupleTableSlot *result = projection == NULL ? NULL : projection->pi_state.resultslot;

	/* a parent node may have materialized the last scan tuple */
	if (TTS_SHOULDFREE(node->css.ss.ss_ScanTupleSlot))
	{
		ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
		for (int i = 0; i < 2; i++)
			node->sides[i].run.loaded = -1;
	}
	while (NextMatch(node))
	{
		const Candidate *match = &node->run.cursor.last;
		ExprContext *econtext;

		if (node->copies_result && (node->distances_to_result == NULL || !isnan(match->dist)))
			return CopyMatch(node, result);
		econtext = ScanTuple(node);
		LoadPair(node, match->outer, match->inner);
		LoadDistances(node);
		if (node->clauses.filter == NULL || ExecQual(node->clauses.filter, econtext))
			return projection == NULL ? econtext->ecxt_scantuple : ExecProject(projection);
		InstrCountFiltered2(node, 1);
	}
	return result == NULL ? NULL : ExecClearTuple(result);
}

/* --- count(*) */

/* ExecProcNode of a node that counts.  Returns the only row, whose count is the scan tuple's last column. */
static TupleTableSlot *
NextCount(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	int			column = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - 1;
	uint64		count;
	ExprContext *econtext;

	if (node->run.phase == NULL)
		return ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	while (NextMatch(node))
		node->run.count++;
	count = node->run.count;
	/* release memory before the result is returned */
	EndRun(node);
	node->run.phase = NULL;
	econtext = ScanTuple(node);
	econtext->ecxt_scantuple->tts_values[column] = Int64GetDatum((int64) count);
	econtext->ecxt_scantuple->tts_isnull[column] = false;
	return ExecProject(state->ps_ProjInfo);
}

/* --- EXPLAIN */

static char *
TextOf(JoinNode *node, Node *expr, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);

	return deparse_expression(expr, context, true, false);
}

static void
ExplainQuals(const char *label, List *quals, JoinNode *node, List *ancestors, ExplainState *es)
{
	if (quals != NIL)
		ExplainPropertyText(label, TextOf(node, (Node *) make_ands_explicit(quals), ancestors, es), es);
}

static void
ExplainKeys(JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *texts = NIL;
	ListCell   *cell;

	if (node->plan.keys[OUTER_SIDE] == NIL)
		return;
	foreach(cell, node->plan.keys[OUTER_SIDE])
		texts = lappend(texts, TextOf(node, lfirst(cell), ancestors, es));
	ExplainPropertyList("Partition Key", texts, es);
	if (es->analyze)
		ExplainPropertyUInteger("Partitions", NULL, node->totals.partitions, es);
	if (es->analyze && node->totals.partitions > 0)
		ExplainPropertyUInteger("Small Partitions", NULL,
								node->totals.partitions - node->totals.engine_partitions, es);
}

static void
ExplainRemoved(const char *label, double removed, const Instrumentation *instrument, ExplainState *es)
{
	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL, removed / Max(instrument->nloops, 1), 0, es);
}

static void
ExplainJoin(CustomScanState *css, List *ancestors, ExplainState *es)
{
	JoinNode   *node = (JoinNode *) css;
	const JoinPlan *plan = &node->plan;
	const Instrumentation *instrument = css->ss.ps.instrument;
	Expr	   *distance = list_nth(plan->join_quals, plan->distance_qual);
	const char *type = plan->type == JOIN_LEFT ? "Left" : plan->type == JOIN_SEMI ? "Semi" :
		plan->type == JOIN_ANTI ? "Anti" : "Inner";
	FastedStats stats = JoinNodeStatistics(node);

	ExplainPropertyText("Join Type", type, es);
	ExplainQuals("Distance Cond", list_make1(distance), node, ancestors, es);
	ExplainKeys(node, ancestors, es);
	ExplainQuals("Join Filter", list_delete_nth_cell(list_copy(plan->join_quals), plan->distance_qual),
				 node, ancestors, es);
	ExplainQuals("Filter", plan->other_quals, node, ancestors, es);
	if (es->analyze && instrument != NULL)
	{
		ExplainRemoved("Rows Removed by Join Filter", instrument->nfiltered1, instrument, es);
		if (plan->other_quals != NIL)
			ExplainRemoved("Rows Removed by Filter", instrument->nfiltered2, instrument, es);
	}
	if (plan->count)
	{
		/* the node counts pairs if clauses other than the engine's decide */
		ExplainPropertyText("Aggregate", "count(*)", es);
		ExplainPropertyText("Counted By", plan->distance_decides && node->bound.exact ?
							"engine" : "node", es);
	}
	if (es->analyze && node->totals.partitions > 0 && node->totals.engine_partitions == 0)
		ExplainPropertyText("Engine", "none", es);
	else
	{
		/* without the engine's additional dimension */
		if (node->bound.has_margin && stats.dimensions > 0)
			stats.dimensions--;
		ExplainEngine(&stats, es);
	}
	if (es->analyze && stats.engine[0] != '\0')
	{
		ExplainWork(&stats, node->totals.runs, es);
		if (es->timing)
			ExplainMachine(&stats, es);
	}
}

/* --- the node */

/* Prepares to compare values with the operator of the ordering clause. */
static void
InitOrder(JoinNode *node, const OpExpr *clause)
{
	List	   *vars = pull_var_clause((Node *) clause, 0);

	node->order.swapped = linitial_node(Var, vars)->varattno > node->plan.outer_columns;
	node->order.column = list_nth_node(Var, vars, node->order.swapped)->varattno - 1;
	node->order.comparator = palloc0(sizeof(SortSupportData));
	node->order.comparator->ssup_cxt = CurrentMemoryContext;
	node->order.comparator->ssup_collation = clause->inputcollid;
	/* this also negates the comparison for a > operator */
	PrepareSortSupportFromOrderingOp(clause->opno, node->order.comparator);
}

/*
 * Leading clauses on outer columns are evaluated once for each row, before its vector.  This does not
 * apply to shared rows, because each of them is an inner row as well.
 */
static void
InitQuals(JoinNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	const JoinPlan *plan = &node->plan;
	List	   *outer = plan->shared ? NIL : list_copy(plan->join_quals);
	List	   *others = list_delete_ptr(list_copy(plan->join_quals),
										 list_nth(plan->join_quals, plan->distance_qual));

	if (plan->order_qual >= 0)
	{
		others = list_delete_ptr(others, list_nth(plan->join_quals, plan->order_qual));
		InitOrder(node, list_nth(plan->join_quals, plan->order_qual));
	}
	node->clauses.bound = ExecInitExpr(plan->bound, state);
	node->clauses.outer = ExecInitQual(list_truncate(outer, plan->outer_quals), state);
	node->clauses.others = ExecInitQual(others, state);
	node->clauses.all = ExecInitQual(plan->join_quals, state);
	node->clauses.filter = ExecInitQual(plan->other_quals, state);
	node->clauses.distances = ExecInitExprList(plan->distances, state);
}

static void
BeginJoinNode(CustomScanState *css, EState *estate, int eflags)
{
	JoinNode   *node = (JoinNode *) css;
	ListCell   *cell;

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	foreach(cell, ((CustomScan *) css->ss.ps.plan)->custom_plans)
		css->custom_ps = lappend(css->custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	node->copies_result = css->ss.ps.ps_ProjInfo != NULL && node->plan.other_quals == NIL;
	node->first_distance = css->ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - node->plan.count -
		list_length(node->plan.distances);
	foreach(cell, css->ss.ps.plan->targetlist)
	{
		const Var  *column = (const Var *) lfirst_node(TargetEntry, cell)->expr;

		node->copies_result &= IsA(column, Var);
		if (IsA(column, Var) && column->varattno > node->first_distance)
			node->distances_to_result = bms_add_member(node->distances_to_result, foreach_current_index(cell));
	}
	for (int i = 0; i < 2; i++)
		InitSide(node, i, list_nth(css->custom_ps, node->plan.shared ? 0 : i));
	InitQuals(node);
	node->context = AllocSetContextCreate(estate->es_query_cxt, "fasted join node",
										  ALLOCSET_DEFAULT_SIZES);
	/* bypass ExecCustomScan */
	css->ss.ps.ExecProcNode = node->plan.count ? NextCount : NextRow;
}

static void
EndJoinNode(CustomScanState *css)
{
	ListCell   *cell;

	EndRun((JoinNode *) css);
	foreach(cell, css->custom_ps)
		ExecEndNode(lfirst(cell));
}

static void
RescanJoinNode(CustomScanState *css)
{
	ListCell   *cell;

	EndRun((JoinNode *) css);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	foreach(cell, css->custom_ps)
	{
		PlanState  *side = lfirst(cell);

		if (css->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(side, css->ss.ps.chgParam);
		if (side->chgParam == NULL)
			ExecReScan(side);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedJoin",
	.BeginCustomScan = BeginJoinNode,
	.EndCustomScan = EndJoinNode,
	.ReScanCustomScan = RescanJoinNode,
	.ExplainCustomScan = ExplainJoin
};

static Node *
CreateJoinNode(CustomScan *plan)
{
	JoinNode   *node = palloc0(sizeof(JoinNode));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &exec_methods;
	node->plan = ReadJoinPlan(plan);
	node->run.phase = FillFirst;
	node->bound = MakeJoinBound(&node->plan.distance, FASTED_ELEMENT_REAL, node->plan.shared);
	return (Node *) node;
}

const CustomScanMethods fasted_join_methods = {
	.CustomName = "FastedJoin",
	.CreateCustomScanState = CreateJoinNode
};
