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
#include "catalog/pg_authid_d.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "distribute/base_table.h"
#include "distribute/workers.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "read/fingerprint.h"
#include "session/guc.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

/* Primary nodes that keep shards, and that can plan queries over all of them. */
#define NODES_QUERY \
	"SELECT n.nodename, n.nodeport, coalesce(p.poolinfo, ''), coalesce((" \
	"SELECT a.authinfo FROM pg_catalog.pg_dist_authinfo a" \
	" WHERE a.rolename OPERATOR(pg_catalog.=) $1 AND (a.nodeid OPERATOR(pg_catalog.=) n.nodeid OR a.nodeid OPERATOR(pg_catalog.=) 0)" \
	" ORDER BY a.nodeid OPERATOR(pg_catalog.=) 0 LIMIT 1), '')" \
	" FROM pg_catalog.pg_dist_node n LEFT JOIN pg_catalog.pg_dist_poolinfo p ON p.nodeid OPERATOR(pg_catalog.=) n.nodeid" \
	" WHERE n.isactive AND n.shouldhaveshards AND n.hasmetadata AND n.metadatasynced" \
	" AND n.noderole OPERATOR(pg_catalog.=) 'primary'" \
	" AND n.nodecluster OPERATOR(pg_catalog.=) pg_catalog.current_setting('citus.cluster_name')::pg_catalog.name" \
	" ORDER BY n.nodeid"

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
ListNodes(void)
{
	MemoryContext context = CurrentMemoryContext;
	Datum		user = CStringGetTextDatum(GetUserNameFromId(GetUserId(), false));
	uint64		count = AskCatalog(NODES_QUERY, TEXTOID, user);
	List	   *nodes = NIL;

	for (uint64 row = 0; row < count; row++)
	{
		WorkerNode *node = MemoryContextAllocZero(context, sizeof(WorkerNode));
		MemoryContext old;

		node->host = Column(context, row, 1);
		node->port = pg_strtoint32(Column(context, row, 2));
		node->pool = Column(context, row, 3);
		node->auth = Column(context, row, 4);
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
	nodes = ListNodes();
	if (list_length(nodes) >= 2)
		return nodes;
	*reason = "there are not two nodes that have shards and the metadata";
	return NIL;
}

char *
QualifiedName(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}
