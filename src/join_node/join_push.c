/*-------------------------------------------------------------------------
 *
 * join_push.c
 *	  Vectors go to an engine, group by group, or are compared here if they are few.
 *
 * Without equalities beside the distance there is one group, of all rows; else several
 * are joined together (join_batch.c).  Rows whose
 * vectors are not for an engine are odd, in whichever group they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "distance/distance.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "rows/vector.h"
#include "scan/scan_explain.h"
#include "utils/memutils.h"

/* Rows between asking for one and working with it. */
#define ROWS_AHEAD 8

/* --- which rows can match */

/* Does the row of the side in the scan tuple pass the clauses about the outer side alone?  Inner rows do. */
static bool
PassesOuterQuals(JoinNode *node, const JoinSide *side)
{
	return side == &node->sides[INNER_SIDE] ||
		ExecQual(node->outer_quals, node->css.ss.ps.ps_ExprContext);
}

/* Would a nested loop compare the vectors of the rows, by their numbers in the group? */
static bool
AreCompared(JoinNode *node, uint32 outer, uint32 inner)
{
	ExprContext *econtext = ScanTuple(node);

	LoadRow(node, &node->sides[OUTER_SIDE], RowOfGroup(&node->sides[OUTER_SIDE], outer));
	LoadRow(node, &node->sides[INNER_SIDE], RowOfGroup(&node->sides[INNER_SIDE], inner));
	return ExecQual(node->outer_quals, econtext) && ExecQual(node->partner_quals, econtext);
}

/*
 * Would a nested loop compare the vector of the side's row with any vector?  The row is given by
 * its number in the group.  The search begins at the partner that was found for the row before,
 * which for most clauses is a partner of this row as well.  If one is found, the row is in the
 * scan tuple.
 */
static bool
HasPartner(JoinNode *node, JoinSide *side, uint32 row)
{
	bool		is_outer = side == &node->sides[OUTER_SIDE];
	JoinSide   *other = &node->sides[is_outer ? INNER_SIDE : OUTER_SIDE];

	for (uint32 k = 0; k < other->group.count; k++)
	{
		uint32		partner = (other->partner + k) % other->group.count;

		CHECK_FOR_INTERRUPTS();
		if ((is_outer && AreCompared(node, row, partner)) ||
			((!is_outer || node->plan.shared) && AreCompared(node, partner, row)))
		{
			other->partner = partner;
			LoadRow(node, side, RowOfGroup(side, row));
			return true;
		}
	}
	return false;
}

/* Would a nested loop evaluate the vector of the row in the scan tuple, by its number in the group? */
static bool
IsWanted(JoinNode *node, JoinSide *side, uint32 row)
{
	/* rows that are in groups have passed */
	if (side->grouped == NULL && !PassesOuterQuals(node, side))
		return false;
	return node->partner_quals == NULL || HasPartner(node, side, row);
}

/* --- groups */

