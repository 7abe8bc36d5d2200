/*-------------------------------------------------------------------------
 *
 * keep_one.c
 *	  fasted_keep_one: representatives, so that every row is within eps of one of them.
 *
 * Rows are processed in the order of their ranks.  A row becomes a representative unless an
 * earlier representative is within eps.  The representatives are the lexicographically first
 * maximal independent set of the graph whose edges are the pairs within eps.  Any other row is
 * assigned to its nearest earlier representative; of several at the same distance, to the
 * one with the lowest rank.  Ranks follow the priority column if there is one, else the ids.
 *
 * All pairs are sorted by their later row, and processed in one pass in that order.
 * When the pairs of a row are processed, all pairs among earlier rows have been processed.  So it
 * is known which of these are representatives.  A single pass suffices, so a long chain of near
 * rows (such as a time series) costs no more than other data.
 *
 * Many copies of a row have very many pairs.  Of these, a copy's pair with the first copy suffices:
 * later ones are within eps of the same rows and of the first one, and so are no representatives.
 *
 * A stored pair takes 16 bytes with its distance.  8 bytes would suffice without the distance, but
 * then the vectors would have to remain in memory, or be read again, to compute the distances.
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
#include "miscadmin.h"
#include "rows/reader.h"
#include "utils/memutils.h"

typedef struct KeepOneRun
{
	Clustering	base;
	const uint32 *rank;			/* by row number; NULL: a row's rank is its number */
	const uint32 *row_of_rank;	/* the inverse of rank */
	PairStore	store;			/* pairs of ranks, a < b */
	PairMemory *scratch;		/* for sorting */

	/* by rank */
	uint32	   *first_copy;		/* the lowest rank of its copies, maybe its own; NULL: unknown */
	uint32	   *representative; /* rank of the row's representative, maybe the row itself */
	double	   *dist;			/* distance to the representative, if that is another row */
} KeepOneRun;

/* --- ranks from a separate query for the keys in the source's order; a hash table maps to rows */

/* Bytes of the hash table that are cleared between two checks for interrupts. */
#define BYTES_PER_CHECK ((Size) 64 * 1024)

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

/* Allocates zeroed memory, with checks for interrupts since it may be gigabytes. */
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
	uint32		most;			/* number of joined rows */
} RankTaker;

/* Builds the hash table of all rows by their keys. */
static rows_hash *
HashRows(const Clustering *run)
{
	rows_hash  *table = rows_create(CurrentMemoryContext, run->count, NULL);

	for (uint32 row = 0; row < run->count; row++)
	{
		bool		found;

		if (row % CLUSTERING_STRIDE == 0)
			CheckJoinInterrupts();
		rows_insert(table, DatumGetInt64(run->keys->values[row]), &found)->row = row;
	}
	return table;
}

/*
 * Callback of ReadOrder: assigns the next rank to the row with this key.  A row whose vector a cast
 * has converted to null is not among the joined rows.
 */
static void
TakeKey(void *arg, Datum key)
{
	RankTaker  *taker = arg;
	RowEntry   *entry = rows_lookup(taker->table, DatumGetInt64(key));

	if (taker->count % CLUSTERING_STRIDE == 0)
		CheckJoinInterrupts();
	if (entry == NULL)
		return;
	if (taker->count == taker->most)
		elog(ERROR, "unexpected key while reading the order of joined rows");
	taker->rank[entry->row] = taker->count;
	taker->row_of_rank[taker->count++] = entry->row;
}

static void
ReadRanks(KeepOneRun *keep_one)
{
	const Clustering *run = &keep_one->base;
	RankTaker	taker = {.most = run->count};

	keep_one->rank = taker.rank = AllocRowNumbers(run->count);
	keep_one->row_of_rank = taker.row_of_rank = AllocRowNumbers(run->count);
	taker.table = HashRows(run);
	ReadOrder(run->keys->source, TakeKey, &taker);
	rows_destroy(taker.table);
	if (taker.count != run->count)
		elog(ERROR, "expected ranks of %u joined rows, got %u", run->count, taker.count);
}

/*
 * ClusteringMethods.rank: ranks for the engine, which then returns few pairs.  Sets rank and
 * row_of_rank, unless rows were read in the order of ranks.
 */
static const uint32 *
Rank(Clustering *run)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	const VectorSource *source = run->keys->source;

	if (source->order_column == NULL)
	{
		keep_one->rank = run->keys->rank;
		keep_one->row_of_rank = run->by_id;
	}
	else if (run->order != NULL)
	{
		keep_one->rank = run->order;
		keep_one->row_of_rank = RowsOfNumbers(run->order, run->count);
	}
	else if (!RowsComeInOrder(source))
		ReadRanks(keep_one);
	return keep_one->rank;
}

/* Finds the lowest rank of each row's copies, if the join knows copies. */
static void
FindFirstCopies(KeepOneRun *keep_one)
{
	const uint32 *copy_of = keep_one->base.base.join->copy_of;
	const uint32 *rank = keep_one->rank;
	uint32		nrows = keep_one->base.count;
	uint32	   *lowest;			/* by row, of those that are another one's copy_of */

	if (copy_of == NULL)
		return;
	lowest = SameRowNumbers(nrows, PG_UINT32_MAX);
	keep_one->first_copy = AllocRowNumbers(nrows);
	for (uint32 row = 0; row < nrows; row++)
	{
		if (row % CLUSTERING_STRIDE == 0)
			CheckJoinInterrupts();
		lowest[copy_of[row]] = Min(lowest[copy_of[row]], rank == NULL ? row : rank[row]);
	}
	for (uint32 row = 0; row < nrows; row++)
	{
		if (row % CLUSTERING_STRIDE == 0)
			CheckJoinInterrupts();
		keep_one->first_copy[rank == NULL ? row : rank[row]] = lowest[copy_of[row]];
	}
	pfree(lowest);
}

