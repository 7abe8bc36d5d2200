/*-------------------------------------------------------------------------
 *
 * join_bound.c
 *	  From the bound of a distance clause to the engine's eps, and from a vector to the engine's row.
 *
 * The clause's bound becomes the engine's eps.  fasted's own distances are bitwise equal to the
 * engine's, for all metrics, and so is pgvector's Hamming distance.  Similarities and the other
 * distances of pgvector are rounded otherwise.  For these, the engine searches with an enlarged eps,
 * so that no pair is missed.  The clause is then evaluated for pairs near the bound, and skipped for
 * pairs safely within it.
 *
 * Jaccard.  pgvector's 1 - c / u has two roundings, 1 minus it or minus the bound another one, and
 * similarities and the engine's distance have one.  Each is at most 2^-54, as no value exceeds 1
 * where it matters.  JACCARD_ERROR is greater than their sum.
 *
 * Similarity of fasted, cosine.  The engine's distance is 1 - s, rounded to FP64, where s is the
 * similarity.  Rounding is monotone: s >= y implies that this distance is at most 1 - y, rounded, and
 * s <= y that it is at least that.
 *
 * pgvector computes its other distances in FP32.  The engine searches by inner product, or else by
 * Euclidean distance.  With u = 2^-24:
 *
 * FP32, Euclidean.  A difference of two coordinates, its square and a sum of d such squares in any
 * order accumulate at most d + 3 roundings.  All terms are positive, and the square root halves the
 * error.  The relative error of the distance is therefore less than (d + 16) u.  Underflow adds at
 * most 2^-126 for each of d squares.
 *
 * Cosine.  1 - cos is half the squared distance of the unit vectors.  The engine's unit vectors are
 * rounded to FP32.  Each has an error of u, so a distance has an error of 2 u.  The clause's own
 * value has an error of (2 d + 32) u, because the inner product and both norms have d + 2 roundings
 * each.  Rows whose norms overflow or underflow in FP32 become fallback rows.
 *
 * Inner product.  A product of coordinates and a sum of d such products in any order accumulate at
 * most d + 1 roundings.  By the Cauchy-Schwarz inequality, the magnitudes of the products add up to
 * at most |x| |y|.  The error is therefore at most g |x| |y|, where g = 2 (d + 16) u also covers
 * later FP64 roundings, plus 2^-126 for each of d products that may underflow.  The engine's rows
 * have an additional coordinate sqrt(g) |x|, rounded up.  This increases inner products by at least
 * g |x| |y|.  Their margin so depends on the pair, not on the longest vector of the table.  A pair
 * is safely within the bound if its distance is below it by twice the greatest error.
 *
 * The zero vector has no direction.  Its cosine distance is NaN, and its similarity by fasted NULL;
 * neither matches.  PostgreSQL treats NaN as greater than any number, so 1 - NaN matches, and the
 * clause is then evaluated for zero vectors.  The FP64 rounding of 1 - y and 1 - distance is
 * negligible compared with pgvector's FP32 errors.
 *
 * 1 minus a distance of fasted needs no margin.  1 - d is rounded to FP64, and rounding is
 * monotone.  The distances d with 1 - d > y are therefore all those up to a largest one.  Bisection
 * finds this largest distance exactly, and it becomes the radius.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <math.h>

#include "engine/exact_distance.h"
#include "join_node/join_plan.h"
#include "rows/vector.h"

#define FP32_ROUNDOFF 0x1p-24

/* Upper bound of the square root of what underflow of an FP32 square may lose. */
#define FP32_UNDERFLOW 0x1p-62

/* Beyond these limits FP32 squares may overflow or underflow. */
#define FP32_LARGE 1e18
#define FP32_LARGE_NORM 1e15
#define FP32_SMALL_NORM 1e-15

/* Error of the distance between rounded unit vectors, including later FP64 roundings. */
#define UNIT_ERROR 0x1p-22

/* Upper bound of the difference between Jaccard distances that are rounded in different ways. */
#define JACCARD_ERROR 0x1p-50

