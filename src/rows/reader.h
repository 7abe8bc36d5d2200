/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  Rows in: reads keys and vectors through the planner and the executor.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_READER_H
#define FASTED_READER_H

#include "executor/tuptable.h"
#include "rows/source.h"

struct PlannedStmt;

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

/* The planner's guess of how many rows that are. */
extern uint64 RowsToRead(const VectorSource *source);

/*
 * Calls take for the keys of all rows with a vector, in the source's order, in the active
 * snapshot.  A key by reference is valid until take returns, and so is what take allocates.
 * The source must be one whose order is read apart (order_apart).
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

/* Allocates in the current memory context. */
extern RowTaker *CreateRowTaker(const VectorSource *source, RowSink *sink);

/*
 * Takes the row in a slot, if it has a vector, or raises the error that it deserves.
 * False: the sink takes no more rows.
 */
extern bool TakeSlot(RowTaker *taker, TupleTableSlot *slot);

/* The same of a row whose vector, as bytes, is not null (ArrayFromBytes). */
extern bool TakeBytes(RowTaker *taker, Datum key, bool key_isnull, Datum bytes);

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

#endif							/* FASTED_READER_H */
