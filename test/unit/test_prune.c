/*-------------------------------------------------------------------------
 *
 * test_prune.c
 *	  Pruning loses no pair for any kind of rows, is chosen when it helps, and needs each term of
 *	  its error bound.
 *
 * Tests the CPU engine, or joins of projected rows by the engine of the library that
 * FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include <time.h>

#include "../../src/cpu/rows/order.h"
#include "../../src/engine/filter_bound.h"
#include "../../src/engine/host_device.h"
#include "kinds.h"
#include "tested_engine.h"

static const CallerHabits plain = {.timeout_ms = 100};

/* Kinds of rows with or without leading directions. */
static const Kind kinds[] = {CLUSTERS, LOW_RANK, CONSTANT, NEAR_COPIES, OUTLIERS, WILD, INTEGERS, EQUAL, TINY_STEPS,
	NORMAL, HUGE_VALUES, SUBNORMAL};

#define NKINDS (int) (sizeof(kinds) / sizeof(kinds[0]))

static float *
make_rows(Kind kind, uint32_t n, uint32_t d)
{
	return (float *) rows_of_side(kind, 0, n, d, 20, NULL, 1.0).rows;
}

static const char *const metric_names[] = {"distances", "cosines"};

/* Returns all pairs that have a distance. */
static void
measured_pairs(FastedMetric metric, const float *rows, uint32_t n, uint32_t d, PairList *list)
{
	find_pairs(&(PanelProblem) {.options = {.dimensions = d,.metric = metric},.problem.eps = INFINITY,.sides = 1},
			   &(Rows) {.rows = rows,.n = n}, list);
}

/* Chooses zero, a small exact distance, and values near it. */
static int
pick_small_eps(const PairList *all, double *eps)
{
	double		nearest = INFINITY;
	int			count = 0;

	eps[count++] = 0.0;
	for (int i = 0; i < 500 && all->count > 0; i++)
	{
		double		dist = all->pairs[random_below((uint32_t) all->count)].dist;

		if (dist > 0 && dist < nearest)
			nearest = dist;
	}
	if (isfinite(nearest))
	{
		eps[count++] = nearest;
		eps[count++] = nextafter(nearest, 0.0);
		eps[count++] = 1.7 * nearest;
	}
	return count;
}

static void
check_way(const Way *way, Kind kind, FastedMetric metric, const float *rows, uint32_t n,
		  uint32_t d, const PairList *all)
{
	uint32_t	width = d > 96 ? 128 : 64;
	bool		all_equal = kind == EQUAL || kind == SUBNORMAL || (metric == FASTED_METRIC_COSINE && d == 1) ||
		(on_gpu() && (d == 1 || kind == WILD));
	double		eps[4];
	int			count = pick_small_eps(all, eps);
	bool		same = true;

	for (int e = (int) random_below(2); e < count && same; e += 2)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.metric = metric,.kernel = way->kernel,.filter = way->filter,
			.prune = way->prune,.threads = 2},
			.problem = {.eps = eps[e]},.sides = 1
		};
		FastedStats stats;
		PairList	expected;
		PairList	got;

		select_pairs(all, eps[e], &expected);
		same = run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE &&
			pair_equal(&expected, &got) &&
			(all_equal || (on_gpu() ? stats.filter_dimensions == width : stats.pruned_tiles[0] > 0));
		if (!same)
			printf("# eps %.17g: %zu of %zu pairs, %llu tiles, %u dimensions\n", eps[e], got.count, expected.count,
				   (unsigned long long) stats.pruned_tiles[0], stats.filter_dimensions);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "%s, %s: %s of %s, n = %u, d = %u", way->kernel, way->name, metric_names[metric],
	   kind_names[kind], n, d);
}

static void
check_kind(Kind kind, uint32_t n, uint32_t d)
{
	Way			ways[MOST_WAYS];
	int			count = on_gpu() ? tested_ways(ways) : some_ways(ways, ways_of(ways, FASTED_PRUNE_FORCE));
	float	   *rows = make_rows(kind, n, d);

	for (int metric = FASTED_METRIC_L2; metric <= FASTED_METRIC_COSINE; metric++)
	{
		PairList	all;

		measured_pairs((FastedMetric) metric, rows, n, d, &all);
		for (int w = 0; w < count; w++)
		{
			if (ways[w].prune == FASTED_PRUNE_FORCE)
				check_way(&ways[w], kind, (FastedMetric) metric, rows, n, d, &all);
		}
		free(all.pairs);
	}
	free(rows);
}

/*
 * By default, a join prunes if it helps, and does not prune if it does not help or there are few
 * rows.  It never prunes if told so.
 */
