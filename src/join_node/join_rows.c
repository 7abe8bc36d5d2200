/*-------------------------------------------------------------------------
 *
 * join_rows.c
 *	  Rows of a side: from its plan, to where they are kept, into the scan tuple; and the
 *	  vector there, as floats or doubles.
 *
 * A row in memory is its values and then its null flags, so that a reader has
 * nothing to take apart; what values point to lies in chunks.  A row in the file is
 * a minimal tuple.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "base/guc.h"
#include "catalog/pg_type.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#define CHUNK_BYTES (256 * 1024)

/* Of what a value points to, so much is asked for; then the processor sees the rest coming. */
#define PREFETCH_LINES 4
#define CACHE_LINE 64

/* Where a row in the file begins. */
typedef struct FilePlace FilePlace;
struct FilePlace
{
	int			fileno;
	off_t		offset;
};

/* Rows of these columns; what is beyond so many bytes goes to a temporary file. */
static KeptRows *
KeptRowsCreate(MemoryContext parent, TupleDesc columns, Size limit)
{
	MemoryContext context = AllocSetContextCreate(parent, "fasted kept rows", ALLOCSET_DEFAULT_SIZES);
	KeptRows   *kept = MemoryContextAllocZero(context, sizeof(KeptRows));

	kept->context = context;
	kept->columns = columns;
	kept->ncolumns = columns->natts;
	kept->row_bytes = Max(MAXALIGN(columns->natts * (sizeof(Datum) + sizeof(bool))),
								 MAXIMUM_ALIGNOF);
	kept->limit = limit;
	return kept;
}

void *
GrowArray(MemoryContext context, void *array, uint32 *room, Size size)
{
	*room = Max(1024, 2 * *room);
	if (array == NULL)
		return MemoryContextAllocHuge(context, *room * size);
	return repalloc_huge(array, *room * size);
}

static char *
RoomInChunk(KeptRows *kept, Size bytes)
{
	char	   *room;

	bytes = MAXALIGN(bytes);
	if (bytes > CHUNK_BYTES / 4)
		return MemoryContextAllocHuge(kept->context, bytes);
	if (bytes > kept->chunk_left)
	{
		kept->chunk = MemoryContextAlloc(kept->context, CHUNK_BYTES);
		kept->chunk_left = CHUNK_BYTES;
	}
	room = kept->chunk;
	kept->chunk += bytes;
	kept->chunk_left -= bytes;
	return room;
}

/* --- a row in memory */

