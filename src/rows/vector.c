/*-------------------------------------------------------------------------
 *
 * vector.c
 *	  Converts and checks the elements, one form of array after the other.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "engine/engine.h"
#include "engine/exact_distance.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#define FLOAT_SIGN UINT32_C(0x80000000)
#define FLOAT_EXPONENT UINT32_C(0x7f800000)
#define FLOAT_LEAST_EXPONENT UINT32_C(0x00800000)

VectorProblem
VectorShape(const ArrayType *array, int *dimensions)
{
	*dimensions = 0;
	if (ARR_NDIM(array) == 0)
		return VECTOR_EMPTY;
	if (ARR_NDIM(array) != 1)
		return VECTOR_NOT_FLAT;
	*dimensions = ARR_DIMS(array)[0];
	return ARR_HASNULL(array) && array_contains_nulls((ArrayType *) array) ?
		VECTOR_HAS_NULL : VECTOR_OK;
}

/*
 * The inner loops of reading: one pass without a branch, which the compiler
 * vectorises (the Makefile asks for it).  An element is not finite if its
 * exponent is all ones, and then adding one to the exponent sets the sign bit.
 */
static inline uint32
SignIfNotFinite(uint32 bits)
{
	return (bits & FLOAT_EXPONENT) + FLOAT_LEAST_EXPONENT;
}

bool
CopyFinite(const float *from_floats, float *to_floats, int n)
{
	const uint32 *from = (const uint32 *) from_floats;
	uint32	   *to = (uint32 *) to_floats;
	uint32		signs = 0;

	for (int i = 0; i < n; i++)
	{
		to[i] = from[i];
		signs |= SignIfNotFinite(from[i]);
	}
	return (signs & FLOAT_SIGN) == 0;
}

/* The same of doubles: what is not finite makes a sum of zeros not a number. */
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

static bool
NarrowFinite(const double *from, float *to, int n)
{
	uint32		signs = 0;

	for (int i = 0; i < n; i++)
	{
		float		f = (float) from[i];
		uint32		bits;

		memcpy(&bits, &f, sizeof(bits));
		signs |= SignIfNotFinite(bits);
		to[i] = f;
	}
	return (signs & FLOAT_SIGN) == 0;
}

/*
 * numeric has no binary form to convert from: as its own cast to real does it, by
 * way of its text, which is rounded once.
 */
static bool
NarrowNumerics(ArrayType *array, float *to)
{
	Datum	   *elements;
	int			n;
	bool		finite = true;

	deconstruct_array(array, NUMERICOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
	{
		char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, elements[i]));

		to[i] = strtof(text, NULL);
		finite &= isfinite(to[i]) != 0;
		pfree(text);
	}
	pfree(elements);
	return finite;
}

/* Is the element, which is not finite as real, finite as it came? */
static bool
CameFinite(ArrayType *array, VectorForm form, int i)
{
	int			subscript = ARR_LBOUND(array)[0] + i;
	bool		isnull;
	Datum		number;

	switch (form)
	{
		case VECTOR_FLOAT4:
			return false;
		case VECTOR_FLOAT8:
			return isfinite(((double *) ARR_DATA_PTR(array))[i]);
		case VECTOR_NUMERIC:
			number = array_get_element(PointerGetDatum(array), 1, &subscript, -1, -1, false,
									   TYPALIGN_INT, &isnull);
			return !numeric_is_nan(DatumGetNumeric(number)) && !numeric_is_inf(DatumGetNumeric(number));
	}
	pg_unreachable();
}

static VectorProblem
FirstBadElement(ArrayType *array, const RowKind *kind, const float *row, int n, int *element)
{
	bool		doubles = kind->element == FASTED_ELEMENT_DOUBLE;

	for (int i = 0; i < n; i++)
	{
		if (isfinite(doubles ? ((const double *) row)[i] : row[i]))
			continue;
		*element = i + 1;
		return CameFinite(array, kind->form, i) ? VECTOR_OUT_OF_RANGE : VECTOR_NOT_FINITE;
	}
	pg_unreachable();
}

static bool
MakeFloats(ArrayType *array, VectorForm form, int dimensions, float *row)
{
	switch (form)
	{
		case VECTOR_FLOAT4:
			return CopyFinite((float *) ARR_DATA_PTR(array), row, dimensions);
		case VECTOR_FLOAT8:
			return NarrowFinite((double *) ARR_DATA_PTR(array), row, dimensions);
		case VECTOR_NUMERIC:
			return NarrowNumerics(array, row);
	}
	pg_unreachable();
}

