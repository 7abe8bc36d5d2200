/*-------------------------------------------------------------------------
 *
 * test_components.c
 *	  Nearest rows of other components by mutual reachability distance, compared with brute force in
 *	  FP64: joins of two sets, and searches after a self-join in panels.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>

#include "../../src/engine/metric_rules.h"
#include "sets.h"
#include "tested_engine.h"

/* Kinds of rows. */
typedef enum Kind
{
	KIND_NORMAL,
	KIND_CLUSTERS,				/* well separated: CLUSTERS of them */
	KIND_EQUAL,
	KIND_GRID,					/* small integers: equal distances */
	KIND_WILD,					/* out-of-range rows: huge, infinite or NaN */
	KINDS
} Kind;

static const char *const kind_names[KINDS] = {"normal", "clusters", "equal", "grid", "out of range"};
static const char *const metric_names[] = {"L2", "cosine", "inner product", "Hamming", "Jaccard"};
static const char *const element_names[] = {"reals", "doubles", "bits"};

#define CLUSTERS 5

/* Rows, their distances, and the state of a search among them. */
typedef struct Case
{
	FastedOptions options;
	Kind		kind;
	uint32_t	n;
	Rows		rows;			/* rows of fasted_row_floats floats */
	double	   *dist;			/* of row a and row b, at a * n + b; NULL if there are many rows */
	uint32_t   *ranks;			/* NULL: the rank is the row number */
	FastedPartition *partitions; /* NULL: no partitions */
	uint32_t	npartitions;
	uint32_t   *partition;		/* of each row, when there are partitions */
	double		eps;
	uint32_t   *component;
	double	   *core;

	uint32_t   *positions;		/* rows to search */
	uint32_t	searched;
	double	   *bound;
	uint32_t   *searched_component;
	double	   *searched_core;
	const char *bounds;			/* description of the bounds */
} Case;

/* --- rows */

static double
number_of(const Case *c, uint32_t row, uint32_t k)
{
	switch (c->kind)
	{
		case KIND_CLUSTERS:
			return 100.0 * ((row % CLUSTERS * 7 + k * 3) % 11) + random_normal();
		case KIND_EQUAL:
			return k + 1.0;
		case KIND_GRID:
			return (double) random_below(k < 3 ? 4 : 2);
		case KIND_WILD:
			if (random_below(500) == 0)
				return random_below(3) == 0 ? NAN : random_below(2) == 0 ? -INFINITY : INFINITY;
			return random_normal() * (row % 50 == 0 ? 1e38 : 1.0);
		default:
			return random_normal();
	}
}

static void
fill_bits(const Case *c, uint32_t row, uint64_t *bits)
{
	uint32_t	d = c->options.dimensions;

	memset(bits, 0, fasted_bit_words(d) * sizeof(uint64_t));
	for (uint32_t k = 0; k < d; k++)
	{
		bool		set = c->kind == KIND_EQUAL ? k % 3 == 0 : c->kind == KIND_CLUSTERS
			? (k / 8 % CLUSTERS == row % CLUSTERS) != (random_below(40) == 0)
			: random_below(c->kind == KIND_GRID ? 10 : 2) == 0;

		bits[k / 64] |= (uint64_t) set << k % 64;
	}
}

static void
fill_row(const Case *c, uint32_t row, float *to)
{
	uint32_t	d = c->options.dimensions;

	if (c->options.element == FASTED_ELEMENT_BIT)
	{
		fill_bits(c, row, (uint64_t *) to);
		return;
	}
	for (uint32_t k = 0; k < d; k++)
	{
		if (c->options.element == FASTED_ELEMENT_DOUBLE)
			((double *) to)[k] = number_of(c, row, k);
		else
			to[k] = (float) number_of(c, row, k);
	}
	if (c->options.element == FASTED_ELEMENT_DOUBLE && c->options.metric == FASTED_METRIC_COSINE)
		fasted_scale_direction((double *) to, d);
}

static const float *
row_at(const Case *c, uint32_t row)
{
	return c->rows.rows + (size_t) row * fasted_row_floats(&c->options);
}

static double
dist_at(const Case *c, uint32_t a, uint32_t b)
{
	return c->dist != NULL ? c->dist[(size_t) a * c->n + b] : brute_distance(&c->options, row_at(c, a), row_at(c, b));
}

