/*-------------------------------------------------------------------------
 *
 * filter_bound.h
 *	  The bound that makes a low-precision filter lose no pair.
 *
 * Every engine finds candidates from quantised rows and rechecks them exactly.
 * This header turns what is known of a row into one number, its threshold t,
 * such that every pair of the result satisfies
 *
 *	  g >= fl(t_x + t_y)
 *
 * where g is the computed inner product of the quantised rows and fl rounds to
 * FP32.  The derivation, line by line, is in doc/internals/bound.md.  INT8 rows have their
 * own thresholds, integers: see below and doc/internals/bound-int8.md.  For cosine
 * distances the rows are directions: doc/internals/bound-cosine.md.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_FILTER_BOUND_H
#define FASTED_FILTER_BOUND_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "host_device.h"

/* Unit roundoffs: half the distance from 1 to the next number. */
#define FASTED_U32 (FLT_EPSILON / 2.0)
#define FASTED_U64 (DBL_EPSILON / 2.0)

/*
 * An upper bound of the true distance of any pair whose canonical distance
 * (exact_distance.h) is at most eps: the canonical form makes one rounding a
 * difference, one an fma (d / 32 of them in a chain), five additions and a
 * square root, each of relative size u.  scale is a power of two or, for INT8
 * rows, any FP32 number: the bound has room for the rounding of the product.
 */
FASTED_EVERYWHERE double
fasted_eps_upper(double eps, double scale, uint32_t dimensions)
{
	double		upper = eps * scale * (1.0 + (dimensions + 32.0) * FASTED_U64);

	/* eps * scale may underflow; an upper bound of it must not */
	return (eps > 0.0 && upper < DBL_MIN) ? DBL_MIN : upper;
}

/*
 * Cosine: doc/internals/bound-cosine.md.  The filter sees directions, each coordinate of
 * x / |x| rounded to FP32.  An upper bound of the distance between the directions of
 * any pair whose canonical cosine distance is at most eps; it takes eps's place in
 * fasted_eps_upper.  The canonical similarity is off by `error` at most, which weighs
 * most where eps is small; rounding moves a direction by `rounding` at most.
 */
FASTED_EVERYWHERE double
fasted_direction_reach(double eps, uint32_t dimensions)
{
	double		error = (dimensions / 16.0 + 20.0) * FASTED_U64;
	double		rounding = FASTED_U32 + error;

	return (sqrt(2.0 * (eps * (1.0 + 4 * FASTED_U64) + error)) + 2.0 * rounding)
		* (1.0 + 8 * FASTED_U64);
}

/* Has a row with this x.x a direction?  A zero vector has none, nor what is not finite. */
FASTED_EVERYWHERE bool
fasted_has_direction(double square)
{
	return square > 0.0 && square <= DBL_MAX;
}

/* What the filter sees of a double; NaN stays. */
FASTED_EVERYWHERE float
fasted_narrow(double x)
{
	return (float) (x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x);
}

/*
 * Rows of doubles: doc/internals/bound-double.md.  The filter sees them rounded to FP32.  An upper
 * bound of how far that moves a row, error2 being the sum of the squares of what it
 * takes from each coordinate; and of what underflow takes from the canonical distance.
 */
FASTED_EVERYWHERE double
fasted_narrowed(double error2, uint32_t dimensions)
{
	double		moved = sqrt(error2) * (1.0 + (dimensions + 16.0) * FASTED_U64) + ldexp(1.0, -528);

	return moved <= DBL_MAX ? moved : INFINITY;
}

/*
 * A sum of d nonnegative FP64 terms, each rounded a few times, in any order,
 * has a relative error of at most this; so have its bounds and square root.
 */
FASTED_EVERYWHERE double
fasted_sum_slack(uint32_t dimensions)
{
	return (dimensions + 16.0) * FASTED_U64;
}

/*
 * An upper bound of the distance between the exact image of a row and its
 * quantised form.  error2 is the FP64 sum of (v_k - q_k)^2, norm2 that of
 * q_k^2, where q is the quantised row and v its image in FP64, whose
 * coordinates carry at most two roundings.
 */
