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
 *	  leader then reports, and those whose key is too long for a block
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
#include "rows/source_query.h"
#include "rows/vector.h"
#include "storage/ipc.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

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

/* Room for the key of a row, where its size is not known. */
#define MEAN_KEY_BYTES 48
#define MIN_KEY_AREA 8192

StaticAssertDecl(BLOCK_BYTES >= FASTED_MAX_DIMENSIONS * sizeof(float) + 2 * MIN_KEY_AREA,
				 "a block holds the longest vector");
StaticAssertDecl(BLOCK_BYTES_OF_DOUBLES >= FASTED_MAX_DIMENSIONS * sizeof(double) + 2 * MIN_KEY_AREA,
				 "a block holds the longest vector of doubles");

/* A block of the ring: its rows are behind it, then a Datum for each key, then keys by reference. */
typedef struct Block
{
	uint32		nrows;
	uint32		key_bytes;		/* of keys that are passed by reference */
	bool		has_zeros;		/* there is a zero vector among the rows */
} Block;

#define ROWS_OFFSET MAXALIGN(sizeof(Block))

/* Where things are in a block; the same for all, once dimensions are known. */
typedef struct BlockLayout
{
	uint32		dimensions;		/* zero: not known yet */
	uint32		row_bytes;
	uint32		max_rows;
	uint32		max_key_bytes;
	uint32		slots_offset;	/* one Datum a row: the key, or where it is */
	uint32		keys_offset;
} BlockLayout;

/* What is in shared memory, before the ring. */
typedef struct SharedIntake
{
	int16		key_typlen;
	bool		key_byval;
	RowKind		kind;
	pg_atomic_uint32 dimensions;	/* of the first vector; zero before it */
	pg_atomic_uint32 ntuples;	/* rows that workers leave to the leader as tuples */
} SharedIntake;

/* What the leader knows of a plan with this node. */
typedef struct Leader
{
	RowTaker   *taker;
	bool		reads;			/* it may read a share of its own */
	SharedIntake *shared;		/* NULL: there is none, or none any more */
	BlockRing  *ring;
	ParallelContext *pcxt;
	uint32		nworkers;
	uint64		ring_rows;		/* rows that came through the ring */
	int			taken[BLOCKS_TOGETHER]; /* blocks that the sink may read still */
	int			ntaken;
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
	BlockRing  *ring;
	BlockLayout layout;
	int			number;			/* of the block that it fills; -1: none */
	bool		spoilt;			/* a row is on its way that the leader will report */
	bool		finished;
} IntakeState;

/* --- shared memory */

static Size
BlockBytes(const VectorSource *source)
{
	return source->element == FASTED_ELEMENT_DOUBLE ? BLOCK_BYTES_OF_DOUBLES : BLOCK_BYTES;
}

/* Each process fills one; a few must wait for the leader meanwhile. */
static int
CountBlocks(int nprocesses, const VectorSource *source)
{
	Size		bytes = Min(Max((Size) nprocesses * RING_BYTES_EACH, RING_MIN_BYTES), RING_MAX_BYTES);

	return Max(bytes / BlockBytes(source), nprocesses + 8);
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
		BlockRingSize(CountBlocks(nprocesses, source), BlockBytes(source));
}

static BlockLayout
LayoutOf(const SharedIntake *shared, uint32 dimensions)
{
	BlockLayout layout = {.dimensions = dimensions};
	uint32		block_bytes = shared->kind.element == FASTED_ELEMENT_DOUBLE ?
		BLOCK_BYTES_OF_DOUBLES : BLOCK_BYTES;
	uint32		key_bytes = shared->key_byval ? 0 :
		(shared->key_typlen > 0 ? MAXALIGN(shared->key_typlen) : MEAN_KEY_BYTES);
	uint32		each;

	layout.row_bytes = RowBytes(shared->kind.element, dimensions);
	each = layout.row_bytes + sizeof(Datum) + key_bytes;
	layout.max_rows = (block_bytes - ROWS_OFFSET - MIN_KEY_AREA - MAXIMUM_ALIGNOF) / each;
	layout.max_rows = Min(Max(layout.max_rows, 1), MAX_BLOCK_ROWS);
	layout.slots_offset = ROWS_OFFSET + MAXALIGN(layout.max_rows * layout.row_bytes);
	layout.keys_offset = layout.slots_offset + layout.max_rows * sizeof(Datum);
	layout.max_key_bytes = block_bytes - layout.keys_offset;
	return layout;
}

