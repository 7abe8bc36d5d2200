/*-------------------------------------------------------------------------
 *
 * test_nearest.c
 *	  The nearest neighbors of every row, compared with brute force in FP64.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "sets.h"
#include "tested_engine.h"
#include "ways.h"

/* A neighbor found by brute force. */
typedef struct Near
{
	double		dist;
	uint32_t	row;
} Near;

/* Rows of both sides, and for each row of side 0 all neighbors in order. */
typedef struct Truth
{
	Rows		sides[2];
	int			nsides;
	uint32_t	d;
	FastedMetric metric;
	Near	   *near;			/* near_stride entries for each row */
	uint32_t   *lengths;
	const uint32_t *ranks;		/* ranks of the last side's rows, which identify them; or NULL */
	size_t		near_stride;
	FastedPartition *partitions; /* NULL: no partitions */
	uint32_t	npartitions;
} Truth;

/* Kinds of rows. */
typedef enum Kind
{
	KIND_NORMAL,
	KIND_DENSITIES,				/* clusters of very different densities */
	KIND_DUPLICATES,			/* hundreds of copies of a row, and others */
	KIND_EQUAL,
	KIND_GRID,					/* small integers: equal distances */
	KIND_OUTLIERS,				/* one in a hundred is 30 times as long */
	KIND_HUGE,
	KIND_TINY,
	KIND_WILD,					/* out-of-range rows: huge, infinite or NaN */
	KINDS
} Kind;

static const char *const kind_names[KINDS] = {
	"normal", "densities", "duplicates", "equal", "grid", "outliers", "huge", "tiny", "out of range"
};

/* Returns one coordinate.  All coordinates of a row have the same cluster and scale. */
static float
number_of(Kind kind, uint64_t row, uint32_t k)
{
	double		centre = (double) (row % 7 * 31 + k * 17 % 101) - 60.0;

	switch (kind)
	{
		case KIND_DENSITIES:
			return (float) (centre + ldexp(random_normal(), 3 - 3 * (int) (row % 7)));
		case KIND_DUPLICATES:
			return row % 3 != 0 ? (float) (k % 5) : (float) random_normal();
		case KIND_EQUAL:
			return (float) (k + 1);
		case KIND_GRID:
			return (float) random_below(k < 3 ? 4 : 2);
		case KIND_OUTLIERS:
			return (float) (random_normal() * (row % 100 == 42 ? 30.0 : 1.0));
		case KIND_HUGE:
			return (float) (random_normal() * 1e37);
		case KIND_TINY:
			return (float) (random_normal() * 1e-40);
		case KIND_WILD:
			if (random_below(500) == 0)
				return random_below(3) == 0 ? NAN : random_below(2) == 0 ? -INFINITY : INFINITY;
			return (float) (random_normal() * (row % 50 == 0 ? 1e38 : 1.0));
		default:
			return (float) random_normal();
	}
}

static const char *const metric_names[] = {"", ", cosine", ", inner product"};

static Rows
rows_of(Kind kind, uint64_t n, uint32_t d)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint64_t i = 0; i < n * d; i++)
		rows[i] = number_of(kind, i / d, (uint32_t) (i % d));
	return (Rows) {.rows = rows,.n = n};
}

