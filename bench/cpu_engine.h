/*-------------------------------------------------------------------------
 *
 * cpu_engine.h
 *	  Normally distributed random rows, and a timed self-join of them without
 *	  PostgreSQL.
 *
 * The join uses the CPU engine, or the engine of the shared library that the
 * environment variable FASTED_ENGINE_LIBRARY names.  The time runs from the
 * last staged row to the last pair.  It includes packing, filter, recheck, and
 * fetching the pairs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef CPU_ENGINE_H
#define CPU_ENGINE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../src/engine/exact_distance.h"
#include "../src/engine/panel_join.h"
#include "../test/unit/engine_library.h"

/* Reads the monotonic clock, in seconds. */
static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* Returns a random number of the standard normal distribution. */
static double
normal(void)
{
	double		u = 1.0 - drand48();

	return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * drand48());
}

static int
compare_doubles(const void *left, const void *right)
{
	double		p = *(const double *) left;
	double		q = *(const double *) right;

	return p < q ? -1 : p > q;
}

/*
 * Estimates the eps at which a row has "neighbours" neighbours on average, from
 * the distances of 200000 random pairs.
 */
static inline double
guess_eps(const float *rows, uint32_t n, uint32_t d, double neighbours)
{
	const uint32_t count = 200000;
	double	   *dist = malloc(count * sizeof(double));
	double		eps;

	for (uint32_t i = 0; i < count; i++)
	{
		uint32_t	a = (uint32_t) (drand48() * n);
		uint32_t	b = (uint32_t) (drand48() * (n - 1));

		b += b >= a;
		dist[i] = fasted_exact_distance(rows + (size_t) a * d,
										rows + (size_t) b * d, d);
	}
	qsort(dist, count, sizeof(double), compare_doubles);
	eps = dist[(size_t) (neighbours / (n - 1) * count)];
	free(dist);
	return eps;
}

/* Allocates n rows of d normal random numbers, which are the same in every run. */
static inline float *
make_rows(uint32_t n, uint32_t d)
{
	float	   *rows = malloc((size_t) n * d * sizeof(float));

	for (size_t i = 0; i < (size_t) n * d; i++)
		rows[i] = (float) normal();
	return rows;
}

/* Stages n rows of d dimensions on side 0 of the join. */
static FastedStatus
stage_rows(PanelJoin *join, const float *rows, uint32_t n, uint32_t d)
{
	FastedStatus status = FASTED_OK;

	for (uint32_t done = 0; done < n && status == FASTED_OK;)
	{
		float	   *buffer;
		size_t		capacity;

		status = panel_join_stage(join, 0, &buffer, &capacity);
		if (status != FASTED_OK)
			break;
		if (capacity > n - done)
			capacity = n - done;
		memcpy(buffer, rows + (size_t) done * d, capacity * d * sizeof(float));
		status = panel_join_commit(join, 0, capacity);
		done += (uint32_t) capacity;
	}
	return status;
}

/* Returns the CPU time of all threads of this process, in seconds. */
static double
cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

typedef struct EngineTimes
{
	double		seconds;
	double		cpu_seconds;	/* CPU time of all threads */
	uint64_t	digest;			/* sum of the hashes of all pairs */
} EngineTimes;

/* Hashes the row numbers and the distance of a pair. */
static uint64_t
hash_pair(const FastedPair *pair)
{
	uint64_t	bits;

	memcpy(&bits, &pair->dist, sizeof(bits));
	bits = (bits ^ ((uint64_t) pair->a << 32 | pair->b)) * UINT64_C(0x9e3779b97f4a7c15);
	return (bits ^ bits >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Returns the engine to measure: see the top of this file. */
static inline const FastedEngine *
measured_engine(void)
{
	const char *path = getenv("FASTED_ENGINE_LIBRARY");

	return path == NULL ? fasted_cpu_engine() : engine_of_library(path, stderr, "");
}

/* Describes a self-join of n rows; a NULL kernel lets the engine choose one. */
static inline PanelProblem
problem_of(uint32_t n, uint32_t d, double eps, int threads, const char *kernel)
{
	return (PanelProblem) {
		.options = {.dimensions = d,.threads = threads,.kernel = kernel},
		.problem = {.eps = eps},
		.sides = 1,
		.expected_rows = {n}
	};
}

/*
 * Runs one self-join of n rows and returns its times, from the last row to the
 * last pair.  *stats receives the engine's statistics.  Exits on an error.
 */
static inline EngineTimes
run_problem(const PanelProblem *problem, const float *rows, uint32_t n, FastedStats *stats)
{
	const FastedEngine *engine = measured_engine();
	uint32_t	d = problem->options.dimensions;
	const uint64_t total = n;
	PanelJoin  *join;
	FastedBatch batch;
	FastedStatus status = panel_join_open(engine, problem, &join);
	EngineTimes times = {0};

	if (status == FASTED_OK)
		status = stage_rows(join, rows, n, d);
	times.seconds = -seconds();
	times.cpu_seconds = -cpu_seconds();
	if (status == FASTED_OK)
		status = panel_join_start(join, &total);
	while (status == FASTED_OK || status == FASTED_AGAIN)
	{
		status = panel_join_next(join, 100, &batch);
		for (size_t i = 0; status == FASTED_OK && i < batch.npairs; i++)
			times.digest += hash_pair(&batch.pairs[i]);
	}
	times.seconds += seconds();
	times.cpu_seconds += cpu_seconds();
	if (status != FASTED_DONE)
	{
		fprintf(stderr, "%s\n", status == FASTED_FULL ? "the rows do not fit into memory"
				: panel_join_last_error(engine, join));
		exit(EXIT_FAILURE);
	}
	panel_join_stats(join, stats);
	panel_join_close(join);
	return times;
}

#endif							/* CPU_ENGINE_H */
