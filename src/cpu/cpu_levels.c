/*-------------------------------------------------------------------------
 *
 * cpu_levels.c
 *	  Pruning data of a set: the order of its rows, and its packed level rows.
 *
 * Rows are ordered like the leaves of a k-d tree.  Each part is halved near the median of the
 * coordinate that varies most, among the leading ones and the residual.  Halves are whole tile
 * columns, and whole tile rows once a part is not larger than one tile column.  The same rows
 * always get the same order, for any number of threads.
 *
 * Projected rows exist only until level rows are packed.  If it is large enough, they use the
 * buffer of the packed rows, which a new order invalidates anyway.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "cpu_levels.h"

/* Number of coordinates that may divide a part, and of rows sampled to choose among them. */
#define COORDINATES 10
#define VARIANCE_ROWS 64

/* Rows between two checks for a pause or stop. */
#define CHECK_EVERY 16384

typedef struct Key
{
	float		key;
	uint32_t	row;
} Key;

typedef struct KdOrder
{
	Worker	   *worker;
	const float *projected;
	uint32_t	stride;
	uint32_t	coordinates[COORDINATES];
	uint32_t	ncoordinates;
	Key		   *keys;
	uint32_t   *order;
} KdOrder;

static float
value(const KdOrder *kd, uint32_t row, uint32_t coordinate)
{
	return kd->projected[(size_t) row * kd->stride + coordinate];
}

/* Returns the coordinate with the largest variance in a sample of a part's rows. */
static uint32_t
choose_coordinate(const KdOrder *kd, size_t first, size_t count)
{
	double		widest = -1.0;
	uint32_t	best = 0;
	size_t		rows = count < VARIANCE_ROWS ? count : VARIANCE_ROWS;

	for (uint32_t c = 0; c < kd->ncoordinates; c++)
	{
		double		sum = 0.0;
		double		squares = 0.0;
		double		variance;
		double		origin = value(kd, kd->order[first], kd->coordinates[c]);

		for (size_t i = 0; i < rows; i++)
		{
			double		x = value(kd, kd->order[first + i * count / rows], kd->coordinates[c]) - origin;

			sum += x;
			squares += x * x;
		}
		variance = squares - sum * sum / rows;
		if (variance > widest)
		{
			widest = variance;
			best = kd->coordinates[c];
		}
	}
	return best;
}

/*
 * Moves the `middle` smallest keys to the front: Hoare's selection algorithm, with the median of
 * three as pivot.  Returns false if the join is being closed.
 */
