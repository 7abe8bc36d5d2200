/* Stands in for the access method, which replaces this file: no index can be built. */
#include "postgres.h"

#include "access/amapi.h"
#include "index/index.h"

PG_FUNCTION_INFO_V1(fasted_handler);

static IndexBuildResult *
RefuseBuild(Relation heap, Relation index, struct IndexInfo *info)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"fasted\" is not supported yet")));
}

static bool
Validate(Oid class)
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
	routine->ambuild = RefuseBuild;
	routine->amvalidate = Validate;
	PG_RETURN_POINTER(routine);
}
