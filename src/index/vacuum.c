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

typedef struct Deletion
{
	Relation	index;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *callback_state;
} Deletion;

/* Frees the dead rows of a head page, which is locked.  Returns how many rows remain. */
static uint32
delete_from_head(Deletion *deletion, const IndexState *state, Buffer buffer)
{
	GenericXLogState *xlog = GenericXLogStart(deletion->index);
	Page		page = GenericXLogRegisterBuffer(xlog, buffer, 0);
	uint16	   *seconds = HeadSeconds(page, state);
	uint32		left = 0;
	uint32		freed = 0;

	for (uint32 r = 0; r < state->layout.chunk_rows; r++)
	{
		if (seconds[r] == ROW_FREE)
			continue;
		if (deletion->callback(HeadTids(page, state) + r, deletion->callback_state))
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
	deletion->stats->tuples_removed += freed;
	deletion->stats->num_index_tuples += left;
	return left;
}

/* Frees the dead rows of all chunks, and lists those with free places. */
static void
delete_from_chunks(Deletion *deletion, const IndexState *state)
{
	for (uint32 chunk = 0; chunk < state->meta.chunks; chunk++)
	{
		Buffer		buffer;
		bool		listed;

		VACUUM_DELAY();
		buffer = ReadIndexPage(deletion->index, ChunkBlock(&state->layout, chunk), BUFFER_LOCK_EXCLUSIVE,
							   HEAD_PAGE, chunk, 0);
		listed = delete_from_head(deletion, state, buffer) == state->layout.chunk_rows ||
			OpaqueOf(BufferGetPage(buffer))->next != 0;
		UnlockReleaseBuffer(buffer);
		if (!listed)
			ListChunk(deletion->index, state, chunk);
	}
}

IndexBulkDeleteResult *
IndexBulkDelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
				void *callback_state)
{
	Relation	index = info->index;
	Deletion	deletion = {.index = index,.callback = callback,.callback_state = callback_state};
	IndexMeta	meta;
	IndexState	state = *ReadState(index, &meta);

	deletion.stats = stats != NULL ? stats : palloc0(sizeof(IndexBulkDeleteResult));
	deletion.stats->num_index_tuples = 0;
	delete_from_chunks(&deletion, &state);
	deletion.stats->num_pages = RelationGetNumberOfBlocks(index);
	return deletion.stats;
}

IndexBulkDeleteResult *
IndexVacuumCleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (stats != NULL)
		stats->num_pages = RelationGetNumberOfBlocks(info->index);
	return stats;
}