/* Makes partitions of up to `most` rows, with a few rows between them. */
static void
make_partitions(Case *c, uint32_t most)
{
	c->partitions = must_alloc((c->n + 1) * sizeof(FastedPartition));
	c->partition = must_alloc((c->n + 1) * sizeof(uint32_t));
	for (uint32_t row = 0; row < c->n;)
	{
		uint32_t	rows = 1 + random_below(most);

		rows = rows < c->n - row ? rows : c->n - row;
		c->partitions[c->npartitions] = (FastedPartition) {row, rows, row, rows};
		for (uint32_t i = row; i < row + rows; i++)
			c->partition[i] = c->npartitions;
		c->npartitions++;
		row += rows;
		if (random_below(4) == 0 && row < c->n)
			c->partition[row++] = UINT32_MAX;
	}
}

static Case
make_case(Kind kind, FastedOptions options, uint32_t n)
{
	uint32_t	floats = fasted_row_floats(&options);
	float	   *rows = must_alloc((size_t) n * floats * sizeof(float));
	Case		c = {.options = options,.kind = kind,.n = n,.eps = INFINITY};

	c.rows = (Rows) {.rows = rows,.n = n};
	for (uint32_t i = 0; i < n; i++)
		fill_row(&c, i, rows + (size_t) i * floats);
	c.dist = n > 5000 ? NULL : must_alloc((size_t) n * n * sizeof(double));
	for (uint32_t a = 0; a < n && c.dist != NULL; a++)
	{
		for (uint32_t b = 0; b <= a; b++)
			c.dist[(size_t) a * n + b] = c.dist[(size_t) b * n + a] =
				brute_distance(&options, row_at(&c, a), row_at(&c, b));
	}
	c.component = must_alloc(n * sizeof(uint32_t));
	c.core = must_alloc(n * sizeof(double));
	c.positions = must_alloc(n * sizeof(uint32_t));
	c.bound = must_alloc(n * sizeof(double));
	c.searched_component = must_alloc(n * sizeof(uint32_t));
	c.searched_core = must_alloc(n * sizeof(double));
	if (random_below(2) == 0)
	{
		c.ranks = must_alloc(n * sizeof(uint32_t));
		for (uint32_t i = 0; i < n; i++)
		{
			uint32_t	other = random_below(i + 1);

			c.ranks[i] = c.ranks[other];
			c.ranks[other] = i;
		}
	}
	if (random_below(4) == 0)
		make_partitions(&c, 1 + random_below(n));
	return c;
}

static void
free_case(Case *c)
{
	free((float *) (uintptr_t) c->rows.rows);
	free(c->dist);
	free(c->ranks);
	free(c->partitions);
	free(c->partition);
	free(c->component);
	free(c->core);
	free(c->positions);
	free(c->bound);
	free(c->searched_component);
	free(c->searched_core);
}

/* --- a search, and its result by brute force */

static bool
may_meet(const Case *c, uint32_t a, uint32_t b)
{
	return c->partitions == NULL ||
		(c->partition[a] == c->partition[b] && c->partition[a] != UINT32_MAX);
}

/* Finds the row's nearest neighbour within the bound.  Returns false if there is none. */
static bool
find_neighbor(const Case *c, uint32_t a, double bound, FastedNeighbor *neighbor)
{
	bool		found = false;

	for (uint32_t b = 0; b < c->n; b++)
	{
		FastedNeighbor other = {c->ranks != NULL ? c->ranks[b] : b, dist_at(c, a, b)};

		if (c->component[a] == c->component[b] || !may_meet(c, a, b) || isnan(other.dist) ||
			isinf(c->core[a]) || isinf(c->core[b]))
			continue;
		other.dist = fmax(other.dist, fmax(c->core[a], c->core[b]));
		if (other.dist > bound || other.dist > c->eps ||
			(found && (other.dist > neighbor->dist ||
					   (other.dist == neighbor->dist && other.row > neighbor->row))))
			continue;
		*neighbor = other;
		found = true;
	}
	return found;
}

/* Chooses components: few, clusters, ranges of rows, one for each row, or only one. */
static void
choose_components(Case *c)
{
	uint32_t	how = random_below(5);
	uint32_t	few = 1 + random_below(6);

	for (uint32_t i = 0; i < c->n; i++)
		c->component[i] = how == 0 ? random_below(few) + 4000000000U : how == 1 ? i % CLUSTERS
			: how == 2 ? i * few / c->n : how == 3 ? i : 7;
}

/* Core distances: a constant, distances to some row, or these with infinite ones among them. */
static void
choose_cores(Case *c)
{
	uint32_t	how = random_below(4);

	for (uint32_t i = 0; i < c->n; i++)
	{
		double		dist = dist_at(c, i, random_below(c->n));

		if (how == 0 || isnan(dist))
			dist = c->options.metric == FASTED_METRIC_INNER_PRODUCT ? -DBL_MAX : 0.0;
		if (isinf(dist))
			dist = DBL_MAX;
		c->core[i] = how == 3 && random_below(8) == 0 ? INFINITY : dist;
	}
}

