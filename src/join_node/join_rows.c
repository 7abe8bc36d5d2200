/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  Reads the rows of a side, retains them and loads them into the scan tuple; reads the
 *	  vector there as floats or doubles.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "base/guc.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rows/row_batch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varbit.h"

/* --- columns */

/* Finds the columns that clauses or vectors use, which are fetched from TOAST tables when read. */
static void
FindUsedColumns(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;
	int			natts = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	Bitmapset  *used = NULL;
	ListCell   *cell;

	pull_varattnos((Node *) list_make5(plan->vectors[0], plan->vectors[1], plan->join_quals,
									   plan->keys[0], plan->keys[1]), INDEX_VAR, &used);
	node->used_columns = palloc(natts + 1);
	for (int i = 0; i < natts; i++)
		node->used_columns[i] = bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, used);
	foreach(cell, plan->shared_columns)
		node->used_columns[lfirst_int(cell)] |=
			node->used_columns[plan->outer_columns + foreach_current_index(cell)];
}

/* Prepares to read and evaluate the side's vectors.  Sets plain_vector if these need no cast. */
static void
InitVector(JoinNode *node, JoinSide *side)
{
	Expr	   *vector = node->plan.vectors[side->number];
	FuncExpr   *cast = (FuncExpr *) vector;

	side->vector = ExecInitExpr(vector, &node->css.ss.ps);
	side->batch = RowBatchFor((Node *) vector, ExecGetResultType(side->plan), side->first);
	side->source.form = FormOfType(getBaseType(exprType((Node *) vector)));
	if (side->source.form != VECTOR_FLOAT4)
		node->bound.element = ElementOfForm(side->source.form);
	side->plain_vector = -1;
	/* the cast belongs to pgvector, because the distance does */
	if (node->bound.of_pgvector && IsA(cast, FuncExpr) && IsA(linitial(cast->args), Var) &&
		strcmp(get_func_name(cast->funcid), "vector_to_float4") == 0)
		side->plain_vector = linitial_node(Var, cast->args)->varattno - 1;
}

static void
InitKeys(JoinNode *node, JoinSide *side)
{
	const JoinPlan *plan = &node->plan;

	side->nkeys = list_length(plan->keys[side->number]);
	side->keys = palloc0(side->nkeys * sizeof(EqualityKey) + 1);
	for (int i = 0; i < side->nkeys; i++)
	{
		EqualityKey *key = &side->keys[i];
		Oid			type = exprType(list_nth(plan->keys[side->number], i));

		key->expr = ExecInitExpr(list_nth(plan->keys[side->number], i), &node->css.ss.ps);
		fmgr_info(list_nth_oid(plan->hashes[side->number], i), &key->hash);
		key->collation = list_nth_oid(plan->key_collations, i);
		get_typlenbyval(type, &key->typlen, &key->typbyval);
		key->comparable = CastKeepsOrder(type, exprType(list_nth(plan->keys[OUTER_SIDE], i)));
	}
}

/* Returns the descriptor of the retained columns: the late vector is null, and its row's ctid an int8. */
static TupleDesc
RetainedColumns(const JoinNode *node, const JoinSide *side)
{
	TupleDesc	columns = CreateTupleDescCopy(ExecGetResultType(side->plan));

	if (side->late_vector >= 0)
		TupleDescInitEntry(columns, node->plan.late_ctid[side->number] + 1, NULL, INT8OID, -1, 0);
	return columns;
}

static void
AddCopy(ColumnCopies *columns, int from, int to)
{
	columns->from[columns->count] = from;
	columns->to[columns->count++] = to;
}

