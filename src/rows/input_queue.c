/*-------------------------------------------------------------------------
 *
 * input_queue.c
 *	  Custom scan node with which parallel workers pass rows to the leader through shared memory.
 *
 * The planner's plan for reading a source is a Gather node over a partial plan.  This custom
 * scan node is inserted between the two.  In a worker, it converts the rows of the partial plan
 * and writes them into a ring of blocks in the plan's shared memory (block_ring.h), so no tuples
 * are formed.  In the leader, it reads the leader's own share of the partial plan, if it has one,
 * and passes the rows of the ring to the sink.  The node itself returns only
 *
 *	- in a worker, tuples that do not go through the ring: rows with an error, which the
 *	  leader then reports, and rows whose key or partition value is too long for a block
 *	- in the leader, an all-null row, which makes Gather check its queues for such tuples
 *
 * This cannot deadlock.  A worker waits for an empty block as it would wait for space in its
 * tuple queue.  Once the leader has started, it empties blocks until all workers have finished,
 * and waits for nothing but them.  Anything for which the partial plan waits is as safe here as
 * below any Gather.  A worker that returns a tuple may block in its tuple queue.  It increments
 * ntuples before that, and the leader then returns to Gather, which empties the queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "base/block_ring.h"
#include "base/interrupts.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "rows/reader.h"
#include "rows/vector.h"
#include "storage/ipc.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

/* Above all node IDs that the planner assigns to the nodes of a plan. */
#define INPUT_NODE_ID (1 << 20)

/*
 * Copying a row from the ring costs the leader about a fifth of reading one.  With this many
 * workers or more, the leader therefore reads no share of its own.
 */
#define BUSY_LEADER_WORKERS 4

/* Time for which the leader waits for a block before it checks whether workers still run. */
#define WAIT_MS 10

/* Time for which the leader waits for a tuple that a worker has announced. */
#define TUPLE_WAIT_MS 1

/*
 * Blocks passed to the sink before each call of wait_read.  The same number may wait to be
 * released.
 */
#define BLOCKS_PER_WAIT 4

/*
 * Bytes of blocks for each process, and the bounds of their sum.  A block has space for
 * a row of FASTED_MAX_DIMENSIONS with its key.
 */
#define RING_BYTES_EACH (2 * 1024 * 1024)
#define RING_MIN_BYTES (4 * 1024 * 1024)
#define RING_MAX_BYTES (16 * 1024 * 1024)
#define BLOCK_BYTES (384 * 1024)
#define BLOCK_BYTES_OF_DOUBLES (640 * 1024)

/* Maximum number of rows in a block; it is small, so that the leader gets rows early. */
#define MAX_BLOCK_ROWS 2048

/* The values of a row besides its vector. */
enum
{
	ROW_KEY,
	ROW_PARTITION,
	ROW_VALUES
};

/*
 * A block of the ring.  All its rows have the same number of dimensions.  The vectors follow this
 * header.  Values passed by reference are stored backward from the end of the block.
 */
typedef struct Block
{
	uint32		nrows;
	uint32		dimensions;
	Size		value_bytes;	/* total size of values that are passed by reference */
	bool		has_zeros;		/* the block contains a zero vector */
	/* a value passed by reference is stored as its distance from the end of the block */
	Datum		values[ROW_VALUES][MAX_BLOCK_ROWS];
} Block;

#define ROWS_OFFSET MAXALIGN(sizeof(Block))

StaticAssertDecl(BLOCK_BYTES >= ROWS_OFFSET + FASTED_MAX_DIMENSIONS * sizeof(float) + 16384 &&
				 BLOCK_BYTES_OF_DOUBLES >= ROWS_OFFSET + FASTED_MAX_DIMENSIONS * sizeof(double) + 16384,
				 "a block holds the longest vector and its key");

/* Contents of the plan's shared memory, followed by the ring. */
typedef struct SharedInput
{
	int			nvalues;		/* values of each row: 2 with partitions, else 1 */
	struct
	{
		int16		typlen;
		bool		byval;
	}			types[ROW_VALUES];
	VectorSource source;		/* workers must not follow its pointers */
	pg_atomic_uint32 dimensions;	/* of the first vector; 0 before it, or with partitions */
	pg_atomic_uint32 ntuples;	/* number of rows that workers return as tuples */
} SharedInput;

