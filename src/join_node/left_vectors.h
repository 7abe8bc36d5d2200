/*-------------------------------------------------------------------------
 *
 * left_vectors.h
 *	  Vectors that were left where they are, in their table.
 *
 * The engine has them, the clauses rarely want them, and nobody else does: so a side
 * that is a scan of a table does not keep them, but fetches those few once more, by
 * their place in the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_LEFT_VECTORS_H
#define FASTED_LEFT_VECTORS_H

#include "nodes/execnodes.h"
#include "storage/itemptr.h"

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

#endif							/* FASTED_LEFT_VECTORS_H */
