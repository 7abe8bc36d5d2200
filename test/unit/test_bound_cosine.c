/*-------------------------------------------------------------------------
 *
 * test_bound_cosine.c
 *	  The error bounds of doc/internals/bound.md, sections 7 and 8: the directions or rows of each
 *	  pair are within the bound, and each of its terms is necessary.
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

static long double
distance2_of(const float *x, const float *y, uint32_t d)
{
	long double sum = 0;

	for (uint32_t k = 0; k < d; k++)
		sum += ((long double) x[k] - y[k]) * ((long double) x[k] - y[k]);
	return sum;
}

/* Checks the reaches of a pair with eps exactly equal to its negative inner product. */
static void
check_product(const float *x, const float *y, uint32_t d, Beyond *beyond)
{
	double		eps = 0.0 - fasted_exact_dot(x, y, d);
	double		xx = fasted_exact_dot(x, x, d);
	double		yy = fasted_exact_dot(y, y, d);
	long double apart2 = distance2_of(x, y, d);

	if (!isfinite(xx) || !isfinite(yy))
		return;
	beyond->pairs++;
	beyond->bound += !(apart2 <= (long double) fasted_product_reach2(xx, eps, d)
					   + (long double) fasted_product_reach2(yy, eps, d));
	beyond->without_error += apart2 > (long double) xx + (long double) yy + 2 * (long double) eps;
}

/* Checks a pair with eps exactly equal to its canonical cosine distance. */
static void
check_pair(const float *x, const float *y, uint32_t d, float *room, Beyond *beyond)
{
	double		eps = fasted_exact_cosine(x, y, d);
	double		error = (d / 16.0 + 20.0) * FASTED_U64;
	double		apart;

	if (!make_direction(x, d, room) || !make_direction(y, d, room + d))
		return;
	apart = (double) sqrtl(distance2_of(room, room + d, d));
	beyond->pairs++;
	beyond->bound += !(apart <= fasted_direction_reach(eps, d));
	beyond->without_error += apart > sqrt(2.0 * eps) + 2.0 * FASTED_U32;
	beyond->without_rounding += apart > sqrt(2.0 * (eps + error));
}

/* Makes y from x: scaled, and changed by about 2^-exponent in each coordinate. */
static void
check_neighbours(uint32_t d, int exponent, double size, Beyond *beyond, Beyond *products)
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
	check_product(x, y, d, products);
	free(x);
}

/*
 * All coordinates of a row are nearly equal.  The errors of the additions to a partial sum then
 * have the same sign, so that the error of the canonical distance is as large as possible.
 */
static void
check_drift(uint32_t d, Beyond *beyond, Beyond *products)
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
			check_product(x, y, d, products);
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

/* Rows that packing moves apart: their shares cover the squared distance, with any spread. */
static void
check_shares(void)
{
	int			lost = 0;
	int			far = 0;
	int			without_slack = 0;
	int			without_factor = 0;

	for (int i = 0; i < 100000; i++)
	{
		double		spread = ldexp(1.0 + random_uniform(), -(int) random_below(30));
		bool		best = i % 4 == 0;
		double		rho_x = exp(random_normal());
		double		rho[2] = {rho_x, best ? rho_x : random_below(2) * exp(random_normal())};
		double		apart = (rho[0] + rho[1]) / spread * (best ? 1.0 : exp(random_normal()));
		double		part = random_normal();
		double		reach2[2] = {part * apart * apart, (1.0 - part) * apart * apart};
		long double moved = (long double) apart + (long double) rho[0] + (long double) rho[1];
		long double rounding = 0x1p-50L * (1 + fabsl((long double) part));
		long double share = 0;
		long double slack = 0;

		for (int side = 0; side < 2; side++)
		{
			share += fasted_product_half(reach2[side], rho[side], spread);
			slack += 2 * (1 + 1 / (long double) spread) * rho[side] * rho[side];
		}
		lost += share < moved * moved * (1 - rounding);
		far += best && share > moved * moved * (1 + 16 * rounding);
		without_slack += share - slack < moved * moved * (1 - rounding);
		without_factor += share - spread * (long double) apart * apart < moved * moved * (1 - rounding);
	}
	ok(lost == 0, "the shares of two rows never lose a pair: %d lost", lost);
	ok(far == 0, "with equal errors and the best spread they are no larger than necessary: %d are", far);
	ok(without_slack > 1000 && without_factor > 1000, "%d are lost without slack, %d without the spread",
	   without_slack, without_factor);
	ok(!(fasted_product_half(-1.0, INFINITY, 0.5) < INFINITY) &&
	   !(fasted_product_half(-INFINITY, 1.0, 0.5) < INFINITY) &&
	   !(fasted_product_reach2(INFINITY, -1.0, 3) < INFINITY) &&
	   !(fasted_product_reach2(NAN, -1.0, 3) < INFINITY) &&
	   fasted_product_reach2(1.0, -1.0, 1) > 0.0 && fasted_product_reach2(0.0, 0.0, 1) > 0.0 &&
	   fasted_product_reach2(1.0, -1.0, 65536) < 1e-9, "shares at extreme arguments");
}

int
main(void)
{
	static const uint32_t dims[] = {1, 2, 3, 4, 33, 128, 960};
	static const double sizes[] = {1.0, 1e37, 1e-42};
	Beyond		near = {0};
	Beyond		drift = {0};
	Beyond		products = {0};
	Beyond		drifting = {0};

	random_seed();
	check_directions();
	for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++)
	{
		for (int exponent = 0; exponent < 30; exponent++)
		{
			for (int turn = 0; turn < 60; turn++)
				check_neighbours(dims[i], exponent, sizes[turn % 3], &near, &products);
		}
	}
	ok(near.pairs > 10000 && near.bound == 0, "%u pairs tested, %u beyond the bound", near.pairs,
	   near.bound);
	ok(near.without_rounding > 100, "without the directions' rounding, %u are beyond the bound",
	   near.without_rounding);
	check_drift(4096, &drift, &drifting);
	check_drift(65536, &drift, &drifting);
	ok(drift.pairs > 500 && drift.bound == 0, "%u pairs with large errors, %u beyond the bound",
	   drift.pairs, drift.bound);
	ok(drift.without_error > 0, "without the canonical distance's error, %u are beyond",
	   drift.without_error);
	products.pairs += drifting.pairs;
	ok(products.pairs > 10000 && products.bound + drifting.bound == 0,
	   "inner products: %u pairs tested, %u beyond the bound", products.pairs,
	   products.bound + drifting.bound);
	ok(products.without_error > 100 && drifting.without_error > 20,
	   "without the sums' errors, %u and %u are beyond the bound", products.without_error,
	   drifting.without_error);
	check_shares();
	return tap_done();
}
