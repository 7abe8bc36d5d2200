/*-------------------------------------------------------------------------
 *
 * test_two_sets.c
 *	  Joins of two sets by the CPU engine, compared bit for bit with brute force, for every kernel
 *	  and filter.
 *
 *-------------------------------------------------------------------------
 */
#include "join.h"
#include "ways.h"

static const CallerHabits plain = {.timeout_ms = 100};

/* Kinds of rows, which are related on both sides. */
typedef enum Kind
{
	NORMAL,
	CLUSTERED,					/* around the same centres */
	INTEGERS,					/* many equal distances */
	MAGNITUDES,					/* 1e30 and 1e-30 */
	SCALES,						/* side b is a thousand times as large */
	APART,						/* both sides are far from 0 and from each other */
	LARGE_INTEGERS,				/* bytes, and some rows with fractions */
	KINDS
} Kind;

static const char *const names[KINDS] = {
	"normal", "clustered", "integers", "magnitudes", "scales", "apart", "bytes"
};

static float
make_value(Kind kind, int side, uint32_t row, uint32_t k)
{
	double		v = random_normal();

	switch (kind)
	{
		case CLUSTERED:
			return (float) (0.01 * v + sin(1.0 + row % 9 * 100.0 + k));
		case INTEGERS:
			return (float) floor(4 * v);
		case MAGNITUDES:
			return (float) (v * (random_below(2) == 0 ? 1e30 : 1e-30));
		case SCALES:
			return (float) (side == 1 ? 1000.0 * v : v);
		case APART:
			return (float) (side == 1 ? 1e4 + v : v - 1e4);
		case LARGE_INTEGERS:
			return (float) random_below(256) + (row % 50 == 7 ? 0.25f : 0.0f);
		case NORMAL:
		case KINDS:
			break;
	}
	return (float) v;
}

/* Every tenth row is a copy of a row of side a. */
static void
make_sides(Kind kind, uint64_t na, uint64_t nb, uint32_t d, Rows *sides)
{
	const uint64_t n[2] = {na, nb};

	for (int side = 0; side < 2; side++)
	{
		float	   *rows = must_alloc(n[side] * d * sizeof(float));

		sides[side] = (Rows) {.rows = rows,.n = n[side]};
		for (uint32_t i = 0; i < n[side]; i++)
		{
			uint32_t	before = side == 0 ? i : (uint32_t) na;

			if (before > 0 && random_below(10) == 0)
			{
				memcpy(rows + (size_t) i * d, sides[0].rows + (size_t) random_below(before) * d,
					   d * sizeof(float));
				continue;
			}
			for (uint32_t k = 0; k < d; k++)
				rows[(size_t) i * d + k] = make_value(kind, side, i, k);
		}
	}
}

static void
free_sides(Rows *sides)
{
	free((float *) sides[0].rows);
	free((float *) sides[1].rows);
}

/* Chooses zero, infinity, and exact distances, including the smallest. */
static int
pick_eps(const PairList *all, double *eps)
{
	double		tie;
	int			count = 0;

	eps[count++] = 0.0;
	eps[count++] = INFINITY;
	if (all->count == 0)
		return count;
	tie = all->pairs[random_below((uint32_t) all->count)].dist;
	eps[count++] = tie;
	eps[count++] = nextafter(tie, 0.0);
	for (size_t i = 0; i < all->count; i++)
	{
		if (all->pairs[i].dist > 0 && all->pairs[i].dist < tie)
			tie = all->pairs[i].dist;
	}
	eps[count++] = tie;
	return count;
}

/* Compares one kernel and filter with brute force, for some eps and all outputs. */
static void
check_way(const Way *way, const Rows *sides, uint32_t d, Kind kind, const PairList *all)
{
	PanelProblem problem = {
		.options = {
			.dimensions = d,.kernel = way->kernel,.filter = way->filter,.prune = way->prune
		},
		.sides = 2
	};
	bool		empty = sides[0].n == 0 || sides[1].n == 0;
	double		eps[8];
	int			count = pick_eps(all, eps);
	int			step = quick() ? 3 : 2;
	bool		same = true;

	for (int e = (int) random_below((uint32_t) step); e < count && same; e += step)
	{
		PairList	expected;
		PairList	got;
		FastedStats stats;

		problem.problem.eps = eps[e];
		problem.options.threads = 1 + (int) random_below(5);
		select_pairs(all, eps[e], &expected);
		same = run_join_once(&problem, sides, &plain, &got, &stats, NULL) == FASTED_DONE &&
			pair_equal(&expected, &got) && stats.pairs == got.count &&
			stats.candidates >= got.count && stats.units_done == stats.units_total &&
			(empty || strcmp(stats.filter, way->name) == 0) &&
			check_count(&problem, sides, &plain,
						random_below(2) == 0 ? FASTED_OUTPUT_COUNT : FASTED_OUTPUT_COUNTS, &expected);
		if (!same)
			printf("# eps %.17g threads %d: %zu pairs, expected %zu, by %s\n", eps[e],
				   problem.options.threads, got.count, expected.count, stats.filter);
		free(expected.pairs);
		free(got.pairs);
	}
	ok(same, "%s, %s%s: %llu x %llu, d = %u, %s", way->kernel, way->name, way->pruned,
	   (unsigned long long) sides[0].n, (unsigned long long) sides[1].n, d, names[kind]);
}

