/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method "fasted": what PostgreSQL has to know of it, and checks of operator classes.
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

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type_d.h"
#include "commands/vacuum.h"
#include "index/access.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(fasted_handler);

/* There are no options. */
static bytea *
index_options(Datum options, bool validate)
{
	return (bytea *) build_reloptions(options, validate, 0, 0, NULL, 0);
}

/*
 * Returns true if the operators of the class's family have known strategies, and orders those of floats, and if
 * the class has one support function.  Otherwise says what is wrong.
 */
static bool
validate_class(Oid class)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(class));
	Form_pg_opclass opclass;
	CatCList   *list;
	Oid			kind;
	bool		valid = true;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", class);
	opclass = (Form_pg_opclass) GETSTRUCT(tuple);
	list = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(opclass->opcfamily));
	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&list->members[i]->tuple);
		bool		orders = form->amopstrategy == INDEX_ORDER_STRATEGY;

		if (form->amopstrategy <= INDEX_STRATEGIES && orders == (form->amoppurpose == AMOP_ORDER) &&
			check_amop_signature(form->amopopr, orders ? FLOAT8OID : BOOLOID, form->amoplefttype,
								 form->amoprighttype))
			continue;
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class \"%s\" of access method fasted has an invalid operator with strategy %d",
						NameStr(opclass->opcname), form->amopstrategy)));
		valid = false;
	}
	kind = get_opfamily_proc(opclass->opcfamily, opclass->opcintype, opclass->opcintype, INDEX_KIND_PROC);
	if (OidIsValid(kind) ? !check_amproc_signature(kind, INTERNALOID, true, 1, 1, INTERNALOID) :
		!OidIsValid(get_opfamily_proc(opclass->opcfamily, opclass->opcintype, opclass->opcintype, INDEX_HASH_PROC)))
	{
		ereport(INFO,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("operator class \"%s\" of access method fasted has no valid support function",
						NameStr(opclass->opcname))));
		valid = false;
	}
	ReleaseCatCacheList(list);
	ReleaseSysCache(tuple);
	return valid;
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
