/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  The join node at run time: both sides are read, then matches come, or their number; and
 *	  what EXPLAIN says of it (doc/plans.md).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "nodes/makefuncs.h"
#include "scan/scan_explain.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

/* --- a run */

/*
 * A side that keeps all of its rows is read before the engine begins, as its rows may
 * have to wait for their groups; of one that leaves its vectors in the table, these go
 * to the engine as they come.  The inner side is not read for an empty outer one.
 */
static void
BeginRun(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	for (int i = 0; i < 2; i++)
		LoadNulls(node, &node->sides[i]);
	BeginSide(node, outer);
	if (node->plan.shared)
		inner->kept = outer->kept;
	else
		BeginSide(node, inner);
	if (outer->left == NULL)
		ReadSide(node, outer);
	if (!node->plan.shared && inner->left == NULL && !IsEmptySide(node, outer))
		ReadSide(node, inner);
	FindGroups(node);
	node->runs++;
}

/* Goes on to the next groups; behind the last ones, to rows that have found no match. */
static void
GoOnToGroups(JoinNode *node)
{
	node->phase = BeginNextGroups(node) ? JOIN_PAIRS : JOIN_UNMATCHED;
	if (node->plan.count && node->phase == JOIN_PAIRS)
		node->count += CountPairs(node);
	if (node->plan.type != JOIN_INNER && node->matched == NULL)
		node->matched = MemoryContextAllocExtended(node->context,
												   node->sides[OUTER_SIDE].kept->count + 1,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
EndRun(JoinNode *node)
{
	EndJoin(node);
	for (int i = 0; i < 2; i++)
		EndSide(node, &node->sides[i]);
	memset(&node->phase, 0, sizeof(JoinNode) - offsetof(JoinNode, phase));
	MemoryContextReset(node->context);
}

/* The next match, or row without one, in the scan tuple. */
static bool
NextMatch(JoinNode *node)
{
	for (;;)
	{
		switch (node->phase)
		{
			case JOIN_TO_BEGIN:
				if (!ExecQual(node->one_time_quals, ScanTuple(node)))
				{
					node->phase = JOIN_OVER;
					break;
				}
				BeginRun(node);
				GoOnToGroups(node);
				break;
			case JOIN_PAIRS:
				if (NextPair(node))
					return true;
				node->phase = JOIN_ODD;
				break;
			case JOIN_ODD:
				if (NextOdd(node))
					return true;
				GoOnToGroups(node);
				break;
			case JOIN_UNMATCHED:
				if (NextUnmatched(node))
					return true;
				node->phase = JOIN_OVER;
				break;
			case JOIN_OVER:
				return false;
		}
	}
}

static TupleTableSlot *
NextRow(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	ProjectionInfo *projection = state->ps_ProjInfo;
	TupleTableSlot *result = projection == NULL ? NULL : projection->pi_state.resultslot;

	/* somebody above may have made the last scan tuple a copy of its own */
	if (TTS_SHOULDFREE(node->css.ss.ss_ScanTupleSlot))
	{
		ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
		node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	}
	while (NextMatch(node))
	{
		ExprContext *econtext;

		if (node->no_columns)
			return TTS_EMPTY(result) ? ExecStoreVirtualTuple(result) : result;
		econtext = ScanTuple(node);
		if (node->other_quals == NULL || ExecQual(node->other_quals, econtext))
			return projection == NULL ? econtext->ecxt_scantuple : ExecProject(projection);
		InstrCountFiltered2(node, 1);
	}
	return result == NULL ? NULL : ExecClearTuple(result);
}

/* --- count(*) */

/* The scan tuple's last column, of the only row. */
static TupleTableSlot *
NextCount(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	int			column = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - 1;
	uint64		count;
	ExprContext *econtext;

	if (node->phase == JOIN_OVER)
		return ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	while (NextMatch(node))
		node->count++;
	count = node->count;
	/* its memory is free before anybody sees the result */
	EndRun(node);
	node->phase = JOIN_OVER;
	for (int i = 0; i < 2; i++)
		LoadNulls(node, &node->sides[i]);
	econtext = ScanTuple(node);
	econtext->ecxt_scantuple->tts_values[column] = Int64GetDatum((int64) count);
	econtext->ecxt_scantuple->tts_isnull[column] = false;
	return ExecProject(state->ps_ProjInfo);
}

/* --- EXPLAIN */

static void
ExplainQuals(const char *label, List *quals, JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *context;

	if (quals == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);
	ExplainPropertyText(label, deparse_expression((Node *) make_ands_explicit(quals), context,
												  true, false), es);
}

static void
ExplainKeys(JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);
	List	   *texts = NIL;
	ListCell   *cell;

	foreach(cell, node->plan.outer_keys)
		texts = lappend(texts, deparse_expression(lfirst(cell), context, true, false));
	if (texts != NIL)
		ExplainPropertyList("Group Key", texts, es);
	if (texts == NIL || !es->analyze)
		return;
	ExplainPropertyUInteger("Groups", NULL, node->all_groups, es);
	if (node->all_groups > 0)
		ExplainPropertyUInteger("Small Groups", NULL, node->all_groups - node->engine_groups, es);
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
	ExplainQuals("One-Time Filter", plan->one_time_quals, node, ancestors, es);
	if (es->analyze && instrument != NULL)
	{
		ExplainRemoved("Rows Removed by Join Filter", instrument->nfiltered1, instrument, es);
		if (plan->other_quals != NIL)
			ExplainRemoved("Rows Removed by Filter", instrument->nfiltered2, instrument, es);
	}
	if (plan->count)
	{
		/* where pairs are told apart by more than the engine knows, the node looks at each */
		ExplainPropertyText("Aggregate", "count(*)", es);
		ExplainPropertyText("Counted By", plan->distance_decides && plan->form != FORM_FOREIGN ?
							"engine" : "node", es);
	}
	if (es->analyze && node->all_groups > 0 && node->engine_groups == 0)
		ExplainNoEngine(es);
	else
		ExplainEngine(&stats, es);
	if (es->analyze && stats.engine[0] != '\0')
	{
		ExplainWork(&stats, node->runs, es);
		if (es->timing)
			ExplainMachine(&stats, es);
	}
}

/* --- the node */

/* The executor need not come by way of ExecCustomScan. */
static TupleTableSlot *
NextRowOfJoin(CustomScanState *node)
{
	return ((JoinNode *) node)->plan.count ? NextCount(&node->ss.ps) : NextRow(&node->ss.ps);
}

static FmgrInfo *
HashFunctions(List *oids)
{
	FmgrInfo   *functions = palloc(list_length(oids) * sizeof(FmgrInfo) + 1);
	ListCell   *cell;

	foreach(cell, oids)
		fmgr_info(lfirst_oid(cell), &functions[foreach_current_index(cell)]);
	return functions;
}

static void
InitSides(JoinNode *node, EState *estate, List *plans, int eflags)
{
	const JoinPlan *plan = &node->plan;
	PlanState  *state = &node->css.ss.ps;
	ListCell   *cell;

	foreach(cell, plans)
		node->css.custom_ps = lappend(node->css.custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];

		InitSide(node, i, list_nth(node->css.custom_ps, plan->shared ? 0 : i));
		side->vector = ExecInitExpr(i == OUTER_SIDE ? plan->outer : plan->inner, state);
		side->keys = ExecInitExprList(i == OUTER_SIDE ? plan->outer_keys : plan->inner_keys, state);
		side->hashes = HashFunctions(i == OUTER_SIDE ? plan->outer_hashes : plan->inner_hashes);
	}
}

