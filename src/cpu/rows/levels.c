/*-------------------------------------------------------------------------
 *
 * levels.c
 *	  Pruning data of a set: the order of its rows, and its packed level rows.
 *
 * Projected rows exist only until level rows are packed.  If it is large enough, they use the
 * buffer of the packed rows, which a new order invalidates anyway.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../engine/filter_bound.h"
#include "filter_row.h"
#include "levels.h"
#include "order.h"
#include "pack.h"
#include "projection.h"

/* --- memory */

/* Rows between two checks for a stop, where a row takes only a few nanoseconds. */
#define ROWS_PER_CHECK (1 << 16)

/* Returns true if projected rows need no buffer of their own: that of the packed rows suffices. */
static bool
shares_packed_buffer(const FastedContext *context)
{
	return !context->plan.may_prune ||
		cpu_projected_stride(context) * sizeof(float) <= cpu_packed_row_bytes(context, FULL_STAGE);
}

size_t
cpu_levels_row_bytes(const FastedContext *context)
{
	size_t		bytes = sizeof(uint32_t);

	if (!shares_packed_buffer(context))
		bytes += cpu_projected_stride(context) * sizeof(float);
	for (uint32_t level = 0; level < cpu_prune_levels(context); level++)
		bytes += cpu_packed_bytes(context, level);
	return bytes;
}

/* Marks the rows as neither ordered nor projected. */
static void
levels_forget(FastedContext *context, SetLevels *levels)
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
	levels_forget(context, levels);
	fasted_cpu_unmap(levels->order, levels->bytes, &context->memory);
	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		cpu_packed_free(context, &levels->packed[level]);
	memset(levels, 0, sizeof(*levels));
	levels->eps = NAN;
}

static bool
levels_reserve(FastedContext *context, SetLevels *levels, size_t rows)
{
	size_t		stride = shares_packed_buffer(context) ? 0 : cpu_projected_stride(context);
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

bool
cpu_reserve_orders(FastedJoin *join)
{
	for (int i = 0; i < join->nsets; i++)
	{
		FastedSet  *set = join->sets[i];

		if (!levels_reserve(join->context, &set->levels, set->rows.rows))
			return false;
	}
	return true;
}

void
cpu_set_discard_packed(FastedSet *set)
{
	levels_forget(set->context, &set->levels);
	cpu_encoding_drop(set->context, set->encoding);
	set->encoding = NULL;
	set->eps = NAN;
	set->chosen_for.known = false;
	set->suits_itself = false;
}

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

/* --- level rows */

void
cpu_level_row(const Projection *projection, const float *projected, uint32_t level, float *row)
{
	uint32_t	directions = level_directions(projection, level);
	uint32_t	words = LEVEL_WORDS(level);

	memcpy(row, projected, directions * sizeof(float));
	memset(row + directions, 0, (words - directions) * sizeof(float));
	row[words - 1] = projected[projected_residual(projection, level)];
}

double
cpu_level_eps_upper(const FastedContext *context, const Projection *projection, uint32_t level,
					double eps)
{
	double		scale = projection->scale
		* cpu_scale(cpu_level_filter(context), &projection->encodings[level]);

	return fasted_eps_upper(cpu_reach(context, eps), scale, context->options.dimensions)
		* fasted_prune_stretch(projection->eta) * (1.0 + 4 * FASTED_U64);
}

static float *
projected_rows(const FastedSet *set)
{
	return set->levels.projected != NULL ? set->levels.projected : set->packed.as_b.packed;
}

/* --- work of the phases */

/* Projects a sliver of input rows. */
static void
project_set_sliver(Worker *worker, int i, size_t sliver)
{
	const FastedSet *set = worker->join->sets[i];
	const Projection *projection = worker->join->pruning.projection;
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
	cpu_do_slivers(worker, worker->join->pruning.packing, PACK_ROWS, project_set_sliver);
}

/* Orders the rows of a set.  The buffer of the first level's packed rows is free, and holds the keys. */
static void
order_set(Worker *worker, int i)
{
	FastedSet  *set = worker->join->sets[i];

	if (cpu_kd_order(worker, worker->join->pruning.projection, projected_rows(set), set->rows.rows,
					 set->levels.packed[0].as_b.packed, set->levels.order))
		(void) cpu_hash_order(set);
}

void
cpu_order(Worker *worker)
{
	cpu_do_sets(worker, PACK_ROWS, order_set);
}

/* Loads the level rows of a sliver. */
static void
load_level_rows(Worker *worker, const FastedSet *set, uint32_t level, size_t sliver, PackJob *job)
{
	const Projection *projection = worker->join->pruning.projection;
	uint32_t	width = worker->context->kernel->width;
	float	   *rows = (float *) ((double *) worker->project_buffer
								  + FASTED_MAX_WIDTH * PRODUCT_COLUMNS);

	for (uint32_t r = 0; r < width && sliver * width + r < set->rows.rows; r++)
	{
		const float *projected = projected_rows(set)
			+ (size_t) set->levels.order[sliver * width + r] * projection->stride;
		float	   *row = rows + r * LEVEL_MOST_WORDS;

		if (isnan(projected[projected_moved(projection, 0)]))
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

	for (uint32_t level = 0; level < join->pruning.projection->levels; level++)
	{
		PackJob		job = {
			.context = join->context,.encoding = &join->pruning.projection->encodings[level],
			.eps_upper = cpu_level_eps_upper(join->context, join->pruning.projection, level,
											 join->choice.eps),
			.to = &set->levels.packed[level]
		};

		if (join->pruning.packing[i] == PACK_ROWS)
		{
			load_level_rows(worker, set, level, sliver, &job);
			job.to->filter->pack(worker, &job, sliver);
		}
		else
			cpu_set_thresholds(&job, worker->context->kernel->width, sliver);
	}
}

void
cpu_pack_levels(Worker *worker)
{
	cpu_do_slivers(worker, worker->join->pruning.packing, PACK_THRESHOLDS, pack_level_sliver);
}
