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
 * Slices are parts of one whole if rows are in the same order on all devices, as they are on
 * devices that are alike.  Each tells a hash of its order, and if two differ the join fails.
 *
 * A device counts each row's pairs in all of its slices together, and its counts are added
 * when they are asked for: to fetch them after each slice would keep all devices waiting.  So
 * it is with lists of neighbours, which stay on the devices until they are asked for.
 *
 * A spread set with another one: each device joins its parts with that.  With itself: each
 * two parts are a task, which a device can do that has one of them; it copies the other one
 * from the device that has it, and does with this guest what nobody has begun.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_device.h"
#include "multi_gpu.h"

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

/* Rows that are copied from device to device between two looks at all of them, in bytes. */
#define COPY_BYTES ((uint64_t) 256 << 20)

/* Lists that are merged at a time: a device takes a millisecond or a few. */
#define WINDOW_BYTES ((uint64_t) 64 << 20)

/*
 * Slices of a join, whatever the number of devices: other processes, which have slices of their
 * own, may have fewer.  A device takes several in a row, the fewer the fewer are left.  Of nearest
 * rows the first slices take longest, so that it takes fewer.
 */
#define GROUP_SLICES 1024
#define GROUP_FEW_SLICES 32

/* What a device is at. */
typedef struct Turn
{
	bool		busy;			/* it has slices or a task */
	bool		at_work;		/* on them: join is of them */
	uint32_t	slice;			/* the first one */
	uint32_t	width;			/* so many */
	double		since;			/* when it began with them, milliseconds */
	FastedJoin *join;			/* of these slices or the last ones; NULL: there were none */
	FastedStats begun;			/* the device's sums when it began */
	const SetPart *parts[2];	/* of a and b */
	FastedRowGroup *groups;		/* of rows, as they are in the parts of a task */
} Turn;

struct GroupJoin
{
	Group	   *group;
	FastedProblem problem;
	GroupSet   *a;
	GroupSet   *b;
	GroupSet   *spread;			/* a or b, of whose parts there are tasks; NULL: there are slices */
	uint32_t	slices;			/* or tasks */
	bool		begun;			/* devices have begun, all at once */
	uint64_t	order;			/* of the rows, once a slice is finished */
	Turn		turns[FASTED_GROUP_MOST];
	int			look_first;		/* at this device */
	double		turned;			/* when slices began last: milliseconds */
	double		slice_ms;		/* what one took a device; 0: that is not known yet */
	uint32_t	next_slice;		/* that nobody had yet */
	bool		open[SPREAD_MOST][SPREAD_MOST]; /* tasks of parts i <= j, or of i and all of the other set */
	uint32_t	finished;
	uint64_t	pairs;			/* of finished slices, or handed out */
	uint64_t	rows[2];
	uint32_t   *counts[2];		/* of tasks that are finished, or of all slices */
	bool		counted;		/* all slices */

	/* Neighbours, once they are asked for. */
	bool		sorted;			/* devices have their lists ready */
	bool		on_host;		/* lists are merged here, when they are handed out */
	uint64_t	window;			/* one device has the merged lists of this window, counted from 1 */
};

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

/* --- tasks: joins of the parts of a spread set */