/* Finds the result's columns of the side, each of which is a column of the scan tuple. */
static void
InitResult(JoinNode *node, JoinSide *side)
{
	List	   *tlist = node->css.ss.ps.plan->targetlist;
	ListCell   *cell;

	side->to_result.from = palloc(list_length(tlist) * sizeof(int) + 1);
	side->to_result.to = palloc(list_length(tlist) * sizeof(int) + 1);
	foreach(cell, tlist)
		for (int i = 0; i < side->to_scan.count; i++)
			if (castNode(Var, lfirst_node(TargetEntry, cell)->expr)->varattno == side->to_scan.to[i] + 1)
				AddCopy(&side->to_result, side->to_scan.from[i], foreach_current_index(cell));
}

/* Prepares to read the side by parallel workers. */
static void
InitInput(JoinNode *node, JoinSide *side, InputReader *input)
{
	side->input = input;
	side->source = (VectorSource) {
		.form = side->source.form,.element = node->bound.element,.metric = node->bound.metric
	};
	input->source = &side->source;
	input->vector_column = side->late_vector;
	input->all_rows = true;
	input->detoast = node->used_columns + side->first;
	input->take_block = AcceptBlock;
	input->arg = side;
}

void
InitSide(JoinNode *node, int number, PlanState *plan)
{
	JoinSide   *side = &node->sides[number];
	int			outer_columns = node->plan.outer_columns;
	bool		shared = node->plan.shared && number == INNER_SIDE;
	InputReader *input;

	side->node = node;
	side->number = number;
	side->plan = plan;
	side->first = number == OUTER_SIDE ? 0 : outer_columns;
	side->columns = number == OUTER_SIDE ? outer_columns : node->first_distance - outer_columns;
	side->late_vector = node->plan.late_vector[number];
	side->row = ExecInitNullTupleSlot(plan->state, RetainedColumns(node, side), &TTSOpsVirtual);
	side->to_scan.from = palloc(side->columns * sizeof(int) + 1);
	side->to_scan.to = palloc(side->columns * sizeof(int) + 1);
	for (int i = 0; i < side->columns; i++)
	{
		int			column = shared ? list_nth_int(node->plan.shared_columns, i) : i;

		if (column == side->late_vector)
			side->late_column = side->first + i;
		else if (column != node->plan.late_ctid[number])
			AddCopy(&side->to_scan, column, side->first + i);
	}
	if (node->copies_result)
		InitResult(node, side);
	side->run.loaded = -1;
	InitVector(node, side);
	InitKeys(node, side);
	if (node->used_columns == NULL)
		FindUsedColumns(node);
	input = InputReaderOf(plan);
	if (input != NULL && !shared)
		InitInput(node, side, input);
	if (side->late_vector < 0)
		return;
	side->scan = (ScanState *) (input == NULL ? plan : outerPlanState(outerPlanState(plan)));
	side->late_slot = table_slot_create(side->scan->ss_currentRelation, &plan->state->es_tupleTable);
}

/* --- reading */

/* The retained rows of both sides may use half of fasted.memory_limit, besides the engine. */
void
BeginSide(JoinNode *node, JoinSide *side)
{
	int64		budget = (int64) fasted_setting_memory_limit * 1024 / (node->plan.shared ? 2 : 4);

	side->run.retained = RetainedRowsCreate(node->context, side->row->tts_tupleDescriptor, budget);
}

int
CompareByOrder(JoinNode *node, uint32 row, uint32 other)
{
	RetainedRows *retained = node->sides[OUTER_SIDE].run.retained;
	RetainedRow a = RetainedRowsFetch(retained, row, OUTER_SIDE);
	RetainedRow b = RetainedRowsFetch(retained, other, INNER_SIDE);
	int			column = node->order.column;
	MemoryContext old;
	int			compared;

	/* fetching from the file invalidates loaded rows */
	if (RetainedRowIsInFile(retained, Max(row, other)))
		node->sides[OUTER_SIDE].run.loaded = node->sides[INNER_SIDE].run.loaded = -1;
	if (a.isnull[column] || b.isnull[column])
		return 0;
	old = MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	compared = ApplySortComparator(a.values[column], false, b.values[column], false, node->order.comparator);
	MemoryContextSwitchTo(old);
	return compared < 0 ? -1 : compared > 0;
}

