/*-------------------------------------------------------------------------
 *
 * row_set.h
 *	  The rows of a join's sides, their ids, and a running engine.
 *
 * The supplier of a side pushes its rows.  Vectors go to the engine while it has capacity, and
 * otherwise to a temporary file.  Keys remain in this process.
 *
 * Implemented by row_set.c, keys.c, copies.c, partitioned_rows.c and engines.c.  The join itself is declared
 * in join.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_SET_H
#define FASTED_ROW_SET_H

#include "base/compat.h"
#include "base/guc.h"
#include "base/interrupts.h"
#include "engine/panel_join.h"
#include "rows/reader.h"
#include "utils/sortsupport.h"

/* --- keys.c: the rows' keys by row number, and their sort order */

typedef struct KeySet
{
	const VectorSource *source;
	MemoryContext context;
	MemoryContext copies;		/* for pass-by-reference keys */
	int16		typlen;
	bool		typbyval;
	SortSupportData order;

	Datum	   *values;			/* by row number */
	uint32		count;
	uint32		capacity;

	bool		ascending;		/* keys are strictly ascending so far */
	uint32	   *rank;			/* position in key order by row; NULL if ascending */
	Datum	   *by_rank;		/* result of KeySetInOrder; or NULL */
} KeySet;

/* Allocates in a new child of the current memory context. */
extern KeySet *KeySetCreate(const VectorSource *source);
extern void KeySetAdd(KeySet *keys, const Datum *more, size_t n);
extern void KeySetReset(KeySet *keys);

/*
 * Computes the keys' ranks after the last key has been added.  Raises an error if two rows have the
 * same key, because ids would not identify rows.
 */
extern void KeySetFinish(KeySet *keys);

/*
 * Renumbers the rows in key order, instead of KeySetFinish.  Returns the previous row number by new
 * row number, allocated in the keys' context.
 */
extern uint32 *KeySetSort(KeySet *keys);

/* Returns the keys in sorted order.  Call after KeySetFinish; valid until KeySetReset. */
extern const Datum *KeySetInOrder(KeySet *keys);

/* Returns true if row a's key is less than row b's.  Call after KeySetFinish. */
static inline bool
KeyBelow(const KeySet *keys, uint32 a, uint32 b)
{
	return keys->rank == NULL ? a < b : keys->rank[a] < keys->rank[b];
}

/* --- engines.c: choice of an engine, and translation of its failures to errors */

typedef struct EngineRun
{
	MemoryContext context;		/* for the engine's error text */

	/* The problem and the settings in effect when the join began. */
	EngineChoice choice;		/* ENGINE_CPU if a GPU has failed */
	PanelProblem problem;
	uint64		caller_row_bytes;	/* see JoinRequest */

	const FastedEngine *engine; /* NULL before the first vector */
	PanelJoin  *join;			/* NULL once it is closed */
	FastedOutput output;		/* FASTED_OUTPUT_PAIRS if the engine lacks the requested output */
	bool		can_fall_back;	/* "auto" chose a GPU, and the join has not been started */
	bool		failed;			/* the GPU has failed, and all rows are needed again for the CPU */
} EngineRun;

/* Copies the current settings, so that later changes do not affect the join. */
extern void EngineRunInit(EngineRun *run);

/*
 * Starts to initialize the GPU, if the join will probably use it.  Returns true if EngineRunOpen
 * does not have to wait for the GPU.
 */
extern bool EngineIsReady(const EngineRun *run);

/*
 * Chooses an engine and opens a join of rows with the problem's number of dimensions.  If a GPU that
 * was chosen automatically cannot be opened, opens the CPU engine.
 */
extern void EngineRunOpen(EngineRun *run);

/*
 * Raises the error for a failed status; returns other statuses.  While the CPU can still take over,
 * a failure instead closes the engine, sets run->failed and is returned.
 */
extern FastedStatus EngineRunCheck(EngineRun *run, FastedStatus status);

/* May be called repeatedly. */
extern void EngineRunClose(EngineRun *run);

/* --- copies.c: equal rows, of which the engine needs only the first k + 1 */

#define NO_COPY PG_UINT32_MAX

typedef struct RowCopies RowCopies;

/*
 * Which rows the engine has.  Engine rows are numbered in the order in which the engine received
 * them, rows in the order of reading.
 */
typedef struct CopiedRows
{
	uint32	   *ranks;			/* by engine row, see FastedProblem.ranks */
	uint32	   *row_of;			/* row by engine row; NULL: no row is withheld */
	uint32	   *next;			/* by row: the next withheld row that is equal, or NO_COPY;
								 * self-joins only */
} CopiedRows;

/*
 * Creates it in a memory context of its own, a child of the current one, for FASTED_OUTPUT_NEAREST, _CONNECTIONS or
 * _REPRESENTATIVES.
 */
