/*-------------------------------------------------------------------------
 *
 * fit.c
 *	  Computes a projection: the leading directions of a sample of rows.
 *
 * The directions come from two rounds of subspace iteration, V = X' Y, Y = X V, that start with random
 * signs.  Within the subspace found, eigenvectors order the directions, so that the first 31 are good as
 * well.  The filter is correct for any directions; eta measures how far they are from orthonormal.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../kernels/row_body.h"
#include "encoding.h"
#include "levels.h"
#include "pack.h"
#include "projection.h"

/* Rows from which the trial projection is computed, and other rows with which it is tested. */
#define TRIAL_ROWS 512
#define TRIAL_TESTED 256

/* Limits of the sample of rows: total coordinates, and rows. */
#define FIT_COORDINATES (1 << 21)
#define FIT_ROWS_LEAST TRIAL_ROWS
#define FIT_ROWS_MOST 4096

/* Extra directions, which improve the leading ones and are then discarded. */
#define EXTRA_DIRECTIONS 8

/* Rows are ignored if they are this many times as far from the centre as the third quartile. */
#define FAR_ROWS 3.0

/* A column is dropped as linearly dependent if less than this fraction of its norm remains. */
#define DEPENDENT 1e-4

/* The trial projection passes if at most this fraction of the pairs remains. */
#define PROMISING 0.1

typedef struct Fit
{
	Worker	   *worker;
	const CpuKernel *kernel;
	uint32_t	d;
	uint32_t	rows;			/* a multiple of the kernel's width */
	uint32_t	columns;		/* in whole tiles */
	PackLayout	by_row;			/* layout of x: rows of d components */
	PackLayout	by_coordinate;	/* layout of the transpose of x */

	/* Buffers. */
	float	   *x;
	float	   *transpose;
	float	   *operand;		/* directions, or their products with x, packed */
	float	   *directions;		/* [column][coordinate] */
	float	   *products;		/* [column][row] */
	float	   *rotated;		/* rotated directions: [direction][coordinate] */
	float	   *projected;
	float	   *level_rows;
	float	   *zeros;
	double	   *wide;			/* a sum of rows or of directions */
	double	   *sums;
	double	   *matrix;
	double	   *vectors;
	uint32_t   *places;
	const float **pointers;
} Fit;

static uint32_t
fit_rows(const FastedContext *context)
{
	uint32_t	rows = cpu_clamp(FIT_COORDINATES / context->options.dimensions, FIT_ROWS_LEAST,
								 FIT_ROWS_MOST);

	if (context->options.prune == FASTED_PRUNE_FORCE)
		rows = TRIAL_ROWS;		/* for tests: takes little memory, and any directions will do */
	return rows / FASTED_MAX_WIDTH * FASTED_MAX_WIDTH;
}

/* Assigns the buffers within an allocation that begins at `room`.  Returns its size. */
static size_t
lay_out_buffers(Fit *fit, uintptr_t buffer, const FastedContext *context, uint32_t rows,
				uint32_t columns)
{
	uint32_t	d = context->options.dimensions;
	size_t		padded = (size_t) d + FASTED_MAX_WIDTH;
	size_t		longest = padded > rows ? padded : rows;
	uint32_t	most = rows > TRIAL_ROWS ? rows : TRIAL_ROWS;
	uintptr_t	next = buffer;

	fit->x = fasted_carve(&next, rows * (size_t) d * sizeof(float));
	fit->transpose = fasted_carve(&next, rows * padded * sizeof(float));
	fit->operand = fasted_carve(&next, columns * longest * sizeof(float));
	fit->directions = fasted_carve(&next, columns * longest * sizeof(float));
	fit->products = fasted_carve(&next, columns * (size_t) rows * sizeof(float));
	fit->rotated = fasted_carve(&next, columns * (size_t) d * sizeof(float));
	fit->projected = fasted_carve(&next,
								  TRIAL_ROWS * cpu_projected_stride(context) * sizeof(float));
	fit->level_rows = fasted_carve(&next, FASTED_INT8_SCALE_ROWS * LEVEL_MOST_WORDS * sizeof(float));
	fit->zeros = fasted_carve(&next, longest * sizeof(float));
	fit->wide = fasted_carve(&next, (d + LEVEL_MOST_WORDS) * sizeof(double));
	fit->sums = fasted_carve(&next, FASTED_MAX_WIDTH * PRODUCT_COLUMNS * sizeof(double));
	fit->matrix = fasted_carve(&next, columns * (size_t) columns * sizeof(double));
	fit->vectors = fasted_carve(&next, columns * (size_t) columns * sizeof(double));
	fit->places = fasted_carve(&next, columns * sizeof(uint32_t));
	fit->pointers = fasted_carve(&next, (most > columns ? most : columns) * sizeof(float *));
	return next - buffer;
}