/* State of the leader, for one execution of a plan with this node. */
typedef struct Leader
{
	RowTaker   *taker;
	bool		reads;			/* the leader may read a share of the plan */
	SharedInput *shared;		/* NULL without shared memory, and at the end */
	ParallelContext *pcxt;
	uint32		nworkers;
	uint64		ring_rows;		/* rows that were read from the ring */
	int			taken[2 * BLOCKS_PER_WAIT]; /* blocks that the sink may still read */
	int			ntaken;
	int			nsettling;		/* the first ones, to be released at the next wait_read */
	uint32		tuples_received;	/* tuples that workers have returned */
	int64		received_before;	/* tuples_received at the last null row, or -1 */
	bool		share_done;		/* the leader has read all of its share of the plan */
	TupleTableSlot *nulls;
} Leader;

typedef struct InputState
{
	CustomScanState css;
	Leader	   *leader;			/* NULL in a worker; the fields below are for workers only */
	SharedInput *shared;
	int			number;			/* number of the block being filled; -1: none */
	bool		has_error;		/* the leader has to report an error of the last row */
} InputState;

/* --- shared memory */

static Size
BlockBytes(FastedElement element)
{
	return element == FASTED_ELEMENT_DOUBLE ? BLOCK_BYTES_OF_DOUBLES : BLOCK_BYTES;
}

/* Each process fills one block; a few more can wait for the leader. */
static int
CountBlocks(int nprocesses, const VectorSource *source)
{
	Size		bytes = Min(Max((Size) nprocesses * RING_BYTES_EACH, RING_MIN_BYTES), RING_MAX_BYTES);

	return Max(bytes / BlockBytes(source->element), nprocesses + 8);
}

static BlockRing *
RingOf(SharedInput *shared)
{
	return (BlockRing *) ((char *) shared + MAXALIGN(sizeof(SharedInput)));
}

static Size
SharedBytes(int nprocesses, const VectorSource *source)
{
	return MAXALIGN(sizeof(SharedInput)) +
		BlockRingSize(CountBlocks(nprocesses, source), BlockBytes(source->element));
}

/* --- in a worker */

static void
PublishBlock(InputState *input)
{
	if (input->number >= 0)
		BlockRingPublish(RingOf(input->shared), input->number);
	input->number = -1;
}

/* Returns a block with space for a row and its values; NULL if the leader wants no more rows. */
static Block *
BlockWithRoom(InputState *input, uint32 dimensions, Size row_bytes, Size value_bytes)
{
	Block	   *block;

	if (input->number >= 0)
	{
		block = BlockRingData(RingOf(input->shared), input->number);
		if (block->nrows < MAX_BLOCK_ROWS && block->dimensions == dimensions &&
			ROWS_OFFSET + (block->nrows + 1) * row_bytes + block->value_bytes + value_bytes <=
			BlockBytes(input->shared->source.element))
			return block;
		PublishBlock(input);
	}
	input->number = BlockRingWaitEmpty(RingOf(input->shared));
	if (input->number < 0)
		return NULL;
	block = BlockRingData(RingOf(input->shared), input->number);
	block->nrows = 0;
	block->dimensions = dimensions;
	block->value_bytes = 0;
	block->has_zeros = false;
	return block;
}

/* Finds and detoasts the key and partition; returns the bytes needed for those by reference. */
static Size
FindValues(const SharedInput *shared, const TupleTableSlot *slot, Datum *values)
{
	static const int columns[ROW_VALUES] = {[ROW_KEY] = KEY_COLUMN,[ROW_PARTITION] = PARTITION_COLUMN};
	Size		bytes = 0;

	for (int i = 0; i < shared->nvalues; i++)
	{
		values[i] = slot->tts_values[columns[i]];
		if (shared->types[i].typlen == -1)
			values[i] = PointerGetDatum(PG_DETOAST_DATUM(values[i]));
		if (!shared->types[i].byval)
			bytes += MAXALIGN(datumGetSize(values[i], false, shared->types[i].typlen));
	}
	return bytes;
}

static void
PutValues(const SharedInput *shared, Block *block, const Datum *values)
{
	for (int i = 0; i < shared->nvalues; i++)
	{
		Datum		value = values[i];

		if (!shared->types[i].byval)
		{
			Size		bytes = datumGetSize(value, false, shared->types[i].typlen);

			block->value_bytes += MAXALIGN(bytes);
			memcpy((char *) block + BlockBytes(shared->source.element) - block->value_bytes,
				   DatumGetPointer(value), bytes);
			value = (Datum) block->value_bytes;
		}
		block->values[i][block->nrows] = value;
	}
}