static void
check_shape(uint32_t na, uint32_t nb, uint32_t d, Kind kind)
{
	Way			ways[MOST_WAYS];
	Rows		sides[2];
	PairList	all;
	int			count;

	make_sides(kind, na, nb, d, sides);
	near_pairs_of_two(sides, d, INFINITY, &all);
	count = some_ways(ways, all_ways(ways));
	for (int w = 0; w < count; w++)
		check_way(&ways[w], sides, d, kind, &all);
	free(all.pairs);
	free_sides(sides);
}

static void
check_shapes(void)
{
	static const uint32_t sizes[][2] = {
		{0, 0}, {0, 9}, {9, 0}, {1, 1}, {1, 2}, {49, 1}, {23, 48}, {241, 240}, {100, 777}
	};
	static const uint32_t dims[] = {1, 3, 33, 100, 260};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t j = quick() ? random_below(5) : 0; j < sizeof(dims) / sizeof(dims[0]); j += quick() ? 5 : 1)
			check_shape(sizes[i][0], sizes[i][1], dims[j], (Kind) ((i + j) % KINDS));
	for (int kind = 0; kind < KINDS; kind++)
		check_shape(300, 150, 40, (Kind) kind);
	check_shape(1, 5000, 65, NORMAL);
	check_shape(5000, 1, 65, CLUSTERED);
	check_shape(37, 4001, 33, SCALES);
	check_shape(4001, 37, 8, INTEGERS);
	check_shape(20, 30, 5000, NORMAL);
}

/* Joins with a memory limit; returns the number of panels. */
static uint32_t
check_limit(const Way *way, const Rows *sides, uint32_t d, double eps, uint64_t limit,
			const PairList *expected)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.memory_limit = limit,.kernel = way->kernel,
		.filter = way->filter,.prune = way->prune,.threads = 2},
		.problem = {.eps = eps},
		.sides = 2
	};
	CallerHabits habits = {
		.timeout_ms = 100,.stage_at_most = random_below(50),.put = random_below(2) == 1
	};
	FastedStats stats;
	PairList	got;
	bool		good;

	good = run_join_once(&problem, sides, &habits, &got, &stats, NULL) == FASTED_DONE &&
		pair_equal(expected, &got) && stats.units_done == stats.units_total &&
		check_count(&problem, sides, &habits, FASTED_OUTPUT_COUNTS, expected);
	ok(good, "%s, %s%s: %llu x %llu in %u panels, limit %llu: %zu pairs", way->kernel,
	   stats.filter, way->pruned, (unsigned long long) sides[0].n, (unsigned long long) sides[1].n,
	   stats.panels, (unsigned long long) limit, got.count);
	free(got.pairs);
	return stats.panels;
}

/* Joins with panels of many sizes on either side, staged in pieces of any size. */
static void
check_panels(uint32_t na, uint32_t nb, uint32_t d, double eps, uint32_t least)
{
	Way			ways[MOST_WAYS];
	int			count = some_ways(ways, all_ways(ways));
	Rows		sides[2];
	PairList	expected;

	make_sides(NORMAL, na, nb, d, sides);
	near_pairs_of_two(sides, d, eps, &expected);
	for (int w = 0; w < count; w++)
	{
		uint32_t	most = 0;

		for (uint64_t limit = 1; limit < 1000000; limit = limit * 3 + 20000)
		{
			uint32_t	panels = check_limit(&ways[w], sides, d, eps, limit, &expected);

			if (panels > most)
				most = panels;
		}
		ok(most >= least, "%u x %u: up to %u panels", na, nb, most);
	}
	free(expected.pairs);
	free_sides(sides);
}

/*
 * Slices, two of which may be combined, together have all pairs and no pair twice.  They do not
 * depend on the number of threads.  They depend on the kernel only if there are panels, whose
 * size depends on it.  With identical kernels, rows may be ordered; slices then have the same
 * hash of the order.
 */
