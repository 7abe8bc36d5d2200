/*-------------------------------------------------------------------------
 *
 * test_engine.c
 *	  The CPU engine, compared bit for bit with brute force, for every kernel.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/cpu/kernels/kernel.h"
#include "join.h"
#include "ways.h"

static const CallerHabits plain = {.timeout_ms = 100};

/* Makes random rows of a kind, with some duplicates. */
static float *
make_rows(uint32_t n, uint32_t d, int kind)
{
	float	   *rows = must_alloc((size_t) n * d * sizeof(float));

	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = rows + (size_t) i * d;

		if (i > 0 && random_below(10) == 0)
		{
			memcpy(row, rows + (size_t) random_below(i) * d, d * sizeof(float));
			continue;
		}
		for (uint32_t k = 0; k < d; k++)
		{
			double		v = random_normal();

			if (kind == 1)
				v = 1e4 + v;
			if (kind == 2)
				v = floor(4 * v);	/* many equal distances */
			if (kind == 3)
				v *= pow(10.0, (double) random_below(61) - 30);
			row[k] = (float) v;
		}
	}
	return rows;
}

/* Chooses exact distances of pairs, zero and infinity. */
static int
pick_eps(const PairList *all, double *eps)
{
	int			count = 0;

	eps[count++] = 0.0;
	eps[count++] = INFINITY;
	if (all->count > 0)
	{
		double		tie = all->pairs[random_below((uint32_t) all->count)].dist;

		eps[count++] = tie;
		eps[count++] = nextafter(tie, 0.0);
		tie = tie / 2;
		for (size_t i = 0; i < all->count; i++)
		{
			double		dist = all->pairs[i].dist;

			if (dist > 0 && dist < tie)
				tie = dist;
		}
		eps[count++] = tie;
	}
	return count;
}

/* Compares one kernel and filter with brute force, for some eps. */
static void
check_kernel(const CpuKernel *kernel, FastedFilter filter, FastedPrune prune, const float *rows,
			 uint32_t n, uint32_t d, int kind, const PairList *all)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.kernel = kernel->name,.filter = filter,.prune = prune},
		.sides = 1
	};
	const char *name = filter == FASTED_FILTER_INT8 && n > 1 ? integer_filter(kernel) : "fp32";
	double		eps[8];
	int			count = pick_eps(all, eps);
	int			step = quick() ? 3 : 2;
	bool		same = true;

	for (int e = (int) random_below((uint32_t) step); e < count && same; e += step)
	{
		PairList	expected;
		PairList	got;
		FastedStats stats;
		FastedStatus status;

		problem.problem.eps = eps[e];
		problem.options.threads = 1 + (int) random_below(5);
		select_pairs(all, eps[e], &expected);
		status = run_join(&problem, rows, n, &plain, &got, &stats);
		same = status == FASTED_DONE && pair_equal(&expected, &got) &&
			stats.pairs == got.count && stats.candidates >= got.count &&
			stats.units_done == stats.units_total &&
			strcmp(stats.kernel, kernel->name) == 0 &&
			strcmp(stats.filter, name) == 0;
		if (!same)
			printf("# eps %.17g threads %d: %zu pairs, expected %zu, by %s\n",
				   eps[e], problem.options.threads, got.count, expected.count, stats.filter);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "%s, %s%s: n = %u, d = %u, kind %d", kernel->name, name,
	   prune == FASTED_PRUNE_FORCE ? ", pruned" : "", n, d, kind);
}

/* Tests the FP32 filter, and the integer filter if there is one. */
static void
check_filters(const CpuKernel *kernel, FastedPrune prune, const float *rows, uint32_t n,
			  uint32_t d, int kind, const PairList *all)
{
	check_kernel(kernel, FASTED_FILTER_AUTO, prune, rows, n, d, kind, all);
	if (kernel->int8 != NULL)
		check_kernel(kernel, FASTED_FILTER_INT8, prune, rows, n, d, kind, all);
}

/* Tests one data set with the best kernel and a random half of the others, and with each of their filters. */
static void
check_shape(uint32_t n, uint32_t d, int kind)
{
	float	   *rows = make_rows(n, d, kind);
	PairList	all;

	all_pairs(rows, n, d, &all);
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);

		if (!kernel->available() || !kernel_is_tried(kernel->name, 2))
			continue;
		check_filters(kernel, FASTED_PRUNE_AUTO, rows, n, d, kind, &all);
		if (strcmp(kernel->name, pruning_kernel()) == 0 && n > 1 && d <= 300)
			check_filters(kernel, FASTED_PRUNE_FORCE, rows, n, d, kind, &all);
	}
	free(all.pairs);
	free(rows);
}

