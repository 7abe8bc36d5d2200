/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  Checks of arguments that are more than a line.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "base/arguments.h"
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

bool
FindMetric(const text *name, FastedMetric *metric)
{
	const char *string = text_to_cstring(name);

	if (strcmp(string, "l2") == 0)
		*metric = FASTED_METRIC_L2;
	else if (strcmp(string, "cosine") == 0)
		*metric = FASTED_METRIC_COSINE;
	else
		return false;
	return true;
}

FastedMetric
MetricFromText(const text *name)
{
	FastedMetric metric;

	if (!FindMetric(name, &metric))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no metric \"%s\"", text_to_cstring(name)),
				 errhint("Metrics are \"l2\" and \"cosine\".")));
	return metric;
}
