/*-------------------------------------------------------------------------
 *
 * integer_rank.h
 *	  The order of rows by integer keys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTEGER_RANK_H
#define FASTED_INTEGER_RANK_H

/*
 * rank[i] becomes the position of keys[i] in their order as signed integers.
 * Returns a row whose key another row has too, or count if there is none; then
 * rank is complete.  Takes 32 bytes a row meanwhile.
 */
extern uint32 RankIntegers(const Datum *keys, uint32 count, uint32 *rank);

#endif							/* FASTED_INTEGER_RANK_H */
