/*-------------------------------------------------------------------------
 *
 * basis.c
 *	  The rotated basis of an index: its computation from a sample.
 *
 * The leading directions of a sample come from subspace iteration, first with the sample and then with
 * the small matrix of the directions' products.  Their QR decomposition consists of reflections.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "index/basis.h"
#include "miscadmin.h"

/* Coordinates, and rows, of the sample. */
#define FIT_COORDINATES (1 << 20)
#define LEAST_FIT_ROWS 512
#define MOST_FIT_ROWS 4096

/* Directions that improve the leading ones, and are then discarded. */
#define EXTRA_DIRECTIONS 8

#define SAMPLE_ROUNDS 2
#define MATRIX_ROUNDS 12

/* A direction is dropped as dependent on others if less than this fraction of its norm remains. */
#define DEPENDENT 1e-6

/* x += factor * y */
static void
add_times(double *x, double factor, const double *y, uint32 n)
{
	for (uint32 k = 0; k < n; k++)
		x[k] += factor * y[k];
}

typedef struct Fit
{
	uint32		d;
	uint32		n;
	double	   *rows;			/* [n][d] */
	uint32		count;			/* directions */
	double	   *directions;		/* [count][d] */
} Fit;

uint32
FitRows(uint32 dimensions)
{
	return Min(Max(FIT_COORDINATES / dimensions, LEAST_FIT_ROWS), MOST_FIT_ROWS);
}

/*
 * Orthonormalises n vectors of `length` numbers, the longest first.  Drops those that depend on others.
 * Returns how many remain.
 */
static uint32
orthonormalise(double *vectors, uint32 n, uint32 length)
{
	uint32		kept = 0;

	for (uint32 j = 0; j < n; j++)
	{
		double	   *to = vectors + (Size) kept * length;
		double		before;
		double		norm;

		memmove(to, vectors + (Size) j * length, length * sizeof(double));
		before = sqrt(DoubleProduct(to, to, length));
		for (uint32 i = 0; i < 2 * kept; i++)
		{
			const double *other = vectors + (Size) (i % kept) * length;

			add_times(to, -DoubleProduct(to, other, length), other, length);
		}
		norm = sqrt(DoubleProduct(to, to, length));
		if (!(norm > DEPENDENT * before))
			continue;
		for (uint32 k = 0; k < length; k++)
			to[k] /= norm;
		kept++;
		CHECK_FOR_INTERRUPTS();
	}
	return kept;
}

