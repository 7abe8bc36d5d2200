/*-------------------------------------------------------------------------
 *
 * access.h
 *	  The functions of the access method, and steps that several of them share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_ACCESS_H
#define FASTED_INDEX_ACCESS_H

#include "access/amapi.h"
#include "index/bound.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "storage/dsm.h"
#include "storage/shm_toc.h"

/* build.c */
extern IndexBuildResult *IndexBuild(Relation heap, Relation index, IndexInfo *info);
extern void IndexBuildEmpty(Relation index);
extern PGDLLEXPORT void fasted_index_build(dsm_segment *segment, shm_toc *toc);

/* insert.c */
extern bool IndexInsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
						IndexUniqueCheck check, bool unchanged, IndexInfo *info);

/* Puts a chunk that has free places, and is in no list, into one. */
extern void ListChunk(Relation index, const IndexState *state, uint32 chunk);

/* vacuum.c */
extern IndexBulkDeleteResult *IndexBulkDelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
											  IndexBulkDeleteCallback callback, void *callback_state);
extern IndexBulkDeleteResult *IndexVacuumCleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);

/* scan.c */

/* What a scan has done since it was begun, with all rescans. */
typedef struct ScanCounts
{
	uint64		skipped_chunks; /* of which no row's bound was computed */
	uint64		heads;			/* rows with codes whose bounds by the head were computed */
	uint64		passed[INDEX_LEVELS];	/* rows that passed a level, but for those without codes */
	uint64		returned;		/* rows that the executor got */
} ScanCounts;

extern const ScanCounts *IndexScanCounts(IndexScanDesc desc);
extern IndexScanDesc IndexBeginScan(Relation index, int nkeys, int norderbys);
extern void IndexRescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys);
extern bool IndexGetTuple(IndexScanDesc scan, ScanDirection direction);
extern int64 IndexGetBitmap(IndexScanDesc scan, TIDBitmap *bitmap);
extern void IndexEndScan(IndexScanDesc scan);

/* cost.c */
extern void IndexCostEstimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
							  Cost *total_cost, Selectivity *selectivity, double *correlation,
							  double *pages);

/* Returns some vectors of a sample of n, and sets their number. */
extern double *SamplePairs(const double *sample, uint32 n, uint32 dimensions, uint32 *count);

/* Sets the quantiles of the bounds of pairs of vectors, and of vectors and the boxes of an index. */
extern void MeasureBounds(Relation index, IndexState *state, const double *vectors, uint32 n);

/* row.c */

/*
 * Returns the elements of a value of the index's first column, or of a vector that is compared with it.
 * Sets the number of dimensions, and the radius if the value is a ball, else 0.  Allocates in the current
 * memory context.
 */
extern double *ElementsOf(const IndexedKind *kind, Datum value, int *dimensions, double *radius);

/* Raises the error for a row of other dimensions than the index's. */
pg_noreturn extern void ReportIndexDimensions(Relation index, int dimensions, uint32 expected);

/* Sets the hashes of the further columns of a row. */
extern void SetHashes(Relation index, const Datum *values, const bool *isnull, uint32 *hashes);

/*
 * A key of KEY_BITS bits, by which rows are neighbours that are on the same side of the first axes.  If there are further
 * columns, then two bits of the hash of the first one precede each such sign.  -1: the row has no codes.
 */
extern int64 RowKey(const IndexState *state, const IndexRow *row);

#define KEY_BITS (3 * HEAD_WORDS)

/* The key of a row of a head page that has codes, or -1 if there is none. */
extern int64 HeadKey(const IndexState *state, Page page);

/* The number of a list in the metapage for rows with this key. */
static inline uint32
ListOf(const IndexMeta *meta, int64 key)
{
	return Max(key, 0) >> (KEY_BITS - meta->list_bits);
}

/* The number of bits that select a list, if there are that many chunks. */
static inline uint32
ListBits(uint32 chunks)
{
	uint32		bits = 0;

	while (bits < MOST_LIST_BITS && chunks >> (bits + 1) >= LIST_CHUNKS)
		bits++;
	return bits;
}

/* Writes a row to its place in the pages of a chunk: of the head (level 0) or of a level. */
extern void PutRow(const IndexState *state, const IndexRow *row, uint32 number, uint32 level, Page page);

#endif							/* FASTED_INDEX_ACCESS_H */
