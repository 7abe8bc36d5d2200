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
#include "utils/lsyscache.h"
#include "utils/varbit.h"

PG_FUNCTION_INFO_V1(fasted_citus_vector_bytes);
PG_FUNCTION_INFO_V1(fasted_citus_vector_hash);

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

void
FingerprintAdd(Fingerprint *print, Datum key, int16 typlen, bool typbyval, uint64 vector_hash)
{
	uint64		chain[3] = {print->hash, 0, vector_hash};
	const void *bytes = typbyval ? (const void *) &key : DatumGetPointer(key);
	Size		size;

	if (typlen == -1)
	{
		struct varlena *value = PG_DETOAST_DATUM_PACKED(key);

		bytes = VARDATA_ANY(value);
		size = VARSIZE_ANY_EXHDR(value);
	}
	else
		size = typbyval ? sizeof(key) : datumGetSize(key, typbyval, typlen);
	chain[1] = hash_bytes_extended(bytes, size, 0);
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

/*
 * fasted_citus.vector_hash(real[], double precision[], numeric[] or bit varying).  Returns 1 for an
 * invalid vector, which is reported when it is read.
 */
Datum
fasted_citus_vector_hash(PG_FUNCTION_ARGS)
{
	struct varlena *vector = PG_GETARG_VARLENA_P(0);
	VectorForm *form = fcinfo->flinfo->fn_extra;
	VectorSource source;
	int			dimensions;
	int			element;
	uint64		hash = 1;

	if (form == NULL)
	{
		form = fcinfo->flinfo->fn_extra = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(VectorForm));
		*form = FormOfType(getBaseType(get_fn_expr_argtype(fcinfo->flinfo, 0)));
	}
	source = (VectorSource) {.form = *form,.element = ElementOfForm(*form)};
	if (core->VectorShape(vector, *form, &dimensions) == VECTOR_OK)
	{
		float	   *row = palloc(RowBytes(source.element, dimensions));

		if (core->VectorElements(vector, &source, dimensions, row, &element) == VECTOR_OK)
			hash = VectorHash(row, source.element, dimensions);
		pfree(row);
	}
	PG_FREE_IF_COPY(vector, 0);
	PG_RETURN_INT64((int64) hash);
}