/* Of other forms too: floats, which doubles hold exactly. */
static bool
MakeDoubles(ArrayType *array, VectorForm form, int dimensions, double *row)
{
	float	   *floats = (float *) row + dimensions;
	bool		finite;

	if (form == VECTOR_FLOAT8)
		return CopyFiniteDoubles((double *) ARR_DATA_PTR(array), row, dimensions);
	/* in the second half of the room, where no float is overwritten before it is read */
	finite = MakeFloats(array, form, dimensions, floats);
	for (int k = 0; k < dimensions; k++)
	{
		float		number;

		memcpy(&number, floats + k, sizeof(number));
		row[k] = number;
	}
	return finite;
}

VectorProblem
VectorElements(ArrayType *array, const RowKind *kind, int dimensions, float *row, int *element)
{
	bool		doubles = kind->element == FASTED_ELEMENT_DOUBLE;
	bool		finite = doubles ? MakeDoubles(array, kind->form, dimensions, (double *) row) :
		MakeFloats(array, kind->form, dimensions, row);

	if (!finite)
		return FirstBadElement(array, kind, row, dimensions, element);
	if (doubles && kind->metric == FASTED_METRIC_COSINE)
		fasted_scale_direction((double *) row, dimensions);
	return VECTOR_OK;
}

static bool
NumericsAreZero(ArrayType *array)
{
	ArrayIterator elements = array_create_iterator(array, 0, NULL);
	Datum		element;
	bool		isnull;
	bool		zero = true;

	while (zero && array_iterate(elements, &element, &isnull))
	{
		char	   *text = DatumGetCString(DirectFunctionCall1(numeric_out, element));

		zero = strtof(text, NULL) == 0.0f;
		pfree(text);
	}
	array_free_iterator(elements);
	return zero;
}

bool
VectorIsZero(ArrayType *array, const RowKind *kind, int dimensions)
{
	switch (kind->form)
	{
		case VECTOR_FLOAT4:
			return RowIsZero((float *) ARR_DATA_PTR(array), FASTED_ELEMENT_REAL, dimensions);
		case VECTOR_FLOAT8:
			if (kind->element == FASTED_ELEMENT_DOUBLE)
				return RowIsZero((float *) ARR_DATA_PTR(array), FASTED_ELEMENT_DOUBLE, dimensions);
			for (int k = 0; k < dimensions; k++)
				if ((float) ((double *) ARR_DATA_PTR(array))[k] != 0.0f)
					return false;
			return true;
		case VECTOR_NUMERIC:
			return NumericsAreZero(array);
	}
	pg_unreachable();
}

static int
FirstNullElement(ArrayType *array)
{
	bits8	   *bitmap = ARR_NULLBITMAP(array);
	int			n = ARR_DIMS(array)[0];

	for (int i = 0; i < n; i++)
		if ((bitmap[i / 8] & (1 << (i % 8))) == 0)
			return i + 1;
	return 0;
}

void
ReportVectorProblem(VectorProblem problem, ArrayType *array, int element,
					const VectorSource *source, const char *row_name)
{
	switch (problem)
	{
		case VECTOR_OK:
			break;
		case VECTOR_EMPTY:
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("vector has no elements"),
					 errdetail("Row with %s, column \"%s\" of \"%s\".",
							   row_name, source->vector_column, source->relation),
					 errhint("Store NULL for a row without a vector: it takes no part in the join.")));
			break;
		case VECTOR_NOT_FLAT:
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("vector is an array of %d dimensions", ARR_NDIM(array)),
					 errdetail("Row with %s, column \"%s\" of \"%s\".",
							   row_name, source->vector_column, source->relation),
					 errhint("A vector is a one-dimensional array.")));
			break;
		case VECTOR_HAS_NULL:
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("vector has a null element"),
					 errdetail("Row with %s, column \"%s\" of \"%s\", element %d.",
							   row_name, source->vector_column, source->relation,
							   FirstNullElement(array)),
					 errhint("Give the element a value, or store NULL for the whole vector.")));
			break;
		case VECTOR_NOT_FINITE:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element that is NaN or infinite"),
					 errdetail("Row with %s, column \"%s\" of \"%s\", element %d.",
							   row_name, source->vector_column, source->relation, element),
					 errhint("Distances need finite values; store NULL for a row without a usable vector.")));
			break;
		case VECTOR_OUT_OF_RANGE:
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element beyond the range of type real"),
					 errdetail("Row with %s, column \"%s\" of \"%s\", element %d.",
							   row_name, source->vector_column, source->relation, element),
					 errhint("Here it is compared in type real: cast numeric[] to double precision[], or scale vectors to below 3.4e38.")));
			break;
	}
	pg_unreachable();
}