static void
check_choice(const char *kernel, Kind kind, FastedMetric metric, uint32_t n, uint32_t d, double eps,
			 bool pruned)
{
	float	   *rows = make_rows(kind, n, d);
	PairList	got[2];
	FastedStats stats[2];
	bool		same = true;

	for (int i = 0; i < 2; i++)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.metric = metric,.threads = 2,.kernel = kernel,
			.prune = i == 0 ? FASTED_PRUNE_OFF : FASTED_PRUNE_AUTO},
			.problem = {.eps = eps},.sides = 1
		};

		same = run_join_once(&problem, &(Rows) {.rows = rows,.n = n}, &plain, &got[i], &stats[i],
							 NULL) == FASTED_DONE && same;
	}
	ok(same && pair_equal(&got[0], &got[1]) && stats[0].pruned_tiles[0] + stats[0].pruned_tiles[1] == 0 &&
	   (stats[1].pruned_tiles[0] + stats[1].pruned_tiles[1] > 0) == pruned &&
	   (!pruned || 2 * stats[1].full_tiles < stats[1].pruned_tiles[0] + stats[1].pruned_tiles[1]),
	   "%s, %s of %s, %u rows: %s; %zu pairs, %llu tiles, then %llu, %llu, %llu", kernel,
	   metric_names[metric], kind_names[kind], n, pruned ? "pruned" : "not pruned", got[1].count, (unsigned long long) stats[1].pruned_tiles[0],
	   (unsigned long long) stats[1].pruned_tiles[1], (unsigned long long) stats[1].pruned_tiles[2],
	   (unsigned long long) stats[1].full_tiles);
	free(got[0].pairs);
	free(got[1].pairs);
	free(rows);
}

/* A GPU projects rows if they have few leading directions, and not otherwise. */
static void
check_projected(Kind kind, bool projected)
{
	const uint32_t n = 6000;
	const uint32_t d = 512;
	float	   *rows = make_rows(kind, n, d);
	double		eps = INFINITY;
	PairList	expected;

	for (uint32_t i = 0; i < 10000; i++)
	{
		double		dist = fasted_exact_distance(rows + (size_t) random_below(n) * d, rows + (size_t) random_below(n) * d, d);

		eps = dist > 0.0 ? fmin(eps, dist) : eps;
	}
	near_pairs(rows, n, d, eps, &expected);
	tuning.always_choose = true;
	for (int i = 0; i < 2; i++)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.prune = i == 0 ? FASTED_PRUNE_AUTO : FASTED_PRUNE_OFF},
			.problem = {.eps = eps},.sides = 1
		};
		FastedStats stats;
		PairList	got;
		FastedStatus status = run_join_once(&problem, &(Rows) {.rows = rows,.n = n}, &plain, &got, &stats, NULL);

		ok(status == FASTED_DONE && pair_equal(&got, &expected) && (stats.filter_dimensions > 0) == (projected && i == 0),
		   "%s, prune %s: %u filter dimensions, %zu pairs", kind_names[kind], i == 0 ? "auto" : "off",
		   stats.filter_dimensions, got.count);
		free(got.pairs);
	}
	tuning.always_choose = false;
	free(expected.pairs);
	free(rows);
}

/*
 * Directions are computed from all sampled rows, but the scale of a level only from some of
 * them.  Here, all of the latter have no direction.
 */
static void
check_zeros(uint32_t n, uint32_t d)
{
	Way			ways[MOST_WAYS];
	int			count = ways_of(ways, FASTED_PRUNE_FORCE);
	float	   *rows = make_rows(CLUSTERS, n, d);
	PairList	all;

	for (uint32_t sample = 256; sample <= 4096; sample *= 2)
	{
		for (uint32_t s = 0; s < sample; s += sample / 256 + 1)
			memset(rows + fasted_sample_row(s, sample, n) * d, 0, d * sizeof(float));
	}
	measured_pairs(FASTED_METRIC_COSINE, rows, n, d, &all);
	for (int w = 0; w < count; w++)
		check_way(&ways[w], CLUSTERS, FASTED_METRIC_COSINE, rows, n, d, &all);
	free(all.pairs);
	free(rows);
}

