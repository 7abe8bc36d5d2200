/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  The join node at run time: both sides are read, then matches come, or their number; and
 *	  what EXPLAIN says of it (doc/plans.md).
 *
 * A vector that the engine does not take (of another number of dimensions, with a
 * null element) makes its row odd: it meets every row of the other side by the
 * clauses themselves, as in a nested loop, and gets the error or the answer that
 * it has there.  A vector that is null has no match.
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
#include "function_node/function_node.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

/* Rows are fetched from main memory while so many other pairs are looked at. */
#define PAIRS_AHEAD 12

/* --- pairs that the engine finds */

static void
LoadVectors(JoinNode *node)
{
	for (int i = 0; i < 2; i++)
		LoadVector(node, &node->sides[i]);
}

/* Is a pair at that distance within the radius, whoever computes it? */
static bool
IsSure(const JoinNode *node, double dist)
{
	return node->exact || dist < node->surely_within;
}

/*
 * Does a pair that the engine found pass all clauses?  Then it is in the scan tuple, if
 * anybody looks.
 */
static bool
PairPasses(JoinNode *node, uint32 outer_row, uint32 inner_row, double dist)
{
	bool		sure = IsSure(node, dist);

	if (node->join_quals == NULL && sure)
	{
		if (!node->no_columns)
			LoadPair(node, outer_row, inner_row);
		return true;
	}
	LoadPair(node, outer_row, inner_row);
	if (ExecQual(node->join_quals, ScanTuple(node)))
	{
		if (sure)
			return true;
		/* the distance clause itself decides */
		LoadVectors(node);
		if (ExecQual(node->distance_qual, node->css.ss.ps.ps_ExprContext))
			return true;
	}
	InstrCountFiltered1(node, 1);
	return false;
}

/* Notes a match of the row; false: it is not a row of the result. */
static bool
NoteMatch(JoinNode *node, uint32 row)
{
	if (node->matched != NULL)
		node->matched[row] = true;
	return node->plan.type != JOIN_ANTI;
}

/* Has it the one match that is wanted? */
static bool
IsOver(const JoinNode *node, uint32 outer_row)
{
	return (node->plan.type == JOIN_SEMI || node->plan.type == JOIN_ANTI) &&
		node->matched[outer_row];
}

/* The engine's next pair; false: it has no more. */
static bool
NextOfEngine(JoinNode *node, FastedPair *pair)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[INNER_SIDE];

	if (node->next_pair == node->npairs)
	{
		node->next_pair = node->npairs = 0;
		if (node->join == NULL || !JoinNext(node->join, &node->pairs, &node->npairs))
		{
			EndJoin(node);
			return false;
		}
	}
	if (node->next_pair + PAIRS_AHEAD < node->npairs)
	{
		KeptRowsPrefetch(outer->kept, outer->rows[node->pairs[node->next_pair + PAIRS_AHEAD].a]);
		KeptRowsPrefetch(inner->kept, inner->rows[node->pairs[node->next_pair + PAIRS_AHEAD].b]);
	}
	*pair = node->pairs[node->next_pair++];
	return true;
}

/* Shared rows: is a pair a match both ways, and each row one with itself? */
static bool
GoesBothWays(const JoinNode *node)
{
	return node->plan.shared && node->order == NULL;
}

/* The rows of a match that is to be checked, by the engine's numbers. */
static bool
NextCandidate(JoinNode *node, FastedPair *pair)
{
	if (node->mirrored)
	{
		const FastedPair *last = &node->pairs[node->next_pair - 1];

		*pair = (FastedPair) {.a = last->b,.b = last->a,.dist = last->dist};
		node->mirrored = false;
		return true;
	}
	if (NextOfEngine(node, pair))
	{
		node->mirrored = GoesBothWays(node);
		return true;
	}
	if (!GoesBothWays(node) || node->next_equal == node->sides[OUTER_SIDE].nrows)
		return false;
	*pair = (FastedPair) {.a = node->next_equal,.b = node->next_equal};
	node->next_equal++;
	return true;
}

/* Compares rows by their values; zero: they have no order. */
static int
CompareRows(JoinNode *node, uint32 row, uint32 other)
{
	const KeptRows *kept = node->sides[OUTER_SIDE].kept;
	MemoryContext old = MemoryContextSwitchTo(ScanTuple(node)->ecxt_per_tuple_memory);
	int			compared = CompareByOrder(node, row, other);

	/* what was loaded from a file is there no longer */
	if (Max(row, other) >= kept->in_memory)
		node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	MemoryContextSwitchTo(old);
	return compared;
}

/* Puts the rows of a pair in the order that the clauses ask for; false: there is none. */
static bool
OrderRows(JoinNode *node, uint32 *outer_row, uint32 *inner_row)
{
	int			compared;

	if (node->direction != 0)
		compared = *outer_row < *inner_row ? node->direction : -node->direction;
	else
		compared = CompareRows(node, *outer_row, *inner_row);
	if ((compared > 0) != node->plan.order_swapped)
	{
		uint32		swap = *outer_row;

		*outer_row = *inner_row;
		*inner_row = swap;
	}
	return compared != 0;
}

