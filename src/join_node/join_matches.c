/*-------------------------------------------------------------------------
 *
 * join_matches.c
 *	  Matches: what the engine finds, odd rows of a group, rows without any.
 *
 * A vector that the engine does not take (of another number of dimensions, with a
 * null element) makes its row odd: it meets every row of the other side by the
 * clauses themselves, as in a nested loop, and gets the error or the answer that
 * it has there.  A vector that is null has no match.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"

/* Rows are fetched from main memory while so many other pairs are looked at. */
#define PAIRS_AHEAD 12

/* --- pairs that the engine finds */

static void
LoadVectors(JoinNode *node)
{
	for (int i = 0; i < 2; i++)
		LoadVector(node, &node->sides[i]);
}

/* Is a pair at that distance within the radius, whoever computes it? */
static bool
IsSure(const JoinNode *node, double dist)
{
	return node->exact || dist < node->surely_within;
}

/*
 * Does a pair that the engine found pass all clauses?  Then it is in the scan tuple, if
 * anybody looks.
 */
static bool
PairPasses(JoinNode *node, uint32 outer_row, uint32 inner_row, double dist)
{
	bool		sure = IsSure(node, dist);

	if (node->join_quals == NULL && sure)
	{
		if (!node->no_columns)
			LoadPair(node, outer_row, inner_row);
		return true;
	}
	LoadPair(node, outer_row, inner_row);
	if (ExecQual(node->join_quals, ScanTuple(node)))
	{
		if (sure)
			return true;
		/* the distance clause itself decides */
		LoadVectors(node);
		if (ExecQual(node->distance_qual, node->css.ss.ps.ps_ExprContext))
			return true;
	}
	InstrCountFiltered1(node, 1);
	return false;
}

/* Notes a match of the row; false: it is not a row of the result. */
static bool
NoteMatch(JoinNode *node, uint32 row)
{
	if (node->matched != NULL)
		node->matched[row] = true;
	return node->plan.type != JOIN_ANTI;
}

/* Has it the one match that is wanted? */
static bool
IsOver(const JoinNode *node, uint32 outer_row)
{
	return (node->plan.type == JOIN_SEMI || node->plan.type == JOIN_ANTI) &&
		node->matched[outer_row];
}

/* The engine's next pair; false: it has no more. */
static bool
NextOfEngine(JoinNode *node, FastedPair *pair)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[INNER_SIDE];

	if (node->next_pair == node->npairs)
	{
		node->next_pair = node->npairs = 0;
		if (node->join == NULL || !JoinNext(node->join, &node->pairs, &node->npairs))
		{
			EndJoin(node);
			return false;
		}
	}
	if (node->next_pair + PAIRS_AHEAD < node->npairs)
	{
		KeptRowsPrefetch(outer->kept, outer->rows[node->pairs[node->next_pair + PAIRS_AHEAD].a]);
		KeptRowsPrefetch(inner->kept, inner->rows[node->pairs[node->next_pair + PAIRS_AHEAD].b]);
	}
	*pair = node->pairs[node->next_pair++];
	return true;
}

/* Shared rows: is a pair a match both ways, and each row one with itself? */
static bool
GoesBothWays(const JoinNode *node)
{
	return node->plan.shared && node->order == NULL;
}

/* The rows of a match that is to be checked, by the engine's numbers. */
static bool
NextCandidate(JoinNode *node, FastedPair *pair)
{
	if (node->mirrored)
	{
		const FastedPair *last = &node->pairs[node->next_pair - 1];

		*pair = (FastedPair) {.a = last->b,.b = last->a,.dist = last->dist};
		node->mirrored = false;
		return true;
	}
	if (NextOfEngine(node, pair))
	{
		node->mirrored = GoesBothWays(node);
		return true;
	}
	if (!GoesBothWays(node) || node->next_equal == node->sides[OUTER_SIDE].nrows)
		return false;
	*pair = (FastedPair) {.a = node->next_equal,.b = node->next_equal};
	node->next_equal++;
	return true;
}

/* Compares rows by their values; zero: they have no order. */
static int
CompareRows(JoinNode *node, uint32 row, uint32 other)
{
	const KeptRows *kept = node->sides[OUTER_SIDE].kept;
	MemoryContext old = MemoryContextSwitchTo(ScanTuple(node)->ecxt_per_tuple_memory);
	int			compared = CompareByOrder(node, row, other);

	/* what was loaded from a file is there no longer */
	if (Max(row, other) >= kept->in_memory)
		node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	MemoryContextSwitchTo(old);
	return compared;
}

