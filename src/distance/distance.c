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
#include "session/arguments.h"

PG_FUNCTION_INFO_V1(fasted_distance);
PG_FUNCTION_INFO_V1(fasted_cosine_distance);
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

/* Both arguments, which must have the same number of dimensions. */
static void
GetVectors(FunctionCallInfo fcinfo, const char *function, Vector *a, Vector *b)
{
	*a = GetVector(PG_GETARG_ARRAYTYPE_P(0), function, "a");
	*b = GetVector(PG_GETARG_ARRAYTYPE_P(1), function, "b");
	if (a->dimensions != b->dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 errdetail("Arguments of %s: a has %d, and b %d.", function,
						   a->dimensions, b->dimensions)));
}

/* By the best kernel of this processor: all give the same bits. */
static double
Distance(const float *x, const float *y, uint32 dimensions)
{
	static const CpuKernel *kernel = NULL;

	if (kernel == NULL)
		kernel = fasted_cpu_choose_kernel(NULL);
	return kernel->distance(x, y, dimensions);
}

#if defined(__x86_64__)
/* The same steps, where the processor has an instruction for fma. */
__attribute__((target("avx2,fma")))
static double
CosineByFma(const float *x, const float *y, uint32 dimensions)
{
	return fasted_exact_cosine(x, y, dimensions);
}
#endif

static double
Cosine(const float *x, const float *y, uint32 dimensions)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return CosineByFma(x, y, dimensions);
#endif
	return fasted_exact_cosine(x, y, dimensions);
}

double
ExactDistance(FastedMetric metric, const float *x, const float *y, uint32 dimensions)
{
	return metric == FASTED_METRIC_COSINE ? Cosine(x, y, dimensions) : Distance(x, y, dimensions);
}

static double
DistanceOf(FastedMetric metric, const Vector *a, const Vector *b)
{
	return ExactDistance(metric, a->elements, b->elements, a->dimensions);
}

Datum
fasted_distance(PG_FUNCTION_ARGS)
{
	Vector		a;
	Vector		b;

	GetVectors(fcinfo, "fasted_distance", &a, &b);
	PG_RETURN_FLOAT8(DistanceOf(FASTED_METRIC_L2, &a, &b));
}

Datum
fasted_cosine_distance(PG_FUNCTION_ARGS)
{
	Vector		a;
	Vector		b;

	GetVectors(fcinfo, "fasted_cosine_distance", &a, &b);
	PG_RETURN_FLOAT8(DistanceOf(FASTED_METRIC_COSINE, &a, &b));
}

Datum
fasted_within(PG_FUNCTION_ARGS)
{
	double		eps = PG_GETARG_FLOAT8(2);
	FastedMetric metric = MetricFromText(PG_GETARG_TEXT_PP(3));
	Vector		a;
	Vector		b;

	if (isnan(eps) || eps < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be %s", isnan(eps) ? "NaN" : "negative")));
	GetVectors(fcinfo, "fasted_within", &a, &b);
	PG_RETURN_BOOL(DistanceOf(metric, &a, &b) <= eps);
}
