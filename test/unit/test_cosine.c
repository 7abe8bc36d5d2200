/*-------------------------------------------------------------------------
 *
 * test_cosine.c
 *	  Joins of the CPU engine by cosine distance and by inner product, compared bit for bit with
 *	  brute force, for every kernel and filter, with and without pruning.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>

#include "join.h"
#include "ways.h"

static const CallerHabits plain = {.timeout_ms = 100};
static FastedMetric metric = FASTED_METRIC_COSINE;

/* Kinds of rows. */
typedef enum Kind
{
	NORMAL,
	OFFSET,						/* all in one half of the sphere */
	SCALED,						/* few directions, many lengths, and opposite directions */
	TIGHT,						/* one direction, except for the last bits */
	INTEGERS,					/* many equal distances and right angles */
	AXES,						/* one or two nonzero coordinates each */
	MAGNITUDES,					/* rows of 1e38, rows of 1e-42, and rows with both */
	NOT_FINITE,
	KINDS
} Kind;

static const char *const names[KINDS] = {
	"normal", "offset", "scaled", "tight", "integers", "axes", "magnitudes", "not finite"
};

static void
scale_row(float *to, const float *from, uint32_t d, double factor)
{
	for (uint32_t k = 0; k < d; k++)
		to[k] = (float) (from[k] * factor);
}

static void
make_row(Kind kind, float *row, const float *first, uint32_t i, uint32_t d)
{
	double		size = 1.0;

	if (kind == MAGNITUDES)
		size = i % 3 == 0 ? 3e37 : i % 3 == 1 ? 1e-42 : 1.0;
	if (kind == SCALED && i >= 7)
	{
		static const double factors[] = {2.0, 3.0, -1.0, 0.1, 1e-30, -1e30, 5e-44};

		scale_row(row, first + (size_t) random_below(7) * d, d, factors[random_below(7)]);
		return;
	}
	if (kind == TIGHT && i > 0)
	{
		double		factor = exp(random_normal());
		double		spread = pow(2.0, -(double) random_below(6) - 20.0);

		for (uint32_t k = 0; k < d; k++)
			row[k] = (float) (first[k] * factor * (1.0 + spread * random_normal()));
		return;
	}
	for (uint32_t k = 0; k < d; k++)
	{
		double		v = random_normal();

		if (kind == OFFSET)
			v += 5.0;
		if (kind == INTEGERS)
			v = floor(v);
		row[k] = (float) (kind == AXES ? 0.0 : v * size);
	}
	if (kind == AXES)
	{
		row[random_below(d)] = 1.0f;
		row[random_below(d)] = random_below(2) == 0 ? 1.0f : -4.0f;
	}
	if (kind == MAGNITUDES && i % 10 == 9)
		row[random_below(d)] = 3e38f;
	if (kind == NOT_FINITE && i % 5 == 0)
		row[random_below(d)] = i % 2 == 0 ? INFINITY : NAN;
}

/* Makes rows of a kind, and in addition some zero rows and some copies. */
static Rows
make_rows(Kind kind, uint64_t n, uint32_t d)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = rows + (size_t) i * d;

		if (i > 7 && random_below(10) == 0)
			memcpy(row, rows + (size_t) random_below(i) * d, d * sizeof(float));
		else if (i > 7 && random_below(12) == 0)
			memset(row, 0, d * sizeof(float));
		else
			make_row(kind, row, rows, i, d);
	}
	return (Rows) {.rows = rows,.n = n};
}

