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

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "index/ball.h"
#include "index/index.h"
#include "rows/vector.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(fasted_index_kind);

/* --- arrays, of the type of the column or, in the operand of an order, of the other type */

static int
ArrayDimensions(Datum value)
{
	ArrayType  *array = (ArrayType *) DatumGetPointer(value);
	int			dimensions;
	VectorProblem problem = VectorShape((struct varlena *) array, VECTOR_FLOAT8, &dimensions);

	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, (struct varlena *) array)));
	return dimensions;
}

void
CopyArrayElements(ArrayType *array, int n, double *to)
{
	const char *from = ARR_DATA_PTR(array);

	if (ARR_ELEMTYPE(array) == FLOAT8OID)
		memcpy(to, from, n * sizeof(double));
	else
	{
		for (int k = 0; k < n; k++)
			to[k] = ((const float *) from)[k];
	}
}

static void
ArrayElements(Datum value, int dimensions, double *to)
{
	CopyArrayElements((ArrayType *) DatumGetPointer(value), dimensions, to);
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

#define OF_BALLS .dimensions = BallDimensions, .elements = BallElements, .radius = BallRadius, \
	.relative = 0x1p-52, .absolute = 0x1p-500, .most = 0x1p400
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

/* The kinds, by the type of the column and the operator of its order. */
static const struct
{
	const char *type;
	const char *order;
	IndexedKind kind;
}			kinds[] = {
	{"_float4", "<->", {FASTED_METRIC_L2, OF_ARRAYS}},
	{"_float4", "<=>", {FASTED_METRIC_COSINE, OF_ARRAYS,.least = LEAST_DIRECTION}},
	{"_float4", "<#>", {FASTED_METRIC_INNER_PRODUCT, OF_ARRAYS}},
	{"_float8", "<->", {FASTED_METRIC_L2, OF_ARRAYS}},
	{"_float8", "<=>", {FASTED_METRIC_COSINE, OF_ARRAYS,.least = LEAST_DIRECTION}},
	{"_float8", "<#>", {FASTED_METRIC_INNER_PRODUCT, OF_ARRAYS}},
	{"fasted_ball", "", {FASTED_METRIC_L2, OF_BALLS}},
	{"vector", "<->", {FASTED_METRIC_L2, OF_VECTORS}},
	{"vector", "<=>", {FASTED_METRIC_COSINE, OF_VECTORS,.least = LEAST_PGVECTOR_DIRECTION}},
	{"vector", "<#>", {FASTED_METRIC_INNER_PRODUCT, OF_VECTORS}},
	{"halfvec", "<->", {FASTED_METRIC_L2, OF_HALVES}},
	{"halfvec", "<=>", {FASTED_METRIC_COSINE, OF_HALVES,.least = LEAST_PGVECTOR_DIRECTION}},
	{"halfvec", "<#>", {FASTED_METRIC_INNER_PRODUCT, OF_HALVES}},
	{"bit", "<~>", {FASTED_METRIC_HAMMING, OF_BITS}},
	{"bit", "<%>", {FASTED_METRIC_JACCARD, OF_BITS}}
};

static const IndexedKind *
FindKind(Relation index)
{
	Oid			type = index->rd_opcintype[0];
	Oid			order = get_opfamily_member(index->rd_opfamily[0], type, type, INDEX_ORDER_STRATEGY);
	const char *operator = OidIsValid(order) ? get_opname(order) : "";
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	const IndexedKind *found = NULL;

	for (size_t i = 0; HeapTupleIsValid(tuple) && i < lengthof(kinds); i++)
	{
		if (strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), kinds[i].type) == 0 &&
			strcmp(operator, kinds[i].order) == 0)
			found = &kinds[i].kind;
	}
	if (found == NULL)
		elog(ERROR, "operator class of index \"%s\" is not one of fasted", RelationGetRelationName(index));
	ReleaseSysCache(tuple);
	return found;
}

/* Support function 1. */
Datum
fasted_index_kind(PG_FUNCTION_ARGS)
{
	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra = (void *) FindKind((Relation) PG_GETARG_POINTER(0));
	PG_RETURN_POINTER(fcinfo->flinfo->fn_extra);
}
