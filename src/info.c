/*-------------------------------------------------------------------------
 *
 * info.c
 *	  fasted_info(), and the advice of CREATE EXTENSION to preload the library.
 *
 * Joins by pgvector's operators can use the join node only in a session that has loaded the
 * library, and such a statement does not load it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "base/guc.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_db_role_setting.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "cpu/kernels/kernel.h"
#include "engine/device_list.h"
#include "engine/processors.h"
#include "fmgr.h"
#include "funcapi.h"
#include "index/path.h"
#include "join/join.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/varlena.h"

PG_FUNCTION_INFO_V1(fasted_info);
PG_FUNCTION_INFO_V1(fasted_internal_advise_preload);

/* True if this transaction created the extension. */
static bool advise_at_commit = false;

/*
 * Returns true if this value of a setting, a list of libraries, contains this extension's library.
 */
static bool
ListsLibrary(const char *setting)
{
	List	   *libraries = NIL;
	ListCell   *cell;

	if (setting == NULL || !SplitDirectoriesString(pstrdup(setting), ',', &libraries))
		return false;
	foreach(cell, libraries)
	{
		const char *path = lfirst(cell);
		const char *name = last_dir_separator(path);

		name = name != NULL ? name + 1 : path;
		if (strcmp(name, "fasted") == 0 || strcmp(name, "fasted" DLSUFFIX) == 0)
			return true;
	}
	return false;
}

/* Returns the setting that makes this session preload the library; NULL if there is none. */
static const char *
PreloadSetting(void)
{
	if (ListsLibrary(shared_preload_libraries_string))
		return "shared_preload_libraries";
	if (ListsLibrary(session_preload_libraries_string))
		return "session_preload_libraries";
	if (ListsLibrary(local_preload_libraries_string))
		return "local_preload_libraries";
	return NULL;
}

/* Returns the value of a setting in an array of "name=value"; NULL if the setting is not there. */
static char *
ValueInArray(ArrayType *settings, const char *name)
{
	Datum	   *elements;
	int			count;
	char	   *value = NULL;

	deconstruct_array(settings, TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &count);
	for (int i = 0; i < count && value == NULL; i++)
	{
		char	   *element = TextDatumGetCString(elements[i]);
		size_t		length = strlen(name);

		if (strncmp(element, name, length) == 0 && element[length] == '=')
			value = element + length + 1;
	}
	return value;
}

/*
 * Returns a copy of a column, of variable length, of the row of a catalog with these keys; NULL if there
 * is no such row, or if the column is null.
 */
static void *
CatalogValue(Oid catalog, Oid index, ScanKeyData *keys, int nkeys, AttrNumber column)
{
	Relation	relation = table_open(catalog, AccessShareLock);
	SysScanDesc scan = systable_beginscan(relation, index, true, NULL, nkeys, keys);
	HeapTuple	tuple = systable_getnext(scan);
	bool		is_null = true;
	Datum		value = HeapTupleIsValid(tuple) ?
		heap_getattr(tuple, column, RelationGetDescr(relation), &is_null) : (Datum) 0;
	void	   *copy = is_null ? NULL : PG_DETOAST_DATUM_COPY(value);

	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return copy;
}

/*
 * Returns the value of a setting that ALTER DATABASE and ALTER ROLE have set for this database
 * and role, each of which may be InvalidOid for all; NULL if they have not set it.
 */