FASTED_EVERYWHERE double
fasted_rho(double error2, double norm2, uint32_t dimensions)
{
	double		slack = fasted_sum_slack(dimensions);
	double		error = sqrt(error2) * (1.0 + slack);

	return error + 2.0 * FASTED_U64 * (sqrt(norm2) * (1.0 + slack) + error)
		* (1.0 + slack);
}

/*
 * The relative error of an inner product of d terms in FP32, summed in any
 * order with at most `extra` further additions on a path:
 * gamma_k = k u / (1 - k u), k = d + extra.
 */
FASTED_EVERYWHERE double
fasted_gamma32(uint32_t dimensions, uint32_t extra)
{
	double		ku = ((double) dimensions + extra) * FASTED_U32;

	return ku / (1.0 - ku) * (1.0 + 8 * FASTED_U64);
}

/*
 * The absolute error of the same inner product: what underflow takes away, at
 * most 2^-150 a product or an fma, carried through the rest of the sum.
 */
FASTED_EVERYWHERE double
fasted_alpha32(uint32_t dimensions)
{
	return ldexp((double) dimensions, -148);
}

/* Rounds to FP32 toward minus infinity. */
FASTED_EVERYWHERE float
fasted_round_down(double value)
{
	float		f = (float) value;

	return ((double) f > value) ? nextafterf(f, -INFINITY) : f;
}

/*
 * The threshold of one row.
 *
 *	  norm2_lower	lower bound of the quantised row's squared norm
 *	  norm2_upper	upper bound of the same
 *	  rho			upper bound of the distance that quantisation moved the row
 *	  eps_upper		fasted_eps_upper, in the quantised rows' scale
 *	  gamma			relative error of g against the product of both norms
 *	  alpha			absolute error of g
 *
 * minus infinity (a row that every row may be near) is a valid answer.
 */
FASTED_EVERYWHERE float
fasted_threshold(double norm2_lower, double norm2_upper, double rho,
				 double eps_upper, double gamma, double alpha)
{
	double		reach = eps_upper + 2.0 * rho;
	double		t = 0.5 * (norm2_lower - gamma * norm2_upper - alpha
						   - 0.5 * reach * reach);

	/* FP64 roundings of this expression, then of the FP32 sum t_x + t_y */
	t -= 16 * FASTED_U64 * (norm2_upper + reach * reach + alpha) + DBL_MIN;
	t -= 2 * FASTED_U32 * fabs(t);
	if (!(t > -(double) FLT_MAX / 4))
		return -INFINITY;
	return fasted_round_down(t);
}

/*
 * INT8 rows, whose inner product p is an exact INT32 number: doc/internals/bound-int8.md.
 *
 * With A = 128 * 128 * FASTED_INT8_MOST_DIMENSIONS = 2^29, the largest |p|, the
 * thresholds n of rows lie between FASTED_INT8_EVERY = -(3/2 A + 2) and A/2, and
 *
 *	  p - n >= -A - A/2 > EVERY				such a row passes with every row
 *	  A - PADDING < EVERY					padding passes with none,
 *	  A - EVERY < PADDING					nor does a row with padding
 *	  -2^31 < -A - PADDING, A - EVERY < 2^31	no difference overflows
 *
 * The sum n_x + n_y of two paddings does overflow: compare p - n_y with n_x.
 */
#define FASTED_INT8_MOST_DIMENSIONS 32768
#define FASTED_INT8_EVERY (-805306370)
#define FASTED_INT8_PADDING 1400000000

/*
 * The rotation of INT8 rows, padded to a multiple of 32 dimensions, consists of
 * Walsh-Hadamard transforms of this length, a power of two: one if it is all of
 * the row, or one of the first and one of the last so many coordinates.
 */
#define FASTED_ROTATION_LONGEST 16384

