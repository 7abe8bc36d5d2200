/*-------------------------------------------------------------------------
 *
 * base_table.c
 *	  Looks through views.
 *
 * The simple ones are those that PostgreSQL would update: with columns and conditions, and
 * nothing else.  What row_number() OVER () says, or LIMIT leaves, is another server's choice.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "citus/base_table.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/* InvalidOid: the view does more, or says another thing elsewhere. */
static Oid
SelectedRelation(Relation view)
{
	Query	   *query = get_view_query(view);
	RangeTblRef *from;

	if (view_query_is_auto_updatable(query, false) != NULL ||
		contain_mutable_functions((Node *) query))
		return InvalidOid;
	from = linitial_node(RangeTblRef, query->jointree->fromlist);
	return rt_fetch(from->rtindex, query->rtable)->relid;
}

Oid
BaseTable(Oid relid)
{
	while (get_rel_relkind(relid) == RELKIND_VIEW)
	{
		Relation	view = try_relation_open(relid, AccessShareLock);

		CHECK_FOR_INTERRUPTS();
		if (view == NULL)
			return InvalidOid;
		relid = SelectedRelation(view);
		relation_close(view, NoLock);
	}
	return relid;
}
