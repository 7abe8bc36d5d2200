/*-------------------------------------------------------------------------
 *
 * exact_distance.h
 *	  The canonical distance of two vectors: what "within eps" means.
 *
 * Coordinate k of both vectors is promoted to FP64, subtracted, and its square
 * added with one fma to partial sum k mod 32.  The 32 partial sums are then
 * folded in halves, and the square root is taken.  Every step is one correctly
 * rounded IEEE operation in a fixed order, so any machine that does these
 * steps gets the same bits, 4 or 8 lanes or a warp at a time.
 *
 * Lanes that a short last block does not reach stay as they are.  To feed them
 * zeros is the same: a partial sum is never -0, and fma(0, 0, s) is s.
 *
 * Of floats no step can overflow or underflow: a difference of two is a multiple
 * of 2^-149 below 2^129 in size, so its square lies in [2^-298, 2^258].  Of doubles a
 * square may do both: a difference below about 2^-537 counts as none, and one from
 * about 2^512 on as infinite.
 *
 * The cosine distance is 1 - x.y / sqrt(x.x y.y), of three sums made in the same
 * way from products of promoted coordinates, which lie in [2^-298, 2^256]: product,
 * root, quotient, difference in this order; at least 0 and at most 2.  It is NaN if a
 * vector is zero, which has no direction.
 *
 * Of doubles, a vector whose largest element is below 2^-100 or from 2^101 on in size is
 * brought to [1, 2) by a power of two before its cosine distance is taken: then it has
 * a direction unless it is zero.  What is in between gives the same bits either way.
 *
 * This is the definition.  Engines have faster forms of their own and test
 * them against it, bit for bit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_EXACT_DISTANCE_H
#define FASTED_EXACT_DISTANCE_H

#include <math.h>
#include <stdint.h>

#define FASTED_EXACT_LANES 32

/* Folds the partial sums: lane l takes lane l + o, for o = 16, 8, 4, 2, 1. */
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

/* The cosine distance, of x.y, x.x and y.y. */
static inline double
fasted_exact_cosine_of(double xy, double xx, double yy)
{
	double		similarity = xy / sqrt(xx * yy);

	if (similarity > 1.0)
		similarity = 1.0;
	if (similarity < -1.0)
		similarity = -1.0;
	return 1.0 - similarity;
}

/*
 * The Euclidean distance; x.y or x.x, of which the cosine distance is made; and that: of rows of
 * floats, and under names with a suffix of rows of doubles, which fasted_scale_direction has seen
 * if the metric is cosine.
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
	fasted_exact_cosine##suffix(const Element *x, const Element *y, uint32_t dimensions) \
	{ \
		return fasted_exact_cosine_of(fasted_exact_dot##suffix(x, y, dimensions), \
									  fasted_exact_dot##suffix(x, x, dimensions), \
									  fasted_exact_dot##suffix(y, y, dimensions)); \
	}

FASTED_DEFINE_EXACT(float,)
FASTED_DEFINE_EXACT(double, _double)

/*
 * Brings a vector of doubles, which is finite, to where x.x neither overflows nor
 * underflows, if it is not there: its cosine distances stay the same.
 */
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
