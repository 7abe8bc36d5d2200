/*-------------------------------------------------------------------------
 *
 * wire.h
 *	  What a worker sends of its slice: one bytea after the other, in network order.
 *
 *	  MESSAGE_ROWS		a report: rows have been read, the join begins
 *	  MESSAGE_PAIRS		pairs of row numbers, with their distances
 *	  MESSAGE_COUNTS	how many pairs rows have, one row after the other
 *	  MESSAGE_DONE		a report: that was all
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_WIRE_H
#define FASTED_WIRE_H

#include "engine/engine.h"
#include "lib/stringinfo.h"
#include "rows/vector.h"

/* Raised with every change of what is sent; servers that differ don't divide a join. */
#define WIRE_VERSION 3

#define MESSAGE_ROWS 'R'
#define MESSAGE_PAIRS 'P'
#define MESSAGE_COUNTS 'C'
#define MESSAGE_DONE 'D'

/* At most, in one message. */
#define MESSAGE_MOST_PAIRS 4096
#define MESSAGE_MOST_COUNTS 16384

typedef struct SliceReport
{
	Fingerprint rows[2];		/* that were read, by side; of one relation with itself there is one */
	char		cut[768];		/* what the cut into slices depends on, beside the rows */
	double		read_seconds;
	FastedStats stats;
} SliceReport;

/* Messages, in the current memory context. */
extern bytea *ReportMessage(char tag, SliceReport *report);
extern bytea *PairsMessage(const FastedPair *pairs, size_t npairs);
extern bytea *CountsMessage(uint32 first_row, const uint32 *counts, size_t nrows);

/*
 * These read what follows the tag of a message.  The array must have room for
 * MESSAGE_MOST_PAIRS or MESSAGE_MOST_COUNTS elements; their number is returned.  Errors: the
 * message is of another version, or damaged.
 */
extern void TakeReport(StringInfo message, SliceReport *report);
extern size_t TakePairs(StringInfo message, FastedPair *pairs);
extern size_t TakeCounts(StringInfo message, uint32 *first_row, uint32 *counts);

#endif							/* FASTED_WIRE_H */
