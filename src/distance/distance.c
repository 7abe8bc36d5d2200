/*-------------------------------------------------------------------------
 *
 * distance.c
 *	  SQL functions of two vectors: checks of arguments, canonical distance, selectivity estimate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_collation_d.h"
#include "catalog/pg_type.h"
#include "cpu/kernels/kernel.h"
#include "distance/distance.h"
#include "engine/exact_distance.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
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

static Vector
GetBits(FunctionCallInfo fcinfo, int n, const char *function, const char *name)
{
	VarBit	   *bits = PG_GETARG_VARBIT_P(n);
	Vector		vector = {.element = FASTED_ELEMENT_BIT};
	VectorProblem problem = VectorShape((struct varlena *) bits, VECTOR_BIT, &vector.dimensions);
	float	   *row;

	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, (struct varlena *) bits),
				 errdetail("The vector is argument %s of %s.", name, function)));
	row = palloc(RowBytes(vector.element, vector.dimensions));
	CopyBits(VARBITS(bits), row, vector.dimensions);
	vector.elements = row;
	return vector;
}

static Vector
GetVector(ArrayType *array, FastedMetric metric, const char *function, const char *name)
{
	Vector		vector;
	bool		doubles = ARR_ELEMTYPE(array) == FLOAT8OID;
	VectorProblem problem = VectorShape((struct varlena *) array, doubles ? VECTOR_FLOAT8 : VECTOR_FLOAT4,
										&vector.dimensions);

	vector.element = doubles ? FASTED_ELEMENT_DOUBLE : FASTED_ELEMENT_REAL;
	vector.elements = (const float *) ARR_DATA_PTR(array);
	if (problem != VECTOR_OK)
		ereport(ERROR,
				(errvector(problem, (struct varlena *) array),
				 errdetail("The vector is argument %s of %s.", name, function)));
	for (int k = 0; k < vector.dimensions; k++)
	{
		double		element = doubles ? ((const double *) vector.elements)[k] : vector.elements[k];

		if (!isfinite(element))
			ereport(ERROR,
					(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
					 errmsg("vector has an element that is %s", isnan(element) ? "NaN" : "infinite"),
					 errdetail("The element is number %d of argument %s of %s.", k + 1, name, function),
					 errhint("Distances need finite numbers.")));
	}
	/* scaling changes only vectors with extremely large or small elements */
	if (doubles && metric == FASTED_METRIC_COSINE)
	{
		Size		bytes = vector.dimensions * sizeof(double);
		double	   *scaled = memcpy(palloc(bytes), vector.elements, bytes);

		fasted_scale_direction(scaled, vector.dimensions);
		vector.elements = (const float *) scaled;
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
	bool		bits = fasted_metric_of_bits(metric);
	Vector		a;
	Vector		b;

	a = bits ? GetBits(fcinfo, 0, function, "a") :
		GetVector(PG_GETARG_ARRAYTYPE_P(0), metric, function, "a");
	b = bits ? GetBits(fcinfo, 1, function, "b") :
		GetVector(PG_GETARG_ARRAYTYPE_P(1), metric, function, "b");
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
	if (fasted_metric_of_bits(metric) != bits)
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

/* --- estimates for the planner */

/* Assumed number of rows within eps of each row, without statistics. */
#define DEFAULT_NEIGHBOURS 10.0

/* The only column of a table in the vector expression; NULL if there is none, or several. */
static Var *
OnlyColumn(PlannerInfo *root, Node *vector)
{
	/* in HAVING, the expression may contain aggregates */
	List	   *vars = pull_var_clause(vector, PVC_RECURSE_PLACEHOLDERS | PVC_INCLUDE_AGGREGATES |
									   PVC_INCLUDE_WINDOWFUNCS);
	Var		   *var = list_length(vars) == 1 ? linitial(vars) : NULL;

	if (var == NULL || !IsA(var, Var) || var->varlevelsup > 0 || IS_SPECIAL_VARNO(var->varno) ||
		var->varattno <= 0 || planner_rt_fetch(var->varno, root)->rtekind != RTE_RELATION)
		return NULL;
	return var;
}

double
EstimateShare(PlannerInfo *root, Node *a, Node *b, Node *eps, FastedMetric metric)
{
	Node	   *radius = eps == NULL ? NULL : estimate_expression_value(root, eps);
	bool		known = radius != NULL && IsA(radius, Const);
	Var		   *columns[2] = {OnlyColumn(root, a), OnlyColumn(root, b)};
	double		rows = DEFAULT_NEIGHBOURS;
	double		share = -1.0;

	if (known && ((Const *) radius)->constisnull)
		return 0.0;
	if (columns[0] != NULL && columns[1] != NULL && columns[0]->varattno == columns[1]->varattno &&
		planner_rt_fetch(columns[0]->varno, root)->relid == planner_rt_fetch(columns[1]->varno, root)->relid)
		columns[1] = NULL;
	/* for two columns, use the greater fraction */
	for (int i = 0; i < 2; i++)
	{
		double		distance = known ? DatumGetFloat8(((Const *) radius)->constvalue) : 0.0;
		const RangeTblEntry *rte;
		const RelOptInfo *rel;

		if (columns[i] == NULL)
			continue;
		rel = root->simple_rel_array == NULL ? NULL : root->simple_rel_array[columns[i]->varno];
		if (rel != NULL)
			rows = Max(rows, rel->tuples);
		rte = planner_rt_fetch(columns[i]->varno, root);
		if (known && distance >= LeastDistance(metric))
			share = Max(share, ShareWithin(rte->relid, columns[i]->varattno, rte->inh, metric,
										   distance));
	}
	return share >= 0.0 ? share : Min(1.0, DEFAULT_NEIGHBOURS / rows);
}

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
	FastedMetric metric = FASTED_METRIC_L2;
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
		EstimateShare(request->root, linitial(args), lsecond(args), known ? lthird(args) : NULL,
					  metric);
	PG_RETURN_POINTER(request);
}
