/*-------------------------------------------------------------------------
 *
 * multi_gpu.c
 *	  An engine that divides each join among several devices of another engine: a context for
 *	  each device, and each set on all of them, or in parts.
 *
 * Each device takes all rows of a set itself, from lent memory or from the staging buffer
 * of the first device.  A join is cut into slices, which the devices take in turn: a slower
 * device does fewer.  Devices must find the same slices, so they must be alike (engine.h,
 * "devices").  If a call fails on one device, so does the group, with an error that names the
 * device.
 *
 * Where not all rows fit, a set may be spread: each device has some parts of it, sets of their
 * own, and room for one part more: a guest, which it copies from another device to join with
 * its own parts.  The devices take joins of parts in turn.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "multi_gpu.h"

static const FastedEngine *base_engine;
static const char open_error[] = "out of memory";

FastedStatus
group_fail(Group *group, FastedStatus status, const char *format,...)
{
	va_list		arguments;

	group->failed = status;
	va_start(arguments, format);
	vsnprintf(group->error, sizeof(group->error), format, arguments);
	va_end(arguments);
	return status;
}

bool
group_check(Group *group, int m, FastedStatus status)
{
	const Member *member = &group->members[m];

	if (FASTED_FAILED(status) && group->failed == FASTED_OK)
		group_fail(group, status, "%s: %s", member->name, group->base->last_error(member->context));
	return !FASTED_FAILED(status);
}

/* --- calls of all members at the same time */

typedef struct Errand
{
	Group	   *group;
	int			m;
	MemberCall	call;
	void	   *argument;
	bool		away;			/* in a thread */
	pthread_t	thread;
} Errand;

static void *
run_errand(void *argument)
{
	Errand	   *errand = argument;

	errand->group->members[errand->m].status =
		errand->call(errand->group, errand->m, errand->argument);
	return NULL;
}

/* Starting a thread takes some 20 us; what is done for each device takes a millisecond at least. */
FastedStatus
group_at_once(Group *group, MemberCall call, void *argument)
{
	Errand		errands[FASTED_GROUP_MOST];

	for (int m = 0; m < group->nmembers; m++)
	{
		Errand	   *errand = &errands[m];

		*errand = (Errand) {.group = group,.m = m,.call = call,.argument = argument};
		errand->away = m > 0 && fasted_start_thread(&errand->thread, 0, run_errand, errand);
	}
	for (int m = 0; m < group->nmembers; m++)
	{
		if (!errands[m].away)
			run_errand(&errands[m]);
	}
	for (int m = 0; m < group->nmembers; m++)
	{
		if (errands[m].away)
			(void) pthread_join(errands[m].thread, NULL);
	}
	for_each_member(m, group)
		(void) group_check(group, m, group->members[m].status);
	return group->failed;
}

/* --- contexts */

static FastedStatus
open_member(Group *group, int m, void *options)
{
	FastedOptions own = *(const FastedOptions *) options;

	own.devices = group->members[m].name;
	return group->base->open(&own, &group->members[m].context);
}

/*
 * Opens all contexts at the same time, for the first one of a process on a device takes a
 * quarter of a second.  A device that cannot be opened is left out; the group fails only
 * if none can.
 */
static FastedStatus
group_open(const FastedOptions *options, FastedContext **result)
{
	char		names[FASTED_GROUP_MOST][FASTED_DEVICE_NAME];
	FastedOptions own = *options;
	Group	   *group = calloc(1, sizeof(*group));

	*result = (FastedContext *) group;
	if (group == NULL)
		return FASTED_OUT_OF_MEMORY;
	group->base = base_engine;
	group->row_floats = fasted_row_floats(options);
	group->nmembers = group->base->devices(options->devices, names, FASTED_GROUP_MOST);
	if (group->nmembers == 0)
		return group_fail(group, FASTED_NO_DEVICE, "no GPU was found");
	for (int m = 0; m < group->nmembers; m++)
		memcpy(group->members[m].name, names[m], sizeof(names[m]));
	(void) group_at_once(group, open_member, &own);
	for (int m = 0; m < group->nmembers; m++)
	{
		Member	   *member = &group->members[m];

		member->takes_part = member->status == FASTED_OK;
		group->active += member->takes_part;
		if (member->takes_part)
			continue;
		group_fail(group, member->status, "%s", group->base->last_error(member->context));
		group->base->close(member->context);
		member->context = NULL;
	}
	if (group->active > 0)
		group->failed = FASTED_OK;
	return group->failed;
}

