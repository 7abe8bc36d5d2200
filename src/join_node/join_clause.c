/*-------------------------------------------------------------------------
 *
 * join_clause.c
 *	  Takes clauses apart, and knows our functions and pgvector's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "distance/distance.h"
#include "join_node/join_clause.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "base/arguments.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parse_coerce.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* A call of a function or an operator, written either way. */
static bool
IsCall(Expr *expr, Oid *funcid, List **args)
{
	if (IsA(expr, FuncExpr))
	{
		*funcid = ((FuncExpr *) expr)->funcid;
		*args = ((FuncExpr *) expr)->args;
		return true;
	}
	if (IsA(expr, OpExpr))
	{
		*funcid = ((OpExpr *) expr)->opfuncid;
		if (!OidIsValid(*funcid))
			*funcid = get_opcode(((OpExpr *) expr)->opno);
		*args = ((OpExpr *) expr)->args;
		return true;
	}
	return false;
}

/* A C function, as it is called: nothing is put before it by settings of its own. */
static PGFunction
AddressOf(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	bool		plain = false;
	FmgrInfo	function;

	if (HeapTupleIsValid(tuple))
	{
		plain = ((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId;
		ReleaseSysCache(tuple);
	}
	if (!plain)
		return NULL;
	fmgr_info(funcid, &function);
	return function.fn_addr;
}

static bool
IsNamed(Oid funcid, const char *name)
{
	char	   *found = get_func_name(funcid);

	return found != NULL && strcmp(found, name) == 0;
}

/* One of pgvector's own, of a type of its own that has a cast to real[]. */
static bool
IsForeignDistance(Oid funcid, List *args, const char *name)
{
	Oid			extension = get_extension_oid("vector", true);
	Oid			type = exprType(linitial(args));
	Oid			cast;

	return OidIsValid(extension) && IsNamed(funcid, name) &&
		getExtensionOfObject(ProcedureRelationId, funcid) == extension &&
		getExtensionOfObject(TypeRelationId, type) == extension &&
		exprType(lsecond(args)) == type &&
		find_coercion_pathway(FLOAT4ARRAYOID, type, COERCION_EXPLICIT, &cast) == COERCION_PATH_FUNC &&
		func_volatile(cast) == PROVOLATILE_IMMUTABLE;
}

/* A distance of ours, or of another one's: its arguments. */
static bool
IsDistance(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;

	if (!IsCall(expr, &funcid, args) || list_length(*args) != 2)
		return false;
	clause->form = FORM_DISTANCE;
	clause->cosine = IsNamed(funcid, "fasted_cosine_distance") &&
		AddressOf(funcid) == fasted_cosine_distance;
	if (clause->cosine ||
		(IsNamed(funcid, "fasted_distance") && AddressOf(funcid) == fasted_distance))
		return true;
	clause->form = FORM_FOREIGN;
	clause->cosine = IsForeignDistance(funcid, *args, "cosine_distance");
	return clause->cosine || IsForeignDistance(funcid, *args, "l2_distance");
}

/* Is it a number below another one, or at most that? */
static bool
IsOrder(Expr *expr, Expr **less, Expr **more, bool *strict)
{
	Oid			funcid;
	List	   *sides;
	bool		reversed;

	if (!IsA(expr, OpExpr) || !IsCall(expr, &funcid, &sides) || list_length(sides) != 2)
		return false;
	switch (funcid)
	{
		case F_FLOAT8LT:
		case F_FLOAT84LT:
		case F_FLOAT48LT:
		case F_FLOAT8GT:
		case F_FLOAT84GT:
		case F_FLOAT48GT:
			*strict = true;
			break;
		case F_FLOAT8LE:
		case F_FLOAT84LE:
		case F_FLOAT48LE:
		case F_FLOAT8GE:
		case F_FLOAT84GE:
		case F_FLOAT48GE:
			*strict = false;
			break;
		default:
			return false;
	}
	reversed = funcid == F_FLOAT8GT || funcid == F_FLOAT84GT || funcid == F_FLOAT48GT ||
		funcid == F_FLOAT8GE || funcid == F_FLOAT84GE || funcid == F_FLOAT48GE;
	*less = reversed ? lsecond(sides) : linitial(sides);
	*more = reversed ? linitial(sides) : lsecond(sides);
	return true;
}

static Expr *
AsDouble(Expr *number)
{
	if (exprType((Node *) number) != FLOAT4OID)
		return number;
	return (Expr *) makeFuncExpr(F_FLOAT8_FLOAT4, FLOAT8OID, list_make1(number), InvalidOid, InvalidOid,
								 COERCE_IMPLICIT_CAST);
}

Expr *
RadiusOf(const DistanceClause *clause)
{
	Const	   *one;

	if (!clause->similarity)
		return clause->bound;
	one = makeConst(FLOAT8OID, -1, InvalidOid, sizeof(float8), Float8GetDatum(1.0), false, FLOAT8PASSBYVAL);
	return (Expr *) makeFuncExpr(F_FLOAT8MI, FLOAT8OID, list_make2(one, clause->bound), InvalidOid,
								 InvalidOid, COERCE_EXPLICIT_CALL);
}

/* Is it 1 - (a <=> b), pgvector's similarity, or the same of our cosine distance? */
static bool
IsSimilarity(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;
	List	   *sides;
	Const	   *one;

	if (!IsCall(expr, &funcid, &sides) || funcid != F_FLOAT8MI)
		return false;
	one = linitial(sides);
	return IsA(one, Const) && !one->constisnull && DatumGetFloat8(one->constvalue) == 1.0 &&
		IsDistance(lsecond(sides), clause, args) && clause->cosine;
}

/* Is it distance < x, x < similarity, or the like?  Then args are the vectors. */
static bool
IsComparison(Expr *expr, DistanceClause *clause, List **args)
{
	Expr	   *less;
	Expr	   *more;

	if (!IsOrder(expr, &less, &more, &clause->strict))
		return false;
	clause->similarity = IsSimilarity(more, clause, args);
	clause->bound = AsDouble(clause->similarity ? less : more);
	return clause->similarity || IsDistance(less, clause, args);
}

static bool
IsWithin(Expr *expr, DistanceClause *clause, List **args)
{
	Oid			funcid;
	Const	   *metric;
	FastedMetric found;

	if (!IsA(expr, FuncExpr) || !IsCall(expr, &funcid, args) || list_length(*args) != 4 ||
		!IsNamed(funcid, "fasted_within") || AddressOf(funcid) != fasted_within)
		return false;
	metric = lfourth(*args);
	if (!IsA(metric, Const) || metric->constisnull)
		return false;
	/* another one is an error, once there are rows to compare */
	if (!FindMetric(DatumGetTextPP(metric->constvalue), &found))
		return false;
	clause->cosine = found == FASTED_METRIC_COSINE;
	clause->form = FORM_WITHIN;
	clause->strict = clause->similarity = false;
	clause->bound = lthird(*args);
	return true;
}

/*
 * Does the function accept every value?  A cast of an element, or pgvector's cast to real[];
 * and sums and differences, which bounds are made of: only an overflow would raise an error.
 */
static bool
AcceptsEveryValue(Oid function, Oid result)
{
	Oid			extension;

	switch (function)
	{
		case F_FLOAT4_INT2:
		case F_FLOAT4_INT4:
		case F_FLOAT4_INT8:
		case F_FLOAT8_INT2:
		case F_FLOAT8_INT4:
		case F_FLOAT8_INT8:
		case F_FLOAT8_FLOAT4:
		case F_FLOAT8PL:
		case F_FLOAT8MI:
			return true;
	}
	extension = get_extension_oid("vector", true);
	return result == FLOAT4ARRAYOID && OidIsValid(extension) &&
		getExtensionOfObject(ProcedureRelationId, function) == extension;
}

static bool
AnyMayRaise(List *exprs)
{
	ListCell   *cell;

	foreach(cell, exprs)
		if (MayRaise(lfirst(cell)))
			return true;
	return false;
}

bool
MayRaise(const Node *expr)
{
	const FuncExpr *call = (const FuncExpr *) expr;
	const OpExpr *op = (const OpExpr *) expr;
	const ArrayCoerceExpr *array = (const ArrayCoerceExpr *) expr;

	switch (nodeTag(expr))
	{
		case T_Var:
		case T_Const:
		case T_Param:
		case T_CaseTestExpr:
			return false;
		case T_RelabelType:
			return MayRaise((Node *) ((const RelabelType *) expr)->arg);
		case T_ArrayCoerceExpr:
			return MayRaise((Node *) array->arg) || MayRaise((Node *) array->elemexpr);
		case T_FuncExpr:
			return !AcceptsEveryValue(call->funcid, call->funcresulttype) || AnyMayRaise(call->args);
		case T_OpExpr:
			return !AcceptsEveryValue(get_opcode(op->opno), op->opresulttype) || AnyMayRaise(op->args);
		default:
			return true;
	}
}

/* A vector as real[], or as double precision[] if it is that. */
static Expr *
AsArray(Expr *vector)
{
	Oid			type = exprType((Node *) vector);

	if (getBaseType(type) == FLOAT4ARRAYOID || getBaseType(type) == FLOAT8ARRAYOID)
		return vector;
	return (Expr *) coerce_to_target_type(NULL, (Node *) copyObject(vector), type, FLOAT4ARRAYOID, -1,
										  COERCION_EXPLICIT, COERCE_EXPLICIT_CAST, -1);
}

static bool
IsOfSide(Expr *expr, Relids side)
{
	Relids		used = pull_varnos(NULL, (Node *) expr);

	return !bms_is_empty(used) && bms_is_subset(used, side) &&
		!contain_subplans((Node *) expr);
}

bool
RecognizeDistanceClause(RestrictInfo *rinfo, DistanceClause *clause)
{
	List	   *args;

	clause->rinfo = rinfo;
	clause->outer = clause->inner = NULL;
	if (!IsWithin(rinfo->clause, clause, &args) && !IsComparison(rinfo->clause, clause, &args))
		return false;
	clause->first = linitial(args);
	clause->second = lsecond(args);
	return bms_is_empty(pull_varnos(NULL, (Node *) clause->bound)) &&
		!contain_subplans((Node *) clause->bound);
}

bool
MatchDistanceClause(RestrictInfo *rinfo, Relids outer, Relids inner, DistanceClause *clause)
{
	bool		swapped;

	if (!RecognizeDistanceClause(rinfo, clause))
		return false;
	swapped = !IsOfSide(clause->first, outer);
	if (!IsOfSide(swapped ? clause->second : clause->first, outer) ||
		!IsOfSide(swapped ? clause->first : clause->second, inner))
		return false;
	clause->outer = AsArray(swapped ? clause->second : clause->first);
	clause->inner = AsArray(swapped ? clause->first : clause->second);
	return clause->outer != NULL && clause->inner != NULL;
}
