/*-------------------------------------------------------------------------
 *
 * scan_conditions.h
 *	  Conditions that are applied to pairs, before tuples are formed.
 *
 * dist <= x and its like, where x does not depend on the row, and comparisons
 * of id_a with id_b for integer ids.  Conditions of other kinds remain with the
 * executor.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SCAN_CONDITIONS_H
#define FASTED_SCAN_CONDITIONS_H

#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

/* In a plan. */
typedef struct PairConditions
{
	List	   *dist_operators; /* of dist <operator> bound, OidList */
	List	   *dist_bounds;	/* expressions of type float8, as many */
	List	   *id_operators;	/* of id_a <operator> id_b, OidList */
} PairConditions;

/* At run time: least <= dist <= most, and which orders of ids pass. */
typedef struct PairFilter
{
	double		least;
	double		most;
	bool		below;			/* id_a < id_b passes */
	bool		equal;
	bool		above;
} PairFilter;

/* Takes the clauses that it can; returns those that are left. */
extern List *TakeConditions(List *clauses, Index relid, PairConditions *conditions);

/* bounds: the ExprStates of dist_bounds. */
extern PairFilter EvaluateConditions(const PairConditions *conditions, List *bounds,
									 ExprContext *econtext);

/* "dist < 0.5 AND id_a < id_b" with the bounds as texts; NULL: no condition. */
extern char *ConditionsText(const PairConditions *conditions, List *bound_texts);

#endif							/* FASTED_SCAN_CONDITIONS_H */
