/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  Time an engine without PostgreSQL, with and without pruning in turn.
 *
 *	  engine FILE ROWS DIMENSIONS l2|cosine pairs|count THREADS REPEATS EPS...
 *
 * FILE contains the rows as consecutive FP32 numbers.  The program prints one line
 * with a JSON object for each eps.  With "pairs", it checks that all runs return
 * the same pairs and bitwise identical distances.  With "count", it compares only
 * the number of pairs.  run.py runs the program.
 *
 *-------------------------------------------------------------------------
 */
#include "../cpu_engine.h"

#define MOST_REPEATS 64

typedef struct Measured
{
	const char *name;
	FastedPrune prune;
	EngineTimes times[MOST_REPEATS];
	FastedStats stats;			/* statistics of the last run */
} Measured;

static float *
read_rows(const char *path, size_t count)
{
	FILE	   *file = fopen(path, "rb");
	float	   *rows = malloc(count * sizeof(float));

	if (file == NULL || rows == NULL || fread(rows, sizeof(float), count, file) != count)
	{
		fprintf(stderr, "could not read %zu numbers from \"%s\"\n", count, path);
		exit(EXIT_FAILURE);
	}
	fclose(file);
	return rows;
}

static void
print_times(const Measured *m, int repeats)
{
	printf(", \"seconds\": [");
	for (int i = 0; i < repeats; i++)
		printf("%s%.4f", i > 0 ? ", " : "", m->times[i].seconds);
	printf("], \"cpu_seconds\": [");
	for (int i = 0; i < repeats; i++)
		printf("%s%.4f", i > 0 ? ", " : "", m->times[i].cpu_seconds);
	printf("]");
}

static void
print_measured(const Measured *m, int repeats)
{
	const FastedStats *s = &m->stats;

	printf(", \"%s\": {\"filter\": \"%s\", \"filter_dimensions\": %u, \"pairs\": %llu, \"candidates\": %llu, \"prepare_seconds\": %.4f, "
		   "\"pruned_tiles\": [%llu, %llu, %llu], \"full_tiles\": %llu",
		   m->name, s->filter, s->filter_dimensions, (unsigned long long) s->pairs, (unsigned long long) s->candidates,
		   s->prepare_seconds, (unsigned long long) s->pruned_tiles[0],
		   (unsigned long long) s->pruned_tiles[1], (unsigned long long) s->pruned_tiles[2],
		   (unsigned long long) s->full_tiles);
	print_times(m, repeats);
	printf("}");
}

/* Returns whether all runs returned the same pairs and bitwise identical distances. */
static bool
same_pairs(const Measured *measured, int repeats)
{
	for (int m = 0; m < 2; m++)
	{
		for (int r = 0; r < repeats; r++)
		{
			if (measured[m].times[r].digest != measured[0].times[0].digest)
				return false;
		}
	}
	return measured[0].stats.pairs == measured[1].stats.pairs;
}

int
main(int argc, char **argv)
{
	uint32_t	n = argc > 8 ? (uint32_t) atoi(argv[2]) : 0;
	uint32_t	d = argc > 8 ? (uint32_t) atoi(argv[3]) : 0;
	int			threads = argc > 8 ? atoi(argv[6]) : 0;
	int			repeats = argc > 8 ? atoi(argv[7]) : 0;
	float	   *rows;

	if (n < 2 || d < 1 || threads < 0 || repeats < 1 || repeats > MOST_REPEATS)
	{
		fprintf(stderr, "usage: engine FILE ROWS DIMENSIONS l2|cosine pairs|count THREADS REPEATS EPS...\n");
		return EXIT_FAILURE;
	}
	rows = read_rows(argv[1], (size_t) n * d);
	for (int i = 8; i < argc; i++)
	{
		Measured	measured[2] = {{.name = "off",.prune = FASTED_PRUNE_OFF}, {.name = "auto",.prune = FASTED_PRUNE_AUTO}};
		PanelProblem problem = problem_of(n, d, atof(argv[i]), threads, NULL);

		if (strcmp(argv[4], "cosine") == 0)
			problem.options.metric = FASTED_METRIC_COSINE;
		if (strcmp(argv[5], "count") == 0)
			problem.problem.output = FASTED_OUTPUT_COUNT;
		for (int r = 0; r < repeats; r++)
		{
			for (int m = 0; m < 2; m++)
			{
				problem.options.prune = measured[m].prune;
				measured[m].times[r] = run_problem(&problem, rows, n, &measured[m].stats);
			}
		}
		printf("{\"eps\": %.17g, \"kernel\": \"%s\", \"same_pairs\": %s", problem.problem.eps,
			   measured[0].stats.kernel, same_pairs(measured, repeats) ? "true" : "false");
		for (int m = 0; m < 2; m++)
			print_measured(&measured[m], repeats);
		printf("}\n");
		fflush(stdout);
	}
	free(rows);
	return EXIT_SUCCESS;
}
