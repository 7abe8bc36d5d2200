/*-------------------------------------------------------------------------
 *
 * vectors.c
 *	  Fuzzer of the decoders of vectors: bytes of another node, PostgreSQL's arrays, and pgvector's
 *	  storage format.
 *
 * The bytes of another node, and those of a pgvector, are arbitrary.  PostgreSQL does not check the
 * arrays that it has stored, so arrays are valid.  They are also read by deconstruct_array, and
 * numeric elements by PostgreSQL's cast.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bytes.h"
#include "executor/tuptable.h"
#include "join_node/join_node.h"
#include "utils/fmgrprotos.h"
#include "fasted_citus.h"

#define MOST_ELEMENTS 40

static VectorSource source;
static bool valid;				/* the model accepts the vector */

/* Converts a vector of this many dimensions.  Returns the row, or NULL if an element is invalid. */
static float *
Convert(struct varlena *vector, int dimensions)
{
	float	   *row = AllocExact(RowBytes(source.element, dimensions));
	int			element = 0;
	VectorProblem problem = VectorElements(vector, &source, dimensions, row, &element);

	if (problem == VECTOR_OK)
		return row;
	if (element < 1 || element > dimensions)
		Fail("element %d of %d is reported", element, dimensions);
	if (problem != VECTOR_NOT_FINITE && problem != VECTOR_OUT_OF_RANGE)
		Fail("problem %d is reported", (int) problem);
	return NULL;
}

static void
ChooseSource(VectorForm form, unsigned options)
{
	source = (VectorSource) {.form = form,.relation = "table",.vector_column = "v"};
	source.element = options & 1 && form != VECTOR_BIT ? FASTED_ELEMENT_DOUBLE : ElementOfForm(form);
	source.metric = form == VECTOR_BIT ? FASTED_METRIC_HAMMING :
		options & 2 ? FASTED_METRIC_COSINE : FASTED_METRIC_L2;
}

/* Compares a row with the elements that the model has decoded. */
static void
CompareRow(const float *row, double *elements, int dimensions)
{
	if (source.element == FASTED_ELEMENT_DOUBLE && source.metric == FASTED_METRIC_COSINE)
		fasted_scale_direction(elements, dimensions);
	for (int k = 0; k < dimensions; k++)
		if (RowElement(row, source.element, k) != elements[k])
			Fail("element %d of %d was decoded as %g, not as %g", k + 1, dimensions,
				 RowElement(row, source.element, k), elements[k]);
}

/* --- bytes of another node */

static void
DecodeBytes(Input *input, VectorForm form, unsigned options)
{
	/* the length word may not be aligned for doubles */
	size_t		offset = options & 4 ? 4 : 0;
	size_t		length = input->left;
	char	   *datum = (char *) AllocExact(offset + VARHDRSZ + length) + offset;
	double	   *elements;
	int			expected = DecodeVector(form, input->next, length, &elements);
	int			dimensions;
	struct varlena *vector;
	VectorProblem problem;
	float	   *row;

	ChooseSource(form, options);
	SET_VARSIZE(datum, VARHDRSZ + length);
	TakeBytes(input, datum + VARHDRSZ, length);
	valid = expected > 0;
	vector = VectorFromBytes(PointerGetDatum(datum), &source);
	problem = VectorShape(vector, form, &dimensions);
	if (problem == VECTOR_OK && dimensions > (int) FASTED_MAX_DIMENSIONS)
		ereport(ERROR, errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED));	/* as CheckDimensions does */
	row = problem == VECTOR_OK ? Convert(vector, dimensions) : NULL;
	if (row == NULL)
		ReportVectorProblem(problem == VECTOR_OK ? VECTOR_NOT_FINITE : problem, vector, 0, &source, "row");
	if (dimensions != expected)
		Fail("a vector of %d dimensions was accepted with %d", expected, dimensions);
	CompareRow(row, elements, dimensions);
	if (form != VECTOR_BIT &&
		VectorIsZero(vector, form, dimensions) != RowIsZero(row, source.element, dimensions))
		Fail("a vector was decoded wrongly as zero");
}

