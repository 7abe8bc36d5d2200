/*-------------------------------------------------------------------------
 *
 * panel_load.c
 *	  Chooses the sizes of panels, and loads rows into them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "panel_join.h"

/* Ratio of the size of an outer panel to that of an inner panel. */
#define OUTER_TO_INNER 8

/* Number of bytes of rows to request from the caller at a time. */
#define LOAD_BYTES ((uint64_t) 4 << 20)

/* --- sizes */

/* Returns the side whose rows are loaded into inner panels. */
static int
inner_side(const PanelJoin *join)
{
	return join->problem.sides == 2 ? !join->outer_side : 0;
}

/* Limits k to the number of rows that can be neighbours of a row, but at least 1. */
uint32_t
panels_clip_neighbors(const PanelJoin *join, uint32_t k)
{
	uint64_t	rows = join->problem.sides == 2 ? join->rows[1]
		: join->rows[0] > 0 ? join->rows[0] - 1 : 0;

	if (rows < 1)
		rows = 1;
	return k < rows ? k : (uint32_t) rows;
}

/*
 * Returns whether an outer panel and two inner panels of these sizes fit into memory.  outer is 0: an
 * outer panel of `rows` rows, and inner panels of the size for it.
 */
static bool
panels_fit(const PanelJoin *join, uint64_t outer, uint64_t rows)
{
	uint64_t	inner = outer > 0 ? rows : ceil_div(rows, OUTER_TO_INNER);
	uint64_t	sets[3] = {outer > 0 ? outer : rows, inner, inner};

	if (join->list_length > 0)
		sets[0] += join->engine->rows_for_lists(join->context, sets[0],
												panels_clip_neighbors(join, join->list_length));
	return join->engine->fits(join->context, sets, 3);
}

/* Part of the rows that can be searched at a time if all rows are resident. */
#define SEARCHED_PART 8

/*
 * Returns whether a set of all rows with their lists, and one of searched rows, fit into memory.  all is
 * 0: a set of `rows` rows, and one of the part of them that is searched.
 */
static bool
search_fits(const PanelJoin *join, uint64_t all, uint64_t rows)
{
	uint64_t	sets[2] = {all > 0 ? all : rows, all > 0 ? rows : ceil_div(rows, SEARCHED_PART)};

	sets[0] += join->engine->rows_for_lists(join->context, sets[0], join->list_length);
	sets[1] += join->engine->rows_for_lists(join->context, sets[1], 1);
	return join->engine->fits(join->context, sets, 2);
}

