/*-------------------------------------------------------------------------
 *
 * join_exec.c
 *	  Executes the join node: reads both sides and returns matches, or their number. Also
 *	  prints the node's properties in EXPLAIN (doc/plans.md).
 *
 * Some vectors cannot be passed to the engine, for example those with a different number of
 * dimensions or a null element.  Their rows are fallback rows.  The clauses themselves are
 * evaluated for a fallback row and each row of the other side, as in a nested loop.  They therefore
 * give the same result or error as a nested loop.  A null vector has no match.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "function_node/function_node.h"
#include "join_node/join_node.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

/* Prefetch distance in pairs. */
#define PAIRS_AHEAD 12

/* --- candidate pairs */

/* Orders the rows of a pair by the ordering clause.  Returns false if they have no order. */
static bool
OrderRows(JoinNode *node, Candidate *pair)
{
	int			compared;

	if (node->direction != 0)
		compared = pair->outer < pair->inner ? node->direction : -node->direction;
	else
	{
		ScanTuple(node);
		compared = CompareByOrder(node, pair->outer, pair->inner);
	}
	if ((compared > 0) != node->order_swapped)
		*pair = (Candidate) {pair->inner, pair->outer, pair->sure};
	return compared != 0;
}

/* Returns the engine's next pair, ordered if the clauses need it.  Returns false at the end. */
static bool
NextOfEngine(JoinNode *node, Candidate *pair)
{
	const JoinSide *outer = &node->sides[OUTER_SIDE];
	const JoinSide *inner = &node->sides[INNER_SIDE];

	for (;;)
	{
		const FastedPair *found;

		if (node->next_pair == node->npairs)
		{
			node->next_pair = node->npairs = 0;
			if (node->join == NULL || !JoinNext(node->join, &node->pairs, &node->npairs))
			{
				EndJoin(node);
				return false;
			}
		}
		found = &node->pairs[node->next_pair];
		if (node->next_pair++ + PAIRS_AHEAD < node->npairs)
		{
			RetainedRowsPrefetch(outer->retained, RowOfEngine(outer, found[PAIRS_AHEAD].a));
			RetainedRowsPrefetch(inner->retained, RowOfEngine(inner, found[PAIRS_AHEAD].b));
		}
		*pair = (Candidate) {.outer = RowOfEngine(outer, found->a),
			.inner = RowOfEngine(inner, found->b),
			.sure = IsExact(node) || found->dist < node->surely_within};
		if (node->order == NULL || (pair->sure && node->distance_decides) || OrderRows(node, pair))
			return true;
		InstrCountFiltered1(node, 1);
		CHECK_FOR_INTERRUPTS();
	}
}

/* Returns true if rows are shared and each pair matches in both directions, and each row itself. */
static bool
GoesBothWays(const JoinNode *node)
{
	return node->plan.shared && node->order == NULL;
}

/* Returns true if the distance of every row to itself is 0, so that the pair matches. */
static bool
EqualRowsMatch(const JoinNode *node)
{
	FastedMetric metric = node->plan.distance.metric;

	/* the Jaccard distance of rows without any bit is 1 */
	return metric != FASTED_METRIC_INNER_PRODUCT && metric != FASTED_METRIC_JACCARD &&
		(IsExact(node) || 0.0 < node->surely_within);
}

/*
 * Returns the next pair of a fallback row of the side with a row of the other side, in the current
 * partition.  Returns false at the end.  Pairs of two fallback rows are returned for the outer side
 * only.
 */
static bool
NextFallbackOfPartition(JoinNode *node, Candidate *pair)
{
	const BatchSide *partition = node->batch[node->fallback_partition];
	int			number = node->fallback_side;
	const JoinSide *side = &node->sides[number];
	const JoinSide *other = &node->sides[1 - number];
	const uint32 *outer_fallback = node->sides[OUTER_SIDE].fallback.numbers +
		partition[OUTER_SIDE].first_fallback;

	for (; node->next_fallback < partition[number].nfallback;
		 node->next_fallback++, node->next_other = node->met = 0)
		while (node->next_other < other->partition.count)
		{
			uint32		i = node->next_other++;
			uint32		rows[2];

			CHECK_FOR_INTERRUPTS();
			if (number == INNER_SIDE && node->met < partition[OUTER_SIDE].nfallback &&
				outer_fallback[node->met] == i)
			{
				node->met++;
				continue;
			}
			rows[number] = RowOfPartition(side, side->fallback.numbers[partition[number].first_fallback +
																	   node->next_fallback]);
			rows[1 - number] = RowOfPartition(other, i);
			*pair = (Candidate) {.outer = rows[OUTER_SIDE],.inner = rows[INNER_SIDE]};
			return true;
		}
	return false;
}

