/*-------------------------------------------------------------------------
 *
 * test_double.c
 *	  Joins of FP64 rows, compared bit for bit with brute force in FP64.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "join.h"
#include "tested_engine.h"

static const CallerHabits plain = {.timeout_ms = 100};
static const CallerHabits putting = {.timeout_ms = 100,.put = true,.stage_at_most = 17};

/* Kinds of rows. */
typedef enum Kind
{
	NORMAL,
	FLOATS,						/* normal, rounded to floats */
	OFFSET,						/* differences below the last bit of a float */
	LAST_PLACES,				/* equal as floats, except for a few last bits of the doubles */
	INTEGERS,
	NEAR_INTEGERS,				/* integers when rounded to floats, which INT8 represents exactly */
	MAGNITUDES,					/* magnitudes from 1e-300 to 1e30 */
	OUTLIERS,					/* a few rows out of the range of float, and close pairs of these */
	BEYOND,						/* all rows are out of that range */
	TINY,						/* all rows are zero as floats */
	NOT_FINITE,
	KINDS
} Kind;

static const char *const metric_names[] = {"", ", cosine", ", inner product"};
static const char *const names[KINDS] = {
	"normal", "floats", "offset", "last bits", "integers", "near integers",
	"magnitudes", "outliers", "beyond",
	"tiny", "not finite"
};

/* Returns coordinate k of row i, which may depend on the first rows. */
static double
number_of(Kind kind, const double *rows, uint32_t i, uint32_t d, uint32_t k)
{
	static const double sizes[] = {1e30, 1e-300, 1.0, 1e-30, 1e-45, 1e-160};
	double		normal = random_normal();

	switch (kind)
	{
		case FLOATS:
			return (float) normal;
		case OFFSET:
			return 1e6 + k + 1e-9 * floor(4.0 * normal);
		case LAST_PLACES:
			return i < 5 ? normal : rows[(size_t) (i % 5) * d + k] * (1.0 + DBL_EPSILON * floor(8.0 * normal));
		case INTEGERS:
			return floor(2.0 * normal);
		case NEAR_INTEGERS:
			return 1e6 + floor(2.0 * normal) + (random_below(2) == 0 ? 0.03 : -0.03);
		case MAGNITUDES:
			return normal * sizes[i % 6];
		case OUTLIERS:
			return normal * (i % 37 == 5 ? 1e60 : 1.0);
		case BEYOND:
			return 1e200 * (1.0 + 1e-14 * floor(4.0 * normal));
		case TINY:
			return 1e-60 * normal;
		case NOT_FINITE:
			return random_below(300) == 0 ? (random_below(2) == 0 ? INFINITY : NAN) : normal;
		default:
			return normal;
	}
}

static bool
is_finite(const double *row, uint32_t d)
{
	for (uint32_t k = 0; k < d; k++)
	{
		if (!isfinite(row[k]))
			return false;
	}
	return true;
}

/* Makes rows of a kind, with some exact copies and some that differ in one last bit. */
static Rows
make_rows(Kind kind, uint64_t n, uint32_t d, FastedMetric metric)
{
	double	   *rows = must_alloc(n * d * sizeof(double));

	for (uint32_t i = 0; i < n; i++)
	{
		double	   *row = rows + (size_t) i * d;

		for (uint32_t k = 0; k < d; k++)
			row[k] = number_of(kind, rows, i, d, k);
		if (i > 7 && random_below(6) == 0)
		{
			double	   *number = row + random_below(d);

			memcpy(row, rows + (size_t) random_below(i) * d, d * sizeof(double));
			if (random_below(2) == 0)
				*number = nextafter(*number, 0.0);
		}
		else if (kind == OUTLIERS && i > 42 && i % 37 == 5)
			for (uint32_t k = 0; k < d; k++)
				row[k] = row[k - 37 * (ptrdiff_t) d] * (1.0 + 1e-13 * random_normal());
		if (metric == FASTED_METRIC_COSINE && is_finite(row, d))
			fasted_scale_direction(row, d);
	}
	return (Rows) {.rows = (const float *) rows,.n = n};
}

static PanelProblem
problem_of(const Way *way, int nsides, uint32_t d, FastedMetric metric)
{
	PanelProblem problem = {.options = options_of_way(way, d, metric),.problem.eps = INFINITY,.sides = nsides};

	problem.options.element = FASTED_ELEMENT_DOUBLE;
	return problem;
}

