/*-------------------------------------------------------------------------
 *
 * workers.c
 *	  Asks Citus's catalog.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "base/guc.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "citus/base_table.h"
#include "citus/workers.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "rows/vector.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
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

/* --- the catalog */

/*
 * Runs a query of the catalog, part of which ordinary users may not read, as the
 * superuser that owns it.  SPI is connected until SPI_finish.
 */
static uint64
AskCatalog(const char *query, Oid type, Datum argument)
{
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
	return SPI_processed;
}

static bool
IsInCatalog(const char *query, Oid relid)
{
	bool		found = AskCatalog(query, OIDOID, ObjectIdGetDatum(relid)) > 0;

	SPI_finish();
	return found;
}

bool
IsCitusTable(Oid relid)
{
	return IsInCatalog(TABLE_QUERY, relid);
}

/* Column n of a row of the last query, in this memory context. */
static char *
Column(MemoryContext context, uint64 row, int n)
{
	return MemoryContextStrdup(context, SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, n));
}

static List *
ListNodes(const char *query)
{
	MemoryContext context = CurrentMemoryContext;
	Datum		user = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	uint64		count = AskCatalog(query, TEXTOID, user);
	List	   *nodes = NIL;

	for (uint64 row = 0; row < count; row++)
	{
		WorkerNode *node = MemoryContextAllocZero(context, sizeof(WorkerNode));
		MemoryContext old;

		node->host = Column(context, row, 1);
		node->port = pg_strtoint32(Column(context, row, 2));
		node->pool = Column(context, row, 3);
		node->auth = Column(context, row, 4);
		node->group = pg_strtoint32(Column(context, row, 5));
		old = MemoryContextSwitchTo(context);
		nodes = lappend(nodes, node);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return nodes;
}

/* --- the table */

bool
CitusIsHere(void)
{
	return OidIsValid(get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE)) &&
		OidIsValid(get_relname_relid("pg_dist_node", PG_CATALOG_NAMESPACE)) &&
		GetConfigOption("citus.cluster_name", true, false) != NULL;
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

static bool
ReadsSecondaries(void)
{
	const char *use = GetConfigOption("citus.use_secondary_nodes", true, false);

	return use != NULL && strcmp(use, "never") != 0;
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
	if (!OidIsValid(base) || !IsCitusTable(base))
		return "it is no table of Citus, nor a simple view of one";
	if (base != source->relid && !IsInCatalog(VIEW_QUERY, source->relid))
		return "the view is not on all nodes";
	if (HasRowSecurity(source->relid, base))
		return "row security is in force";
	if (IsWrittenTo(base))
		return "this transaction writes to it";
	if (ReadsSecondaries())
		return "Citus reads from secondary nodes";
	if (!OidIsValid(VectorHashFunction(VectorFormType(source->form))))
		return "the extension has not been updated";
	return NULL;
}

List *
FindWorkers(const VectorSource *source, const char **reason)
{
	List	   *nodes;

	*reason = NULL;
	if (fasted_setting_distribute == DISTRIBUTE_OFF || !CitusIsHere())
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

static ShardNode *
FindGroup(List *nodes, const char *group)
{
	ListCell   *cell;

	foreach(cell, nodes)
	{
		ShardNode  *node = lfirst(cell);

		if (group != NULL && node->node.group == pg_strtoint32(group))
			return node;
	}
	return NULL;
}

/* Citus names those in schema public without it. */
static const char *
ShardSchema(Oid relid)
{
	return strcmp(get_namespace_name(get_rel_namespace(relid)), "public") == 0 ? "public." : "";
}

/* To the nodes; false: one has no place. */
static bool
AddShards(List *nodes, Oid relid)
{
	MemoryContext context = CurrentMemoryContext;
	const char *schema = ShardSchema(relid);
	uint64		count = AskCatalog(SHARDS_QUERY, OIDOID, ObjectIdGetDatum(relid));
	bool		all = count > 0;

	for (uint64 row = 0; row < count && all; row++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[row];
		ShardNode  *node = FindGroup(nodes, SPI_getvalue(tuple, SPI_tuptable->tupdesc, 1));
		char	   *name = SPI_getvalue(tuple, SPI_tuptable->tupdesc, 2);
		MemoryContext old;

		all = node != NULL && name != NULL;
		if (!all)
			break;
		old = MemoryContextSwitchTo(context);
		node->shards = lappend(node->shards, psprintf("%s%s", schema, name));
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return all;
}

List *
FindShards(Oid relid)
{
	List	   *all = NIL;
	List	   *nodes = NIL;
	ListCell   *cell;

	if (!CitusIsHere() || ReadsSecondaries())
		return NIL;
	foreach(cell, ListNodes(NODES_QUERY("")))
	{
		ShardNode  *node = palloc0(sizeof(ShardNode));

		node->node = *(WorkerNode *) lfirst(cell);
		all = lappend(all, node);
	}
	if (!AddShards(all, relid))
		return NIL;
	foreach(cell, all)
		if (((ShardNode *) lfirst(cell))->shards != NIL)
			nodes = lappend(nodes, lfirst(cell));
	return nodes;
}

char *
QualifiedName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}
