/*-------------------------------------------------------------------------
 *
 * join_match.c
 *	  Returns the pairs of a batch that match, and outer rows without a match.
 *
 * Some vectors cannot be passed to the engine, for example those with a different number of
 * dimensions or a null element.  Their rows are fallback rows.  The clauses themselves are
 * evaluated for a fallback row and each row of the other side, as in a nested loop.  They therefore
 * give the same result or error as a nested loop.  A null vector has no match.
 *
 * Both sides have been read when these functions are called: none of them runs a child plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "executor/executor.h"
#include "functions/function.h"
#include "join_node/join_node.h"
#include "miscadmin.h"

/* Prefetch distance in pairs. */
#define PAIRS_AHEAD 12

FastedStats
JoinNodeStatistics(const JoinNode *node)
{
	FastedStats stats = node->totals.stats;

	if (node->run.join != NULL)
		AddJoinStatistics(&stats, node->run.join);
	return stats;
}

void
EndJoin(JoinNode *node)
{
	if (node->run.join == NULL)
		return;
	node->totals.stats = JoinNodeStatistics(node);
	JoinEnd(node->run.join);
	node->run.join = NULL;
}

/* Orders the rows of a pair by the ordering clause.  Returns false if they have no order. */
static bool
OrderRows(JoinNode *node, Candidate *pair)
{
	int			compared;

	ScanTuple(node);
	compared = CompareByOrder(node, pair->outer, pair->inner);
	if ((compared > 0) != node->order.swapped)
		*pair = (Candidate) {pair->inner, pair->outer, pair->certain, pair->dist};
	return compared != 0;
}

/* Returns the row number of a row of the engine. */
static inline uint32
RowOfEngine(const JoinSide *side, uint32 i)
{
	return side->run.pushed.numbers[i];
}

/* Lets the engine count the pairs of the batch. */
static void
CountPairs(JoinNode *node)
{
	JoinRun    *run = &node->run;

	run->count += JoinCount(run->join) * (MatchesBothWays(node) ? 2 : 1);
	if (MatchesBothWays(node) && EqualRowsMatch(&node->bound))
		run->count += run->cursor.next_equal = node->sides[OUTER_SIDE].run.pushed.count;
}

/* Fetches more pairs of the engine, if it runs.  Ends it and returns false if there are none. */
static bool
FetchPairs(JoinNode *node)
{
	MatchCursor *cursor = &node->run.cursor;

	cursor->next_pair = cursor->npairs = 0;
	if (node->run.join != NULL && node->run.batch.engine_counts)
		CountPairs(node);
	else if (node->run.join != NULL && JoinNext(node->run.join, &cursor->pairs, &cursor->npairs))
		return true;
	EndJoin(node);
	return false;
}

