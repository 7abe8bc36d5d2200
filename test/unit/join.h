/*-------------------------------------------------------------------------
 *
 * join.h
 *	  Runs a whole join, from rows to pairs, and computes the expected pairs by brute force.
 *
 *-------------------------------------------------------------------------
 */
#ifndef JOIN_H
#define JOIN_H

#include <float.h>
#include <string.h>

#include "../../src/engine/exact_distance.h"
#include "../../src/engine/panel_join.h"
#include "tap.h"

/* The engine under test; NULL: the CPU engine. */
static const FastedEngine *join_engine;

typedef struct PairList
{
	FastedPair *pairs;
	size_t		count;
	size_t		room;
} PairList;

/* The rows of a side. */
typedef struct Rows
{
	const float *rows;
	uint64_t	n;
} Rows;

/* Behaviour of the caller. */
typedef struct CallerHabits
{
	uint32_t	stage_at_most;	/* maximum number of rows per call; zero: no limit */
	bool		put;			/* put the first rows, from registered memory */
	int			sleep_us;		/* microseconds to sleep after each batch */
	int			timeout_ms;
} CallerHabits;

static inline void
pair_add(PairList *list, const FastedPair *pairs, size_t count)
{
	if (count == 0)
		return;
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

/* Sorts stably by one of the two rows of pairs, which are all below `rows`. */
static inline void
pair_sort_by(PairList *list, bool by_a, uint32_t rows)
{
	size_t	   *place = must_alloc((rows + 1) * sizeof(size_t));
	FastedPair *sorted = must_alloc(list->count * sizeof(FastedPair));

	memset(place, 0, (rows + 1) * sizeof(size_t));
	for (size_t i = 0; i < list->count; i++)
		place[(by_a ? list->pairs[i].a : list->pairs[i].b) + 1]++;
	for (uint32_t row = 0; row < rows; row++)
		place[row + 1] += place[row];
	for (size_t i = 0; i < list->count; i++)
		sorted[place[by_a ? list->pairs[i].a : list->pairs[i].b]++] = list->pairs[i];
	free(list->pairs);
	list->pairs = sorted;
	list->room = list->count;
	free(place);
}

/* Sorts pairs by a, then by b; in linear time unless row numbers are large. */
static inline void
pair_sort(PairList *list)
{
	uint32_t	rows = 0;

	for (size_t i = 0; i < list->count; i++)
	{
		rows = list->pairs[i].a >= rows ? list->pairs[i].a + 1 : rows;
		rows = list->pairs[i].b >= rows ? list->pairs[i].b + 1 : rows;
	}
	if (rows > 4 * list->count && list->count > 0)
		qsort(list->pairs, list->count, sizeof(FastedPair), pair_compare);
	else if (list->count > 0)
	{
		pair_sort_by(list, false, rows);
		pair_sort_by(list, true, rows);
	}
}

/* Returns whether both sorted lists have the same pairs with bit-identical distances. */
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

/* Returns what the distance of a row needs in addition: its squared length, for cosines. */
static inline double
brute_square(const FastedOptions *options, const void *x)
{
	if (options->metric != FASTED_METRIC_COSINE)
		return 0.0;
	return options->element == FASTED_ELEMENT_DOUBLE ? fasted_exact_dot_double(x, x, options->dimensions)
		: fasted_exact_dot(x, x, options->dimensions);
}

/* Returns the distance of two rows, given their squares; NaN if they have none. */
static inline double
brute_distance_of(const FastedOptions *options, const void *x, double xx, const void *y, double yy)
{
	uint32_t	d = options->dimensions;
	bool		doubles = options->element == FASTED_ELEMENT_DOUBLE;
	double		dot;

	if (options->metric == FASTED_METRIC_HAMMING)
		return fasted_exact_hamming(x, y, fasted_bit_words(d));
	if (options->metric == FASTED_METRIC_JACCARD)
		return fasted_exact_jaccard(x, y, fasted_bit_words(d));
	if (options->metric == FASTED_METRIC_L2)
		return doubles ? fasted_exact_distance_double(x, y, d) : fasted_exact_distance(x, y, d);
	dot = doubles ? fasted_exact_dot_double(x, y, d) : fasted_exact_dot(x, y, d);
	if (options->metric == FASTED_METRIC_INNER_PRODUCT)
		return 0.0 - dot;
	return isfinite(xx) && isfinite(yy) ? fasted_exact_cosine_of(dot, xx, yy) : NAN;
}

static inline double
brute_distance(const FastedOptions *options, const void *x, const void *y)
{
	return brute_distance_of(options, x, brute_square(options, x), y, brute_square(options, y));
}

/* Returns the squares of all rows of a side. */
static inline double *
brute_squares(const FastedOptions *options, const Rows *side)
{
	double	   *squares = must_alloc(side->n * sizeof(double));

	for (uint64_t i = 0; i < side->n; i++)
		squares[i] = brute_square(options, side->rows + i * fasted_row_floats(options));
	return squares;
}

/* Returns the partitions of a problem with n and m rows; the whole if it has none. */
static inline const FastedPartition *
brute_partitions(const FastedProblem *problem, const Rows *sides, int nsides, FastedPartition *whole,
				 uint32_t *count)
{
	*whole = (FastedPartition) {.rows_a = (uint32_t) sides[0].n,.rows_b = (uint32_t) sides[nsides - 1].n};
	*count = problem->partitions != NULL ? problem->npartitions : 1;
	return problem->partitions != NULL ? problem->partitions : whole;
}

/* Finds the pairs of a join: those within eps, in order.  Pairs whose distance is NaN are in none. */
static inline void
find_pairs(const PanelProblem *problem, const Rows *sides, PairList *list)
{
	const Rows *b = &sides[problem->sides - 1];
	size_t		floats = fasted_row_floats(&problem->options);
	double	   *xx = brute_squares(&problem->options, &sides[0]);
	double	   *yy = brute_squares(&problem->options, b);
	FastedPartition whole;
	uint32_t	count;
	const FastedPartition *parts = brute_partitions(&problem->problem, sides, problem->sides, &whole, &count);

	memset(list, 0, sizeof(*list));
	for (const FastedPartition *part = parts; part < parts + count; part++)
	{
		for (uint32_t i = part->first_a; i < part->first_a + part->rows_a; i++)
		{
			for (uint32_t j = problem->sides == 1 ? i + 1 : part->first_b; j < part->first_b + part->rows_b; j++)
			{
				FastedPair	pair = {.a = i,.b = j};

				pair.dist = brute_distance_of(&problem->options, sides[0].rows + i * floats, xx[i],
											  b->rows + j * floats, yy[j]);
				if (pair.dist <= problem->problem.eps)
					pair_add(list, &pair, 1);
			}
		}
	}
	free(xx);
	free(yy);
}

/* Finds the pairs a < b of rows of floats whose distance is at most eps, in order. */
static inline void
near_pairs(const float *rows, uint32_t n, uint32_t d, double eps, PairList *list)
{
	find_pairs(&(PanelProblem) {.options.dimensions = d,.problem.eps = eps,.sides = 1},
			   &(Rows) {.rows = rows,.n = n}, list);
}

static inline void
near_pairs_of_two(const Rows *sides, uint32_t d, double eps, PairList *list)
{
	find_pairs(&(PanelProblem) {.options.dimensions = d,.problem.eps = eps,.sides = 2}, sides, list);
}

/*
 * Chooses values of eps for which joins differ: extreme and small ones, exact distances of pairs, the
 * next smaller doubles, and the least distance.  eps has room for 16.
 */
static inline int
pick_eps(const PairList *all, FastedMetric metric, double *eps)
{
	bool		product = metric == FASTED_METRIC_INNER_PRODUCT;
	double		least = INFINITY;
	int			count = 0;

	eps[count++] = 0.0;
	eps[count++] = INFINITY;
	if (metric != FASTED_METRIC_L2)
	{
		eps[count++] = product ? -DBL_MIN : DBL_MIN;
		eps[count++] = product ? -1.0 : 1e-12;
		eps[count++] = product ? 100.0 : 1.0;
		eps[count++] = product ? -1e30 : 2.0;
	}
	for (int i = 0; i < 2 && all->count > 0; i++)
	{
		eps[count] = all->pairs[random_below((uint32_t) all->count)].dist;
		eps[count + 1] = nextafter(eps[count], product ? -INFINITY : 0.0);
		count += 2;
	}
	for (size_t i = 0; i < all->count; i++)
	{
		if ((all->pairs[i].dist > 0.0 || product) && all->pairs[i].dist < least)
			least = all->pairs[i].dist;
	}
	if (least < INFINITY)
		eps[count++] = least;
	return count;
}

/* Copies the pairs within eps. */
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

/* Stages rows [first, first + count).  Returns FASTED_FULL if the engine does. */
static inline FastedStatus
stage_rows(PanelJoin *join, int side, const Rows *from, uint64_t first, uint64_t count,
		   uint32_t d, uint32_t at_most, uint64_t *staged)
{
	*staged = 0;
	while (*staged < count)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = panel_join_stage(join, side, &room, &capacity);

		if (status != FASTED_OK)
			return status;
		if (capacity > count - *staged)
			capacity = count - *staged;
		if (at_most > 0 && capacity > at_most)
			capacity = at_most;
		memcpy(room, from->rows + (first + *staged) * d, capacity * d * sizeof(float));
		status = panel_join_commit(join, side, capacity);
		if (status != FASTED_OK)
			return status;
		*staged += capacity;
	}
	return FASTED_OK;
}

