/*-------------------------------------------------------------------------
 *
 * join_fill.c
 *	  Fills: reads both sides, combines hash partitions to batches, passes the vectors of each batch to a
 *	  join and starts it.
 *
 * Opening and filling an engine takes milliseconds, in which it could join hundreds of small
 * partitions.  The rows of as many partitions as fit into memory therefore form a batch.  All
 * vectors of a batch have the same number of dimensions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/large_memory.h"
#include "executor/executor.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

/*
 * Partitions with at least this number of pairs per row are joined separately.  They gain more from
 * the CPU engine's reordering of rows (cpu/rows/kd_order.c) than from a batch.
 */
#define LARGE_PARTITION_PAIRS_PER_ROW 10000.0

/* Up to this number of pairs per row, comparing the rows here is faster than an engine. */
#define FEW_PAIRS_PER_ROW 24.0

/* Prefetch distance in rows. */
#define ROWS_AHEAD 8

/* --- vectors */

/* Returns the vector of the current row, or null if the clauses on outer columns are false. */
static VectorView
VectorOfRow(JoinNode *node, JoinSide *side)
{
	/* rows in hash partitions have passed the outer clauses already */
	if (side->run.order == NULL && !PassesOuterClauses(node, side))
		return (VectorView) {.isnull = true};
	return ViewVector(node, side);
}

/* Evaluates the clause's bound, which is constant during the execution. */
static void
EvaluateBound(JoinNode *node)
{
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(node->clauses.bound, ScanTuple(node), &isnull);

	SetBound(&node->bound, value, isnull);
}

/*
 * Returns the dimensions of the current partition's first usable outer vector.  Returns 0 if there
 * is none or the clauses decide.  Evaluates the bound when a usable vector has been found.
 */
static int
DimensionsOfPartition(JoinNode *node)
{
	JoinSide   *side = &node->sides[OUTER_SIDE];
	const BoundValue *bound = &node->bound.value;

	for (uint32 i = 0; !bound->clauses_decide && LoadRowOfPartition(node, side, &i); i++)
	{
		VectorView	vector = VectorOfRow(node, side);

		if (vector.elements != NULL && (uint32) vector.dimensions <= FASTED_MAX_DIMENSIONS)
		{
			if (!bound->known)
				EvaluateBound(node);
			return bound->clauses_decide ? 0 : vector.dimensions;
		}
		CHECK_FOR_INTERRUPTS();
	}
	return 0;
}

/* Returns the use of the row in the scan tuple.  Stores its vector if the engine is to take it. */
static VectorUse
UseOf(JoinNode *node, JoinSide *side, float *vector)
{
	VectorView	view = VectorOfRow(node, side);
	bool		finite;

	if (view.isnull)
		return HAS_NO_VECTOR;
	if (view.elements == NULL || node->bound.value.clauses_decide ||
		view.dimensions != node->run.batch.dimensions)
		return CLAUSES_DECIDE;
	if (node->bound.element == FASTED_ELEMENT_BIT)
	{
		CopyBits(view.elements, vector, view.dimensions);
		return PASSED_TO_ENGINE;
	}
	finite = node->bound.element == FASTED_ELEMENT_DOUBLE ?
		CopyFiniteDoubles((const double *) view.elements, (double *) vector, view.dimensions) :
		CopyFinite(view.elements, vector, view.dimensions);
	return finite ? ConvertVector(&node->bound, side->number, vector, view.dimensions) : CLAUSES_DECIDE;
}

/* Returns the use of a row of a block, whose vector it converts in place. */
static VectorUse
UseOfInput(JoinNode *node, const JoinSide *side, const InputBlock *block, uint32 i)
{
	if (block->vectors[i] == INPUT_NULL)
		return HAS_NO_VECTOR;
	if (block->vectors[i] == INPUT_UNUSABLE || node->bound.value.clauses_decide ||
		block->dimensions != (uint32) node->run.batch.dimensions)
		return CLAUSES_DECIDE;
	/* without a zero vector, ConvertVector would compute the norm in vain */
	if (!node->bound.of_pgvector && node->bound.value.radius >= 0.0 && !block->has_zeros)
		return PASSED_TO_ENGINE;
	return ConvertVector(&node->bound, side->number, InputRow(side->input, block, i), block->dimensions);
}

