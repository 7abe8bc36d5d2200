/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  Checks of arguments that are more than a line.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "session/arguments.h"
#include "utils/builtins.h"

void
RequireDistance(double eps)
{
	if (isnan(eps) || eps < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be %s", isnan(eps) ? "NaN" : "negative"),
				 errhint("Use 0 to find exact duplicates, 'Infinity' to get all pairs.")));
}

FastedMetric
MetricFromText(const text *metric)
{
	char	   *name = text_to_cstring(metric);

	if (strcmp(name, "cosine") == 0)
		return FASTED_METRIC_COSINE;
	if (strcmp(name, "l2") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no metric \"%s\"", name),
				 errhint("Metrics are \"l2\" and \"cosine\".")));
	return FASTED_METRIC_L2;
}
