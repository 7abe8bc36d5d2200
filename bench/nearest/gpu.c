/*-------------------------------------------------------------------------
 *
 * gpu.c
 *	  Compare a GPU's search for the k nearest rows with its join at an eps that
 *	  gives as many pairs, without PostgreSQL.
 *
 * The rows are generated.  "sift-like" rows consist of small integers, and
 * "gist-like" rows of real numbers; both lie near a space of few dimensions.
 * "normal" rows have no structure.  The rows are staged once.  The time runs
 * from there to the last neighbour or pair in host memory.  A sample of the
 * lists is compared with brute force.  Build and run the program in the top
 * directory:
 *
 *	  make fasted_cuda.so
 *	  gcc -std=gnu11 -O3 -march=native -ffp-contract=off -fopenmp -o /tmp/gpu \
 *		  bench/nearest/gpu.c SOURCES -ldl -lpthread -lm
 *	  /tmp/gpu [--devices] [--two] fasted_cuda.so sift-like|gist-like|normal ROWS DIMENSIONS K ...
 *
 * SOURCES stands for all C files below src/cpu and src/engine.  The largest K must
 * come first.  With --devices, the work is partitioned over all identical GPUs.
 * With --two, the same rows are staged on both sides.
 *
 *-------------------------------------------------------------------------
 */
#include <dlfcn.h>

#include "../../src/engine/engine.h"
#include "../cpu_engine.h"

/* Number of latent dimensions, and of clusters. */
#define LATENT 20
#define CLUSTERS 500

/* Number of lists that are compared with brute force. */
#define CHECKED 16

static const FastedEngine *engine;
static bool two_sets;

/* Returns 32 random bits (xorshift64*). */
static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * UINT64_C(0x2545f4914f6cdd1d) >> 32;
}

/* Returns an approximately normal random number of variance 1. */
static float
about_normal(uint64_t *state)
{
	uint64_t	bits = next_random(state) << 32 | next_random(state);
	float		sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (float) (bits >> 16 * i & 0xffff);
	return (sum / 65535.0f - 2.0f) * 1.7320508f;
}

/* Generates a row: a point of a latent cluster, mapped to d dimensions, plus noise. */
static void
make_row(float *row, uint32_t number, uint32_t d, const float *axes, const float *centres, bool bytes)
{
	uint64_t	state = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	float		latent[LATENT];
	const float *centre;

	next_random(&state);
	centre = centres + next_random(&state) % CLUSTERS * LATENT;
	for (int i = 0; i < LATENT; i++)
		latent[i] = centre[i] + 0.7f * about_normal(&state) / (1.0f + 0.1f * (float) i);
	for (uint32_t k = 0; k < d; k++)
		row[k] = 0.1f * about_normal(&state);
	for (int i = 0; i < LATENT; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			row[k] += latent[i] * axes[(size_t) i * d + k];
	}
	for (uint32_t k = 0; k < d; k++)
	{
		if (bytes)
			row[k] = rintf(fminf(218.0f, fmaxf(0.0f, 20.0f + 12.0f * row[k])));
		else
			row[k] = 0.07f + 0.02f * row[k];
	}
}

/* Generates n rows of d dimensions. */
static float *
generate_rows(const char *kind, uint32_t n, uint32_t d)
{
	float	   *rows = malloc((size_t) n * d * sizeof(float));
	float	   *axes = make_rows(LATENT, d);
	float	   *centres = make_rows(CLUSTERS, LATENT);
	bool		bytes = strcmp(kind, "sift-like") == 0;

	if (strcmp(kind, "normal") == 0)
		memset(axes, 0, LATENT * d * sizeof(float));

#pragma omp parallel for
	for (uint32_t i = 0; i < n; i++)
		make_row(rows + (size_t) i * d, i, d, axes, centres, bytes);
	free(axes);
	free(centres);
	return rows;
}

