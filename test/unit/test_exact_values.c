/*-------------------------------------------------------------------------
 *
 * test_exact_values.c
 *	  Cosine and Jaccard distances and similarities, and the scaling of directions
 *	  (exact_distance.h).
 *
 * test_exact.c compares the kernels' sums with an independent reference.  This test covers what is
 * computed from the sums, and counts of bits.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../src/engine/exact_distance.h"
#include "tap.h"

#define MOST_DIMENSIONS 100
#define MOST_WORDS 5

/* Returns the cosine distance in long double. */
static long double
cosine(const double *x, const double *y, uint32_t d)
{
	long double xy = 0.0L;
	long double xx = 0.0L;
	long double yy = 0.0L;

	for (uint32_t k = 0; k < d; k++)
	{
		xy += (long double) x[k] * y[k];
		xx += (long double) x[k] * x[k];
		yy += (long double) y[k] * y[k];
	}
	return 1 - xy / (sqrtl(xx) * sqrtl(yy));
}

static void
check_cosine(void)
{
	bool		floats = true;
	bool		doubles = true;

	for (int i = 0; i < 2000; i++)
	{
		float		x[MOST_DIMENSIONS];
		float		y[MOST_DIMENSIONS];
		double		wide_x[MOST_DIMENSIONS];
		double		wide_y[MOST_DIMENSIONS];
		uint32_t	d = 1 + random_below(MOST_DIMENSIONS);
		long double expected;

		for (uint32_t k = 0; k < d; k++)
		{
			wide_x[k] = x[k] = (float) random_normal();
			wide_y[k] = y[k] = (float) (x[k] * (i % 3) + 3.0 * random_normal());
		}
		expected = cosine(wide_x, wide_y, d);
		floats = floats && fabsl(fasted_exact_cosine(x, y, d) - expected) < 1e-14L;
		doubles =
			doubles && fabsl(fasted_exact_cosine_double(wide_x, wide_y, d) - expected) < 1e-14L;
	}
	ok(floats, "cosine distances of floats");
	ok(doubles, "cosine distances of doubles");
	ok(fasted_exact_cosine_of(2.0, 4.0, 4.0) == 0.5 &&
	   fasted_exact_cosine_of(-2.0, 2.0, 8.0) == 1.5 &&
	   fasted_exact_cosine_of(0.0, 3.0, 5.0) == 1.0 &&
	   fasted_exact_cosine_of(1.0, 0x1p400, 0x1p-400) == 0.0,
	   "cosine_of");
	ok(fasted_exact_cosine_of(5.0, 4.0, 4.0) == 0.0 &&
	   fasted_exact_cosine_of(-5.0, 4.0, 4.0) == 2.0,
	   "cosine distances are limited");
	ok(isnan(fasted_exact_cosine_of(0.0, 0.0, 4.0)) &&
	   isnan(fasted_exact_cosine_of(NAN, 1.0, 1.0)),
	   "the cosine distance of a row without direction is NaN");
}

static void
check_bits(void)
{
	bool		same = true;

	for (int i = 0; i < 2000; i++)
	{
		uint64_t	x[MOST_WORDS];
		uint64_t	y[MOST_WORDS];
		uint32_t	words = 1 + random_below(MOST_WORDS);
		uint32_t	ones_x = 0;
		uint32_t	ones_y = 0;
		uint32_t	common = 0;
		uint32_t	differ = 0;

		for (uint32_t w = 0; w < words; w++)
		{
			x[w] = random_bits() & random_bits();
			y[w] = random_bits() | random_bits();
			for (int bit = 0; bit < 64; bit++)
			{
				bool		in_x = x[w] >> bit & 1;
				bool		in_y = y[w] >> bit & 1;

				ones_x += in_x;
				ones_y += in_y;
				common += in_x && in_y;
				differ += in_x != in_y;
			}
		}
		same = same && fasted_exact_ones(x, words) == ones_x &&
			   fasted_exact_hamming(x, y, words) == differ &&
			   fasted_exact_common(x, y, words) == common &&
			   fasted_exact_jaccard(x, y, words) ==
				   (common == 0 ? 1.0 : (double) differ / (differ + common)) &&
			   fasted_exact_jaccard_similarity(x, y, words) ==
				   (common == 0 ? 0.0 : (double) common / (differ + common));
	}
	ok(same, "distances of rows of bits");
	ok(fasted_exact_jaccard_of(0, 0, 0) == 1.0 && fasted_exact_jaccard_of(0, 3, 2) == 1.0 &&
	   fasted_exact_jaccard_of(1, 1, 1) == 0.0 && fasted_exact_jaccard_of(1, 2, 3) == 0.75,
	   "jaccard_of");
	ok(fasted_exact_jaccard_similarity_of(0, 0, 0) == 0.0 &&
	   fasted_exact_jaccard_similarity_of(0, 3, 2) == 0.0 &&
	   fasted_exact_jaccard_similarity_of(3, 3, 3) == 1.0 &&
	   fasted_exact_jaccard_similarity_of(1, 2, 3) == 0.25,
	   "jaccard_similarity_of");
}

