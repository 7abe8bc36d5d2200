/*-------------------------------------------------------------------------
 *
 * panel_rows.c
 *	  Rows of each side on their way into its panel.
 *
 *-------------------------------------------------------------------------
 */
#include "panel_state.h"

/* The panel that takes rows of this side; NULL: none does. */
static Panel *
filling(PanelJoin *join, int side)
{
	if (side < 0 || side >= join->problem.sides)
		return NULL;
	if (!join->started)
		return &join->sides[side];
	return join->loading != NULL && join->loading->side == side ? join->loading : NULL;
}

FastedStatus
panel_join_stage(PanelJoin *join, int side, float **rows, size_t *capacity)
{
	Panel	   *panel = filling(join, side);
	FastedStatus status;

	if (join->failed != FASTED_OK)
		return join->failed;
	if (panel == NULL || panel->sealed)
		return panels_fail(join, FASTED_INTERNAL, "no row is wanted");
	status = join->engine->stage(panel->set, rows, capacity);
	if (status == FASTED_OK && join->started && *capacity > panel->count - panel->have)
		*capacity = panel->count - panel->have;
	return status;
}

FastedStatus
panel_join_commit(PanelJoin *join, int side, size_t nrows)
{
	Panel	   *panel = filling(join, side);
	FastedStatus status;

	if (join->failed != FASTED_OK)
		return join->failed;
	if (panel == NULL || (join->started && nrows > panel->count - panel->have))
		return panels_fail(join, FASTED_INTERNAL, "rows were committed that are not wanted");
	status = join->engine->commit(panel->set, nrows);
	if (status == FASTED_OK)
		panel->have += nrows;
	return status;
}

bool
panel_join_lend(PanelJoin *join, int side, void *memory, size_t bytes)
{
	return join->failed == FASTED_OK && !join->started &&
		join->engine->lend(join->sides[side].set, memory, bytes);
}

void
panel_join_withdraw(PanelJoin *join, int side)
{
	if (join->sides[side].set != NULL)
		join->engine->withdraw(join->sides[side].set);
}

FastedStatus
panel_join_put(PanelJoin *join, int side, const float *rows, size_t nrows, size_t *taken)
{
	FastedStatus status;

	*taken = 0;
	if (join->failed != FASTED_OK)
		return join->failed;
	if (join->started)
		return panels_fail(join, FASTED_INTERNAL, "rows are put before the start");
	status = join->engine->put(join->sides[side].set, rows, nrows, taken);
	join->sides[side].have += *taken;
	return status;
}

FastedStatus
panel_join_settle(PanelJoin *join, int side, bool all)
{
	if (join->failed != FASTED_OK || join->sides[side].set == NULL)
		return join->failed;
	return join->engine->settle(join->sides[side].set, all);
}

FastedStatus
panel_join_read_back(PanelJoin *join, int side, uint64_t first_row, size_t nrows, float *rows)
{
	const Panel *panel = &join->sides[side];

	if (join->failed != FASTED_OK)
		return join->failed;
	if (join->started || first_row > panel->have || nrows > panel->have - first_row)
		return panels_fail(join, FASTED_INTERNAL, "rows that are not staged were to be read back");
	return join->engine->read_back(panel->set, first_row, nrows, rows);
}
