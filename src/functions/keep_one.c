/*-------------------------------------------------------------------------
 *
 * keep_one.c
 *	  fasted_keep_one: one row of each group of near ones, the first by rank.
 *
 * In order of rank, a row is kept unless one that is kept is within eps: the
 * lexicographically first maximal independent set of the graph of near rows.  A row
 * that is not kept goes to the nearest kept row before it, of those at the same
 * distance to the first.  The rank of a row is by its source's order, where there is a
 * priority, else by its id.
 *
 * All pairs are sorted by the later row, and then there is one pass over them in order.
 * When the pairs of a later row come, each earlier row has been settled, since
 * its own pairs with still earlier rows came before.  That needs no rounds, so a long
 * chain of rows (a walk in the order of time) costs no more than others.
 *
 * Each pair keeps its distance, in 16 bytes altogether.  Without it 8 would do, but
 * then the vectors would have to stay in memory until rows are dropped, in place of
 * the pairs, or be read once more.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/interrupts.h"
#include "base/row_numbers.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "functions/clustering.h"
#include "functions/pair_store.h"
#include "rows/reader.h"
#include "utils/memutils.h"

typedef struct Keepers
{
	Clustering	base;
	const uint32 *rank;			/* by row number; NULL: is the number */
	const uint32 *row_of_rank;
	bool		ranked;			/* the engine got ranks */
	PairStore	store;			/* pairs of ranks, a < b */
	PairMemory *scratch;		/* for sorting */

	/* by rank */
	uint32	   *keeper;			/* the rank of a kept row, maybe the row itself */
	double	   *dist;			/* to it, where it is another one */
} Keepers;

/* --- ranks by an order that is read apart: keys come in order, and a hash table knows their rows */

/* Bytes of the table that are cleared between two looks for interrupts. */
#define BYTES_PER_CHECK ((Size) 1024 * 1024)

typedef struct RowEntry
{
	int64		key;
	uint32		row;
	uint32		hash;
	char		status;
} RowEntry;

#define SH_PREFIX rows
#define SH_ELEMENT_TYPE RowEntry
#define SH_KEY_TYPE int64
#define SH_KEY key
#define SH_HASH_KEY(table, key) murmurhash32((uint32) ((key) ^ (uint64) (key) >> 32))
#define SH_EQUAL(table, a, b) ((a) == (b))
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
	uint32	   *rank;			/* by row number */
	uint32	   *row_of_rank;
	uint32		count;			/* rows ranked so far */
	uint32		most;
} RankTaker;

static rows_hash *
HashRows(const Clustering *run)
{
	rows_hash  *table = rows_create(CurrentMemoryContext, run->count, NULL);

	for (uint32 row = 0; row < run->count; row++)
	{
		bool		found;

		if (row % GROUP_STRIDE == 0)
			CheckJoinInterrupts();
		rows_insert(table, DatumGetInt64(run->keys->values[row]), &found)->row = row;
	}
	return table;
}

static void
TakeKey(void *arg, Datum key)
{
	RankTaker  *taker = arg;
	RowEntry   *entry = rows_lookup(taker->table, DatumGetInt64(key));

	if (taker->count % GROUP_STRIDE == 0)
		CheckJoinInterrupts();
	if (entry == NULL || taker->count == taker->most)
		elog(ERROR, "a row is there that was not joined");
	taker->rank[entry->row] = taker->count;
	taker->row_of_rank[taker->count++] = entry->row;
}

static void
ReadRanks(Keepers *keepers)
{
	const Clustering *run = &keepers->base;
	RankTaker	taker = {.most = run->count};

	keepers->rank = taker.rank = AllocRowNumbers(run->count);
	keepers->row_of_rank = taker.row_of_rank = AllocRowNumbers(run->count);
	taker.table = HashRows(run);
	ReadOrder(run->keys->source, TakeKey, &taker);
	rows_destroy(taker.table);
	if (taker.count != run->count)
		elog(ERROR, "of %u joined rows %u have a rank", run->count, taker.count);
}

static void
FindRanks(Keepers *keepers)
{
	const Clustering *run = &keepers->base;
	const VectorSource *source = run->keys->source;

	if (source->order_column == NULL)
	{
		keepers->rank = run->keys->rank;
		keepers->row_of_rank = run->by_id;
	}
	else if (run->order != NULL)
	{
		keepers->rank = run->order;
		keepers->row_of_rank = RowsOfNumbers(run->order, run->count);
	}
	else if (!RowsComeInOrder(source))
		ReadRanks(keepers);
}

/* For the engine, which then hands out few pairs. */
static const uint32 *
Rank(Clustering *run)
{
	Keepers    *keepers = (Keepers *) run;

	FindRanks(keepers);
	keepers->ranked = true;
	return keepers->rank;
}

static void
Begin(Clustering *run)
{
	Keepers    *keepers = (Keepers *) run;

	/* where another engine took over, the rows may have come in another order */
	if (!keepers->ranked || !run->reduced)
		FindRanks(keepers);
	PairStoreInit(&keepers->store, 2);
	keepers->scratch = PairMemoryCreate();
}

