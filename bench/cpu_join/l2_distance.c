/*-------------------------------------------------------------------------
 *
 * l2_distance.c
 *	  A Euclidean distance function over real[], for a nested-loop join without
 *	  pgvector.
 *
 * The function is as fast as possible.  It computes in FP32 and is vectorized by
 * the compiler (-O3 -march=native -ffast-math).  It copies only arguments
 * that are compressed or stored out of line.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "fmgr.h"
#include "utils/array.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bench_l2_distance);

Datum
bench_l2_distance(PG_FUNCTION_ARGS)
{
	ArrayType  *a = PG_GETARG_ARRAYTYPE_P(0);
	ArrayType  *b = PG_GETARG_ARRAYTYPE_P(1);
	const float *x = (const float *) ARR_DATA_PTR(a);
	const float *y = (const float *) ARR_DATA_PTR(b);
	int			n = ARR_DIMS(a)[0];
	float		sum = 0;

	for (int i = 0; i < n; i++)
	{
		float		diff = x[i] - y[i];

		sum += diff * diff;
	}
	PG_RETURN_FLOAT8(sqrt((double) sum));
}
