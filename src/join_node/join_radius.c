/*-------------------------------------------------------------------------
 *
 * join_radius.c
 *	  From a clause's bound to the engine's eps, and from its vectors to the engine's.
 *
 * Our own distances are the engine's, by either metric, bit for bit.  pgvector computes
 * them in FP32: there the engine searches by Euclidean distance, eps is widened so that
 * nothing is lost, and near the bound the clause itself decides; farther within, it
 * need not be asked.  With u = 2^-24:
 *
 * FP32, Euclidean.  A difference of two coordinates, its square and a sum of d of
 * those in any order have d + 3 roundings at most on a path, all terms positive; the
 * root halves the error.  So the distance is wrong by less than one part in
 * 1 / (d + 16) u, and by what underflow takes from d squares, 2^-126 each.
 *
 * Cosine.  1 - cos is half the squared distance of unit vectors.  The engine has these
 * rounded to FP32: each is u away from where it should be, so a distance is wrong by
 * 2 u; and the clause's own value by (2 d + 32) u, for inner product and both norms have
 * d + 2 roundings each, relative to the norms.  Rows whose norms FP32 cannot hold are
 * for the clause.
 *
 * The zero vector has no direction; its cosine distance is NaN, and no match.  To
 * PostgreSQL NaN is greater than any number, so a similarity of NaN is one: there the
 * clause decides of zero vectors.  Beside pgvector's FP32 errors the rounding of 1 - y and
 * of 1 - distance to FP64 is small.
 *
 * A similarity of ours needs no such margin.  1 - distance is rounded to FP64, and rounding is
 * monotone, so the distances d with 1 - d > y are all those up to a largest one.  This largest
 * distance is found exactly, by bisection, and becomes the radius.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "engine/exact_distance.h"
#include "executor/executor.h"
#include "join_node/join_state.h"

#define FP32_ROUNDOFF 0x1p-24

/* The root of what the underflow of a square in FP32 may take away, and more. */
#define FP32_UNDERFLOW 0x1p-62

/* From here on squares in FP32 may overflow, or vanish. */
#define FP32_LARGE 1e18
#define FP32_LARGE_NORM 1e15
#define FP32_SMALL_NORM 1e-15

/* Of the engine's unit vectors, and of what follows in FP64. */
#define UNIT_ERROR 0x1p-22

/*
 * The largest cosine distance whose similarity, rounded to FP64, is above a bound that is not
 * NaN.  The result is negative if there is no such distance.
 */
static double
LargestDistance(double bound, bool strict)
{
	union
	{
		uint64		bits;		/* numbers of one sign are in the order of their bits */
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
FindRadius(JoinNode *node)
{
	const JoinPlan *plan = &node->plan;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(node->bound, ScanTuple(node), &isnull);
	double		bound = isnull ? 0.0 : DatumGetFloat8(value);

	node->exact = plan->form != FORM_FOREIGN;
	node->radius_known = true;
	node->nothing = isnull;
	node->radius = bound;
	/* to PostgreSQL NaN is greater than any number; a negative eps is an error */
	node->undecided = isnan(bound) || (plan->form == FORM_WITHIN && bound < 0.0);
	if (isnull || node->undecided || plan->form == FORM_WITHIN)
		return;
	if (!plan->similarity)
		node->nothing = bound < 0.0 || (plan->strict && bound == 0.0);
	else
		node->radius = node->exact ? LargestDistance(bound, plan->strict) : 1.0 - bound;
}

static double
EuclideanEps(JoinNode *node)
{
	double		delta = (node->dimensions + 16) * FP32_ROUNDOFF;
	double		lost = sqrt(node->dimensions) * FP32_UNDERFLOW;

	node->surely_within = fmin((node->radius - lost) * (1.0 - delta), FP32_LARGE);
	return (node->radius + lost) * (1.0 + 2.0 * delta);
}

static double
CosineEps(JoinNode *node)
{
	double		error = (2.0 * node->dimensions + 32.0) * FP32_ROUNDOFF;
	double		least = node->radius - error;
	double		most = fmax(fmin(node->radius + error, 2.0), 0.0);

	node->surely_within = least > 0.0 ? sqrt(2.0 * fmin(least, 2.0)) - UNIT_ERROR : 0.0;
	return sqrt(2.0 * most) + UNIT_ERROR;
}

/* What is below the radius is at most the number before it; infinite distances are not below infinity. */
static double
ExactEps(const JoinNode *node)
{
	double		eps = node->radius;

	if (node->plan.strict && !node->plan.similarity)
		eps = nextafter(eps, 0.0);
	return node->plan.cosine ? fmin(eps, 2.0) : eps;
}

FastedMetric
JoinNodeMetric(const JoinNode *node)
{
	return node->exact && node->plan.cosine ? FASTED_METRIC_COSINE : FASTED_METRIC_L2;
}

double
JoinNodeEps(JoinNode *node)
{
	if (node->exact)
		return ExactEps(node);
	return node->plan.cosine ? CosineEps(node) : EuclideanEps(node);
}

VectorUse
JoinNodeVector(const JoinNode *node, float *vector)
{
	double		norm2 = 0.0;
	double		norm;

	if (!node->plan.cosine)
		return ENGINE_TAKES_IT;
	if (node->element == FASTED_ELEMENT_DOUBLE)
	{
		fasted_scale_direction((double *) vector, node->dimensions);
		norm2 = RowIsZero(vector, node->element, node->dimensions) ? 0.0 : 1.0;
	}
	else
		for (int k = 0; k < node->dimensions; k++)
			norm2 += (double) vector[k] * vector[k];
	norm = sqrt(norm2);
	if (norm == 0.0)
		return node->plan.similarity ? CLAUSES_DECIDE : NEVER_MATCHES;
	/* no similarity but that of a zero vector is above the bound */
	if (node->exact && node->radius < 0.0)
		return NEVER_MATCHES;
	if (node->exact)
		return ENGINE_TAKES_IT;
	if (!(norm > FP32_SMALL_NORM && norm < FP32_LARGE_NORM))
		return CLAUSES_DECIDE;
	for (int k = 0; k < node->dimensions; k++)
		vector[k] = (float) (vector[k] / norm);
	return ENGINE_TAKES_IT;
}