static void
check_shapes(void)
{
	static const uint32_t sizes[] = {0, 1, 2, 3, 23, 24, 25, 47, 48, 49, 240, 241, 777};
	static const uint32_t dims[] = {1, 2, 3, 7, 8, 64, 100, 193, 257, 1000, 16000};
	const uint64_t most = quick() ? 500000 : 40000000;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		for (size_t j = 0; j < sizeof(dims) / sizeof(dims[0]); j++)
		{
			if ((uint64_t) sizes[i] * sizes[i] * dims[j] <= most)
				check_shape(sizes[i], dims[j], (int) ((i + j) % 4));
		}
	}
	for (int kind = 0; kind < 4; kind++)
		check_shape(quick() ? 100 : 777, 33, kind);
}

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
			all_pairs(rows, n, d, &all);
			for (int e = 0; e < (quick() ? 4 : 12) && same; e++)
			{
				PanelProblem problem = {.options = {.dimensions = d},.sides = 1};
				double		eps = all.pairs[random_below((uint32_t) all.count)].dist;

				if (isnan(eps))
					continue;
				problem.problem.eps = eps;
				problem.options.kernel = e % 2 ? "portable" : NULL;
				problem.options.filter = e % 4 == 0 ? FASTED_FILTER_INT8 : FASTED_FILTER_AUTO;
				problem.options.prune = e % 3 == 0 ? FASTED_PRUNE_OFF : FASTED_PRUNE_FORCE;
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

/* Tests many memory limits; returns the largest number of panels. */
static uint32_t
check_limits(const CpuKernel *kernel, FastedFilter filter, FastedPrune prune,
			 const float *rows, uint32_t n, uint32_t d, double eps, const PairList *expected)
{
	uint32_t	most = 0;

	for (uint64_t limit = 1; limit < 1000000; limit = limit * 2 + 20000)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.memory_limit = limit,.kernel = kernel->name,
			.filter = filter,.prune = prune,.threads = 2},
			.problem = {.eps = eps},
			.sides = 1
		};
		CallerHabits options = {.timeout_ms = 100};
		FastedStats stats;
		PairList	got;
		FastedStatus status;

		options.stage_at_most = random_below(50);
		options.put = random_below(2) == 1;
		status = run_join(&problem, rows, n, &options, &got, &stats);
		if (stats.panels > most)
			most = stats.panels;
		ok(status == FASTED_DONE && pair_equal(expected, &got) &&
		   stats.units_done == stats.units_total,
		   "%s, %s: %u panels, %llu units, limit %llu, %llu bytes",
		   kernel->name, stats.filter, stats.panels,
		   (unsigned long long) stats.units_total,
		   (unsigned long long) limit, (unsigned long long) stats.host_bytes);
		free(got.pairs);
	}
	return most;
}

/* Joins with panels of many sizes, whose rows are staged in pieces of any size. */
static void
check_panels(void)
{
	const uint32_t n = 613;
	const uint32_t d = 37;
	const double eps = 6.5;
	float	   *rows = make_rows(n, d, 0);
	PairList	all;
	PairList	expected;

	all_pairs(rows, n, d, &all);
	select_pairs(&all, eps, &expected);
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);
		uint32_t	most;

		if (!kernel->available() || !kernel_is_tried(kernel->name, 2))
			continue;
		most = check_limits(kernel, FASTED_FILTER_AUTO, FASTED_PRUNE_AUTO, rows, n, d, eps, &expected);
		ok(most > 5, "up to %u panels were tried", most);
		if (kernel->int8 != NULL)
			check_limits(kernel, FASTED_FILTER_INT8, FASTED_PRUNE_AUTO, rows, n, d, eps, &expected);
		if (strcmp(kernel->name, pruning_kernel()) != 0)
			continue;
		most = check_limits(kernel, FASTED_FILTER_AUTO, FASTED_PRUNE_FORCE, rows, n, d, eps, &expected);
		ok(most > 5, "pruned, up to %u panels were tried", most);
	}
	free(expected.pairs);
	free(all.pairs);
	free(rows);
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
	all_pairs(rows, n, d, &all);
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
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *kernel = fasted_cpu_kernel(k);

		if (!kernel->available() || kernel->int8 == NULL)
			continue;
		problem.options.kernel = kernel->name;
		ok(run_join(&problem, rows, n, &plain, &got, &stats) == FASTED_DONE &&
		   pair_equal(&expected, &got) && expected.count > n && long_pairs > 8 &&
		   stats.candidates < expected.count + few,
		   "%s: %zu pairs, %u of them of long rows, %llu candidates", kernel->name, expected.count,
		   long_pairs, (unsigned long long) stats.candidates);
		free(got.pairs);
	}
	free(expected.pairs);
	free(rows);
}