static char *
StoredSetting(Oid database, Oid role, const char *name)
{
	ScanKeyData keys[2];
	ArrayType  *settings;

	ScanKeyInit(&keys[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(database));
	ScanKeyInit(&keys[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(role));
	settings = CatalogValue(DbRoleSettingRelationId, DbRoleSettingDatidRolidIndexId, keys, 2,
							Anum_pg_db_role_setting_setconfig);
	return settings == NULL ? NULL : ValueInArray(settings, name);
}

/*
 * Returns the value of a setting in new sessions of this user in this database, if ALTER DATABASE
 * or ALTER ROLE has set it; else NULL.  Sets *of_role if it was ALTER ROLE of this user, which
 * overrides ALTER DATABASE.
 */
static char *
NewSessionSetting(const char *name, bool *of_role)
{
	char	   *value = NULL;

	for (int i = 0; i < 4 && value == NULL; i++)
	{
		*of_role = i < 2;
		value = StoredSetting(i % 2 == 0 ? MyDatabaseId : InvalidOid,
							  *of_role ? GetSessionUserId() : InvalidOid, name);
	}
	return value;
}

/* Returns the setting that makes new sessions, but not this session, preload the library; or NULL. */
static const char *
NewSessionPreloadSetting(void)
{
	static const char *const settings[] = {"session_preload_libraries", "local_preload_libraries"};
	bool		of_role;

	for (int i = 0; i < (int) lengthof(settings); i++)
		if (ListsLibrary(NewSessionSetting(settings[i], &of_role)))
			return settings[i];
	return NULL;
}

/*
 * Returns a sentence that says how to preload the library in this database.  The statement keeps
 * other libraries in the list.  They are shown only to users who may read the setting.
 */
static char *
PreloadAdvice(void)
{
	bool		of_role;
	char	   *stored = NewSessionSetting("session_preload_libraries", &of_role);
	char	   *others = pstrdup(stored != NULL ? stored : session_preload_libraries_string);
	List	   *libraries = NIL;
	ListCell   *cell;
	StringInfoData advice;

	if (others[0] != '\0' && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
		return pstrdup("Ask a superuser to add \"fasted\" to session_preload_libraries.");
	if (!SplitDirectoriesString(others, ',', &libraries))
		libraries = NIL;		/* PostgreSQL ignores an invalid list */

	initStringInfo(&advice);
	appendStringInfo(&advice, "%s this statement, which takes effect in new sessions: ALTER ",
					 pg_parameter_aclcheck("session_preload_libraries", GetUserId(), ACL_SET) == ACLCHECK_OK ?
					 "Run" : "Ask a superuser to run");
	if (of_role)
		appendStringInfo(&advice, "ROLE %s IN ", quote_identifier(GetUserNameFromId(GetSessionUserId(), false)));
	appendStringInfo(&advice, "DATABASE %s SET session_preload_libraries = ",
					 quote_identifier(get_database_name(MyDatabaseId)));
	foreach(cell, libraries)
		if (((char *) lfirst(cell))[0] != '\0')
			appendStringInfo(&advice, "%s, ", quote_literal_cstr(lfirst(cell)));
	appendStringInfoString(&advice, "'fasted'");
	return advice.data;
}

/*
 * Raises the NOTICE when the transaction commits, if the extension then exists and new sessions
 * will not preload the library.
 */
static void
AdviseAtCommit(XactEvent event, void *arg)
{
	bool		advise = advise_at_commit && event == XACT_EVENT_PRE_COMMIT;

	advise_at_commit = false;
	if (advise && OidIsValid(get_extension_oid("fasted", true)) &&
		PreloadSetting() == NULL && NewSessionPreloadSetting() == NULL)
		ereport(NOTICE,
				(errmsg("sessions do not preload the library of extension \"fasted\""),
				 errdetail("Until a session has called a function of the extension, its joins by pgvector's operators are nested loops."),
				 errhint("%s", PreloadAdvice())));
}

/*
 * fasted_internal.advise_preload() is called by the install script.  While a script runs,
 * PostgreSQL suppresses all messages below WARNING, so the NOTICE is raised at commit.
 */
Datum
fasted_internal_advise_preload(PG_FUNCTION_ARGS)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(AdviseAtCommit, NULL);
	registered = true;
	advise_at_commit = true;
	PG_RETURN_VOID();
}

/* The version of an extension in this database; NULL if it is not installed. */
static char *
ExtensionVersion(const char *name)
{
	ScanKeyData key;
	text	   *version;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	version = CatalogValue(ExtensionRelationId, ExtensionNameIndexId, &key, 1,
						   Anum_pg_extension_extversion);
	return version == NULL ? NULL : text_to_cstring(version);
}

/* Adds one row to the result; advice may be NULL. */
static void
PutComponent(ReturnSetInfo *rsinfo, const char *component, const char *state, const char *advice)
{
	Datum		values[3];
	bool		nulls[3] = {false, false, advice == NULL};

	values[0] = CStringGetTextDatum(component);
	values[1] = CStringGetTextDatum(state);
	values[2] = advice != NULL ? CStringGetTextDatum(advice) : (Datum) 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The versions of the library, of the SQL script and of PostgreSQL. */
static void
PutVersions(ReturnSetInfo *rsinfo)
{
	const char *script = ExtensionVersion("fasted");

	PutComponent(rsinfo, "fasted",
				 psprintf("library %s, SQL script %s", FASTED_VERSION, script != NULL ? script : "none"),
				 script != NULL && strcmp(script, FASTED_VERSION) == 0 ? NULL :
				 "Run this statement in a new session: ALTER EXTENSION fasted UPDATE");
	PutComponent(rsinfo, "PostgreSQL", GetConfigOption("server_version", false, false), NULL);
}

/*
 * Whether the server's shared memory is in huge pages, if it is larger than 4 GB: reading vectors from
 * smaller pages takes up to twice as long.  Before version 17, PostgreSQL does not report the outcome
 * of huge_pages = try.
 */
static void
PutHugePages(ReturnSetInfo *rsinfo)
{
	double		gigabytes = (double) NBuffers * BLCKSZ / (1024.0 * 1024 * 1024);
	const char *setting = GetConfigOption("huge_pages", false, false);
	const char *status = GetConfigOption("huge_pages_status", true, false);

	if (gigabytes <= 4)
		return;
	if (status == NULL)
		status = strcmp(setting, "try") == 0 ? "unknown" : setting;
	PutComponent(rsinfo, "huge pages", psprintf("%s (huge_pages = %s, shared_buffers %.1f GB)", status, setting, gigabytes),
				 strcmp(status, "on") == 0 ? NULL :
				 strcmp(status, "off") == 0 ? "Reserve huge pages: tables are then read faster." :
				 "Set huge_pages = on, so that the server does not start without them.");
}

/* The engine that fasted.engine selects, the CPU engine, and all GPUs. */
static void
PutEngines(ReturnSetInfo *rsinfo)
{
	const char *setting = GetConfigOption("fasted.engine", false, false);
	const char *problem = CudaProblem();
	const CpuKernel *kernel = fasted_cpu_choose_kernel(RequestedCpuKernel());
	int			processors = fasted_processors();
	int			threads = fasted_setting_threads > 0 ? fasted_setting_threads : processors;
	const char *engine = "cpu";
	char		text[256];
	int			gpus = 0;

	if (fasted_setting_engine == ENGINE_CUDA)
		engine = problem == NULL ? "cuda" : "none";
	else if (fasted_setting_engine == ENGINE_AUTO && problem == NULL)
		engine = "cuda for large joins, cpu for the others";
	PutComponent(rsinfo, "engine", psprintf("%s (fasted.engine = %s)", engine, setting),
				 strcmp(engine, "none") == 0 ? "SET fasted.engine = auto" : NULL);

	if (kernel != NULL)
		PutComponent(rsinfo, "CPU", psprintf("kernel %s, threads %d, available processors %d",
											 kernel->name, threads, processors), NULL);
	else
		PutComponent(rsinfo, "CPU", psprintf("cannot run the kernel %s", RequestedCpuKernel()),
					 "RESET fasted.cpu_kernel");

	for (; DescribeGpu(gpus, text, sizeof(text)); gpus++)
		PutComponent(rsinfo, psprintf("GPU %d", gpus), text, NULL);
	if (problem != NULL)
		PutComponent(rsinfo, "GPU", psprintf("none is used: %s", problem),
					 gpus > 0 && !fasted_any_device(fasted_setting_gpu_devices) ?
					 "Check fasted.gpu_devices." : NULL);
}

/* Whether sessions preload the library, and what that means for joins by pgvector's operators. */
static void
PutPreloading(ReturnSetInfo *rsinfo)
{
	const char *setting = PreloadSetting();
	const char *future = setting == NULL ? NewSessionPreloadSetting() : NULL;
	const char *vector = ExtensionVersion("vector");
	const char *advice = NULL;

	if (setting != NULL)
		PutComponent(rsinfo, "preloading", psprintf("by %s", setting), NULL);
	else if (future != NULL)
		PutComponent(rsinfo, "preloading", psprintf("by %s, in new sessions", future),
					 "Reconnect: sessions that began before the setting was changed do not preload the library.");
	else
	{
		PutComponent(rsinfo, "preloading", "none: sessions load the library at the first use of a function",
					 PreloadAdvice());
		advice = "Preload the library: without it, joins by pgvector's operators are nested loops.";
	}
	PutComponent(rsinfo, "pgvector", vector != NULL ? vector : "not installed", vector != NULL ? advice : NULL);
}

static void
PutCitus(ReturnSetInfo *rsinfo)
{
	const char *citus = ExtensionVersion("citus");
	const char *divider = ExtensionVersion("fasted_citus");

	PutComponent(rsinfo, "Citus", citus == NULL ? "not installed" : divider == NULL ? citus :
				 psprintf("%s, fasted_citus %s", citus, divider),
				 citus == NULL || divider != NULL ? NULL :
				 "Use \"CREATE EXTENSION fasted_citus\" on the coordinator to divide joins over the workers.");
}

static void
PutIndexes(ReturnSetInfo *rsinfo)
{
	char	   *advice;
	const char *state = DescribeIndexes(&advice);

	if (state != NULL)
		PutComponent(rsinfo, "exact indexes", state, advice);
}

/*
 * fasted_info() returns a row for each component that matters for a support question: its name,
 * its state, and advice, which is NULL if there is nothing to do.  A component that does not
 * work is reported as its state, not as an error.
 */
Datum
fasted_info(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	PutVersions(rsinfo);
	PutPreloading(rsinfo);
	PutEngines(rsinfo);
	PutHugePages(rsinfo);
	PutCitus(rsinfo);
	PutIndexes(rsinfo);
	return (Datum) 0;
}
