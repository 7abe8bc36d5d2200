/*-------------------------------------------------------------------------
 *
 * kinds.h
 *	  Rows of many kinds, of one side or of two, for joins of floats.
 *
 *-------------------------------------------------------------------------
 */
#ifndef KINDS_H
#define KINDS_H

#include "join.h"

/* What the sides have in common depends on the row's number, and on the coordinate. */
typedef enum Kind
{
	NORMAL,
	OFFSET,						/* far from the origin, in one half of the sphere */
	CLUSTERS,
	INTEGERS,					/* many equal distances and right angles */
	BYTES,						/* 0 to 255, and a few fractions */
	BINARY,
	NEAR_COPIES,				/* few vectors, of which one bit in fifty differs */
	FAR_COPIES,					/* the same, around 1e6 and -1e6 */
	FAR,						/* around 1e6 and -1e6, at small distances */
	EQUAL,						/* one vector, repeated */
	ZEROS,
	HUGE_VALUES,
	SUBNORMAL,
	MAGNITUDES,					/* coordinates from 1e-30 to 1e30 */
	ROW_MAGNITUDES,				/* rows from 1e-20 to 1e20 */
	COLUMN_MAGNITUDES,
	OUTLIERS,					/* one row in a hundred is much longer */
	HUGE_COORDINATES,			/* one coordinate of a few rows */
	WILD,						/* out-of-range rows: not finite or huge */
	SCALES,						/* side b is a thousand times as large */
	EXTREME_SCALES,				/* 1e30 and 1e-30 */
	APART,						/* both sides are far from 0 and from each other */
	DIRECTIONS,					/* few directions, many lengths, and opposite directions */
	TIGHT,						/* one direction, except for the last bits */
	AXES,						/* one or two nonzero coordinates each */
	UNIT,						/* clusters of length 1 */
	LOW_RANK,					/* three directions, far from the origin */
	CONSTANT,					/* most coordinates are equal in all rows */
	TINY_STEPS,					/* distant clusters, within which rows differ in the last bits */
	KINDS
} Kind;

static const char *const kind_names[KINDS] = {
	"normal", "offset", "clusters", "integers", "bytes", "zeros and ones", "near copies", "far copies",
	"far", "equal", "zeros", "huge", "subnormal", "magnitudes", "row magnitudes", "column magnitudes",
	"outliers", "huge coordinates", "out of range", "scales", "extreme scales", "apart", "directions", "tight", "axes",
	"unit length", "low rank", "constant coordinates", "tiny steps"
};

/* A row's place, and three random numbers that belong to it. */
typedef struct RowSeed
{
	int			side;
	uint32_t	row;
	double		normal[3];
	uint32_t	bits;
} RowSeed;

/* Returns coordinate k of the centre of a cluster. */
static inline double
centre_of(uint32_t cluster, uint32_t k)
{
	return 2.0 * sin(1.0 + cluster * 50.0 + (double) k * k);
}

/* Returns coordinate k of a row of d coordinates, for kinds of few directions; v is a normal number. */
static inline float
value_along(Kind kind, const RowSeed *seed, uint32_t d, uint32_t k, double v)
{
	static const double factors[] = {1.0, 2.0, 3.0, -1.0, 0.1, 1e30, -1e-30, 1e-43};
	const double *w = seed->normal;
	uint32_t	row = seed->row;

	switch (kind)
	{
		case DIRECTIONS:
			return (float) ((float) centre_of(row % 37, k) * factors[seed->bits % 8]);
		case TIGHT:
			return (float) (centre_of(0, k) * exp(w[0]) * (1.0 + ldexp(v, -20 - (int) (seed->bits % 6))));
		case AXES:
			return k == seed->bits % d ? 1.0f : k == seed->bits / 2 % d ? -4.0f : 0.0f;
		case UNIT:
			return (float) ((centre_of(row % 12, k) + 0.05 * v) / sqrt(2.0 * d));
		case LOW_RANK:
			return (float) (1e3 + w[0] * sin(k) + w[1] * cos(3.0 * k) + w[2] * (k % 7));
		case CONSTANT:
			return k % 9 == 0 ? (float) v : 5.25f;
		case TINY_STEPS:
			return (float) ((row % 5) * 1e4 * cos(k + row % 5) * (1.0 + 1e-7 * floor(4.0 * v)));
		default:
			return (float) v;
	}
}

