/*-------------------------------------------------------------------------
 *
 * intake.c
 *	  The plan node by which parallel workers hand rows to the leader.
 *
 * The planner's plan for reading a source is Gather over a partial plan.  This node, a
 * custom scan, goes between the two.  In a worker it takes the rows of the plan below,
 * converts them and writes them into a ring of blocks in the plan's shared memory
 * (block_ring.h), so that no tuple is made of them.  In the leader it reads the
 * leader's own share of the plan, if that has one, and gives the rows of the ring
 * to the sink.  Nothing else comes out of it but
 *
 *	- rows that the ring does not take: those with an error in them, which the
 *	  leader then reports, and those whose key or partition is too long for a block
 *	- in the leader, a row of nulls to let Gather look for these
 *
 * Nobody waits for somebody who waits for him.  A worker waits for a free block, as
 * it would for room in its tuple queue, and the leader, once it has begun, frees
 * blocks until all workers have finished: it waits for nothing but them, and what
 * the plan below waits for is safe for workers that wait above it, as with any
 * Gather.  A worker whose row leaves as a tuple may wait in its tuple queue: it says
 * so before, and the leader returns to Gather, which empties the queue.
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

/* Behind all that the planner gives to the nodes of a plan. */
#define INTAKE_NODE_ID (1 << 20)

/*
 * To take a row over costs the leader a fifth or so of what it costs to read one:
 * beside so many workers it should do nothing else.
 */
#define ENOUGH_WORKERS 4

/* So long the leader waits for a block before it looks who is still at work. */
#define WAIT_MS 10

/* So long for a tuple that is on its way to it. */
#define TUPLE_WAIT_MS 1

/* Blocks that are on their way into the sink together; as many more may wait to be freed. */
#define BLOCKS_TOGETHER 4

/*
 * Bytes of blocks for each process, and the bounds of their sum.  A block holds
 * a row of FASTED_MAX_DIMENSIONS with its key.
 */
#define RING_BYTES_EACH (2 * 1024 * 1024)
#define RING_MIN_BYTES (4 * 1024 * 1024)
#define RING_MAX_BYTES (16 * 1024 * 1024)
#define BLOCK_BYTES (384 * 1024)
#define BLOCK_BYTES_OF_DOUBLES (640 * 1024)

/* Rows of a block are this many at most, so that the leader is fed early. */
#define MAX_BLOCK_ROWS 2048

/* What a row has beside its vector. */
enum
{
	ROW_KEY,
	ROW_PARTITION,
	ROW_VALUES
};

/*
 * A block of the ring: rows of one number of dimensions.  Vectors lie behind it; values by
 * reference lie before the block's end, the first one last.
 */
typedef struct Block
{
	uint32		nrows;
	uint32		dimensions;
	Size		value_bytes;	/* of values that are passed by reference */
	bool		has_zeros;		/* there is a zero vector among the rows */
	/* of one by reference: its distance from the block's end */
	Datum		values[ROW_VALUES][MAX_BLOCK_ROWS];
} Block;

#define ROWS_OFFSET MAXALIGN(sizeof(Block))

StaticAssertDecl(BLOCK_BYTES >= ROWS_OFFSET + FASTED_MAX_DIMENSIONS * sizeof(float) + 16384 &&
				 BLOCK_BYTES_OF_DOUBLES >= ROWS_OFFSET + FASTED_MAX_DIMENSIONS * sizeof(double) + 16384,
				 "a block holds the longest vector and its key");

/* What is in shared memory, before the ring. */
typedef struct SharedIntake
{
	int			nvalues;		/* of a row: is there a partition? */
	struct
	{
		int16		typlen;
		bool		byval;
	}			types[ROW_VALUES];
	VectorSource source;		/* of which workers use no pointers */
	pg_atomic_uint32 dimensions;	/* of the first vector; zero before it, or with partitions */
	pg_atomic_uint32 ntuples;	/* rows that workers leave to the leader as tuples */
} SharedIntake;

/* What the leader knows of a plan with this node. */
typedef struct Leader
{
	RowTaker   *taker;
	bool		reads;			/* it may read a share of its own */
	SharedIntake *shared;		/* NULL: there is none, or none any more */
	ParallelContext *pcxt;
	uint32		nworkers;
	uint64		ring_rows;		/* rows that came through the ring */
	int			taken[2 * BLOCKS_TOGETHER]; /* blocks that the sink may read still */
	int			ntaken;
	int			nsettling;		/* those of them that it reads until it settles once more */
	uint32		tuples_received;	/* rows of workers that came as tuples */
	int64		received_before;	/* when Gather looked last; -1: never */
	bool		share_over;		/* of its own share there is nothing left to read */
	TupleTableSlot *nulls;
} Leader;

