/*-------------------------------------------------------------------------
 *
 * distance.c
 *	  SQL functions of two vectors: checks and conversions of their arguments,
 *	  canonical distance; how joins recognize them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/dependency.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "cpu/kernels/kernel.h"
#include "distance/distance.h"
#include "engine/exact_distance.h"
#include "engine/metric_rules.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "rows/source.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varbit.h"

PG_FUNCTION_INFO_V1(fasted_distance);
PG_FUNCTION_INFO_V1(fasted_cosine_distance);
PG_FUNCTION_INFO_V1(fasted_negative_inner_product);
PG_FUNCTION_INFO_V1(fasted_hamming_distance);
PG_FUNCTION_INFO_V1(fasted_jaccard_distance);
PG_FUNCTION_INFO_V1(fasted_cosine_similarity);
PG_FUNCTION_INFO_V1(fasted_jaccard_similarity);
PG_FUNCTION_INFO_V1(fasted_within);
PG_FUNCTION_INFO_V1(fasted_within_bits);
PG_FUNCTION_INFO_V1(fasted_distance_support);

/* Uses the best kernel for this CPU; all kernels return the same bits. */
static double
Distance(FastedElement element, const float *x, const float *y, uint32 dimensions)
{
	static const CpuKernel *kernel = NULL;

	if (kernel == NULL)
		kernel = fasted_cpu_choose_kernel(NULL);
	if (element == FASTED_ELEMENT_DOUBLE)
		return kernel->distance_double((const double *) x, (const double *) y, dimensions);
	return kernel->distance(x, y, dimensions);
}

/* Returns a distance other than the Euclidean distance. */
static inline __attribute__((always_inline)) double
PlainDistance(FastedMetric metric, FastedElement element, const float *x, const float *y,
			  uint32 dimensions)
{
	bool		doubles = element == FASTED_ELEMENT_DOUBLE;

	if (metric == FASTED_METRIC_HAMMING)
		return fasted_exact_hamming((const uint64_t *) x, (const uint64_t *) y,
									fasted_bit_words(dimensions));
	if (metric == FASTED_METRIC_JACCARD)
		return fasted_exact_jaccard((const uint64_t *) x, (const uint64_t *) y,
									fasted_bit_words(dimensions));
	if (metric == FASTED_METRIC_INNER_PRODUCT)
		return 0.0 - (doubles ?
					  fasted_exact_dot_double((const double *) x, (const double *) y, dimensions) :
					  fasted_exact_dot(x, y, dimensions));
	return doubles ?
		fasted_exact_cosine_double((const double *) x, (const double *) y, dimensions) :
		fasted_exact_cosine(x, y, dimensions);
}

/* Returns a cosine or Jaccard similarity. */
static inline __attribute__((always_inline)) double
PlainSimilarity(FastedMetric metric, FastedElement element, const float *x, const float *y,
				uint32 dimensions)
{
	if (metric == FASTED_METRIC_JACCARD)
		return fasted_exact_jaccard_similarity((const uint64_t *) x, (const uint64_t *) y,
											   fasted_bit_words(dimensions));
	return element == FASTED_ELEMENT_DOUBLE ?
		fasted_exact_cosine_similarity_double((const double *) x, (const double *) y, dimensions) :
		fasted_exact_cosine_similarity(x, y, dimensions);
}

#if defined(__x86_64__)
/* The same computations, compiled for CPUs with these instructions. */
__attribute__((target("avx2,fma,popcnt")))
static double
DistanceByFma(FastedMetric metric, FastedElement element, const float *x, const float *y,
			  uint32 dimensions)
{
	return PlainDistance(metric, element, x, y, dimensions);
}

__attribute__((target("avx2,fma,popcnt")))
static double
SimilarityByFma(FastedMetric metric, FastedElement element, const float *x, const float *y,
				uint32 dimensions)
{
	return PlainSimilarity(metric, element, x, y, dimensions);
}
#endif

double
ExactDistance(FastedMetric metric, FastedElement element, const float *x, const float *y,
			  uint32 dimensions)
{
	if (metric == FASTED_METRIC_L2)
		return Distance(element, x, y, dimensions);
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return DistanceByFma(metric, element, x, y, dimensions);
#endif
	return PlainDistance(metric, element, x, y, dimensions);
}

