/*-------------------------------------------------------------------------
 *
 * parallel_plan.c
 *	  Plans the source below Gather, where that is safe and pays.
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
#include "engine/engine.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "optimizer/cost.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "postmaster/bgworker_internals.h"
#include "rows/parallel_plan.h"
#include "rows/source_query.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/rel.h"

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

/* --- the plan */

/* With the hook above at work. */
static PlannedStmt *
PlanReading(const VectorSource *source)
{
	PlannedStmt *volatile plan = NULL;

	planning_read = true;
	PG_TRY();
	{
		plan = PlanQuery(source, MakeSourceQuery(source), CURSOR_OPT_PARALLEL_OK);
	}
	PG_FINALLY();
	{
		planning_read = false;
	}
	PG_END_TRY();
	return plan;
}

void
SetForThisQuery(const char *name, const char *value)
{
	set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, ERROR, false);
}

static void
SetForReading(void)
{
	/* whether it pays is decided by size, and rows go no way that costs */
	SetForThisQuery("parallel_setup_cost", "0");
	SetForThisQuery("parallel_tuple_cost", "0");
	/* each worker would compile for longer than our expressions take */
	SetForThisQuery("jit", "off");
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
	PlannedStmt *plan;

	/* with so few rows, were they ever so long, there would be no worker */
	if (max_parallel_workers_per_gather == 0 || IsParallelWorker() ||
		(double) rows * FASTED_MAX_DIMENSIONS * sizeof(float) < PagesPerWorker() * BLCKSZ)
		return NULL;

	SetForReading();
	plan = PlanReading(source);
	return IsPlainGather(plan->planTree) ? plan : NULL;
}
