/*-------------------------------------------------------------------------
 *
 * format.c
 *	  Pages of an index: layout, checks, and the state that a session keeps of an index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/amapi.h"
#include "access/genam.h"
#include "index/format.h"
#include "pgstat.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

/* The last coordinate of each level but the last one. */
static const uint32 level_ends[INDEX_LEVELS - 1] = {HEAD_WORDS, 64, 128};

/* Bytes of a row in the head, without hashes. */
#define HEAD_ROW_BYTES (HEAD_WORDS + 2 * sizeof(uint16) + sizeof(ItemPointerData))

/* Rows of a chunk are a multiple of this, which is about what fills pages of levels. */
#define CHUNK_STEP (2 * GROUP_ROWS)

/* Buffers that a session remembers. */
#define RECENT_BUFFERS 65536

void
SetLayout(IndexLayout *layout, const IndexMeta *meta)
{
	uint32		dimensions = Max(meta->dimensions, 1);
	uint32		row_bytes = HEAD_ROW_BYTES + meta->columns * sizeof(uint32);

	memset(layout, 0, sizeof(*layout));
	layout->chunk_rows = PAGE_ROOM / row_bytes / CHUNK_STEP * CHUNK_STEP;
	layout->chunk_pages = 1;
	for (uint32 l = 0; layout->first[l] < dimensions; l++)
	{
		uint32		end = l < INDEX_LEVELS - 1 ? Min(level_ends[l], dimensions) : dimensions;

		layout->levels = l + 1;
		layout->first[l + 1] = end;
		layout->words[l] = l == 0 ? HEAD_WORDS : (end - layout->first[l] + 1) / 2 * 2;
		layout->stride[l] = offsetof(LevelRow, codes) + layout->words[l];
		layout->page_rows[l] = l == 0 ? layout->chunk_rows : PAGE_ROOM / layout->stride[l];
		if (l < GROUPED_LEVELS)
			layout->page_rows[l] = layout->page_rows[l] / GROUP_ROWS * GROUP_ROWS;
		layout->page[l] = l == 0 ? 0 : layout->chunk_pages;
		if (l > 0)
			layout->chunk_pages += (layout->chunk_rows + layout->page_rows[l] - 1) / layout->page_rows[l];
	}
	/* before the first vector, all chunks are null chunks */
	layout->null_chunks = meta->dimensions == 0 ? PG_UINT32_MAX : meta->null_chunks;
	layout->basis_block = META_BLOCK + 1 + meta->null_chunks;
	if (meta->dimensions > 0)
		layout->basis_pages = (dimensions * (meta->reflections + 1) - 1) / BASIS_PAGE_FLOATS + 1;
	layout->chunk_block = layout->basis_block + layout->basis_pages;
}

const IndexedKind *
KindOf(Relation index)
{
	FmgrInfo   *function = index_getprocinfo(index, 1, INDEX_KIND_PROC);

	return (const IndexedKind *) DatumGetPointer(FunctionCall1(function, PointerGetDatum(index)));
}

IndexMeta
EmptyMeta(Relation index)
{
	return (IndexMeta) {
		.magic = INDEX_MAGIC,.metric = KindOf(index)->metric,
		.columns = IndexRelationGetNumberOfKeyAttributes(index) - 1
	};
}

IndexState *
MakeState(const IndexMeta *meta, const IndexedKind *kind, MemoryContext context)
{
	Size		floats = (Size) meta->dimensions * (meta->reflections + 1);
	IndexState *state = MemoryContextAllocZero(context, sizeof(IndexState) +
											   meta->reflections * sizeof(double) + floats * sizeof(float));

	state->meta = *meta;
	state->kind = kind;
	state->scale = ldexp(1.0, meta->exponent);
	state->factors = (double *) (state + 1);
	state->centre = (float *) (state->factors + meta->reflections);
	state->reflections = state->centre + meta->dimensions;
	SetLayout(&state->layout, meta);
	return state;
}