JoinBound
MakeJoinBound(const DistanceKind *kind, FastedElement element, bool shared)
{
	JoinBound	bound = {.kind = *kind,.element = element,.metric = kind->metric,.shared = shared};

	bound.of_pgvector = kind->function == PGVECTOR_DISTANCE;
	bound.exact = IsExactFunction(kind->function);
	bound.has_margin = HasMargin(kind);
	if (bound.of_pgvector && fasted_metric_rules(kind->metric)->has_direction)
		bound.metric = FASTED_METRIC_L2;
	return bound;
}

/*
 * Returns the largest distance, at most 2, whose similarity, rounded to FP64, exceeds the bound (or
 * equals it, unless strict).  The bound must not be NaN.  Returns a negative number if no distance
 * qualifies.
 */
static double
LargestDistance(double bound, bool strict)
{
	union
	{
		uint64		bits;		/* non-negative numbers sort like their bits */
		double		distance;
	}			low = {.distance = 0.0}, high = {.distance = 2.0}, middle;

	if (!(strict ? 1.0 > bound : 1.0 >= bound))
		return -1.0;
	while (low.bits < high.bits)
	{
		middle.bits = low.bits + (high.bits - low.bits + 1) / 2;
		if (strict ? 1.0 - middle.distance > bound : 1.0 - middle.distance >= bound)
			low = middle;
		else
			high.bits = middle.bits - 1;
	}
	return low.distance;
}

void
SetBound(JoinBound *bound, Datum value, bool isnull)
{
	const DistanceKind *kind = &bound->kind;
	const MetricRules *rules = fasted_metric_rules(kind->metric);
	BoundValue *set = &bound->value;
	double		limit = isnull ? 0.0 : DatumGetFloat8(value);

	set->known = true;
	set->empty = isnull;
	set->radius = limit;
	/* to PostgreSQL NaN is greater than any number; an eps below every distance is an error */
	set->clauses_decide = isnan(limit) || (rules->negative_product ? limit <= rules->least :
										   kind->function == WITHIN_FUNCTION && limit < 0.0);
	if (isnull || set->clauses_decide || kind->function == WITHIN_FUNCTION || rules->negative_product)
		return;
	if (!kind->similarity)
		set->empty = limit < 0.0 || (kind->strict && limit == 0.0);
	else
	{
		set->radius = bound->exact ? LargestDistance(limit, kind->strict) : 1.0 - limit;
		/* only NaN exceeds such a bound: 1 minus the cosine distance of a zero vector */
		set->empty = rules->of_union && set->radius < -JACCARD_ERROR;
	}
}

/* Returns g, which bounds the relative error of pgvector's inner products. */
static double
ProductError(int dimensions)
{
	return 2.0 * (dimensions + 16) * FP32_ROUNDOFF;
}

/* Returns the largest sum that the underflow of d FP32 products may lose, for d dimensions. */
static double
ProductUnderflow(int dimensions)
{
	return dimensions * FP32_UNDERFLOW * FP32_UNDERFLOW;
}

/*
 * There are two errors: that of the clause, and the one by which the engine's distance is too small.
 */
void
FinishSurelyWithin(JoinBound *bound, int dimensions)
{
	BoundValue *value = &bound->value;
	double		inner = value->norms[bound->shared ? OUTER_SIDE : INNER_SIDE];
	double		error = ProductError(dimensions) * value->norms[OUTER_SIDE] * inner +
		ProductUnderflow(dimensions);

	if (bound->has_margin)
		value->surely_within = nextafter(value->radius - 2.5 * error, -HUGE_VAL);
}

/* Returns the eps for pgvector's cosine distance, and sets surely_within. */
static double
EpsOfUnitVectors(BoundValue *value, int dimensions)
{
	double		error = (2.0 * dimensions + 32.0) * FP32_ROUNDOFF;
	double		least = value->radius - error;
	double		most = fmax(fmin(value->radius + error, 2.0), 0.0);

	value->surely_within = least > 0.0 ? sqrt(2.0 * fmin(least, 2.0)) - UNIT_ERROR : 0.0;
	return sqrt(2.0 * most) + UNIT_ERROR;
}

