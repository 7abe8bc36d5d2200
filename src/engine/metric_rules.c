/*-------------------------------------------------------------------------
 *
 * metric_rules.c
 *	  The properties of each metric.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>

#include "exact_distance.h"
#include "metric_rules.h"

/* Returns the Jaccard distance of rows with xx and yy bits, of which xy are set in both rows. */
static double
jaccard_of(double xy, double xx, double yy)
{
	return fasted_exact_jaccard_of((uint32_t) xy, (uint32_t) xx, (uint32_t) yy);
}

static double
jaccard_similarity_of(double xy, double xx, double yy)
{
	return fasted_exact_jaccard_similarity_of((uint32_t) xy, (uint32_t) xx, (uint32_t) yy);
}

static const MetricRules metric_rules[] = {
	/* |x - y| */
	[FASTED_METRIC_L2] = {.name = "l2",.greatest = HUGE_VAL},

	/* 1 - x.y / (|x| |y|) */
	[FASTED_METRIC_COSINE] = {
		.name = "cosine",.has_direction = true,.of_product = true,.of_squares = fasted_exact_cosine_of,
		.similarity_of_squares = fasted_exact_cosine_similarity_of,.greatest = 2.0
	},

	/* -x.y */
	[FASTED_METRIC_INNER_PRODUCT] = {
		.name = "inner_product",.negative_product = true,.of_product = true,.least = -DBL_MAX,
		.greatest = HUGE_VAL
	},

	/* the number of bits in which x and y differ */
	[FASTED_METRIC_HAMMING] = {
		.name = "hamming",.of_bits = true,.is_count = true,.greatest = FASTED_MAX_DIMENSIONS
	},

	/* the number of bits in which x and y differ, divided by the number of bits set in either */
	[FASTED_METRIC_JACCARD] = {
		.name = "jaccard",.of_bits = true,.of_union = true,.of_product = true,.of_squares = jaccard_of,
		.similarity_of_squares = jaccard_similarity_of,.greatest = 1.0
	}
};

const MetricRules *
fasted_metric_rules(FastedMetric metric)
{
	size_t		number = (size_t) metric;

	return number < sizeof(metric_rules) / sizeof(metric_rules[0]) ? &metric_rules[number] : NULL;
}