/* Alternates between putting rows, at most at_most per call, and staging them. */
static inline FastedStatus
put_rows(PanelJoin *join, int side, const Rows *from, uint32_t d, uint32_t at_most,
		 uint64_t *there)
{
	FastedStatus status = FASTED_OK;

	*there = 0;
	if (!panel_join_register_memory(join, side, (float *) from->rows, from->n * d * sizeof(float)))
		return FASTED_INTERNAL;
	for (int turn = 0; *there < from->n && status == FASTED_OK; turn++)
	{
		uint64_t	count = from->n - *there;
		uint64_t	staged = 0;
		size_t		taken = 0;

		if (at_most > 0 && count > at_most)
			count = at_most;
		if (turn % 3 == 2)
			status = stage_rows(join, side, from, *there, count, d, 0, &staged);
		else
			status = panel_join_put(join, side, from->rows + *there * d, count, &taken);
		*there += staged + taken;
	}
	if (status == FASTED_OK)
		status = panel_join_wait_read(join, side, true);
	panel_join_unregister_memory(join, side);
	return status;
}

/* Checks that staged rows are read back unchanged. */
static inline FastedStatus
check_read_back(PanelJoin *join, int side, const Rows *from, uint64_t staged, uint32_t d)
{
	FastedStatus status = FASTED_OK;
	float	   *copy = must_alloc(7 * (size_t) d * sizeof(float));

	for (uint64_t first = 0; first < staged && status == FASTED_OK; first += 7)
	{
		size_t		count = staged - first < 7 ? staged - first : 7;

		status = panel_join_read_back(join, side, first, count, copy);
		if (status == FASTED_OK &&
			memcmp(copy, from->rows + first * d, count * d * sizeof(float)) != 0)
			status = FASTED_INTERNAL;
	}
	free(copy);
	return status;
}

