/*-------------------------------------------------------------------------
 *
 * join_push.c
 *	  Group by group, vectors go to an engine, or are compared here if they are few.
 *
 * Without equalities beside the distance there is one group, of all rows.  Rows whose
 * vectors are not for an engine are odd, in whichever group they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "cpu/cpu_kernel.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "miscadmin.h"
#include "read/vector.h"
#include "utils/memutils.h"

/* An engine is not begun for so few pairs of rows, if their vectors are not long. */
#define MOST_SMALL_PAIRS 4096
#define MOST_SMALL_FLOATS (256 * 1024)

/* --- groups */

/* The hash of a row's keys; false: one is null, and equals nothing. */
static bool
HashKeys(JoinNode *node, JoinSide *side, uint32 row, uint64 *hash)
{
	ExprContext *econtext = ScanTuple(node);
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	bool		isnull = false;
	ListCell   *cell;

	*hash = 0;
	LoadRow(node, side, row);
	foreach(cell, side->keys)
	{
		int			n = foreach_current_index(cell);
		Datum		value = ExecEvalExpr((ExprState *) lfirst(cell), econtext, &isnull);

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

/* --- vectors */

/* The vector of a row, or NULL where that is null. */
static ArrayType *
VectorOf(JoinNode *node, JoinSide *side, uint32 row)
{
	ExprContext *econtext = ScanTuple(node);
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	ArrayType  *array = NULL;
	bool		isnull;
	Datum		value;

	LoadRow(node, side, row);
	value = ExecEvalExpr(side->vector, econtext, &isnull);
	if (!isnull)
		array = DatumGetArrayTypeP(value);
	MemoryContextSwitchTo(old);
	return array;
}

/* The number of the group's row number i. */
static uint32
RowOfGroup(const JoinSide *side, uint32 i)
{
	return side->grouped == NULL ? i : side->group.rows[side->group.first + i].row;
}

/* The dimensions of the group's first vector that has some; zero: none has. */
static int
FindDimensions(JoinNode *node)
{
	JoinSide   *side = &node->sides[OUTER_SIDE];

	for (uint32 i = 0; i < side->group.count; i++)
	{
		ArrayType  *array = VectorOf(node, side, RowOfGroup(side, i));
		int			dimensions;

		if (array != NULL && VectorShape(array, &dimensions) == VECTOR_OK &&
			(uint32) dimensions <= FASTED_MAX_DIMENSIONS)
			return dimensions;
		CHECK_FOR_INTERRUPTS();
	}
	return 0;
}

static void
AddRow(JoinNode *node, JoinSide *side, uint32 row)
{
	if (side->nrows == side->rows_room)
	{
		side->rows_room = Max(1024, 2 * side->rows_room);
		side->rows = side->rows == NULL ?
			MemoryContextAllocHuge(node->context, side->rows_room * sizeof(uint32)) :
			repalloc_huge(side->rows, side->rows_room * sizeof(uint32));
	}
	side->rows[side->nrows++] = row;
}

static void
AddOdd(JoinNode *node, JoinSide *side, uint32 row)
{
	if (side->odd == NULL)
		side->odd = MemoryContextAllocExtended(node->context, KeptRowsCount(side->kept),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	side->odd[row] = true;
}

/* What becomes of a row; its vector, if the engine is to have it. */
static VectorUse
UseOf(JoinNode *node, JoinSide *side, uint32 row, float *vector)
{
	ArrayType  *array = VectorOf(node, side, row);
	int			dimensions;
	int			element;

	if (array == NULL)
		return NEVER_MATCHES;
	if (VectorShape(array, &dimensions) != VECTOR_OK || dimensions != node->dimensions ||
		VectorElements(array, VECTOR_FLOAT4, dimensions, vector, &element) != VECTOR_OK)
		return CLAUSES_DECIDE;
	return JoinNodeVector(node, vector);
}

/* Gives the group's vectors to the engine, or keeps them here.  False: it takes no more. */
static bool
PushSide(JoinNode *node, Join *join, int number)
{
	JoinSide   *side = &node->sides[number];
	float	   *vector = palloc(Max(node->dimensions, 1) * sizeof(float));
	bool		taken = true;

	side->nrows = 0;
	for (uint32 i = 0; i < side->group.count && taken; i++)
	{
		uint32		row = RowOfGroup(side, i);

		CHECK_FOR_INTERRUPTS();
		switch (UseOf(node, side, row, vector))
		{
			case ENGINE_TAKES_IT:
				if (join != NULL)
					taken = JoinPush(join, number, vector);
				else
					memcpy(side->vectors + (Size) side->nrows * node->dimensions, vector,
						   node->dimensions * sizeof(float));
				AddRow(node, side, row);
				break;
			case CLAUSES_DECIDE:
				AddOdd(node, side, row);
				break;
			case NEVER_MATCHES:
				break;
		}
	}
	pfree(vector);
	return taken;
}

void
PushGroup(RowPusher *pusher, Join *join)
{
	JoinNode   *node = (JoinNode *) ((char *) pusher - offsetof(JoinNode, pusher));

	if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
		(void) PushSide(node, join, INNER_SIDE);
}

/* --- small groups */

static bool
IsSmall(const JoinNode *node)
{
	uint64		a = node->sides[OUTER_SIDE].group.count;
	uint64		b = node->sides[INNER_SIDE].group.count;

	return node->plan.outer_keys != NIL && a * b <= MOST_SMALL_PAIRS &&
		(a + b) * node->dimensions <= MOST_SMALL_FLOATS;
}

/* All pairs of the group within eps, by the canonical distance. */
static void
JoinSmallGroup(JoinNode *node)
{
	const CpuKernel *kernel = fasted_cpu_choose_kernel(NULL);
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[node->plan.shared ? OUTER_SIDE : INNER_SIDE];
	double		eps = JoinNodeEps(node);

	PushGroup(&node->pusher, NULL);
	for (uint32 a = 0; a < outer->nrows; a++)
	{
		const float *x = outer->vectors + (Size) a * node->dimensions;

		for (uint32 b = node->plan.shared ? a + 1 : 0; b < inner->nrows; b++)
		{
			const float *y = inner->vectors + (Size) b * node->dimensions;
			double		dist = kernel->distance(x, y, node->dimensions);

			if (dist <= eps)
				node->own_pairs[node->npairs++] = (FastedPair) {.a = a,.b = b,.dist = dist};
		}
	}
	node->pairs = node->own_pairs;
}

/* --- the join of a group */

static void
BeginEngine(JoinNode *node)
{
	uint64		expected[2] = {node->sides[OUTER_SIDE].group.count,
	node->sides[INNER_SIDE].group.count};
	MemoryContext old = MemoryContextSwitchTo(node->context);

	node->join = JoinBeginPushed(&node->pusher, node->plan.shared ? 1 : 2, node->dimensions,
								 expected, JoinNodeEps(node));
	MemoryContextSwitchTo(old);
}

static void
AddStatistics(JoinNode *node)
{
	FastedStats sum = node->stats;
	FastedStats stats;
	double		read_seconds;

	if (!JoinStatistics(node->join, &stats, &read_seconds))
		return;
	stats.rows += sum.rows;
	stats.candidates += sum.candidates;
	stats.pairs += sum.pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		stats.pruned_tiles[level] += sum.pruned_tiles[level];
	stats.full_tiles += sum.full_tiles;
	stats.panels = Max(stats.panels, sum.panels);
	stats.host_bytes = Max(stats.host_bytes, sum.host_bytes);
	stats.device_bytes = Max(stats.device_bytes, sum.device_bytes);
	stats.prepare_seconds += sum.prepare_seconds;
	stats.filter_seconds += sum.filter_seconds;
	stats.refine_seconds += sum.refine_seconds;
	stats.device_seconds += sum.device_seconds;
	node->stats = stats;
}

void
EndJoin(JoinNode *node)
{
	if (node->join == NULL)
		return;
	AddStatistics(node);
	JoinEnd(node->join);
	node->join = NULL;
}

/* The clauses decide everything. */
static void
MarkAllOdd(JoinNode *node)
{
	for (int i = 0; i < (node->plan.shared ? 1 : 2); i++)
	{
		JoinSide   *side = &node->sides[i];

		for (uint32 row = 0; row < KeptRowsCount(side->kept); row++)
			AddOdd(node, side, row);
	}
}

void
FindGroups(JoinNode *node, bool decided)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	node->groups = 0;
	node->no_groups = true;
	if (node->nothing || KeptRowsCount(outer->kept) == 0 || KeptRowsCount(inner->kept) == 0)
		return;
	if (!decided)
	{
		MarkAllOdd(node);
		return;
	}
	node->no_groups = false;
	if (node->plan.outer_keys == NIL)
	{
		outer->group = (GroupPlace) {.count = KeptRowsCount(outer->kept)};
		inner->group = (GroupPlace) {.count = KeptRowsCount(inner->kept)};
		return;
	}
	node->own_pairs = MemoryContextAlloc(node->context, MOST_SMALL_PAIRS * sizeof(FastedPair));
	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];

		side->vectors = MemoryContextAlloc(node->context, MOST_SMALL_FLOATS * sizeof(float));
		if (side == inner && node->plan.shared)
			side->group = outer->group;
		else
			GroupSide(node, side);
	}
}

bool
BeginNextGroup(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	if (node->no_groups)
		return false;
	if (node->plan.outer_keys == NIL ? node->groups > 0 : !NextGroup(&outer->group, &inner->group))
		return false;
	node->groups++;
	node->all_groups++;
	node->next_pair = node->npairs = 0;
	node->next_equal = 0;
	node->mirrored = false;
	/* those of one group need not be those of another */
	node->dimensions = FindDimensions(node);
	if (node->dimensions == 0)
		PushGroup(&node->pusher, NULL); /* all are odd */
	else if (IsSmall(node))
		JoinSmallGroup(node);
	else
		BeginEngine(node);
	return true;
}
