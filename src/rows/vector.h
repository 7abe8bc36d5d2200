/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  Conversion of a vector in a tuple to a row of floats, doubles or bits; hashes of rows.
 *
 * Rows of doubles and of bits have the representation that engines expect (engine.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_VECTOR_H
#define FASTED_VECTOR_H

#include "base/compat.h"
#include "engine/exact_distance.h"
#include "rows/source.h"
#include "utils/array.h"

/* These are returned, because only the caller knows the row; it raises the error. */
typedef enum VectorProblem
{
	VECTOR_OK,
	VECTOR_EMPTY,
	VECTOR_NOT_FLAT,			/* more than one array dimension */
	VECTOR_HAS_NULL,
	VECTOR_NOT_FINITE,			/* NaN or infinite */
	VECTOR_OUT_OF_RANGE			/* an element out of the range of real */
} VectorProblem;

/* Copy n elements; return false if any of them is not finite. */
extern bool CopyFinite(const float *from, float *to, int n);
extern bool CopyFiniteDoubles(const double *from, double *to, int n);

/* Copies the bytes of n bits to a row, whose last word it fills with zeros. */
extern void CopyBits(const void *from, float *to, int n);

/*
 * Checks the shape of a vector of this form, which has been detoasted.  Sets the number of elements
 * (0 if it is empty).
 */
extern VectorProblem VectorShape(const struct varlena *vector, VectorForm form, int *dimensions);

/* The size of a row, in floats and in bytes. */
static inline uint32
RowFloats(FastedElement element, uint32 dimensions)
{
	return fasted_element_floats(element, dimensions);
}

static inline Size
RowBytes(FastedElement element, uint32 dimensions)
{
	return RowFloats(element, dimensions) * sizeof(float);
}

/*
 * Converts a vector to a row of this many dimensions.  VectorShape must have accepted it.  If
 * there is a problem, sets *element to the index (from 1) of the first invalid element.  Uses
 * form, element and metric of the source: with cosine, doubles are scaled so that their
 * squares neither overflow nor underflow.
 */
extern VectorProblem VectorElements(struct varlena *vector, const VectorSource *source,
									int dimensions, float *row, int *element);

/*
 * Returns true if all elements are zero after conversion.  VectorShape must have accepted the
 * vector, which must not be of bits.
 */
extern bool VectorIsZero(struct varlena *vector, VectorForm form, int dimensions);

/* Returns true if all elements of a converted row are zero. */
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
	if (element == FASTED_ELEMENT_BIT)
		return fasted_exact_ones((const uint64_t *) row, fasted_bit_words(dimensions)) == 0;
	for (uint32 k = 0; k < dimensions; k++)
		if (row[k] != 0.0f)
			return false;
	return true;
}

/*
 * For ereport: sets the SQLSTATE and primary message of a problem.  Uses the vector for
 * VECTOR_NOT_FLAT only.
 */
extern int	errvector(VectorProblem problem, const struct varlena *vector);

/* Raises the error for a problem.  row_name identifies the row ("id = 7"). */
pg_noreturn extern void ReportVectorProblem(VectorProblem problem,
											struct varlena *vector, int element,
											const VectorSource *source,
											const char *row_name);

/* Fast hash of the bytes of a row, a multiple of 4. */
extern uint64 RowHash(const float *row, Size bytes, uint64 seed);

/*
 * Copies a row so that rows whose distance is zero become equal, bit for bit; metrics "l2", "hamming"
 * and "jaccard" only.  Other rows may become equal, too.
 */
extern void CopyForEquality(float *to, const float *row, FastedElement element, uint32 dimensions);

#endif							/* FASTED_VECTOR_H */
