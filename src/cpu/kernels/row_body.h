/*-------------------------------------------------------------------------
 *
 * row_body.h
 *	  Conversion of rows to the filter's format.
 *
 * These functions are inlined into each kernel's own, and so compiled for its instruction set.  FP32:
 * sums are in any order, which the error bound allows for.  Integers: see doc/internals/bound-int8.md,
 * sections 1 to 3.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_BODY_H
#define FASTED_ROW_BODY_H

#include <math.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "kernel.h"

/* --- FP32 */

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double4 __attribute__((vector_size(32)));

/* Number of coordinates that are quantised before they are interleaved. */
#define PACK_STEP 64

/*
 * Quantises four coordinates: (x - centre) * scale, rounded to FP32.  The difference is rounded
 * once, to FP64; the product is exact.
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

	for (uint32_t first = 0; first < layout->words; first += layout->segment)
	{
		uint32_t	depth = segment_words(layout, first);
		float	   *out = job->packed
			+ pack_offset(layout, width, job->sliver, first);

		/* in the first sliver each segment may touch a new large page */
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

/* --- integers */

/* Elements per vector, 8 or 16, which the includer may define; and shuffle indexes. */
#ifndef ROW_LANES
#define ROW_LANES 8
#endif

#if ROW_LANES == 8
#define LANES_OTHER(step) \
	0 ^ step, 1 ^ step, 2 ^ step, 3 ^ step, 4 ^ step, 5 ^ step, 6 ^ step, 7 ^ step
#else
#define LANES_OTHER(step) \
	0 ^ step, 1 ^ step, 2 ^ step, 3 ^ step, 4 ^ step, 5 ^ step, 6 ^ step, 7 ^ step, \
	8 ^ step, 9 ^ step, 10 ^ step, 11 ^ step, 12 ^ step, 13 ^ step, 14 ^ step, 15 ^ step
#endif

typedef float Floats __attribute__((vector_size(4 * ROW_LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * ROW_LANES)));
typedef uint32_t Unsigneds __attribute__((vector_size(4 * ROW_LANES)));
typedef int16_t Shorts __attribute__((vector_size(2 * ROW_LANES)));
typedef int8_t Bytes __attribute__((vector_size(ROW_LANES)));

#if defined(__clang__)
#define SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLE(v, ...) __builtin_shuffle(v, (Ints) {__VA_ARGS__})
#endif

/* Adding this to a number below 2^22 and subtracting it again rounds the number to an integer. */
#define ROUNDING_BIAS 12582912.0f

/* One butterfly step within a vector: each pair of lanes becomes its sum and difference. */
#define ROTATE_LEVEL(v, lanes, step) \
	do \
	{ \
		Unsigneds	minus = ((lanes) & step) << (31 - __builtin_ctz(step)); \
 \
		(v) = SHUFFLE(v, LANES_OTHER(step)) + (Floats) ((Unsigneds) (v) ^ minus); \
	} while (0)

/* Applies random signs, the factor 1 / sqrt(length), and the butterfly steps within a vector. */
static inline __attribute__((always_inline)) void
rotate_within(float *values, uint32_t k, float root, uint32_t pass)
{
	uint32_t	bits = (uint32_t) (fasted_sign_bits(k / 64, pass) >> k % 64);
	Unsigneds	lanes = {LANES_OTHER(0)};
	Floats		v;

	memcpy(&v, values + k, sizeof(v));
	v = (Floats) ((Unsigneds) (v * root) ^ (((bits - (Unsigneds) {0}) >> lanes) << 31));
	ROTATE_LEVEL(v, lanes, 1);
	ROTATE_LEVEL(v, lanes, 2);
	ROTATE_LEVEL(v, lanes, 4);
#if ROW_LANES == 16
	ROTATE_LEVEL(v, lanes, 8);
#endif
	memcpy(values + k, &v, sizeof(v));
}

