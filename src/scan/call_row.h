/*-------------------------------------------------------------------------
 *
 * call_row.h
 *	  Whole rows of a call, where rows of others are locked or changed beside it.
 *
 * An UPDATE, say, that had to wait for another one looks at the row once more, with the
 * call's row that was beside it: so that one is in the scan tuple, behind its columns.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CALL_ROW_H
#define FASTED_CALL_ROW_H

#include "nodes/execnodes.h"

typedef struct CallRow
{
	Index		relation;		/* in the range table */
	TupleDesc	columns;		/* NULL: no whole row is wanted */
	MemoryContext context;		/* of the last one */
} CallRow;

/* column_numbers: of the scan tuple; the last one is zero, if whole rows are wanted. */
extern CallRow BeginCallRow(CustomScanState *node, List *column_numbers);

/* The row of these values, which are all columns; valid until the next one. */
extern Datum MakeCallRow(CallRow *row, Datum *values, bool *nulls);

/* Is a row looked at once more?  Then the call's is in the slot; none, the second time. */
extern bool LooksAgain(CustomScanState *node, CallRow *row, TupleTableSlot *slot);

#endif							/* FASTED_CALL_ROW_H */
