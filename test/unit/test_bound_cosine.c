/*-------------------------------------------------------------------------
 *
 * test_bound_cosine.c
 *	  The error bound of doc/internals/bound-cosine.md: the directions of each pair are within the
 *	  bound, and each term of the bound is necessary.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/exact_distance.h"
#include "../../src/engine/filter_bound.h"
#include "tap.h"

/* Number of pairs, of those beyond the bound, and of those beyond it without one term. */
typedef struct Beyond
{
	uint32_t	pairs;
	uint32_t	bound;
	uint32_t	without_error;
	uint32_t	without_rounding;
} Beyond;

/* Computes the direction as the engines do.  Returns false if the row has none. */
static bool
make_direction(const float *row, uint32_t d, float *direction)
{
	double		square = fasted_exact_dot(row, row, d);
	double		scale = 1.0 / sqrt(square);

	for (uint32_t k = 0; k < d; k++)
		direction[k] = (float) (row[k] * scale);
	return fasted_has_direction(square);
}

static double
distance_of(const float *x, const float *y, uint32_t d)
{
	long double sum = 0;

	for (uint32_t k = 0; k < d; k++)
		sum += ((long double) x[k] - y[k]) * ((long double) x[k] - y[k]);
	return (double) sqrtl(sum);
}

/* Checks a pair with eps exactly equal to its canonical distance. */
static void
check_pair(const float *x, const float *y, uint32_t d, float *room, Beyond *beyond)
{
	double		eps = fasted_exact_cosine(x, y, d);
	double		error = (d / 16.0 + 20.0) * FASTED_U64;
	double		apart;

	if (!make_direction(x, d, room) || !make_direction(y, d, room + d))
		return;
	apart = distance_of(room, room + d, d);
	beyond->pairs++;
	beyond->bound += !(apart <= fasted_direction_reach(eps, d));
	beyond->without_error += apart > sqrt(2.0 * eps) + 2.0 * FASTED_U32;
	beyond->without_rounding += apart > sqrt(2.0 * (eps + error));
}

/* Makes y from x: scaled, and changed by about 2^-exponent in each coordinate. */
static void
check_neighbours(uint32_t d, int exponent, double size, Beyond *beyond)
{
	float	   *x = must_alloc(4 * (size_t) d * sizeof(float));
	float	   *y = x + d;
	double		factor = exp(random_normal());

	for (uint32_t k = 0; k < d; k++)
	{
		x[k] = (float) (random_normal() * size);
		y[k] = (float) (x[k] * factor * (1.0 + ldexp(random_normal(), -exponent)));
	}
	check_pair(x, y, d, x + 2 * d, beyond);
	free(x);
}

/*
 * All coordinates of a row are nearly equal.  The errors of the additions to a partial sum then
 * have the same sign, so that the error of the canonical distance is as large as possible.
 */
static void
check_drift(uint32_t d, Beyond *beyond)
{
	float	   *x = must_alloc(4 * (size_t) d * sizeof(float));
	float	   *y = x + d;

	for (int try = 0; try < 60; try++)
	{
		float		a = (float) exp(random_normal());
		float		b = (float) exp(random_normal());
		float		next = b;

		for (int steps = 1; steps <= 6; steps++)
		{
			next = nextafterf(next, INFINITY);
			for (uint32_t k = 0; k < d; k++)
			{
				x[k] = a;
				y[k] = k % 32 < 16 ? b : next;
			}
			check_pair(x, y, d, x + 2 * d, beyond);
		}
	}
	free(x);
}

static void
check_directions(void)
{
	const double squares[] = {0.0, -0.0, (double) INFINITY, (double) NAN};
	bool		none = true;

	for (int i = 0; i < 4; i++)
		none = none && !fasted_has_direction(squares[i]);
	ok(none && fasted_has_direction(0x1p-298) && fasted_has_direction(0x1p272),
	   "only rows that are zero or not finite have no direction");
	ok(fasted_direction_reach(2.0, 1) >= 2.0 && fasted_direction_reach(INFINITY, 1) == INFINITY,
	   "the distance of any two directions is at most 2");
	ok(fasted_direction_reach(0.0, 128) < 2.5e-7, "the bound is not much larger than eps");
}

int
main(void)
{
	static const uint32_t dims[] = {1, 2, 3, 4, 33, 128, 960};
	static const double sizes[] = {1.0, 1e37, 1e-42};
	Beyond		near = {0};
	Beyond		drift = {0};

	random_seed();
	check_directions();
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++)
	{
		for (int exponent = 0; exponent < 30; exponent++)
		{
			for (int turn = 0; turn < 60; turn++)
				check_neighbours(dims[i], exponent, sizes[turn % 3], &near);
		}
	}
	ok(near.pairs > 10000 && near.bound == 0, "%u pairs tested, %u beyond the bound", near.pairs,
	   near.bound);
	ok(near.without_rounding > 100, "without the directions' rounding, %u are beyond the bound",
	   near.without_rounding);
	check_drift(4096, &drift);
	check_drift(65536, &drift);
	ok(drift.pairs > 500 && drift.bound == 0, "%u pairs with large errors, %u beyond the bound",
	   drift.pairs, drift.bound);
	ok(drift.without_error > 0, "without the canonical distance's error, %u are beyond",
	   drift.without_error);
	return tap_done();
}