FASTED_EVERYWHERE uint32_t
fasted_rotation_length(uint32_t padded)
{
	uint32_t	length = FASTED_ROTATION_LONGEST;

	while (length > padded)
		length /= 2;
	return length;
}

/*
 * Roundings that a coordinate passes on its way through the rotation: centring
 * and scaling; and for each transform an addition a level, and the product with
 * 1 / sqrt(length), itself rounded.
 */
FASTED_EVERYWHERE uint32_t
fasted_rotation_roundings(uint32_t padded)
{
	uint32_t	length = fasted_rotation_length(padded);
	uint32_t	levels = 0;

	while (length >> levels > 1)
		levels++;
	return 2 + (length < padded ? 2 : 1) * (levels + 2);
}

/*
 * An upper bound of the distance between the INT8 form q of a row and what clamping makes of its
 * exact image, scaled and rotated; clamping brings no two rows further apart.  Where v is the image
 * as computed in FP32 and c the clamped v, error2 is the FP32 sum of (v_k - q_k)^2 and rounding2
 * that of (c_k - q_k)^2, each in at least 32 partial sums; norm2 is that of q_k^2 (exact).  The last
 * term covers all underflow.
 */
FASTED_EVERYWHERE double
fasted_rho_clamped(double rounding2, double error2, double norm2, uint32_t padded)
{
	double		slack = (padded / 32 + 32) * FASTED_U32;
	double		longest = sqrt(norm2) + sqrt(error2) * (1.0 + slack);
	double		mu = fasted_rotation_roundings(padded) * FASTED_U32;

	return (sqrt(rounding2) * (1.0 + slack) + mu / (1.0 - 2.0 * mu) * longest)
		* (1.0 + 16 * FASTED_U64) + ldexp(1.0, -60);
}

/*
 * The threshold of one INT8 row: every pair of the result has p >= n_x + n_y,
 * n = floor((norm2 - reach^2 / 2) / 2).  norm2 is exact.  FASTED_INT8_EVERY (a
 * row that every row may be near) is a valid answer.
 */
FASTED_EVERYWHERE int32_t
fasted_threshold_int(double norm2, double rho, double eps_upper)
{
	double		reach = eps_upper + 2.0 * rho;
	double		half = 0.5 * reach * reach * (1.0 + 8 * FASTED_U64);
	double		n;

	/* reach * reach may underflow; an upper bound of it must not */
	if (reach > 0.0)
		half += DBL_MIN;
	if (!(half < 4e9))
		return FASTED_INT8_EVERY;

	/* norm2 is an integer: rounding half up first changes nothing in the floor */
	n = floor(0.5 * (norm2 - ceil(half)));
	return n > FASTED_INT8_EVERY ? (int32_t) n : FASTED_INT8_EVERY;
}

/*
 * The threshold of one row in the finer form in which candidates are compared once
 * more: doc/internals/bound-int8.md, section 10.  norm2 is exact, |p| below 2^31, and every pair
 * of the result has p >= t_x + t_y, where nothing is rounded.
 */
#define FASTED_FINE_NORM2 (0.999f * 2147483648.0f)

FASTED_EVERYWHERE double
fasted_threshold_fine(double norm2, double rho, double eps_upper)
{
	double		reach = eps_upper + 2.0 * rho;
	double		half = 0.5 * reach * reach * (1.0 + 8 * FASTED_U64) + DBL_MIN;

	if (!(half < 0x1p50))
		return -INFINITY;
	return 0.5 * (norm2 - ceil(half));
}

/*
 * What the engines' ways from a row to its INT8 form have in common.  Nothing of it needs to
 * be good for the filter to be right (doc/internals/bound-int8.md): the filter is as fast as
 * this is good.
 */

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

/*
 * The bound that makes a test at few dimensions lose no pair; the proof is
 * doc/internals/bound-pruning.md.
 *
 * A row's level row is its projection on some directions, and the norm of what they leave as
 * one more coordinate.  These functions return how much longer the distance of two level rows
 * may be than that of the rows, and how far a computed level row is from the exact one.  Level
 * rows are quantised and tested, and have thresholds, as rows do.
 */

