/*-------------------------------------------------------------------------
 *
 * parallel_plan.c
 *	  The plan by which parallel workers read a source, and whether there is one.
 *
 * The planner finds out, as for any query, what may run in parallel.  But it
 * would misjudge when that pays and how many workers do: it does not count the
 * TOAST table, where long vectors are, and takes a page for something that is
 * waited for, whereas here most time goes into detoasting and copying, about a
 * microsecond for each kilobyte.  So, for our queries only, a planner hook sets
 * the number of workers by the size of the table and its TOAST table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "compat.h"
#include "engine.h"
#include "executor/spi_priv.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "parallel_plan.h"
#include "postmaster/bgworker_internals.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/*
 * A worker for so many times min_parallel_table_scan_size: 64 MB, by default.
 * That takes some 60 ms to read, and to start workers takes 10 to 40.
 */
#define SCAN_SIZES_PER_WORKER 8

static get_relation_info_hook_type next_get_relation_info = NULL;
static bool planning_read = false;

/* --- how many workers */

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

/* At most; the planner goes by max_parallel_workers_per_gather too. */
static int
WorkersForPages(double pages)
{
	return (int) Min(pages / PagesPerWorker(), MAX_PARALLEL_WORKER_LIMIT);
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

			info->rel_parallel_workers = WorkersForPages(pages);
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

/* --- the functions in the query */

/*
 * The schema of the extension's internal functions; InvalidOid if the current
 * user may not call them, or if the extension was not yet updated to have them.
 */
static Oid
InternalSchema(void)
{
	Oid			extension = get_extension_oid("fasted", true);
	CatCList   *list = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum("fasted_internal_put"));
	Oid			schema = InvalidOid;

	for (int i = 0; i < list->n_members && OidIsValid(extension); i++)
	{
		Form_pg_proc function = (Form_pg_proc) GETSTRUCT(&list->members[i]->tuple);

		if (getExtensionOfObject(ProcedureRelationId, function->oid) == extension &&
			FASTED_MAY_EXECUTE(function->oid, GetUserId()) &&
			FASTED_MAY_USE_SCHEMA(function->pronamespace, GetUserId()))
			schema = function->pronamespace;
	}
	ReleaseSysCacheList(list);
	return schema;
}

/* See parallel_reader.c. */
static char *
WriteQuery(const VectorSource *source, Oid schema)
{
	const char *prefix = quote_identifier(get_namespace_name(schema));
	const char *key = source->key_column == NULL ? source->key_expression :
		quote_identifier(source->key_column);

	return psprintf("SELECT %s, %s, %s.fasted_internal_call() "
					"FROM (SELECT %s.fasted_internal_put(%s, %s), %s, %s FROM %s) AS r (taken, k, v) "
					"WHERE taken IS NULL",
					source->outer_key_expression, source->outer_vector_expression, prefix,
					prefix, source->key_expression, source->vector_expression,
					key, quote_identifier(source->vector_column),
					source->qualified_name);
}

/* --- the plan */

PlannedStmt *
PlanOf(SPIPlanPtr plan, CachedPlan **cached)
{
	*cached = SPI_plan_get_cached_plan(plan);
	return *cached == NULL ? NULL : linitial_node(PlannedStmt, (*cached)->stmt_list);
}

/* With the hook above at work. */
static PlannedStmt *
PlanReading(SPIPlanPtr plan, CachedPlan **cached)
{
	PlannedStmt *volatile stmt = NULL;

	planning_read = true;
	PG_TRY();
	{
		stmt = PlanOf(plan, cached);
	}
	PG_FINALLY();
	{
		planning_read = false;
	}
	PG_END_TRY();
	return stmt;
}

/* The workers of a plan that is parallel as a whole, else zero. */
static int
PlannedWorkers(SPIPlanPtr plan)
{
	CachedPlan *cached;
	PlannedStmt *stmt = PlanReading(plan, &cached);
	int			workers = 0;

	if (stmt == NULL)
		return 0;
	if (IsA(stmt->planTree, Gather))
		workers = ((Gather *) stmt->planTree)->num_workers;
	ReleaseCachedPlan(cached, plan->saved ? CurrentResourceOwner : NULL);
	return workers;
}

void
SetForThisQuery(const char *name, const char *value)
{
	set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, ERROR, false);
}

static void
SetForReading(void)
{
	if (fasted_setting_max_workers >= 0)
		SetForThisQuery("max_parallel_workers_per_gather", psprintf("%d", fasted_setting_max_workers));
	/* whether it pays is decided by size */
	SetForThisQuery("parallel_setup_cost", "0");
	/* each worker would compile for longer than our expressions take */
	SetForThisQuery("jit", "off");
}

bool
PlanParallelRead(const VectorSource *source, uint64 rows, ParallelPlan *plan)
{
	SPIPrepareOptions options = {0};
	Oid			schema;

	/* with so few rows, were they ever so long, there would be no worker */
	if (fasted_setting_max_workers == 0 || IsParallelWorker() ||
		(double) rows * FASTED_MAX_DIMENSIONS * sizeof(float) < PagesPerWorker() * BLCKSZ)
		return false;
	schema = InternalSchema();
	if (!OidIsValid(schema))
		return false;

	SetForReading();
	plan->query = WriteQuery(source, schema);
	options.cursorOptions = CURSOR_OPT_PARALLEL_OK;
	plan->plan = SPI_prepare_extended(plan->query, &options);
	if (plan->plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", plan->query, SPI_result_code_string(SPI_result));
	plan->nworkers = PlannedWorkers(plan->plan);
	return plan->nworkers > 0;
}