/* Which device did how much, as text. */
static void
tell_devices(const Group *group, const char *kind, FastedStats *stats)
{
	uint64_t	slices = 0;
	size_t		length = 0;

	for (int m = 0; m < group->nmembers; m++)
		slices += group->members[m].slices;
	for (int m = 0; m < group->nmembers && length < sizeof(stats->device); m++)
	{
		const Member *member = &group->members[m];

		length += snprintf(stats->device + length, sizeof(stats->device) - length,
						   "%s%.60s (%.12s, %.0f%%%s)", m > 0 ? ", " : "", kind, member->name,
						   slices > 0 ? 100.0 * (double) member->slices / (double) slices : 0.0,
						   member->takes_part ? "" : ", not used");
	}
}

static void
group_stats(const FastedContext *context, FastedStats *stats)
{
	const Group *group = group_of(context);
	bool		any = false;
	char		kind[64];

	memset(stats, 0, sizeof(*stats));
	snprintf(stats->engine, sizeof(stats->engine), "%s", base_engine->name);
	for_each_member(m, group)
	{
		FastedStats one;

		group->base->stats(group->members[m].context, &one);
		if (any)
			fasted_add_stats(stats, &one);
		else
			*stats = one;
		any = true;
	}
	snprintf(kind, sizeof(kind), "%.60s", stats->device);
	tell_devices(group, kind, stats);
	stats->pairs = group->pairs;
	stats->units_done = group->units_done;
	stats->units_total = group->units_total;
	stats->order_hash = group->order_hash;
	if (group->join != NULL)
		group_join_stats(group->join, stats);
}

static const char *
group_last_error(const FastedContext *context)
{
	return context != NULL ? group_of(context)->error : open_error;
}

static bool
group_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	const Group *group = group_of(context);

	for_each_member(m, group)
	{
		if (!group->base->fits(group->members[m].context, rows, nsets))
			return false;
	}
	return true;
}

static uint64_t
group_list_rows(const FastedContext *context, uint64_t rows, uint32_t k)
{
	const Group *group = group_of(context);

	return group->base->list_rows(group->members[next_member(group, 0)].context, rows, k);
}

static int
group_width(const FastedContext *context)
{
	return group_of(context)->active;
}

/* --- sets */

/* A device that was left out may have registered the memory, too. */
static void
group_withdraw(FastedSet *handle)
{
	GroupSet   *set = (GroupSet *) handle;

	for (int i = parts_of(set) - 1; i >= 0; i--)
	{
		if (set->parts[i].set != NULL)
			set->group->base->withdraw(set->parts[i].set);
	}
}

static FastedStatus
close_parts(Group *group, int m, void *argument)
{
	GroupSet   *set = argument;

	for (int i = 0; i < set->each; i++)
		group->base->set_close(set->parts[m * set->each + i].set);
	group->base->set_close(set->guests[m].set);
	return FASTED_OK;
}

/* Closing a set waits for whatever still reads its rows: another device may. */
static void
group_set_close(FastedSet *handle)
{
	GroupSet   *set = (GroupSet *) handle;
	GroupSet  **link;

	if (set == NULL)
		return;
	for (link = &set->group->sets; *link != set; link = &(*link)->next)
		;
	*link = set->next;
	group_withdraw(handle);
	(void) group_at_once(set->group, close_parts, set);
	free(set);
}

static FastedStatus
close_member(Group *group, int m, void *unused)
{
	(void) unused;
	if (group->members[m].context != NULL)
		group->base->close(group->members[m].context);
	return FASTED_OK;
}

static void
group_close(FastedContext *context)
{
	Group	   *group = group_of(context);

	if (group == NULL)
		return;
	group_join_close((FastedJoin *) group->join);
	while (group->sets != NULL)
		group_set_close((FastedSet *) group->sets);
	(void) group_at_once(group, close_member, NULL);
	free(group);
}

