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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "multi_gpu.h"
#include "thread.h"

/* Rows that are copied from device to device between two looks at all of them, in bytes. */
#define COPY_BYTES ((uint64_t) 256 << 20)

static const FastedEngine *base_engine;
static const char open_error[] = "out of memory";

int
group_first(const Group *group)
{
	int			m = next_member(group, 0);

	return m < group->nmembers ? m : 0;
}

FastedStatus
group_fail(Group *group, FastedStatus status, const char *text)
{
	group->failed = status;
	snprintf(group->error, sizeof(group->error), "%s", text);
	return status;
}

bool
group_check(Group *group, int m, FastedStatus status)
{
	const Member *member = &group->members[m];

	if (!FASTED_FAILED(status))
		return true;
	if (group->failed == FASTED_OK)
	{
		group->failed = status;
		snprintf(group->error, sizeof(group->error), "%s: %s", member->name,
				 group->base->last_error(member->context));
	}
	return false;
}

/* Returns whether a set has rows, or, if spread, whether a set is spread. */
static bool
has_set(const Group *group, bool spread)
{
	for (const GroupSet *set = group->sets; set != NULL; set = set->next)
	{
		if (spread ? set->spread != NULL : set->rows > 0)
			return true;
	}
	return false;
}

/*
 * A device that has less memory left than the first one is used no further.  Once a join has
 * been opened, or if devices have different rows, other devices depend on it: the group fails.
 */
static void
leave_out(Group *group, int m)
{
	Member	   *member = &group->members[m];

	if (group->joined || has_set(group, true))
	{
		group->failed = FASTED_OUT_OF_DEVICE_MEMORY;
		snprintf(group->error, sizeof(group->error), "%s has less memory left than another GPU",
				 member->name);
		return;
	}
	member->takes_part = false;
	group->active--;
}

/* --- spread sets */

static bool
spread_fits(const FastedContext *context, const uint64_t *rows, int nsets)
{
	const Group *group = group_of(context);
	uint64_t	each[SPREAD_PARTS + 1 + 8];
	int			n = 0;

	if (group->active == 0 || nsets > 8)
		return false;
	while (n <= SPREAD_PARTS)
		each[n++] = ceil_div(rows[0], (uint64_t) group->active * SPREAD_PARTS);
	for (int i = 1; i < nsets; i++)
		each[n++] = rows[i];
	for_each_member(m, group)
	{
		if (!group->base->fits(group->members[m].context, each, n))
			return false;
	}
	return true;
}

/* Opens the parts of a device, and its guest. */
static FastedStatus
open_parts(GroupSet *set, int m, const FastedSetOptions *options)
{
	Group	   *group = set->group;
	Spread	   *spread = set->spread;
	FastedStatus status = group->base->set_open(group->members[m].context, options,
												&spread->guests[m].set);

	for (int i = 0; i < SPREAD_PARTS && status == FASTED_OK; i++)
	{
		SpreadPart *part = &spread->parts[spread->nparts];

		part->member = m;
		status = group->base->set_open(group->members[m].context, options, &part->set);
		spread->nparts += status == FASTED_OK;
	}
	return status;
}

static FastedStatus
spread_open(GroupSet *set, const FastedSetOptions *options)
{
	Group	   *group = set->group;
	FastedSetOptions own = *options;

	set->spread = calloc(1, sizeof(Spread));
	if (set->spread == NULL)
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory");
	own.spread = false;
	own.most_rows = own.expected_rows =
		ceil_div(options->most_rows, (uint64_t) group->active * SPREAD_PARTS);
	set->spread->part_room = own.most_rows;
	for_each_member(m, group)
	{
		if (!group_check(group, m, open_parts(set, m, &own)))
			break;
	}
	return group->failed;
}

