/*-------------------------------------------------------------------------
 *
 * row_taker.c
 *	  A DestReceiver that checks and converts rows and names the bad ones.
 *
 * Each vector is converted straight from the tuple into the sink's room,
 * which for a join is the engine's.  Rows that come from parallel workers are
 * converted already and need only be copied, by the engine itself if it can; a row
 * that a worker could not use comes as a tuple instead, so that all errors are
 * raised here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "engine/engine.h"
#include "rows/row_taker.h"
#include "rows/vector.h"
#include "rows/vector_bytes.h"
#include "utils/memutils.h"

/* Rows between two looks for interrupts beside those of the executor. */
#define ROWS_PER_CHECK 64

static void
ReportNullKey(const RowTaker *taker)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("key column \"%s\" of \"%s\" is null",
					taker->source->key_column, taker->source->relation),
			 errdetail("There is a row with a vector but no id."),
			 errhint("Name a column without nulls with %s => '...', or leave such rows out by a view.",
					 taker->source->id_argument)));
}

static void
ReportDimensions(const RowTaker *taker, int dimensions, const char *row_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("vectors have different numbers of dimensions"),
			 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %d in the row with %s, and %d in the row with %s.",
					   taker->source->vector_column, taker->source->relation,
					   taker->dimensions, taker->first_row_name,
					   dimensions, row_name),
			 errhint("Join vectors of one kind; a view can select them.")));
}

static void
RequireDimensions(const RowTaker *taker, int dimensions, Datum key)
{
	if (unlikely((uint32) dimensions > FASTED_MAX_DIMENSIONS))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has %d dimensions", dimensions),
				 errdetail("Row with %s, column \"%s\" of \"%s\".",
						   KeyName(taker->source, key),
						   taker->source->vector_column, taker->source->relation),
				 errhint("At most %u dimensions are supported.", FASTED_MAX_DIMENSIONS)));
}

static void
SetDimensions(RowTaker *taker, int dimensions, Datum key)
{
	RequireDimensions(taker, dimensions, key);
	taker->dimensions = dimensions;
	taker->first_row_name = MemoryContextStrdup(GetMemoryChunkContext(taker),
												KeyName(taker->source, key));
	taker->sink->set_dimensions(taker->sink, dimensions, taker->first_row_name);
	if (taker->ring != NULL)
		IntakeAgreeOnDimensions(taker->ring, dimensions);
}

static inline void
CheckDimensions(RowTaker *taker, int dimensions, Datum key)
{
	if (taker->source->group_column != NULL)
	{
		RequireDimensions(taker, dimensions, key);
		taker->sink->begin_row(taker->sink, taker->partition, dimensions, key);
		return;
	}
	if (unlikely(taker->dimensions == 0))
		SetDimensions(taker, dimensions, key);
	if (unlikely(dimensions != taker->dimensions))
		ReportDimensions(taker, dimensions, KeyName(taker->source, key));
}

static bool
StopTaking(RowTaker *taker)
{
	taker->stopped = true;
	if (taker->ring != NULL)
		IntakeStop(taker->ring);
	return false;
}

