/*-------------------------------------------------------------------------
 *
 * kept_rows.h
 *	  The rows of one side of a join, by number: in memory, and then in a file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_KEPT_ROWS_H
#define FASTED_KEPT_ROWS_H

#include "executor/tuptable.h"

typedef struct KeptRows KeptRows;

/* A row is its values and then its null flags; so many rows are a block. */
#define KEPT_BLOCK_ROWS 1024

/* What a KeptRows begins with. */
typedef struct RowsInMemory
{
	char	  **blocks;
	Size		row_bytes;
	int			columns;
	uint32		count;			/* from row 0 on; the others are in the file */
} RowsInMemory;

/* A row's columns, in the order of its description. */
typedef struct KeptRow
{
	const Datum *values;
	const bool *isnull;
} KeptRow;

/*
 * Rows of these columns; what is beyond so many bytes goes to a temporary file.  In
 * the current memory context.
 */
extern KeptRows *KeptRowsCreate(TupleDesc columns, Size limit);

/* Copies a row. */
extern void KeptRowsAdd(KeptRows *kept, const Datum *values, const bool *isnull);
extern uint32 KeptRowsCount(const KeptRows *kept);

static inline char *
PlaceOfKeptRow(const RowsInMemory *memory, uint32 row)
{
	return memory->blocks[row / KEPT_BLOCK_ROWS] + row % KEPT_BLOCK_ROWS * memory->row_bytes;
}

static inline bool
KeptRowIsInMemory(const KeptRows *kept, uint32 row)
{
	return row < ((const RowsInMemory *) kept)->count;
}

extern KeptRow KeptRowsFetchFromFile(KeptRows *kept, uint32 row, int reader);

/* Row number row; valid until the next call for kept by this reader, 0 or 1. */
static inline KeptRow
KeptRowsFetch(KeptRows *kept, uint32 row, int reader)
{
	const RowsInMemory *memory = (const RowsInMemory *) kept;
	const Datum *values;

	if (unlikely(row >= memory->count))
		return KeptRowsFetchFromFile(kept, row, reader);
	values = (const Datum *) PlaceOfKeptRow(memory, row);
	return (KeptRow) {.values = values,.isnull = (const bool *) (values + memory->columns)};
}

/* The row will be fetched soon. */
static inline void
KeptRowsPrefetch(const KeptRows *kept, uint32 row)
{
	if (KeptRowIsInMemory(kept, row))
		__builtin_prefetch(PlaceOfKeptRow((const RowsInMemory *) kept, row));
}

/* So will what its values point to; the row itself has come by now. */
extern void KeptRowsPrefetchValues(const KeptRows *kept, uint32 row);

/* Frees everything. */
extern void KeptRowsEnd(KeptRows *kept);

#endif							/* FASTED_KEPT_ROWS_H */
