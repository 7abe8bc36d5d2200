/*-------------------------------------------------------------------------
 *
 * join_vector.c
 *	  A vector of the scan tuple, as floats or doubles.
 *
 * pgvector's vector is its dimensions and its floats, but its cast to real[] makes a
 * Datum of each float on the way, which takes longer than all else that is done with
 * a row while it is read.  So its floats are read where they lie, if for the first
 * vector of a run they are there: those that the cast gives, bit for bit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "join_node/join_state.h"
#include "nodes/nodeFuncs.h"
#include "rows/vector.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* A vector as pgvector lays it out. */
typedef struct PlainVector
{
	int32		length;			/* varlena */
	int16		dimensions;
	int16		unused;
	float		elements[FLEXIBLE_ARRAY_MEMBER];
} PlainVector;

/* Of pgvector it is, as the distance is. */
static bool
IsNamedVector(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool		named;

	if (!HeapTupleIsValid(tuple))
		return false;
	named = strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), "vector") == 0;
	ReleaseSysCache(tuple);
	return named;
}

void
InitSideVector(JoinNode *node, JoinSide *side, Expr *vector)
{
	Expr	   *column;

	if (getBaseType(exprType((Node *) vector)) == FLOAT8ARRAYOID)
		node->element = FASTED_ELEMENT_DOUBLE;
	side->plain_vector = -1;
	if (node->plan.form != FORM_FOREIGN || !IsA(vector, FuncExpr))
		return;
	column = linitial(((FuncExpr *) vector)->args);
	if (!IsA(column, Var))
		return;
	if (IsNamedVector(exprType((Node *) column)))
		side->plain_vector = ((Var *) column)->varattno - 1;
}

static VectorView
ViewArray(ArrayType *array)
{
	VectorView	view = {0};
	int			dimensions;

	if (VectorShape(array, &dimensions) == VECTOR_OK)
		view = (VectorView) {.elements = (const float *) ARR_DATA_PTR(array),.dimensions = dimensions};
	return view;
}

/* By the expression that makes real[] of it. */
static VectorView
CastVector(JoinNode *node, JoinSide *side)
{
	bool		isnull;
	Datum		value = ExecEvalExpr(side->vector, node->css.ss.ps.ps_ExprContext, &isnull);

	if (isnull)
		return (VectorView) {.isnull = true};
	return ViewArray(DatumGetArrayTypeP(value));
}

static VectorView
ViewPlainVector(Datum value)
{
	const PlainVector *vector = (PlainVector *) PG_DETOAST_DATUM(value);

	if (vector->dimensions <= 0 ||
		VARSIZE(vector) != offsetof(PlainVector, elements) + vector->dimensions * sizeof(float))
		return (VectorView) {0};
	return (VectorView) {.elements = vector->elements,.dimensions = vector->dimensions};
}

static bool
AreSame(const VectorView *x, const VectorView *y)
{
	return x->elements != NULL && y->elements != NULL && x->dimensions == y->dimensions &&
		memcmp(x->elements, y->elements, x->dimensions * sizeof(float)) == 0;
}

VectorView
ViewVector(JoinNode *node, JoinSide *side)
{
	ExprContext *econtext = node->css.ss.ps.ps_ExprContext;
	MemoryContext old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	TupleTableSlot *scan = node->css.ss.ss_ScanTupleSlot;
	VectorView	view;

	if (side->plain_vector < 0 || scan->tts_isnull[side->plain_vector])
		view = CastVector(node, side);
	else
	{
		view = ViewPlainVector(scan->tts_values[side->plain_vector]);
		if (!side->plain_checked || view.elements == NULL)
		{
			VectorView	cast = CastVector(node, side);

			if (!AreSame(&view, &cast))
				side->plain_vector = -1;
			side->plain_checked = true;
			view = cast;
		}
	}
	MemoryContextSwitchTo(old);
	return view;
}
