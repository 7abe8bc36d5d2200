/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Adds a row to an index: at a free place among similar rows, or in a new chunk.
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

StaticAssertDecl(sizeof(IndexMeta) + (EMPTY_LIST + 1) * sizeof(uint32) <= PAGE_ROOM, "lists must fit into the metapage");
StaticAssertDecl(INDEX_LEVELS <= MAX_GENERIC_XLOG_PAGES, "a row must fit into a WAL record");

/* An open change of the metapage and, maybe, of a head. */
typedef struct MetaChange
{
	Relation	index;
	Buffer		buffer;
	Buffer		head;
	GenericXLogState *xlog;
	IndexMeta  *meta;			/* as it will be */
	uint32	   *lists;
} MetaChange;

static void
begin_meta(MetaChange *change, Relation index)
{
	change->index = index;
	change->buffer = ReadIndexPage(index, META_BLOCK, BUFFER_LOCK_EXCLUSIVE, META_PAGE, 0, 0);
	(void) MetaOf(index, change->buffer);
	change->head = InvalidBuffer;
	change->xlog = GenericXLogStart(index);
	change->meta = (IndexMeta *) PageGetContents(GenericXLogRegisterBuffer(change->xlog, change->buffer, 0));
	change->lists = ChunkLists(change->meta);
}

/* Makes the change, or drops it, and unlocks the pages. */
static void
finish_meta(MetaChange *change, bool changed)
{
	if (changed)
		GenericXLogFinish(change->xlog);
	else
		GenericXLogAbort(change->xlog);
	if (change->head != InvalidBuffer)
		UnlockReleaseBuffer(change->head);
	UnlockReleaseBuffer(change->buffer);
}

/* Adds the head of a chunk to the change. */
static Page
change_head(MetaChange *change, const IndexState *state, uint32 chunk)
{
	change->head = ReadIndexPage(change->index, ChunkBlock(&state->layout, chunk), BUFFER_LOCK_EXCLUSIVE,
								 HEAD_PAGE, chunk, 0);
	return GenericXLogRegisterBuffer(change->xlog, change->head, 0);
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
	if (change.meta->dimensions > 0)
	{
		finish_meta(&change, false);
		return;
	}
	meta = *change.meta;
	meta.null_chunks = meta.chunks;
	meta.list_bits = 0;
	state = FitBasis(elements, 1, dimensions, meta, kind);
	for (uint32 p = 0; p < state->layout.basis_pages; p++)
	{
		Buffer		buffer = NewIndexPage(index, state->layout.basis_block + p);
		GenericXLogState *xlog = GenericXLogStart(index);

		FillBasisPage(GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE), state, p);
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
	*change.meta = state->meta;
	memset(change.lists, 0, (EMPTY_LIST + 1) * sizeof(uint32));
	finish_meta(&change, true);
}

/* Raises the greatest radius. */
static void
raise_radius(Relation index, double radius)
{
	MetaChange	change;

	begin_meta(&change, index);
	change.meta->most_radius = Max(change.meta->most_radius, radius);
	finish_meta(&change, true);
}

/* --- lists of chunks */

void
ListChunk(Relation index, const IndexState *state, uint32 chunk)
{
	MetaChange	change;
	Page		head;
	bool		in_use = false;
	uint32	   *list;

	begin_meta(&change, index);
	head = change_head(&change, state, chunk);
	for (uint32 r = 0; r < state->layout.chunk_rows; r++)
		in_use |= HeadSeconds(head, state)[r] != ROW_FREE;
	list = &change.lists[in_use ? ListOf(change.meta, HeadKey(state, head)) : EMPTY_LIST];
	if (change.meta->dimensions != state->meta.dimensions || chunk < change.meta->null_chunks ||
		OpaqueOf(head)->next != 0)
	{
		finish_meta(&change, false);
		return;
	}
	OpaqueOf(head)->next = *list == 0 ? LIST_END : *list;
	*list = chunk + 1;
	finish_meta(&change, true);
}

/* Removes the first chunk from a list, and sets what follows it. */
static void
remove_first(MetaChange *change, const IndexState *state, uint32 *list, uint32 next)
{
	PageOpaque *opaque = OpaqueOf(change_head(change, state, *list - 1));

	*list = opaque->next == LIST_END ? 0 : opaque->next;
	opaque->next = next;
}

