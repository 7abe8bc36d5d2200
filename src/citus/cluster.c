/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  The Citus cluster that this server is a node of: its catalog, its tables, its nodes, and
 *	  the library that connects to them.
 *
 * Citus is known by its catalog alone, which is read by SQL: nothing is linked against it, and
 * where it is not installed nothing is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "base/guc.h"
#include "base/interrupts.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "citus/cluster.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "rows/reader.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"

/* Primary nodes. */
#define NODES_QUERY(condition) \
	"SELECT n.nodename, n.nodeport, coalesce(p.poolinfo, ''), coalesce((" \
	"SELECT a.authinfo FROM pg_catalog.pg_dist_authinfo a" \
	" WHERE a.rolename OPERATOR(pg_catalog.=) $1 AND (a.nodeid OPERATOR(pg_catalog.=) n.nodeid OR a.nodeid OPERATOR(pg_catalog.=) 0)" \
	" ORDER BY a.nodeid OPERATOR(pg_catalog.=) 0 LIMIT 1), ''), n.groupid" \
	" FROM pg_catalog.pg_dist_node n LEFT JOIN pg_catalog.pg_dist_poolinfo p ON p.nodeid OPERATOR(pg_catalog.=) n.nodeid" \
	" WHERE n.isactive" condition \
	" AND n.noderole OPERATOR(pg_catalog.=) 'primary'" \
	" AND n.nodecluster OPERATOR(pg_catalog.=) pg_catalog.current_setting('citus.cluster_name')::pg_catalog.name" \
	" ORDER BY n.nodeid"

/* Of these, who keep shards, and can plan queries over all of them. */
#define ABLE " AND n.shouldhaveshards AND n.hasmetadata AND n.metadatasynced"

/*
 * Shards with the group of their first healthy placement, or NULL.  Not of tables without a
 * distribution column, which are as a whole on one node, or on all.
 */
#define SHARDS_QUERY \
	"SELECT (SELECT p.groupid FROM pg_catalog.pg_dist_placement p" \
	" WHERE p.shardid OPERATOR(pg_catalog.=) s.shardid AND p.shardstate OPERATOR(pg_catalog.=) 1" \
	" ORDER BY p.placementid LIMIT 1), pg_catalog.shard_name(s.logicalrelid, s.shardid)" \
	" FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_partition t" \
	" ON t.logicalrelid OPERATOR(pg_catalog.=) s.logicalrelid" \
	" WHERE s.logicalrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass" \
	" AND t.partmethod OPERATOR(pg_catalog.<>) 'n' ORDER BY s.shardid"

#define TABLE_QUERY \
	"SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"

/* A view that the other nodes have too. */
#define VIEW_QUERY \
	"SELECT 1 FROM pg_catalog.pg_dist_object" \
	" WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass AND objid OPERATOR(pg_catalog.=) $1"

/*
 * What this session has set holds for its slices, too; what this server's files say of this
 * server does not.  Values have the units that pg_settings has.
 */
#define SETTINGS_QUERY \
	"SELECT name, setting FROM pg_catalog.pg_settings" \
	" WHERE (name OPERATOR(pg_catalog.~) '^fasted[.]' OR name OPERATOR(pg_catalog.=) 'work_mem')" \
	" AND context OPERATOR(pg_catalog.=) 'user' AND source OPERATOR(pg_catalog.<>) ALL ('{default,configuration file,command line}'::pg_catalog.text[])" \
	" ORDER BY name"

/* --- the catalog */

/*
 * Runs a query of the catalog as the superuser that owns it, since ordinary users may not read
 * all of it.  Returns the number of rows.  SPI stays connected until SPI_finish, but the memory
 * context is the caller's.
 */
static uint64
AskCatalog(const char *query, Oid type, Datum argument)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			user;
	int			context;
	int			result;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	result = SPI_execute_with_args(query, 1, &type, &argument, NULL, true, 0);
	SetUserIdAndSecContext(user, context);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "the catalog of Citus can't be read: %s", SPI_result_code_string(result));
	MemoryContextSwitchTo(caller);
	return SPI_processed;
}

/* Column n of a row of the last query's result. */
static char *
Column(uint64 row, int n)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, n);
}

