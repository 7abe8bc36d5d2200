/*-------------------------------------------------------------------------
 *
 * sample.h
 *	  A random sample of a source's rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SAMPLE_H
#define FASTED_SAMPLE_H

#include "join/join.h"
#include "rows/source.h"

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

#endif							/* FASTED_SAMPLE_H */
