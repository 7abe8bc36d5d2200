/*-------------------------------------------------------------------------
 *
 * filter_bound.h
 *	  Error bounds that guarantee that a low-precision filter misses no pair.
 *
 * Every engine finds candidates with quantised rows and rechecks them exactly.  This header computes a
 * threshold t for each row, such that every pair of the result satisfies
 *
 *	  g >= fl(t_x + t_y)
 *
 * Here g is the computed inner product of the quantised rows, and fl rounds to FP32.  The derivation is
 * in doc/internals/bound.md, and for the integer thresholds of INT8 rows in bound-int8.md.
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

/* Unit roundoffs of FP32 and FP64: half the distance from 1 to the next larger number. */
#define FASTED_U32 (FLT_EPSILON / 2.0)
#define FASTED_U64 (DBL_EPSILON / 2.0)

/*
 * Bounds the true distance, times scale, of any pair whose canonical distance is at most eps.  That has
 * rounding errors of relative size u: one per difference, one per fma (in chains of d / 32), five for
 * additions, and one for the square root.  scale is any FP32 number, so that the product is rounded, too.
 */
FASTED_EVERYWHERE double
fasted_eps_upper(double eps, double scale, uint32_t dimensions)
{
	double		upper = eps * scale * (1.0 + (dimensions + 32.0) * FASTED_U64);

	/* eps * scale may underflow; an upper bound of it must not */
	return (eps > 0.0 && upper < DBL_MIN) ? DBL_MIN : upper;
}

/*
 * Cosine distance (section 7): the filter compares directions, x / |x| with coordinates rounded to FP32.
 * Returns an upper bound of the Euclidean distance between the directions of any pair whose canonical
 * cosine distance is at most eps; it replaces eps in fasted_eps_upper.  `error` bounds the error of the
 * canonical similarity, `rounding` the distance by which rounding moves a direction.
 */
FASTED_EVERYWHERE double
fasted_direction_reach(double eps, uint32_t dimensions)
{
	double		error = (dimensions / 16.0 + 20.0) * FASTED_U64;
	double		rounding = FASTED_U32 + error;

	return (sqrt(2.0 * (eps * (1.0 + 4 * FASTED_U64) + error)) + 2.0 * rounding)
		* (1.0 + 8 * FASTED_U64);
}

/* Returns whether a row with x.x = square has a direction: it is finite, not zero. */
FASTED_EVERYWHERE bool
fasted_has_direction(double square)
{
	return square > 0.0 && square <= DBL_MAX;
}

/* Converts a double to FP32 for the filter, clamped to the finite range.  NaN is preserved. */
FASTED_EVERYWHERE float
fasted_narrow(double x)
{
	return (float) (x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x);
}

/*
 * Rows of doubles (section 9) are rounded to FP32 for the filter.  Returns an upper bound of the distance
 * by which this moves a row, plus the error of the canonical distance due to underflow.  error2 is the
 * sum of the squared rounding errors of the coordinates.
 */
FASTED_EVERYWHERE double
fasted_narrowed(double error2, uint32_t dimensions)
{
	double		moved = sqrt(error2) * (1.0 + (dimensions + 16.0) * FASTED_U64) + ldexp(1.0, -528);

	return moved <= DBL_MAX ? moved : INFINITY;
}

/* Bounds the relative error of a sum of d nonnegative FP64 terms, each rounded a few times, or of its root. */
FASTED_EVERYWHERE double
fasted_sum_slack(uint32_t dimensions)
{
	return (dimensions + 16.0) * FASTED_U64;
}

/*
 * Bounds the distance between the exact image of a row (centred and scaled) and its quantised form q.
 * error2 is the FP64 sum of (v_k - q_k)^2, and norm2 that of q_k^2.  v is the image computed in FP64,
 * with at most two roundings per coordinate.
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
 * Bounds the relative error of an inner product of d terms in FP32, summed in any order with at most
 * `extra` additional additions on any path: gamma_k = k u / (1 - k u) with k = d + extra.
 */
FASTED_EVERYWHERE double
fasted_gamma32(uint32_t dimensions, uint32_t extra)
{
	double		ku = ((double) dimensions + extra) * FASTED_U32;

	return ku / (1.0 - ku) * (1.0 + 8 * FASTED_U64);
}

