/*-------------------------------------------------------------------------
 *
 * grouping.h
 *	  Functions that return one row for each row with a vector, by its pairs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUPING_H
#define FASTED_GROUPING_H

#include "fmgr.h"
#include "join/join.h"

/* Arguments after the optional id_type, by position; id_column is the last one. */
enum
{
	GROUP_RELATION,
	GROUP_COLUMN,
	GROUP_EPS,
	GROUP_OWN					/* from here on: each function's own */
};

typedef struct GroupArgs
{
	const char *function;		/* its name for messages */
	int			first;			/* position of "relation": 0, or 1 after id_type */
	Oid			relation;
	char	   *vector_column;
	double		eps;
	char	   *id_column;		/* NULL: the primary key */
	Oid			key_type;
	char	   *order_column;	/* see OrderSource; NULL */
	bool		descending;
} GroupArgs;

/*
 * Takes and checks the arguments that all functions have; typed: id_type is before
 * them.  An argument of the function's own is number args.first + GROUP_OWN + n.
 */
extern GroupArgs GetGroupArgs(FunctionCallInfo fcinfo, const char *function, bool typed);

/* The rows that take part. */
typedef struct GroupRows
{
	const KeySet *keys;
	uint32		count;
	const uint32 *by_id;		/* row numbers in order of id; NULL: they are in it */
} GroupRows;

/* The row at this place in the order of ids. */
static inline uint32
RowById(const GroupRows *rows, uint32 place)
{
	return rows->by_id == NULL ? place : rows->by_id[place];
}

/*
 * What a function makes of the pairs.  Its calls, in one memory context that lives
 * until the last of them: begin; take with each batch of pairs, or count with the
 * number of pairs that each row has; finish, when there are no more and the engine is
 * gone; and result for each row, in order of id, which sets the columns behind the id.
 */
typedef struct Grouping Grouping;
struct Grouping
{
	void		(*begin) (Grouping *grouping, const GroupRows *rows);
	void		(*take) (Grouping *grouping, const FastedPair *pairs, size_t npairs);
	void		(*count) (Grouping *grouping, const uint32 *counts);	/* instead of take, or NULL */
	void		(*finish) (Grouping *grouping);	/* or NULL */
	void		(*result) (Grouping *grouping, uint32 row, Datum *values, bool *nulls);
};

/* Reads, joins, groups, and stores the rows as the function's result. */
extern void RunGrouping(FunctionCallInfo fcinfo, const GroupArgs *args, Grouping *grouping);

/* Pairs, or rows, between two looks for interrupts: about a millisecond. */
#define GROUP_STRIDE (64 * 1024)

#endif							/* FASTED_GROUPING_H */