/* Returns the largest number of rows up to high that fits beside `others` rows; low is assumed to fit. */
static uint64_t
most_rows(const PanelJoin *join, bool (*fits) (const PanelJoin *join, uint64_t others, uint64_t rows),
		  uint64_t others, uint64_t low, uint64_t high)
{
	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (fits(join, others, middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Chooses the sizes of outer and of inner panels, which are even, and as large as possible. */
void
panels_choose(PanelJoin *join)
{
	uint64_t	outer_total;
	uint64_t	inner_total;
	uint64_t	most;

	join->outer_side = join->problem.sides == 2 && join->list_length == 0 &&
		join->rows[1] < join->rows[0];
	outer_total = join->rows[join->outer_side];
	inner_total = join->rows[inner_side(join)];
	most = most_rows(join, panels_fit, 0, 1, outer_total);
	join->outer_rows = ceil_div(outer_total, ceil_div(outer_total, most));

	/* memory that remains because outer panels were made even goes to the inner panels */
	most = most_rows(join, panels_fit, join->outer_rows, ceil_div(most, OUTER_TO_INNER), inner_total);
	join->inner_rows = ceil_div(inner_total, ceil_div(inner_total, most));
}

void
panel_join_sizes(const PanelJoin *join, uint64_t *outer, uint64_t *inner)
{
	*outer = join->resident ? join->rows[0] : join->outer_rows;
	*inner = join->resident ? 0 : join->inner_rows;
}

/* --- rows from the caller */

/* Returns the panel into which rows of this side are loaded, or NULL if there is none. */
static Panel *
filling(PanelJoin *join, int side)
{
	if (side < 0 || side >= join->problem.sides)
		return NULL;
	if (!join->started)
		return &join->sides[side];
	return join->loading != NULL && join->loading->side == side ? join->loading : NULL;
}

/* Returns how many more rows may be added to a side, which searches limit. */
static uint64_t
rows_left(PanelJoin *join, int side)
{
	if (!join->problem.searches || join->engine->rows_for_lists == NULL)
		return UINT64_MAX;
	if (join->most_rows == 0)
		join->most_rows = most_rows(join, search_fits, 0, 1, FASTED_MAX_ROWS);
	return join->most_rows - join->sides[side].have;
}

FastedStatus
panel_join_stage(PanelJoin *join, int side, float **rows, size_t *capacity)
{
	Panel	   *panel = filling(join, side);
	uint64_t	left;
	FastedStatus status;

	if (panel == NULL || panel->sealed)
		return panels_fail(join, FASTED_INTERNAL, "rows were staged that were not requested");
	left = join->started ? panel->count - panel->have : rows_left(join, side);
	if (left == 0 && !join->started)
		return FASTED_FULL;
	status = join->engine->stage(panel->set, rows, capacity);
	if (status == FASTED_OK && *capacity > left)
		*capacity = left;
	return status;
}

FastedStatus
panel_join_commit(PanelJoin *join, int side, size_t nrows)
{
	Panel	   *panel = filling(join, side);
	FastedStatus status;

	if (panel == NULL || (join->started && nrows > panel->count - panel->have))
		return panels_fail(join, FASTED_INTERNAL, "rows were committed that were not requested");
	status = join->engine->commit(panel->set, nrows);
	if (status == FASTED_OK)
		panel->have += nrows;
	return status;
}

bool
panel_join_register_memory(PanelJoin *join, int side, void *memory, size_t bytes)
{
	return !join->started && join->engine->register_memory(join->sides[side].set, memory, bytes);
}

void
panel_join_unregister_memory(PanelJoin *join, int side)
{
	if (join->sides[side].set != NULL)
		join->engine->unregister_memory(join->sides[side].set);
}

FastedStatus
panel_join_put(PanelJoin *join, int side, const float *rows, size_t nrows, size_t *taken)
{
	uint64_t	left;
	FastedStatus status;

	*taken = 0;
	if (join->started)
		return panels_fail(join, FASTED_INTERNAL, "panel_join_put was called after start");
	left = rows_left(join, side);
	if (left == 0)
		return FASTED_FULL;
	if (nrows > left)
		nrows = left;
	status = join->engine->put(join->sides[side].set, rows, nrows, taken);
	join->sides[side].have += *taken;
	return status;
}

FastedStatus
panel_join_wait_read(PanelJoin *join, int side, bool all)
{
	FastedSet  *set = join->sides[side].set;

	return set != NULL ? join->engine->wait_read(set, all) : FASTED_OK;
}

FastedStatus
panel_join_read_back(PanelJoin *join, int side, uint64_t first_row, size_t nrows, float *rows)
{
	const Panel *panel = &join->sides[side];

	if (join->started || first_row > panel->have || nrows > panel->have - first_row)
		return panels_fail(join, FASTED_INTERNAL, "row numbers out of range in read_back");
	return join->engine->read_back(panel->set, first_row, nrows, rows);
}

/* --- the order in which panels are loaded */

static FastedStatus
open_panel(PanelJoin *join, Panel *panel, int side, uint64_t rows, uint32_t neighbors)
{
	FastedSetOptions options = {
		.expected_rows = rows,.most_rows = rows,.neighbors = neighbors
	};

	panel->side = side;
	return join->engine->set_open(join->context, &options, &panel->set);
}

/* Closes the sets of the sides and opens those of the panels. */
FastedStatus
panels_open(PanelJoin *join)
{
	FastedStatus status;

	for (int side = 0; side < join->problem.sides; side++)
	{
		join->engine->set_close(join->sides[side].set);
		join->sides[side].set = NULL;
	}
	status = open_panel(join, &join->outer, join->outer_side, join->outer_rows,
						panels_clip_neighbors(join, join->list_length));
	for (int i = 0; i < 2 && status == FASTED_OK; i++)
		status = open_panel(join, &join->inner[i], inner_side(join), join->inner_rows, 0);
	return status;
}

/* Opens the outer panel for a search among resident rows, and chooses its size. */
FastedStatus
panels_open_searched(PanelJoin *join)
{
	uint64_t	most = most_rows(join, search_fits, join->rows[1], 1, join->rows[0]);

	join->outer_rows = ceil_div(join->rows[0], ceil_div(join->rows[0], most));
	join->engine->set_close(join->outer.set);
	join->outer.set = NULL;
	return open_panel(join, &join->outer, 0, join->outer_rows, 1);
}

/* Starts to load a panel with rows from first on, at most `most` of them. */
static FastedStatus
load(PanelJoin *join, Panel *panel, uint64_t first, uint64_t most)
{
	uint64_t	left = join->rows[panel->side] - first;

	panel->first = first;
	panel->count = left < most ? left : most;
	panel->have = 0;
	panel->sealed = false;
	join->loading = panel;
	return join->engine->set_reset(panel->set, first);
}

/* Sets the first row of the next inner panel.  In a self-join, rows of the outer panel are skipped. */
static void
set_inner_next(PanelJoin *join, uint64_t next)
{
	uint64_t	end = join->outer.first + join->outer.count;

	if (join->problem.sides == 1 && next >= join->outer.first && next < end)
		next = end;
	join->inner_next = next;
}

/* Returns the maximum number of rows of the inner panel that starts at inner_next. */
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

/* Finds the inner rows to be joined with the outer panel that starts at outer_first.  False: none. */
static bool
find_inner_rows(const PanelJoin *join, uint64_t outer_first, uint64_t *first, uint64_t *end)
{
	int			side = inner_side(join);
	bool		found = false;

	*first = join->problem.sides == 2 || panels_find_nearest(join) ? 0 : outer_first;
	*end = join->rows[side];
	if (join->problem.problem.partitions == NULL)
		return true;
	for (uint32_t g = 0; g < join->problem.problem.npartitions; g++)
	{
		const FastedPartition *partition = &join->problem.problem.partitions[g];
		FastedSpan	outer = fasted_partition_rows(partition, join->outer_side);
		FastedSpan	inner = fasted_partition_rows(partition, side);

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
 * Starts to load the next outer panel, from row first on, that has rows to be joined with.  If there is
 * none, the join is done.
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
	join->has_lists = false;
	set_inner_next(join, inner_first);
	join->inner[0].sealed = join->inner[1].sealed = false;
	join->turn = 0;
	if (status != FASTED_OK || !join->resident)
		return status;
	/* a search among resident rows */
	status = join->engine->select_rows(join->outer.set, join->sides[0].set, join->search.rows + first,
									   join->outer.count);
	join->outer.have = join->outer.count;
	return status == FASTED_FULL
		? panels_fail(join, FASTED_INTERNAL, "the rows to search do not fit into memory") : status;
}

/* Starts to load the next inner panel, if there are more rows and one of the two is not sealed. */
FastedStatus
panels_load_inner(PanelJoin *join)
{
	Panel	   *panel = &join->inner[join->turn];
	FastedStatus status;

	if (join->loading != NULL || !join->outer.sealed || join->resident)
		return FASTED_OK;
	/* load the panel to be joined next or, if it is complete, the other panel */
	if (panel->sealed)
		panel = &join->inner[!join->turn];
	if (panel->sealed || join->inner_next >= join->inner_end)
		return FASTED_OK;
	status = load(join, panel, join->inner_next, inner_most(join));
	set_inner_next(join, panel->first + panel->count);
	return status;
}

/* Sets the batch to the rows that the caller has to stage.  Returns false if there are none now. */
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

/* If the panel being loaded is complete, seals it and starts to load the next inner panel. */
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
