/*-------------------------------------------------------------------------
 *
 * source.h
 *	  What is joined: a relation, its vector column and its key column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_H
#define FASTED_SOURCE_H

#include "access/attnum.h"
#include "catalog/pg_type_d.h"
#include "engine/engine.h"
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
	Oid			relid;
	char	   *relation;		/* name for messages, without schema */
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
 * reads it does, when it runs (source_query.h).  Errors: no such relation or
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
 * Hints name the function for keys of other types, function with "_typed" behind it.
 */
extern VectorSource *ResolveSource(Oid relid, const char *vector_column,
								   const char *id_column, Oid key_type,
								   FastedMetric metric, const char *function);

/* The same for a function whose argument for the key has another name than id_column. */
extern VectorSource *ResolveNamedSource(Oid relid, const char *vector_column,
										const char *id_column, const char *id_argument,
										Oid key_type, FastedMetric metric,
										const char *function);

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

/* The function that a conversion calls, for each row or element. */
typedef struct CastFunction
{
	Oid			function;		/* InvalidOid: none */
	Oid			from;			/* the types that it converts */
	Oid			to;
} CastFunction;

/*
 * Is a column of this type one of vectors, in which form is it read, and by which
 * function?
 */
extern bool FindVectorForm(Oid type, VectorForm *form, CastFunction *cast);

/* Is this a kind of relation that has rows to join? */
extern bool IsSelectable(char relkind);

/* The type of the array that a vector of this form arrives as. */
static inline Oid
VectorFormType(VectorForm form)
{
	return form == VECTOR_FLOAT4 ? FLOAT4ARRAYOID :
		form == VECTOR_FLOAT8 ? FLOAT8ARRAYOID : NUMERICARRAYOID;
}

#endif							/* FASTED_SOURCE_H */