static int
compare_near(const void *left, const void *right)
{
	const Near *x = left;
	const Near *y = right;

	if (x->dist != y->dist)
		return x->dist < y->dist ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static double
distance_of(const Truth *truth, const float *x, const float *y)
{
	return brute_distance(&(FastedOptions) {.dimensions = truth->d,.metric = truth->metric}, x, y);
}

static void
add_near(Truth *truth, uint64_t row, uint64_t other, double dist)
{
	uint32_t	rank = truth->ranks != NULL ? truth->ranks[other] : (uint32_t) other;

	if (!isnan(dist))
		truth->near[row * truth->near_stride + truth->lengths[row]++] =
			(Near) {.dist = dist,.row = rank};
}

/* Returns the numbers below n in random order. */
static uint32_t *
shuffled_numbers(uint64_t n)
{
	uint32_t   *numbers = must_alloc(n * sizeof(uint32_t));

	for (uint64_t i = 0; i < n; i++)
	{
		uint64_t	other = random_below((uint32_t) i + 1);

		numbers[i] = (uint32_t) i;
		numbers[i] = numbers[other];
		numbers[other] = (uint32_t) i;
	}
	return numbers;
}

/* Makes partitions of up to `most` rows per side, some with one side, and gaps between them. */
static void
make_groups(Truth *truth, uint32_t most)
{
	uint64_t	a = 0;
	uint64_t	b = 0;

	truth->partitions = must_alloc((truth->sides[0].n + truth->sides[truth->nsides - 1].n + 1) *
							   sizeof(FastedPartition));
	/* each partition has at least one row */
	while (a < truth->sides[0].n || b < truth->sides[truth->nsides - 1].n)
	{
		uint64_t	left_a = truth->sides[0].n - a;
		uint64_t	left_b = truth->sides[truth->nsides - 1].n - b;
		uint32_t	rows_a = random_below(most) + 1;
		uint32_t	rows_b = a < truth->sides[0].n && random_below(8) == 0 ? 0 : random_below(most) + 1;

		rows_a = rows_a < left_a ? rows_a : (uint32_t) left_a;
		rows_b = rows_b < left_b ? rows_b : (uint32_t) left_b;
		if (truth->nsides == 1)
			rows_b = rows_a;
		truth->partitions[truth->npartitions++] = (FastedPartition) {
			.first_a = (uint32_t) a,.rows_a = rows_a,.first_b = (uint32_t) b,.rows_b = rows_b
		};
		a += rows_a;
		b += rows_b;
		if (random_below(8) == 0 && a < truth->sides[0].n)
			b = ++a > b && truth->nsides == 1 ? a : b;
	}
}

static bool
may_meet(const Truth *truth, uint64_t row, uint64_t other)
{
	if (truth->partitions == NULL)
		return true;
	for (uint32_t g = 0; g < truth->npartitions; g++)
	{
		const FastedPartition *group = &truth->partitions[g];

		if (row >= group->first_a && row < group->first_a + group->rows_a)
			return other >= group->first_b && other < group->first_b + group->rows_b;
	}
	return false;
}

static void
find_truth(Truth *truth)
{
	const Rows *a = &truth->sides[0];
	const Rows *b = &truth->sides[truth->nsides - 1];

	truth->near_stride = b->n;
	truth->near = must_alloc(a->n * b->n * sizeof(Near));
	truth->lengths = must_alloc(a->n * sizeof(uint32_t));
	memset(truth->lengths, 0, a->n * sizeof(uint32_t));
	for (uint64_t i = 0; i < a->n; i++)
	{
		for (uint64_t j = truth->nsides == 1 ? i + 1 : 0; j < b->n; j++)
		{
			double		dist;

			if (!may_meet(truth, i, j))
				continue;
			dist = distance_of(truth, a->rows + i * truth->d, b->rows + j * truth->d);

			add_near(truth, i, j, dist);
			if (truth->nsides == 1)
				add_near(truth, j, i, dist);
		}
	}
	for (uint64_t i = 0; i < a->n; i++)
		qsort(truth->near + i * b->n, truth->lengths[i], sizeof(Near), compare_near);
}

static void
free_truth(Truth *truth)
{
	for (int side = 0; side < truth->nsides; side++)
		free((float *) (uintptr_t) truth->sides[side].rows);
	free(truth->near);
	free(truth->lengths);
	free((uint32_t *) (uintptr_t) truth->ranks);
	free(truth->partitions);
}

static Truth
make_truth(Kind kind, int nsides, uint64_t n, uint64_t m, uint32_t d, FastedMetric metric)
{
	Truth		truth = {.nsides = nsides,.d = d,.metric = metric};

	truth.sides[0] = rows_of(kind, n, d);
	if (nsides == 2)
		truth.sides[1] = rows_of(kind, m, d);
	if (random_below(2) == 0)
		truth.ranks = shuffled_numbers(truth.sides[nsides - 1].n);
	if (random_below(3) == 0)
		make_groups(&truth, 1 + random_below(100));
	find_truth(&truth);
	return truth;
}

/* Returns whether the list has exactly the row's nearest neighbors. */
static bool
list_is_right(const Truth *truth, const FastedProblem *problem, uint64_t row,
			  const FastedNeighbor *list, uint32_t length)
{
	const Near *near = truth->near + row * truth->near_stride;
	uint32_t	expected = 0;

	while (expected < truth->lengths[row] && expected < problem->k &&
		   near[expected].dist <= problem->eps)
		expected++;
	for (uint32_t i = 0; i < length && i < expected; i++)
	{
		if (list[i].row == near[i].row &&
			memcmp(&list[i].dist, &near[i].dist, sizeof(double)) == 0)
			continue;
		printf("# row %llu, neighbor %u: row %u at %.17g, expected row %u at %.17g\n",
			   (unsigned long long) row, i, list[i].row, list[i].dist, near[i].row, near[i].dist);
		return false;
	}
	if (length != expected)
		printf("# row %llu: %u neighbors, expected %u\n", (unsigned long long) row, length, expected);
	return length == expected;
}

/* Calls next until the join is done; checks that each row's list is right and comes once. */
static bool
lists_are_right(PanelJoin *join, const PanelProblem *problem, const Truth *truth)
{
	uint64_t	next_row = 0;
	bool		right = true;

	for (;;)
	{
		FastedBatch batch;
		uint64_t	staged;
		FastedStatus status = panel_join_next(join, 20, &batch);

		if (status == FASTED_DONE)
		{
			for (; next_row < truth->sides[0].n && truth->partitions != NULL && right; next_row++)
				right = truth->lengths[next_row] == 0;
			return right && next_row == truth->sides[0].n;
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, &truth->sides[batch.side], batch.first_row,
								batch.row_count, truth->d, random_below(50), &staged);
		else if (status == FASTED_OK)
		{
			/* panels without pairs in a partition are omitted */
			right = right && batch.row_count > 0 &&
				(batch.first_row == next_row ||
				 (truth->partitions != NULL && batch.first_row > next_row));
			for (; next_row < batch.first_row && right; next_row++)
				right = truth->lengths[next_row] == 0;
			for (uint64_t row = batch.first_row; row < batch.first_row + batch.row_count && right; row++)
			{
				uint32_t	length;
				const FastedNeighbor *list = panel_join_nearest(join, row, &length);

				right = list_is_right(truth, &problem->problem, row, list, length) &&
					(length > 0) == (list != NULL);
			}
			next_row += batch.row_count;
		}
		else if (status == FASTED_AGAIN && random_below(10) == 0)
			panel_join_pause(join);
		if (FASTED_FAILED(status))
		{
			printf("# %s\n", panel_join_last_error(engine, join));
			return false;
		}
	}
}

/* Returns whether the progress of a join in panels is the number of pairs of rows that are compared. */
static bool
is_whole_progress(PanelJoin *join, const Truth *truth, const FastedStats *stats)
{
	uint64_t	n = truth->sides[0].n;
	uint64_t	expected = truth->nsides == 2 ? n * truth->sides[1].n : 0;
	uint64_t	outer;
	uint64_t	inner;

	panel_join_sizes(join, &outer, &inner);
	if (inner == 0)
		return true;
	/* rows of a panel are compared once, and with each other row again for that row's list */
	for (uint64_t first = 0; first < n && truth->nsides == 1; first += outer)
	{
		uint64_t	rows = n - first < outer ? n - first : outer;

		expected += rows * (rows - 1) / 2 + rows * (n - rows);
	}
	if (stats->units_done != expected || stats->units_total != expected)
		printf("# progress %llu of %llu, expected %llu\n", (unsigned long long) stats->units_done,
			   (unsigned long long) stats->units_total, (unsigned long long) expected);
	return stats->units_done == expected && stats->units_total == expected;
}

/* Runs a join, and sometimes a second one with fewer neighbors. */
static bool
nearest_are_right(PanelProblem *problem, const Truth *truth, FastedStats *stats)
{
	CallerHabits habits = {0};
	PanelJoin  *join;
	bool		right = panel_join_open(engine, problem, &join) == FASTED_OK;
	FastedStatus status = right ? load_and_start(join, problem, truth->sides, &habits) : FASTED_INTERNAL;

	if (FASTED_FAILED(status))
		printf("# %s\n", panel_join_last_error(engine, join));
	right = !FASTED_FAILED(status) && lists_are_right(join, problem, truth);
	panel_join_stats(join, stats);
	right = right && is_whole_progress(join, truth, stats);
	if (right && random_below(3) == 0)
	{
		problem->problem.k = 1 + random_below(problem->problem.k);
		problem->problem.eps = random_below(2) == 0 ? INFINITY : 1.0;
		right = panel_join_again(join, &problem->problem) == FASTED_OK &&
			lists_are_right(join, problem, truth);
	}
	panel_join_close(join);
	return right;
}

/* Returns a distance within which only some rows have more than k neighbors. */
static double
some_eps(const Truth *truth)
{
	uint64_t	n = truth->sides[0].n;
	uint64_t	row = n > 0 ? random_below((uint32_t) n) : 0;

	if (n == 0 || truth->lengths[row] == 0 || random_below(2) == 0)
		return INFINITY;
	return truth->near[row * truth->near_stride + random_below(truth->lengths[row])].dist;
}

static void
check(const Truth *truth, const Way *way, uint64_t limit, const char *what)
{
	static const uint32_t ks[] = {1, 2, 10, 100, 1000, UINT32_MAX};
	static const int threads[] = {1, 2, 5};
	PanelProblem problem = {
		.options = {.dimensions = truth->d,.metric = truth->metric,.kernel = way->kernel,
			.filter = way->filter,.prune = way->prune,.threads = threads[random_below(3)]},
		.problem = {.eps = some_eps(truth),.output = FASTED_OUTPUT_NEAREST,.k = ks[random_below(6)],
			.ranks = truth->ranks,.partitions = truth->partitions,.npartitions = truth->npartitions},
		.sides = truth->nsides,
	};
	PanelProblem asked;
	FastedStats stats;
	bool		right;

	if (limit > 0)
		limit_memory(&problem.options, limit);
	asked = problem;
	right = nearest_are_right(&problem, truth, &stats);
	ok(right, "%s%s, %d sides of %llu and %llu x %u%s, k %u, eps %g, %s %s%s, %d threads, %u panels",
	   what, truth->ranks == NULL ? "" : " by ranks", truth->nsides, (unsigned long long) truth->sides[0].n,
	   (unsigned long long) truth->sides[1].n, truth->d,
	   metric_names[truth->metric], asked.problem.k, asked.problem.eps,
	   way->kernel, way->name, way->pruned, asked.options.threads, stats.panels);
}

/* Tests each kind of rows in some ways, with and without panels. */
static void
check_kind(Kind kind, uint64_t n, uint64_t m, uint32_t d, FastedMetric metric, uint32_t tries)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	for (int nsides = 1; nsides <= 2; nsides++)
	{
		Truth		truth = make_truth(kind, nsides, n, m, d, metric);

		for (uint32_t i = 0; i < tries; i++)
			check(&truth, &ways[random_below((uint32_t) count)],
				  i % 2 == 1 ? 1 + random_below(1 << 19) : 0, kind_names[kind]);
		free_truth(&truth);
	}
}