/* Is it a match?  Then it is in the scan tuple, as it is after PairPasses. */
static bool
IsMatch(JoinNode *node, const FastedPair *pair)
{
	uint32		outer_row = node->sides[OUTER_SIDE].rows[pair->a];
	uint32		inner_row = node->sides[INNER_SIDE].rows[pair->b];

	if (node->order != NULL && !OrderRows(node, &outer_row, &inner_row))
	{
		InstrCountFiltered1(node, 1);
		return false;
	}
	return !IsOver(node, outer_row) && PairPasses(node, outer_row, inner_row, pair->dist) &&
		NoteMatch(node, outer_row);
}

/* The next match in the scan tuple; false: the engine has no more of these groups. */
static bool
NextPair(JoinNode *node)
{
	FastedPair	pair;

	while (NextCandidate(node, &pair))
	{
		CHECK_FOR_INTERRUPTS();
		if (IsMatch(node, &pair))
			return true;
	}
	return false;
}

/* The number of all of those. */
static uint64
CountPairs(JoinNode *node)
{
	uint64		count = 0;
	FastedPair	pair;

	if (node->engine_counts && node->join != NULL)
	{
		count = JoinCount(node->join);
		EndJoin(node);
		if (!GoesBothWays(node))
			return count;
		node->next_equal = node->sides[OUTER_SIDE].nrows;
		return 2 * count + node->next_equal;
	}
	while (NextCandidate(node, &pair))
	{
		CHECK_FOR_INTERRUPTS();
		if ((node->distance_decides && IsSure(node, pair.dist)) || IsMatch(node, &pair))
			count++;
	}
	return count;
}

/* --- odd rows */

/*
 * Goes to the next odd row where the one at work is none: first those of a group's outer side,
 * then of its inner side, then of the next group.  False: there are no more.
 */
static bool
FindOddRow(JoinNode *node)
{
	while (node->next_odd >= node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE].nodd)
	{
		if (node->odd_inner && node->odd_group == node->nbatch)
			return false;
		if (node->odd_inner)
			TakeGroup(node, node->odd_group++);
		node->odd_inner = !node->odd_inner;
		node->next_odd = 0;
	}
	return true;
}

/* Is the other side's row an odd one, which the odd row of the inner side has met already? */
static bool
HaveMet(JoinNode *node, const JoinSide *other, uint32 i)
{
	if (!node->odd_inner || node->met == other->nodd || other->odd[node->met] != i)
		return false;
	node->met++;
	return true;
}

/* The next match of an odd row of these groups; false: there are no more. */
static bool
NextOdd(JoinNode *node)
{
	while (FindOddRow(node))
	{
		JoinSide   *odd = &node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE];
		JoinSide   *other = &node->sides[node->odd_inner ? OUTER_SIDE : INNER_SIDE];
		uint32		i = node->next_other++;
		uint32		odd_row;
		uint32		other_row;
		uint32		outer_row;

		CHECK_FOR_INTERRUPTS();
		if (i >= other->group.count)
		{
			node->next_odd++;
			node->next_other = node->met = 0;
			continue;
		}
		odd_row = RowOfGroup(odd, odd->odd[node->next_odd]);
		other_row = RowOfGroup(other, i);
		outer_row = node->odd_inner ? other_row : odd_row;
		if (HaveMet(node, other, i) || IsOver(node, outer_row))
			continue;
		LoadRow(node, odd, odd_row);
		LoadRow(node, other, other_row);
		LoadVectors(node);
		if (!ExecQual(node->all_quals, ScanTuple(node)))
			InstrCountFiltered1(node, 1);
		else if (NoteMatch(node, outer_row))
			return true;
	}
	return false;
}

/* The next row of the outer side that has no match, with nulls beside it. */
static bool
NextUnmatched(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];

	if (node->plan.type != JOIN_LEFT && node->plan.type != JOIN_ANTI)
		return false;
	while (node->next_unmatched < outer->kept->count)
	{
		uint32		row = node->next_unmatched++;

		CHECK_FOR_INTERRUPTS();
		if (node->matched[row])
			continue;
		LoadRow(node, outer, row);
		LoadNulls(node, &node->sides[INNER_SIDE]);
		return true;
	}
	return false;
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
	BeginSide(node, outer);
	if (node->plan.shared)
		inner->kept = outer->kept;
	else
		BeginSide(node, inner);
	if (outer->left_vector < 0)
		ReadSide(node, outer);
	if (!node->plan.shared && inner->left_vector < 0 && !IsEmptySide(node, outer))
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
		ExplainPropertyText("Engine", "none", es);
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
