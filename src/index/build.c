/*-------------------------------------------------------------------------
 *
 * build.c
 *	  Builds an index: computes the basis from a sample, encodes all rows, sorts them so that similar
 *	  ones are neighbours, and writes them to chunks.
 *
 * In a parallel build, workers and the leader read, encode and sort the rows.  The leader has written the
 * metapage and the basis before, and merges the sorted rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/index.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "index/access.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/sampling.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#define MOST_SAMPLED_BLOCKS 10000

/* The memory of a batch is freed at the latest after that many rows, also if they have no vectors. */
#define MOST_NULLS 4096

/* Of one participant, or of all. */
typedef struct BuildCounts
{
	double		heap_rows;
	double		rows;
	double		most_radius;
	bool		broken_chain;	/* the scan found a HOT chain that the index must not be used for */
	BufferUsage buffers;
	WalUsage	wal;
} BuildCounts;

typedef struct Build
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	const IndexedKind *kind;
	MemoryContext row_context;	/* reset for each row of the sample, and for each batch */

	/* The sample: a reservoir. */
	double	   *sample;
	uint32		most_sampled;
	uint64		seen;
	uint32		dimensions;		/* 0 before the first vector */

	/* Encoded rows. */
	IndexState *state;			/* NULL while rows are sampled */
	Projector  *projector;
	IndexRow   *batch[PROJECTED_ROWS];
	double	   *vectors[PROJECTED_ROWS];
	uint32		batched;
	Tuplesortstate *sort;
	TupleTableSlot *slot;
	BuildCounts counts;

	/* The chunk that is being filled. */
	char	   *pages;
	uint32		filled;			/* rows */
	int64		key;			/* of the last one */
	uint32		open_chunk;		/* number plus 1 of the chunk with free places */
	ChunkBox	box;
	BlockNumber logged;			/* pages from the second one to this one are in WAL */
} Build;

/* What the participants of a parallel build share. */
typedef struct SharedBuild
{
	Oid			heap;
	Oid			index;
	bool		concurrent;
	int			participants;
	BuildCounts counts[FLEXIBLE_ARRAY_MEMBER];	/* of the workers */
} SharedBuild;

typedef struct ParallelBuild
{
	SharedBuild *shared;
	ParallelTableScanDesc scan;
	Sharedsort *sort;

	/* In the leader. */
	ParallelContext *context;
	Snapshot	snapshot;
} ParallelBuild;

/* Keys in the shared memory. */
#define SHARED_BUILD 1
#define SHARED_SCAN 2
#define SHARED_SORT 3
#define SHARED_QUERY 4

static MemoryContext
row_context(void)
{
	return AllocSetContextCreate(CurrentMemoryContext, "fasted index row", ALLOCSET_DEFAULT_SIZES);
}

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

static void
put_row(Build *build, IndexRow *row)
{
	ExecClearTuple(build->slot);
	build->slot->tts_values[0] = Int64GetDatum(RowKey(build->state, row));
	build->slot->tts_values[1] = PointerGetDatum(row);
	build->slot->tts_isnull[0] = build->slot->tts_isnull[1] = false;
	ExecStoreVirtualTuple(build->slot);
	tuplesort_puttupleslot(build->sort, build->slot);
	build->counts.rows++;
}

/* Encodes the rows of the batch. */
static void
encode_batch(Build *build)
{
	double		norms[PROJECTED_ROWS];

	if (build->batched > 0)
		ProjectRows(build->projector, build->vectors, build->batched, norms);
	for (uint32 r = 0; r < build->batched; r++)
	{
		EncodeCoordinates(build->state, build->vectors[r], norms[r], build->batch[r]);
		put_row(build, build->batch[r]);
	}
	build->batched = 0;
	MemoryContextReset(build->row_context);
}

