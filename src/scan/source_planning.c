/*-------------------------------------------------------------------------
 *
 * source_planning.c
 *	  Looks into the rewritten query of a source while the plan is made.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/primnodes.h"
#include "rows/reader.h"
#include "scan/source_planning.h"
#include "utils/builtins.h"

/*
 * Relations of the queries around this one may count on workers already; none of
 * them has a path yet, for a subquery is planned when its relation is sized.
 */
static void
ForbidParallelPlans(PlannerInfo *root)
{
	root->glob->parallelModeOK = false;
	for (; root != NULL; root = root->parent_root)
	{
		for (int i = 1; root->simple_rel_array != NULL && i < root->simple_rel_array_size; i++)
			if (root->simple_rel_array[i] != NULL)
				root->simple_rel_array[i]->consider_parallel = false;
	}
}

static bool
IsKnown(const Node *argument)
{
	return IsA(argument, Const) && !((const Const *) argument)->constisnull;
}

void
ConsiderSource(PlannerInfo *root, const Node *relation, const Node *column)
{
	SourceFacts facts = {0};

	if (IsKnown(relation) && IsKnown(column) &&
		FindSourceFacts(DatumGetObjectId(((const Const *) relation)->constvalue),
						NameStr(*DatumGetName(((const Const *) column)->constvalue)), &facts))
	{
		root->glob->relationOids = list_concat_unique_oid(root->glob->relationOids, facts.relations);
		root->glob->dependsOnRole |= facts.by_role;
	}
	if (root->glob->parallelModeOK && !facts.parallel_safe)
		ForbidParallelPlans(root);
}
