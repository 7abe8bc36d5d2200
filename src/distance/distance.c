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

#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_operator.h"
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
#include "parser/parsetree.h"
#include "parser/parse_func.h"
#include "rows/source.h"
#include "rows/vector.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varbit.h"

/*
 * Returns the canonical distance, or the similarity with the sums of the distance.  Uses the best kernel
 * for this CPU; all kernels return the same bits.
 */
static double
DistanceOrSimilarity(const MetricRules *rules, bool similarity, FastedElement element, const float *x,
					 const float *y, uint32 dimensions)
{
	static const CpuKernel *kernels[2]; /* for numbers, and for bits */
	uint32		length = rules->of_bits ? fasted_bit_words(dimensions) : dimensions;
	bool		doubles = element == FASTED_ELEMENT_DOUBLE;
	const CpuKernel *kernel;
	RowFunction dot;
	double		product;

	if (kernels[0] == NULL)
	{
		kernels[0] = fasted_cpu_choose_kernel(NULL);
		kernels[1] = kernel_of_bits(kernels[0]);
	}
	kernel = kernels[rules->of_bits];
	if (!rules->of_product)
		return (doubles ? kernel->distance_double : kernel->distance) (x, y, length);
	dot = doubles ? kernel->dot_double : kernel->dot;
	product = dot(x, y, length);
	if (rules->negative_product)
		return 0.0 - product;
	return (similarity ? rules->similarity_of_squares : rules->of_squares)
		(product, dot(x, x, length), dot(y, y, length));
}

double
ExactDistance(FastedMetric metric, FastedElement element, const float *x, const float *y,
			  uint32 dimensions)
{
	return DistanceOrSimilarity(fasted_metric_rules(metric), false, element, x, y, dimensions);
}

/* --- conversions of vectors */