/* The canonical similarity, with the sums of the distance. */
static double
ExactSimilarity(FastedMetric metric, FastedElement element, const float *x, const float *y,
				uint32 dimensions)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return SimilarityByFma(metric, element, x, y, dimensions);
#endif
	return PlainSimilarity(metric, element, x, y, dimensions);
}

/* --- conversions of vectors */

Node *
CastVector(Node *vector, Oid type)
{
	return coerce_to_target_type(NULL, copyObject(vector), exprType(vector), type, -1,
								 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
}

/* The qualified name of a function in the schema of another one. */
static List *
SiblingName(Oid function, char *name)
{
	return list_make2(makeString(get_namespace_name(get_func_namespace(function))), makeString(name));
}

/* Raises the error for a function that does not accept bits, of which one or both vectors are. */
static void
ReportBits(Oid function, Oid a, Oid b, bool both)
{
	if (both)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s does not accept vectors of type %s", get_func_name(function),
						format_type_be(a)),
				 errhint("Use fasted_hamming_distance, fasted_jaccard_distance or fasted_jaccard_similarity.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("%s cannot compare a vector of type %s with a vector of type %s",
					get_func_name(function), format_type_be(a), format_type_be(b)),
			 errhint("Cast both vectors to bit varying, or compare two vectors that are not bits.")));
}

/*
 * Returns the arguments of a call of this function, with both vectors converted to real[], or to
 * double precision[] if either has this type or both are text.  Text is read by fasted_reals or
 * fasted_doubles, in the schema of the function.  Returns args if there is nothing to convert.
 *
 * Errors: a vector is of bits, or has no cast to real[], or the cast runs code of another user.
 */
static List *
ConvertVectors(Oid function, List *args)
{
	Node	   *vectors[2] = {linitial(args), lsecond(args)};
	bool		doubles[2];
	bool		bits[2];
	bool		texts[2];
	Oid			text = TEXTOID;
	Oid			type;

	for (int i = 0; i < 2; i++)
	{
		VectorForm	form = VECTOR_FLOAT4;

		type = exprType(vectors[i]);
		texts[i] = TypeCategory(type) == TYPCATEGORY_STRING;
		if (!texts[i])
			form = RequireVector(type, i == 0 ? "a" : "b", get_func_name(function));
		bits[i] = form == VECTOR_BIT;
		doubles[i] = form == VECTOR_FLOAT8;
	}
	if (bits[0] || bits[1])
		ReportBits(function, exprType(vectors[0]), exprType(vectors[1]), bits[0] && bits[1]);
	type = doubles[0] || doubles[1] || (texts[0] && texts[1]) ? FLOAT8ARRAYOID : FLOAT4ARRAYOID;
	if (exprType(vectors[0]) == type && exprType(vectors[1]) == type)
		return args;
	for (int i = 0; i < 2; i++)
	{
		char	   *reader = type == FLOAT8ARRAYOID ? "fasted_doubles" : "fasted_reals";

		if (texts[i])
			vectors[i] = (Node *)
				makeFuncExpr(LookupFuncName(SiblingName(function, reader), 1, &text, false), type,
							 list_make1(CastVector(vectors[i], text)), InvalidOid, C_COLLATION_OID,
							 COERCE_EXPLICIT_CALL);
		else if (!doubles[i])
			vectors[i] = CastVector(vectors[i], FLOAT4ARRAYOID);
		vectors[i] = CastVector(vectors[i], type);
	}
	return list_concat(list_make2(vectors[0], vectors[1]), list_copy_tail(args, 2));
}

/*
 * Converts the vectors of a call that the planner evaluates because all arguments are constants;
 * the planner converts those of other calls.  Returns false if a converted vector is NULL; the SQL
 * function then returns NULL.  Sets fn_extra if there is nothing to convert.
 */
