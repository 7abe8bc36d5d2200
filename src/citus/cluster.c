/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  The Citus cluster that this server is a node of: its catalog, its tables, its nodes, the
 *	  library that connects to them, and reading a table where its shards are.
 *
 * Citus is known by its catalog alone, which is read by SQL: nothing is linked against it, and
 * where it is not installed nothing is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "base/guc.h"
#include "base/interrupts.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "citus/cluster.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "lib/binaryheap.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"

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

/*
 * The nodes that have shards of a table, with the names of these shards.  NIL: the table is not
 * one of Citus's whose rows are divided over shards, or a shard is nowhere.
 */
static List *
FindShards(Oid relid)
{
	/* Citus names shards in schema public without it */
	bool		public = strcmp(get_namespace_name(get_rel_namespace(relid)), "public") == 0;
	List	   *nodes;
	List	   *holders = NIL;
	uint64		count;

	if (!CitusIsHere() || ReadsSecondaries())
		return NIL;
	nodes = ListNodes(NODES_QUERY(""));
	count = AskCatalog(SHARDS_QUERY, OIDOID, ObjectIdGetDatum(relid));
	for (uint64 row = 0; row < count; row++)
	{
		const char *group = Column(row, 1);
		const char *name = Column(row, 2);
		WorkerNode *holder = NULL;
		ListCell   *cell;

		foreach(cell, nodes)
			if (group != NULL && ((WorkerNode *) lfirst(cell))->group == pg_strtoint32(group))
				holder = lfirst(cell);
		if (holder == NULL || name == NULL)
		{
			holders = NIL;
			break;
		}
		holder->shards = lappend(holder->shards, psprintf("%s%s", public ? "public." : "", name));
		holders = list_append_unique_ptr(holders, holder);
	}
	SPI_finish();
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

/* --- reading shards */

/*
 * A table of Citus's is read by one COPY in binary form from each node, and a heap of their next
 * rows.  Through Citus all rows are stored in one session, and then stored once more to be sorted.
 * Here each node sorts the rows that it has, and reads their vectors after that.  They come as
 * streams in the order of keys, one from each node, and are merged as they come.
 */

/* What a binary COPY begins with: a signature of 11 bytes, flags, and a length that is zero. */
#define COPY_HEADER_BYTES 19

/* The next row of a node. */
typedef struct ShardStream
{
	bool		begun;			/* its header has come */
	MemoryContext key_context;
	Datum		key;
	bool		key_isnull;
	StringInfoData vector;		/* a bytea */
} ShardStream;

typedef struct ShardReader
{
	LinkSet    *links;
	FmgrInfo	receive;		/* a key */
	Oid			receive_param;
	StringInfoData key_text;
	SortSupportData order;
	binaryheap *heap;			/* of streams that have a row, by their numbers */
	ShardStream streams[FLEXIBLE_ARRAY_MEMBER];
} ShardReader;

/* Can values be sent in binary form?  Of composite types it depends on each column's. */
static bool
HasBinaryForm(Oid type)
{
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(base));
	Form_pg_type form;
	bool		has;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", base);
	form = (Form_pg_type) GETSTRUCT(tuple);
	has = OidIsValid(form->typsend) && OidIsValid(form->typreceive) &&
		(form->typtype == TYPTYPE_BASE || form->typtype == TYPTYPE_ENUM);
	ReleaseSysCache(tuple);
	return has && (!OidIsValid(element) || HasBinaryForm(element));
}

