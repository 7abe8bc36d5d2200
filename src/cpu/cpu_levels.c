/*-------------------------------------------------------------------------
 *
 * cpu_levels.c
 *	  What pruning keeps of a set: the order of its rows, and level rows, packed.
 *
 * Order: halves of halves, each time by the median of the coordinate that differs most, of
 * the leading ones and the residual.  Halves are whole tiles' columns as long as
 * they are larger than one, then whole tiles' rows.  The order is the same for the
 * same rows, however many threads there are.
 *
 * Projected rows are there only until level rows are packed.  They take the room of
 * packed rows, which a new order makes void anyway, where that is enough.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_levels.h"

/* Coordinates that may divide rows, and rows that show which of them does it best. */
#define COORDINATES 10
#define SPREAD_ROWS 64

/* Rows between two looks whether to stop. */
#define LOOK_EVERY 16384

/* Halves that wait, one a level. */
#define STACK 64

typedef struct Key
{
	float		key;
	uint32_t	row;
} Key;

typedef struct Part
{
	size_t		first;
	size_t		count;
} Part;

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

static bool
goes_on(const KdOrder *kd)
{
	cpu_rest_if_alone(kd->worker->context);
	return !cpu_stopping(kd->worker->context);
}

static float
value(const KdOrder *kd, uint32_t row, uint32_t coordinate)
{
	return kd->projected[(size_t) row * kd->stride + coordinate];
}

/* The coordinate that differs most, of some rows of a part. */
static uint32_t
choose_coordinate(const KdOrder *kd, Part part)
{
	double		widest = -1.0;
	uint32_t	best = 0;
	size_t		rows = part.count < SPREAD_ROWS ? part.count : SPREAD_ROWS;

	for (uint32_t c = 0; c < kd->ncoordinates; c++)
	{
		double		sum = 0.0;
		double		squares = 0.0;
		double		spread;
		double		origin = value(kd, kd->order[part.first], kd->coordinates[c]);

		for (size_t i = 0; i < rows; i++)
		{
			double		x = value(kd, kd->order[part.first + i * part.count / rows],
								  kd->coordinates[c]) - origin;

			sum += x;
			squares += x * x;
		}
		spread = squares - sum * sum / rows;
		if (spread > widest)
		{
			widest = spread;
			best = kd->coordinates[c];
		}
	}
	return best;
}

static void
swap_keys(Key *x, Key *y)
{
	Key			z = *x;

	*x = *y;
	*y = z;
}

/*
 * Hoare's partition round the middle of three; where the right part begins.  Zero: it was
 * stopped.
 */
static size_t
partition(const KdOrder *kd, size_t low, size_t high)
{
	Key		   *keys = kd->keys;
	float		a = keys[low].key;
	float		b = keys[low + (high - low) / 2].key;
	float		c = keys[high].key;
	float		pivot = fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
	size_t		i = low;
	size_t		j = high;

	for (size_t swaps = 1;; swaps++)
	{
		if (swaps % LOOK_EVERY == 0 && !goes_on(kd))
			return 0;
		while (keys[i].key < pivot)
			i++;
		while (keys[j].key > pivot)
			j--;
		if (i >= j)
			return i == low ? low + 1 : i;
		swap_keys(&keys[i++], &keys[j--]);
	}
}

/* The first `middle` of the keys become those that are not above the others. */
static bool
select_keys(const KdOrder *kd, size_t count, size_t middle)
{
	size_t		low = 0;
	size_t		high = count - 1;

	while (low < high)
	{
		size_t		right;

		if (high - low > LOOK_EVERY && !goes_on(kd))
			return false;
		right = partition(kd, low, high);
		if (right == 0)
			return false;
		if (middle < right)
			high = right - 1;
		else
			low = right;
	}
	return true;
}

/* Divides a part; false: it was stopped. */
static bool
divide(const KdOrder *kd, Part part, size_t left)
{
	uint32_t	coordinate = choose_coordinate(kd, part);

	for (size_t i = 0; i < part.count; i++)
	{
		uint32_t	row = kd->order[part.first + i];

		if (i % LOOK_EVERY == 0 && !goes_on(kd))
			return false;
		kd->keys[i] = (Key) {.key = value(kd, row, coordinate),.row = row};
	}
	if (!select_keys(kd, part.count, left))
		return false;
	for (size_t i = 0; i < part.count; i++)
	{
		/* not in small parts, of which there are many */
		if ((i + 1) % LOOK_EVERY == 0 && !goes_on(kd))
			return false;
		kd->order[part.first + i] = kd->keys[i].row;
	}
	return true;
}

