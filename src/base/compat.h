/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between the supported versions of PostgreSQL.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_COMPAT_H
#define FASTED_COMPAT_H

/* PostgreSQL 18 defines pg_noreturn in place of pg_attribute_noreturn(). */
#ifndef pg_noreturn
#define pg_noreturn _Noreturn
#endif

/* PostgreSQL 16 has a single privilege check for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define FASTED_MAY_EXECUTE(function, role) \
	(object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK)
#else
#define FASTED_MAY_EXECUTE(function, role) \
	(pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* PostgreSQL 16 has renamed this function. */
#if PG_VERSION_NUM >= 160000
#define FASTED_LOCAL_BACKEND(index) pgstat_get_local_beentry_by_index(index)
#else
#define FASTED_LOCAL_BACKEND(index) pgstat_fetch_stat_local_beentry(index)
#endif

/* PostgreSQL 16 has renamed this member. */
#if PG_VERSION_NUM >= 160000
#define FASTED_RELATION_LOCATOR(relation) ((relation)->rd_locator)
#else
#define FASTED_RELATION_LOCATOR(relation) ((relation)->rd_node)
#endif

/* PostgreSQL 18 has removed the parameter execute_once. */
#if PG_VERSION_NUM >= 180000
#define FASTED_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define FASTED_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0, true)
#endif

/* PostgreSQL 18 has added a parameter for statistics. */
#if PG_VERSION_NUM >= 180000
#define FASTED_INDEX_BEGINSCAN(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, NULL, nkeys, 0)
#else
#define FASTED_INDEX_BEGINSCAN(table, index, snapshot, nkeys) \
	index_beginscan(table, index, snapshot, nkeys, 0)
#endif

/* From PostgreSQL 17 on, there is such a function. */
#if PG_VERSION_NUM < 170000
#define RestrictSearchPath() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION, \
							  GUC_ACTION_SAVE, true, 0, false))
#endif

/* In PostgreSQL 17, a resource owner replaces the memory context. */
#if PG_VERSION_NUM >= 170000
#define FASTED_WAIT_EVENT_SET(nevents) CreateWaitEventSet(CurrentResourceOwner, nevents)
#else
#define FASTED_WAIT_EVENT_SET(nevents) CreateWaitEventSet(CurrentMemoryContext, nevents)
#endif

/* Before PostgreSQL 17, only B-trees get the number of parallel workers for their build. */
#if PG_VERSION_NUM >= 170000
#define FASTED_INDEX_WORKERS(heap, index, info) ((info)->ii_ParallelWorkers)
#else
#define FASTED_INDEX_WORKERS(heap, index, info) \
	plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index))
#endif

#endif							/* FASTED_COMPAT_H */
