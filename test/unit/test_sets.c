/*-------------------------------------------------------------------------
 *
 * test_sets.c
 *	  Sets outlive joins: packed rows remain valid, in whatever order sets are joined, refilled and
 *	  abandoned.
 *
 * Tests the CPU engine, or the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include "sets.h"
#include "tested_engine.h"

#define SETS 4

/*
 * Later joins read input rows for the recheck only.  They still find the candidates of rows that
 * were overwritten.  If rows were packed again, all pairs would be candidates.
 */
static void
check_packed_once(const Way *way, bool self)
{
	const uint32_t d = 40;
	const uint32_t n = 300;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter,
		.prune = way->prune
	};
	FastedContext *context = open_context(&options);
	Rows		rows[2] = {make_rows(n, d, 1.0, 0.0), make_rows(n, d, 1.0, 0.0)};
	FastedSet  *sets[2];
	float	   *there[2];
	uint64_t	area = self ? n * (n - 1) / 2 : n * n;
	uint64_t	pairs[4];
	uint64_t	candidates[4];

	for (int i = 0; i < 2; i++)
	{
		sets[i] = open_set(context);
		there[i] = fill_set(sets[i], &rows[i], d);
	}
	candidates[0] = count_join(context, sets[0], sets[!self], 7.0, &pairs[0]);
	candidates[1] = count_join(context, sets[0], sets[!self], 7.5, &pairs[1]);
	for (int i = 0; i < 2; i++)
		memset(there[i], 0, n * d * sizeof(float));
	candidates[2] = count_join(context, sets[0], sets[!self], 7.5, &pairs[2]);
	candidates[3] = count_join(context, sets[0], sets[!self], 7.0, &pairs[3]);
	ok(candidates[0] == candidates[3] && candidates[1] == candidates[2] &&
	   pairs[2] == candidates[2] && pairs[3] == candidates[3] && pairs[0] > 0 &&
	   pairs[1] > pairs[0] && candidates[2] < area / 2,
	   "%s, %s%s, %s: packed once: %llu and %llu candidates of %llu pairs of rows", way->kernel,
	   way->name, way->pruned, self ? "self" : "two", (unsigned long long) candidates[3],
	   (unsigned long long) candidates[2], (unsigned long long) area);
	engine->close(context);
	free((float *) rows[0].rows);
	free((float *) rows[1].rows);
}

/*
 * Joins a set with sets of other scales, and with itself.  The filter must remain as good as for
 * new sets.
 */
static void
check_partners(const Way *way)
{
	const uint32_t d = 48;
	const double eps = 8.0;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter,
		.prune = way->prune
	};
	Rows		rows[3] = {
		make_rows(400, d, 1.0, 0.0), make_rows(500, d, 1.0, 1e4), make_rows(300, d, 1e3, 0.0)
	};
	static const int order[][2] = {{0, 1}, {0, 0}, {0, 2}, {1, 1}, {0, 0}, {2, 2}, {1, 2}, {0, 0}};
	FastedContext *context = open_context(&options);
	FastedSet  *sets[3];
	bool		good = true;

	for (int i = 0; i < 3; i++)
	{
		sets[i] = open_set(context);
		(void) fill_set(sets[i], &rows[i], d);
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
	{
		const int  *pair = order[i];
		FastedContext *fresh = open_context(&options);
		FastedSet  *alone[2] = {open_set(fresh), open_set(fresh)};
		uint64_t	pairs[2];
		uint64_t	candidates[2];

		for (int side = 0; side < 2; side++)
			(void) fill_set(alone[side], &rows[pair[side]], d);
		candidates[0] = count_join(context, sets[pair[0]], sets[pair[1]], eps, &pairs[0]);
		candidates[1] = count_join(fresh, alone[0], alone[pair[0] != pair[1]], eps, &pairs[1]);
		if (pairs[0] != pairs[1] || (!on_gpu() && candidates[0] > 2 * candidates[1] + 5000))
		{
			good = false;
			printf("# %d x %d: %llu candidates, new sets %llu\n", pair[0], pair[1],
				   (unsigned long long) candidates[0], (unsigned long long) candidates[1]);
		}
		engine->close(fresh);
	}
	ok(good, "%s, %s%s: joins with sets of other scales", way->kernel, way->name, way->pruned);
	engine->close(context);
	for (int i = 0; i < 3; i++)
		free((float *) rows[i].rows);
}

/* Empties the set and fills it with a different number of other rows. */
static void
refill(Mirror *mirror, uint32_t d, uint32_t most)
{
	static const double scales[] = {1.0, 1.0, 1.0, 1e-3, 1e20};

	free((float *) mirror->rows.rows);
	mirror->rows = make_rows(random_below(10) == 0 ? random_below(3) : random_below(most), d,
							 scales[random_below(5)], random_below(3) == 0 ? 100.0 : 0.0);
	mirror->first_row = random_below(1000000);
	if (engine->set_reset(mirror->set, mirror->first_row) != FASTED_OK)
		exit(EXIT_FAILURE);
	(void) fill_set(mirror->set, &mirror->rows, d);
}

