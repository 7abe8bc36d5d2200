/*-------------------------------------------------------------------------
 *
 * row_batch.h
 *	  Reads rows of a plan in batches, so that their out-of-line vectors are fetched together.
 *
 * PostgreSQL stores a vector of 500 and more dimensions in chunks in the table's TOAST table.  To
 * detoast one value, it opens that table and its index, descends the index, and closes both.  A
 * batch opens them once, sorts its values by their identifiers, and fetches all of them in one
 * forward scan of the index.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_BATCH_H
#define FASTED_ROW_BATCH_H

#include "executor/tuptable.h"

/* Collects the rows of one plan. */
typedef struct RowBatch RowBatch;

/*
 * Creates a batch for rows of these columns, in the current memory context.  column is the number of
 * the vector's column, from 0, which has a varlena type.
 */
extern RowBatch *RowBatchCreate(TupleDesc columns, int column);

/*
 * The same for the rows of a plan, of which the expression computes the vectors.  Its variables are
 * numbered from `first` + 1.  Returns NULL if the expression does not refer to just one column of a
 * varlena type.
 */
extern RowBatch *RowBatchFor(Node *vector, TupleDesc columns, int first);

/*
 * Adds a copy of the row in the slot.  Returns false if the row need not be in a batch, because the
 * batch is empty and the vector is not out of line: the caller processes the row itself.
 */
extern bool RowBatchAdd(RowBatch *batch, TupleTableSlot *slot);

/* Returns true if the rows of the batch must be processed before another row is added. */
extern bool RowBatchIsFull(const RowBatch *batch);

/*
 * Returns the next row of the batch, in the order in which rows were added, or NULL after the last
 * one, when the batch is empty again.  The first call fetches the vectors.  The slot's values are
 * valid until the next row is added.
 */
extern TupleTableSlot *RowBatchNext(RowBatch *batch);

/*
 * Returns the next row of a plan, or NULL at the end, after which it may be called again.  The slot
 * is the plan's or the batch's.
 */
extern TupleTableSlot *ReadPlanInBatches(RowBatch *batch, struct PlanState *plan);

/* Empties the batch, because the plan is scanned again. */
extern void RowBatchReset(RowBatch *batch);

#endif							/* FASTED_ROW_BATCH_H */