/* Multiplies the directions with X' X, where X is the sample. */
static void
multiply_sample(Fit *fit, double *next)
{
	memset(next, 0, (Size) fit->count * fit->d * sizeof(double));
	for (uint32 i = 0; i < fit->n; i++)
	{
		const double *row = fit->rows + (Size) i * fit->d;

		for (uint32 c = 0; c < fit->count; c++)
			add_times(next + (Size) c * fit->d, DoubleProduct(fit->directions + (Size) c * fit->d, row, fit->d),
					  row, fit->d);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Rotates the directions to the principal axes of the sample, leading ones first, by iteration with the
 * matrix of their products.
 */
static void
rotate_directions(Fit *fit, double *next)
{
	uint32		n = fit->count;
	Size		bytes = Max((Size) n * n, 1) * sizeof(double);
	double	   *matrix = palloc(bytes);
	double	   *axes = palloc0(bytes);
	double	   *images = palloc(bytes);

	multiply_sample(fit, next);
	for (uint32 i = 0; i < n * n; i++)
		matrix[i] = DoubleProduct(fit->directions + (Size) (i / n) * fit->d, next + (Size) (i % n) * fit->d, fit->d);
	for (uint32 i = 0; i < n; i++)
		axes[i * n + i] = 1.0;
	for (int round = 0; round < MATRIX_ROUNDS; round++)
	{
		for (uint32 i = 0; i < fit->count * n; i++)
			images[i] = DoubleProduct(axes + (Size) (i / n) * n, matrix + (Size) (i % n) * n, n);
		memcpy(axes, images, (Size) fit->count * n * sizeof(double));
		fit->count = orthonormalise(axes, fit->count, n);
	}
	memset(next, 0, (Size) n * fit->d * sizeof(double));
	for (uint32 i = 0; i < fit->count * n; i++)
	{
		add_times(next + (Size) (i / n) * fit->d, axes[i], fit->directions + (Size) (i % n) * fit->d, fit->d);
		CHECK_FOR_INTERRUPTS();
	}
	memcpy(fit->directions, next, (Size) n * fit->d * sizeof(double));
}

/* Computes at most `wanted` leading directions of the rows, which have been centred. */
static void
find_directions(Fit *fit, uint32 wanted)
{
	uint32		most = Min(Min(wanted + EXTRA_DIRECTIONS, fit->n), fit->d);
	double	   *next = palloc((Size) Max(most, 1) * fit->d * sizeof(double));

	fit->count = most;
	fit->directions = palloc((Size) Max(most, 1) * fit->d * sizeof(double));
	for (uint32 c = 0; c < most; c++)
		memcpy(fit->directions + (Size) c * fit->d,
			   fit->rows + (Size) ((uint64) c * fit->n / most) * fit->d, fit->d * sizeof(double));
	fit->count = orthonormalise(fit->directions, most, fit->d);
	for (int round = 0; round < SAMPLE_ROUNDS; round++)
	{
		multiply_sample(fit, next);
		memcpy(fit->directions, next, (Size) fit->count * fit->d * sizeof(double));
		fit->count = orthonormalise(fit->directions, fit->count, fit->d);
	}
	rotate_directions(fit, next);
	fit->count = Min(fit->count, wanted);
}

/*
 * Turns the directions into reflections, of which the product maps each direction to an axis.  The
 * jth reflection has zeros in the first j coordinates.
 */
static void
find_reflections(Fit *fit, IndexState *state)
{
	uint32		d = fit->d;

	for (uint32 j = 0; j < fit->count; j++)
	{
		double	   *u = fit->directions + (Size) j * d;
		float	   *v = state->reflections + (Size) j * d;
		double		norm = sqrt(DoubleProduct(u + j, u + j, d - j));
		double		length;
		double		factor;

		memset(v, 0, d * sizeof(float));
		u[j] += u[j] >= 0.0 ? norm : -norm;
		length = sqrt(DoubleProduct(u + j, u + j, d - j));
		for (uint32 k = j; k < d; k++)
			v[k] = (float) (length > 0.0 ? u[k] / length : k == j);
		for (uint32 k = j; k < d; k++)
			u[k] = v[k];
		factor = 2.0 / DoubleProduct(u + j, u + j, d - j);
		for (uint32 c = j + 1; c < fit->count; c++)
		{
			double	   *other = fit->directions + (Size) c * d;

			add_times(other + j, -factor * DoubleProduct(other + j, u + j, d - j), u + j, d - j);
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* Sets the scale to that which makes this norm about 1. */
static void
set_scale(IndexState *state, double norm)
{
	state->meta.exponent = norm > 0x1p-900 && norm < 0x1p900 ? -ilogb(norm) : 0;
	state->scale = ldexp(1.0, state->meta.exponent);
}

/* Makes the geometric mean of the rows' norms, if they have one, the unit. */
static void
set_first_scale(const Fit *fit, IndexState *state)
{
	double		exponents = 0.0;
	uint32		count = 0;

	for (uint32 i = 0; i < fit->n; i++)
	{
		double		norm = VectorNorm(fit->rows + (Size) i * fit->d, fit->d);

		if (norm > 0.0 && isfinite(norm))
		{
			exponents += ilogb(norm);
			count++;
		}
	}
	set_scale(state, count == 0 || state->kind->metric == FASTED_METRIC_COSINE ? 1.0 :
			  ldexp(1.0, (int) (exponents / count)));
}

/*
 * Sets the scale and the centre, removes rows that are out of range or have no direction, and replaces
 * the others by multiples of their differences from the centre.
 */
static void
centre_rows(Fit *fit, IndexState *state)
{
	uint32		d = fit->d;
	uint32		kept = 0;
	double		sum = 0.0;
	double	   *mean = palloc0(d * sizeof(double));

	set_first_scale(fit, state);
	for (uint32 i = 0; i < fit->n; i++)
	{
		double		norm = CentreVector(state, fit->rows + (Size) i * d, mean);

		if (norm < 0.0 || isinf(norm))
			continue;
		memcpy(fit->rows + (Size) kept++ * d, mean, d * sizeof(double));
	}
	fit->n = kept;
	memset(mean, 0, d * sizeof(double));
	for (uint32 i = 0; i < kept && state->kind->metric != FASTED_METRIC_INNER_PRODUCT; i++)
		add_times(mean, 1.0 / kept, fit->rows + (Size) i * d, d);
	for (uint32 k = 0; k < d; k++)
	{
		double		element = mean[k] / state->scale;

		state->centre[k] = fabs(element) < FLT_MAX ? (float) element : 0.0f;
	}
	for (uint32 i = 0; i < kept; i++)
	{
		double	   *row = fit->rows + (Size) i * d;

		for (uint32 k = 0; k < d; k++)
			row[k] -= state->scale * state->centre[k];
		sum += sqrt(DoubleProduct(row, row, d)) / kept;
	}
	if (sum > 0.0)
		set_scale(state, sum / state->scale);
}

IndexState *
FitBasis(double *rows, uint32 n, uint32 d, IndexMeta meta, const IndexedKind *kind)
{
	Fit			fit = {.d = d,.n = n,.rows = rows};
	IndexState *state;

	meta.dimensions = d;
	meta.reflections = Min(MOST_REFLECTIONS, d);
	state = MakeState(&meta, kind, CurrentMemoryContext);

	centre_rows(&fit, state);
	find_directions(&fit, meta.reflections);
	find_reflections(&fit, state);
	state->meta.reflections = fit.count;
	SetLayout(&state->layout, &state->meta);
	if (!SetFactors(state))
		elog(ERROR, "could not compute a basis");
	return state;
}
