/*-------------------------------------------------------------------------
 *
 * index.h
 *	  The access method "fasted": what its operator classes supply.
 *
 * The first column of an index is a vector, or a ball (ball.h).  Its operator class has these
 * operators, of which a family may omit some:
 *
 *	  strategy 1	ORDER BY vector <-> vector (float_ops)
 *	  strategy 2	vector <@ fasted_ball: the distance of vector and centre is at most the radius (the operator
 *				itself is true for all vectors: the condition that it follows from decides)
 *	  strategy 3	fasted_ball && fasted_ball: the distance of the centres is at most the sum of radii
 *
 * (the left operand of strategy 2 is declared as anyelement), and support function 1, which gets the index's
 * relation and returns a pointer to a constant IndexedKind, both as internal.  Further columns are compared for
 * equality.  Their operator classes have
 *
 *	  strategy 4	value = value
 *
 * and support function 2, the hash function of the type (value) returns int4, of which equal values have
 * equal results.
 *
 * A scan returns rows that the executor checks with the operators themselves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INDEX_H
#define FASTED_INDEX_H

#include "engine/engine.h"
#include "fmgr.h"

#define INDEX_ORDER_STRATEGY 1
#define INDEX_WITHIN_STRATEGY 2
#define INDEX_OVERLAP_STRATEGY 3
#define INDEX_EQUAL_STRATEGY 4
#define INDEX_STRATEGIES 4

#define INDEX_KIND_PROC 1
#define INDEX_HASH_PROC 2
#define INDEX_PROCS 2

/*
 * What an index has to know of an operator class for vectors or balls.
 *
 * The result of the class's operator for two vectors x and y that are finite, with `least` <= |x|, |y|
 * <= `most` (Euclidean norms; bits have the elements 0 and 1), differs from the true distance D by at most
 *
 *	  Euclidean			relative (d + 16) D + absolute
 *	  cosine			relative (d + 16) + absolute
 *	  inner product		relative (d + 16) |x| |y| + absolute
 *
 * for d dimensions; distances of bits are exact.  Vectors with other norms are returned by every scan,
 * so that `least` and `most` need not be exact, but typical vectors must be between them.
 */
typedef struct IndexedKind
{
	FastedMetric metric;

	/*
	 * Returns the number of dimensions of a value, which is detoasted.  Error: the value is not one
	 * that the operators accept, such as an array with nulls.
	 */
	int			(*dimensions) (Datum value);

	/* Converts that many elements to doubles, without rounding. */
	void		(*elements) (Datum value, int dimensions, double *to);

	/* Returns the radius of a ball; NULL if values are vectors. */
	double		(*radius) (Datum value);

	double		relative;
	double		absolute;
	double		least;
	double		most;
} IndexedKind;

extern PGDLLEXPORT Datum fasted_handler(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_index_check(PG_FUNCTION_ARGS);
extern PGDLLEXPORT Datum fasted_index_kind(PG_FUNCTION_ARGS);

#endif							/* FASTED_INDEX_H */
