/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Builds an index: computes the basis from a sample, encodes all rows, sorts them so that similar
 *	  ones are neighbours, and writes them to chunks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/tableam.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "index/access.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/sampling.h"
#include "utils/tuplesort.h"

#define MOST_SAMPLED_BLOCKS 10000

typedef struct Build
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	const IndexedKind *kind;
	MemoryContext row_context;	/* reset for each row */

	/* The sample: a reservoir. */
	double	   *sample;
	uint32		sampled;
	uint32		most_sampled;
	uint64		seen;
	uint32		dimensions;		/* 0 before the first vector */

	/* Encoded rows. */
	IndexState *state;			/* NULL while rows are sampled */
	IndexRow   *row;
	Tuplesortstate *sort;
	TupleTableSlot *slot;
	double		rows;
	double		most_radius;

	/* The chunk that is being filled. */
	char	   *pages;
	uint32		filled;			/* rows */
	ChunkBox	box;
} Build;

/* --- the sample */

static void
sample_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *arg)
{
	Build	   *build = arg;
	MemoryContext old;
	double	   *elements;
	double		radius;
	int			dimensions;
	uint64		place;

	if (isnull[0])
		return;
	old = MemoryContextSwitchTo(build->row_context);
	elements = ElementsOf(build->kind, values[0], &dimensions, &radius);
	if (build->dimensions == 0)
	{
		build->dimensions = dimensions;
		build->most_sampled = FitRows(dimensions);
		build->sample = MemoryContextAllocHuge(GetMemoryChunkContext(build),
											   (Size) build->most_sampled * dimensions * sizeof(double));
	}
	place = build->seen < build->most_sampled ? build->seen :
		pg_prng_uint64_range(&pg_global_prng_state, 0, build->seen);
	if ((uint32) dimensions == build->dimensions)
	{
		build->seen++;
		if (place < build->most_sampled)
			memcpy(build->sample + place * dimensions, elements, dimensions * sizeof(double));
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(build->row_context);
}

/* Reads rows of randomly chosen blocks or, if they have no vector, all rows. */
static void
read_sample(Build *build)
{
	BlockSamplerData sampler;
	IndexInfo	info = *build->info;

	/* Other transactions' rows are not waited for.  Such a scan cannot check constraints. */
	bool		any_visible = !info.ii_Concurrent;

	info.ii_ExclusionOps = NULL;
	(void) BlockSampler_Init(&sampler, RelationGetNumberOfBlocks(build->heap), MOST_SAMPLED_BLOCKS,
							 pg_prng_uint32(&pg_global_prng_state));
	while (BlockSampler_HasMore(&sampler))
		(void) table_index_build_range_scan(build->heap, build->index, &info, false, any_visible, false,
											BlockSampler_Next(&sampler), 1, sample_row, build, NULL);
	if (build->dimensions == 0)
		(void) table_index_build_scan(build->heap, build->index, &info, false, false, sample_row,
									  build, NULL);
}

/* --- encoded rows */

/* A key by which rows are neighbours that are on the same side of the first axes. */
static int32
sort_key(const Build *build)
{
	uint32		n = build->state->layout.first[1];
	int32		key = 0;

	if (build->row->state != 0)
		return -1;
	for (uint32 k = 0; k < n; k++)
		key = key << 1 | (RowCodes(build->row, build->state)[k] > 0);
	return key;
}

static void
encode_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *arg)
{
	Build	   *build = arg;
	MemoryContext old;
	IndexRow   *row = build->row;

	/* The first vector came after the sample was read: PostgreSQL inserts rows that a concurrent build omits. */
	if (!isnull[0] && build->dimensions == 0 && build->info->ii_Concurrent)
		return;
	old = MemoryContextSwitchTo(build->row_context);
	row->tid = *tid;
	if (isnull[0])
		row->state = ROW_NULL;
	else
	{
		int			dimensions;
		double		radius;
		double	   *elements = ElementsOf(build->kind, values[0], &dimensions, &radius);

		if ((uint32) dimensions != build->dimensions)
			ReportIndexDimensions(index, dimensions, build->dimensions);
		build->most_radius = Max(build->most_radius, radius);
		EncodeRow(build->state, elements, row);
	}
	SetHashes(index, values, isnull, RowHashes(row));
	ExecClearTuple(build->slot);
	build->slot->tts_values[0] = Int32GetDatum(sort_key(build));
	build->slot->tts_values[1] = PointerGetDatum(row);
	build->slot->tts_isnull[0] = build->slot->tts_isnull[1] = false;
	ExecStoreVirtualTuple(build->slot);
	tuplesort_puttupleslot(build->sort, build->slot);
	build->rows++;
	MemoryContextSwitchTo(old);
	MemoryContextReset(build->row_context);
}

