/*-------------------------------------------------------------------------
 *
 * row_batch.c
 *	  Reads rows of a plan in batches, so that their out-of-line vectors are fetched together.
 *
 * Values that were written together have ascending identifiers, and their chunks are adjacent in
 * the index of the TOAST table.  The scan therefore walks from one value to the next, over the few
 * chunks of other values between them, and descends the index again only after a long gap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "base/compat.h"
#include "catalog/pg_am.h"
#include "catalog/toasting.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "rows/row_batch.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Bounds of a batch: its rows, and the bytes of rows and fetched values.  A batch has at least one
 * row, however long.
 */
#define BATCH_ROWS 64
#define BATCH_BYTES (256 * 1024)

/* Chunks of other values that the scan passes over before it descends the index again. */
#define MAX_PASSED_CHUNKS 40

/* Bytes of each chunk but the last one of a value. */
#define CHUNK_BYTES ((int64) TOAST_MAX_CHUNK_SIZE)

/* Columns of a TOAST table. */
#define CHUNK_ID 1
#define CHUNK_SEQ 2
#define CHUNK_DATA 3

/* A vector to be fetched. */
typedef struct OutOfLine
{
	Oid			relid;			/* of the TOAST table */
	Oid			id;
	int			row;			/* of the batch */
	int32		bytes;			/* without the header */
	int32		next_chunk;		/* number of the chunk that is expected; -1: the value is damaged */
	bool		compressed;
	struct varlena *copy;		/* in the buffer */
} OutOfLine;

struct RowBatch
{
	int			column;
	MemoryContext context;		/* of the rows; reset for each batch */
	char	   *buffer;			/* of the fetched vectors */
	Size		buffer_bytes;
	Size		vector_bytes;	/* of the vectors that are out of line, aligned */
	Size		row_bytes;
	TupleTableSlot *slot;		/* of the row that was returned last */
	int			nrows;
	int			nvalues;
	int			next;			/* the next row to be returned; at 0 the vectors have not been fetched */
	bool		ended;			/* the plan has no more rows */
	MinimalTuple rows[BATCH_ROWS];
	struct varlena *fetched[BATCH_ROWS];	/* by row; NULL: the vector is that of the row */
	OutOfLine	values[BATCH_ROWS];
};

/* --- fetching values */

/* Returns the bytes of a copy with its header, aligned. */
static Size
CopyBytes(const OutOfLine *value)
{
	return MAXALIGN(value->bytes + VARHDRSZ);
}

static int
CompareValues(const void *a, const void *b)
{
	const OutOfLine *x = a;
	const OutOfLine *y = b;

	return x->relid != y->relid ? (x->relid < y->relid ? -1 : 1) :
		x->id != y->id ? (x->id < y->id ? -1 : 1) : 0;
}

/* Copies the chunk in the slot to its place in the value, which is damaged if the chunk does not fit. */
static void
CopyChunk(OutOfLine *value, TupleTableSlot *slot)
{
	bool		isnull[2];
	int32		number = DatumGetInt32(slot_getattr(slot, CHUNK_SEQ, &isnull[0]));
	Datum		data = slot_getattr(slot, CHUNK_DATA, &isnull[1]);
	struct varlena *chunk = (struct varlena *) DatumGetPointer(data);
	int64		begin = number * CHUNK_BYTES;

	if (isnull[0] || isnull[1] || value->next_chunk < 0 || number != value->next_chunk ||
		begin >= value->bytes || VARATT_IS_EXTERNAL(chunk) || VARATT_IS_COMPRESSED(chunk) ||
		(int64) VARSIZE_ANY_EXHDR(chunk) != Min(value->bytes - begin, CHUNK_BYTES))
	{
		value->next_chunk = -1;
		return;
	}
	memcpy(VARDATA(value->copy) + begin, VARDATA_ANY(chunk), VARSIZE_ANY_EXHDR(chunk));
	value->next_chunk++;
}

