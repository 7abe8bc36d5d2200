/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The access method "fasted": what PostgreSQL has to know of it, and checks of operator classes.
 *
 * The files, in the order in which a row passes them:
 *
 *	  row.c			from values to elements and hashes
 *	  basis.c		rotation of vectors; its computation from a sample
 *	  bound.c		codes of a row; bounds of its distance from a vector
 *	  format.c		pages
 *	  build.c, insert.c, vacuum.c, scan.c, cost.c, check.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type_d.h"
#include "commands/vacuum.h"
#include "index/access.h"
#include "utils/builtins.h"
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

/* Complains of a member of an operator family.  Returns false. */
static bool
invalid(const char *family, const char *what, int number)
{
	ereport(INFO,
			(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
			 errmsg("operator family \"%s\" of access method fasted contains invalid %s %d", family, what,
					number)));
	return false;
}

/* Returns true if the operators of a family have known strategies, and orders those of floats. */
static bool
validate_operators(Oid family, const char *name)
{
	CatCList   *list = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(family));
	bool		valid = true;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amop form = (Form_pg_amop) GETSTRUCT(&list->members[i]->tuple);
		bool		orders = form->amoppurpose == AMOP_ORDER;

		if (form->amopstrategy < 1 || form->amopstrategy > INDEX_STRATEGIES ||
			orders != (form->amopstrategy == INDEX_ORDER_STRATEGY) ||
			!check_amop_signature(form->amopopr, orders ? FLOAT8OID : BOOLOID, form->amoplefttype,
								  form->amoprighttype))
			valid = invalid(name, "operator with strategy number", form->amopstrategy);
	}
	ReleaseCatCacheList(list);
	return valid;
}

/* Returns true if the family has just one support function for the type. */
static bool
validate_functions(Oid family, Oid type, const char *name)
{
	CatCList   *list = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(family));
	bool		valid = true;
	int			found = 0;

	for (int i = 0; i < list->n_members; i++)
	{
		Form_pg_amproc form = (Form_pg_amproc) GETSTRUCT(&list->members[i]->tuple);

		found += form->amproclefttype == type;
		if (form->amprocnum == INDEX_KIND_PROC ?
			!check_amproc_signature(form->amproc, INTERNALOID, true, 1, 1, INTERNALOID) :
			get_func_rettype(form->amproc) != INT4OID)
			valid = invalid(name, "support function", form->amprocnum);
	}
	ReleaseCatCacheList(list);
	return valid && (found == 1 || invalid(name, "number of support functions:", found));
}

static bool
validate_class(Oid class)
{
	HeapTuple	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(class));
	Form_pg_opclass form;
	bool		valid;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator class %u", class);
	form = (Form_pg_opclass) GETSTRUCT(tuple);
	valid = validate_operators(form->opcfamily, NameStr(form->opcname)) &&
		validate_functions(form->opcfamily, form->opcintype, NameStr(form->opcname));
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
