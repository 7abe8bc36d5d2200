/*-------------------------------------------------------------------------
 *
 * scan_hold.c
 *	  Opens relations from the beginning of a node to its end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "rows/reader.h"
#include "scan/scan_hold.h"
#include "utils/relcache.h"

static List *
Hold(List *held, Oid relid)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);

	return rel == NULL ? held : lappend(held, rel);
}

List *
HoldRelations(Oid relid)
{
	List	   *held = NIL;
	ListCell   *cell;
	ListCell   *child;

	foreach(cell, FindSourceRelations(relid))
	{
		held = Hold(held, lfirst_oid(cell));
		foreach(child, find_all_inheritors(lfirst_oid(cell), AccessShareLock, NULL))
			if (lfirst_oid(child) != lfirst_oid(cell))
				held = Hold(held, lfirst_oid(child));
	}
	return held;
}

void
ReleaseRelations(List *relations)
{
	ListCell   *cell;

	foreach(cell, relations)
		relation_close(lfirst(cell), NoLock);
	list_free(relations);
}
