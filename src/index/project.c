/*-------------------------------------------------------------------------
 *
 * project.c
 *	  Vectors in the basis of an index, one by one or many at a time.
 *
 * One vector w passes the reflections v_1, v_2, ... in order: w -= f_j v_j with f_j = 2 v_j'w / |v_j|^2.
 *
 * Many vectors are 8 in parallel, and each product of a reflection with 8 vectors is a step of a matrix
 * product, which reads each number once for 4 reflections.  For that, the factors f_j are computed
 * from products with the vectors as they were, v_j'w - sum of f_i v_j'v_i for i < j.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/kernels/kernel.h"
#include "index/basis.h"

/* Rows with larger norms, in units of the scale, are out of range. */
#define MOST_NORM 0x1p30

double
DoubleProduct(const double *x, const double *y, uint32 n)
{
	static const CpuKernel *kernel;

	if (kernel == NULL)
		kernel = fasted_cpu_choose_kernel(NULL);
	return kernel->dot_double(x, y, n);
}

double
VectorNorm(const double *vector, uint32 dimensions)
{
	double		most = 0.0;
	double		sum = DoubleProduct(vector, vector, dimensions);
	double		scale;

	if (sum > 0x1p-900 && sum < 0x1p900)
		return sqrt(sum);
	sum = 0.0;
	for (uint32 k = 0; k < dimensions; k++)
	{
		if (!isfinite(vector[k]))
			return INFINITY;
		most = Max(most, fabs(vector[k]));
	}
	if (most == 0.0)
		return 0.0;
	scale = ldexp(1.0, Min(-ilogb(most), 1023));
	for (uint32 k = 0; k < dimensions; k++)
		sum += vector[k] * scale * (vector[k] * scale);
	return sqrt(sum) / scale;
}

double
CentreVector(const IndexState *state, const double *vector, double *w)
{
	uint32		d = state->meta.dimensions;
	const IndexedKind *kind = state->kind;
	double		norm = VectorNorm(vector, d);
	double		factor = 1.0;

	if (norm == 0.0 && kind->metric == FASTED_METRIC_COSINE)
		return -1.0;
	if (!(norm <= kind->most) || (norm > 0.0 && norm < kind->least))
		return INFINITY;
	if (kind->metric == FASTED_METRIC_COSINE)
		factor = 1.0 / norm;
	if (!isfinite(factor))
		return INFINITY;
	for (uint32 k = 0; k < d; k++)
		w[k] = state->scale * (factor * vector[k] - state->centre[k]);
	norm = sqrt(DoubleProduct(w, w, d));
	return norm <= MOST_NORM ? norm : INFINITY;
}

