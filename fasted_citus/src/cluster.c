/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  The Citus cluster that this server belongs to: its catalog, tables and nodes, the library
 *	  that connects to them, and reading a distributed table from its shards.
 *
 * This file uses Citus only through its catalog tables, which it reads with SQL.  It does not link
 * against Citus, and reads nothing if Citus is not installed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/transam.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fasted_citus.h"
#include "lib/binaryheap.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/syscache.h"

/*
 * Parameters of all queries of the catalog: $1, the OID of an object, or 0; $2, the name of the current
 * user; $3, SQL text for SHARDS_QUERY.
 */

/* Columns of a WorkerNode, of pg_dist_node n. */
#define NODE_COLUMNS \
	"n.nodename, n.nodeport," \
	" coalesce((SELECT p.poolinfo FROM pg_catalog.pg_dist_poolinfo p WHERE p.nodeid OPERATOR(pg_catalog.=) n.nodeid), '')," \
	" coalesce((SELECT a.authinfo FROM pg_catalog.pg_dist_authinfo a" \
	" WHERE a.rolename OPERATOR(pg_catalog.=) $2 AND (a.nodeid OPERATOR(pg_catalog.=) n.nodeid OR a.nodeid OPERATOR(pg_catalog.=) 0)" \
	" ORDER BY a.nodeid OPERATOR(pg_catalog.=) 0 LIMIT 1), '')"

#define IS_PRIMARY \
	"n.isactive AND n.noderole OPERATOR(pg_catalog.=) 'primary'" \
	" AND n.nodecluster OPERATOR(pg_catalog.=) pg_catalog.current_setting('citus.cluster_name')::pg_catalog.name"

/* Nodes that have shards and the metadata to plan distributed queries. */
#define WORKERS_QUERY \
	"SELECT " NODE_COLUMNS ", NULL FROM pg_catalog.pg_dist_node n" \
	" WHERE " IS_PRIMARY " AND n.shouldhaveshards AND n.hasmetadata AND n.metadatasynced ORDER BY n.nodeid"

/*
 * Nodes that have shards of a table, and a query of these shards: $3 and the name of a shard, for each
 * of them.  A shard belongs to the group of its first active placement.  The node is null if there is
 * none.  Returns no rows for tables without a distribution column, which are stored as a whole on one
 * node or on all.
 */
#define SHARDS_QUERY \
	"SELECT " NODE_COLUMNS ", g.query FROM (" \
	"SELECT x.groupid, pg_catalog.string_agg(pg_catalog.format('%s%s', $3, x.shard), ' UNION ALL ') AS query FROM (" \
	"SELECT (SELECT p.groupid FROM pg_catalog.pg_dist_placement p" \
	" WHERE p.shardid OPERATOR(pg_catalog.=) s.shardid AND p.shardstate OPERATOR(pg_catalog.=) 1" \
	" ORDER BY p.placementid LIMIT 1) AS groupid, pg_catalog.shard_name(s.logicalrelid, s.shardid) AS shard" \
	" FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_partition t" \
	" ON t.logicalrelid OPERATOR(pg_catalog.=) s.logicalrelid" \
	" WHERE s.logicalrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass" \
	" AND t.partmethod OPERATOR(pg_catalog.<>) 'n') x GROUP BY x.groupid) g" \
	" LEFT JOIN pg_catalog.pg_dist_node n ON n.groupid OPERATOR(pg_catalog.=) g.groupid AND " IS_PRIMARY

#define TABLE_QUERY \
	"SELECT 1 FROM pg_catalog.pg_dist_partition WHERE logicalrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"

/* Returns a row if Citus has created the object of this catalog on all nodes. */
#define OBJECT_QUERY(catalog) \
	"SELECT 1 FROM pg_catalog.pg_dist_object" \
	" WHERE classid OPERATOR(pg_catalog.=) 'pg_catalog." catalog "'::pg_catalog.regclass AND objid OPERATOR(pg_catalog.=) $1"