/* Closes joins at random times, as a cancelled query does. */
static void
check_closed_early(uint32_t n, uint32_t d)
{
	Way			ways[MOST_WAYS];
	int			count = ways_of(ways, FASTED_PRUNE_FORCE);
	float	   *rows = make_rows(CLUSTERS, n, d);
	bool		right = true;

	for (int i = 0; i < (quick() ? 80 : 800) && right; i++)
	{
		const Way  *way = &ways[i % count];
		PanelProblem problem = {
			.options = {.dimensions = d,.kernel = way->kernel,.filter = way->filter,
			.prune = FASTED_PRUNE_FORCE,.threads = 1},
			.problem = {.eps = 0.01},.sides = 1
		};
		Rows		side = {.rows = rows,.n = n};
		struct timespec rest = {.tv_nsec = 1000 * (long) random_below(6000)};
		PanelJoin  *join = NULL;
		FastedBatch batch;

		right = panel_join_open(fasted_cpu_engine(), &problem, &join) == FASTED_OK &&
			load_and_start(join, &problem, &side, &plain) == FASTED_OK &&
			!FASTED_FAILED(panel_join_next(join, 0, &batch));
		nanosleep(&rest, NULL);
		panel_join_close(join);
	}
	ok(right, "%u rows: joins closed early", n);
	free(rows);
}

/* Nothing is written to the order if the join was stopped before. */
static void
check_stopped_order(void)
{
	enum
	{
		N = 1000, STRIDE = 4
	};
	static float projected[N * STRIDE];
	static uint64_t room[N];
	static uint32_t order[N];
	FastedContext *context = calloc(1, sizeof(FastedContext));
	Worker	   *worker = calloc(1, sizeof(Worker));
	Projection	projection = {.directions = 1,.levels = 1,.stride = STRIDE};
	bool		whole;
	bool		stopped;

	context->kernel = fasted_cpu_kernel(0);
	atomic_store(&context->threads.rest_at, UINT64_MAX);
	worker->context = context;
	memset(order, 0xff, sizeof(order));
	atomic_store(&context->threads.stop, true);
	stopped = !cpu_kd_order(worker, &projection, projected, N, room, order) && order[0] == UINT32_MAX;
	atomic_store(&context->threads.stop, false);
	whole = cpu_kd_order(worker, &projection, projected, N, room, order) && order[0] < N;
	ok(stopped && whole, "ordering does not start after a stop");
	free(worker);
	free(context);
}

/* --- the terms of the error bound */

#define K 31
#define GROUP 16				/* coordinates summed by a direction, with factor 1/4 */
#define D 512
#define ROWS 200

typedef struct Terms
{
	bool		stretch;
	bool		projection;
	bool		residual;
} Terms;

typedef struct LevelRow
{
	double		numbers[K + 1];
	double		moved;
} LevelRow;

/* Makes directions that are exactly orthonormal, except for a factor 1 + apart. */
static void
make_directions(float directions[K][D], double apart)
{
	for (int i = 0; i < K; i++)
	{
		for (int k = 0; k < D; k++)
			directions[i][k] = (float) ((k / GROUP == i ? 0.25 : 0.0) * (1.0 + apart));
	}
}

static double
measure_eta(float directions[K][D])
{
	double		sum = 0.0;

	for (int i = 0; i < K; i++)
	{
		for (int j = 0; j < K; j++)
		{
			double		dot = i == j ? -1.0 : 0.0;

			for (int k = 0; k < D; k++)
				dot += (double) directions[i][k] * directions[j][k];
			sum += dot * dot;
		}
	}
	return sqrt(sum) * (1 + 1e-9);
}

/* Projects a row as the engine does, in FP32 pieces, with the given terms of the bound. */
static LevelRow
project(float directions[K][D], double eta, const double *row, Terms terms)
{
	LevelRow	level;
	float		q[D];
	double		norm2 = 0.0;
	double		error2 = 0.0;
	double		projected2 = 0.0;
	double		error;
	double		residual_error;

	for (int k = 0; k < D; k++)
	{
		q[k] = (float) row[k];
		norm2 += (double) q[k] * q[k];
		error2 += (row[k] - q[k]) * (row[k] - q[k]);
	}
	for (int i = 0; i < K; i++)
	{
		double		sum = 0.0;

		for (int first = 0; first < D; first += FASTED_PRUNE_PIECE)
		{
			float		piece = 0.0f;

			for (int k = first; k < first + FASTED_PRUNE_PIECE; k++)
				piece += directions[i][k] * q[k];
			sum += piece;
		}
		level.numbers[i] = (float) sum;
		projected2 += level.numbers[i] * level.numbers[i];
	}
	level.numbers[K] = (float) sqrt(fmax(0.0, norm2 - projected2));
	error = fasted_prune_projection_error(sqrt(norm2), sqrt(projected2), eta, K, D);
	residual_error = fasted_prune_residual_error(norm2, projected2, level.numbers[K], error, eta, D);
	level.moved = fasted_prune_moved(fasted_rho(error2, norm2, D), eta,
									 terms.projection ? error : 0.0,
									 terms.residual ? residual_error : 0.0);
	return level;
}