/* Records the use of a row. */
static void
AddUse(JoinNode *node, JoinSide *side, VectorUse use, uint32 row)
{
	side->run.nvectors += use != HAS_NO_VECTOR;
	if (use == PASSED_TO_ENGINE)
		AddNumber(node, &side->run.pushed, row);
	else if (use == CLAUSES_DECIDE)
		AddNumber(node, &side->run.fallback, row);
}

/* Retains the rows of a block, and passes their vectors to the engine if with_input is set. */
bool
AcceptBlock(InputReader *reader, const InputBlock *block)
{
	JoinSide   *side = reader->arg;
	JoinNode   *node = side->node;
	uint32		first = side->run.retained->count;
	uint32		pushed = 0;

	RetainBlock(node, side, block);
	for (uint32 i = 0; i < block->nrows && side->run.with_input; i++)
	{
		VectorUse	use = UseOfInput(node, side, block, i);
		uint32		end = i + (use == PASSED_TO_ENGINE);

		AddUse(node, side, use, first + i);
		if (use == PASSED_TO_ENGINE && end < block->nrows)
			continue;
		/* pass the preceding rows that have not been passed yet */
		side->run.with_input = PassVectors(reader, block, NULL, pushed, end - pushed);
		pushed = i + 1;
	}
	return side->run.with_input;
}

/* Prefetches later rows of the current partition, because they are scattered in memory. */
static void
PrefetchRows(JoinSide *side, uint32 i)
{
	uint32		count = side->run.current.count;

	if (side->run.order == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < count)
		RetainedRowsPrefetch(side->run.retained, RowOfPartition(side, i + 2 * ROWS_AHEAD));
	if (i + ROWS_AHEAD < count)
		RetainedRowsPrefetchValues(side->run.retained, RowOfPartition(side, i + ROWS_AHEAD));
}

/*
 * Passes the vectors of the current partition's side to the join, which is NULL if it gets none.  Reads
 * a side that has not been read yet.  Sets nvectors to the number of non-null vectors.  vector is a
 * buffer for one row.  Returns false if the engine accepts no more rows.
 */
static bool
PushSideOfPartition(JoinNode *node, VectorJoin *join, int number, float *vector)
{
	JoinSide   *side = &node->sides[number];
	SideRun    *run = &side->run;
	bool		accepted = true;

	run->with_input = side->input != NULL && side->late_vector >= 0;
	if (run->with_input)
	{
		side->input->dimensions = node->run.batch.dimensions;
		SetInputSink(side->input, join == NULL ? NULL : JoinSink(join, number));
	}
	for (uint32 i = 0; accepted && LoadRowOfPartition(node, side, &i); i++)
	{
		VectorUse	use;

		CHECK_FOR_INTERRUPTS();
		PrefetchRows(side, i);
		use = UseOf(node, side, vector);
		if (use == PASSED_TO_ENGINE)
			accepted = JoinPush(join, number, vector);
		AddUse(node, side, use, RowOfPartition(side, i));
	}
	run->with_input = false;
	if (side->input != NULL)
		SetInputSink(side->input, NULL);
	return accepted;
}

/*
 * Passes one side of all partitions of the batch.  Skips inner rows of partitions whose outer
 * rows have no vectors.  Returns false if the engine accepts no more rows.
 */
static bool
PushSide(JoinNode *node, VectorJoin *join, int number)
{
	JoinBatch  *batch = &node->run.batch;
	JoinSide   *side = &node->sides[number];
	SideRun    *run = &side->run;
	float	   *vector = palloc(RowBytes(node->bound.element, batch->engine_dimensions) + 1);
	bool		accepted = true;

	run->pushed.count = run->fallback.count = 0;
	for (uint32 g = 0; g < batch->count && accepted; g++)
	{
		BatchSide  *rows = &batch->partitions[g][number];
		FastedPartition *engine_rows = &batch->engine_partitions[g];
		uint32		first_row = run->pushed.count;
		uint32		first_fallback = run->fallback.count;

		SelectPartition(node, g);
		run->nvectors = 0;
		if (number == OUTER_SIDE || batch->partitions[g][OUTER_SIDE].nvectors > 0)
			accepted = PushSideOfPartition(node, join, number, vector);
		*rows = (BatchSide) {.range = side->run.current,.first_fallback = first_fallback,
			.nfallback = run->fallback.count - first_fallback,.nvectors = run->nvectors};
		if (number == OUTER_SIDE)
		{
			engine_rows->first_a = first_row;
			engine_rows->rows_a = run->pushed.count - first_row;
		}
		if (number == INNER_SIDE || node->plan.shared)
		{
			batch->partitions[g][INNER_SIDE] = *rows;
			engine_rows->first_b = first_row;
			engine_rows->rows_b = run->pushed.count - first_row;
		}
	}
	pfree(vector);
	return accepted;
}