/* --- in a worker */

static void
PublishBlock(IntakeState *intake)
{
	if (intake->number >= 0)
		BlockRingPublish(intake->ring, intake->number);
	intake->number = -1;
}

/* A block with room for another row and its key; NULL: the leader wants no further row. */
static Block *
BlockWithRoom(IntakeState *intake, uint32 key_bytes)
{
	Block	   *block;

	if (intake->number >= 0)
	{
		block = BlockRingData(intake->ring, intake->number);
		if (block->nrows < intake->layout.max_rows &&
			block->key_bytes + key_bytes <= intake->layout.max_key_bytes)
			return block;
		PublishBlock(intake);
	}
	intake->number = BlockRingWaitEmpty(intake->ring);
	if (intake->number < 0)
		return NULL;
	block = BlockRingData(intake->ring, intake->number);
	*block = (Block) {0};
	return block;
}

static void
PutKey(const IntakeState *intake, Block *block, Datum key, uint32 key_bytes)
{
	Datum	   *slots = (Datum *) ((char *) block + intake->layout.slots_offset);

	if (!intake->shared->key_byval)
	{
		memcpy((char *) block + intake->layout.keys_offset + block->key_bytes,
			   DatumGetPointer(key), key_bytes);
		key = (Datum) block->key_bytes;
		block->key_bytes += MAXALIGN(key_bytes);
	}
	slots[block->nrows] = key;
}

/* False: the ring does not take the row, because it is spoilt or its key is too long. */
static bool
PutRow(IntakeState *intake, Datum key, bool key_isnull, Datum vector)
{
	SharedIntake *shared = intake->shared;
	ArrayType  *array;
	Block	   *block;
	int			dimensions;
	int			element;
	uint32		key_bytes = 0;
	float	   *row;

	intake->spoilt = true;
	if (key_isnull)
		return false;
	array = DatumGetArrayTypeP(vector);
	if (VectorShape(array, &dimensions) != VECTOR_OK || (uint32) dimensions > FASTED_MAX_DIMENSIONS)
		return false;
	if (unlikely(intake->layout.dimensions == 0))
	{
		uint32		set = 0;

		/* the first vector of all sets their number */
		if (pg_atomic_compare_exchange_u32(&shared->dimensions, &set, dimensions))
			set = dimensions;
		intake->layout = LayoutOf(shared, set);
	}
	if ((uint32) dimensions != intake->layout.dimensions)
		return false;
	if (!shared->key_byval)
	{
		if (shared->key_typlen == -1)
			key = PointerGetDatum(PG_DETOAST_DATUM(key));
		key_bytes = datumGetSize(key, false, shared->key_typlen);
	}

	intake->spoilt = false;
	if (BlockRingIsStopped(intake->ring) || key_bytes > intake->layout.max_key_bytes)
		return false;
	block = BlockWithRoom(intake, key_bytes);
	if (block == NULL)
		return false;
	row = (float *) ((char *) block + ROWS_OFFSET + block->nrows * intake->layout.row_bytes);
	intake->spoilt = VectorElements(array, &shared->kind, dimensions, row, &element) != VECTOR_OK;
	if (intake->spoilt)
		return false;
	PutKey(intake, block, key, key_bytes);
	block->nrows++;
	block->has_zeros |= RowIsZero(row, shared->kind.element, dimensions);
	return true;
}

