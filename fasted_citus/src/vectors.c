/*-------------------------------------------------------------------------
 *
 * vectors.c
 *	  Vectors as bytea, which nodes send to each other, and hashes of keys and vectors.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "fasted_citus.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "utils/datum.h"
#include "utils/varbit.h"

PG_FUNCTION_INFO_V1(fasted_citus_vector_bytes);
PG_FUNCTION_INFO_V1(fasted_citus_vector_hash);
PG_FUNCTION_INFO_V1(fasted_citus_bit_hash);

/* --- vectors as bytea */

/*
 * An array or bits have the same layout as a bytea: a length word, and then the contents.  All
 * nodes of a cluster must have the same byte order.  Another byte order is detected by the element
 * type of an array, or by the number of bits.
 */

/* fasted_citus.vector_bytes(real[], double precision[] or bit varying) returns a bytea. */
Datum
fasted_citus_vector_bytes(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(PG_GETARG_VARLENA_P(0));
}

static Oid
FunctionOfVectors(char *name, VectorForm form, bool missing_ok)
{
	Oid			type = VectorFormType(form);

	return LookupFuncName(list_make2(makeString("fasted_citus"), makeString(name)), 1, &type, missing_ok);
}

/* None for numeric: its elements vary in length, and are converted through text anyway. */
Oid
VectorBytesFunction(VectorForm form)
{
	return form == VECTOR_NUMERIC ? InvalidOid : FunctionOfVectors("vector_bytes", form, true);
}

/* Checks that all parts of the array that are read lie within its length. */
static bool
ArrayFitsLength(ArrayType *array, Oid element_type, Size element_bytes)
{
	Size		bytes = VARSIZE(array);
	Size		elements;

	if (bytes < sizeof(ArrayType) || ARR_ELEMTYPE(array) != element_type ||
		ARR_NDIM(array) < 0 || ARR_NDIM(array) > MAXDIM)
		return false;
	if (ARR_NDIM(array) != 1)
		return true;			/* not a vector: VectorShape reports it, and reads no more of it */
	if (bytes < ARR_OVERHEAD_NONULLS(1) || ARR_DIMS(array)[0] < 1)
		return false;
	elements = ARR_DIMS(array)[0];
	if (!ARR_HASNULL(array))
		return bytes >= ARR_OVERHEAD_NONULLS(1) + elements * element_bytes;
	return bytes >= ARR_OVERHEAD_WITHNULLS(1, elements) &&
		ARR_DATA_OFFSET(array) == ARR_OVERHEAD_WITHNULLS(1, elements) &&
		(array_contains_nulls(array) || bytes >= ARR_DATA_OFFSET(array) + elements * element_bytes);
}

/* Checks the number of bits, and that the remaining bits of the last byte are zero. */
static bool
BitsFitLength(struct varlena *bits)
{
	return VARSIZE(bits) >= VARHDRSZ + VARBITHDRSZ && VARBITLEN(bits) >= 0 &&
		VARSIZE(bits) == VARBITTOTALLEN((Size) VARBITLEN(bits)) &&
		(VARBITPAD(bits) == 0 || (VARBITEND(bits)[-1] & ~(BITMASK << VARBITPAD(bits)) & BITMASK) == 0);
}

/* Detoasts and checks the vector; leaves garbage in the current memory context. */
struct varlena *
VectorFromBytes(Datum bytes, const VectorSource *source)
{
	struct varlena *vector = PG_DETOAST_DATUM(bytes);
	bool		doubles = source->form == VECTOR_FLOAT8;

	/* a bytea has the alignment of an integer */
	if (doubles && (uintptr_t) vector % ALIGNOF_DOUBLE != 0)
		vector = PG_DETOAST_DATUM_COPY(bytes);
	if (source->form == VECTOR_BIT ? !BitsFitLength(vector) :
		!ArrayFitsLength((ArrayType *) vector, doubles ? FLOAT8OID : FLOAT4OID,
						 doubles ? sizeof(float8) : sizeof(float4)))
		ereport(ERROR,
				(errcode(ERRCODE_PROTOCOL_VIOLATION),
				 errmsg("received an invalid vector from a shard of \"%s\"", source->relation),
				 errhint("All nodes must have the same byte order and the same version of fasted.")));
	return vector;
}

/* --- hashes of keys and vectors */

/* Hash of the bytes of a key. */
static uint64
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

void
FingerprintAdd(Fingerprint *print, Datum key, int16 typlen, bool typbyval, uint64 vector_hash)
{
	uint64		chain[3] = {print->hash, KeyHash(key, typlen, typbyval), vector_hash};

	print->rows++;
	print->hash = hash_bytes_extended((const unsigned char *) chain, sizeof(chain), 0);
}

/* Doubles are always hashed as scaled for cosine, because the metric is not known here. */
uint64
VectorHash(const float *row, FastedElement element, uint32 dimensions)
{
	Size		bytes = RowBytes(element, dimensions);
	const void *hashed = row;
	uint64		hash;

	if (RowIsZero(row, element, dimensions))
		return 0;
	if (element == FASTED_ELEMENT_DOUBLE)
	{
		hashed = memcpy(palloc(bytes), row, bytes);
		core->fasted_scale_direction((double *) hashed, dimensions);
	}
	hash = hash_bytes_extended(hashed, bytes, dimensions);
	if (hashed != row)
		pfree((void *) hashed);
	return hash != 0 ? hash : 1;
}

Oid
VectorHashFunction(VectorForm form)
{
	return FunctionOfVectors("vector_hash", form, false);
}

/* Returns the hash of a vector in a tuple; 1 if it is invalid, which is reported when it is read. */
static uint64
HashOfVector(struct varlena *vector, VectorForm form)
{
	VectorSource source = {.form = form,.element = ElementOfForm(form)};
	int			dimensions;
	int			element;
	float	   *row;
	uint64		hash = 1;

	if (core->VectorShape(vector, source.form, &dimensions) == VECTOR_OK)
	{
		row = palloc(RowBytes(source.element, dimensions));
		if (core->VectorElements(vector, &source, dimensions, row, &element) == VECTOR_OK)
			hash = VectorHash(row, source.element, dimensions);
		pfree(row);
	}
	return hash;
}

/* fasted_citus.vector_hash(real[], double precision[] or numeric[]) */
Datum
fasted_citus_vector_hash(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Oid			type = ARR_ELEMTYPE(array);
	uint64		hash = HashOfVector((struct varlena *) array, type == FLOAT4OID ? VECTOR_FLOAT4 :
									type == FLOAT8OID ? VECTOR_FLOAT8 : VECTOR_NUMERIC);

	PG_FREE_IF_COPY(array, 0);
	PG_RETURN_INT64((int64) hash);
}

/* fasted_citus.vector_hash(bit varying) */
Datum
fasted_citus_bit_hash(PG_FUNCTION_ARGS)
{
	VarBit	   *bits = PG_GETARG_VARBIT_P(0);
	uint64		hash = HashOfVector((struct varlena *) bits, VECTOR_BIT);

	PG_FREE_IF_COPY(bits, 0);
	PG_RETURN_INT64((int64) hash);
}
