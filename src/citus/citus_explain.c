/*-------------------------------------------------------------------------
 *
 * citus_explain.c
 *	  EXPLAIN (ANALYZE) of joins that the workers of a Citus cluster share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "citus/citus_explain.h"
#include "citus/workers.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "join/remote_join.h"
#include "rows/source_query.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif

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

static double
AllUnits(List *shares)
{
	double		units = 0.0;
	ListCell   *cell;

	foreach(cell, shares)
		units += ((WorkerShare *) lfirst(cell))->stats.units_total;
	return Max(units, 1.0);
}

static char *
ShareText(const WorkerShare *share, double units, bool timing)
{
	const FastedStats *stats = &share->stats;
	char	   *text = psprintf("%s (%.0f%%, %s, " UINT64_FORMAT " pairs", share->name,
								100.0 * stats->units_total / units,
								stats->engine[0] != '\0' ? stats->engine : "no rows", stats->pairs);

	if (!timing)
		return psprintf("%s)", text);
	return psprintf("%s, read %.3f ms, filter %.3f ms, refine %.3f ms)", text,
					1000.0 * share->read_seconds, 1000.0 * stats->filter_seconds,
					1000.0 * stats->refine_seconds);
}

void
ExplainShares(List *shares, ExplainState *es)
{
	List	   *texts = NIL;
	ListCell   *cell;

	foreach(cell, shares)
		texts = lappend(texts, ShareText(lfirst(cell), AllUnits(shares), es->timing));
	if (texts != NIL)
		ExplainPropertyList("Citus Workers", texts, es);
}
