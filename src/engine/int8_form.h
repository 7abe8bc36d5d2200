/*-------------------------------------------------------------------------
 *
 * int8_form.h
 *	  What the engines' ways from a row to its INT8 form have in common.
 *
 * Nothing here needs to be good for the filter to be right (doc/bound-int8.md):
 * it is as fast as this is good.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INT8_FORM_H
#define FASTED_INT8_FORM_H

#include "filter_bound.h"

/* Integers up to here, and their sums with a byte, are exact in FP32. */
#define FASTED_INT8_LARGEST_INTEGER 4194304.0f

/*
 * Scales tried, each 2^(1/5) times the one before.  The first clips no coordinate
 * of typical rows, the last those above an eighth of the largest.
 */
#define FASTED_INT8_SCALES 16
#define FASTED_INT8_SCALE_STEP 1.148698355f

/*
 * INT16 rows: what their squared norms are below, less than 2^29; and how many times a
 * typical row's coordinate one may be that is not clamped.
 */
#define FASTED_INT16_NORM2 (0.999f * 536870912.0f)
#define FASTED_INT16_ROOM 4.0f

/* The largest coordinate with which no row of so many exceeds this squared norm. */
FASTED_EVERYWHERE float
fasted_int16_most(float norm2, uint32_t padded)
{
	float		most = (float) (int32_t) sqrt((double) (norm2 / (float) padded));

	return most < 32767.0f ? most : 32767.0f;
}

/*
 * The centre of one dimension of 8-bit integers, such that all of [low, high] is
 * within -128 .. 127 of it.  Products are exact, so that the centre need not keep
 * norms small: better that it leaves room for what the sample did not show.
 */
FASTED_EVERYWHERE float
fasted_integer_centre(float low, float high)
{
	if (low >= 0.0f && high <= 255.0f)
		return high <= 63.0f ? 0.0f : 128.0f;
	if (low >= -128.0f && high <= 127.0f)
		return 0.0f;
	return floorf((low + high + 1.0f) * 0.5f);
}

/*
 * The rotation's 64 random signs of this number, in this pass: splitmix64's hash.
 * Which coordinate has which is the engine's choice.
 */
FASTED_EVERYWHERE uint64_t
fasted_sign_bits(uint32_t group, uint32_t pass)
{
	uint64_t	z = (group * 2 + pass + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif							/* FASTED_INT8_FORM_H */
