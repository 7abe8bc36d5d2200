/*-------------------------------------------------------------------------
 *
 * distance.c
 *	  SQL functions of two vectors: checks, and the canonical distance.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/arguments.h"
#include "catalog/pg_type.h"
#include "cpu/cpu_kernel.h"
#include "distance/distance.h"
#include "engine/exact_distance.h"
#include "rows/vector.h"

PG_FUNCTION_INFO_V1(fasted_distance);
PG_FUNCTION_INFO_V1(fasted_cosine_distance);
PG_FUNCTION_INFO_V1(fasted_within);

/* A checked argument: its elements where they lie. */
typedef struct Vector
{
	FastedElement element;
	const float *elements;		/* or doubles */
	int			dimensions;
} Vector;

static double
Element(const Vector *vector, int k)
{
	return vector->element == FASTED_ELEMENT_DOUBLE ? ((const double *) vector->elements)[k] :
		vector->elements[k];
}

static Vector
GetVector(ArrayType *array, const char *function, const char *name)
{
	Vector		vector;
	VectorProblem problem = VectorShape(array, &vector.dimensions);

	vector.element = ARR_ELEMTYPE(array) == FLOAT8OID ? FASTED_ELEMENT_DOUBLE : FASTED_ELEMENT_REAL;
	vector.elements = (const float *) ARR_DATA_PTR(array);
	for (int k = 0; problem == VECTOR_OK && k < vector.dimensions; k++)
	{
		if (!isfinite(Element(&vector, k)))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element that is %s",
							isnan(Element(&vector, k)) ? "NaN" : "infinite"),
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
Distance(FastedElement element, const float *x, const float *y, uint32 dimensions)
{
	static const CpuKernel *kernel = NULL;

	if (kernel == NULL)
		kernel = fasted_cpu_choose_kernel(NULL);
	if (element == FASTED_ELEMENT_DOUBLE)
		return kernel->distance_double((const double *) x, (const double *) y, dimensions);
	return kernel->distance(x, y, dimensions);
}

static inline __attribute__((always_inline)) double
PlainCosine(FastedElement element, const float *x, const float *y, uint32 dimensions)
{
	if (element == FASTED_ELEMENT_DOUBLE)
		return fasted_exact_cosine_double((const double *) x, (const double *) y, dimensions);
	return fasted_exact_cosine(x, y, dimensions);
}

#if defined(__x86_64__)
/* The same steps, where the processor has an instruction for fma. */
__attribute__((target("avx2,fma")))
static double
CosineByFma(FastedElement element, const float *x, const float *y, uint32 dimensions)
{
	return PlainCosine(element, x, y, dimensions);
}
#endif

static double
Cosine(FastedElement element, const float *x, const float *y, uint32 dimensions)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return CosineByFma(element, x, y, dimensions);
#endif
	return PlainCosine(element, x, y, dimensions);
}

double
ExactDistance(FastedMetric metric, FastedElement element, const float *x, const float *y,
			  uint32 dimensions)
{
	return metric == FASTED_METRIC_COSINE ? Cosine(element, x, y, dimensions) :
		Distance(element, x, y, dimensions);
}

/* By cosine doubles are brought to scale, which they hardly ever need. */
static const float *
ElementsFor(FastedMetric metric, const Vector *vector)
{
	Size		bytes = vector->dimensions * sizeof(double);
	double	   *scaled;

	if (metric != FASTED_METRIC_COSINE || vector->element != FASTED_ELEMENT_DOUBLE)
		return vector->elements;
	scaled = palloc(bytes);
	memcpy(scaled, vector->elements, bytes);
	fasted_scale_direction(scaled, vector->dimensions);
	return (const float *) scaled;
}

static double
DistanceOf(FastedMetric metric, const Vector *a, const Vector *b)
{
	const float *x = ElementsFor(metric, a);
	const float *y = ElementsFor(metric, b);
	double		distance = ExactDistance(metric, a->element, x, y, a->dimensions);

	if (x != a->elements)
		pfree((float *) x);
	if (y != b->elements)
		pfree((float *) y);
	return distance;
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
