/*-------------------------------------------------------------------------
 *
 * fingerprint.c
 *	  Hashes of keys and vectors, and the SQL function for the latter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "read/fingerprint.h"
#include "read/vector.h"
#include "utils/builtins.h"
#include "utils/datum.h"

PG_FUNCTION_INFO_V1(fasted_citus_vector_hash);

uint64
KeyHash(Datum key, int16 typlen, bool typbyval)
{
	if (typbyval)
		return hash_bytes_extended((unsigned char *) &key, sizeof(key), 0);
	if (typlen == -1)
	{
		struct varlena *value = PG_DETOAST_DATUM_PACKED(key);

		return hash_bytes_extended((unsigned char *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), 0);
	}
	return hash_bytes_extended((unsigned char *) DatumGetPointer(key),
							   datumGetSize(key, typbyval, typlen), 0);
}

uint64
VectorHash(const float *row, uint32 dimensions)
{
	uint64		hash;

	if (RowIsZero(row, dimensions))
		return 0;
	hash = hash_bytes_extended((const unsigned char *) row, dimensions * sizeof(float), dimensions);
	return hash != 0 ? hash : 1;
}

Oid
VectorHashFunction(Oid array_type)
{
	List	   *name = list_make2(makeString("fasted_citus"), makeString("vector_hash"));

	return LookupFuncName(name, 1, &array_type, true);
}

static VectorForm
FormOfArray(const ArrayType *array)
{
	switch (ARR_ELEMTYPE(array))
	{
		case FLOAT4OID:
			return VECTOR_FLOAT4;
		case FLOAT8OID:
			return VECTOR_FLOAT8;
		default:
			return VECTOR_NUMERIC;
	}
}

/*
 * vector_hash(real[] or double precision[] or numeric[]).  What is no vector has no
 * hash of its own: whoever reads it raises the error.
 */
Datum
fasted_citus_vector_hash(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	int			dimensions;
	int			element;
	float	   *row;
	uint64		hash = 1;

	if (VectorShape(array, &dimensions) == VECTOR_OK)
	{
		row = palloc((Size) dimensions * sizeof(float));
		if (VectorElements(array, FormOfArray(array), dimensions, row, &element) == VECTOR_OK)
			hash = VectorHash(row, dimensions);
		pfree(row);
	}
	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_INT64((int64) hash);
}
