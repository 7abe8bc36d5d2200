/*-------------------------------------------------------------------------
 *
 * count_query.c
 *	  One aggregate, which is count(*), over everything at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "scan/count_query.h"
#include "utils/fmgroids.h"

static bool
IsPlainAggregate(const Query *query)
{
	return query->hasAggs && query->groupClause == NIL && query->groupingSets == NIL &&
		query->havingQual == NULL && !query->hasTargetSRFs;
}

Aggref *
OnlyCount(PlannerInfo *root)
{
	AggInfo    *info;
	Aggref	   *count;

	if (!IsPlainAggregate(root->parse) || list_length(root->agginfos) != 1)
		return NULL;
	info = linitial(root->agginfos);
#if PG_VERSION_NUM >= 160000
	count = linitial_node(Aggref, info->aggrefs);
#else
	count = info->representative_aggref;
#endif
	if (count->aggfnoid != F_COUNT_ || count->aggfilter != NULL)
		return NULL;
	return count;
}
