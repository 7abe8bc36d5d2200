/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  From an array in a tuple to a row of floats.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_VECTOR_H
#define FASTED_VECTOR_H

#include "read/source.h"
#include "session/compat.h"
#include "utils/array.h"

/*
 * What is wrong with a vector.  Which row it is only the caller knows, so these
 * come back as values; the caller reports them with ReportVectorProblem.
 */
typedef enum VectorProblem
{
	VECTOR_OK,
	VECTOR_EMPTY,
	VECTOR_NOT_FLAT,			/* more than one array dimension */
	VECTOR_HAS_NULL,
	VECTOR_NOT_FINITE,			/* NaN or infinite */
	VECTOR_OUT_OF_RANGE			/* a number beyond the range of real */
} VectorProblem;

/* Copies floats; false: one of them is not finite. */
extern bool CopyFinite(const float *from, float *to, int n);

/* Checks the shape; gives the number of elements (zero when it is empty). */
extern VectorProblem VectorShape(const ArrayType *array, int *dimensions);

/*
 * Converts an array whose shape is in order into dimensions floats at row.  On
 * a problem, *element is the index (from 1) of the first offending element.
 */
extern VectorProblem VectorElements(ArrayType *array, VectorForm form,
									int dimensions, float *row, int *element);

/* Is every element zero, once it is a float?  The shape is in order. */
extern bool VectorIsZero(ArrayType *array, VectorForm form, int dimensions);

/* The same of a converted one. */
static inline bool
RowIsZero(const float *row, uint32 dimensions)
{
	for (uint32 k = 0; k < dimensions; k++)
		if (row[k] != 0.0f)
			return false;
	return true;
}

/*
 * Raises the error for a problem.  row_name names the row ("id = 7").
 */
pg_noreturn extern void ReportVectorProblem(VectorProblem problem,
											ArrayType *array, int element,
											const VectorSource *source,
											const char *row_name);

#endif							/* FASTED_VECTOR_H */
