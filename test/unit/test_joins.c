/*-------------------------------------------------------------------------
 *
 * test_joins.c
 *	  Joins of one set and of two, by Euclidean and cosine distance and by inner product, compared bit
 *	  for bit with brute force, in every way to find candidates.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *	test_joins						all tests
 *	test_joins 0|1|2				only this metric (FastedMetric)
 *	test_joins --small				a few small joins, for compute-sanitizer
 *	test_joins --bounds				only pairs exactly on the bound of a filter
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/filter_bound.h"
#include "kinds.h"
#include "tested_engine.h"

static const CallerHabits plain = {.timeout_ms = 100};
static const char *const metric_names[] = {"L2", "cosine", "inner product"};
static const FastedEngine *engine;

/* Rows of one side or of two, and all pairs that have a distance. */
typedef struct Case
{
	Kind		kind;
	FastedMetric metric;
	int			nsides;
	uint32_t	d;
	Rows		sides[2];
	PairList	all;
} Case;

/* Finds all pairs of a case. */
static void
find_all(Case *c)
{
	find_pairs(&(PanelProblem) {.options = {.dimensions = c->d,.metric = c->metric},.problem.eps = INFINITY,
			   .sides = c->nsides}, c->sides, &c->all);
}

/* Makes a set of na rows, or two sets if nb > 0 or `two`.  Some rows are zero, others are copies. */
static Case
make_case(Kind kind, FastedMetric metric, uint64_t na, uint64_t nb, bool two, uint32_t d)
{
	Case		c = {.kind = kind,.metric = metric,.nsides = two || nb > 0 ? 2 : 1,.d = d};

	c.sides[0] = rows_of_side(kind, 0, na, d, 10, NULL, 1.0);
	if (c.nsides == 2)
		c.sides[1] = rows_of_side(kind, 1, nb, d, 4, &c.sides[0], metric == FASTED_METRIC_L2 ? 1.0 : 1.5);
	for (int side = 0; side < c.nsides && metric != FASTED_METRIC_L2; side++)
	{
		for (uint64_t i = 4; i < c.sides[side].n; i += 11)
			memset((float *) c.sides[side].rows + i * d, 0, d * sizeof(float));
	}
	find_all(&c);
	return c;
}

static void
free_case(Case *c)
{
	free_rows(&c->sides[0]);
	free_rows(&c->sides[1]);
	free(c->all.pairs);
}

static PanelProblem
problem_of(const Case *c, const Way *way, double eps)
{
	return (PanelProblem) {
		.options = options_of_way(way, c->d, c->metric),.problem = {.eps = eps},.sides = c->nsides
	};
}

/* Runs a join of a case and another one that counts its pairs; limit limits memory, unless it is zero. */
static bool
check_eps(const Case *c, const Way *way, double eps, uint64_t limit, FastedStats *stats)
{
	PanelProblem problem = problem_of(c, way, eps);
	CallerHabits habits = plain;
	bool		empty = c->sides[0].n == 0 || c->sides[c->nsides - 1].n < 3 - (uint64_t) c->nsides;
	PairList	expected;
	PairList	got;
	bool		same;

	if (limit > 0)
	{
		habits.stage_at_most = random_below(50);
		habits.put = random_below(2) == 1;
		tuning.always_register = habits.put;
		limit_memory(&problem.options, limit);
	}
	select_pairs(&c->all, eps, &expected);
	same = run_sides(&problem, c->sides, &habits, &got, stats) == FASTED_DONE &&
		pair_equal(&expected, &got) && stats->pairs == got.count && stats->candidates >= got.count &&
		stats->units_done == stats->units_total && (empty || ran_in_way(stats, way)) &&
		(limit == 0 || !on_gpu() || stats->device_bytes <= problem.options.device_memory_limit);
	if (!same)
		printf("# %s, %s%s, eps %.17g, threads %d: %zu pairs, expected %zu, by %s, %s, %llu of %llu units\n",
			   way->kernel, way->name, way->pruned, eps, problem.options.threads, got.count, expected.count,
			   stats->kernel, stats->filter, (unsigned long long) stats->units_done,
			   (unsigned long long) stats->units_total);
	free(expected.pairs);
	free(got.pairs);
	tuning.always_register = false;
	return same;
}

