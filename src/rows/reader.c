/*-------------------------------------------------------------------------
 *
 * reader.c
 *	  Builds, plans and runs the query that reads a source; checks and converts its rows.
 *
 * The query is built as a tree of OIDs, without names.  Each vector is converted from the tuple
 * directly into the sink's buffer, which for a join belongs to the engine.  With parallel
 * workers, most rows come through shared memory instead (input_queue.c).  These are already
 * converted, and only need to be copied, by the engine itself if it can.  A row that a worker
 * could not convert comes as a tuple, so that all errors are raised here.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/relation.h"
#include "base/compat.h"
#include "base/interrupts.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "parser/parse_clause.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_relation.h"
#include "postmaster/bgworker_internals.h"
#include "rows/input_queue.h"
#include "rows/row_batch.h"
#include "rows/vector.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Number of rows between two checks for interrupts, besides those of the executor. */
#define ROWS_PER_CHECK 64

/* --- building the query */

/* Starts a query with the relation in FROM; FinishQuery ends it. */
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

/* Makes a reference to a column, which is recorded for the check of privileges. */
static Node *
ColumnOf(ParseState *pstate, const char *name)
{
	Node	   *column = colNameToVar(pstate, name, true, -1);

	if (column == NULL)
		elog(ERROR, "column \"%s\" does not exist", name);
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

/*
 * Makes the vector's column, or a call of the function with the vector.  The column is cast to a
 * vector after a batch of rows has been fetched, because the cast would fetch each value on its own.
 */
static Node *
ValueOf(ParseState *pstate, const VectorSource *source, Oid function)
{
	Node	   *column = ColumnOf(pstate, source->vector_column);

	return !OidIsValid(function) ? column :
		(Node *) makeFuncExpr(function, get_func_rettype(function),
							  list_make1(CastTo(pstate, column, VectorFormType(source->form))),
							  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
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

/*
 * Sorts by order_column, which is a hidden target, and then by key; or by key alone.  In the latter
 * case it sorts by the key's column, if the column has the same order as the key.
 */
static List *
SortKeys(ParseState *pstate, const VectorSource *source, List **targets)
{
	TargetEntry *key = linitial_node(TargetEntry, *targets);
	bool		in_order = source->order_column != NULL;
	Node	   *column = ColumnOf(pstate, in_order ? source->order_column : source->key_column);
	List	   *sort_keys = NIL;

	if (in_order)
		sort_keys = AddSortKey(pstate, NIL, *targets, AddHidden(targets, column),
							   source->descending);
	else if (exprType(column) != source->key_type && CastKeepsOrder(exprType(column), source->key_type))
		key = AddHidden(targets, column);
	return AddSortKey(pstate, sort_keys, *targets, key, false);
}

Query *
MakeSourceQuery(const VectorSource *source, Oid function)
{
	ParseState *pstate = BeginQuery(source->relid);
	List	   *targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	List	   *sort_keys = NIL;

	targets = AddTarget(targets, ValueOf(pstate, source, function), "v");
	if (source->partition_column != NULL)
		targets = AddTarget(targets, ColumnOf(pstate, source->partition_column), "g");
	if (source->order_column != NULL || source->key_order)
		sort_keys = SortKeys(pstate, source, &targets);
	return FinishQuery(pstate, targets, sort_keys);
}

/* Returns the condition that a column is not null. */
static Node *
IsNotNull(const Node *column)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = copyObject((Expr *) column);
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Node *) test;
}

Query *
MakeOrderQuery(const VectorSource *source)
{
	ParseState *pstate = BeginQuery(source->relid);
	List	   *targets = AddTarget(NIL, KeyOf(pstate, source), "k");
	List	   *sort_keys = SortKeys(pstate, source, &targets);
	Node	   *has_vector = IsNotNull(ColumnOf(pstate, source->vector_column));
	Query	   *query = FinishQuery(pstate, targets, sort_keys);

	query->jointree->quals = has_vector;
	return query;
}

/* --- planning and running */

/* SQL text of the query, in short, for log messages and statistics views. */
static char *
QueryText(const VectorSource *source)
{
	return psprintf("SELECT %s FROM %s", quote_identifier(source->vector_column),
					quote_identifier(source->relation));
}

PlannedStmt *
PlanQuery(const VectorSource *source, Query *query, int cursor_options)
{
	PlannedStmt *plan;

	/* rules and policies turn a SELECT into exactly one SELECT */
	query = linitial_node(Query, pg_rewrite_query(query));
	plan = pg_plan_query(query, QueryText(source), cursor_options, NULL);

	if (plan->rowMarks != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot join view \"%s\" because it locks rows", source->relation),
				 errhint("Join a view without FOR UPDATE or FOR SHARE.")));
	return plan;
}