size_t
cpu_fit_bytes(const FastedContext *context)
{
	Fit			fit;
	uint32_t	directions = cpu_most_directions(context, cpu_prune_levels(context));

	return lay_out_buffers(&fit, 0, context, fit_rows(context),
						   cpu_product_columns(context, EXTRA_DIRECTIONS + directions));
}

/* --- eigenvectors of a small symmetric matrix */

/* They need not be exact. */
#define SWEEPS 4

/* Off-diagonal elements below this fraction of the diagonal are left. */
#define SMALL 1e-4

/* Applies a rotation with cosine c and sine s to two rows of n numbers. */
static void
rotate_rows(double *p, double *q, uint32_t n, double c, double s)
{
	for (uint32_t k = 0; k < n; k++)
	{
		double		x = p[k];
		double		y = q[k];

		p[k] = c * x - s * y;
		q[k] = s * x + c * y;
	}
}

/* One Jacobi rotation, which makes the element (p, q) zero. */
static void
jacobi_rotate(double *matrix, double *vectors, uint32_t n, uint32_t p, uint32_t q)
{
	double		off = matrix[p * n + q];
	double		theta = (matrix[q * n + q] - matrix[p * n + p]) / (2.0 * off);
	double		t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
	double		c = 1.0 / sqrt(t * t + 1.0);
	double		s = t * c;
	double		pp = matrix[p * n + p] - t * off;
	double		qq = matrix[q * n + q] + t * off;

	rotate_rows(matrix + p * n, matrix + q * n, n, c, s);
	rotate_rows(vectors + p * n, vectors + q * n, n, c, s);
	for (uint32_t k = 0; k < n; k++)
	{
		matrix[k * n + p] = matrix[p * n + k];
		matrix[k * n + q] = matrix[q * n + k];
	}
	matrix[p * n + p] = pp;
	matrix[q * n + q] = qq;
	matrix[p * n + q] = matrix[q * n + p] = 0.0;
}

/*
 * Computes eigenvalues and eigenvectors by Jacobi rotations.  The diagonal of `matrix` becomes the
 * eigenvalues, and the rows of `vectors` the eigenvectors.  `places` lists their numbers by
 * descending eigenvalue.
 */
static void
find_eigenvectors(double *matrix, double *vectors, uint32_t *places, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t j = 0; j < n; j++)
			vectors[i * n + j] = i == j;
		places[i] = i;
	}
	for (int sweep = 0; sweep < SWEEPS; sweep++)
	{
		for (uint32_t p = 0; p < n; p++)
		{
			for (uint32_t q = p + 1; q < n; q++)
			{
				double		off = matrix[p * n + q];

				if (off * off > SMALL * SMALL * fabs(matrix[p * n + p] * matrix[q * n + q]))
					jacobi_rotate(matrix, vectors, n, p, q);
			}
		}
	}
	for (uint32_t i = 1; i < n; i++)
	{
		uint32_t	place = places[i];
		uint32_t	j = i;

		for (; j > 0 && matrix[places[j - 1] * n + places[j - 1]] < matrix[place * n + place]; j--)
			places[j] = places[j - 1];
		places[j] = place;
	}
}

/* --- arithmetic */

/* x += factor * y */
static void
add_times(double *x, double factor, const float *y, uint32_t n)
{
	uint32_t	k = 0;

	for (; k + 4 <= n; k += 4)
	{
		Double4		v;
		Float4		w;

		memcpy(&v, x + k, sizeof(v));
		memcpy(&w, y + k, sizeof(w));
		v += factor * __builtin_convertvector(w, Double4);
		memcpy(x + k, &v, sizeof(v));
	}
	for (; k < n; k++)
		x[k] += factor * y[k];
}

