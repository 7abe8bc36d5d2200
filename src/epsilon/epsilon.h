/*-------------------------------------------------------------------------
 *
 * epsilon.h
 *	  A random sample of the rows of a source (sample.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_EPSILON_H
#define FASTED_EPSILON_H

#include "rows/source.h"

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

#endif							/* FASTED_EPSILON_H */
