/*-------------------------------------------------------------------------
 *
 * group_function.h
 *	  The SQL functions that group rows: what they have in common, and their list.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUP_FUNCTION_H
#define FASTED_GROUP_FUNCTION_H

#include "fmgr.h"
#include "groups/grouping.h"

/*
 * Arguments after the optional id_type, by position.  Behind them come the function's
 * own, and then id_column, metric and partition_by.
 */
enum
{
	GROUP_RELATION,
	GROUP_COLUMN,
	GROUP_EPS,
	GROUP_OWN					/* from here on: each function's own */
};

#define GROUP_MOST_OWN 2
#define GROUP_MOST_ARGS (1 + GROUP_OWN + GROUP_MOST_OWN + 3)

typedef struct GroupFunction GroupFunction;

typedef struct GroupArgs
{
	const GroupFunction *function;
	int			first;			/* position of "relation": 0, or 1 after id_type */
	Oid			key_type;
	Oid			relation;
	char	   *vector_column;
	double		eps;
	FastedMetric metric;
	char	   *id_column;		/* NULL: the primary key */
	char	   *partition_by;	/* see GroupSource; NULL: all rows meet */
	char	   *order_column;	/* see OrderSource; NULL */
	bool		descending;
} GroupArgs;

struct GroupFunction
{
	const char *name;			/* for messages */
	PGFunction	plain;
	PGFunction	typed;			/* with id_type */
	int			nown;			/* arguments of its own */
	const char *own_labels[GROUP_MOST_OWN]; /* for EXPLAIN */
	int			ncolumns;		/* of the result */
	Oid			columns[GROUP_MOST_COLUMNS];	/* types; InvalidOid: that of the ids */

	/*
	 * Takes and checks the function's own arguments: number args->first + GROUP_OWN + n.
	 * The result is in the current memory context.
	 */
	Grouping   *(*prepare) (FunctionCallInfo fcinfo, GroupArgs *args);
};

extern const GroupFunction group_neighbors;
extern const GroupFunction group_cluster;
extern const GroupFunction group_keep_one;

static inline int
GroupIdColumn(const GroupFunction *function)
{
	return GROUP_OWN + function->nown;
}

static inline int
GroupMetric(const GroupFunction *function)
{
	return GROUP_OWN + function->nown + 1;
}

static inline int
GroupPartitionBy(const GroupFunction *function)
{
	return GROUP_OWN + function->nown + 2;
}

/* Without id_type. */
static inline int
GroupArgCount(const GroupFunction *function)
{
	return GROUP_OWN + function->nown + 3;
}

/*
 * Takes and checks the arguments that all functions have; first: the position of
 * "relation", 0 or 1.  Uses nothing of fcinfo but args.
 */
extern GroupArgs GetGroupArgs(FunctionCallInfo fcinfo, const GroupFunction *function,
							  int first, Oid key_type);

/* Runs the SQL function, in either form, and stores its rows. */
extern Datum RunGroupFunction(FunctionCallInfo fcinfo, const GroupFunction *function, bool typed);

#endif							/* FASTED_GROUP_FUNCTION_H */