/*
 * Commands for those settings of this session that its slices use, too.  Settings in this server's
 * configuration files are left out.  Values are in the units of pg_settings.
 */
#define SETTINGS_QUERY \
	"SELECT coalesce(pg_catalog.string_agg(pg_catalog.format('; SET LOCAL %s = %L', name, setting), ''), '') FROM pg_catalog.pg_settings" \
	" WHERE (name OPERATOR(pg_catalog.~) '^fasted[.]' OR name OPERATOR(pg_catalog.=) 'work_mem')" \
	" AND context OPERATOR(pg_catalog.=) 'user' AND source OPERATOR(pg_catalog.<>) ALL ('{default,configuration file,command line}'::pg_catalog.text[])"

/* --- the catalog */

/*
 * Runs a query on the Citus catalog as superuser, since ordinary users may not read all of it.
 * Returns the number of rows.  SPI remains connected, so the caller must call SPI_finish, but the
 * current memory context remains the caller's.
 */
static uint64
QueryCatalog(const char *query, Oid object, const char *text)
{
	Oid			types[] = {OIDOID, TEXTOID, TEXTOID};
	Datum		arguments[] = {
		ObjectIdGetDatum(object), CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)),
		CStringGetTextDatum(text)
	};
	MemoryContext caller = CurrentMemoryContext;
	Oid			user;
	int			context;
	int			result;

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, context | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	result = SPI_execute_with_args(query, lengthof(types), types, arguments, NULL, true, 0);
	SetUserIdAndSecContext(user, context);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "could not read the Citus catalog: %s", SPI_result_code_string(result));
	MemoryContextSwitchTo(caller);
	return SPI_processed;
}

/* Returns column n, from 1 on, of a row of the last query's result, as text or NULL. */
static char *
ResultColumn(uint64 row, int n)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, n);
}

/* Returns true if the query has a result for this object. */
static bool
IsInCatalog(const char *query, Oid object)
{
	bool		found = QueryCatalog(query, object, "") > 0;

	SPI_finish();
	return found;
}

/*
 * Returns true if Citus has created this extension on all nodes.  Other nodes run its functions by name,
 * as the current user.  On a node without the extension, another user might have created the schema
 * fasted_citus, with functions of these names.
 */
static bool
ExtensionIsEverywhere(void)
{
	return IsInCatalog(OBJECT_QUERY("pg_extension"), get_extension_oid("fasted_citus", false));
}

/* Returns the WorkerNodes that WORKERS_QUERY or SHARDS_QUERY returns; NIL if a shard has no node. */
static List *
ListNodes(const char *query, Oid relid, const char *select)
{
	uint64		count = QueryCatalog(query, relid, select);
	List	   *nodes = NIL;

	for (uint64 row = 0; row < count; row++)
	{
		WorkerNode *node = palloc(sizeof(WorkerNode));

		node->host = ResultColumn(row, 1);
		if (node->host == NULL)
		{
			nodes = NIL;
			break;
		}
		node->port = ResultColumn(row, 2);
		node->pool = ResultColumn(row, 3);
		node->auth = ResultColumn(row, 4);
		node->query = ResultColumn(row, 5);
		nodes = lappend(nodes, node);
	}
	SPI_finish();
	return nodes;
}

static bool
ReadsSecondaries(void)
{
	return strcmp(GetConfigOption("citus.use_secondary_nodes", false, false), "never") != 0;
}

/* --- tables */

/*
 * A view is simple if PostgreSQL could update it and it has no mutable functions, so that all servers
 * get the same rows from it.  The results of row_number() OVER () or LIMIT, for example, may differ
 * between servers.  It is not simple if this transaction has created or changed it: workers would not
 * see that, and would wait for its locks.
 */
