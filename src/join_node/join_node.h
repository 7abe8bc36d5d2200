/*-------------------------------------------------------------------------
 *
 * join_node.h
 *	  A custom join method for the planner: an engine joins two relations by vector distance.
 *
 * The planner is offered the node where a join clause bounds the distance of two vectors
 * (DistanceClause).  The node reads both sides, retains their rows (RetainedRows), and passes their
 * vectors to an engine.  It then checks the other join clauses on each pair that the engine finds,
 * so the result equals that of a nested loop.
 *
 *	  join_clause.c		distance clauses and ordering clauses, and their selectivity
 *	  join_path.c		paths, costs and plans
 *	  join_plan.c		the plan data
 *	  join_bound.c		from the clause's bound to the engine's eps and rows
 *	  retained_rows.c	rows in memory and in a temporary file
 *	  join_rows.c		reads a side, and loads its rows into the scan tuple
 *	  join_partitions.c	rows with equal keys: hash partitions
 *	  join_fill.c		reads both sides; combines partitions to batches and starts their joins
 *	  join_match.c		returns the pairs of a batch that match; reads no side
 *	  join_exec.c		the executor's callbacks, and EXPLAIN
 *
 * In arrays of two elements, element 0 belongs to the outer side and element 1 to the inner side.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_NODE_H
#define FASTED_JOIN_NODE_H

#include "join/join.h"
#include "join_node/join_plan.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"
#include "rows/input_queue.h"
#include "storage/buffile.h"
#include "utils/sortsupport.h"

#define NO_ROW UINT32_MAX

/*
 * --- retained_rows.c: the rows of one side, in memory first, then in a temporary file
 *
 * A row in memory consists of its values and their null flags, so that it need not be deformed.
 * Pass-by-reference values are stored one after the other.  A row in the file is a minimal tuple.
 */

/* Position and length of a row in the temporary file. */
typedef struct FilePosition
{
	int			fileno;
	uint32		length;
	off_t		offset;
} FilePosition;

typedef struct RetainedRows
{
	MemoryContext context;
	TupleDesc	columns;
	int64		budget;			/* remaining memory budget, in bytes */
	uint32		count;

	uint32		in_memory;		/* number of rows in memory; later rows are in the file */
	uint32		capacity;
	Datum	   *rows;			/* values by row and column */
	Size		row_datums;		/* length of a row with its null flags, in Datums */
	char	   *free;			/* start and size of free memory for pass-by-reference values */
	Size		free_bytes;
	Size		value_bytes;	/* total size of the memory for these values */

	BufFile    *file;			/* rows that exceed the budget; NULL if none */
	FilePosition *positions;
	uint32		position_capacity;
	TupleTableSlot *slots[2];	/* one row of the file for each reader */
} RetainedRows;

/* The values and null flags of a retained row. */
typedef struct RetainedRow
{
	const Datum *values;
	const bool *isnull;
} RetainedRow;

/* Creates an empty store, which may use this much memory in the context before it writes a file. */
extern RetainedRows *RetainedRowsCreate(MemoryContext context, TupleDesc columns, int64 budget);

/* Closes the temporary file.  The memory is released with the context. */
extern void RetainedRowsEnd(RetainedRows *retained);

/*
 * Copies a row, whose values must have been deformed.  Its number is the count before the call.
 * Errors: there are FASTED_MAX_ROWS rows already; the file cannot be written.
 */
extern void RetainedRowsAdd(RetainedRows *retained, TupleTableSlot *row);

extern RetainedRow RetainedRowsFetchFromFile(RetainedRows *retained, uint32 row, int reader);

/* Returns true if a fetched row is valid only until the same reader fetches its next row. */
static inline bool
RetainedRowIsInFile(const RetainedRows *retained, uint32 row)
{
	return row >= retained->in_memory;
}

/* Returns a row.  A row in the file is valid until the same reader (0 or 1) fetches its next row. */
static inline RetainedRow
RetainedRowsFetch(RetainedRows *retained, uint32 row, int reader)
{
	const Datum *values = retained->rows + row * retained->row_datums;

	if (unlikely(RetainedRowIsInFile(retained, row)))
		return RetainedRowsFetchFromFile(retained, row, reader);
	return (RetainedRow) {.values = values,.isnull = (const bool *) (values + retained->columns->natts)};
}

/* Prefetches the first and the last value of the row. */
static inline void
RetainedRowsPrefetch(const RetainedRows *retained, uint32 row)
{
	const Datum *values = retained->rows + row * retained->row_datums;

	if (!RetainedRowIsInFile(retained, row))
	{
		__builtin_prefetch(values);
		__builtin_prefetch(values + retained->row_datums - 1);
	}
}