static bool
check_way(const Way *way, const Rows *sides, int nsides, uint32_t d, FastedMetric metric,
		  const PairList *all, uint64_t limit, uint32_t *panels)
{
	double		eps[16];
	int			count = pick_eps(all, metric, eps);
	int			step = quick() ? 5 : 3;
	bool		same = true;

	for (int e = (int) random_below((uint32_t) step); e < count && same; e += step)
	{
		PanelProblem problem = problem_of(way, nsides, d, metric);
		FastedStats stats = {0};
		PairList	expected;
		PairList	got;

		problem.problem.eps = eps[e];
		if (limit > 0)
			limit_memory(&problem.options, limit);
		select_pairs(all, eps[e], &expected);
		tuning.always_register = e % 2 != 0;
		same = run_sides(&problem, sides, e % 2 == 0 ? &plain : &putting, &got, &stats) == FASTED_DONE &&
			pair_equal(&expected, &got);
		if (!same)
			printf("# %s, %s%s, eps %.17g: %zu pairs, expected %zu\n", way->kernel, way->name,
				   way->pruned, eps[e], got.count, expected.count);
		tuning.always_register = false;
		if (stats.panels > *panels)
			*panels = stats.panels;
		free(expected.pairs);
		free(got.pairs);
	}
	return same;
}

static bool
check_nearest(const Way *way, const Rows *sides, int nsides, uint32_t d, FastedMetric metric, uint64_t limit)
{
	PanelProblem problem = problem_of(way, nsides, d, metric);
	bool		right;

	problem.problem = (FastedProblem) {.eps = INFINITY,.k = 1 + random_below(7)};
	if (limit > 0)
		limit_memory(&problem.options, limit);
	right = check_nearest_join(&problem, sides);
	if (!right)
		printf("# nearest: %s, %s%s, k %u\n", way->kernel, way->name, way->pruned, problem.problem.k);
	return right;
}

/* --- shapes */

/* Tests one set (nb = 0) or two; limit limits memory, unless it is zero. */
static void
check_shape(Kind kind, uint64_t na, uint64_t nb, uint32_t d, FastedMetric metric, uint64_t limit)
{
	Rows		sides[2] = {make_rows(kind, na, d, metric), make_rows(kind, nb, d, metric)};
	int			nsides = nb > 0 ? 2 : 1;
	Way			ways[MOST_WAYS];
	int			count = some_tested_ways(ways);
	uint32_t	panels = 0;
	PanelProblem problem;
	PairList	all;
	bool		same = true;

	for (uint64_t i = 0; i < nb; i += 2)
		memcpy((double *) sides[1].rows + i * d,
			   (const double *) sides[0].rows + random_below((uint32_t) na) * (uint64_t) d,
			   d * sizeof(double));
	problem = problem_of(&ways[0], nsides, d, metric);
	find_pairs(&problem, sides, &all);
	for (int w = 0; w < count; w++)
	{
		same = check_way(&ways[w], sides, nsides, d, metric, &all, limit, &panels) && same;
		same = check_nearest(&ways[w], sides, nsides, d, metric, limit) && same;
	}
	/* a GPU's minimum memory holds so few rows */
	ok(same && (limit == 0 || panels > 1 || on_gpu()), "%s%s: %llu x %llu, d = %u, %zu pairs, up to %u panels",
	   names[kind], metric_names[metric], (unsigned long long) na,
	   (unsigned long long) nb, d, all.count, panels);
	free(all.pairs);
	free((float *) sides[0].rows);
	free((float *) sides[1].rows);
}

static int
compare_pairs(const void *left, const void *right)
{
	double		x = ((const FastedPair *) left)->dist;
	double		y = ((const FastedPair *) right)->dist;

	return (x > y) - (x < y);
}

/* Tests enough rows for a sample to choose the filter, and for a GPU to choose projected rows. */
static void
check_many(Kind kind, uint32_t n, uint32_t d, FastedMetric metric)
{
	static const Way chosen = {NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_AUTO, ""};
	Rows		rows = make_rows(kind, n, d, metric);
	Rows		some = {.rows = rows.rows,.n = 100};
	PanelProblem problem = problem_of(&chosen, 1, d, metric);
	PairList	pairs;
	PairList	got;

	/* eps for about one pair in a hundred */
	find_pairs(&problem, &some, &pairs);
	qsort(pairs.pairs, pairs.count, sizeof(FastedPair), compare_pairs);
	problem.problem.eps = pairs.count > 0 ? pairs.pairs[pairs.count / 100].dist : 1.0;
	free(pairs.pairs);
	find_pairs(&problem, &rows, &pairs);
	ok(run_join(&problem, rows.rows, n, &plain, &got, NULL) == FASTED_DONE &&
	   pair_equal(&pairs, &got) && check_nearest(&chosen, &rows, 1, d, metric, 0),
	   "%s: %u rows, default filter, eps %g, %zu pairs", names[kind], n,
	   problem.problem.eps, pairs.count);
	free(pairs.pairs);
	free(got.pairs);
	free((float *) rows.rows);
}

