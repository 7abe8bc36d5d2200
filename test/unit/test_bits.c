/*-------------------------------------------------------------------------
 *
 * test_bits.c
 *	  Joins of rows of bits by Hamming and Jaccard distance, compared bit for bit with brute force.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "join.h"
#include "tested_engine.h"

static const CallerHabits plain = {.timeout_ms = 100};

/* Rows of one side or two. */
typedef struct Case
{
	uint32_t	n;				/* number of bits */
	bool		windows;		/* rows have 5 to 40 adjacent bits: distances are simple quotients */
	FastedMetric metric;
	int			nsides;
	Rows		sides[2];
	FastedPartition partitions[3];
	uint32_t	npartitions;	/* zero: all rows are compared */
} Case;

static uint64_t *
row_of(const Case *c, int side, uint64_t row)
{
	return (uint64_t *) c->sides[side].rows + row * fasted_bit_words(c->n);
}

static void
flip(uint64_t *row, uint32_t bit)
{
	row[bit / 64] ^= UINT64_C(1) << bit % 64;
}

/*
 * Fills in one row: zeros, ones, few bits, a copy of an earlier row or one that is similar to it,
 * or random bits with a density of 0.02 or 0.5.
 */
static void
fill_row(const Case *c, int side, uint64_t i)
{
	uint64_t   *row = row_of(c, side, i);
	uint32_t	kind = random_below(16);
	double		density = kind < 6 ? 0.02 : 0.5;

	memset(row, 0, fasted_bit_words(c->n) * sizeof(uint64_t));
	if (c->windows)
	{
		for (uint32_t k = 0; k < 5 * (1 + i % 8); k++)
			flip(row, (uint32_t) i / 8 + k);
		return;
	}
	if (kind == 0)
		return;
	if (kind >= 9 && i > 0)
		memcpy(row, row_of(c, side, random_below((uint32_t) i)), fasted_bit_words(c->n) * sizeof(uint64_t));
	if (kind >= 11 && i > 0)
		for (uint32_t f = random_below(12); f > 0; f--)
			flip(row, random_below(c->n));
	if (kind >= 9 && i > 0)
		return;
	for (uint32_t k = 0; k < c->n; k++)
	{
		if (kind == 1 || (kind == 2 ? k < random_below(8) : random_uniform() < density))
			flip(row, k);
	}
}

static void
make_case(Case *c, uint32_t n, FastedMetric metric, int nsides, uint64_t rows_a, uint64_t rows_b)
{
	*c = (Case) {.n = n,.metric = metric,.nsides = nsides,.windows = n == 128};
	for (int side = 0; side < nsides; side++)
	{
		c->sides[side].n = side == 0 ? rows_a : rows_b;
		c->sides[side].rows = must_alloc(c->sides[side].n * fasted_bit_words(n) * sizeof(uint64_t));
		for (uint64_t i = 0; i < c->sides[side].n; i++)
			fill_row(c, side, i);
	}
}

static void
free_case(Case *c)
{
	for (int side = 0; side < c->nsides; side++)
		free((float *) c->sides[side].rows);
}

/* Divides the rows into three partitions, with rows between them that are in none. */
static void
make_partitions(Case *c)
{
	c->npartitions = 3;
	for (uint32_t p = 0; p < 3; p++)
	{
		uint32_t	a = (uint32_t) c->sides[0].n / 3;
		uint32_t	b = (uint32_t) c->sides[c->nsides - 1].n / 3;

		c->partitions[p] = (FastedPartition) {.first_a = p * a,.rows_a = a - p,
			.first_b = p * b,.rows_b = b - p};
	}
}

static PanelProblem
problem_of(const Case *c, const Way *way, double eps, uint64_t memory_limit)
{
	PanelProblem problem = {
		.options = options_of_way(way, c->n, c->metric),.problem = {.eps = eps},.sides = c->nsides
	};

	problem.options.element = FASTED_ELEMENT_BIT;
	problem.options.threads = 2;
	if (memory_limit > 0)
		limit_memory(&problem.options, memory_limit);
	if (c->npartitions > 0)
	{
		problem.problem.partitions = c->partitions;
		problem.problem.npartitions = c->npartitions;
	}
	return problem;
}

/*
 * Joins within eps; some joins are repeated to count pairs, and in slices.  Returns whether all
 * pairs are correct.
 */
