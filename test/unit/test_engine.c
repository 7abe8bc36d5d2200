/*-------------------------------------------------------------------------
 *
 * test_engine.c
 *	  Joins of unusual values and of rows unlike the sample, choices of the CPU engine, and invalid calls;
 *	  test_joins.c has all kinds of rows.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "kinds.h"
#include "tested_engine.h"

static const CallerHabits plain = {.timeout_ms = 100};
static const FastedEngine *engine;

/* Tests values that no common scale suits. */
static void
check_extremes(void)
{
	static const float values[] = {
		0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 1e-30f, -1e-30f, 1.0f,
		-1.0f, 1.0000001f, 1e30f, -1e30f, 3.4028235e38f, -3.4028235e38f,
		3.4028233e38f, INFINITY, NAN,
	};
	const uint32_t count = sizeof(values) / sizeof(values[0]);
	const uint32_t n = 150;
	Way			ways[MOST_WAYS];
	uint32_t	nways = (uint32_t) tested_ways(ways);

	for (uint32_t d = 1; d <= 40; d += 13)
	{
		for (uint32_t used = 7; used <= count; used += 5)
		{
			float	   *rows = must_alloc((size_t) n * d * sizeof(float));
			PairList	all;
			PairList	expected;
			PairList	got;
			bool		same = true;

			for (uint32_t i = 0; i < n; i++)
			{
				bool		even = random_below(3) == 0;
				float		value = values[random_below(used)];

				for (uint32_t k = 0; k < d; k++)
					rows[(size_t) i * d + k] = even ? value
						: values[random_below(used)];
			}
			near_pairs(rows, n, d, INFINITY, &all);
			for (int e = 0; e < (quick() ? 4 : 12) && same; e++)
			{
				PanelProblem problem = {
					.options = options_of_way(&ways[random_below(nways)], d, FASTED_METRIC_L2),.sides = 1
				};
				double		eps = all.count > 0 ? all.pairs[random_below((uint32_t) all.count)].dist : 1.0;

				problem.problem.eps = eps;
				if (e % 4 == 0 && !on_gpu())
					problem.options.kernel = NULL;
				select_pairs(&all, eps, &expected);
				same = run_join(&problem, rows, n, &plain, &got, NULL)
					== FASTED_DONE && pair_equal(&expected, &got);
				free(expected.pairs);
				free(got.pairs);
			}
			ok(same, "%u extreme values, d = %u", used, d);
			free(all.pairs);
			free(rows);
		}
	}
}

/* Tests bytes mixed with fractions and with values out of INT8 range. */
static void
check_unseen_rows(void)
{
	const uint32_t n = 2500;
	const uint32_t d = 40;
	float	   *rows = must_alloc((size_t) n * d * sizeof(float));
	PanelProblem problem = {
		.options = {.dimensions = d,.filter = FASTED_FILTER_INT8},
		.sides = 1
	};
	PairList	all;
	PairList	expected;
	PairList	got;
	FastedStats stats;
	bool		same = true;

	for (size_t i = 0; i < (size_t) n * d; i++)
		rows[i] = (float) random_below(256);
	for (uint32_t i = 0; i < n; i++)
	{
		bool		seen = false;

		/* the rows in which the engine looks for fractions: RANGE_ROWS of rows/encoding.c */
		for (uint32_t s = 0; s < 1024; s++)
			seen = seen || fasted_sample_row(s, 1024, n) == i;
		if (seen)
			continue;
		/* most are near the previous row, with fractional differences */
		for (uint32_t k = 0; k < d; k++)
		{
			float		near = i > 0 ? rows[(size_t) (i - 1) * d + k] : 0.0f;

			rows[(size_t) i * d + k] = near + (i % 7 == 0 ? 300.0f : 1.0f)
				* (float) random_normal();
		}
	}
	near_pairs(rows, n, d, INFINITY, &all);
	for (int e = 0; e < 12 && same; e++)
	{
		/* exactly the distance of one of the nearest pairs */
		problem.problem.eps = fasted_exact_distance(rows + (size_t) (200 * e) * d,
											rows + (size_t) (200 * e + 1) * d, d);
		select_pairs(&all, problem.problem.eps, &expected);
		same = run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE &&
			pair_equal(&expected, &got);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "%s: bytes, fractions and larger values", stats.filter);
	free(all.pairs);
	free(rows);
}

/* The factor of every second mixed row. */
#define MIXED 300.0f

