/*-------------------------------------------------------------------------
 *
 * row_body.h
 *	  From a row to what the filter reads; widening a row.
 *
 * Inlined into each kernel's own functions, to be compiled for its instruction set.
 *
 * Centring, scaling and interleaving one sliver of rows in FP32: results need not be the
 * same bits everywhere, norm2 and error2 are sums in any order, and the bound knows that.
 *
 * From a row to integers: doc/bound-int8.md, sections 1 to 3.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_BODY_H
#define FASTED_ROW_BODY_H

#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_kernel.h"

/* --- FP32 */

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double4 __attribute__((vector_size(32)));

/* Coordinates that are quantised before they are interleaved. */
#define PACK_STEP 64

/*
 * Quantises four coordinates: (x - centre) * scale, rounded to FP32.  The
 * difference is rounded once to FP64, the product is exact.
 */
static inline __attribute__((always_inline)) void
quantise4(const float *row, const float *centre, double scale, float *out,
		  Double4 *norms, Double4 *errors)
{
	Float4		x;
	Float4		c;
	Float4		q;
	Double4		v;
	Double4		back;

	memcpy(&x, row, sizeof(x));
	memcpy(&c, centre, sizeof(c));
	v = (__builtin_convertvector(x, Double4)
		 - __builtin_convertvector(c, Double4)) * scale;
	q = __builtin_convertvector(v, Float4);
	back = __builtin_convertvector(q, Double4);
	*norms += back * back;
	*errors += (v - back) * (v - back);
	memcpy(out, &q, sizeof(q));
}

/* Quantises `count` coordinates of one row and adds to its two sums. */
static inline __attribute__((always_inline)) void
quantise(const float *row, const float *centre, double scale, uint32_t count,
		 float *out, double *norm2, double *error2)
{
	Double4		norms = {0};
	Double4		errors = {0};
	uint32_t	k = 0;

	for (; k + 4 <= count; k += 4)
		quantise4(row + k, centre + k, scale, out + k, &norms, &errors);
	if (k < count)
	{
		float		last_row[4] = {0};
		float		last_centre[4] = {0};

		memcpy(last_row, row + k, (count - k) * sizeof(float));
		memcpy(last_centre, centre + k, (count - k) * sizeof(float));
		quantise4(last_row, last_centre, scale, out + k, &norms, &errors);
	}
	*norm2 += norms[0] + norms[1] + norms[2] + norms[3];
	*error2 += errors[0] + errors[1] + errors[2] + errors[3];
}

static inline __attribute__((always_inline)) void
pack_sliver(PackSliver *job, const uint32_t width)
{
	const PackLayout *layout = job->layout;
	float		buffer[FASTED_MAX_WIDTH][PACK_STEP] __attribute__((aligned(32)));

	memset(buffer, 0, sizeof(buffer));
	for (uint32_t r = 0; r < width; r++)
		job->norm2[r] = job->error2[r] = 0.0;

	for (uint32_t first = 0; first < layout->words; first += layout->slice)
	{
		uint32_t	left = layout->words - first;
		uint32_t	depth = left < layout->slice ? left : layout->slice;
		float	   *out = job->packed
			+ pack_offset(layout, width, job->sliver, first);

		/* the first sliver may bring a new large page with each slice */
		if (job->stop != NULL && atomic_load_explicit(job->stop, memory_order_relaxed))
			return;
		for (uint32_t k = 0; k < depth; k += PACK_STEP)
		{
			uint32_t	count = depth - k < PACK_STEP ? depth - k : PACK_STEP;

			for (uint32_t r = 0; r < width; r++)
			{
				if (job->rows[r] != NULL)
					quantise(job->rows[r] + first + k,
							 job->centre + first + k, job->scale, count,
							 buffer[r], &job->norm2[r], &job->error2[r]);
			}
			for (uint32_t l = 0; l < count; l++)
			{
				for (uint32_t r = 0; r < width; r += 4)
				{
					Float4		column = {buffer[r][l], buffer[r + 1][l],
					buffer[r + 2][l], buffer[r + 3][l]};

					memcpy(out + (size_t) (k + l) * width + r, &column,
						   sizeof(column));
				}
			}
		}
	}
}

