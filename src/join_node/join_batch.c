/*-------------------------------------------------------------------------
 *
 * join_batch.c
 *	  Groups that one engine joins at a time: as many as there is memory for.
 *
 * To open an engine and to fill it takes milliseconds, in which it could join hundreds of
 * small groups.  So their rows go there together, group by group, and it is told which
 * of them meet.  Groups of one batch have vectors of one number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join/engines.h"
#include "join_node/join_state.h"
#include "miscadmin.h"

/*
 * Groups of so many pairs a row are joined one by one where rows are put in order for
 * each join of many (the CPU engine's cpu_prune.c), which gains more than a batch.
 */
#define LARGE_GROUP_PAIRS_A_ROW 10000.0

/* Where rows meet so few others, it takes an engine longer to prepare them than us to compare them. */
#define FEW_PAIRS_A_ROW 24.0

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
BeginBatches(JoinNode *node)
{
	GroupPlace	outer = node->sides[OUTER_SIDE].group;
	GroupPlace	inner = node->sides[INNER_SIDE].group;

	node->next_group[OUTER_SIDE] = outer;
	node->next_group[INNER_SIDE] = inner;
	node->batch = NULL;
	node->row_groups = NULL;
	node->batch_room = 0;
	node->group_waits = false;
	node->room_dimensions = 0;
	node->all_pairs = node->all_rows = 0.0;
	while (node->plan.outer_keys != NIL && NextGroup(&outer, &inner))
	{
		node->all_pairs += PairsOf(node, outer.count, inner.count);
		node->all_rows += RowsOf(node, outer.count, inner.count);
	}
}

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
	return pairs <= MOST_SMALL_PAIRS && rows * JoinNodeRowFloats(node) <= MOST_SMALL_FLOATS;
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
	const BatchGroup *group = &node->batch[g];

	for (int i = 0; i < 2; i++)
	{
		JoinSide   *side = &node->sides[i];
		const BatchSide *from = &group->sides[node->plan.shared ? OUTER_SIDE : i];

		side->group = from->place;
		side->nodd = group->sides[node->plan.shared ? OUTER_SIDE : 1 - i].nvectors > 0 ? from->nodd : 0;
		if (side->nodd > 0)
			side->odd = node->sides[node->plan.shared ? OUTER_SIDE : i].all_odd + from->first_odd;
	}
}

static void
GrowBatch(JoinNode *node)
{
	Size		room = Max(64, 2 * (Size) node->batch_room);

	if (node->nbatch < node->batch_room)
		return;
	if (node->batch == NULL)
	{
		node->batch = MemoryContextAllocHuge(node->context, room * sizeof(BatchGroup));
		node->row_groups = MemoryContextAllocHuge(node->context, room * sizeof(FastedRowGroup));
	}
	else
	{
		node->batch = repalloc_huge(node->batch, room * sizeof(BatchGroup));
		node->row_groups = repalloc_huge(node->row_groups, room * sizeof(FastedRowGroup));
	}
	node->batch_room = room;
}

/* Adds the group that both sides are at, and what is guessed of it: that an engine takes all. */
static void
AddGroup(JoinNode *node)
{
	BatchGroup *group;

	GrowBatch(node);
	group = &node->batch[node->nbatch];
	memset(group, 0, sizeof(*group));
	for (int i = 0; i < 2; i++)
		group->sides[i].place = node->sides[i].group;
	node->row_groups[node->nbatch++] = (FastedRowGroup) {
		.rows_a = node->sides[OUTER_SIDE].group.count,
		.rows_b = node->sides[INNER_SIDE].group.count
	};
	node->batch_pairs += PairsOf(node, node->sides[OUTER_SIDE].group.count,
								 node->sides[INNER_SIDE].group.count);
	node->batch_rows += RowsOf(node, node->sides[OUTER_SIDE].group.count,
							   node->sides[INNER_SIDE].group.count);
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

/* How large a batch for an engine may be; once for all batches of these dimensions. */
static void
FindRoom(JoinNode *node)
{
	if (node->room_dimensions == node->dimensions)
		return;
	node->most_rows = JoinRoom(node->all_pairs, node->element, node->dimensions, &node->alone);
	node->room_dimensions = node->dimensions;
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
	FindRoom(node);
	return node->batch_rows + rows <= node->most_rows && !IsLarge(node, rows, pairs) &&
		!IsLarge(node, node->batch_rows, node->batch_pairs);
}

/*
 * Of the outer side's rows; the inner side's, too, where they are shared.  The bound is
 * evaluated when there is a vector to be compared, and both sides have rows.
 */
static int
DimensionsOfGroup(JoinNode *node)
{
	int			dimensions = node->undecided ? 0 : FindDimensions(node);

	if (dimensions > 0 && !node->radius_known)
		FindRadius(node);
	return node->undecided ? 0 : dimensions;
}

bool
NextBatch(JoinNode *node)
{
	bool		grouped = node->plan.outer_keys != NIL;

	node->nbatch = 0;
	node->batch_rows = 0;
	node->batch_pairs = 0.0;
	node->dimensions = 0;
	if (node->nothing || (!grouped && node->groups > 0))
		return false;
	while (!grouped || FindNextGroup(node))
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
		if (!grouped)
			break;
	}
	return node->nbatch > 0;
}
