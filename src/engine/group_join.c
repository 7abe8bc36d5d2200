/*-------------------------------------------------------------------------
 *
 * group_join.c
 *	  Deals slices of a join to devices, and merges what they find.
 *
 * Each device has some slices in a row at a time.  Between two of them it waits for its
 * next work, a tenth of a millisecond; at the end it waits for others, half of their last
 * slices.  So many are taken at first, few at last.
 *
 * To begin, a device chooses a form and quantises its rows.  All do that at once.
 *
 * Which rows are kept takes all pairs together, so one device does such a join alone.  To
 * hand out all pairs takes longer, even of two devices.
 *
 * Slices are parts of one whole if rows are in the same order on all devices, which depends
 * on sums of floats there.  A device whose rows are in another one takes no slice.
 *
 * A device counts each row's pairs in all of its slices together, and its counts are added
 * when no slice is left: to fetch them after each slice would keep all devices waiting.  So
 * it is with lists of neighbours, which stay on the devices until they are asked for.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "group_join.h"
#include "thread.h"

/*
 * Between two looks at all devices; none while slices are over sooner than that many
 * milliseconds, for a device waits for the next look.
 */
#define LOOK_NS 50000
#define LOOK_AT_ONCE_MS 1.0

/* Work for fewer milliseconds is hardly worth the turn. */
#define TURN_MS 1.0

/* Progress is counted in so many parts of a slice. */
#define SLICE_UNITS 1000

static double
milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static bool
finds_nearest(const GroupJoin *join)
{
	return join->problem.output == FASTED_OUTPUT_NEAREST;
}

static bool
self_join(const GroupJoin *join)
{
	return join->a == join->b;
}

/* Room for counts, where they are asked for. */
static bool
make_counts(GroupJoin *join)
{
	if (!fasted_counts_rows(&join->problem))
		return true;
	for (int side = 0; side < (self_join(join) ? 1 : 2); side++)
	{
		join->counts[side] = calloc(join->rows[side] + 1, sizeof(uint32_t));
		join->device_counts[side] = malloc((join->rows[side] + 1) * sizeof(uint32_t));
		if (join->counts[side] == NULL || join->device_counts[side] == NULL)
			return false;
	}
	return true;
}

static bool
has_lists(const GroupSet *set, int m)
{
	return (set->lists >> m & 1) != 0;
}

FastedStatus
group_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
				FastedSet *b, FastedJoin **result)
{
	Group	   *group = group_of(context);
	GroupJoin  *join;

	*result = NULL;
	if (group->failed != FASTED_OK)
		return group->failed;
	if (!problem->further)
		((GroupSet *) a)->lists = 0;
	join = calloc(1, sizeof(*join));
	if (join == NULL)
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory");
	join->group = group;
	join->problem = *problem;
	join->a = (GroupSet *) a;
	join->b = (GroupSet *) b;
	join->slices = problem->output == FASTED_OUTPUT_KEEPERS ? 1 : GROUP_SLICES;
	join->rows[0] = join->a->rows;
	join->rows[1] = join->b->rows;
	group->join = join;
	group->joined = true;
	if (!make_counts(join) || !tasks_open(join))
	{
		group_join_close((FastedJoin *) join);
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory for the rows' counts");
	}
	*result = (FastedJoin *) join;
	return FASTED_OK;
}

/*
 * How many slices to take at once: so that each device will take some twice more.  Those of
 * neighbours may have been for nothing, if the rows' order is another one, which is known
 * only then.
 */
static uint32_t
slices_at_once(const GroupJoin *join)
{
	uint32_t	left = join->slices - join->next_slice;
	uint32_t	even = left / (uint32_t) join->group->active;
	uint32_t	share = even / 2;

	/* for a millisecond at least, unless others would have nothing to do */
	if (join->slice_ms > 0 && share * join->slice_ms < TURN_MS)
		share = even * join->slice_ms < TURN_MS ? even : (uint32_t) (TURN_MS / join->slice_ms);
	if (finds_nearest(join) && share > GROUP_FEW_SLICES)
		share = GROUP_FEW_SLICES;
	return share > 0 ? share : 1;
}

