/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  Time the CPU engine without PostgreSQL, with several kernels in turn.
 *
 *	  engine ROWS DIMENSIONS NEIGHBOURS REPEATS THREADS KERNEL...
 *
 * For each kernel that this CPU supports, the program prints one JSON object on
 * a line of its own.  kernels.py runs the program.
 *
 *-------------------------------------------------------------------------
 */
#include "../cpu_engine.h"
#include "../../src/cpu/kernels/kernel.h"

#define MOST_KERNELS 16
#define MOST_REPEATS 64

typedef struct Measured
{
	const char *kernel;
	double		seconds[MOST_REPEATS];
	double		cpu_seconds[MOST_REPEATS];	/* CPU time of all threads */
	FastedStats stats;			/* statistics of the last run */
} Measured;

/* Runs the join with the kernel of *m and stores its times as repetition r. */
static void
measure(Measured *m, int r, const float *rows, uint32_t n, uint32_t d, double eps, int threads)
{
	PanelProblem problem = problem_of(n, d, eps, threads, m->kernel);
	EngineTimes times = run_problem(&problem, rows, n, &m->stats);

	m->seconds[r] = times.seconds;
	m->cpu_seconds[r] = times.cpu_seconds;
}

static void
print_list(const char *name, const double *values, int count)
{
	printf(", \"%s\": [", name);
	for (int i = 0; i < count; i++)
		printf("%s%.6f", i > 0 ? ", " : "", values[i]);
	printf("]");
}

static void
print_measured(const Measured *m, uint32_t n, uint32_t d, int threads, double eps, int repeats)
{
	const FastedStats *s = &m->stats;

	printf("{\"rows\": %u, \"dimensions\": %u, \"threads\": %d, \"kernel\": \"%s\", "
		   "\"filter\": \"%s\", \"eps\": %.17g, \"pairs\": %llu, \"candidates\": %llu, "
		   "\"prepare_seconds\": %.6f, \"filter_seconds\": %.6f, \"refine_seconds\": %.6f",
		   n, d, threads, m->kernel, s->filter, eps, (unsigned long long) s->pairs,
		   (unsigned long long) s->candidates, s->prepare_seconds, s->filter_seconds,
		   s->refine_seconds);
	print_list("seconds", m->seconds, repeats);
	print_list("cpu_seconds", m->cpu_seconds, repeats);
	printf("}\n");
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static Measured measured[MOST_KERNELS];
	uint32_t	n = argc > 6 ? (uint32_t) atoi(argv[1]) : 0;
	uint32_t	d = argc > 6 ? (uint32_t) atoi(argv[2]) : 0;
	double		neighbours = argc > 6 ? atof(argv[3]) : 0;
	int			repeats = argc > 6 ? atoi(argv[4]) : 0;
	int			threads = argc > 6 ? atoi(argv[5]) : 0;
	int			kernels = 0;
	float	   *rows;
	double		eps;

	if (n < 2 || d < 1 || repeats < 1 || repeats > MOST_REPEATS || argc > 6 + MOST_KERNELS)
	{
		fprintf(stderr, "usage: engine ROWS DIMENSIONS NEIGHBOURS REPEATS THREADS KERNEL...\n");
		return EXIT_FAILURE;
	}
	for (int i = 6; i < argc; i++)
	{
		if (fasted_cpu_choose_kernel(argv[i]) != NULL)
			measured[kernels++].kernel = argv[i];
	}
	rows = make_rows(n, d);
	eps = guess_eps(rows, n, d, neighbours);
	for (int r = 0; r < repeats; r++)
	{
		for (int k = 0; k < kernels; k++)
			measure(&measured[k], r, rows, n, d, eps, threads);
	}
	for (int k = 0; k < kernels; k++)
		print_measured(&measured[k], n, d, threads, eps, repeats);
	free(rows);
	return EXIT_SUCCESS;
}
