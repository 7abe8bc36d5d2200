/*-------------------------------------------------------------------------
 *
 * share_reader.h
 *	  Rows of a share into a join of nearest rows: all rows of b, and some of a.
 *
 * One relation with itself is read once, and its rows go to both sides.  Keys are the
 * numbers of rows, by which a worker and the session that asks it name them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SHARE_READER_H
#define FASTED_SHARE_READER_H

#include "join/join.h"

typedef struct NearestShare
{
	VectorSource *a;			/* rows come in the order of their keys, of both */
	VectorSource *b;			/* NULL: a itself */
	uint32		k;
	double		most;
	uint32		slice;
	uint32		slices;
	Fingerprint *prints;		/* of both, or of a; the caller's */
} NearestShare;

/*
 * Reads, and starts the engine.  Of the keys those of side 0 are the numbers of the
 * share's rows.  A row may be among its own nearest ones.
 */
extern Join *JoinBeginShare(const NearestShare *share);

#endif							/* FASTED_SHARE_READER_H */