static bool
check_pairs(const Case *c, const Way *way, double eps, uint64_t memory_limit, FastedStats *stats)
{
	PanelProblem problem = problem_of(c, way, eps, memory_limit);
	PairList	expected;
	PairList	got;
	PairList	sliced = {0};
	bool		again = random_below(4) == 0 && memory_limit == 0;
	bool		good;

	find_pairs(&problem, c->sides, &expected);
	good = (again ? run_sides(&problem, c->sides, &plain, &got, stats)
			: run_join_once(&problem, c->sides, &plain, &got, stats, NULL)) == FASTED_DONE &&
		pair_equal(&got, &expected) && strcmp(stats->filter, "bits") == 0;
	free(got.pairs);
	problem.problem.slices = 3;
	problem.problem.identical_kernels = random_below(2) == 0;
	for (uint32_t s = 0; s < 3 && again; s++)
	{
		problem.problem.slice = s;
		good = run_join_once(&problem, c->sides, &plain, &got, NULL, NULL) == FASTED_DONE && good;
		pair_add(&sliced, got.pairs, got.count);
		free(got.pairs);
	}
	pair_sort(&sliced);
	good = good && (!again || pair_equal(&sliced, &expected));
	if (!good)
		printf("# %u bits, metric %d, kernel %s, eps %.17g: expected %zu pairs\n", c->n,
			   (int) c->metric, way->kernel, eps, expected.count);
	free(sliced.pairs);
	free(expected.pairs);
	return good;
}

static bool
check_nearest(const Case *c, const Way *way, double eps, uint32_t k, uint64_t memory_limit)
{
	PanelProblem problem = problem_of(c, way, eps, memory_limit);
	bool		good;

	problem.problem.k = k;
	good = check_nearest_join(&problem, c->sides);
	if (!good)
		printf("# %u bits, metric %d, kernel %s, eps %.17g, k %u: wrong neighbors\n", c->n,
			   (int) c->metric, way->kernel, eps, k);
	return good;
}

static double
dist_at(const Case *c, uint64_t a, uint64_t b)
{
	FastedOptions options = {.dimensions = c->n,.metric = c->metric,.element = FASTED_ELEMENT_BIT};

	return brute_distance(&options, row_of(c, 0, a), row_of(c, c->nsides - 1, b));
}

/* Lists eps: limits, quotients, distances of pairs, and the numbers beside them. */
static int
list_eps(const Case *c, double *list)
{
	double		exact[] = {
		1.0 / 3.0, 0.2, 0.5, 1.0 - 1.0 / 3.0, 1.0 - 4.0 / 5.0,
		dist_at(c, random_below((uint32_t) c->sides[0].n), 1),
		dist_at(c, random_below((uint32_t) c->sides[0].n), 0), 10.0, 1.0
	};
	int			count = 0;

	list[count++] = 0.0;
	list[count++] = INFINITY;
	for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++)
	{
		list[count++] = nextafter(exact[i], 0.0);
		list[count++] = exact[i];
		list[count++] = nextafter(exact[i], INFINITY);
	}
	return count;
}

static const Way automatic = {NULL, FASTED_FILTER_AUTO, "bits", FASTED_PRUNE_AUTO, ""};

/*
 * The CPU's available kernels for rows of bits, each by the name of a kernel that leads to it; or a GPU's
 * kernels, with and without folding to 64 bits.
 */
static int
list_kernels(Way *ways)
{
	static const Way others[] = {
		{"wgmma", FASTED_FILTER_AUTO, "bits", FASTED_PRUNE_AUTO, ""},
		{"mma.sync", FASTED_FILTER_FP64, "bits", FASTED_PRUNE_AUTO, ""},
		{"folded", FASTED_FILTER_AUTO, "bits", FASTED_PRUNE_AUTO, ""},
		{"wgmma", FASTED_FILTER_AUTO, "bits", FASTED_PRUNE_FORCE, ""},
		{"mma.sync", FASTED_FILTER_INT8, "bits", FASTED_PRUNE_FORCE, ""},
		{"folded", FASTED_FILTER_AUTO, "bits", FASTED_PRUNE_FORCE, ""},
	};
	const CpuKernel *known[MOST_WAYS];
	int			count = 0;

	if (on_gpu())
	{
		memcpy(ways, others, sizeof(others));
		return (int) (sizeof(others) / sizeof(others[0]));
	}
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		const CpuKernel *bits = fasted_cpu_kernel(k)->bits;
		bool		listed = false;

		while (!bits->available())
			bits = bits->bits;
		for (int i = 0; i < count; i++)
			listed = listed || known[i] == bits;
		if (listed || !fasted_cpu_kernel(k)->available())
			continue;
		known[count] = bits;
		ways[count] = automatic;
		ways[count++].kernel = fasted_cpu_kernel(k)->name;
	}
	return count;
}

