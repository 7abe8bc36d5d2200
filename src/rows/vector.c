/*-------------------------------------------------------------------------
 *
 * vector.c
 *	  Converts and checks the elements of vectors, for each form.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/varbit.h"

#define FLOAT_SIGN UINT32_C(0x80000000)
#define FLOAT_EXPONENT UINT32_C(0x7f800000)
#define FLOAT_LEAST_EXPONENT UINT32_C(0x00800000)

VectorProblem
VectorShape(const struct varlena *vector, VectorForm form, int *dimensions)
{
	const ArrayType *array = (const ArrayType *) vector;

	*dimensions = form == VECTOR_BIT ? VARBITLEN(vector) : 0;
	if (form == VECTOR_BIT)
		return *dimensions == 0 ? VECTOR_EMPTY : VECTOR_OK;
	if (ARR_NDIM(array) == 0)
		return VECTOR_EMPTY;
	if (ARR_NDIM(array) != 1)
		return VECTOR_NOT_FLAT;
	*dimensions = ARR_DIMS(array)[0];
	return ARR_HASNULL(array) && array_contains_nulls((ArrayType *) array) ?
		VECTOR_HAS_NULL : VECTOR_OK;
}

/*
 * Copies elements; returns false if any is not finite.  This is the inner loop of reading: a
 * single pass without branches, which the compiler vectorises (see the Makefile).  A float is
 * not finite if its exponent is all ones.  Adding one to that exponent sets the sign bit.
 */
bool
CopyFinite(const float *from_floats, float *to_floats, int n)
{
	const uint32 *from = (const uint32 *) from_floats;
	uint32	   *to = (uint32 *) to_floats;
	uint32		signs = 0;

	for (int i = 0; i < n; i++)
	{
		to[i] = from[i];
		signs |= (from[i] & FLOAT_EXPONENT) + FLOAT_LEAST_EXPONENT;
	}
	return (signs & FLOAT_SIGN) == 0;
}

/* The same for doubles: a sum of elements times zero is NaN if any element is not finite. */
bool
CopyFiniteDoubles(const double *from, double *to, int n)
{
	double		zeros = 0.0;

	for (int i = 0; i < n; i++)
	{
		to[i] = from[i];
		zeros += from[i] * 0.0;
	}
	return zeros == 0.0;
}

/*
 * Converts numeric elements to floats.  As in PostgreSQL's cast to real, each is converted through
 * its text, so it is rounded once.
 */
static VectorProblem
ConvertNumerics(ArrayType *array, float *to, int *element)
{
	VectorProblem problem = VECTOR_OK;
	Datum	   *elements;
	int			n;

	deconstruct_array(array, NUMERICOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, elements[i]));

		to[i] = strtof(text, NULL);
		pfree(text);
		if (isfinite(to[i]) || problem != VECTOR_OK)
			continue;
		*element = i + 1;
		problem = numeric_is_nan(DatumGetNumeric(elements[i])) || numeric_is_inf(DatumGetNumeric(elements[i])) ?
			VECTOR_NOT_FINITE : VECTOR_OUT_OF_RANGE;
	}
	pfree(elements);
	return problem;
}

static VectorProblem
ConvertToFloats(ArrayType *array, VectorForm form, int dimensions, float *row, int *element)
{
	if (form == VECTOR_NUMERIC)
		return ConvertNumerics(array, row, element);
	if (CopyFinite((float *) ARR_DATA_PTR(array), row, dimensions))
		return VECTOR_OK;
	for (*element = 1; isfinite(row[*element - 1]); (*element)++)
		;
	return VECTOR_NOT_FINITE;
}

/* Converts elements of any form to doubles; other forms than float8 pass through floats. */
static VectorProblem
ConvertToDoubles(ArrayType *array, VectorForm form, int dimensions, double *row, int *element)
{
	float	   *floats = (float *) row + dimensions;
	VectorProblem problem;

	if (form == VECTOR_FLOAT8)
	{
		if (CopyFiniteDoubles((double *) ARR_DATA_PTR(array), row, dimensions))
			return VECTOR_OK;
		for (*element = 1; isfinite(row[*element - 1]); (*element)++)
			;
		return VECTOR_NOT_FINITE;
	}
	/* the floats go into the second half of the row, where each is read before it is overwritten */
	problem = ConvertToFloats(array, form, dimensions, floats, element);
	for (int k = 0; k < dimensions; k++)
	{
		float		number;

		memcpy(&number, floats + k, sizeof(number));
		row[k] = number;
	}
	return problem;
}

void
CopyBits(const void *from, float *to, int n)
{
	Size		bytes = ((Size) n + BITS_PER_BYTE - 1) / BITS_PER_BYTE;

	memcpy(to, from, bytes);
	memset((char *) to + bytes, 0, RowBytes(FASTED_ELEMENT_BIT, n) - bytes);
}

VectorProblem
VectorElements(struct varlena *vector, const VectorSource *source, int dimensions, float *row,
			   int *element)
{
	ArrayType  *array = (ArrayType *) vector;
	VectorProblem problem;

	if (source->form == VECTOR_BIT)
	{
		CopyBits(VARBITS(vector), row, dimensions);
		return VECTOR_OK;
	}
	if (source->element != FASTED_ELEMENT_DOUBLE)
		return ConvertToFloats(array, source->form, dimensions, row, element);
	problem = ConvertToDoubles(array, source->form, dimensions, (double *) row, element);
	if (problem == VECTOR_OK && fasted_metric_rules(source->metric)->has_direction)
		fasted_scale_direction((double *) row, dimensions);
	return problem;
}