typedef struct Found
{
	double		radius;			/* mean distance of the k-th neighbours */
	double		first;			/* clock time of the first list, in seconds */
	uint64_t	hash;			/* hash of all lists */
	uint64_t	wrong;			/* number of checked lists that are wrong */
	uint64_t	checked;		/* number of checked lists */
	uint64_t	pairs;			/* number of pairs and neighbours */
} Found;

/* Returns whether the list contains exactly the nearest rows, in order and with their exact distances. */
static bool
list_is_right(const float *rows, uint32_t n, uint32_t d, uint32_t row, const FastedNeighbor *list,
			  uint32_t length)
{
	const FastedNeighbor last = list[length - 1];
	uint32_t	within = 0;
	bool		right = true;

#pragma omp parallel for reduction(+:within)
	for (uint32_t other = 0; other < n; other++)
	{
		double		dist = fasted_exact_distance(rows + (size_t) row * d, rows + (size_t) other * d, d);

		within += (two_sets || other != row) && (dist < last.dist || (dist == last.dist && other <= last.row));
	}
	for (uint32_t i = 0; i < length; i++)
	{
		right = right && (two_sets || list[i].row != row) && list[i].dist ==
			fasted_exact_distance(rows + (size_t) row * d, rows + (size_t) list[i].row * d, d);
		right = right && (i == 0 || list[i - 1].dist < list[i].dist ||
						  (list[i - 1].dist == list[i].dist && list[i - 1].row < list[i].row));
	}
	if (within != length)
		fprintf(stderr, "row %u: %u rows are within %.17g, but the list has %u rows\n", row,
				within, last.dist, length);
	return right && within == length;
}

/* Fetches all lists and pairs, and checks a sample of the lists if "check" is set. */
static FastedStatus
drain(PanelJoin *join, const float *rows, uint32_t n, uint32_t d, bool check, Found *found)
{
	FastedBatch batch;
	FastedStatus status;

	while ((status = panel_join_next(join, 100, &batch)) == FASTED_OK || status == FASTED_AGAIN)
	{
		found->pairs += batch.npairs;
		if (batch.row_count > 0 && found->first == 0)
			found->first = seconds();
		for (uint64_t row = batch.first_row; row < batch.first_row + batch.row_count; row++)
		{
			uint32_t	length;
			const FastedNeighbor *list = panel_join_nearest(join, row, &length);

			found->radius += length > 0 ? list[length - 1].dist / n : 0.0;
			found->pairs += length;
			if (length > 0)
				found->hash = (found->hash ^ list[length - 1].row ^ list[length / 2].row) *
					UINT64_C(0x9e3779b97f4a7c15);
			if (!check || row % (n / CHECKED) != n / CHECKED / 2)
				continue;
			found->checked++;
			found->wrong += !list_is_right(rows, n, d, (uint32_t) row, list, length);
		}
	}
	return status;
}

static void
print_run(const char *what, uint32_t n, double wall, double first, const FastedStats *before,
		  const FastedStats *after, const Found *found)
{
	printf("%-12s %7.3f s, first list after %.3f s; device %.3f filter %.3f recheck and lists %.3f prepare %.3f; %s; "
		   "per row %.1f candidates and %.1f pairs; %llu repeated units; per row %.1f results, mean radius %.6g; "
		   "%llu of %llu checked lists wrong, hash %016llx; %s\n",
		   what, wall, first, after->device_seconds - before->device_seconds,
		   after->filter_seconds - before->filter_seconds,
		   after->refine_seconds - before->refine_seconds,
		   after->prepare_seconds - before->prepare_seconds, after->filter,
		   (double) (after->candidates - before->candidates) / n,
		   (double) (after->pairs - before->pairs) / n,
		   (unsigned long long) (after->redone_units - before->redone_units),
		   (double) found->pairs / n, found->radius, (unsigned long long) found->wrong,
		   (unsigned long long) found->checked, (unsigned long long) found->hash, after->device);
	fflush(stdout);
}

/* Exits if the status is an error. */
static void
must(FastedStatus status, const PanelJoin *join)
{
	if (!FASTED_FAILED(status))
		return;
	fprintf(stderr, "%s\n", panel_join_last_error(engine, join));
	exit(EXIT_FAILURE);
}