/* Tests one case with all kernels.  Each eps is tested with one of them, in turn. */
static void
check_case(Case *c, const char *what)
{
	Way			kernels[MOST_WAYS];
	int			nkernels = list_kernels(kernels);
	double		eps[64];
	int			count = list_eps(c, eps);
	int			step = c->npartitions > 0 || c->nsides == 2 ? 2 : 1;
	bool		good = true;
	bool		near = true;
	uint32_t	folds = 0;
	FastedStats stats;

	/* every other eps of partitions and of two sets */
	for (int e = step > 1 ? (int) random_below(2) : 0; e < count; e += step)
	{
		const Way  *way = &kernels[(e + (int) c->n) % nkernels];

		good = check_pairs(c, way, eps[e], 0, &stats) && good;
		folds |= stats.filter_dimensions;
		if (e % 3 == 0)
			near = check_nearest(c, way, eps[e], 1 + random_below(e % 2 == 0 ? 4 : 40), 0) && near;
	}
	for (int k = 0; k < nkernels; k++)
	{
		good = check_pairs(c, &kernels[k], c->metric == FASTED_METRIC_JACCARD ? 0.4 : c->n / 20, 0,
						   &stats) && good;
		near = check_nearest(c, &kernels[k], INFINITY, 5, 0) && near;
	}
	ok(good, "%s of %u bits, metric %d, sides %d (folds %x)", what, c->n, (int) c->metric, c->nsides,
	   folds);
	ok(near, "%s of %u bits, metric %d, sides %d: nearest", what, c->n, (int) c->metric, c->nsides);
}

/* Rows that do not fit into memory are joined in panels. */
static void
check_panels(FastedMetric metric)
{
	double		eps = metric == FASTED_METRIC_JACCARD ? 0.3 : 20.0;
	uint64_t	limit = on_gpu() ? 900 * (2048 + 300) / 3 : 1 << 20;
	FastedStats stats;
	Case		c;

	use_small_buffers(true);
	for (int nsides = 1; nsides <= 2; nsides++)
	{
		bool		good;

		make_case(&c, 2048, metric, nsides, 1500, nsides == 1 ? 1500 : 900);
		good = check_pairs(&c, &automatic, eps, limit, &stats);
		ok(good && stats.panels > 1, "metric %d, sides %d, in %u panels", (int) metric, nsides,
		   stats.panels);
		ok(check_nearest(&c, &automatic, INFINITY, 3, limit), "metric %d, sides %d, nearest in panels",
		   (int) metric, nsides);
		free_case(&c);
	}
	use_small_buffers(false);
}

/* A GPU chooses the number of bits by a sample; more candidates need more bits. */
static void
check_choice(FastedMetric metric)
{
	Case		c;

	make_case(&c, 2048, metric, 1, 3001, 3001);
	tuning.always_choose = true;
	for (int i = 0; i < 5; i++)
	{
		double		eps = (i + 0.2) / 5.0;
		FastedStats stats;
		bool		good = check_pairs(&c, &automatic, metric == FASTED_METRIC_JACCARD ? eps : floor(80.0 * eps), 0, &stats);

		ok(good && stats.filter_sampled, "metric %d, eps %g: %u bits chosen, %llu candidates", (int) metric, eps,
		   stats.filter_dimensions, (unsigned long long) stats.candidates);
	}
	tuning.always_choose = false;
	free_case(&c);
}

/* Metrics of bits are rejected for floats, and negative distances for bits. */
static void
check_refused(void)
{
	const uint64_t bits[2] = {1, 2};
	const Rows	rows = {.rows = (const float *) bits,.n = 2};

	for (int i = 0; i < 2; i++)
	{
		PanelProblem problem = {
			.options = {.dimensions = 2,.metric = FASTED_METRIC_HAMMING,
			.element = i == 0 ? FASTED_ELEMENT_REAL : FASTED_ELEMENT_BIT},
			.problem = {.eps = i == 0 ? 1.0 : -1.0},.sides = 1
		};
		PairList	none;

		ok(FASTED_FAILED(run_join_once(&problem, &rows, &plain, &none, NULL, NULL)), "%s is rejected",
		   i == 0 ? "the Hamming distance of floats" : "a negative distance");
		free(none.pairs);
	}
}

/*
 * The nearest row of many has far fewer bits than all others, beside rows that are near none: the
 * thresholds depend on the smallest number of bits.
 */
static void
check_few_bits(void)
{
	Way			kernels[MOST_WAYS];
	int			nkernels = list_kernels(kernels);
	Case		c;

	make_case(&c, 256, FASTED_METRIC_JACCARD, 2, 40, 100);
	for (uint64_t i = 0; i < c.sides[0].n; i++)
	{
		memset(row_of(&c, 0, i), 0, 256 / 8);
		for (uint32_t k = 0; k < 20; k++)
			flip(row_of(&c, 0, i), i % 2 == 0 ? k : 20 + k);
	}
	for (uint64_t i = 0; i < c.sides[1].n; i++)
	{
		memset(row_of(&c, 1, i), 0, 256 / 8);
		for (uint32_t k = 0; k < (i == 50 ? 10 : 60); k++)
			flip(row_of(&c, 1, i), i == 50 ? k : 64 + (uint32_t) i + k);
	}
	for (int k = 0; k < nkernels; k++)
		ok(check_nearest(&c, &kernels[k], INFINITY, 1, 0), "kernel %s: a row with few bits", kernels[k].kernel);
	free_case(&c);
}

