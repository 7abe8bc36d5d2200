/*-------------------------------------------------------------------------
 *
 * row_set.h
 *	  What a join consists of: the rows of its sides, their ids, and an engine at work.
 *
 * Whoever has the rows of a side pushes them.  Vectors go to the engine, as long as it takes
 * them, and else to a temporary file; keys stay here.
 *
 * Belongs to row_set.c, keys.c, grouped_rows.c and engines.c; join.h has what is made of them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_SET_H
#define FASTED_ROW_SET_H

#include "base/compat.h"
#include "base/guc.h"
#include "engine/panel_join.h"
#include "rows/reader.h"
#include "utils/sortsupport.h"

/* --- keys.c: the ids of the rows, by row number, and their order */

typedef struct KeySet
{
	const VectorSource *source;
	MemoryContext context;
	MemoryContext copies;		/* of keys that are no values */
	int16		typlen;
	bool		typbyval;
	SortSupportData order;

	Datum	   *values;			/* by row number */
	uint32		count;
	uint32		capacity;

	bool		ascending;		/* every key so far is above the one before */
	uint32	   *rank;			/* position in key order by row; NULL if ascending */
	struct IntegerRank *ranking;	/* which a thread finds still; or NULL */
	MemoryContext sorting;		/* what that takes */
	Datum	   *by_rank;		/* what KeySetInOrder made; or NULL */
} KeySet;

/* Allocates in a new child of the current memory context. */
extern KeySet *KeySetCreate(const VectorSource *source);
extern void KeySetAdd(KeySet *keys, const Datum *more, size_t n);
extern void KeySetReset(KeySet *keys);

/*
 * After the last key: finds the order.  Raises an error when two rows have the
 * same key, since then ids would not tell rows apart.
 */
extern void KeySetFinish(KeySet *keys);

/*
 * The same, in the end: where it takes long a thread does it, while the caller does something
 * else.  Nobody asks for the order before KeySetFinish.  KeySetLook is that, if no waiting is
 * left to do.
 */
extern void KeySetBeginFinish(KeySet *keys);
extern void KeySetLook(KeySet *keys);

/*
 * Instead: numbers the rows in the order of their keys.  The place that each row had before,
 * by its new number, in the keys' context.
 */
extern uint32 *KeySetSort(KeySet *keys);

/* The keys in their order.  After KeySetFinish; valid until KeySetReset. */
extern const Datum *KeySetInOrder(KeySet *keys);

/* Is row a's id below row b's?  After KeySetFinish. */
static inline bool
KeyBelow(const KeySet *keys, uint32 a, uint32 b)
{
	return keys->rank == NULL ? a < b : keys->rank[a] < keys->rank[b];
}

/* --- engines.c: which engine computes a join, and how its failures become errors */

typedef struct EngineRun
{
	MemoryContext context;		/* for an engine's last words */

	/* What is to be computed, with the settings as they are when the join begins. */
	EngineChoice choice;		/* the CPU, once a GPU has failed */
	AutoChoice	share;			/* among several of them */
	PanelProblem problem;

	const FastedEngine *engine; /* NULL before the first vector */
	PanelJoin  *join;			/* NULL once it is closed */
	FastedOutput output;		/* all pairs, where the engine does not have what was asked */
	bool		fallible;		/* "auto" chose a GPU: the CPU can still do it */
	bool		failed;			/* and the GPU did fail */
} EngineRun;

/* Takes the settings; whatever changes them while rows are read, these hold. */
extern void EngineRunInit(EngineRun *run);

/* Chooses an engine and opens a join there, of rows of that many dimensions. */
extern void EngineRunOpen(EngineRun *run);

/* No pair has been given yet, or none of this round of pairs. */
extern void EngineRunAgain(EngineRun *run);

/*
 * Reports a failure of the engine; returns other statuses.  While the CPU can
 * still take over, the failure is only noted (failed) and returned, and the engine
 * is closed.
 */
extern FastedStatus EngineRunCheck(EngineRun *run, FastedStatus status);

/* May be called twice. */
extern void EngineRunClose(EngineRun *run);

/* --- row_set.c: the rows of a side */

/*
 * Rows in a PostgreSQL temporary file, for sets beyond fasted.memory_limit: in temp_tablespaces,
 * counted by temp_file_limit, removed when the query ends in whatever way.
 */
typedef struct SpillFile SpillFile;

extern SpillFile *SpillCreate(size_t row_bytes);
extern void SpillAppend(SpillFile *spill, const float *rows, size_t nrows);
extern void SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows);
extern void SpillClose(SpillFile *spill);

typedef struct RowSet
{
	RowSink		sink;			/* where rows are pushed */
	struct VectorJoin *join;
	int			side;			/* as in panel_join.h */
	char	   *first_row_name; /* the id of the first vector, for messages; NULL before it */
	uint64		count;			/* rows so far */
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
} RowSet;

/* Empty; also again, for another engine. */
extern void RowSetInit(RowSet *set, struct VectorJoin *join, int side);

/* No further rows, or those of the other side first: those on their way go into the engine, or the file. */
extern void RowSetFlush(RowSet *set);

/* Feeds the rows that the engine asks for, which are in the file. */
extern void RowSetFeed(RowSet *set, uint64 first, uint64 count);

/* Raises the error for more rows than there are row numbers; source may be NULL. */
pg_noreturn extern void ReportManyRows(const VectorSource *source);

/* --- grouped_rows.c: the rows of one or two sources, in the order of their partitions */

typedef struct GroupedRows
{
	/* The partitions that have rows on both sides, as the rows are pushed. */
	FastedRowGroup *groups;
	uint32		ngroups;
	uint32		count[2];		/* rows of these, of each side */
	uint32	   *order[2];		/* which one of the source each of them is */

	/* The rest is for grouped_rows.c. */
	int			nsides;
	struct GroupedSide *sides;
	struct GroupNumbers *numbers;	/* of all partitions */
	struct Partition *partitions;
	uint32		room;
	uint32		dimensions;		/* the largest number of those that go on */
} GroupedRows;

/* Reads one source or two; in the current memory context, with which it goes. */
extern GroupedRows *ReadGroupedRows(const VectorSource *const *sources, int nsides);

/* Gives a side's rows of these partitions to the sink, if there are any; all, unless it stops. */
extern void PushGroupedRows(GroupedRows *rows, int side, RowSink *sink);

/* Closes temporary files; the rows' memory goes with its context. */
extern void EndGroupedRows(GroupedRows *rows);

#endif							/* FASTED_ROW_SET_H */
