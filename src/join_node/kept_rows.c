/*-------------------------------------------------------------------------
 *
 * kept_rows.c
 *	  Values side by side in blocks of memory; the later rows in a BufFile.
 *
 * A row in memory is its values and then its null flags, so that a reader has
 * nothing to take apart; what values point to lies in chunks.  A row in the file is
 * a minimal tuple.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "join_node/kept_rows.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
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

KeptRows *
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

void
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

void
KeptRowsEnd(KeptRows *kept)
{
	if (kept->file != NULL)
		BufFileClose(kept->file);
	MemoryContextDelete(kept->context);
}

/* --- vectors that stay in their table */

struct LeftVectors
{
	MemoryContext context;		/* of what goes with the rows */
	ScanState  *scan;
	AttrNumber	column;
	Size		limit;
	TupleTableSlot *slots[2];	/* for each reader */

	ItemPointerData *places;
	uint32		count;
	uint32		room;
	struct varlena **fetched;	/* by row, from the TOAST table; NULL: none at all */
	uint32		fetched_room;
	Size		bytes;
};

LeftVectors *
LeftVectorsCreate(ScanState *scan, AttrNumber column, Size limit)
{
	LeftVectors *left = palloc0(sizeof(LeftVectors));
	Relation	table = scan->ss_currentRelation;

	left->context = AllocSetContextCreate(CurrentMemoryContext, "fasted left vectors",
										  ALLOCSET_DEFAULT_SIZES);
	left->scan = scan;
	left->column = column;
	left->limit = limit;
	for (int i = 0; i < 2; i++)
		left->slots[i] = ExecInitExtraTupleSlot(scan->ps.state, RelationGetDescr(table),
												table_slot_callbacks(table));
	return left;
}

void
LeftVectorsAdd(LeftVectors *left, ItemPointer place)
{
	if (left->count == left->room)
		left->places = GrowArray(left->context, left->places, &left->room, sizeof(ItemPointerData));
	left->places[left->count++] = *place;
}

static void
GrowFetched(LeftVectors *left)
{
	uint32		room = left->fetched_room;
	Size		size = sizeof(struct varlena *);

	left->fetched = GrowArray(left->context, left->fetched, &left->fetched_room, size);
	memset(left->fetched + room, 0, (left->fetched_room - room) * size);
}

/* Keeps a vector that comes from a TOAST table, which takes long. */
static Datum
KeepFetched(LeftVectors *left, uint32 row, Datum value)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);
	Size		bytes = toast_raw_datum_size(value);
	MemoryContext old;

	if (left->bytes + bytes > left->limit)
		return value;
	while (row >= left->fetched_room)
		GrowFetched(left);
	old = MemoryContextSwitchTo(left->context);
	left->fetched[row] = detoast_attr(pointer);
	left->bytes += bytes;
	MemoryContextSwitchTo(old);
	return PointerGetDatum(left->fetched[row]);
}

Datum
LeftVectorsFetch(LeftVectors *left, uint32 row, int reader, bool *isnull)
{
	TupleTableSlot *slot = left->slots[reader];
	Datum		value;

	if (row < left->fetched_room && left->fetched[row] != NULL)
	{
		*isnull = false;
		return PointerGetDatum(left->fetched[row]);
	}
	if (!table_tuple_fetch_row_version(left->scan->ss_currentRelation, &left->places[row],
									   left->scan->ps.state->es_snapshot, slot))
		elog(ERROR, "a row that was read is not in its table any more");
	value = slot_getattr(slot, left->column, isnull);
	if (*isnull || !VARATT_IS_EXTERNAL(DatumGetPointer(value)))
		return value;
	return KeepFetched(left, row, value);
}

void
LeftVectorsReset(LeftVectors *left)
{
	for (int i = 0; i < 2; i++)
		ExecClearTuple(left->slots[i]);
	MemoryContextReset(left->context);
	left->places = NULL;
	left->fetched = NULL;
	left->count = left->room = left->fetched_room = 0;
	left->bytes = 0;
}
