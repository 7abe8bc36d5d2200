/*-------------------------------------------------------------------------
 *
 * test_sets.c
 *	  The CPU engine's sets outlive joins: what was packed stays, in whatever order
 *	  sets are joined, refilled and given up.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>

#include "join.h"
#include "ways.h"

#define SETS 4

static const FastedEngine *engine;

/* A set, and what should be in it. */
typedef struct Mirror
{
	FastedSet  *set;
	Rows		rows;
	uint64_t	first_row;
} Mirror;

static FastedContext *
open_context(const FastedOptions *options)
{
	FastedContext *context;

	if (engine->open(options, &context) != FASTED_OK)
	{
		printf("Bail out! %s\n", engine->last_error(context));
		exit(EXIT_FAILURE);
	}
	return context;
}

static FastedSet *
open_set(FastedContext *context)
{
	FastedSetOptions options = {0};
	FastedSet  *set;

	if (engine->set_open(context, &options, &set) != FASTED_OK)
		exit(EXIT_FAILURE);
	return set;
}

/* Stages rows and seals the set; where they lie now, for those in one chunk. */
static float *
fill_set(FastedSet *set, const Rows *from, uint32_t d)
{
	float	   *first = NULL;

	for (uint64_t there = 0; there < from->n;)
	{
		float	   *room;
		size_t		capacity;

		if (engine->stage(set, &room, &capacity) != FASTED_OK)
			exit(EXIT_FAILURE);
		if (first == NULL)
			first = room;
		if (capacity > from->n - there)
			capacity = from->n - there;
		memcpy(room, from->rows + there * d, capacity * d * sizeof(float));
		if (engine->commit(set, capacity) != FASTED_OK)
			exit(EXIT_FAILURE);
		there += capacity;
	}
	if (engine->seal(set) != FASTED_OK)
		exit(EXIT_FAILURE);
	return first;
}

static Rows
make_rows(uint64_t n, uint32_t d, double scale, double offset)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint64_t i = 0; i < n * d; i++)
		rows[i] = (float) (scale * random_normal() + offset);
	return (Rows) {.rows = rows,.n = n};
}

static FastedJoin *
begin_join(FastedContext *context, FastedSet *a, FastedSet *b, FastedProblem problem)
{
	FastedJoin *join;

	if (engine->join_open(context, &problem, a, b, &join) != FASTED_OK)
	{
		printf("Bail out! %s\n", engine->last_error(context));
		exit(EXIT_FAILURE);
	}
	return join;
}

/* All pairs of it, sorted; then it is closed. */
static void
end_join(FastedJoin *join, PairList *list)
{
	FastedBatch batch;
	FastedStatus status;

	memset(list, 0, sizeof(*list));
	while ((status = engine->next(join, 100, &batch)) != FASTED_DONE)
	{
		if (FASTED_FAILED(status))
			exit(EXIT_FAILURE);
		pair_add(list, batch.pairs, batch.npairs);
	}
	engine->join_close(join);
	pair_sort(list);
}

/* Candidates and pairs of one join. */
static uint64_t
count_join(FastedContext *context, FastedSet *a, FastedSet *b, double eps, uint64_t *pairs)
{
	FastedStats before;
	FastedStats after;
	PairList	list;

	engine->stats(context, &before);
	end_join(begin_join(context, a, b, (FastedProblem) {.eps = eps}), &list);
	engine->stats(context, &after);
	*pairs = list.count;
	free(list.pairs);
	return after.candidates - before.candidates;
}

/*
 * A second join reads rows for the recheck only: it finds the candidates of rows that
 * are there no more.  If they were packed again, all pairs would be candidates.
 */
static void
check_packed_once(const Way *way, bool self)
{
	const uint32_t d = 40;
	const uint32_t n = 300;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter
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
	   "%s, %s, %s: packed once: %llu and %llu candidates of %llu pairs of rows", way->kernel,
	   way->name, self ? "self" : "two", (unsigned long long) candidates[3],
	   (unsigned long long) candidates[2], (unsigned long long) area);
	engine->close(context);
	free((float *) rows[0].rows);
	free((float *) rows[1].rows);
}

