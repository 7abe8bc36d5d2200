/*-------------------------------------------------------------------------
 *
 * check.c
 *	  fasted_index_check(): compares an index with its table.
 *
 * Each row of the table that the current snapshot sees must be in the index, once, with its hashes, and its
 * bound for its own vector, and that of its chunk's box, must not exceed its distance from it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "commands/defrem.h"
#include "index/access.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(fasted_index_check);

/* Where a row is in the index. */
typedef struct Entry
{
	ItemPointerData tid;
	uint32		chunk;
	uint16		row;
} Entry;

typedef struct Check
{
	Relation	index;
	const IndexedKind *kind;
	IndexState *state;			/* with a basis */
	Entry	   *entries;		/* sorted by TID */
	Size		count;
	Size		room;
	MemoryContext row_context;
	uint16		hash;			/* upper half of that of the current row's first further column */
	int64		rows;
} Check;

pg_noreturn static void
report_row(const Check *check, const ItemPointerData *tid, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" does not match its table", RelationGetRelationName(check->index)),
			 errdetail("Row (%u,%u) %s.", ItemPointerGetBlockNumberNoCheck(tid),
					   ItemPointerGetOffsetNumberNoCheck(tid), what),
			 errhint("Please REINDEX it.")));
}

/* --- the index */

static void
add_entries(Check *check, uint32 chunk)
{
	const IndexState *state = check->state;
	Buffer		buffer = ReadIndexPage(check->index, ChunkBlock(&state->layout, chunk), BUFFER_LOCK_SHARE,
									   HEAD_PAGE, chunk, 0);
	Page		page = BufferGetPage(buffer);

	for (uint32 r = 0; r < state->layout.chunk_rows; r++)
	{
		uint16		second = HeadSeconds(page, state)[r];

		if (second == ROW_FREE)
			continue;
		if (second > ROW_NULL || !ItemPointerIsValid(HeadTids(page, state) + r))
			ReportCorruption(check->index, BufferGetBlockNumber(buffer));
		if (check->count == check->room)
		{
			check->room = Max(2 * check->room, 1024);
			check->entries = check->entries == NULL ? palloc(check->room * sizeof(Entry)) :
				repalloc_huge(check->entries, check->room * sizeof(Entry));
		}
		check->entries[check->count++] = (Entry) {
			.tid = HeadTids(page, state)[r],.chunk = chunk,.row = r
		};
	}
	UnlockReleaseBuffer(buffer);
	CHECK_FOR_INTERRUPTS();
}

static int
compare_entries(const void *a, const void *b)
{
	CHECK_FOR_INTERRUPTS();
	return ItemPointerCompare((ItemPointer) &((const Entry *) a)->tid, (ItemPointer) &((const Entry *) b)->tid);
}

/* --- the table */

/*
 * Returns true if the box of an entry's chunk passes a query or, without one, all queries, and the hash of the entry is
 * in the range.
 */
static bool
box_passes(const Check *check, const Entry *entry, const VectorQuery *query)
{
	const IndexLayout *layout = &check->state->layout;
	const ChunkBox *box;
	Buffer		buffer;
	bool		passes;

	if (entry->chunk < layout->null_chunks)
		return true;
	buffer = ReadIndexPage(check->index, BoxBlock(layout, entry->chunk), BUFFER_LOCK_SHARE, BOX_PAGE,
						   SectionOf(layout, entry->chunk), 0);
	box = BoxOf(BufferGetPage(buffer), layout, entry->chunk);
	passes = (query == NULL ? box->most_scale == 0 : BoxBound(query, box) <= query->limit) &&
		box->least_hash <= check->hash && check->hash <= box->most_hash;
	UnlockReleaseBuffer(buffer);
	return passes;
}

/* Returns true if a row with codes passes a query. */
static bool
row_passes(const Check *check, const Entry *entry, const VectorQuery *query)
{
	const IndexState *state = check->state;
	const IndexLayout *layout = &state->layout;
	uint32		groups = layout->chunk_rows / GROUP_ROWS;
	float	   *bounds = palloc(layout->chunk_rows * sizeof(float));
	uint8	   *masks = palloc0(groups);
	GroupSums  *sums = palloc(groups * sizeof(GroupSums));

	for (uint32 r = 0; r < layout->chunk_rows; r++)
		bounds[r] = -INFINITY;
	masks[entry->row / GROUP_ROWS] = 1 << entry->row % GROUP_ROWS;
	for (uint32 l = 0; l < layout->levels; l++)
	{
		uint32		first = entry->row / layout->page_rows[l] * layout->page_rows[l];
		Buffer		buffer = ReadIndexPage(check->index, LevelBlock(layout, entry->chunk, l, first), BUFFER_LOCK_SHARE,
										   l == 0 ? HEAD_PAGE : LEVEL_PAGE, entry->chunk, l);

		LevelBounds(query, state, l, BufferGetPage(buffer), first, Min(layout->page_rows[l], layout->chunk_rows - first),
					masks, sums, bounds);
		UnlockReleaseBuffer(buffer);
	}
	return masks[entry->row / GROUP_ROWS] != 0 && box_passes(check, entry, query);
}

