/*-------------------------------------------------------------------------
 *
 * row_set.h
 *	  The rows of one side of a join: whoever has them pushes them.
 *
 * Vectors go to the engine, as long as it takes them, and else to a temporary file;
 * keys stay here.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_SET_H
#define FASTED_ROW_SET_H

#include "base/interrupts.h"
#include "join/engines.h"
#include "join/keys.h"
#include "rows/reader.h"
#include "rows/vector.h"

/*
 * Rows in a PostgreSQL temporary file, for sets beyond fasted.memory_limit: in temp_tablespaces,
 * counted by temp_file_limit, removed when the query ends in whatever way.
 */
typedef struct SpillFile SpillFile;

extern SpillFile *SpillCreate(size_t row_bytes);
extern void SpillAppend(SpillFile *spill, const float *rows, size_t nrows);
extern void SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows);
extern void SpillClose(SpillFile *spill);

typedef struct RowSet RowSet;
struct RowSet
{
	RowSink		sink;			/* where rows are pushed */
	EngineRun  *run;
	int			side;
	const VectorSource *source;
	MemoryContext context;
	Progress   *progress;

	/*
	 * Called with the first vector of a side, before room is asked for: it opens the
	 * engine, if the other side's has not.
	 */
	void		(*first_vector) (RowSet *set);
	void	   *owner;			/* for it */

	uint64		expected_rows;
	FastedElement element;		/* rows are of the same on both sides */
	uint32		dimensions;		/* of the first vector; zero before it */
	char	   *first_row_name; /* its id, for messages; NULL before it */
	uint64		count;			/* rows so far */
	KeySet	   *keys;			/* one for each row; NULL: the caller knows them */
	Fingerprint *print;			/* of the rows so far; NULL: nobody wants it */
	RowSet	   *other;			/* the join's other side, or NULL */
	SpillFile  *spill;			/* all rows, if they are too many; or NULL */

	/* Rows on their way into the engine, or into the file once it is full. */
	float	   *room;
	size_t		capacity;
	size_t		used;
	uint64		committed;		/* rows that the engine has */

	/* Memory that rows may be put from, and whether the engine takes them there. */
	void	   *lent;
	size_t		lent_bytes;
	bool		puts;
	uint64		put_rows;		/* that it took */

	int			nworkers;		/* parallel workers that read */
	uint64		worker_rows;	/* the rows they read */
	uint64		next_look;		/* at the clock: when that many rows are there */
};

/* Rows in memory, tightly packed. */
typedef struct RowArray
{
	FastedElement element;
	const float *rows;
	uint32		count;
	uint32		dimensions;
} RowArray;

/*
 * The keys are those of the source, which messages name; side as in panel_join.h.
 * Without a source there are no keys, and rows are of floats until somebody sets element.
 */
extern void RowSetInit(RowSet *set, EngineRun *run, int side, const VectorSource *source,
					   Progress *progress);

/* Pushes rows of an array, with their numbers as keys. */
extern void RowSetPushArray(RowSet *set, const RowArray *array);

/* Pushes a row.  False: the engine has failed, and a GPU's place will be taken. */
extern bool RowSetPush(RowSet *set, const float *row);

/* No further rows, or those of the other side first: those on their way go into the engine, or the file. */
extern void RowSetFlush(RowSet *set);

/* Feeds the rows that the engine asks for, which are in the file. */
extern void RowSetFeed(RowSet *set, uint64 first, uint64 count);

/* Empty again, for another engine. */
extern void RowSetReset(RowSet *set);

/* The rows of one or two sources, put in the order of their partitions: grouped_rows.c. */
typedef struct GroupedRows GroupedRows;

/* Reads one source or two; in the current memory context, with which it goes. */
extern GroupedRows *ReadGroupedRows(const VectorSource *const *sources, int sides);

/* The partitions that have rows on both sides, as the rows are pushed; in the same context. */
extern const FastedRowGroup *GroupsOfRows(const GroupedRows *rows, uint32 *ngroups);

/* Gives a side's rows of these partitions to the sink, if there are any; all, unless it stops. */
extern void PushGroupedRows(GroupedRows *rows, int side, RowSink *sink);

/* Of rows that were pushed: which one of the source each was.  In the current memory context. */
extern uint32 *OrderOfGroupedRows(const GroupedRows *rows, int side);

#endif							/* FASTED_ROW_SET_H */
