/*-------------------------------------------------------------------------
 *
 * intake_node.c
 *	  The plan node by which parallel workers hand rows to the leader.
 *
 * The planner's plan for reading a source is Gather over a partial plan.  This node, a
 * custom scan, goes between the two.  In a worker it takes the rows of the plan below,
 * converts them and writes them into a ring of blocks in the plan's shared memory
 * (intake_ring.h), so that no tuple is made of them.  In the leader it reads the
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
#include "base/interrupts.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "rows/intake_ring.h"
#include "rows/reader.h"
#include "rows/source_query.h"
#include "storage/ipc.h"
#include "utils/datum.h"
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

typedef struct IntakeState
{
	CustomScanState css;
	IntakeRing *ring;			/* NULL: no shared memory */

	/* In the leader. */
	RowTaker   *taker;
	ParallelContext *pcxt;
	bool		share_over;		/* of its own share there is nothing left to read */
	int64		received_before;	/* tuples, when Gather looked last; -1: never */
	TupleTableSlot *nulls;

	/* In a worker. */
	IntakeWriter writer;
	bool		spoilt;			/* a row is on its way that the leader will report */
	bool		finished;
} IntakeState;

/* --- in a worker */

/* False: the ring does not take the row, because it is spoilt or its key is too long. */
static bool
PutRow(IntakeState *intake, Datum key, bool key_isnull, Datum vector)
{
	IntakeWriter *writer = &intake->writer;
	IntakeRing *ring = intake->ring;
	ArrayType  *array;
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
	if (unlikely(writer->dimensions == 0))
	{
		writer->dimensions = IntakeAgreeOnDimensions(ring, dimensions);
		writer->layout = IntakeLayoutOf(ring, writer->dimensions);
	}
	if ((uint32) dimensions != writer->dimensions)
		return false;
	if (!ring->key_byval)
	{
		if (ring->key_typlen == -1)
			key = PointerGetDatum(PG_DETOAST_DATUM(key));
		key_bytes = datumGetSize(key, false, ring->key_typlen);
	}

	row = IntakeRoom(writer, key_bytes);
	intake->spoilt = row != NULL &&
		VectorElements(array, &ring->kind, dimensions, row, &element) != VECTOR_OK;
	if (row == NULL || intake->spoilt)
		return false;
	IntakePut(writer, key, key_bytes, RowIsZero(row, ring->kind.element, dimensions));
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

	while (!IntakeIsStopped(intake->ring) && !intake->spoilt)
	{
		TupleTableSlot *slot = ExecProcNode(below);

		if (TupIsNull(slot))
			break;
		if (PutSlot(intake, slot))
			continue;
		IntakeLeaveTuple(&intake->writer);
		return slot;
	}
	if (!intake->finished)
		IntakeFinish(&intake->writer);
	intake->finished = true;
	return NULL;
}

/* --- from the ring to the sink */

/* Gives these rows to the sink, which may read them until it settles; false: it takes no more rows. */
static bool
GiveRows(RowTaker *taker, const char *rows, const Datum *keys, size_t nrows, size_t row_bytes)
{
	RowSink    *sink = taker->sink;

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
				return StopTaking(taker);
			memcpy(room, rows, n * row_bytes);
			sink->take_rows(sink, keys, n);
		}
		taker->ring_rows += n;
		rows += n * row_bytes;
		keys += n;
		nrows -= n;
	}
	return true;
}

/* Takes the rows of one block, which is the leader's. */
static void
TakeBlock(RowTaker *taker, const IntakeLayout *layout, uint32 number)
{
	const char *rows = IntakeBlockData(taker->ring, number);
	const Datum *keys = IntakeKeys(taker->ring, layout, number);
	const IntakeBlock *block = &taker->ring->blocks[number];
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
		if (!GiveRows(taker, rows + begin * row_bytes, keys + begin, end - begin, row_bytes))
			return;
	}
}

