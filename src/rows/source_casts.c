/*-------------------------------------------------------------------------
 *
 * source_casts.c
 *	  Finds casts that lose nothing and run nobody else's code.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_cast.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "rows/source_casts.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

/* --- vectors */

/* A type that is the array of its element type: no int2vector, oidvector. */
static Oid
TrueArrayElement(Oid type)
{
	Oid			element = get_element_type(type);

	return (OidIsValid(element) && get_array_type(element) == type) ? element : InvalidOid;
}

/* An array's elements, one by one; only where a function converts them. */
static bool
FindElementCast(Oid array, CastFunction *cast)
{
	Oid			element = TrueArrayElement(array);

	if (!OidIsValid(element))
		return false;
	cast->from = element;
	cast->to = FLOAT4OID;
	return find_coercion_pathway(FLOAT4OID, getBaseType(element), COERCION_ASSIGNMENT,
								 &cast->function) == COERCION_PATH_FUNC;
}

/*
 * double precision[] and numeric[] are read as they are.  Numeric elements are
 * rounded to real once, and one too large for real is reported with its row.
 */
bool
FindVectorForm(Oid type, VectorForm *form, CastFunction *cast)
{
	Oid			base = getBaseType(type);

	cast->function = InvalidOid;
	cast->from = type;
	cast->to = FLOAT4ARRAYOID;
	*form = base == FLOAT8ARRAYOID ? VECTOR_FLOAT8 :
		base == NUMERICARRAYOID ? VECTOR_NUMERIC : VECTOR_FLOAT4;
	if (base == VectorFormType(*form))
		return true;

	switch (find_coercion_pathway(FLOAT4ARRAYOID, base, COERCION_EXPLICIT, &cast->function))
	{
		case COERCION_PATH_FUNC:
		case COERCION_PATH_RELABELTYPE:
			return true;
		case COERCION_PATH_ARRAYCOERCE:
			return FindElementCast(base, cast);
		default:
			return false;
	}
}

Oid
VectorTypeBetween(Oid type)
{
	CatCList   *casts = SearchSysCacheList1(CASTSOURCETARGET, ObjectIdGetDatum(type));
	Oid			between = InvalidOid;

	for (int i = 0; i < casts->n_members; i++)
	{
		Oid			target = ((Form_pg_cast) GETSTRUCT(&casts->members[i]->tuple))->casttarget;
		VectorForm	form;
		CastFunction cast;

		/* the type that is the oldest, if there are several: not pgvector's halfvec */
		if (target != type && FindVectorForm(target, &form, &cast) &&
			(!OidIsValid(between) || target < between))
			between = target;
	}
	ReleaseSysCacheList(casts);
	return between;
}

/* --- keys */

/*
 * Implicit casts by a function that give different keys for different keys, and
 * from which each can be told.  Not among them, for example: bigint to double
 * precision, which rounds, text to name, which cuts, and timestamp to timestamptz,
 * which has hours twice or not at all.
 */
static const Oid lossless_casts[][2] = {
	{INT2OID, INT4OID}, {INT2OID, INT8OID}, {INT4OID, INT8OID},
	{INT2OID, NUMERICOID}, {INT4OID, NUMERICOID}, {INT8OID, NUMERICOID},
	{INT2OID, FLOAT4OID}, {INT2OID, FLOAT8OID}, {INT4OID, FLOAT8OID},
	{FLOAT4OID, FLOAT8OID},
	{CHAROID, TEXTOID}, {NAMEOID, TEXTOID},
	{BPCHAROID, TEXTOID}, {BPCHAROID, VARCHAROID},
	{DATEOID, TIMESTAMPOID}, {TIMEOID, INTERVALOID},
	{MACADDROID, MACADDR8OID},
};

bool
KeyConverts(Oid from, Oid to)
{
	Oid			function;

	from = getBaseType(from);
	to = getBaseType(to);
	switch (find_coercion_pathway(to, from, COERCION_IMPLICIT, &function))
	{
		case COERCION_PATH_RELABELTYPE:
			return true;
		case COERCION_PATH_FUNC:
			break;
		default:
			return false;
	}
	for (size_t i = 0; i < lengthof(lossless_casts); i++)
		if (lossless_casts[i][0] == from && lossless_casts[i][1] == to)
			return true;
	return false;
}

/* --- whose code */

/*
 * Only superusers make functions in C.  Who owns a cast's function in another
 * language can change it at any time.
 */
static bool
IsTrusted(const FormData_pg_proc *function)
{
	return function->prolang == INTERNALlanguageId || function->prolang == ClanguageId ||
		function->proowner == GetUserId() || superuser_arg(function->proowner);
}

void
RequireTrustedCast(const CastFunction *cast, const char *column, const char *relation)
{
	HeapTuple	tuple;
	Form_pg_proc function;

	if (!OidIsValid(cast->function))
		return;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(cast->function));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", cast->function);
	function = (Form_pg_proc) GETSTRUCT(tuple);
	if (!IsTrusted(function))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the cast from type %s to type %s runs code of another user",
						format_type_be(cast->from), format_type_be(cast->to)),
				 errdetail("Column \"%s\" of \"%s\" would be read by function %s of role \"%s\", with your rights.",
						   column, relation, format_procedure(cast->function),
						   GetUserNameFromId(function->proowner, false)),
				 errhint("Read the column as that role, or let a superuser own the function.")));
	ReleaseSysCache(tuple);
}