/* The next slices for a device without one; false: there are none now. */
static bool
take_slice(GroupJoin *join, Turn *turn)
{
	turn->width = 1;
	if (join->nrests > 0)
	{
		SliceRest  *rest = &join->rests[--join->nrests];

		turn->slice = rest->slice;
		turn->width = rest->width;
	}
	else if (join->tasks != NULL)
	{
		if (!task_take(join, (int) (turn - join->turns)))
			return false;
	}
	else if (join->next_slice < join->slices)
	{
		turn->width = slices_at_once(join);
		turn->slice = join->next_slice;
		join->next_slice += turn->width;
	}
	else
		return false;
	turn->busy = true;
	return true;
}

static FastedStatus
begin_slice(GroupJoin *join, int m)
{
	Group	   *group = join->group;
	Turn	   *turn = &join->turns[m];
	FastedProblem problem = join->problem;
	uint32_t	outer = problem.slices > 0 ? problem.slices : 1;
	FastedSet  *sides[2] = {join->a->sets[m], join->b->sets[m]};

	group->base->join_close(turn->join);
	turn->join = NULL;
	/* slice i of n is these slices of n * join->slices */
	if (join->tasks == NULL)
	{
		problem.slice = join->problem.slice * join->slices + turn->slice;
		problem.slices = outer * join->slices;
		problem.more_slices = turn->width - 1;
		problem.further = turn->further || (finds_nearest(join) && problem.further);
	}
	else
	{
		FastedStatus status = task_sides(join, m, &problem, sides);

		if (status != FASTED_OK)
			return status;
	}
	group->base->stats(group->members[m].context, &turn->begun);
	turn->at_work = true;
	return group->base->join_open(group->members[m].context, &problem, sides[0], sides[1],
								  &turn->join);
}

/* Are the device's rows in the order of the first one that began? */
static bool
order_agrees(GroupJoin *join, int m)
{
	FastedStats stats;

	join->group->base->stats(join->group->members[m].context, &stats);
	if (!join->ordered)
	{
		join->ordered = true;
		join->order = stats.join_order;
		join->group->order_hash = fasted_mix_order(join->group->order_hash, join->order);
	}
	return stats.join_order == join->order;
}

/*
 * Its slice goes back; nothing of it has been handed out.  Lists of earlier panels stay; that they
 * have neighbours now of which others know is no harm.
 */
static void
step_aside(GroupJoin *join, int m)
{
	Turn	   *turn = &join->turns[m];

	join->rests[join->nrests++] = (SliceRest) {.slice = turn->slice,.width = turn->width};
	turn->busy = turn->at_work = false;
	turn->aside = true;
	if (finds_nearest(join) && has_lists(join->a, m))
		return;
	join->group->base->join_close(turn->join);
	turn->join = NULL;
}

/* Adds the counts of a device's slices, once all of them are there. */
static FastedStatus
add_counts(GroupJoin *join, int m)
{
	Turn	   *turn = &join->turns[m];

	for (int side = 0; side < 2 && join->counts[side] != NULL; side++)
	{
		FastedStatus status = join->group->base->counts(turn->join, side, 0, join->rows[side],
														join->device_counts[side]);

		if (status != FASTED_OK)
			return status;
	}
	for (int side = 0; side < 2 && join->counts[side] != NULL; side++)
	{
		for (uint64_t row = 0; row < join->rows[side]; row++)
			join->counts[side][row] += join->device_counts[side][row];
	}
	turn->has_counts = turn->further = false;
	return FASTED_OK;
}

/* When all slices are finished. */
static FastedStatus
add_all_counts(GroupJoin *join)
{
	for (int m = 0; m < join->group->nmembers; m++)
	{
		if (join->turns[m].has_counts && !group_check(join->group, m, add_counts(join, m)))
			return join->group->failed;
	}
	return FASTED_DONE;
}