/* Prefetches the pass-by-reference values of a row whose Datums have already been prefetched. */
extern void RetainedRowsPrefetchValues(RetainedRows *retained, uint32 row);

/* --- one side of the join */

typedef struct RowList
{
	uint32	   *numbers;
	uint32		count;
	uint32		capacity;
} RowList;

/* The operand of an equality clause on one side. */
typedef struct EqualityKey
{
	ExprState  *expr;
	FmgrInfo	hash;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	bool		comparable;		/* keys whose bits equal those of an outer key are equal */
	Datum		value;			/* of the current row */
} EqualityKey;

/* The rows of one side in a hash partition: a range of the side's rows sorted by partition. */
typedef struct PartitionRange
{
	uint32		first;
	uint32		count;
} PartitionRange;

/* Columns to copy from a retained row to a slot. */
typedef struct ColumnCopies
{
	int			count;
	int		   *from;			/* columns of the retained row */
	int		   *to;				/* columns of the slot */
} ColumnCopies;

/* The rows of a side in one execution: see EndSide. */
typedef struct SideRun
{
	RetainedRows *retained;		/* NULL before the execution begins */
	bool		complete;		/* the child plan has returned all rows */
	int64		loaded;			/* row number in the scan tuple, or NO_ROW; -1: none */
	bool		has_vector;		/* the scan tuple includes the late-materialized vector */

	uint32	   *order;			/* rows sorted by hash partition; NULL: one partition of all rows */
	PartitionRange current;		/* current hash partition */
	PartitionRange next;		/* hash partition most recently returned by NextPartition */

	/* for the current batch */
	bool		with_input;		/* vectors of rows that are read now are pushed at once */
	uint32		nvectors;		/* rows of the current partition whose vector is not null */
	RowList		pushed;			/* row number by engine row number */
	RowList		fallback;		/* row numbers of the fallback rows */
} SideRun;

typedef struct JoinSide
{
	struct JoinNode *node;
	int			number;			/* OUTER_SIDE or INNER_SIDE */
	PlanState  *plan;
	InputReader *input;			/* parallel workers read the side; NULL: they do not */
	VectorSource source;		/* representation of the vectors that they convert */
	ExprState  *vector;
	int			first;			/* its first column in the scan tuple */
	int			columns;
	TupleTableSlot *row;		/* the retained columns of the child plan's row */
	ColumnCopies to_scan;		/* from retained rows to the scan tuple */
	ColumnCopies to_result;		/* to the result, if node->copies_result */

	/*
	 * Late materialization.  Clauses need few of the vectors.  A table scan's columns are therefore
	 * retained with a null vector, and with the ctid as an int8.  The few vectors are fetched again
	 * by ctid.  The query's snapshot prevents removal of these row versions.
	 */
	int			late_vector;	/* column in the child plan; -1: vectors are retained */
	int			late_column;	/* column in the scan tuple */
	ScanState  *scan;			/* scan of the table */
	TupleTableSlot *late_slot;	/* slot for the fetched table row */

	struct RowBatch *batch;		/* rows of the child plan; NULL: vectors cannot be fetched in batches */
	int			plain_vector;	/* pgvector column that can be read without its cast; -1: none */
	EqualityKey *keys;			/* these determine the hash partitions */
	int			nkeys;

	SideRun		run;
} JoinSide;

/* --- hash partitions and batches */

/* A hash partition: the rows whose equality keys have the same hash. */
typedef struct HashPartition
{
	PartitionRange ranges[2];
	Datum	   *keys;			/* keys of the first outer row */
	bool		equal_keys;		/* all keys are certainly equal, not only their hashes */
} HashPartition;

/* Number of rows on both sides and number of row pairs.  Shared rows are counted once. */
typedef struct PartitionSize
{
	double		rows;
	double		pairs;
} PartitionSize;

typedef struct HashPartitions
{
	struct partition_hash *numbers; /* indexes in the array, by hash */
	HashPartition *array;
	uint32		count;
	uint32		capacity;
	PartitionSize size;			/* sum over all partitions */
	uint32		next;
	bool		pending;		/* the partition returned last is to start the next batch */
} HashPartitions;

/* One side of a hash partition in the batch. */
typedef struct BatchSide
{
	PartitionRange range;
	uint32		first_fallback;
	uint32		nfallback;
	uint32		nvectors;		/* rows whose vector is not null */
} BatchSide;

typedef BatchSide BatchPartition[2];

/* Hash partitions that are joined together. */
typedef struct JoinBatch
{
	uint32		count;			/* of partitions */
	PartitionSize size;
	int			dimensions;		/* dimensions of the vectors; 0: the engine takes none */
	uint32		engine_dimensions;	/* dimensions of the engine's rows */
	bool		unequal_keys;	/* the keys of a partition may differ */
	bool		small;			/* it is joined without an engine */
	bool		distance_decides;	/* every pair within the radius counts */
	bool		engine_counts;	/* the engine counts these pairs and returns none */

	/* These remain allocated from batch to batch. */
	BatchPartition *partitions;
	FastedPartition *engine_partitions; /* the same by engine row numbers */
	uint32		capacity;
} JoinBatch;

