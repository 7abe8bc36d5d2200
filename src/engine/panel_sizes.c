/*-------------------------------------------------------------------------
 *
 * panel_sizes.c
 *	  How many rows each panel has.
 *
 *-------------------------------------------------------------------------
 */
#include "panel_state.h"

/* The outer panel is so many times as large as each of the inner ones. */
#define OUTER_TO_INNER 8

/* The rows that panels of the outer one are joined with. */
int
panels_inner_side(const PanelJoin *join)
{
	return join->problem.sides == 2 ? !join->outer_side : 0;
}

/* No row has more neighbours than there are rows. */
uint32_t
panels_clip_neighbors(const PanelJoin *join, uint32_t k)
{
	uint64_t	rows = join->problem.sides == 2 ? join->rows[1]
		: join->rows[0] > 0 ? join->rows[0] - 1 : 0;

	if (rows < 1)
		rows = 1;
	return k < rows ? k : (uint32_t) rows;
}

static bool
panels_fit(const PanelJoin *join, uint64_t outer, uint64_t inner)
{
	uint64_t	rows[3] = {outer, inner, inner};

	if (join->list_length > 0)
		rows[0] += join->engine->list_rows(join->context, outer,
										   panels_clip_neighbors(join, join->list_length));
	return (join->spread ? join->engine->fits_spread : join->engine->fits) (join->context, rows, 3);
}

/* Over so many devices an outer panel may be spread. */
static uint64_t
width(const PanelJoin *join)
{
	return join->engine->width == NULL ? 1 : (uint64_t) join->engine->width(join->context);
}

static uint64_t
inner_of(const PanelJoin *join, uint64_t outer)
{
	return divide_up(join->spread ? divide_up(outer, width(join)) : outer, OUTER_TO_INNER);
}

/* Rows that an outer panel may have. */
static uint64_t
most_outer(const PanelJoin *join)
{
	uint64_t	low = 1;
	uint64_t	high = join->rows[join->outer_side];

	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (panels_fit(join, middle, inner_of(join, middle)))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/*
 * An outer panel on several devices, if it is larger than that of one.  Slices are those of
 * one device's panels: other processes may have fewer.
 */
static uint64_t
most_spread(PanelJoin *join, uint64_t most)
{
	uint64_t	spread;

	if (width(join) < 2 || join->list_length > 0 || join->problem.problem.slices > 1)
		return most;
	join->spread = true;
	spread = most_outer(join);
	join->spread = spread > most;
	join->devices = width(join);
	return join->spread ? spread : most;
}

/* The sizes of panels: of even size, as large as they may be. */
void
panels_choose(PanelJoin *join)
{
	uint64_t	outer_total;
	uint64_t	inner_total;
	uint64_t	low;
	uint64_t	high;

	join->outer_side = join->problem.sides == 2 && join->list_length == 0 &&
		join->rows[1] < join->rows[0];
	outer_total = join->rows[join->outer_side];
	inner_total = join->rows[panels_inner_side(join)];

	join->spread = false;
	low = most_spread(join, most_outer(join));
	join->outer_rows = divide_up(outer_total, divide_up(outer_total, low));

	/* what even sizes leave is the inner panels' */
	low = inner_of(join, low);
	high = inner_total;
	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (panels_fit(join, join->outer_rows, middle))
			low = middle;
		else
			high = middle - 1;
	}
	join->inner_rows = divide_up(inner_total, divide_up(inner_total, low));
}

void
panel_join_sizes(const PanelJoin *join, uint64_t *outer, uint64_t *inner)
{
	*outer = join->resident ? join->rows[0] : join->outer_rows;
	*inner = join->resident ? 0 : join->inner_rows;
}
