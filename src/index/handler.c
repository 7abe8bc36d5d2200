/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method "fasted": what PostgreSQL has to know of it.
 *
 * The files, in the order in which a row passes them:
 *
 *	  row.c			from values to elements and hashes
 *	  basis.c		the rotated basis; its computation from a sample
 *	  project.c		vectors in it
 *	  bound.c		codes of a row; bounds of its distance from a vector
 *	  format.c		pages
 *	  build.c, insert.c, vacuum.c, scan.c, cost.c, check.c, explain.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "commands/vacuum.h"
#include "index/access.h"

PG_FUNCTION_INFO_V1(fasted_handler);

/* There are no options. */
static bytea *
index_options(Datum options, bool validate)
{
	return (bytea *) build_reloptions(options, validate, 0, 0, NULL, 0);
}

/* Operator classes are those of the extensions; index_kind() knows no others. */
static bool
validate_class(Oid class)
{
	return true;
}

Datum
fasted_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	routine->amstrategies = INDEX_STRATEGIES;
	routine->amsupport = INDEX_PROCS;
	routine->amcanorderbyop = true;
	routine->amcanmulticol = true;
	routine->amoptionalkey = true;
#if PG_VERSION_NUM >= 170000
	routine->amcanbuildparallel = true;
#endif
	routine->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL;
	routine->amkeytype = InvalidOid;
	routine->ambuild = IndexBuild;
	routine->ambuildempty = IndexBuildEmpty;
	routine->aminsert = IndexInsert;
	routine->ambulkdelete = IndexBulkDelete;
	routine->amvacuumcleanup = IndexVacuumCleanup;
	routine->amcostestimate = IndexCostEstimate;
	routine->amoptions = index_options;
	routine->amvalidate = validate_class;
	routine->ambeginscan = IndexBeginScan;
	routine->amrescan = IndexRescan;
	routine->amgettuple = IndexGetTuple;
	routine->amgetbitmap = IndexGetBitmap;
	routine->amendscan = IndexEndScan;
	PG_RETURN_POINTER(routine);
}
