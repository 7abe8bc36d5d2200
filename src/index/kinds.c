/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  What the access method has to know of each operator class: conversions, and how much the
 *	  operators round.
 *
 * Unit roundoff is u = 2^-53 for arrays.  Their operators add products in 32 partial sums, and then the
 * partial sums (exact_distance.h), so that a sum of d products has a relative error, with respect to the
 * sum of their magnitudes, of at most (d / 32 + 7) u, to first order.  This is also the error of |x|^2 |y|^2,
 * halved by the root, twice.  Together with a difference of coordinates, a root, a quotient and a difference, no
 * distance has an error of more than (d + 16) u.  `relative` is twice as much, for terms of higher order.
 *
 * With floats, nothing overflows or underflows.  With doubles, there is no overflow up to `most`, but terms
 * below 2^-1022 may be lost: at most d 2^-1022 of a sum, which is less than 2^-1000, and its root less than
 * 2^-500.
 *
 * pgvector adds up in FP32, in an order that its compiler chooses, with or without fused
 * multiplications: u = 2^-24, and the error of a sum is at most (d + 2) u.  Two of these, of x.y and of
 * the norms, are in a cosine distance, so `relative` is 2^-23 for all.  Norms within [2^-30, 2^30] exclude
 * overflow, also of |x|^2 |y|^2.  Products that underflow, or are flushed to zero, lose at most 2^-126 each,
 * and 16000 of them 2^-112; the root of that is 2^-56, and its quotient by |x| |y| is 2^-52.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "index/ball.h"
#include "index/index.h"
#include "rows/vector.h"
#include "utils/array.h"
#include "utils/varbit.h"

/* --- arrays, of the type of the column or, in the operand of an order, of the other type */

static int
ArrayDimensions(Datum value)
{
	ArrayType  *array = (ArrayType *) DatumGetPointer(value);
	VectorForm	form = ARR_ELEMTYPE(array) == FLOAT8OID ? VECTOR_FLOAT8 : VECTOR_FLOAT4;
	int			dimensions;
	VectorProblem problem = VectorShape((struct varlena *) array, form, &dimensions);

	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, (struct varlena *) array)));
	return dimensions;
}

static void
ArrayElements(Datum value, int dimensions, double *to)
{
	ArrayType  *array = (ArrayType *) DatumGetPointer(value);
	const char *from = ARR_DATA_PTR(array);

	if (ARR_ELEMTYPE(array) == FLOAT8OID)
		memcpy(to, from, dimensions * sizeof(double));
	else
	{
		for (int k = 0; k < dimensions; k++)
			to[k] = ((const float *) from)[k];
	}
}

/* --- pgvector's types, in the format that its tables have */

typedef struct PgVector
{
	int32		vl_len_;		/* varlena header; do not access directly */
	int16		dimensions;
	int16		unused;
	union
	{
		float		x[1];
		uint16		half[1];
	}			elements;
} PgVector;

static int
VectorDimensions(Datum value)
{
	return ((const PgVector *) DatumGetPointer(value))->dimensions;
}

static void
VectorElements32(Datum value, int dimensions, double *to)
{
	const float *from = ((const PgVector *) DatumGetPointer(value))->elements.x;

	for (int k = 0; k < dimensions; k++)
		to[k] = from[k];
}

/* Numbers of 16 bits: the sign, 5 bits of exponent, 10 of the mantissa. */
static void
VectorElements16(Datum value, int dimensions, double *to)
{
	const uint16 *from = ((const PgVector *) DatumGetPointer(value))->elements.half;

	for (int k = 0; k < dimensions; k++)
	{
		int			exponent = from[k] >> 10 & 0x1f;
		int			mantissa = from[k] & 0x3ff;
		double		magnitude = exponent > 0 ? ldexp(mantissa + 0x400, exponent - 25) : ldexp(mantissa, -24);

		to[k] = from[k] & 0x8000 ? -magnitude : magnitude;
	}
}

/* --- bits */

static int
BitDimensions(Datum value)
{
	return VARBITLEN((const VarBit *) DatumGetPointer(value));
}