typedef struct IntakeState
{
	CustomScanState css;
	Leader	   *leader;			/* NULL in a worker, which has what follows */
	SharedIntake *shared;
	int			number;			/* of the block that it fills; -1: none */
	bool		spoilt;			/* a row is on its way that the leader will report */
} IntakeState;

/* --- shared memory */

static Size
BlockBytes(FastedElement element)
{
	return element == FASTED_ELEMENT_DOUBLE ? BLOCK_BYTES_OF_DOUBLES : BLOCK_BYTES;
}

/* Each process fills one; a few must wait for the leader meanwhile. */
static int
CountBlocks(int nprocesses, const VectorSource *source)
{
	Size		bytes = Min(Max((Size) nprocesses * RING_BYTES_EACH, RING_MIN_BYTES), RING_MAX_BYTES);

	return Max(bytes / BlockBytes(source->element), nprocesses + 8);
}

static BlockRing *
RingOf(SharedIntake *shared)
{
	return (BlockRing *) ((char *) shared + MAXALIGN(sizeof(SharedIntake)));
}

static Size
SharedBytes(int nprocesses, const VectorSource *source)
{
	return MAXALIGN(sizeof(SharedIntake)) +
		BlockRingSize(CountBlocks(nprocesses, source), BlockBytes(source->element));
}

/* --- in a worker */

static void
PublishBlock(IntakeState *intake)
{
	if (intake->number >= 0)
		BlockRingPublish(RingOf(intake->shared), intake->number);
	intake->number = -1;
}

/* A block with room for another row and its values; NULL: the leader wants no further row. */
static Block *
BlockWithRoom(IntakeState *intake, uint32 dimensions, Size row_bytes, Size value_bytes)
{
	Block	   *block;

	if (intake->number >= 0)
	{
		block = BlockRingData(RingOf(intake->shared), intake->number);
		if (block->nrows < MAX_BLOCK_ROWS && block->dimensions == dimensions &&
			ROWS_OFFSET + (block->nrows + 1) * row_bytes + block->value_bytes + value_bytes <=
			BlockBytes(intake->shared->source.element))
			return block;
		PublishBlock(intake);
	}
	intake->number = BlockRingWaitEmpty(RingOf(intake->shared));
	if (intake->number < 0)
		return NULL;
	block = BlockRingData(RingOf(intake->shared), intake->number);
	block->nrows = 0;
	block->dimensions = dimensions;
	block->value_bytes = 0;
	block->has_zeros = false;
	return block;
}

/* The row's key and partition, not toasted; how many bytes those by reference take in a block. */
static Size
FindValues(const SharedIntake *shared, const TupleTableSlot *slot, Datum *values)
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
PutValues(const SharedIntake *shared, Block *block, const Datum *values)
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
 * Returns true if nothing is left to do with this row; false, if the ring does not take it, because
 * it is spoilt or its values are too long.  Leaves garbage in the current memory context.
 */
