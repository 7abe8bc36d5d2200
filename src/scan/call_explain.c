/*-------------------------------------------------------------------------
 *
 * call_explain.c
 *	  Function and arguments as texts; told in doc/plans.md.
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
#include "scan/call_explain.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

/* Numbers of arguments. */
enum
{
	RELATION,
	VECTOR_COLUMN,
	EPS
};

ShownCall
ShowCall(const CustomScanState *node, const FuncExpr *call, int first, int id_column,
		 int metric, List *ancestors, ExplainState *es)
{
	ShownCall	shown = {.call = call,.first = first,.id_column = id_column,.metric = metric};

	shown.plan = (CustomScan *) node->ss.ps.plan;
	shown.context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, ancestors);
	shown.prefix = list_length(es->rtable) > 1 || es->verbose;
	return shown;
}

void
ExplainText(const char *label, const char *text, ExplainState *es)
{
	if (text != NULL)
		ExplainPropertyText(label, text, es);
}

char *
ExpressionText(const ShownCall *shown, Node *expression)
{
	return deparse_expression(expression, shown->context, shown->prefix, false);
}

static Node *
Argument(const ShownCall *shown, int n)
{
	return list_nth(shown->call->args, shown->first + n);
}

static bool
IsKnown(const Node *argument)
{
	return IsA(argument, Const) && !((const Const *) argument)->constisnull;
}

char *
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

bool
IsNullArgument(const ShownCall *shown, int n)
{
	const Node *argument = Argument(shown, n);

	return IsA(argument, Const) && ((const Const *) argument)->constisnull;
}

bool
AreSameArguments(const ShownCall *shown, int n, int m)
{
	return IsKnown(Argument(shown, n)) && equal(Argument(shown, n), Argument(shown, m));
}

/* The key column, named or found; NULL: known only when the join runs. */
static char *
KeyColumnText(const ShownCall *shown, const ShownSource *source)
{
	int			n = source->other_id >= 0 && IsNullArgument(shown, source->id_column) ?
		source->other_id : source->id_column;
	Node	   *id_column = Argument(shown, n);
	Node	   *relation = Argument(shown, source->relation);
	Bitmapset  *attnos;
	Oid			constraint;
	Oid			relid;

	if (!IsA(id_column, Const) || IsKnown(id_column))
		return ArgumentText(shown, n);
	if (!IsKnown(relation))
		return NULL;
	relid = DatumGetObjectId(((Const *) relation)->constvalue);
	attnos = get_primary_key_attnos(relid, true, &constraint);
	if (bms_num_members(attnos) != 1)
		return NULL;
	return get_attname(relid, bms_singleton_member(attnos) + FirstLowInvalidHeapAttributeNumber,
					   true);
}

/* NULL: it is L2, which goes without saying. */
static char *
MetricText(const ShownCall *shown)
{
	char	   *text = ArgumentText(shown, shown->metric);

	return IsA(Argument(shown, shown->metric), Const) && strcmp(text, "l2") == 0 ? NULL : text;
}

/* A name as core's EXPLAIN VERBOSE has it. */
static char *
QualifiedName(Oid schema, const char *name)
{
	return quote_qualified_identifier(get_namespace_name_or_temp(schema), name);
}

/* The relation, with its schema where that is asked for. */
static char *
RelationText(const ShownCall *shown, int n, const ExplainState *es)
{
	Node	   *relation = Argument(shown, n);
	char	   *name = NULL;

	if (es->verbose && IsKnown(relation))
		name = get_rel_name(DatumGetObjectId(((Const *) relation)->constvalue));
	if (name == NULL)
		return ArgumentText(shown, n);
	return QualifiedName(get_rel_namespace(DatumGetObjectId(((Const *) relation)->constvalue)), name);
}

/* "fasted_self_join p": as a function scan is shown, with the alias if there is one. */
static char *
FunctionText(const ShownCall *shown, ExplainState *es)
{
	Bitmapset  *relids = shown->plan->custom_relids;
	Oid			funcid = shown->call->funcid;
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

void
ExplainFunction(const ShownCall *shown, ExplainState *es)
{
	if (es->verbose)
		ExplainText("Function Call", ExpressionText(shown, (Node *) shown->call), es);
	ExplainText("Function", FunctionText(shown, es), es);
}

void
ExplainSource(const ShownCall *shown, const ShownSource *source, ExplainState *es)
{
	ExplainText(source->relation_label, RelationText(shown, source->relation, es), es);
	ExplainText(source->vector_label, ArgumentText(shown, source->vector_column), es);
	ExplainText(source->key_label, KeyColumnText(shown, source), es);
}

void
ExplainMetric(const ShownCall *shown, ExplainState *es)
{
	ExplainText("Metric", MetricText(shown), es);
}

void
ExplainCall(const ShownCall *shown, ExplainState *es)
{
	ShownSource source = {
		"Relation", "Vector Column", "Key Column", RELATION, VECTOR_COLUMN, shown->id_column, -1
	};

	ExplainFunction(shown, es);
	ExplainSource(shown, &source, es);
	ExplainText("Eps", ArgumentText(shown, EPS), es);
	ExplainMetric(shown, es);
}
