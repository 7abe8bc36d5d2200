/*-------------------------------------------------------------------------
 *
 * epsilon.h
 *	  Samples the rows of a source, and finds the distance of rows in memory that has a given
 *	  rank.
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

/* The smallest sample; the distances between fewer rows are too few for an estimate. */
#define LEAST_SAMPLE_ROWS 100

/* The arguments of fasted_epsilon. */
typedef struct EpsilonRequest
{
	double		neighbors;		/* the wanted mean number of neighbours */
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
 * Finds distances by their rank among all pairs.  The distances between the first rows are known, and
 * serve to estimate others.  The rows must stay in memory until GuessEnd.
 */
typedef struct DistanceGuess
{
	const VectorSource *source;
	RowArray	rows;
	bool		ignore_copies;	/* ignore pairs at a distance of 0 */
	double	   *distances;		/* of the pairs of the first rows that are not ignored */
	size_t		ndistances;
	uint64		all;			/* number of pairs of the first rows, with those ignored */
	bool		complete;		/* the first rows are all rows */
	VectorJoin *join;			/* join of all rows; NULL before its first use */
} DistanceGuess;

extern DistanceGuess *GuessDistances(const VectorSource *source, const RowArray *array,
									 bool ignore_copies);

/*
 * Returns the distance with this rank (from 1) among the pairs that are not ignored.  It is exact,
 * and needs bounded memory for any rank.  Returns NaN if there are fewer pairs.
 */
extern double DistanceOfRank(DistanceGuess *guess, uint64 rank);

/* The number of pairs at distance 0, including ignored ones. */
extern uint64 CountCopies(DistanceGuess *guess);

extern void GuessEnd(DistanceGuess *guess);

static inline uint64
PairsOf(uint64 rows)
{
	return rows < 2 ? 0 : rows * (rows - 1) / 2;
}

#endif							/* FASTED_EPSILON_H */
