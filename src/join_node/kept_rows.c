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

#include "access/htup_details.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "join_node/kept_rows.h"
#include "storage/buffile.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

#define CHUNK_BYTES (256 * 1024)

/* Of what a value points to, so much is asked for; then the processor sees the rest coming. */
#define PREFETCH_LINES 4
#define CACHE_LINE 64

/* Where a row in the file begins. */
typedef struct FilePlace
{
	int			fileno;
	off_t		offset;
} FilePlace;

struct KeptRows
{
	RowsInMemory memory;		/* the first of them; comes first */
	MemoryContext context;		/* of all of it */
	TupleDesc	columns;
	Size		limit;
	Size		bytes;
	uint32		count;

	uint32		nblocks;
	uint32		block_room;
	char	   *chunk;			/* room of the last chunk */
	Size		chunk_left;

	BufFile    *file;			/* the rows behind those; NULL: there are none */
	FilePlace  *places;
	uint32		place_room;
	MinimalTuple buffers[2];	/* a row of the file, for each reader */
	Size		buffer_bytes[2];
	TupleTableSlot *slots[2];
	TupleTableSlot *values;		/* a row on its way into the file */
};

KeptRows *
KeptRowsCreate(TupleDesc columns, Size limit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted kept rows",
												  ALLOCSET_DEFAULT_SIZES);
	KeptRows   *kept = MemoryContextAllocZero(context, sizeof(KeptRows));

	kept->context = context;
	kept->columns = columns;
	kept->memory.columns = columns->natts;
	kept->memory.row_bytes = Max(MAXALIGN(columns->natts * (sizeof(Datum) + sizeof(bool))),
								 MAXIMUM_ALIGNOF);
	kept->limit = limit;
	return kept;
}

uint32
KeptRowsCount(const KeptRows *kept)
{
	return kept->count;
}

/* An array with room for one element more than count. */
static void *
Grow(MemoryContext context, void *array, uint32 count, uint32 *room, Size size)
{
	if (count < *room)
		return array;
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

	if (kept->memory.count == kept->nblocks * KEPT_BLOCK_ROWS)
	{
		RowsInMemory *memory = &kept->memory;

		memory->blocks = Grow(kept->context, memory->blocks, kept->nblocks, &kept->block_room,
							  sizeof(char *));
		memory->blocks[kept->nblocks++] =
			MemoryContextAllocHuge(kept->context, KEPT_BLOCK_ROWS * memory->row_bytes);
	}
	copy = (Datum *) PlaceOfKeptRow(&kept->memory, kept->memory.count);
	for (int i = 0; i < natts; i++)
		copy[i] = isnull[i] ? (Datum) 0 : CopyValue(kept, TupleDescAttr(kept->columns, i), values[i]);
	memcpy(copy + natts, isnull, natts * sizeof(bool));
	kept->memory.count++;
}

/* --- a row in the file */

static void
OpenFile(KeptRows *kept)
{
	MemoryContext old = MemoryContextSwitchTo(kept->context);

	kept->file = BufFileCreateTemp(false);
	for (int i = 0; i < 2; i++)
		kept->slots[i] = MakeSingleTupleTableSlot(kept->columns, &TTSOpsMinimalTuple);
	kept->values = MakeSingleTupleTableSlot(kept->columns, &TTSOpsVirtual);
	MemoryContextSwitchTo(old);
}

static void
AddToFile(KeptRows *kept, const Datum *values, const bool *isnull)
{
	uint32		row = kept->count - kept->memory.count;
	MinimalTuple tuple;

	if (kept->file == NULL)
		OpenFile(kept);
	memcpy(kept->values->tts_values, values, kept->columns->natts * sizeof(Datum));
	memcpy(kept->values->tts_isnull, isnull, kept->columns->natts * sizeof(bool));
	ExecStoreVirtualTuple(kept->values);
	tuple = ExecCopySlotMinimalTuple(kept->values);
	ExecClearTuple(kept->values);
	kept->places = Grow(kept->context, kept->places, row, &kept->place_room, sizeof(FilePlace));
	BufFileTell(kept->file, &kept->places[row].fileno, &kept->places[row].offset);
	BufFileWrite(kept->file, tuple, tuple->t_len);
	pfree(tuple);
}

void
KeptRowsAdd(KeptRows *kept, const Datum *values, const bool *isnull)
{
	Size		bytes = kept->memory.row_bytes;

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

	if (!KeptRowIsInMemory(kept, row))
		return;
	values = (const Datum *) PlaceOfKeptRow(&kept->memory, row);
	isnull = (const bool *) (values + kept->memory.columns);
	for (int i = 0; i < kept->memory.columns; i++)
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

/* Room for a row of the file, whose length is known. */
static MinimalTuple
RoomInBuffer(KeptRows *kept, int reader, uint32 length)
{
	if (length > kept->buffer_bytes[reader])
	{
		if (kept->buffers[reader] != NULL)
			pfree(kept->buffers[reader]);
		kept->buffer_bytes[reader] = 2 * (Size) length;
		kept->buffers[reader] = MemoryContextAllocHuge(kept->context, kept->buffer_bytes[reader]);
	}
	kept->buffers[reader]->t_len = length;
	return kept->buffers[reader];
}

static MinimalTuple
ReadFromFile(KeptRows *kept, uint32 row, int reader)
{
	const FilePlace *place = &kept->places[row - kept->memory.count];
	MinimalTuple tuple;
	uint32		length;

	if (BufFileSeek(kept->file, place->fileno, place->offset, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file of a join: %m")));
	ReadExactly(kept, &length, sizeof(length));
	tuple = RoomInBuffer(kept, reader, length);
	ReadExactly(kept, (char *) tuple + sizeof(length), length - sizeof(length));
	return tuple;
}

KeptRow
KeptRowsFetchFromFile(KeptRows *kept, uint32 row, int reader)
{
	TupleTableSlot *slot = kept->slots[reader];

	ExecStoreMinimalTuple(ReadFromFile(kept, row, reader), slot, false);
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