/* x -= factor * v */
static pg_attribute_always_inline void
subtract(double *x, double factor, const float *v, uint32 n)
{
	for (uint32 k = 0; k < n; k++)
		x[k] -= factor * v[k];
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
static void
subtract_avx2(double *x, double factor, const float *v, uint32 n)
{
	subtract(x, factor, v, n);
}
#endif

double
Project(const IndexState *state, const double *vector, double *coordinates)
{
	static double wide[MOST_INDEX_DIMENSIONS];
	uint32		d = state->meta.dimensions;
	double		norm = CentreVector(state, vector, coordinates);

	if (norm < 0.0 || isinf(norm))
		return norm;
	for (uint32 j = 0; j < state->meta.reflections; j++)
	{
		const float *v = state->reflections + (Size) j * d;
		double		factor;

		for (uint32 k = j; k < d; k++)
			wide[k] = v[k];
		factor = state->factors[j] * DoubleProduct(coordinates + j, wide + j, d - j);
#if defined(__x86_64__)
		if (__builtin_cpu_supports("avx2"))
		{
			subtract_avx2(coordinates + j, factor, v + j, d - j);
			continue;
		}
#endif
		subtract(coordinates + j, factor, v + j, d - j);
	}
	return norm;
}

double
ProjectionError(const IndexState *state, double norm)
{
	double		d = state->meta.dimensions;
	double		reflections = state->meta.reflections;
	double		direction = state->kind->metric == FASTED_METRIC_COSINE ? state->scale : 0.0;

	return DBL_EPSILON * ((reflections + 1.0) * (reflections + 1.0) * (4.0 * (d + reflections) + 64.0) * norm +
						  (2.0 * d + 64.0) * direction) + 0x1p-50;
}

/* --- many vectors */

#define LANES 8
#define LINES 4

typedef double Quad __attribute__((vector_size(4 * sizeof(double))));

/* A number of each of 8 vectors. */
typedef struct Lanes
{
	Quad		half[2];
} Lanes;

struct Projector
{
	const IndexState *state;
	uint32		stride;			/* of reflections: dimensions, rounded up to whole lines */
	uint32		lines;			/* reflections, rounded up */
	double	   *reflections;	/* [line][stride]; then zeros */
	double	   *products;		/* of reflections: [line][lines], below the diagonal */
	double	   *row;			/* a vector, and zeros */
	Lanes	   *vectors;		/* [group][stride] */
	Lanes	   *factors;		/* [group][lines] */
};

/* What is written for each instruction set: *sum += a * *b. */
typedef void (*AddProduct) (Quad *sum, double a, const Quad *b);

/* to[i] -= sum of a[i * line + t * term] * b[t], for LINES numbers i */
typedef void (*SubtractProducts) (const double *a, Size line, Size term, uint32 terms, const Lanes *b, Lanes *to);

static pg_attribute_always_inline void
subtract_products(const double *a, Size line, Size term, uint32 terms, const Lanes *b, Lanes *to,
				  AddProduct add)
{
	Quad		sums[LINES][2];

	for (int i = 0; i < LINES; i++)
		sums[i][0] = sums[i][1] = (Quad) {0};
	for (uint32 t = 0; t < terms; t++)
	{
		UNROLL for (int i = 0; i < LINES; i++)
		{
			add(&sums[i][0], a[i * line + t * term], &b[t].half[0]);
			add(&sums[i][1], a[i * line + t * term], &b[t].half[1]);
		}
	}
	for (int i = 0; i < LINES; i++)
	{
		to[i].half[0] -= sums[i][0];
		to[i].half[1] -= sums[i][1];
	}
}

static pg_attribute_always_inline void
add_product(Quad *sum, double a, const Quad *b)
{
	*sum += a * *b;
}

static void
subtract_products_plain(const double *a, Size line, Size term, uint32 terms, const Lanes *b, Lanes *to)
{
	subtract_products(a, line, term, terms, b, to, add_product);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma")))
static inline void
add_product_fma(Quad *sum, double a, const Quad *b)
{
	*sum = (Quad) _mm256_fmadd_pd(_mm256_set1_pd(a), (__m256d) *b, (__m256d) *sum);
}

__attribute__((target("avx2,fma")))
static void
subtract_products_fma(const double *a, Size line, Size term, uint32 terms, const Lanes *b, Lanes *to)
{
	subtract_products(a, line, term, terms, b, to, add_product_fma);
}
#endif

Projector *
MakeProjector(const IndexState *state)
{
	Projector  *projector = palloc0(sizeof(Projector));
	uint32		d = state->meta.dimensions;
	uint32		stride = TYPEALIGN(LINES, d);
	uint32		lines = TYPEALIGN(LINES, state->meta.reflections);
	Size		groups = PROJECTED_ROWS / LANES;

	projector->state = state;
	projector->stride = stride;
	projector->lines = lines;
	projector->row = palloc0(stride * sizeof(double));
	projector->reflections = palloc0(Max(lines, 1) * (Size) stride * sizeof(double));
	projector->products = palloc0(Max(lines, 1) * (Size) lines * sizeof(double));
	projector->vectors = (Lanes *) TYPEALIGN(sizeof(Quad), palloc((groups * stride + 1) * sizeof(Lanes)));
	projector->factors = (Lanes *) TYPEALIGN(sizeof(Quad), palloc((groups * lines + 1) * sizeof(Lanes)));
	for (uint32 j = 0; j < state->meta.reflections; j++)
	{
		double	   *v = projector->reflections + (Size) j * stride;

		for (uint32 k = 0; k < d; k++)
			v[k] = state->reflections[(Size) j * d + k];
		for (uint32 i = 0; i < j; i++)
			projector->products[j * lines + i] =
				DoubleProduct(v, projector->reflections + (Size) i * stride, stride);
	}
	return projector;
}

/* Sets the factors of some lines of reflections for a group, of which the earlier lines' are known. */
static void
find_factors(const Projector *projector, uint32 line, const Lanes *vectors, Lanes *factors,
			 SubtractProducts subtract)
{
	const double *products = projector->products + (Size) line * projector->lines;
	const double *two_by_square = projector->state->factors;

	memset(factors + line, 0, LINES * sizeof(Lanes));
	/* The reflections have no coordinates before `line`. */
	subtract(projector->reflections + (Size) line * projector->stride + line, projector->stride, 1,
			 projector->stride - line, vectors + line, factors + line);
	for (int i = 0; i < LINES; i++)
	{
		factors[line + i].half[0] = -factors[line + i].half[0];
		factors[line + i].half[1] = -factors[line + i].half[1];
	}
	subtract(products, projector->lines, 1, line, factors, factors + line);
	for (uint32 j = line; j < Min(line + LINES, projector->state->meta.reflections); j++)
	{
		const double *of_line = projector->products + (Size) j * projector->lines;

		for (uint32 half = 0; half < 2; half++)
		{
			for (uint32 i = line; i < j; i++)
				factors[j].half[half] -= of_line[i] * factors[i].half[half];
			factors[j].half[half] *= two_by_square[j];
		}
	}
}

void
ProjectRows(Projector *projector, double *const *vectors, uint32 n, double *norms)
{
	uint32		d = projector->state->meta.dimensions;
	uint32		stride = projector->stride;
	uint32		groups = (n + LANES - 1) / LANES;
	SubtractProducts subtract = subtract_products_plain;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		subtract = subtract_products_fma;
#endif
	for (uint32 r = 0; r < groups * LANES; r++)
	{
		double	   *to = (double *) (projector->vectors + (Size) (r / LANES) * stride) + r % LANES;
		bool		in_range = false;

		if (r < n)
		{
			norms[r] = CentreVector(projector->state, vectors[r], projector->row);
			in_range = norms[r] >= 0.0 && !isinf(norms[r]);
		}
		for (uint32 k = 0; k < stride; k++)
			to[(Size) k * LANES] = in_range ? projector->row[k] : 0.0;
	}
	for (uint32 line = 0; line < projector->lines; line += LINES)
		for (uint32 g = 0; g < groups; g++)
			find_factors(projector, line, projector->vectors + (Size) g * stride,
						 projector->factors + (Size) g * projector->lines, subtract);
	for (uint32 k = 0; k < stride; k += LINES)
		for (uint32 g = 0; g < groups; g++)
			subtract(projector->reflections + k, 1, stride, Min(k + LINES, projector->lines),
					 projector->factors + (Size) g * projector->lines, projector->vectors + (Size) g * stride + k);
	for (uint32 r = 0; r < n; r++)
	{
		const double *from = (double *) (projector->vectors + (Size) (r / LANES) * stride) + r % LANES;

		for (uint32 k = 0; k < d; k++)
			vectors[r][k] = from[(Size) k * LANES];
	}
}
