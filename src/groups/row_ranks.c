/*-------------------------------------------------------------------------
 *
 * row_ranks.c
 *	  Keys come in order, and a hash table knows their rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "groups/row_ranks.h"
#include "rows/reader.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/* Bytes of the table that are cleared between two looks for interrupts. */
#define BYTES_PER_CHECK ((Size) 1024 * 1024)

typedef struct RowEntry
{
	Datum		key;
	uint32		row;
	uint32		hash;
	char		status;
} RowEntry;

typedef struct KeyHash
{
	const KeySet *keys;
	FmgrInfo   *function;		/* the type's own, for keys by reference */
} KeyHash;

static uint32
HashKey(const KeyHash *hash, Datum key)
{
	if (hash->keys->typbyval)
		return murmurhash32((uint32) (key ^ (uint64) key >> 32));
	return DatumGetUInt32(FunctionCall1Coll(hash->function, hash->keys->source->key_collation, key));
}

static bool
SameKey(const KeyHash *hash, Datum a, Datum b)
{
	if (hash->keys->typbyval && a == b)
		return true;
	return ApplySortComparator(a, false, b, false, (SortSupport) &hash->keys->order) == 0;
}

#define SH_PREFIX rows
#define SH_ELEMENT_TYPE RowEntry
#define SH_KEY_TYPE Datum
#define SH_KEY key
#define SH_HASH_KEY(table, key) HashKey((table)->private_data, key)
#define SH_EQUAL(table, a, b) SameKey((table)->private_data, a, b)
#define SH_STORE_HASH
#define SH_USE_NONDEFAULT_ALLOCATOR
#define SH_GET_HASH(table, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Zeros, of which there are gigabytes where there are a hundred million rows. */
static inline void *
rows_allocate(rows_hash *table, Size size)
{
	char	   *memory = MemoryContextAllocHuge(table->ctx, size);

	for (Size first = 0; first < size; first += BYTES_PER_CHECK)
	{
		CheckJoinInterrupts();
		memset(memory + first, 0, Min(BYTES_PER_CHECK, size - first));
	}
	return memory;
}

static inline void
rows_free(rows_hash *table, void *memory)
{
	pfree(memory);
}

typedef struct RankTaker
{
	rows_hash  *table;
	RowRanks	ranks;
	uint32		count;			/* rows ranked so far */
	uint32		most;
} RankTaker;

static rows_hash *
HashRows(const GroupRows *rows, KeyHash *hash)
{
	rows_hash  *table = rows_create(CurrentMemoryContext, rows->count, hash);

	for (uint32 row = 0; row < rows->count; row++)
	{
		bool		found;

		if (row % GROUP_STRIDE == 0)
			CheckJoinInterrupts();
		rows_insert(table, rows->keys->values[row], &found)->row = row;
	}
	return table;
}

static void
TakeKey(void *arg, Datum key)
{
	RankTaker  *taker = arg;
	RowEntry   *entry = rows_lookup(taker->table, key);

	if (taker->count % GROUP_STRIDE == 0)
		CheckJoinInterrupts();
	if (entry == NULL || taker->count == taker->most)
		elog(ERROR, "a row is there that was not joined");
	taker->ranks.rank[entry->row] = taker->count;
	taker->ranks.row[taker->count++] = entry->row;
}

RowRanks
ReadRowRanks(const GroupRows *rows)
{
	KeyHash		hash = {.keys = rows->keys};
	RankTaker	taker = {.most = rows->count};

	hash.function = &lookup_type_cache(rows->keys->source->key_type,
									   TYPECACHE_HASH_PROC_FINFO)->hash_proc_finfo;
	taker.ranks.rank = AllocRowNumbers(rows->count);
	taker.ranks.row = AllocRowNumbers(rows->count);
	taker.table = HashRows(rows, &hash);
	ReadOrder(rows->keys->source, TakeKey, &taker);
	rows_destroy(taker.table);
	if (taker.count != rows->count)
		elog(ERROR, "of %u joined rows %u have a rank", rows->count, taker.count);
	return taker.ranks;
}
