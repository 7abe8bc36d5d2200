/*-------------------------------------------------------------------------
 *
 * int8_body.h
 *	  From a row to integers, in GCC's vectors: doc/bound-int8.md, sections 1 to 3.
 *
 * Inlined into each kernel's own functions, to be compiled for its instruction set.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INT8_BODY_H
#define FASTED_INT8_BODY_H

#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_kernel.h"

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

#endif							/* FASTED_INT8_BODY_H */