/*
 * Tests a case in all ways, or many, with some eps.  Returns the largest number of panels.  Brute force
 * limits tests of a GPU: with many pairs, it tests its own choice of the way and some others.
 */
static uint32_t
check_case(const Case *c, uint64_t limit)
{
	Way			ways[MOST_WAYS];
	int			count = some_tested_ways(ways);
	int			step = quick() ? 5 : 3;
	uint32_t	panels = 0;
	bool		same = true;

	for (int w = 0; w < count; w++)
	{
		double		eps[16];
		int			neps = pick_eps(&c->all, c->metric, eps);

		if (on_gpu() && ways[w].filter == FASTED_FILTER_INT8 && c->d > FASTED_INT8_MOST_DIMENSIONS)
			continue;
		if (on_gpu() && quick() && w > 0 && c->all.count > 100000 && random_below(4) > 0)
			continue;
		for (int e = (int) random_below((uint32_t) step); e < neps; e += step)
		{
			FastedStats stats;

			same = check_eps(c, &ways[w], eps[e], limit, &stats) && same;
			panels = stats.panels > panels ? stats.panels : panels;
		}
	}
	ok(same, "%s, %s: %llu x %llu, d = %u, %zu pairs, up to %u panels", metric_names[c->metric],
	   kind_names[c->kind], (unsigned long long) c->sides[0].n, (unsigned long long) c->sides[1].n, c->d,
	   c->all.count, panels);
	return panels;
}

static void
check_shape(Kind kind, FastedMetric metric, uint64_t na, uint64_t nb, bool two, uint32_t d)
{
	Case		c = make_case(kind, metric, na, nb, two, d);

	check_case(&c, 0);
	free_case(&c);
}

/* Sizes beside those of tiles, and of 32 dimensions; those of GPUs' tiles are larger. */
static void
check_shapes(FastedMetric metric)
{
	static const uint32_t cpu_sizes[] = {0, 1, 2, 3, 23, 24, 25, 47, 48, 49, 240, 241, 777};
	static const uint32_t cpu_dims[] = {1, 2, 3, 7, 8, 64, 100, 193, 257, 1000, 16000};
	static const uint32_t gpu_sizes[] = {0, 1, 2, 127, 128, 129, 255, 256, 257, 1000, 3001};
	static const uint32_t gpu_dims[] = {1, 2, 15, 16, 17, 64, 65, 100, 128, 960, 1000, 4099};
	const uint32_t *sizes = on_gpu() ? gpu_sizes : cpu_sizes;
	const uint32_t *dims = on_gpu() ? gpu_dims : cpu_dims;
	const size_t nsizes = on_gpu() ? sizeof(gpu_sizes) / 4 : sizeof(cpu_sizes) / 4;
	const size_t ndims = on_gpu() ? sizeof(gpu_dims) / 4 : sizeof(cpu_dims) / 4;
	const uint64_t most = on_gpu() ? quick() ? 1000000000 : 4000000000 : quick() ? 500000 : 40000000;
	const size_t step = metric == FASTED_METRIC_L2 && !quick() ? 1 : 5;	/* of dimensions */

	for (size_t i = 0; i < nsizes; i++)
	{
		for (size_t j = i % step; j < ndims; j += step)
		{
			if ((uint64_t) sizes[i] * sizes[i] * dims[j] <= most)
				check_shape((Kind) ((i * ndims + j) % KINDS), metric, sizes[i], 0, false, dims[j]);
		}
	}
}

static void
check_two_sets(FastedMetric metric)
{
	static const uint32_t sizes[][2] = {
		{0, 0}, {0, 9}, {9, 0}, {1, 1}, {1, 2}, {49, 1}, {23, 48}, {241, 240}, {100, 777}, {1, 5000},
		{5000, 1}, {37, 4001}, {4001, 37}, {128, 129}, {1000, 1000}, {3001, 700}
	};
	static const uint32_t dims[] = {1, 3, 17, 33, 100, 260, 960};
	const size_t nsizes = on_gpu() ? sizeof(sizes) / sizeof(sizes[0]) : 14;
	const size_t step = quick() ? 7 : metric == FASTED_METRIC_L2 ? 2 : 5;

	for (size_t i = 0; i < nsizes; i++)
	{
		for (size_t j = random_below((uint32_t) step); j < sizeof(dims) / sizeof(dims[0]); j += step)
		{
			if ((uint64_t) sizes[i][0] * sizes[i][1] * dims[j] <= (on_gpu() ? 4000000000 : 50000000))
				check_shape((Kind) ((i + 5 * j) % KINDS), metric, sizes[i][0], sizes[i][1], true, dims[j]);
		}
	}
	check_shape(NORMAL, metric, 20, 30, true, 5000);
}