/* Appends a chunk to the index, which is to be the only one of a list. */
static void
add_chunk(MetaChange *change, const IndexState *state)
{
	const IndexLayout *layout = &state->layout;
	uint32		chunk = change->meta->chunks;
	BlockNumber block = ChunkBlock(layout, chunk);
	bool		section = chunk >= layout->null_chunks && chunk == SectionOf(layout, chunk);

	if (block > MaxBlockNumber - layout->chunk_pages)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index \"%s\" has too many pages", RelationGetRelationName(change->index))));
	for (BlockNumber b = section ? block - 1 : block; b < block + layout->chunk_pages; b++)
	{
		Buffer		buffer = NewIndexPage(change->index, b);
		GenericXLogState *xlog = GenericXLogStart(change->index);
		Page		page = GenericXLogRegisterBuffer(xlog, buffer, GENERIC_XLOG_FULL_IMAGE);

		if (b < block)
			InitIndexPage(page, BOX_PAGE, chunk, 0);
		else
			InitChunkPage(page, state, chunk, b - block);
		if (b == block)
			OpaqueOf(page)->next = LIST_END;
		GenericXLogFinish(xlog);
		UnlockReleaseBuffer(buffer);
	}
	change->meta->chunks++;
}

/* Divides each list in two, of which the second one is empty, if there are enough chunks that lists can have. */
static void
divide_lists(MetaChange *change)
{
	if (ListBits(change->meta->chunks - change->meta->null_chunks) <= change->meta->list_bits)
		return;
	for (uint32 i = 1 << change->meta->list_bits++; i-- > 0;)
	{
		change->lists[2 * i] = change->lists[i];
		change->lists[2 * i + 1] = 0;
	}
}

/*
 * Replaces the first chunk of the list for rows with this key, which is full, or there is none, by another one:
 * the next one of the list, a chunk without rows, or a new one.  Does nothing if the list has changed meanwhile.
 */
static void
replace_chunk(Relation index, const IndexState *state, int64 key, uint32 full)
{
	MetaChange	change;
	uint32	   *list;
	uint32	   *empty;

	begin_meta(&change, index);
	list = &change.lists[ListOf(change.meta, key)];
	empty = &change.lists[EMPTY_LIST];
	if (change.meta->dimensions != state->meta.dimensions || *list != full)
	{
		finish_meta(&change, false);
		return;
	}
	if (full != 0)
		remove_first(&change, state, list, 0);
	else if (*empty != 0)
	{
		*list = *empty;
		remove_first(&change, state, empty, LIST_END);
	}
	else
	{
		add_chunk(&change, state);
		*list = change.meta->chunks;
		divide_lists(&change);
	}
	finish_meta(&change, true);
}

/* --- rows */

/* Widens a chunk's box for a row, which may be the chunk's first, in a WAL record before that of the row. */
static void
widen_box(Relation index, const IndexState *state, const IndexRow *row, uint32 chunk, bool first)
{
	const IndexLayout *layout = &state->layout;
	Buffer		buffer = ReadIndexPage(index, BoxBlock(layout, chunk), BUFFER_LOCK_EXCLUSIVE, BOX_PAGE,
									   SectionOf(layout, chunk), 0);
	ChunkBox   *old = BoxOf(BufferGetPage(buffer), layout, chunk);
	ChunkBox	box = *old;

	WidenBox(state, row, first ? 0 : 1, &box);
	if (memcmp(&box, old, sizeof(ChunkBox)) != 0)
	{
		GenericXLogState *xlog = GenericXLogStart(index);

		*BoxOf(GenericXLogRegisterBuffer(xlog, buffer, 0), layout, chunk) = box;
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
	uint32		number = layout->chunk_rows;
	uint32		in_use = 0;

	buffers[0] = ReadIndexPage(index, ChunkBlock(layout, chunk), BUFFER_LOCK_EXCLUSIVE, HEAD_PAGE, chunk, 0);
	seconds = HeadSeconds(BufferGetPage(buffers[0]), state);
	for (uint32 r = layout->chunk_rows; r-- > 0;)
	{
		if (seconds[r] == ROW_FREE)
			number = r;
		else
			in_use++;
	}
	if (in_use == layout->chunk_rows)
	{
		UnlockReleaseBuffer(buffers[0]);
		return false;
	}
	if (chunk >= layout->null_chunks)
		widen_box(index, state, row, chunk, in_use == 0);
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

/* Writes a row to a free place.  Returns false if the index has got its dimensions meanwhile. */
static bool
place_row(Relation index, const IndexState *state, const IndexRow *row)
{
	int64		key = RowKey(state, row);

	for (;;)
	{
		Buffer		buffer = ReadIndexPage(index, META_BLOCK, BUFFER_LOCK_SHARE, META_PAGE, 0, 0);
		IndexMeta  *meta = MetaOf(index, buffer);
		uint32		first = ChunkLists(meta)[ListOf(meta, key)];
		bool		same = meta->dimensions == state->meta.dimensions;

		if (first > meta->chunks)
			ReportCorruption(index, META_BLOCK);
		UnlockReleaseBuffer(buffer);
		if (!same)
			return false;
		if (first != 0 && put_row(index, state, row, first - 1))
			return true;
		replace_chunk(index, state, key, first);
		CHECK_FOR_INTERRUPTS();
	}
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
		raise_radius(index, radius);
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
