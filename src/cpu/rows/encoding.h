/*-------------------------------------------------------------------------
 *
 * encoding.h
 *	  Computation of an encoding from a sample: centre, scale, and transform to integers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_ENCODING_H
#define FASTED_CPU_ENCODING_H

#include "filter_row.h"

/* Largest number of rows from which an integer scale is computed. */
#define FASTED_INT8_SCALE_ROWS 256

/* Phase of a join: computes the centre of the new encoding; a work item is a range of coordinates. */
extern void cpu_find_centre(Worker *worker);

/*
 * Computes the scale: the power of two that brings the median of the sampled rows' largest
 * coordinates to [1, 2).  Rows equal to the centre are ignored.  If all are, the scale is based on
 * eps or, for the cosine distance, on 1.
 */
extern void cpu_find_scale(FastedJoin *join);

/* Computes the centre and the scale of integer rows, when those of FP32 rows are known. */
extern void cpu_int8_find_transform(Worker *worker, Encoding *encoding);

/* Returns the factor for a sample of at most FASTED_INT8_SCALE_ROWS rows, which may be empty. */
extern float cpu_int8_find_factor(Worker *worker, const Int8Transform *transform,
								  const Sample *sample);

#endif							/* FASTED_CPU_ENCODING_H */
