/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  EXPLAIN output of the node; and that of an engine, which the join node uses too.
 *
 * doc/reference.md describes this output for users.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "base/guc.h"
#include "catalog/pg_type.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "function_node/function_node.h"
#include "join/join.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* --- the engine */

/* Shows a text property, unless text is NULL. */
static void
ExplainText(const char *label, const char *text, ExplainState *es)
{
	if (text != NULL)
		ExplainPropertyText(label, text, es);
}

/* Returns the value of fasted.engine, marked if it is cuda and CUDA is not available. */
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

/* Shows which percentage of the tiles was tested at each number of dimensions. */
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

/* --- the call */

typedef struct ShownCall
{
	const FunctionPlan *plan;
	const CustomScan *scan;
	List	   *context;		/* deparse context */
	bool		prefix;			/* qualify columns with their tables */
	ExplainState *es;
} ShownCall;

static char *
ExpressionText(const ShownCall *shown, Node *expression)
{
	return deparse_expression(expression, shown->context, shown->prefix, false);
}

static Node *
Argument(const ShownCall *shown, int n)
{
	return list_nth(shown->plan->args, n);
}

/* Returns argument n as text: a constant without quotes, else the deparsed expression. */
static char *
ArgumentText(const ShownCall *shown, int n)
{
	Node	   *node = Argument(shown, n);
	Const	   *constant = (Const *) node;
	Oid			output;
	bool		varlena;

	if (!IsA(node, Const))
		return ExpressionText(shown, node);
	if (constant->constisnull)
		return pstrdup("NULL");
	getTypeOutputInfo(constant->consttype, &output, &varlena);
	return OidOutputFunctionCall(output, constant->constvalue);
}

/* Returns the function and its alias, if any, as for a function scan: "fasted_self_join p". */
static char *
FunctionText(const ShownCall *shown)
{
	Bitmapset  *relids = shown->scan->custom_relids;
	Oid			funcid = shown->plan->call->funcid;
	const char *function = get_func_name(funcid);
	const char *text = shown->es->verbose ?
		quote_qualified_identifier(get_namespace_name_or_temp(get_func_namespace(funcid)), function) :
		quote_identifier(function);
	const char *alias = NULL;

	if (bms_membership(relids) == BMS_SINGLETON)
		alias = list_nth(shown->es->rtable_names, bms_singleton_member(relids) - 1);
	if (alias == NULL || strcmp(alias, function) == 0)
		return pstrdup(text);
	return psprintf("%s %s", text, quote_identifier(alias));
}

/* Returns true if argument n is not worth showing: NULL, false, or metric "l2". */
static bool
IsDefault(const ShownCall *shown, int n)
{
	const Const *argument = (const Const *) Argument(shown, n);

	if (!IsA(argument, Const))
		return false;
	return argument->constisnull ||
		(argument->consttype == BOOLOID && !DatumGetBool(argument->constvalue)) ||
		(n == shown->plan->function->metric && strcmp(ArgumentText(shown, n), "l2") == 0);
}

/* Returns the bounds of the distance that reduce eps, as in "dist < 0.5 AND dist = $1"; or NULL. */
static char *
PairFilterText(const ShownCall *shown)
{
	static const char *const operators[] = {
		[BTLessStrategyNumber] = "<",[BTLessEqualStrategyNumber] = "<=",[BTEqualStrategyNumber] = "="
	};
	char	   *text = NULL;
	ListCell   *strategy;
	ListCell   *bound;

	forboth(strategy, shown->plan->strategies, bound, shown->plan->bounds)
		text = psprintf("%s%sdist %s %s", text != NULL ? text : "", text != NULL ? " AND " : "",
						operators[lfirst_int(strategy)], ExpressionText(shown, lfirst(bound)));
	return text;
}

/* Shows the function and its arguments in order, and what else the node does. */
static void
ExplainCall(const ShownCall *shown)
{
	const FunctionPlan *plan = shown->plan;
	ExplainState *es = shown->es;

	if (es->verbose)
		ExplainText("Function Call", ExpressionText(shown, (Node *) plan->call), es);
	ExplainText("Function", FunctionText(shown), es);
	for (int n = 0; n < plan->function->nargs; n++)
		if (!IsDefault(shown, n))
			ExplainText(plan->function->arguments[n].label, ArgumentText(shown, n), es);
	ExplainText("Pair Filter", PairFilterText(shown), es);
	if (plan->count)
		ExplainText("Aggregate", "count(*)", es);
}