/* Starts a join and closes it at some time. */
static void
give_up_join(FastedContext *context, const Mirror *a, const Mirror *b, double eps)
{
	FastedJoin *join = begin_join(context, a->set, b->set, (FastedProblem) {.eps = eps});
	FastedBatch batch;

	for (uint32_t i = random_below(3); i > 0; i--)
		(void) engine->next(join, 0, &batch);
	if (random_below(2) == 0)
		engine->pause(join);
	nanosleep(&(struct timespec) {.tv_nsec = random_below(2000) * 1000L}, NULL);
	engine->join_close(join);
}

/* Returns an eps that includes some pairs, if there are any. */
static double
any_eps(const Mirror *a, const Mirror *b, uint32_t d)
{
	uint64_t	i;
	uint64_t	j;

	if (a->rows.n < 2 || b->rows.n == 0 || random_below(8) == 0)
		return random_below(2) == 0 ? 0.0 : (double) INFINITY;
	i = random_below((uint32_t) a->rows.n);
	j = random_below((uint32_t) b->rows.n);
	return fasted_exact_distance(a->rows.rows + i * d, b->rows.rows + j * d, d)
		* (random_below(2) == 0 ? 1.0 : 0.8);
}

/* Applies random operations to some sets. */
static void
check_any_order(const Way *way, FastedFilter filter, uint32_t d, uint32_t most, int steps)
{
	FastedOptions options = {
		.dimensions = d,.threads = 1 + (int) random_below(3),.kernel = way->kernel,
		.filter = filter,.prune = way->prune
	};
	FastedContext *context = open_context(&options);
	Mirror		mirrors[SETS] = {0};
	bool		good = true;
	double		eps = 1.0;
	int			done = 0;

	for (int i = 0; i < SETS; i++)
	{
		mirrors[i].set = open_set(context);
		refill(&mirrors[i], d, most);
	}
	for (; done < steps && good; done++)
	{
		Mirror	   *a = &mirrors[random_below(SETS)];
		Mirror	   *b = random_below(3) == 0 ? a : &mirrors[random_below(SETS)];

		if (random_below(3) > 0)
			eps = any_eps(a, b, d);
		switch (random_below(8))
		{
			case 0:
				refill(a, d, most);
				break;
			case 1:
				give_up_join(context, a, b, eps);
				break;
			case 2:
				engine->set_close(a->set);
				a->set = open_set(context);
				refill(a, d, most);
				break;
			default:
				good = check_join(context, a, b, d, eps);
				break;
		}
	}
	ok(good, "%s, %s%s, d = %u: %d random operations", way->kernel,
	   filter == FASTED_FILTER_AUTO ? "auto" : way->name, way->pruned, d, done);
	engine->close(context);
	for (int i = 0; i < SETS; i++)
		free((float *) mirrors[i].rows.rows);
}

/*
 * A join that is closed while it packs rows must not leave a set that mixes old and new packed
 * rows.
 */
static void
check_unfinished(const Way *way, const Rows *rows, uint32_t d)
{
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter,
		.prune = way->prune
	};
	FastedContext *context = open_context(&options);
	Mirror		few = {.set = open_set(context),.rows = make_rows(4, d, 1.0, 0.0)};
	Mirror		many = {.set = open_set(context)};
	bool		good = true;

	(void) fill_set(few.set, &few.rows, d);
	for (int i = 0; i < 12 && good; i++)
	{
		FastedJoin *join;

		many.rows = rows[i % 2];
		if (engine->set_reset(many.set, 0) != FASTED_OK)
			exit(EXIT_FAILURE);
		(void) fill_set(many.set, &many.rows, d);
		join = begin_join(context, few.set, many.set, (FastedProblem) {.eps = 22.0});
		nanosleep(&(struct timespec) {.tv_nsec = i * 500000L}, NULL);
		engine->join_close(join);
		good = check_join(context, &few, &many, d, 22.0);
	}
	ok(good, "%s, %s%s: closed while rows are packed", way->kernel, way->name, way->pruned);
	engine->close(context);
	free((float *) few.rows.rows);
}

/*
 * Slices of a join do not depend on earlier joins of the set; the CPU's not on whether it was pruned
 * before.
 */