/* Bounds its absolute error due to underflow, which is at most 2^-150 per product or fma. */
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
 * Bounds half the square of a row's reach: its share of the squared distance of a pair's quantised rows,
 * zero only if the reach is.  rho bounds the distance by which quantisation moved the row.
 */
FASTED_EVERYWHERE double
fasted_reach_half(double rho, double eps_upper)
{
	double		reach = eps_upper + 2.0 * rho;
	double		half = 0.5 * reach * reach * (1.0 + 8 * FASTED_U64);

	/* reach * reach may underflow; an upper bound of it must not */
	return reach > 0.0 ? half + DBL_MIN : half;
}

/*
 * Returns the threshold of a row, given bounds of the quantised row's squared norm, half
 * (fasted_reach_half or fasted_product_half), and bounds of the error of g: gamma relative to the product
 * of both norms, and alpha absolute.
 *
 * The result may be minus infinity; every pair with the row is then a candidate.  It is limited from
 * above, so that the sum with minus infinity is never NaN.  Lower thresholds are correct, too.
 */
FASTED_EVERYWHERE float
fasted_threshold(double norm2_lower, double norm2_upper, double half, double gamma, double alpha)
{
	double		most = (double) FLT_MAX / 4;
	double		t = 0.5 * (norm2_lower - gamma * norm2_upper - alpha - half);

	/* allow for rounding errors of this expression in FP64, and of the sum t_x + t_y in FP32 */
	t -= 16 * FASTED_U64 * (norm2_upper + 2.0 * fabs(half) + alpha) + DBL_MIN;
	t -= 2 * FASTED_U32 * fabs(t);
	if (!(t > -most))
		return -INFINITY;
	return fasted_round_down(t < most ? t : most);
}

/*
 * Inner product (section 8): the filter compares Euclidean distances, with a reach of each row's own.
 * Returns an upper bound, maybe negative, of E_x = (1 + g) |x|^2 + eps, where g bounds the relative error
 * of the canonical sum.  Every pair of the result satisfies |x - y|^2 <= E_x + E_y.  norm2 is the sum of
 * squares of the elements, computed in FP64 in any order.
 */
FASTED_EVERYWHERE double
fasted_product_reach2(double norm2, double eps, uint32_t dimensions)
{
	double		most = norm2 * (1.0 + 4.0 * (dimensions + 32.0) * FASTED_U64);

	return most + eps + 4.0 * FASTED_U64 * (most + fabs(eps)) + DBL_MIN;
}

/*
 * Returns half the square of the reach of a row for inner products, in the scale of the quantised rows.
 * reach2 is E_x times the square of the scale.  rho bounds the packing error.  spread > 0 is the same for
 * all rows; since
 *
 *	  (D + r)^2 <= (1 + spread) D^2 + (1 + 1 / spread) r^2
 *
 * for all D and r >= 0, every spread is correct.  The best one is the ratio of a typical sum of two
 * packing errors to a typical distance D.
 */
FASTED_EVERYWHERE double
fasted_product_half(double reach2, double rho, double spread)
{
	double		slack = 2.0 * (1.0 + 1.0 / spread) * rho * rho;
	double		half = (1.0 + spread) * reach2 + slack;

	return half + 16.0 * FASTED_U64 * (fabs((1.0 + spread) * reach2) + slack) + DBL_MIN;
}

/*
 * Rows of bits (section 10).  Returns a bound e_x, such that rows of a pair of the result differ in
 * H <= e_x + e_y bits.  ones is the number of bits that are set in the row.  Folding
 * (fasted_fold_bits) never increases H, so that a filter may compare folded rows.
 */
FASTED_EVERYWHERE double
fasted_bits_reach(bool jaccard, double eps, uint32_t ones)
{
	double		most = eps + 4.0 * FASTED_U64;

	if (!jaccard)
		return 0.5 * floor(eps);
	/* J <= most is equivalent to H <= most / (2 - most) (n_x + n_y) */
	return most >= 1.0 ? ones : most / (2.0 - most) * ones * (1.0 + 8.0 * FASTED_U64);
}

