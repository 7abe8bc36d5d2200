/*-------------------------------------------------------------------------
 *
 * distance.c
 *	  SQL functions of two vectors: checks, and the canonical distance.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "distance/distance.h"
#include "cpu/cpu_kernel.h"
#include "engine/exact_distance.h"
#include "read/vector.h"

PG_FUNCTION_INFO_V1(fasted_distance);
PG_FUNCTION_INFO_V1(fasted_within);

/* A checked argument: its elements where they lie. */
typedef struct Vector
{
	const float *elements;
	int			dimensions;
} Vector;

static Vector
GetVector(ArrayType *array, const char *function, const char *name)
{
	Vector		vector;
	VectorProblem problem = VectorShape(array, &vector.dimensions);

	vector.elements = (const float *) ARR_DATA_PTR(array);
	for (int k = 0; problem == VECTOR_OK && k < vector.dimensions; k++)
	{
		if (!isfinite(vector.elements[k]))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element that is %s",
							isnan(vector.elements[k]) ? "NaN" : "infinite"),
					 errdetail("Argument %s of %s, element %d.", name, function, k + 1),
					 errhint("Distances need finite numbers.")));
	}
	switch (problem)
	{
		case VECTOR_EMPTY:
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("vector has no elements"),
					 errdetail("Argument %s of %s.", name, function)));
			break;
		case VECTOR_NOT_FLAT:
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("vector is an array of %d dimensions", ARR_NDIM(array)),
					 errdetail("Argument %s of %s.", name, function)));
			break;
		case VECTOR_HAS_NULL:
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("vector has a null element"),
					 errdetail("Argument %s of %s.", name, function)));
			break;
		default:
			break;
	}
	return vector;
}

/* The canonical distance, by the best kernel of this processor: all give the same bits. */
static double
Distance(FunctionCallInfo fcinfo, const char *function)
{
	static const CpuKernel *kernel = NULL;
	Vector		a = GetVector(PG_GETARG_ARRAYTYPE_P(0), function, "a");
	Vector		b = GetVector(PG_GETARG_ARRAYTYPE_P(1), function, "b");

	if (a.dimensions != b.dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 errdetail("Arguments of %s: a has %d, and b %d.", function,
						   a.dimensions, b.dimensions)));
	if (kernel == NULL)
		kernel = fasted_cpu_choose_kernel(NULL);
	return kernel->distance(a.elements, b.elements, a.dimensions);
}

Datum
fasted_distance(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(Distance(fcinfo, "fasted_distance"));
}

Datum
fasted_within(PG_FUNCTION_ARGS)
{
	double		eps = PG_GETARG_FLOAT8(2);

	if (isnan(eps) || eps < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be %s", isnan(eps) ? "NaN" : "negative")));
	PG_RETURN_BOOL(Distance(fcinfo, "fasted_within") <= eps);
}
