/*-------------------------------------------------------------------------
 *
 * scan_explain.c
 *	  What EXPLAIN says about the scan node; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "base/guc.h"
#include "citus/citus_explain.h"
#include "scan/call_explain.h"
#include "scan/scan_explain.h"
#include "scan/scan_state.h"
#include "utils/guc.h"

static char *
PairFilterText(const ShownCall *shown, const SelfJoinScan *scan)
{
	List	   *texts = NIL;
	ListCell   *cell;

	foreach(cell, scan->plan.conditions.dist_bounds)
		texts = lappend(texts, ExpressionText(shown, lfirst(cell)));
	return ConditionsText(&scan->plan.conditions, texts);
}

/* What the setting asks for, if that can be had. */
static const char *
RequestedEngine(void)
{
	if (fasted_setting_engine == ENGINE_CUDA && CudaProblem() != NULL)
		return "cuda (not available)";
	return GetConfigOption("fasted.engine", false, false);
}

void
ExplainEngine(const FastedStats *stats, ExplainState *es)
{
	bool		ran = stats->engine[0] != '\0';

	ExplainText("Engine", ran ? stats->engine : RequestedEngine(), es);
	ExplainText("Distance Filter",
				ran ? stats->filter : GetConfigOption("fasted.filter", false, false), es);
	if (ran && stats->filter_dimensions > 0)
		ExplainPropertyInteger("Filter Dimensions", NULL, stats->filter_dimensions, es);
}

void
ExplainNoEngine(ExplainState *es)
{
	ExplainText("Engine", "none", es);
}

/* At how many dimensions tiles were tested, and which part of them came there. */
static void
ExplainPruning(const FastedStats *stats, ExplainState *es)
{
	StringInfoData text;
	double		tiles = 0.0;

	initStringInfo(&text);
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
	{
		uint64		tested = stats->pruned_tiles[level];

		if (tested == 0)
			continue;
		tiles = Max(tiles, (double) tested);
		appendStringInfo(&text, "%.2f%% at %d dimensions, ", 100.0 * tested / tiles, 32 << level);
	}
	if (tiles == 0.0)
		return;
	appendStringInfo(&text, "%.2f%% at all", 100.0 * stats->full_tiles / tiles);
	ExplainPropertyText("Tiles Tested", text.data, es);
}

void
ExplainPrecision(ExplainState *es)
{
	ExplainText("Precision", fasted_setting_refine ? "exact" : "approximate", es);
}

FastedStats
SumStatistics(const FastedStats *sum, const FastedStats *run)
{
	FastedStats result = run->engine[0] != '\0' ? *run : *sum;

	result.rows = sum->rows + run->rows;
	result.dimensions = run->dimensions;
	result.candidates = sum->candidates + run->candidates;
	result.pairs = sum->pairs + run->pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		result.pruned_tiles[level] = sum->pruned_tiles[level] + run->pruned_tiles[level];
	result.full_tiles = sum->full_tiles + run->full_tiles;
	result.panels = Max(sum->panels, run->panels);
	result.host_bytes = Max(sum->host_bytes, run->host_bytes);
	result.device_bytes = Max(sum->device_bytes, run->device_bytes);
	result.prepare_seconds = sum->prepare_seconds + run->prepare_seconds;
	result.filter_seconds = sum->filter_seconds + run->filter_seconds;
	result.refine_seconds = sum->refine_seconds + run->refine_seconds;
	result.device_seconds = sum->device_seconds + run->device_seconds;
	return result;
}

bool
AddJoinStatistics(FastedStats *sum, double *read_seconds, const VectorJoin *join)
{
	FastedStats stats;
	double		seconds;
	bool		ran = JoinStatistics(join, &stats, &seconds);

	*read_seconds += seconds;
	if (ran)
		*sum = SumStatistics(sum, &stats);
	return ran;
}

