/*-------------------------------------------------------------------------
 *
 * panel_rests.c
 *	  What a lost device left out, and is joined at the end.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "panel_state.h"

/* Turns to rows that were left out.  False: there are no more. */
bool
panels_take_rest(PanelJoin *join)
{
	if (join->nrests == 0)
		return false;
	join->rest = join->rests[--join->nrests];
	join->in_rest = true;
	join->outer_end = join->rest.end;
	return true;
}

/* Adds it, or makes another one longer: the outer rows meet what comes next, too. */
static bool
add_rest(PanelJoin *join, const FastedBlock *block)
{
	PanelRest	rest = {
		.first = block->first,.end = block->first + block->count,
		.inner_first = block->other_first,.inner_end = block->other_first + block->other_count,
		.itself = block->itself
	};

	for (uint32_t i = 0; i < join->nrests && !rest.itself; i++)
	{
		PanelRest  *before = &join->rests[i];

		if (before->itself || before->first != rest.first || before->end != rest.end ||
			before->inner_end != rest.inner_first)
			continue;
		before->inner_end = rest.inner_end;
		return true;
	}
	if (join->nrests == join->rests_room)
	{
		uint32_t	room = 2 * join->rests_room + 16;
		PanelRest  *rests = realloc(join->rests, room * sizeof(PanelRest));

		if (rests == NULL)
			return false;
		join->rests = rests;
		join->rests_room = room;
	}
	join->rests[join->nrests++] = rest;
	return true;
}

/* What the join at work left out. */
FastedStatus
panels_note_rests(PanelJoin *join)
{
	FastedBlock block;

	if (!join->spread)
		return FASTED_OK;
	for (uint32_t i = 0; join->engine->left_out(join->join, i, &block); i++)
	{
		if (block.given != NULL)
			pair_log_append(&join->skip, block.given);
		if (join->skip.incomplete || !add_rest(join, &block))
			return panels_fail(join, FASTED_OUT_OF_MEMORY,
							   "out of memory for what a lost GPU left to others");
	}
	return FASTED_OK;
}

/* Leaves out of a batch what was handed out before.  False: nothing is left. */
bool
panels_skip_given(PanelJoin *join, FastedBatch *batch)
{
	size_t		before = batch->npairs;

	if (!join->in_rest || join->skip.count == 0)
		return true;
	if (!pair_log_leave_out(&join->skip, &join->kept, batch))
	{
		panels_fail(join, FASTED_OUT_OF_MEMORY, "out of memory for pairs");
		return false;
	}
	join->skipped += before - batch->npairs;
	return batch->npairs > 0;
}
