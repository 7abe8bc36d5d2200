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
#include "functions/clustering.h"
#include "functions/pair_store.h"
#include "utils/memutils.h"

/* Pairs of each run of the file that are read at a time, at least. */
#define MIN_RUN_PAIRS 256

typedef struct KeepOneRun
{
	Clustering	base;
	const uint32 *rank;			/* by row number; NULL: a row's rank is its number */
	const uint32 *row_of_rank;	/* the inverse of rank, or NULL like that */
	PairStore	store;			/* pairs of ranks, a < b */

	/* by rank */
	uint32	   *first_copy;		/* the lowest rank of its copies, maybe its own; NULL: unknown */
	uint32	   *representative; /* rank of the row's representative, maybe the row itself */
	double	   *dist;			/* distance to the representative, if that is another row */
} KeepOneRun;

/* TupleCallback: adds the key in the slot to the KeySet. */
static bool
TakeKey(void *keys, TupleTableSlot *slot)
{
	CheckEveryRows(((KeySet *) keys)->count);
	slot_getallattrs(slot);
	if (!slot->tts_isnull[KEY_COLUMN])
		KeySetAdd(keys, &slot->tts_values[KEY_COLUMN], 1);
	return true;
}

/* Reads the keys in the order of ranks, and finds each one's row: both have the same place in key order. */
static void
ReadRanks(KeepOneRun *keep_one)
{
	const Clustering *run = &keep_one->base;
	KeySet	   *order = KeySetCreate(run->ordered);
	uint32	   *row_of_rank = AllocRowNumbers(run->count);

	RunPlan(run->ordered, PlanQuery(run->ordered, MakeOrderQuery(run->ordered), CURSOR_OPT_PARALLEL_OK),
			TakeKey, order);
	if (order->count != run->count)
		elog(ERROR, "expected the order of %u rows, got %u", run->count, order->count);
	KeySetFinish(order);
	for (uint32 rank = 0; rank < run->count; rank++)
	{
		CheckEveryRows(rank);
		row_of_rank[rank] = NumberOfRow(run->by_id, NumberOfRow(order->rank, rank));
	}
	MemoryContextDelete(order->context);
	keep_one->row_of_rank = row_of_rank;
	keep_one->rank = RowsOfNumbers(row_of_rank, run->count);
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
	const uint32 *order = run->base.join->order;

	if (run->ordered != NULL)
		ReadRanks(keep_one);
	else if (source->order_column == NULL)
	{
		keep_one->rank = run->keys->rank;
		keep_one->row_of_rank = run->by_id;
	}
	else
	{
		keep_one->rank = order;
		keep_one->row_of_rank = order == NULL ? NULL : RowsOfNumbers(order, run->count);
	}
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
		CheckEveryRows(row);
		lowest[copy_of[row]] = Min(lowest[copy_of[row]], NumberOfRow(rank, row));
	}
	for (uint32 row = 0; row < nrows; row++)
	{
		CheckEveryRows(row);
		keep_one->first_copy[NumberOfRow(rank, row)] = lowest[copy_of[row]];
	}
	pfree(lowest);
}

static void
Begin(Clustering *run)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;

	PairStoreInit(&keep_one->store, true);
	FindFirstCopies(keep_one);
}

/* Sorts the pairs in memory, and notes how much memory they take. */
static void
SortPairs(KeepOneRun *keep_one)
{
	PairStoreSort(&keep_one->store);
	keep_one->base.other_bytes = 2 * keep_one->store.scratch_count * sizeof(FastedPair);
}

/* Sorts the pairs in memory and appends them to the file as a run of max_count pairs. */
static void
WriteRun(KeepOneRun *keep_one)
{
	SortPairs(keep_one);
	PairStoreWrite(&keep_one->store);
}

static void
Take(Clustering *run, const FastedPair *pairs, size_t npairs)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	const uint32 *rank = keep_one->rank;
	const uint32 *first = keep_one->first_copy;

	for (size_t i = 0; i < npairs; i++)
	{
		uint32		a = NumberOfRow(rank, pairs[i].a);
		uint32		b = NumberOfRow(rank, pairs[i].b);
		FastedPair	pair = {.a = Min(a, b),.b = Max(a, b),.dist = pairs[i].dist};

		if (first != NULL && first[pair.a] == first[pair.b] && first[pair.a] < pair.a)
			continue;
		if (PairStoreIsFull(&keep_one->store))
			WriteRun(keep_one);
		PairStoreAdd(&keep_one->store, pair);
	}
}