static void
open_tasks(GroupJoin *join)
{
	const SetPart *parts = join->spread->parts;
	int			n = parts_of(join->spread);

	join->slices = 0;
	for (int i = 0; i < n; i++)
	{
		for (int j = self_join(join) ? i : 0; j < (self_join(join) ? n : 1); j++)
		{
			join->open[i][j] = parts[i].rows > 0 && (!self_join(join) || parts[j].rows > 0);
			join->slices += join->open[i][j];
		}
	}
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
distance(const GroupJoin *join, int m, int i, int j)
{
	const SetPart *parts = join->spread->parts;
	bool		has_i = parts[i].member == m;
	bool		has_j = !self_join(join) || parts[j].member == m;

	if (has_i && has_j)
		return AT_HOME;
	if (!self_join(join) || (!has_i && !has_j))
		return NOT_HERE;		/* a guest is for joins of the set with itself */
	return join->spread->guests[m].part == &parts[has_i ? j : i] ? WITH_GUEST : WITH_NEW_GUEST;
}

/* The next task for a device without one.  Returns false if there is none now. */
static bool
take_task(GroupJoin *join, int m)
{
	const SetPart *parts = join->spread->parts;
	Turn	   *turn = &join->turns[m];
	int			n = parts_of(join->spread);
	Distance	best = NOT_HERE;
	int			best_i = 0;
	int			best_j = 0;

	/* devices begin at different parts, so that their guests differ */
	for (int k = 0; k < n && best != AT_HOME; k++)
	{
		int			i = (k + m * FASTED_SPREAD_PARTS) % n;

		for (int j = 0; j < (self_join(join) ? n : 1) && best != AT_HOME; j++)
		{
			if (join->open[i][j] && distance(join, m, i, j) < best)
			{
				best = distance(join, m, i, j);
				best_i = i;
				best_j = j;
			}
		}
	}
	if (best == NOT_HERE)
		return false;
	join->open[best_i][best_j] = false;
	turn->parts[join->spread == join->a ? 0 : 1] = &parts[best_i];
	if (self_join(join))
		turn->parts[1] = &parts[best_j];
	if (best == WITH_NEW_GUEST)
		join->spread->guests[m] = (SpreadGuest) {
			.set = join->spread->guests[m].set,
			.part = turn->parts[turn->parts[0]->member == m ? 1 : 0]
		};
	return true;
}

/* One more step in copying the guest of a device.  FASTED_OK: it is there; FASTED_AGAIN; a failure. */
static FastedStatus
fill_guest(GroupSet *set, int m)
{
	const FastedEngine *base = set->group->base;
	SpreadGuest *guest = &set->guests[m];
	uint64_t	most = COPY_BYTES / (set->group->row_floats * sizeof(float)) + 1;
	uint64_t	left = guest->part->rows - guest->have;
	size_t		count = left < most ? left : most;
	FastedStatus status = FASTED_OK;

	if (left == 0)
		return FASTED_OK;
	if (guest->have == 0)
		status = base->set_reset(guest->set, set->first_row + guest->part->first);
	if (status == FASTED_OK)
		status = base->copy_rows(guest->set, guest->part->set, guest->have, count);
	if (status == FASTED_OK)
		status = base->settle(guest->set, true);
	guest->have += count;
	if (status != FASTED_OK || count < left)
		return status == FASTED_OK ? FASTED_AGAIN : status;
	return base->seal(guest->set);
}

/* A device's two sets for its task, and the groups of rows there, when its guest is there. */
static FastedStatus
task_sides(GroupJoin *join, int m, FastedProblem *problem, FastedSet **sides)
{
	Turn	   *turn = &join->turns[m];
	uint64_t	first[2];
	uint64_t	rows[2];

	for (int side = 0; side < 2; side++)
	{
		const SetPart *part = turn->parts[side];
		bool		here = part->member == m;
		FastedStatus status = here ? FASTED_OK : fill_guest(join->spread, m);

		if (status != FASTED_OK)
			return status;
		sides[side] = here ? part->set : join->spread->guests[m].set;
		first[side] = part->first;
		rows[side] = part->rows;
	}
	if (problem->groups == NULL)
		return FASTED_OK;
	if (turn->groups == NULL)
		turn->groups = malloc(((size_t) problem->ngroups + 1) * sizeof(FastedRowGroup));
	if (turn->groups == NULL)
		return group_fail(join->group, FASTED_OUT_OF_MEMORY, "out of memory for groups of rows");
	fasted_clip_groups(problem->groups, problem->ngroups, first, rows, turn->groups);
	problem->groups = turn->groups;
	return FASTED_OK;
}

/* --- slices */

static uint64_t
rows_of(const GroupSet *set)
{
	uint64_t	rows = 0;

	for (int i = 0; i < parts_of(set); i++)
	{
		if (set->parts[i].rows > 0 && rows < set->parts[i].first + set->parts[i].rows)
			rows = set->parts[i].first + set->parts[i].rows;
	}
	return rows;
}

FastedStatus
group_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
				FastedSet *b, FastedJoin **result)
{
	Group	   *group = group_of(context);
	GroupJoin  *join = calloc(1, sizeof(*join));

	*result = (FastedJoin *) join;
	if (join == NULL)
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory");
	join->group = group;
	join->problem = *problem;
	join->a = (GroupSet *) a;
	join->b = (GroupSet *) b;
	join->spread = join->a->spread ? join->a : join->b->spread ? join->b : NULL;
	join->slices = problem->output == FASTED_OUTPUT_KEEPERS ? 1 : GROUP_SLICES;
	if (join->spread != NULL)
		open_tasks(join);
	for (int m = 0; m < group->nmembers; m++)
	{
		join->turns[m].parts[0] = &join->a->parts[m];
		join->turns[m].parts[1] = &join->b->parts[m];
	}
	join->rows[0] = rows_of(join->a);
	join->rows[1] = rows_of(join->b);
	group->join = join;
	group->bound = true;
	for (int side = 0; side < (self_join(join) ? 1 : 2) && fasted_counts_rows(problem); side++)
	{
		join->counts[side] = calloc(join->rows[side] + 1, sizeof(uint32_t));
		if (join->counts[side] != NULL)
			continue;
		*result = NULL;
		group_join_close((FastedJoin *) join);
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory for the rows' counts");
	}
	return FASTED_OK;
}

