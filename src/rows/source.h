/*-------------------------------------------------------------------------
 *
 * source.h
 *	  The input of a join: a relation with its vector, key and partition columns.  Also checks
 *	  of arguments that several SQL functions share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_H
#define FASTED_SOURCE_H

#include "access/attnum.h"
#include "base/compat.h"
#include "catalog/pg_type_d.h"
#include "engine/metric_rules.h"
#include "fmgr.h"
#include "utils/sortsupport.h"

/* Type in which a vector arrives in a tuple; the query casts other types to real[]. */
typedef enum VectorForm
{
	VECTOR_FLOAT4,
	VECTOR_FLOAT8,
	VECTOR_NUMERIC,
	VECTOR_BIT					/* bit varying, to which bit is binary coercible */
} VectorForm;

typedef struct VectorSource
{
	Oid			relid;			/* InvalidOid: values without a relation (ResolveValues) */
	char	   *relation;		/* name for messages, without schema; or NULL */
	char	   *key_column;		/* NULL: rows have no key; 0 is read instead */
	char	   *vector_column;
	Oid			vector_type;	/* base type of the column or value */
	VectorForm	form;
	FastedElement element;		/* element type of the converted rows */
	Oid			key_type;		/* of the ids in the result */
	Oid			key_collation;
	char	   *order_column;	/* NULL: unordered; else see OrderSource */
	bool		descending;
	bool		key_order;		/* rows are read in the order of their keys, unless there is an order_column */
	char	   *partition_column;	/* NULL: no partitions; else see PartitionSource */
	Oid			partition_type;
	Oid			partition_collation;
	const char *id_argument;	/* name of the SQL argument for the key, for hints */
	FastedMetric metric;		/* metric of the join; it also affects the conversion of vectors */
	bool		skip_zeros;		/* skip rows whose vector is zero, as if it were NULL */
} VectorSource;

/*
 * Looks up the columns and how to read their values.  If id_column is NULL, the key is the single-column
 * primary key.  Locks the relation as SELECT does, until the end of the transaction.  Privileges are not
 * checked here, but when the query runs (reader.h).  Allocates in the current memory context.
 *
 * If key_type is InvalidOid, keys are used in messages only: the primary key is read in its own type, if
 * it exists and the current user may read it.  With a metric of directions, rows whose vector is zero are
 * skipped, unless the caller clears skip_zeros.  Hints quote id_argument, the function, and the window
 * function that needs no key, if there is one.
 *
 * Errors: the relation or a column does not exist, the relation cannot be selected from, the
 * column has no vector type, or none of the metric; there is no usable key, the key does not
 * convert to key_type.
 */
extern VectorSource *ResolveSource(Oid relid, const char *vector_column, const char *id_column,
								   const char *id_argument, Oid key_type, FastedMetric metric,
								   const char *function, const char *window);

/*
 * Returns the form of vectors of a type, that of an argument of an SQL function.
 * Errors: it is not a vector type, or its cast to real[] runs code of another user.
 */
extern VectorForm RequireVector(Oid type, const char *argument, const char *function);

/*
 * Makes a source of values of a type: those of the rows of a window partition, whose keys are their
 * numbers, from 1.  Errors: it is not a vector type, or not one of the metric.
 */
extern VectorSource *ResolveValues(Oid type, FastedMetric metric, const char *function);

/*
 * Sorts the rows of a source by a column, nulls last, and then by key.  Errors: no such column, or its
 * type has no order.
 */
extern void OrderSource(VectorSource *source, const char *column, bool descending);

/*
 * Partitions a source by a column: only rows with equal values are compared, and those with null are
 * skipped.  Errors: no such column, or its type has no default hash operator class.
 */
extern void PartitionSource(VectorSource *source, const char *column);

/*
 * If either of two joined sources has rows of doubles, makes both have them.  As in a join of the
 * planner, integer[] and the like and numeric[] are then converted to double precision[] without
 * rounding to real.
 */
extern void ShareElement(VectorSource *a, VectorSource *b);

/*
 * Returns true if the current user may read the column, by a privilege on the column or the
 * relation.
 */
extern bool MayRead(Oid relid, AttrNumber column);

/* Text for a key in messages: "id = 7". */
extern char *KeyName(const VectorSource *source, Datum key);

/*
 * Prepares comparisons by the default btree operator class of a type.  order must be zeroed, but
 * may have abbreviate set.  Allocates in context.
 */
extern void PrepareTypeOrder(Oid type, Oid collation, MemoryContext context, SortSupport order);

/*
 * Returns true if the type is a vector type.  Sets *function to the function that converts each
 * value or element, or to InvalidOid if none is called.
 */
extern bool FindVectorCast(Oid type, Oid *function);

/* Returns true if relations of this kind can be joined. */
extern bool IsSelectable(char relkind);

/* The type of a vector form. */
static inline Oid
VectorFormType(VectorForm form)
{
	return form == VECTOR_FLOAT4 ? FLOAT4ARRAYOID :
		form == VECTOR_FLOAT8 ? FLOAT8ARRAYOID :
		form == VECTOR_BIT ? VARBITOID : NUMERICARRAYOID;
}

/* The form of vectors of this base type; VECTOR_FLOAT4 if they are converted to real[]. */
static inline VectorForm
FormOfType(Oid type)
{
	return type == FLOAT8ARRAYOID ? VECTOR_FLOAT8 : type == NUMERICARRAYOID ? VECTOR_NUMERIC :
		type == BITOID || type == VARBITOID ? VECTOR_BIT : VECTOR_FLOAT4;
}

static inline FastedElement
ElementOfForm(VectorForm form)
{
	return form == VECTOR_FLOAT8 ? FASTED_ELEMENT_DOUBLE :
		form == VECTOR_BIT ? FASTED_ELEMENT_BIT : FASTED_ELEMENT_REAL;
}

/* --- arguments */

/* Raises the error for an argument that is NULL; the SQL functions are not STRICT. */
pg_noreturn extern void ReportNullArgument(const char *function, const char *name);

/* The least finite distance of any two vectors. */
static inline double
LeastDistance(FastedMetric metric)
{
	return fasted_metric_rules(metric)->least;
}

/* Raises an error if the argument is NaN, or below every distance. */
extern void RequireDistance(const char *argument, double distance, FastedMetric metric);

/* Raises an error unless this is the name of a metric. */
extern FastedMetric MetricFromText(const text *name);

/* Sets *metric to the metric of this name.  Returns false if there is none. */
extern bool FindMetric(const text *name, FastedMetric *metric);

/* The name of a metric in SQL. */
static inline const char *
MetricName(FastedMetric metric)
{
	return fasted_metric_rules(metric)->name;
}

/* For ereport: sets the SQLSTATE, message and hint of a metric that does not fit the type. */
extern int	errmetric(FastedMetric metric, Oid type);

/*
 * The greatest distance of vectors with this number of dimensions.  The query's eps need not be
 * greater than this.
 */
static inline double
GreatestDistance(FastedMetric metric, double dimensions)
{
	const MetricRules *rules = fasted_metric_rules(metric);

	return rules->is_count ? dimensions : rules->greatest;
}

/*
 * Numbers of the values of a partition column: equal values have the same number, from 0 in the order of
 * first use.  They serve other sources with the same type and collation, too.
 */
typedef struct GroupNumbers GroupNumbers;

extern GroupNumbers *GroupNumbersCreate(const VectorSource *source);
extern uint32 GroupNumberOf(GroupNumbers *numbers, Datum value);

/* Returns the number of different values so far. */
extern uint32 GroupNumbersCount(const GroupNumbers *numbers);

#endif							/* FASTED_SOURCE_H */
