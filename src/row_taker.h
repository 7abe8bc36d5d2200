/*-------------------------------------------------------------------------
 *
 * row_taker.h
 *	  From the tuples of a query to their sink: checks, conversion, errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_TAKER_H
#define FASTED_ROW_TAKER_H

#include "row_ring.h"
#include "row_sink.h"
#include "source.h"
#include "tcop/dest.h"

/*
 * Receives the tuples of a query, key and vector, as a DestReceiver; with a
 * ring, it empties that too, whenever a tuple comes.
 */
typedef struct RowTaker
{
	DestReceiver base;
	const VectorSource *source;
	RowSink    *sink;
	MemoryContext row_context;	/* what detoasting leaves; reset for each row */
	uint64		tuples;			/* rows that came by themselves */
	int			dimensions;		/* of the first vector; zero before it */
	char	   *first_row_name;
	bool		stopped;		/* the sink takes no more rows */

	RowRing    *ring;			/* of parallel workers; NULL: there are none */
	uint64		ring_rows;		/* rows that came through it */
	ErrorContextCallback context;	/* see UseRing */
} RowTaker;

extern RowTaker *CreateRowTaker(const VectorSource *source, RowSink *sink);
extern void FreeRowTaker(RowTaker *taker);

/*
 * From now on there is a ring.  The query that fills it is an internal one, so
 * that errors of rows should name the source's own query as their context.
 */
extern void UseRing(RowTaker *taker, RowRing *ring);

/*
 * Takes one row, or raises the error that it deserves.  False: the sink takes
 * no more rows.  Leaves garbage in the current memory context.
 */
extern bool TakeRow(RowTaker *taker, Datum key, bool key_isnull, Datum vector);

/* Takes the full blocks of the ring; at the end, when no worker is left, all. */
extern bool TakeBlocks(RowTaker *taker, bool all);

#endif							/* FASTED_ROW_TAKER_H */
