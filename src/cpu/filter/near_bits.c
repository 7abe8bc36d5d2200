/*-------------------------------------------------------------------------
 *
 * near_bits.c
 *	  Thresholds of rows of bits in a nearest-neighbor join, from the radii of the rows.
 *
 * doc/internals/bound.md, section 10, proves that no neighbour is lost.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "../../engine/filter_bound.h"
#include "bits.h"
#include "near_bits.h"
#include "near_thresholds.h"

/* Rows of bits: exceeds the rounding errors of a threshold. */
#define BITS_SLACK 0x1p-30

/*
 * Returns a row's reach: the Hamming distance of its neighbours at most; of the Jaccard distance,
 * divided by the sum of both numbers of bits.
 */
static double
bits_reach(const NearSide *side, size_t place)
{
	bool		jaccard = side->join->context->metric->of_union;
	double		radius;

	if (place >= side->packed->rows)
		return 0.0;
	radius = cpu_radius_at(side, place);
	return jaccard ? fasted_bits_reach(true, radius, 1)
		: fmin(floor(radius), FASTED_MAX_DIMENSIONS);
}

static bool
bits_have_pairs(const NearSide *side, size_t place)
{
	const RowTerms *terms = &side->packed->terms[place];

	return row_has_pairs(terms) &&
		cpu_bits_have_pairs(side->join->context, terms->ones, side->join->problem.eps);
}

/*
 * Computes the rows' thresholds for their own lists.  reach has the rows' reaches, none of which
 * exceeds `most`; rows of the other side have at least `least` bits.
 */
static void
make_bits_own(const NearSide *side, size_t first, uint32_t count, const double *reach, double most,
			  double least, uint32_t *own)
{
	bool		jaccard = side->join->context->metric->of_union;

	for (uint32_t i = 0; i < count; i++)
	{
		double		part = reach[i];

		if (jaccard)
			part = reach[i] * side->packed->terms[first + i].ones - (most - reach[i]) * least
				+ BITS_SLACK;
		own[i] = bits_have_pairs(side, first + i) ? (uint32_t) -(int32_t) floor(part)
			: FASTED_INT8_PADDING;
	}
}

/* Computes the rows' thresholds for lists of the other side, whose reaches are at most `most`. */
static void
make_bits_other(const NearSide *side, size_t first, uint32_t count, double most, uint32_t *other)
{
	bool		jaccard = side->join->context->metric->of_union;

	for (uint32_t i = 0; i < count; i++)
	{
		double		part = jaccard ? most * side->packed->terms[first + i].ones + BITS_SLACK : 0.0;

		other[i] = bits_have_pairs(side, first + i) ? (uint32_t) -(int32_t) ceil(part)
			: FASTED_INT8_PADDING;
	}
}

/* Returns the smallest number of bits of the rows from `first` on that may have pairs. */
static double
least_bits(const NearSide *side, size_t first, uint32_t count)
{
	double		least = INFINITY;

	for (uint32_t i = 0; i < count; i++)
	{
		if (bits_have_pairs(side, first + i))
			least = fmin(least, side->packed->terms[first + i].ones);
	}
	return least < INFINITY ? least : 0.0;
}

static double
bits_reaches(const NearSide *side, size_t first, uint32_t count, double *reach)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		reach[i] = bits_reach(side, first + i);
		most = fmax(most, reach[i]);
	}
	return most;
}

void
cpu_near_thresholds_of_bits(NearThresholds *near, const NearSide *a, const NearSide *b,
							StageThresholds *stage)
{
	if (b->lists)
	{
		if (stage->columns != near->columns)
			stage->reach_b = bits_reaches(b, near->first_b, near->cols, near->reach);
		make_bits_own(b, near->first_b, near->cols, near->reach, stage->reach_b,
					  least_bits(a, near->first_a, near->rows), stage->b_own);
		make_bits_other(a, near->first_a, near->rows, stage->reach_b, stage->a_other);
	}
	if (a->lists)
	{
		double		reach[STRIP_ROWS];

		stage->reach_a = bits_reaches(a, near->first_a, near->rows, reach);
		make_bits_own(a, near->first_a, near->rows, reach, stage->reach_a,
					  least_bits(b, near->first_b, near->cols), stage->a_own);
		make_bits_other(b, near->first_b, near->cols, stage->reach_a, stage->b_other);
	}
}
