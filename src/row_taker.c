/*-------------------------------------------------------------------------
 *
 * row_taker.c
 *	  From the tuples of a query to their sink: checks, conversion, errors.
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

#include "engine.h"
#include "interrupts.h"
#include "keys.h"
#include "row_taker.h"
#include "utils/memutils.h"
#include "vector.h"

/* Rows between two looks for interrupts beside those of the executor. */
#define ROWS_PER_CHECK 64

/* Blocks that are on their way into the sink at a time. */
#define BLOCKS_TOGETHER 4

/* Columns of the query; CALL_COLUMN is a parallel one's, null but from workers. */
#define KEY_COLUMN 0
#define VECTOR_COLUMN 1
#define CALL_COLUMN 2

static void
ReportNullKey(const RowTaker *taker)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("key column \"%s\" of \"%s\" is null",
					taker->source->key_column, taker->source->relation),
			 errdetail("There is a row with a vector but no id."),
			 errhint("Name a column without nulls with id_column => '...', or leave such rows out by a view.")));
}

static void
ReportDimensions(const RowTaker *taker, int dimensions, const char *row_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("vectors have different numbers of dimensions"),
			 errdetail("Column \"%s\" of \"%s\" has %d dimensions in the row with %s, and %d in the row with %s.",
					   taker->source->vector_column, taker->source->relation,
					   taker->dimensions, taker->first_row_name,
					   dimensions, row_name),
			 errhint("Join vectors of one kind; a view can select them.")));
}

static void
SetDimensions(RowTaker *taker, int dimensions, Datum key)
{
	if ((uint32) dimensions > FASTED_MAX_DIMENSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has %d dimensions", dimensions),
				 errdetail("Row with %s, column \"%s\" of \"%s\".",
						   KeyName(taker->source, key),
						   taker->source->vector_column, taker->source->relation),
				 errhint("At most %u dimensions are supported.", FASTED_MAX_DIMENSIONS)));
	taker->dimensions = dimensions;
	taker->first_row_name = MemoryContextStrdup(GetMemoryChunkContext(taker),
												KeyName(taker->source, key));
	taker->sink->set_dimensions(taker->sink, dimensions);
	if (taker->ring != NULL)
		RingAgreeOnDimensions(taker->ring, dimensions);
}

static inline void
CheckDimensions(RowTaker *taker, int dimensions, Datum key)
{
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
		pg_atomic_write_u32(&taker->ring->stopped, 1);
	return false;
}

static bool
TakeTuple(RowTaker *taker, Datum key, bool key_isnull, Datum vector)
{
	ArrayType  *array;
	VectorProblem problem;
	int			dimensions;
	int			element = 0;
	float	   *row;

	if (taker->tuples++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	if (key_isnull)
		ReportNullKey(taker);

	array = DatumGetArrayTypeP(vector);
	problem = VectorShape(array, &dimensions);
	if (problem == VECTOR_OK)
	{
		CheckDimensions(taker, dimensions, key);
		if (taker->sink->room_for_rows(taker->sink, &row) == 0)
			return StopTaking(taker);
		problem = VectorElements(array, taker->source->form, dimensions, row, &element);
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

/* Takes the rows of one block, which is the leader's. */
static void
TakeBlock(RowTaker *taker, const BlockLayout *layout, uint32 block)
{
	const char *from = RingBlockData(taker->ring, block);
	const Datum *keys = RingKeys(taker->ring, layout, block);
	size_t		left = taker->ring->blocks[block].nrows;

	if (left == 0)
		return;
	CheckDimensions(taker, layout->row_bytes / sizeof(float), keys[0]);
	taker->ring_rows += left;
	while (left > 0)
	{
		size_t		n = GiveRows(taker->sink, from, keys, left, layout->row_bytes);

		if (n == 0)
		{
			StopTaking(taker);
			return;
		}
		from += n * layout->row_bytes;
		keys += n;
		left -= n;
	}
}

/* Blocks that were taken go back to the workers, once nothing reads them any more. */
static void
FreeBlocks(RowTaker *taker, const uint32 *blocks, int nblocks)
{
	if (nblocks > 0 && taker->sink->settle != NULL)
		taker->sink->settle(taker->sink);
	for (int i = 0; i < nblocks; i++)
		RingFree(taker->ring, blocks[i]);
}

static void
TakeFromRing(RowTaker *taker, bool all)
{
	RowRing    *ring = taker->ring;
	BlockLayout layout;
	uint32		dimensions;
	uint32		taken[BLOCKS_TOGETHER];
	int			ntaken = 0;

	dimensions = pg_atomic_read_u32(&ring->dimensions);
	if (dimensions == 0)
		return;
	layout = RingLayout(ring, dimensions);

	for (uint32 i = 0; i < ring->nblocks && !taker->stopped; i++)
	{
		uint32		state = pg_atomic_read_u32(&ring->blocks[i].state);

		if (state == BLOCK_FREE || (state == BLOCK_FILLING && !all))
			continue;
		pg_read_barrier();
		CheckJoinInterrupts();
		TakeBlock(taker, &layout, i);
		if (state == BLOCK_FULL)
			taken[ntaken++] = i;
		if (ntaken == BLOCKS_TOGETHER)
		{
			FreeBlocks(taker, taken, ntaken);
			ntaken = 0;
		}
	}
	FreeBlocks(taker, taken, ntaken);
}

static void
SourceContext(void *arg)
{
	errcontext("SQL statement \"%s\"", ((RowTaker *) arg)->source->query);
}

void
UseRing(RowTaker *taker, RowRing *ring)
{
	taker->ring = ring;
	taker->context.callback = SourceContext;
	taker->context.arg = taker;
	taker->context.previous = error_context_stack;
}

bool
TakeRow(RowTaker *taker, Datum key, bool key_isnull, Datum vector)
{
	ErrorContextCallback *context = error_context_stack;
	bool		more;

	if (taker->ring != NULL)
		error_context_stack = &taker->context;
	more = TakeTuple(taker, key, key_isnull, vector);
	error_context_stack = context;
	return more;
}

bool
TakeBlocks(RowTaker *taker, bool all)
{
	ErrorContextCallback *context = error_context_stack;

	error_context_stack = &taker->context;
	TakeFromRing(taker, all);
	error_context_stack = context;
	return !taker->stopped;
}

static bool
ReceiveSlot(TupleTableSlot *slot, DestReceiver *self)
{
	RowTaker   *taker = (RowTaker *) self;
	MemoryContext old;
	bool		more;

	slot_getallattrs(slot);
	if (taker->ring != NULL)
	{
		if (!slot->tts_isnull[CALL_COLUMN])
			pg_atomic_fetch_add_u32(&taker->ring->nanswered, 1);
		if (!TakeBlocks(taker, false))
			return false;
	}
	if (slot->tts_isnull[VECTOR_COLUMN])
		return true;			/* no vector: takes no part */

	MemoryContextReset(taker->row_context);
	old = MemoryContextSwitchTo(taker->row_context);
	more = TakeRow(taker, slot->tts_values[KEY_COLUMN],
				   slot->tts_isnull[KEY_COLUMN], slot->tts_values[VECTOR_COLUMN]);
	MemoryContextSwitchTo(old);
	return more;
}

static void
StartReceiver(DestReceiver *self, int operation, TupleDesc typeinfo)
{
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
	pfree(taker);
}
