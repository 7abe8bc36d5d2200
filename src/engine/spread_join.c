/*-------------------------------------------------------------------------
 *
 * spread_join.c
 *	  Deals the parts of a spread set to devices.
 *
 * A spread set with another one: each device joins its parts with that.  With itself: each
 * two parts are a task, which a device can do that has one of them; it copies the other one
 * from the device that has it, and does with this guest what nobody has begun.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "group_join.h"

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

bool
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
			tasks->state[i][j] = TASK_OPEN;
			join->slices++;
		}
	}
	return true;
}

void
tasks_close(GroupJoin *join)
{
	free(join->tasks);
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

bool
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
			if (tasks->state[i][j] == TASK_OPEN && distance(tasks, m, i, j) < best)
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
	tasks->state[turn->i][turn->j] = TASK_TAKEN;
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

FastedStatus
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
FastedStatus
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

void
task_end(GroupJoin *join, int m)
{
	join->tasks->state[join->turns[m].i][join->turns[m].j] = TASK_OVER;
}