/* The memory of the engine, for vectors of the last batch's dimensions. */
typedef struct BatchLimit
{
	int			dimensions;		/* 0: not known yet */
	uint64		rows;			/* number of rows of both sides that fit */
	bool		separate_large; /* large partitions are not combined with others */
} BatchLimit;

/* --- matches */

/* The row numbers of a candidate pair. */
typedef struct Candidate
{
	uint32		outer;
	uint32		inner;			/* NO_ROW for an outer row without a match */
	bool		certain;		/* the distance clause is certainly true */
	double		dist;			/* the engine's distance; NaN: not computed */
} Candidate;

/* Position among the pairs of the current batch. */
typedef struct MatchCursor
{
	const FastedPair *pairs;	/* of the join */
	size_t		npairs;
	size_t		next_pair;
	Candidate	last;
	bool		mirrored;		/* shared rows: return the last pair with sides exchanged */
	uint32		next_equal;		/* shared rows: next row to pair with itself */

	/* Pairs with fallback rows follow the engine's pairs. */
	uint32		partition;		/* index of the current partition */
	int			side;			/* of the fallback row */
	uint32		next_fallback;	/* its index in the partition's list */
	uint32		next_other;		/* index in the other side's partition */
	uint32		skipped;		/* number of outer fallback rows before next_other */
} MatchCursor;

/* --- the node */

/* The expressions of the plan, ready for evaluation. */
typedef struct JoinClauses
{
	ExprState  *bound;
	ExprState  *outer;			/* leading clauses on outer columns; NULL if shared */
	ExprState  *others;			/* without the distance and ordering clauses */
	ExprState  *all;			/* all join clauses, in evaluation order */
	ExprState  *filter;			/* above an outer join */
	List	   *distances;		/* ExprStates of the distances in the scan tuple */
} JoinClauses;

/* The ordering clause of shared rows. */
typedef struct RowOrder
{
	SortSupport comparator;		/* NULL: there is no such clause */
	int			column;
	bool		swapped;		/* the clause is inner < outer */
} RowOrder;

/* Totals over all executions. */
typedef struct JoinTotals
{
	int			runs;
	uint64		partitions;
	uint64		engine_partitions;	/* partitions joined by an engine */
	FastedStats stats;			/* sums over finished engine joins */
} JoinTotals;

/* One execution.  All its memory is in the node's context. */
typedef struct JoinRun
{
	bool		(*phase) (struct JoinNode *node);	/* NULL: the execution is over (join_exec.c) */
	uint64		count;			/* count(*) so far */
	VectorJoin *join;			/* NULL: none is running */
	bool	   *matched;		/* flag for each outer row; NULL in an inner join */
	uint32		next_unmatched;
	HashPartitions partitions;
	BatchLimit	limit;
	JoinBatch	batch;
	MatchCursor cursor;			/* of the current batch */
} JoinRun;

typedef struct JoinNode
{
	CustomScanState css;
	JoinPlan	plan;
	JoinBound	bound;			/* its value is that of the current execution */
	JoinClauses clauses;
	RowOrder	order;
	bool		copies_result;	/* the result consists of columns of retained rows, and distances */
	int			first_distance;	/* index of the first distance in the scan tuple */
	Bitmapset  *distances_to_result;	/* with copies_result: the result's columns that are distances */
	bool	   *used_columns;	/* columns that clauses use; these are detoasted when read */
	JoinSide	sides[2];
	MemoryContext context;		/* per-execution context */
	JoinTotals	totals;
	JoinRun		run;
} JoinNode;

/* Converts an index in the current hash partition to a row number. */
static inline uint32
RowOfPartition(const JoinSide *side, uint32 i)
{
	return side->run.order == NULL ? i : side->run.order[side->run.current.first + i];
}

/* Makes a partition of the batch the current partition on both sides. */
static inline void
SelectPartition(JoinNode *node, uint32 number)
{
	for (int i = 0; i < 2; i++)
		node->sides[i].run.current = node->run.batch.partitions[number][i].range;
}

/* Returns true if rows are shared and each pair matches in both directions, and each row itself. */
static inline bool
MatchesBothWays(const JoinNode *node)
{
	return node->plan.shared && node->order.comparator == NULL;
}

/* --- join_rows.c */

/* Initializes a side for its child plan, once for all executions. */
extern void InitSide(JoinNode *node, int number, PlanState *plan);