/* Copies the chunks of values of one TOAST table, which are in ascending order. */
static void
CopyChunks(OutOfLine *values, int n, IndexScanDesc scan, TupleTableSlot *slot)
{
	int			passed = MAX_PASSED_CHUNKS;	/* descend to the first value */

	for (int i = 0; i < n;)
	{
		bool		isnull;
		Oid			id;

		if (passed == MAX_PASSED_CHUNKS)
		{
			ScanKeyData key;

			CHECK_FOR_INTERRUPTS();
			ScanKeyInit(&key, CHUNK_ID, BTGreaterEqualStrategyNumber, F_OIDGE, ObjectIdGetDatum(values[i].id));
			index_rescan(scan, &key, 1, NULL, 0);
			passed = 0;
		}
		if (!index_getnext_slot(scan, ForwardScanDirection, slot))
			break;
		id = DatumGetObjectId(slot_getattr(slot, CHUNK_ID, &isnull));
		while (i < n && values[i].id < id)
			i++;
		if (i < n && values[i].id == id)
		{
			CopyChunk(&values[i], slot);
			passed = 0;
		}
		else
			passed++;
	}
}

/* Returns the snapshot of a TOAST table, for which storage may be used. */
static Snapshot
ToastSnapshot(SnapshotData *storage)
{
#if PG_VERSION_NUM >= 180000
	return get_toast_snapshot();
#else
	init_toast_snapshot(storage);
	return storage;
#endif
}

/* Fetches values of one TOAST table, which are in ascending order. */
static void
FetchFromTable(OutOfLine *values, int n)
{
	Relation	toast = table_open(values[0].relid, AccessShareLock);
	Relation   *indexes;
	int			nindexes;

	if (toast->rd_rel->relam == HEAP_TABLE_AM_OID)
	{
		int			valid = toast_open_indexes(toast, AccessShareLock, &indexes, &nindexes);
		TupleTableSlot *slot = table_slot_create(toast, NULL);
		SnapshotData storage;
		IndexScanDesc scan = FASTED_INDEX_BEGINSCAN(toast, indexes[valid], ToastSnapshot(&storage), 1);

		CopyChunks(values, n, scan, slot);
		index_endscan(scan);
		ExecDropSingleTupleTableSlot(slot);
		toast_close_indexes(indexes, nindexes, AccessShareLock);
	}
	table_close(toast, AccessShareLock);
}

/*
 * Fetches the vectors of the batch to the buffer, where they may still be compressed.  A vector that is
 * damaged, or that another kind of TOAST table has, is left to PostgreSQL's own detoasting, which
 * fetches it or raises its error.
 */
static void
FetchVectors(RowBatch *batch)
{
	OutOfLine  *values = batch->values;
	char	   *place;

	if (batch->vector_bytes > batch->buffer_bytes)
	{
		if (batch->buffer != NULL)
			pfree(batch->buffer);
		batch->buffer_bytes = Max(batch->vector_bytes, BATCH_BYTES);
		batch->buffer = MemoryContextAllocHuge(GetMemoryChunkContext(batch), batch->buffer_bytes);
	}
	place = batch->buffer;
	for (int i = 0; i < batch->nvalues; place += CopyBytes(&values[i++]))
	{
		values[i].copy = (struct varlena *) place;
		if (values[i].compressed)
			SET_VARSIZE_COMPRESSED(place, values[i].bytes + VARHDRSZ);
		else
			SET_VARSIZE(place, values[i].bytes + VARHDRSZ);
	}
	qsort(values, batch->nvalues, sizeof(OutOfLine), CompareValues);
	for (int begin = 0, end; begin < batch->nvalues; begin = end)
	{
		for (end = begin; end < batch->nvalues && values[end].relid == values[begin].relid; end++)
			;
		FetchFromTable(values + begin, end - begin);
	}
	for (int i = 0; i < batch->nvalues; i++)
	{
		const OutOfLine *value = &values[i];

		if (i > 0 && CompareValues(value - 1, value) == 0)
			batch->fetched[value->row] = batch->fetched[value[-1].row]; /* several rows have the same value */
		else if (value->next_chunk > 0 && value->next_chunk * CHUNK_BYTES >= value->bytes)
			batch->fetched[value->row] = value->copy;
	}
}

/* --- batches of rows */

