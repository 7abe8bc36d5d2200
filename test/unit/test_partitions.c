/*-------------------------------------------------------------------------
 *
 * test_partitions.c
 *	  Joins of rows within partitions, compared bit for bit with brute force.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "join.h"
#include "tested_engine.h"
#include "../../src/engine/host_device.h"

static const CallerHabits plain = {.timeout_ms = 100};

#define MOST_GROUPS 1000

/* Rows of one side or two, in partitions, and all pairs within partitions. */
typedef struct Case
{
	const char *name;
	uint32_t	d;
	int			nsides;
	FastedMetric metric;		/* L2 or inner product */
	Rows		sides[2];
	FastedPartition partitions[MOST_GROUPS];
	uint32_t	npartitions;
	PairList	all;
} Case;

/* Appends a partition, and rows without a partition after it. */
static void
add_group(Case *c, uint32_t a, uint32_t b, uint32_t gap_a, uint32_t gap_b)
{
	c->partitions[c->npartitions++] = (FastedPartition) {
		.first_a = (uint32_t) c->sides[0].n,.rows_a = a,
		.first_b = (uint32_t) c->sides[c->nsides - 1].n,.rows_b = b
	};
	c->sides[0].n += a + gap_a;
	if (c->nsides == 2)
		c->sides[1].n += b + gap_b;
}

static void
add_alike(Case *c, uint32_t rows, uint32_t gap)
{
	add_group(c, rows, rows, gap, gap);
}

static PanelProblem
problem_of(const Case *c, double eps)
{
	return (PanelProblem) {
		.options = {.dimensions = c->d,.metric = c->metric,.threads = 1 + (int) random_below(4)},
		.problem = {.eps = eps,.partitions = c->partitions,.npartitions = c->npartitions},
		.sides = c->nsides
	};
}

static void
find_all(Case *c)
{
	PanelProblem problem = problem_of(c, INFINITY);

	find_pairs(&problem, c->sides, &c->all);
}

/* Fills in rows with copies inside and outside their partitions; integers if ties. */
static void
fill_case(Case *c, bool ties)
{
	for (int side = 0; side < c->nsides; side++)
	{
		size_t		count = (size_t) c->sides[side].n * c->d;
		float	   *rows = must_alloc(count * sizeof(float));

		for (size_t i = 0; i < count; i++)
			rows[i] = (float) (ties ? floor(2 * random_normal()) : random_normal());
		for (uint32_t i = 1; i < c->sides[side].n; i += 1 + random_below(8))
			memcpy(rows + (size_t) i * c->d, rows + (size_t) random_below(i) * c->d,
				   c->d * sizeof(float));
		c->sides[side].rows = rows;
	}
	find_all(c);
}

static void
free_case(Case *c)
{
	free((float *) c->sides[0].rows);
	if (c->nsides == 2)
		free((float *) c->sides[1].rows);
	free(c->all.pairs);
	memset(c, 0, sizeof(*c));
}

/* Tests some kernels, filters and eps with a memory limit; returns the most panels. */
static uint32_t
check_case(const Case *c, uint64_t limit)
{
	Way			ways[MOST_WAYS];
	int			nways = some_tested_ways(ways);
	uint32_t	panels = 0;

	for (int w = 0; w < nways; w++)
	{
		double		eps[16];
		int			neps = pick_eps(&c->all, c->metric, eps);
		bool		good = true;
		size_t		most = 0;

		for (int i = (int) random_below(3); i < neps; i += 3)
		{
			PanelProblem problem = problem_of(c, eps[i]);
			CallerHabits habits = {.timeout_ms = 100,.stage_at_most = limit > 0 ? 40 : 0};
			PairList	expected;
			FastedStats stats;
			PairList	got;

			select_pairs(&c->all, eps[i], &expected);
			problem.options.kernel = ways[w].kernel;
			problem.options.filter = ways[w].filter;
			problem.options.prune = ways[w].prune;
			if (limit > 0)
				limit_memory(&problem.options, limit);
			good = run_sides(&problem, c->sides, &habits, &got, &stats) == FASTED_DONE &&
				pair_equal(&expected, &got) && stats.pairs == expected.count &&
				stats.units_done == stats.units_total && good;
			if (expected.count > most)
				most = expected.count;
			if (stats.panels > panels)
				panels = stats.panels;
			free(got.pairs);
			free(expected.pairs);
		}
		ok(good, "%s, %s%s: %s, %llu x %llu, d = %u, %u panels, up to %zu pairs", ways[w].kernel,
		   ways[w].name, ways[w].pruned, c->name, (unsigned long long) c->sides[0].n,
		   (unsigned long long) c->sides[c->nsides - 1].n, c->d, panels, most);
	}
	return panels;
}