static bool
ConvertConstants(FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;
	FuncExpr   *call = (FuncExpr *) flinfo->fn_expr;
	Oid			type;
	List	   *args;
	bool		isnull = false;

	if (flinfo->fn_extra != NULL)
		return true;
	type = get_fn_expr_argtype(flinfo, 0);
	if ((type == FLOAT4ARRAYOID || type == FLOAT8ARRAYOID) && get_fn_expr_argtype(flinfo, 1) == type)
	{
		flinfo->fn_extra = flinfo;
		return true;
	}
	args = call != NULL && IsA(call, FuncExpr) ? ConvertVectors(call->funcid, call->args) : NIL;
	if (args == NIL || !IsA(linitial(call->args), Const) || !IsA(lsecond(call->args), Const))
		elog(ERROR, "the planner did not convert the arguments of a call");
	for (int i = 0; i < 2 && !isnull; i++)
		PG_GETARG_DATUM(i) = ExecEvalExpr(ExecInitExpr(expression_planner(list_nth(args, i)), NULL),
										  CreateStandaloneExprContext(), &isnull);
	fcinfo->isnull = isnull;
	return !isnull;
}

/* --- distances */

/* A checked argument.  Only bits, and doubles for a cosine, are copied. */
typedef struct Vector
{
	FastedElement element;
	const float *elements;		/* an array of doubles, for FASTED_ELEMENT_DOUBLE */
	int			dimensions;
} Vector;

/* Raises an error if an element is NaN or infinite. */
static void
RequireFinite(const Vector *vector, const char *function, const char *name)
{
	for (int k = 0; k < vector->dimensions; k++)
	{
		double		element = vector->element == FASTED_ELEMENT_DOUBLE ?
			((const double *) vector->elements)[k] : vector->elements[k];

		if (!isfinite(element))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element that is %s", isnan(element) ? "NaN" : "infinite"),
					 errdetail("The element is number %d of argument %s of %s.", k + 1, name, function),
					 errhint("Distances need finite numbers.")));
	}
}

/* Returns a vector of bits, if the metric compares these, or else an array. */
static Vector
GetVector(struct varlena *value, const MetricRules *rules, const char *function, const char *name)
{
	VectorForm	form = rules->of_bits ? VECTOR_BIT :
		ARR_ELEMTYPE((ArrayType *) value) == FLOAT8OID ? VECTOR_FLOAT8 : VECTOR_FLOAT4;
	Vector		vector = {.element = ElementOfForm(form)};
	VectorProblem problem = VectorShape(value, form, &vector.dimensions);
	float	   *row;

	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, value),
				 errdetail("The vector is argument %s of %s.", name, function)));
	if (form == VECTOR_BIT)
	{
		row = palloc(RowBytes(vector.element, vector.dimensions));
		CopyBits(VARBITS(value), row, vector.dimensions);
		vector.elements = row;
		return vector;
	}
	vector.elements = (const float *) ARR_DATA_PTR((ArrayType *) value);
	RequireFinite(&vector, function, name);
	/* scaling changes only vectors with extremely large or small elements */
	if (form == VECTOR_FLOAT8 && rules->has_direction)
	{
		Size		bytes = vector.dimensions * sizeof(double);

		row = memcpy(palloc(bytes), vector.elements, bytes);
		fasted_scale_direction((double *) row, vector.dimensions);
		vector.elements = row;
	}
	return vector;
}

/*
 * Compares the first two arguments, which must have the same number of dimensions, by ExactDistance
 * or ExactSimilarity.  They are bits, or have been converted.
 */
static double
CompareVectors(FunctionCallInfo fcinfo, FastedMetric metric, const char *function,
			   double (*compare) (FastedMetric, FastedElement, const float *, const float *, uint32))
{
	const MetricRules *rules = fasted_metric_rules(metric);
	Vector		a = GetVector(PG_GETARG_VARLENA_P(0), rules, function, "a");
	Vector		b = GetVector(PG_GETARG_VARLENA_P(1), rules, function, "b");

	if (a.dimensions != b.dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 errdetail("The number of dimensions of the arguments of %s is %d in a, and %d in b.", function,
						   a.dimensions, b.dimensions)));
	return compare(metric, a.element, a.elements, b.elements, a.dimensions);
}

static double
DistanceOf(FunctionCallInfo fcinfo, FastedMetric metric, const char *function)
{
	return CompareVectors(fcinfo, metric, function, ExactDistance);
}

