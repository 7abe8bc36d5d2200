/*-------------------------------------------------------------------------
 *
 * component_order.c
 *	  Moves the packed rows of large components together (FastedComponents).
 *
 * Pairs of rows of the same component must be ignored.  If the rows of a large component are adjacent,
 * tiles within one component are skipped (filter/components.c), which halves the time of HDBSCAN.  Within
 * a component, and among the rows of small ones, the order is retained, on which pruning depends.
 *
 *-------------------------------------------------------------------------
 */
#include "levels.h"
#include "order.h"

/*
 * A component is large if it has at least one in LARGE_PART of a sample of a set's rows.  There are at
 * most LARGE_PART of them.
 */
#define LARGE_PART 16
#define SAMPLED_ROWS 256

/*
 * Rows are moved only if large components have at least one in MOVED_PART of the pairs of a set's
 * rows, because only these pairs can be skipped.
 */
#define MOVED_PART 8

/* Rows between two checks for a pause or stop. */
#define CHECK_EVERY 1024

bool
cpu_reserve_grouping(FastedJoin *join)
{
	FastedContext *context = join->context;

	if (join->problem.components == NULL || join->problem.partitions != NULL)
		return true;
	for (int i = 0; i < 2; i++)
	{
		size_t		rows = join->sets[i]->rows.rows;

		join->keys[i] = fasted_cpu_map(rows * sizeof(uint32_t), &context->memory);
		if (join->keys[i] == NULL)
			return false;
	}
	return cpu_reserve_orders(join);
}

bool
cpu_begin_grouping(FastedJoin *join)
{
	return join->keys[0] != NULL;
}

void
cpu_end_grouping(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		if (join->sets[i]->levels.moving)
			cpu_set_discard_packed(join->sets[i]);
		fasted_cpu_unmap(join->keys[i], join->sets[i]->rows.rows * sizeof(uint32_t),
						 &join->context->memory);
	}
}

/* Returns the number of the component among the large ones, or `count` if it is not among them. */
static uint32_t
large_number(const uint32_t *large, uint32_t count, uint32_t component)
{
	uint32_t	i = 0;

	while (i < count && large[i] != component)
		i++;
	return i;
}

/* Lists the components that are large in a sample of the rows of set i.  Returns their number. */
static uint32_t
find_large(const FastedJoin *join, int i, uint32_t *large)
{
	uint32_t	rows = (uint32_t) join->sets[i]->rows.rows;
	uint32_t	sampled = rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
	uint32_t	component[SAMPLED_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < sampled; s++)
	{
		uint32_t	same = 1;

		component[s] = cpu_component_at(join, i, fasted_sample_row(s, sampled, rows));
		for (uint32_t t = 0; t < s; t++)
			same += component[t] == component[s];
		if (same == (sampled + LARGE_PART - 1) / LARGE_PART)
			large[count++] = component[s];
	}
	return count;
}

/*
 * Computes the order of a set: keys have the present place of each row.  Sets *grouped to the number
 * of rows of large components, which come first, or to zero if these components have too few pairs.
 * Returns false if the join is being closed.
 */
static bool
find_order(Worker *worker, int i, size_t *grouped)
{
	const FastedJoin *join = worker->join;
	size_t		rows = join->sets[i]->rows.rows;
	uint32_t	large[LARGE_PART];
	uint32_t	count = find_large(join, i, large);
	size_t		first[LARGE_PART + 2] = {0};
	double		pairs = 0.0;

	for (size_t place = 0; place < rows; place++)
	{
		if (place % CHECK_EVERY == 0 && !cpu_may_continue(worker->context))
			return false;
		first[large_number(large, count, cpu_component_at(join, i, place)) + 1]++;
	}
	for (uint32_t c = 0; c < count; c++)
	{
		pairs += (double) first[c + 1] * (double) first[c + 1];
		first[c + 1] += first[c];
	}
	*grouped = pairs * MOVED_PART >= (double) rows * (double) rows ? first[count] : 0;
	for (size_t place = 0; place < rows && *grouped > 0; place++)
	{
		if (place % CHECK_EVERY == 0 && !cpu_may_continue(worker->context))
			return false;
		join->keys[i][first[large_number(large, count, cpu_component_at(join, i, place))]++] = (uint32_t) place;
	}
	return true;
}

/* --- moving rows */

#define SWAP(x, y) \
	do \
	{ \
		__typeof__(x) held = (x); \
 \
		(x) = (y); \
		(y) = held; \
	} while (0)

/* Exchanges the words of two packed rows of one side of tiles. */
static void
swap_packed(uint32_t *packed, const PackLayout *layout, uint32_t width, uint32_t together,
			size_t x, size_t y)
{
	for (uint32_t first = 0; first < layout->words; first += layout->segment)
	{
		uint32_t	depth = segment_words(layout, first);
		uint32_t   *to_x = packed + pack_offset(layout, width, x / width, first) + x % width * together;
		uint32_t   *to_y = packed + pack_offset(layout, width, y / width, first) + y % width * together;

		for (uint32_t k = 0; k < depth; k++)
		{
			size_t		at = (size_t) (k / together) * together * width + k % together;

			SWAP(to_x[at], to_y[at]);
		}
	}
}

/* Exchanges the rows at two places of packed rows. */
static void
swap_rows(const CpuKernel *kernel, PackedRows *rows, size_t x, size_t y)
{
	const TileProduct *product = cpu_product(kernel, rows->filter);
	uint32_t   *thresholds[2] = {rows->as_a.threshold, rows->as_b.threshold};

	SWAP(rows->terms[x], rows->terms[y]);
	if (rows->squares != NULL)
		SWAP(rows->squares[x], rows->squares[y]);
	swap_packed(rows->as_b.packed, &rows->layout, kernel->width, product->b_words, x, y);
	if (rows->as_a.packed != rows->as_b.packed)
		swap_packed(rows->as_a.packed, &rows->layout, kernel->width, product->a_words, x, y);
	for (int side = thresholds[0] == thresholds[1]; side < 2; side++)
		SWAP(thresholds[side][x], thresholds[side][y]);
}

/*
 * Moves the rows of a set, with all that is packed, to the order in keys.  The cycles of the
 * permutation are followed.  Returns false if the join is being closed.
 */
static bool
move_rows(Worker *worker, FastedSet *set, const Projection *projection, uint32_t *keys)
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
			SWAP(set->levels.order[hole], set->levels.order[next]);
			swap_rows(kernel, &set->packed, hole, next);
			for (uint32_t level = 0; projection != NULL && level < projection->levels; level++)
				swap_rows(kernel, &set->levels.packed[level], hole, next);
			keys[hole] = (uint32_t) hole;
			hole = next;
		}
		keys[hole] = (uint32_t) hole;
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
	set->packed.fine.values = NULL; /* INT16 rows are not moved, because this join has none */
	if (!move_rows(worker, set, join->pruning.state != PRUNING_OFF ? join->pruning.projection
				   : levels->projection, join->keys[i]) || !cpu_hash_order(set))
		return;
	levels->moving = false;
	levels->grouped = grouped;
}

void
cpu_group_rows(Worker *worker)
{
	cpu_do_sets(worker, PACKED_ALREADY, group_set);
}
