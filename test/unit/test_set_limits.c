/*-------------------------------------------------------------------------
 *
 * test_set_limits.c
 *	  Limits, resources and invalid calls of contexts.
 *
 * Tests the CPU engine, or invalid calls of the engine of the library that FASTED_ENGINE_LIBRARY names.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>

#include "sets.h"
#include "tested_engine.h"

/* Rows are staged into a set while two other sets are joined. */
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
	while ((status != FASTED_DONE || there < 2000) && !FASTED_FAILED(status))
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
		if (status == FASTED_DONE)
			continue;
		status = engine->next(join, there < 2000 ? 0 : 100, &batch);
		pair_add(&got, batch.pairs, batch.npairs);
	}
	engine->join_close(join);
	pair_sort(&got);
	expect_pairs(&mirrors[0], &mirrors[1], d, 8.5, &expected);
	ok(status == FASTED_DONE && (meanwhile || on_gpu()) && there == 2000 && expected.count > 0 && pair_equal(&got, &expected),
	   "rows are staged during a join of other sets: %zu pairs", got.count);
	mirrors[2].first_row = 0;
	ok(check_join(context, &mirrors[2], &mirrors[0], d, 8.5), "the rows staged during that join are joined");
	free(got.pairs);
	free(expected.pairs);
	engine->close(context);
	for (int i = 0; i < 3; i++)
		free((float *) mirrors[i].rows.rows);
}

/* Stages zero rows until the set is full, at most `most` rows. */
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

/* One memory limit holds for all sets, and most_rows for one set. */
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
	   "with %llu rows in another set, no row fits", (unsigned long long) all);
	all++;
	ok(!engine->fits(context, &all, 1), "one more row would not fit");
	all--;
	engine->set_close(sets[0]);
	rows[0] = all / 10;
	rows[1] = all - rows[0] - 10;
	rows[2] = 10;
	ok(engine->fits(context, rows, 3) && fill_up(sets[1], UINT64_MAX) == all - 10,
	   "after it is closed, another set gets its memory");
	if (engine->set_reset(sets[1], 0) != FASTED_OK)
		exit(EXIT_FAILURE);
	sets[0] = open_set(context);
	ok(fill_up(sets[0], 1) == 0 && fill_up(sets[1], UINT64_MAX) == all - 10,
	   "a set that was reset keeps its memory");
	for (int i = 0; i < 3; i++)
		(void) engine->seal(sets[i]);
	engine->join_close(begin_join(context, sets[1], sets[2], (FastedProblem) {.eps = 1.0}));
	engine->join_close(begin_join(context, sets[1], sets[1], (FastedProblem) {.eps = 1.0}));
	engine->stats(context, &stats);
	ok(stats.host_bytes <= limit || limit < 500000, "%llu bytes, limit %llu",
	   (unsigned long long) stats.host_bytes, (unsigned long long) limit);
	rows[0] = rows[1] = rows[2] = 1;
	ok(engine->fits(context, rows, 3), "three sets of one row always fit");
	engine->close(context);
}

/* A set of at most 10 rows can be filled again after a reset. */
static void
check_most_rows(void)
{
	FastedOptions options = {.dimensions = 32,.threads = 2};
	FastedContext *context = open_context(&options);
	FastedSetOptions few = {.most_rows = 10};
	FastedSet  *set;
	bool		good = engine->set_open(context, &few, &set) == FASTED_OK;

	for (int i = 0; i < 3 && good; i++)
		good = fill_up(set, UINT64_MAX) == 10 && engine->seal(set) == FASTED_OK &&
			engine->set_reset(set, 0) == FASTED_OK;
	ok(good, "a set of at most 10 rows is full, and can be filled again");
	engine->close(context);
}

/* Returns whether a thread has ended.  The kernel lists it for a moment after pthread_join, with the flag PF_EXITING. */
static bool
has_ended(const char *thread)
{
	char		path[300];
	FILE	   *file;
	unsigned int flags = 4;

	snprintf(path, sizeof(path), "/proc/self/task/%s/stat", thread);
	file = fopen(path, "r");
	if (file == NULL)
		return true;
	if (fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		flags = 4;
	fclose(file);
	return (flags & 4) != 0;
}

/* Returns the number of threads of this process, and the sum of their IDs. */
static int
look_at_threads(uint64_t *sum)
{
	DIR		   *directory = opendir("/proc/self/task");
	struct dirent *entry;
	int			count = 0;

	*sum = 0;
	while (directory != NULL && (entry = readdir(directory)) != NULL)
	{
		if (entry->d_name[0] == '.' || has_ended(entry->d_name))
			continue;
		*sum += strtoull(entry->d_name, NULL, 10);
		count++;
	}
	if (directory != NULL)
		closedir(directory);
	return count;
}

/* Later joins use the threads and memory of the first join. */
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
	   "threads are reused: %d, then %d, then %d", counts[0], counts[1], counts[2]);
	ok(stats[0].host_bytes == stats[1].host_bytes, "memory is reused: %llu bytes, then %llu",
	   (unsigned long long) stats[0].host_bytes, (unsigned long long) stats[1].host_bytes);
	engine->close(context);
	ok(look_at_threads(&sums[0]) == counts[0], "close ends the threads");
	free((float *) rows[0].rows);
	free((float *) rows[1].rows);
}

/* Makes one invalid call in a new context; after it, only close may be called. */
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
		"unsealed set", "rows for a sealed one", "slice of none", "slice number too large",
		"second open join", "reset of a joined set", "counts of another output"
	};

	for (int what = 0; what < 7; what++)
	{
		/* a GPU relies on its caller */
		if (!on_gpu() || what != 5)
			ok(is_refused(what), "rejected: %s", names[what]);
	}
}

int
main(void)
{
	engine = tested_engine();
	random_seed();
	check_refusals();
	check_staging_meanwhile();
	check_most_rows();
	if (on_gpu())
		return tap_done();
	check_full(1);
	check_full(2000000);
	check_kept();
	return tap_done();
}