/* The hash of a row's keys; false: the row has no match, because a key is null or a clause is false. */
static bool
HashKeys(JoinNode *node, JoinSide *side, uint32 row, uint64 *hash)
{
	ExprContext *econtext = ScanTuple(node);
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool		isnull = false;
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

static void
GroupSide(JoinNode *node, JoinSide *side)
{
	uint32		count = KeptRowsCount(side->kept);
	uint32		grouped = 0;

	side->grouped = MemoryContextAllocHuge(node->context, (Size) count * sizeof(GroupedRow));
	for (uint32 row = 0; row < count; row++)
	{
		GroupedRow *next = &side->grouped[grouped];

		CHECK_FOR_INTERRUPTS();
		if (!HashKeys(node, side, row, &next->hash))
			continue;
		next->row = row;
		grouped++;
	}
	SortGroups(side->grouped, grouped);
	side->group = (GroupPlace) {.rows = side->grouped,.total = grouped};
}

uint32
RowOfGroup(const JoinSide *side, uint32 i)
{
	return side->grouped == NULL ? i : side->group.rows[side->group.first + i].row;
}

/*
 * Rows of a group lie far from each other in memory: that of number i, which comes next,
 * had better be asked for some rows before, and what its values point to a little later.
 */
static void
PrefetchRows(const JoinSide *side, uint32 i, bool values)
{
	if (side->grouped == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < side->group.count)
		KeptRowsPrefetch(side->kept, RowOfGroup(side, i + 2 * ROWS_AHEAD));
	if (values && i + ROWS_AHEAD < side->group.count)
		KeptRowsPrefetchValues(side->kept, RowOfGroup(side, i + ROWS_AHEAD));
}

/* --- vectors */

/*
 * Puts the group's row number i into the scan tuple, vector and all.  False: there is
 * none, also when the side is read to its end.
 */
static bool
LoadRowOfGroup(JoinNode *node, JoinSide *side, uint32 i)
{
	if (i < side->group.count)
	{
		ScanTuple(node);
		LoadRow(node, side, RowOfGroup(side, i));
		LoadVector(node, side);
		return true;
	}
	if (!ReadRow(node, side))
		return false;
	side->group.count++;
	return true;
}

/* The vector of the row in the scan tuple, by its number in the group; null if it must not be evaluated. */
static VectorView
VectorOfRow(JoinNode *node, JoinSide *side, uint32 i)
{
	if (!IsWanted(node, side, i))
		return (VectorView) {.isnull = true};
	return ViewVector(node, side);
}

int
FindDimensions(JoinNode *node)
{
	JoinSide   *side = &node->sides[OUTER_SIDE];

	for (uint32 i = 0; LoadRowOfGroup(node, side, i); i++)
	{
		VectorView	vector = VectorOfRow(node, side, i);

		if (vector.elements != NULL && (uint32) vector.dimensions <= FASTED_MAX_DIMENSIONS)
			return vector.dimensions;
		CHECK_FOR_INTERRUPTS();
	}
	return 0;
}

/* Room for one more number. */
static uint32 *
GrowNumbers(MemoryContext context, uint32 *numbers, uint32 count, uint32 *room)
{
	if (count < *room)
		return numbers;
	*room = Max(1024, 2 * *room);
	return numbers == NULL ? MemoryContextAllocHuge(context, *room * sizeof(uint32)) :
		repalloc_huge(numbers, *room * sizeof(uint32));
}

static void
AddRow(JoinNode *node, JoinSide *side, uint32 i)
{
	side->rows = GrowNumbers(node->context, side->rows, side->nrows, &side->rows_room);
	side->rows[side->nrows++] = RowOfGroup(side, i);
}

static void
AddOdd(JoinNode *node, JoinSide *side, uint32 i)
{
	side->all_odd = GrowNumbers(node->context, side->all_odd, side->all_nodd, &side->odd_room);
	side->all_odd[side->all_nodd++] = i;
}

/* False: some numbers are not finite. */
static bool
CopyVector(const JoinNode *node, const VectorView *view, float *vector)
{
	if (node->element == FASTED_ELEMENT_DOUBLE)
		return CopyFiniteDoubles((const double *) view->elements, (double *) vector, view->dimensions);
	return CopyFinite(view->elements, vector, view->dimensions);
}

/* What becomes of the group's row in the scan tuple; its vector, if the engine is to have it. */
static VectorUse
UseOf(JoinNode *node, JoinSide *side, uint32 i, float *vector)
{
	VectorView	view = VectorOfRow(node, side, i);

	if (view.isnull)
		return HAS_NO_VECTOR;
	if (view.elements == NULL || node->undecided || view.dimensions != node->dimensions ||
		!CopyVector(node, &view, vector))
		return CLAUSES_DECIDE;
	return JoinNodeVector(node, vector);
}

/*
 * Gives the vectors of the group at work to the engine, or keeps them here; those of a
 * side that is not read yet as they come.  Counts vectors that are not null.  False: the
 * engine takes no more.
 */
static bool
PushSideOfGroup(JoinNode *node, Join *join, int number, float *vector, uint32 *nvectors)
{
	JoinSide   *side = &node->sides[number];
	bool		taken = true;

	for (uint32 i = 0; taken && LoadRowOfGroup(node, side, i); i++)
	{
		VectorUse	use;

		CHECK_FOR_INTERRUPTS();
		PrefetchRows(side, i, true);
		use = UseOf(node, side, i, vector);
		*nvectors += use != HAS_NO_VECTOR;
		switch (use)
		{
			case ENGINE_TAKES_IT:
				if (join != NULL)
					taken = JoinPush(join, number, vector);
				else
					memcpy(side->vectors + side->nrows * JoinNodeRowFloats(node), vector,
						   JoinNodeRowFloats(node) * sizeof(float));
				AddRow(node, side, i);
				break;
			case CLAUSES_DECIDE:
				AddOdd(node, side, i);
				break;
			case NEVER_MATCHES:
			case HAS_NO_VECTOR:
				break;
		}
	}
	return taken;
}

/* Where a group's rows and odd rows are among all of the side, now that it was pushed. */
static void
NotePushed(JoinNode *node, int number, uint32 g, uint32 first_row, uint32 first_odd, uint32 nvectors)
{
	const JoinSide *side = &node->sides[number];
	FastedRowGroup *rows = &node->row_groups[g];

	node->batch[g].sides[number] = (BatchSide) {
		.place = side->group,.first_odd = first_odd,.nodd = side->all_nodd - first_odd,
		.nvectors = nvectors
	};
	if (number == OUTER_SIDE)
	{
		rows->first_a = first_row;
		rows->rows_a = side->nrows - first_row;
	}
	if (number == INNER_SIDE || node->plan.shared)
	{
		rows->first_b = first_row;
		rows->rows_b = side->nrows - first_row;
	}
}

/* All groups that are joined together; of the inner side only those whose outer rows have vectors. */
static bool
PushSide(JoinNode *node, Join *join, int number)
{
	JoinSide   *side = &node->sides[number];
	float	   *vector = palloc(Max(JoinNodeRowFloats(node), 1) * sizeof(float));
	bool		taken = true;

	side->nrows = side->all_nodd = 0;
	for (uint32 g = 0; g < node->nbatch && taken; g++)
	{
		uint32		first_row = side->nrows;
		uint32		first_odd = side->all_nodd;
		uint32		nvectors = 0;

		TakeGroup(node, g);
		if (number == OUTER_SIDE || node->batch[g].sides[OUTER_SIDE].nvectors > 0)
			taken = PushSideOfGroup(node, join, number, vector, &nvectors);
		NotePushed(node, number, g, first_row, first_odd, nvectors);
	}
	pfree(vector);
	return taken;
}

void
PushGroups(RowPusher *pusher, Join *join)
{
	JoinNode   *node = (JoinNode *) ((char *) pusher - offsetof(JoinNode, pusher));

	if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
		(void) PushSide(node, join, INNER_SIDE);
}

/* --- few rows */

static void
MakeRoomForFewRows(JoinNode *node)
{
	if (node->own_pairs != NULL)
		return;
	node->own_pairs = MemoryContextAlloc(node->context, MOST_SMALL_PAIRS * sizeof(FastedPair));
	for (int i = 0; i < 2; i++)
		node->sides[i].vectors = MemoryContextAlloc(node->context, MOST_SMALL_FLOATS * sizeof(float));
}

/* All pairs of a group within eps. */
static void
CompareRowsOfGroup(JoinNode *node, const FastedRowGroup *group)
{
	FastedMetric metric = JoinNodeMetric(node);
	const float *outer = node->sides[OUTER_SIDE].vectors;
	const float *inner = node->sides[node->plan.shared ? OUTER_SIDE : INNER_SIDE].vectors;
	double		eps = JoinNodeEps(node);

	for (uint32 a = group->first_a; a < group->first_a + group->rows_a; a++)
	{
		const float *x = outer + a * JoinNodeRowFloats(node);
		uint32		b = node->plan.shared ? a + 1 : group->first_b;

		for (; b < group->first_b + group->rows_b; b++)
		{
			const float *y = inner + b * JoinNodeRowFloats(node);
			double		dist = ExactDistance(metric, node->element, x, y, node->dimensions);

			if (dist <= eps)
				node->own_pairs[node->npairs++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
	}
}

static void
JoinFewRows(JoinNode *node)
{
	MakeRoomForFewRows(node);
	PushGroups(&node->pusher, NULL);
	for (uint32 g = 0; g < node->nbatch; g++)
		CompareRowsOfGroup(node, &node->row_groups[g]);
	node->pairs = node->own_pairs;
}

/* --- the join of groups */

/* Of the groups that are joined; a guess where the side is not read yet. */
static uint64
ExpectedRows(const JoinNode *node, int number)
{
	const JoinSide *side = &node->sides[number];
	uint64		count = 0;

	for (uint32 g = 0; g < node->nbatch; g++)
		count += node->batch[g].sides[number].place.count;
	return side->complete ? count : Max(count, (uint64) side->plan->plan->plan_rows);
}

/* Do two rows of the group pass the clauses beside distance and order, which are equalities? */
static bool
HaveEqualKeys(JoinNode *node, uint32 outer, uint32 inner)
{
	ScanTuple(node);
	LoadRow(node, &node->sides[OUTER_SIDE], RowOfGroup(&node->sides[OUTER_SIDE], outer));
	LoadRow(node, &node->sides[INNER_SIDE], RowOfGroup(&node->sides[INNER_SIDE], inner));
	return ExecQual(node->join_quals, node->css.ss.ps.ps_ExprContext);
}

/* Are all keys of the group equal, and not only their hashes? */
static bool
IsOneGroup(JoinNode *node)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[INNER_SIDE];

	for (uint32 i = 0; i < outer->group.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		PrefetchRows(outer, i, false);
		if (!HaveEqualKeys(node, i, 0))
			return false;
	}
	/* shared rows have been compared */
	for (uint32 i = 1; !node->plan.shared && i < inner->group.count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		PrefetchRows(inner, i, false);
		if (!HaveEqualKeys(node, 0, i))
			return false;
	}
	return true;
}

/* The same of all groups that are joined. */
static bool
AreGroups(JoinNode *node)
{
	for (uint32 g = 0; g < node->nbatch; g++)
	{
		TakeGroup(node, g);
		if (!IsOneGroup(node))
			return false;
	}
	return true;
}

static void
BeginEngine(JoinNode *node)
{
	uint64		expected[2] = {ExpectedRows(node, OUTER_SIDE), ExpectedRows(node, INNER_SIDE)};
	FastedOutput output;
	MemoryContext old;

	node->distance_decides = node->plan.distance_decides &&
		(node->plan.outer_keys == NIL || AreGroups(node));
	node->engine_counts = node->distance_decides && node->exact;
	output = node->engine_counts ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	node->pusher.groups = node->nbatch > 1 ? node->row_groups : NULL;
	node->pusher.ngroups = node->nbatch;
	node->engine_groups += node->nbatch;
	old = MemoryContextSwitchTo(node->context);
	node->join = JoinBeginPushed(&node->pusher, node->plan.shared ? 1 : 2, node->element,
								 node->dimensions, expected, JoinNodeMetric(node), JoinNodeEps(node), output);
	MemoryContextSwitchTo(old);
}

FastedStats
JoinNodeStatistics(const JoinNode *node)
{
	FastedStats stats = node->stats;
	double		read_seconds = 0.0;

	if (node->join != NULL)
		(void) AddJoinStatistics(&stats, &read_seconds, node->join);
	return stats;
}

void
EndJoin(JoinNode *node)
{
	if (node->join == NULL)
		return;
	node->stats = JoinNodeStatistics(node);
	JoinEnd(node->join);
	node->join = NULL;
}

void
FindGroups(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	node->groups = 0;
	node->no_groups = IsEmptySide(node, outer) || IsEmptySide(node, inner);
	if (node->no_groups)
		return;
	if (node->plan.outer_keys == NIL)
	{
		outer->group = (GroupPlace) {.count = KeptRowsCount(outer->kept)};
		inner->group = (GroupPlace) {.count = KeptRowsCount(inner->kept)};
	}
	else
	{
		GroupSide(node, outer);
		inner->group = outer->group;
		inner->grouped = outer->grouped;
		if (!node->plan.shared && outer->group.total > 0)
			GroupSide(node, inner);
	}
	BeginBatches(node);
}

/* Gives the rows of these groups to whoever joins them. */
static void
BeginGroups(JoinNode *node)
{
	node->distance_decides = node->engine_counts = false;
	if (node->dimensions == 0)
		PushGroups(&node->pusher, NULL);	/* all are odd */
	else if (IsSmallBatch(node))
		JoinFewRows(node);
	else
		BeginEngine(node);
}

bool
BeginNextGroups(JoinNode *node)
{
	if (node->no_groups || !NextBatch(node))
	{
		/* the rows that have no match */
		ReadSide(node, &node->sides[OUTER_SIDE]);
		return false;
	}
	node->groups += node->nbatch;
	node->all_groups += node->nbatch;
	node->next_pair = node->npairs = 0;
	node->next_equal = 0;
	node->mirrored = false;
	BeginGroups(node);
	if (node->plan.shared)
		node->sides[INNER_SIDE].complete = node->sides[OUTER_SIDE].complete;
	return true;
}