static void
encode_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *arg)
{
	Build	   *build = arg;
	MemoryContext old;
	IndexRow   *row = build->batch[build->batched];

	/* The first vector came after the sample was read: PostgreSQL inserts rows that a concurrent build omits. */
	if (!isnull[0] && build->dimensions == 0 && build->info->ii_Concurrent)
		return;
	old = MemoryContextSwitchTo(build->row_context);
	row->tid = *tid;
	SetHashes(index, values, isnull, RowHashes(row));
	if (isnull[0])
	{
		row->state = ROW_NULL;
		put_row(build, row);
		if ((int64) build->counts.rows % MOST_NULLS == 0)
			encode_batch(build);	/* frees memory of hash functions */
	}
	else
	{
		int			dimensions;
		double		radius;

		build->vectors[build->batched] = ElementsOf(build->kind, values[0], &dimensions, &radius);
		if ((uint32) dimensions != build->dimensions)
			ReportIndexDimensions(index, dimensions, build->dimensions);
		build->counts.most_radius = Max(build->counts.most_radius, radius);
		if (++build->batched == PROJECTED_ROWS)
			encode_batch(build);
	}
	MemoryContextSwitchTo(old);
}

/* Begins a sort, of a participant or of all rows, within some kilobytes. */
static void
begin_sort(Build *build, SortCoordinate coordinate, int kilobytes)
{
	TupleDesc	columns = CreateTemplateTupleDesc(2);
	AttrNumber	key = 1;
	Oid			operator = Int8LessOperator;
	Oid			collation = InvalidOid;
	bool		nulls_first = false;

	TupleDescInitEntry(columns, 1, "key", INT8OID, -1, 0);
	TupleDescInitEntry(columns, 2, "row", OIDVECTOROID, -1, 0);	/* stored plain: no short headers */
	build->sort = tuplesort_begin_heap(columns, 1, &key, &operator, &collation, &nulls_first, kilobytes,
									   coordinate, TUPLESORT_NONE);
	build->slot = MakeSingleTupleTableSlot(columns, &TTSOpsVirtual);
}

/* Encodes the rows of a scan, or of the whole table, and sorts them. */
static void
sort_rows(Build *build, TableScanDesc scan, bool progress)
{
	Size		bytes = IndexRowBytes(build->state);

	build->projector = MakeProjector(build->state);
	for (int r = 0; r < PROJECTED_ROWS; r++)
	{
		build->batch[r] = palloc0(bytes);
		SET_VARSIZE(build->batch[r], bytes);
	}
	build->counts.heap_rows = table_index_build_scan(build->heap, build->index, build->info, true, progress,
													 encode_row, build, scan);
	encode_batch(build);
	build->counts.broken_chain = build->info->ii_BrokenHotChain;
	tuplesort_performsort(build->sort);
}

static void
end_sort(Build *build)
{
	ExecDropSingleTupleTableSlot(build->slot);
	tuplesort_end(build->sort);
}

/* --- pages */

/* Writes WAL of the pages that have been appended since the last call; the metapage is not final yet. */
static void
write_wal(Build *build)
{
	BlockNumber end = RelationGetNumberOfBlocks(build->index);

	if (RelationNeedsWAL(build->index))
		log_newpage_range(build->index, MAIN_FORKNUM, build->logged, end, true);
	build->logged = end;
}

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

/* Writes the chunk that has been filled, if it has rows, and its box.  Complete sections are written to WAL. */
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

		write_wal(build);
		InitIndexPage(page, BOX_PAGE, chunk, 0);
		append_pages(build, page, 1);
		pfree(page);
	}
	if (build->filled < layout->chunk_rows)
	{
		build->open_chunk = chunk + 1;
		OpaqueOf(build->pages)->next = LIST_END;
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

	build->key = RowKey(state, row);
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
	while (tuplesort_gettupleslot(build->sort, true, false, slot, NULL))
	{
		bool		isnull;

		add_to_chunk(build, (IndexRow *) DatumGetPointer(slot_getattr(slot, 2, &isnull)));
		CHECK_FOR_INTERRUPTS();
	}
	append_chunk(build);
	ExecDropSingleTupleTableSlot(slot);
	end_sort(build);
}