Oid
BaseTable(Oid relid)
{
	while (get_rel_relkind(relid) == RELKIND_VIEW)
	{
		Relation	view = relation_open(relid, AccessShareLock);
		Query	   *query = get_view_query(view);

		relid = InvalidOid;
		if (!CheckRelationLockedByMe(view, RowExclusiveLock, true) &&
			view_query_is_auto_updatable(query, false) == NULL && !contain_mutable_functions((Node *) query))
			relid = rt_fetch(linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex,
							 query->rtable)->relid;
		relation_close(view, NoLock);
	}
	return relid;
}

/*
 * Returns true if this transaction may have written to the table, which is the case if it holds a
 * lock for writing.  Workers have their own transactions and would not see these writes.
 */
static bool
IsWrittenTo(Oid relid)
{
	ListCell   *cell;
	bool		written = false;

	foreach(cell, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		Relation	rel = relation_open(lfirst_oid(cell), AccessShareLock);

		written = written || CheckRelationLockedByMe(rel, RowExclusiveLock, true);
		relation_close(rel, NoLock);
	}
	return written;
}

/*
 * Returns true if row security may apply.  A view reads the table as its owner or as the invoker,
 * so for a view this returns true if the table has row security at all.
 */
static bool
HasRowSecurity(Oid relid, Oid base)
{
	Relation	rel = relation_open(base, AccessShareLock);
	bool		has = rel->rd_rel->relrowsecurity;

	relation_close(rel, NoLock);
	return has && (relid != base || check_enable_rls(base, InvalidOid, true) == RLS_ENABLED);
}

/* Returns the reason why a join of this source cannot be divided; NULL if it can. */
static const char *
WhyNotDivided(const VectorSource *source)
{
	Oid			base = BaseTable(source->relid);
	Oid			key = getBaseType(source->key_type);

	if (!ExtensionIsEverywhere())
		return "Citus has not created the extension fasted_citus on all nodes";
	if (source->key_column == NULL || source->partition_column != NULL)
		return "the source has no key column, or has partitions";
	/* such keys contain OIDs of types or of enum labels, which each node assigns by itself */
	if (key >= FirstNormalObjectId && (get_typtype(key) != TYPTYPE_BASE || OidIsValid(get_element_type(key))))
		return "the keys have different bytes on each node";
	if (!OidIsValid(base) || !IsInCatalog(TABLE_QUERY, base))
		return "the relation is neither a Citus table nor a simple view of one";
	if (base != source->relid && !IsInCatalog(OBJECT_QUERY("pg_class"), source->relid))
		return "the view does not exist on all nodes";
	if (HasRowSecurity(source->relid, base))
		return "row security applies to the table";
	if (IsWrittenTo(base))
		return "this transaction may have written to the table";
	if (ReadsSecondaries())
		return "Citus reads from secondary nodes";
	if (source->element != ElementOfForm(source->form))
		return "the vectors are converted to double precision";
	return NULL;
}

List *
FindWorkers(const VectorSource *source)
{
	const char *reason;
	List	   *nodes;

	/* Citus may not be installed in this database, or not be loaded */
	if (setting_distribute == CHOICE_OFF || !OidIsValid(get_extension_oid("citus", true)) ||
		GetConfigOption("citus.cluster_name", true, false) == NULL)
		return NIL;
	reason = WhyNotDivided(source);
	nodes = reason == NULL ? ListNodes(WORKERS_QUERY, InvalidOid, "") : NIL;
	if (list_length(nodes) >= 2)
		return nodes;
	ereport(DEBUG1,
			(errmsg_internal("fasted: join is not divided over Citus workers: %s",
							 reason != NULL ? reason : "fewer than two nodes have shards and the metadata")));
	return NIL;
}

char *
SlicePrologue(void)
{
	char	   *settings;

	(void) QueryCatalog(SETTINGS_QUERY, InvalidOid, "");
	settings = ResultColumn(0, 1);
	SPI_finish();
	/* the interval is for the time that rows are read; a join checks for its client itself */
	return psprintf("BEGIN%s%s", settings,
					WaitEventSetCanReportClosed() ? "; SET LOCAL client_connection_check_interval = '100ms'" : "");
}

