/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  Reads the rows of a side, retains them and loads them into the scan tuple; reads the
 *	  vector there as floats or doubles.
 *
 * A row in memory consists of its values, so that it need not be deformed.  Null flags are in a
 * separate array, which exists only if a value is null.  Pass-by-reference values are stored one
 * after the other.  A row in the temporary file is a minimal tuple.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "base/guc.h"
#include "base/large_memory.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varbit.h"

/* Number of cache lines to prefetch of a value.  The hardware prefetcher continues after these. */
#define PREFETCH_LINES 9
#define CACHE_LINE 64

/* Sizes of pieces of memory for values. */
#define MIN_PIECE ((Size) 8192)
#define MAX_PIECE ((Size) 32 * 1024 * 1024)

/* --- retained rows */

/* Copies a pass-by-reference value.  Memory is allocated in pieces. */
static Datum
CopyValue(RetainedRows *retained, Datum value, int typlen)
{
	Size		size = datumGetSize(value, false, typlen);
	Size		bytes = MAXALIGN(size);
	char	   *copy;

	if (bytes > retained->free_bytes)
	{
		Size		piece = Max(bytes, Min(Max(retained->value_bytes, MIN_PIECE), MAX_PIECE));

		retained->free = AllocPages(retained->context, piece);
		retained->free_bytes = piece;
		retained->value_bytes += piece;
	}
	copy = retained->free;
	retained->free += bytes;
	retained->free_bytes -= bytes;
	retained->budget -= bytes;
	return PointerGetDatum(memcpy(copy, DatumGetPointer(value), size));
}

static void
AddInMemory(RetainedRows *retained, const TupleTableSlot *row)
{
	int			natts = retained->columns->natts;
	Size		first = (Size) retained->count * natts;
	Datum	   *values;

	if (retained->count == retained->capacity)
	{
		uint32		capacity = retained->capacity;

		if (retained->nulls != NULL)
			retained->nulls = GrowArray(retained->context, retained->nulls, &capacity, natts);
		retained->rows = GrowArray(retained->context, retained->rows, &retained->capacity,
								   natts * sizeof(Datum));
	}
	values = retained->rows + first;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(retained->columns, i);

		values[i] = row->tts_isnull[i] ? (Datum) 0 :
			column->attbyval ? row->tts_values[i] :
			CopyValue(retained, row->tts_values[i], column->attlen);
		if (row->tts_isnull[i] && retained->nulls == NULL)
			retained->nulls = MemoryContextAllocExtended(retained->context,
														 (Size) retained->capacity * natts,
														 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	}
	if (retained->nulls != NULL)
		memcpy(retained->nulls + first, row->tts_isnull, natts);
	retained->in_memory++;
	retained->budget -= natts * (sizeof(Datum) + sizeof(bool));
}

