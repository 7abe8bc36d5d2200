/*-------------------------------------------------------------------------
 *
 * panel_load.c
 *	  Which rows are loaded next, into which panel.
 *
 *-------------------------------------------------------------------------
 */
#include "panel_state.h"

/* Rows that are asked for at once while a join is at work, in bytes. */
#define LOAD_BYTES ((uint64_t) 4 << 20)

static FastedStatus
open_panel(PanelJoin *join, Panel *panel, int side, uint64_t rows, uint32_t neighbors)
{
	FastedSetOptions options = {
		.expected_rows = rows,.most_rows = rows,.neighbors = neighbors
	};

	options.spread = join->spread && panel == &join->outer;
	panel->side = side;
	return join->engine->set_open(join->context, &options, &panel->set);
}

/* The sets of sides go, those of panels come. */
FastedStatus
panels_open(PanelJoin *join)
{
	uint32_t	neighbors = 0;
	FastedStatus status;

	if (join->list_length > 0)
		neighbors = panels_clip_neighbors(join, join->list_length);
	for (int side = 0; side < join->problem.sides; side++)
	{
		join->engine->set_close(join->sides[side].set);
		join->sides[side].set = NULL;
	}
	status = open_panel(join, &join->outer, join->outer_side, join->outer_rows, neighbors);
	for (int i = 0; i < 2 && status == FASTED_OK; i++)
		status = open_panel(join, &join->inner[i], panels_inner_side(join), join->inner_rows, 0);
	return status;
}

/* Names the rows that this panel is to have. */
static FastedStatus
load(PanelJoin *join, Panel *panel, uint64_t first, uint64_t most)
{
	uint64_t	left = join->rows[panel->side] - first;
	FastedStatus status;

	panel->first = first;
	panel->count = left < most ? left : most;
	panel->have = 0;
	panel->sealed = false;
	join->loading = panel;
	status = join->engine->set_reset(panel->set, first);
	if (status == FASTED_OK && join->spread && panel == &join->outer)
		status = join->engine->spread(panel->set, panel->count);
	return status;
}

/*
 * The rows from here on that no inner panel has had yet.  Rows of one relation whose
 * neighbours are wanted meet those before them too, but not themselves once more.
 */
static void
set_inner_next(PanelJoin *join, uint64_t next)
{
	uint64_t	end = join->outer.first + join->outer.count;

	if (join->problem.sides == 1 && next >= join->outer.first && next < end)
		next = end;
	join->inner_next = next;
}

/* Rows of the inner panel that begins there, at most. */
static uint64_t
inner_most(const PanelJoin *join)
{
	uint64_t	first = join->outer.first;

	if (join->problem.sides == 1 && join->inner_next < first &&
		first - join->inner_next < join->inner_rows)
		return first - join->inner_next;
	if (join->inner_end - join->inner_next < join->inner_rows)
		return join->inner_end - join->inner_next;
	return join->inner_rows;
}

/* The inner side's rows that the outer panel from there on has to meet; false: there are none. */
static bool
find_inner_rows(const PanelJoin *join, uint64_t outer_first, uint64_t *first, uint64_t *end)
{
	int			side = panels_inner_side(join);
	bool		found = false;

	*first = join->problem.sides == 2 || panels_find_nearest(join) ? 0 : outer_first;
	*end = join->rows[side];
	if (join->groups == NULL)
		return true;
	for (uint32_t g = 0; g < join->problem.problem.ngroups; g++)
	{
		const FastedRowGroup *group = &join->problem.problem.groups[g];
		FastedSpan	outer = fasted_group_rows(group, join->outer_side);
		FastedSpan	inner = fasted_group_rows(group, side);

		if (outer.end <= outer_first || outer.first == outer.end || inner.first == inner.end)
			continue;
		if (outer.first >= outer_first + join->outer_rows)
			break;
		if (!found && inner.first > *first)
			*first = inner.first;
		*end = inner.end;
		found = true;
	}
	return found;
}

/*
 * The outer panel is next, if one has rows to meet; the inner ones start over behind it, or
 * at the first row.
 */
FastedStatus
panels_load_outer(PanelJoin *join, uint64_t first)
{
	uint64_t	end = join->rows[join->outer_side];
	uint64_t	inner_first = 0;
	FastedStatus status;

	while (first < end && !find_inner_rows(join, first, &inner_first, &join->inner_end))
		first += join->outer_rows;
	join->done = first >= end;
	if (join->done)
		return FASTED_OK;
	status = load(join, &join->outer, first, join->outer_rows);
	join->met_itself = join->problem.sides == 2;
	join->further = false;
	set_inner_next(join, inner_first);
	join->inner[0].sealed = join->inner[1].sealed = false;
	join->turn = 0;
	return status;
}

/*
 * Begins to load the next inner panel, if there is one and its set is free.  One that
 * is being joined is still sealed.
 */
FastedStatus
panels_load_inner(PanelJoin *join)
{
	Panel	   *panel = &join->inner[join->turn];
	FastedStatus status;

	if (join->loading != NULL || !join->outer.sealed)
		return FASTED_OK;
	/* the one whose turn it is, or the other one if that is there */
	if (panel->sealed)
		panel = &join->inner[!join->turn];
	if (panel->sealed || join->inner_next >= join->inner_end)
		return FASTED_OK;
	status = load(join, panel, join->inner_next, inner_most(join));
	set_inner_next(join, panel->first + panel->count);
	return status;
}

/* The rows that are missing; false: none are, for now. */
bool
panels_want_rows(PanelJoin *join, FastedBatch *batch)
{
	const Panel *panel = join->loading;
	uint64_t	most = LOAD_BYTES / fasted_row_bytes(&join->problem.options);

	if (panel == NULL)
		return false;
	batch->side = panel->side;
	batch->first_row = panel->first + panel->have;
	batch->row_count = panel->count - panel->have;
	if (batch->row_count > most && most > 0)
		batch->row_count = most;
	return true;
}

/* The panel that was loaded is complete: the next one. */
FastedStatus
panels_finish_loading(PanelJoin *join)
{
	Panel	   *panel = join->loading;
	FastedStatus status;

	if (panel == NULL || panel->have < panel->count)
		return FASTED_OK;
	join->loading = NULL;
	panel->sealed = true;
	status = join->engine->seal(panel->set);
	return status == FASTED_OK ? panels_load_inner(join) : status;
}
