/*-------------------------------------------------------------------------
 *
 * group_nearest.c
 *	  The nearest rows that several devices found, each in slices of its own.
 *
 * Each device has lists for all rows: the nearest of the pairs in its slices.  A pair is in
 * one slice, so what is first in all lists of a row together is its list.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "group_state.h"

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

		merged[count++] = *(take ? &list[i] : &other[j]);
		i += take;
		j += !take;
	}
	while (count < k && i < length)
		merged[count++] = list[i++];
	while (count < k && j < other_length)
		merged[count++] = other[j++];
	memcpy(list, merged, count * sizeof(*list));
	return count;
}

/* Adds a device's lists to what others gave. */
static FastedStatus
add_lists(const GroupJoin *join, int m, uint64_t first_row, size_t nrows, uint32_t k,
		  Lists *lists, uint32_t *lengths, FastedNeighbor *neighbors)
{
	FastedStatus status = group_of_join(join)->base->nearest(group_slices_of(join, m), first_row,
															 nrows, lists->lengths,
															 lists->neighbors);

	for (size_t row = 0; row < nrows && status == FASTED_OK; row++)
		lengths[row] = merge(neighbors + row * k, lengths[row], lists->neighbors + row * k,
							 lists->lengths[row], k, lists->merged);
	return status;
}

FastedStatus
group_nearest(FastedJoin *handle, uint64_t first_row, size_t nrows, uint32_t *lengths,
			  FastedNeighbor *neighbors)
{
	const GroupJoin *join = (const GroupJoin *) handle;
	Group	   *group = group_of_join(join);
	uint32_t	k = group_problem_of(join)->k;
	Lists		lists = {0};
	bool		first = true;

	if (group->failed != FASTED_OK)
		return group->failed;
	if (!make_lists(&lists, nrows > 0 ? nrows : 1, k))
		(void) group_fail(group, FASTED_OUT_OF_MEMORY, "out of memory for the rows' neighbors");
	for (int m = 0; m < group->nmembers && group->failed == FASTED_OK; m++)
	{
		FastedStatus status;

		if (group_slices_of(join, m) == NULL)
			continue;
		if (first)
			status = group->base->nearest(group_slices_of(join, m), first_row, nrows, lengths,
										  neighbors);
		else
			status = add_lists(join, m, first_row, nrows, k, &lists, lengths, neighbors);
		first = false;
		/* other devices would have to do again what it found */
		if (!group_survives(group, m, status))
			(void) group_fail(group, FASTED_DEVICE_FAILED, group->error);
	}
	free_lists(&lists);
	return group->failed;
}

uint64_t
group_list_rows(const FastedContext *context, uint64_t rows, uint32_t k)
{
	const Group *group = group_of(context);

	return group->base->list_rows(group->members[group_first(group)].context, rows, k);
}