/* Makes clusters of rows.  If mixed, every second row is scaled. */
static float *
make_clusters(uint32_t n, uint32_t d, bool mixed)
{
	float	   *rows = must_alloc((size_t) n * d * sizeof(float));

	for (uint32_t i = 0; i < n; i++)
	{
		const float *near = rows + (size_t) (i - i % 30) * d;

		for (uint32_t k = 0; k < d; k++)
		{
			float		v = (float) random_normal();

			if (i % 30 > 0)
				v = near[k] / (mixed && i % 30 > 0 ? MIXED : 1.0f) + 0.2f * v;
			rows[(size_t) i * d + k] = (mixed && i % 2 == 0 ? MIXED : 1.0f) * v;
		}
	}
	return rows;
}

/*
 * Returns whether the sample favours the best kernel's integer filter, by the rule of
 * src/cpu/filter/choice.c without INT16 rows.  The rule limits the share of pairs that are
 * candidates but too far apart.
 */
static bool
integers_pay(const FastedStats *stats, uint32_t d)
{
	uint64_t	rows = kernel_block(best_kernel());
	uint64_t	vain = stats->sampled_candidates - stats->sampled_pairs;

	return vain * (24 + 4096 / d) <= rows * (rows - 1) / 2;
}

/*
 * By default the engine chooses the integer filter if it has few false candidates, also with
 * panels.  For mixed rows INT8 has too many; INT16 distinguishes distances that are 250 times
 * smaller, and has few.
 */
static void
check_choice(uint32_t n, bool mixed, FastedFilter asked, uint64_t memory_limit)
{
	const uint32_t d = 48;
	const CpuKernel *kernel = best_kernel();
	float	   *rows = make_clusters(n, d, mixed);
	bool		sampled = kernel->int8 != NULL && asked == FASTED_FILTER_AUTO;
	bool		good = !mixed || (kernel->int8 != NULL && kernel->int8->bytes == 2);
	const char *filter = asked == FASTED_FILTER_INT8 || (sampled && good)
		? integer_filter(kernel) : "fp32";
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 2,.filter = asked,.memory_limit = memory_limit},
		.problem = {.eps = 1.9},
		.sides = 1
	};
	FastedStats stats;
	PairList	expected;
	PairList	got;
	bool		same;

	near_pairs(rows, n, d, problem.problem.eps, &expected);
	same = run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE &&
		pair_equal(&expected, &got);
	ok(same && expected.count > n && strcmp(stats.filter, filter) == 0 &&
	   stats.filter_sampled == sampled && (!sampled || integers_pay(&stats, d) == good) &&
	   (memory_limit > 0) == (stats.panels > 1),
	   "%s expected, %s chosen, %zu pairs, %u panels; %llu candidates; sample: %llu, %llu pairs",
	   filter, stats.filter, expected.count, stats.panels,
	   (unsigned long long) stats.candidates,
	   (unsigned long long) stats.sampled_candidates,
	   (unsigned long long) stats.sampled_pairs);
	free(expected.pairs);
	free(got.pairs);
	free(rows);
}

/*
 * A few large clusters, within which INT8 cannot tell near pairs.  The engine still chooses INT8
 * if the kernel supports INT16 rows.
 */
static void
check_choice_with_fine(uint32_t n, uint32_t d, uint32_t clusters, double eps)
{
	const CpuKernel *kernel = best_kernel();
	float	   *rows = must_alloc((size_t) n * d * sizeof(float));
	float	   *centers = must_alloc((size_t) clusters * d * sizeof(float));
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 2,.prune = FASTED_PRUNE_OFF},.problem = {.eps = eps},.sides = 1
	};
	FastedStats stats;
	PairList	expected;
	PairList	got;
	bool		same;

	for (size_t i = 0; i < (size_t) clusters * d; i++)
		centers[i] = 3.0f * (float) random_normal();
	for (size_t i = 0; i < (size_t) n * d; i++)
		rows[i] = centers[i / d % clusters * d + i % d] + 0.3f * (float) random_normal();
	near_pairs(rows, n, d, eps, &expected);
	same = run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE && pair_equal(&expected, &got);
	ok(same && (kernel->int8 == NULL || kernel->int8->dot_int16 == NULL ||
				strcmp(stats.filter, integer_filter(kernel)) == 0),
	   "%s despite false candidates; sample: %llu candidates, %llu pairs", stats.filter,
	   (unsigned long long) stats.sampled_candidates, (unsigned long long) stats.sampled_pairs);
	free(expected.pairs);
	free(got.pairs);
	free(centers);
	free(rows);
}

/*
 * Clusters in which one row in a hundred is 3 to 30 times as long, some of these in pairs.  Such
 * rows are clamped, and must not become candidates of all other rows.
 */