/* Returns the eps for pgvector's Euclidean distance, and sets surely_within. */
static double
EpsOfFp32(BoundValue *value, int dimensions)
{
	double		delta = (dimensions + 16) * FP32_ROUNDOFF;
	double		lost = sqrt(dimensions) * FP32_UNDERFLOW;

	value->surely_within = fmin((value->radius - lost) * (1.0 - delta), FP32_LARGE);
	return (value->radius + lost) * (1.0 + 2.0 * delta);
}

double
EngineEps(JoinBound *bound, int dimensions)
{
	const MetricRules *rules = fasted_metric_rules(bound->kind.metric);
	BoundValue *value = &bound->value;
	double		eps = value->radius;

	if (bound->exact)
	{
		/* a strict bound excludes the radius itself; infinity is not below infinity */
		if (bound->kind.strict && !bound->kind.similarity)
			eps = nextafter(eps, -HUGE_VAL);
		return rules->has_direction ? fmin(eps, rules->greatest) : eps;
	}
	if (rules->of_union)
	{
		value->surely_within = eps - JACCARD_ERROR;
		return fmax(eps + JACCARD_ERROR, 0.0);
	}
	if (bound->has_margin)
	{
		/* all pairs are evaluated until all norms are known */
		value->surely_within = -HUGE_VAL;
		return nextafter(eps + ProductUnderflow(dimensions), HUGE_VAL);
	}
	if (bound->of_pgvector)
		return rules->has_direction ? EpsOfUnitVectors(value, dimensions) : EpsOfFp32(value, dimensions);
	/* a similarity of fasted */
	value->surely_within = eps;
	return fmin(eps, rules->greatest);
}

/* Returns the square of the vector's norm.  Of doubles, only whether it is zero is of interest. */
static double
SquaredNorm(const float *vector, FastedElement element, int dimensions)
{
	double		norm2 = 0.0;

	if (element == FASTED_ELEMENT_DOUBLE)
		return RowIsZero(vector, element, dimensions) ? 0.0 : 1.0;
	for (int k = 0; k < dimensions; k++)
		norm2 += (double) vector[k] * vector[k];
	return norm2;
}

VectorUse
ConvertVector(JoinBound *bound, int side, float *vector, int dimensions)
{
	BoundValue *value = &bound->value;
	double		norm;
	bool		rounds_well;

	if (!fasted_metric_rules(bound->kind.metric)->has_direction && !bound->has_margin)
		return PASSED_TO_ENGINE;
	if (bound->element == FASTED_ELEMENT_DOUBLE)
		fasted_scale_direction((double *) vector, dimensions);
	norm = sqrt(SquaredNorm(vector, bound->element, dimensions));
	rounds_well = norm > FP32_SMALL_NORM && norm < FP32_LARGE_NORM;
	if (bound->has_margin)
	{
		if (norm != 0.0 && !rounds_well)
			return CLAUSES_DECIDE;
		value->norms[side] = fmax(value->norms[side], norm);
		vector[dimensions] = sqrt(ProductError(dimensions)) * norm * (1.0 + 4.0 * FP32_ROUNDOFF);
		return PASSED_TO_ENGINE;
	}
	if (norm == 0.0)
		return bound->kind.similarity && bound->kind.function != SIMILARITY_FUNCTION ?
			CLAUSES_DECIDE : NEVER_MATCHES;
	/* with a negative radius, at most 1 minus the distance of a zero vector is above the bound */
	if (!bound->of_pgvector)
		return value->radius < 0.0 ? NEVER_MATCHES : PASSED_TO_ENGINE;
	if (!rounds_well)
		return CLAUSES_DECIDE;
	for (int k = 0; k < dimensions; k++)
		vector[k] = (float) (vector[k] / norm);
	return PASSED_TO_ENGINE;
}

bool
EqualRowsMatch(const JoinBound *bound)
{
	const MetricRules *rules = fasted_metric_rules(bound->kind.metric);

	/* the Jaccard distance of rows without any bit is 1 */
	return !rules->negative_product && !rules->of_union &&
		(bound->exact || 0.0 < bound->value.surely_within);
}