/* --- the sample's centre and scale */

/*
 * Computes the centre, the mean of the sampled rows.  The scale is that of the join's encoding.  Removes
 * rows that are far from the encoding's centre first: a few of them would attract all directions, and their
 * level rows differ by length alone.
 */
static void
find_centre(const Fit *fit, uint32_t count, Projection *projection)
{
	const Encoding *encoding = fit->worker->join->encoding;
	double	   *distances = (double *) fit->products;	/* these buffers are not yet in use */
	double	   *sorted = (double *) fit->directions;
	double		far = 0.0;
	double		taken = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		dist = fit->kernel->distance(encoding->centre, fit->pointers[i], fit->d);

		sorted[i] = distances[i] = dist <= DBL_MAX ? dist : INFINITY;
	}
	cpu_sort_doubles(sorted, count);
	if (count > 0)
		far = FAR_ROWS * sorted[count - 1 - count / 4];
	memset(fit->wide, 0, fit->d * sizeof(double));
	for (uint32_t i = 0; i < count; i++)
	{
		if (distances[i] > (far > 0.0 ? fmin(far, DBL_MAX) : DBL_MAX))
		{
			fit->pointers[i] = NULL;
			continue;
		}
		taken += 1.0;
		add_times(fit->wide, 1.0, fit->pointers[i], fit->d);
	}
	for (uint32_t k = 0; k < fit->d; k++)
		projection->centre[k] = taken > 0.0 ? (float) (fit->wide[k] / taken) : 0.0f;
	projection->scale = encoding->scale;
}

/* --- directions */

static void
transpose(const Fit *fit)
{
	uint32_t	width = fit->kernel->width;

	memset(fit->transpose, 0,
		   fit->by_coordinate.padded_rows * (size_t) fit->rows * sizeof(float));
	for (uint32_t first = 0; first < fit->rows; first += FASTED_PRUNE_PIECE)
	{
		uint32_t	depth = fit->rows - first < FASTED_PRUNE_PIECE ? fit->rows - first
			: FASTED_PRUNE_PIECE;

		for (uint32_t k = 0; k < fit->d; k++)
		{
			uint32_t	piece = k / FASTED_PRUNE_PIECE * FASTED_PRUNE_PIECE;
			float	   *to = fit->transpose
				+ pack_offset(&fit->by_coordinate, width, k / width, first) + k % width;

			for (uint32_t i = 0; i < depth; i++)
				to[(size_t) i * width] = fit->x[pack_offset(&fit->by_row, width, (first + i) / width, piece)
												+ (size_t) (k - piece) * width + (first + i) % width];
		}
	}
}

/* Packs `count` columns of n numbers each.  Returns false if the join is being closed. */
static bool
pack_columns(const Fit *fit, const float *columns, uint32_t count, uint32_t n,
			 const PackLayout *layout, float *packed)
{
	for (uint32_t c = 0; c < count; c++)
		fit->pointers[c] = columns + (size_t) c * n;
	return cpu_pack_operand(fit->worker, layout, fit->pointers, count, fit->zeros, 1.0, packed);
}

/*
 * Multiplies the n rows of `a` with the columns `from`: to[column][i].  Returns false if the join
 * is being closed.
 */
static bool
multiply(const Fit *fit, const float *a, const PackLayout *a_layout, uint32_t n,
		 const float *from, float *to)
{
	uint32_t	width = fit->kernel->width;
	PackLayout	layout = {
		.words = a_layout->words,.segment = FASTED_PRUNE_PIECE,.padded_rows = fit->columns
	};

	if (!pack_columns(fit, from, fit->columns, layout.words, &layout, fit->operand))
		return false;
	for (uint32_t sliver = 0; sliver * width < n; sliver++)
	{
		if (!cpu_may_continue(fit->worker->context))
			return false;
		cpu_multiply_sliver(fit->kernel, a, a_layout, sliver, fit->operand, &layout, fit->sums);
		for (uint32_t r = 0; r < width && sliver * width + r < n; r++)
		{
			for (uint32_t c = 0; c < fit->columns; c++)
				to[(size_t) c * n + sliver * width + r] = (float) fit->sums[r * fit->columns + c];
		}
	}
	return true;
}

