/*-------------------------------------------------------------------------
 *
 * input_queue.h
 *	  Rows that parallel workers convert and pass to the leader in blocks of shared memory.
 *
 * The leader executes a Gather node over the custom scan node over a partial plan.  Gather returns
 * rows that the caller has to process itself, and null rows (InputIsRow).  Meanwhile, most rows are
 * passed to take_block.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INPUT_QUEUE_H
#define FASTED_INPUT_QUEUE_H

#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "rows/reader.h"
#include "rows/vector.h"

/* Maximum number of rows in a block; it is small, so that the leader gets rows early. */
#define MAX_BLOCK_ROWS 2048

/* Blocks passed to the sink before each wait_read; the same number may wait to be released. */
#define BLOCKS_PER_WAIT 4

typedef enum InputVector
{
	INPUT_VECTOR,				/* converted, with the block's number of dimensions */
	INPUT_NULL,
	INPUT_UNUSABLE				/* not converted: malformed, or with other dimensions */
} InputVector;

/*
 * The header of a block.  The values, their null flags and the vectors follow.  Values passed by
 * reference are stored backward from the end of the block.
 */
typedef struct InputBlock
{
	uint32		nrows;
	uint32		dimensions;		/* the same for all vectors of the block */
	int			natts;			/* columns of a row; the vector's column is null */
	uint32		capacity;		/* maximum number of rows */
	Size		bytes;
	Size		rows_offset;	/* where the vectors begin */
	Size		value_bytes;	/* total size of values that are passed by reference */
	bool		has_zeros;		/* the block contains a zero vector */
	uint8		vectors[MAX_BLOCK_ROWS];	/* InputVector of each row */
} InputBlock;

/* The values and the null flags of a column, by row. */
static inline Datum *
InputValues(const InputBlock *block, int column)
{
	return (Datum *) ((char *) block + MAXALIGN(sizeof(InputBlock))) + column * block->capacity;
}

static inline bool *
InputNulls(const InputBlock *block, int column)
{
	return (bool *) InputValues(block, block->natts) + column * block->capacity;
}

typedef struct InputReader InputReader;
struct InputReader
{
	/* Set by the caller before the plan is executed. */
	const VectorSource *source; /* form, element and metric of the vectors */
	int			vector_column;	/* in the plan's rows, numbered from 0; -1: none is converted */
	uint32		dimensions;		/* of all usable vectors; 0: the same as the first one's */

	/*
	 * Rows without a usable vector are in the blocks too.  Otherwise, rows with a null vector or
	 * partition are skipped, and rows with an error are returned by Gather.
	 */
	bool		all_rows;
	const bool *detoast;		/* by column: detoast the value; NULL: all of them */

	/*
	 * Called for each block.  Values passed by reference are valid until it returns.  If it returns
	 * false, Gather returns a null row next.
	 */
	bool		(*take_block) (InputReader *reader, const InputBlock *block);
	void	   *arg;
	RowSink    *sink;			/* takes the vectors; NULL: no registered memory (SetInputSink) */

	/* The remaining fields are private to input_queue.c. */
	bool		participates;	/* the leader may read a share of the plan */
	struct SharedInput *shared; /* NULL without shared memory, and at the end */
	struct ParallelContext *pcxt;
	int			taken[2 * BLOCKS_PER_WAIT]; /* blocks that the sink may still read */
	int			ntaken;
	int			nsettling;		/* the first ones, to be released at the next wait_read */
	uint32		tuples_received;	/* tuples that workers have returned */
	int64		received_before;	/* tuples_received at the last null row, or -1 */
	bool		share_done;		/* the leader has read all of its share of the plan */
	TupleTableSlot *own;		/* row of the leader's share that was returned last */
	TupleTableSlot *nulls;
};

/* Registers the custom scan node of parallel workers; called once, when the library is loaded. */
extern void InstallInputNode(void);

/*
 * Inserts the node below the plan's top node, a Gather, runs the plan, and passes the rows to the
 * taker's sink.  Must be called in the GUC nest level in which the plan was made.
 */
extern void RunInputPlan(struct PlannedStmt *plan, RowTaker *taker);

/*
 * For a node that executes a Gather itself: the path of a Gather over the custom scan node over a partial
 * path.  vector is an expression over its columns, of type real[], double precision[] or bit; or NULL.
 * InputReaderOf returns the reader, for the caller to complete; NULL for another plan.  InputNext returns
 * Gather's next row, a null row (InputIsRow), or an empty slot at the end.  InputIsRow must be called
 * once for each row.  InputEnd ends the use of shared memory, which is about to be freed or used again.
 */
extern Path *InputPath(PlannerInfo *root, Path *partial, Expr *vector);
extern InputReader *InputReaderOf(PlanState *gather);
extern TupleTableSlot *InputNext(InputReader *reader, PlanState *gather);
extern bool InputIsRow(InputReader *reader, const TupleTableSlot *slot);
extern void InputEnd(InputReader *reader);

/*
 * Passes vectors of a block to the reader's sink, which may read them until the block is released.
 * keys may be NULL.  Returns false if the sink takes no more rows.
 */
extern bool PassVectors(InputReader *reader, const InputBlock *block, const Datum *keys,
						size_t first, size_t count);

/* Returns the vector of a row. */
static inline float *
InputRow(const InputReader *reader, const InputBlock *block, size_t row)
{
	return (float *) ((char *) block + block->rows_offset +
					  row * RowBytes(reader->source->element, block->dimensions));
}

/*
 * Sets the sink of the following vectors, and registers the shared memory for it.  Unregisters it
 * for the previous sink, which must happen before that sink's engine is closed.
 */
extern void SetInputSink(InputReader *reader, RowSink *sink);

#endif							/* FASTED_INPUT_QUEUE_H */