/* Is nothing left to do with this row? */
static bool
PutSlot(IntakeState *intake, TupleTableSlot *slot)
{
	ExprContext *econtext = intake->css.ss.ps.ps_ExprContext;
	MemoryContext old;
	bool		taken;

	slot_getallattrs(slot);
	if (slot->tts_isnull[VECTOR_COLUMN])
		return true;			/* no vector: takes no part */
	ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	taken = PutRow(intake, slot->tts_values[KEY_COLUMN], slot->tts_isnull[KEY_COLUMN],
				   slot->tts_values[VECTOR_COLUMN]);
	MemoryContextSwitchTo(old);
	return taken;
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

	while (!BlockRingIsStopped(intake->ring) && !intake->spoilt)
	{
		TupleTableSlot *slot = ExecProcNode(below);

		if (TupIsNull(slot))
			break;
		if (PutSlot(intake, slot))
			continue;
		/* the rows before it come before it */
		PublishBlock(intake);
		pg_atomic_fetch_add_u32(&intake->shared->ntuples, 1);
		BlockRingWake(intake->ring);
		return slot;
	}
	PublishBlock(intake);
	if (!intake->finished)
		BlockRingFinish(intake->ring);
	intake->finished = true;
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

/* The keys of a block, pointers for those that are passed by reference.  Call it once. */
static Datum *
KeysOf(const SharedIntake *shared, const BlockLayout *layout, Block *block)
{
	Datum	   *slots = (Datum *) ((char *) block + layout->slots_offset);

	if (!shared->key_byval)
		for (uint32 i = 0; i < block->nrows; i++)
			slots[i] = PointerGetDatum((char *) block + layout->keys_offset + (Size) slots[i]);
	return slots;
}

/* Takes the rows of one block, which is the leader's. */
static void
TakeBlock(Leader *leader, const BlockLayout *layout, Block *block)
{
	RowTaker   *taker = leader->taker;
	const char *rows = (char *) block + ROWS_OFFSET;
	const Datum *keys = KeysOf(leader->shared, layout, block);
	bool		skip_zeros = taker->source->skip_zeros && block->has_zeros;
	size_t		row_bytes = layout->row_bytes;

	if (block->nrows > 0)
		CheckDimensions(taker, layout->dimensions, keys[0]);
	for (size_t begin = 0, end; begin < block->nrows; begin = end + 1)
	{
		for (end = begin; end < block->nrows; end++)
			if (skip_zeros && RowIsZero((const float *) (rows + end * row_bytes),
										taker->source->element, taker->dimensions))
				break;
		if (!GiveRows(leader, rows + begin * row_bytes, keys + begin, end - begin, row_bytes))
			return;
	}
}

/* Blocks go back to the workers once nothing reads them any more; all: the sink reads none. */
static void
FreeTaken(Leader *leader, bool all)
{
	RowSink    *sink = leader->taker->sink;

	if (sink->settle != NULL)
		sink->settle(sink, all);
	for (int i = 0; i < leader->ntaken; i++)
		BlockRingRelease(leader->ring, leader->taken[i]);
	leader->ntaken = 0;
}

/* Blocks that were taken before these are free then. */
static void
NoteTaken(Leader *leader, const int *blocks, int nblocks)
{
	if (nblocks == 0)
		return;
	FreeTaken(leader, false);
	memcpy(leader->taken, blocks, nblocks * sizeof(int));
	leader->ntaken = nblocks;
}

/* Takes the full blocks of the ring; false: no more rows are wanted. */
static bool
TakeBlocks(Leader *leader)
{
	uint32		dimensions = pg_atomic_read_u32(&leader->shared->dimensions);
	BlockLayout layout;
	int			blocks[BLOCKS_TOGETHER];
	int			nblocks = 0;

	if (dimensions == 0)
		return true;
	layout = LayoutOf(leader->shared, dimensions);
	for (uint32 left = BlockRingFull(leader->ring); left > 0 && !leader->taker->stopped; left--)
	{
		int			number = BlockRingTakeFull(leader->ring);

		CheckJoinInterrupts();
		TakeBlock(leader, &layout, BlockRingData(leader->ring, number));
		blocks[nblocks++] = number;
		if (nblocks == BLOCKS_TOGETHER)
		{
			NoteTaken(leader, blocks, nblocks);
			nblocks = 0;
		}
	}
	NoteTaken(leader, blocks, nblocks);
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

	if (BlockRingFinished(leader->ring) >= (uint32) launched)
		return true;
	for (int i = 0; i < launched; i++)
	{
		BackgroundWorkerHandle *handle = pcxt->worker[i].bgwhandle;
		pid_t		pid;

		stopped += handle == NULL || GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
	}
	return stopped == launched;
}

/* The leader reads a share of the plan, unless it has enough to do with the rows of workers. */
static bool
LeaderReads(const Leader *leader)
{
	int			launched = leader->shared == NULL ? 0 : leader->pcxt->nworkers_launched;

	return !leader->share_over && (launched == 0 || (leader->reads && launched < ENOUGH_WORKERS));
}

/* The shared memory is about to go. */
static void
EndInLeader(Leader *leader)
{
	RowSink    *sink = leader->taker->sink;

	if (leader->shared == NULL)
		return;
	if (leader->taker->stopped)
		BlockRingStop(leader->ring);
	if (sink->withdraw != NULL)
		sink->withdraw(sink);
	leader->nworkers = leader->pcxt->nworkers_launched;
	leader->ntaken = 0;
	leader->shared = NULL;
}

/* Reads a row of the own share, or waits for blocks; false: there will be no further. */
static bool
WorkInLeader(Leader *leader, PlanState *below)
{
	uint32		finished;

	if (LeaderReads(leader))
	{
		TupleTableSlot *slot = ExecProcNode(below);

		leader->share_over = TupIsNull(slot);
		if (!leader->share_over)
			TakeSlot(leader->taker, slot);
		return true;
	}
	if (leader->shared == NULL)
		return false;
	finished = BlockRingFinished(leader->ring);
	if (WorkersHaveFinished(leader))
		return false;
	CheckJoinInterrupts();
	BlockRingWait(leader->ring, finished, WAIT_MS);
	return true;
}

/* A row of nulls, or at the end none. */
static TupleTableSlot *
NextInLeader(Leader *leader, PlanState *below)
{
	bool		more = true;

	while (!leader->taker->stopped)
	{
		if (leader->shared != NULL && BlockRingFull(leader->ring) > 0)
			TakeBlocks(leader);
		else if (leader->ntaken > 0)
			FreeTaken(leader, true);
		if (leader->shared != NULL &&
			pg_atomic_read_u32(&leader->shared->ntuples) > leader->tuples_received)
		{
			if (leader->received_before == (int64) leader->tuples_received)
				BlockRingWait(leader->ring, BlockRingFinished(leader->ring), TUPLE_WAIT_MS);
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
RescanIntake(CustomScanState *node)
{
	elog(ERROR, "fasted reads a source once");
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

	get_typlenbyval(source->key_type, &shared->key_typlen, &shared->key_byval);
	shared->kind = RowKindOf(source);
	pg_atomic_init_u32(&shared->dimensions, 0);
	pg_atomic_init_u32(&shared->ntuples, 0);
	BlockRingInit(RingOf(shared), CountBlocks(pcxt->nworkers, source), BlockBytes(source));
	/* from the first worker on: its rows may come before the leader's node is called */
	leader->shared = shared;
	leader->ring = RingOf(shared);
	leader->pcxt = pcxt;
	if (sink->lend != NULL)
		sink->lend(sink, memory, SharedBytes(pcxt->nworkers, source));
}

static void
InitializeIntakeInWorker(CustomScanState *node, shm_toc *toc, void *memory)
{
	IntakeState *intake = (IntakeState *) node;

	intake->shared = memory;
	intake->ring = RingOf(memory);
	intake->number = -1;
}

static const CustomExecMethods exec_methods = {
	.CustomName = "FastedIntake",
	.BeginCustomScan = BeginIntake,
	.ExecCustomScan = NextRow,
	.EndCustomScan = EndIntake,
	.ReScanCustomScan = RescanIntake,
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