/*
 * Makes two rows.  The first has about the same length in each direction, and `residual` in the
 * other coordinates.  The second differs by `step` in each direction, or in one coordinate.
 */
static void
make_pair(double length, double step, double residual, bool one, double rows[2][D])
{
	for (int k = 0; k < D; k++)
	{
		if (k % GROUP == 0 || one)
			rows[0][k] = (float) (length * (1.0 + 0.01 * random_normal()));
		else
			rows[0][k] = rows[0][k - 1];
		if (k >= GROUP * K)
			rows[0][k] = residual;
		rows[1][k] = (float) (rows[0][k] + (one && k != 5 ? 0.0 : k < GROUP * K ? step : 0.0));
	}
}

/* Returns the number of pairs that are lost with only these terms. */
static int
count_lost(double apart, double step, double residual, bool one, Terms terms)
{
	static float directions[K][D];
	int			lost = 0;
	double		eta;

	make_directions(directions, apart);
	eta = measure_eta(directions);
	for (int n = 0; n < ROWS; n++)
	{
		double		rows[2][D];
		LevelRow	level[2];
		double		dist2 = 0.0;
		double		level2 = 0.0;
		double		reach;

		make_pair(1.0, step, residual, one, rows);
		for (int k = 0; k < D; k++)
			dist2 += (rows[0][k] - rows[1][k]) * (rows[0][k] - rows[1][k]);
		for (int i = 0; i < 2; i++)
			level[i] = project(directions, eta, rows[i], terms);
		for (int k = 0; k <= K; k++)
			level2 += (level[0].numbers[k] - level[1].numbers[k])
				* (level[0].numbers[k] - level[1].numbers[k]);
		reach = sqrt(dist2) * (terms.stretch ? fasted_prune_stretch(eta) : 1.0) + level[0].moved
			+ level[1].moved;
		lost += sqrt(level2) > reach;
	}
	return lost;
}

static void
check_terms(void)
{
	static const Terms all = {true, true, true};
	static const struct
	{
		const char *name;
		double		apart;
		double		step;
		double		residual;
		bool		one;
		Terms		terms;
	}			cases[] = {
		{"the stretch term", 1e-2, -2.0, 100.0, false, {false, true, true}},
		{"the error terms", 0.0, 1.2e-7, 0.0, true, {true, false, false}},
		{"the residual error", 0.0, 1.2e-7, 0.0, false, {true, true, false}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		int			whole = count_lost(cases[i].apart, cases[i].step, cases[i].residual, cases[i].one, all);
		int			part = count_lost(cases[i].apart, cases[i].step, cases[i].residual, cases[i].one,
									  cases[i].terms);

		ok(whole == 0 && part > 0, "without %s, %d of %d pairs are lost, with it %d", cases[i].name,
		   part, ROWS, whole);
	}
}

int
main(void)
{
	const char *kernel = pruning_kernel();

	random_seed();
	join_engine = tested_engine();
	for (int i = 0; i < NKINDS; i++)
	{
		check_kind(kinds[i], quick() ? 250 : 400, 130);
		check_kind(kinds[i], 301, on_gpu() ? 40 : 20);
		if (!on_gpu())
			continue;
		check_kind(kinds[i], 1003, 97);
		check_kind(kinds[i], 1003, 128);
		check_kind(kinds[i], 517, 700);
	}
	check_kind(CLUSTERS, 400, 300);
	check_kind(LOW_RANK, 150, 1);
	check_kind(INTEGERS, 150, 2);
	if (on_gpu())
	{
		check_kind(LOW_RANK, 200, 8192);
		check_kind(CLUSTERS, 5001, 130);
		check_projected(LOW_RANK, true);
		check_projected(NORMAL, false);
		return tap_done();
	}
	check_terms();
	check_zeros(700, 64);
	check_zeros(301, 33);
	check_closed_early(600, 64);
	check_stopped_order();
	check_choice(kernel, CLUSTERS, FASTED_METRIC_L2, 21000, 64, 0.45, true);
	if (quick())
		return tap_done();
	check_choice(kernel, OUTLIERS, FASTED_METRIC_COSINE, 21000, 64, 0.6, false);
	check_choice(kernel, CLUSTERS, FASTED_METRIC_COSINE, 21000, 64, 3e-4, true);
	check_choice(kernel, CLUSTERS, FASTED_METRIC_L2, 9000, 64, 0.45, false);
	check_choice(kernel, OUTLIERS, FASTED_METRIC_L2, 21000, 64, 7.0, false);
	return tap_done();
}