Node *
CastVector(Node *vector, Oid type)
{
	return coerce_to_target_type(NULL, copyObject(vector), exprType(vector), type, -1,
								 COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
}

/* Returns true for bit, bit varying and domains over them. */
static bool
IsOfBits(Oid type)
{
	return OidIsValid(type) && FormOfType(getBaseType(type)) == VECTOR_BIT;
}

/* Raises the error for vectors of which one or both are bits, if they cannot be compared. */
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
 * Returns an untyped literal as a constant of this type.  An array may be in the text form of
 * pgvector, too: [1,2,3].
 */
static Node *
ReadLiteral(Const *literal, Oid type)
{
	static const char spaces[] = " \t\n\r\v\f";
	Const	   *read = copyObject(literal);
	char	   *text = literal->constisnull ? pstrdup("") : pstrdup(DatumGetCString(literal->constvalue));
	char	   *open = text + strspn(text, spaces);
	char	   *close = strchr(text, ']');

	if (*open == '[' && close != NULL && close[1 + strspn(close + 1, spaces)] == '\0')
	{
		*open = '{';
		*close = '}';
	}
	read->constvalue = CStringGetDatum(text);
	return CastVector((Node *) read, type);
}

/*
 * Returns a vector as an expression of this type: of bits as they are, and others by way of real[],
 * which all vectors can be cast to.  Built-in arrays are cast directly, without loss.
 */
static Node *
ConvertVector(Node *vector, Oid type)
{
	if (IsOfBits(type))
		return vector;
	if (getBaseType(exprType(vector)) >= FirstNormalObjectId)
		vector = CastVector(vector, FLOAT4ARRAYOID);
	return CastVector(vector, type);
}

/*
 * Returns the type that both vectors of a call of this function are converted to: that of bits
 * (fasted_within) if one is of bits; double precision[] if one has this type or both are literals;
 * otherwise real[].
 *
 * Errors: a vector is of bits, unless the function is fasted_within and the other one is, too, or
 * is a literal; a vector has no cast to real[]; or the cast runs code of another user.
 */
static Oid
CommonType(Oid function, List *args)
{
	VectorForm	forms[2];
	Oid			types[2];
	int			literals = 0;
	int			bits = 0;

	for (int i = 0; i < 2; i++)
	{
		Node	   *vector = list_nth(args, i);
		bool		literal = IsA(vector, Const) && exprType(vector) == UNKNOWNOID;

		types[i] = exprType(vector);
		forms[i] = literal ? VECTOR_FLOAT4 :
			RequireVector(types[i], i == 0 ? "a" : "b", get_func_name(function));
		literals += literal;
		bits += forms[i] == VECTOR_BIT;
	}
	if (bits > 0 && (bits + literals < 2 || list_length(args) == 2))
		ReportBits(function, types[0], types[1], bits + literals == 2);
	return bits > 0 ? VARBITOID :
		forms[0] == VECTOR_FLOAT8 || forms[1] == VECTOR_FLOAT8 || literals == 2 ? FLOAT8ARRAYOID :
		FLOAT4ARRAYOID;
}

/*
 * Returns the arguments of a call of this function with both vectors converted to CommonType.
 * Returns args if there is nothing to convert.
 */
static List *
ConvertVectors(Oid function, List *args)
{
	Oid			type = CommonType(function, args);
	List	   *converted = list_copy(args);
	bool		changed = false;

	for (int i = 0; i < 2; i++)
	{
		Node	   *vector = list_nth(args, i);
		Node	   *result = vector;

		if (exprType(vector) == UNKNOWNOID)
			result = ReadLiteral((Const *) vector, type);
		else if (exprType(vector) != type)
			result = ConvertVector(vector, type);
		lfirst(list_nth_cell(converted, i)) = result;
		changed |= result != vector;
	}
	return changed ? converted : args;
}

/*
 * Checks the types of the vectors of a call, as nothing else does: the parameters are of type "any".
 * The planner has converted the vectors, except those of a call that it evaluates because all
 * arguments are constants; these are converted here.  Returns false if a converted vector is NULL;
 * the SQL function then returns NULL.  Sets fn_extra if there is nothing to convert.
 */
static bool
PrepareVectors(FunctionCallInfo fcinfo)
{
	FmgrInfo   *flinfo = fcinfo->flinfo;
	fmNodePtr	call = flinfo->fn_expr;
	List	   *given;
	List	   *args;
	bool		isnull = false;

	if (flinfo->fn_extra != NULL)
		return true;
	/* a user's operator may call the function */
	if (call == NULL || !(IsA(call, FuncExpr) || IsA(call, OpExpr)))
		elog(ERROR, "the types of the arguments of a call are not known");
	given = IsA(call, FuncExpr) ? ((FuncExpr *) call)->args : ((OpExpr *) call)->args;
	args = ConvertVectors(flinfo->fn_oid, given);
	if (args == given)
	{
		flinfo->fn_extra = flinfo;
		return true;
	}
	if (!IsA(linitial(given), Const) || !IsA(lsecond(given), Const))
		elog(ERROR, "the planner did not convert the arguments of a call");
	for (int i = 0; i < 2 && !isnull; i++)
		PG_GETARG_DATUM(i) = ExecEvalExpr(ExecInitExpr(expression_planner(list_nth(args, i)), NULL),
										  CreateStandaloneExprContext(), &isnull);
	fcinfo->isnull = isnull;
	return !isnull;
}

/* --- distances */

/* A checked argument.  Only bits, doubles for a cosine, and floats to be compared with doubles are copied. */
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

/*
 * Returns a vector of bits, if the metric compares these, or else an array: of doubles if `doubles` is
 * set or the array is of double precision.
 */
static Vector
GetVector(struct varlena *value, const MetricRules *rules, bool doubles, const char *function,
		  const char *name)
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
	if (form == VECTOR_FLOAT4 && doubles)
	{
		double	   *wide = palloc(vector.dimensions * sizeof(double));

		for (int k = 0; k < vector.dimensions; k++)
			wide[k] = vector.elements[k];
		vector = (Vector) {FASTED_ELEMENT_DOUBLE, (const float *) wide, vector.dimensions};
	}
	/* scaling changes only vectors with extremely large or small elements */
	if (vector.element == FASTED_ELEMENT_DOUBLE && rules->has_direction)
	{
		Size		bytes = vector.dimensions * sizeof(double);

		row = memcpy(palloc(bytes), vector.elements, bytes);
		fasted_scale_direction((double *) row, vector.dimensions);
		vector.elements = row;
	}
	return vector;
}

/*
 * Returns the distance or similarity of the first two arguments, which must have the same number of
 * dimensions.  They are bits, or have been converted.
 */