/* Returns word w of a row folded to `folded` words: the exclusive or of words w, w + folded, ... */
FASTED_EVERYWHERE uint32_t
fasted_fold_bits(const uint32_t *row, uint32_t words, uint32_t folded, uint32_t w)
{
	uint32_t	word = 0;

	for (; w < words; w += folded)
		word ^= row[w];
	return word;
}

/*
 * INT8 rows, whose inner product p is exact in INT32 (doc/internals/bound-int8.md).
 *
 * Let A = 128 * 128 * FASTED_INT8_MOST_DIMENSIONS = 2^29, the largest |p|.  The thresholds n
 * of rows lie between FASTED_INT8_EVERY = -(3/2 A + 2) and FASTED_INT8_MOST = A/2.  Padding rows
 * have the threshold FASTED_INT8_PADDING.  These values satisfy
 *
 *	  p - n >= -A - A/2 > EVERY				a row with threshold EVERY passes with every row
 *	  A - PADDING < EVERY					padding passes with no row
 *	  A - EVERY < PADDING					no row passes with padding
 *	  -2^31 < -A - PADDING, A - EVERY < 2^31	no difference p - n overflows
 *
 * Kernels must compare p - n_y with n_x, because the sum n_x + n_y of two padding rows overflows.
 */
#define FASTED_INT8_MOST_DIMENSIONS 32768
#define FASTED_INT8_EVERY (-805306370)
#define FASTED_INT8_MOST 268435456	/* A/2 */
#define FASTED_INT8_PADDING 1400000000

/*
 * INT8 rows are padded to a multiple of 32 dimensions and rotated by Walsh-Hadamard transforms.  If the
 * longest one is shorter than the row, one is applied to the first coordinates and one to the last.
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
 * Returns the number of rounding errors of a coordinate: two for centring and scaling; and for each
 * transform one per level, and two for the product with the rounded 1 / sqrt(length).
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
 * Bounds the distance between the INT8 form q of a row and its exact image (scaled and rotated) after
 * clamping, which never increases the distance of two rows.  Let v be the image computed in FP32, and c
 * the clamped v.  error2 is the FP32 sum of (v_k - q_k)^2, and rounding2 that of (c_k - q_k)^2, each with
 * at least 32 partial sums.  norm2 is the exact sum of q_k^2.  The last term covers underflow.
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
 * Returns the threshold n = floor((norm2 - half) / 2) of an INT8 row, where norm2 is exact, limited to
 * FASTED_INT8_EVERY .. A/2.  half is that of fasted_threshold.  Every pair of the result satisfies
 * p >= n_x + n_y.
 */
FASTED_EVERYWHERE int32_t
fasted_threshold_int(double norm2, double half)
{
	double		n;

	if (!(half < 4e9))
		return FASTED_INT8_EVERY;

	/* norm2 is an integer, so rounding up half first does not change the result of floor */
	n = floor(0.5 * (norm2 - ceil(half)));
	if (n > FASTED_INT8_MOST)
		return FASTED_INT8_MOST;
	return n > FASTED_INT8_EVERY ? (int32_t) n : FASTED_INT8_EVERY;
}

/*
 * Returns the threshold of an INT16 row, with which candidates are filtered a second time (bound-int8.md,
 * section 10).  norm2 is exact, and |p| is below 2^31.  Every pair of the result satisfies
 * p >= t_x + t_y, which is computed without rounding.
 */
#define FASTED_INT16_ROW_NORM2 (0.999f * 2147483648.0f)

FASTED_EVERYWHERE double
fasted_threshold_int16(double norm2, double half)
{
	if (!(half < 0x1p50))
		return -INFINITY;
	return 0.5 * (norm2 - ceil(half > -0x1p50 ? half : -0x1p50));
}

/* Choice of the INT8 encoding.  These values affect only the speed of the filter, not the result. */

/* Integers up to this magnitude, and their sums with a byte, are exact in FP32. */
#define FASTED_INT8_LARGEST_INTEGER 4194304.0f

/*
 * Number of scales that are tried, each 2^(1/5) times the previous one.  The first one clamps no
 * coordinate of typical rows, the last one those above an eighth of the largest.
 */
#define FASTED_INT8_SCALES 16
#define FASTED_INT8_SCALE_STEP 1.148698355f