static void
check_long_rows(uint32_t n, uint32_t d)
{
	float	   *rows = make_clusters(n, d, false);
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 2,.filter = FASTED_FILTER_INT8,
		.prune = FASTED_PRUNE_OFF},
		.problem = {.eps = 0.25 * sqrt(d)},
		.sides = 1
	};
	uint64_t	few = (uint64_t) n * n / 150;
	FastedStats stats;
	PairList	expected;
	PairList	got;
	uint32_t	long_pairs = 0;
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	for (uint32_t i = 45; i + 1 < n; i += 100)
	{
		double		factor = 3.0 + 27.0 * random_uniform();

		for (uint32_t k = 0; k < d; k++)
		{
			rows[(size_t) i * d + k] *= (float) factor;
			if (i % 200 == 45)
				rows[(size_t) (i + 1) * d + k] = rows[(size_t) i * d + k]
					+ (float) (0.15 * random_normal());
		}
	}
	near_pairs(rows, n, d, problem.problem.eps, &expected);
	for (size_t i = 0; i < expected.count; i++)
		long_pairs += expected.pairs[i].a % 200 == 45;
	for (int w = 0; w < count; w++)
	{
		if (ways[w].filter != FASTED_FILTER_INT8 || ways[w].prune == FASTED_PRUNE_FORCE)
			continue;
		problem.options.kernel = ways[w].kernel;
		ok(run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE &&
		   pair_equal(&expected, &got) && expected.count > n && long_pairs > 8 &&
		   (on_gpu() || stats.candidates < expected.count + few),
		   "%s: %zu pairs, %u of them of long rows, %llu candidates", ways[w].kernel, expected.count,
		   long_pairs, (unsigned long long) stats.candidates);
		free(got.pairs);
	}
	free(expected.pairs);
	free(rows);
}

/* Returns all pairs of many rows to a caller that is slower than the workers. */
static void
check_slow_caller(void)
{
	const uint32_t n = 1500;
	const uint32_t d = 5;
	Rows		rows = rows_of_kind(NORMAL, n, d);
	PairList	all;
	PairList	got;
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 3,.memory_limit = 1 << 20},
		.problem = {.eps = INFINITY},
		.sides = 1
	};
	CallerHabits slow = {.timeout_ms = 5,.sleep_us = 300};
	FastedStats stats;

	near_pairs(rows.rows, n, d, INFINITY, &all);
	ok(run_join(&problem, rows.rows, n, &slow, &got, &stats) == FASTED_DONE &&
	   pair_equal(&all, &got), "slow caller gets all %zu pairs", all.count);
	free(got.pairs);
	free(all.pairs);
	free_rows(&rows);
}

static double
seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/*
 * Calls next `batches` times, waits for delay_ms, and closes the join.  Measures the longest call
 * of next, and the call of close, in seconds.  Returns false on failure.
 */
static bool
time_close(uint32_t n, uint32_t d, double eps, int delay_ms, int batches, double *closed, double *longest)
{
	Rows		rows = rows_of_kind(NORMAL, n, d);
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 3},.problem = {.eps = eps},.sides = 1
	};
	PanelJoin  *join;
	FastedBatch batch;
	bool		good;

	good = panel_join_open(engine, &problem, &join) == FASTED_OK &&
		load_and_start(join, &problem, &rows, &plain) == FASTED_OK &&
		!FASTED_FAILED(panel_join_next(join, 0, &batch));
	*longest = 0.0;
	for (int i = 0; i < batches; i++)
	{
		double		begin = seconds();

		good = good && !FASTED_FAILED(panel_join_next(join, 2, &batch));
		*longest = fmax(*longest, seconds() - begin);
	}
	nanosleep(&(struct timespec) {.tv_nsec = delay_ms * 1000000L}, NULL);
	*closed = -seconds();
	panel_join_close(join);
	*closed += seconds();
	free_rows(&rows);
	return good;
}

/*
 * Calls of next and close must return soon.  One of ten attempts suffices, because other
 * processes may use the CPUs.
 */
static void
check_close(uint32_t n, uint32_t d, double eps, int delay_ms, int batches)
{
	bool		good = true;
	double		closed = INFINITY;
	double		longest = INFINITY;

	for (int i = 0; i < 10 && good && (closed >= 0.5 || longest >= 0.5); i++)
		good = time_close(n, d, eps, delay_ms, batches, &closed, &longest);
	ok(good && closed < 0.5 && longest < 0.5,
	   "closed after %d ms and %d batches in %.1f ms, next took at most %.1f ms: n = %u, d = %u",
	   delay_ms, batches, 1e3 * closed, 1e3 * longest, n, d);
}

