/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  The join node at run time: both sides are read, then matches come.
 *
 * A vector that the engine does not take (of another number of dimensions, with a
 * null element) makes its row odd: it meets every row of the other side by the
 * clauses themselves, as in a nested loop, and gets the error or the answer that
 * it has there.  A vector that is null has no match.
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

/* --- matches */

static void
LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row)
{
	LoadRow(node, &node->sides[OUTER_SIDE], outer_row);
	LoadRow(node, &node->sides[INNER_SIDE], inner_row);
}

static void
LoadVectors(JoinNode *node)
{
	for (int i = 0; i < 2; i++)
		LoadVector(node, &node->sides[i]);
}

/* The distance clause itself decides. */
static bool
IsWithin(JoinNode *node)
{
	LoadVectors(node);
	return ExecQual(node->distance_qual, node->css.ss.ps.ps_ExprContext);
}

/* Does a pair that the engine found pass all clauses?  Then it is in the scan tuple, if anybody looks. */
static bool
PairPasses(JoinNode *node, uint32 outer_row, uint32 inner_row, double dist)
{
	bool		sure = node->exact || dist < node->surely_within;

	if (node->exact && node->plan.strict && dist >= node->radius)
		return false;
	if (node->join_quals == NULL && sure)
	{
		if (!node->no_columns)
			LoadPair(node, outer_row, inner_row);
		return true;
	}
	LoadPair(node, outer_row, inner_row);
	if (ExecQual(node->join_quals, ScanTuple(node)) && (sure || IsWithin(node)))
		return true;
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
	if (node->next_pair == node->npairs)
	{
		node->next_pair = node->npairs = 0;
		if (node->join == NULL || !JoinNext(node->join, &node->pairs, &node->npairs))
		{
			EndJoin(node);
			return false;
		}
	}
	*pair = node->pairs[node->next_pair++];
	return true;
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
		node->mirrored = node->plan.shared && node->order == NULL;
		return true;
	}
	if (!node->plan.shared || node->order != NULL ||
		node->next_equal == node->sides[OUTER_SIDE].nrows)
		return false;
	*pair = (FastedPair) {.a = node->next_equal,.b = node->next_equal};
	node->next_equal++;
	return true;
}

/* Puts the rows of a pair in the order that the clauses ask for; false: there is none. */
static bool
OrderRows(JoinNode *node, uint32 *outer_row, uint32 *inner_row)
{
	KeptRow		a = KeptRowsFetch(node->sides[OUTER_SIDE].kept, *outer_row, OUTER_SIDE);
	KeptRow		b = KeptRowsFetch(node->sides[OUTER_SIDE].kept, *inner_row, INNER_SIDE);
	int			column = node->order_column;
	MemoryContext old;
	int			compared;

	/* what was loaded from a file is there no longer */
	node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	if (a.isnull[column] || b.isnull[column])
		return false;
	old = MemoryContextSwitchTo(ScanTuple(node)->ecxt_per_tuple_memory);
	compared = ApplySortComparator(a.values[column], false, b.values[column], false, node->order);
	MemoryContextSwitchTo(old);
	if ((compared > 0) != node->plan.order_swapped)
	{
		uint32		swap = *outer_row;

		*outer_row = *inner_row;
		*inner_row = swap;
	}
	return compared != 0;
}

/* The next match in the scan tuple; false: the engine has no more of the group. */
static bool
NextPair(JoinNode *node)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[node->plan.shared ? OUTER_SIDE : INNER_SIDE];
	FastedPair	pair;

	while (NextCandidate(node, &pair))
	{
		uint32		outer_row = outer->rows[pair.a];
		uint32		inner_row = inner->rows[pair.b];

		CHECK_FOR_INTERRUPTS();
		if (node->order != NULL && !OrderRows(node, &outer_row, &inner_row))
		{
			InstrCountFiltered1(node, 1);
			continue;
		}
		if (IsOver(node, outer_row))
			continue;
		if (PairPasses(node, outer_row, inner_row, pair.dist) && NoteMatch(node, outer_row))
			return true;
	}
	return false;
}

/* --- odd rows */

/* Goes on to the next odd row of the group, of the outer side and then of the inner one. */
static bool
FindOddRow(JoinNode *node)
{
	node->next_other = node->met = 0;
	if (node->next_odd < node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE].nodd)
		return true;
	if (node->odd_inner)
		return false;
	node->odd_inner = true;
	node->next_odd = 0;
	return node->sides[INNER_SIDE].nodd > 0;
}

static bool
BeginOddRows(JoinNode *node)
{
	node->odd_inner = false;
	node->next_odd = 0;
	return FindOddRow(node);
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

/* The next match of an odd row, or of the next one; false: the group has no more. */
static bool
NextOdd(JoinNode *node)
{
	for (;;)
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
			if (!FindOddRow(node))
				return false;
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
}

/* The next row of the outer side that has no match, with nulls beside it. */
static bool
NextUnmatched(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];

	if (node->plan.type != JOIN_LEFT && node->plan.type != JOIN_ANTI)
		return false;
	while (node->next_unmatched < KeptRowsCount(outer->kept))
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
 * to the engine as they come.
 */
static void
BeginRun(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	for (int i = 0; i < 2; i++)
		LoadNulls(node, &node->sides[i]);
	node->undecided = !FindRadius(node, ScanTuple(node));
	BeginSide(node, outer);
	if (node->plan.shared)
		inner->kept = outer->kept;
	else
		BeginSide(node, inner);
	for (int i = 0; i < (node->plan.shared ? 1 : 2); i++)
		if (node->sides[i].left == NULL)
			ReadSide(node, &node->sides[i]);
	FindGroups(node);
	node->runs++;
}

/* Goes on to the next group; behind the last one, to rows that have found no match. */
static void
GoOnToGroup(JoinNode *node)
{
	node->phase = BeginNextGroup(node) ? JOIN_PAIRS : JOIN_UNMATCHED;
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
				BeginRun(node);
				GoOnToGroup(node);
				break;
			case JOIN_PAIRS:
				if (NextPair(node))
					return true;
				if (BeginOddRows(node))
					node->phase = JOIN_ODD;
				else
					GoOnToGroup(node);
				break;
			case JOIN_ODD:
				if (NextOdd(node))
					return true;
				GoOnToGroup(node);
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

/* --- the node */

static TupleTableSlot *
NextRowOfJoin(CustomScanState *node)
{
	return NextRow(&node->ss.ps);
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
	node->radius_state = ExecInitExpr(plan->radius, state);
	node->distance_qual = ExecInitQual(list_make1(list_nth(plan->join_quals, plan->distance_qual)), state);
	node->join_quals = ExecInitQual(others, state);
	node->all_quals = ExecInitQual(plan->join_quals, state);
	node->other_quals = ExecInitQual(plan->other_quals, state);
	node->no_columns = plan->other_quals == NIL && state->ps_ProjInfo != NULL &&
		state->plan->targetlist == NIL;
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
	InitOrder(node);
	node->pusher.push = PushGroup;
	node->context = AllocSetContextCreate(estate->es_query_cxt, "fasted join node",
										  ALLOCSET_DEFAULT_SIZES);
	/* the executor need not come by way of ExecCustomScan */
	css->ss.ps.ExecProcNode = NextRow;
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