/* Tests large partitions (with initial radii), small ones, and one with nearly all rows. */
static void
check_groups(uint64_t n)
{
	static const uint32_t most[] = {5, 700, 4000};
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	for (int i = 0; i < 12; i++)
	{
		Truth		truth = {.nsides = 1 + i % 2,.d = 1 + random_below(80),.metric = i % 5 == 0 ?
			FASTED_METRIC_COSINE : i % 5 == 3 ? FASTED_METRIC_INNER_PRODUCT : FASTED_METRIC_L2};

		truth.sides[0] = rows_of(i % 3 == 0 ? KIND_GRID : KIND_DENSITIES, n, truth.d);
		if (truth.nsides == 2)
			truth.sides[1] = rows_of(KIND_DENSITIES, n + 300, truth.d);
		make_groups(&truth, most[i / 2 % 3]);
		find_truth(&truth);
		for (int j = 0; j < 4; j++)
			check(&truth, &ways[random_below((uint32_t) count)], j == 3 ? 300000 : 0, "partitions");
		free_truth(&truth);
	}
}

/*
 * The second partition has columns that are far from all rows.  The columns of the first one have the
 * numbers of its rows, so that a confusion of both sides makes the radii of its rows too small.
 */
static void
check_far_partition(uint64_t n)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);
	Truth		truth = {.nsides = 2,.d = 20,.npartitions = 2};
	uint32_t	some = (uint32_t) n / 10;
	uint32_t	most = (uint32_t) n * 6 / 10;

	for (int side = 0; side < 2; side++)
		truth.sides[side] = rows_of(KIND_NORMAL, n, truth.d);
	for (uint64_t i = (uint64_t) most * truth.d; i < n * truth.d; i++)
		((float *) truth.sides[1].rows)[i] += 100.0f;
	truth.partitions = must_alloc(2 * sizeof(FastedPartition));
	truth.partitions[0] = (FastedPartition) {.rows_a = some,.rows_b = most};
	truth.partitions[1] = (FastedPartition) {
		.first_a = some,.rows_a = (uint32_t) n - some,.first_b = most,.rows_b = (uint32_t) n - most
	};
	find_truth(&truth);
	for (int w = 0; w < count; w++)
		check(&truth, &ways[w], 0, "far partition");
	free_truth(&truth);
}