/* Puts the rows of a pair in the order that the clauses ask for; false: there is none. */
static bool
OrderRows(JoinNode *node, uint32 *outer_row, uint32 *inner_row)
{
	int			compared;

	if (node->direction != 0)
		compared = *outer_row < *inner_row ? node->direction : -node->direction;
	else
		compared = CompareRows(node, *outer_row, *inner_row);
	if ((compared > 0) != node->plan.order_swapped)
	{
		uint32		swap = *outer_row;

		*outer_row = *inner_row;
		*inner_row = swap;
	}
	return compared != 0;
}

/* Is it a match?  Then it is in the scan tuple, as it is after PairPasses. */
static bool
IsMatch(JoinNode *node, const FastedPair *pair)
{
	uint32		outer_row = node->sides[OUTER_SIDE].rows[pair->a];
	uint32		inner_row = node->sides[INNER_SIDE].rows[pair->b];

	if (node->order != NULL && !OrderRows(node, &outer_row, &inner_row))
	{
		InstrCountFiltered1(node, 1);
		return false;
	}
	return !IsOver(node, outer_row) && PairPasses(node, outer_row, inner_row, pair->dist) &&
		NoteMatch(node, outer_row);
}

bool
NextPair(JoinNode *node)
{
	FastedPair	pair;

	while (NextCandidate(node, &pair))
	{
		CHECK_FOR_INTERRUPTS();
		if (IsMatch(node, &pair))
			return true;
	}
	return false;
}

uint64
CountPairs(JoinNode *node)
{
	uint64		count = 0;
	FastedPair	pair;

	if (node->engine_counts && node->join != NULL)
	{
		count = JoinCount(node->join);
		EndJoin(node);
		if (!GoesBothWays(node))
			return count;
		node->next_equal = node->sides[OUTER_SIDE].nrows;
		return 2 * count + node->next_equal;
	}
	while (NextCandidate(node, &pair))
	{
		CHECK_FOR_INTERRUPTS();
		if ((node->distance_decides && IsSure(node, pair.dist)) || IsMatch(node, &pair))
			count++;
	}
	return count;
}

/* --- odd rows */

/*
 * Goes to the next odd row where the one at work is none: first those of a group's outer side,
 * then of its inner side, then of the next group.  False: there are no more.
 */
static bool
FindOddRow(JoinNode *node)
{
	while (node->next_odd >= node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE].nodd)
	{
		if (node->odd_inner && node->odd_group == node->nbatch)
			return false;
		if (node->odd_inner)
			TakeGroup(node, node->odd_group++);
		node->odd_inner = !node->odd_inner;
		node->next_odd = 0;
	}
	return true;
}

/* Is the other side's row an odd one, which the odd row of the inner side has met already? */
static bool
HaveMet(JoinNode *node, const JoinSide *other, uint32 i)
{
	if (!node->odd_inner || node->met == other->nodd || other->odd[node->met] != i)
		return false;
	node->met++;
	return true;
}

bool
NextOdd(JoinNode *node)
{
	while (FindOddRow(node))
	{
		JoinSide   *odd = &node->sides[node->odd_inner ? INNER_SIDE : OUTER_SIDE];
		JoinSide   *other = &node->sides[node->odd_inner ? OUTER_SIDE : INNER_SIDE];
		uint32		i = node->next_other++;
		uint32		odd_row;
		uint32		other_row;
		uint32		outer_row;

		CHECK_FOR_INTERRUPTS();
		if (i >= other->group.count)
		{
			node->next_odd++;
			node->next_other = node->met = 0;
			continue;
		}
		odd_row = RowOfGroup(odd, odd->odd[node->next_odd]);
		other_row = RowOfGroup(other, i);
		outer_row = node->odd_inner ? other_row : odd_row;
		if (HaveMet(node, other, i) || IsOver(node, outer_row))
			continue;
		LoadRow(node, odd, odd_row);
		LoadRow(node, other, other_row);
		LoadVectors(node);
		if (!ExecQual(node->all_quals, ScanTuple(node)))
			InstrCountFiltered1(node, 1);
		else if (NoteMatch(node, outer_row))
			return true;
	}
	return false;
}

bool
NextUnmatched(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];

	if (node->plan.type != JOIN_LEFT && node->plan.type != JOIN_ANTI)
		return false;
	while (node->next_unmatched < outer->kept->count)
	{
		uint32		row = node->next_unmatched++;

		CHECK_FOR_INTERRUPTS();
		if (node->matched[row])
			continue;
		LoadRow(node, outer, row);
		LoadNulls(node, &node->sides[INNER_SIDE]);
		return true;
	}
	return false;
}
