/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  The CPU engine's nearest rows, beside its join at eps of as many pairs.
 *
 * Rows are a file of floats.  Processor seconds of all threads, from the last row to
 * the last neighbour or pair, are what is compared.  From the top of the source tree:
 *
 *	  gcc -std=gnu11 -O2 -o /tmp/engine bench/nearest/engine.c src/cpu/x.c \
 *		  src/engine/x.c -lpthread -lm	(x.c: all that are there)
 *	  /tmp/engine FILE ROWS DIMENSIONS THREADS REPEATS K ...
 *
 *-------------------------------------------------------------------------
 */
#include "../cpu_engine.h"

/* What one run took and found. */
typedef struct Run
{
	double		cpu;
	double		wall;
	double		sum;			/* of distances */
	double		radius;			/* mean of the last neighbours' distances */
	FastedStats stats;
} Run;

static double
cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void
add_lists(const PanelJoin *join, const FastedBatch *batch, Run *run)
{
	for (uint64_t row = batch->first_row; row < batch->first_row + batch->row_count; row++)
	{
		uint32_t	length;
		const FastedNeighbor *list = panel_join_nearest(join, row, &length);

		for (uint32_t i = 0; i < length; i++)
			run->sum += list[i].dist;
		if (length > 0)
			run->radius += list[length - 1].dist;
	}
}

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
	{
		status = panel_join_next(join, 100, &batch);
		for (size_t i = 0; status == FASTED_OK && i < batch.npairs; i++)
			run.sum += batch.pairs[i].dist;
		if (status == FASTED_OK)
			add_lists(join, &batch, &run);
	}
	run.cpu = cpu_seconds() - run.cpu;
	run.wall = seconds() - run.wall;
	run.radius /= n;
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

	printf("%-16s %7.3f s of processors, %5.2f times; %7.3f s; %9.1f candidates a row, "
		   "%8.1f pairs; %s %s; prepare %.3f filter %.3f recheck %.3f%s\n", what, run->cpu,
		   run->cpu / base, run->wall, (double) run->stats.candidates / n,
		   (double) run->stats.pairs / n, run->stats.kernel, run->stats.filter,
		   run->stats.prepare_seconds, run->stats.filter_seconds, run->stats.refine_seconds,
		   tiles > 0 ? ", pruned" : "");
	fflush(stdout);
}

/* The run of the least processor seconds. */
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
		fprintf(stderr, "%s does not have so many rows\n", name);
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