/* Without a length: as "character" and "bit" a value would be cut to one. */
static char *
NameOfType(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

static char *
ShardQuery(const VectorSource *source, List *shards)
{
	StringInfoData query;
	const char *key = quote_identifier(source->key_column);
	const char *vector = quote_identifier(source->vector_column);
	char	   *key_type = NameOfType(source->key_type);
	Oid			column_type = get_atttype(source->relid, get_attnum(source->relid, source->key_column));
	bool		by_column = CastKeepsOrder(column_type, source->key_type);
	ListCell   *cell;

	initStringInfo(&query);
	/*
	 * Vectors are detoasted behind the sort, not before it; or indexes have the order, which
	 * are seen through UNION ALL if its parts have no conditions.  Rows without a vector come
	 * too: which these are, only the cast knows.
	 */
	appendStringInfo(&query, "COPY (SELECT k::%s, fasted_citus.vector_bytes(v::%s) FROM (SELECT k, v FROM (",
					 key_type, NameOfType(VectorFormType(source->form)));
	foreach(cell, shards)
		appendStringInfo(&query, "%sSELECT %s%s%s AS k, %s AS v FROM %s",
						 cell == list_head(shards) ? "" : " UNION ALL ", key,
						 by_column ? "" : "::", by_column ? "" : key_type, vector,
						 (char *) lfirst(cell));
	appendStringInfoString(&query, ") s ORDER BY k OFFSET 0) x) TO STDOUT (FORMAT binary)");
	return query.data;
}

/* The bytes of a field, in the data; or NULL. */
static const char *
TakeField(StringInfo data, int *length)
{
	*length = (int) pq_getmsgint(data, 4);
	return *length == -1 ? NULL : pq_getmsgbytes(data, *length);
}

static void
TakeKey(ShardReader *reader, ShardStream *stream, const char *bytes, int length)
{
	MemoryContext old;

	stream->key_isnull = bytes == NULL;
	if (bytes == NULL)
		return;
	resetStringInfo(&reader->key_text);
	appendBinaryStringInfo(&reader->key_text, bytes, length);
	MemoryContextReset(stream->key_context);
	old = MemoryContextSwitchTo(stream->key_context);
	stream->key = ReceiveFunctionCall(&reader->receive, &reader->key_text, reader->receive_param, -1);
	MemoryContextSwitchTo(old);
}

/* False: this node has no more. */
static bool
NextRow(ShardReader *reader, int n)
{
	ShardStream *stream = &reader->streams[n];
	StringInfoData data = {0};
	const char *bytes;
	int			length;
	int			fields;

	while (Links()->take(reader->links, n, &data.data, &data.len))
	{
		data.cursor = stream->begun ? 0 : COPY_HEADER_BYTES;
		stream->begun = true;
		if (data.cursor == data.len)
			continue;
		fields = (int16) pq_getmsgint(&data, 2);
		if (fields == -1)
			continue;			/* the trailer */
		if (fields != 2)
			ereport(ERROR,
					(errcode(ERRCODE_PROTOCOL_VIOLATION),
					 errmsg("unexpected COPY data from Citus node %s", Links()->name(reader->links, n))));
		bytes = TakeField(&data, &length);
		TakeKey(reader, stream, bytes, length);
		bytes = TakeField(&data, &length);
		if (bytes == NULL)
			continue;			/* takes no part */
		stream->vector.len = VARHDRSZ;
		appendBinaryStringInfo(&stream->vector, bytes, length);
		SET_VARSIZE(stream->vector.data, stream->vector.len);
		return true;
	}
	return false;
}

/* The heap has the largest on top. */
static int
CompareStreams(Datum a, Datum b, void *arg)
{
	ShardReader *reader = arg;
	const ShardStream *x = &reader->streams[DatumGetInt32(a)];
	const ShardStream *y = &reader->streams[DatumGetInt32(b)];

	return -ApplySortComparator(x->key, x->key_isnull, y->key, y->key_isnull, &reader->order);
}

static ShardReader *
CreateReader(const VectorSource *source, List *nodes)
{
	int			count = list_length(nodes);
	ShardReader *reader = palloc0(offsetof(ShardReader, streams) + count * sizeof(ShardStream));
	Oid			receive;

	getTypeBinaryInputInfo(source->key_type, &receive, &reader->receive_param);
	fmgr_info(receive, &reader->receive);
	initStringInfo(&reader->key_text);
	/* as KeySet has it */
	PrepareTypeOrder(source->key_type, source->key_collation, CurrentMemoryContext, &reader->order);
	reader->heap = binaryheap_allocate(count, CompareStreams, reader);
	for (int n = 0; n < count; n++)
	{
		ShardStream *stream = &reader->streams[n];

		stream->key_context = AllocSetContextCreate(CurrentMemoryContext, "fasted shard key",
													ALLOCSET_SMALL_SIZES);
		initStringInfo(&stream->vector);
	}
	reader->links = Links()->open(nodes);
	return reader;
}

/* Takes the first row of all streams until there are no more, or no more are wanted. */
static void
Merge(ShardReader *reader, RowTaker *taker)
{
	while (!binaryheap_empty(reader->heap))
	{
		int			n = DatumGetInt32(binaryheap_first(reader->heap));
		ShardStream *stream = &reader->streams[n];

		if (!TakeSourceRow(taker, stream->key, stream->key_isnull,
						   PointerGetDatum(stream->vector.data), true))
			return;
		if (NextRow(reader, n))
			binaryheap_replace_first(reader->heap, Int32GetDatum(n));
		else
			(void) binaryheap_remove_first(reader->heap);
	}
}

bool
ReadShards(const VectorSource *source, RowTaker *taker)
{
	char		relkind = get_rel_relkind(source->relid);
	List	   *nodes = NIL;
	ShardReader *reader;
	Query	   *query;
	int			n = 0;
	ListCell   *cell;

	/* shards of a partitioned table have partitions of their own */
	if (OidIsValid(VectorBytesFunction(source->form)) && HasBinaryForm(source->key_type) &&
		(relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE) &&
		check_enable_rls(source->relid, InvalidOid, true) == RLS_NONE)
		nodes = FindShards(source->relid);
	if (nodes == NIL)
		return false;
	/* the privileges that a query of the table takes; shards have the same */
	query = MakeSourceQuery(source, VALUE_VECTOR);
#if PG_VERSION_NUM >= 160000
	ExecCheckPermissions(query->rtable, query->rteperminfos, true);
#else
	ExecCheckRTPerms(query->rtable, true);
#endif
	reader = CreateReader(source, nodes);
	/* all nodes begin to sort before the first row is waited for */
	Links()->command(reader->links, SlicePrologue());
	foreach(cell, nodes)
		Links()->send(reader->links, n++, ShardQuery(source, ((WorkerNode *) lfirst(cell))->shards));
	for (n = 0; n < list_length(nodes); n++)
		if (NextRow(reader, n))
			binaryheap_add_unordered(reader->heap, Int32GetDatum(n));
	binaryheap_build(reader->heap);
	Merge(reader, taker);
	Links()->close(reader->links);
	return true;
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