static const uint32_t sizes[] = {3, 0, 1, 2, 95, 96, 127, 128, 129, 0, 255, 256, 257, 1, 400, 5};

#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Fills, checks and frees a case whose partitions are known. */
static void
run_case(Case *c, bool ties, uint64_t limit)
{
	fill_case(c, ties);
	check_case(c, limit);
	free_case(c);
}

static void
check_shapes(void)
{
	static const uint32_t dims[] = {1, 33, 100};
	static Case c;

	for (int i = 0; i < 3; i++)
	{
		c = (Case) {.name = "one set",.d = dims[i],.nsides = 1};
		for (size_t k = 0; k < NSIZES; k++)
			add_alike(&c, sizes[k], i * 30);
		run_case(&c, i == 1, 0);

		c = (Case) {.name = "two sets",.d = dims[i],.nsides = 2};
		for (size_t k = 0; k < NSIZES; k++)
			add_group(&c, sizes[k], sizes[NSIZES - 1 - k], i * random_below(30), i * random_below(90));
		run_case(&c, i == 1, 0);
	}
}

static void
check_odd_shapes(void)
{
	static Case c;

	c = (Case) {.name = "one partition",.d = 20,.nsides = 1};
	add_alike(&c, 500, 0);
	run_case(&c, true, 0);

	c = (Case) {.name = "no partition of two rows",.d = 20,.nsides = 1};
	for (int g = 0; g < 5; g++)
		add_alike(&c, g % 2, 30);
	run_case(&c, true, 0);

	c = (Case) {.name = "no partition",.d = 20,.nsides = 1};
	c.sides[0].n = 300;
	run_case(&c, true, 0);

	c = (Case) {.name = "one large and many small",.d = 10,.nsides = 1};
	for (int g = 0; g < 600; g++)
		add_alike(&c, g == 300 ? on_gpu() ? 1700 : 800 : 1 + g % 3, 0);
	run_case(&c, false, 0);

	c = (Case) {.name = "some on one side only",.d = 30,.nsides = 2};
	add_group(&c, 100, 0, 0, 0);
	add_group(&c, 0, 300, 5, 0);
	add_group(&c, 40, 50, 0, 0);
	add_group(&c, 0, 70, 0, 700);
	run_case(&c, true, 0);

	c = (Case) {.name = "inner products",.d = 35,.nsides = 2,.metric = FASTED_METRIC_INNER_PRODUCT};
	add_group(&c, 120, 90, 0, 40);
	add_group(&c, 0, 130, 5, 0);
	add_group(&c, 50, 60, 0, 0);
	run_case(&c, false, 0);

	c = (Case) {.name = "large on one side",.d = 30,.nsides = 2};
	add_group(&c, 1, 2000, 0, 0);
	add_group(&c, 3, 1, 9, 0);
	add_group(&c, 1, 700, 0, 40);
	run_case(&c, false, 0);
}

/* Tests panels. */
static void
check_panels(int nsides)
{
	static Case c;
	uint32_t	most = 0;
	uint32_t	more = on_gpu() ? 4 : 1;

	c = (Case) {.name = "panels",.d = on_gpu() ? 64 : 24,.nsides = nsides};
	for (int g = 0; g < 40; g++)
	{
		if (nsides == 1)
			add_alike(&c, random_below(70) * more, random_below(20));
		else
			add_group(&c, random_below(60) * more, random_below(90) * more, random_below(20),
					  g == 10 ? 400 : random_below(9));
	}
	fill_case(&c, true);
	use_small_buffers(true);
	for (uint64_t limit = on_gpu() ? c.sides[0].n * 120 : 1; limit < (on_gpu() ? c.sides[0].n * 240 : 800000);
		 limit = limit * 4 + 60000)
	{
		uint32_t	panels = check_case(&c, limit);

		if (panels > most)
			most = panels;
	}
	use_small_buffers(false);
	ok(most >= (on_gpu() ? 2 : 4), "up to %u panels", most);
	free_case(&c);
}