/* A device's slice is done.  The join stays open: it has the counts of all slices so far. */
static void
end_slice(GroupJoin *join, int m)
{
	Group	   *group = join->group;
	Member	   *member = &group->members[m];
	Turn	   *turn = &join->turns[m];
	FastedStats now;

	group->base->stats(member->context, &now);
	join->slice_ms = (milliseconds() - turn->since) / turn->width;
	if (join->problem.output != FASTED_OUTPUT_PAIRS)
		join->pairs += now.pairs - turn->begun.pairs;
	if (join->tasks != NULL)
		task_end(join, m);
	else
		turn->has_counts = fasted_counts_rows(&join->problem);
	if (finds_nearest(join))
		join->a->lists |= UINT32_C(1) << m;
	turn->further = join->tasks == NULL && join->problem.output != FASTED_OUTPUT_PAIRS;
	turn->busy = turn->at_work = false;
	join->finished += turn->width;
	member->slices += turn->width;
}

/* After begin_slice.  FASTED_DONE: the device's rows are in another order. */
static FastedStatus
check_begin(GroupJoin *join, int m)
{
	Turn	   *turn = &join->turns[m];

	join->turned = turn->since = milliseconds();
	if (turn->begin != FASTED_OK || join->tasks != NULL || finds_nearest(join) ||
		order_agrees(join, m))
		return turn->begin;
	step_aside(join, m);
	return FASTED_DONE;
}

static void
begin_one(void *argument, int m)
{
	GroupJoin  *join = argument;

	join->turns[m].begin = begin_slice(join, m);
}

/* All devices begin their first slices. */
static FastedStatus
begin_all(GroupJoin *join)
{
	Group	   *group = join->group;
	uint32_t	devices = 0;

	join->begun = true;
	if (join->tasks != NULL)
		return FASTED_OK;
	for (int m = 0; m < group->nmembers; m++)
	{
		if (group_has(group, m) && take_slice(join, &join->turns[m]))
			devices |= UINT32_C(1) << m;
	}
	fasted_at_once(devices, begin_one, join);
	for (int m = 0; m < group->nmembers; m++)
	{
		if ((devices >> m & 1) != 0 && group_check(group, m, join->turns[m].begin))
			(void) check_begin(join, m);
	}
	return group->failed;
}

/* FASTED_OK: pairs; FASTED_AGAIN: none now; FASTED_DONE: nothing left to do; or a failure. */
static FastedStatus
look_at(GroupJoin *join, int m, int timeout_ms, FastedBatch *batch)
{
	Group	   *group = join->group;
	Turn	   *turn = &join->turns[m];
	FastedStatus status = FASTED_OK;

	if (!group_has(group, m) || turn->aside || (!turn->busy && !take_slice(join, turn)))
		return FASTED_DONE;
	if (!turn->at_work)
	{
		turn->begin = begin_slice(join, m);
		status = check_begin(join, m);
	}
	if (status == FASTED_DONE)
		return FASTED_DONE;
	if (status == FASTED_OK)
		status = group->base->next(turn->join, timeout_ms, batch);
	/* neighbours: rows are in their order only now, and nothing is handed out before */
	if (status == FASTED_DONE && finds_nearest(join) && !order_agrees(join, m))
	{
		step_aside(join, m);
		return FASTED_DONE;
	}
	if (status == FASTED_DONE && join->tasks != NULL && join->counts[0] != NULL)
	{
		FastedStatus counted = task_add_counts(join, m);

		status = counted == FASTED_OK ? FASTED_DONE : counted;
	}
	if (status == FASTED_DONE)
	{
		end_slice(join, m);
		status = FASTED_AGAIN;
	}
	/* unless the group itself failed, while it prepared the slice */
	if (group->failed != FASTED_OK || !group_check(group, m, status))
		return group->failed;
	if (status == FASTED_OK && join->problem.output == FASTED_OUTPUT_PAIRS)
		join->pairs += batch->npairs;
	return status;
}