/* Opens the parts of a device, and its guest. */
static FastedStatus
open_parts(GroupSet *set, int m, const FastedSetOptions *options)
{
	const FastedEngine *base = set->group->base;
	FastedContext *context = set->group->members[m].context;
	FastedStatus status = FASTED_OK;

	for (int i = 0; i < set->each && status == FASTED_OK; i++)
		status = base->set_open(context, options, &set->parts[m * set->each + i].set);
	if (status == FASTED_OK && set->spread)
		status = base->set_open(context, options, &set->guests[m].set);
	return status;
}

/* The rows of a spread set are on all devices evenly, if it has as many as it may have. */
static FastedStatus
group_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	Group	   *group = group_of(context);
	GroupSet   *set = calloc(1, sizeof(*set));
	FastedSetOptions own = *options;
	uint64_t	first = 0;

	*result = NULL;
	if (set == NULL)
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory");
	set->group = group;
	set->first_row = options->first_row;
	set->spread = options->spread;
	set->each = set->spread ? FASTED_SPREAD_PARTS : 1;
	set->part_rows = UINT64_MAX;
	set->next = group->sets;
	group->sets = set;
	if (set->spread)
	{
		set->part_rows = own.most_rows = own.expected_rows =
			ceil_div(options->most_rows, (uint64_t) (group->active * set->each));
		own.spread = false;
		group->bound = true;
	}
	for (int i = 0; i < parts_of(set); i++)
		set->parts[i].member = i / set->each;
	for_each_member(m, group)
	{
		if (!group_check(group, m, open_parts(set, m, &own)))
			return group->failed;
		for (int i = m * set->each; i < (m + 1) * set->each && set->spread; i++)
		{
			set->parts[i].first = first;
			first += set->part_rows;
		}
	}
	*result = (FastedSet *) set;
	return FASTED_OK;
}

/* The part that rows are staged in, which of a set that is not spread is the first device's. */
static SetPart *
next_part(GroupSet *set)
{
	for (int i = 0; i < parts_of(set); i++)
	{
		SetPart    *part = &set->parts[i];

		if (set->group->members[part->member].takes_part && part->rows < set->part_rows)
			return part;
	}
	return NULL;
}

static FastedStatus
group_stage(FastedSet *handle, float **rows, size_t *capacity)
{
	GroupSet   *set = (GroupSet *) handle;
	SetPart    *part = next_part(set);
	FastedStatus status;

	if (part == NULL)
		return FASTED_FULL;
	status = set->group->base->stage(part->set, rows, capacity);
	(void) group_check(set->group, part->member, status);
	if (status == FASTED_OK && *capacity > set->part_rows - part->rows)
		*capacity = set->part_rows - part->rows;
	return status;
}

/*
 * Takes the status of a device that is to have the same rows as the first one.  A device that has
 * less memory left than that one is used no further, unless others depend on it.
 */
static void
check_same_rows(Group *group, int m, FastedStatus status)
{
	Member	   *member = &group->members[m];

	if (status != FASTED_FULL)
		(void) group_check(group, m, status);
	else if (group->bound)
		group_fail(group, FASTED_OUT_OF_DEVICE_MEMORY, "%s has less memory left than another GPU",
				   member->name);
	else
	{
		member->takes_part = false;
		group->active--;
	}
}

/* The other devices take the rows before the first one gets its buffer back. */
static FastedStatus
group_commit(FastedSet *handle, size_t nrows)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	SetPart    *part = next_part(set);

	if (part == NULL)
		return group_fail(group, FASTED_INTERNAL, "rows were committed that were not staged");
	for_each_member(m, group)
	{
		if (set->spread || m == part->member || nrows == 0)
			continue;
		check_same_rows(group, m, group->base->take_staged(set->parts[m].set, part->set, nrows));
		if (group->failed != FASTED_OK)
			return group->failed;
		set->parts[m].rows += nrows;
	}
	(void) group_check(group, part->member, group->base->commit(part->set, nrows));
	part->rows += nrows;
	return group->failed;
}

