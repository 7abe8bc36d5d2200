/*-------------------------------------------------------------------------
 *
 * test_bound.c
 *	  The error bound of the FP32 filter: no pair of the result fails the filter.
 *
 * Rows are packed by the kernels' own functions.  The inner product is computed in FP32 in
 * several orders, including the least favourable one. eps is exactly the distance of the pair.
 * Without the error terms, pairs of the same data are lost.  This shows that the test can fail.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../src/cpu/kernels/kernel.h"
#include "../../src/engine/exact_distance.h"
#include "../../src/engine/filter_bound.h"
#include "tap.h"

#define MAX_D 2048

/* The error term that a run omits. */
typedef enum Mutation
{
	WHOLE,
	NO_GAMMA,
	NO_ALPHA,
	NO_RHO
} Mutation;

typedef struct Pair
{
	uint32_t	d;
	float		x[MAX_D];
	float		y[MAX_D];
	float		centre[MAX_D];
	double		scale;
	double		eps;
} Pair;

/* Quantizes both rows with a kernel; `packed` receives the packed coordinates. */
static void
quantise_pair(const CpuKernel *kernel, const Pair *pair, float *packed,
			  PackSliver *job)
{
	PackLayout	layout = {
		.words = pair->d,.segment = (pair->d + 7) / 8 * 8,
		.padded_rows = kernel->width
	};

	memset(job, 0, sizeof(*job));
	job->rows[0] = pair->x;
	job->rows[1] = pair->y;
	job->centre = pair->centre;
	job->scale = pair->scale;
	job->layout = &layout;
	job->packed = packed;
	kernel->pack(job);
	job->layout = NULL;
}

/* Computes the product in FP32: forwards, backwards, in 8 chains; with and without FMA. */
static float
inner_product(const float *packed, uint32_t width, uint32_t d, int order)
{
	float		chains[8] = {0};
	volatile float product;

	for (uint32_t k = 0; k < d; k++)
	{
		uint32_t	at = order % 2 ? d - 1 - k : k;
		float		x = packed[(size_t) at * width];
		float		y = packed[(size_t) at * width + 1];
		float	   *sum = &chains[order / 2 % 2 ? k % 8 : 0];

		if (order / 4 == 0)
			*sum = fmaf(x, y, *sum);
		else
		{
			product = x * y;
			*sum += product;
		}
	}
	for (int i = 1; i < 8; i++)
		chains[0] += chains[i];
	return chains[0];
}

static float
threshold(const Pair *pair, const PackSliver *job, int row, Mutation mutation)
{
	double		slack = fasted_sum_slack(pair->d);
	double		gamma = fasted_gamma32(pair->d, 8);
	double		alpha = fasted_alpha32(pair->d);
	double		rho = fasted_rho(job->error2[row], job->norm2[row], pair->d);

	if (mutation == NO_GAMMA)
		gamma = 0.0;
	if (mutation == NO_ALPHA)
		alpha = 0.0;
	if (mutation == NO_RHO)
		rho = 0.0;
	if (!(job->norm2[row] <= 0x1p120))
		return -INFINITY;
	return fasted_threshold(job->norm2[row] * (1.0 - slack),
							job->norm2[row] * (1.0 + slack),
							fasted_reach_half(rho, fasted_eps_upper(pair->eps, pair->scale, pair->d)),
							gamma, alpha);
}

/* Returns the number of summation orders in which the pair is lost. */
static int
count_lost(const CpuKernel *kernel, const Pair *pair, Mutation mutation)
{
	float	   *packed = must_alloc((size_t) MAX_D * kernel->width * sizeof(float));
	PackSliver	job;
	int			lost = 0;
	float		sum;

	quantise_pair(kernel, pair, packed, &job);
	sum = threshold(pair, &job, 0, mutation) + threshold(pair, &job, 1, mutation);
	for (int order = 0; order < 8; order++)
		lost += !(inner_product(packed, kernel->width, pair->d, order) >= sum);
	free(packed);
	return lost;
}