static void
Begin(Clustering *run)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;

	PairStoreInit(&keep_one->store, 2);
	keep_one->scratch = PairMemoryCreate();
	FindFirstCopies(keep_one);
}

/* Sorts the pairs in memory and returns the sorted array. */
static const FastedPair *
SortPairs(KeepOneRun *keep_one)
{
	PairStore  *store = &keep_one->store;

	if (keep_one->scratch->capacity < store->count)
	{
		PairMemoryGrow(keep_one->scratch, store->count);
		/* sorting writes to all pages at random, which would delay checks for interrupts */
		PairMemoryTouch(keep_one->scratch);
	}
	keep_one->base.other_bytes = PairMemoryBytes(store->memory) + PairMemoryBytes(keep_one->scratch);
	return SortBySecond(store->memory->pairs, keep_one->scratch->pairs, store->count,
						keep_one->base.count);
}

/* Sorts the pairs in memory and appends them to the file as a run. */
static void
WriteRun(KeepOneRun *keep_one)
{
	PairStoreWrite(&keep_one->store, SortPairs(keep_one), keep_one->store.count);
	keep_one->store.count = 0;
}

static void
Take(Clustering *run, const FastedPair *pairs, size_t npairs)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	const uint32 *rank = keep_one->rank;
	const uint32 *first = keep_one->first_copy;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = rank == NULL ? pairs[i].a : rank[pairs[i].a];
		uint32		b = rank == NULL ? pairs[i].b : rank[pairs[i].b];
		FastedPair	pair = {.a = Min(a, b),.b = Max(a, b),.dist = pairs[i].dist};

		if (first != NULL && first[pair.a] == first[pair.b] && first[pair.a] < pair.a)
			continue;
		if (PairStoreIsFull(&keep_one->store))
			WriteRun(keep_one);
		PairStoreAdd(&keep_one->store, pair);
	}
}

/* --- after the last pair */

/* Processes pairs in the order of b; it is known whether a is a representative. */
static void
UsePairs(KeepOneRun *keep_one, const FastedPair *pairs, size_t npairs)
{
	uint32	   *representative = keep_one->representative;
	double	   *dist = keep_one->dist;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = pairs[i].a;
		uint32		b = pairs[i].b;

		if (representative[a] == a &&
			(representative[b] == b || pairs[i].dist < dist[b] ||
			 (pairs[i].dist == dist[b] && a < representative[b])))
		{
			representative[b] = a;
			dist[b] = pairs[i].dist;
		}
	}
}

/* Processes all pairs if none is in the file. */
static void
UseMemory(KeepOneRun *keep_one)
{
	const FastedPair *pairs = SortPairs(keep_one);
	size_t		count = keep_one->store.count;

	for (size_t first = 0; first < count; first += CLUSTERING_STRIDE)
	{
		CheckJoinInterrupts();
		UsePairs(keep_one, pairs + first, Min(CLUSTERING_STRIDE, count - first));
	}
}

/* Writes the pairs in memory as a last run, and processes the merged runs of the file. */
static void
UseFile(KeepOneRun *keep_one)
{
	PairStore  *store = &keep_one->store;
	size_t		run_pairs = store->max_count;
	const FastedPair *pairs;
	PairMerge  *merge;
	size_t		npairs;

	if (store->count > 0)
		WriteRun(keep_one);
	keep_one->base.base.totals.spilled_pairs = store->spilled;
	PairMemoryFree(store->memory);
	PairMemoryFree(keep_one->scratch);
	merge = PairMergeBegin(store, run_pairs);
	while ((npairs = PairMergeNext(merge, &pairs)) > 0)
	{
		/* calls of CheckJoinInterrupts while the file is read suffice for the connection */
		CHECK_FOR_INTERRUPTS();
		UsePairs(keep_one, pairs, npairs);
	}
	PairMergeEnd(merge);
}

static void
Finish(Clustering *run)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	uint32		nrows = keep_one->base.count;

	keep_one->representative = OwnRowNumbers(nrows);
	keep_one->dist = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nrows * sizeof(double));

	if (keep_one->store.spilled > 0)
		UseFile(keep_one);
	else if (keep_one->store.count > 0)
		UseMemory(keep_one);
	PairStoreEnd(&keep_one->store);
	PairMemoryFree(keep_one->scratch);
}

static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	uint32		rank = keep_one->rank == NULL ? row : keep_one->rank[row];
	uint32		representative = keep_one->representative[rank];
	uint32		representative_row = keep_one->rank == NULL ? representative :
		keep_one->row_of_rank[representative];

	values[1] = run->keys->values[representative_row];
	values[2] = Float8GetDatum(representative_row == row ? 0.0 : keep_one->dist[rank]);
}

static const ClusteringMethods keep_one_methods = {
	.output = FASTED_OUTPUT_REPRESENTATIVES,
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
	OpenClustering(run, &keep_one_methods);
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
	.run_size = sizeof(KeepOneRun),
	.begin = BeginKeepOne
};