/*
 * Arrays that a caller lends to a panel join.  They are overwritten and freed when the function that
 * receives them has returned, because the engine's threads may not read memory of the caller.
 */
static inline void *
lend(const void *from, size_t bytes)
{
	return from == NULL ? NULL : memcpy(must_alloc(bytes), from, bytes);
}

static inline void
take_back(const void *lent, size_t bytes)
{
	if (lent != NULL)
		memset((void *) (uintptr_t) lent, 0xff, bytes);
	free((void *) (uintptr_t) lent);
}

/* Loads the rows of all sides, or as many as fit, and starts the join. */
static inline FastedStatus
load_and_start(PanelJoin *join, const PanelProblem *problem, const Rows *sides,
			   const CallerHabits *habits)
{
	uint32_t	d = fasted_row_floats(&problem->options);
	uint64_t	rows[2] = {0, 0};
	uint64_t	staged[2] = {0, 0};
	FastedStatus status = FASTED_OK;

	for (int side = 0; side < problem->sides; side++)
	{
		rows[side] = sides[side].n;
		if (status == FASTED_OK)
			status = habits->put
				? put_rows(join, side, &sides[side], d, habits->stage_at_most, &staged[side])
				: stage_rows(join, side, &sides[side], 0, rows[side], d, habits->stage_at_most,
							 &staged[side]);
	}
	if (status == FASTED_FULL)
	{
		status = FASTED_OK;
		for (int side = 0; side < problem->sides && status == FASTED_OK; side++)
			status = check_read_back(join, side, &sides[side], staged[side], d);
	}
	return status == FASTED_OK ? panel_join_start(join, rows) : status;
}