/*
 * Returns the next pair with a fallback row, for both sides of all partitions.  Skips a partition's
 * fallback rows if the other side has no vectors there.
 */
static bool
NextFallback(JoinNode *node, Candidate *pair)
{
	for (; node->fallback_partition < node->nbatch;
		 node->fallback_partition++, node->fallback_side = OUTER_SIDE)
	{
		TakePartition(node, node->fallback_partition);
		for (; node->fallback_side <= INNER_SIDE; node->fallback_side++, node->next_fallback = 0)
			if (node->batch[node->fallback_partition][1 - node->fallback_side].nvectors > 0 &&
				NextFallbackOfPartition(node, pair))
				return true;
	}
	return false;
}

/* Returns the next candidate pair of the batch in *pair, or false at the end. */
static bool
NextCandidate(JoinNode *node, Candidate *pair)
{
	if (node->mirrored)
	{
		*pair = (Candidate) {node->last.inner, node->last.outer, node->last.sure};
		node->mirrored = false;
		return true;
	}
	if (NextOfEngine(node, pair))
	{
		node->mirrored = GoesBothWays(node);
		return true;
	}
	if (GoesBothWays(node) && node->next_equal < node->sides[OUTER_SIDE].pushed.count)
	{
		uint32		row = RowOfEngine(&node->sides[OUTER_SIDE], node->next_equal++);

		*pair = (Candidate) {row, row, EqualRowsMatch(node)};
		return true;
	}
	return NextFallback(node, pair);
}

/* Returns true if the pair passes all clauses.  Skips the distance clause if it certainly holds. */
static bool
PairPasses(JoinNode *node, const Candidate *pair)
{
	ExprState  *quals = pair->sure ? node->join_quals : node->all_quals;

	if (pair->sure && node->distance_decides)
		return true;
	if (quals == NULL)
		return true;
	LoadPair(node, pair->outer, pair->inner);
	for (int i = 0; i < 2 && !pair->sure; i++)
		LoadVector(node, &node->sides[i]);
	if (ExecQual(quals, ScanTuple(node)))
		return true;
	InstrCountFiltered1(node, 1);
	return false;
}

/* Stores the next match of the batch in node->last.  Returns false at the end. */
static bool
NextPair(JoinNode *node)
{
	bool		one_match = node->plan.type == JOIN_SEMI || node->plan.type == JOIN_ANTI;
	Candidate  *pair = &node->last;

	while (NextCandidate(node, pair))
	{
		CHECK_FOR_INTERRUPTS();
		if ((one_match && node->matched[pair->outer]) || !PairPasses(node, pair))
			continue;
		if (node->matched != NULL)
			node->matched[pair->outer] = true;
		if (node->plan.type != JOIN_ANTI)
			return true;
	}
	return false;
}

/* Stores the next outer row without a match in node->last.  Returns false at the end. */
static bool
NextUnmatched(JoinNode *node)
{
	if (node->plan.type != JOIN_LEFT && node->plan.type != JOIN_ANTI)
		return false;
	while (node->next_unmatched < node->sides[OUTER_SIDE].retained->count)
	{
		uint32		row = node->next_unmatched++;

		CHECK_FOR_INTERRUPTS();
		node->last = (Candidate) {.outer = row,.inner = NO_ROW};
		if (!node->matched[row])
			return true;
	}
	return false;
}

/* --- one execution */

/*
 * Reads the sides and forms hash partitions.  A side that retains its vectors is read completely
 * before the engine starts, because its rows may have to wait for their partitions.
 * Late-materialized vectors are passed to the engine while the side is read.  The inner side is
 * not read if the outer side is empty.
 */
static void
BeginRun(JoinNode *node)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	for (int i = 0; i < 2; i++)
		LoadRow(node, &node->sides[i], NO_ROW);
	if (node->plan.keys[OUTER_SIDE] == NIL)
		WarmEngine(outer->plan->plan->plan_rows, inner->plan->plan->plan_rows);
	BeginSide(node, outer);
	if (node->plan.shared)
		inner->retained = outer->retained;
	else
		BeginSide(node, inner);
	if (outer->late_vector < 0 && outer->nkeys == 0)
		ReadSide(node, outer);
	if (!node->plan.shared && inner->late_vector < 0 && inner->nkeys == 0 && !IsEmptySide(node, outer))
		ReadSide(node, inner);
	FindPartitions(node);
	node->runs++;
}