/* Tests every way with ordinary rows. */
static void
check_ways(uint64_t n)
{
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);
	Truth		self = make_truth(KIND_NORMAL, 1, n, 0, 40, FASTED_METRIC_L2);
	Truth		two = make_truth(KIND_OUTLIERS, 2, n, n / 2, 40, FASTED_METRIC_L2);
	Truth		products = make_truth(KIND_OUTLIERS, 1, n, 0, 40, FASTED_METRIC_INNER_PRODUCT);

	for (int w = 0; w < count; w++)
	{
		check(&self, &ways[w], 0, "all ways");
		check(&two, &ways[w], 0, "all ways");
		check(&products, &ways[w], 0, "all ways");
	}
	free_truth(&self);
	free_truth(&two);
	free_truth(&products);
}

/* Tests few rows and empty sets. */
static void
check_few(void)
{
	for (uint64_t n = 0; n < 4; n++)
	{
		for (uint64_t m = 0; m < 4; m++)
			check_kind(KIND_NORMAL, n, m, 3, FASTED_METRIC_L2, 2);
	}
}

/* Tests enough rows for a sample to choose the filter; compares some of their lists. */
static void
check_many(Kind kind, uint64_t n, uint64_t m, uint32_t d, FastedMetric metric, FastedFilter filter,
		   FastedPrune prune, uint32_t k)
{
	CallerHabits habits = {0};
	int			sides = m > 0 ? 2 : 1;
	uint64_t	others = m > 0 ? m : n;
	PanelProblem problem = {
		.options = {.dimensions = d,.metric = metric,.threads = 2,.filter = filter,.prune = prune},
		.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = k},
		.sides = sides,
	};
	Truth		truth = {
		.sides = {rows_of(kind, n, d), m > 0 ? rows_of(kind, m, d) : (Rows) {0}},
		.nsides = sides,.d = d,.metric = metric,.near_stride = others
	};
	const Rows *far_side = &truth.sides[sides - 1];
	PanelJoin  *join;
	FastedBatch batch = {0};
	FastedStatus status;
	FastedStats stats;
	bool		right = true;

	truth.near = must_alloc(others * sizeof(Near));
	truth.lengths = must_alloc(sizeof(uint32_t));
	problem.problem.ranks = truth.ranks = shuffled_numbers(others);
	status = panel_join_open(engine, &problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, truth.sides, &habits);
	while (!FASTED_FAILED(status) && status != FASTED_DONE && right)
	{
		status = panel_join_next(join, 100, &batch);
		for (int i = 0; i < 20 && batch.row_count > 0 && right; i++)
		{
			uint64_t	row = batch.first_row + random_below((uint32_t) batch.row_count);
			const FastedNeighbor *list;
			uint32_t	length;

			truth.lengths[0] = 0;
			for (uint64_t other = 0; other < others; other++)
			{
				if (sides == 2 || other != row)
					add_near(&truth, 0, other, distance_of(&truth, truth.sides[0].rows + row * d,
														   far_side->rows + other * d));
			}
			qsort(truth.near, truth.lengths[0], sizeof(Near), compare_near);
			list = panel_join_nearest(join, row, &length);
			right = list_is_right(&truth, &problem.problem, 0, list, length);
		}
	}
	panel_join_stats(join, &stats);
	ok(right && status == FASTED_DONE, "%s, %llu and %llu x %u%s, k %u, filter %d, prune %d: %s",
	   kind_names[kind], (unsigned long long) n, (unsigned long long) m, d, metric_names[metric], k, (int) filter,
	   (int) prune, stats.filter);
	panel_join_close(join);
	free_truth(&truth);
}

