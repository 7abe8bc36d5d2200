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

#include "join/join.h"
#include "utils/float.h"

/* --- sample.c */

/* With fewer rows there is no telling how sure an estimate is. */
#define LEAST_SAMPLE_ROWS 100

typedef struct SampleOptions
{
	uint32		rows;			/* at most; zero: as many as pairs needs */
	double		neighbors;	/* the mean number of neighbours asked for */
	const uint64 *seed;			/* NULL: another sample each time */
} SampleOptions;

typedef struct Sample
{
	uint64		total;			/* rows of the source that take part */
	RowArray	array;			/* all of them, or the sample, in random order */
} Sample;

/*
 * Reads the source as a join would, once, with the same errors, and keeps a
 * sample of its rows: every set of that many rows is as likely.  Allocates in
 * the current memory context, which on error must go.
 */
extern Sample *ReadSample(const VectorSource *source, const SampleOptions *options);

/* --- near_pairs.c */

/*
 * Distances of some of the rows, from which others are guessed.  The engine keeps the
 * rows until its end.
 */
typedef struct DistanceGuess
{
	const VectorSource *source; /* for messages and progress */
	const RowArray *array;
	bool		ignore_copies;	/* only pairs at a distance above 0 count */
	FastedPair *pairs;			/* all pairs of its first rows that count */
	size_t		npairs;
	uint64		all;			/* pairs of its first rows, also those that do not count */
	bool		complete;		/* its first rows are all rows */
	FastedPair *nearest;		/* what NearestPairs gave last */
	Join	   *join;			/* of all rows; NULL before it is needed */
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
 * and the others behind it.
 */
extern void SelectPair(FastedPair *pairs, size_t npairs, size_t rank);

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

#endif							/* FASTED_EPSILON_H */