/*
 * Orthonormalises `count` columns by two passes of Gram-Schmidt, rounded to FP32.  Drops linearly
 * dependent columns.  Returns how many remain, or 0 if the join is being closed.
 */
static uint32_t
orthonormalise(const Fit *fit, float *columns, uint32_t count)
{
	uint32_t	d = fit->d;
	uint32_t	kept = 0;

	for (uint32_t j = 0; j < count; j++)
	{
		const float *from = columns + (size_t) j * d;
		float	   *to = columns + (size_t) kept * d;
		bool		independent = true;

		if (!cpu_may_continue(fit->worker->context))
			return 0;
		for (int pass = 0; pass < 2 && independent; pass++)
		{
			double		before = sqrt(fit->kernel->dot(from, from, d));
			double		norm;

			memset(fit->wide, 0, d * sizeof(double));
			add_times(fit->wide, 1.0, from, d);
			for (uint32_t i = 0; i < kept; i++)
			{
				const float *other = columns + (size_t) i * d;

				add_times(fit->wide, -fit->kernel->dot(from, other, d), other, d);
			}
			norm = sqrt(fit->kernel->dot_double(fit->wide, fit->wide, d));
			independent = norm > DEPENDENT * before && norm <= DBL_MAX;
			for (uint32_t k = 0; k < d && independent; k++)
				to[k] = (float) (fit->wide[k] / norm);
			from = to;
		}
		kept += independent;
	}
	return kept;
}

/* Fills the products with random signs, the start of the iteration. */
static void
set_signs(const Fit *fit)
{
	for (uint32_t c = 0; c < fit->columns; c++)
	{
		for (uint32_t i = 0; i < fit->rows; i++)
			fit->products[(size_t) c * fit->rows + i] =
				(fasted_sign_bits(i / 64 * PRODUCT_COLUMNS + c, 0) >> i % 64 & 1) != 0 ? 1.0f : -1.0f;
	}
}

/*
 * Rotates the directions to the principal axes of their products with the sample, leading ones
 * first.  Returns false if the join is being closed.
 */
static bool
rotate_directions(const Fit *fit, uint32_t count, uint32_t wanted)
{
	for (uint32_t i = 0; i < count; i++)
	{
		if (!cpu_may_continue(fit->worker->context))
			return false;
		for (uint32_t j = 0; j <= i; j++)
			fit->matrix[i * count + j] = fit->matrix[j * count + i] =
				fit->kernel->dot(fit->products + (size_t) i * fit->rows,
								 fit->products + (size_t) j * fit->rows, fit->rows);
	}
	find_eigenvectors(fit->matrix, fit->vectors, fit->places, count);
	for (uint32_t i = 0; i < wanted; i++)
	{
		const double *vector = fit->vectors + (size_t) fit->places[i] * count;

		if (!cpu_may_continue(fit->worker->context))
			return false;
		memset(fit->wide, 0, fit->d * sizeof(double));
		for (uint32_t j = 0; j < count; j++)
			add_times(fit->wide, vector[j], fit->directions + (size_t) j * fit->d, fit->d);
		for (uint32_t k = 0; k < fit->d; k++)
			fit->rotated[(size_t) i * fit->d + k] = (float) fit->wide[k];
	}
	return true;
}

/* Returns an upper bound of the Frobenius norm of P P' - I. */
static double
measure_eta(const Fit *fit, uint32_t count)
{
	double		sum = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		if (!cpu_may_continue(fit->worker->context))
			return INFINITY;
		for (uint32_t j = 0; j <= i; j++)
		{
			double		product = fit->kernel->dot(fit->rotated + (size_t) i * fit->d,
												   fit->rotated + (size_t) j * fit->d, fit->d);
			double		off = fabs(product - (i == j ? 1.0 : 0.0)) + 2.0 * fasted_sum_slack(fit->d);

			sum += (i == j ? 1.0 : 2.0) * off * off;
		}
	}
	return sqrt(sum) * (1.0 + fasted_sum_slack(count * count));
}

/*
 * Computes at most `wanted` directions of the rows in `pointers`.  Returns false if there are none
 * or the join is being closed.
 */