/* A row in FP64, with zeros up to a multiple of 32 coordinates. */
static inline __attribute__((always_inline)) void
widen_row(const float *row, uint32_t dimensions, double *wide)
{
	uint32_t	k = 0;

	for (; k + 4 <= dimensions; k += 4)
	{
		Float4		x;
		Double4		w;

		memcpy(&x, row + k, sizeof(x));
		w = __builtin_convertvector(x, Double4);
		memcpy(wide + k, &w, sizeof(w));
	}
	for (; k < dimensions; k++)
		wide[k] = (double) row[k];
	for (; k % 32 != 0; k++)
		wide[k] = 0.0;
}

/* --- integers */

typedef float Float8 __attribute__((vector_size(32)));
typedef int32_t Int8 __attribute__((vector_size(32)));
typedef uint32_t Unsigned8 __attribute__((vector_size(32)));
typedef int16_t Short8 __attribute__((vector_size(16)));
typedef int8_t Byte8 __attribute__((vector_size(8)));

#if defined(__clang__)
#define SHUFFLE8(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLE8(v, ...) __builtin_shuffle(v, (Int8) {__VA_ARGS__})
#endif

/* Added to a number below 2^22 and taken away again, rounds it to an integer. */
#define ROUNDING_BIAS 12582912.0f

/* One level within a vector: lanes whose sign is given get other - value. */
#define ROTATE_LEVEL(v, s, ...) \
	do \
	{ \
		Float8		other = SHUFFLE8(v, __VA_ARGS__); \
 \
		(v) = other + (Float8) ((Unsigned8) (v) ^ (s)); \
	} while (0)

#define MINUS UINT32_C(0x80000000)

/* Random signs, the factor 1 / sqrt(length), and the levels within a vector. */
static inline __attribute__((always_inline)) void
rotate_within(float *values, uint32_t k, float root, uint32_t pass)
{
	uint32_t	bits = (uint32_t) (fasted_sign_bits(k / 64, pass) >> k % 64);
	Unsigned8	signs = {bits, bits, bits, bits, bits, bits, bits, bits};
	Unsigned8	lanes = {0, 1, 2, 3, 4, 5, 6, 7};
	Float8		v;

	memcpy(&v, values + k, sizeof(v));
	v = (Float8) ((Unsigned8) (v * root) ^ ((signs >> lanes) << 31));
	ROTATE_LEVEL(v, ((Unsigned8) {0, MINUS, 0, MINUS, 0, MINUS, 0, MINUS}),
				 1, 0, 3, 2, 5, 4, 7, 6);
	ROTATE_LEVEL(v, ((Unsigned8) {0, 0, MINUS, MINUS, 0, 0, MINUS, MINUS}),
				 2, 3, 0, 1, 6, 7, 4, 5);
	ROTATE_LEVEL(v, ((Unsigned8) {0, 0, 0, 0, MINUS, MINUS, MINUS, MINUS}),
				 4, 5, 6, 7, 0, 1, 2, 3);
	memcpy(values + k, &v, sizeof(v));
}

/* A Walsh-Hadamard transform of `length` numbers, a power of two from 32 on. */
static inline __attribute__((always_inline)) void
rotate_row(float *values, uint32_t length, uint32_t pass)
{
	float		root = (float) (1.0 / sqrt(length));

	for (uint32_t k = 0; k < length; k += 8)
		rotate_within(values, k, root, pass);
	for (uint32_t half = 8; half < length; half *= 2)
	{
		for (uint32_t k = 0; k < length; k += k % half == half - 8 ? half + 8 : 8)
		{
			Float8		low;
			Float8		high;
			Float8		sum;

			memcpy(&low, values + k, sizeof(low));
			memcpy(&high, values + k + half, sizeof(high));
			sum = low + high;
			high = low - high;
			memcpy(values + k, &sum, sizeof(sum));
			memcpy(values + k + half, &high, sizeof(high));
		}
	}
}