/* --- arrays */

/* Returns an element of an array of this form: any float, or a numeric of any size. */
static Datum
TakeElement(Input *input, VectorForm form)
{
	char		text[48];
	double		number = 0.0;
	float		single = 0.0f;

	if (form == VECTOR_NUMERIC)
	{
		static const char *const special[] = {"NaN", "Infinity", "-Infinity"};
		unsigned	kind = TakeByte(input);

		/* exponents beyond the range of real are possible */
		snprintf(text, sizeof(text), "%s%u.%ue%d", kind & 1 ? "-" : "", TakeShort(input), TakeShort(input),
				 (int) TakeByte(input) - 128);
		return DirectFunctionCall3(numeric_in, CStringGetDatum(kind < 250 ? text : special[kind % 3]),
								   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
	}
	if (form == VECTOR_FLOAT8)
	{
		TakeBytes(input, &number, sizeof(number));
		return Float8GetDatum(number);
	}
	TakeBytes(input, &single, sizeof(single));
	return Float4GetDatum(single);
}

/* Converts an element as PostgreSQL's cast to real does; NaN if the cast raises an error. */
static double
CastElement(Datum element, VectorForm form)
{
	MemoryContext context = CurrentMemoryContext;
	volatile double number = NAN;

	if (form != VECTOR_NUMERIC)
		return form == VECTOR_FLOAT8 ? DatumGetFloat8(element) : DatumGetFloat4(element);
	PG_TRY();
	{
		number = DatumGetFloat4(DirectFunctionCall1(numeric_float4, element));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return number;
}

static void
ArrayElement(VectorForm form, Oid *type, int *length, bool *byval, char *align)
{
	*type = form == VECTOR_FLOAT4 ? FLOAT4OID : form == VECTOR_FLOAT8 ? FLOAT8OID : NUMERICOID;
	*length = form == VECTOR_FLOAT4 ? 4 : form == VECTOR_FLOAT8 ? 8 : -1;
	*byval = form == VECTOR_FLOAT4 || (form == VECTOR_FLOAT8 && FLOAT8PASSBYVAL);
	*align = form == VECTOR_FLOAT8 ? TYPALIGN_DOUBLE : TYPALIGN_INT;
}

/* Makes a valid array of any shape. */
static ArrayType *
TakeArray(Input *input, VectorForm form)
{
	Datum		elements[MOST_ELEMENTS];
	bool		nulls[MOST_ELEMENTS];
	int			ndim = TakeByte(input) % 8;
	int			dims[2];
	int			lower[2] = {1 + (int) TakeByte(input) - 128, 1};
	bool		has_nulls = TakeByte(input) % 8 == 0;
	Oid			type;
	int			length;
	bool		byval;
	char		align;

	ArrayElement(form, &type, &length, &byval, &align);
	/* most arrays have one dimension */
	ndim = ndim > 2 ? 1 : ndim;
	dims[0] = 1 + TakeByte(input) % (MOST_ELEMENTS / 2);
	dims[1] = ndim == 2 ? 1 + TakeByte(input) % 2 : 1;
	for (int k = 0; k < dims[0] * dims[1]; k++)
	{
		nulls[k] = has_nulls && TakeByte(input) % 8 == 0;
		elements[k] = nulls[k] ? (Datum) 0 : TakeElement(input, form);
	}
	return construct_md_array(elements, nulls, ndim, dims, lower, type, length, byval, align);
}

static VectorProblem
ShapeOf(int ndim, const bool *nulls, int n)
{
	if (ndim != 1)
		return ndim == 0 ? VECTOR_EMPTY : VECTOR_NOT_FLAT;
	for (int k = 0; k < n; k++)
		if (nulls[k])
			return VECTOR_HAS_NULL;
	return VECTOR_OK;
}

static void
DecodeArray(Input *input, VectorForm form, unsigned options)
{
	ArrayType  *made = TakeArray(input, form);
	ArrayType  *array = memcpy(AllocExact(VARSIZE(made)), made, VARSIZE(made));
	Datum	   *elements;
	bool	   *nulls;
	double		numbers[MOST_ELEMENTS];
	int			n;
	int			dimensions;
	Oid			type;
	int			length;
	bool		byval;
	char		align;
	VectorProblem problem;
	float	   *row;

	ChooseSource(form, options);
	ArrayElement(form, &type, &length, &byval, &align);
	deconstruct_array(array, type, length, byval, align, &elements, &nulls, &n);
	problem = VectorShape((struct varlena *) array, form, &dimensions);
	if (problem != ShapeOf(ARR_NDIM(array), nulls, n))
		Fail("an array has problem %d", (int) problem);
	valid = problem == VECTOR_OK;
	if (problem != VECTOR_OK)
		ReportVectorProblem(problem, (struct varlena *) array, 0, &source, "row");
	if (dimensions != n)
		Fail("an array of %d elements was decoded with %d", n, dimensions);
	row = Convert((struct varlena *) array, dimensions);
	for (int k = 0; k < n; k++)
	{
		numbers[k] = CastElement(elements[k], form);
		valid = valid && isfinite(numbers[k]);
		/* PostgreSQL's cast of a tiny numeric is an error, but fasted reads it as zero */
		if (form == VECTOR_NUMERIC && isnan(numbers[k]))
			numbers[k] = 0.0;
	}
	if (row == NULL && !valid)
		ereport(ERROR, errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE));
	if (row == NULL || (form != VECTOR_NUMERIC && !valid))
		Fail("an array was %s wrongly", row == NULL ? "rejected" : "accepted");
	valid = true;
	CompareRow(row, numbers, dimensions);
}

/* --- pgvector's vector */

/* Replaces the cast to real[] of a value that is not read in place. */
static Datum
CastVectorToNull(ExprState *state, ExprContext *econtext, bool *isnull)
{
	*isnull = true;
	return (Datum) 0;
}

static void
DecodePlainVector(Input *input)
{
	size_t		length = input->left;
	char	   *datum = AllocExact(VARHDRSZ + length);
	Datum		value = PointerGetDatum(datum);
	bool		isnull = false;
	TupleTableSlot slot = {.tts_values = &value,.tts_isnull = &isnull};
	ExprContext econtext = {.ecxt_per_tuple_memory = CurrentMemoryContext};
	ExprState	cast = {.evalfunc = CastVectorToNull};
	JoinNode   *node = palloc0(sizeof(JoinNode));
	size_t		dimensions = length < 4 ? 0 : input->next[0] | input->next[1] << 8;
	VectorView	view;

	SET_VARSIZE(datum, VARHDRSZ + length);
	TakeBytes(input, datum + VARHDRSZ, length);
	node->css.ss.ps.ps_ExprContext = &econtext;
	node->css.ss.ss_ScanTupleSlot = &slot;
	node->sides[0].vector = &cast;
	view = ViewVector(node, &node->sides[0]);
	if (dimensions > INT16_MAX || length != 4 + dimensions * sizeof(float))
		dimensions = 0;
	if (view.dimensions != (int) dimensions || view.isnull != (dimensions == 0) ||
		(dimensions > 0 && memcmp(view.elements, datum + VARHDRSZ + 4, dimensions * sizeof(float)) != 0))
		Fail("a pgvector of %d dimensions was decoded with %d", (int) dimensions, view.dimensions);
	valid = true;
}

/* --- the target */

void
Decode(Input *input)
{
	static const VectorForm forms[] = {VECTOR_FLOAT4, VECTOR_FLOAT8, VECTOR_BIT, VECTOR_NUMERIC};
	unsigned	kind = TakeByte(input);
	unsigned	options = TakeByte(input);
	VectorForm	form = forms[kind & 3];

	if (kind & 4)
		DecodePlainVector(input);
	else if (kind & 8 && form != VECTOR_BIT)
		DecodeArray(input, form, options);
	else if (form != VECTOR_NUMERIC)
		DecodeBytes(input, form, options);
	else
		valid = true;
}

void
Verify(int sqlstate)
{
	if ((sqlstate == 0) != valid)
		Fail(valid ? "a valid vector was rejected" : "an invalid vector was accepted");
}
