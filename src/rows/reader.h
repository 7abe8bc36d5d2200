/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Rows in: reads keys and vectors through the planner and the executor.  Declares what
 *	  reader.c and intake.c define.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_READER_H
#define FASTED_READER_H

#include "executor/tuptable.h"
#include "nodes/parsenodes.h"
#include "rows/source.h"

struct PlannedStmt;

/* --- rows, checked and converted */

/*
 * Where the rows of a source go: into a join, or into a sample.
 *
 * The reader first calls expect_rows, with the planner's guess; set_dimensions with the first
 * vector and the name of its row; then room_for_rows, which tells where vectors go and for how
 * many there is room (none: stop reading), and take_rows with the keys of as many of them as it
 * wrote there.  Rows are of doubles where the source's element is (engine.h).
 */
typedef struct RowSink RowSink;
struct RowSink
{
	/* Rows must come in the same order each time, so no workers may read. */
	bool		in_order;

	void		(*expect_rows) (RowSink *sink, uint64 rows);
	void		(*set_dimensions) (RowSink *sink, int dimensions, const char *row_name);
	size_t		(*room_for_rows) (RowSink *sink, float **room);
	void		(*take_rows) (RowSink *sink, const Datum *keys, size_t nrows);

	/*
	 * Of a source with partitions, instead of set_dimensions: called for each row before its
	 * room is asked for.
	 */
	void		(*begin_row) (RowSink *sink, Datum partition, int dimensions, Datum key);

	/*
	 * A shorter way for rows that lie in memory already, NULL where there is
	 * none.  After lend, and before withdraw, take_block takes the first of nrows
	 * rows in that memory and says how many, which may be read until settle (engine.h); if
	 * it takes none, rows go the usual way.
	 */
	void		(*lend) (RowSink *sink, void *memory, size_t bytes);
	size_t		(*take_block) (RowSink *sink, const float *rows, const Datum *keys, size_t nrows);
	void		(*settle) (RowSink *sink, bool all);
	void		(*withdraw) (RowSink *sink);

	/* For statistics: so many of the rows were read by parallel workers. */
	void		(*read_by_workers) (RowSink *sink, int nworkers, uint64 rows);
};

/*
 * Runs the source's query and gives each of its rows that has a vector to the
 * sink.  The query runs as the current user, in the active snapshot: table and
 * column privileges, row security and views apply as to any SELECT.  Where rows come
 * in the source's order, no workers read.
 */
extern void ReadVectors(const VectorSource *source, RowSink *sink);

/*
 * Calls take for the keys of all rows with a vector, in the source's order, in the active
 * snapshot.  What take allocates is freed when it returns.  The source must be one whose order
 * is read apart (order_apart).
 *
 * To have rows come in order, PostgreSQL would sort them with their vectors, and no worker
 * could read.  To read keys once more in order costs a look at each row, but not at vectors
 * that are stored out of line.
 */
extern void ReadOrder(const VectorSource *source, void (*take) (void *arg, Datum key), void *arg);

/* --- from the tuples of a query to their sink: checks, conversion, errors */

/* Columns of the query that reads a source. */
#define KEY_COLUMN 0
#define VECTOR_COLUMN 1
#define PARTITION_COLUMN 2

typedef struct RowTaker
{
	const VectorSource *source;
	RowSink    *sink;
	Datum		partition;		/* the row's, if the source has partitions */
	MemoryContext row_context;	/* what detoasting leaves; reset for each row */
	uint64		tuples;			/* rows that came by themselves */
	int			dimensions;		/* of the first vector; zero before it */
	char	   *first_row_name;
	bool		stopped;		/* the sink takes no more rows */
} RowTaker;

/*
 * Takes a row whose vector is not null, or raises the error that it deserves.  as_bytes: the
 * vector is a bytea (ArrayFromBytes).  False: the sink takes no more rows.
 */
extern bool TakeSourceRow(RowTaker *taker, Datum key, bool key_isnull, Datum vector, bool as_bytes);

/* A TupleCallback with a RowTaker: takes the row in a slot, if it has a vector. */
extern bool TakeSlot(void *taker, TupleTableSlot *slot);

/*
 * Raises an error unless a row has as many dimensions as the first one, or, with partitions,
 * as many as the sink wants.
 */
extern void CheckDimensions(RowTaker *taker, int dimensions, Datum key);

/* --- parallel workers: intake.c */

/* Registers the plan node by which workers give rows to the leader; once, when the library is loaded. */
extern void InstallIntakeNode(void);

/*
 * Runs a plan whose top is a Gather, with that node below it, and gives the rows to the taker's
 * sink, which it tells how many workers read.  In the GUC nest level in which it was planned.
 */
extern void RunIntakePlan(struct PlannedStmt *plan, RowTaker *taker);

/* --- the query that reads a source */

/*
 * The query is made as a tree, of OIDs: no name is looked up anew, so that it reads the
 * very relation and columns that were resolved, by the very casts and functions,
 * whatever others rename or define meanwhile.
 */

/* What a query reads of each row beside its key. */
typedef enum SourceValue
{
	VALUE_VECTOR,				/* the vector in its form, and the value of the partition column */
	VALUE_BYTES,				/* the same, the vector as bytea if its form has such (ArrayFromBytes) */
	VALUE_HASH,					/* the vector's hash (VectorHashFunction) */
	VALUE_NONE					/* nothing, and only rows that have a vector */
} SourceValue;

/*
 * SELECT key, value FROM relation.  Vectors come in the source's order if rows are to come in
 * it, hashes in the source's order or else in that of the keys, keys alone in the source's order.
 */
extern Query *MakeSourceQuery(const VectorSource *source, SourceValue value);

/* Is the order of a column that of its values as another type?  Then an index on the column has it. */
extern bool CastKeepsOrder(Oid from, Oid to);

/*
 * Rewrites (views, row security) and plans.  Errors: a view that locks the rows that
 * it reads (FOR UPDATE), which a function that is not volatile may not do.
 */
extern struct PlannedStmt *PlanQuery(const VectorSource *source, Query *query, int cursor_options);

/*
 * The source's query, without parallel workers.  If Citus is to fetch the rows, vectors come
 * as bytes where they can.
 */
extern struct PlannedStmt *PlanSource(const VectorSource *source);

/* The planner's guess at the number of rows. */
extern uint64 PlannedRows(const struct PlannedStmt *plan);

/* What is done with each tuple of a query; false: no more tuples are wanted. */
typedef bool (*TupleCallback) (void *arg, TupleTableSlot *slot);

/* Runs the plan in the active snapshot, as the current user. */
extern void RunPlan(const VectorSource *source, struct PlannedStmt *plan,
					TupleCallback take, void *arg);

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

#endif							/* FASTED_READER_H */