/* Every kind, in one set and in two. */
static void
check_kinds(FastedMetric metric)
{
	static const uint32_t dims[] = {3, 33, 64, 100, 128, 257};

	for (int kind = 0; kind < KINDS; kind++)
	{
		uint32_t	d = on_gpu() ? 100 : dims[(kind + (int) metric) % 6];
		uint64_t	n = on_gpu() ? quick() ? 600 : 900 : quick() ? 100 : 250;

		if (metric == FASTED_METRIC_L2 || kind % 2 == 0)
			check_shape((Kind) kind, metric, n, 0, false, d);
		if (metric == FASTED_METRIC_L2 || kind % 2 == 1)
			check_shape((Kind) kind, metric, n / 2, n, true, d);
	}
}

/* The memory of the rows of a case: they do not fit into a third of it. */
static uint64_t
third_of_rows(const Case *c)
{
	return (c->sides[0].n < c->sides[c->nsides - 1].n ? c->sides[0].n : c->sides[c->nsides - 1].n)
		* (5 * c->d + 40) / 3;
}

/* Joins in panels of many sizes on either side, whose rows are staged or put in pieces of any size. */
static void
check_panels(Kind kind, FastedMetric metric, uint64_t na, uint64_t nb, uint32_t d, uint32_t least)
{
	Case		c;
	uint32_t	most = 0;

	if (on_gpu())
	{
		na *= 5;
		nb *= 5;
	}
	else if (quick() && nb == 0)
		na /= 2;
	c = make_case(kind, metric, na, nb, false, d);
	use_small_buffers(true);
	for (uint64_t limit = on_gpu() ? third_of_rows(&c) : 1; limit < 1000000;
		 limit = on_gpu() ? 1000000 : limit * 3 + 20000)
	{
		uint32_t	panels = check_case(&c, limit);

		most = panels > most ? panels : most;
	}
	use_small_buffers(false);
	ok(most >= (on_gpu() && least > 2 ? 2 : least), "%s, %llu x %llu: up to %u panels", metric_names[metric], (unsigned long long) na, (unsigned long long) nb,
	   most);
	free_case(&c);
}

/* The rows of the first panel determine a scale that does not suit later ones. */
static void
check_growing_rows(uint64_t na, uint64_t nb)
{
	Case		c = make_case(NORMAL, FASTED_METRIC_L2, na, nb, false, 33);
	const Rows *last = &c.sides[c.nsides - 1];

	for (uint64_t i = last->n / 2; i < last->n; i++)
	{
		for (uint32_t k = 0; k < c.d; k++)
			((float *) last->rows)[i * c.d + k] *= i % 2 == 0 ? 1e6f : 300.0f;
	}
	free(c.all.pairs);
	find_all(&c);
	use_small_buffers(true);
	ok(check_case(&c, third_of_rows(&c)) > 1, "larger rows in later panels");
	use_small_buffers(false);
	free_case(&c);
}

/*
 * Slices, two of which may be combined, together have all pairs and no pair twice.  They do not
 * depend on the number of threads.  The CPU's depend on the kernel only if there are panels, whose
 * size depends on it.  With identical kernels, rows may be ordered; slices then have the same hash of
 * the order.
 */
