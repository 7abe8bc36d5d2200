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
#include "session/guc.h"
#include "utils/memutils.h"

/* The rows of each side may take this part of fasted.memory_limit, beside the engine. */
#define KEPT_SHARE 4

/* --- rows */

static void
ReadSide(JoinNode *node, JoinSide *side)
{
	MemoryContext old = MemoryContextSwitchTo(node->context);

	side->kept = KeptRowsCreate((Size) fasted_setting_memory_limit * 1024 / KEPT_SHARE);
	MemoryContextSwitchTo(old);
	for (;;)
	{
		TupleTableSlot *slot = ExecProcNode(side->plan);

		if (TupIsNull(slot))
			break;
		KeptRowsAdd(side->kept, slot);
		CHECK_FOR_INTERRUPTS();
	}
}

void
LoadRow(JoinNode *node, JoinSide *side, uint32 row)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	if (side->loaded == row)
		return;
	KeptRowsFetch(side->kept, row, side == &node->sides[INNER_SIDE], side->slot);
	slot_getallattrs(side->slot);
	side->loaded = row;
	if (side->shared == NULL)
	{
		memcpy(scan->tts_values + side->first, side->slot->tts_values, side->columns * sizeof(Datum));
		memcpy(scan->tts_isnull + side->first, side->slot->tts_isnull, side->columns * sizeof(bool));
		return;
	}
	for (int i = 0; i < side->columns; i++)
	{
		scan->tts_values[side->first + i] = side->slot->tts_values[side->shared[i]];
		scan->tts_isnull[side->first + i] = side->slot->tts_isnull[side->shared[i]];
	}
}

static void
LoadNulls(JoinNode *node, JoinSide *side)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	if (side->loaded == -2)
		return;
	memset(scan->tts_values + side->first, 0, side->columns * sizeof(Datum));
	memset(scan->tts_isnull + side->first, true, side->columns * sizeof(bool));
	side->loaded = -2;
}

ExprContext *
ScanTuple(JoinNode *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	ResetExprContext(econtext);
	scan->tts_flags &= ~TTS_FLAG_EMPTY;
	scan->tts_nvalid = scan->tts_tupleDescriptor->natts;
	econtext->ecxt_scantuple = scan;
	return econtext;
}

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

/* Does a pair that the engine found pass all clauses? */
static bool
PairPasses(JoinNode *node, double dist)
{
	ExprContext *econtext;
	bool		sure = node->exact || dist < node->surely_within;

	if (node->exact && node->plan.strict && dist >= node->radius)
		return false;
	if (node->join_quals == NULL && sure)
		return true;
	econtext = ScanTuple(node);
	if (ExecQual(node->join_quals, econtext) && (sure || ExecQual(node->distance_qual, econtext)))
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

/* The rows of a match that is to be checked, by their numbers in the group at work. */
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
	if (node->next_pair == node->npairs)
	{
		node->next_pair = node->npairs = 0;
		if (node->join == NULL || !JoinNext(node->join, &node->pairs, &node->npairs))
		{
			EndJoin(node);
			if (!node->plan.shared || node->next_equal == node->sides[OUTER_SIDE].nrows)
				return false;
			*pair = (FastedPair) {.a = node->next_equal,.b = node->next_equal};
			node->next_equal++;
			return true;
		}
	}
	*pair = node->pairs[node->next_pair++];
	node->mirrored = node->plan.shared;
	return true;
}

/* The next match in the scan tuple; false: the engine has no more. */
static bool
NextPair(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];
	FastedPair	pair;

	do
	{
		while (NextCandidate(node, &pair))
		{
			uint32		row = outer->rows[pair.a];

			CHECK_FOR_INTERRUPTS();
			if (IsOver(node, row))
				continue;
			LoadRow(node, outer, row);
			LoadRow(node, inner, (node->plan.shared ? outer : inner)->rows[pair.b]);
			if (PairPasses(node, pair.dist) && NoteMatch(node, row))
				return true;
		}
	} while (BeginNextGroup(node));
	return false;
}

/* Goes on to the next odd row, of the outer side and then of the inner one. */
static bool
NextOddRow(JoinNode *node, uint32 from)
{
	for (;;)
	{
		const JoinSide *side = &node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE];

		for (uint32 row = from; side->odd != NULL && row < KeptRowsCount(side->kept); row++)
		{
			if (!side->odd[row])
				continue;
			node->odd_row = row;
			node->next_row = 0;
			return true;
		}
		if (node->odd_inner)
			return false;
		node->odd_inner = true;
		from = 0;
	}
}