/* Withdraws the workers' memory; also called when the session ends, before its transaction does. */
static void
UnregisterInputs(int code, Datum arg)
{
	JoinNode   *node = (JoinNode *) DatumGetPointer(arg);

	for (int i = 0; i < 2; i++)
		if (node->sides[i].input != NULL)
			SetInputSink(node->sides[i].input, NULL);
}

/* Passes the batch's vectors to the join.  If it is NULL, all rows are fallback rows. */
static void
PushPartitions(JoinNode *node, VectorJoin *join)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* however this ends, the engine may not read the workers' memory after it is freed */
	PG_ENSURE_ERROR_CLEANUP(UnregisterInputs, PointerGetDatum(node));
	{
		if (PushSide(node, join, OUTER_SIDE) && !node->plan.shared)
			(void) PushSide(node, join, INNER_SIDE);
	}
	PG_END_ENSURE_ERROR_CLEANUP(UnregisterInputs, PointerGetDatum(node));
	if (node->plan.shared)
	{
		inner->run.pushed = outer->run.pushed;
		inner->run.fallback = outer->run.fallback;
		inner->run.complete = outer->run.complete;
	}
}

/* --- the join of a batch */

/* Returns the batch's number of rows on a side.  Estimates it if the side has not been read. */
static uint64
ExpectedRows(const JoinNode *node, int number)
{
	const JoinSide *side = &node->sides[node->plan.shared ? OUTER_SIDE : number];
	uint64		count = 0;

	for (uint32 g = 0; g < node->run.batch.count; g++)
		count += node->run.batch.partitions[g][number].range.count;
	return side->run.complete ? count : Max(count, (uint64) side->plan->plan->plan_rows);
}

/*
 * Starts the join of the batch: passes its vectors to an engine, or to a join of few rows.
 * Reads sides whose vectors are late-materialized.
 */
static void
StartBatch(JoinNode *node)
{
	JoinBatch  *batch = &node->run.batch;
	uint64		rows[2] = {ExpectedRows(node, OUTER_SIDE), ExpectedRows(node, INNER_SIDE)};
	JoinRequest request = {
		.problem.eps = EngineEps(&node->bound, batch->dimensions),
		.sides = node->plan.shared ? 1 : 2,.metric = node->bound.metric,
		.element = node->bound.element,.dimensions = batch->engine_dimensions,
		.expected_rows = {rows[OUTER_SIDE], rows[INNER_SIDE]},
		.most_rows = batch->small ? Max(rows[OUTER_SIDE], rows[INNER_SIDE]) : 0
	};
	MemoryContext old;

	node->totals.partitions += batch->count;
	if (batch->dimensions == 0)
	{
		PushPartitions(node, NULL);
		return;
	}
	batch->distance_decides = node->plan.distance_decides && !batch->unequal_keys;
	batch->engine_counts = batch->distance_decides && node->bound.exact && !batch->small;
	request.problem.output = batch->engine_counts ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_PAIRS;
	if (batch->count > 1)
	{
		request.problem.partitions = batch->engine_partitions;
		request.problem.npartitions = batch->count;
	}
	node->totals.engine_partitions += batch->small ? 0 : batch->count;
	old = MemoryContextSwitchTo(node->context);
	node->run.join = JoinOpen(&request);
	MemoryContextSwitchTo(old);
	do
		PushPartitions(node, node->run.join);
	while (!JoinStart(node->run.join));
	FinishSurelyWithin(&node->bound, batch->dimensions);
}

/* --- batches */

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
			(BatchSide) {.range = node->sides[i].run.current};
	batch->engine_partitions[batch->count++] =
		(FastedPartition) {.rows_a = node->sides[OUTER_SIDE].run.current.count,
		.rows_b = node->sides[INNER_SIDE].run.current.count};
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
			node->sides[i].run.current = node->sides[i].run.next;
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
		inner->run.retained = outer->run.retained;
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
		run->matched = MemoryContextAllocExtended(node->context, outer->run.retained->count + 1,
												  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	return formed;
}