extern RowCopies *CopiesCreate(const FastedOptions *options, const FastedProblem *problem);

/*
 * Returns whether the engine is to get a row.  Rows are numbered, and passed in this order; the last
 * ones may be passed again.
 */
extern bool CopiesTake(RowCopies *copies, uint64 number, const float *row);

/* Returns the number of rows that were withheld. */
extern uint32 CopiesWithheld(const RowCopies *copies);

/* Changes partitions of rows to those of engine rows, on side b, or on both if it is a self-join. */
extern void CopiesAdjust(const RowCopies *copies, FastedPartition *partitions, uint32 npartitions,
						 bool self);

/*
 * After CopiesAdjust: computes which rows the engine has, from the ranks of all rows (NULL: their
 * numbers).  The result is allocated in the current memory context.
 */
extern CopiedRows CopiesFinish(RowCopies *copies, const uint32 *rank, bool self);

/* For representatives: returns a row for each row that is the same for many copies, and itself otherwise. */
extern uint32 *CopiesNoted(const RowCopies *copies);

/* --- row_set.c: the rows of one side */

/*
 * Vectors in a PostgreSQL temporary file, for sets that exceed fasted.memory_limit.  The file is
 * created in temp_tablespaces and counts towards temp_file_limit.  It is removed when the query
 * ends.
 */
typedef struct SpillFile SpillFile;

extern SpillFile *SpillCreate(size_t row_bytes);
extern void SpillAppend(SpillFile *spill, const float *rows, size_t nrows);
extern void SpillRead(SpillFile *spill, uint64 first_row, float *rows, size_t nrows);
extern void SpillClose(SpillFile *spill);

typedef struct RowSet
{
	RowSink		sink;			/* interface for the supplier of rows */
	struct VectorJoin *join;
	int			side;			/* as in panel_join.h */
	char	   *first_row_name; /* id of the first row, for messages; NULL before it */
	uint64		count;			/* rows received so far */
	RowCopies  *copies;			/* withholds copies from the engine while rows are read; or NULL */
	uint32		withheld;		/* number of rows withheld from the started engine */
	SpillFile  *spill;			/* file of the engine's rows if they exceed memory; or NULL */

	/* Staging buffer for rows on their way to the engine, or to the file. */
	float	   *buffer;
	size_t		capacity;
	size_t		used;
	uint64		committed;		/* rows that the engine has taken */

	/* Registered memory from which the engine may read rows directly. */
	void	   *registered;
	size_t		registered_bytes;
	bool		direct;
	uint64		direct_rows;	/* rows that the engine read from it */

	uint64		next_clock_check;	/* row count at which to check the clock again */
} RowSet;

/* Initializes an empty row set, or resets it for another engine. */
extern void RowSetInit(RowSet *set, struct VectorJoin *join, int side);

/* Passes the staged rows to the engine or to the file.  Call it after the last row of a side. */
extern void RowSetFlush(RowSet *set);

/*
 * Reads the rows that the engine requests from the file, and stages them for a side of the engine.
 * If numbers is not NULL, they are the rows numbers[first] ... numbers[first + count - 1].
 */
extern void RowSetFeed(RowSet *set, int side, const uint32 *numbers, uint64 first, uint64 count);

/* Raises the error for more than FASTED_MAX_ROWS rows; source may be NULL. */
pg_noreturn extern void ReportManyRows(const VectorSource *source);

/* Raises the error for vectors of two rows, of one source or two, with different numbers of dimensions. */
pg_noreturn extern void ReportDimensions(const VectorSource *a, const char *a_row, int a_dimensions,
										 const VectorSource *b, const char *b_row, int b_dimensions);

/* --- partitioned_rows.c: the rows of one or two sources, sorted by partition */

typedef struct PartitionedRows
{
	/* The partitions that have rows on both sides, in the order in which rows are pushed. */
	FastedPartition *pushed;
	uint32		npushed;
	uint32		count[2];		/* their number of rows on each side */
	uint32	   *order[2];		/* source row number by pushed row number */

	/* The remaining fields are private to partitioned_rows.c. */
	int			nsides;
	struct PartitionedSide *sides;
	struct GroupNumbers *numbers;	/* partition number by column value; NULL: by hash */
	struct Partition *partitions;
	uint32		capacity;
	uint32		dimensions;		/* maximum over the partitions that have rows on both sides */
} PartitionedRows;

/*
 * Reads one source or two into the current memory context.  A single source without a partition column is
 * divided by a hash of its vectors, so that rows at distance 0 are in the same partition (metrics as
 * for CopyForEquality).
 */
extern PartitionedRows *ReadPartitionedRows(const VectorSource *const *sources, int nsides);

/* Pushes a side's rows, once, in partition order to the sink, until the sink accepts no more. */
extern void PushPartitionedRows(PartitionedRows *rows, int side, RowSink *sink);

#endif							/* FASTED_ROW_SET_H */
