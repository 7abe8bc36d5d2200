/*-------------------------------------------------------------------------
 *
 * count_query.c
 *	  One aggregate, which is count(*), over everything at once.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "optimizer/pathnode.h"
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

CustomPath *
MakeCountPath(PlannerInfo *root, RelOptInfo *output, const CustomPathMethods *methods)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = output;
	path->path.pathtarget = root->upper_targets[UPPERREL_GROUP_AGG];
	path->path.rows = 1;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = methods;
	return path;
}

/* It is far cheaper than to form the rows: there is no other path. */
void
OfferCountPath(RelOptInfo *output, CustomPath *path)
{
	path->path.rows = 1;		/* a cost may have come with others */
	path->path.startup_cost = path->path.total_cost;
	output->pathlist = NIL;
	output->partial_pathlist = NIL;
	add_path(output, &path->path);
}

CustomScan *
MakeCountScan(const CustomPath *path, const Aggref *count, const RelOptInfo *input, List *tlist)
{
	CustomScan *scan = makeNode(CustomScan);

	scan->scan.plan.targetlist = tlist;
	scan->custom_scan_tlist = list_make1(makeTargetEntry((Expr *) copyObject(count),
														 1, NULL, false));
	scan->custom_relids = input->relids;
	scan->flags = path->flags;
	return scan;
}
