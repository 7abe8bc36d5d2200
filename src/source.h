/*-------------------------------------------------------------------------
 *
 * source.h
 *	  What is joined: a relation, its vector column and its key column.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_H
#define FASTED_SOURCE_H

/* How a vector arrives in a tuple; other types are cast to real[] by SQL. */
typedef enum VectorForm
{
	VECTOR_FLOAT4,
	VECTOR_FLOAT8
} VectorForm;

typedef struct VectorSource
{
	char	   *relation;		/* name for messages, without schema */
	char	   *key_column;		/* NULL: rows have no key, but a zero in its place */
	char	   *vector_column;
	VectorForm	form;
	Oid			key_type;		/* of the result's id_a and id_b */
	Oid			key_collation;
	char	   *query;			/* SELECT key, vector FROM relation */

	/*
	 * The same in pieces, for a query around it: the columns, the expressions
	 * over them, and those over columns named k and v instead.
	 */
	char	   *qualified_name;
	char	   *key_expression;
	char	   *vector_expression;
	char	   *outer_key_expression;
	char	   *outer_vector_expression;
	Oid			relid;
} VectorSource;

/*
 * Finds the columns and writes the query that reads them.  id_column NULL means
 * the single-column primary key.  Locks the relation as SELECT would, until the
 * end of the transaction.  Does not check privileges: the query itself does,
 * when it runs.  Errors: no such relation or column, not something to select
 * from, a column that is no vector, no usable key, a key that does not convert
 * to key_type.  Allocates in the current memory context.
 *
 * key_type InvalidOid: ids are wanted for messages only, so a primary key is read
 * where there is one that the current user may read, as whatever type it has.
 */
extern VectorSource *ResolveSource(Oid relid, const char *vector_column,
								   const char *id_column, Oid key_type);

#endif							/* FASTED_SOURCE_H */