static void
AddToFile(RetainedRows *retained, TupleTableSlot *row)
{
	uint32		number = retained->count - retained->in_memory;
	MinimalTuple tuple = ExecCopySlotMinimalTuple(row);
	FilePlace  *place;

	if (retained->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(retained->context);

		retained->file = BufFileCreateTemp(false);
		for (int i = 0; i < 2; i++)
			retained->slots[i] = MakeSingleTupleTableSlot(retained->columns, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	if (number == retained->place_capacity)
		retained->places = GrowArray(retained->context, retained->places, &retained->place_capacity,
									 sizeof(FilePlace));
	place = &retained->places[number];
	/* the position is elsewhere if a row has been fetched since */
	if (number > 0 && BufFileSeek(retained->file, place[-1].fileno,
								  place[-1].offset + place[-1].length, SEEK_SET) != 0)
		elog(ERROR, "could not seek in temporary file");
	place->length = tuple->t_len;
	BufFileTell(retained->file, &place->fileno, &place->offset);
	BufFileWrite(retained->file, tuple, tuple->t_len);
	pfree(tuple);
}

/* Copies a row into memory, or into the temporary file once the memory budget is exhausted. */
static void
RetainedRowsAdd(RetainedRows *retained, TupleTableSlot *row)
{
	if (retained->count == FASTED_MAX_ROWS)
		ReportManyRows(NULL);
	if (retained->file == NULL && retained->budget > 0)
		AddInMemory(retained, row);
	else
		AddToFile(retained, row);
	retained->count++;
}

/* The values and null flags of a retained row. */
typedef struct RetainedRow
{
	const Datum *values;
	const bool *isnull;			/* NULL: no value is null */
} RetainedRow;

static RetainedRow
FetchFromFile(RetainedRows *retained, uint32 row, int reader)
{
	const FilePlace *place = &retained->places[row - retained->in_memory];
	TupleTableSlot *slot = retained->slots[reader];
	MinimalTuple tuple = MemoryContextAlloc(retained->context, place->length);

	if (BufFileSeek(retained->file, place->fileno, place->offset, SEEK_SET) != 0 ||
		BufFileRead(retained->file, tuple, place->length) != place->length)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file: %m")));
	ExecStoreMinimalTuple(tuple, slot, true);
	slot_getallattrs(slot);
	return (RetainedRow) {.values = slot->tts_values,.isnull = slot->tts_isnull};
}

/* Returns a row.  The result is valid until the same reader (0 or 1) fetches its next row. */
static inline RetainedRow
RetainedRowsFetch(RetainedRows *retained, uint32 row, int reader)
{
	Size		first = (Size) row * retained->columns->natts;

	if (unlikely(row >= retained->in_memory))
		return FetchFromFile(retained, row, reader);
	return (RetainedRow) {.values = retained->rows + first,
		.isnull = retained->nulls == NULL ? NULL : retained->nulls + first};
}

void
RetainedRowsPrefetchValues(RetainedRows *retained, uint32 row)
{
	RetainedRow values;

	if (row >= retained->in_memory)
		return;
	values = RetainedRowsFetch(retained, row, 0);
	for (int i = 0; i < retained->columns->natts; i++)
	{
		const char *bytes = DatumGetPointer(values.values[i]);

		if (TupleDescAttr(retained->columns, i)->attbyval || bytes == NULL)
			continue;
		for (int line = 0; line < PREFETCH_LINES; line++)
			__builtin_prefetch(bytes + line * CACHE_LINE);
	}
}

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

/* Prepares to evaluate the side's vectors.  Sets plain_vector if these need no cast. */
static void
InitVector(JoinNode *node, JoinSide *side)
{
	Expr	   *vector = node->plan.vectors[side->number];
	FuncExpr   *cast = (FuncExpr *) vector;

	side->vector = ExecInitExpr(vector, &node->css.ss.ps);
	side->source.form = FormOfType(getBaseType(exprType((Node *) vector)));
	if (side->source.form != VECTOR_FLOAT4)
		node->element = ElementOfForm(side->source.form);
	side->plain_vector = -1;
	/* the cast belongs to pgvector, because the distance does */
	if (DistanceIsForeign(node) && IsA(cast, FuncExpr) && IsA(linitial(cast->args), Var) &&
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

/* Returns the retained column of a column of the child plan, which is not the late vector. */
static int
RetainedColumn(const JoinSide *side, int column)
{
	return column - (side->late_vector >= 0 && column > side->late_vector);
}

/* Returns the descriptor of the retained columns. */
static TupleDesc
RetainedColumns(const JoinNode *node, const JoinSide *side)
{
	TupleDesc	columns = ExecGetResultType(side->plan);
	TupleDesc	retained;

	if (side->late_vector < 0)
		return columns;
	retained = CreateTemplateTupleDesc(columns->natts - 1);
	for (int i = 0; i < columns->natts; i++)
	{
		int			to = RetainedColumn(side, i) + 1;

		if (i == node->plan.late_ctid[side->number])
			TupleDescInitEntry(retained, to, NULL, INT8OID, -1, 0);
		else if (i != side->late_vector)
			TupleDescCopyEntry(retained, to, columns, i + 1);
	}
	return retained;
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
		.form = side->source.form,.element = node->element,.metric = JoinNodeMetric(node)
	};
	input->source = &side->source;
	input->vector_column = side->late_vector;
	input->all_rows = true;
	input->detoast = node->used_columns + side->first;
	input->take_block = TakeBlock;
	input->arg = side;
}

void
InitSide(JoinNode *node, int number, PlanState *plan)
{
	JoinSide   *side = &node->sides[number];
	int			natts = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - node->plan.count;
	int			outer_columns = node->plan.outer_columns;
	bool		shared = node->plan.shared && number == INNER_SIDE;
	InputReader *input;

	side->node = node;
	side->number = number;
	side->plan = plan;
	side->first = number == OUTER_SIDE ? 0 : outer_columns;
	side->columns = number == OUTER_SIDE ? outer_columns : natts - outer_columns;
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
			AddCopy(&side->to_scan, RetainedColumn(side, column), side->first + i);
	}
	if (node->direct)
		InitResult(node, side);
	side->loaded = -1;
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
	RetainedRows *retained = MemoryContextAllocZero(node->context, sizeof(RetainedRows));

	retained->context = node->context;
	retained->columns = side->row->tts_tupleDescriptor;
	retained->budget = (Size) fasted_setting_memory_limit * 1024 / (node->plan.shared ? 2 : 4);
	side->retained = retained;
}

int
CompareByOrder(JoinNode *node, uint32 row, uint32 other)
{
	RetainedRows *retained = node->sides[OUTER_SIDE].retained;
	RetainedRow a = RetainedRowsFetch(retained, row, OUTER_SIDE);
	RetainedRow b = RetainedRowsFetch(retained, other, INNER_SIDE);
	int			column = RetainedColumn(&node->sides[OUTER_SIDE], node->order_column);
	MemoryContext old;
	int			compared;

	/* fetching from the file invalidates loaded rows */
	if (Max(row, other) >= retained->in_memory)
		node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	if ((a.isnull != NULL && a.isnull[column]) || (b.isnull != NULL && b.isnull[column]))
		return 0;
	old = MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	compared = ApplySortComparator(a.values[column], false, b.values[column], false, node->order);
	MemoryContextSwitchTo(old);
	return compared < 0 ? -1 : compared > 0;
}

/* Updates node->direction.  While it is set, the order of a pair follows from its row numbers. */
static void
NoteDirection(JoinNode *node, const RetainedRows *retained)
{
	uint32		last = retained->count - 1;

	if (last >= retained->in_memory)
		node->direction = 0;
	else if (last == 1)
		node->direction = CompareByOrder(node, 0, last);
	else if (node->direction != 0 && CompareByOrder(node, last - 1, last) != node->direction)
		node->direction = 0;
}

/* Stores a column of the child plan's row in side->row, in the retained representation. */
static inline void
SetColumn(JoinSide *side, int column, Datum value, bool isnull)
{
	int			to = RetainedColumn(side, column);

	if (column == side->late_vector)
		return;
	if (column == side->node->plan.late_ctid[side->number])
		value = Int64GetDatum(itemptr_encode((ItemPointer) DatumGetPointer(value)));
	side->row->tts_values[to] = value;
	side->row->tts_isnull[to] = isnull;
}

void
RetainBlock(JoinNode *node, JoinSide *side, const InputBlock *block)
{
	/* the rows of several workers come in no order */
	node->direction = 0;
	side->loaded = -1;
	side->has_vector = false;
	for (uint32 row = 0; row < block->nrows; row++)
	{
		for (int i = 0; i < block->natts; i++)
			SetColumn(side, i, InputValues(block, i)[row], InputNulls(block, i)[row]);
		RetainedRowsAdd(side->retained, side->row);
	}
}

/* Loads a row of the child plan into the scan tuple, and retains it. */
static void
TakeRow(JoinNode *node, JoinSide *side, TupleTableSlot *slot)
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
	side->loaded = -1;
	side->has_vector = true;
	RetainedRowsAdd(side->retained, side->row);
	if (node->order != NULL)
		NoteDirection(node, side->retained);
	MemoryContextSwitchTo(old);
}

bool
ReadRow(JoinNode *node, JoinSide *side)
{
	/* executor nodes expect the per-query memory context */
	MemoryContext old = MemoryContextSwitchTo(side->plan->state->es_query_cxt);
	uint32		count = side->retained->count;

	while (!side->complete)
	{
		TupleTableSlot *slot = side->input == NULL ? ExecProcNode(side->plan) :
			InputNext(side->input, side->plan);

		side->complete = TupIsNull(slot);
		if (side->complete)
			break;
		if (side->input == NULL || InputIsRow(side->input, slot))
		{
			TakeRow(node, side, slot);
			break;
		}
		/* a null row: the rows of a block have been retained, or Gather is to fetch a tuple */
		if (!side->takes_vectors && side->retained->count > count)
			break;
	}
	MemoryContextSwitchTo(old);
	return !side->complete;
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
	return side->retained->count == 0 && !ReadRow(node, side);
}

void
EndSide(JoinSide *side)
{
	if (side->retained != NULL && side->retained->file != NULL)
	{
		BufFileClose(side->retained->file);
		side->retained->file = NULL;	/* EndSide is called twice for shared rows */
	}
	if (side->late_slot != NULL)
		ExecClearTuple(side->late_slot);
	if (side->input != NULL)
		InputEnd(side->input);
	memset(&side->retained, 0, sizeof(JoinSide) - offsetof(JoinSide, retained));
	side->loaded = -1;
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
		retained = RetainedRowsFetch(side->retained, row, side->number);
	/* fetching from the file invalidates the loaded row */
	if (!none && row >= side->retained->in_memory)
		side->loaded = -1;
	for (int i = 0; i < columns->count; i++)
	{
		int			from = columns->from[i];

		slot->tts_values[columns->to[i]] = none ? (Datum) 0 : retained.values[from];
		slot->tts_isnull[columns->to[i]] = none || (retained.isnull != NULL && retained.isnull[from]);
	}
}

void
LoadRow(JoinNode *node, JoinSide *side, uint32 row)
{
	if (side->loaded == row)
		return;
	CopyColumns(side, &side->to_scan, row, node->css.ss.ss_ScanTupleSlot);
	side->loaded = row;
	side->has_vector = side->late_vector < 0;
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
	int			ctid = RetainedColumn(side, node->plan.late_ctid[side->number]);
	RetainedRow retained;
	ItemPointerData place;

	if (side->has_vector || side->loaded < 0 || side->loaded == NO_ROW)
		return;
	retained = RetainedRowsFetch(side->retained, side->loaded, side->number);
	itemptr_decode(&place, DatumGetInt64(retained.values[ctid]));
	if (!table_tuple_fetch_row_version(side->scan->ss_currentRelation, &place,
									   side->plan->state->es_snapshot, side->late_slot))
		elog(ERROR, "could not fetch a row of the join again from its table");
	entry = list_nth(side->scan->ps.plan->targetlist, side->late_vector);
	scan->tts_values[side->late_column] =
		slot_getattr(side->late_slot, castNode(Var, entry->expr)->varattno,
					 &scan->tts_isnull[side->late_column]);
	side->has_vector = true;
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