/*
 * Starts the next batch, or after the last batch the phase of unmatched rows.  If the engine can
 * count the batch's pairs, adds their number to node->count.  Fallback rows are then still to be
 * counted.
 */
static void
StartNextBatch(JoinNode *node)
{
	node->phase = JoinNextBatch(node) ? JOIN_PAIRS : JOIN_UNMATCHED;
	if (node->distance_decides && IsExact(node))
	{
		node->count += JoinCount(node->join) * (GoesBothWays(node) ? 2 : 1);
		EndJoin(node);
		if (GoesBothWays(node) && EqualRowsMatch(node))
			node->count += node->next_equal = node->sides[OUTER_SIDE].pushed.count;
	}
	if (node->plan.type != JOIN_INNER && node->matched == NULL)
		node->matched = MemoryContextAllocExtended(node->context,
												   node->sides[OUTER_SIDE].retained->count + 1,
												   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

static void
EndRun(JoinNode *node)
{
	EndJoin(node);
	for (int i = 0; i < 2; i++)
		EndSide(&node->sides[i]);
	memset(&node->phase, 0, sizeof(JoinNode) - offsetof(JoinNode, phase));
	MemoryContextReset(node->context);
}

/* Stores the next match or unmatched outer row in node->last.  Returns false at the end. */
static bool
NextMatch(JoinNode *node)
{
	if (node->phase == JOIN_TO_BEGIN)
	{
		node->phase = JOIN_OVER;
		if (ExecQual(node->one_time_quals, ScanTuple(node)))
		{
			BeginRun(node);
			StartNextBatch(node);
		}
	}
	while (node->phase == JOIN_PAIRS)
	{
		if (NextPair(node))
			return true;
		StartNextBatch(node);
	}
	if (node->phase == JOIN_UNMATCHED && NextUnmatched(node))
		return true;
	node->phase = JOIN_OVER;
	return false;
}

/* Copies the columns of the result from the retained rows in node->last. */
static TupleTableSlot *
CopyMatch(JoinNode *node, TupleTableSlot *result)
{
	JoinSide   *outer = &node->sides[OUTER_SIDE];
	JoinSide   *inner = &node->sides[INNER_SIDE];

	/* a parent node may have materialized the last result */
	if (TTS_SHOULDFREE(result))
		ExecClearTuple(result);
	CopyColumns(outer, &outer->to_result, node->last.outer, result);
	CopyColumns(inner, &inner->to_result, node->last.inner, result);
	result->tts_flags &= ~TTS_FLAG_EMPTY;
	result->tts_nvalid = result->tts_tupleDescriptor->natts;
	return result;
}

static TupleTableSlot *
NextRow(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	ProjectionInfo *projection = state->ps_ProjInfo;
	TupleTableSlot *result = projection == NULL ? NULL : projection->pi_state.resultslot;

	/* a parent node may have materialized the last scan tuple */
	if (TTS_SHOULDFREE(node->css.ss.ss_ScanTupleSlot))
	{
		ExecClearTuple(node->css.ss.ss_ScanTupleSlot);
		node->sides[OUTER_SIDE].loaded = node->sides[INNER_SIDE].loaded = -1;
	}
	while (NextMatch(node))
	{
		ExprContext *econtext;

		if (node->direct)
			return CopyMatch(node, result);
		econtext = ScanTuple(node);
		LoadPair(node, node->last.outer, node->last.inner);
		if (node->other_quals == NULL || ExecQual(node->other_quals, econtext))
			return projection == NULL ? econtext->ecxt_scantuple : ExecProject(projection);
		InstrCountFiltered2(node, 1);
	}
	return result == NULL ? NULL : ExecClearTuple(result);
}

/* --- count(*) */

/* Returns the only row, whose count is the scan tuple's last column. */
static TupleTableSlot *
NextCount(PlanState *state)
{
	JoinNode   *node = (JoinNode *) state;
	int			column = node->css.ss.ss_ScanTupleSlot->tts_tupleDescriptor->natts - 1;
	uint64		count;
	ExprContext *econtext;

	if (node->phase == JOIN_OVER)
		return ExecClearTuple(state->ps_ProjInfo->pi_state.resultslot);
	while (NextMatch(node))
		node->count++;
	count = node->count;
	/* release memory before the result is returned */
	EndRun(node);
	node->phase = JOIN_OVER;
	econtext = ScanTuple(node);
	econtext->ecxt_scantuple->tts_values[column] = Int64GetDatum((int64) count);
	econtext->ecxt_scantuple->tts_isnull[column] = false;
	return ExecProject(state->ps_ProjInfo);
}

/* --- EXPLAIN */

static char *
TextOf(JoinNode *node, Node *expr, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);

	return deparse_expression(expr, context, true, false);
}

static void
ExplainQuals(const char *label, List *quals, JoinNode *node, List *ancestors, ExplainState *es)
{
	if (quals != NIL)
		ExplainPropertyText(label, TextOf(node, (Node *) make_ands_explicit(quals), ancestors, es), es);
}

static void
ExplainKeys(JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *texts = NIL;
	ListCell   *cell;

	if (node->plan.keys[OUTER_SIDE] == NIL)
		return;
	foreach(cell, node->plan.keys[OUTER_SIDE])
		texts = lappend(texts, TextOf(node, lfirst(cell), ancestors, es));
	ExplainPropertyList("Partition Key", texts, es);
	if (es->analyze)
		ExplainPropertyUInteger("Partitions", NULL, node->all_partitions, es);
	if (es->analyze && node->all_partitions > 0)
		ExplainPropertyUInteger("Small Partitions", NULL,
								node->all_partitions - node->nengine_partitions, es);
}

static void
ExplainRemoved(const char *label, double removed, const Instrumentation *instrument, ExplainState *es)
{
	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL, removed / Max(instrument->nloops, 1), 0, es);
}