static void
check_slices(const Rows *sides, int nsides, uint32_t d, double eps, uint64_t limit,
			 FastedPrune prune, bool alike)
{
	static const uint32_t numbers[] = {1, 2, 3, 7};
	PanelProblem problem = {
		.options = {.dimensions = d,.memory_limit = limit,.threads = 2,.prune = prune},
		.problem = {.eps = eps,.identical_kernels = alike},
		.sides = nsides
	};
	PairList	whole;
	Way			ways[MOST_WAYS];
	uint32_t	nways = limit == 0 && !alike ? (uint32_t) all_ways(ways) : 0;

	(void) run_join_once(&problem, sides, &plain, &whole, NULL, NULL);
	for (size_t i = quick() ? random_below(4) : 0; i < sizeof(numbers) / sizeof(numbers[0]); i += quick() ? 4 : 1)
	{
		PairList	all = {0};
		bool		good = true;
		uint32_t	used = 0;
		uint64_t	hash = 0;
		bool		ordered = false;

		problem.problem.slices = numbers[i];
		for (uint32_t slice = 0; slice < numbers[i] && good; slice += 1 + problem.problem.more_slices)
		{
			PairList	some;
			PairList	again;
			FastedStats stats;

			problem.problem.slice = slice;
			problem.problem.more_slices = numbers[i] > 5 && slice % 3 == 1;
			problem.options.threads = 1 + (int) slice % 3;
			problem.options.kernel = nways > 0 ? ways[slice % nways].kernel : NULL;
			good = run_join_once(&problem, sides, &plain, &some, &stats, NULL) == FASTED_DONE;
			problem.options.threads = 2 + (int) slice % 4;
			if (nways > 0)
				problem.options.kernel = ways[(5 * slice + 3) % nways].kernel;
			good = run_sides(&problem, sides, &plain, &again, NULL) == FASTED_DONE && good &&
				pair_equal(&some, &again) && stats.units_done == stats.units_total;
			good = good && (slice == 0 || stats.order_hash == hash);
			hash = stats.order_hash;
			ordered = hash != 0;
			used += some.count > 0;
			pair_add(&all, some.pairs, some.count);
			free(some.pairs);
			free(again.pairs);
		}
		pair_sort(&all);
		ok(good && pair_equal(&all, &whole) && (used > numbers[i] / 2 || whole.count < 100) &&
		   ordered == (prune == FASTED_PRUNE_FORCE && (alike || numbers[i] == 1)),
		   "%u slices%s%s, %d sides, limit %llu: %zu pairs in %u slices", numbers[i],
		   prune == FASTED_PRUNE_FORCE ? ", pruned" : "", alike ? ", one kernel" : "", nsides,
		   (unsigned long long) limit, all.count, used);
		free(all.pairs);
	}
	free(whole.pairs);
}

static void
check_all_slices(void)
{
	Rows		sides[2];

	make_sides(NORMAL, 1500, 900, 20, sides);
	for (int nsides = 1; nsides <= 2; nsides++)
	{
		check_slices(sides, nsides, 20, 4.0, 0, FASTED_PRUNE_OFF, false);
		check_slices(sides, nsides, 20, 4.0, 0, FASTED_PRUNE_FORCE, false);
		check_slices(sides, nsides, 20, 4.0, 450000, FASTED_PRUNE_OFF, false);
		check_slices(sides, nsides, 20, 4.0, 0, FASTED_PRUNE_OFF, true);
		check_slices(sides, nsides, 20, 4.0, 0, FASTED_PRUNE_FORCE, true);
		check_slices(sides, nsides, 20, 4.0, 450000, FASTED_PRUNE_FORCE, true);
	}
	free_sides(sides);
	make_sides(NORMAL, 2, 3, 20, sides);
	check_slices(sides, 2, 20, 7.0, 0, FASTED_PRUNE_OFF, false);
	check_slices(sides, 1, 20, 7.0, 0, FASTED_PRUNE_OFF, true);
	free_sides(sides);
}

/* By default the engine chooses INT8 if a sample of both sides has few false candidates. */
static void
check_choice(uint32_t na, uint32_t nb, bool good)
{
	const uint32_t d = 48;
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 2},.problem = {.eps = good ? 0.15 : 2e-5},.sides = 2
	};
	const char *filter = good ? integer_filter(best_kernel()) : "fp32";
	bool		same;
	Rows		sides[2];
	PairList	expected;
	PairList	got;
	FastedStats stats;

	make_sides(CLUSTERED, na, nb, d, sides);
	/* two clumps of clusters, which INT8 cannot distinguish within a clump */
	for (int side = 0; side < 2 && !good; side++)
	{
		for (uint64_t i = 0; i < sides[side].n * d; i++)
			((float *) sides[side].rows)[i] = 1e-4f * sides[side].rows[i]
				+ (i / d % 2 == 0 ? 1.0f : 0.0f);
	}
	near_pairs_of_two(sides, d, problem.problem.eps, &expected);
	same = run_join_once(&problem, sides, &plain, &got, &stats, NULL) == FASTED_DONE &&
		pair_equal(&expected, &got);
	ok(same && expected.count > 1000 && stats.filter_sampled == (best_kernel()->int8 != NULL) &&
	   strcmp(stats.filter, filter) == 0,
	   "%u x %u, %s: %s %zu pairs, %llu candidates; sample: %llu and %llu", na, nb,
	   good ? "clusters" : "fine clusters", stats.filter, expected.count,
	   (unsigned long long) stats.candidates, (unsigned long long) stats.sampled_candidates,
	   (unsigned long long) stats.sampled_pairs);
	free(expected.pairs);
	free(got.pairs);
	free_sides(sides);
}

int
main(void)
{
	random_seed();
	if (!kernels_hidden())
	{
		check_shapes();
		check_panels(613, 401, 37, 6.5, 5);
		check_panels(30, 900, 37, 6.5, 1);
		check_panels(900, 30, 5, 2.0, 1);
		check_all_slices();
	}
	check_choice(4500, 2500, true);
	check_choice(2500, 4500, false);
	return tap_done();
}