/* Leaves garbage in the current memory context. */
static bool
TakeRow(RowTaker *taker, Datum key, bool key_isnull, Datum vector)
{
	ArrayType  *array;
	VectorProblem problem;
	int			dimensions;
	RowKind		kind = RowKindOf(taker->source);
	int			element = 0;
	float	   *row;

	if (taker->tuples++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	if (key_isnull)
		ReportNullKey(taker);

	array = taker->from_bytes ? ArrayFromBytes(vector, taker->source) : DatumGetArrayTypeP(vector);
	problem = VectorShape(array, &dimensions);
	if (problem == VECTOR_OK)
	{
		CheckDimensions(taker, dimensions, key);
		/* before there is room for it, which may be another row's place */
		if (taker->source->skip_zeros &&
			VectorIsZero(array, &kind, dimensions))
			return true;
		if (taker->sink->room_for_rows(taker->sink, &row) == 0)
			return StopTaking(taker);
		problem = VectorElements(array, &kind, dimensions, row, &element);
	}
	if (problem != VECTOR_OK)
		ReportVectorProblem(problem, array, element, taker->source,
							KeyName(taker->source, key));
	taker->sink->take_rows(taker->sink, &key, 1);
	return true;
}

/* Gives the first of these rows to the sink, which may read them until it settles; zero: it stops. */
static size_t
GiveRows(RowSink *sink, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	float	   *room;
	size_t		n = 0;

	if (sink->take_block != NULL)
		n = sink->take_block(sink, (const float *) rows, keys, nrows);
	if (n > 0)
		return n;
	n = Min(sink->room_for_rows(sink, &room), nrows);
	if (n == 0)
		return 0;
	memcpy(room, rows, n * row_bytes);
	sink->take_rows(sink, keys, n);
	return n;
}

/* Gives all of these rows to the sink; false: it takes no more rows. */
static bool
GiveAllRows(RowTaker *taker, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	while (nrows > 0)
	{
		size_t		n = GiveRows(taker->sink, rows, keys, nrows, row_bytes);

		if (n == 0)
			return StopTaking(taker);
		taker->ring_rows += n;
		rows += n * row_bytes;
		keys += n;
		nrows -= n;
	}
	return true;
}

/* The same, but for zero vectors. */
static void
GiveOtherRows(RowTaker *taker, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	size_t		begin = 0;

	for (size_t i = 0; i <= nrows; i++)
	{
		if (i < nrows && !RowIsZero((const float *) (rows + i * row_bytes), taker->source->element,
									taker->dimensions))
			continue;
		if (!GiveAllRows(taker, rows + begin * row_bytes, keys + begin, i - begin, row_bytes))
			return;
		begin = i + 1;
	}
}

/* Takes the rows of one block, which is the leader's. */
static void
TakeBlock(RowTaker *taker, const IntakeLayout *layout, uint32 number)
{
	const char *rows = IntakeBlockData(taker->ring, number);
	const Datum *keys = IntakeKeys(taker->ring, layout, number);
	const IntakeBlock *block = &taker->ring->blocks[number];

	if (block->nrows == 0)
		return;
	CheckDimensions(taker, layout->dimensions, keys[0]);
	if (taker->source->skip_zeros && block->has_zeros)
		GiveOtherRows(taker, rows, keys, block->nrows, layout->row_bytes);
	else
		GiveAllRows(taker, rows, keys, block->nrows, layout->row_bytes);
}

static void
FreeTaken(RowTaker *taker)
{
	for (int i = 0; i < taker->ntaken; i++)
		IntakeFree(taker->ring, taker->taken[i]);
	taker->ntaken = 0;
}

/* Blocks go back to the workers once nothing reads them any more: when later ones are taken. */
static void
NoteTaken(RowTaker *taker, const uint32 *blocks, int nblocks)
{
	if (nblocks == 0)
		return;
	if (taker->sink->settle != NULL)
		taker->sink->settle(taker->sink, false);
	FreeTaken(taker);
	memcpy(taker->taken, blocks, nblocks * sizeof(uint32));
	taker->ntaken = nblocks;
}

void
FreeBlocks(RowTaker *taker)
{
	if (taker->ntaken == 0)
		return;
	if (taker->sink->settle != NULL)
		taker->sink->settle(taker->sink, true);
	FreeTaken(taker);
}

bool
TakeBlocks(RowTaker *taker)
{
	IntakeRing *ring = taker->ring;
	IntakeLayout layout;
	uint32		dimensions;
	uint32		blocks[INTAKE_TOGETHER];
	int			nblocks = 0;

	dimensions = pg_atomic_read_u32(&ring->dimensions);
	if (dimensions == 0)
		return true;
	layout = IntakeLayoutOf(ring, dimensions);

	for (uint32 i = 0; i < ring->nblocks && !taker->stopped; i++)
	{
		if (!IntakeTake(ring, i))
			continue;
		CheckJoinInterrupts();
		TakeBlock(taker, &layout, i);
		blocks[nblocks++] = i;
		if (nblocks == INTAKE_TOGETHER)
		{
			NoteTaken(taker, blocks, nblocks);
			nblocks = 0;
		}
	}
	NoteTaken(taker, blocks, nblocks);
	return !taker->stopped;
}

static bool
TakeRowApart(RowTaker *taker, Datum key, bool key_isnull, Datum vector)
{
	MemoryContext old;
	bool		more;

	MemoryContextReset(taker->row_context);
	old = MemoryContextSwitchTo(taker->row_context);
	more = TakeRow(taker, key, key_isnull, vector);
	MemoryContextSwitchTo(old);
	return more;
}

bool
TakeSlot(RowTaker *taker, TupleTableSlot *slot)
{
	slot_getallattrs(slot);
	if (slot->tts_isnull[VECTOR_COLUMN])
		return true;			/* no vector: takes no part */
	if (taker->source->group_column != NULL)
	{
		if (slot->tts_isnull[PARTITION_COLUMN])
			return true;		/* of no partition: no part either */
		taker->partition = slot->tts_values[PARTITION_COLUMN];
	}
	return TakeRowApart(taker, slot->tts_values[KEY_COLUMN],
						slot->tts_isnull[KEY_COLUMN], slot->tts_values[VECTOR_COLUMN]);
}

bool
TakeBytes(RowTaker *taker, Datum key, bool key_isnull, Datum bytes)
{
	taker->from_bytes = true;
	return TakeRowApart(taker, key, key_isnull, bytes);
}

/*
 * What comes out of an intake node, but for the rows of nulls that it makes, is a
 * row that a worker did not put into the ring; those that it put there before go
 * first, so that messages tell of rows in the order in which they were read.
 */
static bool
ReceiveFromWorker(RowTaker *taker, TupleTableSlot *slot)
{
	if (slot_attisnull(slot, VECTOR_COLUMN + 1))
		return true;
	taker->tuples_received++;
	return TakeBlocks(taker) && TakeSlot(taker, slot);
}

static bool
ReceiveSlot(TupleTableSlot *slot, DestReceiver *self)
{
	RowTaker   *taker = (RowTaker *) self;

	return taker->ring != NULL ? ReceiveFromWorker(taker, slot) : TakeSlot(taker, slot);
}

/* The rows are read as they were planned, so the types can't be others. */
static void
StartReceiver(DestReceiver *self, int operation, TupleDesc typeinfo)
{
	RowTaker   *taker = (RowTaker *) self;
	const VectorSource *source = taker->source;
	Oid			type = TupleDescAttr(typeinfo, VECTOR_COLUMN)->atttypid;

	taker->from_bytes = type == BYTEAOID;
	if (TupleDescAttr(typeinfo, KEY_COLUMN)->atttypid != source->key_type ||
		(type != VectorFormType(source->form) && !taker->from_bytes))
		elog(ERROR, "\"%s\" is read with other types than were resolved", source->relation);
}

static void
StopReceiver(DestReceiver *self)
{
}

RowTaker *
CreateRowTaker(const VectorSource *source, RowSink *sink)
{
	RowTaker   *taker = palloc0(sizeof(RowTaker));

	taker->base.receiveSlot = ReceiveSlot;
	taker->base.rStartup = StartReceiver;
	taker->base.rShutdown = StopReceiver;
	taker->base.rDestroy = StopReceiver;
	taker->base.mydest = DestTuplestore;
	taker->source = source;
	taker->sink = sink;
	taker->row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted row",
											   ALLOCSET_DEFAULT_SIZES);
	return taker;
}

void
FreeRowTaker(RowTaker *taker)
{
	MemoryContextDelete(taker->row_context);
	if (taker->first_row_name != NULL)
		pfree(taker->first_row_name);
	pfree(taker);
}