/* Slices together have all pairs, and no pair twice. */
static void
check_slices(FastedMetric metric, const Way *way)
{
	static Case c;
	PairList	all = {0};
	PairList	expected;
	double		eps;
	bool		good = true;

	c = (Case) {.name = "slices",.d = 12,.nsides = 1,.metric = metric};
	for (int g = 0; g < 30; g++)
		add_alike(&c, random_below(200), random_below(3));
	fill_case(&c, false);
	eps = c.all.pairs[random_below((uint32_t) c.all.count)].dist;
	select_pairs(&c.all, eps, &expected);
	for (uint32_t slice = 0; slice < 5; slice++)
	{
		PanelProblem problem = problem_of(&c, eps);
		PairList	some;

		if (way != NULL)
			problem.options = options_of_way(way, c.d, metric);
		problem.problem.slice = slice;
		problem.problem.slices = 5;
		good = run_sides(&problem, c.sides, &plain, &some, NULL) == FASTED_DONE && good;
		pair_add(&all, some.pairs, some.count);
		free(some.pairs);
	}
	pair_sort(&all);
	ok(good && pair_equal(&all, &expected), "metric %d, five slices: %zu pairs, expected %zu",
	   (int) metric, all.count, expected.count);
	free(all.pairs);
	free(expected.pairs);
	free_case(&c);
}

/* Joins the same rows in some partitions, in others, and without partitions. */
static void
check_again(const Way *way)
{
	static Case cases[3];
	static const int order[] = {0, 2, 1, 0, 0, 2, 1};
	PanelProblem problem;
	PanelJoin  *join;
	bool		good;

	for (int i = 0; i < 3; i++)
		cases[i] = (Case) {.name = "again",.d = 40,.nsides = 1};
	add_alike(&cases[0], 500, 0);
	add_alike(&cases[0], 3, 0);
	add_alike(&cases[0], 697, 0);
	fill_case(&cases[0], false);
	add_alike(&cases[1], 100, 60);
	add_alike(&cases[1], 900, 60);
	add_alike(&cases[2], 1200, 0);
	for (int i = 1; i < 3; i++)
	{
		cases[i].sides[0] = cases[0].sides[0];
		find_all(&cases[i]);
	}
	problem = problem_of(&cases[0], 8.0);
	problem.options = options_of_way(way, 40, FASTED_METRIC_L2);
	good = panel_join_open(join_engine, &problem, &join) == FASTED_OK &&
		load_and_start(join, &problem, cases[0].sides, &plain) == FASTED_OK;
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && good; i++)
	{
		const Case *c = &cases[order[i]];
		PairList	expected;
		PairList	got = {0};

		select_pairs(&c->all, 8.0, &expected);
		problem.problem.partitions = order[i] == 2 ? NULL : c->partitions;
		problem.problem.npartitions = order[i] == 2 ? 0 : c->npartitions;
		good = panel_join_again(join, &problem.problem) == FASTED_OK &&
			drain_join(join, &problem, c->sides, &plain, &got) == FASTED_DONE;
		pair_sort(&got);
		good = good && pair_equal(&expected, &got) && got.count > 0;
		free(expected.pairs);
		free(got.pairs);
	}
	ok(good, "%s, %s%s: the same rows in other partitions", way->kernel, way->name, way->pruned);
	panel_join_close(join);
	free(cases[1].all.pairs);
	free(cases[2].all.pairs);
	free_case(&cases[0]);
}

#define MOST_SPANS 40

/* Makes spans that begin and end in ascending order, except for empty spans. */
static void
make_spans(FastedSpan *spans, uint32_t nspans)
{
	uint32_t	first = random_below(20);
	uint32_t	end = first;

	for (uint32_t m = 0; m < nspans; m++)
	{
		if (random_below(4) == 0)
		{
			spans[m].first = spans[m].end = random_below(3) * 50;
			continue;
		}
		first += random_below(12);
		end = (end > first ? end : first + 1) + random_below(12);
		spans[m] = (FastedSpan) {first, end};
	}
}

static bool
span_meets(const FastedSpan *span, uint64_t begin, uint64_t end)
{
	return span->first < span->end && span->first < end && span->end > begin;
}

/*
 * The tiles of a stripe begin with the first span that meets the stripe or lies beyond it, and end
 * before the first later span that lies beyond it.
 */
