/*-------------------------------------------------------------------------
 *
 * nearest.h
 *	  fasted_knn_join: the k nearest rows of one relation for each row of another.
 *
 *	  nearest_function.c	the SQL functions: arguments in, rows stored
 *	  nearest_sources.c		the relations that are read
 *	  nearest_run.c			reads and joins; rows as soon as a row of a has all of its own
 *	  nearest_support.c		what the planner asks about the functions
 *	  nearest_node.h		the plan node in the place of a call in FROM
 *
 * Rows come in any order, and by parallel workers.  Then the ids of b are ranked, and of
 * rows at the same distance the engine takes those with the lower ranks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_NEAREST_H
#define FASTED_NEAREST_H

#include "engine/engine.h"
#include "fmgr.h"
#include "join/join.h"
#include "scan/estimate.h"

/* Columns of the result: id_a, id_b, dist, rank. */
#define NEAREST_NCOLUMNS 4

/* One of the two relations. */
typedef struct NearestSide
{
	Oid			relation;
	char	   *vector_column;
	char	   *id_column;		/* NULL: the primary key */
} NearestSide;

typedef struct NearestArgs
{
	Oid			key_type;
	NearestSide a;
	NearestSide b;
	uint32		k;
	FastedMetric metric;
	double		max_distance;	/* infinite: there is no limit */
	char	   *partition_by;	/* the column that must be equal; NULL: none */
} NearestArgs;

/* What is read; b is NULL where it is a's other rows that are wanted. */
typedef struct NearestSources
{
	VectorSource *a;
	VectorSource *b;
} NearestSources;

/*
 * Takes and checks the arguments; first is the position of "a" in the list, 0 or 1.
 * Uses nothing of fcinfo but args.
 */
extern NearestArgs GetNearestArgs(FunctionCallInfo fcinfo, int first, Oid key_type);

/* nearest_sources.c */
extern NearestSources ResolveNearestSources(const NearestArgs *args);

/* The two functions, by which the planner's hook knows a call of them. */
extern Datum fasted_knn_join(PG_FUNCTION_ARGS);
extern Datum fasted_knn_join_typed(PG_FUNCTION_ARGS);

#endif							/* FASTED_NEAREST_H */