/* Returns coordinate k of a row of d coordinates. */
static inline float
value_of(Kind kind, const RowSeed *seed, uint32_t d, uint32_t k)
{
	uint32_t	row = seed->row;
	double		v = random_normal();
	double		sign = row % 2 == 0 ? 1.0 : -1.0;
	float		copy = (float) (centre_of(row % 37, k) + (kind == FAR_COPIES ? 1e6 * sign : 0.0));

	switch (kind)
	{
		case OFFSET:
			return (float) (1e4 + v);
		case CLUSTERS:
			return (float) (centre_of(row % 12, k) + 0.05 * v);
		case INTEGERS:
			return (float) floor(2.0 * v);
		case BYTES:
			return (float) random_below(256) + (row % 50 == 7 ? 0.25f : 0.0f);
		case BINARY:
			return (float) random_below(2);
		case NEAR_COPIES:
		case FAR_COPIES:
			return random_below(50) == 0 ? nextafterf(copy, 0.0f) : copy;
		case FAR:
			return (float) (1e6 * sign + 0.5 * v);
		case EQUAL:
			return (float) sin(k);
		case ZEROS:
			return 0.0f;
		case HUGE_VALUES:
			return (float) (6e37 * v);
		case SUBNORMAL:
			return (float) (1e-42 * v);
		case MAGNITUDES:
			return (float) (v * pow(10.0, (double) random_below(61) - 30));
		case ROW_MAGNITUDES:
			return (float) (v * pow(10.0, (double) (seed->bits % 41) - 20));
		case COLUMN_MAGNITUDES:
			return (float) ldexp(v, -(int) (k % 40));
		case OUTLIERS:
			return (float) (row % 100 == 17 ? 3e3 * v : v);
		case HUGE_COORDINATES:
			return k > 0 ? (float) v : row % 300 == 101 ? 1e30f : row % 300 == 102 ? -1e35f
				: row % 300 == 103 ? 1e5f : (float) v;
		case WILD:
			return row % 40 == 3 && k % 5 == 0 ? (row % 80 == 3 ? NAN : INFINITY)
				: (float) (row % 50 == 9 ? 1e30 * v : v);
		case SCALES:
			return (float) (seed->side == 1 ? 1000.0 * v : v);
		case EXTREME_SCALES:
			return (float) (v * ((seed->bits + seed->side) % 2 == 0 ? 1e30 : 1e-30));
		case APART:
			return (float) (seed->side == 1 ? 1e4 + v : v - 1e4);
		default:
			return value_along(kind, seed, d, k, v);
	}
}

/*
 * Makes n rows of a side.  One row in `copied` is a copy of an earlier row, or of a row of side a, times
 * the factor; 0: none.
 */
static inline Rows
rows_of_side(Kind kind, int side, uint64_t n, uint32_t d, uint32_t copied, const Rows *a, double factor)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = rows + (size_t) i * d;
		const Rows	from = side == 0 ? (Rows) {.rows = rows,.n = i} : *a;
		RowSeed		seed = {side, i, {random_normal(), random_normal(), random_normal()}, random_below(1U << 30)};

		if (copied > 0 && from.n > 0 && random_below(copied) == 0)
		{
			const float *original = from.rows + (size_t) random_below((uint32_t) from.n) * d;

			for (uint32_t k = 0; k < d; k++)
				row[k] = (float) (original[k] * factor);
			continue;
		}
		for (uint32_t k = 0; k < d; k++)
			row[k] = value_of(kind, &seed, d, k);
	}
	return (Rows) {.rows = rows,.n = n};
}

static inline Rows
rows_of_kind(Kind kind, uint64_t n, uint32_t d)
{
	return rows_of_side(kind, 0, n, d, 10, NULL, 1.0);
}

static inline void
free_rows(const Rows *rows)
{
	free((float *) (uintptr_t) rows->rows);
}

#endif							/* KINDS_H */