/* Returns the engine's next pair, ordered if the clauses need it.  Returns false at the end. */
static bool
NextOfEngine(JoinNode *node, Candidate *pair)
{
	MatchCursor *cursor = &node->run.cursor;
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[INNER_SIDE];

	while (cursor->next_pair < cursor->npairs || FetchPairs(node))
	{
		const FastedPair *found = &cursor->pairs[cursor->next_pair];

		if (cursor->next_pair++ + PAIRS_AHEAD < cursor->npairs)
		{
			RetainedRowsPrefetch(outer->run.retained, RowOfEngine(outer, found[PAIRS_AHEAD].a));
			RetainedRowsPrefetch(inner->run.retained, RowOfEngine(inner, found[PAIRS_AHEAD].b));
		}
		*pair = (Candidate) {.outer = RowOfEngine(outer, found->a),
			.inner = RowOfEngine(inner, found->b),
			.certain = node->bound.exact || found->dist < node->bound.value.surely_within,
			.dist = found->dist};
		if (node->order.comparator == NULL ||
			(pair->certain && node->run.batch.distance_decides) || OrderRows(node, pair))
			return true;
		InstrCountFiltered1(node, 1);
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * Returns the next pair of a fallback row with a row of the other side in its partition.  Returns false
 * at the end.  Pairs of two fallback rows are returned for the outer side only.
 */
static bool
NextFallback(JoinNode *node, Candidate *pair)
{
	MatchCursor *cursor = &node->run.cursor;
	const uint32 *of_outer = node->sides[OUTER_SIDE].run.fallback.numbers;

	for (; cursor->partition < node->run.batch.count; cursor->partition++, cursor->side = OUTER_SIDE)
	{
		const BatchSide *sides = node->run.batch.partitions[cursor->partition];

		SelectPartition(node, cursor->partition);
		for (; cursor->side <= INNER_SIDE; cursor->side++, cursor->next_fallback = 0)
		{
			const BatchSide *side = &sides[cursor->side];
			const BatchSide *other = &sides[1 - cursor->side];
			const uint32 *fallback = node->sides[cursor->side].run.fallback.numbers + side->first_fallback;

			for (; cursor->next_fallback < side->nfallback && other->nvectors > 0;
				 cursor->next_fallback++, cursor->next_other = cursor->skipped = 0)
				while (cursor->next_other < other->range.count)
				{
					uint32		rows[2];

					rows[cursor->side] = fallback[cursor->next_fallback];
					rows[1 - cursor->side] = RowOfPartition(&node->sides[1 - cursor->side],
															cursor->next_other++);
					*pair = (Candidate) {.outer = rows[OUTER_SIDE],.inner = rows[INNER_SIDE],.dist = NAN};
					if (cursor->side == OUTER_SIDE || cursor->skipped == other->nfallback ||
						of_outer[other->first_fallback + cursor->skipped] != pair->outer)
						return true;
					cursor->skipped++;
					CHECK_FOR_INTERRUPTS();
				}
		}
	}
	return false;
}

/* Returns the next candidate pair of the batch in *pair, or false at the end. */
static bool
NextCandidate(JoinNode *node, Candidate *pair)
{
	MatchCursor *cursor = &node->run.cursor;
	const JoinSide *outer = &node->sides[OUTER_SIDE];

	if (cursor->mirrored)
	{
		*pair = (Candidate) {cursor->last.inner, cursor->last.outer, cursor->last.certain, cursor->last.dist};
		cursor->mirrored = false;
		return true;
	}
	if (NextOfEngine(node, pair))
	{
		cursor->mirrored = MatchesBothWays(node);
		return true;
	}
	if (MatchesBothWays(node) && cursor->next_equal < outer->run.pushed.count)
	{
		uint32		row = RowOfEngine(outer, cursor->next_equal++);

		*pair = (Candidate) {row, row, EqualRowsMatch(&node->bound), NAN};
		return true;
	}
	return NextFallback(node, pair);
}

/* Returns true if the pair passes all clauses.  Skips the distance clause if it certainly holds. */
static bool
PairPasses(JoinNode *node, const Candidate *pair)
{
	ExprState  *quals = pair->certain ? node->clauses.others : node->clauses.all;

	if (pair->certain && node->run.batch.distance_decides)
		return true;
	if (quals == NULL)
		return true;
	LoadPair(node, pair->outer, pair->inner);
	for (int i = 0; i < 2 && !pair->certain; i++)
		LoadVector(node, &node->sides[i]);
	if (ExecQual(quals, ScanTuple(node)))
		return true;
	InstrCountFiltered1(node, 1);
	return false;
}

bool
NextPair(JoinNode *node)
{
	bool		one_match = node->plan.type == JOIN_SEMI || node->plan.type == JOIN_ANTI;
	Candidate  *pair = &node->run.cursor.last;

	while (NextCandidate(node, pair))
	{
		CHECK_FOR_INTERRUPTS();
		if ((one_match && node->run.matched[pair->outer]) || !PairPasses(node, pair))
			continue;
		if (node->run.matched != NULL)
			node->run.matched[pair->outer] = true;
		if (node->plan.type != JOIN_ANTI)
			return true;
	}
	return false;
}

bool
NextUnmatched(JoinNode *node)
{
	JoinRun    *run = &node->run;

	if (node->plan.type != JOIN_LEFT && node->plan.type != JOIN_ANTI)
		return false;
	while (run->next_unmatched < node->sides[OUTER_SIDE].run.retained->count)
	{
		uint32		row = run->next_unmatched++;

		CHECK_FOR_INTERRUPTS();
		run->cursor.last = (Candidate) {.outer = row,.inner = NO_ROW};
		if (!run->matched[row])
			return true;
	}
	return false;
}