/*
 * A set beside partners unlike it, in between alone: the filter stays as good as for
 * sets that are new.
 */
static void
check_partners(const Way *way)
{
	const uint32_t d = 48;
	const double eps = 8.0;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter
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
		if (pairs[0] != pairs[1] || candidates[0] > 2 * candidates[1] + 5000)
		{
			good = false;
			printf("# %d x %d: %llu candidates, afresh %llu\n", pair[0], pair[1],
				   (unsigned long long) candidates[0], (unsigned long long) candidates[1]);
		}
		engine->close(fresh);
	}
	ok(good, "%s, %s: partners of other scales", way->kernel, way->name);
	engine->close(context);
	for (int i = 0; i < 3; i++)
		free((float *) rows[i].rows);
}

/* Empties the set and fills it with other rows, of another number, size and scale. */
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

/* What brute force says, by the rows' numbers. */
static void
expect_pairs(const Mirror *a, const Mirror *b, uint32_t d, double eps, PairList *list)
{
	Rows		sides[2] = {a->rows, b->rows};

	if (a == b)
		near_pairs(a->rows.rows, (uint32_t) a->rows.n, d, eps, list);
	else
		near_pairs_of_two(sides, d, eps, list);
}

/* The counts of a join that is done are those of the pairs. */
static bool
check_counts(FastedJoin *join, const Mirror *a, const Mirror *b, const PairList *list)
{
	Rows		sides[2] = {a->rows, b->rows};
	uint32_t   *counts[2] = {NULL, NULL};
	bool		good = true;
	int			nsides = a == b ? 1 : 2;

	for (int side = 0; side < nsides; side++)
	{
		uint64_t	half = sides[side].n / 2;

		counts[side] = must_alloc(sides[side].n * sizeof(uint32_t));
		good = good && engine->counts(join, side, 0, half, counts[side]) == FASTED_OK &&
			engine->counts(join, side, half, sides[side].n - half, counts[side] + half) == FASTED_OK;
	}
	good = good && counts_equal(list, sides, nsides, counts);
	free(counts[0]);
	free(counts[1]);
	return good;
}

/* One join of any two sets, to its end, by any output. */
static bool
check_join(FastedContext *context, const Mirror *a, const Mirror *b, uint32_t d, double eps)
{
	FastedProblem problem = {.eps = eps,.output = (FastedOutput) random_below(3)};
	FastedStats before;
	FastedStats after;
	FastedBatch batch;
	FastedJoin *join;
	FastedStatus status;
	PairList	expected;
	PairList	got = {0};
	bool		good = true;

	engine->stats(context, &before);
	join = begin_join(context, a->set, b->set, problem);
	while ((status = engine->next(join, 50, &batch)) != FASTED_DONE && !FASTED_FAILED(status))
		pair_add(&got, batch.pairs, batch.npairs);
	engine->stats(context, &after);
	expect_pairs(a, b, d, eps, &expected);
	if (problem.output == FASTED_OUTPUT_COUNTS)
		good = check_counts(join, a, b, &expected);
	engine->join_close(join);

	good = good && status == FASTED_DONE && after.pairs - before.pairs == expected.count &&
		after.units_done - before.units_done == after.units_total - before.units_total;
	for (size_t i = 0; i < expected.count; i++)
	{
		expected.pairs[i].a += (uint32_t) a->first_row;
		expected.pairs[i].b += (uint32_t) b->first_row;
	}
	pair_sort(&got);
	if (problem.output == FASTED_OUTPUT_PAIRS)
		good = good && pair_equal(&got, &expected);
	else
		good = good && got.count == 0;
	if (!good)
		printf("# %llu x %llu, eps %g, output %d: %zu pairs of %zu\n",
			   (unsigned long long) a->rows.n, (unsigned long long) b->rows.n, eps,
			   problem.output, got.count, expected.count);
	free(got.pairs);
	free(expected.pairs);
	return good;
}

