/*-------------------------------------------------------------------------
 *
 * cpu_components.c
 *	  Nearest neighbors in other components, by mutual reachability distance (FastedComponents).
 *
 * Pairs of rows of the same component are often near each other, but must be ignored.  Packed rows
 * are therefore moved, so that the rows of a large component are adjacent.  Tiles whose rows and
 * columns all belong to one component are skipped.  In the remaining tiles, candidates of the same
 * component are removed before the recheck.
 *
 * Within a component, and among the rows of small components, the order of rows is retained.  Near
 * rows thus remain adjacent, on which pruning depends.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>

#include "cpu_filter.h"

/* A component is large if it has at least this number of tile columns. */
#define LARGE_TILES 2

/*
 * Rows are moved only if large components have at least one in MOVED_PART of the pairs of a set's
 * rows, because only these pairs can be skipped.
 */
#define MOVED_PART 8

/* Rows between two checks for a pause or stop. */
#define CHECK_EVERY 1024

/* Returns the component of the row at this place of set `side`. */
static uint32_t
component_at(const FastedJoin *join, int side, size_t place)
{
	return join->problem.components->component[side][cpu_row_at(join->sets[side], place)];
}

/* --- lists */

/*
 * Lowers the radius of each row of set a to its bound.  The radius of a row without neighbours is
 * set to minus infinity.
 */
void
cpu_bound_radii(FastedJoin *join)
{
	const FastedComponents *components = join->problem.components;
	NeighborLists *lists = &join->sets[0]->lists;

	for (size_t row = 0; row < lists->rows; row++)
	{
		bool		none = components->core[0][row] > fmin(components->bound[row], DBL_MAX);

		neighbor_lists_bound(lists, row, none ? -INFINITY : components->bound[row]);
	}
}

/* Returns the mutual reachability distance of two rows of this distance, given by row numbers. */
double
cpu_mutual_reachability(const FastedJoin *join, size_t row, size_t col, double dist)
{
	const FastedComponents *components = join->problem.components;

	return fmax(dist, fmax(components->core[join->row_side][row],
						   components->core[!join->row_side][col]));
}

/*
 * Removes a row's candidates, listed from `first` on, that are of the same component, and those
 * whose core distance is infinite or exceeds the radius.
 */
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

/* Returns whether all rows at places first ... end - 1 of a set are known to be of this component. */
static bool
is_within(const FastedJoin *join, int side, size_t first, size_t end, uint32_t component)
{
	return end <= join->sets[side]->levels.grouped && component_at(join, side, first) == component &&
		component_at(join, side, end - 1) == component;
}

/*
 * Returns those row tiles of a strip that may have pairs of different components with the column
 * tile that begins at `col`, among the tiles given.
 */
FastedSpan
cpu_mixed_tiles(const FastedJoin *join, const Strip *strip, size_t col, FastedSpan tiles)
{
	const CpuKernel *kernel = join->context->kernel;
	size_t		rows = join->row_set->rows.rows;
	size_t		cols = join->col_set->rows.rows;
	size_t		end = col + kernel->tile_cols < cols ? col + kernel->tile_cols : cols;
	uint32_t	component = component_at(join, !join->row_side, col);

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

/* --- the order */

/* Allocates buffers, unless rows must not be moved.  Returns false if out of memory. */
bool
cpu_reserve_grouping(FastedJoin *join)
{
	FastedContext *context = join->context;

	for (int i = 0; i < 2 && join->problem.components != NULL && join->problem.partitions == NULL; i++)
	{
		size_t		rows = join->sets[i]->rows.rows;

		join->keys[i] = fasted_cpu_map(rows * sizeof(uint64_t), &context->memory);
		if (join->keys[i] == NULL || !cpu_levels_reserve(context, &join->sets[i]->levels, rows))
			return false;
	}
	return true;
}

bool
cpu_begin_grouping(FastedJoin *join)
{
	return join->keys[0] != NULL;
}

/* Frees the buffers.  Sets whose rows were moved only in part have to be packed again. */
void
cpu_end_grouping(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		if (join->sets[i]->levels.moving)
			cpu_set_forget_form(join->sets[i]);
		fasted_cpu_unmap(join->keys[i], join->sets[i]->rows.rows * sizeof(uint64_t),
						 &join->context->memory);
	}
}

/* Moves the key at `hole` down a heap of `count` keys, whose root is the largest one. */
static void
sift_down(uint64_t *keys, size_t hole, size_t count)
{
	uint64_t	key = keys[hole];
	size_t		child;

	while ((child = 2 * hole + 1) < count)
	{
		if (child + 1 < count && keys[child + 1] > keys[child])
			child++;
		if (keys[child] <= key)
			break;
		keys[hole] = keys[child];
		hole = child;
	}
	keys[hole] = key;
}

/* Heap sort, which needs no memory.  Returns false if the join is being closed. */
static bool
sort_keys(FastedContext *context, uint64_t *keys, size_t count)
{
	for (size_t i = count / 2; i-- > 0;)
	{
		if (i % CHECK_EVERY == 0 && !cpu_may_continue(context))
			return false;
		sift_down(keys, i, count);
	}
	for (size_t left = count; left > 1;)
	{
		uint64_t	largest = keys[0];

		keys[0] = keys[--left];
		keys[left] = largest;
		sift_down(keys, 0, left);
		if (left % CHECK_EVERY == 0 && !cpu_may_continue(context))
			return false;
	}
	return true;
}

/*
 * Moves the keys of large components to the front of the sorted keys.  Returns their number, or
 * zero if these components have too few pairs.
 */
