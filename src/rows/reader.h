/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Reads the keys and vectors of a source through the planner and the executor.  Declares
 *	  the functions of reader.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_READER_H
#define FASTED_READER_H

#include "executor/tuptable.h"
#include "nodes/parsenodes.h"
#include "nodes/pathnodes.h"
#include "rows/source.h"

struct PlannedStmt;

/* --- rows, checked and converted */

/*
 * Destination of the rows of a source: a join or a sample.
 *
 * The reader calls expect_rows with the planner's estimate, then set_dimensions with the
 * dimensions of the first vector and the name of its row.  It then alternates between two calls.
 * buffer_for_rows returns a buffer and the number of rows that fit (0: stop reading). take_rows
 * passes the keys of the rows written to that buffer.  Its rows have the source's element type
 * (engine.h).
 */
typedef struct RowSink RowSink;
struct RowSink
{
	/* Rows must come in the same order each time, so parallel workers must not read. */
	bool		in_order;

	void		(*expect_rows) (RowSink *sink, uint64 rows);
	void		(*set_dimensions) (RowSink *sink, int dimensions, const char *row_name);
	size_t		(*buffer_for_rows) (RowSink *sink, float **buffer);
	void		(*take_rows) (RowSink *sink, const Datum *keys, size_t nrows);

	/*
	 * Replaces set_dimensions for a source with partitions.  Called for each row before
	 * buffer_for_rows.
	 */
	void		(*begin_row) (RowSink *sink, Datum partition, int dimensions, Datum key);

	/*
	 * Optional functions for rows that are in memory already; NULL if not supported.
	 * register_memory registers the memory, and unregister_memory unregisters it.  Between the two
	 * calls, take_block takes the first of nrows rows in that memory and returns how many it took;
	 * these may be read until wait_read (engine.h).  If it returns 0, the caller uses
	 * buffer_for_rows and take_rows.
	 */
	void		(*register_memory) (RowSink *sink, void *memory, size_t bytes);
	size_t		(*take_block) (RowSink *sink, const float *rows, const Datum *keys, size_t nrows);
	void		(*wait_read) (RowSink *sink, bool all);
	void		(*unregister_memory) (RowSink *sink);

	/* Statistics, set by the reader: parallel workers, and rows that they have read. */
	int			nworkers;
	uint64		worker_rows;
};

/*
 * Runs the source's query and passes each row that has a vector to the sink.  The query runs
 * as the current user, in the active snapshot.  Table and column privileges, row security and
 * views apply as to any SELECT.  No workers are used if rows come in the source's order.
 */
extern void ReadVectors(const VectorSource *source, RowSink *sink);

/* --- from the tuples of a query to the sink: checks, conversion, errors */

/* Columns of the query that reads a source, numbered from 0. */
#define KEY_COLUMN 0
#define VECTOR_COLUMN 1
#define PARTITION_COLUMN 2

typedef struct RowTaker
{
	const VectorSource *source;
	RowSink    *sink;
	Datum		partition;		/* partition of the current row, if the source has partitions */
	MemoryContext row_context;	/* for detoasted values; reset for each row */
	bool		has_vectors;	/* slots have vectors of the source's form, whatever type they declare */
	Oid			value_type;		/* of the last value that was converted; InvalidOid before it */
	struct ExprState *cast;		/* from that type; NULL: values are vectors already */
	struct ExprContext *econtext;	/* of the cast */
	struct RowBatch *batch;		/* rows that wait for their vectors; NULL: there is none */
	uint64		tuples;			/* rows received as tuples */
	int			dimensions;		/* of the first vector; 0 before it */
	char	   *first_row_name;
	bool		stopped;		/* the sink takes no more rows */
} RowTaker;

/* Creates a taker in the current memory context, whose deletion ends it. */
extern RowTaker *RowTakerCreate(const VectorSource *source, RowSink *sink);

/*
 * Passes one row to the sink, unless its value is null after the cast to a vector.  The value is of
 * the source's vector type or of the type of its form.  Returns false if the sink
 * takes no more rows.  Errors: a null key, an invalid vector.
 */
extern bool TakeSourceRow(RowTaker *taker, Datum key, bool key_isnull, Datum value, bool isnull, Oid type);

/* Casts an expression to the type of a form; returns it unchanged if its values are such vectors already. */
extern Expr *CastToVector(Expr *value, VectorForm form);

/*
 * TupleCallbacks for a RowTaker: pass the row in the slot to the sink, if it has a vector; the second
 * one in batches (row_batch.h), of which TakeBatch passes the rows that still wait.  All return false if
 * the sink takes no more rows.
 */