PlannedStmt *
PlanSource(const VectorSource *source)
{
	return PlanQuery(source, MakeSourceQuery(source, InvalidOid), 0);
}

uint64
PlannedRows(const PlannedStmt *plan)
{
	double		rows = plan->planTree->plan_rows;

	return (rows < (double) FASTED_MAX_ROWS) ? (uint64) rows : FASTED_MAX_ROWS;
}

/* Passes tuples on directly, so that they are not stored. */
typedef struct TupleReceiver
{
	DestReceiver base;
	TupleCallback take;
	void	   *arg;
} TupleReceiver;

static bool
ReceiveTuple(TupleTableSlot *slot, DestReceiver *self)
{
	TupleReceiver *receiver = (TupleReceiver *) self;

	return receiver->take(receiver->arg, slot);
}

void
RunPlan(const VectorSource *source, PlannedStmt *plan, TupleCallback take, void *arg)
{
	TupleReceiver receiver = {.base = *None_Receiver,.take = take,.arg = arg};
	QueryDesc  *desc = CreateQueryDesc(plan, QueryText(source), GetActiveSnapshot(),
									   InvalidSnapshot, &receiver.base, NULL, NULL, 0);

	receiver.base.receiveSlot = ReceiveTuple;
	receiver.base.mydest = DestTuplestore;
	ExecutorStart(desc, 0);
	FASTED_EXECUTOR_RUN(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

/* --- parallel workers */

/*
 * The planner determines, as for any query, what may run in parallel.  But its estimates of the
 * cost and of the number of workers do not fit these queries.  It ignores the TOAST table, which
 * has the long vectors.  It also assumes that I/O dominates, but here most time is spent on
 * detoasting and copying, about a microsecond per kilobyte.  So, for our queries only, a
 * planner hook sets the number of workers by the size of the table and its TOAST table.
 */

/*
 * Pages for each worker, in units of min_parallel_table_scan_size: 64 MB by default.  Reading
 * them takes about 60 ms, and starting workers takes 10 to 40 ms.
 */
#define SCAN_SIZES_PER_WORKER 8

static get_relation_info_hook_type next_get_relation_info = NULL;
static bool planning_read = false;

static double
PagesPerWorker(void)
{
	return Max((double) SCAN_SIZES_PER_WORKER * min_parallel_table_scan_size, 1);
}

/*
 * Returns the number of workers, as an upper limit.  The relation's own storage parameter takes
 * precedence.
 */
static int
WorkersBySize(Oid relid, const RelOptInfo *info)
{
	double		pages;
	int			workers;

	if (info->rel_parallel_workers != -1)
		return info->rel_parallel_workers;
	pages = DatumGetInt64(DirectFunctionCall1(pg_table_size, ObjectIdGetDatum(relid))) / BLCKSZ;
	workers = (int) Min(pages / PagesPerWorker(), MAX_PARALLEL_WORKER_LIMIT);
	/* many small partitions may add up to a large table */
	return info->reloptkind == RELOPT_OTHER_MEMBER_REL && pages >= min_parallel_table_scan_size ?
		Max(workers, 1) : workers;
}

static void
SetWorkersBySize(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *info)
{
	if (next_get_relation_info != NULL)
		next_get_relation_info(root, relid, inhparent, info);
	if (planning_read && !inhparent)
		info->rel_parallel_workers = WorkersBySize(relid, info);
}

int
CountScanWorkers(Oid relid, const RelOptInfo *rel)
{
	return Min(WorkersBySize(relid, rel), max_parallel_workers_per_gather);
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
 * Returns true if the workers, and possibly the leader, compute all columns.  (The planner puts
 * expressions that are not parallel safe above the Gather node.)
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

/* --- from tuples to the sink */

RowTaker *
RowTakerCreate(const VectorSource *source, RowSink *sink)
{
	RowTaker   *taker = palloc0(sizeof(RowTaker));

	taker->source = source;
	taker->sink = sink;
	taker->row_context = AllocSetContextCreate(CurrentMemoryContext, "fasted row", ALLOCSET_SMALL_SIZES);
	taker->econtext = CreateStandaloneExprContext();
	return taker;
}

void
CheckDimensions(RowTaker *taker, int dimensions, Datum key)
{
	const VectorSource *source = taker->source;
	bool		partitioned = source->partition_column != NULL;

	if ((partitioned || taker->dimensions == 0) && (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("vector has too many dimensions: %d", dimensions),
				 source->relation == NULL ?
				 errdetail("The vector is in row %s of the partition.", KeyName(source, key)) :
				 errdetail("The vector is in the row with %s, column \"%s\" of \"%s\".",
						   KeyName(source, key),
						   source->vector_column, source->relation),
				 errhint("At most %u dimensions are supported.", FASTED_MAX_DIMENSIONS)));
	if (partitioned)
		taker->sink->begin_row(taker->sink, taker->partition, dimensions, key);
	else if (taker->dimensions == 0)
	{
		taker->dimensions = dimensions;
		taker->first_row_name = MemoryContextStrdup(GetMemoryChunkContext(taker),
													KeyName(source, key));
		taker->sink->set_dimensions(taker->sink, dimensions, taker->first_row_name);
	}
	else if (dimensions != taker->dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 source->relation == NULL ?
				 errdetail("The number of dimensions is %d in row %s of the partition, and %d in row %s.",
						   taker->dimensions, taker->first_row_name, dimensions, KeyName(source, key)) :
				 errdetail("The number of dimensions of column \"%s\" of \"%s\" is %d in the row with %s, and %d in the row with %s.",
						   source->vector_column, source->relation,
						   taker->dimensions, taker->first_row_name,
						   dimensions, KeyName(source, key)),
				 source->relation == NULL ?
				 errhint("Add a column to PARTITION BY or GROUP BY that separates vectors with different numbers of dimensions.") :
				 errhint("Join a view that selects vectors with the same number of dimensions.")));
}

/* Passes one vector to the sink; leaves garbage in the current memory context. */
static bool
TakeVector(RowTaker *taker, Datum key, struct varlena *vector)
{
	int			dimensions;
	int			element = 0;
	float	   *row;
	VectorProblem problem = VectorShape(vector, taker->source->form, &dimensions);

	if (problem == VECTOR_OK)
	{
		if (unlikely(dimensions != taker->dimensions))
			CheckDimensions(taker, dimensions, key);
		/* check this before buffer_for_rows, whose buffer may be the place of another row */
		if (taker->source->skip_zeros && VectorIsZero(vector, taker->source->form, dimensions))
			return true;
		if (taker->sink->buffer_for_rows(taker->sink, &row) == 0)
		{
			taker->stopped = true;
			return false;
		}
		problem = VectorElements(vector, taker->source, dimensions, row, &element);
	}
	if (problem != VECTOR_OK)
		ReportVectorProblem(problem, vector, element, taker->source, KeyName(taker->source, key));
	taker->sink->take_rows(taker->sink, &key, 1);
	return true;
}

Expr *
CastToVector(Expr *value, VectorForm form)
{
	Oid			type = exprType((Node *) value);
	Oid			array = VectorFormType(form);

	return IsBinaryCoercible(getBaseType(type), array) ? value : (Expr *)
		CastTo(NULL, (Node *) value, array);
}

/* Prepares to convert values of this type to vectors. */
static void
PrepareCast(RowTaker *taker, Oid type)
{
	CaseTestExpr *value = makeNode(CaseTestExpr);
	MemoryContext old;
	Expr	   *cast;

	taker->value_type = type;
	taker->cast = NULL;
	if (type == VectorFormType(taker->source->form))
		return;
	old = MemoryContextSwitchTo(GetMemoryChunkContext(taker));
	value->typeId = type;
	value->typeMod = -1;
	value->collation = get_typcollation(type);
	cast = CastToVector((Expr *) value, taker->source->form);
	if (cast != (Expr *) value)
		taker->cast = ExecInitExpr(cast, NULL);
	MemoryContextSwitchTo(old);
}

/* Returns a value of this type as a detoasted vector; NULL if it is null after its cast. */
static struct varlena *
VectorOfValue(RowTaker *taker, Datum value, bool isnull, Oid type)
{
	if (unlikely(type != taker->value_type))
		PrepareCast(taker, type);
	if (taker->cast != NULL)
	{
		taker->econtext->caseValue_datum = value;
		taker->econtext->caseValue_isNull = isnull;
		value = ExecEvalExpr(taker->cast, taker->econtext, &isnull);
	}
	return isnull ? NULL : PG_DETOAST_DATUM(value);
}

bool
TakeSourceRow(RowTaker *taker, Datum key, bool key_isnull, Datum value, bool isnull, Oid type)
{
	MemoryContext old;
	struct varlena *vector;
	bool		more;

	if (taker->tuples++ % ROWS_PER_CHECK == 0)
		CheckJoinInterrupts();
	MemoryContextReset(taker->row_context);
	old = MemoryContextSwitchTo(taker->row_context);
	vector = VectorOfValue(taker, value, isnull, type);
	if (vector != NULL && key_isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("key column \"%s\" of relation \"%s\" is null",
						taker->source->key_column, taker->source->relation),
				 errdetail("A row with a vector has a null key."),
				 errhint("Specify a column without nulls with %s => '...', or exclude such rows by a view.",
						 taker->source->id_argument)));
	more = vector == NULL || TakeVector(taker, key, vector);
	MemoryContextSwitchTo(old);
	return more;
}

bool
TakeSlot(void *arg, TupleTableSlot *slot)
{
	RowTaker   *taker = arg;

	slot_getallattrs(slot);
	if (taker->source->partition_column != NULL)
	{
		if (slot->tts_isnull[PARTITION_COLUMN])
			return true;		/* rows without a partition are skipped */
		taker->partition = slot->tts_values[PARTITION_COLUMN];
	}
	return TakeSourceRow(taker, slot->tts_values[KEY_COLUMN], slot->tts_isnull[KEY_COLUMN],
						 slot->tts_values[VECTOR_COLUMN], slot->tts_isnull[VECTOR_COLUMN],
						 taker->has_vectors ? VectorFormType(taker->source->form) :
						 TupleDescAttr(slot->tts_tupleDescriptor, VECTOR_COLUMN)->atttypid);
}

bool
TakeBatch(RowTaker *taker)
{
	TupleTableSlot *slot;

	while (taker->batch != NULL && !taker->stopped && (slot = RowBatchNext(taker->batch)) != NULL)
		(void) TakeSlot(taker, slot);
	return !taker->stopped;
}

bool
TakeSlotInBatch(void *arg, TupleTableSlot *slot)
{
	RowTaker   *taker = arg;

	/* a user's cast may convert a type of fixed length to vectors */
	if (TupleDescAttr(slot->tts_tupleDescriptor, VECTOR_COLUMN)->attlen != -1)
		return TakeSlot(taker, slot);
	if (taker->batch == NULL)
	{
		/* it has rows after the plan has ended */
		MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(taker));

		taker->batch = RowBatchCreate(CreateTupleDescCopy(slot->tts_tupleDescriptor), VECTOR_COLUMN);
		MemoryContextSwitchTo(old);
	}
	if (!RowBatchAdd(taker->batch, slot))
		return TakeSlot(taker, slot);
	return !RowBatchIsFull(taker->batch) || TakeBatch(taker);
}

