/*-------------------------------------------------------------------------
 *
 * group_reader.c
 *	  Runs a source's query a group at a time.
 *
 * The receiver stops the executor with the first row of the next group, which is kept
 * until that group is asked for.  No worker reads, for rows come in order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/interrupts.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "rows/group_reader.h"
#include "rows/reader.h"
#include "rows/source.h"
#include "rows/source_query.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* The column of the query behind key and vector. */
#define GROUP_COLUMN 2

/* Rows that are left out between two looks for interrupts. */
#define ROWS_PER_CHECK 64

struct GroupReader
{
	TupleReceiver receiver;
	MemoryContext context;
	const VectorSource *source;
	QueryDesc  *query;
	uint64		expected;
	SortSupportData order;		/* of the groups */
	int16		typlen;
	bool		typbyval;

	RowTaker   *taker;			/* of the group's rows; NULL: none was taken */
	MemoryContext group_context;	/* the taker's */
	uint64		most;			/* rows that may be taken */
	bool		skipping;		/* they are left out */
	TupleTableSlot *next;		/* a row that is still to be taken; or empty */
	Datum		value;			/* the group's */
	bool		begun;			/* there is a group */
	bool		over;			/* the query has no more rows */
	uint32		left_out;
};

static bool
IsOfGroup(GroupReader *reader, Datum value)
{
	return ApplySortComparator(reader->value, false, value, false, &reader->order) == 0;
}

static bool
LeaveOut(GroupReader *reader)
{
	if (reader->left_out++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	return true;
}

/* False: the sink has no room. */
static bool
Take(GroupReader *reader, TupleTableSlot *slot)
{
	reader->most--;
	return TakeSlot(reader->taker, slot);
}

static bool
ReceiveRow(void *arg, TupleTableSlot *slot)
{
	GroupReader *reader = arg;

	slot_getallattrs(slot);
	if (slot->tts_isnull[VECTOR_COLUMN] || slot->tts_isnull[GROUP_COLUMN])
		return LeaveOut(reader);
	if (!reader->begun || !IsOfGroup(reader, slot->tts_values[GROUP_COLUMN]) ||
		(!reader->skipping && reader->most == 0))
	{
		ExecCopySlot(reader->next, slot);
		return false;
	}
	if (reader->skipping)
		return LeaveOut(reader);
	if (!Take(reader, slot))
	{
		ExecCopySlot(reader->next, slot);
		return false;
	}
	return true;
}

static void
PrepareOrder(GroupReader *reader)
{
	PrepareTypeOrder(reader->source->group_type, reader->source->group_collation, reader->context, &reader->order);
	get_typlenbyval(reader->source->group_type, &reader->typlen, &reader->typbyval);
}

static void
StartQuery(GroupReader *reader)
{
	PlannedStmt *plan = PlanSource(reader->source);

	reader->expected = PlannedRows(plan);
	reader->query = CreateQueryDesc(plan, QueryText(reader->source), GetActiveSnapshot(),
									InvalidSnapshot, &reader->receiver.base, NULL, NULL, 0);
	ExecutorStart(reader->query, 0);
	reader->next = MakeSingleTupleTableSlot(reader->query->tupDesc, &TTSOpsMinimalTuple);
}

GroupReader *
GroupReaderBegin(const VectorSource *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	GroupReader *reader = palloc0(sizeof(GroupReader));

	InitTupleReceiver(&reader->receiver, ReceiveRow, reader);
	reader->context = context;
	reader->source = source;
	PrepareOrder(reader);
	StartQuery(reader);
	MemoryContextSwitchTo(old);
	return reader;
}

/* Runs the query until there is a row to keep, or there are no more. */
static void
RunToKeptRow(GroupReader *reader)
{
	MemoryContext old;

	if (reader->over || !TupIsNull(reader->next))
		return;
	old = MemoryContextSwitchTo(reader->context);
	FASTED_EXECUTOR_GO_ON(reader->query);
	MemoryContextSwitchTo(old);
	reader->over = TupIsNull(reader->next);
}

/* Its value is copied: the row's own goes with the row. */
static void
BeginGroup(GroupReader *reader)
{
	MemoryContext old = MemoryContextSwitchTo(reader->context);

	if (reader->taker != NULL)
		MemoryContextDelete(reader->group_context);
	reader->taker = NULL;
	if (reader->begun && !reader->typbyval)
		pfree(DatumGetPointer(reader->value));
	slot_getallattrs(reader->next);
	reader->value = reader->next->tts_values[GROUP_COLUMN];
	if (reader->typlen == -1)
		reader->value = PointerGetDatum(PG_DETOAST_DATUM_COPY(reader->value));
	else
		reader->value = datumCopy(reader->value, reader->typbyval, reader->typlen);
	reader->begun = true;
	MemoryContextSwitchTo(old);
}

/* Is the row that is kept one of the group at hand? */
static bool
KeepsRowOfGroup(GroupReader *reader)
{
	if (!reader->begun || TupIsNull(reader->next))
		return false;
	slot_getallattrs(reader->next);
	return IsOfGroup(reader, reader->next->tts_values[GROUP_COLUMN]);
}

bool
GroupReaderNext(GroupReader *reader)
{
	if (KeepsRowOfGroup(reader))
		ExecClearTuple(reader->next);
	reader->skipping = true;
	RunToKeptRow(reader);
	if (TupIsNull(reader->next))
		return false;
	BeginGroup(reader);
	return true;
}

Datum
GroupReaderValue(const GroupReader *reader)
{
	return reader->value;
}

bool
GroupReaderRead(GroupReader *reader, RowSink *sink, uint64 most)
{
	MemoryContext old = MemoryContextSwitchTo(reader->context);

	if (reader->taker == NULL)
	{
		reader->group_context = AllocSetContextCreate(reader->context, "fasted group",
													  ALLOCSET_SMALL_SIZES);
		MemoryContextSwitchTo(reader->group_context);
		reader->taker = CreateRowTaker(reader->source, sink);
		MemoryContextSwitchTo(reader->context);
	}
	reader->taker->sink = sink;
	reader->most = most;
	reader->skipping = false;
	if (KeepsRowOfGroup(reader) && most > 0 && Take(reader, reader->next))
		ExecClearTuple(reader->next);
	RunToKeptRow(reader);
	MemoryContextSwitchTo(old);
	return !KeepsRowOfGroup(reader);
}

GroupReader *
GroupReaderAgain(GroupReader *reader)
{
	MemoryContext old = MemoryContextSwitchTo(MemoryContextGetParent(reader->context));
	GroupReader *again = GroupReaderBegin(reader->source);

	do
	{
		if (!GroupReaderNext(again))
			elog(ERROR, "a group of \"%s\" can't be read twice", reader->source->relation);
	} while (!IsOfGroup(reader, GroupReaderValue(again)));
	MemoryContextSwitchTo(old);
	GroupReaderEnd(reader);
	return again;
}

uint64
GroupReaderExpected(const GroupReader *reader)
{
	return reader->expected;
}

void
GroupReaderEnd(GroupReader *reader)
{
	ExecDropSingleTupleTableSlot(reader->next);
	ExecutorFinish(reader->query);
	ExecutorEnd(reader->query);
	FreeQueryDesc(reader->query);
	MemoryContextDelete(reader->context);
}
