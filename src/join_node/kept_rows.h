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

/* Rows beyond so many bytes go to a temporary file.  In the current memory context. */
extern KeptRows *KeptRowsCreate(Size limit);

extern void KeptRowsAdd(KeptRows *kept, TupleTableSlot *slot);
extern uint32 KeptRowsCount(const KeptRows *kept);

/*
 * Row number row in a slot of minimal tuples; valid until the next call for kept by
 * this reader, 0 or 1.
 */
extern void KeptRowsFetch(KeptRows *kept, uint32 row, int reader, TupleTableSlot *slot);

/* Frees everything. */
extern void KeptRowsEnd(KeptRows *kept);

#endif							/* FASTED_KEPT_ROWS_H */