/* Runs the plan and passes all rows to the sink, in their order. */
static void
TakeAllRows(RowTaker *taker, PlannedStmt *plan)
{
	RunPlan(taker->source, plan, TakeSlotInBatch, taker);
	(void) TakeBatch(taker);
}

/* --- all rows */

/*
 * Reads by parallel workers, with a Gather node on top of the plan.  Returns false, without reading
 * anything, if workers may not read, or do not make reading faster.  rows is the planner's estimate
 * for the source's own query.
 */
static bool
ReadInParallel(RowTaker *taker, uint64 rows)
{
	PlannedStmt *volatile plan = NULL;
	int			nest_level;
	bool		parallel;
	Oid			cast = InvalidOid;

	/* so few rows do not need a worker, even with the maximum number of dimensions */
	if (max_parallel_workers_per_gather == 0 || IsParallelWorker() ||
		(double) rows * FASTED_MAX_DIMENSIONS * sizeof(float) < PagesPerWorker() * BLCKSZ)
		return false;
	/* workers cast the values, too */
	if (FindVectorCast(taker->source->vector_type, &cast) && OidIsValid(cast) &&
		func_parallel(cast) != PROPARALLEL_SAFE)
		return false;
	nest_level = NewGUCNestLevel();
	/* the size alone decides, and rows do not go through the costly tuple queues */
	SetForThisQuery("parallel_setup_cost", "0");
	SetForThisQuery("parallel_tuple_cost", "0");
	/* JIT compilation in each worker would take longer than our expressions */
	SetForThisQuery("jit", "off");
	planning_read = true;
	PG_TRY();
	{
		plan = PlanQuery(taker->source, MakeSourceQuery(taker->source, InvalidOid),
						 CURSOR_OPT_PARALLEL_OK);
	}
	PG_FINALLY();
	{
		planning_read = false;
	}
	PG_END_TRY();
	parallel = IsPlainGather(plan->planTree);
	if (parallel)
		RunInputPlan(plan, taker);
	AtEOXact_GUC(true, nest_level);
	return parallel;
}

