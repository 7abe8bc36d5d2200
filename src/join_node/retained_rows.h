/*-------------------------------------------------------------------------
 *
 * retained_rows.h
 *	  The retained rows of one side of a join: in memory first, then in a temporary file.
 *
 * A row in memory consists of its values, so that it need not be deformed.  Null flags are in a
 * separate array, which exists only if a value is null.  Pass-by-reference values are stored one
 * after the other.  A row in the temporary file is a minimal tuple.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_RETAINED_ROWS_H
#define FASTED_RETAINED_ROWS_H

#include "executor/tuptable.h"
#include "storage/buffile.h"

/* Position and length of a row in the temporary file. */
typedef struct FilePosition
{
	int			fileno;
	uint32		length;
	off_t		offset;
} FilePosition;

typedef struct RetainedRows
{
	MemoryContext context;
	TupleDesc	columns;
	int64		budget;			/* remaining memory budget, in bytes */
	uint32		count;

	uint32		in_memory;		/* number of rows in memory; later rows are in the file */
	uint32		capacity;
	Datum	   *rows;			/* values by row and column */
	bool	   *nulls;			/* null flags by row and column; NULL: there are no nulls */
	char	   *free;			/* start and size of free memory for pass-by-reference values */
	Size		free_bytes;
	Size		value_bytes;	/* total size of the memory for these values */

	BufFile    *file;			/* rows that exceed the budget; NULL if none */
	FilePosition *positions;
	uint32		position_capacity;
	TupleTableSlot *slots[2];	/* one row of the file for each reader */
} RetainedRows;

/* The values and null flags of a retained row. */
typedef struct RetainedRow
{
	const Datum *values;
	const bool *isnull;			/* NULL: no value is null */
} RetainedRow;

/* Creates an empty store, which may use this much memory in the context before it writes a file. */
extern RetainedRows *RetainedRowsCreate(MemoryContext context, TupleDesc columns, int64 budget);

/* Closes the temporary file.  The memory is released with the context. */
extern void RetainedRowsEnd(RetainedRows *retained);

/*
 * Copies a row, whose values must have been deformed.  Its number is the count before the call.
 * Errors: there are FASTED_MAX_ROWS rows already; the file cannot be written.
 */
extern void RetainedRowsAdd(RetainedRows *retained, TupleTableSlot *row);

/* Returns a row of the file; see RetainedRowsFetch. */
extern RetainedRow RetainedRowsFetchFromFile(RetainedRows *retained, uint32 row, int reader);

/* Returns true if a fetched row is valid only until the same reader fetches its next row. */
static inline bool
RetainedRowIsInFile(const RetainedRows *retained, uint32 row)
{
	return row >= retained->in_memory;
}

/* Returns a row.  A row in the file is valid until the same reader (0 or 1) fetches its next row. */
static inline RetainedRow
RetainedRowsFetch(RetainedRows *retained, uint32 row, int reader)
{
	Size		first = (Size) row * retained->columns->natts;

	if (unlikely(RetainedRowIsInFile(retained, row)))
		return RetainedRowsFetchFromFile(retained, row, reader);
	return (RetainedRow) {.values = retained->rows + first,
		.isnull = retained->nulls == NULL ? NULL : retained->nulls + first};
}

/* Prefetches the first and the last value of the row. */
static inline void
RetainedRowsPrefetch(const RetainedRows *retained, uint32 row)
{
	Size		natts = retained->columns->natts;

	if (!RetainedRowIsInFile(retained, row))
	{
		__builtin_prefetch(retained->rows + row * natts);
		__builtin_prefetch(retained->rows + row * natts + natts - 1);
	}
}

/* Prefetches the pass-by-reference values of a row whose Datums have already been prefetched. */
extern void RetainedRowsPrefetchValues(RetainedRows *retained, uint32 row);

#endif							/* FASTED_RETAINED_ROWS_H */