/* The bytes that a value points to; zero: it is the value itself. */
static Size
BytesOf(Form_pg_attribute column, Datum value)
{
	if (column->attbyval)
		return 0;
	if (column->attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return EOH_get_flat_size(DatumGetEOHP(value));
	return datumGetSize(value, false, column->attlen);
}

static Datum
CopyValue(KeptRows *kept, Form_pg_attribute column, Datum value)
{
	Size		bytes = BytesOf(column, value);
	char	   *copy;

	if (column->attbyval)
		return value;
	copy = RoomInChunk(kept, bytes);
	if (column->attlen == -1 && VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		EOH_flatten_into(DatumGetEOHP(value), copy, bytes);
	else
		memcpy(copy, DatumGetPointer(value), bytes);
	return PointerGetDatum(copy);
}

static void
AddInMemory(KeptRows *kept, const Datum *values, const bool *isnull)
{
	int			natts = kept->columns->natts;
	Datum	   *copy;

	if (kept->in_memory == kept->nblocks * KEPT_BLOCK_ROWS)
	{
		if (kept->nblocks == kept->block_room)
			kept->blocks = GrowArray(kept->context, kept->blocks, &kept->block_room, sizeof(char *));
		kept->blocks[kept->nblocks++] =
			MemoryContextAllocHuge(kept->context, KEPT_BLOCK_ROWS * kept->row_bytes);
	}
	copy = (Datum *) PlaceOfKeptRow(kept, kept->in_memory);
	for (int i = 0; i < natts; i++)
		copy[i] = isnull[i] ? (Datum) 0 : CopyValue(kept, TupleDescAttr(kept->columns, i), values[i]);
	memcpy(copy + natts, isnull, natts * sizeof(bool));
	kept->in_memory++;
}

/* --- a row in the file */

static void
AddToFile(KeptRows *kept, const Datum *values, const bool *isnull)
{
	uint32		row = kept->count - kept->in_memory;
	MinimalTuple tuple;

	if (kept->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(kept->context);

		kept->file = BufFileCreateTemp(false);
		for (int i = 0; i < 2; i++)
			kept->slots[i] = MakeSingleTupleTableSlot(kept->columns, &TTSOpsMinimalTuple);
		kept->values = MakeSingleTupleTableSlot(kept->columns, &TTSOpsVirtual);
		MemoryContextSwitchTo(old);
	}
	memcpy(kept->values->tts_values, values, kept->columns->natts * sizeof(Datum));
	memcpy(kept->values->tts_isnull, isnull, kept->columns->natts * sizeof(bool));
	ExecStoreVirtualTuple(kept->values);
	tuple = ExecCopySlotMinimalTuple(kept->values);
	ExecClearTuple(kept->values);
	if (row == kept->place_room)
		kept->places = GrowArray(kept->context, kept->places, &kept->place_room, sizeof(FilePlace));
	BufFileTell(kept->file, &kept->places[row].fileno, &kept->places[row].offset);
	BufFileWrite(kept->file, tuple, tuple->t_len);
	pfree(tuple);
}

/* Copies a row. */
static void
KeptRowsAdd(KeptRows *kept, const Datum *values, const bool *isnull)
{
	Size		bytes = kept->row_bytes;

	if (kept->count == FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a side of the join has too many rows"),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	for (int i = 0; i < kept->columns->natts; i++)
		if (!isnull[i])
			bytes += BytesOf(TupleDescAttr(kept->columns, i), values[i]);
	if (kept->file == NULL && kept->bytes + bytes <= kept->limit)
		AddInMemory(kept, values, isnull);
	else
		AddToFile(kept, values, isnull);
	kept->bytes += bytes;
	kept->count++;
}

void
KeptRowsPrefetchValues(const KeptRows *kept, uint32 row)
{
	const Datum *values;
	const bool *isnull;

	if (row >= kept->in_memory)
		return;
	values = (const Datum *) PlaceOfKeptRow(kept, row);
	isnull = (const bool *) (values + kept->ncolumns);
	for (int i = 0; i < kept->ncolumns; i++)
	{
		const char *bytes = DatumGetPointer(values[i]);

		if (isnull[i] || TupleDescAttr(kept->columns, i)->attbyval)
			continue;
		for (int line = 0; line < PREFETCH_LINES; line++)
			__builtin_prefetch(bytes + line * CACHE_LINE);
	}
}

static void
ReadExactly(KeptRows *kept, void *to, Size bytes)
{
	if (BufFileRead(kept->file, to, bytes) != bytes)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a row from a temporary file of a join: %m")));
}

KeptRow
KeptRowsFetchFromFile(KeptRows *kept, uint32 row, int reader)
{
	const FilePlace *place = &kept->places[row - kept->in_memory];
	TupleTableSlot *slot = kept->slots[reader];
	MinimalTuple tuple;
	uint32		length;

	if (BufFileSeek(kept->file, place->fileno, place->offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of a join: %m")));
	ReadExactly(kept, &length, sizeof(length));
	tuple = MemoryContextAlloc(kept->context, length);
	tuple->t_len = length;
	ReadExactly(kept, (char *) tuple + sizeof(length), length - sizeof(length));
	ExecStoreMinimalTuple(tuple, slot, true);
	slot_getallattrs(slot);
	return (KeptRow) {.values = slot->tts_values,.isnull = slot->tts_isnull};
}

/* Frees everything. */
static void
KeptRowsEnd(KeptRows *kept)
{
	if (kept->file != NULL)
		BufFileClose(kept->file);
	MemoryContextDelete(kept->context);
}

/* --- which columns */

/* The rows of both sides may take this part of fasted.memory_limit, beside the engine. */
#define KEPT_SHARE 2

static Size
KeptLimit(const JoinNode *node)
{
	return (Size) fasted_setting_memory_limit * 1024 / (node->plan.shared ? KEPT_SHARE : 2 * KEPT_SHARE);
}

/* The columns whose values are fetched from TOAST tables at once, as clauses or vectors use them. */
static void
FindWanted(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;
	int			natts = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts;
	Bitmapset  *used = NULL;

	pull_varattnos((Node *) list_make5(plan->outer, plan->inner, plan->join_quals, plan->outer_keys,
									   plan->inner_keys), INDEX_VAR, &used);
	node->wanted = palloc(natts + 1);
	for (int i = 0; i < natts; i++)
		node->wanted[i] = bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, used);
	for (int i = 0; i < list_length(plan->shared_columns); i++)
		node->wanted[list_nth_int(plan->shared_columns, i)] |= node->wanted[plan->outer_columns + i];
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

/* Prepares to fetch vectors from the table that the side is a scan of. */
static void
InitLeftVectors(JoinSide *side)
{
	Relation	table;

	if (side->left_vector < 0)
		return;
	table = ((ScanState *) side->plan)->ss_currentRelation;
	side->left_slot = ExecInitExtraTupleSlot(side->plan->state, RelationGetDescr(table),
											 table_slot_callbacks(table));
	for (int i = 0; i < side->columns; i++)
		if (side->from[i] == side->left_vector)
			side->left_column = side->first + i;
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
	side->from = palloc(side->columns * sizeof(int) + 1);
	for (int i = 0; i < side->columns; i++)
		side->from[i] = shared ? list_nth_int(node->plan.shared_columns, i) : i;
	side->kept_columns = CreateTupleDescCopy(ExecGetResultType(plan));
	side->left_vector = node->plan.left_vector[number];
	side->left_place = node->plan.left_place[number];
	side->loaded = -1;
	InitLeftVectors(side);
	if (node->wanted == NULL)
		FindWanted(node);
	InitSideVector(node, side, number == OUTER_SIDE ? node->plan.outer : node->plan.inner);
}

/* --- reading */

void
BeginSide(JoinNode *node, JoinSide *side)
{
	side->kept = KeptRowsCreate(node->context, side->kept_columns, KeptLimit(node));
}

int
CompareByOrder(const JoinNode *node, uint32 row, uint32 other)
{
	KeptRows   *kept = node->sides[OUTER_SIDE].kept;
	KeptRow		a = KeptRowsFetch(kept, row, OUTER_SIDE);
	KeptRow		b = KeptRowsFetch(kept, other, INNER_SIDE);
	int			column = node->plan.order_column;
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

/* Puts the plan's row into the scan tuple, and keeps it. */
static void
TakeRow(JoinNode *node, JoinSide *side, TupleTableSlot *slot)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	MemoryContext old = MemoryContextSwitchTo(ScanTuple(node)->ecxt_per_tuple_memory);
	int			count = side->kept_columns->natts;
	Datum	   *values = palloc(count * sizeof(Datum) + 1);
	bool	   *isnull = palloc(count * sizeof(bool) + 1);

	slot_getallattrs(slot);
	memcpy(values, slot->tts_values, count * sizeof(Datum));
	memcpy(isnull, slot->tts_isnull, count * sizeof(bool));
	for (int i = 0; i < side->columns; i++)
	{
		int			column = side->first + i;
		int			from = side->from[i];

		if (node->wanted[column] && !isnull[from] &&
			TupleDescAttr(side->kept_columns, from)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[from])))
			values[from] = PointerGetDatum(detoast_external_attr((struct varlena *)
																 DatumGetPointer(values[from])));
		scan->tts_values[column] = values[from];
		scan->tts_isnull[column] = isnull[from];
	}
	side->loaded = -1;
	side->has_vector = true;
	if (side->left_vector >= 0)
		isnull[side->left_vector] = true;
	KeptRowsAdd(side->kept, values, isnull);
	if (node->order != NULL)
		NoteDirection(node, side->kept);
	MemoryContextSwitchTo(old);
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
	TakeRow(node, side, slot);
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
	if (side->left_slot != NULL)
		ExecClearTuple(side->left_slot);
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
	for (int i = 0; i < side->columns; i++)
	{
		scan->tts_values[side->first + i] = kept.values[side->from[i]];
		scan->tts_isnull[side->first + i] = kept.isnull[side->from[i]];
	}
	if (side->left_vector < 0)
		return;
	side->place = *(ItemPointer) DatumGetPointer(kept.values[side->left_place]);
	side->has_vector = !kept.isnull[side->left_vector];
}

void
LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row)
{
	LoadRow(node, &node->sides[OUTER_SIDE], outer_row);
	LoadRow(node, &node->sides[INNER_SIDE], inner_row);
}

/* Keeps a vector that comes from a TOAST table, which takes long. */
static Datum
KeepFetched(KeptRows *kept, uint32 row, int column, Datum value)
{
	Size		bytes = toast_raw_datum_size(value);
	Datum	   *values;
	MemoryContext old;

	if (row >= kept->in_memory || kept->bytes + bytes > kept->limit)
		return value;
	old = MemoryContextSwitchTo(kept->context);
	values = (Datum *) PlaceOfKeptRow(kept, row);
	values[column] = PointerGetDatum(detoast_attr((struct varlena *) DatumGetPointer(value)));
	((bool *) (values + kept->ncolumns))[column] = false;
	kept->bytes += bytes;
	MemoryContextSwitchTo(old);
	return values[column];
}

void
LoadVector(JoinNode *node, JoinSide *side)
{
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	TargetEntry *entry;
	Datum		value;
	bool		isnull;

	if (side->left_vector < 0 || side->has_vector || side->loaded < 0)
		return;
	if (!table_tuple_fetch_row_version(((ScanState *) side->plan)->ss_currentRelation, &side->place,
									   side->plan->state->es_snapshot, side->left_slot))
		elog(ERROR, "a row that was read is not in its table any more");
	entry = list_nth(side->plan->plan->targetlist, side->left_vector);
	value = slot_getattr(side->left_slot, castNode(Var, entry->expr)->varattno, &isnull);
	if (!isnull && VARATT_IS_EXTERNAL(DatumGetPointer(value)))
		value = KeepFetched(side->kept, side->loaded, side->left_vector, value);
	scan->tts_values[side->left_column] = value;
	scan->tts_isnull[side->left_column] = isnull;
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