static bool
PutRow(IntakeState *intake, TupleTableSlot *slot)
{
	SharedIntake *shared = intake->shared;
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
		return true;			/* no vector: takes no part */
	if (shared->nvalues > ROW_PARTITION && slot->tts_isnull[PARTITION_COLUMN])
		return true;			/* of no partition: no part either */
	intake->spoilt = true;
	if (slot->tts_isnull[KEY_COLUMN])
		return false;
	array = DatumGetArrayTypeP(slot->tts_values[VECTOR_COLUMN]);
	if (VectorShape(array, &dimensions) != VECTOR_OK || (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		return false;
	if (shared->nvalues == ROW_PARTITION)
	{
		/* the first vector of all sets their number */
		if (common == 0 && pg_atomic_compare_exchange_u32(&shared->dimensions, &common, dimensions))
			common = dimensions;
		if ((uint32) dimensions != common)
			return false;
	}
	value_bytes = FindValues(shared, slot, values);

	intake->spoilt = false;
	row_bytes = RowBytes(shared->source.element, dimensions);
	if (BlockRingIsStopped(RingOf(intake->shared)) ||
		ROWS_OFFSET + row_bytes + value_bytes > block_bytes)
		return false;
	block = BlockWithRoom(intake, dimensions, row_bytes, value_bytes);
	if (block == NULL)
		return false;
	row = (float *) ((char *) block + ROWS_OFFSET + block->nrows * row_bytes);
	intake->spoilt = VectorElements(array, &shared->source, dimensions, row, &element) != VECTOR_OK;
	if (intake->spoilt)
		return false;
	PutValues(shared, block, values);
	block->nrows++;
	block->has_zeros |= RowIsZero(row, shared->source.element, dimensions);
	return true;
}

/*
 * The next row that the ring does not take.  A tuple queue shows what is in it when a
 * quarter of it is full, or at its end; so that the leader sees an error at once, the
 * row that has one is this worker's last.
 */
static TupleTableSlot *
NextInWorker(IntakeState *intake)
{
	PlanState  *below = outerPlanState(intake);
	ExprContext *econtext = intake->css.ss.ps.ps_ExprContext;

	while (!BlockRingIsStopped(RingOf(intake->shared)) && !intake->spoilt)
	{
		TupleTableSlot *slot = ExecProcNode(below);
		MemoryContext old;
		bool		taken;

		if (TupIsNull(slot))
			break;
		ResetExprContext(econtext);
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		taken = PutRow(intake, slot);
		MemoryContextSwitchTo(old);
		if (taken)
			continue;
		/* the rows before it come before it */
		PublishBlock(intake);
		pg_atomic_fetch_add_u32(&intake->shared->ntuples, 1);
		BlockRingWake(RingOf(intake->shared));
		return slot;
	}
	PublishBlock(intake);
	BlockRingFinish(RingOf(intake->shared));
	return NULL;
}

/* --- from the ring to the sink */

/* Gives these rows to the sink, which may read them until it settles; false: it takes no more rows. */
static bool
GiveRows(Leader *leader, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	RowSink    *sink = leader->taker->sink;

	while (nrows > 0)
	{
		size_t		n = 0;

		if (sink->take_block != NULL)
			n = sink->take_block(sink, (const float *) rows, keys, nrows);
		if (n == 0)
		{
			float	   *room;

			n = Min(sink->room_for_rows(sink, &room), nrows);
			if (n == 0)
			{
				leader->taker->stopped = true;
				return false;
			}
			memcpy(room, rows, n * row_bytes);
			sink->take_rows(sink, keys, n);
		}
		leader->ring_rows += n;
		rows += n * row_bytes;
		keys += n;
		nrows -= n;
	}
	return true;
}

/* Takes the rows of one block, which is the leader's.  Call it once for a block. */
static void
TakeBlock(Leader *leader, Block *block)
{
	RowTaker   *taker = leader->taker;
	FastedElement element = taker->source->element;
	const char *rows = (char *) block + ROWS_OFFSET;
	bool		skip_zeros = taker->source->skip_zeros && block->has_zeros;
	bool		grouped = leader->shared->nvalues > ROW_PARTITION;
	uint32		dimensions = block->dimensions;
	size_t		row_bytes = RowBytes(element, dimensions);
	const Datum *keys = block->values[ROW_KEY];

	for (int v = 0; v < leader->shared->nvalues; v++)
		for (uint32 i = 0; i < block->nrows && !leader->shared->types[v].byval; i++)
			block->values[v][i] = PointerGetDatum((char *) block + BlockBytes(element) -
												  (Size) block->values[v][i]);
	for (size_t begin = 0, end; begin < block->nrows; begin = end)
	{
		if (grouped)
			taker->partition = block->values[ROW_PARTITION][begin];
		if (grouped || begin == 0)
			CheckDimensions(taker, dimensions, keys[begin]);
		/* rows until the next zero vector; or one, which its partition counts */
		for (end = begin; end < block->nrows && (!grouped || end == begin); end++)
			if (skip_zeros && RowIsZero((const float *) (rows + end * row_bytes), element, dimensions))
				break;
		if (!GiveRows(leader, rows + begin * row_bytes, keys + begin, end - begin, row_bytes))
			return;
		if (end == begin)
			end++;				/* it is zero */
	}
}

/*
 * Blocks go back to the workers once nothing reads them any more: those that the sink took before
 * it settled last, or all.
 */
static void
FreeTaken(Leader *leader, bool all)
{
	RowSink    *sink = leader->taker->sink;
	int			nfree = all ? leader->ntaken : leader->nsettling;

	if (sink->settle != NULL)
		sink->settle(sink, all);
	for (int i = 0; i < nfree; i++)
		BlockRingRelease(RingOf(leader->shared), leader->taken[i]);
	leader->ntaken -= nfree;
	memmove(leader->taken, leader->taken + nfree, leader->ntaken * sizeof(int));
	leader->nsettling = leader->ntaken;
}

/* Takes the full blocks of the ring; false: no more rows are wanted. */
static bool
TakeBlocks(Leader *leader)
{
	BlockRing  *ring = RingOf(leader->shared);

	for (uint32 left = BlockRingFull(ring); left > 0 && !leader->taker->stopped; left--)
	{
		int			number = BlockRingTakeFull(ring);

		CheckJoinInterrupts();
		TakeBlock(leader, BlockRingData(ring, number));
		leader->taken[leader->ntaken++] = number;
		if (leader->ntaken == leader->nsettling + BLOCKS_TOGETHER)
			FreeTaken(leader, false);
	}
	if (leader->ntaken > leader->nsettling)
		FreeTaken(leader, false);
	return !leader->taker->stopped;
}

/*
 * What comes out of an intake node, but for the rows of nulls that it makes, is a
 * row that a worker did not put into the ring; those that it put there before go
 * first, so that messages tell of rows in the order in which they were read.
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
	return TakeBlocks(leader) && TakeSlot(leader->taker, slot);
}

/* --- in the leader */

/* Workers that did not start, or died, are not waited for. */
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

/* The shared memory is about to go. */
static void
EndInLeader(Leader *leader)
{
	RowSink    *sink = leader->taker->sink;

	if (leader->shared == NULL)
		return;
	if (leader->taker->stopped)
		BlockRingStop(RingOf(leader->shared));
	if (sink->withdraw != NULL)
		sink->withdraw(sink);
	leader->nworkers = leader->pcxt->nworkers_launched;
	leader->ntaken = leader->nsettling = 0;
	leader->shared = NULL;
}

/* Reads a row of the own share, or waits for blocks; false: there will be no further. */
static bool
WorkInLeader(Leader *leader, PlanState *below)
{
	int			launched = leader->shared == NULL ? 0 : leader->pcxt->nworkers_launched;
	uint32		finished;

	/* a share of the plan, unless it has enough to do with the rows of workers */
	if (!leader->share_over && (launched == 0 || (leader->reads && launched < ENOUGH_WORKERS)))
	{
		TupleTableSlot *slot = ExecProcNode(below);

		leader->share_over = TupIsNull(slot);
		if (!leader->share_over)
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

/* A row of nulls, or at the end none. */
static TupleTableSlot *
NextInLeader(Leader *leader, PlanState *below)
{
	bool		more = true;

	while (!leader->taker->stopped)
	{
		if (leader->shared != NULL && BlockRingFull(RingOf(leader->shared)) > 0)
			TakeBlocks(leader);
		else if (leader->ntaken > 0)
			FreeTaken(leader, true);
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
	IntakeState *intake = (IntakeState *) node;

	return intake->leader == NULL ? NextInWorker(intake) :
		NextInLeader(intake->leader, outerPlanState(intake));
}

static void
BeginIntake(CustomScanState *node, EState *estate, int eflags)
{
	IntakeState *intake = (IntakeState *) node;
	const CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	outerPlanState(intake) = ExecInitNode(outerPlan(plan), estate, eflags);
	if (IsParallelWorker())
		return;
	intake->leader = (Leader *)
		DatumGetPointer(linitial_node(Const, plan->custom_private)->constvalue);
	intake->leader->nulls = ExecInitNullTupleSlot(estate, ExecGetResultType(outerPlanState(intake)),
												  &TTSOpsVirtual);
}

static void
EndIntake(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

static void
ShutdownIntake(CustomScanState *node)
{
	if (((IntakeState *) node)->leader != NULL)
		EndInLeader(((IntakeState *) node)->leader);
}

static Size
EstimateIntake(CustomScanState *node, ParallelContext *pcxt)
{
	return SharedBytes(pcxt->nworkers, ((IntakeState *) node)->leader->taker->source);
}

static void
InitializeIntake(CustomScanState *node, ParallelContext *pcxt, void *memory)
{
	Leader	   *leader = ((IntakeState *) node)->leader;
	const VectorSource *source = leader->taker->source;
	RowSink    *sink = leader->taker->sink;
	SharedIntake *shared = memory;

	get_typlenbyval(source->key_type, &shared->types[ROW_KEY].typlen, &shared->types[ROW_KEY].byval);
	shared->nvalues = 1;
	if (source->group_column != NULL)
	{
		get_typlenbyval(source->group_type, &shared->types[ROW_PARTITION].typlen,
						&shared->types[ROW_PARTITION].byval);
		shared->nvalues = ROW_VALUES;
	}
	shared->source = *source;
	pg_atomic_init_u32(&shared->dimensions, 0);
	pg_atomic_init_u32(&shared->ntuples, 0);
	BlockRingInit(RingOf(shared), CountBlocks(pcxt->nworkers, source), BlockBytes(source->element));
	/* from the first worker on: its rows may come before the leader's node is called */
	leader->shared = shared;
	leader->pcxt = pcxt;
	if (sink->lend != NULL)
		sink->lend(sink, memory, SharedBytes(pcxt->nworkers, source));
}

static void
InitializeIntakeInWorker(CustomScanState *node, shm_toc *toc, void *memory)
{
	IntakeState *intake = (IntakeState *) node;

	intake->shared = memory;
	intake->number = -1;
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedIntake",
	.BeginCustomScan = BeginIntake,
	.ExecCustomScan = NextRow,
	.EndCustomScan = EndIntake,
	.EstimateDSMCustomScan = EstimateIntake,
	.InitializeDSMCustomScan = InitializeIntake,
	.InitializeWorkerCustomScan = InitializeIntakeInWorker,
	.ShutdownCustomScan = ShutdownIntake
};

static Node *
CreateIntake(CustomScan *plan)
{
	IntakeState *intake = palloc0(sizeof(IntakeState));

	NodeSetTag(intake, T_CustomScanState);
	intake->css.methods = &exec_methods;
	return (Node *) intake;
}

static const CustomScanMethods scan_methods = {
	.CustomName = "FastedIntake",
	.CreateCustomScanState = CreateIntake
};

void
InstallIntakeNode(void)
{
	RegisterCustomScanMethods(&scan_methods);
}

/* --- planning and running */

/*
 * Puts the node below the plan's Gather, which is its top.  The plan has the address of
 * leader in it, which no worker looks at.
 */
static void
AddIntakeNode(PlannedStmt *plan, Leader *leader)
{
	Plan	   *gather = plan->planTree;
	Plan	   *below = outerPlan(gather);
	CustomScan *intake = makeNode(CustomScan);
	Plan	   *own = &intake->scan.plan;
	ListCell   *cell;

	own->startup_cost = below->startup_cost;
	own->total_cost = below->total_cost;
	own->plan_rows = below->plan_rows;
	own->plan_width = below->plan_width;
	own->parallel_aware = own->parallel_safe = true;
	own->plan_node_id = INTAKE_NODE_ID;
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
	intake->custom_scan_tlist = copyObject(below->targetlist);
	intake->custom_private = list_make1(makeConst(INT8OID, -1, InvalidOid, sizeof(Datum),
												  PointerGetDatum(leader), false, true));
	intake->methods = &scan_methods;
	gather->lefttree = own;
}

/* Also called when the session ends, before its transaction does. */
static void
Withdraw(int code, Datum arg)
{
	RowSink    *sink = ((RowTaker *) DatumGetPointer(arg))->sink;

	if (sink->withdraw != NULL)
		sink->withdraw(sink);
}

void
RunIntakePlan(PlannedStmt *plan, RowTaker *taker)
{
	Leader		leader = {.taker = taker,.received_before = -1};

	AddIntakeNode(plan, &leader);
	/* Gather is to call the leader's node in any case */
	leader.reads = parallel_leader_participation;
	SetForThisQuery("parallel_leader_participation", "on");
	/* however it ends, nothing reads lent memory any more when it goes */
	PG_ENSURE_ERROR_CLEANUP(Withdraw, PointerGetDatum(taker));
	{
		RunPlan(taker->source, plan, ReceiveTuple, &leader);
	}
	PG_END_ENSURE_ERROR_CLEANUP(Withdraw, PointerGetDatum(taker));
	taker->sink->read_by_workers(taker->sink, leader.nworkers, leader.ring_rows);
}
