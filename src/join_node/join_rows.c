/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  Rows of a side: from its plan, to where they are kept, into the scan tuple.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "base/guc.h"

/* The rows of both sides may take this part of fasted.memory_limit, beside the engine. */
#define KEPT_SHARE 2

static Size
KeptLimit(const JoinNode *node)
{
	return (Size) fasted_setting_memory_limit * 1024 / (node->plan.shared ? KEPT_SHARE : 2 * KEPT_SHARE);
}

/* --- which columns */

/* All columns of the plan's rows but a vector that is left in the table, and its place. */
static void
ChooseKeptColumns(JoinSide *side, TupleDesc rows)
{
	int			count = 0;

	side->kept_from = palloc(rows->natts * sizeof(int) + 1);
	for (int i = 0; i < rows->natts; i++)
		if (i != side->left_vector && i != side->left_place)
			side->kept_from[count++] = i;
	side->kept_columns = CreateTemplateTupleDesc(count);
	for (int i = 0; i < count; i++)
		TupleDescCopyEntry(side->kept_columns, i + 1, rows, side->kept_from[i] + 1);
}

/* Where each column of the scan tuple comes from. */
static void
PlaceColumns(JoinNode *node, JoinSide *side, bool shared)
{
	side->from = palloc(side->columns * sizeof(int) + 1);
	side->place = palloc(side->columns * sizeof(int) + 1);
	side->moves = palloc(side->columns * sizeof(*side->moves) + 1);
	for (int i = 0; i < side->columns; i++)
	{
		int			from = shared ? list_nth_int(node->plan.shared_columns, i) : i;

		side->from[i] = from;
		side->place[i] = NOT_KEPT;
		for (int k = 0; k < side->kept_columns->natts; k++)
			if (side->kept_from[k] == from)
				side->place[i] = k;
		if (side->place[i] != NOT_KEPT)
		{
			side->moves[side->nmoves].from = side->place[i];
			side->moves[side->nmoves++].to = side->first + i;
		}
		if (from == side->left_vector)
			side->left_column = side->first + i;
	}
}

/* Marks the columns of the scan tuple that an expression uses. */
static bool
MarkWanted(Node *node, bool *wanted)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		wanted[((Var *) node)->varattno - 1] = true;
		return false;
	}
	return expression_tree_walker(node, MarkWanted, wanted);
}

static void
FindWanted(JoinNode *node, JoinSide *side)
{
	const JoinPlan *plan = &node->plan;

	side->wanted = palloc0(node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts + 1);
	MarkWanted((Node *) plan->outer, side->wanted);
	MarkWanted((Node *) plan->inner, side->wanted);
	MarkWanted((Node *) plan->join_quals, side->wanted);
	MarkWanted((Node *) plan->outer_keys, side->wanted);
	MarkWanted((Node *) plan->inner_keys, side->wanted);
	if (!plan->shared)
		return;
	for (int i = 0; i < list_length(plan->shared_columns); i++)
		side->wanted[list_nth_int(plan->shared_columns, i)] |= side->wanted[plan->outer_columns + i];
}

void
InitSide(JoinNode *node, int number, PlanState *plan)
{
	JoinSide   *side = &node->sides[number];
	int			natts = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - node->plan.count;
	int			outer_columns = node->plan.outer_columns;
	bool		shared = node->plan.shared && number == INNER_SIDE;

	side->plan = plan;
	side->first = number == OUTER_SIDE ? 0 : outer_columns;
	side->columns = number == OUTER_SIDE ? outer_columns : natts - outer_columns;
	side->left_column = -1;
	side->left_vector = node->plan.left_vector[shared ? OUTER_SIDE : number];
	side->left_place = node->plan.left_place[shared ? OUTER_SIDE : number];
	side->loaded = -1;
	ChooseKeptColumns(side, ExecGetResultType(plan));
	PlaceColumns(node, side, shared);
	FindWanted(node, side);
	if (side->left_vector < 0)
		return;
	if (shared)
		side->left = node->sides[OUTER_SIDE].left;
	else
	{
		Var		   *column = (Var *) ((TargetEntry *) list_nth(plan->plan->targetlist, side->left_vector))->expr;

		Assert(IsA(column, Var));
		side->left = LeftVectorsCreate((ScanState *) plan, column->varattno, KeptLimit(node));
	}
}

/* --- reading */

void
BeginSide(JoinNode *node, JoinSide *side)
{
	MemoryContext old = MemoryContextSwitchTo(node->context);

	side->kept = KeptRowsCreate(side->kept_columns, KeptLimit(node));
	side->complete = false;
	node->direction = 0;
	MemoryContextSwitchTo(old);
}

/* The plan's next row; its nodes expect to be in the query's memory context. */
static TupleTableSlot *
NextOfPlan(JoinSide *side)
{
	MemoryContext old = MemoryContextSwitchTo(side->plan->state->es_query_cxt);
	TupleTableSlot *slot = ExecProcNode(side->plan);

	MemoryContextSwitchTo(old);
	if (TupIsNull(slot))
		return NULL;
	slot_getallattrs(slot);
	return slot;
}