/* Sorts the pairs in memory; returns where they are. */
static const FastedPair *
SortPairs(Keepers *keepers)
{
	PairStore  *store = &keepers->store;

	if (keepers->scratch->room < store->count)
	{
		PairMemoryGrow(keepers->scratch, store->count);
		/* pairs go there in no order: all of it would be made between two looks for interrupts */
		PairMemoryTouch(keepers->scratch);
	}
	keepers->base.pair_bytes = PairMemoryBytes(store->memory) + PairMemoryBytes(keepers->scratch);
	return SortBySecond(store->memory->pairs, keepers->scratch->pairs, store->count,
						keepers->base.count);
}

static void
WriteRun(Keepers *keepers)
{
	PairStoreWrite(&keepers->store, SortPairs(keepers), keepers->store.count);
	keepers->store.count = 0;
}

static void
Take(Clustering *run, const FastedPair *pairs, size_t npairs)
{
	Keepers    *keepers = (Keepers *) run;
	const uint32 *rank = keepers->rank;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = rank == NULL ? pairs[i].a : rank[pairs[i].a];
		uint32		b = rank == NULL ? pairs[i].b : rank[pairs[i].b];
		FastedPair	pair = {.a = Min(a, b),.b = Max(a, b),.dist = pairs[i].dist};

		if (PairStoreIsFull(&keepers->store))
			WriteRun(keepers);
		PairStoreAdd(&keepers->store, pair);
	}
}

/* --- all pairs have come */

/* Pairs in order of b: whether a is kept is known. */
static void
UsePairs(Keepers *keepers, const FastedPair *pairs, size_t npairs)
{
	uint32	   *keeper = keepers->keeper;
	double	   *dist = keepers->dist;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = pairs[i].a;
		uint32		b = pairs[i].b;

		if (keeper[a] == a &&
			(keeper[b] == b || pairs[i].dist < dist[b] ||
			 (pairs[i].dist == dist[b] && a < keeper[b])))
		{
			keeper[b] = a;
			dist[b] = pairs[i].dist;
		}
	}
}

static void
UseMemory(Keepers *keepers)
{
	const FastedPair *pairs = SortPairs(keepers);
	size_t		count = keepers->store.count;

	for (size_t first = 0; first < count; first += GROUP_STRIDE)
	{
		CheckJoinInterrupts();
		UsePairs(keepers, pairs + first, Min(GROUP_STRIDE, count - first));
	}
}

static void
UseFile(Keepers *keepers)
{
	PairStore  *store = &keepers->store;
	size_t		run_pairs = store->most;
	const FastedPair *pairs;
	PairMerge  *merge;
	size_t		npairs;
	size_t		unchecked = 0;

	if (store->count > 0)
		WriteRun(keepers);
	keepers->base.base.totals.filed_pairs = store->filed;
	PairMemoryFree(store->memory);
	PairMemoryFree(keepers->scratch);
	merge = PairMergeBegin(store, run_pairs);
	while ((npairs = PairMergeNext(merge, &pairs)) > 0)
	{
		UsePairs(keepers, pairs, npairs);
		unchecked += npairs;
		if (unchecked >= GROUP_STRIDE)
		{
			CheckJoinInterrupts();
			unchecked = 0;
		}
	}
	PairMergeEnd(merge);
}

static void
Finish(Clustering *run)
{
	Keepers    *keepers = (Keepers *) run;
	uint32		nrows = keepers->base.count;

	keepers->keeper = OwnRowNumbers(nrows);
	keepers->dist = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nrows * sizeof(double));

	if (keepers->store.filed > 0)
		UseFile(keepers);
	else if (keepers->store.count > 0)
		UseMemory(keepers);
	PairStoreEnd(&keepers->store);
	PairMemoryFree(keepers->scratch);
}

static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	Keepers    *keepers = (Keepers *) run;
	uint32		rank = keepers->rank == NULL ? row : keepers->rank[row];
	uint32		keeper = keepers->keeper[rank];
	uint32		kept = keepers->rank == NULL ? keeper : keepers->row_of_rank[keeper];

	values[1] = run->keys->values[kept];
	values[2] = Float8GetDatum(kept == row ? 0.0 : keepers->dist[rank]);
}

static const ClusteringMethods keep_one_methods = {
	.output = FASTED_OUTPUT_KEEPERS,
	.rank = Rank,
	.begin = Begin,
	.take = Take,
	.finish = Finish,
	.result = Result
};

static void
BeginKeepOne(FunctionRun *base)
{
	Clustering *run = (Clustering *) base;

	run->order_column = NameArgument(&base->call, CLUSTERING_OWN);
	run->descending = DatumGetBool(base->call.args[CLUSTERING_OWN + 1].value);
	RunClustering(run, &keep_one_methods);
}

const FunctionDescriptor keep_one_function = {
	CLUSTERING_DESCRIPTOR(2),
	.name = "fasted_keep_one",
	.window = "fasted_keep",
	.arguments = {
		CLUSTERING_ARGUMENTS,
		{"priority_column", false, "Priority Column"},
		{"descending", true, "Descending"},
		CLUSTERING_LAST_ARGUMENTS
	},
	.ncolumns = 3,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID},
	.run_size = sizeof(Keepers),
	.begin = BeginKeepOne
};
