/*-------------------------------------------------------------------------
 *
 * few_rows.c
 *	  Joins few rows, or none, in the calling process without an engine.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distance/distance.h"
#include "join/join.h"
#include "utils/memutils.h"

size_t
SmallJoinPairs(const SmallJoin *join, const FastedPartition *partition, FastedPair *pairs)
{
	const float *others = join->b != NULL ? join->b : join->a;
	Size		floats = RowFloats(join->element, join->dimensions);
	size_t		count = 0;

	for (uint32 a = partition->first_a; a < partition->first_a + partition->rows_a; a++)
	{
		uint32		b = join->b != NULL ? partition->first_b : a + 1;

		for (; b < partition->first_b + partition->rows_b; b++)
		{
			double		dist = ExactDistance(join->metric, join->element, join->a + a * floats,
											 others + b * floats, join->dimensions);

			/* a NaN cosine distance is not within any eps */
			if (dist <= join->eps)
				pairs[count++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
	}
	return count;
}

/* Finds all pairs, or counts the pairs of each row. */
static FastedStatus
NextOfFew(VectorJoin *join, FastedBatch *batch)
{
	const FastedOptions *options = &join->run.problem.options;
	uint32		nrows = join->rows[0].used;
	FastedPartition all = {.rows_a = nrows,.rows_b = nrows};
	SmallJoin	small = {
		.metric = options->metric,.element = options->element,.dimensions = options->dimensions,
		.eps = join->request.problem.eps,.a = join->rows[0].buffer
	};
	uint32	   *counts;

	if (nrows == 0 || join->few != NULL)
		return FASTED_DONE;
	join->few = MemoryContextAlloc(join->context, nrows * nrows / 2 * sizeof(FastedPair));
	batch->pairs = join->few;
	batch->npairs = join->nfew = SmallJoinPairs(&small, &all, join->few);
	if (join->output != FASTED_OUTPUT_COUNTS)
		return join->nfew > 0 ? FASTED_OK : FASTED_DONE;
	join->counts = counts = MemoryContextAllocZero(join->context, nrows * sizeof(uint32));
	for (uint64 i = 0; i < join->nfew; i++)
	{
		counts[join->few[i].a]++;
		counts[join->few[i].b]++;
	}
	return FASTED_DONE;
}

static FastedStats
StatisticsOfFew(const VectorJoin *join)
{
	return (FastedStats) {.pairs = join->nfew};
}

/* JoinBackend.next_list: there are pairs instead of lists. */
static bool
NoList(VectorJoin *join)
{
	return false;
}

const JoinBackend few_rows = {
	.next = NextOfFew,.next_list = NoList,.statistics = StatisticsOfFew
};