/*
 * The clauses that come before the distance's tell for which pairs a nested loop would evaluate
 * the vectors.  Those of the outer side alone are evaluated once a row.  Of rows that both sides
 * share they say too little, as each row is one of the inner side as well.  The others are
 * evaluated only where an expression may raise an error: it must not for a vector that no pair
 * asks for.
 */
static void
InitQuals(JoinNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	const JoinPlan *plan = &node->plan;
	int			of_outer = plan->shared ? 0 : plan->outer_quals;
	List	   *earlier = list_truncate(list_copy(plan->join_quals), plan->distance_qual);
	List	   *others = NIL;
	ListCell   *cell;

	foreach(cell, plan->join_quals)
	{
		int			qual = foreach_current_index(cell);

		if (qual != plan->distance_qual && qual != plan->order_qual)
			others = lappend(others, lfirst(cell));
	}
	node->bound = ExecInitExpr(plan->bound, state);
	node->one_time_quals = ExecInitQual(plan->one_time_quals, state);
	if (plan->may_raise)
		node->partner_quals = ExecInitQual(list_copy_tail(earlier, of_outer), state);
	node->outer_quals = ExecInitQual(list_truncate(earlier, of_outer), state);
	node->distance_qual = ExecInitQual(list_make1(list_nth(plan->join_quals, plan->distance_qual)), state);
	node->join_quals = ExecInitQual(others, state);
	node->all_quals = ExecInitQual(plan->join_quals, state);
	node->other_quals = ExecInitQual(plan->other_quals, state);
	node->no_columns = plan->count || (plan->other_quals == NIL && state->ps_ProjInfo != NULL &&
									   state->plan->targetlist == NIL);
}

/* Prepares to compare values as the operator of the order does. */
static void
InitOrder(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;

	if (plan->order_qual < 0)
		return;
	node->order = palloc0(sizeof(SortSupportData));
	node->order->ssup_cxt = CurrentMemoryContext;
	node->order->ssup_collation = plan->order_collation;
	/* which makes > of < by turning its answers round */
	PrepareSortSupportFromOrderingOp(plan->order_operator, node->order);
	while (node->sides[OUTER_SIDE].kept_from[node->order_column] != plan->order_column)
		node->order_column++;
}

static void
BeginJoinNode(CustomScanState *css, EState *estate, int eflags)
{
	JoinNode   *node = (JoinNode *) css;

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	InitSides(node, estate, ((CustomScan *) css->ss.ps.plan)->custom_plans, eflags);
	InitQuals(node);
	InitOrder(node);
	node->pusher.push = PushGroups;
	node->context = AllocSetContextCreate(estate->es_query_cxt, "fasted join node",
										  ALLOCSET_DEFAULT_SIZES);
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
	.ExecCustomScan = NextRowOfJoin,
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
	return (Node *) node;
}

const CustomScanMethods fasted_join_methods = {
	.CustomName = "FastedJoin",
	.CreateCustomScanState = CreateJoinNode
};