static double
ConvertedDistance(FunctionCallInfo fcinfo, FastedMetric metric, const char *function)
{
	return ConvertConstants(fcinfo) ? DistanceOf(fcinfo, metric, function) : 0.0;
}

Datum
fasted_distance(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(ConvertedDistance(fcinfo, FASTED_METRIC_L2, "fasted_distance"));
}

Datum
fasted_cosine_distance(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(ConvertedDistance(fcinfo, FASTED_METRIC_COSINE, "fasted_cosine_distance"));
}

Datum
fasted_negative_inner_product(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(ConvertedDistance(fcinfo, FASTED_METRIC_INNER_PRODUCT, "fasted_negative_inner_product"));
}

Datum
fasted_hamming_distance(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(DistanceOf(fcinfo, FASTED_METRIC_HAMMING, "fasted_hamming_distance"));
}

Datum
fasted_jaccard_distance(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(DistanceOf(fcinfo, FASTED_METRIC_JACCARD, "fasted_jaccard_distance"));
}

/* Returns NULL for a zero vector, because NaN would exceed every bound in SQL. */
Datum
fasted_cosine_similarity(PG_FUNCTION_ARGS)
{
	double		similarity;

	if (!ConvertConstants(fcinfo))
		PG_RETURN_NULL();
	similarity = CompareVectors(fcinfo, FASTED_METRIC_COSINE, "fasted_cosine_similarity", ExactSimilarity);
	if (isnan(similarity))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(similarity);
}

Datum
fasted_jaccard_similarity(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(CompareVectors(fcinfo, FASTED_METRIC_JACCARD, "fasted_jaccard_similarity",
									ExactSimilarity));
}

static bool
IsWithin(FunctionCallInfo fcinfo, bool bits)
{
	double		eps = PG_GETARG_FLOAT8(2);
	FastedMetric metric;

	/* a type that is not accepted is reported before the metric */
	if (!bits && !ConvertConstants(fcinfo))
		return false;
	metric = MetricFromText(PG_GETARG_TEXT_PP(3));
	if (fasted_metric_rules(metric)->of_bits != bits)
		ereport(ERROR,
				(errmetric(metric, bits ? BITOID : get_fn_expr_argtype(fcinfo->flinfo, 0))));
	RequireDistance("eps", eps, metric);
	return DistanceOf(fcinfo, metric, "fasted_within") <= eps;
}

Datum
fasted_within(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(IsWithin(fcinfo, false));
}

/* fasted_within(a bit varying, b bit varying, eps, metric) */
Datum
fasted_within_bits(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(IsWithin(fcinfo, true));
}

/* --- functions that joins recognize */

static const DistanceFunction distance_functions[] = {
	{"fasted_within", fasted_within, WITHIN_FUNCTION, FASTED_METRIC_L2},
	{"fasted_within", fasted_within_bits, WITHIN_FUNCTION, FASTED_METRIC_HAMMING},
	{"fasted_distance", fasted_distance, DISTANCE_FUNCTION, FASTED_METRIC_L2},
	{"fasted_cosine_distance", fasted_cosine_distance, DISTANCE_FUNCTION, FASTED_METRIC_COSINE},
	{"fasted_negative_inner_product", fasted_negative_inner_product, DISTANCE_FUNCTION,
	FASTED_METRIC_INNER_PRODUCT},
	{"fasted_hamming_distance", fasted_hamming_distance, DISTANCE_FUNCTION, FASTED_METRIC_HAMMING},
	{"fasted_jaccard_distance", fasted_jaccard_distance, DISTANCE_FUNCTION, FASTED_METRIC_JACCARD},
	{"fasted_cosine_similarity", fasted_cosine_similarity, SIMILARITY_FUNCTION, FASTED_METRIC_COSINE},
	{"fasted_jaccard_similarity", fasted_jaccard_similarity, SIMILARITY_FUNCTION, FASTED_METRIC_JACCARD},
	{"l2_distance", NULL, PGVECTOR_DISTANCE, FASTED_METRIC_L2},
	{"cosine_distance", NULL, PGVECTOR_DISTANCE, FASTED_METRIC_COSINE},
	{"vector_negative_inner_product", NULL, PGVECTOR_DISTANCE, FASTED_METRIC_INNER_PRODUCT},
	{"halfvec_negative_inner_product", NULL, PGVECTOR_DISTANCE, FASTED_METRIC_INNER_PRODUCT},
	{"inner_product", NULL, PGVECTOR_PRODUCT, FASTED_METRIC_INNER_PRODUCT},
	{"hamming_distance", NULL, DISTANCE_FUNCTION, FASTED_METRIC_HAMMING},
	{"jaccard_distance", NULL, PGVECTOR_DISTANCE, FASTED_METRIC_JACCARD}
};

