/*-------------------------------------------------------------------------
 *
 * scan_explain.c
 *	  What EXPLAIN says about the scan node; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_constraint.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "join/engines.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "scan/scan_explain.h"
#include "scan/scan_state.h"
#include "session/guc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* Expressions of a node as texts. */
typedef struct Deparser
{
	List	   *context;
	bool		prefix;			/* name the tables of columns */
} Deparser;

static Deparser
MakeDeparser(const SelfJoinScan *scan, List *ancestors, ExplainState *es)
{
	Deparser	deparser;

	deparser.context = set_deparse_context_plan(es->deparse_cxt, scan->css.ss.ps.plan, ancestors);
	deparser.prefix = list_length(es->rtable) > 1 || es->verbose;
	return deparser;
}

static char *
ExpressionText(const Deparser *deparser, Node *expression)
{
	return deparse_expression(expression, deparser->context, deparser->prefix, false);
}

/* The argument after the optional first one; a constant without its quotes. */
static char *
ArgumentText(const Deparser *deparser, const SelfJoinScan *scan, int n)
{
	Node	   *node = list_nth(scan->plan.call->args, scan->plan.first + n);
	Const	   *constant = (Const *) node;
	Oid			output;
	bool		varlena;

	if (!IsA(node, Const))
		return ExpressionText(deparser, node);
	if (constant->constisnull)
		return pstrdup("NULL");
	getTypeOutputInfo(constant->consttype, &output, &varlena);
	return OidOutputFunctionCall(output, constant->constvalue);
}

/* The key column, named or found; NULL: known only when the join runs. */
static char *
KeyColumnText(const Deparser *deparser, const SelfJoinScan *scan)
{
	int			first = scan->plan.first;
	Const	   *id_column = list_nth(scan->plan.call->args, first + SELF_JOIN_ID_COLUMN);
	Const	   *relation = list_nth(scan->plan.call->args, first + SELF_JOIN_RELATION);
	Bitmapset  *attnos;
	Oid			constraint;
	Oid			relid;

	if (!IsA(id_column, Const) || !id_column->constisnull)
		return ArgumentText(deparser, scan, SELF_JOIN_ID_COLUMN);
	if (!IsA(relation, Const) || relation->constisnull)
		return NULL;
	relid = DatumGetObjectId(relation->constvalue);
	attnos = get_primary_key_attnos(relid, true, &constraint);
	if (bms_num_members(attnos) != 1)
		return NULL;
	return get_attname(relid, bms_singleton_member(attnos) + FirstLowInvalidHeapAttributeNumber,
					   true);
}

static void
ExplainText(const char *label, const char *text, ExplainState *es)
{
	if (text != NULL)
		ExplainPropertyText(label, text, es);
}

static char *
PairFilterText(const Deparser *deparser, const SelfJoinScan *scan)
{
	List	   *texts = NIL;
	ListCell   *cell;

	foreach(cell, scan->plan.conditions.dist_bounds)
		texts = lappend(texts, ExpressionText(deparser, lfirst(cell)));
	return ConditionsText(&scan->plan.conditions, texts);
}

/* A name as core's EXPLAIN VERBOSE has it. */
static char *
QualifiedName(Oid schema, const char *name)
{
	return quote_qualified_identifier(get_namespace_name_or_temp(schema), name);
}

/* The relation, with its schema where that is asked for. */
static char *
RelationText(const Deparser *deparser, const SelfJoinScan *scan, const ExplainState *es)
{
	Const	   *relation = list_nth(scan->plan.call->args, scan->plan.first + SELF_JOIN_RELATION);
	char	   *name = NULL;

	if (es->verbose && IsA(relation, Const) && !relation->constisnull)
		name = get_rel_name(DatumGetObjectId(relation->constvalue));
	if (name == NULL)
		return ArgumentText(deparser, scan, SELF_JOIN_RELATION);
	return QualifiedName(get_rel_namespace(DatumGetObjectId(relation->constvalue)), name);
}

