/*-------------------------------------------------------------------------
 *
 * exact_distance.h
 *	  The canonical distance of two vectors, which defines the result of a join.
 *
 * Euclidean distance: coordinate k of both vectors is converted to FP64 and subtracted.  One fma adds
 * the square of the difference to partial sum k mod 32.  The 32 partial sums are then added up by
 * repeated halving, and the square root is taken.  Every step is one correctly rounded IEEE operation,
 * and the order is fixed.  The result is therefore bit-identical on all machines, with any number of
 * SIMD lanes, and with any padding by zeros, because a partial sum is never -0 and fma(0, 0, s) is s.
 *
 * With floats, no step overflows or underflows.  A difference is a multiple of 2^-149 with a magnitude
 * below 2^129, so its square is zero or in [2^-298, 2^258].  With doubles, a square may underflow to
 * zero (differences below about 2^-537) or overflow to infinity (differences of about 2^512 and more).
 *
 * The cosine distance is 1 - x.y / sqrt(x.x y.y).  Its three sums are computed in the same way from
 * products of converted coordinates, which are zero or in [2^-298, 2^256] with floats.  The operations
 * are a product, a square root, a quotient and a difference, in this order.  The quotient is limited to
 * [-1, 1]; it is the cosine similarity.  Both are NaN if a vector is zero, because it has no direction.
 *
 * A vector of doubles is scaled before its cosine distance is computed, if its largest magnitude is
 * below 2^-100, or 2^101 or more.  A power of two brings this magnitude into [1, 2), so that all vectors
 * except zero have a direction.  Scaling would not change the result for other vectors.
 *
 * The distance of the inner product is 0 - x.y, with the sum of the cosine distance.  Products of
 * doubles may overflow; the result may then be infinite or NaN, and a pair with NaN is in no result.
 *
 * Hamming distance: the number of bits in which two rows of bits differ.
 *
 * Jaccard distance: (u - c) / u, where u bits are set in x or y, and c in both.  The similarity is
 * c / u.  Both are quotients of integers that are rounded once, so that decimal limits include the
 * pairs at the limit: 3 / 10 is the number that 0.3 is.  Two rows without any bit (u = 0) have the
 * distance 1 and the similarity 0, also a row beside itself.
 *
 * Engines use faster implementations, which are tested against this definition, bit for bit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_EXACT_DISTANCE_H
#define FASTED_EXACT_DISTANCE_H

#include <math.h>
#include <stdint.h>

#define FASTED_EXACT_LANES 32

/* Adds up the partial sums: adds lane l + o to lane l, for o = 16, 8, 4, 2, 1. */
static inline double
fasted_exact_sum(double *sums)
{
	for (int o = FASTED_EXACT_LANES / 2; o > 0; o /= 2)
	{
		for (int l = 0; l < o; l++)
			sums[l] += sums[l + o];
	}
	return sums[0];
}

/* Returns the cosine similarity, given the inner products x.y, x.x and y.y. */
static inline double
fasted_exact_cosine_similarity_of(double xy, double xx, double yy)
{
	double		similarity = xy / sqrt(xx * yy);

	if (similarity > 1.0)
		similarity = 1.0;
	if (similarity < -1.0)
		similarity = -1.0;
	return similarity;
}

static inline double
fasted_exact_cosine_of(double xy, double xx, double yy)
{
	return 1.0 - fasted_exact_cosine_similarity_of(xy, xx, yy);
}

/* Returns the Jaccard distance of rows with these numbers of bits, of which `common` are in both. */
static inline double
fasted_exact_jaccard_of(uint32_t common, uint32_t ones_x, uint32_t ones_y)
{
	uint32_t	either = ones_x + ones_y - common;

	return common == 0 ? 1.0 : (double) (either - common) / (double) either;
}

static inline double
fasted_exact_jaccard_similarity_of(uint32_t common, uint32_t ones_x, uint32_t ones_y)
{
	return common == 0 ? 0.0 : (double) common / (double) (ones_x + ones_y - common);
}

