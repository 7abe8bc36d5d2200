/*-------------------------------------------------------------------------
 *
 * panel_groups.c
 *	  Groups of rows, clipped to the panels that are joined.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "panel_state.h"

/* Room for the groups of two panels, if there are groups. */
bool
panels_make_groups(PanelJoin *join)
{
	const FastedProblem *problem = &join->problem.problem;

	free(join->groups);
	join->groups = NULL;
	if (problem->groups == NULL)
		return true;
	join->groups = malloc(((size_t) problem->ngroups + 1) * sizeof(FastedRowGroup));
	return join->groups != NULL;
}

/* What a panel has of a side of a group: places in it. */
static FastedSpan
clip_group(const PanelJoin *join, uint32_t g, const Panel *panel)
{
	FastedSpan	span = fasted_group_rows(&join->problem.problem.groups[g], panel->side);
	uint64_t	ends[2] = {span.first, span.end};

	for (int i = 0; i < 2; i++)
		ends[i] = ends[i] < panel->first ? 0
			: ends[i] - panel->first < panel->count ? ends[i] - panel->first : panel->count;
	span.first = (uint32_t) ends[0];
	span.end = (uint32_t) ends[1];
	return span;
}

/*
 * The groups of the panels that are joined.  All are there, also those without rows in
 * either: so a set's groups are the same in all its joins, and stay what they are.
 */
void
panels_clip_groups(PanelJoin *join)
{
	for (uint32_t g = 0; g < join->problem.problem.ngroups; g++)
	{
		FastedSpan	a = clip_group(join, g, join->a);
		FastedSpan	b = clip_group(join, g, join->b);

		join->groups[g] = (FastedRowGroup) {
			.first_a = a.first,.rows_a = a.end - a.first,
			.first_b = b.first,.rows_b = b.end - b.first
		};
	}
}
