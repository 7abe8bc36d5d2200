/*-------------------------------------------------------------------------
 *
 * grouped_rows.h
 *	  The rows of one or two sources, put in the order of their partitions.
 *
 * Sources are read in any order.  Rows are kept here, in memory and then in a temporary file,
 * until all have come; then they go on, partition by partition.  Vectors of different numbers of
 * dimensions, in different partitions, are filled up with zeros: distances are the same to the
 * last bit, for each of these adds a zero to a sum.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUPED_ROWS_H
#define FASTED_GROUPED_ROWS_H

#include "engine/engine.h"
#include "rows/reader.h"
#include "rows/source.h"

typedef struct GroupedRows GroupedRows;

/* Reads one source or two; in the current memory context, with which it goes. */
extern GroupedRows *ReadGroupedRows(const VectorSource *const *sources, int sides);

/* The partitions that have rows on both sides, as the rows are pushed; in the same context. */
extern const FastedRowGroup *GroupsOfRows(const GroupedRows *rows, uint32 *ngroups);

/* Gives a side's rows of these partitions to the sink, if there are any; all, unless it stops. */
extern void PushGroupedRows(GroupedRows *rows, int side, RowSink *sink);

/* Of rows that were pushed: which one of the source each was.  In the current memory context. */
extern uint32 *OrderOfGroupedRows(const GroupedRows *rows, int side);

#endif							/* FASTED_GROUPED_ROWS_H */