static FastedStatus
spread_over(FastedSet *handle, uint64_t rows)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	Spread	   *spread = set->spread;

	spread->part_rows = ceil_div(rows, spread->nparts);
	if (spread->part_rows > spread->part_room)
		return group_fail(group, FASTED_INTERNAL, "a set was to have more rows than it has room for");
	if (spread->part_rows == 0)
		spread->part_rows = 1;
	set->rows = 0;
	for (int m = 0; m < group->nmembers; m++)
		spread->guests[m].part = -1;
	for (int i = 0; i < spread->nparts && group->failed == FASTED_OK; i++)
	{
		SpreadPart *part = &spread->parts[i];

		part->first = (uint64_t) i * spread->part_rows;
		part->rows = 0;
		(void) group_check(group, part->member,
						   group->base->set_reset(part->set, set->first_row + part->first));
	}
	return group->failed;
}

/* The part that the next row belongs to. */
static SpreadPart *
next_part(const GroupSet *set)
{
	return &set->spread->parts[set->rows / set->spread->part_rows];
}

static FastedStatus
spread_stage(GroupSet *set, float **rows, size_t *capacity)
{
	Group	   *group = set->group;
	FastedStatus status;
	SpreadPart *part;

	if (set->rows >= (uint64_t) set->spread->nparts * set->spread->part_rows)
		return FASTED_FULL;
	part = next_part(set);
	status = group->base->stage(part->set, rows, capacity);
	if (status == FASTED_FULL)
		return group_fail(group, FASTED_INTERNAL, "a part of a set has less room than it was to have");
	if (!group_check(group, part->member, status))
		return group->failed;
	set->staged = true;
	if (*capacity > set->spread->part_rows - part->rows)
		*capacity = set->spread->part_rows - part->rows;
	return FASTED_OK;
}

static FastedStatus
spread_commit(GroupSet *set, size_t nrows)
{
	Group	   *group = set->group;
	SpreadPart *part = next_part(set);

	set->staged = false;
	if (nrows == 0 || !group_check(group, part->member, group->base->commit(part->set, nrows)))
		return group->failed;
	part->rows += nrows;
	set->rows += nrows;
	return FASTED_OK;
}

static FastedStatus
spread_seal(GroupSet *set)
{
	Group	   *group = set->group;

	set->staged = false;
	for (int i = 0; i < set->spread->nparts && group->failed == FASTED_OK; i++)
	{
		const SpreadPart *part = &set->spread->parts[i];

		(void) group_check(group, part->member, group->base->seal(part->set));
	}
	return group->failed;
}

FastedStatus
spread_fill_guest(GroupSet *set, int member)
{
	const FastedEngine *base = set->group->base;
	SpreadGuest *guest = &set->spread->guests[member];
	const SpreadPart *part = &set->spread->parts[guest->part];
	uint64_t	count = COPY_BYTES / (set->group->row_floats * sizeof(float)) + 1;
	FastedStatus status = FASTED_OK;

	if (guest->sealed)
		return FASTED_OK;
	if (!guest->begun)
		status = base->set_reset(guest->set, set->first_row + part->first);
	guest->begun = true;
	if (count > part->rows - guest->have)
		count = part->rows - guest->have;
	if (status == FASTED_OK && count > 0)
		status = base->copy_rows(guest->set, part->set, guest->have, count);
	if (status == FASTED_OK)
		status = base->settle(guest->set, true);
	guest->have += count;
	if (status != FASTED_OK || guest->have < part->rows)
		return status == FASTED_OK ? FASTED_AGAIN : status;
	guest->sealed = true;
	return base->seal(guest->set);
}

static void
spread_close(GroupSet *set)
{
	Group	   *group = set->group;
	Spread	   *spread = set->spread;

	for (int i = 0; i < spread->nparts; i++)
		group->base->set_close(spread->parts[i].set);
	for (int m = 0; m < group->nmembers; m++)
		group->base->set_close(spread->guests[m].set);
	free(spread);
}

/* --- contexts */

/* Members whose contexts are open, a bit each: those that take part, and those left out. */
static uint32_t
open_members(const Group *group)
{
	uint32_t	members = 0;

	for (int m = 0; m < FASTED_GROUP_MOST; m++)
	{
		if (group->members[m].context != NULL)
			members |= UINT32_C(1) << m;
	}
	return members;
}

