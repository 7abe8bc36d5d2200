/*-------------------------------------------------------------------------
 *
 * metric_rules.h
 *	  The properties of each metric, as a row of a table.
 *
 * Code that depends on a property of the metric asks for the property, not for the metric.  A new
 * metric is then a new row of the table in metric_rules.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_METRIC_RULES_H
#define FASTED_METRIC_RULES_H

#include "engine.h"

typedef struct MetricRules
{
	const char *name;			/* the value of an SQL function's argument "metric" */
	bool		of_bits;		/* the rows are rows of bits; otherwise vectors of numbers */

	/*
	 * Rows are compared by their direction, x / |x|.  A row that is zero or not finite has no
	 * direction, and is in no pair.
	 */
	bool		has_direction;

	/*
	 * The distance is minus the inner product.  Distances and eps may be negative, and a row at
	 * distance zero is not an equal row.  Distances do not satisfy the triangle inequality.
	 */
	bool		negative_product;

	/* The distance is a number of bits, which is at most the number of dimensions. */
	bool		is_count;

	/*
	 * The distance is relative to the number of bits that are set in either row.  Two rows without
	 * any bit have the distance 1.
	 */
	bool		of_union;

	/* A similarity is defined, too: one minus the distance. */
	bool		has_similarity;

	/*
	 * The canonical distance is computed from the inner product x.y.  Otherwise it is computed from
	 * the coordinates of both rows.  The inner product of two rows of bits is the number of bits
	 * that are set in both.
	 */
	bool		of_product;

	/*
	 * Returns the canonical distance, given x.y, x.x and y.y.  NULL: the distance does not depend
	 * on x.x and y.y.
	 */
	double		(*of_squares) (double xy, double xx, double yy);

	/* No distance is below the least or exceeds the greatest one, which may be infinite. */
	double		least;
	double		greatest;
} MetricRules;

/* Returns the rules of a metric, or NULL if there is no such metric. */
extern const MetricRules *fasted_metric_rules(FastedMetric metric);

#endif							/* FASTED_METRIC_RULES_H */