/* Adds pairs to the list until the join is done or fails. */
static inline FastedStatus
drain_join(PanelJoin *join, const PanelProblem *problem, const Rows *sides,
		   const CallerHabits *habits, PairList *list)
{
	FastedStatus status = FASTED_OK;

	while (status <= FASTED_WANT_ROWS && status != FASTED_DONE)
	{
		FastedBatch batch;
		uint64_t	staged;

		status = panel_join_next(join, habits->timeout_ms, &batch);
		if (status == FASTED_OK)
		{
			pair_add(list, batch.pairs, batch.npairs);
			if (habits->sleep_us > 0)
				nanosleep(&(struct timespec) {.tv_nsec = habits->sleep_us * 1000L}, NULL);
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, &sides[batch.side], batch.first_row,
								batch.row_count, fasted_row_floats(&problem->options),
								habits->stage_at_most, &staged);
	}
	return status;
}

/* Returns a copy of the rows' counts, or NULL if the join has none. */
static inline uint32_t *
copy_counts(const PanelJoin *join, int side, uint64_t n)
{
	const uint32_t *counts = panel_join_counts(join, side);
	uint32_t   *copy;

	if (counts == NULL)
		return NULL;
	copy = must_alloc(n * sizeof(uint32_t));
	memcpy(copy, counts, n * sizeof(uint32_t));
	return copy;
}

/* Runs a join from open to close. stats and counts may be NULL. */
static inline FastedStatus
run_join_once(const PanelProblem *problem, const Rows *sides, const CallerHabits *habits,
			  PairList *list, FastedStats *stats, uint32_t **counts)
{
	const FastedEngine *engine = join_engine != NULL ? join_engine : fasted_cpu_engine();
	PanelJoin  *join;
	FastedStatus status = panel_join_open(engine, problem, &join);

	memset(list, 0, sizeof(*list));
	if (status == FASTED_OK)
		status = load_and_start(join, problem, sides, habits);
	if (status == FASTED_OK)
		status = drain_join(join, problem, sides, habits, list);
	if (FASTED_FAILED(status))
		printf("# %s\n", panel_join_last_error(engine, join));
	if (stats != NULL && join != NULL)
		panel_join_stats(join, stats);
	for (int side = 0; counts != NULL && side < 2; side++)
		counts[side] = status == FASTED_DONE && side < problem->sides
			? copy_counts(join, side, sides[side].n) : NULL;
	panel_join_close(join);
	pair_sort(list);
	return status;
}

/* Returns whether counts has the number of pairs of each row. */
static inline bool
counts_equal(const PairList *list, const Rows *sides, int nsides, uint32_t *const *counts)
{
	uint32_t   *expected[2] = {NULL, NULL};
	bool		same = true;

	for (int side = 0; side < nsides; side++)
	{
		expected[side] = must_alloc(sides[side].n * sizeof(uint32_t));
		memset(expected[side], 0, sides[side].n * sizeof(uint32_t));
	}
	for (size_t i = 0; i < list->count; i++)
	{
		expected[0][list->pairs[i].a]++;
		expected[nsides - 1][list->pairs[i].b]++;
	}
	for (int side = 0; side < nsides; side++)
	{
		same = same && counts[side] != NULL &&
			memcmp(counts[side], expected[side], sides[side].n * sizeof(uint32_t)) == 0;
		free(expected[side]);
	}
	return same;
}

/* Checks that a counting join counts the expected pairs and returns no pairs. */
static inline bool
check_count(const PanelProblem *problem, const Rows *sides, const CallerHabits *habits,
			FastedOutput output, const PairList *list)
{
	PanelProblem counting = *problem;
	uint32_t   *counts[2];
	PairList	none;
	FastedStats stats;
	bool		same;

	counting.problem.output = output;
	same = run_join_once(&counting, sides, habits, &none, &stats, counts) == FASTED_DONE &&
		none.count == 0 && stats.pairs == list->count &&
		(output == FASTED_OUTPUT_COUNT || counts_equal(list, sides, problem->sides, counts));
	if (!same)
		printf("# %llu pairs counted, %zu pairs returned by the counting join, expected %zu\n",
			   (unsigned long long) stats.pairs, none.count, list->count);
	free(none.pairs);
	free(counts[0]);
	free(counts[1]);
	return same;
}

/*
 * Runs a join from open to close, and again with its pairs counted, in total or for each row.
 * Pairs are returned sorted; stats may be NULL.  Returns FASTED_DONE, or the status of the
 * failure.
 */
