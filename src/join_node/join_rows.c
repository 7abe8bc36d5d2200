/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  Rows of a side: from its plan, to where they are kept, into the scan tuple; and the
 *	  vector there, as floats or doubles.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "base/guc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

/* The rows of both sides may take this part of fasted.memory_limit, beside the engine. */
#define KEPT_SHARE 2

static Size
KeptLimit(const JoinNode *node)
{
	return (Size) fasted_setting_memory_limit * 1024 / (node->plan.shared ? KEPT_SHARE : 2 * KEPT_SHARE);
}

/* --- which columns */

/*
 * Kept are all columns of the plan's rows but a vector that is left in the table, and its place.
 * The columns of the scan tuple come from the plan's rows, and then from kept ones.
 */
static void
PlaceColumns(JoinNode *node, JoinSide *side, TupleDesc rows, bool shared)
{
	int			count = 0;

	side->kept_from = palloc(rows->natts * sizeof(int) + 1);
	for (int i = 0; i < rows->natts; i++)
		if (i != side->left_vector && i != side->left_place)
			side->kept_from[count++] = i;
	side->kept_columns = CreateTemplateTupleDesc(count);
	for (int k = 0; k < count; k++)
		TupleDescCopyEntry(side->kept_columns, k + 1, rows, side->kept_from[k] + 1);
	side->from = palloc(side->columns * sizeof(int) + 1);
	side->moves = palloc(side->columns * sizeof(*side->moves) + 1);
	side->left_column = -1;
	for (int i = 0; i < side->columns; i++)
	{
		side->from[i] = shared ? list_nth_int(node->plan.shared_columns, i) : i;
		for (int k = 0; k < count; k++)
			if (side->kept_from[k] == side->from[i])
			{
				side->moves[side->nmoves].from = k;
				side->moves[side->nmoves++].to = side->first + i;
			}
		if (side->from[i] == side->left_vector)
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

/* The columns whose values are fetched from TOAST tables at once, as clauses or vectors use them. */
static void
FindWanted(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;
	bool	   *wanted = palloc0(node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts + 1);

	MarkWanted((Node *) list_make5(plan->outer, plan->inner, plan->join_quals, plan->outer_keys,
								   plan->inner_keys), wanted);
	for (int i = 0; i < list_length(plan->shared_columns); i++)
		wanted[list_nth_int(plan->shared_columns, i)] |= wanted[plan->outer_columns + i];
	node->wanted = wanted;
}

/* Finds out whether the side's vectors can be read where they lie. */
static void
InitSideVector(JoinNode *node, JoinSide *side, Expr *vector)
{
	FuncExpr   *cast = (FuncExpr *) vector;

	if (getBaseType(exprType((Node *) vector)) == FLOAT8ARRAYOID)
		node->element = FASTED_ELEMENT_DOUBLE;
	side->plain_vector = -1;
	/* the cast is one of pgvector's own, as the distance is */
	if (node->plan.form == FORM_FOREIGN && IsA(cast, FuncExpr) && IsA(linitial(cast->args), Var) &&
		strcmp(get_func_name(cast->funcid), "vector_to_float4") == 0)
		side->plain_vector = linitial_node(Var, cast->args)->varattno - 1;
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
	side->left_vector = node->plan.left_vector[number];
	side->left_place = node->plan.left_place[number];
	side->loaded = -1;
	PlaceColumns(node, side, ExecGetResultType(plan), shared);
	if (node->wanted == NULL)
		FindWanted(node);
	InitSideVector(node, side, number == OUTER_SIDE ? node->plan.outer : node->plan.inner);
	if (side->left_vector < 0)
		return;
	if (shared)
		side->left = node->sides[OUTER_SIDE].left;
	else
	{
		TargetEntry *entry = list_nth(plan->plan->targetlist, side->left_vector);

		side->left = LeftVectorsCreate((ScanState *) plan, castNode(Var, entry->expr)->varattno,
									   KeptLimit(node));
	}
}

/* --- reading */

void
BeginSide(JoinNode *node, JoinSide *side)
{
	side->kept = KeptRowsCreate(node->context, side->kept_columns, KeptLimit(node));
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
		int			from = side->from[i];
		Datum		value = slot->tts_values[from];

		/* nobody looks at a row's place */
		scan->tts_isnull[column] = slot->tts_isnull[from] || from == side->left_place;
		if (node->wanted[column] && !scan->tts_isnull[column] && attribute->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(value)))
			value = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
		scan->tts_values[column] = value;
	}
	MemoryContextSwitchTo(old);
	side->loaded = -1;
	side->has_vector = true;
}

int
CompareByOrder(const JoinNode *node, uint32 row, uint32 other)
{
	KeptRows   *kept = node->sides[OUTER_SIDE].kept;
	KeptRow		a = KeptRowsFetch(kept, row, OUTER_SIDE);
	KeptRow		b = KeptRowsFetch(kept, other, INNER_SIDE);
	int			column = node->order_column;
	int			compared;

	if (a.isnull[column] || b.isnull[column])
		return 0;
	compared = ApplySortComparator(a.values[column], false, b.values[column], false, node->order);
	return compared < 0 ? -1 : compared > 0;
}

