/*-------------------------------------------------------------------------
 *
 * projection.c
 *	  Projects rows by a product in FP32, with an error bound for each row.
 *
 * A kernel stores the sums of a segment that is not the last one in `partial`.  So each piece of
 * FASTED_PRUNE_PIECE terms is a segment, and the pieces are added here in FP64.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "pack.h"
#include "projection.h"

/* --- products */

const CpuKernel *
cpu_product_kernel(const CpuKernel *kernel)
{
	const CpuKernel *other = kernel;

	for (int k = 0; other != NULL; k++)
	{
		if (other->width == kernel->width && other->tile_rows <= other->width &&
			other->available())
			break;
		other = fasted_cpu_kernel(k);
	}
	return other;
}

bool
cpu_pack_operand(Worker *worker, const PackLayout *layout, const float *const *rows,
				 size_t count, const float *centre, double scale, float *packed)
{
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->product_kernel;

	for (size_t first = 0; first < layout->padded_rows; first += kernel->width)
	{
		PackSliver	pack = {
			.centre = centre,.scale = scale,.layout = layout,.sliver = first / kernel->width,
			.packed = packed,.stop = &context->threads.stop
		};

		if (!cpu_may_continue(context))
			return false;
		for (uint32_t r = 0; r < kernel->width && first + r < count; r++)
			pack.rows[r] = rows[first + r];
		(void) cpu_pack_in_range(kernel, &pack);
	}
	return true;
}

/* Adds the sums of one piece of a tile column. */
static void
add_piece(const CpuKernel *kernel, const float *partial, size_t columns, double *sums)
{
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		for (uint32_t c = 0; c < kernel->tile_cols; c++)
			sums[r * columns + c] += (double) partial[r * kernel->tile_cols + c];
	}
}

void
cpu_multiply_sliver(const CpuKernel *kernel, const float *a, const PackLayout *a_layout,
					size_t sliver, const float *b, const PackLayout *b_layout, double *sums)
{
	float		partial[FASTED_MAX_WIDTH * FASTED_MAX_TILE] __attribute__((aligned(64)));
	size_t		columns = b_layout->padded_rows;
	TileSweep	sweep = {
		.tiles = kernel->width / kernel->tile_rows,.first = true,.partial = partial
	};

	memset(sums, 0, kernel->width * columns * sizeof(double));
	for (uint32_t k = 0; k < a_layout->words; k += a_layout->segment)
	{
		sweep.depth = segment_words(a_layout, k);
		sweep.a = a + pack_offset(a_layout, kernel->width, sliver, k);
		for (size_t col = 0; col < columns; col += kernel->tile_cols)
		{
			sweep.b = b + pack_offset(b_layout, kernel->width, col / kernel->width, k);
			kernel->product.sweep(&sweep);
			add_piece(kernel, partial, columns, sums + col);
		}
	}
}

/* --- projections */

uint32_t
cpu_prune_levels(const FastedContext *context)
{
	uint32_t	part = context->options.prune == FASTED_PRUNE_FORCE ? 2 : 1;
	uint32_t	levels = 1;

	if (!context->plan.may_prune)
		return 0;
	while (levels < FASTED_PRUNE_LEVELS &&
		   LEVEL_WORDS(levels) <= part * context->options.dimensions / 2)
		levels++;
	return levels;
}

uint32_t
cpu_most_directions(const FastedContext *context, uint32_t levels)
{
	uint32_t	d = context->options.dimensions;
	uint32_t	most = LEVEL_WORDS(levels - 1) - 1;

	return d < most ? d : most;
}

uint32_t
cpu_projected_stride(const FastedContext *context)
{
	uint32_t	levels = cpu_prune_levels(context);

	return cpu_most_directions(context, levels) + 2 * levels;
}

size_t
cpu_project_buffer_bytes(const FastedContext *context)
{
	return FASTED_MAX_WIDTH * (PRODUCT_COLUMNS * sizeof(double)
							   + LEVEL_MOST_WORDS * sizeof(float)
							   + context->options.dimensions * sizeof(float));
}