/* Chooses a share of the rows, and the bounds.  Most rows have a neighbour exactly at the bound. */
static void
choose_searched(Case *c)
{
	static const char *const names[] = {"infinite", "tight", "too low", "minus infinity", "any"};
	uint32_t	how = random_below(5);
	uint32_t	part = 1 + random_below(9);

	c->searched = 0;
	c->bounds = names[how];
	for (uint32_t i = 0; i < c->n; i++)
	{
		double		bound = how == 3 ? -INFINITY : INFINITY;
		double		any = dist_at(c, i, random_below(c->n));
		FastedNeighbor neighbor;

		if (random_below(part) != 0)
			continue;
		if ((how == 1 || how == 2) && find_neighbor(c, i, INFINITY, &neighbor))
			bound = how == 1 ? neighbor.dist : nextafter(neighbor.dist, -INFINITY);
		if (how == 4 && !isnan(any))
			bound = any;
		c->bound[c->searched] = bound;
		c->searched_component[c->searched] = c->component[i];
		c->searched_core[c->searched] = c->core[i];
		c->positions[c->searched++] = i;
	}
}

/* Merges components at random, as between two searches. */
static void
merge_components(Case *c)
{
	uint32_t	from = c->component[random_below(c->n)];
	uint32_t	to = c->component[random_below(c->n)];

	for (uint32_t i = 0; i < c->n; i++)
	{
		if (c->component[i] == from || (c->component[i] ^ to) % 3 == 0)
			c->component[i] = to;
	}
}

static bool
is_right(const Case *c, uint32_t position, const FastedNeighbor *list, uint32_t length)
{
	FastedNeighbor expected;
	bool		found = find_neighbor(c, c->positions[position], c->bound[position], &expected);

	if (length == found &&
		(!found || (list->row == expected.row && memcmp(&list->dist, &expected.dist, sizeof(double)) == 0)))
		return true;
	printf("# row %u, bound %g: %u neighbors, row %u at %.17g; expected %d, row %u at %.17g\n",
		   c->positions[position], c->bound[position], length, length > 0 ? list->row : 0,
		   length > 0 ? list->dist : NAN, found, found ? expected.row : 0, found ? expected.dist : NAN);
	return false;
}

/* Sets the options of a way.  A GPU sometimes has small buffers, or chooses the filter by a sample. */
static void
use_way(Case *c, const Way *way)
{
	c->options.kernel = way->kernel;
	c->options.filter = way->filter;
	c->options.prune = way->prune;
	tuning.few_candidates = on_gpu() && random_below(3) == 0;
	tuning.always_choose = on_gpu() && random_below(3) == 0;
}

/* --- joins of two sets */

/* Selects the searched rows of a set, and reads them back. */
static bool
select_searched(const Case *c, FastedSet *a, FastedSet *all)
{
	size_t		bytes = fasted_row_bytes(&c->options);
	char	   *back = must_alloc(c->searched * bytes);
	bool		right = engine->select_rows(a, all, c->positions, c->searched) == FASTED_OK &&
		engine->read_back(a, 0, c->searched, (float *) back) == FASTED_OK;

	for (uint32_t i = 0; i < c->searched && right; i++)
		right = memcmp(back + i * bytes, row_at(c, c->positions[i]), bytes) == 0;
	free(back);
	return right && engine->seal(a) == FASTED_OK;
}

/* Joins set a with b, which has the rows from `first` on.  Returns whether it is done. */
static bool
join_sets(FastedContext *context, const Case *c, FastedSet *a, FastedSet *b, uint32_t first,
		  bool continues, bool close_early, uint32_t *lengths, FastedNeighbor *lists)
{
	const FastedComponents components = {
		.component = {c->searched_component, c->component + first},
		.core = {c->searched_core, c->core + first},.bound = c->bound
	};
	FastedPartition *partitions = must_alloc((c->npartitions + 1) * sizeof(FastedPartition));
	FastedProblem problem = {
		.eps = c->eps,.output = FASTED_OUTPUT_NEAREST,.k = 1,.continues = continues,
		.components = &components,.ranks = c->ranks != NULL ? c->ranks + first : NULL,
		.partitions = c->partitions != NULL ? partitions : NULL,.npartitions = c->npartitions
	};
	FastedJoin *join;
	FastedBatch batch;
	FastedStatus status = FASTED_AGAIN;
	uint32_t	position = 0;

	for (uint32_t g = 0; g < c->npartitions; g++)
	{
		FastedPartition *partition = &partitions[g];
		uint32_t	end = c->partitions[g].first_b + c->partitions[g].rows_b;

		*partition = c->partitions[g];
		while (position < c->searched && c->positions[position] < partition->first_b)
			position++;
		partition->first_a = position;
		while (position < c->searched && c->positions[position] < end)
			position++;
		partition->rows_a = position - partition->first_a;
		partition->first_b = partition->first_b > first ? partition->first_b - first : 0;
		partition->rows_b = (end > first ? end - first : 0) - partition->first_b;
	}
	join = begin_join(context, a, b, problem);
	for (int turn = close_early ? (int) random_below(3) : INT32_MAX; turn > 0 && status == FASTED_AGAIN; turn--)
		status = engine->next(join, close_early ? 0 : 100, &batch);
	if (status == FASTED_DONE)
		status = engine->nearest(join, 0, c->searched, lengths, lists);
	engine->join_close(join);
	free(partitions);
	return status == FASTED_OK;
}