/* Unsupported joins are rejected. */
static void
check_refused(void)
{
	PanelProblem problem = {
		.options = {.dimensions = 3},
		.problem = {.eps = 1.0,.output = FASTED_OUTPUT_NEAREST},
		.sides = 1,
	};
	FastedEngine without = *engine;
	PanelJoin  *join;

	ok(panel_join_open(engine, &problem, &join) == FASTED_UNSUPPORTED,
	   "k = 0 is rejected");
	panel_join_close(join);
	without.nearest = NULL;
	problem.problem.k = 1;
	ok(panel_join_open(&without, &problem, &join) == FASTED_UNSUPPORTED &&
	   strstr(panel_join_last_error(&without, join), "does not find") != NULL,
	   "an engine without nearest neighbors is rejected");
	panel_join_close(join);
}

/* Closes running joins, and joins their set again. */
static void
check_closed(uint64_t n, uint32_t d)
{
	FastedOptions options = {.dimensions = d,.threads = 3};
	FastedProblem problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 5};
	Truth		truth = make_truth(KIND_NORMAL, 1, n, 0, d, FASTED_METRIC_L2);
	FastedContext *context;
	FastedSet  *set;
	FastedNeighbor *lists = must_alloc(n * problem.k * sizeof(FastedNeighbor));
	uint32_t   *lengths = must_alloc(n * sizeof(uint32_t));
	bool		right = true;

	problem.ranks = truth.ranks;
	problem.partitions = truth.partitions;
	problem.npartitions = truth.npartitions;
	context = open_context(&options);
	set = open_set(context);
	fill_set(set, &truth.sides[0], d);
	for (int i = 0; i < 30; i++)
	{
		FastedJoin *join = begin_join(context, set, set, problem);
		FastedBatch batch;
		FastedStatus status = FASTED_AGAIN;

		for (int turn = i % 10; turn > 0 && status == FASTED_AGAIN; turn--)
			status = engine->next(join, 0, &batch);
		if (i == 29)
		{
			while ((status = engine->next(join, 100, &batch)) == FASTED_AGAIN)
				;
			right = status == FASTED_DONE &&
				engine->nearest(join, 0, n, lengths, lists) == FASTED_OK;
		}
		engine->join_close(join);
	}
	for (uint64_t row = 0; row < n && right; row++)
		right = list_is_right(&truth, &problem, row, lists + row * problem.k, lengths[row]);
	ok(right, "joins that are closed early do not affect later joins");
	engine->close(context);
	free(lists);
	free(lengths);
	free_truth(&truth);
}