/* Randomised Walsh-Hadamard transform of `length` numbers, a power of two that is at least 32. */
static inline __attribute__((always_inline)) void
rotate_row(float *values, uint32_t length, uint32_t pass)
{
	float		root = (float) (1.0 / sqrt(length));

	for (uint32_t k = 0; k < length; k += ROW_LANES)
		rotate_within(values, k, root, pass);
	for (uint32_t half = ROW_LANES; half < length; half *= 2)
	{
		for (uint32_t k = 0; k < length; k += k % half == half - ROW_LANES ? half + ROW_LANES : ROW_LANES)
		{
			Floats		low;
			Floats		high;
			Floats		sum;

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

	for (; k + ROW_LANES <= d; k += ROW_LANES)
	{
		Floats		x;
		Floats		c;

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

/* Number of vectors that are rounded together: 32 numbers. */
#define PARTS (32 / ROW_LANES)

/* Sums over a row that is rounded, in 32 lanes each. */
typedef struct RoundingSums
{
	Floats		roundings[PARTS];
	Floats		errors[PARTS];
	Unsigneds	norm2;
	Ints		sum;
} RoundingSums;

/* Rounds a vector to integers between `low` and `high`.  NaN becomes `low`. */
static inline __attribute__((always_inline)) void
round_vector(const float *image, float factor, float low, float high, RoundingSums *sums, int part,
			 Ints *rounded)
{
	Floats		v;
	Ints		keep;
	Floats		bound;
	Floats		rounding;
	Floats		error;

	memcpy(&v, image, sizeof(v));
	v = v * factor;
	keep = v > low;
	bound = (Floats) ((keep & (Ints) v) | (~keep & (Ints) (low - (Floats) {0})));
	keep = bound < high;
	bound = (Floats) ((keep & (Ints) bound) | (~keep & (Ints) (high - (Floats) {0})));
	rounding = bound;
	bound = (bound + ROUNDING_BIAS) - ROUNDING_BIAS;
	rounding -= bound;
	*rounded = __builtin_convertvector(bound, Ints);
	error = v - bound;
	sums->roundings[part] += rounding * rounding;
	sums->errors[part] += error * error;
	sums->norm2 += (Unsigneds) *rounded * (Unsigneds) *rounded;
	sums->sum += *rounded;
}

/* Returns the sum of all lanes.  Halves are added first, so that no sum is rounded often. */
static inline __attribute__((always_inline)) float
fold_floats(const Floats *parts)
{
	Floats		v = parts[0] + parts[1];

	if (PARTS == 4)
		v += parts[PARTS - 2] + parts[PARTS - 1];
	for (int half = ROW_LANES / 2; half > 0; half /= 2)
	{
		for (int lane = 0; lane < half; lane++)
			v[lane] += v[lane + half];
	}
	return v[0];
}

/*
 * Rounds an image to integers of `bytes` bytes between `low` and `high`, 32 at a time.  `bytes`
 * must be a compile-time constant.
 */
static inline __attribute__((always_inline)) void
round_row(const float *image, float factor, uint32_t padded, float low, float high,
		  uint32_t bytes, int8_t *values, Int8Sums *sums)
{
	RoundingSums parts = {0};

	for (uint32_t k = 0; k < padded; k += 32)
	{
		UNROLL for (int part = 0; part < PARTS; part++)
		{
			uint32_t	at = k + ROW_LANES * part;
			Ints		rounded;
			Shorts		shorts;
			Bytes		numbers;

			round_vector(image + at, factor, low, high, &parts, part, &rounded);
			shorts = __builtin_convertvector(rounded, Shorts);
			numbers = __builtin_convertvector(rounded, Bytes);
			if (bytes == sizeof(int8_t))
				memcpy(values + at, &numbers, sizeof(numbers));
			else
				memcpy(values + at * sizeof(int16_t), &shorts, sizeof(shorts));
		}
	}
	*sums = (Int8Sums) {.rounding2 = fold_floats(parts.roundings),.error2 = fold_floats(parts.errors)};
	for (int lane = 0; lane < ROW_LANES; lane++)
	{
		sums->norm2 = (int32_t) ((uint32_t) sums->norm2 + parts.norm2[lane]);
		sums->sum += parts.sum[lane];
	}
}

/*
 * Rounds an image to 16-bit integers, clamped so that no squared norm exceeds `norm2`:
 * doc/internals/bound-int8.md, sections 8 and 10.
 */
static inline __attribute__((always_inline)) void
round_row_int16(const float *image, float factor, uint32_t padded, float norm2, int16_t *values,
				Int8Sums *sums)
{
	float		most = fasted_int16_most(norm2, padded);

	round_row(image, factor, padded, -most, most, sizeof(int16_t), (int8_t *) values, sums);
}

#endif							/* FASTED_ROW_BODY_H */
