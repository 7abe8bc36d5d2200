/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  From an array in a tuple to a row of floats or of doubles.
 *
 * Rows of doubles are handed on as the engines have them: engine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_VECTOR_H
#define FASTED_VECTOR_H

#include "base/compat.h"
#include "rows/source.h"
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

/* Copies numbers; false: one of them is not finite. */
extern bool CopyFinite(const float *from, float *to, int n);
extern bool CopyFiniteDoubles(const double *from, double *to, int n);

/* Checks the shape; gives the number of elements (zero when it is empty). */
extern VectorProblem VectorShape(const ArrayType *array, int *dimensions);

/* What rows are made of vectors. */
typedef struct RowKind
{
	VectorForm	form;
	FastedElement element;
	FastedMetric metric;		/* by cosine, doubles are scaled to where their squares can be had */
} RowKind;

static inline RowKind
RowKindOf(const VectorSource *source)
{
	return (RowKind) {source->form, source->element, source->metric};
}

/* Floats that a row takes the room of, and its bytes. */
static inline uint32
RowFloats(FastedElement element, uint32 dimensions)
{
	return element == FASTED_ELEMENT_DOUBLE ? 2 * dimensions : dimensions;
}

static inline Size
RowBytes(FastedElement element, uint32 dimensions)
{
	return RowFloats(element, dimensions) * sizeof(float);
}

/*
 * Converts an array whose shape is in order into a row of so many dimensions.  On
 * a problem, *element is the index (from 1) of the first offending element.
 */
extern VectorProblem VectorElements(ArrayType *array, const RowKind *kind,
									int dimensions, float *row, int *element);

/* Is every element zero, once it is in a row?  The shape is in order. */
extern bool VectorIsZero(ArrayType *array, const RowKind *kind, int dimensions);

/* The same of a converted one. */
static inline bool
RowIsZero(const float *row, FastedElement element, uint32 dimensions)
{
	if (element == FASTED_ELEMENT_DOUBLE)
	{
		for (uint32 k = 0; k < dimensions; k++)
			if (((const double *) row)[k] != 0.0)
				return false;
		return true;
	}
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