/* In a self-join of one row, such as a panel, the row has no neighbor. */
static void
check_alone(void)
{
	FastedOptions options = {.dimensions = 3};
	FastedProblem problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 1};
	const float numbers[3] = {1.0f, 2.0f, 3.0f};
	const Rows	rows = {.rows = numbers,.n = 1};
	FastedContext *context = open_context(&options);
	FastedSet  *set = open_set(context);
	FastedJoin *join;
	FastedBatch batch;
	FastedStatus status;
	FastedNeighbor neighbor;
	uint32_t	length = 7;

	fill_set(set, &rows, 3);
	join = begin_join(context, set, set, problem);
	while ((status = engine->next(join, 100, &batch)) == FASTED_AGAIN)
		;
	ok(status == FASTED_DONE && engine->nearest(join, 0, 1, &length, &neighbor) == FASTED_OK &&
	   length == 0, "a single row has no neighbor");
	engine->close(context);
}

/* Requests more threads than memory suffices for. */
static void
check_memory(void)
{
	Rows		rows = rows_of(KIND_NORMAL, 9000, 64);
	uint64_t	most = quick() ? 8 << 20 : 32 << 20;

	for (uint64_t limit = 8 << 20; limit <= most; limit *= 2)
	{
		PanelProblem problem = {
			.options = {.dimensions = 64,.threads = 64,.memory_limit = limit},
			.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 5},
			.sides = 1,
		};
		CallerHabits habits = {0};
		PairList	none = {0};
		FastedStats stats;
		FastedStatus status = run_join_once(&problem, &rows, &habits, &none, &stats, NULL);

		ok(status == FASTED_DONE && stats.host_bytes <= limit, "%llu bytes, limit %llu, %u panels, %d threads",
		   (unsigned long long) stats.host_bytes, (unsigned long long) limit, stats.panels, (int) stats.threads);
	}
	free((float *) rows.rows);
}