static double
CompareVectors(FunctionCallInfo fcinfo, const MetricRules *rules, bool similarity, const char *function)
{
	struct varlena *x = PG_GETARG_VARLENA_P(0);
	struct varlena *y = PG_GETARG_VARLENA_P(1);
	bool		doubles = !rules->of_bits && (ARR_ELEMTYPE((ArrayType *) x) == FLOAT8OID ||
											  ARR_ELEMTYPE((ArrayType *) y) == FLOAT8OID);
	Vector		a = GetVector(x, rules, doubles, function, "a");
	Vector		b = GetVector(y, rules, doubles, function, "b");

	if (a.dimensions != b.dimensions)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_EXCEPTION),
				 errmsg("vectors have different numbers of dimensions"),
				 errdetail("The number of dimensions of the arguments of %s is %d in a, and %d in b.", function,
						   a.dimensions, b.dimensions)));
	return DistanceOrSimilarity(rules, similarity, a.element, a.elements, b.elements, a.dimensions);
}

/*
 * The result of an SQL function; null if a converted vector is, or for the similarity of a zero vector,
 * because NaN would exceed every bound in SQL.
 */
static Datum
Compare(FunctionCallInfo fcinfo, FastedMetric metric, bool similarity, const char *function)
{
	const MetricRules *rules = fasted_metric_rules(metric);
	double		result;

	if (!rules->of_bits && !PrepareVectors(fcinfo))
		PG_RETURN_NULL();
	result = CompareVectors(fcinfo, rules, similarity, function);
	if (similarity && isnan(result))
		PG_RETURN_NULL();
	PG_RETURN_FLOAT8(result);
}

#define COMPARISON(name, metric, similarity) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return Compare(fcinfo, metric, similarity, #name); \
	}

COMPARISON(fasted_distance, FASTED_METRIC_L2, false)
COMPARISON(fasted_cosine_distance, FASTED_METRIC_COSINE, false)
COMPARISON(fasted_negative_inner_product, FASTED_METRIC_INNER_PRODUCT, false)
COMPARISON(fasted_hamming_distance, FASTED_METRIC_HAMMING, false)
COMPARISON(fasted_jaccard_distance, FASTED_METRIC_JACCARD, false)
COMPARISON(fasted_cosine_similarity, FASTED_METRIC_COSINE, true)
COMPARISON(fasted_jaccard_similarity, FASTED_METRIC_JACCARD, true)

/* The operators of real[] and double precision[]; the vectors may be of different types. */
#define ARRAY_OPERATOR(name, metric, symbol) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_FLOAT8(CompareVectors(fcinfo, fasted_metric_rules(metric), false, \
										"operator " symbol)); \
	}

ARRAY_OPERATOR(fasted_array_distance, FASTED_METRIC_L2, "<->")
ARRAY_OPERATOR(fasted_array_cosine_distance, FASTED_METRIC_COSINE, "<=>")
ARRAY_OPERATOR(fasted_array_negative_inner_product, FASTED_METRIC_INNER_PRODUCT, "<#>")

PG_FUNCTION_INFO_V1(fasted_within);

/* fasted_within(a, b, eps, metric), of bits, too */
Datum
fasted_within(PG_FUNCTION_ARGS)
{
	Oid			a = get_fn_expr_argtype(fcinfo->flinfo, 0);
	Oid			b = get_fn_expr_argtype(fcinfo->flinfo, 1);
	double		eps = PG_GETARG_FLOAT8(2);
	FastedMetric metric;
	const MetricRules *rules;

	/* a type that is not accepted is reported before the metric */
	if (!PrepareVectors(fcinfo))
		PG_RETURN_NULL();
	metric = MetricFromText(PG_GETARG_TEXT_PP(3));
	rules = fasted_metric_rules(metric);
	if (rules->of_bits != (IsOfBits(a) || IsOfBits(b)))
		ereport(ERROR,
				(errmetric(metric, a == UNKNOWNOID ? b : a)));
	RequireDistance("eps", eps, metric);
	PG_RETURN_BOOL(CompareVectors(fcinfo, rules, false, "fasted_within") <= eps);
}

/* --- functions that joins recognize */

