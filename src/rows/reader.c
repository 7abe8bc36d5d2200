/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Runs the query of a source; checks and converts its rows and names the bad ones.
 *
 * Each vector is converted straight from the tuple into the sink's room, which for a join
 * is the engine's.  With parallel workers most rows take another way (intake.c): they
 * are converted already and need only be copied, by the engine itself if it can.  A row
 * that a worker could not use comes as a tuple instead, so that all errors are raised here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "nodes/plannodes.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* Rows between two looks for interrupts beside those of the executor. */
#define ROWS_PER_CHECK 64

/* --- from tuples to the sink */

void
CheckDimensions(RowTaker *taker, int dimensions, Datum key)
{
	bool		grouped = taker->source->group_column != NULL;

	if ((grouped || taker->dimensions == 0) && (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has %d dimensions", dimensions),
				 errdetail("Row with %s, column \"%s\" of \"%s\".",
						   KeyName(taker->source, key),
						   taker->source->vector_column, taker->source->relation),
				 errhint("At most %u dimensions are supported.", FASTED_MAX_DIMENSIONS)));
	if (grouped)
		taker->sink->begin_row(taker->sink, taker->partition, dimensions, key);
	else if (taker->dimensions == 0)
	{
		taker->dimensions = dimensions;
		taker->first_row_name = MemoryContextStrdup(GetMemoryChunkContext(taker),
													KeyName(taker->source, key));
		taker->sink->set_dimensions(taker->sink, dimensions, taker->first_row_name);
	}
	else if (dimensions != taker->dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %d in the row with %s, and %d in the row with %s.",
						   taker->source->vector_column, taker->source->relation,
						   taker->dimensions, taker->first_row_name,
						   dimensions, KeyName(taker->source, key)),
				 errhint("Join vectors of one kind; a view can select them.")));
}

/* Leaves garbage in the current memory context. */
static bool
TakeVector(RowTaker *taker, Datum key, ArrayType *array)
{
	RowKind		kind = RowKindOf(taker->source);
	int			dimensions;
	int			element = 0;
	float	   *row;
	VectorProblem problem = VectorShape(array, &dimensions);

	if (problem == VECTOR_OK)
	{
		if (unlikely(dimensions != taker->dimensions))
			CheckDimensions(taker, dimensions, key);
		/* before there is room for it, which may be another row's place */
		if (taker->source->skip_zeros && VectorIsZero(array, &kind, dimensions))
			return true;
		if (taker->sink->room_for_rows(taker->sink, &row) == 0)
		{
			taker->stopped = true;
			return false;
		}
		problem = VectorElements(array, &kind, dimensions, row, &element);
	}
	if (problem != VECTOR_OK)
		ReportVectorProblem(problem, array, element, taker->source, KeyName(taker->source, key));
	taker->sink->take_rows(taker->sink, &key, 1);
	return true;
}

bool
TakeSourceRow(RowTaker *taker, Datum key, bool key_isnull, Datum vector, bool as_bytes)
{
	MemoryContext old;
	bool		more;

	if (taker->tuples++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	if (key_isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("key column \"%s\" of \"%s\" is null",
						taker->source->key_column, taker->source->relation),
				 errdetail("There is a row with a vector but no id."),
				 errhint("Name a column without nulls with %s => '...', or leave such rows out by a view.",
						 taker->source->id_argument)));
	MemoryContextReset(taker->row_context);
	old = MemoryContextSwitchTo(taker->row_context);
	more = TakeVector(taker, key, as_bytes ? ArrayFromBytes(vector, taker->source) :
					  DatumGetArrayTypeP(vector));
	MemoryContextSwitchTo(old);
	return more;
}

bool
TakeSlot(void *arg, TupleTableSlot *slot)
{
	RowTaker   *taker = arg;

	slot_getallattrs(slot);
	if (slot->tts_isnull[VECTOR_COLUMN])
		return true;			/* no vector: takes no part */
	if (taker->source->group_column != NULL)
	{
		if (slot->tts_isnull[PARTITION_COLUMN])
			return true;		/* of no partition: no part either */
		taker->partition = slot->tts_values[PARTITION_COLUMN];
	}
	return TakeSourceRow(taker, slot->tts_values[KEY_COLUMN], slot->tts_isnull[KEY_COLUMN],
						 slot->tts_values[VECTOR_COLUMN],
						 TupleDescAttr(slot->tts_tupleDescriptor, VECTOR_COLUMN)->atttypid == BYTEAOID);
}

/* --- the query */

/* A scan of a large table may else begin where another one is. */
static void
ReadInOrder(PlannedStmt *plan, RowTaker *taker)
{
	int			nest_level = NewGUCNestLevel();

	SetForThisQuery("synchronize_seqscans", "off");
	RunPlan(taker->source, plan, TakeSlot, taker);
	AtEOXact_GUC(true, nest_level);
}

/* False: workers may not read, or don't pay, and nothing was read. */
static bool
ReadInParallel(RowTaker *taker, uint64 rows)
{
	int			nest_level = NewGUCNestLevel();
	PlannedStmt *plan = PlanParallelRead(taker->source, rows);

	if (plan != NULL)
		RunIntakePlan(plan, taker);
	AtEOXact_GUC(true, nest_level);
	return plan != NULL;
}

void
ReadVectors(const VectorSource *source, RowSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowTaker   *taker = palloc0(sizeof(RowTaker));
	PlannedStmt *plan = PlanSource(source);
	uint64		rows = PlannedRows(plan);

	taker->source = source;
	taker->sink = sink;
	taker->row_context = AllocSetContextCreate(context, "fasted row", ALLOCSET_DEFAULT_SIZES);
	sink->expect_rows(sink, rows);
	if (sink->in_order)
		ReadInOrder(plan, taker);
	else if (source->reader != NULL && source->reader(source, taker))
		 /* all have come */ ;
	else if (RowsComeInOrder(source) || source->group_column != NULL || !ReadInParallel(taker, rows))
		RunPlan(source, plan, TakeSlot, taker);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* --- the order alone */

typedef struct OrderTaker
{
	void		(*take) (void *arg, Datum key);
	void	   *arg;
	MemoryContext row_context;
} OrderTaker;

/* The key of a row with a vector can't be null: that was an error before. */
static bool
ReceiveKey(void *arg, TupleTableSlot *slot)
{
	OrderTaker *taker = arg;
	MemoryContext old = MemoryContextSwitchTo(taker->row_context);
	bool		isnull;
	Datum		key = slot_getattr(slot, KEY_COLUMN + 1, &isnull);

	if (!isnull)
		taker->take(taker->arg, key);
	MemoryContextSwitchTo(old);
	MemoryContextReset(taker->row_context);
	return true;
}

void
ReadOrder(const VectorSource *source, void (*take) (void *arg, Datum key), void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	OrderTaker	taker = {.take = take,.arg = arg};

	taker.row_context = AllocSetContextCreate(context, "fasted row", ALLOCSET_DEFAULT_SIZES);
	RunPlan(source,
			PlanQuery(source, MakeSourceQuery(source, VALUE_NONE), CURSOR_OPT_PARALLEL_OK),
			ReceiveKey, &taker);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}
