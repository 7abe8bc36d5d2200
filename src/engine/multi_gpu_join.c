/*-------------------------------------------------------------------------
 *
 * multi_gpu_join.c
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
 * A spread set with another one: each device joins its parts with that.  With itself: each
 * two parts are a task, which a device can do that has one of them; it copies the other one
 * from the device that has it, and does with this guest what nobody has begun.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "multi_gpu.h"
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

/* --- tasks: joins of the parts of a spread set */

/* So many parts j there are for each i. */
static int
others(const Tasks *tasks)
{
	return tasks->self ? tasks->set->spread->nparts : 1;
}

/* Which side of the join the spread set is, if the other one is not. */
static int
spread_side(const GroupJoin *join)
{
	return join->a->spread != NULL ? 0 : 1;
}

/* Returns false if memory ran out. */
static bool
tasks_open(GroupJoin *join)
{
	GroupSet   *set = join->a->spread != NULL ? join->a : join->b;
	Tasks	   *tasks;

	if (set->spread == NULL)
		return true;
	tasks = join->tasks = calloc(1, sizeof(Tasks));
	if (tasks == NULL)
		return false;
	tasks->set = set;
	tasks->self = join->a == join->b;
	join->slices = 0;
	for (int i = 0; i < set->spread->nparts; i++)
	{
		for (int j = tasks->self ? i : 0; j < others(tasks); j++)
		{
			if (set->spread->parts[i].rows == 0 || (tasks->self && set->spread->parts[j].rows == 0))
				continue;
			tasks->open[i][j] = true;
			join->slices++;
		}
	}
	return true;
}

static bool
has_part(const Tasks *tasks, int m, int i)
{
	return tasks->set->spread->parts[i].member == m;
}

/* How near a device is to doing it: the parts are there, one is a guest, or would be one. */
typedef enum Distance
{
	AT_HOME,
	WITH_GUEST,
	WITH_NEW_GUEST,
	NOT_HERE
} Distance;

static Distance
distance(const Tasks *tasks, int m, int i, int j)
{
	const SpreadGuest *guest = &tasks->set->spread->guests[m];
	bool		has_i = has_part(tasks, m, i);
	bool		has_j = has_part(tasks, m, j);

	if (has_i && (has_j || !tasks->self))
		return AT_HOME;
	if (!tasks->self)
		return NOT_HERE;		/* a guest is for joins of the set with itself */
	if (!has_i && !has_j)
		return NOT_HERE;
	return guest->part == (has_i ? j : i) ? WITH_GUEST : WITH_NEW_GUEST;
}

/* The guest is another part. */
static void
invite(Tasks *tasks, int m, int part)
{
	SpreadGuest *guest = &tasks->set->spread->guests[m];

	guest->part = part;
	guest->begun = guest->sealed = false;
	guest->have = 0;
}

/* The next task for a device without one.  Returns false if there is none now. */
static bool
task_take(GroupJoin *join, int m)
{
	Tasks	   *tasks = join->tasks;
	Turn	   *turn = &join->turns[m];
	int			n = tasks->set->spread->nparts;
	Distance	best = NOT_HERE;

	/* devices begin at different parts, so that their guests differ */
	for (int k = 0; k < n && best != AT_HOME; k++)
	{
		int			i = (k + m * SPREAD_PARTS) % n;

		for (int j = 0; j < others(tasks) && best != AT_HOME; j++)
		{
			if (tasks->open[i][j] && distance(tasks, m, i, j) < best)
			{
				best = distance(tasks, m, i, j);
				turn->i = i;
				turn->j = j;
			}
		}
	}
	if (best == NOT_HERE)
		return false;
	if (best == WITH_NEW_GUEST)
		invite(tasks, m, has_part(tasks, m, turn->i) ? turn->j : turn->i);
	tasks->open[turn->i][turn->j] = false;
	return true;
}

/* The set of a part on this device, its own or its guest. */
static FastedSet *
set_here(const Tasks *tasks, int m, int part)
{
	const Spread *spread = tasks->set->spread;

	return has_part(tasks, m, part) ? spread->parts[part].set : spread->guests[m].set;
}