static void
check_slices_after(const Way *way)
{
	const uint32_t d = 40;
	const double eps = 7.0;
	Rows		rows = make_rows(1500, d, 1.0, 0.0);
	FastedOptions options = {.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter};
	FastedContext *contexts[2];
	FastedSet  *sets[2];
	FastedStats stats;
	uint64_t	pairs = 0;
	uint64_t	all;
	bool		good;

	for (int i = 0; i < 2; i++)
	{
		options.prune = i == 0 || on_gpu() ? way->prune : FASTED_PRUNE_OFF;
		contexts[i] = open_context(&options);
		sets[i] = open_set(contexts[i]);
		(void) fill_set(sets[i], &rows, d);
	}
	if (on_gpu())
	{
		FastedSet  *other = open_set(contexts[0]);
		Rows		large = make_rows(900, d, 20.0, 7.0);

		(void) fill_set(other, &large, d);
		(void) count_join(contexts[0], other, sets[0], 100.0, &all);
		(void) count_join(contexts[0], sets[0], other, 1.0, &all);
		free((float *) large.rows);
	}
	(void) count_join(contexts[0], sets[0], sets[0], eps, &all);
	engine->stats(contexts[0], &stats);
	good = (on_gpu() || stats.pruned_tiles[0] > 0) && all > 1000;
	for (uint32_t slice = 0; slice < 3; slice++)
	{
		FastedProblem problem = {.eps = eps,.slice = slice,.slices = 3};
		PairList	lists[2];

		for (int i = 0; i < 2; i++)
			end_join(begin_join(contexts[i], sets[i], sets[i], problem), &lists[i]);
		good = good && pair_equal(&lists[0], &lists[1]) && lists[0].count > 0;
		pairs += lists[0].count;
		free(lists[0].pairs);
		free(lists[1].pairs);
	}
	ok(good && pairs == all, "%s, %s%s: slices of %llu pairs", way->kernel, way->name, way->pruned,
	   (unsigned long long) all);
	for (int i = 0; i < 2; i++)
		engine->close(contexts[i]);
	free((float *) rows.rows);
}

/* By default, a join of suitable rows prunes. */
static void
check_default_pruning(const char *kernel)
{
	const uint32_t n = 20200;
	const uint32_t d = 256;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = kernel,.filter = FASTED_FILTER_INT8
	};
	FastedContext *context = open_context(&options);
	FastedSet  *set = open_set(context);
	Rows		rows = make_rows(n, d, 0.05, 0.0);
	FastedJoin *join;
	FastedBatch batch;
	FastedStats stats;
	FastedStatus status;

	for (uint64_t i = 0; i < (uint64_t) n * d; i++)
		((float *) rows.rows)[i] += (float) (2.0 * sin(i / d % 12 * 50.0 + i % d * (i % d)));
	(void) fill_set(set, &rows, d);
	join = begin_join(context, set, set, (FastedProblem) {.eps = 0.9,.output = FASTED_OUTPUT_COUNT});
	do
	{
		status = engine->next(join, 100, &batch);
		engine->stats(context, &stats);
	} while (!FASTED_FAILED(status) && status != FASTED_DONE && stats.units_done < 4);
	engine->join_close(join);
	ok(!FASTED_FAILED(status) && stats.pruned_tiles[0] + stats.pruned_tiles[1] > 0,
	   "%s, default pruning: %llu tiles", kernel,
	   (unsigned long long) (stats.pruned_tiles[0] + stats.pruned_tiles[1]));
	engine->close(context);
	free((float *) rows.rows);
}

int
main(void)
{
	const uint32_t d = 256;
	Way			ways[MOST_WAYS];
	int			count;
	Rows		many[2];

	engine = tested_engine();
	random_seed();
	many[0] = make_rows(20000, d, 1.0, 0.0);
	many[1] = make_rows(20000, d, 1.0, 0.5);
	count = quick() ? some_tested_ways(ways) : tested_ways(ways);
	for (int w = 0; w < count; w++)
	{
		tuning.always_choose = w % 2 == 0;
		if (!on_gpu())
		{
			check_packed_once(&ways[w], true);
			check_packed_once(&ways[w], false);
		}
		check_partners(&ways[w]);
		check_any_order(&ways[w], ways[w].filter, 33, 400, quick() ? 30 : 60);
		check_any_order(&ways[w], ways[w].filter, 3, 300, quick() ? 15 : 30);
		check_any_order(&ways[w], ways[w].filter, 300, 200, quick() ? 15 : 30);
		if (w == 0 || ways[w].prune == FASTED_PRUNE_FORCE || !quick())
			check_unfinished(&ways[w], many, d);
		if (ways[w].prune == FASTED_PRUNE_FORCE || on_gpu())
			check_slices_after(&ways[w]);
		tuning.always_choose = false;
	}
	if (!on_gpu())
		check_default_pruning(pruning_kernel());
	if (strcmp(ways[0].kernel, "amx") == 0)
		check_default_pruning("amx");
	/* sets large enough for the engine to choose a filter */
	check_any_order(&ways[0], FASTED_FILTER_AUTO, 32, 5000, quick() ? 5 : 15);
	free((float *) many[0].rows);
	free((float *) many[1].rows);
	return tap_done();
}