/* Updates the metapage, and completes WAL. */
static void
write_meta(Build *build)
{
	IndexMeta  *meta = &build->state->meta;
	Buffer		buffer = ReadIndexPage(build->index, META_BLOCK, BUFFER_LOCK_EXCLUSIVE, META_PAGE, 0, 0);

	meta->most_radius = build->counts.most_radius;
	meta->built_chunks = meta->chunks;
	meta->list_bits = ListBits(meta->chunks);
	memcpy(PageGetContents(BufferGetPage(buffer)), meta, sizeof(IndexMeta));
	ChunkLists((IndexMeta *) PageGetContents(BufferGetPage(buffer)))[ListOf(meta, build->key)] = build->open_chunk;
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);
	write_wal(build);
	if (RelationNeedsWAL(build->index))
		log_newpage_range(build->index, MAIN_FORKNUM, META_BLOCK, META_BLOCK + 1, true);
}

/* --- parallel builds */

/* Encodes and sorts this participant's part of the rows. */
static void
participate(Build *build, const ParallelBuild *parallel, bool progress)
{
	SortCoordinateData coordinate = {.isWorker = true,.nParticipants = -1,.sharedsort = parallel->sort};

	begin_sort(build, &coordinate, maintenance_work_mem / parallel->shared->participants);
	sort_rows(build, table_beginscan_parallel(build->heap, parallel->scan), progress);
	end_sort(build);
}

/* The main function of a worker. */
void
fasted_index_build(dsm_segment *segment, shm_toc *toc)
{
	ParallelBuild parallel = {
		.shared = shm_toc_lookup(toc, SHARED_BUILD, false),
		.scan = shm_toc_lookup(toc, SHARED_SCAN, false),
		.sort = shm_toc_lookup(toc, SHARED_SORT, false)
	};
	bool		concurrent = parallel.shared->concurrent;
	BuildCounts *counts = &parallel.shared->counts[ParallelWorkerNumber];
	LOCKMODE	heap_lock = concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Build		build = {.row_context = row_context()};
	IndexMeta	meta;

	debug_query_string = shm_toc_lookup(toc, SHARED_QUERY, false);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	InstrStartParallelQuery();
	build.heap = table_open(parallel.shared->heap, heap_lock);
	build.index = index_open(parallel.shared->index, index_lock);
	build.info = BuildIndexInfo(build.index);
	build.info->ii_Concurrent = concurrent;
	build.kind = KindOf(build.index);
	(void) ReadState(build.index, &meta);
	build.dimensions = meta.dimensions;
	build.state = MakeState(&meta, build.kind, CurrentMemoryContext);
	ReadBasis(build.index, build.state);
	tuplesort_attach_shared(parallel.sort, segment);
	participate(&build, &parallel, false);
	*counts = build.counts;
	InstrEndParallelQuery(&counts->buffers, &counts->wal);
	index_close(build.index, index_lock);
	table_close(build.heap, heap_lock);
}

/* Allocates shared memory for the workers. */
static void *
add_shared(ParallelContext *context, uint64 key, Size bytes)
{
	void	   *memory = shm_toc_allocate(context->toc, bytes);

	memset(memory, 0, bytes);
	shm_toc_insert(context->toc, key, memory);
	return memory;
}

