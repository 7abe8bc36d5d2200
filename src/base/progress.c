/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  A join's entry in PostgreSQL's table of progress.
 *
 * The numbers are in the backend's own entry of PostgreSQL's table of backends,
 * where VACUUM and other commands report their progress: it is there without
 * preloading, costs next to nothing, and is cleared when a transaction aborts.
 * A command number of our own keeps our entries apart from theirs.  A backend
 * has one such place.  If a command uses it already, as COPY does, or another
 * join, a join is not in the view.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "base/compat.h"
#include "base/progress.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(fasted_internal_progress);

/* "FaST"; PostgreSQL's own are small numbers, and it looks for those only. */
#define PROGRESS_COMMAND_FASTED ((ProgressCommandType) 0x46615354)

#define SHOW_EACH_MS 100.0

/* What the numbers of an entry mean. */
enum
{
	SLOT_PHASE,
	SLOT_ROWS_READ,
	SLOT_ROWS_EXPECTED,
	SLOT_UNITS_DONE,
	SLOT_UNITS_TOTAL,
	SLOT_PAIRS,
	NSLOTS
};

StaticAssertDecl(NSLOTS <= PGSTAT_NUM_PROGRESS_PARAM, "an entry has enough numbers");

/* The join whose numbers are in the entry. */
static const Progress *shown = NULL;

static const char *
PhaseName(ProgressPhase phase)
{
	switch (phase)
	{
		case PROGRESS_READING:
			return "reading";
		case PROGRESS_PREPARING:
			return "preparing";
		case PROGRESS_JOINING:
			return "joining";
		case PROGRESS_GROUPING:
			return "grouping";
	}
	return "unknown";
}

static double
MillisecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_MILLISEC(now);
}

static bool
EntryIsOurs(const Progress *progress)
{
	return shown == progress && MyBEEntry != NULL &&
		MyBEEntry->st_progress_command == PROGRESS_COMMAND_FASTED;
}

/* Also when a subtransaction's end has cleared it meanwhile. */
static bool
TakeEntry(const Progress *progress)
{
	if (MyBEEntry == NULL || !pgstat_track_activities)
		return false;
	if (MyBEEntry->st_progress_command == PROGRESS_COMMAND_INVALID)
	{
		pgstat_progress_start_command(PROGRESS_COMMAND_FASTED, progress->relid);
		shown = progress;
	}
	return EntryIsOurs(progress);
}

static void
FillEntry(const Progress *progress, const ProgressNumbers *numbers)
{
	static const int slots[NSLOTS] = {
		SLOT_PHASE, SLOT_ROWS_READ, SLOT_ROWS_EXPECTED,
		SLOT_UNITS_DONE, SLOT_UNITS_TOTAL, SLOT_PAIRS
	};
	int64		values[NSLOTS] = {
		progress->phase, numbers->rows_read, numbers->rows_expected,
		numbers->units_done, numbers->units_total, numbers->pairs
	};

	if (TakeEntry(progress))
		pgstat_progress_update_multi_param(NSLOTS, slots, values);
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
	return MillisecondsSince(progress->shown) >= SHOW_EACH_MS;
}

void
ProgressShow(Progress *progress, ProgressPhase phase, const ProgressNumbers *numbers)
{
	progress->phase = phase;
	INSTR_TIME_SET_CURRENT(progress->shown);
	FillEntry(progress, numbers);
}

void
ProgressEnd(Progress *progress)
{
	if (EntryIsOurs(progress))
		pgstat_progress_end_command();
	if (shown == progress)
		shown = NULL;
}

static void
PutEntry(ReturnSetInfo *rsinfo, const PgBackendStatus *entry)
{
	Datum		values[4 + NSLOTS];
	bool		nulls[4 + NSLOTS] = {false};

	values[0] = Int32GetDatum(entry->st_procpid);
	values[1] = ObjectIdGetDatum(entry->st_databaseid);
	values[2] = ObjectIdGetDatum(entry->st_userid);
	values[3] = ObjectIdGetDatum(entry->st_progress_command_target);
	nulls[3] = !OidIsValid(entry->st_progress_command_target);
	values[4] = CStringGetTextDatum(PhaseName(entry->st_progress_param[SLOT_PHASE]));
	for (int i = SLOT_ROWS_READ; i < NSLOTS; i++)
		values[4 + i] = Int64GetDatum(entry->st_progress_param[i]);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/*
 * fasted_internal_progress() returns a row for each join at work that the
 * current user may know of; pg_stat_fasted_progress shows them.
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

		if (entry->st_procpid > 0 &&
			entry->st_progress_command == PROGRESS_COMMAND_FASTED &&
			(sees_all || has_privs_of_role(GetUserId(), entry->st_userid)))
			PutEntry(rsinfo, entry);
	}
	return (Datum) 0;
}
