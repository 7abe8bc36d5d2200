/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Frees the places of dead rows in an index.
 *
 * Scans hold no pins on pages from which they have taken rows.  If another row has taken the place, or the
 * TID, of a row that a scan is about to return, then the scan's snapshot does not see it, or the executor
 * checks it by the operators.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "commands/vacuum.h"
#include "index/access.h"
#include "miscadmin.h"

#if PG_VERSION_NUM >= 180000
#define VACUUM_DELAY() vacuum_delay_point(false)
#else
#define VACUUM_DELAY() vacuum_delay_point()
#endif

/* Frees the dead rows of a head page, which is locked.  Returns true if it has free places and is in no list. */
static bool
delete_from_head(const IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
				 void *callback_state, const IndexState *state, Buffer buffer)
{
	GenericXLogState *xlog = GenericXLogStart(info->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	uint16	   *seconds = HeadSeconds(page, state);
	uint32		left = 0;
	uint32		freed = 0;

	for (uint32 r = 0; r < state->layout.chunk_rows; r++)
	{
		if (seconds[r] == ROW_FREE)
			continue;
		if (callback(HeadTids(page, state) + r, callback_state))
		{
			seconds[r] = ROW_FREE;
			ItemPointerSetInvalid(HeadTids(page, state) + r);
			freed++;
		}
		else
			left++;
	}
	if (freed > 0)
		GenericXLogFinish(xlog);
	else
		GenericXLogAbort(xlog);
	stats->tuples_removed += freed;
	stats->num_index_tuples += left;
	return left < state->layout.chunk_rows && OpaqueOf(BufferGetPage(buffer))->next == 0;
}

/* Frees the dead rows of all chunks, and lists those with free places. */
IndexBulkDeleteResult *
IndexBulkDelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
				void *callback_state)
{
	IndexMeta	meta;
	IndexState	state = *ReadState(info->index, &meta);

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	stats->num_index_tuples = 0;
	for (uint32 chunk = 0; chunk < meta.chunks; chunk++)
	{
		Buffer		buffer;
		bool		unlisted;

		VACUUM_DELAY();
		buffer = ReadIndexPage(info->index, ChunkBlock(&state.layout, chunk), BUFFER_LOCK_EXCLUSIVE, HEAD_PAGE, chunk, 0);
		unlisted = delete_from_head(info, stats, callback, callback_state, &state, buffer);
		UnlockReleaseBuffer(buffer);
		if (unlisted)
			ListChunk(info->index, &state, chunk);
	}
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	return stats;
}

IndexBulkDeleteResult *
IndexVacuumCleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	return stats;
}