/* Starts workers.  Returns false if there are none. */
static bool
start_workers(const Build *build, ParallelBuild *parallel, int workers)
{
	const char *query = debug_query_string == NULL ? "" : debug_query_string;
	Size		shared_bytes = offsetof(SharedBuild, counts) + workers * sizeof(BuildCounts);
	Size		scan_bytes = table_parallelscan_estimate(build->heap, parallel->snapshot);
	Size		sort_bytes = tuplesort_estimate_shared(workers + 1);
	ParallelContext *context = parallel->context;

	shm_toc_estimate_chunk(&context->estimator, shared_bytes);
	shm_toc_estimate_chunk(&context->estimator, scan_bytes);
	shm_toc_estimate_chunk(&context->estimator, sort_bytes);
	shm_toc_estimate_chunk(&context->estimator, strlen(query) + 1);
	shm_toc_estimate_keys(&context->estimator, 4);
	InitializeParallelDSM(context);
	if (context->seg == NULL)
		return false;
	parallel->shared = add_shared(context, SHARED_BUILD, shared_bytes);
	parallel->shared->heap = RelationGetRelid(build->heap);
	parallel->shared->index = RelationGetRelid(build->index);
	parallel->shared->concurrent = build->info->ii_Concurrent;
	parallel->shared->participants = workers + 1;
	parallel->scan = add_shared(context, SHARED_SCAN, scan_bytes);
	table_parallelscan_initialize(build->heap, parallel->scan, parallel->snapshot);
	parallel->sort = add_shared(context, SHARED_SORT, sort_bytes);
	tuplesort_initialize_shared(parallel->sort, workers + 1, context->seg);
	strcpy(add_shared(context, SHARED_QUERY, strlen(query) + 1), query);
	LaunchParallelWorkers(context);
	return context->nworkers_launched > 0;
}

/* Waits for the workers, adds up their counts, and merges what all participants have sorted. */
static void
merge_rows(Build *build, const ParallelBuild *parallel)
{
	int			workers = parallel->context->nworkers_launched;
	SortCoordinateData coordinate = {.nParticipants = workers + 1,.sharedsort = parallel->sort};

	WaitForParallelWorkersToFinish(parallel->context);
	for (int w = 0; w < workers; w++)
	{
		BuildCounts *counts = &parallel->shared->counts[w];

		build->counts.heap_rows += counts->heap_rows;
		build->counts.rows += counts->rows;
		build->counts.most_radius = Max(build->counts.most_radius, counts->most_radius);
		build->info->ii_BrokenHotChain |= counts->broken_chain;
		InstrAccumParallelQuery(&counts->buffers, &counts->wal);
	}
	begin_sort(build, &coordinate, maintenance_work_mem);
	tuplesort_performsort(build->sort);
}

/* Writes all rows with the help of workers.  Returns false if none has started. */
static bool
build_parallel(Build *build, int workers)
{
	bool		concurrent = build->info->ii_Concurrent;
	ParallelBuild parallel = {0};
	bool		started;

	EnterParallelMode();
	parallel.context = CreateParallelContext("$libdir/fasted", "fasted_index_build", workers);
	parallel.snapshot = concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;
	started = start_workers(build, &parallel, workers);
	if (started)
	{
		participate(build, &parallel, true);
		merge_rows(build, &parallel);
		write_rows(build);
	}
	if (concurrent)
		UnregisterSnapshot(parallel.snapshot);
	DestroyParallelContext(parallel.context);
	ExitParallelMode();
	return started;
}

/* --- the build */

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
	int			workers;
	double	   *pairs;
	uint32		npairs;

	check_columns(index);
	build->heap = heap;
	build->index = index;
	build->info = info;
	build->kind = KindOf(index);
	build->row_context = row_context();
	read_sample(build);
	meta = EmptyMeta(index);
	pairs = SamplePairs(build->sample, Min(build->seen, build->most_sampled), build->dimensions, &npairs);
	build->state = build->dimensions == 0 ? MakeState(&meta, build->kind, context) :
		FitBasis(build->sample, Min(build->seen, build->most_sampled), build->dimensions, meta, build->kind);
	append_state(build);
	build->logged = META_BLOCK + 1;
	workers = build->dimensions == 0 ? 0 : FASTED_INDEX_WORKERS(heap, index, info);
	if (workers == 0 || !build_parallel(build, workers))
	{
		begin_sort(build, NULL, maintenance_work_mem);
		sort_rows(build, NULL, true);
		write_rows(build);
	}
	MeasureBounds(index, build->state, pairs, npairs);
	write_meta(build);

	MemoryContextSwitchTo(old);
	result = palloc(sizeof(IndexBuildResult));
	*result = (IndexBuildResult) {.heap_tuples = build->counts.heap_rows,.index_tuples = build->counts.rows};
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