/* Number of sets that were opened for lists of 5 neighbors. */
static int	sets_for_lists;

static FastedStatus
open_seen_set(FastedContext *context, const FastedSetOptions *options, FastedSet **set)
{
	sets_for_lists += options->neighbors == 5;
	return fasted_cpu_engine()->set_open(context, options, set);
}

/* The first set is opened for lists of neighbors, and that of the outer panels again. */
static void
check_sets_for_lists(void)
{
	Rows		rows = rows_of(KIND_NORMAL, 400, 64);
	FastedEngine seen = *fasted_cpu_engine();
	PanelProblem problem = {
		.options = {.dimensions = 64},
		.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 5},
		.sides = 1,
	};

	seen.set_open = open_seen_set;
	join_engine = &seen;
	for (int panels = 0; panels < 2; panels++)
	{
		CallerHabits habits = {0};
		PairList	none = {0};
		FastedStats stats;
		FastedStatus status;

		sets_for_lists = 0;
		limit_memory(&problem.options, panels == 0 ? UINT64_C(1) << 30 : 1);
		status = run_join_once(&problem, &rows, &habits, &none, &stats, NULL);
		ok(status == FASTED_DONE && sets_for_lists == 1 + panels && (stats.panels > 1) == (panels > 0),
		   "%d sets for lists, %u panels", sets_for_lists, stats.panels);
	}
	join_engine = NULL;
	free((float *) rows.rows);
}

/* Tests enough rows for each way to compute initial radii, and short and long lists. */
static void
check_first_radii(void)
{
	check_many(KIND_DENSITIES, 2500, 0, 33, FASTED_METRIC_L2, FASTED_FILTER_INT8, FASTED_PRUNE_OFF, 50);
	check_many(KIND_DENSITIES, 2500, 0, 33, FASTED_METRIC_COSINE, FASTED_FILTER_FP16, FASTED_PRUNE_OFF, 1);
	check_many(KIND_OUTLIERS, 2500, 0, 65, FASTED_METRIC_L2, FASTED_FILTER_FP64, FASTED_PRUNE_OFF, 7);
	check_many(KIND_NORMAL, 60, 1500, 24, FASTED_METRIC_L2, FASTED_FILTER_FP16, FASTED_PRUNE_OFF, 6);
	check_many(KIND_OUTLIERS, 2500, 0, 64, FASTED_METRIC_INNER_PRODUCT, FASTED_FILTER_INT8, FASTED_PRUNE_OFF, 9);
	check_many(KIND_DENSITIES, 900, 2500, 33, FASTED_METRIC_INNER_PRODUCT, FASTED_FILTER_FP64, FASTED_PRUNE_OFF, 3);
}

/*
 * Initial radii exclude most pairs: without them, about 250 rows are candidates for the 10 nearest of
 * a row.  Tests every way.
 */
