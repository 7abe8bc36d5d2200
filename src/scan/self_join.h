/*-------------------------------------------------------------------------
 *
 * self_join.h
 *	  The arguments of the SQL functions fasted_self_join.
 *
 * Shared by the functions, which materialise, and the scan node, which streams
 * (scan_node.h): both take the same arguments and raise the same errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SELF_JOIN_H
#define FASTED_SELF_JOIN_H

#include "engine/engine.h"
#include "fmgr.h"

/* Arguments after the optional id_type, by position. */
enum
{
	SELF_JOIN_RELATION,
	SELF_JOIN_COLUMN,
	SELF_JOIN_EPS,
	SELF_JOIN_ID_COLUMN,
	SELF_JOIN_ORDERED,
	SELF_JOIN_SELF_PAIRS,
	SELF_JOIN_METRIC,
	SELF_JOIN_PARTITION_BY,
	SELF_JOIN_NARGS
};

typedef struct SelfJoinArgs
{
	Oid			relation;
	char	   *vector_column;
	double		eps;
	char	   *id_column;		/* NULL: the primary key */
	bool		ordered;		/* both (a, b) and (b, a) */
	bool		self_pairs;		/* (a, a, 0) too */
	FastedMetric metric;
	char	   *partition_by;	/* see GroupSource; NULL: all rows meet */
} SelfJoinArgs;

/*
 * Takes and checks the arguments; first is the position of "relation" in the
 * list, 0 or 1.  Uses nothing of fcinfo but args.
 */
extern SelfJoinArgs GetSelfJoinArgs(FunctionCallInfo fcinfo, int first);

/* The two functions, by which the planner's hook knows a call of them. */
extern Datum fasted_self_join(PG_FUNCTION_ARGS);
extern Datum fasted_self_join_typed(PG_FUNCTION_ARGS);

#endif							/* FASTED_SELF_JOIN_H */