/* How many slices to take at once: so that each device will take some twice more. */
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

/* The next slices or the next task for a device without; false: there are none now. */
static bool
take_slices(GroupJoin *join, int m)
{
	Turn	   *turn = &join->turns[m];

	turn->width = 1;
	if (join->spread != NULL)
		turn->busy = take_task(join, m);
	else if (join->next_slice < join->slices)
	{
		turn->width = slices_at_once(join);
		turn->slice = join->next_slice;
		join->next_slice += turn->width;
		turn->busy = true;
	}
	return turn->busy;
}

/* FASTED_AGAIN: the device's guest is not complete. */
static FastedStatus
begin_slices(GroupJoin *join, int m)
{
	const FastedEngine *base = join->group->base;
	FastedContext *context = join->group->members[m].context;
	Turn	   *turn = &join->turns[m];
	FastedProblem problem = join->problem;
	FastedSet  *sides[2] = {turn->parts[0]->set, turn->parts[1]->set};
	bool		first = turn->join == NULL;
	FastedStatus status;

	base->join_close(turn->join);
	turn->join = NULL;
	if (join->spread != NULL)
	{
		status = task_sides(join, m, &problem, sides);
		if (status != FASTED_OK)
			return status;
	}
	else
	{
		/* slice i of n is these slices of n * join->slices */
		problem.slices = (problem.slices > 0 ? problem.slices : 1) * join->slices;
		problem.slice = problem.slice * join->slices + turn->slice;
		problem.more_slices = turn->width - 1;
		problem.further = first ? finds_nearest(join) && problem.further
			: problem.output != FASTED_OUTPUT_PAIRS;
	}
	base->stats(context, &turn->begun);
	turn->at_work = true;
	status = base->join_open(context, &problem, sides[0], sides[1], &turn->join);
	turn->since = milliseconds();
	return status;
}

/* Adds what a device counted in its task, or in all of its slices, to the counts of all rows. */
static FastedStatus
add_counts(GroupJoin *join, int m)
{
	const Turn *turn = &join->turns[m];
	FastedStatus status = FASTED_OK;

	for (int side = 0; side < 2 && join->counts[0] != NULL && status == FASTED_OK; side++)
	{
		const SetPart *part = turn->parts[side];

		if (side == 0 || part != turn->parts[0])
			status = fasted_add_counts(join->group->base, turn->join, side, part->rows,
									   join->counts[self_join(join) ? 0 : side] + part->first);
	}
	return status;
}

/*
 * A device's slices are done.  The join stays open: it has the counts of all slices so far.
 * Returns FASTED_AGAIN or a failure.
 */
static FastedStatus
end_slices(GroupJoin *join, int m)
{
	Group	   *group = join->group;
	Member	   *member = &group->members[m];
	Turn	   *turn = &join->turns[m];
	FastedStats now;

	group->base->stats(member->context, &now);
	if (join->spread != NULL)
	{
		FastedStatus status = add_counts(join, m);

		if (status != FASTED_OK)
			return status;
	}
	else if (join->finished == 0)
	{
		join->order = now.join_order;
		group->order_hash = fasted_mix_order(group->order_hash, join->order);
	}
	else if (now.join_order != join->order)
		return group_fail(group, FASTED_INTERNAL, "%s has put its rows in another order than another GPU",
						  member->name);
	join->slice_ms = (milliseconds() - turn->since) / turn->width;
	if (join->problem.output != FASTED_OUTPUT_PAIRS)
		join->pairs += now.pairs - turn->begun.pairs;
	turn->busy = turn->at_work = false;
	join->finished += turn->width;
	member->slices += turn->width;
	return FASTED_AGAIN;
}