static bool
find_directions(Fit *fit, Projection *projection, uint32_t count, uint32_t wanted)
{
	FastedContext *context = fit->worker->context;
	uint32_t	found;

	find_centre(fit, count, projection);
	if (!cpu_pack_operand(fit->worker, &fit->by_row, fit->pointers, count, projection->centre,
						  projection->scale, fit->x))
		return false;
	memset(fit->zeros, 0, (fit->d > fit->rows ? fit->d : fit->rows) * sizeof(float));
	transpose(fit);
	set_signs(fit);
	for (int round = 0; round < 2; round++)
	{
		if (!multiply(fit, fit->transpose, &fit->by_coordinate, fit->d, fit->products,
					  fit->directions))
			return false;
		found = orthonormalise(fit, fit->directions, fit->columns);
		memset(fit->directions + (size_t) found * fit->d, 0,
			   (fit->columns - found) * (size_t) fit->d * sizeof(float));
		if (!multiply(fit, fit->x, &fit->by_row, fit->rows, fit->directions, fit->products))
			return false;
	}
	if (!rotate_directions(fit, found, wanted < found ? wanted : found))
		return false;
	projection->directions = orthonormalise(fit, fit->rotated, wanted < found ? wanted : found);
	projection->eta = measure_eta(fit, projection->directions);
	projection->layout = (PackLayout) {
		.words = fit->d,.segment = FASTED_PRUNE_PIECE,
		.padded_rows = cpu_product_columns(context, projection->directions)
	};
	return projection->directions > 0 && projection->eta < 0.1 &&
		pack_columns(fit, fit->rotated, projection->directions, fit->d, &projection->layout,
					 projection->packed);
}

/* --- levels */

/* Projects the rows in `pointers`.  Returns false if the join is being closed. */
static bool
project_rows(const Fit *fit, const Projection *projection, uint32_t count)
{
	uint32_t	width = fit->kernel->width;

	for (uint32_t first = 0; first < count; first += width)
	{
		const float *rows[FASTED_MAX_WIDTH] = {NULL};
		const double moved[FASTED_MAX_WIDTH] = {0}; /* not needed for a sample */

		if (!cpu_may_continue(fit->worker->context))
			return false;
		for (uint32_t r = 0; r < width && first + r < count; r++)
			rows[r] = fit->pointers[first + r];
		cpu_project_sliver(fit->worker, projection, rows, moved,
						   fit->projected + (size_t) first * projection->stride);
	}
	return true;
}

/* Computes the encoding of a level's rows, from a sample. */
static void
find_level_encoding(const Fit *fit, Projection *projection, uint32_t level, uint32_t count)
{
	Encoding	   *encoding = &projection->encodings[level];
	Sample		rows = {.counts = {count},.given = fit->pointers};
	uint32_t	words = LEVEL_WORDS(level);

	memset(fit->wide, 0, words * sizeof(double));
	for (uint32_t i = 0; i < count; i++)
	{
		float	   *row = fit->level_rows + (size_t) i * words;

		cpu_level_row(projection, fit->projected + (size_t) i * projection->stride, level, row);
		fit->pointers[i] = row;
		add_times(fit->wide, 1.0, row, words);
	}
	for (uint32_t k = 0; k < words; k++)
		encoding->centre[k] = count > 0 ? (float) (fit->wide[k] / count) : 0.0f;
	if (!cpu_level_filter(fit->worker->context)->transforms)
		return;
	encoding->transform = (Int8Transform) {
		.dimensions = words,.padded = words,.centre = encoding->centre,.scale = 1.0f
	};
	encoding->transform.scale = cpu_int8_find_factor(fit->worker, &encoding->transform, &rows);
	encoding->has_int8 = true;
}

/*
 * Points at every step-th sampled row from `first` on that can have pairs, at most `most` rows.
 * Returns their number.  Rows that have to be converted are written to the buffer of the
 * transpose.  They are read before the transpose is computed, or after its last use.
 */
static uint32_t
point_at_rows(const Fit *fit, const Sample *sample, uint32_t first, uint32_t step, uint32_t most)
{
	uint32_t	count = 0;
	double		square;

	for (uint32_t s = first; s < cpu_sample_size(sample) && count < most &&
		 cpu_may_continue(fit->worker->context); s += step)
	{
		const float *row = cpu_filter_row(fit->worker, cpu_stored_sample_row(sample, s),
										  fit->transpose + (size_t) count * fit->d, &square);

		if (row != NULL)
			fit->pointers[count++] = row;
	}
	return count;
}

