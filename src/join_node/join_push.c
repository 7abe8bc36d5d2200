/*-------------------------------------------------------------------------
 *
 * join_push.c
 *	  Passes the vectors of a batch to an engine and starts the join; joins few rows without one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "join/join.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

/* Prefetch distance in rows. */
#define ROWS_AHEAD 8

/* --- vectors */

/* Returns the vector of the current row, or null if the clauses on outer columns are false. */
static VectorView
VectorOfRow(JoinNode *node, JoinSide *side)
{
	/* rows in hash partitions have passed the outer clauses already */
	if (side->partitions.order == NULL && !PassesOuterClauses(node, side))
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

int
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
	side->push.nvectors += use != HAS_NO_VECTOR;
	if (use == PASSED_TO_ENGINE)
		AddNumber(node, &side->push.pushed, row);
	else if (use == CLAUSES_DECIDE)
		AddNumber(node, &side->push.fallback, row);
}

/* Retains the rows of a block, and passes their vectors to the engine if with_input is set. */
bool
AcceptBlock(InputReader *reader, const InputBlock *block)
{
	JoinSide   *side = reader->arg;
	JoinNode   *node = side->node;
	uint32		first = side->rows.retained->count;
	uint32		pushed = 0;

	RetainBlock(node, side, block);
	for (uint32 i = 0; i < block->nrows && side->push.with_input; i++)
	{
		VectorUse	use = UseOfInput(node, side, block, i);
		uint32		end = i + (use == PASSED_TO_ENGINE);

		AddUse(node, side, use, first + i);
		if (use == PASSED_TO_ENGINE && end < block->nrows)
			continue;
		/* pass the preceding rows that have not been passed yet */
		side->push.with_input = PassVectors(reader, block, NULL, pushed, end - pushed);
		pushed = i + 1;
	}
	return side->push.with_input;
}

/* Prefetches later rows of the current partition, because they are scattered in memory. */
static void
PrefetchRows(JoinSide *side, uint32 i)
{
	uint32		count = side->partitions.current.count;

	if (side->partitions.order == NULL)
		return;
	if (i + 2 * ROWS_AHEAD < count)
		RetainedRowsPrefetch(side->rows.retained, RowOfPartition(side, i + 2 * ROWS_AHEAD));
	if (i + ROWS_AHEAD < count)
		RetainedRowsPrefetchValues(side->rows.retained, RowOfPartition(side, i + ROWS_AHEAD));
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
	SidePush   *push = &side->push;
	bool		accepted = true;

	push->with_input = side->input != NULL && side->late_vector >= 0;
	if (push->with_input)
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
	push->with_input = false;
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
	SidePush   *push = &side->push;
	float	   *vector = palloc(RowBytes(node->bound.element, batch->engine_dimensions) + 1);
	bool		accepted = true;

	push->pushed.count = push->fallback.count = 0;
	for (uint32 g = 0; g < batch->count && accepted; g++)
	{
		BatchSide  *rows = &batch->partitions[g][number];
		FastedPartition *engine_rows = &batch->engine_partitions[g];
		uint32		first_row = push->pushed.count;
		uint32		first_fallback = push->fallback.count;

		SelectPartition(node, g);
		push->nvectors = 0;
		if (number == OUTER_SIDE || batch->partitions[g][OUTER_SIDE].nvectors > 0)
			accepted = PushSideOfPartition(node, join, number, vector);
		*rows = (BatchSide) {.range = side->partitions.current,.first_fallback = first_fallback,
			.nfallback = push->fallback.count - first_fallback,.nvectors = push->nvectors};
		if (number == OUTER_SIDE)
		{
			engine_rows->first_a = first_row;
			engine_rows->rows_a = push->pushed.count - first_row;
		}
		if (number == INNER_SIDE || node->plan.shared)
		{
			batch->partitions[g][INNER_SIDE] = *rows;
			engine_rows->first_b = first_row;
			engine_rows->rows_b = push->pushed.count - first_row;
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
		inner->push.pushed = outer->push.pushed;
		inner->push.fallback = outer->push.fallback;
		inner->rows.complete = outer->rows.complete;
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
	return side->rows.complete ? count : Max(count, (uint64) side->plan->plan->plan_rows);
}

void
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