typedef struct Opening
{
	Group	   *group;
	const FastedOptions *options;
} Opening;

static void
open_one(void *argument, int m)
{
	Opening    *opening = argument;
	Member	   *member = &opening->group->members[m];
	FastedOptions own = *opening->options;

	own.devices = member->name;
	member->status = opening->group->base->open(&own, &member->context);
}

/*
 * Opens all contexts at the same time, for the first one of a process on a device takes a
 * quarter of a second.  A device that cannot be opened is left out; the group fails only
 * if none can.
 */
static void
open_contexts(Group *group, const FastedOptions *options)
{
	Opening		opening = {.group = group,.options = options};

	fasted_at_once((UINT32_C(1) << group->nmembers) - 1, open_one, &opening);
	for (int m = 0; m < group->nmembers; m++)
	{
		Member	   *member = &group->members[m];

		member->takes_part = member->status == FASTED_OK;
		group->active += member->takes_part;
		if (member->takes_part)
			continue;
		(void) group_fail(group, member->status, group->base->last_error(member->context));
		group->base->close(member->context);
		member->context = NULL;
	}
	if (group->active > 0)
		group->failed = FASTED_OK;
}

static FastedStatus
group_open(const FastedOptions *options, FastedContext **result)
{
	char		names[FASTED_GROUP_MOST][FASTED_DEVICE_NAME];
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
	open_contexts(group, options);
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

/* A device that was left out may have registered the memory, too. */
static void
group_withdraw(FastedSet *handle)
{
	GroupSet   *set = (GroupSet *) handle;

	for (int m = set->group->nmembers - 1; m >= 0; m--)
	{
		if (set->sets[m] != NULL)
			set->group->base->withdraw(set->sets[m]);
	}
}

static void
close_one_set(void *argument, int m)
{
	GroupSet   *set = argument;

	set->group->base->set_close(set->sets[m]);
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
	if (set->spread != NULL)
		spread_close(set);
	group_withdraw(handle);
	fasted_at_once(open_members(set->group), close_one_set, set);
	free(set);
}

static void
close_one(void *argument, int m)
{
	Group	   *group = argument;

	group->base->close(group->members[m].context);
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
	fasted_at_once(open_members(group), close_one, group);
	free(group);
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

static int
group_width(const FastedContext *context)
{
	const Group *group = group_of(context);

	return group->base->copy_rows != NULL ? group->active : 1;
}

/* --- sets */

static FastedStatus
group_set_open(FastedContext *context, const FastedSetOptions *options, FastedSet **result)
{
	Group	   *group = group_of(context);
	GroupSet   *set;

	*result = NULL;
	if (group->failed != FASTED_OK)
		return group->failed;
	set = calloc(1, sizeof(*set));
	if (set == NULL)
		return group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory");
	set->group = group;
	set->first_row = options->first_row;
	set->next = group->sets;
	group->sets = set;
	if (options->spread)
	{
		if (spread_open(set, options) == FASTED_OK)
			*result = (FastedSet *) set;
		return group->failed;
	}
	for_each_member(m, group)
	{
		if (!group_check(group, m, group->base->set_open(group->members[m].context, options,
														 &set->sets[m])))
			return group->failed;
	}
	*result = (FastedSet *) set;
	return FASTED_OK;
}

/* The staging buffer is the first device's. */
static FastedStatus
group_stage(FastedSet *handle, float **rows, size_t *capacity)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	int			first = group_first(group);
	FastedStatus status;

	if (group->failed != FASTED_OK)
		return group->failed;
	if (set->spread != NULL)
		return spread_stage(set, rows, capacity);
	status = group->base->stage(set->sets[first], rows, capacity);
	set->staged = status == FASTED_OK;
	(void) group_check(group, first, status);
	return status;
}

/* The other devices take the rows before the first one gets its buffer back. */
static FastedStatus
group_commit(FastedSet *handle, size_t nrows)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	int			first = group_first(group);

	if (group->failed == FASTED_OK && !set->staged)
		return group_fail(group, FASTED_INTERNAL, "rows were committed that were not staged");
	if (group->failed != FASTED_OK)
		return group->failed;
	if (set->spread != NULL)
		return spread_commit(set, nrows);
	for_each_member(m, group)
	{
		FastedStatus status;

		if (m == first || nrows == 0)
			continue;
		status = group->base->take_staged(set->sets[m], set->sets[first], nrows);
		if (status == FASTED_FULL)
			leave_out(group, m);
		else
			(void) group_check(group, m, status);
		if (group->failed != FASTED_OK)
			return group->failed;
	}
	set->staged = false;
	(void) group_check(group, first, group->base->commit(set->sets[first], nrows));
	set->rows += nrows;
	return group->failed;
}