/* Checks the vector of an entry, which must pass a query of itself. */
static void
check_vector(const Check *check, const Entry *entry, Datum value, uint16 second)
{
	IndexRow   *row = palloc0(IndexRowBytes(check->state));
	VectorQuery query;
	int			dimensions;
	double		radius;
	double	   *elements = ElementsOf(check->kind, value, &dimensions, &radius);

	if ((uint32) dimensions != check->state->meta.dimensions || radius > check->state->meta.most_radius)
		report_row(check, &entry->tid, "has other dimensions, or a greater radius, than the index");
	EncodeRow(check->state, elements, row);
	if (row->state != 0 ? second != row->state : HAS_STATE(second))
		report_row(check, &entry->tid, "has another state in the index");
	if (row->state == 0)
	{
		PrepareQuery(&query, check->state, elements);
		SetLimit(&query, query.product ? -query.vector_norm * query.vector_norm : 0.0);
	}
	if (row->state == 0 ? !row_passes(check, entry, &query) : !box_passes(check, entry, NULL))
		report_row(check, &entry->tid, "has codes, or a box, of another vector");
}

/* Checks a row of the table. */
static void
check_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *arg)
{
	Check	   *check = arg;
	MemoryContext old = MemoryContextSwitchTo(check->row_context);
	Entry		key = {.tid = *tid};
	Entry	   *entry = bsearch(&key, check->entries, check->count, sizeof(Entry), compare_entries);
	const IndexState *state = check->state;
	uint32		hashes[INDEX_MAX_KEYS];
	Buffer		buffer;
	uint16		second;

	if (entry == NULL)
		report_row(check, tid, "is not in the index");
	/* the TID of a dead row may have been used again while entries were read, but not that of this one */
	if ((entry > check->entries && compare_entries(entry - 1, entry) == 0) ||
		(entry + 1 < check->entries + check->count && compare_entries(entry, entry + 1) == 0))
		report_row(check, tid, "is in the index twice");
	SetHashes(index, values, isnull, hashes);
	check->hash = state->meta.columns > 0 ? hashes[0] >> 16 : 0;
	buffer = ReadIndexPage(index, ChunkBlock(&state->layout, entry->chunk), BUFFER_LOCK_SHARE, HEAD_PAGE,
						   entry->chunk, 0);
	second = HeadSeconds(BufferGetPage(buffer), state)[entry->row];
	for (uint32 c = 0; c < state->meta.columns; c++)
	{
		if (HeadHashes(BufferGetPage(buffer), &state->layout, c)[entry->row] != hashes[c])
			report_row(check, tid, "has another value in a further column");
	}
	UnlockReleaseBuffer(buffer);
	if (isnull[0] != (second == ROW_NULL))
		report_row(check, tid, "has a vector on one side only");
	if (!isnull[0])
		check_vector(check, entry, values[0], second);
	else if (!box_passes(check, entry, NULL))
		report_row(check, tid, "has codes, or a box, of another vector");
	check->rows++;
	MemoryContextSwitchTo(old);
	MemoryContextReset(check->row_context);
}

/* Checks an index that is open. */
static int64
check_index(Relation heap, Relation index)
{
	Check		check = {.index = index,.kind = KindOf(index)};
	Snapshot	snapshot = RegisterSnapshot(GetTransactionSnapshot());
	IndexInfo  *info = BuildIndexInfo(index);
	IndexMeta	meta;

	/* as for plans of queries: the index may lack versions of rows that older snapshots see */
	if (IsolationUsesXactSnapshot() && index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" is newer than the snapshot of the transaction", RelationGetRelationName(index)),
				 errhint("Try it in another transaction.")));
	(void) ReadState(index, &meta);
	check.state = MakeState(&meta, check.kind, CurrentMemoryContext);
	ReadBasis(index, check.state);
	check.row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted index check",
											  ALLOCSET_DEFAULT_SIZES);
	for (uint32 chunk = 0; chunk < meta.chunks; chunk++)
		add_entries(&check, chunk);
	qsort(check.entries, check.count, sizeof(Entry), compare_entries);
	info->ii_Concurrent = true; /* the snapshot decides which rows there are */
	info->ii_Unique = false;
	info->ii_ExclusionOps = NULL;
	(void) table_index_build_scan(heap, index, info, true, false, check_row, &check,
								  table_beginscan_strat(heap, snapshot, 0, NULL, true, true));
	UnregisterSnapshot(snapshot);
	return check.rows;
}

/*
 * fasted_index_check(index regclass) returns the number of rows.  Errors: the index is damaged; it is not
 * one of this access method.
 */
Datum
fasted_index_check(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	Oid			heapid = IndexGetRelation(indexid, true);
	Relation	heap = OidIsValid(heapid) ? table_open(heapid, AccessShareLock) : NULL;
	Relation	index;
	Oid			user;
	int			security;
	int			nest_level;
	int64		rows;

	if (heap == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not an index",
						DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(indexid))))));
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(heap->rd_rel->relowner, security | SECURITY_RESTRICTED_OPERATION);
	nest_level = NewGUCNestLevel();
	RestrictSearchPath();		/* functions of expressions: none of another user, by its name */
	index = index_open(indexid, AccessShareLock);
	if (index->rd_rel->relkind != RELKIND_INDEX || index->rd_rel->relam != get_index_am_oid("fasted", true))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not an index of access method fasted", RelationGetRelationName(index))));
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index))));
	rows = check_index(heap, index);
	AtEOXact_GUC(false, nest_level);
	SetUserIdAndSecContext(user, security);
	index_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_INT64(rows);
}