static void
ExplainJoin(CustomScanState *css, List *ancestors, ExplainState *es)
{
	JoinNode   *node = (JoinNode *) css;
	const JoinPlan *plan = &node->plan;
	const Instrumentation *instrument = css->ss.ps.instrument;
	Expr	   *distance = list_nth(plan->join_quals, plan->distance_qual);
	const char *type = plan->type == JOIN_LEFT ? "Left" : plan->type == JOIN_SEMI ? "Semi" :
		plan->type == JOIN_ANTI ? "Anti" : "Inner";
	FastedStats stats = JoinNodeStatistics(node);

	ExplainPropertyText("Join Type", type, es);
	ExplainQuals("Distance Cond", list_make1(distance), node, ancestors, es);
	ExplainKeys(node, ancestors, es);
	ExplainQuals("Join Filter", list_delete_nth_cell(list_copy(plan->join_quals), plan->distance_qual),
				 node, ancestors, es);
	ExplainQuals("Filter", plan->other_quals, node, ancestors, es);
	ExplainQuals("One-Time Filter", plan->one_time_quals, node, ancestors, es);
	if (es->analyze && instrument != NULL)
	{
		ExplainRemoved("Rows Removed by Join Filter", instrument->nfiltered1, instrument, es);
		if (plan->other_quals != NIL)
			ExplainRemoved("Rows Removed by Filter", instrument->nfiltered2, instrument, es);
	}
	if (plan->count)
	{
		/* the node counts pairs if clauses other than the engine's decide */
		ExplainPropertyText("Aggregate", "count(*)", es);
		ExplainPropertyText("Counted By", plan->distance_decides && IsExact(node) ?
							"engine" : "node", es);
	}
	if (es->analyze && node->all_partitions > 0 && node->nengine_partitions == 0)
		ExplainPropertyText("Engine", "none", es);
	else
	{
		/* without the engine's additional dimension */
		if (HasMargin(node) && stats.dimensions > 0)
			stats.dimensions--;
		ExplainEngine(&stats, es);
	}
	if (es->analyze && stats.engine[0] != '\0')
	{
		ExplainWork(&stats, node->runs, es);
		if (es->timing)
			ExplainMachine(&stats, es);
	}
}

/* --- the node */

