/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  Stores the rows' keys, and computes their ranks if they do not arrive in sorted order.
 *
 * Tables are mostly read in key order.  Row numbers then sort like keys, and uniqueness is checked
 * as keys arrive.  Otherwise rows are ranked once, so that no pair requires a key comparison, which
 * for text would cost more than the pair itself.
 *
 * With parallel workers, rows never arrive in key order, and comparing a million keys takes as long
 * as reading them.  Integer keys are therefore ranked by a radix sort, lowest digit first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "fmgr.h"
#include "join/row_set.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Bits of a digit of the radix sort. */
#define DIGIT_BITS 11
#define DIGIT_VALUES (1 << DIGIT_BITS)

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
	keys->order.abbreviate = true;
	PrepareTypeOrder(source->key_type, source->key_collation, context, &keys->order);
	keys->copies = AllocSetContextCreate(context, "fasted key copies", ALLOCSET_DEFAULT_SIZES);
	keys->capacity = 1024;
	keys->values = palloc(keys->capacity * sizeof(Datum));
	keys->ascending = true;
	MemoryContextSwitchTo(old);
	return keys;
}

static void
ReportDuplicate(const KeySet *keys, uint32 row)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("key column \"%s\" of relation \"%s\" is not unique",
					keys->source->key_column, keys->source->relation),
			 errdetail("More than one row with a vector has %s.",
					   KeyName(keys->source, keys->values[row])),
			 errhint("Specify a unique column with %s => '...', for example one that a view computes with row_number().",
					 keys->source->id_argument)));
}

void
KeySetReset(KeySet *keys)
{
	MemoryContextReset(keys->copies);
	keys->count = 0;
	keys->ascending = true;
	if (keys->rank != NULL)
		pfree(keys->rank);
	keys->rank = NULL;
	if (keys->by_rank != NULL)
		pfree(keys->by_rank);
	keys->by_rank = NULL;
}

static Datum
CopyKey(const KeySet *keys, Datum key)
{
	MemoryContext old = MemoryContextSwitchTo(keys->copies);

	key = keys->typlen == -1 ? PointerGetDatum(PG_DETOAST_DATUM_COPY(key)) :
		datumCopy(key, false, keys->typlen);
	MemoryContextSwitchTo(old);
	return key;
}

static int
CompareKeys(KeySet *keys, Datum a, Datum b)
{
	return keys->order.abbrev_converter == NULL ?
		ApplySortComparator(a, false, b, false, &keys->order) :
		ApplySortAbbrevFullComparator(a, false, b, false, &keys->order);
}

void
KeySetAdd(KeySet *keys, const Datum *more, size_t n)
{
	while (keys->capacity - keys->count < n)
	{
		keys->capacity = Min((uint64) keys->capacity * 2, PG_UINT32_MAX);
		keys->values = repalloc_huge(keys->values, (Size) keys->capacity * sizeof(Datum));
	}
	for (size_t i = 0; i < n; i++)
	{
		Datum		key = keys->typbyval ? more[i] : CopyKey(keys, more[i]);

		if (keys->ascending && keys->count > 0 &&
			CompareKeys(keys, keys->values[keys->count - 1], key) >= 0)
			keys->ascending = false;
		keys->values[keys->count++] = key;
	}
}

/* Returns true if the keys are signed integers that sort like their Datums. */
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

/* --- ranks */

/* A row to be sorted by its key. */
typedef struct SortedRow
{
	Datum		key;			/* an integer, relative to the least key; or abbreviated if possible */
	uint32		row;
} SortedRow;

static int
CompareRows(const void *a, const void *b, void *arg)
{
	const SortedRow *x = a;
	const SortedRow *y = b;
	KeySet	   *keys = arg;
	int			result = ApplySortComparator(x->key, false, y->key, false, &keys->order);

	return result != 0 || keys->order.abbrev_converter == NULL ? result :
		CompareKeys(keys, keys->values[x->row], keys->values[y->row]);
}

/* Sets the ranks of sorted rows.  Raises an error if two keys are equal. */
static void
SetRanks(KeySet *keys, const SortedRow *rows)
{
	for (uint32 i = 0; i < keys->count; i++)
	{
		CheckEveryRows(i);
		if (i > 0 && CompareRows(&rows[i - 1], &rows[i], keys) == 0)
			ReportDuplicate(keys, rows[i].row);
		keys->rank[rows[i].row] = i;
	}
}