/* Stores a column of the child plan's row in side->row, in the retained representation. */
static inline void
SetColumn(JoinSide *side, int column, Datum value, bool isnull)
{
	if (column == side->node->plan.late_ctid[side->number])
		value = Int64GetDatum(itemptr_encode((ItemPointer) DatumGetPointer(value)));
	side->row->tts_values[column] = value;
	side->row->tts_isnull[column] = isnull || column == side->late_vector;
}

void
RetainBlock(JoinNode *node, JoinSide *side, const InputBlock *block)
{
	side->run.loaded = -1;
	side->run.has_vector = false;
	for (uint32 row = 0; row < block->nrows; row++)
	{
		for (int i = 0; i < block->natts; i++)
			SetColumn(side, i, InputValues(block, i)[row], InputNulls(block, i)[row]);
		RetainedRowsAdd(side->run.retained, side->row);
	}
}

/* Loads a row of the child plan into the scan tuple, and retains it. */
static void
RetainRow(JoinNode *node, JoinSide *side, TupleTableSlot *slot)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	MemoryContext old = MemoryContextSwitchTo(ScanTuple(node)->ecxt_per_tuple_memory);

	slot_getallattrs(slot);
	for (int i = 0; i < side->columns; i++)
	{
		Datum		value = slot->tts_values[i];
		bool		isnull = slot->tts_isnull[i];

		/* an expanded object is flattened in any case */
		if (!isnull && TupleDescAttr(slot->tts_tupleDescriptor, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(value)) &&
			(node->used_columns[side->first + i] || !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value))))
			value = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(value)));
		scan->tts_values[side->first + i] = value;
		scan->tts_isnull[side->first + i] = isnull;
		SetColumn(side, i, value, isnull);
	}
	side->run.loaded = -1;
	side->run.has_vector = true;
	RetainedRowsAdd(side->run.retained, side->row);
	MemoryContextSwitchTo(old);
}

bool
ReadRow(JoinNode *node, JoinSide *side)
{
	/* executor nodes expect the per-query memory context */
	MemoryContext old = MemoryContextSwitchTo(side->plan->state->es_query_cxt);
	uint32		count = side->run.retained->count;

	while (!side->run.complete)
	{
		TupleTableSlot *slot = side->input != NULL ? InputNext(side->input, side->plan) :
			side->batch != NULL ? ReadPlanInBatches(side->batch, side->plan) : ExecProcNode(side->plan);

		side->run.complete = TupIsNull(slot);
		if (side->run.complete)
			break;
		if (side->input == NULL || InputIsRow(side->input, slot))
		{
			RetainRow(node, side, slot);
			break;
		}
		/* a null row: the rows of a block have been retained, or Gather is to fetch a tuple */
		if (!side->run.with_input && side->run.retained->count > count)
			break;
	}
	MemoryContextSwitchTo(old);
	return !side->run.complete;
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
	return side->run.retained->count == 0 && !ReadRow(node, side);
}

void
EndSide(JoinSide *side)
{
	/* shared rows are ended with the outer side */
	if (side->run.retained != NULL && !(side->node->plan.shared && side->number == INNER_SIDE))
		RetainedRowsEnd(side->run.retained);
	if (side->late_slot != NULL)
		ExecClearTuple(side->late_slot);
	if (side->input != NULL)
		InputEnd(side->input);
	if (side->batch != NULL)
		RowBatchReset(side->batch);
	side->run = (SideRun) {.loaded = -1};
}

/* --- the scan tuple */

