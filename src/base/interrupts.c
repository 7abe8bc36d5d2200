/*-------------------------------------------------------------------------
 *
 * interrupts.c
 *	  Polls for cancellation and for the postmaster's death; reports progress; calls cleanups at
 *	  the end of a memory context or resource owner.
 *
 * Unless client_connection_check_interval is set, PostgreSQL detects a lost client only when it
 * next writes to it.  A join may compute for hours before it writes anything, so it
 * checks the connection itself.  PostgreSQL detects the postmaster's death when it waits for an
 * event.  A join does not wait for events, so it checks for the postmaster's death itself.
 * Otherwise it would prevent the start of a new server, which requires that all processes of the
 * old server have ended.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/interrupts.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/pmsignal.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(fasted_internal_progress);

#define CHECK_INTERVAL_MS 50.0
#define UPDATE_INTERVAL_MS 100.0

/*
 * Declared in libpq/libpq.h, which includes headers (Kerberos, OpenSSL) that PostgreSQL's
 * development packages do not install.
 */
extern bool pq_check_connection(void);

/* Returns true if this number of milliseconds has passed since then, or if then is zero. */
static bool
IsOver(instr_time then, double milliseconds)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, then);
	return INSTR_TIME_GET_MILLISEC(now) >= milliseconds;
}

void
CheckJoinInterrupts(void)
{
	static instr_time last;

	if (IsOver(last, CHECK_INTERVAL_MS))
	{
		INSTR_TIME_SET_CURRENT(last);
		/* as PostgreSQL's own wait loops do */
		if (IsUnderPostmaster && !PostmasterIsAlive())
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating connection due to unexpected postmaster exit")));
		if (MyProcPort != NULL && whereToSendOutput == DestRemote && !pq_check_connection())
		{
			ClientConnectionLost = true;
			InterruptPending = true;
		}
	}
	CHECK_FOR_INTERRUPTS();
}

/* --- cleanups */

/* Cleanups with a resource owner, the most recent one first. */
static dlist_head owned = DLIST_STATIC_INIT(owned);

static void
Disown(Cleanup *cleanup)
{
	if (cleanup->owner != NULL)
		dlist_delete(&cleanup->node);
	cleanup->owner = NULL;
}

static void
CleanupOnContextReset(void *arg)
{
	Cleanup    *cleanup = arg;

	Disown(cleanup);
	cleanup->clean(cleanup->arg);
}

/* Calls cleanups after errors only.  Otherwise, the memory context will call them. */
static void
CleanupOnOwnerRelease(ResourceReleasePhase phase, bool is_commit, bool is_top, void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	dlist_foreach_modify(iter, &owned)
	{
		Cleanup    *cleanup = dlist_container(Cleanup, node, iter.cur);

		if (cleanup->owner != CurrentResourceOwner)
			continue;
		Disown(cleanup);
		if (!is_commit)
			cleanup->clean(cleanup->arg);
	}
}

void
CleanupRegister(Cleanup *cleanup, void (*clean) (void *arg), void *arg)
{
	static bool listening = false;

	if (!listening)
		RegisterResourceReleaseCallback(CleanupOnOwnerRelease, NULL);
	listening = true;

	cleanup->clean = clean;
	cleanup->arg = arg;
	cleanup->owner = CurrentResourceOwner;
	if (cleanup->owner != NULL)
		dlist_push_head(&owned, &cleanup->node);
	cleanup->callback.func = CleanupOnContextReset;
	cleanup->callback.arg = cleanup;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &cleanup->callback);
}

/* --- progress */

/*
 * The numbers are stored in the backend's own entry of PostgreSQL's table of backends, as for
 * VACUUM and other commands.  That needs no preloading, costs next to nothing, and is cleared
 * when a transaction aborts.  A command number of our own distinguishes our entries from
 * others.  Each backend has only one entry.  If a command such as COPY, or another join, is
 * using it, a join is not shown in the view.
 */

/* "FaST".  PostgreSQL's own numbers are small, and it ignores all others. */
#define PROGRESS_COMMAND_FASTED ((ProgressCommandType) 0x46615354)

/* Number of parameters in an entry: the phase, and ProgressNumbers. */
#define NSLOTS 6

StaticAssertDecl(NSLOTS <= PGSTAT_NUM_PROGRESS_PARAM, "an entry has enough numbers");

/* The join that uses the entry; NULL if none does. */
static const Progress *shown = NULL;

static const char *const phase_names[] = {
	[PROGRESS_READING] = "reading",
	[PROGRESS_PREPARING] = "preparing",
	[PROGRESS_JOINING] = "joining",
	[PROGRESS_SPANNING_TREE] = "spanning tree",
	[PROGRESS_CLUSTERING] = "clustering"
};

static bool
EntryIsOurs(const Progress *progress)
{
	return shown == progress && MyBEEntry != NULL &&
		MyBEEntry->st_progress_command == PROGRESS_COMMAND_FASTED;
}

void
ProgressBegin(Progress *progress, Oid relid)
{
	memset(progress, 0, sizeof(*progress));
	progress->relid = relid;
}

bool
ProgressIsDue(const Progress *progress)
{
	return IsOver(progress->shown, UPDATE_INTERVAL_MS);
}

void
ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers)
{
	static const int slots[NSLOTS] = {0, 1, 2, 3, 4, 5};
	int64		values[NSLOTS] = {
		phase, numbers->rows_read, numbers->rows_expected,
		numbers->units_done, numbers->units_total, numbers->pairs
	};

	INSTR_TIME_SET_CURRENT(progress->shown);
	if (MyBEEntry == NULL || !pgstat_track_activities)
		return;
	/* the entry may also have been cleared by the end of a subtransaction */
	if (MyBEEntry->st_progress_command == PROGRESS_COMMAND_INVALID)
	{
		pgstat_progress_start_command(PROGRESS_COMMAND_FASTED, progress->relid);
		shown = progress;
	}
	if (EntryIsOurs(progress))
		pgstat_progress_update_multi_param(NSLOTS, slots, values);
}

void
ProgressEnd(Progress *progress)
{
	if (EntryIsOurs(progress))
		pgstat_progress_end_command();
	if (shown == progress)
		shown = NULL;
}

/*
 * fasted_internal.progress() returns a row for each running join that the current user may
 * see.  It is the basis of the view pg_stat_fasted_progress.
 */
Datum
fasted_internal_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nbackends = pgstat_fetch_stat_numbackends();
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 1; i <= nbackends; i++)
	{
		const PgBackendStatus *entry = &FASTED_LOCAL_BACKEND(i)->backendStatus;
		int64		phase = entry->st_progress_param[0];
		Datum		values[4 + NSLOTS];
		bool		nulls[4 + NSLOTS] = {false};

		if (entry->st_procpid <= 0 ||
			entry->st_progress_command != PROGRESS_COMMAND_FASTED ||
			!(sees_all || has_privs_of_role(GetUserId(), entry->st_userid)))
			continue;
		values[0] = Int32GetDatum(entry->st_procpid);
		values[1] = ObjectIdGetDatum(entry->st_databaseid);
		values[2] = ObjectIdGetDatum(entry->st_userid);
		values[3] = ObjectIdGetDatum(entry->st_progress_command_target);
		nulls[3] = !OidIsValid(entry->st_progress_command_target);
		values[4] = CStringGetTextDatum(phase >= PROGRESS_READING && phase <= PROGRESS_CLUSTERING ?
										phase_names[phase] : "unknown");
		for (int slot = 1; slot < NSLOTS; slot++)
			values[4 + slot] = Int64GetDatum(entry->st_progress_param[slot]);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