bool
SetFactors(IndexState *state)
{
	uint32		d = state->meta.dimensions;

	for (uint32 k = 0; k < d; k++)
		if (!isfinite(state->centre[k]))
			return false;
	for (uint32 j = 0; j < state->meta.reflections; j++)
	{
		const float *v = state->reflections + (Size) j * d;
		double		square = 0.0;

		for (uint32 k = 0; k < d; k++)
			square += (double) v[k] * v[k];
		if (!(square > 0.5 && square < 2.0))
			return false;
		state->factors[j] = 2.0 / square;
	}
	return true;
}

void
ReportCorruption(Relation index, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" contains a damaged page at block %u", RelationGetRelationName(index), block),
			 errhint("Please REINDEX it.")));
}

/* Buffers that this session has used, by a hash of the page; maybe of other pages by now. */
static Buffer recent_buffers[RECENT_BUFFERS];

static Buffer *
recent_buffer(Relation index, BlockNumber block)
{
	return &recent_buffers[(RelationGetRelid(index) * 4001 + block) % RECENT_BUFFERS];
}

void
FetchAhead(Relation index, BlockNumber block, Size first, Size n)
{
	Buffer		buffer = *recent_buffer(index, block);

	if (buffer <= 0)
		return;
	__builtin_prefetch(GetBufferDescriptor(buffer - 1));
	__builtin_prefetch(BufferGetPage(buffer) + BLCKSZ - MAXALIGN(sizeof(PageOpaque)));
	for (Size line = 0; line < n; line += CACHE_LINE)
		__builtin_prefetch(BufferGetPage(buffer) + first + line);
}

/* Returns true if a buffer has been used so often lately that another use does not change its usage count. */
static bool
is_much_used(Buffer buffer)
{
	uint32		state = pg_atomic_read_u32(&GetBufferDescriptor(buffer - 1)->state);

	return BUF_STATE_GET_USAGECOUNT(state) == BM_MAX_USAGE_COUNT;
}

/*
 * Pins a page, mostly without a search of the table of all buffers, which costs as much as to use a page.
 * ReadRecentBuffer does not raise the usage count, without which the page would soon be evicted.
 */
static Buffer
pin_page(Relation index, BlockNumber block)
{
	Buffer	   *buffer = recent_buffer(index, block);

	if (*buffer > 0 && !RelationUsesLocalBuffers(index) && is_much_used(*buffer) &&
		ReadRecentBuffer(FASTED_RELATION_LOCATOR(index), MAIN_FORKNUM, block, *buffer))
	{
		pgstat_count_buffer_read(index);
		pgstat_count_buffer_hit(index);
	}
	else
		*buffer = ReadBuffer(index, block);
	return *buffer;
}

Buffer
ReadIndexPage(Relation index, BlockNumber block, int lock, PageKind kind, uint32 chunk, uint32 level)
{
	Buffer		buffer = pin_page(index, block);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, lock);
	if (PageIsNew(page) || PageGetSpecialSize(page) != MAXALIGN(sizeof(PageOpaque)) ||
		((PageHeader) page)->pd_special != BLCKSZ - MAXALIGN(sizeof(PageOpaque)) ||
		OpaqueOf(page)->kind != kind || OpaqueOf(page)->chunk != chunk || OpaqueOf(page)->level != level)
		ReportCorruption(index, block);
	return buffer;
}

IndexMeta *
MetaOf(Relation index, Buffer buffer)
{
	IndexMeta  *meta = (IndexMeta *) PageGetContents(BufferGetPage(buffer));

	if (meta->magic != INDEX_MAGIC || meta->dimensions > MOST_INDEX_DIMENSIONS ||
		meta->metric != (uint32) KindOf(index)->metric ||
		meta->reflections > Min(MOST_REFLECTIONS, meta->dimensions) ||
		meta->columns != (uint32) (IndexRelationGetNumberOfKeyAttributes(index) - 1) ||
		abs(meta->exponent) > 1000 || meta->null_chunks > meta->chunks || meta->list_bits > MOST_LIST_BITS ||
		!(meta->most_radius >= 0.0 && isfinite(meta->most_radius)))
		ReportCorruption(index, META_BLOCK);
	return meta;
}