static size_t
separate_large(uint64_t *keys, size_t rows, size_t large)
{
	size_t		count = 0;
	double		pairs = 0.0;

	for (size_t first = 0, end; first < rows; first = end)
	{
		for (end = first + 1; end < rows && keys[end] >> 32 == keys[first] >> 32;)
			end++;
		if (end - first < large)
			continue;
		pairs += (double) (end - first) * (double) (end - first);
		for (size_t i = first; i < end; i++, count++)
		{
			uint64_t	key = keys[i];

			keys[i] = keys[count];
			keys[count] = key;
		}
	}
	return pairs * MOVED_PART >= (double) rows * (double) rows ? count : 0;
}

/* Computes the order of a set: keys have the present place of each row. */
static bool
find_order(Worker *worker, int i, size_t *grouped)
{
	const FastedJoin *join = worker->join;
	size_t		rows = join->sets[i]->rows.rows;
	uint64_t   *keys = join->keys[i];

	for (size_t place = 0; place < rows; place++)
	{
		if (place % CHECK_EVERY == 0 && !cpu_may_continue(worker->context))
			return false;
		keys[place] = (uint64_t) component_at(join, i, place) << 32 | place;
	}
	if (!sort_keys(worker->context, keys, rows))
		return false;
	*grouped = separate_large(keys, rows, LARGE_TILES * worker->context->kernel->tile_cols);
	for (size_t place = 0; place < rows; place++)
		keys[place] &= UINT32_MAX;
	return sort_keys(worker->context, keys + *grouped, rows - *grouped);
}

/* --- moving rows */

static void
swap_words(uint32_t *x, uint32_t *y)
{
	uint32_t	word = *x;

	*x = *y;
	*y = word;
}

/* Exchanges the words of two packed rows of one side of tiles. */
static void
swap_packed(uint32_t *packed, const PackLayout *layout, uint32_t width, uint32_t together,
			size_t x, size_t y)
{
	for (uint32_t first = 0; first < layout->words; first += layout->slice)
	{
		uint32_t	depth = slice_depth(layout, first);
		uint32_t   *to_x = packed + pack_offset(layout, width, x / width, first) + x % width * together;
		uint32_t   *to_y = packed + pack_offset(layout, width, y / width, first) + y % width * together;

		for (uint32_t k = 0; k < depth; k++)
		{
			size_t		at = (size_t) (k / together) * together * width + k % together;

			swap_words(to_x + at, to_y + at);
		}
	}
}

/* Exchanges the rows at two places of packed rows. */
static void
swap_rows(const CpuKernel *kernel, PackedRows *rows, size_t x, size_t y)
{
	const Int8Kernel *int8 = rows->layout.int8 ? kernel->int8 : NULL;
	uint32_t   *thresholds[2] = {rows->as_a.threshold, rows->as_b.threshold};
	RowTerms	terms = rows->terms[x];

	rows->terms[x] = rows->terms[y];
	rows->terms[y] = terms;
	if (rows->squares != NULL)
	{
		double		square = rows->squares[x];

		rows->squares[x] = rows->squares[y];
		rows->squares[y] = square;
	}
	swap_packed(rows->as_b.packed, &rows->layout, kernel->width, int8 != NULL ? int8->b_words : 1, x, y);
	if (rows->as_a.packed != rows->as_b.packed)
		swap_packed(rows->as_a.packed, &rows->layout, kernel->width, int8->a_words, x, y);
	for (int side = thresholds[0] == thresholds[1]; side < 2; side++)
		swap_words(&thresholds[side][x], &thresholds[side][y]);
}

/*
 * Moves the rows of a set, with all that is packed, to the order in keys.  The cycles of the
 * permutation are followed.  Returns false if the join is being closed.
 */
static bool
move_rows(Worker *worker, FastedSet *set, const Projection *projection, uint64_t *keys)
{
	const CpuKernel *kernel = worker->context->kernel;
	size_t		moved = 0;

	for (size_t place = 0; place < set->rows.rows; place++)
	{
		size_t		hole = place;
		size_t		next;

		while ((next = keys[hole]) != place)
		{
			if (moved++ % CHECK_EVERY == 0 && !cpu_may_continue(worker->context))
				return false;
			swap_words(&set->levels.order[hole], &set->levels.order[next]);
			swap_rows(kernel, &set->packed, hole, next);
			for (uint32_t level = 0; projection != NULL && level < projection->levels; level++)
				swap_rows(kernel, &set->levels.packed[level], hole, next);
			keys[hole] = hole;
			hole = next;
		}
		keys[hole] = hole;
	}
	return true;
}

/* Moves the rows of large components of a set together.  Stops if the join is being closed. */
static void
group_set(Worker *worker, int i)
{
	FastedJoin *join = worker->join;
	FastedSet  *set = join->sets[i];
	SetLevels  *levels = &set->levels;
	size_t		grouped = 0;

	levels->grouped = 0;
	if (!find_order(worker, i, &grouped) || grouped == 0)
		return;
	levels->moving = true;
	for (size_t place = 0; place < set->rows.rows && !levels->ordered; place++)
		levels->order[place] = (uint32_t) place;
	levels->ordered = true;
	levels->sorted = false;
	set->packed.fine.values = NULL;
	if (!move_rows(worker, set, join->pruning ? join->projection : levels->projection, join->keys[i]) ||
		!cpu_hash_order(set))
		return;
	levels->moving = false;
	levels->grouped = grouped;
}

/* Groups the rows of both sets; each set is one work item. */
void
cpu_group_rows(Worker *worker)
{
	uint64_t	i;

	while ((i = cpu_next_item(worker->context)) < (uint64_t) worker->join->nsets)
		group_set(worker, (int) i);
}
