/*-------------------------------------------------------------------------
 *
 * pair_log.h
 *	  Pairs that were handed out already, should their slice be done once more.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_PAIR_LOG_H
#define FASTED_PAIR_LOG_H

#include "engine.h"

/* More pairs of one slice are not noted, in 128 MB: it can't be done again then. */
#define PAIR_LOG_MOST ((size_t) 16 << 20)

typedef struct PairLog
{
	uint64_t   *pairs;			/* a in the upper half */
	size_t		count;
	size_t		room;
	bool		sorted;
	bool		incomplete;		/* too many, or memory ran out */
} PairLog;

extern void pair_log_add(PairLog *log, const FastedPair *pairs, size_t npairs);

/* The other log's pairs too. */
extern void pair_log_append(PairLog *log, const PairLog *other);

/* Has it this pair? */
extern bool pair_log_has(PairLog *log, const FastedPair *pair);

/* Room for the pairs of a batch that stay in it. */
typedef struct KeptPairs
{
	FastedPair *pairs;
	size_t		room;
} KeptPairs;

/* Leaves the log's pairs out of a batch; the others are in kept then.  False: out of memory. */
extern bool pair_log_leave_out(PairLog *log, KeptPairs *kept, FastedBatch *batch);

/* It is empty; its memory stays. */
extern void pair_log_clear(PairLog *log);
extern void pair_log_free(PairLog *log);

#endif							/* FASTED_PAIR_LOG_H */