/* Searches several times, with fewer components each time; b is one set, or divided into two. */
static void
check_sets(Case *c, const Way *way, int threads)
{
	uint32_t	floats = fasted_row_floats(&c->options);
	uint32_t   *lengths = must_alloc(c->n * sizeof(uint32_t));
	FastedNeighbor *lists = must_alloc(c->n * sizeof(FastedNeighbor));
	FastedSetOptions second = {.first_row = c->partitions != NULL ? 0 : random_below(c->n)};
	FastedContext *context;
	FastedSet  *all;
	FastedSet  *parts[2] = {NULL, NULL};
	FastedSet  *a;
	bool		right = true;

	use_way(c, way);
	c->options.threads = threads;
	context = open_context(&c->options);
	all = open_set(context);
	fill_set(all, &c->rows, floats);
	a = open_set(context);
	if (second.first_row > 0)
	{
		parts[0] = open_set(context);
		fill_set(parts[0], &(Rows) {.rows = c->rows.rows,.n = second.first_row}, floats);
		right = engine->set_open(context, &second, &parts[1]) == FASTED_OK;
		fill_set(parts[1], &(Rows) {.rows = row_at(c, (uint32_t) second.first_row),
			.n = c->n - second.first_row}, floats);
	}
	choose_components(c);
	for (int round = 0; round < 3 && right; round++)
	{
		bool		divided = parts[0] != NULL && random_below(2) == 0;
		bool		done;

		choose_cores(c);
		choose_searched(c);
		right = select_searched(c, a, all);
		if (random_below(3) == 0)
			(void) join_sets(context, c, a, all, 0, false, true, lengths, lists);
		if (random_below(3) == 0)
		{
			PairList	list;

			end_join(begin_join(context, all, all, (FastedProblem) {.output = FASTED_OUTPUT_COUNT}), &list);
			free(list.pairs);
		}
		done = join_sets(context, c, a, divided ? parts[0] : all, 0, false, false, lengths, lists);
		if (divided)
			done = done && join_sets(context, c, a, parts[1], (uint32_t) second.first_row, true, false,
									 lengths, lists);
		right = right && done;
		for (uint32_t i = 0; i < c->searched && right; i++)
			right = is_right(c, i, &lists[i], lengths[i]);
		if (right)
			right = engine->set_reset(a, 0) == FASTED_OK;
		if (right && round < 2)
			merge_components(c);
	}
	ok(right, "%s, %s of %s, %u x %u, %s bounds, %s %s%s, %d threads%s%s", kind_names[c->kind],
	   metric_names[c->options.metric], element_names[c->options.element], c->n, c->options.dimensions,
	   c->bounds, way->kernel, way->name, way->pruned, threads, c->partitions != NULL ? ", partitions" : "",
	   isinf(c->eps) ? "" : ", finite eps");
	engine->close(context);
	free(lengths);
	free(lists);
}

/* --- searches of panel joins */