/* Rows of the left half, whole tiles' columns or rows; all: there is nothing to divide. */
static size_t
half_of(const CpuKernel *kernel, size_t count)
{
	size_t		step = count > kernel->tile_cols ? kernel->tile_cols : kernel->tile_rows;

	return count <= step ? count : (count / step + 1) / 2 * step;
}

/* All rows, those without a place last, and how many have one; false: it was stopped. */
static bool
set_others_apart(const KdOrder *kd, const Projection *projection, size_t rows, size_t *count)
{
	size_t		placed = 0;
	size_t		others = rows;

	for (size_t row = 0; row < rows; row++)
	{
		if (row % LOOK_EVERY == 0 && !goes_on(kd))
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
			 size_t rows, void *room, uint32_t *order)
{
	const CpuKernel *kernel = worker->context->kernel;
	KdOrder		kd = {
		.worker = worker,.projected = projected,.stride = projection->stride,.keys = room,
		.order = order
	};
	Part		stack[STACK];
	int			depth = 0;
	size_t		placed;

	while (kd.ncoordinates < COORDINATES - 1 && kd.ncoordinates < projection->directions)
	{
		kd.coordinates[kd.ncoordinates] = kd.ncoordinates;
		kd.ncoordinates++;
	}
	kd.coordinates[kd.ncoordinates++] = projected_residual(projection, 0);
	if (!set_others_apart(&kd, projection, rows, &placed))
		return false;
	stack[depth++] = (Part) {.count = placed};
	while (depth > 0)
	{
		Part		part = stack[--depth];
		size_t		left = half_of(kernel, part.count);

		if (left >= part.count)
			continue;
		if (!divide(&kd, part, left))
			return false;
		stack[depth++] = (Part) {.first = part.first,.count = left};
		stack[depth++] = (Part) {.first = part.first + left,.count = part.count - left};
	}
	return true;
}

/* --- room */

/* Rows between two looks whether to stop, where a row takes some nanoseconds. */
#define ROWS_PER_LOOK (1 << 16)

static size_t
packed_bytes(const FastedContext *context, uint32_t level)
{
	return context->may_use_int8 ? cpu_int8_row_bytes(context->kernel, LEVEL_WORDS(level))
		: LEVEL_WORDS(level) * sizeof(float);
}

/* Does the room of packed rows hold projected rows too? */
static bool
borrows_room(const FastedContext *context)
{
	return cpu_projected_stride(context) * sizeof(float) <= cpu_packed_row_bytes(context);
}

/* Bytes of a row: order, levels, and what is there for a while. */
size_t
cpu_levels_row_bytes(const FastedContext *context)
{
	size_t		bytes = sizeof(uint32_t);

	if (!borrows_room(context))
		bytes += cpu_projected_stride(context) * sizeof(float);
	for (uint32_t level = 0; level < cpu_prune_levels(context); level++)
		bytes += packed_bytes(context, level) + cpu_threshold_row_bytes(context) + sizeof(RowTerms);
	return bytes;
}

/* The rows are in no order, and not projected. */
static void
cpu_levels_forget(FastedContext *context, SetLevels *levels)
{
	cpu_projection_drop(context, levels->projection);
	levels->projection = NULL;
	levels->ordered = false;
	levels->eps = NAN;
}

void
cpu_levels_free(FastedContext *context, SetLevels *levels)
{
	MemoryCount *memory = &context->memory;

	cpu_levels_forget(context, levels);
	fasted_cpu_unmap(levels->order, levels->room * sizeof(uint32_t), memory);
	fasted_cpu_unmap(levels->projected,
					 levels->room * cpu_projected_stride(context) * sizeof(float), memory);
	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		cpu_packed_free(context, &levels->packed[level]);
	memset(levels, 0, sizeof(*levels));
	levels->eps = NAN;
}

/* Room for the levels of so many rows; false: memory ran out. */
bool
cpu_levels_reserve(FastedContext *context, SetLevels *levels, size_t rows)
{
	MemoryCount *memory = &context->memory;

	if (rows <= levels->room)
		return true;
	cpu_levels_free(context, levels);
	levels->room = rows;
	levels->order = fasted_cpu_map(rows * sizeof(uint32_t), memory);
	if (!borrows_room(context))
		levels->projected = fasted_cpu_map(rows * cpu_projected_stride(context) * sizeof(float),
										   memory);
	if (levels->order == NULL || (!borrows_room(context) && levels->projected == NULL))
		return false;
	for (uint32_t level = 0; level < cpu_prune_levels(context); level++)
	{
		if (!cpu_packed_reserve(context, &levels->packed[level], rows, packed_bytes(context, level)))
			return false;
	}
	return true;
}

/* What was packed is no longer of use, nor is the order of rows. */
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

/* A projected row's level row. */
void
cpu_level_row(const Projection *projection, const float *projected, uint32_t level, float *row)
{
	uint32_t	directions = level_directions(projection, level);
	uint32_t	words = LEVEL_WORDS(level);

	memcpy(row, projected, directions * sizeof(float));
	memset(row + directions, 0, (words - directions) * sizeof(float));
	row[words - 1] = projected[projected_residual(projection, level)];
}

/* In the level's scale, what two level rows of a pair may be apart. */
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

/* --- the phases' work on one set */

/* Slivers of rows as they came. */
bool
cpu_project_set(Worker *worker, FastedSet *set, size_t sliver)
{
	const Projection *projection = worker->join->projection;
	uint32_t	width = worker->context->kernel->width;
	const float *rows[FASTED_MAX_WIDTH] = {NULL};
	double		moved[FASTED_MAX_WIDTH] = {0};
	size_t		first = sliver * width;

	float	   *out = projected_rows(set) + first * projection->stride;

	for (uint32_t r = 0; r < width && first + r < set->rows.rows; r++)
	{
		const float *row = row_store_row(&set->rows, first + r);

		rows[r] = cpu_filter_row(worker, row, cpu_direction_room(worker, r));
		moved[r] = cpu_row_moved(worker->context, row);
		if (rows[r] == NULL)
			cpu_project_nothing(projection, out + (size_t) r * projection->stride);
	}
	cpu_project_sliver(worker, projection, rows, moved, out);
	return !cpu_stopping(worker->context);
}

/* The room of the first level's rows, which come later, is the order's until then. */
bool
cpu_order_set(Worker *worker, FastedSet *set)
{
	SetLevels  *levels = &set->levels;

	if (!cpu_kd_order(worker, worker->join->projection, projected_rows(set), set->rows.rows,
					  levels->packed[0].packed, levels->order))
		return false;
	levels->order_hash = 0;
	for (size_t i = 0; i < set->rows.rows; i++)
	{
		if (i % ROWS_PER_LOOK == 0 && cpu_stopping(worker->context))
			return false;
		levels->order_hash = fasted_mix_order(levels->order_hash, levels->order[i]);
	}
	return true;
}

void
cpu_lay_out_levels(const FastedContext *context, FastedSet *set, uint32_t levels)
{
	for (uint32_t level = 0; level < levels; level++)
		cpu_packed_lay_out(context, &set->levels.packed[level], set->rows.rows, LEVEL_WORDS(level),
						   context->may_use_int8);
}

static PackJob
level_job(const FastedJoin *join, FastedSet *set, uint32_t level)
{
	return (PackJob) {
		.form = &join->projection->forms[level],
		.eps_upper = cpu_level_eps_upper(join->context, join->projection, level, join->choice_eps),
		.to = &set->levels.packed[level]
	};
}

/* One sliver of all levels. */
void
cpu_pack_levels(Worker *worker, FastedSet *set, size_t sliver)
{
	FastedJoin *join = worker->join;
	const Projection *projection = join->projection;
	uint32_t	width = join->context->kernel->width;
	float	   *room = (float *) ((double *) worker->project_room + FASTED_MAX_WIDTH * PRODUCT_COLUMNS);

	for (uint32_t level = 0; level < projection->levels; level++)
	{
		PackJob		job = level_job(join, set, level);
		const float *rows[FASTED_MAX_WIDTH] = {NULL};
		double		moved[FASTED_MAX_WIDTH] = {0};

		for (uint32_t r = 0; r < width && sliver * width + r < set->rows.rows; r++)
		{
			const float *projected = projected_rows(set)
				+ (size_t) set->levels.order[sliver * width + r] * projection->stride;
			float	   *row = room + r * LEVEL_MOST_WORDS;

			if (!projected_has_pairs(projection, projected))
				continue;
			cpu_level_row(projection, projected, level, row);
			rows[r] = row;
			moved[r] = projected[projected_moved(projection, level)];
		}
		job.moved = moved;
		cpu_pack_sliver(worker, &job, sliver, rows);
	}
}

/* Their thresholds, for another eps. */
void
cpu_set_level_thresholds(Worker *worker, FastedSet *set, size_t sliver)
{
	for (uint32_t level = 0; level < worker->join->projection->levels; level++)
	{
		PackJob		job = level_job(worker->join, set, level);

		cpu_set_thresholds(worker, &job, sliver);
	}
}