void
ExplainWork(const FastedStats *stats, int runs, ExplainState *es)
{
	ExplainPropertyInteger("Rows Read", NULL, stats->rows, es);
	ExplainPropertyInteger("Dimensions", NULL, stats->dimensions, es);
	ExplainPropertyInteger("Candidates", NULL, stats->candidates, es);
	ExplainPropertyInteger("Pairs", NULL, stats->pairs, es);
	if (stats->filter_sampled)
	{
		ExplainPropertyInteger("Sampled Candidates", NULL, stats->sampled_candidates, es);
		ExplainPropertyInteger("Sampled Pairs", NULL, stats->sampled_pairs, es);
	}
	ExplainPruning(stats, es);
	ExplainPropertyInteger("Panels", NULL, stats->panels, es);
	if (runs != 1)
		ExplainPropertyInteger("Runs", NULL, runs, es);
}

void
ExplainMachine(const FastedStats *stats, ExplainState *es)
{
	ExplainText("Device", stats->device, es);
	ExplainText("Kernel", stats->kernel, es);
	if (stats->threads > 0)
		ExplainPropertyInteger("Threads", NULL, stats->threads, es);
	ExplainPropertyInteger("Host Memory", "kB", stats->host_bytes / 1024, es);
	if (stats->device_bytes > 0)
		ExplainPropertyInteger("Device Memory", "kB", stats->device_bytes / 1024, es);
	ExplainPropertyFloat("Prepare Time", "ms", 1000.0 * stats->prepare_seconds, 3, es);
	ExplainPropertyFloat("Filter Time", "ms", 1000.0 * stats->filter_seconds, 3, es);
	ExplainPropertyFloat("Refine Time", "ms", 1000.0 * stats->refine_seconds, 3, es);
	if (stats->device_seconds > 0.0)
		ExplainPropertyFloat("Device Time", "ms", 1000.0 * stats->device_seconds, 3, es);
}

void
ExplainFilterRate(const FastedStats *stats, int runs, ExplainState *es)
{
	double		flop = 2.0 * stats->rows * stats->rows * stats->dimensions / Max(runs, 1);
	double		seconds = stats->filter_seconds / Max(stats->threads, 1);

	if (seconds > 0.0)
		ExplainPropertyFloat("Filter Rate", "TFLOPS", 1e-12 * flop / seconds, 3, es);
}

/* The node's own times, and how fast the filter was. */
static void
ExplainTimes(const ScanTotals *totals, ExplainState *es)
{
	ExplainPropertyFloat("Read Time", "ms", 1000.0 * totals->read_seconds, 3, es);
	ExplainPropertyFloat("Wait Time", "ms", 1000.0 * totals->wait_seconds, 3, es);
	ExplainPropertyFloat("Output Time", "ms", 1000.0 * totals->output_seconds, 3, es);
	ExplainFilterRate(&totals->stats, totals->runs, es);
}

void
ExplainScan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;
	ScanTotals	totals = ScanTotalsUntilNow(scan);
	ShownCall	shown = ShowCall(node, scan->plan.call, scan->plan.first, SELF_JOIN_ID_COLUMN,
								 SELF_JOIN_METRIC, ancestors, es);

	ExplainCall(&shown, es);
	if (!IsNullArgument(&shown, SELF_JOIN_PARTITION_BY))
		ExplainText("Partition Column", ArgumentText(&shown, SELF_JOIN_PARTITION_BY), es);
	ExplainText("Pair Filter", PairFilterText(&shown, scan), es);
	if (scan->plan.count)
		ExplainText("Aggregate", "count(*)", es);
	ExplainEngine(&totals.stats, es);
	ExplainPrecision(es);
	if (es->costs)
		ExplainPropertyFloat("Estimated Pairs", NULL, scan->plan.estimated_pairs, 0, es);
	if (es->analyze && totals.runs > 0)
	{
		ExplainWork(&totals.stats, totals.runs, es);
		ExplainShares(totals.shares, es);
		if (es->timing)
		{
			ExplainMachine(&totals.stats, es);
			ExplainTimes(&totals, es);
		}
	}
}