static FastedStatus
begin_member(Group *group, int m, void *argument)
{
	GroupJoin  *join = argument;

	(void) group;
	return join->turns[m].busy ? begin_slices(join, m) : FASTED_OK;
}

/* All devices begin their first slices. */
static FastedStatus
begin_all(GroupJoin *join)
{
	join->begun = true;
	if (join->spread != NULL)
		return FASTED_OK;
	for_each_member(m, join->group)
		(void) take_slices(join, m);
	(void) group_at_once(join->group, begin_member, join);
	join->turned = milliseconds();
	return join->group->failed;
}

/* FASTED_OK: pairs; FASTED_AGAIN: none now; FASTED_DONE: nothing left to do; or a failure. */
static FastedStatus
look_at(GroupJoin *join, int m, int timeout_ms, FastedBatch *batch)
{
	Group	   *group = join->group;
	Turn	   *turn = &join->turns[m];
	FastedStatus status = FASTED_OK;

	if (!turn->busy && !take_slices(join, m))
		return FASTED_DONE;
	if (!turn->at_work)
	{
		status = begin_slices(join, m);
		join->turned = milliseconds();
	}
	if (status == FASTED_OK)
		status = group->base->next(turn->join, timeout_ms, batch);
	if (status == FASTED_DONE)
		status = end_slices(join, m);
	if (!group_check(group, m, status))
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

	for (int i = 0; i < n; i++)
	{
		int			m = (first + i) % n;
		FastedStatus status = FASTED_DONE;

		if (join->group->members[m].takes_part)
			status = look_at(join, m, timeout_ms, batch);
		if (status == FASTED_OK)
			join->look_first = (m + 1) % n;
		if (status == FASTED_OK || FASTED_FAILED(status))
			return status;
	}
	return join->finished == join->slices ? FASTED_DONE : FASTED_AGAIN;
}

FastedStatus
group_next(FastedJoin *handle, int timeout_ms, FastedBatch *batch)
{
	GroupJoin  *join = (GroupJoin *) handle;
	double		end = milliseconds() + timeout_ms;
	struct timespec rest = {.tv_nsec = LOOK_NS};

	memset(batch, 0, sizeof(*batch));
	if (!join->begun && begin_all(join) != FASTED_OK)
		return join->group->failed;
	for (;;)
	{
		/* one device alone needs no turns */
		int			wait = join->group->active == 1 ? timeout_ms : 0;
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

	for (int m = 0; m < join->group->nmembers && join->spread == NULL && !join->counted; m++)
	{
		if (join->turns[m].join != NULL && !group_check(join->group, m, add_counts(join, m)))
			return join->group->failed;
	}
	join->counted = true;
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
		group->base->join_close(join->turns[m].join);
		free(join->turns[m].groups);
	}
	free(join->counts[0]);
	free(join->counts[1]);
	group->join = NULL;
	free(join);
}

/*
 * --- the nearest rows that several devices found, each in slices of its own
 *
 * Each device has lists for all rows: the nearest of the pairs in its slices, of which each has
 * some before any of them has more.  A pair is in one slice, so what is first in all lists of a
 * row together is its list.
 *
 * Devices take turns in merging: of some thousand rows, a window, one of them adds what the others
 * have to its own lists, from which the rows' neighbours are read then.  What a device can't merge
 * is merged here.
 */

/* Without a branch, which could not be foretold. */
static bool
comes_before(const FastedNeighbor *x, const FastedNeighbor *y)
{
	return (x->dist < y->dist) | ((x->dist == y->dist) & (x->row < y->row));
}

/* The first k of two lists, in the place of the first one; how many they are. */
static uint32_t
merge(FastedNeighbor *list, uint32_t length, const FastedNeighbor *other, uint32_t other_length,
	  uint32_t k, FastedNeighbor *merged)
{
	uint32_t	i = 0;
	uint32_t	j = 0;
	uint32_t	count = 0;

	/* often none of the other ones is near enough */
	if (length == k && other_length > 0 && comes_before(&list[k - 1], &other[0]))
		return length;
	while (count < k && i < length && j < other_length)
	{
		bool		take = comes_before(&list[i], &other[j]);
		bool		other_comes = comes_before(&other[j], &list[i]);

		/* what is in both comes once */
		merged[count++] = *(other_comes ? &other[j] : &list[i]);
		i += !other_comes;
		j += !take;
	}
	while (count < k && i < length)
		merged[count++] = list[i++];
	while (count < k && j < other_length)
		merged[count++] = other[j++];
	memcpy(list, merged, count * sizeof(*list));
	return count;
}

