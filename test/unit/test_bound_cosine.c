/*-------------------------------------------------------------------------
 *
 * test_bound_cosine.c
 *	  The bound of doc/internals/bound-cosine.md: no pair's directions are further apart, and
 *	  each of its terms is needed.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/exact_distance.h"
#include "../../src/engine/filter_bound.h"
#include "tap.h"

/* How many pairs are beyond the bound, and beyond it without one of its terms. */
typedef struct Beyond
{
	uint32_t	pairs;
	uint32_t	bound;
	uint32_t	without_error;
	uint32_t	without_rounding;
} Beyond;

/* The direction as an engine makes it; false: there is none. */
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

/* A pair at a tie: eps is its canonical distance. */
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

/* y is x in another length, and a little beside it, by 2^-exponent. */
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
 * The same number in all coordinates: each addition to a partial sum then errs to the
 * same side, and the canonical distance as far as it can.
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
	   "zeros and what is not finite have no direction, all else has");
	ok(fasted_direction_reach(2.0, 1) >= 2.0 && fasted_direction_reach(INFINITY, 1) == INFINITY,
	   "all directions are within 2");
	ok(fasted_direction_reach(0.0, 128) < 2.5e-7, "none is far beyond eps");
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
	ok(near.pairs > 10000 && near.bound == 0, "%u pairs within the bound, %u beyond", near.pairs,
	   near.bound);
	ok(near.without_rounding > 100, "without the directions' rounding %u are",
	   near.without_rounding);
	check_drift(4096, &drift);
	check_drift(65536, &drift);
	ok(drift.pairs > 500 && drift.bound == 0, "%u pairs whose sums drift, %u beyond",
	   drift.pairs, drift.bound);
	ok(drift.without_error > 0, "without the error of the canonical distance %u are",
	   drift.without_error);
	return tap_done();
}
