/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between the versions of PostgreSQL that we build with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_COMPAT_H
#define FASTED_COMPAT_H

/* PostgreSQL 18 has this instead of pg_attribute_noreturn(). */
#ifndef pg_noreturn
#define pg_noreturn _Noreturn
#endif

/* PostgreSQL 16 has one function for all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define FASTED_MAY_EXECUTE(function, role) \
	(object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE) == ACLCHECK_OK)
#else
#define FASTED_MAY_EXECUTE(function, role) \
	(pg_proc_aclcheck(function, role, ACL_EXECUTE) == ACLCHECK_OK)
#endif

/* PostgreSQL 16 has another name for it. */
#if PG_VERSION_NUM >= 160000
#define FASTED_LOCAL_BACKEND(index) pgstat_get_local_beentry_by_index(index)
#else
#define FASTED_LOCAL_BACKEND(index) pgstat_fetch_stat_local_beentry(index)
#endif

/* PostgreSQL 18 runs a query as often as it is asked to. */
#if PG_VERSION_NUM >= 180000
#define FASTED_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#define FASTED_EXECUTOR_GO_ON(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define FASTED_EXECUTOR_RUN(desc) ExecutorRun(desc, ForwardScanDirection, 0, true)
#define FASTED_EXECUTOR_GO_ON(desc) ExecutorRun(desc, ForwardScanDirection, 0, false)
#endif

/* PostgreSQL 17 has a resource owner in place of the memory context. */
#if PG_VERSION_NUM >= 170000
#define FASTED_WAIT_EVENT_SET(nevents) CreateWaitEventSet(CurrentResourceOwner, nevents)
#else
#define FASTED_WAIT_EVENT_SET(nevents) CreateWaitEventSet(CurrentMemoryContext, nevents)
#endif

#endif							/* FASTED_COMPAT_H */