/* Invalid options and problems are rejected, with a message. */
static void
check_refusals(void)
{
	const FastedOptions good = {.dimensions = 3};
	FastedOptions bad[5];
	FastedContext *context;
	char		reason[100] = "x";

	ok(engine->abi == FASTED_ENGINE_ABI && (on_gpu() || strcmp(engine->name, "cpu") == 0) &&
	   engine->probe(NULL, reason, sizeof(reason)) == FASTED_OK, "ABI, name and probe of the engine");
	for (int i = 0; i < 4; i++)
		bad[i] = good;
	bad[0].dimensions = 0;
	bad[1].dimensions = FASTED_MAX_DIMENSIONS + 1;
	/* only the CPU engine rejects these */
	bad[2].kernel = "sse9";
	bad[3].kernel = "";
	for (int i = 0; i < (on_gpu() ? 2 : 4); i++)
	{
		FastedStatus status = engine->open(&bad[i], &context);

		ok(status == (on_gpu() ? FASTED_INTERNAL : FASTED_UNSUPPORTED) && context != NULL &&
		   strlen(engine->last_error(context)) > 10, "rejected: %s",
		   engine->last_error(context));
		engine->close(context);
	}
	engine->close(NULL);

	for (int i = 0; i < 2; i++)
	{
		PanelProblem problem = {
			.options = good,.problem = {.eps = i == 0 ? -1.0 : (double) NAN},.sides = 1
		};
		static const float rows[6] = {0};
		PairList	none;

		ok(run_join(&problem, rows, 2, &plain, &none, NULL) == (on_gpu() ? FASTED_INTERNAL : FASTED_UNSUPPORTED),
		   "rejected: eps = %g", problem.problem.eps);
		free(none.pairs);
	}
}

/* Calls in a wrong order. */
static void
check_order(void)
{
	PanelProblem problem = {
		.options = {.dimensions = 3},.problem = {.eps = 1.0},.sides = 1
	};
	const uint64_t none = 0;
	PanelJoin  *join;
	FastedBatch batch;
	float	   *room;
	size_t		capacity;

	ok(panel_join_open(engine, &problem, &join) == FASTED_OK &&
	   panel_join_next(join, 0, &batch) == FASTED_INTERNAL, "next before start is an error");
	panel_join_close(join);
	ok(panel_join_open(engine, &problem, &join) == FASTED_OK &&
	   panel_join_stage(join, 0, &room, &capacity) == FASTED_OK &&
	   panel_join_commit(join, 0, capacity + 1) == FASTED_INTERNAL,
	   "to commit more rows than staged is an error");
	panel_join_close(join);
	ok(panel_join_open(engine, &problem, &join) == FASTED_OK &&
	   panel_join_stage(join, 0, &room, &capacity) == FASTED_OK &&
	   panel_join_commit(join, 0, 0) == FASTED_OK &&
	   panel_join_start(join, &none) == FASTED_OK &&
	   panel_join_next(join, 0, &batch) == FASTED_DONE &&
	   panel_join_next(join, 0, &batch) == FASTED_DONE &&
	   panel_join_stage(join, 0, &room, &capacity) == FASTED_INTERNAL, "no rows at all");
	panel_join_close(join);
}

static void
check_choices(void)
{
	check_choice(4500, false, FASTED_FILTER_AUTO, 0);
	check_choice(4500, true, FASTED_FILTER_AUTO, 0);
	check_choice(4500, true, FASTED_FILTER_INT8, 0);
	check_choice(4500, false, FASTED_FILTER_FP64, 0);
	check_choice_with_fine(4500, 128, 12, 4.15);
}

int
main(void)
{
	random_seed();
	engine = join_engine = tested_engine();
	if (kernels_hidden())
	{
		check_choices();
		return tap_done();
	}
	check_refusals();
	check_order();
	check_extremes();
	if (quick())
		return tap_done();
	check_unseen_rows();
	check_long_rows(3000, 96);
	check_slow_caller();
	if (!on_gpu())
	{
		check_choices();
		check_choice(9000, false, FASTED_FILTER_AUTO, 3400000);
	}
	check_close(4000, 100, INFINITY, 30, 0);
	check_close(4000, 100, INFINITY, 0, 3);
	check_close(2000, 1000, 30.0, 0, 0);
	check_close(300, 16000, 100.0, 1, 0);
	check_close(300, 16000, INFINITY, 5, 2);
	return tap_done();
}
