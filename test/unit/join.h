/*-------------------------------------------------------------------------
 *
 * join.h
 *	  A whole join through the engine's interface, and brute force.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOIN_H
#define JOIN_H

#include <string.h>

#include "../../src/engine/engine.h"
#include "../../src/engine/exact_distance.h"
#include "tap.h"

typedef struct PairList
{
	FastedPair *pairs;
	size_t		count;
	size_t		room;
} PairList;

/* How the caller behaves. */
typedef struct CallerHabits
{
	uint32_t	stage_at_most;	/* rows a call, or zero */
	bool		put;			/* rows before the start, from where they lie */
	int			sleep_us;		/* after each batch */
	int			timeout_ms;
} CallerHabits;

static inline void
pair_add(PairList *list, const FastedPair *pairs, size_t count)
{
	if (list->count + count > list->room)
	{
		list->room = 2 * (list->count + count);
		list->pairs = realloc(list->pairs, list->room * sizeof(FastedPair));
		if (list->pairs == NULL)
			abort();
	}
	memcpy(list->pairs + list->count, pairs, count * sizeof(FastedPair));
	list->count += count;
}

static inline int
pair_compare(const void *left, const void *right)
{
	const FastedPair *p = left;
	const FastedPair *q = right;

	if (p->a != q->a)
		return p->a < q->a ? -1 : 1;
	return p->b < q->b ? -1 : p->b > q->b;
}

static inline void
pair_sort(PairList *list)
{
	if (list->count > 0)
		qsort(list->pairs, list->count, sizeof(FastedPair), pair_compare);
}

/* The same pairs with the same bits; both sorted. */
static inline bool
pair_equal(const PairList *left, const PairList *right)
{
	if (left->count != right->count)
		return false;
	for (size_t i = 0; i < left->count; i++)
	{
		if (pair_compare(&left->pairs[i], &right->pairs[i]) != 0 ||
			memcmp(&left->pairs[i].dist, &right->pairs[i].dist,
				   sizeof(double)) != 0)
			return false;
	}
	return true;
}

/* Pairs a < b, in order, with their distances, where these are not beyond eps. */
static inline void
near_pairs(const float *rows, uint32_t n, uint32_t d, double eps, PairList *list)
{
	memset(list, 0, sizeof(*list));
	for (uint32_t a = 0; a < n; a++)
	{
		for (uint32_t b = a + 1; b < n; b++)
		{
			FastedPair	pair = {.a = a, .b = b};

			pair.dist = fasted_exact_distance(rows + (size_t) a * d,
											  rows + (size_t) b * d, d);
			if (!(pair.dist > eps))
				pair_add(list, &pair, 1);
		}
	}
}

/* All pairs, those whose distance is NaN among them. */
static inline void
all_pairs(const float *rows, uint32_t n, uint32_t d, PairList *list)
{
	near_pairs(rows, n, d, INFINITY, list);
}

/* Those of them within eps. */
static inline void
select_pairs(const PairList *all, double eps, PairList *list)
{
	memset(list, 0, sizeof(*list));
	for (size_t i = 0; i < all->count; i++)
	{
		if (all->pairs[i].dist <= eps)
			pair_add(list, &all->pairs[i], 1);
	}
}

/* Stages rows [first, first + count) of rows; FASTED_FULL when told so. */
static inline FastedStatus
stage_rows(const FastedEngine *engine, FastedJoin *join, const float *rows,
		   uint64_t first, uint64_t count, uint32_t d, uint32_t at_most,
		   uint64_t *staged)
{
	*staged = 0;
	while (*staged < count)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = engine->stage(join, &room, &capacity);

		if (status != FASTED_OK)
			return status;
		if (capacity > count - *staged)
			capacity = count - *staged;
		if (at_most > 0 && capacity > at_most)
			capacity = at_most;
		memcpy(room, rows + (first + *staged) * d, capacity * d * sizeof(float));
		status = engine->commit(join, capacity);
		if (status != FASTED_OK)
			return status;
		*staged += capacity;
	}
	return FASTED_OK;
}

