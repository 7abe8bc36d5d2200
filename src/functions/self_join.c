/*-------------------------------------------------------------------------
 *
 * self_join.c
 *	  fasted_self_join: converts pairs of row numbers to blocks of ids and distances.
 *
 * A row takes a few nanoseconds, most of them for the two ids, which are scattered
 * in memory.  So ids are looked up for a block of pairs at a time, one column
 * after the other, with many loads in flight.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "functions/function.h"
#include "miscadmin.h"

/* Ids are prefetched this number of rows before they are used. */
#define PREFETCH_DISTANCE 24

typedef struct SelfJoinRun
{
	FunctionRun base;
	const KeySet *keys;
	bool		ordered;		/* return both (a, b) and (b, a) */
	bool		self_pairs;		/* also return the pairs (a, a) */
	const FastedPair *pairs;	/* the rest of the engine's current batch */
	size_t		npairs;
	uint32		next_self_pair; /* row of the next pair (a, a) */
	uint32		next_zero;		/* index in the join's zeros */

	/* Pairs for the current block: a is the row of id_a, b of id_b. */
	FastedPair	chosen[OUTPUT_ROWS];
} SelfJoinRun;

/* --- blocks of rows */

/*
 * Chooses the pairs with the lower id first, and in reverse too if that is requested.  Sets their number;
 * returns the number of pairs of the batch that were used.
 */
static size_t
Choose(SelfJoinRun *run, uint32 *nchosen)
{
	const uint32 *rank = run->base.call.ids ? run->keys->rank : NULL;
	const FastedPair *pairs = run->pairs;
	FastedPair *chosen = run->chosen;
	size_t		most = run->ordered ? OUTPUT_ROWS / 2 : OUTPUT_ROWS;
	size_t		used = Min(run->npairs, most);
	uint32		n = 0;

	for (size_t i = 0; i < used; i++)
	{
		FastedPair	pair = pairs[i];

		if (rank != NULL)
		{
			if (i + PREFETCH_DISTANCE < used)
			{
				__builtin_prefetch(&rank[pairs[i + PREFETCH_DISTANCE].a]);
				__builtin_prefetch(&rank[pairs[i + PREFETCH_DISTANCE].b]);
			}
			if (rank[pair.a] > rank[pair.b])
			{
				pair.a = pairs[i].b;
				pair.b = pairs[i].a;
			}
		}
		chosen[n++] = pair;
		if (run->ordered)
			chosen[n++] = (FastedPair) {.a = pair.b,.b = pair.a,.dist = pair.dist};
	}
	*nchosen = n;
	return used;
}

/* Fills a column with the ids of the pairs' first or second rows. */
static pg_attribute_always_inline void
GatherIds(Datum *column, const Datum *ids, const FastedPair *pairs, uint32 n, bool second)
{
	uint32		ahead = n > PREFETCH_DISTANCE ? n - PREFETCH_DISTANCE : 0;
	uint32		i;

	for (i = 0; i < ahead; i++)
	{
		const FastedPair *later = &pairs[i + PREFETCH_DISTANCE];

		__builtin_prefetch(&ids[second ? later->b : later->a]);
		column[i] = ids[second ? pairs[i].b : pairs[i].a];
	}
	for (; i < n; i++)
		column[i] = ids[second ? pairs[i].b : pairs[i].a];
}

/* Fills the block with n pairs. */
static void
Translate(const SelfJoinRun *run, OutputBlock *block, const FastedPair *pairs, uint32 n)
{
	const Datum *ids = run->keys->values;

	block->nrows = n;
	if (run->base.call.ids)
	{
		GatherIds(block->values[COLUMN_ID_A - 1], ids, pairs, n, false);
		GatherIds(block->values[COLUMN_ID_B - 1], ids, pairs, n, true);
	}
	for (uint32 i = 0; i < n; i++)
		block->values[COLUMN_DIST - 1][i] = DistanceDatum(&pairs[i].dist);
}

/* Fills the block from the current batch.  Returns the number of pairs that were used. */
static size_t
FillWithPairs(SelfJoinRun *run, OutputBlock *block)
{
	uint32		nchosen;
	size_t		used;

	/* the common case: pairs are returned unchanged */
	if (!run->ordered && (!run->base.call.ids || run->keys->rank == NULL))
	{
		used = Min(run->npairs, OUTPUT_ROWS);
		Translate(run, block, run->pairs, used);
		return used;
	}
	used = Choose(run, &nchosen);
	Translate(run, block, run->chosen, nchosen);
	return used;
}

/* Returns true if the result includes the pairs (a, a) of this distance. */
static bool
HasSelfPairs(const SelfJoinRun *run, double dist)
{
	return run->self_pairs && dist <= run->base.call.eps;
}

/*
 * Returns the number of pairs (a, a) in the result.  The distance of a row to itself is 0, except
 * the Jaccard distance of a row without any bit, which is 1.  The join finds such rows.
 */
