/*-------------------------------------------------------------------------
 *
 * vector.h
 *	  From an array in a tuple to a row of floats or of doubles; hashes of rows.
 *
 * Rows of doubles are handed on as the engines have them: engine.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_VECTOR_H
#define FASTED_VECTOR_H

#include "base/compat.h"
#include "common/hashfn.h"
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
 * a problem, *element is the index (from 1) of the first offending element.  Of the source it
 * needs form, element and metric: by cosine, doubles are scaled to where their squares can be had.
 */
extern VectorProblem VectorElements(ArrayType *array, const VectorSource *source,
									int dimensions, float *row, int *element);

/* Is every element zero, once it is in a row?  The shape is in order. */
extern bool VectorIsZero(ArrayType *array, VectorForm form, int dimensions);

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

/* For ereport: the SQLSTATE and the message of a problem with an array. */
extern int	errvector(VectorProblem problem, const ArrayType *array);

/*
 * Raises the error for a problem.  row_name names the row ("id = 7").
 */
pg_noreturn extern void ReportVectorProblem(VectorProblem problem,
											ArrayType *array, int element,
											const VectorSource *source,
											const char *row_name);

/* --- vectors that come from other servers: arrays in one piece */

/*
 * Servers send an array element by element, and each is a call of a function on both
 * sides.  That takes several times as long as all else there is to reading it.  So a
 * query of Citus's asks for arrays as they lie in memory, as values of type bytea.
 */

/*
 * The SQL function that makes bytes of an array of this form.  InvalidOid: there is none, or
 * the extension's script is older than it, and arrays are read as such.
 */
extern Oid	VectorBytesFunction(VectorForm form);

/* The array again, if it is one of the source's form; else an error. */
extern ArrayType *ArrayFromBytes(Datum bytes, const VectorSource *source);

/* --- whether two servers have read the same rows, in the same order */

/*
 * A chain of 64-bit hashes over keys and vectors, row after row: of two tables that
 * differ it is the same by a chance of 2^-64.  It guards against what others write
 * meanwhile, not against an adversary.
 */
typedef struct Fingerprint
{
	uint64		rows;
	uint64		hash;
} Fingerprint;

/* The next row. */
static inline void
FingerprintAdd(Fingerprint *print, uint64 key_hash, uint64 vector_hash)
{
	uint64		chain[3] = {print->hash, key_hash, vector_hash};

	print->rows++;
	print->hash = hash_bytes_extended((const unsigned char *) chain, sizeof(chain), 0);
}

/* Of a key that is not null: of its bytes.  Leaves garbage in the current memory context. */
extern uint64 KeyHash(Datum key, int16 typlen, bool typbyval);

/*
 * Of a row as it is joined, by whichever metric; zero for a vector of zeros, and only for
 * one.  Leaves garbage in the current memory context.
 */
extern uint64 VectorHash(const float *row, FastedElement element, uint32 dimensions);

/*
 * The SQL function that does so where the vectors are, for arrays of this form;
 * InvalidOid: the extension's script is older than it.
 */
extern Oid	VectorHashFunction(VectorForm form);

#endif							/* FASTED_VECTOR_H */