/* Puts rows, at most so many a call, or stages them, in turn; FASTED_FULL when told so. */
static inline FastedStatus
put_rows(const FastedEngine *engine, FastedJoin *join, float *rows, uint64_t n,
		 uint32_t d, uint32_t at_most, uint64_t *there)
{
	FastedStatus status = FASTED_OK;

	*there = 0;
	if (!engine->lend(join, rows, n * d * sizeof(float)))
		return FASTED_INTERNAL;
	for (int turn = 0; *there < n && status == FASTED_OK; turn++)
	{
		uint64_t	count = n - *there;
		uint64_t	staged = 0;
		size_t		taken = 0;

		if (at_most > 0 && count > at_most)
			count = at_most;
		if (turn % 3 == 2)
			status = stage_rows(engine, join, rows, *there, count, d, 0, &staged);
		else
			status = engine->put(join, rows + *there * d, count, &taken);
		*there += staged + taken;
	}
	if (status == FASTED_OK)
		status = engine->settle(join);
	engine->withdraw(join);
	return status;
}

/* What was staged comes back as it was. */
static inline bool
check_read_back(const FastedEngine *engine, FastedJoin *join, const float *rows,
				uint64_t staged, uint32_t d)
{
	bool		same = true;
	float	   *copy = must_alloc(7 * (size_t) d * sizeof(float));

	for (uint64_t first = 0; first < staged && same; first += 7)
	{
		size_t		count = staged - first < 7 ? staged - first : 7;

		same = engine->read_back(join, first, count, copy) == FASTED_OK &&
			memcmp(copy, rows + first * d, count * d * sizeof(float)) == 0;
	}
	free(copy);
	return same;
}

/* A join from open to close. */
static inline FastedStatus
run_join_once(const FastedProblem *problem, const float *rows, uint64_t n,
		 const CallerHabits *options, PairList *list, FastedStats *stats)
{
	const FastedEngine *engine = fasted_cpu_engine();
	FastedJoin *join;
	FastedBatch batch;
	uint64_t	staged = 0;
	FastedStatus status = engine->open(problem, &join);

	memset(list, 0, sizeof(*list));
	if (status == FASTED_OK && options->put)
		status = put_rows(engine, join, (float *) rows, n, problem->dimensions,
						  options->stage_at_most, &staged);
	else if (status == FASTED_OK)
		status = stage_rows(engine, join, rows, 0, n, problem->dimensions,
							options->stage_at_most, &staged);
	if (status == FASTED_FULL)
	{
		status = FASTED_OK;
		if (!check_read_back(engine, join, rows, staged, problem->dimensions))
			status = FASTED_INTERNAL;
	}
	if (status == FASTED_OK)
		status = engine->start(join, n);
	while (status <= FASTED_WANT_ROWS && status != FASTED_DONE)
	{
		status = engine->next(join, options->timeout_ms, &batch);
		if (status == FASTED_OK)
		{
			pair_add(list, batch.pairs, batch.npairs);
			if (options->sleep_us > 0)
				nanosleep(&(struct timespec) {.tv_nsec = options->sleep_us * 1000L},
						  NULL);
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(engine, join, rows, batch.first_row,
								batch.row_count, problem->dimensions,
								options->stage_at_most, &staged);
	}
	if (FASTED_FAILED(status))
		printf("# %s\n", engine->last_error(join));
	if (stats != NULL && join != NULL)
		engine->stats(join, stats);
	engine->close(join);
	pair_sort(list);
	return status;
}

/* Does the engine count as many pairs as it handed out, and hand out none then? */
static inline bool
check_count(const FastedProblem *problem, const float *rows, uint64_t n,
			const CallerHabits *options, uint64_t expected)
{
	FastedProblem counting = *problem;
	PairList	none;
	FastedStats stats;
	bool		same;

	counting.output = FASTED_OUTPUT_COUNT;
	same = run_join_once(&counting, rows, n, options, &none, &stats) == FASTED_DONE &&
		none.count == 0 && stats.pairs == expected;
	if (!same)
		printf("# %llu pairs counted, %zu handed out meanwhile, of %llu\n",
			   (unsigned long long) stats.pairs, none.count, (unsigned long long) expected);
	free(none.pairs);
	return same;
}

/*
 * A join from open to close, and once more with its pairs counted.  Pairs come out
 * sorted; stats may be NULL.  The status is FASTED_DONE, or that of the failure.
 */
static inline FastedStatus
run_join(const FastedProblem *problem, const float *rows, uint64_t n,
		 const CallerHabits *options, PairList *list, FastedStats *stats)
{
	FastedStatus status = run_join_once(problem, rows, n, options, list, stats);

	if (status == FASTED_DONE && options->sleep_us == 0 &&
		!check_count(problem, rows, n, options, list->count))
		status = FASTED_INTERNAL;
	return status;
}

#endif							/* JOIN_H */