bool
VectorIsZero(struct varlena *vector, VectorForm form, int dimensions)
{
	ArrayType  *array = (ArrayType *) vector;
	float	   *row;
	int			element;
	bool		zero;

	if (form != VECTOR_NUMERIC)
		return RowIsZero((float *) ARR_DATA_PTR(array),
						 form == VECTOR_FLOAT8 ? FASTED_ELEMENT_DOUBLE : FASTED_ELEMENT_REAL,
						 dimensions);
	row = palloc(RowBytes(FASTED_ELEMENT_REAL, dimensions));
	(void) ConvertNumerics(array, row, &element);
	zero = RowIsZero(row, FASTED_ELEMENT_REAL, dimensions);
	pfree(row);
	return zero;
}

static const struct
{
	int			sqlstate;
	const char *message;
	const char *hint;
}			problems[] = {
	[VECTOR_EMPTY] = {ERRCODE_ARRAY_SUBSCRIPT_ERROR,
		gettext_noop("vector has no elements"),
		gettext_noop("Store NULL for a row without a vector: such rows are skipped.")},
	[VECTOR_NOT_FLAT] = {ERRCODE_ARRAY_SUBSCRIPT_ERROR,
		gettext_noop("vector is an array with %d dimensions"),
		gettext_noop("A vector is a one-dimensional array.")},
	[VECTOR_HAS_NULL] = {ERRCODE_NULL_VALUE_NOT_ALLOWED,
		gettext_noop("vector has a null element"),
		gettext_noop("Give the element a value, or store NULL for the whole vector.")},
	[VECTOR_NOT_FINITE] = {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
		gettext_noop("vector has an element that is NaN or infinite"),
		gettext_noop("Distances need finite values; store NULL for a row without a usable vector.")},
	[VECTOR_OUT_OF_RANGE] = {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
		gettext_noop("vector has an element beyond the range of type real"),
		gettext_noop("Vectors of type numeric[] are converted to real[]. Cast them to double precision[], or scale their values to below 3.4e38.")},
};

int
errvector(VectorProblem problem, const struct varlena *vector)
{
	int			ndim = problem == VECTOR_NOT_FLAT ? ARR_NDIM((const ArrayType *) vector) : 0;

	errcode(problems[problem].sqlstate);
	return errmsg(problems[problem].message, ndim);
}

void
ReportVectorProblem(VectorProblem problem, struct varlena *vector, int element,
					const VectorSource *source, const char *row_name)
{
	if (problem == VECTOR_HAS_NULL)
		for (element = 1; ARR_NULLBITMAP((ArrayType *) vector)[(element - 1) / 8] & (1 << ((element - 1) % 8));)
			element++;
	ereport(ERROR,
			(errvector(problem, vector),
			 source->relation == NULL && element == 0 ? errdetail("The vector is in row %s of the partition.", row_name) :
			 source->relation == NULL ?
			 errdetail("The element is number %d of the vector in row %s of the partition.", element, row_name) :
			 element == 0 ?
			 errdetail("The vector is in the row with %s, column \"%s\" of \"%s\".",
					   row_name, source->vector_column, source->relation) :
			 errdetail("The element is number %d of the vector in the row with %s, column \"%s\" of \"%s\".",
					   element, row_name, source->vector_column, source->relation),
			 errhint("%s", _(problems[problem].hint))));
}

/* --- hashes of rows */

static inline uint64
Mix(uint64 hash, uint64 word)
{
	hash = (hash ^ word) * UINT64CONST(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static inline uint64
WordAt(const char *from)
{
	uint64		word;

	memcpy(&word, from, sizeof(word));
	return word;
}

/*
 * Hashes words in four interleaved streams.  They are variables of their own, because a compiler would
 * compute an array of them by vector instructions, which have no product of 64 bits.
 */
uint64
RowHash(const float *row, Size bytes, uint64 seed)
{
	const char *from = (const char *) row;
	const char *end = from + bytes;
	uint64		a = seed;
	uint64		b = 1;
	uint64		c = 2;
	uint64		d = 3;
	uint32		half = 0;

	for (; end - from >= 4 * (ptrdiff_t) sizeof(uint64); from += 4 * sizeof(uint64))
	{
		a = Mix(a, WordAt(from));
		b = Mix(b, WordAt(from + sizeof(uint64)));
		c = Mix(c, WordAt(from + 2 * sizeof(uint64)));
		d = Mix(d, WordAt(from + 3 * sizeof(uint64)));
	}
	for (; end - from >= (ptrdiff_t) sizeof(uint64); from += sizeof(uint64))
		a = Mix(a, WordAt(from));
	if (from != end)
		memcpy(&half, from, sizeof(half));
	return Mix(Mix(Mix(Mix(a, half), b), c), d);
}

/*
 * Doubles: the square of a difference is zero only if they are equal, or if both are so small.  Others
 * differ by at least 2^-53 of the larger one, which is more than 1e-156.
 */
void
CopyForEquality(float *to, const float *row, FastedElement element, uint32 dimensions)
{
	const double *doubles = (const double *) row;

	if (element == FASTED_ELEMENT_BIT)
		memcpy(to, row, RowBytes(element, dimensions));
	else if (element == FASTED_ELEMENT_DOUBLE)
		for (uint32 i = 0; i < dimensions; i++)
			((double *) to)[i] = fabs(doubles[i]) < 1e-140 ? 0.0 : doubles[i];
	else
		for (uint32 i = 0; i < dimensions; i++)
			to[i] = row[i] == 0.0f ? 0.0f : row[i];
}
