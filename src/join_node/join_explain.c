/*-------------------------------------------------------------------------
 *
 * join_explain.c
 *	  What EXPLAIN says about the join node; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "join_node/join_state.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "scan/scan_explain.h"
#include "utils/ruleutils.h"

static const char *
TypeText(JoinType type)
{
	switch (type)
	{
		case JOIN_LEFT:
			return "Left";
		case JOIN_SEMI:
			return "Semi";
		case JOIN_ANTI:
			return "Anti";
		default:
			return "Inner";
	}
}

static void
ExplainQuals(const char *label, List *quals, JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *context;

	if (quals == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);
	ExplainPropertyText(label, deparse_expression((Node *) make_ands_explicit(quals), context,
												  true, false), es);
}

static void
ExplainKeys(JoinNode *node, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, node->css.ss.ps.plan, ancestors);
	List	   *texts = NIL;
	ListCell   *cell;

	foreach(cell, node->plan.outer_keys)
		texts = lappend(texts, deparse_expression(lfirst(cell), context, true, false));
	if (texts != NIL)
		ExplainPropertyList("Group Key", texts, es);
	if (texts == NIL || !es->analyze)
		return;
	ExplainPropertyUInteger("Groups", NULL, node->all_groups, es);
	if (node->all_groups > 0)
		ExplainPropertyUInteger("Small Groups", NULL, node->all_groups - node->engine_groups, es);
}

static void
ExplainRemoved(const char *label, double removed, const Instrumentation *instrument, ExplainState *es)
{
	if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
		ExplainPropertyFloat(label, NULL, removed / Max(instrument->nloops, 1), 0, es);
}

/* Where pairs are told apart by more than the engine knows, the node looks at each. */
static void
ExplainCount(const JoinPlan *plan, ExplainState *es)
{
	if (!plan->count)
		return;
	ExplainPropertyText("Aggregate", "count(*)", es);
	ExplainPropertyText("Counted By", plan->distance_decides && plan->form != FORM_FOREIGN ?
						"engine" : "node", es);
}

void
ExplainJoin(CustomScanState *css, List *ancestors, ExplainState *es)
{
	JoinNode   *node = (JoinNode *) css;
	const JoinPlan *plan = &node->plan;
	const Instrumentation *instrument = css->ss.ps.instrument;
	Expr	   *distance = list_nth(plan->join_quals, plan->distance_qual);
	FastedStats stats = JoinNodeStatistics(node);

	ExplainPropertyText("Join Type", TypeText(plan->type), es);
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
	ExplainCount(plan, es);
	if (es->analyze && node->all_groups > 0 && node->engine_groups == 0)
		ExplainNoEngine(es);
	else
		ExplainEngine(&stats, es);
	if (es->analyze && stats.engine[0] != '\0')
	{
		ExplainWork(&stats, node->runs, es);
		if (es->timing)
			ExplainMachine(&stats, es);
	}
}