/* Starts one execution. */
extern void BeginSide(JoinNode *node, JoinSide *side);

/* Ends one execution.  Closes the temporary file, but frees no memory.  May be called twice. */
extern void EndSide(JoinSide *side);

/*
 * Reads and retains the next row, and leaves it in the scan tuple with its vector.  If workers read
 * the side, may retain rows of blocks instead; then has_vector is false.  Returns false at the end.
 */
extern bool ReadRow(JoinNode *node, JoinSide *side);

/* Read all remaining rows; retain the rows of a block. */
extern void ReadSide(JoinNode *node, JoinSide *side);
extern void RetainBlock(JoinNode *node, JoinSide *side, const InputBlock *block);

/* Returns true if the side has no rows.  Reads the first row if necessary. */
extern bool IsEmptySide(JoinNode *node, JoinSide *side);

/* Copies columns of a retained row to a slot, or nulls for NO_ROW. */
extern void CopyColumns(JoinSide *side, const ColumnCopies *columns, uint32 row,
						TupleTableSlot *slot);

/* Load rows, or nulls for NO_ROW, into the scan tuple, without late-materialized vectors. */
extern void LoadRow(JoinNode *node, JoinSide *side, uint32 row);
extern void LoadPair(JoinNode *node, uint32 outer_row, uint32 inner_row);

/* Fetches the late-materialized vector of the row in the scan tuple, if it is missing. */
extern void LoadVector(JoinNode *node, JoinSide *side);

/* Resets per-tuple memory and returns an expression context for the scan tuple. */
extern ExprContext *ScanTuple(JoinNode *node);

/* Compares two shared rows by the ordering clause: -1, 0 or 1.  Returns 0 if one is null. */
extern int	CompareByOrder(JoinNode *node, uint32 row, uint32 other);

/* A vector in the scan tuple.  If elements is NULL, the vector is null or malformed. */
typedef struct VectorView
{
	const float *elements;		/* floats or doubles, which may be non-finite, or bytes of bits */
	int			dimensions;
	bool		isnull;
} VectorView;

/* Returns the side's vector.  The result is valid until the next call of ScanTuple. */
extern VectorView ViewVector(JoinNode *node, JoinSide *side);

/* --- join_partitions.c */

/* Appends a number to a list, which is allocated for this execution. */
extern void AddNumber(JoinNode *node, RowList *list, uint32 number);

/* Returns true if the row passes the clauses on outer columns.  Always true for inner rows. */
extern bool PassesOuterClauses(JoinNode *node, const JoinSide *side);

/*
 * Loads row *i of the current partition into the scan tuple, including its vector.  If the side
 * has not been read completely, reads its next row.  If blocks have been read before that row, and
 * their vectors have been used, advances *i to it.  Returns false at the end.
 */
extern bool LoadRowOfPartition(JoinNode *node, JoinSide *side, uint32 *i);

/* Forms the hash partitions: none if a side has no rows.  Reads sides with keys completely. */
extern void FindPartitions(JoinNode *node);

/*
 * Advances to the next partition that has rows on both sides, and stores its rows in `next` of both
 * sides.  Returns false if there is none.
 */
extern bool NextPartition(JoinNode *node);

/* Returns the given size plus that of the partition in `next`. */
extern PartitionSize SizeWithNext(const JoinNode *node, PartitionSize others);

/* --- join_fill.c */

/* The InputReader callback of a side that workers read.  Retains the rows of a block. */
extern bool AcceptBlock(InputReader *reader, const InputBlock *block);

/*
 * Begins an execution: reads the sides and forms hash partitions.  A side that retains its vectors
 * is read completely, because its rows may have to wait for their partitions.  Late-materialized
 * vectors are passed to the engine while the side is read.  The inner side is not read if the outer
 * side is empty.
 */
extern void BeginFilling(JoinNode *node);

/*
 * Forms the next batch and starts its join.  Returns false after the last batch; all outer rows have
 * then been read.
 */
extern bool FillBatch(JoinNode *node);

/* --- join_match.c */

/* Stores the next match of the batch in cursor.last.  Returns false at the end. */
extern bool NextPair(JoinNode *node);

/* Stores the next outer row without a match in cursor.last.  Returns false at the end. */
extern bool NextUnmatched(JoinNode *node);

/* Returns the engine statistics, including those of the running join. */
extern FastedStats JoinNodeStatistics(const JoinNode *node);

/* Ends the engine's join, if any, and releases its memory before the query ends. */
extern void EndJoin(JoinNode *node);

/* --- join_path.c and join_exec.c */

/* Registers the node and installs the planner hooks, when the library is loaded. */
extern void InstallJoinNode(void);
extern const CustomScanMethods fasted_join_methods;

#endif							/* FASTED_JOIN_NODE_H */
