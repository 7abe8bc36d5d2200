/*-------------------------------------------------------------------------
 *
 * join_groups.c
 *	  Equalities beside the distance: only rows with equal keys meet.
 *
 * Rows are put into groups by the hash of their keys.  Different keys may have one
 * hash: the equalities themselves are checked on what is found, as all clauses are.
 * Without such equalities there is one group, of all rows.
 *
 * To open an engine and to fill it takes milliseconds, in which it could join hundreds of
 * small groups.  So the rows of as many groups as there is memory for, a batch, go there
 * together, group by group, and it is told which of them meet.  Groups of one batch have
 * vectors of one number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "executor/executor.h"
#include "join/engines.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * Groups of so many pairs a row are joined one by one where rows are put in order for
 * each join of many (the CPU engine's cpu_prune.c), which gains more than a batch.
 */
#define LARGE_GROUP_PAIRS_A_ROW 10000.0

/* Where rows meet so few others, it takes an engine longer to prepare them than us to compare them. */
#define FEW_PAIRS_A_ROW 24.0

/* Rows between asking for one and working with it. */
#define ROWS_AHEAD 8

/* --- groups */

bool
PassesOuterQuals(JoinNode *node, const JoinSide *side)
{
	return side == &node->sides[INNER_SIDE] ||
		ExecQual(node->outer_quals, node->css.ss.ps.ps_ExprContext);
}

/* The hash of a row's keys; false: the row has no match, because a key is null or a clause is false. */
static bool
HashKeys(JoinNode *node, JoinSide *side, uint32 row, uint64 *hash)
{
	ExprContext *econtext = ScanTuple(node);
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool		isnull;
	ListCell   *cell;

	*hash = 0;
	LoadRow(node, side, row);
	isnull = !PassesOuterQuals(node, side);
	foreach(cell, side->keys)
	{
		int			n = foreach_current_index(cell);
		Datum		value;

		if (isnull)
			break;
		value = ExecEvalExpr((ExprState *) lfirst(cell), econtext, &isnull);
		if (isnull)
			break;
		value = FunctionCall1Coll(&side->hashes[n], list_nth_oid(node->plan.key_collations, n), value);
		*hash = hash_combine64(*hash, DatumGetUInt32(value));
	}
	MemoryContextSwitchTo(old);
	return !isnull;
}

/* In order of row within a group, as they are read from memory or a file. */
static int
CompareGroupedRows(const void *x, const void *y, void *arg)
{
	const GroupedRow *a = x;
	const GroupedRow *b = y;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return (a->row > b->row) - (a->row < b->row);
}

/* Puts the side's rows with one hash side by side. */
static void
GroupSide(JoinNode *node, JoinSide *side)
{
	uint32		count = side->kept->count;
	uint32		grouped = 0;
	GroupedRow *rows = MemoryContextAllocHuge(node->context, (Size) count * sizeof(GroupedRow));

	for (uint32 row = 0; row < count; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (HashKeys(node, side, row, &rows[grouped].hash))
			rows[grouped++].row = row;
	}
	qsort_interruptible(rows, grouped, sizeof(GroupedRow), CompareGroupedRows, NULL);
	side->group = (GroupPlace) {.rows = rows,.total = grouped};
}

/* Rows of one hash, from first on. */
static uint32
CountGroup(const GroupPlace *place)
{
	uint32		end = place->first;

	while (end < place->total && place->rows[end].hash == place->rows[place->first].hash)
	{
		CHECK_FOR_INTERRUPTS();
		end++;
	}
	return end - place->first;
}

/*
 * Goes on to the next hash that both sides have, behind the rows that outer and inner
 * have come to; their counts are those of its rows.  False: there is none.
 */
static bool
NextGroup(GroupPlace *outer, GroupPlace *inner)
{
	outer->first += outer->count;
	inner->first += inner->count;
	while (outer->first < outer->total && inner->first < inner->total)
	{
		uint64		x = outer->rows[outer->first].hash;
		uint64		y = inner->rows[inner->first].hash;

		CHECK_FOR_INTERRUPTS();
		if (x < y)
			outer->first++;
		else if (x > y)
			inner->first++;
		else
		{
			outer->count = CountGroup(outer);
			inner->count = CountGroup(inner);
			return true;
		}
	}
	outer->count = inner->count = 0;
	return false;
}