/* Terms of one sum in FP32; such sums are added up in FP64. */
#define FASTED_PRUNE_PIECE 64

/*
 * By what factor distances of level rows may exceed those of rows: eta bounds the
 * Frobenius norm of P P' - I.
 */
FASTED_EVERYWHERE double
fasted_prune_stretch(double eta)
{
	return sqrt(1.0 + eta + eta * eta) * (1.0 + 8 * FASTED_U64);
}

/*
 * An upper bound of ||P q - z||, z as computed and rounded to FP32.  norm is an upper
 * bound of ||q||, projected one of ||z||; directions are those of P; gamma bounds the
 * relative error of a sum of d products.
 */
FASTED_EVERYWHERE double
fasted_prune_product_error(double gamma, double norm, double projected, double eta,
						   uint32_t directions, uint32_t dimensions)
{
	double		rows = sqrt(directions * (1.0 + eta));

	return (gamma * rows * norm + 2.0 * FASTED_U32 * projected
			+ fasted_alpha32(dimensions) * rows) * (1.0 + 16 * FASTED_U64)
		+ ldexp(1.0, -140);
}

/* The same where pieces are added in FP64. */
FASTED_EVERYWHERE double
fasted_prune_projection_error(double norm, double projected, double eta,
							  uint32_t directions, uint32_t dimensions)
{
	double		gamma = fasted_gamma32(FASTED_PRUNE_PIECE, 2)
		+ (dimensions + 32.0) * FASTED_U64;

	return fasted_prune_product_error(gamma, norm, projected, eta, directions, dimensions);
}

/* The relative error of such a sum where pieces are added in FP32, too, one by one. */
FASTED_EVERYWHERE double
fasted_prune_gamma_fp32(uint32_t dimensions)
{
	uint32_t	pieces = (dimensions + FASTED_PRUNE_PIECE - 1) / FASTED_PRUNE_PIECE;

	return fasted_gamma32(FASTED_PRUNE_PIECE + pieces, 2);
}

/*
 * An upper bound of ||w - q||, where q is s (x - c) by a subtraction in FP32 and a product
 * with a power of two, and did not overflow.  norm is an upper bound of ||q||.
 */
FASTED_EVERYWHERE double
fasted_prune_image_error(double norm, uint32_t dimensions)
{
	return FASTED_U32 * norm * (1.0 + 16 * FASTED_U64) + ldexp((double) dimensions, -149);
}

/*
 * An upper bound of the error of r = sqrt(max(0, norm2 - projected2)), rounded to
 * FP32, against the norm of (I - P' P) q.  norm2 and projected2 are FP64 sums of
 * squares of q and z; error bounds ||P q - z||.
 */
FASTED_EVERYWHERE double
fasted_prune_residual_error(double norm2, double projected2, double residual, double error,
							double eta, uint32_t dimensions)
{
	double		slack = 2.0 * fasted_sum_slack(dimensions + 32);
	double		projected = sqrt(projected2) * (1.0 + slack);
	double		longest = projected + error;
	double		error2 = (slack * (norm2 + projected2) + error * (2.0 * projected + error)
						  + eta * longest * longest) * (1.0 + 16 * FASTED_U64);
	double		bound = sqrt(error2);

	if (residual > bound)
		bound = error2 / residual;
	return (bound + 2.0 * FASTED_U32 * residual) * (1.0 + 16 * FASTED_U64) + ldexp(1.0, -140);
}

/*
 * An upper bound of the distance between the exact level row of a row's image and the
 * computed one.  moved bounds the distance between the image and q, error and
 * residual_error are the two above.
 */
FASTED_EVERYWHERE double
fasted_prune_moved(double moved, double eta, double error, double residual_error)
{
	return (fasted_prune_stretch(eta) * moved
			+ sqrt(error * error + residual_error * residual_error))
		* (1.0 + 16 * FASTED_U64);
}

#endif							/* FASTED_FILTER_BOUND_H */