static uint64
CountSelfPairs(const SelfJoinRun *run)
{
	uint32		zeros = run->base.join->nzeros;

	return (HasSelfPairs(run, 0.0) ? run->keys->count - zeros : 0) +
		(HasSelfPairs(run, 1.0) ? zeros : 0);
}

static void
FillWithSelfPairs(SelfJoinRun *run, OutputBlock *block)
{
	const VectorJoin *join = run->base.join;
	bool		returned[] = {HasSelfPairs(run, 0.0), HasSelfPairs(run, 1.0)};
	uint32		n = 0;

	for (; run->next_self_pair < run->keys->count && n < OUTPUT_ROWS; run->next_self_pair++)
	{
		bool		zero = run->next_zero < join->nzeros &&
			join->zeros[run->next_zero] == run->next_self_pair;

		run->chosen[n].a = run->chosen[n].b = run->next_self_pair;
		run->chosen[n].dist = zero;
		n += returned[zero];
		run->next_zero += zero;
	}
	Translate(run, block, run->chosen, n);
}

/* Fills the block from the current batch, or else with self pairs.  It may remain empty. */
static void
FillBlock(SelfJoinRun *run, OutputBlock *block)
{
	instr_time	begin = RunClock();

	if (run->npairs > 0)
	{
		size_t		used = FillWithPairs(run, block);

		run->pairs += used;
		run->npairs -= used;
	}
	else
		FillWithSelfPairs(run, block);
	run->base.totals.output_seconds += SecondsSince(begin);
}

/* --- the run */

/* If eps is null, there is no join, and the result is empty. */
static void
BeginSelfJoin(FunctionRun *base)
{
	SelfJoinRun *run = (SelfJoinRun *) base;
	const FunctionCall *call = &base->call;
	VectorSource *source = ResolveCallSource(call, 0, call->sources[0].id_column);
	JoinRequest request = {
		.problem.eps = call->eps,.problem.output = call->count ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS,
		.notices = true
	};

	if (call->partition_by != NULL)
		PartitionSource(source, call->partition_by);
	run->ordered = DatumGetBool(call->args[SELF_JOIN_ORDERED].value);
	run->self_pairs = DatumGetBool(call->args[SELF_JOIN_SELF_PAIRS].value);
	request.finds_zeros = run->self_pairs && fasted_metric_rules(call->metric)->of_union;
	if (run->self_pairs && fasted_metric_rules(call->metric)->negative_product)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("self_pairs is not supported for metric \"inner_product\""),
				 errdetail("The inner product of a row with itself is not zero, and may be below the limit.")));
	if (isnan(call->eps))
		return;
	request.sources[0] = source;
	base->join = JoinBegin(&request);
	run->keys = base->join->keys[0];
}

static bool
FillSelfJoin(FunctionRun *base, OutputBlock *block)
{
	SelfJoinRun *run = (SelfJoinRun *) base;

	if (base->join == NULL)
		return false;
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (run->npairs == 0 && !NextPairs(base, &run->pairs, &run->npairs) &&
			(CountSelfPairs(run) == 0 || run->next_self_pair == run->keys->count))
			return false;
		FillBlock(run, block);
	} while (block->nrows == 0);
	return true;
}

static uint64
CountSelfJoin(FunctionRun *base)
{
	SelfJoinRun *run = (SelfJoinRun *) base;
	instr_time	begin = RunClock();
	uint64		count;

	if (base->join == NULL)
		return 0;
	count = JoinCount(base->join);
	base->totals.wait_seconds += SecondsSince(begin);
	return (run->ordered ? 2 : 1) * count + CountSelfPairs(run);
}

const FunctionDescriptor self_join_function = {
	.name = "fasted_self_join",
	.node_name = "FastedSelfJoin",
	.nargs = SELF_JOIN_NARGS,
	.arguments = {
		[SELF_JOIN_RELATION] = {"relation", true, "Relation"},
		[SELF_JOIN_COLUMN] = {"vector_column", true, "Vector Column"},
		[SELF_JOIN_EPS] = {"eps", false, "Eps"},
		[SELF_JOIN_METRIC] = {"metric", true, "Metric"},
		[SELF_JOIN_ORDERED] = {"ordered", true, "Ordered"},
		[SELF_JOIN_SELF_PAIRS] = {"self_pairs", true, "Self Pairs"},
		[SELF_JOIN_ID_COLUMN] = {"id_column", false, "Key Column"},
		[SELF_JOIN_PARTITION_BY] = {"partition_by", false, "Partition Column"}
	},
	.nsources = 1,
	.sources = {{SELF_JOIN_RELATION, SELF_JOIN_COLUMN, SELF_JOIN_ID_COLUMN}},
	.eps = SELF_JOIN_EPS,
	.metric = SELF_JOIN_METRIC,
	.ncolumns = 3,
	.columns = {InvalidOid, InvalidOid, FLOAT8OID},
	.parallel = true,
	.takes_bounds = true,
	.output_label = "Output Time",
	.run_size = sizeof(SelfJoinRun),
	.begin = BeginSelfJoin,
	.fill = FillSelfJoin,
	.count = CountSelfJoin
};