/* Calls next until the join is done.  `plain` is the problem of a self-join; NULL: a search. */
static bool
drain_search(PanelJoin *join, const Case *c, const Rows *sides, const PanelProblem *plain)
{
	bool		searching = plain == NULL;
	uint64_t	rows = sides[0].n;
	uint64_t	next_row = 0;
	FastedNeighbor unused;

	for (;;)
	{
		FastedBatch batch;
		uint64_t	staged;
		FastedStatus status = panel_join_next(join, 50, &batch);

		if (status == FASTED_WANT_ROWS)
		{
			uint64_t	outer;
			uint64_t	inner;

			panel_join_sizes(join, &outer, &inner);
			/* resident rows need not be staged again */
			if (inner == 0)
				return false;
			status = stage_rows(join, batch.side, &sides[batch.side], batch.first_row, batch.row_count,
								fasted_row_floats(&c->options), random_below(50), &staged);
		}
		else if (status == FASTED_OK)
		{
			/* panels without pairs in a partition are omitted */
			for (; next_row < batch.first_row && c->partitions != NULL; next_row++)
			{
				if (searching && find_neighbor(c, c->positions[next_row], c->bound[next_row], &unused))
					return false;
			}
			if (batch.first_row != next_row || batch.row_count == 0)
				return false;
			for (; next_row < batch.first_row + batch.row_count; next_row++)
			{
				uint32_t	length;
				const FastedNeighbor *list = panel_join_nearest(join, next_row, &length);

				if (searching ? !is_right(c, (uint32_t) next_row, list, length)
					: !is_nearest_list(plain, sides, next_row, list, length))
					return false;
			}
		}
		else if (status == FASTED_DONE)
		{
			for (; searching && next_row < rows && c->partitions != NULL; next_row++)
			{
				if (find_neighbor(c, c->positions[next_row], c->bound[next_row], &unused))
					return false;
			}
			return !searching || next_row == rows;
		}
		if (FASTED_FAILED(status))
		{
			printf("# %s\n", panel_join_last_error(engine, join));
			return false;
		}
	}
}

/* Searches once, with the rows that the case has chosen. */
static bool
search_once(PanelJoin *join, const Case *c)
{
	size_t		some = c->searched;
	PanelSearch search = {
		.rows = lend(c->positions, some * sizeof(uint32_t)),.nrows = c->searched,
		.bound = lend(c->bound, some * sizeof(double)),
		.component = lend(c->component, c->n * sizeof(uint32_t)),
		.core = lend(c->core, c->n * sizeof(double))
	};
	size_t		floats = fasted_row_floats(&c->options);
	float	   *searched = must_alloc(c->searched * floats * sizeof(float));
	Rows		sides[2] = {{searched, c->searched}, c->rows};
	bool		right;

	for (uint32_t i = 0; i < c->searched; i++)
		memcpy(searched + i * floats, row_at(c, c->positions[i]), floats * sizeof(float));
	right = panel_join_search(join, &search) == FASTED_OK;
	take_back(search.rows, some * sizeof(uint32_t));
	take_back(search.bound, some * sizeof(double));
	take_back(search.component, c->n * sizeof(uint32_t));
	take_back(search.core, c->n * sizeof(double));
	right = right && drain_search(join, c, sides, NULL);
	free(searched);
	return right;
}

/* A self-join, then searches, then sometimes another self-join and a search. */
static void
check_panels(Case *c, const Way *way, uint64_t limit)
{
	FastedProblem asked = {
		.eps = c->eps,.output = FASTED_OUTPUT_NEAREST,.k = 1 + random_below(20),
		.ranks = c->ranks,.partitions = c->partitions,.npartitions = c->npartitions
	};
	FastedProblem lent = asked;
	PanelProblem problem = {.sides = 1,.searches = true};
	CallerHabits habits = {.put = random_below(2) == 0};
	Rows		sides[2] = {c->rows, c->rows};
	FastedStats joined;
	FastedStats stats;
	PanelJoin  *join;
	FastedStatus status;
	bool		right;

	use_way(c, way);
	c->options.threads = 2;
	if (limit > 0)
		limit_memory(&c->options, limit);
	problem.options = c->options;
	tuning.always_register = habits.put;
	lent.ranks = lend(c->ranks, c->n * sizeof(uint32_t));
	lent.partitions = lend(c->partitions, c->npartitions * sizeof(FastedPartition));
	problem.problem = lent;
	status = panel_join_open(engine, &problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, sides, &habits);
	take_back(lent.ranks, c->n * sizeof(uint32_t));
	take_back(lent.partitions, c->npartitions * sizeof(FastedPartition));
	problem.problem = asked;
	right = status == FASTED_OK && drain_search(join, c, sides, &problem);
	panel_join_stats(join, &joined);
	choose_components(c);
	for (int round = 0; round < 3 && right; round++)
	{
		choose_cores(c);
		choose_searched(c);
		right = search_once(join, c);
		if (round < 2)
			merge_components(c);
		if (right && random_below(4) == 0)
			right = panel_join_again(join, &problem.problem) == FASTED_OK &&
				drain_search(join, c, sides, &problem);
	}
	panel_join_stats(join, &stats);
	ok(right && stats.rows == c->n && stats.panels == joined.panels,
	   "panels: %s, %s of %s, %u x %u, %s bounds, %s %s%s, limit %llu, %u panels%s",
	   kind_names[c->kind], metric_names[c->options.metric], element_names[c->options.element], c->n,
	   c->options.dimensions, c->bounds, way->kernel, way->name, way->pruned, (unsigned long long) limit,
	   stats.panels, c->partitions != NULL ? ", partitions" : "");
	panel_join_close(join);
	c->options.memory_limit = c->options.device_memory_limit = 0;
	tuning.always_register = false;
}