static void
check_slices_of(const Case *c, const Way *way, uint64_t limit, uint32_t slices, bool alike)
{
	double		eps = on_gpu() ? 9.0 : 4.0;
	PanelProblem problem = problem_of(c, way, eps);
	Way			ways[MOST_WAYS];
	uint32_t	nways = !on_gpu() && limit == 0 && !alike ? (uint32_t) all_ways(ways) : 0;
	PairList	whole;
	PairList	all = {0};
	uint32_t	used = 0;
	uint64_t	hash = 0;
	bool		good = true;

	if (limit > 0)
		limit_memory(&problem.options, limit);
	problem.problem.slices = slices;
	problem.problem.identical_kernels = alike;
	select_pairs(&c->all, eps, &whole);
	for (uint32_t slice = 0; slice < slices && good; slice += 1 + problem.problem.more_slices)
	{
		PairList	some;
		PairList	again;
		FastedStats stats;

		problem.problem.slice = slice;
		problem.problem.more_slices = slices > 5 && slice % 3 == 1;
		problem.options.threads = 1 + (int) slice % 3;
		problem.options.kernel = nways > 0 ? ways[slice % nways].kernel : way->kernel;
		good = run_join_once(&problem, c->sides, &plain, &some, &stats, NULL) == FASTED_DONE;
		problem.options.threads = 2 + (int) slice % 4;
		if (nways > 0)
			problem.options.kernel = ways[(5 * slice + 3) % nways].kernel;
		good = run_sides(&problem, c->sides, &plain, &again, NULL) == FASTED_DONE && good &&
			pair_equal(&some, &again) && stats.units_done == stats.units_total &&
			(slice == 0 || stats.order_hash == hash) && (limit == 0 || !on_gpu() || stats.panels > 1);
		hash = stats.order_hash;
		used += some.count > 0;
		pair_add(&all, some.pairs, some.count);
		free(some.pairs);
		free(again.pairs);
	}
	pair_sort(&all);
	ok(good && pair_equal(&all, &whole) && (on_gpu() || used > slices / 2 || whole.count < 100) &&
	   (on_gpu() || (hash != 0) == (way->prune == FASTED_PRUNE_FORCE && (alike || slices == 1))),
	   "%u slices, %s, %s%s%s, %d sides, limit %llu: %zu pairs in %u slices", slices,
	   way->kernel != NULL ? way->kernel : "best", way->name, way->pruned, alike ? ", one kernel" : "", c->nsides, (unsigned long long) limit, all.count, used);
	free(whole.pairs);
	free(all.pairs);
}

static void
check_slices(const Case *c, const Way *way, uint64_t limit, bool alike)
{
	static const uint32_t numbers[] = {1, 2, 3, 7};

	for (size_t i = quick() ? random_below(4) : 0; i < 4; i += quick() ? 4 : 1)
		check_slices_of(c, way, limit, numbers[i], alike);
}

static void
check_all_slices(void)
{
	Way			ways[MOST_WAYS] = {
		{NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_OFF, ""},
		{NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_FORCE, ", pruned"}
	};
	int			count = on_gpu() ? tested_ways(ways) : 2;

	for (int nsides = 1; nsides <= 2; nsides++)
	{
		Case		c = on_gpu() ? make_case(NORMAL, FASTED_METRIC_L2, 1777, nsides == 2 ? 3000 : 0, false, 64)
			: make_case(NORMAL, FASTED_METRIC_L2, 1500, nsides == 2 ? 900 : 0, false, 20);
		uint64_t	limit = on_gpu() ? third_of_rows(&c) / 2 : 450000;

		for (int w = 0; w < count; w++)
		{
			check_slices(&c, &ways[w], 0, true);
			if (!on_gpu())
				check_slices(&c, &ways[w], 0, false);
			use_small_buffers(true);
			check_slices(&c, &ways[w], limit, on_gpu() || ways[w].prune == FASTED_PRUNE_FORCE);
			use_small_buffers(false);
		}
		free_case(&c);
		c = make_case(NORMAL, FASTED_METRIC_L2, 2, nsides == 2 ? 3 : 0, false, 20);
		check_slices(&c, &ways[0], 0, nsides == 1);
		free_case(&c);
	}
}

