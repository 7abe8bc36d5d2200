/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  EXPLAIN (ANALYZE) of index scans: how many rows passed each level.
 *
 * From PostgreSQL 18 on, a hook adds these numbers to the scan's own lines.  Before, EXPLAIN calls no hook
 * while it prints a plan, but it ends the executor when it has printed the plan, and before it closes the
 * output of the query.  A hook there adds a line, or an object, for each scan.  EXPLAIN EXECUTE does not
 * tell hooks its state, so that these versions do not show the numbers there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "commands/explain.h"
#include "index/access.h"
#include "index/path.h"
#include "utils/rel.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#else
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "tcop/tcopprot.h"
#endif

/* Returns the scan of a plan node if it scans an index of this access method, and has tested rows; or NULL. */
static IndexScanDesc
ScanOf(PlanState *node)
{
	IndexScanDesc scan = IsA(node, IndexScanState) ? ((IndexScanState *) node)->iss_ScanDesc :
		IsA(node, BitmapIndexScanState) ? ((BitmapIndexScanState *) node)->biss_ScanDesc : NULL;

	if (scan == NULL || scan->indexRelation->rd_indam->amgettuple != IndexGetTuple)
		return NULL;
	return IndexScanCounts(scan)->heads + IndexScanCounts(scan)->skipped_chunks > 0 ? scan : NULL;
}

/* Adds what a scan has done, in all loops of this process: in the text format, a line with this label. */
static void
ShowCounts(IndexScanDesc scan, const char *label, ExplainState *es)
{
	const ScanCounts *counts = IndexScanCounts(scan);
	IndexMeta	meta;
	uint32		levels = ReadState(scan->indexRelation, &meta)->layout.levels;
	StringInfoData text;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Skipped Chunks", NULL, counts->skipped_chunks, es);
		ExplainPropertyUInteger("Rows Tested", NULL, counts->heads, es);
		for (uint32 l = 0; l < levels; l++)
			ExplainPropertyUInteger(psprintf("Rows Passed Level %u", l), NULL, counts->passed[l], es);
		ExplainPropertyUInteger("Rows Fetched", NULL, counts->returned, es);
		return;
	}
	initStringInfo(&text);
	if (counts->skipped_chunks > 0)
		appendStringInfo(&text, "skipped chunks=" UINT64_FORMAT " ", counts->skipped_chunks);
	appendStringInfo(&text, "tested=" UINT64_FORMAT " passed=", counts->heads);
	for (uint32 l = 0; l < levels; l++)
		appendStringInfo(&text, "%s" UINT64_FORMAT, l > 0 ? "," : "", counts->passed[l]);
	appendStringInfo(&text, " fetched=" UINT64_FORMAT, counts->returned);
	ExplainPropertyText(label, text.data, es);
}

#if PG_VERSION_NUM >= 180000

static explain_per_node_hook_type previous_hook = NULL;

static void
ExplainScan(PlanState *node, List *ancestors, const char *relationship, const char *plan_name, ExplainState *es)
{
	IndexScanDesc scan = es->analyze ? ScanOf(node) : NULL;

	if (previous_hook != NULL)
		previous_hook(node, ancestors, relationship, plan_name, es);
	if (scan != NULL)
		ShowCounts(scan, "Index Rows", es);
}

void
InstallIndexExplain(void)
{
	previous_hook = explain_per_node_hook;
	explain_per_node_hook = ExplainScan;
}

#else

static ExplainOneQuery_hook_type previous_explain = NULL;
static ExecutorEnd_hook_type previous_end = NULL;

/* The innermost EXPLAIN that is under way. */
static ExplainState *explained = NULL;

static void
StandardExplain(Query *query, int options, IntoClause *into, ExplainState *es, const char *text,
				ParamListInfo params, QueryEnvironment *environment)
{
#if PG_VERSION_NUM >= 170000
	standard_ExplainOneQuery(query, options, into, es, text, params, environment);
#else
	PlannedStmt *plan;
	BufferUsage before = pgBufferUsage;
	BufferUsage used = {0};
	instr_time	start;
	instr_time	duration;

	INSTR_TIME_SET_CURRENT(start);
	plan = pg_plan_query(query, text, options, params);
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	BufferUsageAccumDiff(&used, &pgBufferUsage, &before);
	ExplainOnePlan(plan, into, es, text, params, environment, &duration, es->buffers ? &used : NULL);
#endif
}

static void
ExplainQueryWithScans(Query *query, int options, IntoClause *into, ExplainState *es, const char *text,
					  ParamListInfo params, QueryEnvironment *environment)
{
	ExplainState *outer = explained;

	explained = es;
	PG_TRY();
	{
		(previous_explain != NULL ? previous_explain : StandardExplain) (query, options, into, es, text, params,
																		  environment);
	}
	PG_FINALLY();
	{
		explained = outer;
	}
	PG_END_TRY();
}

static bool
ExplainScans(PlanState *node, void *es)
{
	IndexScanDesc scan = ScanOf(node);

	if (scan != NULL)
	{
		const char *name = RelationGetRelationName(scan->indexRelation);

		ExplainOpenGroup("Index Scan", NULL, true, es);
		if (((ExplainState *) es)->format != EXPLAIN_FORMAT_TEXT)
			ExplainPropertyText("Index Name", name, es);
		ShowCounts(scan, psprintf("Index %s", name), es);
		ExplainCloseGroup("Index Scan", NULL, true, es);
	}
	return planstate_tree_walker(node, ExplainScans, es);
}

/* Returns true if the plan has a scan that EXPLAIN has to show. */
static bool
HasScan(PlanState *node, void *context)
{
	return ScanOf(node) != NULL || planstate_tree_walker(node, HasScan, context);
}

/* EXPLAIN has printed this plan, and not one of a function that the query calls, if its state has the plan. */
static void
EndExecutor(QueryDesc *query)
{
	if (explained != NULL && explained->analyze && explained->pstmt == query->plannedstmt &&
		HasScan(query->planstate, NULL))
	{
		ExplainOpenGroup("Index Scans", "Index Scans", false, explained);
		(void) ExplainScans(query->planstate, explained);
		ExplainCloseGroup("Index Scans", "Index Scans", false, explained);
	}
	(previous_end != NULL ? previous_end : standard_ExecutorEnd) (query);
}

void
InstallIndexExplain(void)
{
	previous_explain = ExplainOneQuery_hook;
	ExplainOneQuery_hook = ExplainQueryWithScans;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = EndExecutor;
}

#endif
