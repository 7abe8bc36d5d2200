/*-------------------------------------------------------------------------
 *
 * sets.h
 *	  Sets and joins of the CPU engine without panels, and the pairs expected by brute force.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SETS_H
#define SETS_H

#include "join.h"

static const FastedEngine *engine;

/* A set and a copy of its rows. */
typedef struct Mirror
{
	FastedSet  *set;
	Rows		rows;
	uint64_t	first_row;
} Mirror;

static inline FastedContext *
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

static inline FastedSet *
open_set(FastedContext *context)
{
	FastedSetOptions options = {0};
	FastedSet  *set;

	if (engine->set_open(context, &options, &set) != FASTED_OK)
		exit(EXIT_FAILURE);
	return set;
}

/* Stages rows and seals the set.  Returns the first row's address, if all are in one chunk. */
static inline float *
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

static inline Rows
make_rows(uint64_t n, uint32_t d, double scale, double offset)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint64_t i = 0; i < n * d; i++)
		rows[i] = (float) (scale * random_normal() + offset);
	return (Rows) {.rows = rows,.n = n};
}

static inline FastedJoin *
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

/* Returns all pairs of the join, sorted, and closes it. */
static inline void
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

/* Runs a join; returns the number of candidates and stores the number of pairs. */
static inline uint64_t
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

/* Computes the pairs by brute force, with the row numbers of the sets. */
static inline void
expect_pairs(const Mirror *a, const Mirror *b, uint32_t d, double eps, PairList *list)
{
	Rows		sides[2] = {a->rows, b->rows};

	if (a == b)
		near_pairs(a->rows.rows, (uint32_t) a->rows.n, d, eps, list);
	else
		near_pairs_of_two(sides, d, eps, list);
}

/* Checks that the counts of a finished join match its pairs. */
static inline bool
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

/* Runs one join of two sets to its end, with a random output. */
static inline bool
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

#endif							/* SETS_H */
