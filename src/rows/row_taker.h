/*-------------------------------------------------------------------------
 *
 * row_taker.h
 *	  From the tuples of a query to their sink: checks, conversion, errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_TAKER_H
#define FASTED_ROW_TAKER_H

#include "rows/intake_ring.h"
#include "rows/row_sink.h"
#include "rows/source.h"
#include "tcop/dest.h"

/* Columns of the query that reads a source. */
#define KEY_COLUMN 0
#define VECTOR_COLUMN 1
#define PARTITION_COLUMN 2

/* Blocks that are on their way into the sink together; as many more may wait to be freed. */
#define INTAKE_TOGETHER 4

/* Receives the tuples of a query, key and vector, as a DestReceiver. */
typedef struct RowTaker
{
	DestReceiver base;
	const VectorSource *source;
	RowSink    *sink;
	bool		from_bytes;		/* vectors come as such: vector_bytes.h */
	Datum		partition;		/* the row's, if the source has partitions */
	MemoryContext row_context;	/* what detoasting leaves; reset for each row */
	uint64		tuples;			/* rows that came by themselves */
	int			dimensions;		/* of the first vector; zero before it */
	char	   *first_row_name;
	bool		stopped;		/* the sink takes no more rows */

	/* With parallel workers: intake_node.c. */
	bool		leader_reads;	/* the leader may read a share of its own */
	IntakeRing *ring;			/* NULL: there is none, or none any more */
	uint64		ring_rows;		/* rows that came through it */
	uint32		ring_workers;	/* processes that put them there */
	uint32		taken[INTAKE_TOGETHER]; /* blocks that the sink may read still */
	int			ntaken;
	uint32		tuples_received;	/* rows of workers that came as tuples */
} RowTaker;

extern RowTaker *CreateRowTaker(const VectorSource *source, RowSink *sink);
extern void FreeRowTaker(RowTaker *taker);

/*
 * Takes the row in a slot, if it has a vector, or raises the error that it deserves.
 * False: the sink takes no more rows.
 */
extern bool TakeSlot(RowTaker *taker, TupleTableSlot *slot);

/* The same of a row whose vector, as bytes, is not null (vector_bytes.h). */
extern bool TakeBytes(RowTaker *taker, Datum key, bool key_isnull, Datum bytes);

/* Takes the full blocks of the ring.  FreeBlocks: the sink has read all of them. */
extern bool TakeBlocks(RowTaker *taker);
extern void FreeBlocks(RowTaker *taker);

#endif							/* FASTED_ROW_TAKER_H */