static FastedStatus
ask(const GroupJoin *join, int m, uint64_t first_row, size_t nrows, uint32_t *lengths,
	FastedNeighbor *neighbors)
{
	(void) group_check(join->group, m, join->group->base->nearest(join->turns[m].join, first_row,
																  nrows, lengths, neighbors));
	return join->group->failed;
}

/* Merges the lists of these rows here. */
static FastedStatus
merge_here(const GroupJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
		   FastedNeighbor *neighbors)
{
	Group	   *group = join->group;
	uint32_t	k = join->problem.k;
	uint32_t   *other_lengths = malloc((nrows + 1) * sizeof(uint32_t));
	FastedNeighbor *others = malloc((nrows + 1) * k * sizeof(FastedNeighbor));
	int			first = next_member(group, 0);

	if (other_lengths == NULL || others == NULL)
		group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory for the rows' neighbors");
	else
		(void) ask(join, first, first_row, nrows, lengths, neighbors);
	for (int m = next_member(group, first + 1); m < group->nmembers && group->failed == FASTED_OK;
		 m = next_member(group, m + 1))
	{
		if (ask(join, m, first_row, nrows, other_lengths, others) != FASTED_OK)
			break;
		for (size_t row = 0; row < nrows; row++)
			lengths[row] = merge(neighbors + row * k, lengths[row], others + row * k,
								 other_lengths[row], k, others + nrows * k);
	}
	free(other_lengths);
	free(others);
	return group->failed;
}

/* The device that has the lists of a window, or has them now; on_host: it can't. */
static int
merge_there(GroupJoin *join, uint64_t window, uint64_t first, size_t nrows)
{
	Group	   *group = join->group;
	int			owner = next_member(group, 0);
	FastedStatus status = FASTED_OK;

	for (uint64_t turn = window % (uint64_t) group->active; turn > 0; turn--)
		owner = next_member(group, owner + 1);
	if (join->window == window + 1)
		return owner;
	for_each_member(m, group)
	{
		if (m != owner && status == FASTED_OK)
			status = group->base->add_lists(join->turns[owner].join, join->turns[m].join, first, nrows);
	}
	(void) group_check(group, owner, status);
	join->on_host = status == FASTED_FULL;
	join->window = window + 1;
	return owner;
}

FastedStatus
group_nearest(FastedJoin *handle, uint64_t first_row, size_t nrows, uint32_t *lengths,
			  FastedNeighbor *neighbors)
{
	GroupJoin  *join = (GroupJoin *) handle;
	Group	   *group = join->group;
	uint64_t	row_bytes = join->problem.k * sizeof(FastedNeighbor);
	uint64_t	window_rows = row_bytes < WINDOW_BYTES ? WINDOW_BYTES / row_bytes : 1;

	if (first_row > join->rows[0] || nrows > join->rows[0] - first_row)
		return group_fail(group, FASTED_INTERNAL, "neighbors of rows that are not there");
	for_each_member(m, group)
	{
		if (!join->sorted && ask(join, m, 0, 0, NULL, NULL) != FASTED_OK)
			return group->failed;
	}
	join->sorted = true;
	join->on_host = join->on_host || group->base->add_lists == NULL;
	while (nrows > 0 && group->failed == FASTED_OK && !join->on_host)
	{
		uint64_t	first = first_row - first_row % window_rows;
		uint64_t	end = first + window_rows < join->rows[0] ? first + window_rows : join->rows[0];
		size_t		some = nrows < end - first_row ? nrows : end - first_row;
		int			owner = merge_there(join, first / window_rows, first, end - first);

		if (group->failed != FASTED_OK || join->on_host ||
			ask(join, owner, first_row, some, lengths, neighbors) != FASTED_OK)
			break;
		first_row += some;
		nrows -= some;
		lengths += some;
		neighbors += some * join->problem.k;
	}
	if (group->failed == FASTED_OK && join->on_host)
		return merge_here(join, first_row, nrows, lengths, neighbors);
	return group->failed;
}
