/*-------------------------------------------------------------------------
 *
 * row_stream.h
 *	  One join from its arguments to blocks of result rows.
 *
 * What the scan node streams and what the function stores come from here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_STREAM_H
#define FASTED_ROW_STREAM_H

#include "join/join.h"
#include "portability/instr_time.h"
#include "scan/outlet_block.h"
#include "scan/self_join.h"

typedef struct RowStream
{
	MemoryContext context;		/* everything below lives here */
	VectorJoin *join;
	RowMaker	maker;
	bool		self_pairs;
	bool		counts;			/* the engine does */
	const FastedPair *pairs;	/* the engine's batch at work */
	size_t		npairs;
	uint32		next_self_pair;

	bool		timed;			/* are these wanted? */
	double		wait_seconds;	/* for the engine */
	double		output_seconds; /* making blocks of rows */
} RowStream;

/* Which rows, and what of them. */
typedef struct RowRequest
{
	SelfJoinArgs args;
	Oid			key_type;
	List	   *columns;		/* of the result, in order: COLUMN_ID_A, ... */
	PairFilter	filter;
	bool		count;			/* their number is all that is wanted */
	bool		timed;			/* see RowStream */
} RowRequest;

/* Every row of the result, whole. */
extern RowRequest RequestAllRows(const SelfJoinArgs *args, Oid key_type);

/*
 * Reads the source and starts the engine.  Allocates in the current memory context,
 * with which it goes on error.
 */
extern RowStream *RowStreamBegin(const RowRequest *request);

/* Fills the block with at least one row; false: there are none. */
extern bool RowStreamNext(RowStream *stream, OutletBlock *block);

/* Where it was asked for: the number of all rows, none of which is made. */
extern uint64 RowStreamCount(RowStream *stream);

extern void RowStreamEnd(RowStream *stream);

/* --- seconds, for statistics */

static inline double
SecondsSince(instr_time begin)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, begin);
	return INSTR_TIME_GET_DOUBLE(now);
}

#endif							/* FASTED_ROW_STREAM_H */
