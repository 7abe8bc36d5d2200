/*-------------------------------------------------------------------------
 *
 * epsilon.h
 *	  Samples the rows of a source, and finds pairs of rows in memory by the rank of their
 *	  distance.
 *
 * An engine finds pairs within a given distance, not by rank.  The distance of the rank is
 * therefore estimated first, from all pairs of some of the rows.  If the estimate was wrong, the
 * join is repeated with another distance.  The rows must be in random order.  Each pair of them
 * must have a distance: with cosine, no row may be zero.
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

/* With fewer rows the confidence of an estimate cannot be computed. */
#define LEAST_SAMPLE_ROWS 100

/* The arguments of fasted_epsilon. */
typedef struct EpsilonRequest
{
	double		neighbors;		/* the wanted mean number of neighbours */
	double		confidence;
	bool		ignore_copies;	/* ignore pairs at a distance of 0 */
	uint32		sample_rows;	/* maximum size of the sample; 0: choose by neighbors */
	const uint64 *seed;			/* NULL: a different sample each time */
} EpsilonRequest;

/*
 * Reads the source once, as a join does and with the same errors, and returns a uniform random
 * sample of its rows, or all of them, in random order.  The result is the number of rows of the
 * source that take part in a join.  Allocates in the current memory context, which must be
 * deleted or reset after an error.
 */
extern uint64 ReadSample(const VectorSource *source, const EpsilonRequest *request, RowArray *array);

/* --- near_pairs.c */

/*
 * Finds pairs by rank of their distance.  The distances between the first rows are known, and
 * serve to estimate others.  The rows must stay in memory until GuessEnd.
 */
typedef struct DistanceGuess
{
	const VectorSource *source;
	RowArray	rows;
	bool		ignore_copies;	/* ignore pairs at a distance of 0 */
	FastedPair *pairs;			/* the pairs of the first rows that are not ignored */
	size_t		npairs;
	uint64		all;			/* number of pairs of the first rows, with those ignored */
	bool		complete;		/* the first rows are all rows */
	FastedPair *nearest;		/* result of the last call of NearestPairs */
	VectorJoin *join;			/* join of all rows; NULL before its first use */
} DistanceGuess;

extern DistanceGuess *GuessDistances(const VectorSource *source, const RowArray *array,
									 bool ignore_copies);

/*
 * Returns the distance with this rank (from 1) among the pairs that are not ignored.  It is exact,
 * and needs bounded memory for any rank.  Returns NaN if there are fewer pairs.
 */
extern double DistanceOfRank(DistanceGuess *guess, uint64 rank);

/*
 * Returns the *count closest pairs that are not ignored, in no particular order.  Sets *count to
 * their number if there are fewer.  Among pairs at the same distance the choice is
 * pseudorandom, but reproducible.  The result is valid until the next call.
 */
extern FastedPair *NearestPairs(DistanceGuess *guess, size_t *count);

/* The number of pairs at distance 0, including ignored ones. */
extern uint64 CountCopies(DistanceGuess *guess);

extern void GuessEnd(DistanceGuess *guess);

/*
 * Partially sorts pairs: moves the pair with this rank (from 1) to its place, closer pairs before
 * it and the others behind it.  Returns the distance of the pair with this rank.
 */
extern double SelectPair(FastedPair *pairs, size_t npairs, size_t rank);

static inline uint64
PairsOf(uint64 rows)
{
	return rows < 2 ? 0 : rows * (rows - 1) / 2;
}

/* --- how many rows may all be missing from a sample; also used by the unit test */

/* Logarithm of the probability that `rows` rows, sampled of `total`, have none of `unseen`. */
static inline double
fasted_log_missed(double rows, double total, double unseen)
{
	return (lgamma(total - rows + 1.0) - lgamma(total - rows - unseen + 1.0)) -
		(lgamma(total + 1.0) - lgamma(total - unseen + 1.0));
}

/*
 * The largest number of rows all of which a sample misses with at least this probability.  Uses
 * bisection, since the number may be in the billions.
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