/* All take it, or none. */
static bool
group_lend(FastedSet *handle, void *memory, size_t bytes)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	for_each_member(m, group)
	{
		if (group->base->lend(set->sets[m], memory, bytes))
			continue;
		group_withdraw(handle);
		return false;
	}
	return group->failed == FASTED_OK;
}

/* Puts all of these rows into one device's set. */
static void
put_all(GroupSet *set, int m, const float *rows, size_t nrows)
{
	Group	   *group = set->group;

	while (nrows > 0)
	{
		size_t		taken = 0;
		FastedStatus status = group->base->put(set->sets[m], rows, nrows, &taken);

		if (status == FASTED_FULL)
			leave_out(group, m);
		if (status == FASTED_FULL || !group_check(group, m, status))
			return;
		rows += taken * group->row_floats;
		nrows -= taken;
	}
}

/* The first device decides how many rows are taken, and the others take as many. */
static FastedStatus
group_put(FastedSet *handle, const float *rows, size_t nrows, size_t *taken)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	int			first = group_first(group);
	FastedStatus status;

	*taken = 0;
	if (group->failed != FASTED_OK)
		return group->failed;
	set->staged = false;
	status = group->base->put(set->sets[first], rows, nrows, taken);
	if (status == FASTED_FULL || !group_check(group, first, status))
		return status;
	for_each_member(m, group)
	{
		if (m != first && group->failed == FASTED_OK)
			put_all(set, m, rows, *taken);
	}
	set->rows += *taken;
	return group->failed;
}

static FastedStatus
group_settle(FastedSet *handle, bool all)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	for_each_member(m, group)
	{
		if (group->failed != FASTED_OK ||
			!group_check(group, m, group->base->settle(set->sets[m], all)))
			break;
	}
	return group->failed;
}

static void
seal_one(void *argument, int m)
{
	GroupSet   *set = argument;

	set->group->members[m].status = set->group->base->seal(set->sets[m]);
}

/* Devices allocate the memory that filters need, all at the same time. */
static FastedStatus
group_seal(FastedSet *handle)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;
	uint32_t	members = 0;

	if (group->failed != FASTED_OK)
		return group->failed;
	if (set->spread != NULL)
		return spread_seal(set);
	for_each_member(m, group)
		members |= UINT32_C(1) << m;
	fasted_at_once(members, seal_one, set);
	for_each_member(m, group)
		(void) group_check(group, m, group->members[m].status);
	return group->failed;
}

static FastedStatus
group_set_reset(FastedSet *handle, uint64_t first_row)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	set->first_row = first_row;
	for_each_member(m, group)
	{
		if (group->failed == FASTED_OK && set->spread == NULL)
			(void) group_check(group, m, group->base->set_reset(set->sets[m], first_row));
	}
	set->rows = 0;
	set->staged = false;
	group->joined = group->joined && has_set(group, false);
	return group->failed;
}

/* All have the same rows. */
static FastedStatus
group_read_back(FastedSet *handle, uint64_t first_row, size_t nrows, float *rows)
{
	GroupSet   *set = (GroupSet *) handle;
	Group	   *group = set->group;

	int			first = group_first(group);

	if (group->failed == FASTED_OK)
		(void) group_check(group, first,
						   group->base->read_back(set->sets[first], first_row, nrows, rows));
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
	.fits_spread = spread_fits,
	.spread = spread_over,
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
