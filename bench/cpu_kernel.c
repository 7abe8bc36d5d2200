/*-------------------------------------------------------------------------
 *
 * cpu_kernel.c
 *	  Compare the CPU engine, without PostgreSQL, with OpenBLAS.
 *
 * A self-join needs at least the inner products of all rows.  The program times
 * sgemm of n x n x d for them, as one call and in tiles whose result stays in
 * the cache.  All rates are 2 n n d / seconds, although the engine computes each
 * pair only once.  cpu_engine.h says what the engine's time includes.
 *
 * The program needs libopenblas-dev.  Build and run it in the top directory:
 *
 *	  gcc -std=gnu11 -O2 -o /tmp/cpu_kernel bench/cpu_kernel.c SOURCES \
 *		  -lopenblas -lpthread -lm
 *	  /tmp/cpu_kernel [n [threads [neighbours [kernel [repeats [d ...]]]]]]
 *
 * SOURCES stands for all C files below src/cpu and src/engine.  The environment
 * variable OPENBLAS_CORETYPE selects OpenBLAS's kernels (Zen, Haswell, SkylakeX).
 *
 *-------------------------------------------------------------------------
 */
#include <cblas.h>

#include "cpu_engine.h"

#define TILE 480

extern void openblas_set_num_threads(int threads);
extern char *openblas_get_corename(void);

/* Computes the whole product in one call into c, which has n x n floats. */
static double
run_sgemm(const float *rows, float *c, uint32_t n, uint32_t d)
{
	double		begin = seconds();

	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int) n, (int) n,
				(int) d, 1.0f, rows, (int) d, rows, (int) d, 0.0f, c, (int) n);
	return seconds() - begin;
}

/* Computes the same product in tiles, all into the beginning of c. */
static double
run_tiled(const float *rows, float *c, uint32_t n, uint32_t d)
{
	double		begin = seconds();
	uint32_t	wide = 8 * TILE;

	for (uint32_t i = 0; i < n; i += TILE)
	{
		for (uint32_t j = 0; j < n; j += wide)
		{
			int			m = (int) (n - i < TILE ? n - i : TILE);
			int			w = (int) (n - j < wide ? n - j : wide);

			cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, w, (int) d,
						1.0f, rows + (size_t) i * d, (int) d,
						rows + (size_t) j * d, (int) d, 0.0f, c, w);
		}
	}
	return seconds() - begin;
}

/* Measures one shape and prints a line; the best of "repeats" runs counts. */
static void
bench(uint32_t n, uint32_t d, int threads, double neighbours,
	  const char *kernel, int repeats)
{
	float	   *rows = make_rows(n, d);
	float	   *c = malloc((size_t) n * n * sizeof(float));
	double		best[3] = {INFINITY, INFINITY, INFINITY};
	double		flops = 2.0 * n * n * d * 1e-9;
	double		eps;
	FastedStats stats = {0};
	FastedStats last;

	memset(c, 0, (size_t) n * n * sizeof(float));
	eps = guess_eps(rows, n, d, neighbours);
	for (int r = 0; r < repeats; r++)
	{
		PanelProblem problem = problem_of(n, d, eps, threads, kernel);
		double		t = run_problem(&problem, rows, n, &last).seconds;

		if (t < best[0])
		{
			best[0] = t;
			stats = last;
		}
		best[1] = fmin(best[1], run_sgemm(rows, c, n, d));
		best[2] = fmin(best[2], run_tiled(rows, c, n, d));
	}
	printf("%6u %6u %8s %9.1f %9.1f %9.1f %7.3f %7.3f  %9llu %9llu %6.3f %7.3f %7.3f %7.3f\n",
		   n, d, stats.kernel, flops / best[0], flops / best[1], flops / best[2],
		   fmin(best[1], best[2]) / best[0], best[2] / best[0],
		   (unsigned long long) stats.pairs,
		   (unsigned long long) stats.candidates, best[0],
		   stats.prepare_seconds, stats.filter_seconds, stats.refine_seconds);
	fflush(stdout);
	free(rows);
	free(c);
}

int
main(int argc, char **argv)
{
	static const uint32_t usual[] = {64, 128, 256, 960};
	uint32_t	n = argc > 1 ? (uint32_t) atoi(argv[1]) : 20000;
	int			threads = argc > 2 ? atoi(argv[2]) : 2;
	double		neighbours = argc > 3 ? atof(argv[3]) : 64;
	const char *kernel = argc > 4 && argv[4][0] != '-' ? argv[4] : NULL;
	int			repeats = argc > 5 ? atoi(argv[5]) : 5;

	openblas_set_num_threads(threads);
	printf("# OpenBLAS kernels: %s; %d threads; rates in GFLOPS (2 n n d / s); \"ratio\" is the engine's rate over the faster sgemm, "
		   "\"tiled\" over the tiled sgemm\n",
		   openblas_get_corename(), threads);
	printf("%6s %6s %8s %9s %9s %9s %7s %7s  %9s %9s %6s %7s %7s %7s\n",
		   "n", "d", "kernel", "engine", "sgemm", "tiled", "ratio", "tiled",
		   "pairs", "candid.", "s", "prep", "filter", "refine");
	if (argc > 6)
	{
		for (int i = 6; i < argc; i++)
			bench(n, (uint32_t) atoi(argv[i]), threads, neighbours, kernel,
				  repeats);
	}
	else
	{
		for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
			bench(n, usual[i], threads, neighbours, kernel, repeats);
	}
	return EXIT_SUCCESS;
}
