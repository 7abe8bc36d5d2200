/*-------------------------------------------------------------------------
 *
 * panel_stats.c
 *	  Statistics and progress over all panels.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "panel_state.h"

/* Pairs of rows that a join of two panels compares, and that all of them do. */
double
panels_area(const Panel *a, const Panel *b)
{
	return a == b ? 0.5 * (double) a->count * ((double) a->count - 1.0)
		: (double) a->count * (double) b->count;
}

static double
whole_area(const PanelJoin *join)
{
	double		n = (double) join->rows[0];
	double		outer = (double) join->outer_rows;
	double		panels = ceil(n / outer);
	double		last = n - (panels - 1.0) * outer;

	/* rows of different panels meet twice */
	if (panels_find_nearest(join) && join->problem.sides == 1)
		return n * n - 0.5 * ((panels - 1.0) * outer * outer + last * last) - 0.5 * n;
	return join->problem.sides == 2 ? n * (double) join->rows[1] : 0.5 * n * (n - 1.0);
}

/* What was counted since then. */
void
panels_subtract_stats(FastedStats *stats, const FastedStats *before)
{
	stats->units_total -= before->units_total;
	stats->units_done -= before->units_done;
	stats->candidates -= before->candidates;
	stats->pairs -= before->pairs;
	stats->sampled_candidates -= before->sampled_candidates;
	stats->sampled_pairs -= before->sampled_pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		stats->pruned_tiles[level] -= before->pruned_tiles[level];
	stats->full_tiles -= before->full_tiles;
	stats->redone_units -= before->redone_units;
	stats->prepare_seconds -= before->prepare_seconds;
	stats->filter_seconds -= before->filter_seconds;
	stats->refine_seconds -= before->refine_seconds;
	stats->device_seconds -= before->device_seconds;
}

/* Without panels the engine's own units, else pairs of rows. */
static void
tell_progress(const PanelJoin *join, FastedStats *stats)
{
	double		compared = join->compared;

	if (!join->started || join->resident)
		return;
	if (join->join != NULL && stats->units_total > join->units_total)
		compared += panels_area(join->a, join->b) * (double) (stats->units_done - join->units_done)
			/ (double) (stats->units_total - join->units_total);
	stats->units_total = (uint64_t) whole_area(join);
	stats->units_done = join->done || compared > (double) stats->units_total ? stats->units_total
		: (uint64_t) compared;
}

void
panel_join_stats(const PanelJoin *join, FastedStats *stats)
{
	uint64_t	outer_total = join->rows[join->outer_side];

	*stats = (FastedStats) {0};
	if (join->context == NULL)
		return;
	join->engine->stats(join->context, stats);
	panels_subtract_stats(stats, &join->before);
	stats->rows = 0;
	for (int side = 0; side < join->problem.sides; side++)
		stats->rows += join->started ? join->rows[side] : join->sides[side].have;
	stats->dimensions = join->problem.options.dimensions;
	stats->panels = !join->started ? 0 : join->resident || join->outer_rows == 0 ? 1
		: (uint32_t) divide_up(outer_total, join->spread ? divide_up(join->outer_rows, join->devices)
							   : join->outer_rows);
	tell_progress(join, stats);
}
