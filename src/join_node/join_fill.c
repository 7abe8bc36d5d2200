/*-------------------------------------------------------------------------
 *
 * join_fill.c
 *	  Fills: reads both sides, combines hash partitions to batches, and starts the join of each batch.
 *
 * Opening and filling an engine takes milliseconds, in which it could join hundreds of small
 * partitions.  The rows of as many partitions as fit into memory therefore form a batch.  All
 * vectors of a batch have the same number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/large_memory.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "utils/memutils.h"

/*
 * Partitions with at least this number of pairs per row are joined separately.  They gain more from
 * the CPU engine's reordering of rows (cpu/rows/kd_order.c) than from a batch.
 */
#define LARGE_PARTITION_PAIRS_PER_ROW 10000.0

/* Up to this number of pairs per row, comparing the rows here is faster than an engine. */
#define FEW_PAIRS_PER_ROW 24.0

/* Returns true if partitions of this total size can be joined without an engine. */
static bool
AreSmall(const JoinNode *node, PartitionSize size)
{
	/* without equality keys, a side may not have been read yet */
	return node->plan.keys[OUTER_SIDE] != NIL && size.pairs <= SMALL_JOIN_PAIRS &&
		size.rows * RowFloats(node->bound.element, node->run.batch.engine_dimensions) <= SMALL_JOIN_FLOATS;
}

/* Returns true if partitions of this size should be joined separately. */
static bool
AreLarge(const JoinNode *node, PartitionSize size)
{
	return node->run.limit.separate_large &&
		size.pairs >= LARGE_PARTITION_PAIRS_PER_ROW * size.rows;
}

/* Returns true if the next partition, whose vectors have these dimensions, fits into the batch. */
static bool
FitsIntoBatch(JoinNode *node, int dimensions)
{
	const JoinBatch *batch = &node->run.batch;
	BatchLimit *limit = &node->run.limit;
	PartitionSize all = node->run.partitions.size;
	PartitionSize size = SizeWithNext(node, batch->size);

	if (batch->count == 0)
		return true;
	if (dimensions != 0 && batch->dimensions != 0 && dimensions != batch->dimensions)
		return false;
	if (AreSmall(node, size) || batch->dimensions == 0)
		return true;
	if (all.pairs <= FEW_PAIRS_PER_ROW * all.rows && AreSmall(node, batch->size))
		return false;
	if (limit->dimensions != batch->dimensions)
		limit->rows = JoinCapacity(all.pairs, node->bound.element, batch->dimensions,
								   &limit->separate_large);
	limit->dimensions = batch->dimensions;
	return size.rows <= limit->rows &&
		!AreLarge(node, SizeWithNext(node, (PartitionSize) {0})) && !AreLarge(node, batch->size);
}

/* Adds the current partition to the batch. */
static void
AddToBatch(JoinNode *node, int dimensions)
{
	JoinBatch  *batch = &node->run.batch;
	const HashPartitions *all = &node->run.partitions;
	uint32		capacity = batch->capacity;

	if (batch->count == capacity)
	{
		batch->engine_partitions = GrowArray(node->context, batch->engine_partitions, &capacity,
											 sizeof(FastedPartition));
		batch->partitions = GrowArray(node->context, batch->partitions, &batch->capacity,
									  sizeof(BatchPartition));
	}
	for (int i = 0; i < 2; i++)
		batch->partitions[batch->count][i] =
			(BatchSide) {.range = node->sides[i].partitions.current};
	batch->engine_partitions[batch->count++] =
		(FastedPartition) {.rows_a = node->sides[OUTER_SIDE].partitions.current.count,
		.rows_b = node->sides[INNER_SIDE].partitions.current.count};
	batch->size = SizeWithNext(node, batch->size);
	if (batch->dimensions == 0)
	{
		batch->dimensions = dimensions;
		batch->engine_dimensions = EngineDimensions(&node->bound, dimensions);
	}
	batch->unequal_keys |= all->count > 0 && !all->array[all->next - 1].equal_keys;
}

/*
 * Forms the next batch of partitions.  Returns false if no partition is left.  The row ranges for the
 * engine are estimates that assume that it takes every row.
 */
static bool
FormBatch(JoinNode *node)
{
	JoinBatch  *batch = &node->run.batch;
	HashPartitions *all = &node->run.partitions;

	*batch = (JoinBatch) {.partitions = batch->partitions,
		.engine_partitions = batch->engine_partitions,.capacity = batch->capacity};
	while (!node->bound.value.empty && (all->pending || NextPartition(node)))
	{
		int			dimensions;

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < 2; i++)
			node->sides[i].partitions.current = node->sides[i].partitions.next;
		dimensions = DimensionsOfPartition(node);
		if (node->bound.value.empty)
			break;
		all->pending = !FitsIntoBatch(node, dimensions);
		if (all->pending)
			break;
		AddToBatch(node, dimensions);
	}
	batch->small = AreSmall(node, batch->size);
	return batch->count > 0;
}

void
BeginFilling(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	for (int i = 0; i < 2; i++)
		LoadRow(node, &node->sides[i], NO_ROW);
	if (node->plan.keys[OUTER_SIDE] == NIL)
		WarmEngine(outer->plan->plan->plan_rows, inner->plan->plan->plan_rows);
	BeginSide(node, outer);
	if (node->plan.shared)
		inner->rows.retained = outer->rows.retained;
	else
		BeginSide(node, inner);
	if (outer->late_vector < 0 && outer->nkeys == 0)
		ReadSide(node, outer);
	if (!node->plan.shared && inner->late_vector < 0 && inner->nkeys == 0 && !IsEmptySide(node, outer))
		ReadSide(node, inner);
	FindPartitions(node);
	node->totals.runs++;
}

bool
FillBatch(JoinNode *node)
{
	JoinRun    *run = &node->run;
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	bool		formed = FormBatch(node);

	run->cursor = (MatchCursor) {0};
	if (formed)
		StartBatch(node);
	else
		ReadSide(node, outer);
	if (node->plan.type != JOIN_INNER && run->matched == NULL)
		run->matched = MemoryContextAllocExtended(node->context, outer->rows.retained->count + 1,
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	return formed;
}
