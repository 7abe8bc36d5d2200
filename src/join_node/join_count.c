/*-------------------------------------------------------------------------
 *
 * join_count.c
 *	  SELECT count(*) over a join by the node, without a row being formed.
 *
 * When that is all there is, the node takes the place of the aggregate too.  If the
 * distance and equalities are the whole condition, the pairs that the engine finds are
 * those to be counted, so it counts them itself where its distance is the clause's.
 * So it is with a.id < b.id over shared rows, if no two of them have one id: it makes
 * one match of each pair.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "join_node/join_node.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planner.h"
#include "scan/count_query.h"

static create_upper_paths_hook_type previous_hook = NULL;

/* The cheapest path of the inner join by the node; NULL: there is none. */
static CustomPath *
FindJoinPath(const RelOptInfo *input)
{
	CustomPath *cheapest = NULL;
	ListCell   *cell;

	foreach(cell, input->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (IsA(path, ProjectionPath))
			path = ((ProjectionPath *) path)->subpath;
		if (IsJoinPath(path) &&
			((JoinPathData *) linitial(((CustomPath *) path)->custom_private))->type == JOIN_INNER &&
			(cheapest == NULL || path->total_cost < cheapest->path.total_cost))
			cheapest = (CustomPath *) path;
	}
	return cheapest;
}

static bool
DistanceDecides(PlannerInfo *root, const JoinPathData *data)
{
	bool		ordered = data->order.rinfo != NULL;

	return list_length(data->restrictlist) == 1 + list_length(data->keys) + ordered &&
		(!ordered || IsTotalOrder(root, data->outer, &data->order));
}

/* As the join, but that no row passes where the engine counts. */
static void
CostCount(PlannerInfo *root, CustomPath *path, const JoinPathData *data)
{
	Path	   *own = &path->path;

	if (data->distance_decides && data->clause.form != FORM_FOREIGN)
		own->rows = 0.0;
	CostJoin(root, path, data);
	own->total_cost += own->rows * cpu_operator_cost;
	own->rows = 1.0;
	own->startup_cost = own->total_cost;
	own->pathtarget = root->upper_targets[UPPERREL_GROUP_AGG];
}

/* Its parent is the join still, whose relations it stands for. */
static Path *
CountPath(PlannerInfo *root, const CustomPath *join, Aggref *count)
{
	CustomPath *path = makeNode(CustomPath);
	JoinPathData *data = palloc(sizeof(JoinPathData));

	*path = *join;
	*data = *(JoinPathData *) linitial(join->custom_private);
	data->count = count;
	data->distance_decides = DistanceDecides(root, data);
	path->custom_private = list_make1(data);
	CostCount(root, path, data);
	return &path->path;
}

static void
OfferCount(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input,
		   RelOptInfo *output, void *extra)
{
	CustomPath *join;
	Aggref	   *count;

	if (previous_hook != NULL)
		previous_hook(root, stage, input, output, extra);
	if (stage != UPPERREL_GROUP_AGG || input->reloptkind != RELOPT_JOINREL || IS_DUMMY_REL(input))
		return;
	join = FindJoinPath(input);
	if (join == NULL)
		return;
	count = OnlyCount(root);
	if (count != NULL)
		add_path(output, CountPath(root, join, count));
}

void
InstallJoinCount(void)
{
	previous_hook = create_upper_paths_hook;
	create_upper_paths_hook = OfferCount;
}
