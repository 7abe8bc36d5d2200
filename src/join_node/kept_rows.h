/*-------------------------------------------------------------------------
 *
 * kept_rows.h
 *	  The rows of one side of a join, by number, and vectors that stay in their table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KEPT_ROWS_H
#define FASTED_KEPT_ROWS_H

#include "nodes/execnodes.h"
#include "storage/buffile.h"
#include "storage/itemptr.h"

/* --- rows in memory, and then in a file */

/* A row in memory is its values and then its null flags; so many rows are a block. */
#define KEPT_BLOCK_ROWS 1024

typedef struct KeptRows
{
	char	  **blocks;
	Size		row_bytes;
	int			ncolumns;
	uint32		in_memory;		/* rows from 0 on; the others are in the file */
	uint32		count;
	MemoryContext context;		/* of all of it */
	TupleDesc	columns;
	Size		limit;
	Size		bytes;

	uint32		nblocks;
	uint32		block_room;
	char	   *chunk;			/* room of the last chunk */
	Size		chunk_left;

	BufFile    *file;			/* the rows behind those; NULL: there are none */
	struct FilePlace *places;
	uint32		place_room;
	TupleTableSlot *slots[2];	/* a row of the file, for each reader */
	TupleTableSlot *values;		/* a row on its way into the file */
} KeptRows;

/* A row's columns, in the order of its description. */
typedef struct KeptRow
{
	const Datum *values;
	const bool *isnull;
} KeptRow;

/* Rows of these columns; what is beyond so many bytes goes to a temporary file. */
extern KeptRows *KeptRowsCreate(MemoryContext parent, TupleDesc columns, Size limit);

/* Copies a row. */
extern void KeptRowsAdd(KeptRows *kept, const Datum *values, const bool *isnull);

static inline char *
PlaceOfKeptRow(const KeptRows *kept, uint32 row)
{
	return kept->blocks[row / KEPT_BLOCK_ROWS] + row % KEPT_BLOCK_ROWS * kept->row_bytes;
}

extern KeptRow KeptRowsFetchFromFile(KeptRows *kept, uint32 row, int reader);

/* Row number row; valid until the next call for kept by this reader, 0 or 1. */
static inline KeptRow
KeptRowsFetch(KeptRows *kept, uint32 row, int reader)
{
	const Datum *values;

	if (unlikely(row >= kept->in_memory))
		return KeptRowsFetchFromFile(kept, row, reader);
	values = (const Datum *) PlaceOfKeptRow(kept, row);
	return (KeptRow) {.values = values,.isnull = (const bool *) (values + kept->ncolumns)};
}

/* The row will be fetched soon. */
static inline void
KeptRowsPrefetch(const KeptRows *kept, uint32 row)
{
	if (row < kept->in_memory)
		__builtin_prefetch(PlaceOfKeptRow(kept, row));
}

/* So will what its values point to; the row itself has come by now. */
extern void KeptRowsPrefetchValues(const KeptRows *kept, uint32 row);

/* Frees everything. */
extern void KeptRowsEnd(KeptRows *kept);

/* A longer array than one of so many elements, in which there is no room left. */
extern void *GrowArray(MemoryContext context, void *array, uint32 *room, Size size);

/*
 * --- vectors that stay in their table
 *
 * The engine has them, the clauses rarely want them, and nobody else does: so a side
 * that is a scan of a table does not keep them, but fetches those few once more, by
 * their place in the table, where the query's snapshot keeps row versions.
 */

typedef struct LeftVectors LeftVectors;

/*
 * Vectors in a column of the table that the scan reads.  What had to be fetched from
 * a TOAST table is kept, up to limit bytes.  In the current memory context, for as
 * long as the plan is.
 */
extern LeftVectors *LeftVectorsCreate(ScanState *scan, AttrNumber column, Size limit);

/* The place of the next row, from 0 on. */
extern void LeftVectorsAdd(LeftVectors *left, ItemPointer place);

/* The vector of a row; valid until the next call by this reader, 0 or 1. */
extern Datum LeftVectorsFetch(LeftVectors *left, uint32 row, int reader, bool *isnull);

/* There are no rows any more. */
extern void LeftVectorsReset(LeftVectors *left);

#endif							/* FASTED_KEPT_ROWS_H */