/* Returns the smallest memory limit of 1/64 MiB steps with which all rows remain resident. */
static uint64_t
find_limit(const Case *c)
{
	PanelProblem problem = {
		.options = c->options,.sides = 1,.searches = true,
		.problem = {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 20}
	};
	CallerHabits habits = {0};
	uint64_t	inner = 1;

	while (inner > 0)
	{
		PanelJoin  *join;
		uint64_t	outer;

		problem.options.memory_limit += 1 << 14;
		if (panel_join_open(engine, &problem, &join) != FASTED_OK ||
			load_and_start(join, &problem, &c->rows, &habits) != FASTED_OK)
			exit(EXIT_FAILURE);
		panel_join_sizes(join, &outer, &inner);
		panel_join_close(join);
	}
	return problem.options.memory_limit;
}

/* --- tiles of one component */

/* Returns the number of candidates of a search for rows of other clusters, of which none is near. */
static uint64_t
count_candidates(Case *c, const Way *way, FastedPartition *partition)
{
	FastedStats stats;
	FastedContext *context;
	FastedSet  *a;
	FastedSet  *b;
	uint32_t   *lengths = must_alloc(c->n * sizeof(uint32_t));
	FastedNeighbor *lists = must_alloc(c->n * sizeof(FastedNeighbor));
	bool		none = true;

	c->partitions = partition;
	c->npartitions = partition != NULL;
	use_way(c, way);
	context = open_context(&c->options);
	a = open_set(context);
	b = open_set(context);
	fill_set(b, &c->rows, fasted_row_floats(&c->options));
	if (!select_searched(c, a, b))
		exit(EXIT_FAILURE);
	none = join_sets(context, c, a, b, 0, false, false, lengths, lists);
	for (uint32_t i = 0; i < c->searched; i++)
		none = none && lengths[i] == 0;
	engine->stats(context, &stats);
	engine->close(context);
	c->partitions = NULL;
	free(lengths);
	free(lists);
	return none ? stats.candidates : UINT64_MAX;
}

/*
 * Rows of different clusters alternate.  Pairs of the same cluster pass the filter, unless their
 * tiles are skipped.  In partitions, rows are not moved, and no tile is skipped.  Tests every
 * step-th way from the first on.
 */
static void
check_skipped(const Way *ways, int count, int first, int step, FastedOptions options, uint32_t n)
{
	Case		c = make_case(KIND_CLUSTERS, options, n);
	FastedPartition whole = {0, n, 0, n};
	uint64_t	pairs = 0;

	free(c.partitions);
	free(c.partition);
	c.partitions = NULL;
	c.partition = NULL;
	for (uint32_t i = 0; i < n; i++)
	{
		c.component[i] = i % CLUSTERS;
		c.core[i] = options.metric == FASTED_METRIC_INNER_PRODUCT ? -DBL_MAX : 0.0;
	}
	for (uint32_t i = 0; i < n; i += 2)
	{
		FastedNeighbor neighbor;
		double		bound = -INFINITY;

		for (uint32_t j = i % CLUSTERS; j < n; j += CLUSTERS)
			bound = fmax(bound, dist_at(&c, i, j));
		if (find_neighbor(&c, i, bound, &neighbor))
			bound = nextafter(neighbor.dist, -INFINITY);
		for (uint32_t j = i % CLUSTERS; j < n; j += CLUSTERS)
			pairs += dist_at(&c, i, j) <= bound;
		c.positions[c.searched] = i;
		c.bound[c.searched] = bound;
		c.searched_component[c.searched] = c.component[i];
		c.searched_core[c.searched++] = c.core[i];
	}
	for (int w = first; w < count; w += step)
	{
		uint64_t	candidates = count_candidates(&c, &ways[w], NULL);
		uint64_t	partitioned = count_candidates(&c, &ways[w], &whole);

		ok(3 * candidates < 2 * partitioned && partitioned >= pairs && partitioned < UINT64_MAX,
		   "%s of %s, %s %s%s: %llu candidates, %llu in partitions, %llu near pairs of a component",
		   metric_names[options.metric], element_names[options.element], ways[w].kernel, ways[w].name,
		   ways[w].pruned, (unsigned long long) candidates, (unsigned long long) partitioned,
		   (unsigned long long) pairs);
	}
	free_case(&c);
}