/* All take it, or none. */
static bool
group_lend(FastedSet *handle, void *memory, size_t bytes)
{
	GroupSet   *set = (GroupSet *) handle;

	for_each_member(m, set->group)
	{
		if (set->group->base->lend(set->parts[m].set, memory, bytes))
			continue;
		group_withdraw(handle);
		return false;
	}
	return true;
}

/* Puts all of these rows into one device's set. */
static void
put_rows(GroupSet *set, int m, const float *rows, size_t nrows)
{
	while (nrows > 0)
	{
		size_t		taken = 0;
		FastedStatus status = set->group->base->put(set->parts[m].set, rows, nrows, &taken);

		check_same_rows(set->group, m, status);
		if (status != FASTED_OK)
			return;
		set->parts[m].rows += taken;
		rows += taken * set->group->row_floats;
		nrows -= taken;
	}
}

/* The first device decides how many rows are taken, and the others take as many. */
static FastedStatus
group_put(FastedSet *handle, const float *rows, size_t nrows, size_t *taken)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	int			first = next_member(group, 0);
	FastedStatus status = group->base->put(set->parts[first].set, rows, nrows, taken);

	if (status == FASTED_FULL || !group_check(group, first, status))
		return status;
	set->parts[first].rows += *taken;
	for_each_member(m, group)
	{
		if (m != first && group->failed == FASTED_OK)
			put_rows(set, m, rows, *taken);
	}
	return group->failed;
}

static FastedStatus
group_settle(FastedSet *handle, bool all)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	for_each_member(m, group)
	{
		if (!group_check(group, m, group->base->settle(set->parts[m].set, all)))
			break;
	}
	return group->failed;
}

static FastedStatus
seal_parts(Group *group, int m, void *argument)
{
	GroupSet   *set = argument;
	FastedStatus status = FASTED_OK;

	for (int i = 0; i < set->each && group->members[m].takes_part && status == FASTED_OK; i++)
		status = group->base->seal(set->parts[m * set->each + i].set);
	return status;
}

/* Devices allocate the memory that filters need, all at the same time. */
static FastedStatus
group_seal(FastedSet *handle)
{
	GroupSet   *set = (GroupSet *) handle;

	return group_at_once(set->group, seal_parts, set);
}

static FastedStatus
group_set_reset(FastedSet *handle, uint64_t first_row)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	set->first_row = first_row;
	for (int i = 0; i < parts_of(set) && group->failed == FASTED_OK; i++)
	{
		SetPart    *part = &set->parts[i];

		part->rows = 0;
		if (group->members[part->member].takes_part)
			(void) group_check(group, part->member,
							   group->base->set_reset(part->set, first_row + part->first));
	}
	for (int m = 0; m < group->nmembers; m++)
		set->guests[m].part = NULL;
	return group->failed;
}

/* All have the same rows. */
static FastedStatus
group_read_back(FastedSet *handle, uint64_t first_row, size_t nrows, float *rows)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	int			first = next_member(group, 0);

	(void) group_check(group, first,
					   group->base->read_back(set->parts[first].set, first_row, nrows, rows));
	return group->failed;
}

static FastedEngine group_engine = {
	.abi = FASTED_ENGINE_ABI,
	.open = group_open,
	.stats = group_stats,
	.last_error = group_last_error,
	.close = group_close,
	.fits = group_fits,
	.set_open = group_set_open,
	.stage = group_stage,
	.commit = group_commit,
	.lend = group_lend,
	.withdraw = group_withdraw,
	.put = group_put,
	.settle = group_settle,
	.read_back = group_read_back,
	.seal = group_seal,
	.set_reset = group_set_reset,
	.set_close = group_set_close,
	.join_open = group_join_open,
	.next = group_next,
	.pause = group_pause,
	.counts = group_counts,
	.list_rows = group_list_rows,
	.width = group_width,
	.join_close = group_join_close,
};

const FastedEngine *
fasted_device_group(const FastedEngine *base)
{
	base_engine = base;
	group_engine.name = base->name;
	group_engine.probe = base->probe;
	group_engine.connects = base->connects;
	group_engine.nearest = base->nearest != NULL ? group_nearest : NULL;
	group_engine.keeps = base->keeps;
	return &group_engine;
}