void
InitIndexPage(Page page, PageKind kind, uint32 chunk, uint32 level)
{
	PageInit(page, BLCKSZ, sizeof(PageOpaque));
	*OpaqueOf(page) = (PageOpaque) {.chunk = chunk,.level = level,.kind = kind};
	/* All of the page is in use, so that WAL has no hole. */
	((PageHeader) page)->pd_lower = ((PageHeader) page)->pd_upper;
}

void
InitChunkPage(Page page, const IndexState *state, uint32 chunk, uint32 number)
{
	const IndexLayout *layout = &state->layout;
	uint32		level = 0;

	while (level + 1 < layout->levels && layout->page[level + 1] <= number)
		level++;
	InitIndexPage(page, level == 0 ? HEAD_PAGE : LEVEL_PAGE, chunk, level);
	for (uint32 r = 0; level == 0 && r < layout->chunk_rows; r++)
	{
		HeadSeconds(page, state)[r] = ROW_FREE;
		ItemPointerSetInvalid(HeadTids(page, state) + r);
	}
}

void
FillBasisPage(Page page, const IndexState *state, uint32 number)
{
	Size		floats = (Size) state->meta.dimensions * (state->meta.reflections + 1);
	Size		first = (Size) number * BASIS_PAGE_FLOATS;

	InitIndexPage(page, BASIS_PAGE, number, 0);
	memcpy(PageGetContents(page), state->centre + first,
		   Min(floats - first, BASIS_PAGE_FLOATS) * sizeof(float));
}

void
ReadBasis(Relation index, IndexState *state)
{
	Size		floats = (Size) state->meta.dimensions * (state->meta.reflections + 1);

	for (uint32 p = 0; p < state->layout.basis_pages; p++)
	{
		Size		first = (Size) p * BASIS_PAGE_FLOATS;
		Buffer		buffer = ReadIndexPage(index, state->layout.basis_block + p, BUFFER_LOCK_SHARE,
										   BASIS_PAGE, p, 0);

		memcpy(state->centre + first, PageGetContents(BufferGetPage(buffer)),
			   Min(floats - first, BASIS_PAGE_FLOATS) * sizeof(float));
		UnlockReleaseBuffer(buffer);
	}
	if (!SetFactors(state))
		ReportCorruption(index, state->layout.basis_block);
}

const IndexState *
ReadState(Relation index, IndexMeta *meta)
{
	const IndexedKind *kind = KindOf(index);	/* before a page is locked */
	Buffer		buffer = ReadIndexPage(index, META_BLOCK, BUFFER_LOCK_SHARE, META_PAGE, 0, 0);
	IndexState *state = index->rd_amcache;

	*meta = *MetaOf(index, buffer);
	UnlockReleaseBuffer(buffer);
	if (state == NULL || state->meta.dimensions != meta->dimensions ||
		state->meta.reflections != meta->reflections || state->meta.null_chunks != meta->null_chunks)
	{
		index->rd_amcache = NULL;
		if (state != NULL)
			pfree(state);
		index->rd_amcache = state = MakeState(meta, kind, index->rd_indexcxt);
		/* If reading raises an error, the state is not that of any metapage, so that the next call frees it. */
		state->meta.null_chunks = PG_UINT32_MAX;
		if (meta->dimensions > 0)
			ReadBasis(index, state);
	}
	state->meta = *meta;
	return state;
}

Buffer
NewIndexPage(Relation index, BlockNumber block)
{
	bool		old = block < RelationGetNumberOfBlocks(index);
	Buffer		buffer = ReadBuffer(index, old ? block : P_NEW);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	if (BufferGetBlockNumber(buffer) != block)
		ReportCorruption(index, block);
	return buffer;
}