/* Joins the same rows several times: data kept from earlier joins remain correct. */
static void
check_again(FastedMetric metric, const Way *way)
{
	static const double eps[][5] = {{8.0, 8.0, 0.0, 100.0, 7.0}, {0.1, 0.1, 1e-7, 1.5, 0.0}, {-0.1, -0.1, -1e-7, -1.5, 0.0}};
	Case		c = make_case(DIRECTIONS, metric, on_gpu() ? 1500 : 400, 0, false, 45);
	PanelProblem problem = problem_of(&c, way, eps[metric][0]);
	PanelJoin  *join;
	bool		same = panel_join_open(engine, &problem, &join) == FASTED_OK &&
		load_and_start(join, &problem, c.sides, &plain) == FASTED_OK;

	for (int e = 0; e < 5 && same; e++)
	{
		PairList	expected;
		PairList	got = {0};

		problem.problem.eps = eps[metric][e];
		select_pairs(&c.all, eps[metric][e], &expected);
		same = panel_join_again(join, &problem.problem) == FASTED_OK &&
			drain_join(join, &problem, c.sides, &plain, &got) == FASTED_DONE;
		pair_sort(&got);
		same = same && pair_equal(&expected, &got);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "%s, %s, %s%s: five joins of the same rows", metric_names[metric], way->kernel, way->name, way->pruned);
	panel_join_close(join);
	free_case(&c);
}

/* Memory stays within its limit, including the additional memory for directions. */
static void
check_memory_limit(FastedMetric metric)
{
	static const double eps[] = {1e-6, 1e-6, -30.0};
	const uint32_t d = 8;
	Rows		rows = rows_of_kind(NORMAL, 60000, d);

	for (uint64_t limit = 2 << 20; limit <= 8 << 20; limit *= 2)
	{
		PanelProblem problem = {
			.options = {.dimensions = d,.metric = metric,.memory_limit = limit,.threads = 2},
			.problem = {.eps = eps[metric]},
			.sides = 1
		};
		FastedStats stats;
		PairList	got;
		FastedStatus status = run_join_once(&problem, &rows, &plain, &got, &stats, NULL);

		ok(status == FASTED_DONE && stats.host_bytes <= limit, "%s: %llu bytes, limit %llu, %u panels",
		   metric_names[metric], (unsigned long long) stats.host_bytes, (unsigned long long) limit, stats.panels);
		free(got.pairs);
	}
	free_rows(&rows);
}

/* By default the CPU engine chooses the integer filter if a sample has few false candidates. */
static void
check_choice(Kind kind, FastedMetric metric, uint64_t na, uint64_t nb, double eps, const char *filter)
{
	const Way	way = {NULL, FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_AUTO, ""};
	Case		c = {.kind = kind,.metric = metric,.nsides = nb > 0 ? 2 : 1,.d = 48};
	PanelProblem problem = problem_of(&c, &way, eps);
	FastedStats stats;
	PairList	expected;
	PairList	got;
	bool		same;

	c.sides[0] = rows_of_kind(kind, na, c.d);
	c.sides[1] = rows_of_kind(kind, nb, c.d);
	/* two clumps of clusters, which INT8 cannot distinguish within a clump */
	for (int side = 0; side < 2 && nb > 0 && strcmp(filter, "fp32") == 0; side++)
	{
		for (uint64_t i = 0; i < c.sides[side].n * c.d; i++)
			((float *) c.sides[side].rows)[i] = 1e-4f * c.sides[side].rows[i]
				+ (i / c.d % 2 == 0 ? 1.0f : 0.0f);
	}
	find_pairs(&problem, c.sides, &expected);
	same = run_sides(&problem, c.sides, &plain, &got, &stats) == FASTED_DONE &&
		pair_equal(&expected, &got);
	ok(same && expected.count > 500 && stats.filter_sampled == (best_kernel()->int8 != NULL) &&
	   strcmp(stats.filter, filter) == 0,
	   "%s, expected %s for %s rows, %llu x %llu, %zu pairs; sample: %llu candidates, %llu pairs", stats.filter,
	   filter, kind_names[kind], (unsigned long long) na, (unsigned long long) nb, expected.count,
	   (unsigned long long) stats.sampled_candidates, (unsigned long long) stats.sampled_pairs);
	free(expected.pairs);
	free(got.pairs);
	free_case(&c);
}

/* --- pairs exactly on the bound of a filter */

/*
 * FP16 represents the coordinates exactly, and the centre is zero, so that rho is zero.  Norms are a
 * thousand times the distance of a row and the next one, and eps is exactly that distance.
 */