extern bool TakeSlot(void *taker, TupleTableSlot *slot);
extern bool TakeSlotInBatch(void *taker, TupleTableSlot *slot);
extern bool TakeBatch(RowTaker *taker);

/*
 * Calls set_dimensions for the first row, or begin_row for each row of a source with partitions.
 * Raises an error if there are too many dimensions, or if they differ from the first row's.
 */
extern void CheckDimensions(RowTaker *taker, int dimensions, Datum key);

/* --- parallel workers, whose rows input_queue.h passes on */

/* Returns the number of workers for a scan of a table, by its size including the TOAST table. */
extern int	CountScanWorkers(Oid relid, const RelOptInfo *rel);

/* --- the query that reads a source */

/*
 * The query is built as a tree of OIDs.  So it reads exactly the relation and columns, and calls
 * exactly the casts and functions, that were resolved, even if others rename objects or
 * create new ones meanwhile.
 */

/*
 * Makes SELECT key, vector [, partition] FROM relation.  The rows come in the source's order, if it
 * has one.  If function is valid, it is called with each vector, and its
 * result is selected instead.
 */
extern Query *MakeSourceQuery(const VectorSource *source, Oid function);

/* Makes SELECT key FROM relation, of the rows with a vector, in the source's order. */
extern Query *MakeOrderQuery(const VectorSource *source);

/* Returns true if values keep their order in this cast, so that an index on the column can sort them. */
extern bool CastKeepsOrder(Oid from, Oid to);

/*
 * Rewrites the query (views, row security) and plans it.  Errors: a view that locks rows
 * (FOR UPDATE), which is not allowed in a function that is not volatile.
 */
extern struct PlannedStmt *PlanQuery(const VectorSource *source, Query *query, int cursor_options);

/* Plans the source's query without parallel workers. */
extern struct PlannedStmt *PlanSource(const VectorSource *source);

/* The planner's estimate of the number of rows, at most FASTED_MAX_ROWS. */
extern uint64 PlannedRows(const struct PlannedStmt *plan);

/* Called for each tuple of a query; returns false if no more tuples are wanted. */
typedef bool (*TupleCallback) (void *arg, TupleTableSlot *slot);

/* Runs the plan in the active snapshot, as the current user. */
extern void RunPlan(const VectorSource *source, struct PlannedStmt *plan,
					TupleCallback take, void *arg);

/* Sets a parameter in the caller's GUC nest level. */
extern void SetForThisQuery(const char *name, const char *value);

/* Installs the planner hook; called once, when the library is loaded. */
extern void InstallPlannerHook(void);

/*
 * Facts about a SELECT from a relation: the relations that it reads, including those below
 * views, and whether it may run in parallel mode.  FindSourceFacts returns false if the relation
 * or column does not exist, or is not of a kind to select from.
 */
typedef struct SourceFacts
{
	List	   *relations;		/* OIDs */
	bool		parallel_safe;	/* may run in parallel mode, perhaps in the leader only */
	bool		by_role;		/* row security makes the plan depend on the user */
} SourceFacts;

extern bool FindSourceFacts(Oid relid, const char *vector_column, SourceFacts *facts);

/*
 * Estimates the number of rows that have a vector, and the cost of reading them, by the planner.
 * Returns false as FindSourceFacts, and if the current user may not read the column.
 */
extern bool EstimateSource(Oid relid, const char *vector_column, double *rows, Cost *cost);

/* --- an extension that distributes joins over other servers, and reads their tables */

struct JoinRequest;
struct VectorJoin;

/*
 * distribute: starts a distributed join of the request's sources.  Returns false if this is not possible
 * or not wanted.  Otherwise it adds the rows' keys to the join's `keys` and finishes them, and sets
 * the join's backend, distributed, output and order.  Memory and connections belong to the current
 * memory context, and the sources outlive the join.  Raises an error if a server is unreachable.
 * read: passes all rows of the taker's source to the taker.  Returns false if the plan, that of the
 * source's query, is to be run instead; then nothing was read.
 * label: the label of the servers' shares in EXPLAIN.
 */
typedef struct JoinDistributor
{
	bool		(*distribute) (struct VectorJoin *join, const struct JoinRequest *request);
	bool		(*read) (RowTaker *taker, const struct PlannedStmt *plan);
	const char *label;
} JoinDistributor;

/* The distributor whose library this session has loaded, which has set it; or NULL. */
extern const JoinDistributor *join_distributor;

extern void RegisterDistributor(const JoinDistributor *distributor);

/*
 * Returns the distributor if its extension exists in this database, else NULL.  The first call
 * loads its library.  Error: the library cannot be loaded.
 */
extern const JoinDistributor *FindDistributor(void);

#endif							/* FASTED_READER_H */
