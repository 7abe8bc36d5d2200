/*-------------------------------------------------------------------------
 *
 * epsilon.h
 *	  A random sample of a source's rows, and the pairs of some rows in memory by rank of
 *	  their distance.
 *
 * An engine finds pairs within a distance, so a distance is guessed first, from
 * all pairs of some of the rows; if the guess is wrong, another one follows.  The
 * rows must be in random order, and each pair of them must have a distance: with
 * cosine, none may be zero.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_EPSILON_H
#define FASTED_EPSILON_H

#include <math.h>

#include "join/join.h"
#include "utils/float.h"

/* --- sample.c */

/* Rows in memory, tightly packed. */
typedef struct RowArray
{
	FastedElement element;
	const float *rows;
	uint32		count;
	uint32		dimensions;
} RowArray;

/* With fewer rows there is no telling how sure an estimate is. */
#define LEAST_SAMPLE_ROWS 100

/* What fasted_epsilon is asked for. */
typedef struct Question
{
	double		neighbors;		/* the mean number of neighbours */
	double		confidence;
	bool		ignore_copies;	/* only pairs at a distance above 0 count */
	uint32		sample_rows;	/* at most; zero: as many as the pairs need */
	const uint64 *seed;			/* NULL: another sample each time */
} Question;

/*
 * Reads the source as a join would, once, with the same errors, and keeps a
 * sample of its rows, or all of them, in random order: every set of that many rows is as
 * likely.  Returns the number of rows of the source that take part.  Allocates in the current
 * memory context, which on error must go.
 */
extern uint64 ReadSample(const VectorSource *source, const Question *question, RowArray *array);

/* --- near_pairs.c */

/* Rows in memory on their way into a join. */
typedef struct ArrayPusher
{
	RowPusher	pusher;
	RowArray	array;
} ArrayPusher;

/* Distances of some of the rows, from which others are guessed.  The rows stay until its end. */
typedef struct DistanceGuess
{
	const VectorSource *source;
	ArrayPusher rows;
	bool		ignore_copies;	/* only pairs at a distance above 0 count */
	FastedPair *pairs;			/* all pairs of its first rows that count */
	size_t		npairs;
	uint64		all;			/* pairs of its first rows, also those that do not count */
	bool		complete;		/* its first rows are all rows */
	FastedPair *nearest;		/* what NearestPairs gave last */
	VectorJoin *join;			/* of all rows; NULL before it is needed */
} DistanceGuess;

extern DistanceGuess *GuessDistances(const VectorSource *source, const RowArray *array,
									 bool ignore_copies);

/*
 * The rank-th smallest distance (from 1) of the pairs that count, exactly.  In bounded
 * memory, whatever the rank.  Negative: fewer pairs count.
 */
extern double DistanceOfRank(DistanceGuess *guess, uint64 rank);

/*
 * The pairs of the smallest distances, *count of them, in no order; pairs at the
 * same distance are preferred at random, but always the same ones.  Sets *count to
 * their number where fewer count.  Valid until the next call.
 */
extern FastedPair *NearestPairs(DistanceGuess *guess, size_t *count);

/* The number of pairs at distance 0, whether they count or not. */
extern uint64 CountCopies(DistanceGuess *guess);

extern void GuessEnd(DistanceGuess *guess);

/*
 * Puts the pair of this rank (from 1) in its place, those before it before it,
 * and the others behind it.  Returns its distance.
 */
extern double SelectPair(FastedPair *pairs, size_t npairs, size_t rank);

/* No pair has a greater distance. */
static inline double
GreatestDistance(FastedMetric metric)
{
	return metric == FASTED_METRIC_COSINE ? 2.0 : get_float8_infinity();
}

static inline uint64
PairsOf(uint64 rows)
{
	return rows < 2 ? 0 : rows * (rows - 1) / 2;
}

/* --- for epsilon.c and the unit test: how many rows a sample may miss, all of them, by chance */

/* The logarithm of the probability that a sample of so many of all rows has none of these. */
static inline double
fasted_log_missed(double rows, double total, double unseen)
{
	return (lgamma(total - rows + 1.0) - lgamma(total - rows - unseen + 1.0)) -
		(lgamma(total + 1.0) - lgamma(total - unseen + 1.0));
}

/*
 * The most rows that a sample misses with at least this probability.  By halves: they may
 * be a large part of thousands of millions.
 */
static inline double
fasted_unseen_rows(double rows, double total, double probability)
{
	double		low = 0.0;
	double		high = total - rows + 1.0;

	while (high - low > 1.0)
	{
		double		middle = floor((low + high) / 2.0);

		if (fasted_log_missed(rows, total, middle) >= log(probability))
			low = middle;
		else
			high = middle;
	}
	return low;
}

#endif							/* FASTED_EPSILON_H */