static void
begin_sort(Build *build)
{
	TupleDesc	columns = CreateTemplateTupleDesc(2);
	AttrNumber	key = 1;
	Oid			operator = Int4LessOperator;
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	TupleDescInitEntry(columns, 1, "key", INT4OID, -1, 0);
	TupleDescInitEntry(columns, 2, "row", OIDVECTOROID, -1, 0);	/* stored plain: no short headers */
	build->sort = tuplesort_begin_heap(columns, 1, &key, &operator, &collation, &nulls_first,
									   maintenance_work_mem, NULL, TUPLESORT_NONE);
	build->slot = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
	build->row = palloc0(IndexRowBytes(build->state));
	SET_VARSIZE(build->row, IndexRowBytes(build->state));
}

/* --- pages */

/* Appends pages. */
static void
append_pages(Build *build, const char *pages, uint32 count)
{
	for (uint32 p = 0; p < count; p++)
	{
		Buffer		buffer = ReadBuffer(build->index, P_NEW);

		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		memcpy(BufferGetPage(buffer), pages + (Size) p * BLCKSZ, BLCKSZ);
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
	}
}

static void
append_state(Build *build)
{
	Page		page = palloc(BLCKSZ);

	InitIndexPage(page, META_PAGE, 0, 0);
	memcpy(PageGetContents(page), &build->state->meta, sizeof(IndexMeta));
	append_pages(build, page, 1);
	for (uint32 p = 0; p < build->state->layout.basis_pages; p++)
	{
		FillBasisPage(page, build->state, p);
		append_pages(build, page, 1);
	}
	pfree(page);
}

/* Writes the chunk that has been filled, if it has rows, and its box. */
static void
append_chunk(Build *build)
{
	const IndexLayout *layout = &build->state->layout;
	uint32		chunk = build->state->meta.chunks;
	bool		boxed = chunk >= layout->null_chunks;
	uint32		section = boxed ? SectionOf(layout, chunk) : 0;

	if (build->filled == 0)
		return;
	if (boxed && chunk == section)
	{
		Page		page = palloc(BLCKSZ);

		InitIndexPage(page, BOX_PAGE, chunk, 0);
		append_pages(build, page, 1);
		pfree(page);
	}
	append_pages(build, build->pages, layout->chunk_pages);
	if (boxed)
	{
		Buffer		buffer = ReadIndexPage(build->index, BoxBlock(layout, chunk), BUFFER_LOCK_EXCLUSIVE,
										   BOX_PAGE, section, 0);

		*BoxOf(BufferGetPage(buffer), layout, chunk) = build->box;
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
	}
	build->state->meta.chunks++;
	build->filled = 0;
}

static void
add_to_chunk(Build *build, const IndexRow *row)
{
	const IndexState *state = build->state;
	const IndexLayout *layout = &state->layout;
	uint32		number = build->filled++;

	WidenBox(state, row, number, &build->box);
	for (uint32 p = 0; number == 0 && p < layout->chunk_pages; p++)
		InitChunkPage(build->pages + (Size) p * BLCKSZ, state, state->meta.chunks, p);
	for (uint32 l = 0; l < layout->levels; l++)
		PutRow(state, row, number, l,
			   build->pages + (Size) (LevelBlock(layout, 0, l, number) - ChunkBlock(layout, 0)) * BLCKSZ);
	if (build->filled == layout->chunk_rows)
		append_chunk(build);
}