/*
 * Fits a projection of this many levels to every step-th row of a sample, at most `most` rows.  `rows`
 * is at least their number, and a multiple of FASTED_MAX_WIDTH.  Returns false if there is none or the
 * join is being closed.
 */
static bool
fit_sample(Fit *fit, Worker *worker, Projection *projection, uint32_t levels, const Sample *sample,
		   uint32_t rows, uint32_t step, uint32_t most)
{
	FastedContext *context = worker->context;
	const CpuKernel *kernel = context->product_kernel;
	uint32_t	d = context->options.dimensions;
	uint32_t	wanted = cpu_most_directions(context, levels);

	*fit = (Fit) {
		.worker = worker,.kernel = kernel,.d = d,.rows = rows,
		.columns = cpu_product_columns(context, wanted + EXTRA_DIRECTIONS),
		.by_row = {.words = d,.segment = FASTED_PRUNE_PIECE,.padded_rows = rows},
		.by_coordinate = {
			.words = rows,.segment = FASTED_PRUNE_PIECE,
			.padded_rows = (d + kernel->width - 1) / kernel->width * kernel->width
		}
	};
	(void) lay_out_buffers(fit, (uintptr_t) context->fit_buffer, context, rows, fit->columns);
	projection->levels = levels;
	if (!find_directions(fit, projection, point_at_rows(fit, sample, 0, step, most), wanted))
		return false;
	projection->stride = projection->directions + 2 * levels;
	return true;
}

bool
cpu_fit(Worker *worker, Projection *projection)
{
	FastedContext *context = worker->context;
	uint32_t	most = fit_rows(context);
	Sample		sample = cpu_choose_sample(worker->join, 0, most, most);
	uint32_t	count = cpu_sample_size(&sample);
	Fit			fit;

	if (!fit_sample(&fit, worker, projection, cpu_prune_levels(context), &sample,
					(count + FASTED_MAX_WIDTH - 1) / FASTED_MAX_WIDTH * FASTED_MAX_WIDTH, 1, most))
		return false;
	count = point_at_rows(&fit, &sample, 0, count / FASTED_INT8_SCALE_ROWS + 1, FASTED_INT8_SCALE_ROWS);
	if (!project_rows(&fit, projection, count))
		return false;
	for (uint32_t level = 0; level < projection->levels; level++)
		find_level_encoding(&fit, projection, level, count);
	return !cpu_stopping(context);
}

/* Returns how many pairs of projected rows are within reach at the first level. */
static uint64_t
count_near(const Fit *fit, const Projection *projection, uint32_t count, double reach)
{
	uint32_t	n = projection->directions + 1;
	uint64_t	near = 0;

	for (uint32_t i = 0; i < count && cpu_may_continue(fit->worker->context); i++)
	{
		const float *x = fit->projected + (size_t) i * projection->stride;

		for (uint32_t j = 0; j < i; j++)
		{
			const float *y = fit->projected + (size_t) j * projection->stride;
			float		sum = 0.0f;

			for (uint32_t k = 0; k < n; k++)
				sum += (x[k] - y[k]) * (x[k] - y[k]);
			near += sum <= reach * reach;
		}
	}
	return near;
}

bool
cpu_fit_promises(Worker *worker, Projection *projection)
{
	FastedJoin *join = worker->join;
	Sample		sample = cpu_choose_sample(join, 0, 2 * TRIAL_ROWS, 2 * TRIAL_ROWS);
	Fit			fit;
	uint32_t	count;

	if (!fit_sample(&fit, worker, projection, 1, &sample, TRIAL_ROWS, 2, TRIAL_ROWS))
		return false;
	count = point_at_rows(&fit, &sample, 1, 4, TRIAL_TESTED);
	if (!project_rows(&fit, projection, count))
		return false;
	return (double) count_near(&fit, projection, count,
							   cpu_reach(join->context, join->choice.eps) * projection->scale)
		<= PROMISING * 0.5 * count * count;
}
