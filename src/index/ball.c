/*-------------------------------------------------------------------------
 *
 * ball.c
 *	  The SQL type fasted_ball, and its operators.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type_d.h"
#include "distance/distance.h"
#include "index/ball.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(fasted_ball_in);
PG_FUNCTION_INFO_V1(fasted_ball_out);
PG_FUNCTION_INFO_V1(fasted_ball);
PG_FUNCTION_INFO_V1(fasted_ball_overlaps);
PG_FUNCTION_INFO_V1(fasted_index_ball);
PG_FUNCTION_INFO_V1(fasted_maybe_within_ball);

static Ball *
NewBall(int dimensions, double radius)
{
	Size		bytes = offsetof(Ball, centre) + dimensions * sizeof(double);
	Ball	   *ball = palloc0(bytes);

	SET_VARSIZE(ball, bytes);
	ball->dimensions = dimensions;
	ball->radius = radius;
	return ball;
}

/* Returns a ball; raises an error if the vector or the radius is invalid. */
static Ball *
MakeBall(ArrayType *array, double radius)
{
	int			dimensions;
	VectorProblem problem = VectorShape((struct varlena *) array, VECTOR_FLOAT8, &dimensions);
	Ball	   *ball = NewBall(problem == VECTOR_OK ? dimensions : 0, radius);

	CopyArrayElements(array, ball->dimensions, ball->centre);
	for (int k = 0; k < ball->dimensions; k++)
	{
		if (!isfinite(ball->centre[k]))
			problem = VECTOR_NOT_FINITE;
	}
	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, (struct varlena *) array),
				 errdetail("The vector is the centre of a ball.")));
	if (!isfinite(radius) || radius < 0.0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("radius of a ball must be a finite number that is not negative")));
	return ball;
}

/* fasted_ball(vector, radius) */
Datum
fasted_ball(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(MakeBall(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_FLOAT8(1)));
}

/* --- text: <{x1,x2,...},radius> */

Datum
fasted_ball_in(PG_FUNCTION_ARGS)
{
	char	   *given = PG_GETARG_CSTRING(0);
	char	   *text = pstrdup(given);
	char	   *open = text + strspn(text, " \t\n\r\v\f");
	char	   *comma = strrchr(text, ',');
	char	   *close = strrchr(text, '>');
	Datum		centre;
	double		radius;

	if (*open != '<' || comma == NULL || close == NULL || close < comma ||
		close[1 + strspn(close + 1, " \t\n\r\v\f")] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
				 errmsg("invalid input syntax for type %s: \"%s\"", "fasted_ball", given),
				 errhint("Write a ball as <{1,2,3},0.5>.")));
	*comma = *close = '\0';
	centre = OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(open + 1), ObjectIdGetDatum(FLOAT8OID),
							  Int32GetDatum(-1));
	radius = DatumGetFloat8(DirectFunctionCall1(float8in, CStringGetDatum(comma + 1)));
	PG_RETURN_POINTER(MakeBall(DatumGetArrayTypeP(centre), radius));
}

Datum
fasted_ball_out(PG_FUNCTION_ARGS)
{
	const Ball *ball = DatumGetBall(PG_GETARG_DATUM(0));
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "<{");
	for (int k = 0; k < ball->dimensions; k++)
		appendStringInfo(&text, "%s%s", k > 0 ? "," : "", float8out_internal(ball->centre[k]));
	appendStringInfo(&text, "},%s>", float8out_internal(ball->radius));
	PG_RETURN_CSTRING(text.data);
}

/* --- balls of conditions */

void
CopyBitElements(const VarBit *bits, int n, double *to)
{
	for (int k = 0; k < n; k++)
		to[k] = VARBITS(bits)[k / BITS_PER_BYTE] >> (BITS_PER_BYTE - 1 - k % BITS_PER_BYTE) & 1;
}

/*
 * index_ball(vector, radius, least) returns the ball of a condition that holds only for distances up to
 * the radius, and for those that are NaN if `least` is NaN.  A radius that is NaN exceeds every distance.
 * Below `least`, the condition raises an error.  Raises no error itself, if the vector is of bits, of real[] or of
 * double precision[].
 */
Datum
fasted_index_ball(PG_FUNCTION_ARGS)
{
	Oid			type = getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 0));
	bool		bits = type == BITOID || type == VARBITOID;
	double		radius = PG_GETARG_FLOAT8(1);
	double		least = PG_GETARG_FLOAT8(2);
	int			dimensions;
	struct varlena *vector;
	VectorProblem problem;
	Ball	   *ball;

	if (!bits && type != FLOAT4ARRAYOID && type != FLOAT8ARRAYOID)
		elog(ERROR, "no index condition is on vectors of type %u", type);
	vector = PG_GETARG_VARLENA_P(0);
	problem = VectorShape(vector, bits ? VECTOR_BIT : VECTOR_FLOAT8, &dimensions);
	ball = NewBall(problem == VECTOR_OK ? dimensions : 0, radius);
	ball->undefined = isnan(least) || isnan(radius);
	if (isnan(radius) || radius < least || problem != VECTOR_OK)
		ball->radius = get_float8_infinity();
	if (bits)
		CopyBitElements((VarBit *) vector, ball->dimensions, ball->centre);
	else
		CopyArrayElements((ArrayType *) vector, ball->dimensions, ball->centre);
	PG_RETURN_POINTER(ball);
}

/* The operators of index conditions, all of them: the original condition decides. */
Datum
fasted_maybe_within_ball(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(true);
}

/* --- two balls */

/* Returns true if the distance of the centres is at most the sum of the radii, both in FP64. */
Datum
fasted_ball_overlaps(PG_FUNCTION_ARGS)
{
	const Ball *a = DatumGetBall(PG_GETARG_DATUM(0));
	const Ball *b = DatumGetBall(PG_GETARG_DATUM(1));

	if (a->dimensions != b->dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("balls have different numbers of dimensions"),
				 errdetail("The number of dimensions is %d and %d.", a->dimensions, b->dimensions)));
	PG_RETURN_BOOL(ExactDistance(FASTED_METRIC_L2, FASTED_ELEMENT_DOUBLE, (const float *) a->centre,
								 (const float *) b->centre, a->dimensions) <= a->radius + b->radius);
}
