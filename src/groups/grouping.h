/*-------------------------------------------------------------------------
 *
 * grouping.h
 *	  Functions that return one row for each row with a vector, by its pairs.
 *
 *	  group_function.c	the SQL functions: arguments in, rows stored
 *	  group_run.c		reads, joins, groups; then rows in order of id
 *	  group_support.c	what the planner asks about the functions
 *	  group_node.h		the plan node in the place of a call in FROM
 *
 *	  neighbors.c, dbscan.c, keepers.c		what each function makes of the pairs
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_GROUPING_H
#define FASTED_GROUPING_H

#include "engine/engine.h"
#include "join/row_set.h"

/* Columns of a result: an id and at most two of the function's. */
#define GROUP_MOST_COLUMNS 3

/* The rows that take part. */
typedef struct GroupRows
{
	const KeySet *keys;
	uint32		count;
	const uint32 *by_id;		/* row numbers in order of id; NULL: they are in it */
	const uint32 *order;		/* places in the source's order, where that is known; or NULL */
} GroupRows;

/* The row at this place in the order of ids. */
static inline uint32
RowById(const GroupRows *rows, uint32 place)
{
	return rows->by_id == NULL ? place : rows->by_id[place];
}

/*
 * What a function makes of the pairs.  Its calls, in one memory context that lives
 * until the last of them: begin; take with each batch of pairs; count with the number of
 * pairs that each row has, where the engine counts them; finish, when there are no more
 * and the engine is gone; and result for each row, in order of id, which sets the columns
 * behind the id.  All results may be asked for once more, from the first on.
 *
 * It says what it wants of the engine: pairs, counts, connections or keepers (engine.h).
 * Instead of the latter two it may get all pairs, uncounted.  For keepers it is asked for
 * ranks before all else.
 */
typedef struct Grouping Grouping;
struct Grouping
{
	const uint32 *(*rank) (Grouping *grouping, const GroupRows *rows);	/* or NULL */
	void		(*begin) (Grouping *grouping, const GroupRows *rows);
	void		(*take) (Grouping *grouping, const FastedPair *pairs, size_t npairs);
	void		(*count) (Grouping *grouping, const uint32 *counts);	/* or NULL */
	void		(*finish) (Grouping *grouping);	/* or NULL */
	void		(*result) (Grouping *grouping, uint32 row, Datum *values, bool *nulls);

	FastedOutput output;
	uint32		core_pairs;		/* of connections */
	bool		reduced;		/* it gets these, and not all pairs; known when it begins */

	/* For statistics: the most room that pairs took, and how many were in a file. */
	uint64		pair_bytes;
	uint64		filed_pairs;
};

/* Pairs, or rows, between two looks for interrupts: about a millisecond. */
#define GROUP_STRIDE (64 * 1024)

#endif							/* FASTED_GROUPING_H */