static double
PairsOf(const JoinNode *node, double outer, double inner)
{
	return node->plan.shared ? 0.5 * outer * (outer - 1.0) : outer * inner;
}

/* Of shared rows the inner side has none of its own. */
static uint64
RowsOf(const JoinNode *node, uint64 outer, uint64 inner)
{
	return node->plan.shared ? outer : outer + inner;
}

void
FindGroups(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];
	GroupPlace	places[2];

	node->nothing = IsEmptySide(node, outer) || IsEmptySide(node, inner);
	if (node->nothing)
		return;
	node->group_waits = node->plan.outer_keys == NIL;
	if (node->group_waits)
	{
		outer->group = (GroupPlace) {.count = outer->kept->count};
		inner->group = (GroupPlace) {.count = inner->kept->count};
	}
	else
	{
		GroupSide(node, outer);
		inner->group = outer->group;
		if (!node->plan.shared && outer->group.total > 0)
			GroupSide(node, inner);
	}
	for (int i = 0; i < 2; i++)
		places[i] = node->next_group[i] = node->sides[i].group;
	while (NextGroup(&places[OUTER_SIDE], &places[INNER_SIDE]))
	{
		node->all_pairs += PairsOf(node, places[OUTER_SIDE].count, places[INNER_SIDE].count);
		node->all_rows += RowsOf(node, places[OUTER_SIDE].count, places[INNER_SIDE].count);
	}
}

/* --- the group at work */

ExprContext *
LoadPairOfGroup(JoinNode *node, uint32 outer, uint32 inner)
{
	ExprContext *econtext = ScanTuple(node);

	LoadPair(node, RowOfGroup(&node->sides[OUTER_SIDE], outer),
			 RowOfGroup(&node->sides[INNER_SIDE], inner));
	return econtext;
}

/* Rows of a group lie far from each other in memory. */
void
PrefetchGroup(const JoinSide *side, uint32 i, bool values)
{
	if (side->group.rows == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < side->group.count)
		KeptRowsPrefetch(side->kept, RowOfGroup(side, i + 2 * ROWS_AHEAD));
	if (values && i + ROWS_AHEAD < side->group.count)
		KeptRowsPrefetchValues(side->kept, RowOfGroup(side, i + ROWS_AHEAD));
}

/*
 * Do all rows of the side have the keys of the other side's first row?  The clauses beside
 * distance and order are equalities.
 */
static bool
HasOneKey(JoinNode *node, int number)
{
	const JoinSide *side = &node->sides[number];

	for (uint32 i = 0; i < side->group.count; i++)
	{
		uint32		outer = number == OUTER_SIDE ? i : 0;

		CHECK_FOR_INTERRUPTS();
		PrefetchGroup(side, i, false);
		if (!ExecQual(node->join_quals, LoadPairOfGroup(node, outer, i - outer)))
			return false;
	}
	return true;
}

bool
AreGroups(JoinNode *node)
{
	for (uint32 g = 0; g < node->nbatch; g++)
	{
		TakeGroup(node, g);
		/* shared rows are those of both sides */
		if (!HasOneKey(node, OUTER_SIDE) || (!node->plan.shared && !HasOneKey(node, INNER_SIDE)))
			return false;
	}
	return true;
}

/* --- batches */

/* A side whose vectors stay in the table is not read yet: nobody knows how many there are. */
static bool
AreCounted(const JoinNode *node)
{
	return node->sides[OUTER_SIDE].complete && (node->plan.shared || node->sides[INNER_SIDE].complete);
}

static bool
AreFew(const JoinNode *node, double pairs, uint64 rows)
{
	/* that is for many groups, and for one row that is evaluated once more */
	if (node->plan.outer_keys == NIL &&
		(node->css.ss.ps.state->es_epq_active == NULL || !AreCounted(node)))
		return false;
	return pairs <= SMALL_JOIN_PAIRS && rows * JoinNodeRowFloats(node) <= SMALL_JOIN_FLOATS;
}