static void
check_candidates(uint64_t n, FastedMetric metric)
{
	Rows		rows = rows_of(KIND_NORMAL, n, 12);
	Way			ways[MOST_WAYS];
	int			count = tested_ways(ways);

	for (int w = 0; w < count; w++)
	{
		PanelProblem problem = {
			.options = {.dimensions = 12,.metric = metric,.threads = 1,.kernel = ways[w].kernel,
			.filter = ways[w].filter,.prune = ways[w].prune},
			.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 10},
			.sides = 1,
		};
		CallerHabits habits = {0};
		PairList	none = {0};
		FastedStats stats;
		FastedStatus status = run_join_once(&problem, &rows, &habits, &none, &stats, NULL);

		ok(status == FASTED_DONE && stats.candidates >= 5 * n && stats.candidates < 100 * n,
		   "%llu rows%s, %s %s%s: %.1f candidates for 10 neighbors", (unsigned long long) n, metric_names[metric],
		   ways[w].kernel, ways[w].name, ways[w].pruned, (double) stats.candidates / (double) n);
	}
	free((float *) rows.rows);
}

int
main(int argc, char **argv)
{
	static const uint32_t dimensions[] = {1, 3, 33, 128, 960};
	uint64_t	most = quick() ? 120 : 400;
	bool		one = quick() || on_several_gpus(); /* dimension of each kind */

	random_seed();
	engine = tested_engine();
	if (only_small(argc, argv))
	{
		check_first_radii();
		return tap_done();
	}
	check_refused();
	check_alone();
	check_few();
	for (int kind = 0; kind < KINDS; kind++)
	{
		for (int i = one ? kind % 5 : 0; i < (one ? kind % 5 + 1 : 5); i++)
		{
			uint32_t	d = dimensions[i];
			uint64_t	n = d > 200 ? most / 3 : most;

			check_kind((Kind) kind, n - random_below((uint32_t) n / 5), n / 2 + random_below(60), d,
					   FASTED_METRIC_L2, 2);
			if (i % 2 == 1)
				check_kind((Kind) kind, n / 2, n / 3, d, FASTED_METRIC_COSINE, quick() ? 1 : 2);
			else if (!quick())
				check_kind((Kind) kind, n / 2, n / 3, d, FASTED_METRIC_INNER_PRODUCT, 2);
		}
	}
	check_closed(quick() ? 200 : 1500, 20);
	if (!on_gpu())
	{
		check_memory();
		check_sets_for_lists();
		if (!quick())
			check_candidates(4000, FASTED_METRIC_L2);
		check_candidates(2000, quick() ? FASTED_METRIC_INNER_PRODUCT : FASTED_METRIC_COSINE);
	}
	check_groups(quick() ? 300 : 1100);
	check_far_partition(1000);
	check_ways(quick() ? 150 : 600);
	for (int kind = 0; kind < KINDS; kind++)
	{
		FastedMetric metric = kind % 3 == 1 ? FASTED_METRIC_COSINE : FASTED_METRIC_L2;

		check_many((Kind) kind, quick() ? 500 : 4300, 0, 48, metric, FASTED_FILTER_AUTO,
				   FASTED_PRUNE_AUTO, 10);
		check_many((Kind) kind, quick() ? 300 : 1100, quick() ? 1100 : 1700, 48, metric,
				   FASTED_FILTER_AUTO, kind % 2 == 0 ? FASTED_PRUNE_FORCE : FASTED_PRUNE_OFF, 5 + kind);
	}
	check_first_radii();
	check_many(KIND_GRID, 1300, 0, 12, FASTED_METRIC_L2, FASTED_FILTER_AUTO, FASTED_PRUNE_AUTO, 1200);
	check_many(KIND_WILD, 2500, 0, 130, FASTED_METRIC_COSINE, FASTED_FILTER_AUTO, FASTED_PRUNE_FORCE, 8);
	check_many(KIND_DUPLICATES, quick() ? 3000 : 9000, 0, 20, FASTED_METRIC_L2,
			   FASTED_FILTER_INT8, FASTED_PRUNE_OFF, 10);
	check_many(KIND_DENSITIES, quick() ? 2500 : 8500, 0, 24, FASTED_METRIC_COSINE,
			   FASTED_FILTER_FP16, FASTED_PRUNE_OFF, 6);
	check_many(KIND_NORMAL, quick() ? 3000 : 9000, 0, 20, FASTED_METRIC_L2,
			   FASTED_FILTER_AUTO, FASTED_PRUNE_FORCE, 11);
	return tap_done();
}
