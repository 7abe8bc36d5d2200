/*-------------------------------------------------------------------------
 *
 * fingerprint.c
 *	  Hashes of keys and vectors, and the SQL function for the latter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "engine/exact_distance.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "rows/fingerprint.h"
#include "rows/vector.h"
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

/* Doubles are hashed where directions would be, for nobody tells the metric. */
uint64
VectorHash(const float *row, FastedElement element, uint32 dimensions)
{
	Size		bytes = RowBytes(element, dimensions);
	uint64		hash;

	if (RowIsZero(row, element, dimensions))
		return 0;
	if (element == FASTED_ELEMENT_DOUBLE)
	{
		double	   *scaled = palloc(bytes);

		memcpy(scaled, row, bytes);
		fasted_scale_direction(scaled, dimensions);
		hash = hash_bytes_extended((const unsigned char *) scaled, bytes, dimensions);
		pfree(scaled);
	}
	else
		hash = hash_bytes_extended((const unsigned char *) row, bytes, dimensions);
	return hash != 0 ? hash : 1;
}

Oid
VectorHashFunction(Oid array_type)
{
	List	   *name = list_make2(makeString("fasted_citus"), makeString("vector_hash"));

	return LookupFuncName(name, 1, &array_type, true);
}

static RowKind
KindOfArray(const ArrayType *array)
{
	switch (ARR_ELEMTYPE(array))
	{
		case FLOAT4OID:
			return (RowKind) {.form = VECTOR_FLOAT4};
		case FLOAT8OID:
			return (RowKind) {.form = VECTOR_FLOAT8,.element = FASTED_ELEMENT_DOUBLE};
		default:
			return (RowKind) {.form = VECTOR_NUMERIC};
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
	RowKind		kind = KindOfArray(array);
	int			dimensions;
	int			element;
	float	   *row;
	uint64		hash = 1;

	if (VectorShape(array, &dimensions) == VECTOR_OK)
	{
		row = palloc(RowBytes(kind.element, dimensions));
		if (VectorElements(array, &kind, dimensions, row, &element) == VECTOR_OK)
			hash = VectorHash(row, kind.element, dimensions);
		pfree(row);
	}
	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_INT64((int64) hash);
}