void
ReadVectors(const VectorSource *source, RowSink *sink)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "fasted reading",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowTaker   *taker = RowTakerCreate(source, sink);
	PlannedStmt *plan = PlanSource(source);
	uint64		rows = PlannedRows(plan);
	const JoinDistributor *distributor = FindDistributor();

	sink->expect_rows(sink, rows);
	if (distributor != NULL && distributor->read(taker, plan))
		 /* all rows have been read */ ;
	else if (sink->in_order)
	{
		int			nest_level = NewGUCNestLevel();

		/* else the scan of a large table may start in the middle, in step with another scan */
		SetForThisQuery("synchronize_seqscans", "off");
		TakeAllRows(taker, plan);
		AtEOXact_GUC(true, nest_level);
	}
	else if (source->key_order || source->order_column != NULL || !ReadInParallel(taker, rows))
		TakeAllRows(taker, plan);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* --- the extension that distributes joins over other servers */

#define EXTENSION "fasted_citus"

const JoinDistributor *join_distributor = NULL;

void
RegisterDistributor(const JoinDistributor *distributor)
{
	join_distributor = distributor;
}

/* Most databases have no such schema, which the catalog cache knows. */
const JoinDistributor *
FindDistributor(void)
{
	if (!OidIsValid(get_namespace_oid(EXTENSION, true)) ||
		!OidIsValid(get_extension_oid(EXTENSION, true)))
		return NULL;
	if (join_distributor == NULL)
		load_file("$libdir/" EXTENSION, false);
	return join_distributor;
}