/*
 * Many rows of clusters that are nearer to each other than to other clusters.  The bound is that of the
 * component's lightest edge.  On a GPU, most pairs within a cluster must not become candidates, except of
 * INT8, whose errors are larger than these distances.
 */
static void
check_separated(const Way *ways, int count, uint32_t n)
{
	Case		c = make_case(KIND_CLUSTERS, (FastedOptions) {.dimensions = 32}, n);
	double		lightest[CLUSTERS];
	uint32_t   *lengths = must_alloc(n * sizeof(uint32_t));
	FastedNeighbor *nearest = must_alloc(n * sizeof(FastedNeighbor));
	FastedNeighbor *lists = must_alloc(n * sizeof(FastedNeighbor));

	free(c.partitions);
	c.partitions = NULL;
	c.npartitions = 0;
	for (uint32_t i = 0; i < n; i++)
	{
		c.component[i] = i % CLUSTERS;
		c.core[i] = 0.1;
		lightest[i % CLUSTERS] = INFINITY;
	}
	for (uint32_t i = 0; i < n; i++)
	{
		if (i % CLUSTERS % 3 != 0)
			continue;
		(void) find_neighbor(&c, i, INFINITY, &nearest[c.searched]);
		lightest[i % CLUSTERS] = fmin(lightest[i % CLUSTERS], nearest[c.searched].dist);
		c.searched_component[c.searched] = i % CLUSTERS;
		c.searched_core[c.searched] = 0.1;
		c.positions[c.searched++] = i;
	}
	for (uint32_t i = 0; i < c.searched; i++)
		c.bound[i] = lightest[c.searched_component[i]];
	for (int w = 0; w < count; w++)
	{
		FastedContext *context;
		FastedSet  *sets[2];
		FastedStats stats;
		bool		right;

		use_way(&c, &ways[w]);
		context = open_context(&c.options);
		for (int i = 0; i < 2; i++)
			sets[i] = open_set(context);
		fill_set(sets[1], &c.rows, 32);
		right = select_searched(&c, sets[0], sets[1]) &&
			join_sets(context, &c, sets[0], sets[1], 0, false, false, lengths, lists);
		for (uint32_t i = 0; i < c.searched && right; i++)
			right = lengths[i] == (nearest[i].dist <= c.bound[i]) &&
				(lengths[i] == 0 || (lists[i].row == nearest[i].row &&
									 memcmp(&lists[i].dist, &nearest[i].dist, sizeof(double)) == 0));
		engine->stats(context, &stats);
		ok(right && (ways[w].prune == FASTED_PRUNE_FORCE || strcmp(ways[w].name, "int8") == 0 ||
					 stats.candidates < (uint64_t) c.searched * n / CLUSTERS / 2),
		   "%u rows in separated clusters, %s %s%s: %llu candidates", n, ways[w].kernel, ways[w].name,
		   ways[w].pruned, (unsigned long long) stats.candidates);
		engine->close(context);
	}
	free(lengths);
	free(nearest);
	free(lists);
	free_case(&c);
}

/* Joins in which components are not supported are rejected, and more selected rows than fit. */
static void
check_refused(void)
{
	const float numbers[2] = {1.0f, 2.0f};
	const uint32_t component[2] = {0, 1};
	const double core[2] = {0.0, 0.0};
	const FastedComponents components = {{component, component}, {core, core}, core};
	FastedContext *context = open_context(&(FastedOptions) {.dimensions = 1});
	FastedSet  *a = open_set(context);
	FastedSet  *b = open_set(context);
	FastedStatus expected = on_gpu() ? FASTED_INTERNAL : FASTED_UNSUPPORTED;
	const FastedSetOptions one = {.most_rows = 1};
	FastedSet  *small;
	FastedProblem problem = {.eps = 1.0,.output = FASTED_OUTPUT_NEAREST,.k = 1,.components = &components};
	FastedProblem pairs = {.eps = 1.0,.components = &components};
	FastedJoin *join;

	fill_set(a, &(Rows) {.rows = numbers,.n = 2}, 1);
	fill_set(b, &(Rows) {.rows = numbers,.n = 2}, 1);
	ok(engine->set_open(context, &one, &small) == FASTED_OK &&
	   engine->select_rows(small, b, component, 2) == FASTED_FULL, "more rows than fit are not selected");
	ok(engine->join_open(context, &problem, a, a, &join) == expected,
	   "a self-join with components is rejected");
	ok(engine->join_open(context, &pairs, a, b, &join) == expected,
	   "a join for pairs with components is rejected");
	engine->close(context);
}