/* Places that are in a part, as places in it. */
static void
clip(uint32_t *first, uint32_t *rows, const SpreadPart *part)
{
	uint64_t	low = *first > part->first ? *first - part->first : 0;
	uint64_t	end = (uint64_t) *first + *rows > part->first ? *first + (uint64_t) *rows - part->first : 0;

	*first = (uint32_t) (low < part->rows ? low : part->rows);
	*rows = (uint32_t) (end < part->rows ? end : part->rows) - *first;
}

/* The parts that are side a and side b; NULL: the whole other set is. */
static void
find_parts(const GroupJoin *join, const Turn *turn, const SpreadPart **parts)
{
	const SpreadPart *all = join->tasks->set->spread->parts;

	parts[0] = parts[1] = NULL;
	if (join->tasks->self)
	{
		parts[0] = &all[turn->i];
		parts[1] = &all[turn->j];
	}
	else
		parts[spread_side(join)] = &all[turn->i];
}

/* Row groups, as they are in these parts: all are there, also those without rows. */
static FastedStatus
clip_groups(GroupJoin *join, Turn *turn, FastedProblem *problem)
{
	const SpreadPart *parts[2];

	if (problem->groups == NULL)
		return FASTED_OK;
	if (turn->groups == NULL)
		turn->groups = malloc(((size_t) problem->ngroups + 1) * sizeof(FastedRowGroup));
	if (turn->groups == NULL)
		return group_fail(join->group, FASTED_OUT_OF_MEMORY, "out of memory for groups of rows");
	find_parts(join, turn, parts);
	for (uint32_t g = 0; g < problem->ngroups; g++)
	{
		turn->groups[g] = problem->groups[g];
		if (parts[0] != NULL)
			clip(&turn->groups[g].first_a, &turn->groups[g].rows_a, parts[0]);
		if (parts[1] != NULL)
			clip(&turn->groups[g].first_b, &turn->groups[g].rows_b, parts[1]);
	}
	problem->groups = turn->groups;
	return FASTED_OK;
}

/* The task's two sets on that device, and their groups, when its guest is there: see spread_fill_guest. */
static FastedStatus
task_sides(GroupJoin *join, int m, FastedProblem *problem, FastedSet **sides)
{
	Tasks	   *tasks = join->tasks;
	Turn	   *turn = &join->turns[m];

	if (tasks->self && (!has_part(tasks, m, turn->i) || !has_part(tasks, m, turn->j)))
	{
		FastedStatus status = spread_fill_guest(tasks->set, m);

		if (status != FASTED_OK)
			return status;
	}
	if (tasks->self)
	{
		sides[0] = set_here(tasks, m, turn->i);
		sides[1] = set_here(tasks, m, turn->j);
	}
	else
		sides[spread_side(join)] = tasks->set->spread->parts[turn->i].set;
	return clip_groups(join, turn, problem);
}

/* All of them are there before any is added. */
static FastedStatus
task_add_counts(GroupJoin *join, int m)
{
	const Turn *turn = &join->turns[m];
	const SpreadPart *parts[2];
	uint32_t   *some[2] = {join->device_counts[0], join->device_counts[1]};
	uint64_t	first[2] = {0, 0};
	uint64_t	rows[2] = {join->rows[0], join->rows[1]};
	int			sides = join->tasks->self && turn->i == turn->j ? 1 : 2;

	find_parts(join, turn, parts);
	for (int side = 0; side < sides; side++)
	{
		FastedStatus status;

		if (parts[side] != NULL)
		{
			first[side] = parts[side]->first;
			rows[side] = parts[side]->rows;
		}
		if (side == 1 && join->tasks->self)
			some[1] = some[0] + rows[0];
		status = join->group->base->counts(turn->join, side, 0, rows[side], some[side]);
		if (status != FASTED_OK)
			return status;
	}
	for (int side = 0; side < sides; side++)
	{
		uint32_t   *total = join->counts[join->tasks->self ? 0 : side] + first[side];

		for (uint64_t row = 0; row < rows[side]; row++)
			total[row] += some[side][row];
	}
	return FASTED_OK;
}

/* --- slices */

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
	if (join->tasks == NULL)
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
	for_each_member(m, group)
	{
		if (take_slice(join, &join->turns[m]))
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

	if (!group->members[m].takes_part || turn->aside || (!turn->busy && !take_slice(join, turn)))
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
	free(join->tasks);
	free(join->lists.merged);
	for (int side = 0; side < 2; side++)
	{
		free(join->counts[side]);
		free(join->device_counts[side]);
	}
	group->join = NULL;
	free(join);
}