/* --- reading shards */

/*
 * A distributed table is read with one binary COPY from each node.  Each node sorts its own rows
 * and detoasts their vectors after the sort.  The resulting streams are in the order of keys, and
 * are merged with a heap of their next rows.  A query through Citus would store all rows in one
 * session, and store them once more to sort them.
 */

/* The header of binary COPY: a signature of 11 bytes, no flags, and an extension length of zero. */
static const char copy_header[19] = "PGCOPY\n\377\r\n";

/* A node's stream of rows, with its next row. */
typedef struct ShardStream
{
	bool		begun;			/* the COPY header has been read */
	MemoryContext key_context;	/* holds the key */
	Datum		key;
	bool		key_isnull;
	StringInfoData vector;		/* a bytea */
} ShardStream;

typedef struct ShardReader
{
	ConnectionSet *connections;
	FmgrInfo	receive;		/* the receive function of the key's type */
	Oid			receive_param;
	StringInfoData key_text;	/* buffer for the binary form of a key */
	SortSupportData order;		/* order of keys */
	binaryheap *heap;			/* numbers of the streams that have a row */
	ShardStream streams[FLEXIBLE_ARRAY_MEMBER];
} ShardReader;

/* Returns true for types that COPY can send in binary form: base types and arrays. */
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
	has = OidIsValid(form->typsend) && OidIsValid(form->typreceive) && form->typtype == TYPTYPE_BASE;
	ReleaseSysCache(tuple);
	return has && (!OidIsValid(element) || HasBinaryForm(element));
}