static void
write_rows(Build *build)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(build->slot->tts_tupleDescriptor, &TTSOpsMinimalTuple);

	build->pages = palloc((Size) build->state->layout.chunk_pages * BLCKSZ);
	tuplesort_performsort(build->sort);
	while (tuplesort_gettupleslot(build->sort, true, false, slot, NULL))
	{
		bool		isnull;

		add_to_chunk(build, (IndexRow *) DatumGetPointer(slot_getattr(slot, 2, &isnull)));
		CHECK_FOR_INTERRUPTS();
	}
	append_chunk(build);
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(build->slot);
	tuplesort_end(build->sort);
}

/* Updates the metapage, which is not in WAL yet. */
static void
write_meta(Build *build)
{
	IndexMeta  *meta = &build->state->meta;
	Buffer		buffer = ReadIndexPage(build->index, META_BLOCK, BUFFER_LOCK_EXCLUSIVE, META_PAGE, 0, 0);

	meta->most_radius = build->most_radius;
	meta->free_chunk = meta->chunks - (meta->chunks > 0);
	memcpy(PageGetContents(BufferGetPage(buffer)), meta, sizeof(IndexMeta));
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);
}

/* Raises an error unless the first column, and no other, is a vector. */
static void
check_columns(Relation index)
{
	if (!OidIsValid(index_getprocid(index, 1, INDEX_KIND_PROC)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("first column of index \"%s\" must be a vector", RelationGetRelationName(index)),
				 errhint("Columns for equalities follow the vector.")));
	for (int c = 2; c <= IndexRelationGetNumberOfKeyAttributes(index); c++)
	{
		if (!OidIsValid(index_getprocid(index, c, INDEX_HASH_PROC)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("column %d of index \"%s\" must not be a vector", c, RelationGetRelationName(index)),
					 errhint("Create an index for each vector.")));
	}
}

IndexBuildResult *
IndexBuild(Relation heap, Relation index, IndexInfo *info)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted index build",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	Build	   *build = palloc0(sizeof(Build));
	IndexMeta	meta;
	IndexBuildResult *result;
	double		heap_rows;

	check_columns(index);
	build->heap = heap;
	build->index = index;
	build->info = info;
	build->kind = KindOf(index);
	build->row_context = AllocSetContextCreate(context, "fasted index row", ALLOCSET_DEFAULT_SIZES);
	read_sample(build);
	meta = EmptyMeta(index);
	build->state = build->dimensions == 0 ? MakeState(&meta, build->kind, context) :
		FitBasis(build->sample, Min(build->seen, build->most_sampled), build->dimensions, meta, build->kind);
	append_state(build);
	begin_sort(build);
	heap_rows = table_index_build_scan(heap, index, info, true, true, encode_row, build, NULL);
	write_rows(build);
	write_meta(build);
	if (RelationNeedsWAL(index))
		log_newpage_range(index, MAIN_FORKNUM, 0, RelationGetNumberOfBlocks(index), true);

	MemoryContextSwitchTo(old);
	result = palloc(sizeof(IndexBuildResult));
	*result = (IndexBuildResult) {.heap_tuples = heap_rows,.index_tuples = build->rows};
	MemoryContextDelete(context);
	return result;
}

void
IndexBuildEmpty(Relation index)
{
	IndexMeta	meta = EmptyMeta(index);
	Buffer		buffer = ReadBufferExtended(index, INIT_FORKNUM, P_NEW, RBM_NORMAL, NULL);
	Page		page = BufferGetPage(buffer);

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	START_CRIT_SECTION();
	InitIndexPage(page, META_PAGE, 0, 0);
	memcpy(PageGetContents(page), &meta, sizeof(IndexMeta));
	MarkBufferDirty(buffer);
	log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}