/* Finds the pairs within eps that have a distance, by brute force. */
static void
metric_pairs(const Rows *sides, int nsides, uint32_t d, double eps, PairList *list)
{
	const Rows *b = &sides[nsides - 1];
	double	   *squares = must_alloc(b->n * sizeof(double));

	memset(list, 0, sizeof(*list));
	for (uint64_t j = 0; j < b->n; j++)
		squares[j] = fasted_exact_dot(b->rows + j * d, b->rows + j * d, d);
	for (uint32_t i = 0; i < sides[0].n; i++)
	{
		const float *x = sides[0].rows + (size_t) i * d;
		double		square = fasted_exact_dot(x, x, d);

		for (uint32_t j = nsides == 1 ? i + 1 : 0; j < b->n; j++)
		{
			double		dot = fasted_exact_dot(x, b->rows + (size_t) j * d, d);
			FastedPair	pair = {.a = i,.b = j};

			pair.dist = metric == FASTED_METRIC_COSINE
				? fasted_exact_cosine_of(dot, square, squares[j]) : 0.0 - dot;
			if (pair.dist <= eps)
				pair_add(list, &pair, 1);
		}
	}
	free(squares);
}

/* Chooses extreme and small values, and exact distances of pairs. */
static int
pick_eps(const PairList *all, double *eps)
{
	static const double cosine[] = {0.0, DBL_MIN, 1e-12, 1.0, 2.0, INFINITY};
	static const double product[] = {0.0, -DBL_MIN, -1e-12, -1.0, 100.0, -1e30};
	double		least = INFINITY;
	int			count = sizeof(cosine) / sizeof(cosine[0]);

	memcpy(eps, metric == FASTED_METRIC_COSINE ? cosine : product, sizeof(cosine));
	if (all->count == 0)
		return count;
	for (int i = 0; i < 2; i++)
	{
		eps[count] = all->pairs[random_below((uint32_t) all->count)].dist;
		eps[count + 1] = nextafter(eps[count], metric == FASTED_METRIC_COSINE ? 0.0 : -INFINITY);
		count += 2;
	}
	for (size_t i = 0; i < all->count; i++)
	{
		if ((all->pairs[i].dist > 0 || metric != FASTED_METRIC_COSINE) && all->pairs[i].dist < least)
			least = all->pairs[i].dist;
	}
	if (least < INFINITY)
		eps[count++] = least;
	return count;
}

/* Compares one kernel and filter with brute force, for some eps and all outputs. */
static bool
check_way(const Way *way, const Rows *sides, int nsides, uint32_t d, const PairList *all)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.metric = metric,.kernel = way->kernel,
		.filter = way->filter,.prune = way->prune},
		.sides = nsides
	};
	FastedStats stats;
	double		eps[16];
	int			count = pick_eps(all, eps);
	int			step = quick() ? 5 : 3;
	bool		same = true;

	for (int e = (int) random_below((uint32_t) step); e < count && same; e += step)
	{
		PairList	expected;
		PairList	got;

		problem.problem.eps = eps[e];
		problem.options.threads = 1 + (int) random_below(3);
		select_pairs(all, eps[e], &expected);
		same = run_sides(&problem, sides, &plain, &got, &stats) == FASTED_DONE &&
			pair_equal(&expected, &got) &&
			(way->prune == FASTED_PRUNE_FORCE || stats.pruned_tiles[0] == 0);
		if (!same)
			printf("# %s, %s%s, eps %.17g: %zu pairs, expected %zu\n", way->kernel, way->name,
				   way->pruned, eps[e], got.count, expected.count);
		free(expected.pairs);
		free(got.pairs);
	}
	return same;
}

/* Tests one set joined with itself (nb = 0), or two sets. */
static void
check_shape(Kind kind, uint64_t na, uint64_t nb, uint32_t d)
{
	Rows		sides[2] = {make_rows(kind, na, d), make_rows(kind, nb, d)};
	int			nsides = nb > 0 ? 2 : 1;
	Way			ways[MOST_WAYS];
	int			count = some_ways(ways, all_ways(ways));
	PairList	all;
	bool		same = true;

	/* half of the directions of b are those of a */
	for (uint64_t i = 0; i < nb && na > 0; i += 2)
		scale_row((float *) sides[1].rows + i * d,
				  sides[0].rows + random_below((uint32_t) na) * (uint64_t) d, d, 1.5);
	metric_pairs(sides, nsides, d, INFINITY, &all);
	for (int w = 0; w < count; w++)
		same = check_way(&ways[w], sides, nsides, d, &all) && same;
	ok(same, "metric %d, %s: %llu x %llu, d = %u, %zu pairs with a distance", (int) metric, names[kind],
	   (unsigned long long) na, (unsigned long long) nb, d, all.count);
	free(all.pairs);
	free((float *) sides[0].rows);
	free((float *) sides[1].rows);
}

