/*-------------------------------------------------------------------------
 *
 * parallel_plan.c
 *	  The plan by which parallel workers read a source, and whether there is one.
 *
 * The planner decides, as for any query, with two things told to it that it
 * does not know.  What it costs to detoast and convert a vector is the COST of
 * fasted_internal_put.  And the planner counts the pages of a table, but not
 * those of its TOAST table, where long vectors are, when it chooses how many
 * workers read it: a planner hook counts both, for our queries only.
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
#include "executor/spi_priv.h"
#include "guc.h"
#include "miscadmin.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "parallel_plan.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* As the install script has it, in units of cpu_operator_cost. */
#define PUT_COST 40

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

/*
 * With fasted.max_workers set, one for each min_parallel_table_scan_size; else
 * as the planner does it, one more for each time that it triples.
 */
static int
WorkersForPages(double pages)
{
	double		unit = Max(min_parallel_table_scan_size, 1);
	int			workers = 1;

	if (fasted_setting_max_workers > 0)
		return (int) Min(pages / unit, fasted_setting_max_workers);
	for (; pages >= 3 * unit; unit *= 3)
		workers++;
	return workers;
}

static void
CountToastPages(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *info)
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

			if (pages >= Max(min_parallel_table_scan_size, 1))
				info->rel_parallel_workers = WorkersForPages(pages);
		}
		table_close(rel, NoLock);
	}
}

void
InstallPlannerHook(void)
{
	next_get_relation_info = get_relation_info_hook;
	get_relation_info_hook = CountToastPages;
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

	return psprintf("SELECT %s, %s, %s.fasted_internal_call() "
					"FROM (SELECT %s.fasted_internal_put(%s, %s), %s, %s FROM %s) AS r (taken, k, v) "
					"WHERE taken IS NULL",
					source->outer_key_expression, source->outer_vector_expression, prefix,
					prefix, source->key_expression, source->vector_expression,
					quote_identifier(source->key_column), quote_identifier(source->vector_column),
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

static void
SetForThisQuery(const char *name, const char *value)
{
	set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, ERROR, false);
}

static void
SetForReading(void)
{
	if (fasted_setting_max_workers >= 0)
		SetForThisQuery("max_parallel_workers_per_gather", psprintf("%d", fasted_setting_max_workers));
	/* each worker would compile for longer than our expressions take */
	SetForThisQuery("jit", "off");
}

bool
PlanParallelRead(const VectorSource *source, uint64 rows, ParallelPlan *plan)
{
	SPIPrepareOptions options = {0};
	Oid			schema;

	if (fasted_setting_max_workers == 0 || IsParallelWorker() ||
		rows * PUT_COST * cpu_operator_cost <= parallel_setup_cost)
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
