/*-------------------------------------------------------------------------
 *
 * spread_set.c
 *	  A set whose rows are divided among the devices of a group.
 *
 * Each device has some parts of it, sets of their own, and room for one part more: a
 * guest, which it copies from another device to join with its own parts.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "host_device.h"
#include "group_state.h"

/* Rows that are copied from device to device between two looks at all of them, in bytes. */
#define COPY_BYTES ((uint64_t) 256 << 20)

bool
spread_fits(const Group *group, const uint64_t *rows, int nsets)
{
	uint64_t	each[SPREAD_PARTS + 1 + 8];
	int			n = 0;

	if (group->active == 0 || nsets > 8)
		return false;
	while (n <= SPREAD_PARTS)
		each[n++] = ceil_div(rows[0], (uint64_t) group->active * SPREAD_PARTS);
	for (int i = 1; i < nsets; i++)
		each[n++] = rows[i];
	for (int m = 0; m < group->nmembers; m++)
	{
		if (group_has(group, m) && !group->base->fits(group->members[m].context, each, n))
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

FastedStatus
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
	for (int m = 0; m < group->nmembers; m++)
	{
		if (group_has(group, m) && !group_check(group, m, open_parts(set, m, &own)))
			break;
	}
	return group->failed;
}

FastedStatus
spread_over(GroupSet *set, uint64_t rows)
{
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

FastedStatus
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

FastedStatus
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

FastedStatus
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

void
spread_close(GroupSet *set)
{
	Group	   *group = set->group;
	Spread	   *spread = set->spread;

	for (int i = 0; i < spread->nparts; i++)
		group->base->set_close(spread->parts[i].set);
	for (int m = 0; m < group->nmembers; m++)
		group->base->set_close(spread->guests[m].set);
	free(spread);
	set->spread = NULL;
}
