/*-------------------------------------------------------------------------
 *
 * source_query.c
 *	  Makes the query tree, without names, and plans and runs it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_proc.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "base/compat.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "rows/source_casts.h"
#include "rows/source_query.h"
#include "rows/vector_bytes.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* --- making */

/* From here to FinishQuery a query is in the making, with one thing in FROM. */
static ParseState *
BeginQuery(void)
{
	return make_parsestate(NULL);
}

static void
SelectFromRelation(ParseState *pstate, Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);

	addNSItemToQuery(pstate, addRangeTableEntryForRelation(pstate, rel, AccessShareLock,
														   NULL, true, true),
					 true, true, true);
	relation_close(rel, NoLock);
}

static Query *
FinishQuery(ParseState *pstate, List *targets)
{
	Query	   *query = makeNode(Query);

	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->targetList = targets;
	query->rtable = pstate->p_rtable;
#if PG_VERSION_NUM >= 160000
	query->rteperminfos = pstate->p_rteperminfos;
#endif
	query->jointree = makeFromExpr(pstate->p_joinlist, NULL);
	assign_query_collations(pstate, query);
	free_parsestate(pstate);
	return query;
}

/* Notes, for the check of privileges, that the column is read. */
static Node *
ColumnOf(ParseState *pstate, const char *name)
{
	Node	   *column = colNameToVar(pstate, name, true, -1);

	if (column == NULL)
		elog(ERROR, "column \"%s\" is not there any more", name);
	return column;
}

static Node *
CastTo(ParseState *pstate, Node *expression, Oid type)
{
	Node	   *cast = coerce_to_target_type(pstate, expression, exprType(expression), type, -1,
											 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);

	if (cast == NULL)
		elog(ERROR, "cannot cast type %s to type %s",
			 format_type_be(exprType(expression)), format_type_be(type));
	return cast;
}

static Node *
KeyOf(ParseState *pstate, const VectorSource *source)
{
	if (source->key_column == NULL)
		return (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
								  Int64GetDatum(0), false, FLOAT8PASSBYVAL);
	return CastTo(pstate, ColumnOf(pstate, source->key_column), source->key_type);
}

static Node *
VectorOf(ParseState *pstate, const VectorSource *source)
{
	return CastTo(pstate, ColumnOf(pstate, source->vector_column), VectorFormType(source->form));
}

