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

/* Row number row; valid until the next call for kept by this reader, 0 or 1. */
extern KeptRow KeptRowsFetch(KeptRows *kept, uint32 row, int reader);

/* Frees everything. */
extern void KeptRowsEnd(KeptRows *kept);

#endif							/* FASTED_KEPT_ROWS_H */