/* A join that is given up somewhere, or not. */
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

/* An eps that some pairs are within, if there are any. */
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

/* Anything that may be done with some sets, in any order. */
static void
check_any_order(const Way *way, FastedFilter filter, uint32_t d, uint32_t most, int steps)
{
	FastedOptions options = {
		.dimensions = d,.threads = 1 + (int) random_below(3),.kernel = way->kernel,
		.filter = filter
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
	ok(good, "%s, %s, d = %u: %d steps", way->kernel,
	   filter == FASTED_FILTER_AUTO ? "auto" : way->name, d, done);
	engine->close(context);
	for (int i = 0; i < SETS; i++)
		free((float *) mirrors[i].rows.rows);
}

/*
 * A join that is given up while its rows are packed leaves no set half packed: what
 * lies there is of the rows before.
 */
static void
check_unfinished(const Way *way)
{
	const uint32_t d = 256;
	FastedOptions options = {
		.dimensions = d,.threads = 2,.kernel = way->kernel,.filter = way->filter
	};
	FastedContext *context = open_context(&options);
	Mirror		few = {.set = open_set(context),.rows = make_rows(10, d, 1.0, 0.0)};
	Mirror		many = {.set = open_set(context)};
	Rows		rows[2] = {make_rows(20000, d, 1.0, 0.0), make_rows(20000, d, 1.0, 0.5)};
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
	ok(good, "%s, %s: given up while rows are packed", way->kernel, way->name);
	engine->close(context);
	free((float *) few.rows.rows);
	for (int i = 0; i < 2; i++)
		free((float *) rows[i].rows);
}

/* Rows go into a set while two others are joined. */
static void
check_staging_meanwhile(void)
{
	const uint32_t d = 64;
	FastedOptions options = {.dimensions = d,.threads = 2,.kernel = "portable"};
	FastedContext *context = open_context(&options);
	Mirror		mirrors[3];
	FastedJoin *join;
	FastedBatch batch;
	FastedStats stats;
	PairList	got = {0};
	PairList	expected;
	FastedStatus status = FASTED_AGAIN;
	uint64_t	there = 0;
	bool		meanwhile = false;

	for (int i = 0; i < 3; i++)
		mirrors[i] = (Mirror) {.set = open_set(context),.rows = make_rows(2000, d, 1.0, 0.0)};
	for (int i = 0; i < 2; i++)
		(void) fill_set(mirrors[i].set, &mirrors[i].rows, d);
	join = begin_join(context, mirrors[0].set, mirrors[1].set, (FastedProblem) {.eps = 8.5});
	while (status != FASTED_DONE && !FASTED_FAILED(status))
	{
		if (there < 2000)
		{
			float	   *room;
			size_t		capacity;

			if (engine->stage(mirrors[2].set, &room, &capacity) != FASTED_OK)
				break;
			if (capacity > 50)
				capacity = 50;
			memcpy(room, mirrors[2].rows.rows + there * d, capacity * d * sizeof(float));
			there += capacity;
			if (engine->commit(mirrors[2].set, capacity) != FASTED_OK ||
				(there == 2000 && engine->seal(mirrors[2].set) != FASTED_OK))
				break;
			engine->stats(context, &stats);
			meanwhile = there == 2000 && stats.units_done < stats.units_total;
		}
		status = engine->next(join, there < 2000 ? 0 : 100, &batch);
		pair_add(&got, batch.pairs, batch.npairs);
	}
	engine->join_close(join);
	pair_sort(&got);
	expect_pairs(&mirrors[0], &mirrors[1], d, 8.5, &expected);
	ok(status == FASTED_DONE && meanwhile && expected.count > 0 && pair_equal(&got, &expected),
	   "rows are staged while a join of others is at work: %zu pairs", got.count);
	mirrors[2].first_row = 0;
	ok(check_join(context, &mirrors[2], &mirrors[0], d, 8.5), "then they are joined");
	free(got.pairs);
	free(expected.pairs);
	engine->close(context);
	for (int i = 0; i < 3; i++)
		free((float *) mirrors[i].rows.rows);
}

/* Stages rows of zeros until it is full, at most so many. */
static uint64_t
fill_up(FastedSet *set, uint64_t most)
{
	uint64_t	rows = 0;
	float	   *room;
	size_t		capacity;

	while (rows < most && engine->stage(set, &room, &capacity) == FASTED_OK)
	{
		if (capacity > most - rows)
			capacity = most - rows;
		memset(room, 0, capacity * 32 * sizeof(float));
		if (engine->commit(set, capacity) != FASTED_OK)
			break;
		rows += capacity;
	}
	return rows;
}

/* The limit is for all sets together, and a set has a limit of its own. */
static void
check_full(uint64_t limit)
{
	FastedOptions options = {.dimensions = 32,.threads = 2,.memory_limit = limit};
	FastedContext *context = open_context(&options);
	FastedSetOptions few = {.most_rows = 10};
	FastedSet  *sets[3] = {open_set(context), open_set(context)};
	uint64_t	rows[3];
	uint64_t	all;
	FastedStats stats;

	if (engine->set_open(context, &few, &sets[2]) != FASTED_OK)
		exit(EXIT_FAILURE);
	ok(fill_up(sets[2], UINT64_MAX) == 10, "limit %llu: a set of at most 10 rows is full",
	   (unsigned long long) limit);
	all = 10 + fill_up(sets[0], UINT64_MAX);
	ok(all >= 16 && fill_up(sets[1], 1) == 0 && engine->fits(context, &all, 1),
	   "with %llu rows in another one none fits", (unsigned long long) all);
	all++;
	ok(!engine->fits(context, &all, 1), "one more would not fit");
	all--;
	engine->set_close(sets[0]);
	rows[0] = all / 10;
	rows[1] = all - rows[0] - 10;
	rows[2] = 10;
	ok(engine->fits(context, rows, 3) && fill_up(sets[1], UINT64_MAX) == all - 10,
	   "when it is closed, the first one may have them");
	if (engine->set_reset(sets[1], 0) != FASTED_OK)
		exit(EXIT_FAILURE);
	sets[0] = open_set(context);
	ok(fill_up(sets[0], 1) == 0 && fill_up(sets[1], UINT64_MAX) == all - 10,
	   "a set that is empty again keeps its memory");
	for (int i = 0; i < 3; i++)
		(void) engine->seal(sets[i]);
	engine->join_close(begin_join(context, sets[1], sets[2], (FastedProblem) {.eps = 1.0}));
	engine->join_close(begin_join(context, sets[1], sets[1], (FastedProblem) {.eps = 1.0}));
	engine->stats(context, &stats);
	ok(stats.host_bytes <= limit || limit < 500000, "memory %llu of %llu",
	   (unsigned long long) stats.host_bytes, (unsigned long long) limit);
	rows[0] = rows[1] = rows[2] = 1;
	ok(engine->fits(context, rows, 3), "three sets of one row always fit");
	engine->close(context);
}

/* The threads of this process: how many, and a sum of their numbers. */
static int
look_at_threads(uint64_t *sum)
{
	DIR		   *directory = opendir("/proc/self/task");
	struct dirent *entry;
	int			count = 0;

	*sum = 0;
	while (directory != NULL && (entry = readdir(directory)) != NULL)
	{
		*sum += strtoull(entry->d_name, NULL, 10);
		count += entry->d_name[0] != '.';
	}
	if (directory != NULL)
		closedir(directory);
	return count;
}

/* Threads and memory are those of the first join; a small join has fewer threads. */
static void
check_kept(void)
{
	FastedOptions options = {.dimensions = 64,.threads = 3};
	FastedContext *context = open_context(&options);
	Rows		rows[2] = {make_rows(3000, 64, 1.0, 0.0), make_rows(10, 64, 1.0, 0.0)};
	FastedSet  *sets[2] = {open_set(context), open_set(context)};
	FastedStats stats[2];
	uint64_t	sums[3];
	int			counts[3];
	uint64_t	pairs;

	for (int i = 0; i < 2; i++)
		(void) fill_set(sets[i], &rows[i], 64);
	counts[0] = look_at_threads(&sums[0]);
	(void) count_join(context, sets[0], sets[0], 8.0, &pairs);
	counts[1] = look_at_threads(&sums[1]);
	(void) count_join(context, sets[0], sets[1], 8.0, &pairs);
	engine->stats(context, &stats[0]);
	(void) count_join(context, sets[1], sets[0], 9.0, &pairs);
	(void) count_join(context, sets[0], sets[0], 9.0, &pairs);
	engine->stats(context, &stats[1]);
	counts[2] = look_at_threads(&sums[2]);
	ok(counts[1] == counts[0] + 3 && counts[2] == counts[1] && sums[2] == sums[1],
	   "threads stay: %d, then %d, then %d", counts[0], counts[1], counts[2]);
	ok(stats[0].host_bytes == stats[1].host_bytes, "memory stays: %llu bytes, then %llu",
	   (unsigned long long) stats[0].host_bytes, (unsigned long long) stats[1].host_bytes);
	engine->close(context);
	ok(look_at_threads(&sums[0]) == counts[0], "closed: the threads are gone");
	free((float *) rows[0].rows);
	free((float *) rows[1].rows);
}

/* What is refused: one in each context, for then only close may be called. */
static bool
is_refused(int what)
{
	FastedOptions options = {.dimensions = 3};
	FastedContext *context = open_context(&options);
	FastedSet  *set = open_set(context);
	FastedProblem problem = {.eps = 1.0};
	FastedJoin *join = NULL;
	FastedBatch batch;
	Rows		rows = make_rows(20, 3, 1.0, 0.0);
	float	   *room;
	size_t		capacity;
	uint32_t	count;
	FastedStatus status = FASTED_OK;

	if (what > 0)
		(void) fill_set(set, &rows, 3);
	if (what == 2)
		problem.slice = 1;
	if (what == 3)
		problem.slice = problem.slices = 4;
	if (what < 4)
		status = what == 1 ? engine->stage(set, &room, &capacity)
			: engine->join_open(context, &problem, set, set, &join);
	else
	{
		join = begin_join(context, set, set, problem);
		if (what == 4)
			status = engine->join_open(context, &problem, set, set, &join);
		else if (what == 5)
			status = engine->set_reset(set, 0);
		else
		{
			while (engine->next(join, 100, &batch) != FASTED_DONE)
				;
			status = engine->counts(join, 0, 0, 1, &count);
		}
	}
	if (engine->last_error(context)[0] == '\0')
		status = FASTED_OK;
	engine->close(context);
	free((float *) rows.rows);
	return status == FASTED_INTERNAL;
}

static void
check_refusals(void)
{
	static const char *const names[] = {
		"a set that is not sealed", "rows for one that is", "a slice of none", "a slice too many",
		"a second join at once", "to empty a set that is joined", "counts that were not asked for"
	};

	for (int what = 0; what < 7; what++)
		ok(is_refused(what), "refused: %s", names[what]);
}

int
main(void)
{
	Way			ways[MOST_WAYS];
	int			count = all_ways(ways);

	engine = fasted_cpu_engine();
	random_seed();
	check_refusals();
	for (int w = 0; w < count; w++)
	{
		check_packed_once(&ways[w], true);
		check_packed_once(&ways[w], false);
		check_partners(&ways[w]);
		check_any_order(&ways[w], ways[w].filter, 33, 400, 60);
		check_any_order(&ways[w], ways[w].filter, 3, 300, 30);
		check_any_order(&ways[w], ways[w].filter, 300, 200, 30);
	}
	for (int w = 0; w < count; w++)
		check_unfinished(&ways[w]);
	/* sets large enough for a choice */
	check_any_order(&ways[0], FASTED_FILTER_AUTO, 32, 5000, 15);
	check_staging_meanwhile();
	check_full(1);
	check_full(2000000);
	check_kept();
	return tap_done();
}
