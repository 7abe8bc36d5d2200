/*-------------------------------------------------------------------------
 *
 * citus_explain.c
 *	  Tells such a subplan by its instruments, though it is not to be run: Citus has run
 *	  it before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "distribute/citus_explain.h"
#include "distribute/workers.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "read/source_query.h"

static bool
ReadsCitusTables(Oid relid)
{
	ListCell   *cell;

	foreach(cell, FindSourceRelations(relid))
		if (IsCitusTable(lfirst_oid(cell)))
			return true;
	return false;
}

void
RefuseCitusExplain(const EState *estate, int eflags, Oid relid)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 ||
		(estate->es_instrument & (INSTRUMENT_TIMER | INSTRUMENT_ROWS)) == 0 ||
		!OidIsValid(relid) || !CitusIsHere() || !ReadsCitusTables(relid))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("EXPLAIN (ANALYZE) can't show this call, which Citus runs as a subplan"),
			 errhint("Use \"SET fasted.scan_node = off\" before it, or EXPLAIN the call alone.")));
}
