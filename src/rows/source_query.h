/*-------------------------------------------------------------------------
 *
 * source_query.h
 *	  The query that reads a source: made, planned, run.
 *
 * It is made as a tree, of OIDs: no name is looked up anew, so that it reads the
 * very relation and columns that were resolved, by the very casts and functions,
 * whatever others rename or define meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_SOURCE_QUERY_H
#define FASTED_SOURCE_QUERY_H

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "rows/source.h"
#include "tcop/dest.h"

/*
 * SELECT key, vector FROM relation; the key by its type, the vector in its form; in
 * the source's order, if rows are to come in it.  With a column that makes groups, its
 * values are the third column.  as_bytes: vectors come as bytea, if their form has such
 * (ArrayFromBytes).
 */
extern Query *MakeSourceQuery(const VectorSource *source, bool as_bytes);

/* The same as text, for whoever logs or shows it. */
extern char *QueryText(const VectorSource *source);

/* Is the order of a column that of its values as another type?  Then an index on the column has it. */
extern bool CastKeepsOrder(Oid from, Oid to);

/* SELECT key FROM relation WHERE vector IS NOT NULL, in the source's order. */
extern Query *MakeOrderQuery(const VectorSource *source);

/*
 * SELECT key, hash_function(vector) FROM relation, in the source's order if it has one, else
 * in that of the keys; the function takes the vector's array and returns bigint.
 */
extern Query *MakeHashQuery(const VectorSource *source, Oid hash_function);

/*
 * Rewrites (views, row security) and plans.  Errors: a view that locks the rows that
 * it reads (FOR UPDATE), which a function that is not volatile may not do.
 */
extern PlannedStmt *PlanQuery(const VectorSource *source, Query *query, int cursor_options);

/*
 * The source's query, without parallel workers.  If Citus is to fetch the rows, vectors come
 * as bytes where they can.
 */
extern PlannedStmt *PlanSource(const VectorSource *source);

/* The planner's guess at the number of rows. */
extern uint64 PlannedRows(const PlannedStmt *plan);

/* What is done with each tuple of a query; false: no more tuples are wanted. */
typedef bool (*TupleCallback) (void *arg, TupleTableSlot *slot);

/* Runs the plan in the active snapshot, as the current user. */
extern void RunPlan(const VectorSource *source, PlannedStmt *plan, TupleCallback take, void *arg);

/* What it does so with, so that no copy of the tuples piles up. */
typedef struct TupleReceiver
{
	DestReceiver base;
	TupleCallback take;
	void	   *arg;
} TupleReceiver;

extern void InitTupleReceiver(TupleReceiver *receiver, TupleCallback take, void *arg);

/*
 * A plan whose top is a Gather, in a GUC nest level of the caller's, in which it
 * must be executed too.  NULL: workers may not be used, or don't pay.  rows is the
 * planner's estimate for the source's own query.
 */
extern PlannedStmt *PlanParallelRead(const VectorSource *source, uint64 rows);

/* In the caller's GUC nest level. */
extern void SetForThisQuery(const char *name, const char *value);

/* Once, when the library is loaded. */
extern void InstallPlannerHook(void);

/*
 * What a SELECT from a relation comes to: the relations that it names, by way of
 * views too, and whether it may run while parallel workers are at work.  False:
 * there is no such relation or column, or it is not one to select from.
 */
typedef struct SourceFacts
{
	List	   *relations;		/* OIDs */
	bool		parallel_safe;	/* but maybe for the leader only */
	bool		by_role;		/* row security makes it depend on the user */
} SourceFacts;

extern bool FindSourceFacts(Oid relid, const char *vector_column, SourceFacts *facts);

/* The relations alone; NIL: there is no such relation, or none to select from. */
extern List *FindSourceRelations(Oid relid);

#endif							/* FASTED_SOURCE_QUERY_H */