RowBatch *
RowBatchCreate(TupleDesc columns, int column)
{
	RowBatch   *batch = palloc0(sizeof(RowBatch));

	batch->column = column;
	batch->context = AllocSetContextCreate(CurrentMemoryContext, "fasted batch", ALLOCSET_DEFAULT_SIZES);
	batch->slot = MakeSingleTupleTableSlot(columns, &TTSOpsMinimalTuple);
	return batch;
}

RowBatch *
RowBatchFor(Node *vector, TupleDesc columns, int first)
{
	List	   *vars = pull_var_clause(vector, 0);
	int			column = list_length(vars) == 1 ? linitial_node(Var, vars)->varattno - first - 1 : -1;

	return column < 0 || TupleDescAttr(columns, column)->attlen != -1 ? NULL : RowBatchCreate(columns, column);
}

bool
RowBatchIsFull(const RowBatch *batch)
{
	return batch->nrows == BATCH_ROWS || batch->row_bytes + batch->vector_bytes >= BATCH_BYTES;
}

/* Returns true if the slot's vector is out of line, and sets *value to it. */
static bool
FindOutOfLine(const RowBatch *batch, TupleTableSlot *slot, OutOfLine *value)
{
	bool		isnull;
	Datum		vector = slot_getattr(slot, batch->column + 1, &isnull);
	struct varatt_external pointer;

	if (isnull || !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(vector)))
		return false;
	VARATT_EXTERNAL_GET_POINTER(pointer, (struct varlena *) DatumGetPointer(vector));
	*value = (OutOfLine) {
		.relid = pointer.va_toastrelid,.id = pointer.va_valueid,.row = batch->nrows,
		.bytes = VARATT_EXTERNAL_GET_EXTSIZE(pointer),
		.compressed = VARATT_EXTERNAL_IS_COMPRESSED(pointer)
	};
	return true;
}

bool
RowBatchAdd(RowBatch *batch, TupleTableSlot *slot)
{
	OutOfLine  *value = &batch->values[batch->nvalues];
	bool		out_of_line = FindOutOfLine(batch, slot, value);
	MemoryContext old;

	if (batch->nrows == 0)
	{
		if (!out_of_line)
			return false;
		ExecClearTuple(batch->slot);
		MemoryContextReset(batch->context);
	}
	if (out_of_line)
	{
		batch->vector_bytes += CopyBytes(value);
		batch->nvalues++;
	}
	old = MemoryContextSwitchTo(batch->context);
	batch->fetched[batch->nrows] = NULL;
	batch->rows[batch->nrows] = ExecCopySlotMinimalTuple(slot);
	batch->row_bytes += batch->rows[batch->nrows++]->t_len;
	MemoryContextSwitchTo(old);
	return true;
}

void
RowBatchReset(RowBatch *batch)
{
	batch->next = batch->nrows = batch->nvalues = 0;
	batch->vector_bytes = batch->row_bytes = 0;
	batch->ended = false;
}

TupleTableSlot *
RowBatchNext(RowBatch *batch)
{
	if (batch->next == batch->nrows)
	{
		bool		ended = batch->ended;

		RowBatchReset(batch);
		batch->ended = ended;
		return NULL;
	}
	if (batch->next == 0)
		FetchVectors(batch);
	ExecStoreMinimalTuple(batch->rows[batch->next], batch->slot, false);
	slot_getallattrs(batch->slot);
	if (batch->fetched[batch->next] != NULL)
		batch->slot->tts_values[batch->column] = PointerGetDatum(batch->fetched[batch->next]);
	batch->next++;
	return batch->slot;
}

TupleTableSlot *
ReadPlanInBatches(RowBatch *batch, PlanState *plan)
{
	TupleTableSlot *slot = RowBatchNext(batch);

	if (slot != NULL)
		return slot;
	while (!batch->ended && !RowBatchIsFull(batch))
	{
		slot = ExecProcNode(plan);
		batch->ended = TupIsNull(slot);
		if (!batch->ended && !RowBatchAdd(batch, slot))
			return slot;
	}
	return RowBatchNext(batch);
}
