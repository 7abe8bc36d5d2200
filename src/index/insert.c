/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Adds a row to an index: at the first free place, or in a new chunk.
 *
 * The head and the levels of a row are written in one WAL record.  Locks are taken in the order metapage,
 * head, boxes, levels.  The lock of the metapage protects the length of the index, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "index/access.h"
#include "miscadmin.h"
#include "utils/memutils.h"

StaticAssertDecl(INDEX_LEVELS <= MAX_GENERIC_XLOG_PAGES, "a row must fit into a WAL record");

/* An open change of the metapage. */
typedef struct MetaChange
{
	Relation	index;
	Buffer		buffer;
	IndexMeta  *meta;			/* as it is */
} MetaChange;

static void
begin_meta(MetaChange *change, Relation index)
{
	change->index = index;
	change->buffer = ReadIndexPage(index, META_BLOCK, BUFFER_LOCK_EXCLUSIVE, META_PAGE, 0, 0);
	change->meta = MetaOf(index, change->buffer);
}

/* Replaces the metapage's contents, and unlocks it. */
static void
finish_meta(MetaChange *change, const IndexMeta *meta)
{
	GenericXLogState *xlog = GenericXLogStart(change->index);
	Page		page = GenericXLogRegisterBuffer(xlog, change->buffer, 0);

	memcpy(PageGetContents(page), meta, sizeof(IndexMeta));
	GenericXLogFinish(xlog);
	UnlockReleaseBuffer(change->buffer);
}

/* Sets the basis of an index that has had no vector: that of the vector's own coordinates. */
static void
begin_vectors(Relation index, uint32 dimensions, double *elements)
{
	MetaChange	change;
	IndexMeta	meta;
	IndexState *state;
	const IndexedKind *kind = KindOf(index);

	begin_meta(&change, index);
	meta = *change.meta;
	if (meta.dimensions > 0)
	{
		UnlockReleaseBuffer(change.buffer);
		return;
	}
	meta.null_chunks = meta.free_chunk = meta.chunks;
	state = FitBasis(elements, 1, dimensions, meta, kind);
	for (uint32 p = 0; p < state->layout.basis_pages; p++)
	{
		Buffer		buffer = NewIndexPage(index, state->layout.basis_block + p);
		GenericXLogState *xlog = GenericXLogStart(index);

		FillBasisPage(GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE), state, p);
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
	finish_meta(&change, &state->meta);
}

/* Raises the greatest radius, and the first chunk with free places, unless the index has changed. */
static void
raise_meta(Relation index, uint32 dimensions, double radius, uint32 free_chunk)
{
	MetaChange	change;
	IndexMeta	meta;

	begin_meta(&change, index);
	meta = *change.meta;
	meta.most_radius = Max(meta.most_radius, radius);
	if (meta.dimensions == dimensions)
		meta.free_chunk = Max(meta.free_chunk, free_chunk);
	finish_meta(&change, &meta);
}

/*
 * Appends a chunk, unless another session has appended chunk number `chunk` meanwhile.  Returns false
 * if the index has got its dimensions meanwhile.
 */
static bool
add_chunk(Relation index, const IndexState *state, uint32 chunk)
{
	MetaChange	change;
	IndexMeta	meta;
	BlockNumber block = ChunkBlock(&state->layout, chunk);
	uint32		pages = state->layout.chunk_pages;
	bool		section = chunk >= state->layout.null_chunks && chunk == SectionOf(&state->layout, chunk);

	begin_meta(&change, index);
	meta = *change.meta;
	if (meta.dimensions != state->meta.dimensions || meta.chunks > chunk)
	{
		UnlockReleaseBuffer(change.buffer);
		return meta.dimensions == state->meta.dimensions;
	}
	if (block > MaxBlockNumber - pages)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has too many pages", RelationGetRelationName(index))));
	for (BlockNumber b = section ? block - 1 : block; b < block + pages; b++)
	{
		Buffer		buffer = NewIndexPage(index, b);
		GenericXLogState *xlog = GenericXLogStart(index);
		Page		page = GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE);

		if (b < block)
			InitIndexPage(page, BOX_PAGE, chunk, 0);
		else
			InitChunkPage(page, state, chunk, b - block);
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
	meta.chunks = chunk + 1;
	finish_meta(&change, &meta);
	return true;
}