/* Joins with panels, which exceed the memory limit; also with counts. */
static void
check_panels(void)
{
	const uint32_t d = 37;
	const double eps = metric == FASTED_METRIC_COSINE ? 0.25 : -1.0;
	Rows		rows = make_rows(SCALED, 613, d);
	Way			ways[MOST_WAYS];
	int			count = some_ways(ways, all_ways(ways));
	uint32_t	most = 0;
	bool		same;
	PairList	expected;

	metric_pairs(&rows, 1, d, eps, &expected);
	for (int w = 0; w < count; w++)
	{
		for (uint64_t limit = 1; limit < 1000000; limit = limit * 2 + 20000)
		{
			PanelProblem problem = {
				.options = {.dimensions = d,.metric = metric,.threads = 2,
				.kernel = ways[w].kernel,.filter = ways[w].filter,.prune = ways[w].prune,
				.memory_limit = limit},
				.problem = {.eps = eps},
				.sides = 1
			};
			FastedStats stats;
			PairList	got;

			same = run_join(&problem, rows.rows, rows.n, &plain, &got, &stats) == FASTED_DONE &&
				pair_equal(&expected, &got);
			ok(same, "metric %d, %s, %s%s: %u panels", (int) metric, ways[w].kernel, stats.filter, ways[w].pruned,
			   stats.panels);
			if (stats.panels > most)
				most = stats.panels;
			free(got.pairs);
		}
	}
	ok(most > 5, "joins with up to %u panels", most);
	free(expected.pairs);
	free((float *) rows.rows);
}

/* Memory stays within its limit, including the additional memory for the cosine metric. */
static void
check_memory_limit(void)
{
	const uint32_t d = 8;
	Rows		rows = make_rows(NORMAL, 60000, d);

	for (uint64_t limit = 2 << 20; limit <= 8 << 20; limit *= 2)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.metric = metric,.memory_limit = limit,
			.threads = 2},
			.problem = {.eps = metric == FASTED_METRIC_COSINE ? 1e-6 : -30.0},
			.sides = 1
		};
		CallerHabits patient = {.timeout_ms = 100,.sleep_us = 1};
		FastedStats stats;
		PairList	got;
		FastedStatus status = run_join(&problem, rows.rows, rows.n, &patient, &got, &stats);

		ok(status == FASTED_DONE && stats.host_bytes <= limit,
		   "metric %d: %llu bytes, limit %llu, %u panels", (int) metric, (unsigned long long) stats.host_bytes,
		   (unsigned long long) limit, stats.panels);
		free(got.pairs);
	}
	free((float *) rows.rows);
}

/* Joins the same rows several times: data kept from earlier joins remain correct. */
static void
check_again(const Way *way)
{
	static const double eps[] = {0.1, 0.1, 1e-7, 1.5, 0.0};
	const double sign = metric == FASTED_METRIC_COSINE ? 1.0 : -1.0;
	const uint32_t d = 45;
	Rows		rows = make_rows(SCALED, 400, d);
	PanelProblem problem = {
		.options = {.dimensions = d,.metric = metric,.kernel = way->kernel,
		.filter = way->filter,.prune = way->prune},
		.sides = 1
	};
	PanelJoin  *join;
	PairList	all;
	bool		same;

	metric_pairs(&rows, 1, d, INFINITY, &all);
	problem.problem.eps = sign * eps[0];
	same = panel_join_open(fasted_cpu_engine(), &problem, &join) == FASTED_OK &&
		load_and_start(join, &problem, &rows, &plain) == FASTED_OK;
	for (int e = 0; e < 5 && same; e++)
	{
		PairList	expected;
		PairList	got = {0};

		problem.problem.eps = sign * eps[e];
		select_pairs(&all, sign * eps[e], &expected);
		same = panel_join_again(join, &problem.problem) == FASTED_OK &&
			drain_join(join, &problem, &rows, &plain, &got) == FASTED_DONE;
		pair_sort(&got);
		same = same && pair_equal(&expected, &got);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "metric %d, %s, %s%s: five joins of the same rows", (int) metric, way->kernel, way->name, way->pruned);
	panel_join_close(join);
	free(all.pairs);
	free((float *) rows.rows);
}

