/*-------------------------------------------------------------------------
 *
 * retained_rows.c
 *	  Stores the rows of one side of a join in memory or in a temporary file, and fetches them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/large_memory.h"
#include "join/row_set.h"
#include "join_node/join_node.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* Number of cache lines to prefetch of a value.  The hardware prefetcher continues after these. */
#define PREFETCH_LINES 9
#define CACHE_LINE 64

/* Sizes of pieces of memory for values. */
#define MIN_PIECE ((Size) 8192)
#define MAX_PIECE ((Size) 32 * 1024 * 1024)

RetainedRows *
RetainedRowsCreate(MemoryContext context, TupleDesc columns, int64 budget)
{
	RetainedRows *retained = MemoryContextAllocZero(context, sizeof(RetainedRows));

	retained->context = context;
	retained->columns = columns;
	retained->row_datums = columns->natts + (columns->natts + sizeof(Datum) - 1) / sizeof(Datum);
	retained->budget = budget;
	return retained;
}

void
RetainedRowsEnd(RetainedRows *retained)
{
	if (retained->file != NULL)
		BufFileClose(retained->file);
	retained->file = NULL;
}

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
	Datum	   *values;

	if (retained->count == retained->capacity)
		retained->rows = GrowArray(retained->context, retained->rows, &retained->capacity,
								   retained->row_datums * sizeof(Datum));
	values = retained->rows + retained->count * retained->row_datums;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute column = TupleDescAttr(retained->columns, i);

		values[i] = row->tts_isnull[i] ? (Datum) 0 :
			column->attbyval ? row->tts_values[i] :
			CopyValue(retained, row->tts_values[i], column->attlen);
	}
	memcpy(values + natts, row->tts_isnull, natts * sizeof(bool));
	retained->in_memory++;
	retained->budget -= retained->row_datums * sizeof(Datum);
}

static void
AddToFile(RetainedRows *retained, TupleTableSlot *row)
{
	uint32		number = retained->count - retained->in_memory;
	MinimalTuple tuple = ExecCopySlotMinimalTuple(row);
	FilePosition *position;

	if (retained->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(retained->context);

		retained->file = BufFileCreateTemp(false);
		for (int i = 0; i < 2; i++)
			retained->slots[i] = MakeSingleTupleTableSlot(retained->columns, &TTSOpsMinimalTuple);
		MemoryContextSwitchTo(old);
	}
	if (number == retained->position_capacity)
		retained->positions = GrowArray(retained->context, retained->positions,
										&retained->position_capacity, sizeof(FilePosition));
	position = &retained->positions[number];
	/* the position is elsewhere if a row has been fetched since */
	if (number > 0 && BufFileSeek(retained->file, position[-1].fileno,
								  position[-1].offset + position[-1].length, SEEK_SET) != 0)
		elog(ERROR, "could not seek in temporary file");
	position->length = tuple->t_len;
	BufFileTell(retained->file, &position->fileno, &position->offset);
	BufFileWrite(retained->file, tuple, tuple->t_len);
	pfree(tuple);
}

/* A row goes into the file once the memory budget is exhausted. */
void
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

RetainedRow
RetainedRowsFetchFromFile(RetainedRows *retained, uint32 row, int reader)
{
	const FilePosition *position = &retained->positions[row - retained->in_memory];
	TupleTableSlot *slot = retained->slots[reader];
	MinimalTuple tuple = MemoryContextAlloc(retained->context, position->length);

	if (BufFileSeek(retained->file, position->fileno, position->offset, SEEK_SET) != 0 ||
		BufFileRead(retained->file, tuple, position->length) != position->length)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from temporary file: %m")));
	ExecStoreMinimalTuple(tuple, slot, true);
	slot_getallattrs(slot);
	return (RetainedRow) {.values = slot->tts_values,.isnull = slot->tts_isnull};
}

void
RetainedRowsPrefetchValues(RetainedRows *retained, uint32 row)
{
	RetainedRow values;

	if (RetainedRowIsInFile(retained, row))
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