/* Searches are rejected before the end of the self-join, and by engines without components. */
static void
check_panels_refused(void)
{
	const float numbers[3] = {1.0f, 2.0f, 3.0f};
	const uint32_t component[3] = {0, 1, 2};
	const double core[3] = {0.0, 0.0, 0.0};
	const PanelSearch search = {component, 3, core, component, core};
	FastedEngine without = *engine;
	PanelProblem problem = {
		.options = {.dimensions = 1},.sides = 1,.searches = true,
		.problem = {.eps = 1.0,.output = FASTED_OUTPUT_NEAREST,.k = 1}
	};
	Rows		rows = {numbers, 3};
	CallerHabits habits = {0};

	without.select_rows = NULL;
	for (int i = 0; i < 2; i++)
	{
		const FastedEngine *used = i == 0 ? engine : &without;
		PairList	none = {0};
		PanelJoin  *join;
		FastedStatus status = panel_join_open(used, &problem, &join);

		if (status == FASTED_OK)
			status = load_and_start(join, &problem, &rows, &habits);
		if (status == FASTED_OK && i == 1)
			status = drain_join(join, &problem, &rows, &habits, &none);
		ok(!FASTED_FAILED(status) &&
		   panel_join_search(join, &search) == (i == 0 ? FASTED_INTERNAL : FASTED_UNSUPPORTED),
		   "a search %s is rejected", i == 0 ? "before the end of the self-join" : "without support");
		panel_join_close(join);
	}
}

/* Returns options with one of the metrics and an element type that fits it. */
static FastedOptions
options_of(int metric, uint32_t d)
{
	FastedOptions options = {.dimensions = d,.metric = (FastedMetric) metric};

	options.element = fasted_metric_rules(options.metric)->of_bits ? FASTED_ELEMENT_BIT
		: random_below(3) == 0 ? FASTED_ELEMENT_DOUBLE : FASTED_ELEMENT_REAL;
	return options;
}

/* A few rows, for compute-sanitizer. */
static void
check_few(const Way *ways)
{
	Case		c = make_case(KIND_CLUSTERS, options_of(FASTED_METRIC_INNER_PRODUCT, 30), 400);

	for (int i = 0; i < 3; i++)
		check_sets(&c, &ways[i], 1);
	free_case(&c);
}

int
main(int argc, char **argv)
{
	static const uint32_t dimensions[] = {1, 3, 33, 70, 200, 960};
	static const int threads[] = {1, 2, 5};
	Way			ways[MOST_WAYS];
	int			count;
	int			rounds = quick() ? 1 : on_gpu() ? 3 : 2;
	int			joins = on_gpu() ? 5 : 4;

	random_seed();
	count = quick() ? some_tested_ways(ways) : tested_ways(ways);
	engine = join_engine = tested_engine();
	if (only_small(argc, argv))
	{
		check_few(ways);
		return tap_done();
	}
	check_refused();
	check_panels_refused();
	for (int round = 0; round < rounds; round++)
	{
		uint32_t	most = quick() ? 200 : round == 0 ? 20 : round == 1 ? 600 : 1400;

		for (int kind = 0; kind < KINDS; kind++)
		{
			for (int metric = 0; metric <= FASTED_METRIC_JACCARD; metric++)
			{
				Case		c = make_case((Kind) kind, options_of(metric, dimensions[random_below(6)]),
										  1 + random_below(most));

				if (random_below(4) == 0 && !isnan(c.dist[c.n - 1]) && c.dist[c.n - 1] >= 0.0)
					c.eps = c.dist[c.n - 1];
				for (int i = 0; i < joins; i++)
					check_sets(&c, &ways[random_below((uint32_t) count)], threads[random_below(3)]);
				check_panels(&c, &ways[random_below((uint32_t) count)], 0);
				for (int i = 0; i < 3; i++)
					check_panels(&c, &ways[random_below((uint32_t) count)], 1 + random_below(1 << 19));
				if (round > 0 && !on_gpu())
					check_panels(&c, &ways[random_below((uint32_t) count)], find_limit(&c));
				free_case(&c);
			}
		}
	}
	if (on_gpu())
		check_separated(ways, count, 20001);
	for (int metric = 0; metric <= FASTED_METRIC_JACCARD && !on_gpu(); metric++)
	{
		FastedOptions options = options_of(metric, 70);
		bool		bits = options.element == FASTED_ELEMENT_BIT;

		check_skipped(ways, count, 0, bits ? 1 : 2, options, 1400);
		if (bits)
			continue;
		options.element = options.element == FASTED_ELEMENT_REAL ? FASTED_ELEMENT_DOUBLE : FASTED_ELEMENT_REAL;
		check_skipped(ways, count, 1, 2, options, 1400);
	}
	return tap_done();
}