/* Returns true if the function is one of pgvector that accepts these arguments. */
static bool
IsOfPgvector(Oid funcid, List *args)
{
	Oid			extension = get_extension_oid("vector", true);
	Oid			type = exprType(linitial(args));
	Oid			cast;

	if (!OidIsValid(extension) || exprType(lsecond(args)) != type ||
		getExtensionOfObject(ProcedureRelationId, funcid) != extension)
		return false;
	return FormOfType(getBaseType(type)) == VECTOR_BIT ||
		(getExtensionOfObject(TypeRelationId, type) == extension &&
		 find_coercion_pathway(FLOAT4ARRAYOID, type, COERCION_EXPLICIT, &cast) == COERCION_PATH_FUNC &&
		 func_volatile(cast) == PROVOLATILE_IMMUTABLE);
}

const DistanceFunction *
FindDistanceFunction(Oid funcid, List *args)
{
	char	   *name = get_func_name(funcid);
	FmgrInfo	found;

	for (size_t i = 0; name != NULL && i < lengthof(distance_functions); i++)
	{
		const DistanceFunction *function = &distance_functions[i];

		if (strcmp(name, function->name) != 0)
			continue;
		if (function->address == NULL)
			return IsOfPgvector(funcid, args) ? function : NULL;
		/* a function with SET clauses has the address of a wrapper, and is not recognized */
		fmgr_info(funcid, &found);
		if (found.fn_addr == function->address)
			return function;
	}
	return NULL;
}

/* --- the support function */

/*
 * Returns a call of the overload for arrays that converts its vectors; NULL if there is nothing to
 * convert.
 */
static Node *
SimplifyCall(const SupportRequestSimplify *request)
{
	FuncExpr   *call = copyObject(request->fcall);
	List	   *args = call->args;
	const Oid	types[] = {ANYCOMPATIBLEARRAYOID, ANYCOMPATIBLEARRAYOID, FLOAT8OID, TEXTOID};
	Oid		   *declared;
	int			nargs;

	/* functions of bits convert nothing */
	(void) get_func_signature(call->funcid, &declared, &nargs);
	if (FormOfType(declared[0]) != VECTOR_BIT)
		call->args = ConvertVectors(call->funcid, args);
	if (call->args == args)
		return NULL;
	call->funcid = LookupFuncName(SiblingName(call->funcid, get_func_name(call->funcid)),
								  list_length(args), types, false);
	return eval_const_expressions(request->root, (Node *) call);
}

/*
 * Support function of functions of two vectors: converts the vectors, and estimates the
 * selectivity of fasted_within(a, b, eps, metric).  The call also makes the planner load the
 * library.
 */
Datum
fasted_distance_support(PG_FUNCTION_ARGS)
{
	SupportRequestSelectivity *request = (SupportRequestSelectivity *) PG_GETARG_POINTER(0);
	FastedMetric metric = 0;
	bool		known;
	Node	   *name;
	List	   *args;

	if (IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(SimplifyCall((SupportRequestSimplify *) request));
	if (!IsA(request, SupportRequestSelectivity) || list_length(request->args) != 4)
		PG_RETURN_POINTER(NULL);
	args = request->args;
	name = estimate_expression_value(request->root, lfourth(args));
	known = IsA(name, Const) && !((Const *) name)->constisnull &&
		FindMetric(DatumGetTextPP(((Const *) name)->constvalue), &metric);
	request->selectivity = IsA(name, Const) && ((Const *) name)->constisnull ? 0.0 :
		EstimateSelectivity(request->root, linitial(args), lsecond(args),
							known ? lthird(args) : NULL, metric);
	PG_RETURN_POINTER(request);
}