/* Removes the bounds of a chunk's box, in a WAL record before that of a row. */
static void
open_box(Relation index, const IndexLayout *layout, uint32 chunk)
{
	Buffer		buffer = ReadIndexPage(index, BoxBlock(layout, chunk), BUFFER_LOCK_EXCLUSIVE, BOX_PAGE,
									   SectionOf(layout, chunk), 0);

	if (BoxOf(BufferGetPage(buffer), layout, chunk)->most_scale != 0)
	{
		GenericXLogState *xlog = GenericXLogStart(index);

		BoxOf(GenericXLogRegisterBuffer(xlog, buffer, 0), layout, chunk)->most_scale = 0;
		GenericXLogFinish(xlog);
	}
	UnlockReleaseBuffer(buffer);
}

/* Writes a row to a free place of a chunk.  Returns false if there is none. */
static bool
put_row(Relation index, const IndexState *state, const IndexRow *row, uint32 chunk)
{
	const IndexLayout *layout = &state->layout;
	uint32		levels = row->state != 0 ? 1 : layout->levels;
	Buffer		buffers[INDEX_LEVELS];
	GenericXLogState *xlog;
	const uint16 *seconds;
	uint32		number = 0;

	buffers[0] = ReadIndexPage(index, ChunkBlock(layout, chunk), BUFFER_LOCK_EXCLUSIVE, HEAD_PAGE, chunk, 0);
	seconds = HeadSeconds(BufferGetPage(buffers[0]), state);
	while (number < layout->chunk_rows && seconds[number] != ROW_FREE)
		number++;
	if (number == layout->chunk_rows)
	{
		UnlockReleaseBuffer(buffers[0]);
		return false;
	}
	if (chunk >= layout->null_chunks)
		open_box(index, layout, chunk);
	for (uint32 l = 1; l < levels; l++)
		buffers[l] = ReadIndexPage(index, LevelBlock(layout, chunk, l, number), BUFFER_LOCK_EXCLUSIVE,
								   LEVEL_PAGE, chunk, l);
	xlog = GenericXLogStart(index);
	for (uint32 l = 0; l < levels; l++)
		PutRow(state, row, number, l, GenericXLogRegisterBuffer(xlog, buffers[l], 0));
	GenericXLogFinish(xlog);
	for (uint32 l = 0; l < levels; l++)
		UnlockReleaseBuffer(buffers[l]);
	return true;
}

/* Writes a row to the first free place.  Returns false as add_chunk. */
static bool
place_row(Relation index, IndexState *state, const IndexRow *row)
{
	uint32		first = state->meta.free_chunk;
	uint32		chunk = first;

	for (;; chunk++)
	{
		if (chunk >= state->meta.chunks && !add_chunk(index, state, chunk))
			return false;
		if (put_row(index, state, row, chunk))
			break;
		CHECK_FOR_INTERRUPTS();
	}
	if (chunk > first)
		raise_meta(index, state->meta.dimensions, 0.0, chunk);
	return true;
}

/* Adds a row to the index as it is now.  Returns false if that changed meanwhile: try again. */
static bool
insert_row(Relation index, ItemPointer tid, double *elements, int dimensions, double radius,
		   const uint32 *hashes)
{
	IndexMeta	meta;
	const IndexState *cached = ReadState(index, &meta);
	IndexState	state = *cached;
	IndexRow   *row;

	if (elements != NULL && meta.dimensions == 0)
	{
		double	   *copy = palloc(dimensions * sizeof(double));

		memcpy(copy, elements, dimensions * sizeof(double));
		begin_vectors(index, dimensions, copy);
		return false;
	}
	if (elements != NULL && (uint32) dimensions != meta.dimensions)
		ReportIndexDimensions(index, dimensions, meta.dimensions);
	row = palloc0(IndexRowBytes(&state));
	row->tid = *tid;
	memcpy(RowHashes(row), hashes, meta.columns * sizeof(uint32));
	if (elements == NULL)
		row->state = ROW_NULL;
	else
		EncodeRow(cached, elements, row);
	if (radius > meta.most_radius)
		raise_meta(index, meta.dimensions, radius, 0);
	return place_row(index, &state, row);
}

bool
IndexInsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted index insert",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	uint32	   *hashes = palloc(INDEX_MAX_KEYS * sizeof(uint32));
	double	   *elements = NULL;
	double		radius = 0.0;
	int			dimensions = 0;

	SetHashes(index, values, isnull, hashes);
	if (!isnull[0])
		elements = ElementsOf(KindOf(index), values[0], &dimensions, &radius);
	while (!insert_row(index, tid, elements, dimensions, radius, hashes))
		;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return false;
}
