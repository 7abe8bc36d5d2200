/*-------------------------------------------------------------------------
 *
 * group_numbers.c
 *	  A hash table of values, by their type's own equality; or a sorted array of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "rows/source.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

typedef struct GroupEntry
{
	Datum		value;
	uint32		number;
	uint32		hash;
	char		status;
} GroupEntry;

struct values_hash;

struct GroupNumbers
{
	MemoryContext context;
	TypeCacheEntry *type;
	Oid			collation;
	struct values_hash *table;	/* NULL: the type has no hash function */
	SortSupportData order;
	GroupEntry *sorted;			/* then: values in their order */
	uint32		room;
	uint32		count;
};

/* Of the table's own values. */
#define NUMBERS(table) ((GroupNumbers *) (table)->private_data)

#define SH_PREFIX values
#define SH_ELEMENT_TYPE GroupEntry
#define SH_KEY_TYPE Datum
#define SH_KEY value
#define SH_HASH_KEY(table, key) \
	DatumGetUInt32(FunctionCall1Coll(&NUMBERS(table)->type->hash_proc_finfo, \
									 NUMBERS(table)->collation, key))
#define SH_EQUAL(table, a, b) \
	DatumGetBool(FunctionCall2Coll(&NUMBERS(table)->type->eq_opr_finfo, \
								   NUMBERS(table)->collation, a, b))
#define SH_STORE_HASH
#define SH_GET_HASH(table, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

GroupNumbers *
GroupNumbersCreate(const VectorSource *source)
{
	GroupNumbers *numbers = palloc0(sizeof(GroupNumbers));

	numbers->context = CurrentMemoryContext;
	numbers->type = lookup_type_cache(source->group_type,
									  TYPECACHE_HASH_PROC_FINFO | TYPECACHE_EQ_OPR_FINFO);
	numbers->collation = source->group_collation;
	if (OidIsValid(numbers->type->hash_proc) && OidIsValid(numbers->type->eq_opr))
	{
		numbers->table = values_create(CurrentMemoryContext, 256, numbers);
		return numbers;
	}
	PrepareTypeOrder(source->group_type, source->group_collation, CurrentMemoryContext,
					 &numbers->order);
	numbers->room = 256;
	numbers->sorted = palloc(numbers->room * sizeof(GroupEntry));
	return numbers;
}

static Datum
CopyValue(const GroupNumbers *numbers, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(numbers->context);

	if (numbers->type->typlen == -1)
		value = PointerGetDatum(PG_DETOAST_DATUM_COPY(value));
	else
		value = datumCopy(value, numbers->type->typbyval, numbers->type->typlen);
	MemoryContextSwitchTo(old);
	return value;
}

static uint32
FindSorted(GroupNumbers *numbers, Datum value)
{
	uint32		low = 0;
	uint32		high = numbers->count;

	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;
		int			order = ApplySortComparator(numbers->sorted[middle].value, false, value, false,
												&numbers->order);

		if (order == 0)
			return numbers->sorted[middle].number;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (numbers->count == numbers->room)
	{
		numbers->room *= 2;
		numbers->sorted = repalloc_huge(numbers->sorted, (Size) numbers->room * sizeof(GroupEntry));
	}
	memmove(&numbers->sorted[low + 1], &numbers->sorted[low],
			(numbers->count - low) * sizeof(GroupEntry));
	numbers->sorted[low] = (GroupEntry) {.value = CopyValue(numbers, value),.number = numbers->count};
	return numbers->count++;
}

uint32
GroupNumberOf(GroupNumbers *numbers, Datum value)
{
	GroupEntry *entry;
	bool		found;

	if (numbers->table == NULL)
		return FindSorted(numbers, value);
	entry = values_insert(numbers->table, value, &found);
	if (!found)
	{
		entry->value = CopyValue(numbers, value);
		entry->number = numbers->count++;
	}
	return entry->number;
}

uint32
GroupNumbersCount(const GroupNumbers *numbers)
{
	return numbers->count;
}