/* Puts the plan's row into the scan tuple. */
static void
LoadFresh(JoinNode *node, JoinSide *side, TupleTableSlot *slot)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	MemoryContext memory = ScanTuple(node)->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(memory);

	for (int i = 0; i < side->columns; i++)
	{
		int			column = side->first + i;
		Form_pg_attribute attribute = TupleDescAttr(scan->tts_tupleDescriptor, column);
		Datum		value = slot->tts_values[side->from[i]];

		scan->tts_isnull[column] = slot->tts_isnull[side->from[i]];
		if (side->wanted[column] && !scan->tts_isnull[column] && attribute->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(value)))
			value = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
		scan->tts_values[column] = value;
	}
	MemoryContextSwitchTo(old);
	side->loaded = -1;
	side->has_vector = true;
}

/* Compares the last two rows that were kept; zero: they have no order. */
static int
CompareLast(JoinNode *node, KeptRows *kept)
{
	uint32		last = KeptRowsCount(kept) - 1;
	KeptRow		a = KeptRowsFetch(kept, last - 1, OUTER_SIDE);
	KeptRow		b = KeptRowsFetch(kept, last, INNER_SIDE);
	int			column = node->order_column;
	int			compared;

	if (a.isnull[column] || b.isnull[column])
		return 0;
	compared = ApplySortComparator(a.values[column], false, b.values[column], false, node->order);
	return compared < 0 ? -1 : compared > 0;
}

/* Do rows come in an order, so that a pair's is that of its row numbers? */
static void
NoteDirection(JoinNode *node, KeptRows *kept)
{
	uint32		count = KeptRowsCount(kept);

	if (!KeptRowIsInMemory(kept, count - 1))
		node->direction = 0;
	else if (count == 2)
		node->direction = CompareLast(node, kept);
	else if (node->direction != 0 && CompareLast(node, kept) != node->direction)
		node->direction = 0;
}

/* Keeps the row that is in the scan tuple, and those columns of it that are only in the slot. */
static void
KeepFresh(JoinNode *node, JoinSide *side, TupleTableSlot *slot)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	int			count = side->kept_columns->natts;
	Datum	   *values = palloc(count * sizeof(Datum) + 1);
	bool	   *isnull = palloc(count * sizeof(bool) + 1);

	for (int k = 0; k < count; k++)
	{
		values[k] = slot->tts_values[side->kept_from[k]];
		isnull[k] = slot->tts_isnull[side->kept_from[k]];
	}
	for (int i = 0; i < side->columns; i++)
		if (side->place[i] != NOT_KEPT)
			values[side->place[i]] = scan->tts_values[side->first + i];
	KeptRowsAdd(side->kept, values, isnull);
	if (node->order != NULL)
		NoteDirection(node, side->kept);
	MemoryContextSwitchTo(old);
	if (side->left != NULL)
		LeftVectorsAdd(side->left, (ItemPointer) DatumGetPointer(slot->tts_values[side->left_place]));
}

bool
ReadRow(JoinNode *node, JoinSide *side)
{
	TupleTableSlot *slot = side->complete ? NULL : NextOfPlan(side);

	if (slot == NULL)
	{
		side->complete = true;
		return false;
	}
	LoadFresh(node, side, slot);
	KeepFresh(node, side, slot);
	return true;
}

void
ReadSide(JoinNode *node, JoinSide *side)
{
	while (ReadRow(node, side))
		CHECK_FOR_INTERRUPTS();
}

bool
IsEmptySide(JoinNode *node, JoinSide *side)
{
	return KeptRowsCount(side->kept) == 0 && !ReadRow(node, side);
}

void
EndSide(JoinNode *node, JoinSide *side)
{
	bool		shared = node->plan.shared && side == &node->sides[INNER_SIDE];

	if (side->kept != NULL && !shared)
		KeptRowsEnd(side->kept);
	if (side->left != NULL && !shared)
		LeftVectorsReset(side->left);
	side->kept = NULL;
	side->complete = false;
	side->rows = side->all_odd = NULL;
	side->odd = NULL;
	side->grouped = NULL;
	side->vectors = NULL;
	side->nrows = side->rows_room = side->nodd = side->all_nodd = side->odd_room = 0;
	side->partner = 0;
	side->loaded = -1;
}

/* --- the scan tuple */

/* What is there of columns that are not kept is another row's. */
static void
ForgetOtherColumns(JoinSide *side, TupleTableSlot *scan)
{
	for (int i = 0; i < side->columns; i++)
	{
		if (side->place[i] != NOT_KEPT)
			continue;
		scan->tts_values[side->first + i] = (Datum) 0;
		scan->tts_isnull[side->first + i] = true;
	}
	side->has_vector = false;
}

void
LoadRow(JoinNode *node, JoinSide *side, uint32 row)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	KeptRow		kept;

	if (side->loaded == row)
		return;
	kept = KeptRowsFetch(side->kept, row, side == &node->sides[INNER_SIDE]);
	side->loaded = row;
	if (side->has_vector)
		ForgetOtherColumns(side, scan);
	for (int i = 0; i < side->nmoves; i++)
	{
		int			from = side->moves[i].from;
		int			to = side->moves[i].to;

		scan->tts_values[to] = kept.values[from];
		scan->tts_isnull[to] = kept.isnull[from];
	}
}

void
LoadVector(JoinNode *node, JoinSide *side)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	if (side->left == NULL || side->has_vector || side->loaded < 0)
		return;
	scan->tts_values[side->left_column] =
		LeftVectorsFetch(side->left, side->loaded, side == &node->sides[INNER_SIDE],
						 &scan->tts_isnull[side->left_column]);
	side->has_vector = true;
}

void
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