/* Blocks go back to the workers once nothing reads them any more; all: the sink reads none. */
static void
FreeTaken(RowTaker *taker, bool all)
{
	if (taker->sink->settle != NULL)
		taker->sink->settle(taker->sink, all);
	for (int i = 0; i < taker->ntaken; i++)
		IntakeFree(taker->ring, taker->taken[i]);
	taker->ntaken = 0;
}

/* Blocks that were taken before these are free then. */
static void
NoteTaken(RowTaker *taker, const uint32 *blocks, int nblocks)
{
	if (nblocks == 0)
		return;
	FreeTaken(taker, false);
	memcpy(taker->taken, blocks, nblocks * sizeof(uint32));
	taker->ntaken = nblocks;
}

/* Takes the full blocks of the ring; false: no more rows are wanted. */
static bool
TakeBlocks(RowTaker *taker)
{
	IntakeRing *ring = taker->ring;
	IntakeLayout layout;
	uint32		dimensions;
	uint32		blocks[INTAKE_TOGETHER];
	int			nblocks = 0;

	dimensions = pg_atomic_read_u32(&ring->dimensions);
	if (dimensions == 0)
		return true;
	layout = IntakeLayoutOf(ring, dimensions);

	for (uint32 i = 0; i < ring->nblocks && !taker->stopped; i++)
	{
		if (!IntakeTake(ring, i))
			continue;
		CheckJoinInterrupts();
		TakeBlock(taker, &layout, i);
		blocks[nblocks++] = i;
		if (nblocks == INTAKE_TOGETHER)
		{
			NoteTaken(taker, blocks, nblocks);
			nblocks = 0;
		}
	}
	NoteTaken(taker, blocks, nblocks);
	return !taker->stopped;
}

/*
 * What comes out of an intake node, but for the rows of nulls that it makes, is a
 * row that a worker did not put into the ring; those that it put there before go
 * first, so that messages tell of rows in the order in which they were read.
 */
static bool
ReceiveTuple(void *arg, TupleTableSlot *slot)
{
	RowTaker   *taker = arg;

	if (taker->ring == NULL)
		return TakeSlot(taker, slot);
	if (slot_attisnull(slot, VECTOR_COLUMN + 1))
		return true;
	taker->tuples_received++;
	return TakeBlocks(taker) && TakeSlot(taker, slot);
}

/* --- in the leader */