/* Do rows come in an order, so that a pair's is that of its row numbers? */
static void
NoteDirection(JoinNode *node, const KeptRows *kept)
{
	uint32		last = kept->count - 1;

	if (last >= kept->in_memory)
		node->direction = 0;
	else if (last == 1)
		node->direction = CompareByOrder(node, 0, last);
	else if (node->direction != 0 && CompareByOrder(node, last - 1, last) != node->direction)
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
	for (int i = 0; i < side->nmoves; i++)
		values[side->moves[i].from] = scan->tts_values[side->moves[i].to];
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
	TupleTableSlot *slot = NULL;

	if (!side->complete)
	{
		/* the plan's nodes expect to be in the query's memory context */
		MemoryContext old = MemoryContextSwitchTo(side->plan->state->es_query_cxt);

		slot = ExecProcNode(side->plan);
		MemoryContextSwitchTo(old);
	}
	side->complete = TupIsNull(slot);
	if (side->complete)
		return false;
	slot_getallattrs(slot);
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
	return side->kept->count == 0 && !ReadRow(node, side);
}

void
EndSide(JoinNode *node, JoinSide *side)
{
	bool		shared = node->plan.shared && side == &node->sides[INNER_SIDE];

	if (side->kept != NULL && !shared)
		KeptRowsEnd(side->kept);
	if (side->left != NULL && !shared)
		LeftVectorsReset(side->left);
	memset(&side->kept, 0, sizeof(JoinSide) - offsetof(JoinSide, kept));
	side->loaded = -1;
}

/* --- the scan tuple */

void
LoadRow(JoinNode *node, JoinSide *side, uint32 row)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	KeptRow		kept;

	if (side->loaded == row)
		return;
	kept = KeptRowsFetch(side->kept, row, side == &node->sides[INNER_SIDE]);
	side->loaded = row;
	if (side->left_column >= 0)
	{
		/* the vector is another row's */
		scan->tts_values[side->left_column] = (Datum) 0;
		scan->tts_isnull[side->left_column] = true;
		side->has_vector = false;
	}
	for (int i = 0; i < side->nmoves; i++)
	{
		int			from = side->moves[i].from;
		int			to = side->moves[i].to;

		scan->tts_values[to] = kept.values[from];
		scan->tts_isnull[to] = kept.isnull[from];
	}
}

void
LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row)
{
	LoadRow(node, &node->sides[OUTER_SIDE], outer_row);
	LoadRow(node, &node->sides[INNER_SIDE], inner_row);
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

/*
 * --- the vector in the scan tuple
 *
 * pgvector's vector is its dimensions and its floats, but its cast to real[] makes a
 * Datum of each float on the way, which takes longer than all else that is done with
 * a row while it is read.  So its floats are read where they lie, if for the first
 * vector of a run they are there: those that the cast gives, bit for bit.
 */

/* A vector as pgvector lays it out. */
typedef struct PlainVector
{
	int32		length;			/* varlena */
	int16		dimensions;
	int16		unused;
	float		elements[FLEXIBLE_ARRAY_MEMBER];
} PlainVector;

static VectorView
ViewArray(ArrayType *array)
{
	VectorView	view = {0};
	int			dimensions;

	if (VectorShape(array, &dimensions) == VECTOR_OK)
		view = (VectorView) {.elements = (const float *) ARR_DATA_PTR(array),.dimensions = dimensions};
	return view;
}

/* By the expression that makes real[] of it. */
static VectorView
CastVector(JoinNode *node, JoinSide *side)
{
	bool		isnull;
	Datum		value = ExecEvalExpr(side->vector, node->css.ss.ps.ps_ExprContext, &isnull);

	if (isnull)
		return (VectorView) {.isnull = true};
	return ViewArray(DatumGetArrayTypeP(value));
}

static VectorView
ViewPlainVector(Datum value)
{
	const PlainVector *vector = (PlainVector *) PG_DETOAST_DATUM(value);

	if (vector->dimensions <= 0 ||
		VARSIZE(vector) != offsetof(PlainVector, elements) + vector->dimensions * sizeof(float))
		return (VectorView) {0};
	return (VectorView) {.elements = vector->elements,.dimensions = vector->dimensions};
}

static bool
AreSame(const VectorView *x, const VectorView *y)
{
	return x->elements != NULL && y->elements != NULL && x->dimensions == y->dimensions &&
		memcmp(x->elements, y->elements, x->dimensions * sizeof(float)) == 0;
}

VectorView
ViewVector(JoinNode *node, JoinSide *side)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	VectorView	view;

	if (side->plain_vector < 0 || scan->tts_isnull[side->plain_vector])
		view = CastVector(node, side);
	else
	{
		view = ViewPlainVector(scan->tts_values[side->plain_vector]);
		if (!side->plain_checked || view.elements == NULL)
		{
			VectorView	cast = CastVector(node, side);

			if (!AreSame(&view, &cast))
				side->plain_vector = -1;
			side->plain_checked = true;
			view = cast;
		}
	}
	MemoryContextSwitchTo(old);
	return view;
}