static inline __attribute__((always_inline)) void
transform_row(const Int8Transform *transform, const float *row, float *image)
{
	uint32_t	d = transform->dimensions;
	uint32_t	padded = transform->padded;
	uint32_t	length = fasted_rotation_length(padded);
	uint32_t	k = 0;

	for (; k + 8 <= d; k += 8)
	{
		Float8		x;
		Float8		c;

		memcpy(&x, row + k, sizeof(x));
		memcpy(&c, transform->centre + k, sizeof(c));
		x = (x - c) * transform->scale;
		memcpy(image + k, &x, sizeof(x));
	}
	for (; k < d; k++)
		image[k] = (row[k] - transform->centre[k]) * transform->scale;
	for (; k < padded; k++)
		image[k] = 0.0f;
	if (transform->lossless)
		return;
	rotate_row(image, length, 0);
	if (length < padded)
		rotate_row(image + (padded - length), length, 1);
}

/* Sums of a row's rounding, 32 lanes of each. */
typedef struct RoundingSums
{
	Float8		roundings[4];
	Float8		errors[4];
	Unsigned8	norm2;
	Int8		sum;
} RoundingSums;

/*
 * Eight numbers, rounded to integers from -limit - 1 or so on up to limit.  NaN
 * becomes the lower bound.
 */
static inline __attribute__((always_inline)) void
round_eight(const float *image, float factor, float low, float high, RoundingSums *sums, int part,
			Int8 *rounded)
{
	Float8		v;
	Int8		keep;
	Float8		bound;
	Float8		rounding;
	Float8		error;

	memcpy(&v, image, sizeof(v));
	v = v * factor;
	keep = v > low;
	bound = (Float8) ((keep & (Int8) v) | (~keep & (Int8) (Float8) {low, low, low, low, low, low, low, low}));
	keep = bound < high;
	bound = (Float8) ((keep & (Int8) bound)
					  | (~keep & (Int8) (Float8) {high, high, high, high, high, high, high, high}));
	rounding = bound;
	bound = (bound + ROUNDING_BIAS) - ROUNDING_BIAS;
	rounding -= bound;
	*rounded = __builtin_convertvector(bound, Int8);
	error = v - bound;
	sums->roundings[part] += rounding * rounding;
	sums->errors[part] += error * error;
	sums->norm2 += (Unsigned8) *rounded * (Unsigned8) *rounded;
	sums->sum += *rounded;
}

static inline __attribute__((always_inline)) float
fold_floats(const Float8 *parts)
{
	Float8		v = (parts[0] + parts[1]) + (parts[2] + parts[3]);

	return ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7]));
}

static inline __attribute__((always_inline)) void
fold_sums(const RoundingSums *from, Int8Sums *sums)
{
	uint32_t	norm2 = 0;
	int32_t		sum = 0;

	for (int l = 0; l < 8; l++)
	{
		norm2 += from->norm2[l];
		sum += from->sum[l];
	}
	sums->rounding2 = fold_floats(from->roundings);
	sums->error2 = fold_floats(from->errors);
	sums->norm2 = (int32_t) norm2;
	sums->sum = sum;
}

static inline __attribute__((always_inline)) void
round_row_int8(const float *image, float factor, uint32_t padded, int8_t *values, Int8Sums *sums)
{
	RoundingSums parts = {0};

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int part = 0; part < 4; part++)
		{
			Int8		rounded;
			Byte8		bytes;

			round_eight(image + k + 8 * part, factor, -128.0f, 127.0f, &parts, part, &rounded);
			bytes = __builtin_convertvector(rounded, Byte8);
			memcpy(values + k + 8 * part, &bytes, sizeof(bytes));
		}
	}
	fold_sums(&parts, sums);
}

/*
 * The same with 16 bits, two bytes of values each.  Rows are clamped so that no squared
 * norm is above `norm2`: sections 8 and 9 of doc/bound-int8.md.
 */
static inline __attribute__((always_inline)) void
round_row_int16(const float *image, float factor, uint32_t padded, float norm2, int8_t *values,
				Int8Sums *sums)
{
	RoundingSums parts = {0};
	float		most = fasted_int16_most(norm2, padded);

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int part = 0; part < 4; part++)
		{
			Int8		rounded;
			Short8		shorts;

			round_eight(image + k + 8 * part, factor, -most, most, &parts, part, &rounded);
			shorts = __builtin_convertvector(rounded, Short8);
			memcpy(values + 2 * (k + 8 * part), &shorts, sizeof(shorts));
		}
	}
	fold_sums(&parts, sums);
}

#endif							/* FASTED_ROW_BODY_H */