bool
IsSmallBatch(const JoinNode *node)
{
	return AreFew(node, node->batch_pairs, node->batch_rows);
}

/*
 * The group's rows are those of both sides from here on.  Its odd rows meet none of another
 * side that has no vectors.
 */
void
TakeGroup(JoinNode *node, uint32 g)
{
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];
		const BatchSide *from = &node->batch[g][i];

		side->group = from->place;
		side->nodd = node->batch[g][1 - i].nvectors > 0 ? from->nodd : 0;
		if (side->nodd > 0)
			side->odd = side->all_odd + from->first_odd;
	}
}

/* Adds the group that both sides are at, and what is guessed of it: that an engine takes all. */
static void
AddGroup(JoinNode *node)
{
	uint32		outer = node->sides[OUTER_SIDE].group.count;
	uint32		inner = node->sides[INNER_SIDE].group.count;
	uint32		room = node->batch_room;
	BatchGroup *group;

	if (node->nbatch == room)
	{
		node->row_groups = GrowArray(node->context, node->row_groups, &room, sizeof(FastedRowGroup));
		node->batch = GrowArray(node->context, node->batch, &node->batch_room, sizeof(BatchGroup));
	}
	group = &node->batch[node->nbatch];
	memset(group, 0, sizeof(*group));
	for (int i = 0; i < 2; i++)
		(*group)[i].place = node->sides[i].group;
	node->row_groups[node->nbatch++] = (FastedRowGroup) {.rows_a = outer,.rows_b = inner};
	node->batch_pairs += PairsOf(node, outer, inner);
	node->batch_rows += RowsOf(node, outer, inner);
}

/* Both sides go to the group that is next; false: there is none. */
static bool
FindNextGroup(JoinNode *node)
{
	if (!node->group_waits && !NextGroup(&node->next_group[OUTER_SIDE], &node->next_group[INNER_SIDE]))
		return false;
	node->group_waits = false;
	for (int i = 0; i < 2; i++)
		node->sides[i].group = node->next_group[i];
	return true;
}

/* Had that group better be joined alone? */
static bool
IsLarge(const JoinNode *node, double rows, double pairs)
{
	return node->alone && pairs >= LARGE_GROUP_PAIRS_A_ROW * rows;
}

/* Does the group that both sides are at go with those of the batch? */
static bool
GoesWithBatch(JoinNode *node, int dimensions)
{
	uint64		outer = node->sides[OUTER_SIDE].group.count;
	uint64		inner = node->sides[INNER_SIDE].group.count;
	uint64		rows = RowsOf(node, outer, inner);
	double		pairs = PairsOf(node, outer, inner);

	if (node->nbatch == 0)
		return true;
	if (dimensions != 0 && node->dimensions != 0 && dimensions != node->dimensions)
		return false;
	if (AreFew(node, node->batch_pairs + pairs, node->batch_rows + rows) || node->dimensions == 0)
		return true;
	if (node->all_pairs <= FEW_PAIRS_A_ROW * node->all_rows && IsSmallBatch(node))
		return false;
	if (node->room_dimensions != node->dimensions)
		node->most_rows = JoinRoom(node->all_pairs, node->element, node->dimensions, &node->alone);
	node->room_dimensions = node->dimensions;
	return node->batch_rows + rows <= node->most_rows && !IsLarge(node, rows, pairs) &&
		!IsLarge(node, node->batch_rows, node->batch_pairs);
}

bool
NextBatch(JoinNode *node)
{
	node->nbatch = 0;
	node->batch_rows = 0;
	node->batch_pairs = 0.0;
	node->dimensions = 0;
	while (!node->nothing && FindNextGroup(node))
	{
		int			dimensions = DimensionsOfGroup(node);

		CHECK_FOR_INTERRUPTS();
		if (node->nothing)
			break;
		if (!GoesWithBatch(node, dimensions))
		{
			node->group_waits = true;
			break;
		}
		AddGroup(node);
		if (node->dimensions == 0)
			node->dimensions = dimensions;
	}
	return node->nbatch > 0;
}
