/*-------------------------------------------------------------------------
 *
 * near_share.h
 *	  What a sample's pairs tell of the share of all pairs within a distance.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAR_SHARE_H
#define FASTED_NEAR_SHARE_H

#include "join/join.h"

/* The question: are so many of all pairs near, given a sample of the rows? */
typedef struct ShareTest
{
	double		share;			/* of all pairs: 0 to 1 */
	double		rows;			/* of the sample */
	double		total;			/* of which it is a sample */
	double		confidence;
	double		deviations;		/* from ShareTestBegin: of a normal distribution, for confidence */
	double		unseen;			/* likewise: so many rows the sample may have missed */
	uint32	   *neighbours;		/* likewise: room, by row */
} ShareTest;

typedef enum ShareAnswer
{
	SHARE_IS_LESS = -1,			/* fewer than that share of all pairs are near */
	SHARE_IS_POSSIBLE,
	SHARE_IS_MORE
} ShareAnswer;

/* Completes what the caller set.  Allocates in the current memory context. */
extern void ShareTestBegin(ShareTest *test);

/* If these of the sample's pairs are near, and the others are not. */
extern ShareAnswer TestShare(const ShareTest *test, const FastedPair *near, size_t count);

#endif							/* FASTED_NEAR_SHARE_H */
