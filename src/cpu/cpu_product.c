/*-------------------------------------------------------------------------
 *
 * cpu_product.c
 *	  Inner products in FP32, by the kernels that filter.
 *
 * A kernel leaves the sums of a slice that is not the last in `partial`: so each piece
 * of FASTED_PRUNE_PIECE terms is a slice, and pieces are added up here, in FP64.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cpu_prune.h"

/*
 * The kernel that multiplies slivers: this one or, where its tiles are higher than they
 * are, another with such slivers; NULL: there is none.
 */
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

/*
 * Rows as an operand: those that are NULL, not finite or huge, and padding, are zeros.
 * False: it was stopped.
 */
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
			.packed = packed,.stop = &context->stop
		};
		bool		again = false;

		cpu_rest_if_alone(context, cpu_now());
		if (cpu_stopping(context))
			return false;
		for (uint32_t r = 0; r < kernel->width && first + r < count; r++)
			pack.rows[r] = rows[first + r];
		kernel->pack(&pack);
		for (uint32_t r = 0; r < kernel->width; r++)
		{
			if (!cpu_is_wild(&pack, r))
				continue;
			pack.rows[r] = NULL;
			again = true;
		}
		if (again)
			kernel->pack(&pack);
	}
	return true;
}

/* Adds a tile column's sums of one piece. */
static void
add_piece(const CpuKernel *kernel, const float *partial, size_t columns, double *sums)
{
	for (uint32_t r = 0; r < kernel->width; r++)
	{
		for (uint32_t c = 0; c < kernel->tile_cols; c++)
			sums[r * columns + c] += (double) partial[r * kernel->tile_cols + c];
	}
}

/* sums[row of the sliver][column]: of one sliver of a with all columns of b. */
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
	for (uint32_t k = 0; k < a_layout->words; k += a_layout->slice)
	{
		sweep.depth = a_layout->words - k < a_layout->slice ? a_layout->words - k : a_layout->slice;
		sweep.a = a + pack_offset(a_layout, kernel->width, sliver, k);
		for (size_t col = 0; col < columns; col += kernel->tile_cols)
		{
			sweep.b = b + pack_offset(b_layout, kernel->width, col / kernel->width, k);
			kernel->sweep(&sweep);
			add_piece(kernel, partial, columns, sums + col);
		}
	}
}