/* Workers that did not start, or died, are not waited for. */
static bool
WorkersHaveFinished(const IntakeState *intake)
{
	const ParallelContext *pcxt = intake->pcxt;
	int			launched = pcxt->nworkers_launched;
	int			stopped = 0;

	if (IntakeFinished(intake->ring) >= (uint32) launched)
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
LeaderReads(const IntakeState *intake)
{
	int			launched = intake->ring == NULL ? 0 : intake->pcxt->nworkers_launched;

	return !intake->share_over &&
		(launched == 0 || (intake->taker->leader_reads && launched < ENOUGH_WORKERS));
}

/* The shared memory is about to go. */
static void
EndInLeader(IntakeState *intake)
{
	RowTaker   *taker = intake->taker;

	if (taker->ring == NULL)
		return;
	if (taker->sink->withdraw != NULL)
		taker->sink->withdraw(taker->sink);
	taker->ring_workers = IntakeWorkers(taker->ring);
	taker->ntaken = 0;
	taker->ring = NULL;
}

/* Reads a row of the own share, or waits for blocks; false: there will be no further. */
static bool
WorkInLeader(IntakeState *intake)
{
	TupleTableSlot *slot;
	uint32		finished;

	if (LeaderReads(intake))
	{
		slot = ExecProcNode(outerPlanState(intake));
		intake->share_over = TupIsNull(slot);
		if (!intake->share_over)
			TakeSlot(intake->taker, slot);
		return true;
	}
	if (intake->ring == NULL)
		return false;
	finished = IntakeFinished(intake->ring);
	if (WorkersHaveFinished(intake))
		return false;
	CheckJoinInterrupts();
	IntakeWait(intake->ring, finished, WAIT_MS);
	return true;
}

/* A row of nulls, or at the end none. */
static TupleTableSlot *
NextInLeader(IntakeState *intake)
{
	RowTaker   *taker = intake->taker;
	bool		more = true;

	while (!taker->stopped)
	{
		if (taker->ring != NULL && IntakeHasBlocks(taker->ring))
			TakeBlocks(taker);
		else if (taker->ntaken > 0)
			FreeTaken(taker, true);
		if (taker->ring != NULL && IntakeTuples(taker->ring) > taker->tuples_received)
		{
			if (intake->received_before == (int64) taker->tuples_received)
				IntakeWait(taker->ring, IntakeFinished(taker->ring), TUPLE_WAIT_MS);
			intake->received_before = taker->tuples_received;
			return ExecStoreAllNullTuple(intake->nulls);
		}
		if (!more)
			break;
		if (!taker->stopped)
			more = WorkInLeader(intake);
	}
	EndInLeader(intake);
	return NULL;
}

/* --- the node */

static TupleTableSlot *
NextRow(CustomScanState *node)
{
	IntakeState *intake = (IntakeState *) node;

	return IsParallelWorker() ? NextInWorker(intake) : NextInLeader(intake);
}

static void
BeginIntake(CustomScanState *node, EState *estate, int eflags)
{
	IntakeState *intake = (IntakeState *) node;
	const Const *taker;

	outerPlanState(intake) = ExecInitNode(outerPlan(node->ss.ps.plan), estate, eflags);
	intake->received_before = -1;
	if (IsParallelWorker())
		return;
	taker = linitial_node(Const, ((CustomScan *) node->ss.ps.plan)->custom_private);
	intake->taker = (RowTaker *) DatumGetPointer(taker->constvalue);
	intake->nulls = ExecInitNullTupleSlot(estate, ExecGetResultType(outerPlanState(intake)),
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
	if (!IsParallelWorker())
		EndInLeader((IntakeState *) node);
}

static Size
EstimateIntake(CustomScanState *node, ParallelContext *pcxt)
{
	return IntakeSize(pcxt->nworkers, ((IntakeState *) node)->taker->source);
}

static void
InitializeIntake(CustomScanState *node, ParallelContext *pcxt, void *shared)
{
	IntakeState *intake = (IntakeState *) node;
	RowTaker   *taker = intake->taker;

	intake->pcxt = pcxt;
	intake->ring = shared;
	IntakeInitialize(intake->ring, pcxt->nworkers, taker->source);
	/* from the first worker on: its rows may come before the leader's node is called */
	taker->ring = intake->ring;
	if (taker->sink->lend != NULL)
		taker->sink->lend(taker->sink, intake->ring, IntakeSize(pcxt->nworkers, taker->source));
}

static void
InitializeIntakeInWorker(CustomScanState *node, shm_toc *toc, void *shared)
{
	IntakeState *intake = (IntakeState *) node;

	intake->ring = shared;
	IntakeBeginWriting(&intake->writer, shared);
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
 * Puts the node below the plan's Gather, which is its top.  The plan has the address of the
 * taker in it, which only the leader looks at.
 */
static void
AddIntakeNode(PlannedStmt *plan, RowTaker *taker)
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
												  PointerGetDatum(taker), false, true));
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
	AddIntakeNode(plan, taker);
	/* Gather is to call the leader's node in any case */
	taker->leader_reads = parallel_leader_participation;
	SetForThisQuery("parallel_leader_participation", "on");
	/* however it ends, nothing reads lent memory any more when it goes */
	PG_ENSURE_ERROR_CLEANUP(Withdraw, PointerGetDatum(taker));
	{
		RunPlan(taker->source, plan, ReceiveTuple, taker);
	}
	PG_END_ENSURE_ERROR_CLEANUP(Withdraw, PointerGetDatum(taker));
}
