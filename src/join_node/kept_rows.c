/*-------------------------------------------------------------------------
 *
 * kept_rows.c
 *	  Minimal tuples in chunks of memory; the later ones in a BufFile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "engine/engine.h"
#include "join_node/kept_rows.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

#define CHUNK_BYTES (256 * 1024)

/* Where a row in the file begins. */
typedef struct FilePlace
{
	int			fileno;
	off_t		offset;
} FilePlace;

struct KeptRows
{
	MemoryContext context;		/* of all of it */
	Size		limit;
	Size		bytes;
	uint32		count;

	MinimalTuple *tuples;		/* rows from 0 on, in memory */
	uint32		in_memory;
	uint32		tuple_room;
	char	   *chunk;			/* room of the last chunk */
	Size		chunk_left;

	BufFile    *file;			/* the rows behind those; NULL: there are none */
	FilePlace  *places;
	uint32		place_room;
	MinimalTuple buffers[2];	/* a row of the file, for each reader */
	Size		buffer_bytes[2];
};

KeptRows *
KeptRowsCreate(Size limit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted kept rows",
												  ALLOCSET_DEFAULT_SIZES);
	KeptRows   *kept = MemoryContextAllocZero(context, sizeof(KeptRows));

	kept->context = context;
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

static void
AddInMemory(KeptRows *kept, MinimalTuple tuple)
{
	MinimalTuple copy = (MinimalTuple) RoomInChunk(kept, tuple->t_len);

	memcpy(copy, tuple, tuple->t_len);
	kept->tuples = Grow(kept->context, kept->tuples, kept->in_memory, &kept->tuple_room,
						sizeof(MinimalTuple));
	kept->tuples[kept->in_memory++] = copy;
}

static void
AddToFile(KeptRows *kept, MinimalTuple tuple)
{
	uint32		row = kept->count - kept->in_memory;

	if (kept->file == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(kept->context);

		kept->file = BufFileCreateTemp(false);
		MemoryContextSwitchTo(old);
	}
	kept->places = Grow(kept->context, kept->places, row, &kept->place_room, sizeof(FilePlace));
	BufFileTell(kept->file, &kept->places[row].fileno, &kept->places[row].offset);
	BufFileWrite(kept->file, tuple, tuple->t_len);
}

void
KeptRowsAdd(KeptRows *kept, TupleTableSlot *slot)
{
	bool		free_tuple;
	MinimalTuple tuple = ExecFetchSlotMinimalTuple(slot, &free_tuple);

	if (kept->count == FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a side of the join has too many rows"),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	if (kept->file == NULL && kept->bytes + tuple->t_len <= kept->limit)
		AddInMemory(kept, tuple);
	else
		AddToFile(kept, tuple);
	kept->bytes += tuple->t_len;
	kept->count++;
	if (free_tuple)
		pfree(tuple);
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
	const FilePlace *place = &kept->places[row - kept->in_memory];
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

void
KeptRowsFetch(KeptRows *kept, uint32 row, int reader, TupleTableSlot *slot)
{
	MinimalTuple tuple = row < kept->in_memory ? kept->tuples[row] : ReadFromFile(kept, row, reader);

	ExecStoreMinimalTuple(tuple, slot, false);
}

void
KeptRowsEnd(KeptRows *kept)
{
	if (kept->file != NULL)
		BufFileClose(kept->file);
	MemoryContextDelete(kept->context);
}
