/*-------------------------------------------------------------------------
 *
 * test_exact.c
 *	  The canonical distances: every kernel, compared bit for bit with a reference.
 *
 * The reference is written independently, from the definition.  Each FMA is computed in an extended
 * range and rounded once, by means of __float128 if available.  Its 113 bits hold the exact
 * product, and a sticky bit holds the error of the sum.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../src/cpu/kernels/kernel.h"
#include "../../src/engine/exact_distance.h"
#include "tap.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HAVE_QUAD
#endif

/* Computes x * y + s with one rounding, without fma(). */
static double
product_add(double x, double y, double s)
{
#ifdef HAVE_QUAD
	__float128	product = (__float128) x * y;	/* exact: 106 bits */
	__float128	sum = product + s;
	__float128	back = sum - product;
	__float128	error = (product - (sum - back)) + (s - back);
	uint64_t	words[2];

	/* rounded to odd, so that the second rounding gives the correct result */
	memcpy(words, &sum, sizeof(sum));
	if (error != 0 && (words[0] & 1) == 0)
	{
		if ((error < 0) == (sum > 0))
		{
			words[1] -= words[0] == 0;
			words[0] -= 1;
		}
		words[0] |= 1;
		memcpy(&sum, words, sizeof(sum));
	}
	return (double) sum;
#else
	return fma(x, y, s);
#endif
}

/*
 * Sums lane by lane, not coordinate by coordinate, and folds by recursion.  Sums squared
 * differences or products.
 */
static double
lane_sum(const double *x, const double *y, uint32_t d, uint32_t lane, bool product)
{
	double		sum = 0.0;

	for (uint32_t k = lane; k < d; k += 32)
	{
		double		diff = x[k] - y[k];

		sum = product ? product_add(x[k], y[k], sum) : product_add(diff, diff, sum);
	}
	return sum;
}

static double
fold(const double *sums, int lane, int width)
{
	if (width == 32)
		return sums[lane];
	return fold(sums, lane, 2 * width) + fold(sums, lane + width, 2 * width);
}

static double
reference(const double *x, const double *y, uint32_t d, bool product)
{
	double		sums[32];

	for (uint32_t lane = 0; lane < 32; lane++)
		sums[lane] = lane_sum(x, y, d, lane, product);
	return fold(sums, 0, 1);
}

static bool
same_bits(double p, double q)
{
	return memcmp(&p, &q, sizeof(p)) == 0 || (isnan(p) && isnan(q));
}

/* Fills x with floats of any magnitude, or ordinary ones. */
static void
fill(float *x, uint32_t d, int kind)
{
	static const float odd[] = {
		0.0f, -0.0f, 0x1p-149f, 0x1p-126f, 3.4028235e38f, -3.4028235e38f
	};

	for (uint32_t k = 0; k < d; k++)
	{
		double		v = random_normal();

		if (kind == 1)
			v = ldexp(v, (int) random_below(270) - 145);
		if (fabs(v) > 3e38)
			v = 1.0;
		x[k] = (float) v;
		if (kind == 2)
			x[k] = odd[random_below(6)];
	}
}

/* Tests rows of doubles, of ordinary magnitudes or those of floats. */
static bool
check_doubles(const CpuKernel *kernel, uint32_t d, int kind)
{
	double	   *x = must_alloc(d * sizeof(double));
	double	   *y = must_alloc(d * sizeof(double));
	double		expected;
	double		dot;
	bool		same;

	for (uint32_t k = 0; k < d; k++)
	{
		x[k] = kind == 1 ? ldexp(random_normal(), (int) random_below(270) - 145) : random_normal();
		y[k] = kind == 2 ? x[k] * (1.0 + 0x1p-52 * random_below(5)) : random_normal();
	}
	expected = sqrt(reference(x, y, d, false));
	dot = reference(x, y, d, true);
	same = same_bits(expected, fasted_exact_distance_double(x, y, d)) &&
		same_bits(expected, kernel->distance_double(x, y, d)) &&
		same_bits(expected, kernel->distance_double(y, x, d)) &&
		same_bits(dot, fasted_exact_dot_double(x, y, d)) &&
		same_bits(dot, kernel->dot_double(x, y, d)) &&
		same_bits(dot, kernel->dot_double(y, x, d));
	free(x);
	free(y);
	return same;
}

/* Tests all functions of one kernel at one d.  The allocation ends with the vector. */
static bool
check_kernel(const CpuKernel *kernel, uint32_t d, int kind)
{
	float	   *x = must_alloc(d * sizeof(float));
	float	   *y = must_alloc(d * sizeof(float));
	double	   *wide = must_alloc(d * sizeof(double));
	double	   *wide_y = must_alloc(d * sizeof(double));
	double		expected;
	double		dot;
	bool		same;

	fill(x, d, kind);
	fill(y, d, kind);
	if (random_below(8) == 0)
		memcpy(x, y, d * sizeof(float));
	for (uint32_t k = 0; k < d; k++)
	{
		wide[k] = x[k];
		wide_y[k] = y[k];
	}
	expected = sqrt(reference(wide, wide_y, d, false));
	dot = reference(wide, wide_y, d, true);
	same = same_bits(expected, fasted_exact_distance(x, y, d)) &&
		same_bits(expected, kernel->distance(x, y, d)) &&
		same_bits(expected, kernel->distance(y, x, d)) &&
		same_bits(dot, fasted_exact_dot(x, y, d)) &&
		same_bits(dot, kernel->dot(x, y, d)) &&
		same_bits(dot, kernel->dot(y, x, d)) &&
		same_bits(fasted_exact_cosine(x, y, d),
				  fasted_exact_cosine_of(dot, reference(wide, wide, d, true),
										 reference(wide_y, wide_y, d, true)));
	free(x);
	free(y);
	free(wide);
	free(wide_y);
	return same && check_doubles(kernel, d, kind);
}

int
main(void)
{
	static const uint32_t large[] = {255, 256, 257, 960, 1000, 4096, 16000, 65536};

	random_seed();
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);
		bool		same = true;

		if (!kernel->available())
		{
			ok(true, "%s # SKIP not on this CPU", kernel->name);
			continue;
		}
		for (uint32_t d = 1; d <= 200; d++)
		{
			for (int i = 0; i < 30; i++)
				same = same && check_kernel(kernel, d, i % 3);
		}
		ok(same, "%s: d = 1 to 200", kernel->name);
		for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++)
		{
			same = true;
			for (int kind = 0; kind < 3; kind++)
				same = same && check_kernel(kernel, large[i], kind);
			ok(same, "%s: d = %u", kernel->name, large[i]);
		}
	}
	return tap_done();
}
