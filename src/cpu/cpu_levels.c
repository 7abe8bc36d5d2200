/*-------------------------------------------------------------------------
 *
 * cpu_levels.c
 *	  What pruning keeps of a set: the order of its rows, and level rows, packed.
 *
 * Projected rows are there only until level rows are packed.  They take the room of
 * packed rows, which a new order makes void anyway, where that is enough.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "cpu_prune.h"

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

/* The rows are in no order, and not projected. */
void
cpu_levels_forget(FastedContext *context, SetLevels *levels)
{
	cpu_projection_drop(context, levels->projection);
	levels->projection = NULL;
	levels->ordered = false;
	levels->eps = NAN;
}

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