static bool
IsInCatalog(const char *query, Oid relid)
{
	bool		found = AskCatalog(query, OIDOID, ObjectIdGetDatum(relid)) > 0;

	SPI_finish();
	return found;
}

static List *
ListNodes(const char *query)
{
	Datum		user = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	uint64		count = AskCatalog(query, TEXTOID, user);
	List	   *nodes = NIL;

	for (uint64 row = 0; row < count; row++)
	{
		WorkerNode *node = palloc0(sizeof(WorkerNode));

		node->host = Column(row, 1);
		node->port = pg_strtoint32(Column(row, 2));
		node->pool = Column(row, 3);
		node->auth = Column(row, 4);
		node->group = pg_strtoint32(Column(row, 5));
		nodes = lappend(nodes, node);
	}
	SPI_finish();
	return nodes;
}

/* Is Citus in this database, and loaded? */
static bool
CitusIsHere(void)
{
	return OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE)) &&
		OidIsValid(get_relname_relid("pg_dist_node", PG_CATALOG_NAMESPACE)) &&
		GetConfigOption("citus.cluster_name", true, false) != NULL;
}

static bool
ReadsSecondaries(void)
{
	const char *use = GetConfigOption("citus.use_secondary_nodes", true, false);

	return use != NULL && strcmp(use, "never") != 0;
}

/* --- tables */

/*
 * The relation that a simple view selects from, as any server would: PostgreSQL could update it.
 * InvalidOid: the view does more than to choose columns and rows, or its result depends on more
 * than its rows.  The result of row_number() OVER () or LIMIT may differ between servers.
 */
static Oid
SelectedRelation(Relation view)
{
	Query	   *query = get_view_query(view);
	RangeTblRef *from;

	if (view_query_is_auto_updatable(query, false) != NULL ||
		contain_mutable_functions((Node *) query))
		return InvalidOid;
	from = linitial_node(RangeTblRef, query->jointree->fromlist);
	return rt_fetch(from->rtindex, query->rtable)->relid;
}

Oid
BaseTable(Oid relid)
{
	while (get_rel_relkind(relid) == RELKIND_VIEW)
	{
		Relation	view = try_relation_open(relid, AccessShareLock);

		CHECK_FOR_INTERRUPTS();
		if (view == NULL)
			return InvalidOid;
		relid = SelectedRelation(view);
		relation_close(view, NoLock);
	}
	return relid;
}

/*
 * Has this transaction written to the table, or may it be about to?  Then it holds a
 * lock; and workers, in transactions of their own, don't see what it wrote.
 */
static bool
IsWrittenTo(Oid relid)
{
	ListCell   *cell;
	bool		written = false;

	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = try_relation_open(lfirst_oid(cell), NoLock);

		if (rel == NULL)
			continue;
		written = written || CheckRelationLockedByMe(rel, RowExclusiveLock, true);
		relation_close(rel, NoLock);
	}
	return written;
}

/* A view reads as its owner, or as whoever asks: there it is enough that there is any. */
static bool
HasRowSecurity(Oid relid, Oid base)
{
	Relation	rel;
	bool		has;

	if (relid == base)
		return check_enable_rls(base, InvalidOid, true) == RLS_ENABLED;
	rel = relation_open(base, AccessShareLock);
	has = rel->rd_rel->relrowsecurity;
	relation_close(rel, NoLock);
	return has;
}

/* Why not; NULL: it can be. */
static const char *
Obstacle(const VectorSource *source)
{
	Oid			base = BaseTable(source->relid);

	if (source->key_column == NULL || source->group_column != NULL)
		return "rows come in an order of their own";
	if (!OidIsValid(base) || !IsInCatalog(TABLE_QUERY, base))
		return "it is no table of Citus, nor a simple view of one";
	if (base != source->relid && !IsInCatalog(VIEW_QUERY, source->relid))
		return "the view is not on all nodes";
	if (HasRowSecurity(source->relid, base))
		return "row security is in force";
	if (IsWrittenTo(base))
		return "this transaction writes to it";
	if (ReadsSecondaries())
		return "Citus reads from secondary nodes";
	if (!OidIsValid(VectorHashFunction(source->form)))
		return "the extension has not been updated";
	return NULL;
}

