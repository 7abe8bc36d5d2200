/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  The join node at run time: both sides are read, then matches come, or their number.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

/* Somebody above may have made the last scan tuple a copy of its own. */
static void
ForgetCopy(JoinNode *node)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	if (!TTS_SHOULDFREE(scan))
		return;
	ExecClearTuple(scan);
	node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
}

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
	node->radius_known = node->undecided = node->nothing = false;
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
												   KeptRowsCount(node->sides[OUTER_SIDE].kept) + 1,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
EndRun(JoinNode *node)
{
	EndJoin(node);
	for (int i = 0; i < 2; i++)
		EndSide(node, &node->sides[i]);
	node->matched = NULL;
	node->own_pairs = NULL;
	node->next_pair = node->npairs = 0;
	node->next_unmatched = node->next_equal = 0;
	node->mirrored = false;
	node->phase = JOIN_TO_BEGIN;
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
				node->odd_group = 0;
				if (!BeginOddRows(node))
					GoOnToGroups(node);
				break;
			case JOIN_ODD:
				if (NextOdd(node))
					return true;
				if (!BeginOddRows(node))
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
EmptyRow(TupleTableSlot *slot)
{
	return TTS_EMPTY(slot) ? ExecStoreVirtualTuple(slot) : slot;
}

static TupleTableSlot *
NextRow(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	ProjectionInfo *projection = state->ps_ProjInfo;

	ForgetCopy(node);
	while (NextMatch(node))
	{
		ExprContext *econtext;

		if (node->no_columns)
			return EmptyRow(projection->pi_state.resultslot);
		econtext = ScanTuple(node);
		if (node->other_quals == NULL || ExecQual(node->other_quals, econtext))
			return projection == NULL ? econtext->ecxt_scantuple : ExecProject(projection);
		InstrCountFiltered2(node, 1);
	}
	return projection == NULL ? NULL : ExecClearTuple(projection->pi_state.resultslot);
}

/* --- count(*) */

/* The run is over then, and its memory free. */
static void
CountMatches(JoinNode *node)
{
	node->count = 0;
	while (NextMatch(node))
		node->count++;
	EndRun(node);
	node->phase = JOIN_OVER;
}

/* The scan tuple's last column, of the only row. */
static TupleTableSlot *
NextCount(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	int			column = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - 1;
	ExprContext *econtext;

	if (node->phase == JOIN_OVER)
		return ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	CountMatches(node);
	for (int i = 0; i < 2; i++)
		LoadNulls(node, &node->sides[i]);
	econtext = ScanTuple(node);
	econtext->ecxt_scantuple->tts_values[column] = Int64GetDatum((int64) node->count);
	econtext->ecxt_scantuple->tts_isnull[column] = false;
	return ExecProject(state->ps_ProjInfo);
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
		Expr	   *vector = i == OUTER_SIDE ? plan->outer : plan->inner;

		InitSide(node, i, list_nth(node->css.custom_ps, plan->shared ? 0 : i));
		InitSideVector(node, side, vector);
		side->vector = ExecInitExpr(vector, state);
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
InitEarlierQuals(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;
	int			of_outer = plan->shared ? 0 : plan->outer_quals;
	List	   *earlier = list_truncate(list_copy(plan->join_quals), plan->distance_qual);

	if (plan->may_raise)
		node->partner_quals = ExecInitQual(list_copy_tail(earlier, of_outer), &node->css.ss.ps);
	node->outer_quals = ExecInitQual(list_truncate(earlier, of_outer), &node->css.ss.ps);
}

static void
InitQuals(JoinNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	const JoinPlan *plan = &node->plan;
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
	node->distance_qual = ExecInitQual(list_make1(list_nth(plan->join_quals, plan->distance_qual)), state);
	node->join_quals = ExecInitQual(others, state);
	node->all_quals = ExecInitQual(plan->join_quals, state);
	node->other_quals = ExecInitQual(plan->other_quals, state);
	node->no_columns = plan->count || (plan->other_quals == NIL && state->ps_ProjInfo != NULL &&
									   state->plan->targetlist == NIL);
}

static void
InitOrder(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;

	if (plan->order_qual < 0)
		return;
	node->order = BeginRowOrder(plan->order_operator, plan->order_collation);
	node->order_column = node->sides[OUTER_SIDE].place[plan->order_column];
}

static void
BeginJoinNode(CustomScanState *css, EState *estate, int eflags)
{
	JoinNode   *node = (JoinNode *) css;

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	InitSides(node, estate, ((CustomScan *) css->ss.ps.plan)->custom_plans, eflags);
	InitQuals(node);
	InitEarlierQuals(node);
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