/* --- after the last pair */

/* Sorts the pairs in memory by b and processes them; it is known whether a is a representative. */
static void
UsePairs(KeepOneRun *keep_one)
{
	uint32	   *representative = keep_one->representative;
	double	   *dist = keep_one->dist;

	SortPairs(keep_one);
	for (size_t i = 0; i < keep_one->store.count; i++)
	{
		const FastedPair *pair = &keep_one->store.pairs[i];
		uint32		a = pair->a;
		uint32		b = pair->b;

		CheckEveryRows(i);
		if (representative[a] == a &&
			(representative[b] == b || pair->dist < dist[b] ||
			 (pair->dist == dist[b] && a < representative[b])))
		{
			representative[b] = a;
			dist[b] = pair->dist;
		}
	}
}

/* A sorted run of the file. */
typedef struct PairRun
{
	uint64		next;			/* number of its next pair in the file */
	uint64		end;
	uint32		low;			/* no b that it still has is less */
	size_t		nread;			/* pairs that were read */
} PairRun;

/*
 * Takes the next pairs of the runs into memory: from each run up to `most` pairs, those whose b is at most
 * the last b read from any run that may have more.  So no pair with a smaller b remains in the file.  A
 * run whose pairs come later is not read.  Returns false if there are no more pairs.
 */
static bool
TakeFromRuns(PairStore *store, PairRun *runs, size_t nruns, size_t most)
{
	uint32		last = PG_UINT32_MAX;
	size_t		nread = 0;
	size_t		i = 0;

	for (PairRun *run = runs; run < runs + nruns; run++)
	{
		run->nread = run->low > last ? 0 : Min(most, run->end - run->next);
		if (run->nread == 0)
			continue;
		PairStoreRead(store, run->next, run->nread, nread);
		nread += run->nread;
		if (run->nread == most)
			last = Min(last, store->pairs[nread - 1].b);
	}
	store->count = 0;
	for (PairRun *run = runs; run < runs + nruns; run++)
	{
		size_t		end = i + run->nread;

		for (; i < end && (run->low = store->pairs[i].b) <= last; i++)
		{
			CheckEveryRows(i);
			store->pairs[store->count++] = store->pairs[i];
			run->next++;
		}
		i = end;
	}
	return nread > 0;
}

/* Writes the pairs in memory as a last run, and processes those of all runs in the order of b. */
static void
UseFile(KeepOneRun *keep_one)
{
	PairStore  *store = &keep_one->store;
	size_t		nruns = store->spilled / store->max_count + 1;
	size_t		most = Max(store->max_count / nruns, MIN_RUN_PAIRS);
	PairRun    *runs = palloc0(nruns * sizeof(PairRun));

	WriteRun(keep_one);
	keep_one->base.base.totals.spilled_pairs = store->spilled;
	store->pairs = repalloc_huge(store->pairs, nruns * most * sizeof(FastedPair));
	for (size_t run = 0; run < nruns; run++)
	{
		runs[run].next = run * store->max_count;
		runs[run].end = Min(runs[run].next + store->max_count, store->spilled);
	}
	while (TakeFromRuns(store, runs, nruns, most))
		UsePairs(keep_one);
	pfree(runs);
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
	else
		UsePairs(keep_one);
	PairStoreEnd(&keep_one->store);
}

static void
Result(Clustering *run, uint32 row, Datum *values, bool *nulls)
{
	KeepOneRun *keep_one = (KeepOneRun *) run;
	uint32		rank = NumberOfRow(keep_one->rank, row);
	uint32		representative_row = NumberOfRow(keep_one->row_of_rank, keep_one->representative[rank]);

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

	run->order_column = NameArgument(&base->call, CLUSTERING_AFTER_EPS);
	run->descending = DatumGetBool(base->call.args[CLUSTERING_AFTER_EPS + 1].value);
	OpenClustering(run, &keep_one_methods);
}

const FunctionDescriptor keep_one_function = {
	CLUSTERING_DESCRIPTOR(3),
	.eps = CLUSTERING_EPS,
	.name = "fasted_keep_one",
	.window = "fasted_keep",
	.arguments = {
		CLUSTERING_ARGUMENTS, {"eps", true, "Eps"},
		{"priority_column", false, "Priority Column"},
		{"descending", true, "Descending"},
		CLUSTERING_LAST_ARGUMENTS
	},
	.ncolumns = 3,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID},
	.run_size = sizeof(KeepOneRun),
	.begin = BeginKeepOne
};
