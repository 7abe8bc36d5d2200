/*-------------------------------------------------------------------------
 *
 * join_order.h
 *	  Clauses that put the rows of a pair in order: a.x < b.x, of one column.
 *
 * In a join of a relation with itself such a clause says of each pair which of its
 * rows is the outer one, if any, and that no row meets itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_ORDER_H
#define FASTED_JOIN_ORDER_H

#include "nodes/pathnodes.h"
#include "utils/sortsupport.h"

typedef struct RowOrder
{
	RestrictInfo *rinfo;
	Var		   *left;			/* comes before the right one */
	Var		   *right;
	Oid			operator;		/* as it is written */
	Oid			collation;
} RowOrder;

/* Is the clause such a one, of one column of two relations by one name each? */
extern bool RecognizeRowOrder(PlannerInfo *root, RestrictInfo *rinfo, RowOrder *order);

/* Are no two rows alike in that column of the table, so that each pair has an order? */
extern bool IsTotalOrder(PlannerInfo *root, const RelOptInfo *rel, const RowOrder *order);

/* Prepares to compare values of the column as the operator does: negative, if it is true. */
extern SortSupport BeginRowOrder(Oid operator, Oid collation);

#endif							/* FASTED_JOIN_ORDER_H */
