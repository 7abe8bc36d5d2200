/*-------------------------------------------------------------------------
 *
 * own_rows.c
 *	  Runs the query of keys and hashes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "citus/cluster.h"
#include "engine/engine.h"
#include "executor/tuptable.h"
#include "rows/source_query.h"
#include "utils/memutils.h"

/* Rows between two looks for interrupts. */
#define ROWS_PER_CHECK 1024

/* Hashes that there is room for at first. */
#define FIRST_HASHES 1024

typedef struct OwnRows
{
	const VectorSource *source;
	KeySet	   *keys;
	MemoryContext row_context;
	Fingerprint print;

	/* Of a source with an order, whose rows come in it: of their vectors. */
	uint64	   *hashes;
	uint32		capacity;
} OwnRows;

static void
KeepHash(OwnRows *rows, uint64 vector_hash)
{
	if (rows->keys->count == rows->capacity)
	{
		rows->capacity = Min((uint64) rows->capacity * 2, FASTED_MAX_ROWS);
		rows->hashes = repalloc_huge(rows->hashes, (Size) rows->capacity * sizeof(uint64));
	}
	rows->hashes[rows->keys->count] = vector_hash;
}

static void
AddToPrint(OwnRows *rows, Datum key, uint64 vector_hash)
{
	FingerprintAdd(&rows->print, KeyHash(key, rows->keys->typlen, rows->keys->typbyval), vector_hash);
}

static void
TakeKey(OwnRows *rows, Datum key, uint64 vector_hash)
{
	if (rows->keys->count >= FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("\"%s\" has too many rows to join", rows->source->relation),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	if (rows->hashes != NULL)
		KeepHash(rows, vector_hash);
	else
		AddToPrint(rows, key, vector_hash);
	KeySetAdd(rows->keys, &key, 1);
}

/* A key that is null has no hash, so that the workers' fingerprints differ: they tell which. */
static bool
TakeOwnRow(void *arg, TupleTableSlot *slot)
{
	OwnRows    *rows = arg;
	MemoryContext old;

	if (rows->keys->count % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	slot_getallattrs(slot);
	if (slot->tts_isnull[1] || (rows->source->skip_zeros && DatumGetInt64(slot->tts_values[1]) == 0))
		return true;
	if (slot->tts_isnull[0])
	{
		rows->print.rows++;
		return true;
	}
	MemoryContextReset(rows->row_context);
	old = MemoryContextSwitchTo(rows->row_context);
	TakeKey(rows, slot->tts_values[0], (uint64) DatumGetInt64(slot->tts_values[1]));
	MemoryContextSwitchTo(old);
	return true;
}

/* All rows have come in the source's order: they are numbered by their keys. */
static uint32 *
SortRows(OwnRows *rows)
{
	uint32	   *ranks = KeySetSort(rows->keys);

	for (uint32 row = 0; row < rows->keys->count; row++)
	{
		if (row % ROWS_PER_CHECK == 0)
			CheckJoinInterrupts();
		AddToPrint(rows, rows->keys->values[row], rows->hashes[ranks[row]]);
	}
	return ranks;
}

Fingerprint
ReadOwnRows(const VectorSource *source, KeySet *keys, uint32 **ranks)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted own rows",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	OwnRows		rows = {.source = source,.keys = keys};
	Query	   *query = MakeHashQuery(source, VectorHashFunction(VectorFormType(source->form)));

	rows.row_context = AllocSetContextCreate(context, "fasted own row", ALLOCSET_DEFAULT_SIZES);
	if (source->order_column != NULL)
	{
		rows.capacity = FIRST_HASHES;
		rows.hashes = palloc(rows.capacity * sizeof(uint64));
	}
	RunPlan(source, PlanQuery(source, query, 0), TakeOwnRow, &rows);
	*ranks = rows.hashes != NULL ? SortRows(&rows) : NULL;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return rows.print;
}