/* Makes a difficult pair of the given kind; eps is exactly its distance. */
static void
make_pair(Pair *pair, int kind)
{
	static const uint32_t dims[] = {1, 2, 3, 8, 31, 64, 100, 257, 1000, 2048};
	uint32_t	d = dims[random_below(10)];
	double		size = ldexp(1.0, (int) random_below(200) - 100);
	double		step = ldexp(1.0, -(int) random_below(30));

	memset(pair, 0, sizeof(*pair));
	pair->d = d;
	pair->scale = 1.0;
	for (uint32_t k = 0; k < d; k++)
	{
		double		v = random_normal();
		double		w = random_normal();

		switch (kind)
		{
			case 0:				/* close rows of any magnitude */
				pair->x[k] = (float) (v * size);
				pair->y[k] = (float) ((v + step * w) * size);
				pair->scale = ldexp(1.0, -ilogb(size));
				break;
			case 1:				/* a large offset, only partly removed by the centre */
				pair->x[k] = (float) (1e4 + v);
				pair->y[k] = (float) (1e4 + v + step * w);
				pair->centre[k] = (float) (1e4 * random_uniform());
				break;
			case 2:				/* coordinates of very different magnitudes */
				pair->x[k] = (float) ldexp(v, (int) random_below(200) - 100);
				pair->y[k] = random_below(2) ? pair->x[k]
					: (float) ldexp(w, (int) random_below(200) - 100);
				pair->scale = ldexp(1.0, (int) random_below(60) - 110);
				break;
			case 3:				/* products that underflow */
				pair->x[k] = (float) ldexp(0.7 + 0.29 * random_uniform(), -75);
				pair->y[k] = pair->x[k];
				break;
			case 4:				/* same sign: FP32 sums have the largest error */
				pair->x[k] = (float) (1.0 + random_uniform());
				pair->y[k] = random_below(100) ? pair->x[k]
					: nextafterf(pair->x[k], 0.0f);
				break;
			default:			/* parallel, slightly longer: the result depends on rho */
				pair->x[k] = (float) (v * 1024.0);
				pair->y[k] = (float) (v * 1024.0 * (1.0 + step));
				pair->centre[k] = (float) (0.1 * w);
				break;
		}
	}
	pair->eps = fasted_exact_distance(pair->x, pair->y, d);
}

/* Returns the number of lost pairs among `count` pairs of a kind. */
static int
run_kind(const CpuKernel *kernel, int kind, int count, Mutation mutation)
{
	static Pair pair;
	int			lost = 0;

	for (int i = 0; i < count; i++)
	{
		make_pair(&pair, kind);
		lost += count_lost(kernel, &pair, mutation) > 0;
	}
	return lost;
}

/* Tests round_down, eps_upper and threshold. */
static void
check_parts(void)
{
	bool		good = true;

	for (int i = 0; i < (quick() ? 10000 : 1000000); i++)
	{
		double		v = ldexp(random_normal(), (int) random_below(300) - 160);
		float		f;

		if (fabs(v) > 3e38)
			continue;
		f = fasted_round_down(v);
		good = good && (double) f <= v && (double) nextafterf(f, INFINITY) > v;
	}
	ok(good, "round_down returns the largest float that is not above its argument");
	ok(fasted_eps_upper(0.0, 1.0, 8) == 0.0 &&
	   fasted_eps_upper(5e-324, 0x1p-100, 8) >= DBL_MIN &&
	   isinf(fasted_eps_upper(INFINITY, 0x1p-100, 8)) &&
	   isinf(fasted_eps_upper(DBL_MAX, 0x1p100, 8)) &&
	   fasted_eps_upper(1.0, 1.0, 1) > 1.0, "eps_upper at extreme arguments");
	ok(fasted_threshold(1, 1, INFINITY, 0, 0) == -INFINITY &&
	   fasted_threshold(1, 1, NAN, 0, 0) == -INFINITY &&
	   fasted_threshold(1, 1, 1e300, 0, 0) == -INFINITY &&
	   fasted_threshold(1, 1, -1e300, 0, 0) == FLT_MAX / 4 &&
	   fasted_threshold(1, 1, -INFINITY, 0, 0) == -INFINITY &&
	   fasted_threshold(NAN, NAN, 1, 0, 0) == -INFINITY &&
	   fasted_threshold(0, 0, 0, 0, 0) <= 0 &&
	   fasted_threshold(1, 1, 0, 0, 0) < 0.5f &&
	   fasted_threshold(1, 1, -3, 0, 0) < 2.0f && fasted_threshold(1, 1, -3, 0, 0) > 1.9f,
	   "threshold at extreme arguments");
}

int
main(void)
{
	static const char *const names[] = {
		"any magnitude", "offset", "mixed magnitudes", "underflow", "same sign",
		"parallel"
	};

	random_seed();
	check_parts();
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);

		if (!kernel->available())
			continue;
		for (int kind = 0; kind < 6; kind++)
		{
			int			lost = run_kind(kernel, kind, quick() ? 100 : 2000, WHOLE);

			ok(lost == 0, "%s, %s: %d pairs lost", kernel->name, names[kind], lost);
		}
	}

	/* the test can fail: without an error term, some data lose pairs */
	{
		int			lost;

		lost = run_kind(&fasted_kernel_portable, 4, 500, NO_GAMMA);
		ok(lost > 0, "without gamma, %d of 500 pairs are lost", lost);
		lost = run_kind(&fasted_kernel_portable, 3, 500, NO_ALPHA);
		ok(lost > 0, "without alpha, %d of 500 pairs are lost", lost);
	}
	return tap_done();
}