/* --- facts */

/*
 * Rewrites SELECT vector_column FROM relation WHERE vector_column IS NOT NULL.  Returns NULL if the
 * relation or column does not exist, or is not of a kind to select from.
 */
static Query *
VectorQuery(Oid relid, const char *vector_column)
{
	Relation	rel = OidIsValid(relid) ? try_relation_open(relid, AccessShareLock) : NULL;
	bool		can_be = rel != NULL && IsSelectable(rel->rd_rel->relkind) &&
		get_attnum(relid, vector_column) != InvalidAttrNumber;
	ParseState *pstate;
	Node	   *column;
	Query	   *query;

	if (rel != NULL)
		relation_close(rel, NoLock);
	if (!can_be)
		return NULL;
	pstate = BeginQuery(relid);
	column = ColumnOf(pstate, vector_column);
	query = FinishQuery(pstate, AddTarget(NIL, column, "v"), NIL);
	query->jointree->quals = IsNotNull(column);
	return linitial_node(Query, pg_rewrite_query(query));
}

bool
FindSourceFacts(Oid relid, const char *vector_column, SourceFacts *facts)
{
	Query	   *query = VectorQuery(relid, vector_column);
	List	   *inval_items;
	Oid			cast = InvalidOid;

	if (query == NULL)
		return false;
	extract_query_dependencies((Node *) query, &facts->relations, &inval_items, &facts->by_role);
	facts->parallel_safe = max_parallel_hazard(query) != PROPARALLEL_UNSAFE &&
		FindVectorCast(get_atttype(relid, get_attnum(relid, vector_column)), &cast) &&
		(!OidIsValid(cast) || func_parallel(cast) != PROPARALLEL_UNSAFE);
	return true;
}

bool
EstimateSource(Oid relid, const char *vector_column, double *rows, Cost *cost)
{
	Query	   *query = VectorQuery(relid, vector_column);
	const Plan *plan;

	/* estimates of conditions, of a view or a policy, would tell about rows */
	if (query == NULL || !MayRead(relid, get_attnum(relid, vector_column)))
		return false;
	plan = pg_plan_query(query, "", 0, NULL)->planTree;
	*rows = plan->plan_rows;
	*cost = plan->total_cost;
	return true;
}