/* Runs a join whose rows are staged.  The first run starts the join, and later ones repeat it with another problem. */
static Found
run(PanelJoin *join, const float *rows, uint32_t n, uint32_t d, const FastedProblem *problem,
	bool first, const char *what, bool check)
{
	const uint64_t total[2] = {n, n};
	FastedStats before;
	FastedStats after;
	Found		found = {0};
	double		begun = seconds();

	panel_join_stats(join, &before);
	must(first ? panel_join_start(join, total) : panel_join_again(join, problem), join);
	must(drain(join, rows, n, d, check, &found), join);
	panel_join_stats(join, &after);
	print_run(what, n, seconds() - begun, found.first > 0 ? found.first - begun : 0, &before, &after, &found);
	return found;
}

/* Stages the rows on one side or on both. */
static void
stage_sides(PanelJoin *join, const float *rows, uint32_t n, uint32_t d)
{
	double		begun = seconds();

	for (int side = 0; side < (two_sets ? 2 : 1); side++)
	{
		uint64_t	done = 0;

		while (done < n)
		{
			float	   *buffer;
			size_t		count;

			must(panel_join_stage(join, side, &buffer, &count), join);
			count = count < n - done ? count : n - done;
			memcpy(buffer, rows + done * d, count * d * sizeof(float));
			must(panel_join_commit(join, side, count), join);
			done += count;
		}
	}
	printf("staged in %.1f s\n", seconds() - begun);
}

int
main(int argc, char **argv)
{
	bool		devices = argc > 1 && strcmp(argv[1], "--devices") == 0;
	uint32_t	n;
	uint32_t	d;
	void	   *library;
	void	   *entry;
	PanelProblem problem = {
		.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST}
	};
	PanelJoin  *join;
	FastedProblem pairs = {.eps = 0};
	double		begun = seconds();
	float	   *rows;

	argc -= devices;
	argv += devices;
	two_sets = argc > 1 && strcmp(argv[1], "--two") == 0;
	argc -= two_sets;
	argv += two_sets;
	n = argc > 5 ? (uint32_t) atoi(argv[3]) : 0;
	d = argc > 5 ? (uint32_t) atoi(argv[4]) : 0;
	library = argc > 5 ? dlopen(argv[1], RTLD_NOW) : NULL;
	entry = library != NULL ? dlsym(library, FASTED_ENGINE_ENTRY) : NULL;
	if (entry == NULL)
	{
		fprintf(stderr, "usage: gpu [--devices] [--two] LIBRARY KIND ROWS DIMENSIONS K ...\n");
		return EXIT_FAILURE;
	}
	engine = ((FastedEngineEntry) (uintptr_t) entry) ();
	if (devices)
		engine = fasted_multi_gpu_engine(engine);
	rows = generate_rows(argv[2], n, d);
	printf("%s, %u x %u: generated in %.1f s\n", argv[2], n, d, seconds() - begun);
	problem.options.dimensions = d;
	problem.sides = two_sets ? 2 : 1;
	problem.expected_rows[0] = problem.expected_rows[1] = n;
	problem.problem.k = (uint32_t) atoi(argv[5]);
	must(panel_join_open(engine, &problem, &join), join);
	stage_sides(join, rows, n, d);
	for (int i = 5; i < argc; i++)
	{
		char		what[32];

		problem.problem.k = (uint32_t) atoi(argv[i]);
		snprintf(what, sizeof(what), "k = %u", problem.problem.k);
		run(join, rows, n, d, &problem.problem, i == 5, what, true);
		pairs.eps = run(join, rows, n, d, &problem.problem, false, what, false).radius;
	}
	/* about as many pairs as there are neighbours for the last K */
	run(join, rows, n, d, &pairs, false, "join at eps", false);
	run(join, rows, n, d, &pairs, false, "join at eps", false);
	panel_join_close(join);
	return EXIT_SUCCESS;
}
