/*-------------------------------------------------------------------------
 *
 * share_explain.c
 *	  A line with each worker's part of the work; told in doc/plans.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "distribute/share_explain.h"
#include "join/remote_join.h"

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