/* "fasted_self_join p": as a function scan is shown, with the alias if there is one. */
static char *
FunctionText(const SelfJoinScan *scan, ExplainState *es)
{
	Bitmapset  *relids = ((CustomScan *) scan->css.ss.ps.plan)->custom_relids;
	Oid			funcid = scan->plan.call->funcid;
	const char *function = get_func_name(funcid);
	const char *text = es->verbose ? QualifiedName(get_func_namespace(funcid), function) :
		quote_identifier(function);
	const char *alias = NULL;

	if (bms_membership(relids) == BMS_SINGLETON)
		alias = list_nth(es->rtable_names, bms_singleton_member(relids) - 1);
	if (alias == NULL || strcmp(alias, function) == 0)
		return pstrdup(text);
	return psprintf("%s %s", text, quote_identifier(alias));
}

static void
ExplainCall(const SelfJoinScan *scan, List *ancestors, ExplainState *es)
{
	Deparser	deparser = MakeDeparser(scan, ancestors, es);

	if (es->verbose)
		ExplainText("Function Call", ExpressionText(&deparser, (Node *) scan->plan.call), es);
	ExplainText("Function", FunctionText(scan, es), es);
	ExplainText("Relation", RelationText(&deparser, scan, es), es);
	ExplainText("Vector Column", ArgumentText(&deparser, scan, SELF_JOIN_COLUMN), es);
	ExplainText("Key Column", KeyColumnText(&deparser, scan), es);
	ExplainText("Eps", ArgumentText(&deparser, scan, SELF_JOIN_EPS), es);
	ExplainText("Pair Filter", PairFilterText(&deparser, scan), es);
	if (scan->plan.count)
		ExplainText("Aggregate", "count(*)", es);
}

/* What the setting asks for, if that can be had. */
static const char *
RequestedEngine(void)
{
	if (fasted_setting_engine == ENGINE_CUDA && !CudaIsAvailable())
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

/* The node's own times, and how fast the filter was. */
static void
ExplainTimes(const ScanTotals *totals, ExplainState *es)
{
	const FastedStats *stats = &totals->stats;
	double		flop = 2.0 * stats->rows * stats->rows * stats->dimensions /
		Max(totals->runs, 1);
	double		seconds = stats->filter_seconds / Max(stats->threads, 1);

	ExplainPropertyFloat("Read Time", "ms", 1000.0 * totals->read_seconds, 3, es);
	ExplainPropertyFloat("Wait Time", "ms", 1000.0 * totals->wait_seconds, 3, es);
	ExplainPropertyFloat("Output Time", "ms", 1000.0 * totals->output_seconds, 3, es);
	if (seconds > 0.0)
		ExplainPropertyFloat("Filter Rate", "TFLOPS", 1e-12 * flop / seconds, 3, es);
}

/* The run that is not over yet is looked at where it stands. */
static ScanTotals
TotalsUntilNow(SelfJoinScan *scan)
{
	ScanTotals	before = scan->totals;
	ScanTotals	totals;

	if (scan->stream != NULL)
		AddScanTotals(scan);
	totals = scan->totals;
	scan->totals = before;
	return totals;
}

void
ExplainScan(CustomScanState *node, List *ancestors, ExplainState *es)
{
	SelfJoinScan *scan = (SelfJoinScan *) node;
	ScanTotals	totals = TotalsUntilNow(scan);

	ExplainCall(scan, ancestors, es);
	ExplainEngine(&scan->totals.stats, es);
	ExplainText("Precision", fasted_setting_refine ? "exact" : "approximate", es);
	if (es->costs)
		ExplainPropertyFloat("Estimated Pairs", NULL, scan->plan.estimated_pairs, 0, es);
	if (es->analyze && totals.runs > 0)
	{
		ExplainWork(&totals.stats, totals.runs, es);
		if (es->timing)
		{
			ExplainMachine(&totals.stats, es);
			ExplainTimes(&totals, es);
		}
	}
}
