/*-------------------------------------------------------------------------
 *
 * components.c
 *	  Nearest neighbors in other components, by mutual reachability distance (FastedComponents).
 *
 * Tiles whose rows and columns all belong to one component are skipped: rows/component_order.c moves
 * the rows of a large component together.  In the remaining tiles, candidates of the same component
 * are removed before the recheck.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>

#include "components.h"
#include "../rows/order.h"

/* --- lists */

void
cpu_bound_radii(FastedJoin *join)
{
	const FastedComponents *components = join->problem.components;
	NeighborLists *lists = &join->sets[0]->lists;

	for (size_t row = 0; row < lists->rows; row++)
	{
		bool		none = components->core[0][row] > fmin(components->bound[row], DBL_MAX);

		neighbor_lists_bound(lists, row, none ? -INFINITY : components->bound[row]);
		join->unbounded = join->unbounded || (!none && isinf(components->bound[row]));
	}
}

double
cpu_mutual_reachability(const FastedJoin *join, size_t a, size_t b, double dist)
{
	const FastedComponents *components = join->problem.components;

	return fmax(dist, fmax(components->core[0][a], components->core[1][b]));
}

bool
cpu_are_components_apart(const FastedJoin *join, size_t a, size_t b)
{
	return cpu_component_at(join, 0, a) != cpu_component_at(join, 1, b) &&
		join->problem.components->core[1][cpu_row_at(join->sets[1], b)] <= DBL_MAX;
}

void
cpu_keep_components(Worker *worker, const Strip *strip, uint32_t row, uint32_t first)
{
	const FastedJoin *join = worker->join;
	const FastedComponents *components = join->problem.components;
	const NeighborLists *lists = &join->sets[0]->lists;
	int			side = join->row_side;
	size_t		x = cpu_row_at(join->row_set, strip->first_a + row);
	uint32_t	component = components->component[side][x];
	uint32_t	kept = first;

	for (uint32_t c = first; c < worker->listed; c++)
	{
		size_t		y = cpu_row_at(join->col_set, strip->first_b + worker->list[c].col);
		size_t		a = side == 0 ? x : y;
		size_t		b = side == 0 ? y : x;

		if (components->component[!side][y] != component &&
			components->core[1][b] <= fmin(neighbor_radius(lists, a), DBL_MAX))
			worker->list[kept++] = worker->list[c];
	}
	worker->listed = kept;
}

/* --- tiles that are skipped */

/* Returns whether rows at places first ... end - 1 of a set are known to be of this component. */
static bool
is_within(const FastedJoin *join, int side, size_t first, size_t end, uint32_t component)
{
	return end <= join->sets[side]->levels.grouped && cpu_component_at(join, side, first) == component &&
		cpu_component_at(join, side, end - 1) == component;
}

FastedSpan
cpu_mixed_tiles(const FastedJoin *join, const Strip *strip, size_t col, FastedSpan tiles)
{
	const CpuKernel *kernel = join->context->kernel;
	size_t		rows = join->row_set->rows.rows;
	size_t		cols = join->col_set->rows.rows;
	size_t		end = col + kernel->tile_cols < cols ? col + kernel->tile_cols : cols;
	uint32_t	component = cpu_component_at(join, !join->row_side, col);

	if (!is_within(join, !join->row_side, col, end, component))
		return tiles;
	for (bool at_end = false; tiles.first < tiles.end;)
	{
		uint32_t	tile = at_end ? tiles.end - 1 : tiles.first;
		size_t		first = strip->first_a + (size_t) tile * kernel->tile_rows;
		size_t		last = first + kernel->tile_rows < rows ? first + kernel->tile_rows : rows;

		if (is_within(join, join->row_side, first, last, component))
			*(at_end ? &tiles.end : &tiles.first) += at_end ? -1 : 1;
		else if (at_end)
			break;
		else
			at_end = true;
	}
	return tiles;
}
