/*-------------------------------------------------------------------------
 *
 * ball.h
 *	  The SQL type fasted_ball: all vectors within a distance of a vector.
 *
 * A condition on a distance becomes an index condition with a ball, which the planner adds beside the
 * condition (path.c).  Such balls may have any radius, also a negative one, as of inner products.  If a
 * ball has an infinite radius, a scan returns every row that has a distance.  So does it if the centre has
 * another number of dimensions than the vectors of the index: the executor then raises the error of the
 * condition.  A ball without a centre (dimensions 0) stands for a vector that is invalid.
 *
 * The cosine distance of a zero vector is not a number, which PostgreSQL takes for greater than all others:
 * no condition d < r holds, but 1 - d > r does.
 *
 * The type's own functions accept finite numbers and at least one dimension only.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BALL_H
#define FASTED_BALL_H

#include "fmgr.h"
#include "utils/array.h"
#include "utils/varbit.h"

typedef struct Ball
{
	int32		vl_len_;		/* varlena header; do not access directly */
	int32		dimensions;
	double		radius;
	bool		undefined;		/* also vectors whose distance is not a number */
	double		centre[FLEXIBLE_ARRAY_MEMBER];
} Ball;

#define DatumGetBall(datum) ((Ball *) PG_DETOAST_DATUM(datum))

/* Copies n elements of a vector of real[] or double precision[]. */
extern void CopyArrayElements(ArrayType *array, int n, double *to);

/* Copies n bits to zeros and ones. */
extern void CopyBitElements(const VarBit *bits, int n, double *to);

extern PGDLLEXPORT Datum fasted_ball_in(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_ball_out(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_ball(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_ball_overlaps(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_index_ball(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_maybe_within_ball(PG_FUNCTION_ARGS);

#endif							/* FASTED_BALL_H */
