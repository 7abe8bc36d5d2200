/*-------------------------------------------------------------------------
 *
 * metric_rules.h
 *	  The properties of each metric, as a row of a table.
 *
 * Code asks for a property, not for the metric.  A new metric is a new row of the table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_METRIC_RULES_H
#define FASTED_METRIC_RULES_H

#include "engine.h"

#ifdef __cplusplus
extern "C"
{
#endif

typedef struct MetricRules
{
	const char *name;			/* the value of an SQL function's argument "metric" */
	bool		of_bits;		/* the rows are rows of bits; otherwise vectors of numbers */

	/* Rows are compared by x / |x|.  A row that is zero or not finite has no direction: it is in no pair. */
	bool		has_direction;

	/*
	 * The distance is minus the inner product.  Distances and eps may be negative, and a row at
	 * distance zero is not an equal row.  Distances do not satisfy the triangle inequality.
	 */
	bool		negative_product;

	/* The distance is a number of bits, which is at most the number of dimensions. */
	bool		is_count;

	/* The distance is relative to the number of bits that are set in either row. */
	bool		of_union;

	/* The canonical distance is computed from the inner product x.y; of bits, those that are set in both. */
	bool		of_product;

	/* Returns the canonical distance, given x.y, x.x and y.y; NULL: it does not depend on x.x and y.y. */
	double		(*of_squares) (double xy, double xx, double yy);

	/* The same for the similarity, which is one minus the distance but for rounding; NULL: there is none. */
	double		(*similarity_of_squares) (double xy, double xx, double yy);

	/* No distance is below the least or exceeds the greatest one, which may be infinite. */
	double		least;
	double		greatest;
} MetricRules;

/* Returns the rules of a metric, or NULL if there is no such metric. */
extern const MetricRules *fasted_metric_rules(FastedMetric metric);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_METRIC_RULES_H */