static inline uint32_t
fasted_exact_hamming(const uint64_t *x, const uint64_t *y, uint32_t words)
{
	uint32_t	differ = 0;

	for (uint32_t w = 0; w < words; w++)
		differ += (uint32_t) __builtin_popcountll(x[w] ^ y[w]);
	return differ;
}

static inline uint32_t
fasted_exact_common(const uint64_t *x, const uint64_t *y, uint32_t words)
{
	uint32_t	common = 0;

	for (uint32_t w = 0; w < words; w++)
		common += (uint32_t) __builtin_popcountll(x[w] & y[w]);
	return common;
}

static inline uint32_t
fasted_exact_ones(const uint64_t *x, uint32_t words)
{
	return fasted_exact_common(x, x, words);
}

static inline double
fasted_exact_jaccard(const uint64_t *x, const uint64_t *y, uint32_t words)
{
	return fasted_exact_jaccard_of(fasted_exact_common(x, y, words), fasted_exact_ones(x, words),
								   fasted_exact_ones(y, words));
}

static inline double
fasted_exact_jaccard_similarity(const uint64_t *x, const uint64_t *y, uint32_t words)
{
	return fasted_exact_jaccard_similarity_of(fasted_exact_common(x, y, words),
											  fasted_exact_ones(x, words),
											  fasted_exact_ones(y, words));
}

/*
 * The functions of two rows of floats or doubles.  For the cosine functions, rows of doubles must have
 * been scaled by fasted_scale_direction.
 */
#define FASTED_DEFINE_EXACT(Element, suffix) \
	static inline double \
	fasted_exact_distance##suffix(const Element *x, const Element *y, uint32_t dimensions) \
	{ \
		double		sums[FASTED_EXACT_LANES] = {0}; \
		\
		for (uint32_t k = 0; k < dimensions; k++) \
		{ \
			double		diff = (double) x[k] - (double) y[k]; \
			\
			sums[k % FASTED_EXACT_LANES] = fma(diff, diff, sums[k % FASTED_EXACT_LANES]); \
		} \
		return sqrt(fasted_exact_sum(sums)); \
	} \
	\
	static inline double \
	fasted_exact_dot##suffix(const Element *x, const Element *y, uint32_t dimensions) \
	{ \
		double		sums[FASTED_EXACT_LANES] = {0}; \
		\
		for (uint32_t k = 0; k < dimensions; k++) \
			sums[k % FASTED_EXACT_LANES] = fma((double) x[k], (double) y[k], \
											   sums[k % FASTED_EXACT_LANES]); \
		return fasted_exact_sum(sums); \
	} \
	\
	static inline double \
	fasted_exact_cosine_similarity##suffix(const Element *x, const Element *y, \
										   uint32_t dimensions) \
	{ \
		return fasted_exact_cosine_similarity_of(fasted_exact_dot##suffix(x, y, dimensions), \
												 fasted_exact_dot##suffix(x, x, dimensions), \
												 fasted_exact_dot##suffix(y, y, dimensions)); \
	} \
	\
	static inline double \
	fasted_exact_cosine##suffix(const Element *x, const Element *y, uint32_t dimensions) \
	{ \
		return 1.0 - fasted_exact_cosine_similarity##suffix(x, y, dimensions); \
	}

FASTED_DEFINE_EXACT(float,)
FASTED_DEFINE_EXACT(double, _double)

/* Scales a finite vector of doubles by a power of two, if necessary (see above). */
static inline void
fasted_scale_direction(double *row, uint32_t dimensions)
{
	double		most = 0.0;
	int			exponent;

	for (uint32_t k = 0; k < dimensions; k++)
	{
		if (fabs(row[k]) > most)
			most = fabs(row[k]);
	}
	if (most == 0.0 || (most >= 0x1p-100 && most < 0x1p101))
		return;
	exponent = ilogb(most);
	for (uint32_t k = 0; k < dimensions; k++)
		row[k] = ldexp(row[k], -exponent);
}

#endif							/* FASTED_EXACT_DISTANCE_H */
