/*-------------------------------------------------------------------------
 *
 * panel_lists.c
 *	  The nearest rows of each row, handed out where an outer panel's are complete.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "panel_state.h"

/* Neighbours that are handed out at once, unless a row has more. */
#define GIVEN_NEIGHBORS 16384

/* Room for the neighbours of some rows, and what there is to know of them now. */
bool
panels_begin_lists(PanelJoin *join)
{
	uint32_t	k;

	free(join->given);
	free(join->given_lengths);
	join->given = NULL;
	join->given_lengths = NULL;
	join->give_first = join->give_end = join->given_count = 0;
	join->further = false;
	if (!panels_find_nearest(join))
		return true;
	k = join->problem.problem.k = panels_clip_neighbors(join, join->problem.problem.k);
	join->given_most = k < GIVEN_NEIGHBORS ? GIVEN_NEIGHBORS / k : 1;
	join->given = malloc(join->given_most * k * sizeof(FastedNeighbor));
	join->given_lengths = malloc(join->given_most * sizeof(uint32_t));
	if (join->done)
		join->give_end = join->rows[0];
	return join->given != NULL && join->given_lengths != NULL;
}

/* The neighbours of some rows that are complete, until there are no more of these. */
FastedStatus
panels_give_lists(PanelJoin *join, FastedBatch *batch)
{
	uint64_t	left = join->give_end - join->give_first;
	FastedStatus status = FASTED_OK;

	join->given_first = join->give_first;
	join->given_count = left < join->given_most ? left : join->given_most;
	join->give_first += join->given_count;
	if (join->join == NULL)
		memset(join->given_lengths, 0, join->given_count * sizeof(uint32_t));
	else
		status = join->engine->nearest(join->join, join->given_first - join->a->first,
									   join->given_count, join->given_lengths, join->given);
	batch->first_row = join->given_first;
	batch->row_count = join->given_count;
	return status;
}

const FastedNeighbor *
panel_join_nearest(const PanelJoin *join, uint64_t row, uint32_t *length)
{
	uint64_t	place = row - join->given_first;

	*length = place < join->given_count ? join->given_lengths[place] : 0;
	return *length > 0 ? join->given + place * join->problem.problem.k : NULL;
}