/* INT16 rows: limit of their squared norms (2^29), and of coordinates, in typical coordinates. */
#define FASTED_INT16_NORM2 (0.999f * 536870912.0f)
#define FASTED_INT16_ROOM 4.0f

/* Returns the largest coordinate for which a row of `padded` dimensions cannot exceed norm2. */
FASTED_EVERYWHERE float
fasted_int16_most(float norm2, uint32_t padded)
{
	float		most = (float) (int32_t) sqrt((double) (norm2 / (float) padded));

	return most < 32767.0f ? most : 32767.0f;
}

/*
 * Returns the centre of a dimension whose sampled values are integers from low to high, such that
 * value - centre is in -128 .. 127, with space for values outside the sample.  Products are exact, so
 * the centre need not minimize norms.
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

/* Returns pseudorandom sign bits (splitmix64) for 64 coordinates in a pass of the rotation. */
FASTED_EVERYWHERE uint64_t
fasted_sign_bits(uint32_t group, uint32_t pass)
{
	uint64_t	z = (group * 2 + pass + 1) * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/*
 * Error bounds for pruning: tests in reduced dimensions miss no pair (doc/internals/bound-pruning.md).
 *
 * The level row of a row q is its projection z = P q onto some directions (the rows of P), with the norm
 * of the residual as an additional coordinate.  Level rows are quantised, have thresholds, and are tested
 * like rows.  The following functions bound by how much the distance of two level rows may exceed that of
 * the rows, and the error of a computed level row.
 */

/* Number of terms that are summed in FP32; these sums are added up in FP64. */
#define FASTED_PRUNE_PIECE 64

/* Bounds the factor for distances, where eta bounds the Frobenius norm of P P' - I. */
FASTED_EVERYWHERE double
fasted_prune_stretch(double eta)
{
	return sqrt(1.0 + eta + eta * eta) * (1.0 + 8 * FASTED_U64);
}

/*
 * Bounds ||P q - z|| for z as computed and rounded to FP32.  norm bounds ||q||, projected ||z||, and gamma
 * the relative error of a sum of d products.  directions is the number of rows of P.
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

/* The same, if sums of FASTED_PRUNE_PIECE terms are added up in FP64. */
FASTED_EVERYWHERE double
fasted_prune_projection_error(double norm, double projected, double eta,
							  uint32_t directions, uint32_t dimensions)
{
	double		gamma = fasted_gamma32(FASTED_PRUNE_PIECE, 2)
		+ (dimensions + 32.0) * FASTED_U64;

	return fasted_prune_product_error(gamma, norm, projected, eta, directions, dimensions);
}

/* Returns gamma if sums of FASTED_PRUNE_PIECE terms are added up sequentially in FP32. */
FASTED_EVERYWHERE double
fasted_prune_gamma_fp32(uint32_t dimensions)
{
	uint32_t	pieces = (dimensions + FASTED_PRUNE_PIECE - 1) / FASTED_PRUNE_PIECE;

	return fasted_gamma32(FASTED_PRUNE_PIECE + pieces, 2);
}

/*
 * Bounds ||w - q||, where w = s (x - c) is exact, and q is computed by a subtraction in FP32 and a product
 * with a power of two, without overflow.
 */
FASTED_EVERYWHERE double
fasted_prune_image_error(double norm, uint32_t dimensions)
{
	return FASTED_U32 * norm * (1.0 + 16 * FASTED_U64) + ldexp((double) dimensions, -149);
}

/*
 * Bounds the error of r = sqrt(max(0, norm2 - projected2)), rounded to FP32, as the norm of (I - P' P) q.
 * norm2 and projected2 are the FP64 sums of squares of q and z.  error bounds ||P q - z||.
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
 * Bounds the distance between the exact level row of a row's image and the computed level row.  moved
 * bounds the distance between the image and q.
 */
FASTED_EVERYWHERE double
fasted_prune_moved(double moved, double eta, double error, double residual_error)
{
	return (fasted_prune_stretch(eta) * moved
			+ sqrt(error * error + residual_error * residual_error))
		* (1.0 + 16 * FASTED_U64);
}

#endif							/* FASTED_FILTER_BOUND_H */