/*
 * Rows 1 to 200 begin with so many set bits, so that the distances are all quotients of integers up
 * to 200.  Limits with three decimals include the pairs whose quotient is the limit.
 */
static void
check_decimals(int nsides)
{
	Way			kernels[MOST_WAYS];
	int			nkernels = list_kernels(kernels);
	FastedStats stats;
	bool		good = true;
	Case		c;

	make_case(&c, 200, FASTED_METRIC_JACCARD, nsides, 200, 200);
	for (uint32_t a = 0; a < 200; a++)
	{
		for (int side = 0; side < nsides; side++)
		{
			memset(row_of(&c, side, a), 0, fasted_bit_words(200) * sizeof(uint64_t));
			for (uint32_t k = 0; k <= a; k++)
				flip(row_of(&c, side, a), k);
		}
	}
	for (int i = 0; i <= 1000; i++)
	{
		if ((i % 5 != 0 && i % 8 != 0) || (quick() && i % 25 != 0))
			continue;
		good = check_pairs(&c, &kernels[i % nkernels], i / 1000.0, 0, &stats) && good;
		good = check_pairs(&c, &kernels[(i + 1) % nkernels], nextafter(i / 1000.0, 0.0), 0, &stats) && good;
	}
	ok(good, "Jaccard distances at decimal limits, sides %d", nsides);
	free_case(&c);
}

/*
 * Rows begin with fold / 2 random bits, followed by their complements and by zeros.  One bit is changed.
 * All rows are near each other when they are folded to fewer than `fold` bits, and those of different
 * sides are far apart when they are folded to `fold` bits.  So `fold` must be chosen.  The rows of one
 * side are near each other with each fold.
 */
static void
check_fold(uint32_t fold, int near_side)
{
	FastedStats stats;
	bool		good;
	Case		c;

	make_case(&c, 2048, FASTED_METRIC_HAMMING, 2, 600, 500);
	for (int side = 0; side < 2; side++)
	{
		for (uint64_t i = 0; i < c.sides[side].n; i++)
		{
			memset(row_of(&c, side, i), 0, 2048 / 8);
			for (uint32_t k = 0; k < fold / 2; k++)
				flip(row_of(&c, side, i), side == near_side || random_below(2) == 0 ? k : fold / 2 + k);
			flip(row_of(&c, side, i), random_below(fold));
		}
	}
	good = check_pairs(&c, &automatic, fold / 16, 0, &stats);
	ok(good && stats.filter_dimensions == (fold < c.n ? fold : 0),
	   "rows that differ in %u bits, those of side %d in few: folded to %u", fold, near_side,
	   stats.filter_dimensions);
	free_case(&c);
}

int
main(int argc, char **argv)
{
	static const uint32_t sizes[] = {1, 7, 8, 63, 64, 65, 127, 128, 129, 300, 2048, 16000, 65536};

	random_seed();
	join_engine = tested_engine();
	if (only_small(argc, argv))
	{
		check_few_bits();
		return tap_done();
	}
	check_refused();
	if (on_several_gpus())
	{
		for (int m = FASTED_METRIC_HAMMING; m <= FASTED_METRIC_JACCARD; m++)
		{
			Case		c;

			make_case(&c, 300, (FastedMetric) m, 1, 3001, 3001);
			check_case(&c, "several GPUs");
			free_case(&c);
		}
		return tap_done();
	}
	check_few_bits();
	check_decimals(1);
	check_decimals(2);
	for (uint32_t fold = 32; fold <= 2048 && !on_gpu(); fold *= 2)
	{
		check_fold(fold, 0);
		check_fold(fold, 1);
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		for (int m = 0; m < 2; m++)
		{
			FastedMetric metric = m == 0 ? FASTED_METRIC_HAMMING : FASTED_METRIC_JACCARD;
			uint64_t	rows = sizes[i] > 10000 ? 130 : on_gpu() ? 700 : 400;
			Case		c;

			if (quick() && random_below(2) == 0)
				continue;
			make_case(&c, sizes[i], metric, 1, rows, rows);
			check_case(&c, "rows");
			make_partitions(&c);
			check_case(&c, "partitions");
			free_case(&c);
			make_case(&c, sizes[i], metric, 2, rows, rows / 2 + 3);
			check_case(&c, "rows");
			free_case(&c);
		}
	}
	for (int m = FASTED_METRIC_HAMMING; m <= FASTED_METRIC_JACCARD; m++)
	{
		check_panels((FastedMetric) m);
		if (on_gpu())
			check_choice((FastedMetric) m);
	}
	return tap_done();
}
