/*-------------------------------------------------------------------------
 *
 * group_nearest.c
 *	  The nearest rows that several devices found, each in slices of its own.
 *
 * Each device has lists for all rows: the nearest of the pairs in its slices.  A pair is in
 * one slice, so what is first in all lists of a row together is its list.  Only where a device
 * did a slice in vain, since its rows were in another order, has it pairs that others have too.
 *
 * Devices take turns in merging: of some thousand rows one of them adds what the others have
 * to its own lists, from which the rows' neighbours are read then.  What a device can't merge
 * is merged here.
 *
 * A device that has lists has a slice of the last join: each begins with one before any of them
 * has two.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "multi_gpu.h"

/* Lists that are merged at a time: a device takes a millisecond or a few. */
#define WINDOW_BYTES ((uint64_t) 64 << 20)

/* Lists of some rows of one device, and room to merge one with it. */
typedef struct Lists
{
	uint32_t   *lengths;
	FastedNeighbor *neighbors;
	FastedNeighbor *merged;
} Lists;

/* Without a branch, which could not be foretold. */
static bool
comes_before(const FastedNeighbor *x, const FastedNeighbor *y)
{
	return (x->dist < y->dist) | ((x->dist == y->dist) & (x->row < y->row));
}

static bool
make_lists(Lists *lists, size_t nrows, uint32_t k)
{
	lists->lengths = malloc(nrows * sizeof(uint32_t));
	lists->neighbors = malloc(nrows * k * sizeof(FastedNeighbor));
	lists->merged = malloc(k * sizeof(FastedNeighbor));
	return lists->lengths != NULL && lists->neighbors != NULL && lists->merged != NULL;
}

static void
free_lists(Lists *lists)
{
	free(lists->lengths);
	free(lists->neighbors);
	free(lists->merged);
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
	uint32_t	k = join->problem.k;
	Lists		lists = {0};
	FastedStatus status = ask(join, join->lists.members[0], first_row, nrows, lengths, neighbors);

	if (status == FASTED_OK && !make_lists(&lists, nrows > 0 ? nrows : 1, k))
		status = group_fail(join->group, FASTED_OUT_OF_MEMORY,
							"out of memory for the rows' neighbors");
	for (int i = 1; i < join->lists.nmembers && status == FASTED_OK; i++)
	{
		status = ask(join, join->lists.members[i], first_row, nrows, lists.lengths,
					 lists.neighbors);
		for (size_t row = 0; row < nrows && status == FASTED_OK; row++)
			lengths[row] = merge(neighbors + row * k, lengths[row], lists.neighbors + row * k,
								 lists.lengths[row], k, lists.merged);
	}
	free_lists(&lists);
	return status;
}

/* Which devices have lists: each gets them ready. */
static FastedStatus
find_lists(GroupJoin *join)
{
	GroupLists *lists = &join->lists;
	uint64_t	a_row = join->problem.k * sizeof(FastedNeighbor);

	for (int m = 0; m < join->group->nmembers; m++)
	{
		if ((join->a->lists >> m & 1) == 0)
			continue;
		if (join->turns[m].join == NULL)
			return group_fail(join->group, FASTED_INTERNAL, "a GPU has neighbors and no slice");
		lists->members[lists->nmembers++] = m;
	}
	if (lists->nmembers == 0)
		return group_fail(join->group, FASTED_INTERNAL, "there are no neighbors");
	lists->window = a_row < WINDOW_BYTES ? WINDOW_BYTES / a_row : 1;
	lists->merged = calloc(join->rows[0] / lists->window + 1, sizeof(bool));
	if (lists->merged == NULL)
		return group_fail(join->group, FASTED_OUT_OF_MEMORY,
						  "out of memory for the rows' neighbors");
	lists->on_host = join->group->base->add_lists == NULL;
	for (int i = 0; i < lists->nmembers && lists->nmembers > 1 && !lists->on_host; i++)
	{
		if (ask(join, lists->members[i], 0, 0, NULL, NULL) != FASTED_OK)
			break;
	}
	return join->group->failed;
}

/* The device that has the lists of a window, or has them now; on_host: it can't. */
static int
merge_there(GroupJoin *join, uint64_t window)
{
	GroupLists *lists = &join->lists;
	int			owner = lists->members[window % (uint64_t) lists->nmembers];
	uint64_t	first = window * lists->window;
	uint64_t	left = join->rows[0] - first;
	size_t		nrows = left < lists->window ? left : lists->window;
	FastedStatus status = FASTED_OK;

	for (int i = 0; i < lists->nmembers && !lists->merged[window] && status == FASTED_OK; i++)
	{
		if (lists->members[i] != owner)
			status = join->group->base->add_lists(join->turns[owner].join,
												  join->turns[lists->members[i]].join, first, nrows);
	}
	lists->on_host = status == FASTED_FULL;
	lists->merged[window] = true;
	(void) group_check(join->group, owner, status);
	return owner;
}

FastedStatus
group_nearest(FastedJoin *handle, uint64_t first_row, size_t nrows, uint32_t *lengths,
			  FastedNeighbor *neighbors)
{
	GroupJoin  *join = (GroupJoin *) handle;
	Group	   *group = join->group;
	GroupLists *lists = &join->lists;

	if (group->failed != FASTED_OK)
		return group->failed;
	if (first_row > join->rows[0] || nrows > join->rows[0] - first_row)
		return group_fail(group, FASTED_INTERNAL, "neighbors of rows that are not there");
	if (lists->nmembers == 0 && find_lists(join) != FASTED_OK)
		return group->failed;
	while (nrows > 0 && group->failed == FASTED_OK && !lists->on_host)
	{
		uint64_t	window = first_row / lists->window;
		uint64_t	left = (window + 1) * lists->window - first_row;
		size_t		some = nrows < left ? nrows : left;
		int			owner = merge_there(join, window);

		if (group->failed != FASTED_OK || lists->on_host ||
			ask(join, owner, first_row, some, lengths, neighbors) != FASTED_OK)
			break;
		first_row += some;
		nrows -= some;
		lengths += some;
		neighbors += some * join->problem.k;
	}
	if (group->failed == FASTED_OK && lists->on_host)
		return merge_here(join, first_row, nrows, lengths, neighbors);
	return group->failed;
}

uint64_t
group_list_rows(const FastedContext *context, uint64_t rows, uint32_t k)
{
	const Group *group = group_of(context);

	return group->base->list_rows(group->members[group_first(group)].context, rows, k);
}