static Case
border_case(uint64_t n)
{
	Case		c = {.kind = INTEGERS,.nsides = 1,.d = 4096};
	float	   *rows = must_alloc(n * c.d * sizeof(float));

	c.sides[0] = (Rows) {.rows = rows,.n = n};
	for (uint64_t i = 0; i + 3 < n; i += 4)
	{
		for (uint32_t k = 0; k < c.d; k++)
		{
			float	   *to = rows + i * c.d + k;

			to[0] = (float) random_below(2000) - 1000.0f;
			to[c.d] = to[0] + (k < 16 ? 1.0f : 0.0f);
			to[2 * c.d] = -to[0];
			to[3 * c.d] = -to[c.d];
		}
	}
	return c;
}

/*
 * Vectors of length 1 and their opposites about a centre with lower bits than theirs, so that FP32
 * rounds every difference.
 */
static Case
angle_case(uint64_t n)
{
	Case		c = {.kind = UNIT,.nsides = 1,.d = 100};
	float	   *rows = must_alloc(n * c.d * sizeof(float));

	c.sides[0] = (Rows) {.rows = rows,.n = n};
	for (uint64_t i = 0; i + 1 < n; i += 2)
	{
		double		v[100];
		double		norm2 = 0.0;

		for (uint32_t k = 0; k < c.d; k++)
		{
			v[k] = random_normal();
			norm2 += v[k] * v[k];
		}
		for (uint32_t k = 0; k < c.d; k++)
		{
			rows[i * c.d + k] = (float) (0.003 * sin(k + 0.5) + v[k] / sqrt(norm2));
			rows[(i + 1) * c.d + k] = (float) (0.003 * sin(k + 0.5) - v[k] / sqrt(norm2));
		}
	}
	return c;
}

/* Compares the distances of pairs with a right angle. */
static int
compare_angles(const void *left, const void *right)
{
	double		x = fabs(((const FastedPair *) left)->dist - sqrt(2.0));
	double		y = fabs(((const FastedPair *) right)->dist - sqrt(2.0));

	return (x > y) - (x < y);
}

/*
 * Rounding rows to FP32 is most of the FP64 filter's error bound.  The rounding of thresholds hides
 * it, except for thresholds near zero, which rows at right angles have.  Each eps is exactly the
 * distance of such a pair.
 */
static void
check_bounds(void)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);
	Case		border = border_case(on_gpu() ? 1000 : 300);
	Case		angles = angle_case(on_gpu() ? 400 : 200);
	PairList	nearest;
	FastedStats stats;

	find_all(&border);
	find_all(&angles);
	select_pairs(&angles.all, INFINITY, &nearest);
	qsort(nearest.pairs, nearest.count, sizeof(FastedPair), compare_angles);
	for (int w = 0; w < count; w++)
	{
		int			wrong = 0;

		ok(check_eps(&border, &ways[w], 4.0, 0, &stats), "%s, %s%s: pairs on the bound, %llu candidates",
		   ways[w].kernel, ways[w].name, ways[w].pruned, (unsigned long long) stats.candidates);
		for (int i = 0; i < (ways[w].filter == FASTED_FILTER_FP64 ? 40 : 2); i++)
			wrong += !check_eps(&angles, &ways[w], nearest.pairs[i].dist, 0, &stats);
		ok(wrong == 0, "%s, %s%s: pairs at a right angle on the bound, %d wrong", ways[w].kernel, ways[w].name,
		   ways[w].pruned, wrong);
	}
	free(nearest.pairs);
	free_case(&border);
	free_case(&angles);
}

/* --- only GPUs */

