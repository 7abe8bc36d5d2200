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

void
RequireDistance(double eps)
{
	if (isnan(eps) || eps < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("eps must not be %s", isnan(eps) ? "NaN" : "negative"),
				 errhint("Use 0 to find exact duplicates, 'Infinity' to get all pairs.")));
}