/* Returns a type name for casts that never truncate: "bpchar", not "character" of length 1. */
static char *
NameOfType(Oid type)
{
	return format_type_extended(type, -1, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

/*
 * Returns the nodes that have shards of the source's table, with queries of keys k and vectors v.
 * Returns NIL if the table has no distribution column, or if a shard has no active placement.
 */
static List *
FindShards(const VectorSource *source)
{
	/* shard_name returns names in schema public without the schema */
	bool		public = strcmp(get_namespace_name(get_rel_namespace(source->relid)), "public") == 0;
	Oid			column_type = get_atttype(source->relid, get_attnum(source->relid, source->key_column));
	const char *cast = core->CastKeepsOrder(column_type, source->key_type) ? "" :
		psprintf("::%s", NameOfType(source->key_type));

	return ListNodes(SHARDS_QUERY, source->relid,
					 psprintf("SELECT %s%s AS k, %s AS v FROM %s", quote_identifier(source->key_column), cast,
							  quote_identifier(source->vector_column), public ? "public." : ""));
}

/*
 * Returns the COPY command that reads keys and vectors of a node's shards in the order of keys.
 *
 * OFFSET 0 makes vectors be detoasted after the sort.  If the parts of UNION ALL have no conditions, the
 * planner can use indexes for the order instead.  So rows without a vector are not excluded here.
 * Besides, whether a vector is null is known only after the cast.
 */
static char *
ShardQuery(const VectorSource *source, const WorkerNode *node)
{
	return psprintf("COPY (SELECT k::%s, fasted_citus.vector_bytes(v::%s) FROM (SELECT k, v FROM (%s) s"
					" ORDER BY k OFFSET 0) x) TO STDOUT (FORMAT binary)",
					NameOfType(source->key_type), NameOfType(VectorFormType(source->form)), node->query);
}

/* Returns the next field of a COPY row, within the data, and its length; NULL for a null. */
static const char *
TakeField(StringInfo data, int *length)
{
	*length = (int) pq_getmsgint(data, 4);
	return *length == -1 ? NULL : pq_getmsgbytes(data, *length);
}

/* Sets the key of stream n from its binary form; bytes NULL: the key is null. */
static void
TakeKey(ShardReader *reader, int n, const char *bytes, int length)
{
	ShardStream *stream = &reader->streams[n];
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
	if (reader->key_text.cursor != reader->key_text.len)
		LinksReportInvalid(reader->connections, n);
}

/* Reads the next row with a vector from node n.  Returns false if it has no more rows. */
static bool
NextRow(ShardReader *reader, int n)
{
	ShardStream *stream = &reader->streams[n];
	StringInfoData data = {0};
	const char *bytes;
	int			length;
	int			fields;

	while (LinksTake(reader->connections, n, &data.data, &data.len))
	{
		data.cursor = 0;
		if (!stream->begun &&
			memcmp(pq_getmsgbytes(&data, sizeof(copy_header)), copy_header, sizeof(copy_header)) != 0)
			LinksReportInvalid(reader->connections, n);
		stream->begun = true;
		if (data.cursor == data.len)
			continue;
		fields = (int16) pq_getmsgint(&data, 2);
		if (fields == -1)
			continue;			/* the trailer */
		if (fields != 2)
			LinksReportInvalid(reader->connections, n);
		bytes = TakeField(&data, &length);
		TakeKey(reader, n, bytes, length);
		bytes = TakeField(&data, &length);
		pq_getmsgend(&data);
		if (bytes == NULL)
			continue;			/* no vector */
		stream->vector.len = VARHDRSZ;
		appendBinaryStringInfo(&stream->vector, bytes, length);
		SET_VARSIZE(stream->vector.data, stream->vector.len);
		return true;
	}
	return false;
}

/* A binaryheap has its greatest element first, so this reverses the order of keys. */
static int
CompareStreams(Datum a, Datum b, void *arg)
{
	ShardReader *reader = arg;
	const ShardStream *x = &reader->streams[DatumGetInt32(a)];
	const ShardStream *y = &reader->streams[DatumGetInt32(b)];

	return -ApplySortComparator(x->key, x->key_isnull, y->key, y->key_isnull, &reader->order);
}

/* Creates a reader, and connects to the nodes. */
static ShardReader *
CreateReader(const VectorSource *source, List *nodes)
{
	int			count = list_length(nodes);
	ShardReader *reader = palloc0(offsetof(ShardReader, streams) + count * sizeof(ShardStream));
	Oid			receive;

	getTypeBinaryInputInfo(source->key_type, &receive, &reader->receive_param);
	fmgr_info(receive, &reader->receive);
	initStringInfo(&reader->key_text);
	/* the same order as in a KeySet */
	core->PrepareTypeOrder(source->key_type, source->key_collation, CurrentMemoryContext, &reader->order);
	reader->heap = binaryheap_allocate(count, CompareStreams, reader);
	for (int n = 0; n < count; n++)
	{
		ShardStream *stream = &reader->streams[n];

		stream->key_context = AllocSetContextCreate(CurrentMemoryContext, "fasted shard key",
													ALLOCSET_SMALL_SIZES);
		initStringInfo(&stream->vector);
	}
	reader->connections = LinksOpen(nodes);
	return reader;
}

/* Gives the rows of these streams to the taker, in the order of keys, until it takes no more. */
static void
Merge(ShardReader *reader, int streams, RowTaker *taker)
{
	for (int n = 0; n < streams; n++)
		if (NextRow(reader, n))
			binaryheap_add_unordered(reader->heap, Int32GetDatum(n));
	binaryheap_build(reader->heap);
	while (!binaryheap_empty(reader->heap))
	{
		int			n = DatumGetInt32(binaryheap_first(reader->heap));
		ShardStream *stream = &reader->streams[n];

		if (!core->TakeSourceRow(taker, stream->key, stream->key_isnull,
								 PointerGetDatum(VectorFromBytes(PointerGetDatum(stream->vector.data),
																 taker->source)),
								 false, VectorFormType(taker->source->form)))
			return;
		if (NextRow(reader, n))
			binaryheap_replace_first(reader->heap, Int32GetDatum(n));
		else
			(void) binaryheap_remove_first(reader->heap);
	}
}

/*
 * Error context callback while shards are read.  If a shard was moved and dropped after its node was
 * looked up, its former node reports an undefined table, and the statement may be tried again.
 */
static void
ReportMovedShard(void *arg)
{
	const VectorSource *source = arg;

	if (geterrcode() != ERRCODE_UNDEFINED_TABLE)
		return;
	errcode(ERRCODE_T_R_SERIALIZATION_FAILURE);
	errdetail("A shard of \"%s\" may have been moved to another node after the query began.",
			  source->relation);
	errhint("Try again.");
}

/* Reads the shards, in the order of keys.  Returns false if that is not possible. */
static bool
ReadShards(RowTaker *taker)
{
	const VectorSource *source = taker->source;
	ErrorContextCallback callback = {
		.previous = error_context_stack,.callback = ReportMovedShard,
		.arg = unconstify(VectorSource *, source)
	};
	char		relkind = get_rel_relkind(source->relid);
	List	   *nodes = NIL;
	ShardReader *reader;
	Query	   *query;
	int			n = 0;
	ListCell   *cell;

	/* a partitioned table can be read too, since its shards are partitioned tables */
	if (!ReadsSecondaries() && OidIsValid(VectorBytesFunction(source->form)) && HasBinaryForm(source->key_type) &&
		(relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE) &&
		check_enable_rls(source->relid, InvalidOid, true) == RLS_NONE)
		nodes = FindShards(source);
	if (nodes == NIL)
		return false;
	/* check the privileges that a query of the table needs, which shards have too */
	query = core->MakeSourceQuery(source, InvalidOid);
#if PG_VERSION_NUM >= 160000
	ExecCheckPermissions(query->rtable, query->rteperminfos, true);
#else
	ExecCheckRTPerms(query->rtable, true);
#endif
	error_context_stack = &callback;
	reader = CreateReader(source, nodes);
	/* start all nodes before waiting for the first row */
	LinksCommand(reader->connections, SlicePrologue());
	foreach(cell, nodes)
		LinksSend(reader->connections, n++, ShardQuery(source, lfirst(cell)));
	Merge(reader, list_length(nodes), taker);
	LinksClose(reader->connections);
	error_context_stack = callback.previous;
	return true;
}

/* --- reading through Citus */

/* Returns true for a plan of Citus.  Its node is on top, or below a Sort. */
static bool
IsCitusPlan(const Plan *plan)
{
	for (; plan != NULL; plan = outerPlan(plan))
		if (IsA(plan, CustomScan) && strncmp(((const CustomScan *) plan)->methods->CustomName, "Citus", 5) == 0)
			return true;
	return false;
}

/* A TupleCallback for rows whose vectors are bytea. */
static bool
TakeBytesSlot(void *arg, TupleTableSlot *slot)
{
	RowTaker   *taker = arg;
	Datum	   *vector = &slot->tts_values[VECTOR_COLUMN];
	MemoryContext old;

	slot_getallattrs(slot);
	ResetExprContext(taker->econtext);
	old = MemoryContextSwitchTo(taker->econtext->ecxt_per_tuple_memory);
	if (!slot->tts_isnull[VECTOR_COLUMN])
		*vector = PointerGetDatum(VectorFromBytes(*vector, taker->source));
	MemoryContextSwitchTo(old);
	return core->TakeSlot(taker, slot);
}

bool
ReadDistributed(RowTaker *taker, const PlannedStmt *plan)
{
	const VectorSource *source = taker->source;
	Oid			function;

	if (!IsCitusPlan(plan->planTree) || !ExtensionIsEverywhere())
		return false;
	if (source->key_order && ReadShards(taker))
		return true;
	function = VectorBytesFunction(source->form);
	if (!OidIsValid(function))
		return false;
	taker->has_vectors = true;	/* of TakeBytesSlot */
	core->RunPlan(source, core->PlanQuery(source, core->MakeSourceQuery(source, function), 0), TakeBytesSlot, taker);
	return true;
}
