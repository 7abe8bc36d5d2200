/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Rows in: reads keys and vectors through the planner and the executor.
 *
 * The query runs by SPI, but its tuples go to a DestReceiver of our own, so that
 * no copy of them piles up: each vector is converted straight from the tuple
 * into the engine's staging room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/spi.h"
#include "executor/spi_priv.h"
#include "interrupts.h"
#include "nodes/plannodes.h"
#include "reader.h"
#include "tcop/dest.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "vector.h"

/* Rows between two looks for interrupts beside those of the executor. */
#define ROWS_PER_CHECK 64

typedef struct VectorReceiver
{
	DestReceiver base;
	const VectorSource *source;
	Join	   *join;
	MemoryContext row_context;	/* what detoasting leaves; reset for each row */
	uint64		tuples;			/* all rows of the query */
	int			dimensions;		/* of the first vector; zero before it */
	char	   *first_row_name;
} VectorReceiver;

static void
ReportNullKey(const VectorReceiver *reader)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("key column \"%s\" of \"%s\" is null",
					reader->source->key_column, reader->source->relation),
			 errdetail("Row number " UINT64_FORMAT " of the scan has a vector but no id.", reader->tuples),
			 errhint("Name a column without nulls with id_column => '...', or leave such rows out by a view.")));
}

static void
ReportDimensions(const VectorReceiver *reader, int dimensions, const char *row_name)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("vectors have different numbers of dimensions"),
			 errdetail("Column \"%s\" of \"%s\" has %d dimensions in the row with %s, and %d in the row with %s.",
					   reader->source->vector_column, reader->source->relation,
					   reader->dimensions, reader->first_row_name,
					   dimensions, row_name),
			 errhint("Join vectors of one kind; a view can select them.")));
}

static void
SetDimensions(VectorReceiver *reader, int dimensions, Datum key)
{
	if ((uint32) dimensions > FASTED_MAX_DIMENSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has %d dimensions", dimensions),
				 errdetail("Row with %s, column \"%s\" of \"%s\".",
						   KeyName(reader->source, key),
						   reader->source->vector_column, reader->source->relation),
				 errhint("At most %u dimensions are supported.", FASTED_MAX_DIMENSIONS)));
	reader->dimensions = dimensions;
	reader->first_row_name = MemoryContextStrdup(GetMemoryChunkContext(reader),
												 KeyName(reader->source, key));
	JoinSetDimensions(reader->join, dimensions);
}

/* False: the join takes no more rows. */
static bool
TakeVector(VectorReceiver *reader, Datum key, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	int			dimensions;
	int			element = 0;
	float	   *row;
	VectorProblem problem = VectorShape(array, &dimensions);

	if (problem == VECTOR_OK)
	{
		if (reader->dimensions == 0)
			SetDimensions(reader, dimensions, key);
		if (dimensions != reader->dimensions)
			ReportDimensions(reader, dimensions, KeyName(reader->source, key));
		row = JoinRoomForRow(reader->join);
		if (row == NULL)
			return false;
		problem = VectorElements(array, reader->source->form, dimensions, row, &element);
	}
	if (problem != VECTOR_OK)
		ReportVectorProblem(problem, array, element, reader->source,
							KeyName(reader->source, key));
	JoinTakeRow(reader->join, key);
	return true;
}

static bool
ReceiveSlot(TupleTableSlot *slot, DestReceiver *self)
{
	VectorReceiver *reader = (VectorReceiver *) self;
	MemoryContext old;
	bool		more;

	if (reader->tuples++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();

	slot_getallattrs(slot);
	if (slot->tts_isnull[1])
		return true;			/* no vector: takes no part */
	if (slot->tts_isnull[0])
		ReportNullKey(reader);

	MemoryContextReset(reader->row_context);
	old = MemoryContextSwitchTo(reader->row_context);
	more = TakeVector(reader, slot->tts_values[0], slot->tts_values[1]);
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

/* The planner's guess at the number of rows. */
static uint64
PlannedRows(SPIPlanPtr plan)
{
	CachedPlan *cached = SPI_plan_get_cached_plan(plan);
	PlannedStmt *stmt;
	double		rows;

	if (cached == NULL)
		return 0;
	stmt = linitial_node(PlannedStmt, cached->stmt_list);
	rows = stmt->planTree->plan_rows;
	ReleaseCachedPlan(cached, plan->saved ? CurrentResourceOwner : NULL);
	return (rows < (double) FASTED_MAX_ROWS) ? (uint64) rows : FASTED_MAX_ROWS;
}

static void
RunQuery(const VectorSource *source, Join *join, DestReceiver *receiver)
{
	SPIExecuteOptions options = {0};
	SPIPlanPtr	plan;
	int			rc;

	/* A cursor's plan would favour the first rows; we want all of them. */
	plan = SPI_prepare(source->query, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", source->query,
			 SPI_result_code_string(SPI_result));
	JoinExpectRows(join, PlannedRows(plan));

	/* Read-only: in the active snapshot, that of the calling query. */
	options.read_only = true;
	options.dest = receiver;
	rc = SPI_execute_plan_extended(plan, &options);
	if (rc < 0)
		elog(ERROR, "could not execute \"%s\": %s", source->query,
			 SPI_result_code_string(rc));
}

void
ReadVectors(const VectorSource *source, Join *join)
{
	VectorReceiver *reader = palloc0(sizeof(VectorReceiver));

	reader->base.receiveSlot = ReceiveSlot;
	reader->base.rStartup = StartReceiver;
	reader->base.rShutdown = StopReceiver;
	reader->base.rDestroy = StopReceiver;
	reader->base.mydest = DestTuplestore;
	reader->source = source;
	reader->join = join;
	reader->row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted row",
												ALLOCSET_DEFAULT_SIZES);

	SPI_connect();
	RunQuery(source, join, &reader->base);
	SPI_finish();

	MemoryContextDelete(reader->row_context);
	pfree(reader);
}