/* The smallest buffer for candidates, so that work is discarded and redone; and filters chosen by a sample. */
static void
check_tuned(FastedMetric metric)
{
	static const struct
	{
		Kind		kind;
		uint32_t	na;
		uint32_t	nb;
		uint32_t	d;
	}			cases[] = {
		{NORMAL, 3001, 0, 64}, {UNIT, 3001, 0, 64}, {NORMAL, 1500, 2500, 64}, {NORMAL, 1, 2500, 64},
		{SCALES, 1500, 700, 300}
	};
	const Way	automatic = {"gpu", FASTED_FILTER_AUTO, "auto", FASTED_PRUNE_AUTO, ""};
	FastedStats stats;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		uint32_t	part = quick() ? 2 : 1;
		Case		c = make_case(cases[i].kind, metric, (cases[i].na + 1) / part, cases[i].nb / part, false, cases[i].d);
		double		eps = c.all.pairs[random_below((uint32_t) c.all.count)].dist;

		tuning.always_choose = true;
		check_case(&c, 0);
		ok(check_eps(&c, &automatic, eps, 0, &stats) && (stats.filter_sampled || c.nsides == 2 || metric == FASTED_METRIC_INNER_PRODUCT),
		   "%s: %s chosen, %u dimensions, %llu candidates", metric_names[metric], stats.filter,
		   stats.filter_dimensions, (unsigned long long) stats.sampled_candidates);
		tuning.always_choose = false;
		tuning.few_candidates = true;
		ok(check_eps(&c, &automatic, INFINITY, 0, &stats) && (stats.redone_units > 0 || c.all.count < 5000),
		   "%s: small buffers, %zu pairs, %llu units redone", metric_names[metric], c.all.count,
		   (unsigned long long) stats.redone_units);
		check_case(&c, 0);
		tuning.few_candidates = false;
		free_case(&c);
	}
}

/* Thresholds are stored in the rows if most of them fit, otherwise all of them outside. */
static void
check_folded(void)
{
	static const Way folded = {"folded", FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""};
	static const struct
	{
		Kind		kind;
		uint32_t	n;
		uint32_t	d;
		int			fits;			/* -1: unknown */
	}			cases[] = {
		{NORMAL, 2500, 128, 1}, {CLUSTERS, 2500, 64, -1}, {BYTES, 1500, 96, -1}, {BYTES, 1500, 128, -1},
		{OUTLIERS, 2500, 128, -1}, {NORMAL, 1500, 200, 1}, {NORMAL, 1100, 256, 1}, {NORMAL, 600, 257, 0}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		Case		c = make_case(cases[i].kind, FASTED_METRIC_L2, cases[i].n, 0, false, cases[i].d);

		for (int e = 0; e < (quick() ? 3 : 4); e++)
		{
			/* eps = 0 has the largest thresholds, which need not fit */
			double		eps = e == 0 ? 0.0 : e == 1 ? (double) INFINITY
				: c.all.pairs[random_below((uint32_t) c.all.count)].dist;
			FastedStats stats;
			bool		same = check_eps(&c, &folded, eps, 0, &stats);
			bool		hopper = strstr(stats.kernel, "wgmma") != NULL;

			ok(same && (!hopper || e == 0 || (e > 1 && cases[i].fits < 0) ||
						(strstr(stats.kernel, "folded") != NULL) == (cases[i].fits == 1 && e > 1)),
			   "folded thresholds, %s, d = %u, eps = %g: %s", kind_names[cases[i].kind], c.d, eps, stats.kernel);
		}
		free_case(&c);
	}
}

/* Every pair is within eps, so that all running tiles are redone repeatedly. */
static void
check_dense(void)
{
	static const uint32_t dims[] = {64, 100, 128, 256, 300};
	static const char *const kernels[] = {"folded", "mma.sync"};
	const uint64_t n = 60000;

	for (int i = 0; i < 10; i += quick() ? 3 : 1)
	{
		uint32_t	d = dims[i / 2];
		float	   *numbers = must_alloc(n * d * sizeof(float));
		Rows		rows = {.rows = numbers,.n = n};
		const Way	way = {kernels[i % 2], FASTED_FILTER_INT8, "int8", FASTED_PRUNE_OFF, ""};
		PanelProblem problem = {
			.options = options_of_way(&way, d, FASTED_METRIC_L2),.sides = 1,
			.problem = {.eps = 3.0 * sqrt(d) + 1.0,.output = FASTED_OUTPUT_COUNTS}
		};
		uint32_t   *counts[2];
		PairList	none;
		FastedStats stats;
		bool		all;
		bool		hopper;

		for (size_t k = 0; k < n * d; k++)
			numbers[k] = (float) random_below(4);
		all = run_join_once(&problem, &rows, &plain, &none, &stats, counts) == FASTED_DONE;
		hopper = strstr(stats.kernel, "wgmma") != NULL;
		for (uint64_t row = 0; row < n && all; row++)
			all = counts[0][row] == n - 1;
		ok(all && stats.redone_units > 0 && (!hopper || (strstr(stats.kernel, "folded") != NULL) == (d <= 256)),
		   "all pairs of rows of %u dimensions, %s: %llu units redone", d, stats.kernel,
		   (unsigned long long) stats.redone_units);
		free(counts[0]);
		free_rows(&rows);
	}
}