/*
 * Writes a row into the ring.  Returns true if the row is done.  Returns false if it must be
 * returned as a tuple: it has an error (has_error is set), its values are too long, or the leader
 * wants no more rows.  Leaves garbage in the current memory context.
 */
static bool
PutRow(InputState *input, TupleTableSlot *slot)
{
	SharedInput *shared = input->shared;
	uint32		common = pg_atomic_read_u32(&shared->dimensions);
	Size		block_bytes = BlockBytes(shared->source.element);
	Size		value_bytes;
	Size		row_bytes;
	Datum		values[ROW_VALUES];
	ArrayType  *array;
	Block	   *block;
	int			dimensions;
	int			element;
	float	   *row;

	slot_getallattrs(slot);
	if (slot->tts_isnull[VECTOR_COLUMN])
		return true;			/* rows without a vector are skipped */
	if (shared->nvalues > ROW_PARTITION && slot->tts_isnull[PARTITION_COLUMN])
		return true;			/* rows without a partition are skipped */
	input->has_error = true;
	if (slot->tts_isnull[KEY_COLUMN])
		return false;
	array = DatumGetArrayTypeP(slot->tts_values[VECTOR_COLUMN]);
	if (VectorShape(array, &dimensions) != VECTOR_OK || (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		return false;
	if (shared->nvalues == ROW_PARTITION)
	{
		/* the first vector read by any worker sets the number of dimensions */
		if (common == 0 && pg_atomic_compare_exchange_u32(&shared->dimensions, &common, dimensions))
			common = dimensions;
		if ((uint32) dimensions != common)
			return false;
	}
	value_bytes = FindValues(shared, slot, values);

	input->has_error = false;
	row_bytes = RowBytes(shared->source.element, dimensions);
	if (BlockRingIsStopped(RingOf(input->shared)) ||
		ROWS_OFFSET + row_bytes + value_bytes > block_bytes)
		return false;
	block = BlockWithRoom(input, dimensions, row_bytes, value_bytes);
	if (block == NULL)
		return false;
	row = (float *) ((char *) block + ROWS_OFFSET + block->nrows * row_bytes);
	input->has_error = VectorElements(array, &shared->source, dimensions, row, &element) != VECTOR_OK;
	if (input->has_error)
		return false;
	PutValues(shared, block, values);
	block->nrows++;
	block->has_zeros |= RowIsZero(row, shared->source.element, dimensions);
	return true;
}

/*
 * Returns the next row that must be returned as a tuple.  A tuple queue notifies its reader only
 * when it is a quarter full, or when it is detached.  A worker therefore stops after a row
 * with an error, so that the leader sees the error immediately.
 */
static TupleTableSlot *
NextInWorker(InputState *input)
{
	PlanState  *below = outerPlanState(input);
	ExprContext *econtext = input->css.ss.ps.ps_ExprContext;

	while (!BlockRingIsStopped(RingOf(input->shared)) && !input->has_error)
	{
		TupleTableSlot *slot = ExecProcNode(below);
		MemoryContext old;
		bool		taken;

		if (TupIsNull(slot))
			break;
		ResetExprContext(econtext);
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		taken = PutRow(input, slot);
		MemoryContextSwitchTo(old);
		if (taken)
			continue;
		/* the leader must see the preceding rows first */
		PublishBlock(input);
		pg_atomic_fetch_add_u32(&input->shared->ntuples, 1);
		BlockRingWake(RingOf(input->shared));
		return slot;
	}
	PublishBlock(input);
	BlockRingFinish(RingOf(input->shared));
	return NULL;
}

/* --- from the ring to the sink */

/*
 * Passes rows to the sink, which may read them until it settles.  Returns false if the sink takes
 * no more rows.
 */
static bool
PassRows(Leader *leader, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	RowSink    *sink = leader->taker->sink;

	while (nrows > 0)
	{
		size_t		n = 0;

		if (sink->take_block != NULL)
			n = sink->take_block(sink, (const float *) rows, keys, nrows);
		if (n == 0)
		{
			float	   *buffer;

			n = Min(sink->buffer_for_rows(sink, &buffer), nrows);
			if (n == 0)
			{
				leader->taker->stopped = true;
				return false;
			}
			memcpy(buffer, rows, n * row_bytes);
			sink->take_rows(sink, keys, n);
		}
		leader->ring_rows += n;
		rows += n * row_bytes;
		keys += n;
		nrows -= n;
	}
	return true;
}

/* Passes the rows of a block, which the leader owns, to the sink.  Called once for each block. */
static void
PassBlock(Leader *leader, Block *block)
{
	RowTaker   *taker = leader->taker;
	FastedElement element = taker->source->element;
	const char *rows = (char *) block + ROWS_OFFSET;
	bool		skip_zeros = taker->source->skip_zeros && block->has_zeros;
	bool		partitioned = leader->shared->nvalues > ROW_PARTITION;
	uint32		dimensions = block->dimensions;
	size_t		row_bytes = RowBytes(element, dimensions);
	const Datum *keys = block->values[ROW_KEY];

	for (int v = 0; v < leader->shared->nvalues; v++)
		for (uint32 i = 0; i < block->nrows && !leader->shared->types[v].byval; i++)
			block->values[v][i] = PointerGetDatum((char *) block + BlockBytes(element) -
												  (Size) block->values[v][i]);
	for (size_t begin = 0, end; begin < block->nrows; begin = end)
	{
		if (partitioned)
			taker->partition = block->values[ROW_PARTITION][begin];
		if (partitioned || begin == 0)
			CheckDimensions(taker, dimensions, keys[begin]);
		/* a run of rows up to the next zero vector; with partitions, a single row */
		for (end = begin; end < block->nrows && (!partitioned || end == begin); end++)
			if (skip_zeros && RowIsZero((const float *) (rows + end * row_bytes), element, dimensions))
				break;
		if (!PassRows(leader, rows + begin * row_bytes, keys + begin, end - begin, row_bytes))
			return;
		if (end == begin)
			end++;				/* skip the zero vector */
	}
}

/*
 * Settles the sink, and releases the blocks that it no longer reads: all blocks, or else those
 * that it took before it last settled.
 */
static void
SettleBlocks(Leader *leader, bool all)
{
	RowSink    *sink = leader->taker->sink;
	int			nfree = all ? leader->ntaken : leader->nsettling;

	if (sink->wait_read != NULL)
		sink->wait_read(sink, all);
	for (int i = 0; i < nfree; i++)
		BlockRingRelease(RingOf(leader->shared), leader->taken[i]);
	leader->ntaken -= nfree;
	memmove(leader->taken, leader->taken + nfree, leader->ntaken * sizeof(int));
	leader->nsettling = leader->ntaken;
}

/* Passes the full blocks of the ring to the sink.  Returns false if no more rows are wanted. */
static bool
PassFullBlocks(Leader *leader)
{
	BlockRing  *ring = RingOf(leader->shared);

	for (uint32 left = BlockRingFull(ring); left > 0 && !leader->taker->stopped; left--)
	{
		int			number = BlockRingTakeFull(ring);

		CheckJoinInterrupts();
		PassBlock(leader, BlockRingData(ring, number));
		leader->taken[leader->ntaken++] = number;
		if (leader->ntaken == leader->nsettling + BLOCKS_PER_WAIT)
			SettleBlocks(leader, false);
	}
	if (leader->ntaken > leader->nsettling)
		SettleBlocks(leader, false);
	return !leader->taker->stopped;
}

/*
 * Receives the tuples of the plan.  The all-null rows of the leader's node are ignored.  Any other
 * tuple is a row that a worker did not write into the ring.  The full blocks of the ring are
 * read first, so that errors are reported in the order in which rows were read.
 */
static bool
ReceiveTuple(void *arg, TupleTableSlot *slot)
{
	Leader	   *leader = arg;

	if (leader->shared == NULL)
		return TakeSlot(leader->taker, slot);
	if (slot_attisnull(slot, VECTOR_COLUMN + 1))
		return true;
	leader->tuples_received++;
	return PassFullBlocks(leader) && TakeSlot(leader->taker, slot);
}

/* --- in the leader */

/* Workers that failed to start, or exited, are counted as finished. */
static bool
WorkersHaveFinished(const Leader *leader)
{
	const ParallelContext *pcxt = leader->pcxt;
	int			launched = pcxt->nworkers_launched;
	int			stopped = 0;

	if (BlockRingFinished(RingOf(leader->shared)) >= (uint32) launched)
		return true;
	for (int i = 0; i < launched; i++)
	{
		BackgroundWorkerHandle *handle = pcxt->worker[i].bgwhandle;
		pid_t		pid;

		stopped += handle == NULL || GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
	}
	return stopped == launched;
}

/* Ends the use of shared memory, which is about to be freed. */
static void
EndInLeader(Leader *leader)
{
	RowSink    *sink = leader->taker->sink;

	if (leader->shared == NULL)
		return;
	if (leader->taker->stopped)
		BlockRingStop(RingOf(leader->shared));
	if (sink->unregister_memory != NULL)
		sink->unregister_memory(sink);
	leader->nworkers = leader->pcxt->nworkers_launched;
	leader->ntaken = leader->nsettling = 0;
	leader->shared = NULL;
}

/* Reads one row of the leader's share, or waits for blocks.  Returns false when all is read. */
static bool
WorkInLeader(Leader *leader, PlanState *below)
{
	int			launched = leader->shared == NULL ? 0 : leader->pcxt->nworkers_launched;
	uint32		finished;

	/* read a share of the plan, unless the workers' rows keep the leader busy */
	if (!leader->share_done && (launched == 0 || (leader->reads && launched < BUSY_LEADER_WORKERS)))
	{
		TupleTableSlot *slot = ExecProcNode(below);

		leader->share_done = TupIsNull(slot);
		if (!leader->share_done)
			TakeSlot(leader->taker, slot);
		return true;
	}
	if (leader->shared == NULL)
		return false;
	finished = BlockRingFinished(RingOf(leader->shared));
	if (WorkersHaveFinished(leader))
		return false;
	CheckJoinInterrupts();
	BlockRingWait(RingOf(leader->shared), finished, WAIT_MS);
	return true;
}

/* Returns an all-null row when Gather has to fetch a worker's tuple, and NULL at the end. */
static TupleTableSlot *
NextInLeader(Leader *leader, PlanState *below)
{
	bool		more = true;

	while (!leader->taker->stopped)
	{
		if (leader->shared != NULL && BlockRingFull(RingOf(leader->shared)) > 0)
			PassFullBlocks(leader);
		else if (leader->ntaken > 0)
			SettleBlocks(leader, true);
		if (leader->shared != NULL &&
			pg_atomic_read_u32(&leader->shared->ntuples) > leader->tuples_received)
		{
			if (leader->received_before == (int64) leader->tuples_received)
				BlockRingWait(RingOf(leader->shared),
							  BlockRingFinished(RingOf(leader->shared)), TUPLE_WAIT_MS);
			leader->received_before = leader->tuples_received;
			return ExecStoreAllNullTuple(leader->nulls);
		}
		if (!more)
			break;
		if (!leader->taker->stopped)
			more = WorkInLeader(leader, below);
	}
	EndInLeader(leader);
	return NULL;
}

/* --- the node */

static TupleTableSlot *
NextRow(CustomScanState *node)
{
	InputState *input = (InputState *) node;

	return input->leader == NULL ? NextInWorker(input) :
		NextInLeader(input->leader, outerPlanState(input));
}

static void
BeginInput(CustomScanState *node, EState *estate, int eflags)
{
	InputState *input = (InputState *) node;
	const CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	outerPlanState(input) = ExecInitNode(outerPlan(plan), estate, eflags);
	if (IsParallelWorker())
		return;
	input->leader = (Leader *)
		DatumGetPointer(linitial_node(Const, plan->custom_private)->constvalue);
	input->leader->nulls = ExecInitNullTupleSlot(estate, ExecGetResultType(outerPlanState(input)),
												  &TTSOpsVirtual);
}

static void
EndInput(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

static void
ShutdownInput(CustomScanState *node)
{
	if (((InputState *) node)->leader != NULL)
		EndInLeader(((InputState *) node)->leader);
}

static Size
EstimateInput(CustomScanState *node, ParallelContext *pcxt)
{
	return SharedBytes(pcxt->nworkers, ((InputState *) node)->leader->taker->source);
}

static void
InitializeInput(CustomScanState *node, ParallelContext *pcxt, void *memory)
{
	Leader	   *leader = ((InputState *) node)->leader;
	const VectorSource *source = leader->taker->source;
	RowSink    *sink = leader->taker->sink;
	SharedInput *shared = memory;

	get_typlenbyval(source->key_type, &shared->types[ROW_KEY].typlen, &shared->types[ROW_KEY].byval);
	shared->nvalues = 1;
	if (source->partition_column != NULL)
	{
		get_typlenbyval(source->partition_type, &shared->types[ROW_PARTITION].typlen,
						&shared->types[ROW_PARTITION].byval);
		shared->nvalues = ROW_VALUES;
	}
	shared->source = *source;
	pg_atomic_init_u32(&shared->dimensions, 0);
	pg_atomic_init_u32(&shared->ntuples, 0);
	BlockRingInit(RingOf(shared), CountBlocks(pcxt->nworkers, source), BlockBytes(source->element));
	/* set this early: workers' rows may arrive before the leader's node is first executed */
	leader->shared = shared;
	leader->pcxt = pcxt;
	if (sink->register_memory != NULL)
		sink->register_memory(sink, memory, SharedBytes(pcxt->nworkers, source));
}

static void
InitializeInputInWorker(CustomScanState *node, shm_toc *toc, void *memory)
{
	InputState *input = (InputState *) node;

	input->shared = memory;
	input->number = -1;
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedParallelRead",
	.BeginCustomScan = BeginInput,
	.ExecCustomScan = NextRow,
	.EndCustomScan = EndInput,
	.EstimateDSMCustomScan = EstimateInput,
	.InitializeDSMCustomScan = InitializeInput,
	.InitializeWorkerCustomScan = InitializeInputInWorker,
	.ShutdownCustomScan = ShutdownInput
};

static Node *
CreateInputNode(CustomScan *plan)
{
	InputState *input = palloc0(sizeof(InputState));

	NodeSetTag(input, T_CustomScanState);
	input->css.methods = &exec_methods;
	return (Node *) input;
}

static const CustomScanMethods scan_methods = {
	.CustomName = "FastedParallelRead",
	.CreateCustomScanState = CreateInputNode
};

void
InstallInputNode(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

/* --- planning and running */

/*
 * Inserts the node below the plan's top node, a Gather.  The plan contains the address of
 * leader, which workers must not follow.
 */
static void
AddInputNode(PlannedStmt *plan, Leader *leader)
{
	Plan	   *gather = plan->planTree;
	Plan	   *below = outerPlan(gather);
	CustomScan *input = makeNode(CustomScan);
	Plan	   *own = &input->scan.plan;
	ListCell   *cell;

	own->startup_cost = below->startup_cost;
	own->total_cost = below->total_cost;
	own->plan_rows = below->plan_rows;
	own->plan_width = below->plan_width;
	own->parallel_aware = own->parallel_safe = true;
	own->plan_node_id = INPUT_NODE_ID;
	own->extParam = bms_copy(below->extParam);
	own->allParam = bms_copy(below->allParam);
	own->lefttree = below;
	foreach(cell, below->targetlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);
		Var		   *column = makeVarFromTargetEntry(INDEX_VAR, entry);

		own->targetlist = lappend(own->targetlist,
								  makeTargetEntry((Expr *) column, entry->resno, entry->resname, false));
	}
	input->custom_scan_tlist = copyObject(below->targetlist);
	input->custom_private = list_make1(makeConst(INT8OID, -1, InvalidOid, sizeof(Datum),
												  PointerGetDatum(leader), false, true));
	input->methods = &scan_methods;
	gather->lefttree = own;
}

/* Withdraws registered memory; also called when the session ends, before its transaction does. */
static void
UnregisterMemory(int code, Datum arg)
{
	RowSink    *sink = ((RowTaker *) DatumGetPointer(arg))->sink;

	if (sink->unregister_memory != NULL)
		sink->unregister_memory(sink);
}

void
RunInputPlan(PlannedStmt *plan, RowTaker *taker)
{
	Leader		leader = {.taker = taker,.received_before = -1};

	AddInputNode(plan, &leader);
	/* Gather must execute the leader's node in any case */
	leader.reads = parallel_leader_participation;
	SetForThisQuery("parallel_leader_participation", "on");
	/* however this ends, nothing may read registered memory after it is freed */
	PG_ENSURE_ERROR_CLEANUP(UnregisterMemory, PointerGetDatum(taker));
	{
		RunPlan(taker->source, plan, ReceiveTuple, &leader);
	}
	PG_END_ENSURE_ERROR_CLEANUP(UnregisterMemory, PointerGetDatum(taker));
	taker->sink->read_by_workers(taker->sink, leader.nworkers, leader.ring_rows);
}