static void
BitElements(Datum value, int dimensions, double *to)
{
	CopyBitElements((const VarBit *) DatumGetPointer(value), dimensions, to);
}

/* --- balls */

static int
BallDimensions(Datum value)
{
	return ((const Ball *) DatumGetPointer(value))->dimensions;
}

static void
BallElements(Datum value, int dimensions, double *to)
{
	memcpy(to, ((const Ball *) DatumGetPointer(value))->centre, dimensions * sizeof(double));
}

static double
BallRadius(Datum value)
{
	return ((const Ball *) DatumGetPointer(value))->radius;
}

/* --- the classes */

#define OF_ARRAYS .dimensions = ArrayDimensions, .elements = ArrayElements, .relative = 0x1p-52, \
	.absolute = 0x1p-500, .most = 0x1p400

/* a Jaccard distance is 1 minus a quotient; both are rounded */
#define OF_BITS .dimensions = BitDimensions, .elements = BitElements, .absolute = 0x1p-50, .most = 0x1p30
#define OF_VECTORS .dimensions = VectorDimensions, .elements = VectorElements32, .relative = 0x1p-23, \
	.absolute = 0x1p-50, .most = 0x1p30
#define OF_HALVES .dimensions = VectorDimensions, .elements = VectorElements16, .relative = 0x1p-23, \
	.absolute = 0x1p-50, .most = 0x1p30

/* A zero vector has no direction, so that its cosine distance is NaN. */
#define LEAST_DIRECTION 0x1p-200
#define LEAST_PGVECTOR_DIRECTION 0x1p-30

/* Defines the SQL function that returns an IndexedKind with these members. */
#define DEFINE_KIND(function, ...) \
	PG_FUNCTION_INFO_V1(function); \
	extern PGDLLEXPORT Datum function(PG_FUNCTION_ARGS); \
	\
	Datum \
	function(PG_FUNCTION_ARGS) \
	{ \
		static const IndexedKind kind = {__VA_ARGS__}; \
		\
		PG_RETURN_POINTER(&kind); \
	} \
	StaticAssertDecl(true, #function)

DEFINE_KIND(fasted_array_l2_kind,.metric = FASTED_METRIC_L2, OF_ARRAYS);
DEFINE_KIND(fasted_array_cosine_kind,.metric = FASTED_METRIC_COSINE,.least = LEAST_DIRECTION, OF_ARRAYS);
DEFINE_KIND(fasted_array_product_kind,.metric = FASTED_METRIC_INNER_PRODUCT, OF_ARRAYS);
DEFINE_KIND(fasted_ball_kind,.metric = FASTED_METRIC_L2,.dimensions = BallDimensions,
			.elements = BallElements,.radius = BallRadius,.relative = 0x1p-52,.absolute = 0x1p-500,
			.most = 0x1p400);
DEFINE_KIND(fasted_vector_l2_kind,.metric = FASTED_METRIC_L2, OF_VECTORS);
DEFINE_KIND(fasted_vector_cosine_kind,.metric = FASTED_METRIC_COSINE,.least = LEAST_PGVECTOR_DIRECTION, OF_VECTORS);
DEFINE_KIND(fasted_vector_product_kind,.metric = FASTED_METRIC_INNER_PRODUCT, OF_VECTORS);
DEFINE_KIND(fasted_halfvec_l2_kind,.metric = FASTED_METRIC_L2, OF_HALVES);
DEFINE_KIND(fasted_halfvec_cosine_kind,.metric = FASTED_METRIC_COSINE,.least = LEAST_PGVECTOR_DIRECTION, OF_HALVES);
DEFINE_KIND(fasted_halfvec_product_kind,.metric = FASTED_METRIC_INNER_PRODUCT, OF_HALVES);
DEFINE_KIND(fasted_bit_hamming_kind,.metric = FASTED_METRIC_HAMMING, OF_BITS);
DEFINE_KIND(fasted_bit_jaccard_kind,.metric = FASTED_METRIC_JACCARD, OF_BITS);
