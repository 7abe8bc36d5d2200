/*-------------------------------------------------------------------------
 *
 * arguments.h
 *	  What the SQL functions check of their arguments alike.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ARGUMENTS_H
#define FASTED_ARGUMENTS_H

#include "engine/engine.h"
#include "fmgr.h"

/* The functions are not STRICT, since some arguments may be NULL.  Uses nothing of fcinfo but args. */
static inline void
RequireArgument(FunctionCallInfo fcinfo, int n, const char *function, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" of %s must not be null", name, function)));
}

/* Raises an error if it is NaN or negative. */
extern void RequireDistance(double eps);

/* Raises an error for what is neither 'cosine' nor 'l2'. */
extern FastedMetric MetricFromText(const text *name);

/* The same without an error: false. */
extern bool FindMetric(const text *name, FastedMetric *metric);

#endif							/* FASTED_ARGUMENTS_H */