/* --- the runs */

static void
ExplainMilliseconds(const char *label, double seconds, ExplainState *es)
{
	ExplainPropertyFloat(label, "ms", 1000.0 * seconds, 3, es);
}

/* Shows the node's own memory and times, and the rate of the filter. */
static void
ExplainTimes(const FunctionDescriptor *function, const FunctionTotals *totals, ExplainState *es)
{
	const FastedStats *stats = &totals->stats;
	double		flop = 2.0 * stats->rows * stats->rows * stats->dimensions / Max(totals->runs, 1);
	double		filter_seconds = stats->filter_seconds / Max(stats->threads, 1);

	if (totals->bytes > 0)
		ExplainPropertyInteger("Memory Usage", "kB", totals->bytes / 1024, es);
	ExplainMilliseconds("Read Time", totals->read_seconds, es);
	ExplainMilliseconds("Wait Time", totals->wait_seconds, es);
	if (function->builds_tree)
		ExplainMilliseconds("Spanning Tree Time", totals->tree_seconds, es);
	if (function->output_label != NULL)
		ExplainMilliseconds(function->output_label, totals->output_seconds, es);
	/* the rate of bits depends on how they were folded */
	if (function->eps > 0 && filter_seconds > 0.0 && strcmp(stats->filter, "bits") != 0)
		ExplainPropertyFloat("Filter Rate", "TFLOPS", 1e-12 * flop / filter_seconds, 3, es);
}

/* Shows the searches of the last run, and the numbers of components before the first of them. */
static void
ExplainTree(const TreeStats *tree, ExplainState *es)
{
	List	   *components = NIL;

	for (uint32 i = 0; i < Min(tree->searches, lengthof(tree->components)); i++)
		components = lappend(components, psprintf("%u", tree->components[i]));
	ExplainPropertyUInteger("Searches", NULL, tree->searches, es);
	if (tree->searches == 0)
		return;
	ExplainPropertyUInteger("Rows Searched", NULL, tree->searched, es);
	ExplainPropertyList("Components", components, es);
}

static void
ExplainRuns(const ShownCall *shown, const FunctionTotals *totals)
{
	const FunctionDescriptor *function = shown->plan->function;
	ExplainState *es = shown->es;
	List	   *servers = NIL;
	ListCell   *cell;

	if (function->nsources == 2 && !IsDefault(shown, function->nargs - 1))
		ExplainPropertyUInteger("Partitions", NULL, totals->partitions, es);
	ExplainWork(&totals->stats, totals->runs, es);
	if (function->builds_tree)
		ExplainTree(&totals->tree, es);
	foreach(cell, totals->shares)
		servers = lappend(servers, strVal(lfirst(cell)));
	if (servers != NIL)
		ExplainPropertyList(join_distributor->label, servers, es);
	if (totals->spilled_pairs > 0)
		ExplainPropertyUInteger("Spilled Pairs", NULL, totals->spilled_pairs, es);
	if (es->timing)
	{
		ExplainMachine(&totals->stats, es);
		ExplainTimes(function, totals, es);
	}
}

void
ExplainFunctionNode(CustomScanState *node, List *ancestors, ExplainState *es)
{
	FunctionNode *scan = (FunctionNode *) node;
	const FunctionDescriptor *function = scan->plan.function;
	FunctionTotals totals = CurrentTotals(scan);
	ShownCall	shown = {.plan = &scan->plan,.scan = (CustomScan *) node->ss.ps.plan,.es = es};

	shown.context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	shown.prefix = list_length(es->rtable) > 1 || es->verbose;
	ExplainCall(&shown);
	ExplainEngine(&totals.stats, es);
	if (function->takes_bounds && es->costs)
		ExplainPropertyFloat("Estimated Pairs", NULL, scan->plan.estimated_rows, 0, es);
	if (es->analyze && totals.runs > 0)
		ExplainRuns(&shown, &totals);
}