/* As bytes (vector_bytes.h), where it has such a form. */
static Node *
VectorBytesOf(ParseState *pstate, const VectorSource *source)
{
	Node	   *vector = VectorOf(pstate, source);
	Oid			function = VectorBytesFunction(source->form);

	if (!OidIsValid(function))
		return vector;
	return (Node *) makeFuncExpr(function, BYTEAOID, list_make1(vector), InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

static List *
AddTarget(List *targets, Node *expression, const char *name)
{
	return lappend(targets, makeTargetEntry((Expr *) expression, list_length(targets) + 1,
											pstrdup(name), false));
}

static List *
AddSortKey(ParseState *pstate, List *sort_keys, List *targets, TargetEntry *target, bool descending)
{
	SortBy	   *order = makeNode(SortBy);

	order->sortby_dir = descending ? SORTBY_DESC : SORTBY_ASC;
	order->sortby_nulls = SORTBY_NULLS_LAST;
	order->location = -1;
	return addTargetToSortList(pstate, target, sort_keys, targets, order);
}

bool
CastKeepsOrder(Oid from, Oid to)
{
	return from == to ||
		((from == INT2OID || from == INT4OID || from == INT8OID) &&
		 (to == INT2OID || to == INT4OID || to == INT8OID));
}

static TargetEntry *
AddHidden(List **targets, Node *expression)
{
	*targets = AddTarget(*targets, expression, "o");
	llast_node(TargetEntry, *targets)->resjunk = true;
	return llast_node(TargetEntry, *targets);
}

/* By the column where that is the order of the key too. */
static List *
SortByKey(ParseState *pstate, List *sort_keys, const VectorSource *source, List **targets)
{
	TargetEntry *key = linitial_node(TargetEntry, *targets);
	Node	   *column = ColumnOf(pstate, source->key_column);

	if (exprType(column) != source->key_type && CastKeepsOrder(exprType(column), source->key_type))
		key = AddHidden(targets, column);
	return AddSortKey(pstate, sort_keys, *targets, key, false);
}

/* The column that orders is read, but not given. */
static List *
OrderOf(ParseState *pstate, const VectorSource *source, List **targets)
{
	TargetEntry *key = linitial_node(TargetEntry, *targets);
	List	   *sort_keys;

	sort_keys = AddSortKey(pstate, NIL, *targets,
						   AddHidden(targets, ColumnOf(pstate, source->order_column)),
						   source->descending);
	return AddSortKey(pstate, sort_keys, *targets, key, false);
}

static Query *
MakeReadQuery(const VectorSource *source, bool as_bytes)
{
	ParseState *pstate = BeginQuery();
	List	   *targets = NIL;
	List	   *sort_keys = NIL;
	Query	   *query;

	SelectFromRelation(pstate, source->relid);
	targets = AddTarget(targets, KeyOf(pstate, source), "k");
	targets = AddTarget(targets, as_bytes ? VectorBytesOf(pstate, source) : VectorOf(pstate, source), "v");
	if (source->group_column != NULL)
		targets = AddTarget(targets, ColumnOf(pstate, source->group_column), "g");
	if (source->key_order)
		sort_keys = SortByKey(pstate, sort_keys, source, &targets);
	else if (source->order_column != NULL && !source->order_apart)
		sort_keys = OrderOf(pstate, source, &targets);
	query = FinishQuery(pstate, targets);
	query->sortClause = sort_keys;
	return query;
}

Query *
MakeSourceQuery(const VectorSource *source)
{
	return MakeReadQuery(source, false);
}

Query *
MakeOrderQuery(const VectorSource *source)
{
	ParseState *pstate = BeginQuery();
	NullTest   *has_vector = makeNode(NullTest);
	List	   *targets;
	List	   *sort_keys;
	Query	   *query;

	SelectFromRelation(pstate, source->relid);
	has_vector->arg = (Expr *) ColumnOf(pstate, source->vector_column);
	has_vector->nulltesttype = IS_NOT_NULL;
	has_vector->location = -1;
	targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	sort_keys = OrderOf(pstate, source, &targets);
	query = FinishQuery(pstate, targets);
	query->jointree->quals = (Node *) has_vector;
	query->sortClause = sort_keys;
	return query;
}

Query *
MakeHashQuery(const VectorSource *source, Oid hash_function)
{
	ParseState *pstate = BeginQuery();
	List	   *targets;
	List	   *sort_keys;
	Node	   *hash;
	Query	   *query;

	SelectFromRelation(pstate, source->relid);
	hash = (Node *) makeFuncExpr(hash_function, INT8OID, list_make1(VectorOf(pstate, source)),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	targets = AddTarget(targets, hash, "h");
	sort_keys = source->order_column != NULL ? OrderOf(pstate, source, &targets) :
		SortByKey(pstate, NIL, source, &targets);
	query = FinishQuery(pstate, targets);
	query->sortClause = sort_keys;
	return query;
}

/* --- planning and running */

/* The query as a person would write it, for whoever logs or shows it. */
char *
QueryText(const VectorSource *source)
{
	const char *key = source->key_column == NULL ? "0" : quote_identifier(source->key_column);
	const char *group = source->group_column == NULL ? NULL : quote_identifier(source->group_column);
	char	   *text = psprintf("SELECT %s, %s%s%s FROM %s", key,
								quote_identifier(source->vector_column),
								group == NULL ? "" : ", ", group == NULL ? "" : group,
								quote_identifier(source->relation));

	if (source->key_order)
		return psprintf("%s ORDER BY %s", text, key);
	if (source->order_column == NULL)
		return text;
	return psprintf("%s ORDER BY %s%s NULLS LAST, %s", text, quote_identifier(source->order_column),
					source->descending ? " DESC" : "", key);
}

/* A SELECT remains one, whatever rules and policies there are. */
static Query *
Rewrite(Query *query)
{
	return linitial_node(Query, pg_rewrite_query(query));
}

PlannedStmt *
PlanQuery(const VectorSource *source, Query *query, int cursor_options)
{
	PlannedStmt *plan = pg_plan_query(Rewrite(query), QueryText(source), cursor_options, NULL);

	if (plan->rowMarks != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot join \"%s\", which locks the rows that it reads", source->relation),
				 errhint("Join a view without FOR UPDATE or FOR SHARE.")));
	return plan;
}

/* Then its node is on top, or below what sorts. */
static bool
ComesFromCitus(const Plan *plan)
{
	for (; plan != NULL; plan = outerPlan(plan))
		if (IsA(plan, CustomScan) && strncmp(((const CustomScan *) plan)->methods->CustomName, "Citus", 5) == 0)
			return true;
	return false;
}

PlannedStmt *
PlanSource(const VectorSource *source)
{
	PlannedStmt *plan = PlanQuery(source, MakeReadQuery(source, false), 0);

	if (!ComesFromCitus(plan->planTree))
		return plan;
	return PlanQuery(source, MakeReadQuery(source, true), 0);
}

uint64
PlannedRows(const PlannedStmt *plan)
{
	double		rows = plan->planTree->plan_rows;

	return (rows < (double) FASTED_MAX_ROWS) ? (uint64) rows : FASTED_MAX_ROWS;
}

void
RunPlan(const VectorSource *source, PlannedStmt *plan, DestReceiver *receiver)
{
	QueryDesc  *desc = CreateQueryDesc(plan, QueryText(source), GetActiveSnapshot(),
									   InvalidSnapshot, receiver, NULL, NULL, 0);

	ExecutorStart(desc, 0);
	FASTED_EXECUTOR_RUN(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

/* --- facts */

static bool
CastIsParallelSafe(Oid type)
{
	VectorForm	form;
	CastFunction cast;

	return FindVectorForm(type, &form, &cast) &&
		(!OidIsValid(cast.function) || func_parallel(cast.function) != PROPARALLEL_UNSAFE);
}

/* SELECT column FROM relation, rewritten; a NULL column: none.  NULL: can't be. */
static Query *
RewrittenSelect(Oid relid, const char *column)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		can_be = rel != NULL && IsSelectable(rel->rd_rel->relkind) &&
		(column == NULL || get_attnum(relid, column) != InvalidAttrNumber);
	ParseState *pstate;
	List	   *targets = NIL;

	if (rel != NULL)
		relation_close(rel, NoLock);
	if (!can_be)
		return NULL;
	pstate = BeginQuery();
	SelectFromRelation(pstate, relid);
	if (column != NULL)
		targets = AddTarget(targets, ColumnOf(pstate, column), "v");
	return Rewrite(FinishQuery(pstate, targets));
}

bool
FindSourceFacts(Oid relid, const char *vector_column, SourceFacts *facts)
{
	Query	   *query = RewrittenSelect(relid, vector_column);
	List	   *inval_items;

	if (query == NULL)
		return false;
	extract_query_dependencies((Node *) query, &facts->relations, &inval_items, &facts->by_role);
	facts->parallel_safe = max_parallel_hazard(query) != PROPARALLEL_UNSAFE &&
		CastIsParallelSafe(get_atttype(relid, get_attnum(relid, vector_column)));
	return true;
}

List *
FindSourceRelations(Oid relid)
{
	Query	   *query = RewrittenSelect(relid, NULL);
	List	   *relations = NIL;
	List	   *inval_items;
	bool		by_role;

	if (query != NULL)
		extract_query_dependencies((Node *) query, &relations, &inval_items, &by_role);
	return relations;
}
