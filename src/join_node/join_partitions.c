/*-------------------------------------------------------------------------
 *
 * join_partitions.c
 *	  Divides the rows of both sides into hash partitions.
 *
 * If the join has equality clauses, only rows with equal keys can match.  The rows are therefore
 * divided into hash partitions by the hash of their keys.  Different keys may have the same hash, so
 * the equality clauses are checked on the pairs found.  Without equality clauses, all rows are one
 * partition.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/large_memory.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

typedef struct PartitionNumber
{
	uint64		hash;
	uint32		number;			/* index in HashPartitions.array */
	char		status;
} PartitionNumber;

#define SH_PREFIX partition
#define SH_ELEMENT_TYPE PartitionNumber
#define SH_KEY_TYPE uint64
#define SH_KEY hash
#define SH_HASH_KEY(table, key) ((uint32) (key))
#define SH_EQUAL(table, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

void
AddNumber(JoinNode *node, RowList *list, uint32 number)
{
	if (list->count == list->capacity)
		list->numbers = GrowArray(node->context, list->numbers, &list->capacity, sizeof(uint32));
	list->numbers[list->count++] = number;
}

bool
PassesOuterClauses(JoinNode *node, const JoinSide *side)
{
	return side->number == INNER_SIDE ||
		ExecQual(node->clauses.outer, node->css.ss.ps.ps_ExprContext);
}

bool
LoadRowOfPartition(JoinNode *node, JoinSide *side, uint32 *i)
{
	PartitionRange *range = &side->run.current;

	if (*i >= range->count)
	{
		bool		more = ReadRow(node, side);

		if (side->run.order == NULL)
			range->count = side->run.retained->count;
		if (!more)
			return false;
		if (side->run.with_input)
			*i = range->count - 1;
		if (side->run.has_vector && *i == range->count - 1)
			return true;
	}
	ScanTuple(node);
	LoadRow(node, side, RowOfPartition(side, *i));
	LoadVector(node, side);
	return true;
}

/* Adds a partition with the keys of the current row, and returns its index. */
static uint32
AddPartition(JoinNode *node, const JoinSide *side)
{
	HashPartitions *all = &node->run.partitions;
	MemoryContext old = MemoryContextSwitchTo(node->context);
	Datum	   *keys = palloc(side->nkeys * sizeof(Datum));

	if (all->count == all->capacity)
		all->array = GrowArray(node->context, all->array, &all->capacity, sizeof(HashPartition));
	for (int i = 0; i < side->nkeys; i++)
		keys[i] = datumCopy(side->keys[i].value, side->keys[i].typbyval, side->keys[i].typlen);
	MemoryContextSwitchTo(old);
	all->array[all->count] = (HashPartition) {.keys = keys,.equal_keys = true};
	return all->count++;
}

/*
 * Evaluates the keys of the row in the scan tuple, and sets *hash to their hash.  Returns false if
 * the row cannot match, because a key is null or a clause on outer columns is false.
 */
static bool
HashKeys(JoinNode *node, JoinSide *side, uint64 *hash)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	bool		isnull = false;

	*hash = 0;
	if (!PassesOuterClauses(node, side))
		return false;
	for (int i = 0; i < side->nkeys && !isnull; i++)
	{
		EqualityKey *key = &side->keys[i];

		key->value = ExecEvalExpr(key->expr, econtext, &isnull);
		if (!isnull)
			*hash = hash_combine64(*hash, DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation,
																		   key->value)));
	}
	return !isnull;
}

/*
 * Adds the row in the scan tuple to its partition, and returns the partition's index.  Returns
 * NO_ROW if the row cannot match.
 */
static uint32
PartitionOfRow(JoinNode *node, JoinSide *side)
{
	HashPartitions *all = &node->run.partitions;
	MemoryContext old =
		MemoryContextSwitchTo(node->css.ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	PartitionNumber *entry = NULL;
	HashPartition *partition;
	bool		found = true;
	uint64		hash;

	if (HashKeys(node, side, &hash))
		entry = side->number == INNER_SIDE ? partition_lookup(all->numbers, hash) :
			partition_insert(all->numbers, hash, &found);
	if (!found)
		entry->number = AddPartition(node, side);
	MemoryContextSwitchTo(old);
	if (entry == NULL)
		return NO_ROW;
	partition = &all->array[entry->number];
	partition->ranges[side->number].count++;
	for (int i = 0; i < side->nkeys && partition->equal_keys; i++)
		partition->equal_keys = side->keys[i].comparable &&
			datum_image_eq(side->keys[i].value, partition->keys[i], side->keys[i].typbyval,
						   side->keys[i].typlen);
	return entry->number;
}

/*
 * Reads the side and divides its rows into partitions.  Computes the order of the rows by
 * partition, then by row number for sequential access.
 */
static void
DivideSide(JoinNode *node, JoinSide *side)
{
	HashPartitions *all = &node->run.partitions;
	RowList		numbers = {0};
	uint32		first = 0;
	PartitionRange *range;

	side->run.current.count = side->run.retained->count;
	for (uint32 row = 0; LoadRowOfPartition(node, side, &row); row++)
	{
		CHECK_FOR_INTERRUPTS();
		AddNumber(node, &numbers, PartitionOfRow(node, side));
	}
	for (uint32 i = 0; i < all->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		range = &all->array[i].ranges[side->number];
		range->first = first;
		first += range->count;
		range->count = 0;
	}
	side->run.order = MemoryContextAllocHuge(node->context,
													((Size) first + 1) * sizeof(uint32));
	for (uint32 row = 0; row < numbers.count; row++)
	{
		CHECK_FOR_INTERRUPTS();
		if (numbers.numbers[row] == NO_ROW)
			continue;
		range = &all->array[numbers.numbers[row]].ranges[side->number];
		side->run.order[range->first + range->count++] = row;
	}
	if (numbers.numbers != NULL)
		pfree(numbers.numbers);
}

bool
NextPartition(JoinNode *node)
{
	HashPartitions *all = &node->run.partitions;

	while (all->next < all->count)
	{
		const HashPartition *partition = &all->array[all->next++];

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < 2; i++)
			node->sides[i].run.next = partition->ranges[node->plan.shared ? OUTER_SIDE : i];
		if (node->sides[OUTER_SIDE].run.next.count > 0 &&
			node->sides[INNER_SIDE].run.next.count > 0)
			return true;
	}
	return false;
}

PartitionSize
SizeWithNext(const JoinNode *node, PartitionSize others)
{
	double		outer = node->sides[OUTER_SIDE].run.next.count;
	double		inner = node->sides[INNER_SIDE].run.next.count;

	others.rows += node->plan.shared ? outer : outer + inner;
	others.pairs += node->plan.shared ? 0.5 * outer * (outer - 1.0) : outer * inner;
	return others;
}

void
FindPartitions(JoinNode *node)
{
	HashPartitions *all = &node->run.partitions;
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* the workers of an inner side do not start before the outer side has been read */
	if (IsEmptySide(node, outer) || (inner->input == NULL && IsEmptySide(node, inner)))
		return;
	all->pending = node->plan.keys[OUTER_SIDE] == NIL;
	if (all->pending)
	{
		outer->run.next.count = outer->run.retained->count;
		inner->run.next.count = inner->run.retained->count;
		return;
	}
	all->numbers = partition_create(node->context, 256, NULL);
	DivideSide(node, outer);
	if (node->plan.shared)
		inner->run.order = outer->run.order;
	else if (all->count > 0)
		DivideSide(node, inner);
	while (NextPartition(node))
		all->size = SizeWithNext(node, all->size);
	all->next = 0;
}