static const DistanceFunction distance_functions[] = {
	{"fasted_within", fasted_within, WITHIN_FUNCTION, FASTED_METRIC_L2},
	{"fasted_distance", fasted_distance, DISTANCE_FUNCTION, FASTED_METRIC_L2},
	{"fasted_cosine_distance", fasted_cosine_distance, DISTANCE_FUNCTION, FASTED_METRIC_COSINE},
	{"fasted_negative_inner_product", fasted_negative_inner_product, DISTANCE_FUNCTION,
	FASTED_METRIC_INNER_PRODUCT},
	{"array_distance", fasted_array_distance, DISTANCE_FUNCTION, FASTED_METRIC_L2},
	{"array_cosine_distance", fasted_array_cosine_distance, DISTANCE_FUNCTION, FASTED_METRIC_COSINE},
	{"array_negative_inner_product", fasted_array_negative_inner_product, DISTANCE_FUNCTION,
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

bool
IsOfPgvector(Oid class, Oid object)
{
	Oid			extension = get_extension_oid("vector", true);

	return OidIsValid(extension) && getExtensionOfObject(class, object) == extension;
}

/* Returns true if the function is one of pgvector that accepts these arguments. */
static bool
ComparesByPgvector(Oid funcid, List *args)
{
	Oid			type = exprType(linitial(args));
	Oid			cast;

	if (exprType(lsecond(args)) != type || !IsOfPgvector(ProcedureRelationId, funcid))
		return false;
	return FormOfType(getBaseType(type)) == VECTOR_BIT ||
		(IsOfPgvector(TypeRelationId, type) &&
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
			return ComparesByPgvector(funcid, args) ? function : NULL;
		/* a function with SET clauses has the address of a wrapper, and is not recognized */
		fmgr_info(funcid, &found);
		if (found.fn_addr == function->address)
			return function;
	}
	return NULL;
}

/* --- the support function */

/*
 * Returns an operator call without the cast of a vector from real[], or a domain over it, to double
 * precision[] beside one of double precision[].  Returns NULL if there is no such cast.  The operator of
 * both types returns the same distance, and indexes on real[] have it.
 */
static Node *
OmitCast(const FuncExpr *call)
{
	static char *const operators[] = {
		[FASTED_METRIC_L2] = "<->",[FASTED_METRIC_COSINE] = "<=>",[FASTED_METRIC_INNER_PRODUCT] = "<#>"
	};
	const DistanceFunction *function = FindDistanceFunction(call->funcid, call->args);
	Oid			types[2] = {FLOAT8ARRAYOID, FLOAT8ARRAYOID};
	Expr	   *args[2] = {linitial(call->args), lsecond(call->args)};
	int			omitted = -1;
	Oid			operator;

	/* preferably of a column */
	for (int i = 0; i < 2; i++)
	{
		const ArrayCoerceExpr *cast = (const ArrayCoerceExpr *) args[i];

		if (IsA(cast, ArrayCoerceExpr) && getBaseType(exprType((Node *) cast->arg)) == FLOAT4ARRAYOID &&
			(omitted < 0 || IsA(cast->arg, Var)))
			omitted = i;
	}
	if (function == NULL || omitted < 0)
		return NULL;
	args[omitted] = (Expr *) applyRelabelType((Node *) ((ArrayCoerceExpr *) args[omitted])->arg, FLOAT4ARRAYOID, -1,
											  InvalidOid, COERCE_IMPLICIT_CAST, -1, false);
	types[omitted] = FLOAT4ARRAYOID;
	/* users have no privilege on the schema, which a search by qualified name would require */
	operator = GetSysCacheOid4(OPERNAMENSP, Anum_pg_operator_oid, CStringGetDatum(operators[function->metric]),
							   ObjectIdGetDatum(types[0]), ObjectIdGetDatum(types[1]),
							   ObjectIdGetDatum(get_namespace_oid("fasted_internal", false)));
	return !OidIsValid(operator) ? NULL :
		(Node *) make_opclause(operator, FLOAT8OID, false, args[0], args[1], InvalidOid, InvalidOid);
}

/* Returns the call with its vectors converted, or without a cast; NULL if there is nothing to change. */
static Node *
SimplifyCall(const SupportRequestSimplify *request)
{
	FuncExpr   *call = copyObject(request->fcall);
	List	   *args = call->args;
	Oid		   *declared;
	int			nargs;

	/* functions of bits convert nothing */
	(void) get_func_signature(call->funcid, &declared, &nargs);
	if (declared[0] == FLOAT8ARRAYOID && declared[1] == FLOAT8ARRAYOID)
		return OmitCast(call);
	if (declared[0] == ANYOID)
		call->args = ConvertVectors(call->funcid, args);
	return call->args == args ? NULL : eval_const_expressions(request->root, (Node *) call);
}

PG_FUNCTION_INFO_V1(fasted_distance_support);

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
