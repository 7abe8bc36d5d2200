/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  One array of keys, and their ranks where they come in another order.
 *
 * Tables mostly come in the order of their key: then row numbers order as keys
 * do, and uniqueness is seen on the way.  Else the rows are ranked once, so that
 * no pair needs a comparison of keys (which for text costs more than the pair).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/integer_rank.h"
#include "join/keys.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

static void
PrepareOrder(KeySet *keys, const VectorSource *source)
{
	TypeCacheEntry *type = lookup_type_cache(source->key_type, TYPECACHE_LT_OPR);

	keys->order.ssup_cxt = keys->context;
	keys->order.ssup_collation = source->key_collation;
	PrepareSortSupportFromOrderingOp(type->lt_opr, &keys->order);
}

KeySet *
KeySetCreate(const VectorSource *source)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted keys",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	KeySet	   *keys = palloc0(sizeof(KeySet));

	keys->source = source;
	keys->context = context;
	get_typlenbyval(source->key_type, &keys->typlen, &keys->typbyval);
	PrepareOrder(keys, source);
	keys->capacity = 1024;
	keys->values = palloc(keys->capacity * sizeof(Datum));
	keys->ascending = true;
	MemoryContextSwitchTo(old);
	return keys;
}

void
KeySetReset(KeySet *keys)
{
	if (!keys->typbyval)
		for (uint32 i = 0; i < keys->count; i++)
			pfree(DatumGetPointer(keys->values[i]));
	keys->count = 0;
	keys->ascending = true;
	if (keys->rank != NULL)
		pfree(keys->rank);
	keys->rank = NULL;
}

void
KeySetAdd(KeySet *keys, Datum key)
{
	if (keys->count == keys->capacity)
	{
		keys->capacity = Min((uint64) keys->capacity * 2, PG_UINT32_MAX);
		keys->values = repalloc_huge(keys->values, (Size) keys->capacity * sizeof(Datum));
	}
	if (!keys->typbyval)
	{
		MemoryContext old = MemoryContextSwitchTo(keys->context);

		key = keys->typlen == -1 ?
			PointerGetDatum(PG_DETOAST_DATUM_COPY(key)) :
			datumCopy(key, false, keys->typlen);
		MemoryContextSwitchTo(old);
	}
	if (keys->ascending && keys->count > 0 &&
		ApplySortComparator(keys->values[keys->count - 1], false, key, false,
							&keys->order) >= 0)
		keys->ascending = false;
	keys->values[keys->count++] = key;
}

static int
CompareRows(const void *a, const void *b, void *arg)
{
	KeySet	   *keys = arg;

	return ApplySortComparator(keys->values[*(const uint32 *) a], false,
							   keys->values[*(const uint32 *) b], false,
							   &keys->order);
}

static void
ReportDuplicate(const KeySet *keys, uint32 row)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key column \"%s\" of \"%s\" is not unique",
					keys->source->key_column, keys->source->relation),
			 errdetail("More than one row with a vector has %s.",
					   KeyName(keys->source, keys->values[row])),
			 errhint("Name a unique column with %s => '...', for example of a view that adds row_number().",
					 keys->source->id_argument)));
}

/* Are they signed integers, of whatever width, that fill a Datum? */
static bool
AreIntegers(const KeySet *keys)
{
#if SIZEOF_DATUM >= 8
	return keys->typbyval &&
		(keys->order.comparator == ssup_datum_signed_cmp ||
		 keys->order.comparator == ssup_datum_int32_cmp);
#else
	return false;
#endif
}

/* Any keys, by comparing them. */
static void
RankByComparing(KeySet *keys)
{
	uint32	   *rows = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(uint32));

	for (uint32 i = 0; i < keys->count; i++)
		rows[i] = i;
	qsort_interruptible(rows, keys->count, sizeof(uint32), CompareRows, keys);
	for (uint32 i = 0; i < keys->count; i++)
	{
		if (i > 0 && CompareRows(&rows[i - 1], &rows[i], keys) == 0)
			ReportDuplicate(keys, rows[i]);
		keys->rank[rows[i]] = i;
	}
	pfree(rows);
}

void
KeySetFinish(KeySet *keys)
{
	uint32		twice = keys->count;

	if (keys->ascending)
		return;

	keys->rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(uint32));
	if (AreIntegers(keys))
		twice = RankIntegers(keys->values, keys->count, keys->rank);
	else
		RankByComparing(keys);
	if (twice < keys->count)
		ReportDuplicate(keys, twice);
}

uint32 *
KeySetSort(KeySet *keys)
{
	uint32	   *places = MemoryContextAllocHuge(keys->context, Max(1, (Size) keys->count) * sizeof(uint32));
	uint32	   *rank;
	Datum	   *values;

	KeySetFinish(keys);
	rank = keys->rank;
	for (uint32 row = 0; row < keys->count; row++)
		places[rank == NULL ? row : rank[row]] = row;
	if (rank == NULL)
		return places;
	values = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(Datum));
	for (uint32 row = 0; row < keys->count; row++)
		values[row] = keys->values[places[row]];
	pfree(keys->values);
	pfree(rank);
	keys->values = values;
	keys->capacity = keys->count;
	keys->rank = NULL;
	keys->ascending = true;
	return places;
}