/* Looks at each device once, at first at another one than last time. */
static FastedStatus
look_at_all(GroupJoin *join, int timeout_ms, FastedBatch *batch)
{
	int			n = join->group->nmembers;
	int			first = join->look_first;
	int			rests = join->nrests;
	bool		works = false;

	for (int i = 0; i < n; i++)
	{
		int			m = (first + i) % n;
		FastedStatus status = look_at(join, m, timeout_ms, batch);

		works = works || status != FASTED_DONE;
		if (status == FASTED_OK)
			join->look_first = (m + 1) % n;
		if (status == FASTED_OK || FASTED_FAILED(status))
			return status;
	}
	if (join->finished == join->slices)
		return add_all_counts(join);
	/* an error rather than a loop without end */
	return works || join->nrests > rests ? FASTED_AGAIN
		: group_fail(join->group, FASTED_INTERNAL, "no GPU can do the rest of the join");
}

FastedStatus
group_next(FastedJoin *handle, int timeout_ms, FastedBatch *batch)
{
	GroupJoin  *join = (GroupJoin *) handle;
	Group	   *group = join->group;
	double		end = milliseconds() + timeout_ms;
	struct timespec rest = {.tv_nsec = LOOK_NS};

	memset(batch, 0, sizeof(*batch));
	if (group->failed == FASTED_OK && !join->begun)
		(void) begin_all(join);
	if (group->failed != FASTED_OK)
		return group->failed;
	for (;;)
	{
		/* one device alone needs no turns */
		int			wait = group->active == 1 ? timeout_ms : 0;
		FastedStatus status = look_at_all(join, wait, batch);
		double		now = milliseconds();

		if (status != FASTED_AGAIN || now >= end)
			return status;
		if (wait == 0 && now - join->turned > LOOK_AT_ONCE_MS)
			nanosleep(&rest, NULL);
	}
}

void
group_pause(FastedJoin *handle)
{
	GroupJoin  *join = (GroupJoin *) handle;

	for (int m = 0; m < join->group->nmembers; m++)
	{
		if (join->turns[m].at_work && join->group->failed == FASTED_OK)
			join->group->base->pause(join->turns[m].join);
	}
}

FastedStatus
group_counts(FastedJoin *handle, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	GroupJoin  *join = (GroupJoin *) handle;

	if (join->group->failed != FASTED_OK)
		return join->group->failed;
	if (join->counts[side] == NULL || first_row > join->rows[side] ||
		nrows > join->rows[side] - first_row)
		return group_fail(join->group, FASTED_INTERNAL, "counts of rows that are not there");
	memcpy(counts, join->counts[side] + first_row, nrows * sizeof(uint32_t));
	return FASTED_OK;
}

void
group_join_stats(const GroupJoin *join, FastedStats *stats)
{
	double		done = SLICE_UNITS * (double) join->finished;

	stats->pairs += join->pairs;
	for (int m = 0; m < join->group->nmembers; m++)
	{
		const Turn *turn = &join->turns[m];
		FastedStats now;
		double		total;

		if (!turn->at_work)
			continue;
		join->group->base->stats(join->group->members[m].context, &now);
		total = (double) (now.units_total - turn->begun.units_total);
		if (total > 0)
			done += SLICE_UNITS * turn->width * (double) (now.units_done - turn->begun.units_done) / total;
		if (join->problem.output != FASTED_OUTPUT_PAIRS)
			stats->pairs += now.pairs - turn->begun.pairs;
	}
	stats->units_total += SLICE_UNITS * join->slices;
	stats->units_done += (uint64_t) done;
}

/* The group keeps what the join came to. */
void
group_join_close(FastedJoin *handle)
{
	GroupJoin  *join = (GroupJoin *) handle;
	FastedStats sums = {0};
	Group	   *group;

	if (join == NULL)
		return;
	group = join->group;
	group_join_stats(join, &sums);
	group->pairs += sums.pairs;
	group->units_done += sums.units_done;
	group->units_total += sums.units_total;
	for (int m = 0; m < group->nmembers; m++)
	{
		if (join->turns[m].join != NULL)
			group->base->join_close(join->turns[m].join);
		free(join->turns[m].groups);
	}
	tasks_close(join);
	free(join->lists.merged);
	for (int side = 0; side < 2; side++)
	{
		free(join->counts[side]);
		free(join->device_counts[side]);
	}
	group->join = NULL;
	free(join);
}
