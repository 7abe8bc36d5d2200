/*-------------------------------------------------------------------------
 *
 * vector_bytes.c
 *	  An array is a bytea but for its type: a length, and what follows it.
 *
 * All nodes of a cluster are of one byte order; an array of another one is noticed by
 * the type of its elements.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "rows/vector_bytes.h"

PG_FUNCTION_INFO_V1(fasted_citus_vector_bytes);

/* vector_bytes(real[] or double precision[]) */
Datum
fasted_citus_vector_bytes(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(PG_GETARG_ARRAYTYPE_P(0));
}

/* Those of numeric have elements of any length, and are converted by their texts anyway. */
Oid
VectorBytesFunction(VectorForm form)
{
	Oid			type = VectorFormType(form);

	if (form == VECTOR_NUMERIC)
		return InvalidOid;
	return LookupFuncName(list_make2(makeString("fasted_citus"), makeString("vector_bytes")), 1,
						  &type, true);
}

/* Is all within these bytes that anybody looks at? */
static bool
IsWhole(ArrayType *array, Oid element_type, Size element_bytes)
{
	Size		bytes = VARSIZE(array);
	Size		elements;

	if (bytes < sizeof(ArrayType) || ARR_ELEMTYPE(array) != element_type ||
		ARR_NDIM(array) < 0 || ARR_NDIM(array) > MAXDIM)
		return false;
	if (ARR_NDIM(array) != 1)
		return true;			/* it is no vector, and looked at no further */
	if (bytes < ARR_OVERHEAD_NONULLS(1) || ARR_DIMS(array)[0] < 1)
		return false;
	elements = ARR_DIMS(array)[0];
	if (!ARR_HASNULL(array))
		return bytes >= ARR_OVERHEAD_NONULLS(1) + elements * element_bytes;
	return bytes >= ARR_OVERHEAD_WITHNULLS(1, elements) &&
		ARR_DATA_OFFSET(array) == ARR_OVERHEAD_WITHNULLS(1, elements) &&
		(array_contains_nulls(array) || bytes >= ARR_DATA_OFFSET(array) + elements * element_bytes);
}

/* Leaves garbage in the current memory context. */
ArrayType *
ArrayFromBytes(Datum bytes, const VectorSource *source)
{
	ArrayType  *array = DatumGetArrayTypeP(bytes);
	bool		doubles = source->form == VECTOR_FLOAT8;

	/* a bytea is aligned as integers are */
	if (doubles && (uintptr_t) array % ALIGNOF_DOUBLE != 0)
		array = DatumGetArrayTypePCopy(bytes);
	if (!IsWhole(array, doubles ? FLOAT8OID : FLOAT4OID, doubles ? sizeof(float8) : sizeof(float4)))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("a shard of \"%s\" has sent a vector that is none", source->relation),
				 errhint("All nodes must have the same byte order and the same version of fasted.")));
	return array;
}