static inline FastedStatus
run_sides(const PanelProblem *problem, const Rows *sides, const CallerHabits *habits,
		  PairList *list, FastedStats *stats)
{
	FastedStatus status = run_join_once(problem, sides, habits, list, stats, NULL);
	FastedOutput output = list->count % 2 == 0 ? FASTED_OUTPUT_COUNTS : FASTED_OUTPUT_COUNT;

	if (status == FASTED_DONE && habits->sleep_us == 0 &&
		!check_count(problem, sides, habits, output, list))
		status = FASTED_INTERNAL;
	return status;
}

/* Runs a self-join of one set of rows; see run_sides. */
static inline FastedStatus
run_join(const PanelProblem *problem, const float *rows, uint64_t n,
		 const CallerHabits *habits, PairList *list, FastedStats *stats)
{
	return run_sides(problem, &(Rows) {.rows = rows,.n = n}, habits, list, stats);
}

/* Returns whether a list, as FASTED_OUTPUT_NEAREST describes it, is that of row a. */
static inline bool
is_nearest_list(const PanelProblem *problem, const Rows *sides, uint64_t a, const FastedNeighbor *list,
				uint32_t length)
{
	size_t		floats = fasted_row_floats(&problem->options);
	const Rows *b = &sides[problem->sides - 1];
	const float *x = sides[0].rows + a * floats;
	double		xx = brute_square(&problem->options, x);
	FastedPartition whole;
	uint32_t	parts;
	const FastedPartition *part = brute_partitions(&problem->problem, sides, problem->sides, &whole, &parts);
	uint32_t	count = 0;		/* rows within eps */
	uint32_t	found = 0;		/* of which the list has so many */
	uint32_t	beyond = 0;		/* and so many would come after its end */

	for (; parts > 0 && (a < part->first_a || a >= part->first_a + part->rows_a); parts--)
		part++;
	for (uint32_t j = parts > 0 ? part->first_b : 0; parts > 0 && j < part->first_b + part->rows_b; j++)
	{
		const float *y = b->rows + j * floats;
		FastedNeighbor other = {.row = problem->problem.ranks != NULL ? problem->problem.ranks[j] : j};
		uint32_t	low = 0;
		uint32_t	high = length;

		if (problem->sides == 1 && j == a)
			continue;
		other.dist = brute_distance_of(&problem->options, x, xx, y, brute_square(&problem->options, y));
		if (!(other.dist <= problem->problem.eps))
			continue;
		while (low < high)
		{
			uint32_t	middle = (low + high) / 2;
			bool		before = list[middle].dist < other.dist ||
				(list[middle].dist == other.dist && list[middle].row < other.row);

			low = before ? middle + 1 : low;
			high = before ? high : middle;
		}
		count++;
		beyond += low == length;
		found += low < length && list[low].row == other.row &&
			memcmp(&list[low].dist, &other.dist, sizeof(double)) == 0;
	}
	if (found == length && length == (count < problem->problem.k ? count : problem->problem.k) &&
		beyond == count - length)
		return true;
	printf("# row %llu: %u neighbors, of which %u are right, of %u\n", (unsigned long long) a, length, found, count);
	return false;
}

/* Runs a join for nearest rows (of problem.k) from open to close.  Returns whether all lists are right. */
static inline bool
check_nearest_join(const PanelProblem *problem, const Rows *sides)
{
	const FastedEngine *engine = join_engine != NULL ? join_engine : fasted_cpu_engine();
	const CallerHabits habits = {.timeout_ms = 100};
	PanelProblem nearest = *problem;
	PanelJoin  *join;
	FastedStatus status;
	uint64_t	rows = 0;
	bool		right = true;

	nearest.problem.output = FASTED_OUTPUT_NEAREST;
	status = panel_join_open(engine, &nearest, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &nearest, sides, &habits);
	while (right && !FASTED_FAILED(status) && status != FASTED_DONE)
	{
		FastedBatch batch;
		uint64_t	staged;

		status = panel_join_next(join, 100, &batch);
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, &sides[batch.side], batch.first_row, batch.row_count,
								fasted_row_floats(&nearest.options), 0, &staged);
		else if (status == FASTED_OK)
		{
			for (uint64_t a = batch.first_row; a < batch.first_row + batch.row_count && right; a++, rows++)
			{
				uint32_t	length;
				const FastedNeighbor *list = panel_join_nearest(join, a, &length);

				right = is_nearest_list(&nearest, sides, a, list, length);
			}
		}
	}
	if (FASTED_FAILED(status))
		printf("# %s\n", panel_join_last_error(engine, join));
	panel_join_close(join);
	return right && status == FASTED_DONE && rows == sides[0].n;
}

#endif							/* JOIN_H */