void
CopyColumns(JoinSide *side, const ColumnCopies *columns, uint32 row, TupleTableSlot *slot)
{
	bool		none = row == NO_ROW;
	RetainedRow retained = {0};

	if (columns->count == 0)
		return;
	if (!none)
		retained = RetainedRowsFetch(side->run.retained, row, side->number);
	/* fetching from the file invalidates the loaded row */
	if (!none && RetainedRowIsInFile(side->run.retained, row))
		side->run.loaded = -1;
	for (int i = 0; i < columns->count; i++)
	{
		int			from = columns->from[i];

		slot->tts_values[columns->to[i]] = none ? (Datum) 0 : retained.values[from];
		slot->tts_isnull[columns->to[i]] = none || retained.isnull[from];
	}
}

void
LoadRow(JoinNode *node, JoinSide *side, uint32 row)
{
	if (side->run.loaded == row)
		return;
	CopyColumns(side, &side->to_scan, row, node->css.ss.ss_ScanTupleSlot);
	side->run.loaded = row;
	side->run.has_vector = side->late_vector < 0;
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
	TargetEntry *entry;
	RetainedRow retained;
	ItemPointerData position;

	if (side->run.has_vector || side->run.loaded < 0 || side->run.loaded == NO_ROW)
		return;
	retained = RetainedRowsFetch(side->run.retained, side->run.loaded, side->number);
	itemptr_decode(&position, DatumGetInt64(retained.values[node->plan.late_ctid[side->number]]));
	if (!table_tuple_fetch_row_version(side->scan->ss_currentRelation, &position,
									   side->plan->state->es_snapshot, side->late_slot))
		elog(ERROR, "could not fetch a row of the join again from its table");
	entry = list_nth(side->scan->ps.plan->targetlist, side->late_vector);
	scan->tts_values[side->late_column] =
		slot_getattr(side->late_slot, castNode(Var, entry->expr)->varattno,
					 &scan->tts_isnull[side->late_column]);
	side->run.has_vector = true;
}

ExprContext *
ScanTuple(JoinNode *node)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;

	/* most expressions allocate no memory */
	if (!econtext->ecxt_per_tuple_memory->isReset)
		ResetExprContext(econtext);
	scan->tts_flags &= ~TTS_FLAG_EMPTY;
	scan->tts_nvalid = scan->tts_tupleDescriptor->natts;
	econtext->ecxt_scantuple = scan;
	return econtext;
}

/*
 * --- the vector in the scan tuple
 *
 * A pgvector value contains its number of dimensions and its floats.  Its cast to real[] converts
 * each float to a Datum, which would take longer than all other work on a row.  The floats are
 * therefore read in place.  They are bitwise equal to those that the cast returns.
 */

/* pgvector's storage format of a vector. */
typedef struct PlainVector
{
	int32		length;			/* varlena */
	int16		dimensions;
	int16		unused;
	float		elements[FLEXIBLE_ARRAY_MEMBER];
} PlainVector;

VectorView
ViewVector(JoinNode *node, JoinSide *side)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	int			plain = side->plain_vector;
	VectorView	view = {0};

	if (plain >= 0 && !scan->tts_isnull[plain])
	{
		const PlainVector *vector = (PlainVector *) PG_DETOAST_DATUM(scan->tts_values[plain]);

		if (VARSIZE(vector) > offsetof(PlainVector, elements) && vector->dimensions > 0 &&
			VARSIZE(vector) == offsetof(PlainVector, elements) + vector->dimensions * sizeof(float))
			view = (VectorView) {.elements = vector->elements,.dimensions = vector->dimensions};
	}
	if (view.elements == NULL)
	{
		Datum		value = ExecEvalExpr(side->vector, econtext, &view.isnull);
		struct varlena *vector = view.isnull ? NULL : PG_DETOAST_DATUM(value);
		VectorForm	form = side->source.form;

		if (vector != NULL && VectorShape(vector, form, &view.dimensions) == VECTOR_OK)
			view.elements = (const float *) (form == VECTOR_BIT ? (char *) VARBITS(vector) :
											 ARR_DATA_PTR((ArrayType *) vector));
	}
	MemoryContextSwitchTo(old);
	return view;
}