static void
check_gpu(FastedMetric metric)
{
	check_tuned(metric);
	check_shape(CLUSTERS, metric, 100, 0, false, 65536);
	if (metric != FASTED_METRIC_L2)
		return;
	check_growing_rows(3000, 0);
	check_growing_rows(1400, 2000);
	check_folded();
	check_dense();
}

/* Unknown metrics are rejected. */
static void
check_refusals(void)
{
	const FastedOptions bad = {.dimensions = 3,.metric = (FastedMetric) 7};
	FastedContext *context;
	FastedStatus status = engine->open(&bad, &context);

	ok(status == FASTED_UNSUPPORTED, "rejected: %s", engine->last_error(context));
	engine->close(context);
}

static void
check_metric(FastedMetric metric)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	if (on_several_gpus())
	{
		static const uint32_t sizes[][2] = {{0, 5}, {1, 3000}, {3000, 1}, {500, 700}};

		for (uint32_t i = 0; i < 4; i++)
		{
			check_shape(CLUSTERS, metric, i, 0, false, 33);
			check_shape(NORMAL, metric, sizes[i][0], sizes[i][1], true, 40);
		}
		check_kinds(metric);
		check_shape(UNIT, metric, 4001, 0, false, 64);
		return;
	}
	check_shapes(metric);
	check_two_sets(metric);
	check_kinds(metric);
	check_panels(DIRECTIONS, metric, 613, 0, 37, 5);
	check_panels(NORMAL, metric, 300, 200, 67, 4);
	if (metric == FASTED_METRIC_L2)
	{
		check_panels(NORMAL, metric, 30, 900, 37, 1);
		check_panels(INTEGERS, metric, 900, 30, 5, 1);
		check_all_slices();
	}
	for (int w = 0; w < count; w++)
		check_again(metric, &ways[w]);
	if (on_gpu())
		check_gpu(metric);
	else if (!quick())
		check_memory_limit(metric);
}

int
main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : "";

	random_seed();
	engine = join_engine = tested_engine();
	if (!on_gpu())
	{
		check_choice(CLUSTERS, FASTED_METRIC_L2, 2500, 4500, 7e-5, "fp32");
		check_choice(NORMAL, FASTED_METRIC_COSINE, 4500, 0, 0.4, integer_filter(best_kernel()));
		if (!quick())
		{
			check_choice(CLUSTERS, FASTED_METRIC_L2, 4500, 2500, 0.7, integer_filter(best_kernel()));
			check_choice(TIGHT, FASTED_METRIC_COSINE, 4500, 0, 1e-13, "fp32");
		}
	}
	if (kernels_hidden())
		return tap_done();
	if (only_small(argc, argv))
	{
		check_shape(NORMAL, FASTED_METRIC_L2, 129, 0, false, 960);
		check_shape(NORMAL, FASTED_METRIC_L2, 128, 129, true, 100);
		check_shape(CLUSTERS, FASTED_METRIC_COSINE, 129, 0, false, 100);
		check_shape(NORMAL, FASTED_METRIC_INNER_PRODUCT, 130, 0, false, 100);
		return tap_done();
	}
	if (*only == '\0' || *only == '0' || strcmp(only, "--bounds") == 0)
		check_bounds();
	if (strcmp(only, "--bounds") == 0)
		return tap_done();
	check_refusals();
	for (int metric = 0; metric <= FASTED_METRIC_INNER_PRODUCT; metric++)
	{
		if (*only == '\0' || atoi(only) == metric)
			check_metric((FastedMetric) metric);
	}
	return tap_done();
}
