/*-------------------------------------------------------------------------
 *
 * left_vectors.c
 *	  Fetches row versions by their TIDs, which the query's snapshot keeps in place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "join_node/left_vectors.h"
#include "utils/memutils.h"
#include "utils/rel.h"

struct LeftVectors
{
	MemoryContext context;		/* of what goes with the rows */
	ScanState  *scan;
	AttrNumber	column;
	Size		limit;
	TupleTableSlot *slots[2];	/* for each reader */

	ItemPointerData *places;
	uint32		count;
	uint32		room;
	struct varlena **fetched;	/* by row, from the TOAST table; NULL: none at all */
	uint32		fetched_room;
	Size		bytes;
};

LeftVectors *
LeftVectorsCreate(ScanState *scan, AttrNumber column, Size limit)
{
	LeftVectors *left = palloc0(sizeof(LeftVectors));
	Relation	table = scan->ss_currentRelation;

	left->context = AllocSetContextCreate(CurrentMemoryContext, "fasted left vectors",
										  ALLOCSET_DEFAULT_SIZES);
	left->scan = scan;
	left->column = column;
	left->limit = limit;
	for (int i = 0; i < 2; i++)
		left->slots[i] = ExecInitExtraTupleSlot(scan->ps.state, RelationGetDescr(table),
												table_slot_callbacks(table));
	return left;
}

void
LeftVectorsAdd(LeftVectors *left, ItemPointer place)
{
	if (left->count == left->room)
	{
		left->room = Max(1024, 2 * left->room);
		left->places = left->places == NULL ?
			MemoryContextAllocHuge(left->context, left->room * sizeof(ItemPointerData)) :
			repalloc_huge(left->places, left->room * sizeof(ItemPointerData));
	}
	left->places[left->count++] = *place;
}

/* Room for the vectors of all rows that there is room for. */
static void
GrowFetched(LeftVectors *left)
{
	Size		size = sizeof(struct varlena *);

	left->fetched = left->fetched == NULL ?
		MemoryContextAllocHuge(left->context, left->room * size) :
		repalloc_huge(left->fetched, left->room * size);
	memset(left->fetched + left->fetched_room, 0, (left->room - left->fetched_room) * size);
	left->fetched_room = left->room;
}

/* Keeps a vector that comes from a TOAST table, which takes long. */
static Datum
KeepFetched(LeftVectors *left, uint32 row, Datum value)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);
	Size		bytes = toast_raw_datum_size(value);
	MemoryContext old;

	if (left->bytes + bytes > left->limit)
		return value;
	if (row >= left->fetched_room)
		GrowFetched(left);
	old = MemoryContextSwitchTo(left->context);
	left->fetched[row] = detoast_attr(pointer);
	left->bytes += bytes;
	MemoryContextSwitchTo(old);
	return PointerGetDatum(left->fetched[row]);
}

Datum
LeftVectorsFetch(LeftVectors *left, uint32 row, int reader, bool *isnull)
{
	TupleTableSlot *slot = left->slots[reader];
	Datum		value;

	if (row < left->fetched_room && left->fetched[row] != NULL)
	{
		*isnull = false;
		return PointerGetDatum(left->fetched[row]);
	}
	if (!table_tuple_fetch_row_version(left->scan->ss_currentRelation, &left->places[row],
									   left->scan->ps.state->es_snapshot, slot))
		elog(ERROR, "a row that was read is not in its table any more");
	value = slot_getattr(slot, left->column, isnull);
	if (*isnull || !VARATT_IS_EXTERNAL(DatumGetPointer(value)))
		return value;
	return KeepFetched(left, row, value);
}

void
LeftVectorsReset(LeftVectors *left)
{
	for (int i = 0; i < 2; i++)
		ExecClearTuple(left->slots[i]);
	MemoryContextReset(left->context);
	left->places = NULL;
	left->fetched = NULL;
	left->count = left->room = left->fetched_room = 0;
	left->bytes = 0;
}
