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

/* Appends the pairs of a partition whose canonical distance is at most eps to join->few. */
static void
JoinPartition(VectorJoin *join, const FastedPartition *partition)
{
	const FastedOptions *options = &join->run.problem.options;
	bool		self = join->run.problem.sides == 1;
	const float *rows = join->rows[0].buffer;
	const float *others = join->rows[!self].buffer;
	Size		floats = RowFloats(options->element, options->dimensions);

	for (uint32 a = partition->first_a; a < partition->first_a + partition->rows_a; a++)
		for (uint32 b = self ? a + 1 : partition->first_b; b < partition->first_b + partition->rows_b; b++)
		{
			double		dist = ExactDistance(options->metric, options->element, rows + a * floats,
											 others + b * floats, options->dimensions);

			/* a NaN cosine distance is not within any eps */
			if (dist <= join->request.problem.eps)
				join->few[join->nfew++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
}

/* Finds all pairs, or counts the pairs of each row. */
static FastedStatus
NextOfFew(VectorJoin *join, FastedBatch *batch)
{
	const FastedProblem *problem = &join->run.problem.problem;
	uint32		nrows = join->rows[0].used;
	FastedPartition all = {.rows_a = nrows,.rows_b = join->rows[join->run.problem.sides - 1].used};
	uint32	   *counts;

	if (nrows == 0 || join->few != NULL)
		return FASTED_DONE;
	join->few = MemoryContextAlloc(join->context, SMALL_JOIN_PAIRS * sizeof(FastedPair));
	for (uint32 i = 0; i < problem->npartitions; i++)
		JoinPartition(join, &problem->partitions[i]);
	if (problem->npartitions == 0)
		JoinPartition(join, &all);
	batch->pairs = join->few;
	batch->npairs = join->nfew;
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