static void
check_stripes(void)
{
	bool		right = true;

	for (int i = 0; i < 2000; i++)
	{
		FastedSpan	spans[MOST_SPANS];
		FastedStripe stripes[101];
		uint32_t	nspans = random_below(MOST_SPANS + 1);
		uint32_t	width = 1 + random_below(30);
		uint64_t	count;

		make_spans(spans, nspans);
		count = fasted_find_stripes(spans, nspans, width, stripes, 100);
		right = right && stripes[0].first == 0 && stripes[100].first == count && stripes[100].row == nspans;
		for (uint32_t n = 0; n < 100; n++)
		{
			uint64_t	begin = (uint64_t) n * width;
			uint32_t	low = 0;
			uint32_t	high;

			while (low < nspans && !span_meets(&spans[low], begin, UINT64_MAX))
				low++;
			for (high = low; high < nspans; high++)
			{
				if (spans[high].first < spans[high].end && !span_meets(&spans[high], 0, begin + width))
					break;
			}
			right = right && stripes[n].row == low && stripes[n + 1].first - stripes[n].first == high - low;
		}
	}
	ok(right, "stripes of tiles, compared with a search of all spans");
}

/* Invalid partitions are rejected. */
static void
check_refused(void)
{
	static const FastedPartition wrong[][2] = {
		{{0, 10, 0, 10}, {5, 10, 10, 10}},	/* they overlap */
		{{10, 10, 10, 10}, {0, 10, 0, 10}}, /* descending order */
		{{0, 10, 0, 10}, {10, 11, 10, 11}}, /* they end after the last row */
		{{0, 10, 0, 9}, {10, 5, 10, 5}} /* a self-join's sides differ */
	};
	float		rows[20] = {0};
	Rows		sides[2] = {{.rows = rows,.n = 20}};
	PairList	none;

	for (int i = 0; i < 4; i++)
	{
		PanelProblem problem = {
			.options = {.dimensions = 1},
			.problem = {.eps = 1,.partitions = wrong[i],.npartitions = 2},
			.sides = 1
		};

		ok(run_join_once(&problem, sides, &plain, &none, NULL, NULL) == FASTED_INTERNAL,
		   "invalid partitions rejected, number %d", i);
		free(none.pairs);
	}
}

/* A join of small partitions examines few pairs outside them. */
static void
check_work(void)
{
	static Case c;
	FastedStats stats;
	PairList	got;
	PanelProblem problem;

	c = (Case) {.name = "work",.d = 8,.nsides = 1};
	for (int g = 0; g < 500; g++)
		add_alike(&c, 20, 0);
	fill_case(&c, false);
	problem = problem_of(&c, INFINITY);
	ok(run_join_once(&problem, c.sides, &plain, &got, &stats, NULL) == FASTED_DONE &&
	   got.count == 500 * 190 && stats.candidates < 200 * 500 * 20,
	   "%llu candidates of 10000 rows", (unsigned long long) stats.candidates);
	free(got.pairs);
	free_case(&c);
}

/* Few rows, for compute-sanitizer. */
static void
check_few(void)
{
	static Case c;

	for (int nsides = 1; nsides <= 2; nsides++)
	{
		c = (Case) {.name = "few",.d = 33,.nsides = nsides};
		add_alike(&c, 3, 9);
		add_group(&c, 100, nsides == 1 ? 100 : 30, 9, nsides == 1 ? 9 : 0);
		add_alike(&c, 130, 9);
		fill_case(&c, false);
		check_case(&c, 0);
		free_case(&c);
	}
}

int
main(int argc, char **argv)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	random_seed();
	join_engine = tested_engine();
	if (only_small(argc, argv))
	{
		check_few();
		return tap_done();
	}
	check_refused();
	check_stripes();
	check_shapes();
	check_odd_shapes();
	for (int w = 0; w < count; w++)
		check_again(&ways[w]);
	for (int w = on_gpu() ? 0 : -1; w < (on_gpu() ? count : 0); w++)
	{
		check_slices(FASTED_METRIC_L2, w < 0 ? NULL : &ways[w]);
		check_slices(FASTED_METRIC_INNER_PRODUCT, w < 0 ? NULL : &ways[w]);
	}
	check_panels(1);
	check_panels(2);
	if (!on_gpu())
		check_work();
	return tap_done();
}