/* Sorts rows by keys of any type. */
static void
SortByComparing(KeySet *keys, SortedRow *rows)
{
	for (uint32 i = 0; i < keys->count; i++)
	{
		CheckEveryRows(i);
		rows[i] = (SortedRow) {.key = keys->values[i],.row = i};
		if (keys->order.abbrev_converter != NULL)
			rows[i].key = keys->order.abbrev_converter(rows[i].key, &keys->order);
	}
	qsort_interruptible(rows, keys->count, sizeof(SortedRow), CompareRows, keys);
}

/* Sorts rows stably by the digit that starts at bit shift. */
static void
SortByDigit(const SortedRow *from, SortedRow *to, uint32 count, int shift)
{
	uint32		position[DIGIT_VALUES] = {0};
	uint32		sum = 0;

	for (uint32 i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		position[(from[i].key >> shift) % DIGIT_VALUES]++;
	}
	for (int digit = 0; digit < DIGIT_VALUES; digit++)
	{
		sum += position[digit];
		position[digit] = sum - position[digit];
	}
	for (uint32 i = 0; i < count; i++)
	{
		CheckEveryRows(i);
		to[position[(from[i].key >> shift) % DIGIT_VALUES]++] = from[i];
	}
}

/* Sorts rows by keys that are signed integers.  Returns them, in this array or in another one. */
static SortedRow *
SortIntegers(KeySet *keys, SortedRow *rows)
{
	SortedRow  *other = MemoryContextAllocHuge(CurrentMemoryContext,
											   (Size) keys->count * sizeof(SortedRow));
	SortedRow  *sorted;
	int64		least = (int64) keys->values[0];
	int64		largest = least;

	for (uint32 i = 0; i < keys->count; i++)
	{
		CheckEveryRows(i);
		least = Min(least, (int64) keys->values[i]);
		largest = Max(largest, (int64) keys->values[i]);
	}
	for (uint32 i = 0; i < keys->count; i++)
	{
		CheckEveryRows(i);
		rows[i] = (SortedRow) {.key = keys->values[i] - (Datum) least,.row = i};
	}
	for (int shift = 0; shift < 64 && ((uint64) largest - (uint64) least) >> shift != 0; shift += DIGIT_BITS)
	{
		SortByDigit(rows, other, keys->count, shift);
		sorted = other;
		other = rows;
		rows = sorted;
	}
	return rows;
}

void
KeySetFinish(KeySet *keys)
{
	MemoryContext sorting;
	MemoryContext old;
	SortedRow  *rows;

	if (keys->ascending || keys->rank != NULL)
		return;
	keys->rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(uint32));
	sorting = AllocSetContextCreate(keys->context, "fasted sorting", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(sorting);
	rows = MemoryContextAllocHuge(sorting, (Size) keys->count * sizeof(SortedRow));
	if (AreIntegers(keys))
		rows = SortIntegers(keys, rows);
	else
		SortByComparing(keys, rows);
	SetRanks(keys, rows);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(sorting);
}

const Datum *
KeySetInOrder(KeySet *keys)
{
	if (keys->rank == NULL)
		return keys->values;
	if (keys->by_rank == NULL)
	{
		keys->by_rank = MemoryContextAllocHuge(keys->context, (Size) keys->count * sizeof(Datum));
		for (uint32 i = 0; i < keys->count; i++)
		{
			CheckEveryRows(i);
			keys->by_rank[keys->rank[i]] = keys->values[i];
		}
	}
	return keys->by_rank;
}

uint32 *
KeySetSort(KeySet *keys)
{
	MemoryContext old = MemoryContextSwitchTo(keys->context);
	uint32	   *places;

	KeySetFinish(keys);
	places = keys->rank == NULL ? OwnRowNumbers(keys->count) :
		RowsOfNumbers(keys->rank, keys->count);
	MemoryContextSwitchTo(old);
	if (keys->rank == NULL)
		return places;
	(void) KeySetInOrder(keys);
	pfree(keys->values);
	pfree(keys->rank);
	keys->values = keys->by_rank;
	keys->capacity = keys->count;
	keys->by_rank = NULL;
	keys->rank = NULL;
	keys->ascending = true;
	return places;
}
