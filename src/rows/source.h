/*-------------------------------------------------------------------------
 *
 * source.h
 *	  What is joined: a relation, its vector column, its key column and its partition column; and
 *	  what SQL functions check of their other arguments alike.  Declares what source.c
 *	  and statistics.c define.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_H
#define FASTED_SOURCE_H

#include "access/attnum.h"
#include "catalog/pg_type_d.h"
#include "engine/engine.h"
#include "fmgr.h"
#include "utils/sortsupport.h"

/* How a vector arrives in a tuple; other types are cast to real[] by the query. */
typedef enum VectorForm
{
	VECTOR_FLOAT4,
	VECTOR_FLOAT8,
	VECTOR_NUMERIC
} VectorForm;

struct RowTaker;
struct VectorSource;

/*
 * Reads a source by another way than its query, and gives the rows to a taker, in the order
 * of their keys.  False: there is no such way, and nothing was read.
 */
typedef bool (*SourceReader) (const struct VectorSource *source, struct RowTaker *taker);

typedef struct VectorSource
{
	Oid			relid;			/* InvalidOid: of values (ResolveValues) */
	char	   *relation;		/* name for messages, without schema; NULL: of values */
	char	   *key_column;		/* NULL: rows have no key, but a zero in its place */
	char	   *vector_column;
	VectorForm	form;
	FastedElement element;		/* what rows are made of it */
	Oid			key_type;		/* of the ids in the result */
	Oid			key_collation;
	char	   *order_column;	/* NULL: rows come in no order; else see OrderSource */
	bool		descending;
	bool		order_apart;	/* it is read for itself: ReadOrder */
	bool		key_order;		/* rows come in the order of their keys */
	SourceReader reader;		/* with key_order; or NULL */
	char	   *group_column;	/* NULL: none; else see GroupSource */
	Oid			group_type;
	Oid			group_collation;
	const char *id_argument;	/* the argument that names the key, for hints */
	FastedMetric metric;		/* of the join: it decides how rows are made of vectors, too */
	bool		skip_zeros;		/* rows whose vector is zero take no part, as if it were NULL */
} VectorSource;

/*
 * Finds the columns, and how their values are read.  id_column
 * NULL means the single-column primary key.  Locks the relation as SELECT would,
 * until the end of the transaction.  Does not check privileges: the query that
 * reads it does, when it runs (reader.h).  Errors: no such relation or
 * column, not something to select from, a column that is no vector, no usable
 * key, a key that does not convert to key_type.  Allocates in the current memory
 * context.
 *
 * key_type InvalidOid: ids are wanted for messages only, so a primary key is read
 * where there is one that the current user may read, as whatever type it has.
 *
 * metric: that of the join.  By cosine, rows whose vector is zero are skipped, unless the
 * caller then clears skip_zeros.
 *
 * Hints name the argument for the key, and the function for keys of other types: the window
 * function, if there is one, else function with "_typed" behind it.
 */
extern VectorSource *ResolveSource(Oid relid, const char *vector_column, const char *id_column,
								   const char *id_argument, Oid key_type, FastedMetric metric,
								   const char *function, const char *window);

/*
 * Vectors that are values of a type, of rows without a relation: rows of a window's partition,
 * whose keys are their numbers from 1 on.  Errors: the type is none of vectors.
 */
extern VectorSource *ResolveValues(Oid type, FastedMetric metric, const char *function);

/*
 * Rows have an order: that of a column, nulls last, and where it is equal that of the
 * key.  They come in it, unless the source can be read once more for the order alone
 * (order_apart).  Errors: no such column, or its type has no order.
 */
extern void OrderSource(VectorSource *source, const char *column, bool descending);

/*
 * Only rows with equal values of a column meet: their partition; rows of none take no part.  An
 * order is not read apart then.  Errors: no such column, or its type has no equality.
 */
extern void GroupSource(VectorSource *source, const char *column);

/* Rows of two sources that are joined are of doubles if those of one are. */
static inline void
ShareElement(VectorSource *a, VectorSource *b)
{
	if (a->element != b->element)
		a->element = b->element = FASTED_ELEMENT_DOUBLE;
}

static inline bool
RowsComeInOrder(const VectorSource *source)
{
	return source->key_order ||
		(source->order_column != NULL && !source->order_apart);
}

/* May the current user read the column, by privileges on it or the relation? */
extern bool MayRead(Oid relid, AttrNumber column);

/* "id = 7": a key as messages name it. */
extern char *KeyName(const VectorSource *source, Datum key);

/*
 * The order of a type's values, as its default operator class has it.  order: zeros or with its
 * abbreviate, as the caller made it; what it allocates is in the context.
 */
extern void PrepareTypeOrder(Oid type, Oid collation, MemoryContext context, SortSupport order);

/*
 * Is a column of this type one of vectors, and which function is called for each row or element
 * to read it?  InvalidOid: none.
 */
extern bool FindVectorCast(Oid type, Oid *function);

/* Is this a kind of relation that has rows to join? */
extern bool IsSelectable(char relkind);

/* The type of the array that a vector of this form arrives as. */
static inline Oid
VectorFormType(VectorForm form)
{
	return form == VECTOR_FLOAT4 ? FLOAT4ARRAYOID :
		form == VECTOR_FLOAT8 ? FLOAT8ARRAYOID : NUMERICARRAYOID;
}

/* --- arguments */

/* The functions are not STRICT, since some arguments may be NULL.  Uses nothing of fcinfo but args. */
static inline void
RequireArgument(FunctionCallInfo fcinfo, int n, const char *function, const char *name)
{
	if (PG_ARGISNULL(n))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" of %s must not be null", name, function)));
}

/* Raises an error if it is NaN or negative. */
extern void RequireDistance(double eps);

/* Raises an error for what is neither 'cosine' nor 'l2'. */
extern FastedMetric MetricFromText(const text *name);

/* The same without an error: false. */
extern bool FindMetric(const text *name, FastedMetric *metric);

/* --- numbers for the values of a partition column: equal values have one number */

typedef struct GroupNumbers GroupNumbers;

/* For the column of this source, and others of the same type and collation. */
extern GroupNumbers *GroupNumbersCreate(const VectorSource *source);

/* From 0 on, in the order in which values were asked for first.  Leaves garbage. */
extern uint32 GroupNumberOf(GroupNumbers *numbers, Datum value);
extern uint32 GroupNumbersCount(const GroupNumbers *numbers);

/* --- statistics */

/*
 * What ANALYZE knows about a column, as far as the current user may see it: what the planner
 * estimates can be read in EXPLAIN by whoever may call the function.
 */

/* The share of rows without a vector, zero when not known. */
extern double NullVectors(Oid relid, AttrNumber column);

/* The number of dimensions, zero when not known; those of the type are no secret. */
extern double KnownDimensions(Oid relid, AttrNumber column);

/*
 * The share of all pairs of rows that are within eps of each other, estimated
 * from the vectors in the column's statistics; negative: not known, since there
 * are no statistics that hold vectors.  Rows of a table's children are among them, or not.
 */
extern double ShareWithin(Oid relid, AttrNumber column, bool children, FastedMetric metric,
						  double eps);

/* How many groups a column makes of so many rows; a guess where nothing is known. */
extern double EstimateGroups(Oid relid, AttrNumber column, double rows);

#endif							/* FASTED_SOURCE_H */
