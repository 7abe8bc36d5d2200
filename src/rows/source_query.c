/*-------------------------------------------------------------------------
 *
 * source_query.c
 *	  Makes the query tree, without names, and plans and runs it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "base/compat.h"
#include "catalog/pg_proc.h"
#include "engine/engine.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "postmaster/bgworker_internals.h"
#include "rows/source_query.h"
#include "rows/vector.h"
#include "storage/bufmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* --- making */

/* From here to FinishQuery a query is in the making, with the relation in FROM. */
static ParseState *
BeginQuery(Oid relid)
{
	ParseState *pstate = make_parsestate(NULL);
	Relation	rel = relation_open(relid, AccessShareLock);

	addNSItemToQuery(pstate, addRangeTableEntryForRelation(pstate, rel, AccessShareLock,
														   NULL, true, true),
					 true, true, true);
	relation_close(rel, NoLock);
	return pstate;
}

static Query *
FinishQuery(ParseState *pstate, List *targets, List *sort_keys)
{
	Query	   *query = makeNode(Query);

	query->commandType = CMD_SELECT;
	query->querySource = QSRC_ORIGINAL;
	query->canSetTag = true;
	query->targetList = targets;
	query->sortClause = sort_keys;
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

/* As bytes (ArrayFromBytes), where it has such a form. */
static Node *
VectorBytesOf(ParseState *pstate, const VectorSource *source)
{
	Node	   *vector = VectorOf(pstate, source);
	Oid			function = VectorBytesFunction(source->form);

	return !OidIsValid(function) ? vector :
		(Node *) makeFuncExpr(function, BYTEAOID, list_make1(vector), InvalidOid, InvalidOid,
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
SortByKey(ParseState *pstate, const VectorSource *source, List **targets)
{
	TargetEntry *key = linitial_node(TargetEntry, *targets);
	Node	   *column = ColumnOf(pstate, source->key_column);

	if (exprType(column) != source->key_type && CastKeepsOrder(exprType(column), source->key_type))
		key = AddHidden(targets, column);
	return AddSortKey(pstate, NIL, *targets, key, false);
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

Query *
MakeSourceQuery(const VectorSource *source, bool as_bytes)
{
	ParseState *pstate = BeginQuery(source->relid);
	List	   *targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	List	   *sort_keys = NIL;

	targets = AddTarget(targets, as_bytes ? VectorBytesOf(pstate, source) : VectorOf(pstate, source),
						"v");
	if (source->group_column != NULL)
		targets = AddTarget(targets, ColumnOf(pstate, source->group_column), "g");
	if (source->key_order)
		sort_keys = SortByKey(pstate, source, &targets);
	else if (source->order_column != NULL && !source->order_apart)
		sort_keys = OrderOf(pstate, source, &targets);
	return FinishQuery(pstate, targets, sort_keys);
}

Query *
MakeOrderQuery(const VectorSource *source)
{
	ParseState *pstate = BeginQuery(source->relid);
	NullTest   *has_vector = makeNode(NullTest);
	List	   *targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	List	   *sort_keys = OrderOf(pstate, source, &targets);
	Query	   *query;

	has_vector->arg = (Expr *) ColumnOf(pstate, source->vector_column);
	has_vector->nulltesttype = IS_NOT_NULL;
	has_vector->location = -1;
	query = FinishQuery(pstate, targets, sort_keys);
	query->jointree->quals = (Node *) has_vector;
	return query;
}

Query *
MakeHashQuery(const VectorSource *source, Oid hash_function)
{
	ParseState *pstate = BeginQuery(source->relid);
	List	   *targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	List	   *sort_keys;

	targets = AddTarget(targets, (Node *) makeFuncExpr(hash_function, INT8OID,
													   list_make1(VectorOf(pstate, source)),
													   InvalidOid, InvalidOid,
													   COERCE_EXPLICIT_CALL), "h");
	sort_keys = source->order_column != NULL ? OrderOf(pstate, source, &targets) :
		SortByKey(pstate, source, &targets);
	return FinishQuery(pstate, targets, sort_keys);
}

/* --- planning and running */

/* The query as a person would write it, for whoever logs or shows it. */
char *
QueryText(const VectorSource *source)
{
	const char *key = source->key_column == NULL ? "0" : quote_identifier(source->key_column);
	const char *group = source->group_column == NULL ? NULL : quote_identifier(source->group_column);
	const char *order = source->key_order ? key : NULL;

	if (order == NULL && source->order_column != NULL)
		order = psprintf("%s%s NULLS LAST, %s", quote_identifier(source->order_column),
						 source->descending ? " DESC" : "", key);
	return psprintf("SELECT %s, %s%s%s FROM %s%s%s", key, quote_identifier(source->vector_column),
					group == NULL ? "" : ", ", group == NULL ? "" : group,
					quote_identifier(source->relation),
					order == NULL ? "" : " ORDER BY ", order == NULL ? "" : order);
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
	PlannedStmt *plan = PlanQuery(source, MakeSourceQuery(source, false), 0);

	return !ComesFromCitus(plan->planTree) ? plan :
		PlanQuery(source, MakeSourceQuery(source, true), 0);
}

uint64
PlannedRows(const PlannedStmt *plan)
{
	double		rows = plan->planTree->plan_rows;

	return (rows < (double) FASTED_MAX_ROWS) ? (uint64) rows : FASTED_MAX_ROWS;
}

static bool
ReceiveTuple(TupleTableSlot *slot, DestReceiver *self)
{
	TupleReceiver *receiver = (TupleReceiver *) self;

	return receiver->take(receiver->arg, slot);
}

void
InitTupleReceiver(TupleReceiver *receiver, TupleCallback take, void *arg)
{
	receiver->base = *None_Receiver;
	receiver->base.receiveSlot = ReceiveTuple;
	receiver->base.mydest = DestTuplestore;
	receiver->take = take;
	receiver->arg = arg;
}

void
RunPlan(const VectorSource *source, PlannedStmt *plan, TupleCallback take, void *arg)
{
	TupleReceiver receiver;
	QueryDesc  *desc = CreateQueryDesc(plan, QueryText(source), GetActiveSnapshot(),
									   InvalidSnapshot, &receiver.base, NULL, NULL, 0);

	InitTupleReceiver(&receiver, take, arg);
	ExecutorStart(desc, 0);
	FASTED_EXECUTOR_RUN(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

/* --- parallel workers */

/*
 * The planner finds out, as for any query, what may run in parallel.  But it
 * would misjudge when that pays and how many workers do: it does not count the
 * TOAST table, where long vectors are, and takes a page for something that is
 * waited for, whereas here most time goes into detoasting and copying, about a
 * microsecond for each kilobyte.  So, for our queries only, a planner hook sets
 * the number of workers by the size of the table and its TOAST table.
 */

/*
 * A worker for so many times min_parallel_table_scan_size: 64 MB, by default.
 * That takes some 60 ms to read, and to start workers takes 10 to 40.
 */
#define SCAN_SIZES_PER_WORKER 8

static get_relation_info_hook_type next_get_relation_info = NULL;
static bool planning_read = false;

static double
TotalPages(Relation rel)
{
	double		pages = RelationGetNumberOfBlocks(rel);
	Oid			toast = rel->rd_rel->reltoastrelid;

	if (OidIsValid(toast))
	{
		Relation	toast_rel = table_open(toast, AccessShareLock);

		pages += RelationGetNumberOfBlocks(toast_rel);
		table_close(toast_rel, AccessShareLock);
	}
	return pages;
}

static double
PagesPerWorker(void)
{
	return Max((double) SCAN_SIZES_PER_WORKER * min_parallel_table_scan_size, 1);
}

static void
SetWorkersBySize(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *info)
{
	if (next_get_relation_info != NULL)
		next_get_relation_info(root, relid, inhparent, info);

	/* the relation's own storage parameter goes first */
	if (planning_read && !inhparent && info->rel_parallel_workers == -1)
	{
		Relation	rel = table_open(relid, NoLock);

		if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
		{
			double		pages = TotalPages(rel);

			/* at most; the planner goes by max_parallel_workers_per_gather too */
			info->rel_parallel_workers = (int) Min(pages / PagesPerWorker(), MAX_PARALLEL_WORKER_LIMIT);
			/* many small partitions may be a large table */
			if (info->reloptkind == RELOPT_OTHER_MEMBER_REL && pages >= min_parallel_table_scan_size)
				info->rel_parallel_workers = Max(info->rel_parallel_workers, 1);
		}
		table_close(rel, NoLock);
	}
}

void
InstallPlannerHook(void)
{
	next_get_relation_info = get_relation_info_hook;
	get_relation_info_hook = SetWorkersBySize;
}

void
SetForThisQuery(const char *name, const char *value)
{
	set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, ERROR, false);
}

/*
 * Do the workers compute the key and the vector, and is it they and the leader who
 * do?  (An expression that is not for workers is computed above them.)
 */
static bool
IsPlainGather(const Plan *plan)
{
	const Gather *gather = (const Gather *) plan;
	ListCell   *cell;

	if (!IsA(plan, Gather) || gather->single_copy || gather->num_workers == 0)
		return false;
	foreach(cell, plan->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Var		   *column = (Var *) entry->expr;

		if (!IsA(column, Var) || column->varno != OUTER_VAR || column->varattno != entry->resno)
			return false;
	}
	return list_length(outerPlan(plan)->targetlist) == list_length(plan->targetlist);
}

PlannedStmt *
PlanParallelRead(const VectorSource *source, uint64 rows)
{
	PlannedStmt *volatile plan = NULL;

	/* with so few rows, were they ever so long, there would be no worker */
	if (max_parallel_workers_per_gather == 0 || IsParallelWorker() ||
		(double) rows * FASTED_MAX_DIMENSIONS * sizeof(float) < PagesPerWorker() * BLCKSZ)
		return NULL;

	/* whether it pays is decided by size, and rows go no way that costs */
	SetForThisQuery("parallel_setup_cost", "0");
	SetForThisQuery("parallel_tuple_cost", "0");
	/* each worker would compile for longer than our expressions take */
	SetForThisQuery("jit", "off");
	planning_read = true;
	PG_TRY();
	{
		plan = PlanQuery(source, MakeSourceQuery(source, false), CURSOR_OPT_PARALLEL_OK);
	}
	PG_FINALLY();
	{
		planning_read = false;
	}
	PG_END_TRY();
	return IsPlainGather(plan->planTree) ? plan : NULL;
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

bool
FindSourceFacts(Oid relid, const char *vector_column, SourceFacts *facts)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	bool		can_be = rel != NULL && IsSelectable(rel->rd_rel->relkind) &&
		(vector_column == NULL || get_attnum(relid, vector_column) != InvalidAttrNumber);
	List	   *targets = NIL;
	List	   *inval_items;
	ParseState *pstate;
	Query	   *query;

	if (rel != NULL)
		relation_close(rel, NoLock);
	if (!can_be)
		return false;
	pstate = BeginQuery(relid);
	if (vector_column != NULL)
		targets = AddTarget(NIL, ColumnOf(pstate, vector_column), "v");
	query = Rewrite(FinishQuery(pstate, targets, NIL));
	extract_query_dependencies((Node *) query, &facts->relations, &inval_items, &facts->by_role);
	facts->parallel_safe = max_parallel_hazard(query) != PROPARALLEL_UNSAFE &&
		(vector_column == NULL ||
		 CastIsParallelSafe(get_atttype(relid, get_attnum(relid, vector_column))));
	return true;
}

List *
FindSourceRelations(Oid relid)
{
	SourceFacts facts;

	return FindSourceFacts(relid, NULL, &facts) ? facts.relations : NIL;
}