/* Memory stays within its limit, if the limit is not too small. */
static void
check_memory_limit(void)
{
	const uint32_t n = 20000;
	const uint32_t d = 64;
	float	   *rows = make_rows(n, d, 0);

	for (uint64_t limit = 4 << 20; limit <= 16 << 20; limit *= 2)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.memory_limit = limit,.threads = 2},
			.problem = {.eps = 3.0},
			.sides = 1
		};
		FastedStats stats;
		PairList	got;
		FastedStatus status = run_join_once(&problem, &(Rows) {.rows = rows,.n = n}, &plain, &got, &stats,
											NULL);

		ok(status == FASTED_DONE && stats.host_bytes <= limit,
		   "%llu bytes, limit %llu, %u panels",
		   (unsigned long long) stats.host_bytes, (unsigned long long) limit,
		   stats.panels);
		free(got.pairs);
	}
	free(rows);
}

/* Returns all pairs of many rows to a caller that is slower than the workers. */
static void
check_slow_caller(void)
{
	const uint32_t n = 1500;
	const uint32_t d = 5;
	float	   *rows = make_rows(n, d, 0);
	PairList	all;
	PairList	got;
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 3,.memory_limit = 1 << 20},
		.problem = {.eps = INFINITY},
		.sides = 1
	};
	CallerHabits slow = {.timeout_ms = 5,.sleep_us = 300};
	FastedStats stats;

	all_pairs(rows, n, d, &all);
	ok(run_join(&problem, rows, n, &slow, &got, &stats) == FASTED_DONE &&
	   pair_equal(&all, &got), "slow caller gets all %zu pairs", all.count);
	free(got.pairs);
	free(all.pairs);
	free(rows);
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
	float	   *rows = make_rows(n, d, 0);
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 3},.problem = {.eps = eps},.sides = 1
	};
	PanelJoin  *join;
	FastedBatch batch;
	bool		good;

	good = panel_join_open(fasted_cpu_engine(), &problem, &join) == FASTED_OK &&
		load_and_start(join, &problem, &(Rows) {.rows = rows,.n = n}, &plain) == FASTED_OK &&
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
	free(rows);
	return good;
}

/*
 * Calls of next and close must return soon.  One of three attempts suffices, because other
 * processes may use the CPUs.
 */
static void
check_close(uint32_t n, uint32_t d, double eps, int delay_ms, int batches)
{
	bool		good = true;
	double		closed = INFINITY;
	double		longest = INFINITY;

	for (int i = 0; i < 3 && good && (closed >= 0.5 || longest >= 0.5); i++)
		good = time_close(n, d, eps, delay_ms, batches, &closed, &longest);
	ok(good && closed < 0.5 && longest < 0.5,
	   "closed after %d ms and %d batches in %.1f ms, next took at most %.1f ms: n = %u, d = %u",
	   delay_ms, batches, 1e3 * closed, 1e3 * longest, n, d);
}

/* Invalid options and problems are rejected, with a message. */
static void
check_refusals(void)
{
	const FastedEngine *engine = fasted_cpu_engine();
	const FastedOptions good = {.dimensions = 3};
	FastedOptions bad[5];
	FastedContext *context;
	char		reason[100] = "x";

	ok(engine->abi == FASTED_ENGINE_ABI && strcmp(engine->name, "cpu") == 0 &&
	   engine->probe(NULL, reason, sizeof(reason)) == FASTED_OK, "ABI, name and probe of the engine");
	for (int i = 0; i < 4; i++)
		bad[i] = good;
	bad[0].dimensions = 0;
	bad[1].dimensions = FASTED_MAX_DIMENSIONS + 1;
	bad[2].kernel = "sse9";
	bad[3].kernel = "";
	for (int i = 0; i < 4; i++)
	{
		FastedStatus status = engine->open(&bad[i], &context);

		ok(status == FASTED_UNSUPPORTED && context != NULL &&
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

		ok(run_join(&problem, rows, 2, &plain, &none, NULL) == FASTED_UNSUPPORTED,
		   "rejected: eps = %g", problem.problem.eps);
		free(none.pairs);
	}
}

/* Calls in a wrong order. */
static void
check_order(void)
{
	const FastedEngine *engine = fasted_cpu_engine();
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
	if (kernels_hidden())
	{
		check_choices();
		return tap_done();
	}
	check_refusals();
	check_order();
	check_shapes();
	check_extremes();
	if (quick())
		return tap_done();
	check_panels();
	check_unseen_rows();
	check_long_rows(3000, 96);
	check_choices();
	check_choice(9000, false, FASTED_FILTER_AUTO, 3400000);
	check_memory_limit();
	check_slow_caller();
	check_close(4000, 100, INFINITY, 30, 0);
	check_close(4000, 100, INFINITY, 0, 3);
	check_close(2000, 1000, 30.0, 0, 0);
	check_close(300, 16000, 100.0, 1, 0);
	check_close(300, 16000, INFINITY, 5, 2);
	return tap_done();
}
