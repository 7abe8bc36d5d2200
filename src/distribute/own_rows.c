/*-------------------------------------------------------------------------
 *
 * own_rows.c
 *	  Runs the query of keys and hashes; its tuples go to a DestReceiver of our own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distribute/own_rows.h"
#include "engine/engine.h"
#include "executor/tuptable.h"
#include "read/source_query.h"
#include "session/interrupts.h"
#include "utils/memutils.h"

/* Rows between two looks for interrupts. */
#define ROWS_PER_CHECK 1024

typedef struct OwnRows
{
	DestReceiver base;
	const VectorSource *source;
	KeySet	   *keys;
	MemoryContext row_context;
	Fingerprint print;
} OwnRows;

static void
TakeKey(OwnRows *rows, Datum key, uint64 vector_hash)
{
	if (rows->keys->count >= FASTED_MAX_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("\"%s\" has too many rows to join", rows->source->relation),
				 errhint("At most %u rows can be joined at once.", FASTED_MAX_ROWS)));
	KeySetAdd(rows->keys, key);
	FingerprintAdd(&rows->print, KeyHash(key, rows->keys->typlen, rows->keys->typbyval), vector_hash);
}

/* A key that is null has no hash, so that the workers' fingerprints differ: they tell which. */
static bool
TakeOwnRow(TupleTableSlot *slot, DestReceiver *receiver)
{
	OwnRows    *rows = (OwnRows *) receiver;
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

Fingerprint
ReadOwnRows(const VectorSource *source, KeySet *keys)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted own rows",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	OwnRows		rows = {.base = *None_Receiver,.source = source,.keys = keys};
	Query	   *query = MakeHashQuery(source, VectorHashFunction(VectorFormType(source->form)));

	rows.base.receiveSlot = TakeOwnRow;
	rows.row_context = AllocSetContextCreate(context, "fasted own row", ALLOCSET_DEFAULT_SIZES);
	RunPlan(source, PlanQuery(source, query, 0), &rows.base);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
	return rows.print;
}
