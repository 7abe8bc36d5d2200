/*-------------------------------------------------------------------------
 *
 * shard_reader.c
 *	  Reads a table of Citus's where its shards are: one COPY in binary form from each node,
 *	  and a heap of their next rows.
 *
 * Through Citus all rows are stored in one session, and then stored once more to be sorted.
 * Here each node sorts the rows that it has, and reads their vectors after that.  They come as
 * streams in the order of keys, one from each node, and are merged as they come.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "citus/cluster.h"
#include "executor/executor.h"
#include "lib/binaryheap.h"
#include "libpq/pqformat.h"
#include "rows/source.h"
#include "rows/source_query.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"

/* What a binary COPY begins with: a signature of 11 bytes, flags, and a length that is zero. */
#define COPY_HEADER_BYTES 19

/* The next row of a node. */
typedef struct ShardStream
{
	bool		begun;			/* its header has come */
	MemoryContext key_context;
	Datum		key;
	bool		key_isnull;
	struct varlena *vector;		/* bytes */
	Size		capacity;		/* that there is room for */
} ShardStream;

typedef struct ShardReader
{
	const VectorSource *source;
	LinkSet    *links;
	FmgrInfo	receive;		/* a key */
	Oid			receive_param;
	StringInfoData key_text;
	SortSupportData order;
	binaryheap *heap;			/* of streams that have a row, by their numbers */
	ShardStream streams[FLEXIBLE_ARRAY_MEMBER];
} ShardReader;

/* --- what may be read so */

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

/* --- the queries */

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

/* --- a row from a node */

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

static void
TakeVector(ShardStream *stream, const char *bytes, int length)
{
	Size		size = (Size) length + VARHDRSZ;

	if (stream->capacity < size)
	{
		stream->vector = repalloc(stream->vector, size);
		stream->capacity = size;
	}
	SET_VARSIZE(stream->vector, size);
	memcpy(VARDATA(stream->vector), bytes, length);
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
		TakeVector(stream, bytes, length);
		return true;
	}
	return false;
}

/* --- all rows */

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

	reader->source = source;
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
		stream->capacity = 1024;
		stream->vector = palloc(stream->capacity);
	}
	reader->links = Links()->open(nodes);
	return reader;
}

/* All nodes begin to sort before the first row is waited for. */
static void
BeginStreams(ShardReader *reader, List *nodes)
{
	int			n = 0;
	ListCell   *cell;

	Links()->command(reader->links, SlicePrologue());
	foreach(cell, nodes)
		Links()->copy(reader->links, n++,
					  ShardQuery(reader->source, ((WorkerNode *) lfirst(cell))->shards));
	for (n = 0; n < list_length(nodes); n++)
		if (NextRow(reader, n))
			binaryheap_add_unordered(reader->heap, Int32GetDatum(n));
	binaryheap_build(reader->heap);
}

/* Takes the first row of all streams until there are no more, or no more are wanted. */
static void
Merge(ShardReader *reader, RowTaker *taker)
{
	while (!binaryheap_empty(reader->heap))
	{
		int			n = DatumGetInt32(binaryheap_first(reader->heap));
		ShardStream *stream = &reader->streams[n];

		if (!TakeBytes(taker, stream->key, stream->key_isnull, PointerGetDatum(stream->vector)))
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

	/* shards of a partitioned table have partitions of their own */
	if (OidIsValid(VectorBytesFunction(source->form)) && HasBinaryForm(source->key_type) &&
		(relkind == RELKIND_RELATION || relkind == RELKIND_PARTITIONED_TABLE) &&
		check_enable_rls(source->relid, InvalidOid, true) == RLS_NONE)
		nodes = FindShards(source->relid);
	if (nodes == NIL)
		return false;
	/* the privileges that a query of the table takes; shards have the same */
	query = MakeSourceQuery(source, false);
#if PG_VERSION_NUM >= 160000
	ExecCheckPermissions(query->rtable, query->rteperminfos, true);
#else
	ExecCheckRTPerms(query->rtable, true);
#endif
	reader = CreateReader(source, nodes);
	BeginStreams(reader, nodes);
	Merge(reader, taker);
	Links()->close(reader->links);
	return true;
}