List *
FindWorkers(const VectorSource *source, const char **reason)
{
	List	   *nodes;

	*reason = NULL;
	if (fasted_setting_distribute == CHOICE_OFF || !CitusIsHere())
		return NIL;
	*reason = Obstacle(source);
	if (*reason != NULL)
		return NIL;
	nodes = ListNodes(NODES_QUERY(ABLE));
	if (list_length(nodes) >= 2)
		return nodes;
	*reason = "there are not two nodes that have shards and the metadata";
	return NIL;
}

/* --- shards */

/* Assigns shards to nodes; returns false if one of them is on none, or there are none. */
static bool
AssignShards(List *nodes, Oid relid)
{
	/* Citus names shards in schema public without it */
	bool		public = strcmp(get_namespace_name(get_rel_namespace(relid)), "public") == 0;
	uint64		count = AskCatalog(SHARDS_QUERY, OIDOID, ObjectIdGetDatum(relid));
	uint64		row;

	for (row = 0; row < count; row++)
	{
		const char *group = Column(row, 1);
		const char *name = Column(row, 2);
		WorkerNode *holder = NULL;
		ListCell   *cell;

		foreach(cell, nodes)
			if (group != NULL && ((WorkerNode *) lfirst(cell))->group == pg_strtoint32(group))
				holder = lfirst(cell);
		if (holder == NULL || name == NULL)
			break;
		holder->shards = lappend(holder->shards, psprintf("%s%s", public ? "public." : "", name));
	}
	SPI_finish();
	return count > 0 && row == count;
}

List *
FindShards(Oid relid)
{
	List	   *nodes;
	List	   *holders = NIL;
	ListCell   *cell;

	if (!CitusIsHere() || ReadsSecondaries())
		return NIL;
	nodes = ListNodes(NODES_QUERY(""));
	if (!AssignShards(nodes, relid))
		return NIL;
	foreach(cell, nodes)
		if (((WorkerNode *) lfirst(cell))->shards != NIL)
			holders = lappend(holders, lfirst(cell));
	return holders;
}

/* --- connections */

char *
SlicePrologue(void)
{
	StringInfoData commands;

	initStringInfo(&commands);
	appendStringInfoString(&commands, "BEGIN");
	SPI_connect();
	if (SPI_execute(SETTINGS_QUERY, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "settings can't be read");
	for (uint64 row = 0; row < SPI_processed; row++)
		appendStringInfo(&commands, "; SET LOCAL %s = %s", Column(row, 1),
						 quote_literal_cstr(Column(row, 2)));
	SPI_finish();
	/* while rows are read; a join checks by itself */
	if (WaitEventSetCanReportClosed())
		appendStringInfoString(&commands, "; SET LOCAL client_connection_check_interval = '100ms'");
	return commands.data;
}

const LinkFunctions *
Links(void)
{
	static const LinkFunctions *links = NULL;

	if (links == NULL)
	{
		LinksEntry	entry = (LinksEntry) load_external_function("$libdir/fasted_libpq",
																"fasted_link_functions", true, NULL);
		const LinkFunctions *loaded = entry(CheckJoinInterrupts);

		if (loaded->abi != LINKS_ABI)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("library \"fasted_libpq\" is of another version of the extension"),
					 errhint("Start a new session, or use \"SET fasted.distribute = off\".")));
		links = loaded;
	}
	return links;
}

/* --- EXPLAIN */

void
RefuseCitusExplain(const EState *estate, int eflags, Oid relid)
{
	ListCell   *cell;

	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 ||
		(estate->es_instrument & (INSTRUMENT_TIMER | INSTRUMENT_ROWS)) == 0 ||
		!OidIsValid(relid) || !CitusIsHere())
		return;
	foreach(cell, FindSourceRelations(relid))
		if (IsInCatalog(TABLE_QUERY, lfirst_oid(cell)))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("EXPLAIN (ANALYZE) can't show this call, which Citus runs as a subplan"),
					 errhint("Use \"SET fasted.scan_node = off\" before it, or EXPLAIN the call alone.")));
}