/* The next match of an odd row, or of the next one; false: there are no more. */
static bool
NextOdd(JoinNode *node)
{
	for (;;)
	{
		JoinSide   *odd = &node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE];
		JoinSide   *other = &node->sides[node->odd_inner ? OUTER_SIDE : INNER_SIDE];
		uint32		row = node->next_row++;
		uint32		outer_row = node->odd_inner ? row : node->odd_row;

		CHECK_FOR_INTERRUPTS();
		if (row >= KeptRowsCount(other->kept))
		{
			if (!NextOddRow(node, node->odd_row + 1))
				return false;
			continue;
		}
		/* two odd ones have met already */
		if (IsOver(node, outer_row) ||
			(node->odd_inner && other->odd != NULL && other->odd[row]))
			continue;
		LoadRow(node, odd, node->odd_row);
		LoadRow(node, other, row);
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
	while (node->next_row < KeptRowsCount(outer->kept))
	{
		uint32		row = node->next_row++;

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

static void
BeginRun(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];
	bool		decided;

	for (int i = 0; i < 2; i++)
		LoadNulls(node, &node->sides[i]);
	decided = FindRadius(node, ScanTuple(node));
	ReadSide(node, outer);
	if (node->plan.shared)
		inner->kept = outer->kept;
	else
		ReadSide(node, inner);
	if (node->plan.type != JOIN_INNER)
		node->matched = MemoryContextAllocExtended(node->context, KeptRowsCount(outer->kept) + 1,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	FindGroups(node, decided);
	node->runs++;
	node->phase = JOIN_PAIRS;
}

static void
EndRun(JoinNode *node)
{
	EndJoin(node);
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];

		ExecClearTuple(side->slot);
		if (side->kept != NULL && !(i == INNER_SIDE && node->plan.shared))
			KeptRowsEnd(side->kept);
		side->kept = NULL;
		side->rows = NULL;
		side->odd = NULL;
		side->grouped = NULL;
		side->vectors = NULL;
		side->nrows = side->rows_room = 0;
		side->loaded = -1;
	}
	node->matched = NULL;
	node->own_pairs = NULL;
	node->next_pair = node->npairs = 0;
	node->next_row = node->next_equal = 0;
	node->odd_inner = node->mirrored = false;
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
				break;
			case JOIN_PAIRS:
				if (NextPair(node))
					return true;
				if (node->plan.shared)
					node->sides[INNER_SIDE].odd = node->sides[OUTER_SIDE].odd;
				node->phase = NextOddRow(node, 0) ? JOIN_ODD : JOIN_UNMATCHED;
				break;
			case JOIN_ODD:
				if (NextOdd(node))
					return true;
				node->next_row = 0;
				node->phase = JOIN_UNMATCHED;
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

	ForgetCopy(node);
	while (NextMatch(node))
	{
		ExprContext *econtext = ScanTuple(node);

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

static int *
ArrayOf(List *numbers)
{
	int		   *array = palloc(list_length(numbers) * sizeof(int) + 1);
	ListCell   *cell;

	foreach(cell, numbers)
		array[foreach_current_index(cell)] = lfirst_int(cell);
	return array;
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
	int			natts = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	const JoinPlan *plan = &node->plan;
	ListCell   *cell;

	foreach(cell, plans)
		node->css.custom_ps = lappend(node->css.custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];

		side->plan = i < list_length(plans) ? list_nth(node->css.custom_ps, i) : node->sides[0].plan;
		side->vector = ExecInitExpr(i == OUTER_SIDE ? plan->outer : plan->inner, &node->css.ss.ps);
		side->first = i == OUTER_SIDE ? 0 : plan->outer_columns;
		side->columns = i == OUTER_SIDE ? plan->outer_columns : natts - plan->outer_columns;
		side->keys = ExecInitExprList(i == OUTER_SIDE ? plan->outer_keys : plan->inner_keys,
									  &node->css.ss.ps);
		side->hashes = HashFunctions(i == OUTER_SIDE ? plan->outer_hashes : plan->inner_hashes);
		side->slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(side->plan),
											&TTSOpsMinimalTuple);
		side->loaded = -1;
	}
	if (plan->shared)
		node->sides[INNER_SIDE].shared = ArrayOf(plan->shared_columns);
}

static void
BeginJoinNode(CustomScanState *css, EState *estate, int eflags)
{
	JoinNode   *node = (JoinNode *) css;
	PlanState  *state = &css->ss.ps;
	JoinPlan   *plan = &node->plan;
	Expr	   *distance = list_nth(plan->join_quals, plan->distance_qual);
	List	   *others = list_delete_nth_cell(list_copy(plan->join_quals), plan->distance_qual);

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	InitSides(node, estate, ((CustomScan *) state->plan)->custom_plans, eflags);
	node->radius_state = ExecInitExpr(plan->radius, state);
	node->distance_qual = ExecInitQual(list_make1(distance), state);
	node->join_quals = ExecInitQual(others, state);
	node->all_quals = ExecInitQual(plan->join_quals, state);
	node->other_quals = ExecInitQual(plan->other_quals, state);
	node->pusher.push = PushGroup;
	node->context = AllocSetContextCreate(estate->es_query_cxt, "fasted join node",
										  ALLOCSET_DEFAULT_SIZES);
	/* the executor need not come by way of ExecCustomScan */
	state->ExecProcNode = NextRow;
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