/* Quotients that are decimals with three digits equal the literals, and others are on their side. */
static void
check_decimals(void)
{
	int			wrong = 0;

	for (uint32_t either = 1; either <= 200; either++)
	{
		for (uint32_t common = 0; common <= either; common++)
		{
			double		distance = fasted_exact_jaccard_of(common, either, common);
			double		similarity = fasted_exact_jaccard_similarity_of(common, either, common);

			for (uint32_t i = 0; i <= 1000; i++)
			{
				double		limit = i / 1000.0;
				uint32_t	far = 1000 * (either - common);
				uint32_t	near = 1000 * common;

				wrong += (distance <= limit) != (far <= i * either) ||
					(distance < limit) != (far < i * either) ||
					(similarity >= limit) != (near >= i * either) ||
					(similarity > limit) != (near > i * either);
			}
		}
	}
	ok(wrong == 0, "Jaccard distances and similarities at decimal limits (%d wrong)", wrong);
}

/* The similarity of integer vectors is the quotient, if the product of the squares is a square. */
static void
check_similarity(void)
{
	static const float x[2] = {3, 4};
	static const float y[2] = {4, 3};
	static const double z[2] = {0, 5};

	ok(fasted_exact_cosine_similarity(x, y, 2) == 0.96 &&
	   fasted_exact_cosine_similarity_double((const double[]) {3, 4}, z, 2) == 0.8 &&
	   fasted_exact_cosine_similarity_of(15, 25, 25) == 0.6 &&
	   fasted_exact_cosine_similarity_of(-24, 25, 25) == -0.96,
	   "cosine similarities of integers");
	ok(fasted_exact_cosine_similarity_of(5, 4, 4) == 1 &&
	   fasted_exact_cosine_similarity_of(-5, 4, 4) == -1 &&
	   isnan(fasted_exact_cosine_similarity_of(0, 0, 4)),
	   "cosine similarities are limited");
}

/*
 * Returns whether a row whose largest magnitude is `most`, at a random place, is multiplied by a
 * power of two that brings it into [1, 2), or by 1 if the row need not be scaled.
 */
static bool
is_scaled(double most, bool scaled)
{
	double		row[7];
	double		result[7];
	uint32_t	place = random_below(7);
	double		factor = scaled ? ldexp(1.0, -ilogb(most)) : 1.0;
	bool		same = true;

	for (uint32_t k = 0; k < 7; k++)
		row[k] = k == place ? most : most * 0.5 * (random_below(3) - 1.0);
	memcpy(result, row, sizeof(row));
	fasted_scale_direction(result, 7);
	for (uint32_t k = 0; k < 7; k++)
		same = same && result[k] == row[k] * factor;
	return same && (!scaled || (fabs(result[place]) >= 1.0 && fabs(result[place]) < 2.0));
}

static void
check_scaling(void)
{
	double		zeros[3] = {0.0, -0.0, 0.0};
	bool		good = true;

	for (int i = 0; i < 100; i++)
		good = good && is_scaled(0x1p-100, false) && is_scaled(nextafter(0x1p-100, 0.0), true) &&
			is_scaled(0x1p101, true) && is_scaled(nextafter(0x1p101, 0.0), false) &&
			is_scaled(-0x1p-101, true) && is_scaled(-0x1.8p300, true) && is_scaled(-3.0, false) &&
			is_scaled(0.75, false);
	ok(good, "rows are scaled if their largest magnitude is below 2^-100, or 2^101 or more");
	fasted_scale_direction(zeros, 3);
	ok(zeros[0] == 0.0 && zeros[1] == 0.0 && zeros[2] == 0.0, "a row of zeros is not scaled");
}

int
main(void)
{
	random_seed();
	check_cosine();
	check_bits();
	check_decimals();
	check_similarity();
	check_scaling();
	return tap_done();
}