/* Prepares to compare values with the operator of the ordering clause. */
static void
InitOrder(JoinNode *node, const OpExpr *clause)
{
	List	   *vars = pull_var_clause((Node *) clause, 0);

	node->order_swapped = linitial_node(Var, vars)->varattno > node->plan.outer_columns;
	node->order_column = list_nth_node(Var, vars, node->order_swapped)->varattno - 1;
	node->order = palloc0(sizeof(SortSupportData));
	node->order->ssup_cxt = CurrentMemoryContext;
	node->order->ssup_collation = clause->inputcollid;
	/* this also negates the comparison for a > operator */
	PrepareSortSupportFromOrderingOp(clause->opno, node->order);
}

/*
 * The clauses before the distance clause determine for which pairs a nested loop would evaluate the
 * vectors.  Clauses on outer columns are evaluated once for each row.  This does not apply to
 * shared rows, because each of them is an inner row as well.  The other clauses (partner_quals) are
 * evaluated only if an expression may raise an error, which must not happen for a vector that no
 * pair needs.
 */
static void
InitQuals(JoinNode *node)
{
	PlanState  *state = &node->css.ss.ps;
	const JoinPlan *plan = &node->plan;
	int			of_outer = plan->shared ? 0 : plan->outer_quals;
	List	   *earlier = list_truncate(list_copy(plan->join_quals), plan->distance_qual);
	List	   *others = list_delete_ptr(list_copy(plan->join_quals),
										 list_nth(plan->join_quals, plan->distance_qual));

	if (plan->order_qual >= 0)
	{
		others = list_delete_ptr(others, list_nth(plan->join_quals, plan->order_qual));
		InitOrder(node, list_nth(plan->join_quals, plan->order_qual));
	}
	node->bound = ExecInitExpr(plan->bound, state);
	node->one_time_quals = ExecInitQual(plan->one_time_quals, state);
	if (plan->may_raise || plan->bound_may_raise)
		node->partner_quals = ExecInitQual(list_copy_tail(earlier, of_outer), state);
	node->outer_quals = ExecInitQual(list_truncate(earlier, of_outer), state);
	node->join_quals = ExecInitQual(others, state);
	node->all_quals = ExecInitQual(plan->join_quals, state);
	node->other_quals = ExecInitQual(plan->other_quals, state);
}

static void
BeginJoinNode(CustomScanState *css, EState *estate, int eflags)
{
	JoinNode   *node = (JoinNode *) css;
	ListCell   *cell;

	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	foreach(cell, ((CustomScan *) css->ss.ps.plan)->custom_plans)
		css->custom_ps = lappend(css->custom_ps, ExecInitNode(lfirst(cell), estate, eflags));
	node->direct = css->ss.ps.ps_ProjInfo != NULL && node->plan.other_quals == NIL;
	foreach(cell, css->ss.ps.plan->targetlist)
		node->direct &= IsA(lfirst_node(TargetEntry, cell)->expr, Var);
	for (int i = 0; i < 2; i++)
		InitSide(node, i, list_nth(css->custom_ps, node->plan.shared ? 0 : i));
	InitQuals(node);
	node->context = AllocSetContextCreate(estate->es_query_cxt, "fasted join node",
										  ALLOCSET_DEFAULT_SIZES);
	/* bypass ExecCustomScan */
	css->ss.ps.ExecProcNode = node->plan.count ? NextCount : NextRow;
}

static void
EndJoinNode(CustomScanState *css)
{
	ListCell   *cell;

	EndRun((JoinNode *) css);
	foreach(cell, css->custom_ps)
		ExecEndNode(lfirst(cell));
}

static void
RescanJoinNode(CustomScanState *css)
{
	ListCell   *cell;

	EndRun((JoinNode *) css);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	foreach(cell, css->custom_ps)
	{
		PlanState  *side = lfirst(cell);

		if (css->ss.ps.chgParam != NULL)
			UpdateChangedParamSet(side, css->ss.ps.chgParam);
		if (side->chgParam == NULL)
			ExecReScan(side);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedJoin",
	.BeginCustomScan = BeginJoinNode,
	.EndCustomScan = EndJoinNode,
	.ReScanCustomScan = RescanJoinNode,
	.ExplainCustomScan = ExplainJoin
};

static Node *
CreateJoinNode(CustomScan *plan)
{
	JoinNode   *node = palloc0(sizeof(JoinNode));

	NodeSetTag(node, T_CustomScanState);
	node->css.methods = &exec_methods;
	node->plan = ReadJoinPlan(plan);
	return (Node *) node;
}

const CustomScanMethods fasted_join_methods = {
	.CustomName = "FastedJoin",
	.CreateCustomScanState = CreateJoinNode
};