static bool
select_keys(const KdOrder *kd, int64_t count, int64_t middle)
{
	Key		   *keys = kd->keys;
	int64_t		low = 0;
	int64_t		high = count - 1;
	size_t		steps = 0;

	while (low < high)
	{
		float		a = keys[low].key;
		float		b = keys[low + (high - low) / 2].key;
		float		c = keys[high].key;
		float		pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
		int64_t		i = low;
		int64_t		j = high;

		while (i <= j)
		{
			Key			key = keys[i];

			if (key.key < pivot)
				i++;
			else if (keys[j].key > pivot)
				j--;
			else
			{
				keys[i++] = keys[j];
				keys[j--] = key;
			}
			if (++steps % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
				return false;
		}
		if (j < middle)
			low = i;
		if (middle < i)
			high = j;
	}
	return true;
}

/*
 * Divides a part, so that the first `left` rows form one half.  False if the join is being closed.
 */
static bool
divide(const KdOrder *kd, size_t first, size_t count, size_t left)
{
	uint32_t	coordinate = choose_coordinate(kd, first, count);

	for (size_t i = 0; i < count; i++)
	{
		uint32_t	row = kd->order[first + i];

		if (i % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		kd->keys[i] = (Key) {.key = value(kd, row, coordinate),.row = row};
	}
	if (!select_keys(kd, (int64_t) count, (int64_t) left))
		return false;
	for (size_t i = 0; i < count; i++)
	{
		/* skip the check in small parts, of which there are many */
		if ((i + 1) % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		kd->order[first + i] = kd->keys[i].row;
	}
	return true;
}

/*
 * Returns the rows of the left half, in whole tile columns or tile rows.  Returns `count` if the
 * part is not to be divided.
 */
static size_t
half_of(const CpuKernel *kernel, size_t count)
{
	size_t		step = count > kernel->tile_cols ? kernel->tile_cols : kernel->tile_rows;

	return count <= step ? count : (count / step + 1) / 2 * step;
}

/* Orders a part recursively.  Returns false if the join is being closed. */
static bool
order_part(const KdOrder *kd, size_t first, size_t count)
{
	size_t		left = half_of(kd->worker->context->kernel, count);

	return left >= count ||
		(divide(kd, first, count, left) && order_part(kd, first + left, count - left) &&
		 order_part(kd, first, left));
}

/*
 * Lists all rows, those without coordinates last, and counts the others.  Returns false if the
 * join is being closed.
 */
static bool
separate_unplaced(const KdOrder *kd, const Projection *projection, size_t rows, size_t *count)
{
	size_t		placed = 0;
	size_t		others = rows;

	for (size_t row = 0; row < rows; row++)
	{
		if (row % CHECK_EVERY == 0 && !cpu_may_continue(kd->worker->context))
			return false;
		if (isfinite(value(kd, (uint32_t) row, projected_moved(projection, 0))))
			kd->order[placed++] = (uint32_t) row;
		else
			kd->order[--others] = (uint32_t) row;
	}
	*count = placed;
	return true;
}

bool
cpu_kd_order(Worker *worker, const Projection *projection, const float *projected,
			 size_t rows, void *buffer, uint32_t *order)
{
	KdOrder		kd = {
		.worker = worker,.projected = projected,.stride = projection->stride,.keys = buffer,
		.order = order
	};
	size_t		placed;

	while (kd.ncoordinates < COORDINATES - 1 && kd.ncoordinates < projection->directions)
	{
		kd.coordinates[kd.ncoordinates] = kd.ncoordinates;
		kd.ncoordinates++;
	}
	kd.coordinates[kd.ncoordinates++] = projected_residual(projection, 0);
	return separate_unplaced(&kd, projection, rows, &placed) && order_part(&kd, 0, placed);
}

/* --- memory */

/* Rows between two checks for a stop, where a row takes only a few nanoseconds. */
#define ROWS_PER_CHECK (1 << 16)

/* Returns true if projected rows need no buffer of their own: that of the packed rows suffices. */
static bool
borrows_room(const FastedContext *context)
{
	return !context->may_prune ||
		cpu_projected_stride(context) * sizeof(float) <= cpu_packed_row_bytes(context, FULL_STAGE);
}

/* Returns the pruning memory per row: order, level rows, and temporary projected rows. */
size_t
cpu_levels_row_bytes(const FastedContext *context)
{
	size_t		bytes = sizeof(uint32_t);

	if (!borrows_room(context))
		bytes += cpu_projected_stride(context) * sizeof(float);
	for (uint32_t level = 0; level < cpu_prune_levels(context); level++)
		bytes += cpu_packed_row_bytes(context, level) + cpu_packed_side_bytes(context, level);
	return bytes;
}

/* Marks the rows as neither ordered nor projected. */
static void
cpu_levels_forget(FastedContext *context, SetLevels *levels)
{
	cpu_projection_drop(context, levels->projection);
	levels->projection = NULL;
	levels->ordered = levels->sorted = levels->moving = false;
	levels->grouped = 0;
	levels->eps = NAN;
}

void
cpu_levels_free(FastedContext *context, SetLevels *levels)
{
	cpu_levels_forget(context, levels);
	fasted_cpu_unmap(levels->order, levels->bytes, &context->memory);
	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		cpu_packed_free(context, &levels->packed[level]);
	memset(levels, 0, sizeof(*levels));
	levels->eps = NAN;
}

/* Allocates pruning memory for `rows` rows.  Returns false if out of memory. */
bool
cpu_levels_reserve(FastedContext *context, SetLevels *levels, size_t rows)
{
	size_t		stride = borrows_room(context) ? 0 : cpu_projected_stride(context);
	bool		allocated;

	if (rows <= levels->capacity)
		return true;
	cpu_levels_free(context, levels);
	levels->bytes = rows * (stride * sizeof(float) + sizeof(uint32_t));
	levels->order = fasted_cpu_map(levels->bytes, &context->memory);
	allocated = levels->order != NULL;
	if (allocated && stride > 0)
		levels->projected = (float *) (levels->order + rows);
	for (uint32_t level = 0; allocated && level < cpu_prune_levels(context); level++)
		allocated = cpu_packed_reserve(context, &levels->packed[level], rows, level);
	levels->capacity = allocated ? rows : 0;
	return allocated;
}

/* Discards a set's packed rows and the order of its rows. */
void
cpu_set_forget_form(FastedSet *set)
{
	cpu_levels_forget(set->context, &set->levels);
	cpu_form_drop(set->context, set->form);
	set->form = NULL;
	set->eps = set->chosen_eps = NAN;
	set->suits_itself = false;
}

/* --- level rows */

/* Extracts a level row from a projected row. */
void
cpu_level_row(const Projection *projection, const float *projected, uint32_t level, float *row)
{
	uint32_t	directions = level_directions(projection, level);
	uint32_t	words = LEVEL_WORDS(level);

	memcpy(row, projected, directions * sizeof(float));
	memset(row + directions, 0, (words - directions) * sizeof(float));
	row[words - 1] = projected[projected_residual(projection, level)];
}

/* Returns the largest distance of two level rows of a pair, in the level's scale. */
double
cpu_level_eps_upper(const FastedContext *context, const Projection *projection, uint32_t level,
					double eps)
{
	double		scale = projection->scale;

	if (context->may_use_int8)
		scale *= (double) projection->forms[level].transform.scale;
	return fasted_eps_upper(cpu_reach(context, eps), scale, context->options.dimensions)
		* fasted_prune_stretch(projection->eta) * (1.0 + 4 * FASTED_U64);
}

static float *
projected_rows(const FastedSet *set)
{
	return set->levels.projected != NULL ? set->levels.projected : set->packed.packed;
}

/* --- work of the phases */

/* Projects a sliver of input rows. */
static void
project_set_sliver(Worker *worker, int i, size_t sliver)
{
	const FastedSet *set = worker->join->sets[i];
	const Projection *projection = worker->join->projection;
	uint32_t	width = worker->context->kernel->width;
	const float *rows[FASTED_MAX_WIDTH] = {NULL};
	double		moved[FASTED_MAX_WIDTH] = {0};
	size_t		first = sliver * width;
	float	   *out = projected_rows(set) + first * projection->stride;
	double		square;

	for (uint32_t r = 0; r < width && first + r < set->rows.rows; r++)
	{
		const float *row = row_store_row(&set->rows, first + r);

		rows[r] = cpu_filter_row(worker, row, cpu_direction_buffer(worker, r), &square);
		moved[r] = cpu_row_moved(worker->context, row);
		if (rows[r] == NULL)
			cpu_project_bound(projection, NAN, out + (size_t) r * projection->stride);
	}
	cpu_project_sliver(worker, projection, rows, moved, out);
}

void
cpu_project(Worker *worker)
{
	cpu_do_slivers(worker, worker->join->level_packing, PACK_ROWS, project_set_sliver);
}

/* Computes the hash of the order of a set's rows.  Returns false if the join is being closed. */
bool
cpu_hash_order(FastedSet *set)
{
	SetLevels  *levels = &set->levels;

	levels->order_hash = 0;
	for (size_t i = 0; i < set->rows.rows; i++)
	{
		if (i % ROWS_PER_CHECK == 0 && cpu_stopping(set->context))
			return false;
		levels->order_hash = fasted_hash_order(levels->order_hash, levels->order[i]);
	}
	return true;
}

/*
 * Orders the rows of a set.  The first level's packed rows are not yet needed, so their buffer
 * holds the keys.  Returns false if the join is being closed.
 */
static bool
order_set(Worker *worker, FastedSet *set)
{
	SetLevels  *levels = &set->levels;

	return cpu_kd_order(worker, worker->join->projection, projected_rows(set), set->rows.rows,
						levels->packed[0].packed, levels->order) &&
		cpu_hash_order(set);
}

/* Orders the sets; each set is one work item. */
void
cpu_order(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint64_t	i;

	while ((i = cpu_next_item(join->context)) < (uint64_t) join->nsets)
	{
		if (join->level_packing[i] == PACK_ROWS && !order_set(worker, join->sets[i]))
			return;
	}
}

/* Loads the level rows of a sliver. */
static void
load_level_rows(Worker *worker, const FastedSet *set, uint32_t level, size_t sliver, PackJob *job)
{
	const Projection *projection = worker->join->projection;
	uint32_t	width = worker->context->kernel->width;
	float	   *rows = (float *) ((double *) worker->project_buffer
								  + FASTED_MAX_WIDTH * PRODUCT_COLUMNS);

	for (uint32_t r = 0; r < width && sliver * width + r < set->rows.rows; r++)
	{
		const float *projected = projected_rows(set)
			+ (size_t) set->levels.order[sliver * width + r] * projection->stride;
		float	   *row = rows + r * LEVEL_MOST_WORDS;

		if (!projected_has_pairs(projection, projected))
			continue;
		cpu_level_row(projection, projected, level, row);
		job->rows[r] = row;
		job->moved[r] = projected[projected_moved(projection, level)];
	}
}

/* Packs one sliver at all levels, or recomputes its thresholds for another eps. */
static void
pack_level_sliver(Worker *worker, int i, size_t sliver)
{
	FastedJoin *join = worker->join;
	FastedSet  *set = join->sets[i];

	for (uint32_t level = 0; level < join->projection->levels; level++)
	{
		PackJob		job = {
			.context = join->context,.form = &join->projection->forms[level],
			.eps_upper = cpu_level_eps_upper(join->context, join->projection, level,
											 join->choice_eps),
			.to = &set->levels.packed[level]
		};

		if (join->level_packing[i] == PACK_ROWS)
		{
			load_level_rows(worker, set, level, sliver, &job);
			cpu_pack_sliver(worker, &job, sliver);
		}
		else
			cpu_set_thresholds(worker, &job, sliver);
	}
}

void
cpu_pack_levels(Worker *worker)
{
	cpu_do_slivers(worker, worker->join->level_packing, PACK_THRESHOLDS, pack_level_sliver);
}