/* The rows are equal as floats; as doubles, few pairs are within eps. */
static void
check_precision(void)
{
	const Way	way = {NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_OFF, ""};
	double		rows[100];
	PanelProblem problem = problem_of(&way, 1, 1, FASTED_METRIC_L2);
	FastedStatus status;
	PairList	got;

	for (int i = 0; i < 100; i++)
		rows[i] = 1e6 + i * 0x1p-30;
	problem.problem.eps = 0x1p-30;
	status = run_join(&problem, (const float *) rows, 100, &plain, &got, NULL);
	ok(status == FASTED_DONE && got.count == 99, "line near 1e6: %zu of 99 pairs", got.count);
	free(got.pairs);
	problem.problem.eps = nextafter(0x1p-30, 0.0);
	status = run_join(&problem, (const float *) rows, 100, &plain, &got, NULL);
	ok(status == FASTED_DONE && got.count == 0, "line, smaller eps: %zu of 0 pairs", got.count);
	free(got.pairs);
}

/* Memory stays within its limit, including the doubles. */
static void
check_memory_limit(void)
{
	const Way	way = {NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_AUTO, ""};
	const uint32_t d = 8;
	Rows		rows = make_rows(NORMAL, 60000, d, FASTED_METRIC_L2);

	for (uint64_t limit = 2 << 20; limit <= 8 << 20; limit *= 2)
	{
		PanelProblem problem = problem_of(&way, 1, d, FASTED_METRIC_L2);
		CallerHabits patient = {.timeout_ms = 100,.sleep_us = 1};
		FastedStats stats;
		PairList	got;
		FastedStatus status;

		problem.options.memory_limit = limit;
		problem.problem.eps = 1e-3;
		status = run_join(&problem, rows.rows, rows.n, &patient, &got, &stats);
		ok(status == FASTED_DONE && stats.host_bytes <= limit, "%llu bytes, limit %llu, %u panels",
		   (unsigned long long) stats.host_bytes, (unsigned long long) limit, stats.panels);
		free(got.pairs);
	}
	free((float *) rows.rows);
}

int
main(void)
{
	static const uint32_t dims[] = {1, 2, 3, 33, 64, 257, 131, 960};

	random_seed();
	join_engine = tested_engine();
	check_precision();
	if (!on_gpu() && !quick())
		check_memory_limit();
	for (int kind = 0; kind < KINDS; kind++)
	{
		int			of_two = (int) random_below(2);

		for (int metric = 0; metric < 2; metric++)
		{
			FastedMetric which = metric == 0 ? FASTED_METRIC_L2 : FASTED_METRIC_COSINE;

			check_shape((Kind) kind, 1 + random_below(3), 0, dims[kind % 8], which, 0);
			if (metric == of_two)
				check_shape((Kind) kind, 40, 151, dims[(kind + 5) % 8], which, 0);
			else
				check_shape((Kind) kind, 210, 0, dims[(kind + 3) % 8], which, 0);
		}
		check_shape((Kind) kind, quick() ? 120 : 210, 0, 64, FASTED_METRIC_L2, 1 << 17);
		check_shape((Kind) kind, 90, kind % 2 * 71, dims[(kind + 1) % 7], FASTED_METRIC_INNER_PRODUCT, 0);
	}
	check_many(NORMAL, quick() ? 400 : 4200, 48, FASTED_METRIC_L2);
	check_many(LAST_PLACES, quick() ? 400 : 4200, 37, FASTED_METRIC_COSINE);
	check_many(OUTLIERS, quick() ? 400 : 4200, 33, FASTED_METRIC_L2);
	check_many(NORMAL, quick() ? 400 : 4200, 65, FASTED_METRIC_INNER_PRODUCT);
	check_shape(LAST_PLACES, 150, 70, 33, FASTED_METRIC_COSINE, 1 << 17);
	check_shape(MAGNITUDES, 150, 70, 33, FASTED_METRIC_INNER_PRODUCT, 1 << 17);
	return tap_done();
}