/* Assigns the parts of a projection within an allocation that begins with it.  Returns its size. */
static size_t
carve_projection(const FastedContext *context, uintptr_t piece)
{
	Projection	sizes;
	Projection *projection = piece == 0 ? &sizes : (Projection *) piece;
	uint32_t	d = context->options.dimensions;
	uint32_t	directions = cpu_most_directions(context, cpu_prune_levels(context));
	uintptr_t	next = piece;

	(void) fasted_carve(&next, sizeof(Projection));
	projection->centre = fasted_carve(&next, d * sizeof(float));
	projection->packed = fasted_carve(&next, (size_t) cpu_product_columns(context, directions)
									  * d * sizeof(float));
	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		projection->encodings[level].centre = fasted_carve(&next, LEVEL_MOST_WORDS * sizeof(float));
	return next - piece;
}

size_t
cpu_projection_bytes(const FastedContext *context)
{
	return carve_projection(context, 0);
}

void
cpu_projection_drop(FastedContext *context, Projection *projection)
{
	if (projection != NULL && --projection->refcount == 0)
		fasted_cpu_unmap(projection, cpu_projection_bytes(context), &context->memory);
}

Projection *
cpu_projection_new(FastedContext *context)
{
	Projection *projection = fasted_cpu_map(cpu_projection_bytes(context), &context->memory);

	if (projection == NULL)
		return NULL;
	(void) carve_projection(context, (uintptr_t) projection);
	projection->refcount = 1;
	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
		projection->encodings[level].scale = 1.0;
	return projection;
}

void
cpu_project_bound(const Projection *projection, float bound, float *out)
{
	memset(out, 0, projection->stride * sizeof(float));
	for (uint32_t level = 0; level < projection->levels; level++)
		out[projected_moved(projection, level)] = bound;
}

static float
round_up(double value)
{
	return -fasted_round_down(-value);
}

/*
 * Computes a projected row from its product and its packing error. came_moved is the distance
 * between the filter row and the exact row, in the projection's scale.
 */
static void
set_projected(const Projection *projection, const double *product, double norm2, double error2,
			  double came_moved, float *out)
{
	uint32_t	d = projection->layout.words;
	double		norm = sqrt(norm2) * (1.0 + fasted_sum_slack(d));
	double		moved = fasted_rho(error2, norm2, d) + came_moved;
	double		projected2 = 0.0;
	uint32_t	k = 0;

	for (uint32_t level = 0; level < projection->levels; level++)
	{
		uint32_t	directions = level_directions(projection, level);
		double		error;
		double		residual;

		for (; k < directions; k++)
		{
			out[k] = (float) product[k];
			projected2 += (double) out[k] * (double) out[k];
		}
		error = fasted_prune_projection_error(norm, sqrt(projected2) * (1.0 + fasted_sum_slack(d + 128)),
											  projection->eta, directions, d);
		residual = sqrt(fmax(0.0, norm2 - projected2));
		out[projected_residual(projection, level)] = (float) residual;
		out[projected_moved(projection, level)] =
			round_up(fasted_prune_moved(moved, projection->eta, error,
										fasted_prune_residual_error(norm2, projected2, residual, error,
																	projection->eta, d + 128)));
	}
}

void
cpu_project_sliver(Worker *worker, const Projection *projection, const float *const *rows,
				   const double *moved, float *out)
{
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->product_kernel;
	PackLayout	layout = projection->layout;
	double	   *sums = worker->project_buffer;
	PackSliver	pack = {
		.centre = projection->centre,.scale = projection->scale,.layout = &layout,
		.packed = (float *) (sums + FASTED_MAX_WIDTH * PRODUCT_COLUMNS),.stop = &context->threads.stop
	};
	uint32_t	out_of_range;

	layout.padded_rows = kernel->width;
	memcpy(pack.rows, rows, sizeof(pack.rows));
	out_of_range = cpu_pack_in_range(kernel, &pack);
	if (cpu_stopping(context))
		return;
	cpu_multiply_sliver(kernel, pack.packed, &layout, 0, projection->packed,
						&projection->layout, sums);
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		float	   *to = out + (size_t) r * projection->stride;

		if (rows[r] == NULL)
			continue;
		if ((out_of_range >> r & 1) == 0)
			set_projected(projection, sums + r * projection->layout.padded_rows, pack.norm2[r],
						  pack.error2[r], moved[r] * projection->scale * (1.0 + DBL_EPSILON), to);
		else
			cpu_project_bound(projection, INFINITY, to);	/* treated as near every row */
	}
}
