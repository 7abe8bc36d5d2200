/*-------------------------------------------------------------------------
 *
 * integer_rank.h
 *	  The order of rows by integer keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTEGER_RANK_H
#define FASTED_INTEGER_RANK_H

typedef struct IntegerRank IntegerRank;

/*
 * Begins to find the position of each of keys[] in their order as signed integers, which
 * become rank[].  A thread does it, if beside is set and it pays; keys and rank stay until
 * then.  What it takes, 32 bytes a row meanwhile, is the current memory context's: when that
 * goes, the thread ends.
 */
extern IntegerRank *IntegerRankBegin(const Datum *keys, uint32 count, uint32 *rank, bool beside);

/* Is rank complete? */
extern bool IntegerRankIsDone(IntegerRank *ranking);

/*
 * Waits for that.  Returns a row whose key another row has too, or count if there is none.
 * Then the memory context may go.
 */
extern uint32 IntegerRankEnd(IntegerRank *ranking);

#endif							/* FASTED_INTEGER_RANK_H */