/* By default the engine chooses the filter with the cosine recheck. */
static void
check_choice(Kind kind, double eps, const char *filter)
{
	const uint32_t n = 4500;
	const uint32_t d = 48;
	Rows		rows = make_rows(kind, n, d);
	PanelProblem problem = {
		.options = {.dimensions = d,.metric = metric,.threads = 2},
		.problem = {.eps = eps},
		.sides = 1
	};
	FastedStats stats;
	PairList	expected;
	PairList	got;
	bool		same;

	metric_pairs(&rows, 1, d, eps, &expected);
	same = run_join(&problem, rows.rows, n, &plain, &got, &stats) == FASTED_DONE &&
		pair_equal(&expected, &got);
	ok(same && stats.filter_sampled == (best_kernel()->int8 != NULL) &&
	   strcmp(stats.filter, filter) == 0,
	   "%s, expected %s for %s rows; sample: %llu candidates, %llu pairs", stats.filter, filter,
	   names[kind], (unsigned long long) stats.sampled_candidates,
	   (unsigned long long) stats.sampled_pairs);
	free(expected.pairs);
	free(got.pairs);
	free((float *) rows.rows);
}

int
main(void)
{
	static const uint32_t sizes[] = {1, 2, 25, 241};
	static const uint32_t dims[] = {1, 2, 3, 33, 64, 257, 960};
	FastedOptions bad = {.dimensions = 3,.metric = (FastedMetric) 7};
	FastedContext *context;
	Way			ways[MOST_WAYS];
	int			count = all_ways(ways);

	random_seed();
	if (!quick() || kernels_hidden())
	{
		check_choice(NORMAL, 0.4, integer_filter(best_kernel()));
		check_choice(TIGHT, 1e-13, "fp32");
	}
	if (kernels_hidden())
		return tap_done();
	ok(fasted_cpu_engine()->open(&bad, &context) == FASTED_UNSUPPORTED, "unknown metric rejected");
	fasted_cpu_engine()->close(context);
	for (int kind = 0; kind < KINDS; kind++)
	{
		for (size_t i = quick() ? random_below(4) : 0; i < 4; i += quick() ? 4 : 1)
			check_shape((Kind) kind, sizes[i], 0, dims[(i + (size_t) kind) % 7]);
		if (!quick())
			check_shape((Kind) kind, 300, 0, 128);
		check_shape((Kind) kind, 70, 331, 41);
		check_shape((Kind) kind, 200, 30, 7);
	}
	check_panels();
	if (!quick())
		check_memory_limit();
	for (int w = 0; w < count; w++)
		check_again(&ways[w]);
	metric = FASTED_METRIC_INNER_PRODUCT;
	count = ways_of(ways, FASTED_PRUNE_OFF);
	for (int kind = 0; kind < KINDS; kind++)
	{
		check_shape((Kind) kind, sizes[kind % 4], 0, dims[(unsigned) kind % 5]);
		check_shape((Kind) kind, 170, 0, dims[2 + (unsigned) kind % 5]);
		check_shape((Kind) kind, 70, 201, 41);
	}
	check_panels();
	if (!quick())
		check_memory_limit();
	for (int w = 0; w < count; w++)
		check_again(&ways[w]);
	return tap_done();
}
