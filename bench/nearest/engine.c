/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  Compare the CPU engine's search for the k nearest rows with its join at eps.
 *
 * FILE contains the rows as consecutive FP32 numbers.  The program compares the
 * CPU time of all threads, from the last staged row to the last neighbour or
 * pair.  engine.py builds and runs it:
 *
 *	  engine FILE ROWS DIMENSIONS THREADS REPEATS K ...
 *
 *-------------------------------------------------------------------------
 */
#include "../cpu_engine.h"

/* The times and statistics of one run. */
typedef struct Run
{
	double		cpu;			/* CPU time of all threads, in seconds */
	double		wall;			/* elapsed time, in seconds */
	FastedStats stats;
} Run;

/* Runs one join or one search for nearest rows.  Exits on an error. */
static Run
run_nearest(const float *rows, uint32_t n, uint32_t d, int threads, FastedProblem wanted)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = threads},
		.problem = wanted,.sides = 1,.expected_rows = {n}
	};
	const uint64_t total = n;
	Run			run = {0};
	PanelJoin  *join;
	FastedBatch batch;
	FastedStatus status = panel_join_open(fasted_cpu_engine(), &problem, &join);

	if (status == FASTED_OK)
		status = stage_rows(join, rows, n, d);
	run.cpu = cpu_seconds();
	run.wall = seconds();
	if (status == FASTED_OK)
		status = panel_join_start(join, &total);
	while (status == FASTED_OK || status == FASTED_AGAIN)
		status = panel_join_next(join, 100, &batch);
	run.cpu = cpu_seconds() - run.cpu;
	run.wall = seconds() - run.wall;
	if (status != FASTED_DONE)
	{
		fprintf(stderr, "%s\n", panel_join_last_error(fasted_cpu_engine(), join));
		exit(EXIT_FAILURE);
	}
	panel_join_stats(join, &run.stats);
	panel_join_close(join);
	return run;
}

static void
print_run(const char *what, uint32_t n, const Run *run, double base)
{
	uint64_t	tiles = run->stats.pruned_tiles[0];

	printf("%-16s CPU time %7.3f s, %5.2f times that of the join; elapsed %7.3f s; per row %9.1f candidates and "
		   "%8.1f pairs; %s %s; prepare %.3f filter %.3f recheck %.3f%s\n", what, run->cpu,
		   run->cpu / base, run->wall, (double) run->stats.candidates / n,
		   (double) run->stats.pairs / n, run->stats.kernel, run->stats.filter,
		   run->stats.prepare_seconds, run->stats.filter_seconds, run->stats.refine_seconds,
		   tiles > 0 ? ", pruned" : "");
	fflush(stdout);
}

/* Returns the run with the least CPU time. */
static Run
best_of(const float *rows, uint32_t n, uint32_t d, int threads, FastedProblem wanted, int repeats)
{
	Run			best = run_nearest(rows, n, d, threads, wanted);

	for (int i = 1; i < repeats; i++)
	{
		Run			run = run_nearest(rows, n, d, threads, wanted);

		if (run.cpu < best.cpu)
			best = run;
	}
	return best;
}

static float *
read_rows(const char *name, size_t count)
{
	float	   *rows = malloc(count * sizeof(float));
	FILE	   *file = fopen(name, "rb");

	if (rows == NULL || file == NULL || fread(rows, sizeof(float), count, file) != count)
	{
		fprintf(stderr, "could not read %zu numbers from \"%s\"\n", count, name);
		exit(EXIT_FAILURE);
	}
	fclose(file);
	return rows;
}

int
main(int argc, char **argv)
{
	uint32_t	n;
	uint32_t	d;
	int			threads;
	int			repeats;
	float	   *rows;
	Run			base;

	if (argc < 7)
	{
		fprintf(stderr, "usage: %s FILE ROWS DIMENSIONS THREADS REPEATS K ...\n", argv[0]);
		return EXIT_FAILURE;
	}
	n = (uint32_t) atoi(argv[2]);
	d = (uint32_t) atoi(argv[3]);
	threads = atoi(argv[4]);
	repeats = atoi(argv[5]);
	rows = read_rows(argv[1], (size_t) n * d);
	srand48(1);
	base = best_of(rows, n, d, threads, (FastedProblem) {.eps = guess_eps(rows, n, d, 10.0)},
				   repeats);
	print_run("join, S = 10", n, &base, base.cpu);
	for (int i = 6; i < argc; i++)
	{
		FastedProblem wanted = {
			.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = (uint32_t) atoi(argv[i])
		};
		Run			run = best_of(rows, n, d, threads, wanted, repeats);
		char		what[32];

		snprintf(what, sizeof(what), "k = %u", wanted.k);
		print_run(what, n, &run, base.cpu);
	}
	free(rows);
	return EXIT_SUCCESS;
}
