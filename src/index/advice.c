/*-------------------------------------------------------------------------
 *
 * advice.c
 *	  Advice of fasted_info() to rebuild indexes.
 *
 * The basis of an index fits the rows that the build has seen.  Later rows are in further chunks, unless there
 * were free places.  The metapage has the number of chunks then and now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "index/access.h"
#include "index/path.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"

/* Advise to rebuild an index with as many later chunks, if these are at least this share of all. */
#define MANY_CHUNKS 10
#define LARGE_SHARE 0.3

/* Names in the advice, at most. */
#define NAMED 3

/*
 * Returns true if an index has many rows since it was built.  Returns false if it is locked by others or cannot be
 * read, as an unlogged index on a standby, or if its metapage is not one.
 */
static bool
NeedsRebuild(Oid indexid)
{
	Relation	index;
	bool		needed = false;

	if (!ConditionalLockRelationOid(indexid, AccessShareLock))
		return false;
	index = try_relation_open(indexid, NoLock);
	if (index != NULL && index->rd_index->indisvalid && !RELATION_IS_OTHER_TEMP(index) &&
		(index->rd_rel->relpersistence != RELPERSISTENCE_UNLOGGED || !RecoveryInProgress()) &&
		RelationGetNumberOfBlocks(index) > 0)
	{
		Buffer		buffer = ReadBuffer(index, META_BLOCK);
		const IndexMeta *meta = (IndexMeta *) PageGetContents(BufferGetPage(buffer));

		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		needed = meta->magic == INDEX_MAGIC && meta->chunks >= (uint64) meta->built_chunks + MANY_CHUNKS &&
			meta->chunks - meta->built_chunks >= LARGE_SHARE * meta->chunks;
		UnlockReleaseBuffer(buffer);
	}
	if (index != NULL)
		relation_close(index, NoLock);
	UnlockRelationOid(indexid, AccessShareLock);
	return needed;
}

char *
DescribeIndexes(char **advice)
{
	Relation	classes = table_open(RelationRelationId, AccessShareLock);
	StringInfoData names;
	int			count = 0;
	int			old = 0;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	initStringInfo(&names);
	ScanKeyInit(&key, Anum_pg_class_relam, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(get_index_am_oid("fasted", true)));
	scan = systable_beginscan(classes, InvalidOid, false, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);

		if (class->relkind != RELKIND_INDEX)
			continue;
		count++;
		if (NeedsRebuild(class->oid) && old++ < NAMED)
			appendStringInfo(&names, "%s%s", old > 1 ? ", " : "",
							 DatumGetCString(DirectFunctionCall1(regclassout, ObjectIdGetDatum(class->oid))));
	}
	systable_endscan(scan);
	table_close(classes, AccessShareLock);
	*advice = old == 0 ? NULL :
		psprintf("Use REINDEX INDEX CONCURRENTLY for %s%s: searches may become faster.", names.data,
				 old > NAMED ? ", ..." : "");
	return count == 0 ? NULL : psprintf("%d, of which %d have many rows since they were built", count, old);
}
