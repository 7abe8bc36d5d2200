/*-------------------------------------------------------------------------
 *
 * input_queue.c
 *	  Custom scan node with which parallel workers pass rows to the leader through shared memory.
 *
 * The node is between a Gather node and a partial plan.  In a worker, it converts the rows of the
 * partial plan and writes them into a ring of blocks in shared memory (block_ring.h), so no tuples
 * are formed.  In the leader, it passes the blocks to the reader's take_block.  It returns only
 *
 *	- in a worker, rows with an error, which the leader then reports, and rows whose values are
 *	  too long for a block
 *	- in the leader, the rows of its own share of the partial plan, and null rows.  A null row
 *	  makes Gather check its queues for workers' tuples.
 *
 * This cannot deadlock.  A worker waits for an empty block as it would wait for space in its tuple
 * queue.  The leader empties blocks until all workers have finished, and waits for nothing but
 * them.  A worker that returns a tuple may block in its tuple queue.  It increments ntuples before
 * that, and the leader then returns to Gather, which empties the queue.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "base/block_ring.h"
#include "base/interrupts.h"
#include "executor/executor.h"
#include "jit/jit.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "rows/input_queue.h"
#include "rows/row_batch.h"
#include "storage/ipc.h"
#include "utils/datum.h"
#include "utils/guc.h"

/* Above all node IDs that the planner assigns to the nodes of a plan. */
#define INPUT_NODE_ID (1 << 20)

/*
 * Copying a row from the ring costs the leader about a fifth of reading one.  From this number of
 * workers on, it reads no share of its own.
 */
#define BUSY_LEADER_WORKERS 4

/* Time for which the leader waits for a block before it checks whether workers still run. */
#define WAIT_MS 10

/* Time for which the leader waits for a tuple that a worker has announced. */
#define TUPLE_WAIT_MS 1

/* Bytes of blocks for each process, the bounds of their sum, and the bytes of a block. */
#define RING_BYTES_EACH (2 * 1024 * 1024)
#define RING_MIN_BYTES (4 * 1024 * 1024)
#define RING_MAX_BYTES (16 * 1024 * 1024)
#define BLOCK_BYTES (384 * 1024)
#define BLOCK_BYTES_OF_DOUBLES (640 * 1024)

/* Maximum number of values in a block, unless each row has more. */
#define MAX_BLOCK_VALUES (2 * MAX_BLOCK_ROWS)

StaticAssertDecl(BLOCK_BYTES >= sizeof(InputBlock) + MAX_BLOCK_VALUES * (sizeof(Datum) + sizeof(bool)) +
				 FASTED_MAX_DIMENSIONS * sizeof(float) + 16384 &&
				 BLOCK_BYTES_OF_DOUBLES - BLOCK_BYTES >= FASTED_MAX_DIMENSIONS * sizeof(float),
				 "a block holds the longest vector and its key");

/* Contents of the plan's shared memory, followed by the ring. */
typedef struct SharedInput
{
	VectorSource source;		/* workers must not follow its pointers */
	int			vector_column;
	bool		all_rows;
	pg_atomic_uint32 dimensions;	/* of the first vector; 0 before it */
	pg_atomic_uint32 ntuples;	/* number of rows that workers return as tuples */
	uint32		capacity;		/* maximum number of rows in a block */
	int			natts;			/* columns of a row */
	struct
	{
		int16		typlen;
		bool		byval;
		bool		detoast;
	}			types[MaxTupleAttributeNumber];
} SharedInput;

typedef struct InputState
{
	CustomScanState css;
	InputReader *reader;		/* NULL in a worker */
	RowBatch   *batch;			/* of rows with vectors; NULL if each vector is computed from several columns */
	ExprState  *vector;			/* this field and those below are for workers only */
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

/* Returns the offset of the vectors in a block. */
static Size
RowsOffset(const SharedInput *shared)
{
	return MAXALIGN(MAXALIGN(sizeof(InputBlock)) +
					shared->natts * shared->capacity * (sizeof(Datum) + sizeof(bool)));
}

static void
PublishBlock(InputState *input)
{
	if (input->number >= 0)
		BlockRingPublish(RingOf(input->shared), input->number);
	input->number = -1;
}

/* Returns a block with space for a row and its values; NULL if the leader wants no more rows. */
static InputBlock *
BlockWithRoom(InputState *input, uint32 dimensions, Size row_bytes, Size value_bytes)
{
	const SharedInput *shared = input->shared;
	InputBlock *block;

	if (input->number >= 0)
	{
		block = BlockRingData(RingOf(input->shared), input->number);
		if (block->nrows < block->capacity && block->dimensions == dimensions &&
			block->rows_offset + (block->nrows + 1) * row_bytes + block->value_bytes + value_bytes <=
			block->bytes)
			return block;
		PublishBlock(input);
	}
	input->number = BlockRingWaitEmpty(RingOf(input->shared));
	if (input->number < 0)
		return NULL;
	block = BlockRingData(RingOf(input->shared), input->number);
	block->nrows = 0;
	block->dimensions = dimensions;
	block->natts = shared->natts;
	block->capacity = shared->capacity;
	block->bytes = BlockBytes(shared->source.element);
	block->rows_offset = RowsOffset(shared);
	block->value_bytes = 0;
	block->has_zeros = false;
	return block;
}

/* Detoasts the values of a row in place; returns the bytes needed for those by reference. */
static Size
FindValues(const SharedInput *shared, TupleTableSlot *slot)
{
	Size		bytes = 0;

	for (int i = 0; i < shared->natts; i++)
	{
		Datum	   *value = &slot->tts_values[i];

		if (i == shared->vector_column || slot->tts_isnull[i] || shared->types[i].byval)
			continue;
		/* a pointer to a TOAST table may be copied, but a pointer to this process's memory may not */
		if (shared->types[i].typlen == -1 &&
			(shared->types[i].detoast || (VARATT_IS_EXTERNAL(DatumGetPointer(*value)) &&
										  !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(*value)))))
			*value = PointerGetDatum(PG_DETOAST_DATUM(*value));
		bytes += MAXALIGN(datumGetSize(*value, false, shared->types[i].typlen));
	}
	return bytes;
}

static void
PutValues(const SharedInput *shared, InputBlock *block, const TupleTableSlot *slot)
{
	for (int i = 0; i < shared->natts; i++)
	{
		bool		isnull = i == shared->vector_column || slot->tts_isnull[i];
		Datum		value = isnull ? (Datum) 0 : slot->tts_values[i];

		if (!isnull && !shared->types[i].byval)
		{
			Size		bytes = datumGetSize(value, false, shared->types[i].typlen);

			block->value_bytes += MAXALIGN(bytes);
			memcpy((char *) block + block->bytes - block->value_bytes, DatumGetPointer(value), bytes);
			/* the leader replaces this distance from the end of the block by a pointer */
			value = (Datum) block->value_bytes;
		}
		InputValues(block, i)[block->nrows] = value;
		InputNulls(block, i)[block->nrows] = isnull;
	}
}

/* Returns the state of a vector, and sets the number of dimensions of the block for its row. */
static InputVector
ShapeOf(SharedInput *shared, const struct varlena *vector, uint32 *dimensions)
{
	int			n;

	*dimensions = pg_atomic_read_u32(&shared->dimensions);
	if (vector == NULL)
		return INPUT_NULL;
	if (VectorShape(vector, shared->source.form, &n) != VECTOR_OK || (uint32) n > FASTED_MAX_DIMENSIONS)
		return INPUT_UNUSABLE;
	/* without partitions, the first vector read by any worker sets the number of dimensions */
	if (shared->source.partition_column != NULL ||
		(*dimensions == 0 && pg_atomic_compare_exchange_u32(&shared->dimensions, dimensions, n)))
		*dimensions = n;
	return *dimensions == (uint32) n ? INPUT_VECTOR : INPUT_UNUSABLE;
}

/*
 * Writes a row into the ring.  Returns false if it must be returned as a tuple: it has an error
 * (has_error is set), its values are too long, or the leader wants no more rows.
 */
static bool
PutRow(InputState *input, TupleTableSlot *slot)
{
	SharedInput *shared = input->shared;
	ExprContext *econtext = input->css.ss.ps.ps_ExprContext;
	FastedElement element = shared->source.element;
	Size		value_bytes;
	Size		row_bytes;
	Datum		value;
	struct varlena *vector;
	bool		isnull = true;
	InputVector state;
	InputBlock *block;
	uint32		dimensions;
	int			bad_element;

	slot_getallattrs(slot);
	econtext->ecxt_scantuple = slot;
	value = input->vector == NULL ? (Datum) 0 : ExecEvalExpr(input->vector, econtext, &isnull);
	if (!shared->all_rows && (isnull || (shared->source.partition_column != NULL &&
										 slot->tts_isnull[PARTITION_COLUMN])))
		return true;			/* rows without a vector or a partition are skipped */
	vector = isnull ? NULL : PG_DETOAST_DATUM(value);
	state = ShapeOf(shared, vector, &dimensions);
	input->has_error = !shared->all_rows &&
		(state != INPUT_VECTOR || slot->tts_isnull[KEY_COLUMN]);
	if (input->has_error)
		return false;
	value_bytes = FindValues(shared, slot);
	row_bytes = RowBytes(element, dimensions);
	if (BlockRingIsStopped(RingOf(input->shared)) ||
		RowsOffset(shared) + row_bytes + value_bytes > BlockBytes(element))
		return false;
	block = BlockWithRoom(input, dimensions, row_bytes, value_bytes);
	if (block == NULL)
		return false;
	if (state == INPUT_VECTOR)
	{
		float	   *row = (float *) ((char *) block + block->rows_offset + block->nrows * row_bytes);

		if (VectorElements(vector, &shared->source, dimensions, row, &bad_element) == VECTOR_OK)
			block->has_zeros |= RowIsZero(row, element, dimensions);
		else
		{
			state = INPUT_UNUSABLE;
			input->has_error = !shared->all_rows;
		}
	}
	if (input->has_error)
		return false;
	PutValues(shared, block, slot);
	block->vectors[block->nrows++] = state;
	return true;
}

/* Returns the next row of the partial plan, whose vector has been fetched if possible. */
static TupleTableSlot *
NextOfPlan(InputState *input)
{
	return input->batch != NULL ? ReadPlanInBatches(input->batch, outerPlanState(input)) :
		ExecProcNode(outerPlanState(input));
}

/*
 * Returns the next row that must be returned as a tuple.  A tuple queue notifies its reader only
 * when it is a quarter full, or when it is detached.  A worker therefore stops after a row
 * with an error, so that the leader sees the error immediately.
 */
static TupleTableSlot *
NextInWorker(InputState *input)
{
	ExprContext *econtext = input->css.ss.ps.ps_ExprContext;

	while (!BlockRingIsStopped(RingOf(input->shared)) && !input->has_error)
	{
		TupleTableSlot *slot = NextOfPlan(input);
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

/* --- in the leader: from the ring to the sink */

bool
PassVectors(InputReader *reader, const InputBlock *block, const Datum *keys, size_t first, size_t count)
{
	RowSink    *sink = reader->sink;
	size_t		row_bytes = RowBytes(reader->source->element, block->dimensions);

	while (count > 0)
	{
		const float *rows = InputRow(reader, block, first);
		const Datum *own_keys = keys == NULL ? NULL : keys + first;
		size_t		n = 0;

		if (sink->take_block != NULL)
			n = sink->take_block(sink, rows, own_keys, count);
		if (n == 0)
		{
			float	   *buffer;

			n = sink->buffer_for_rows(sink, &buffer);	/* not in Min, which would call it twice */
			n = Min(n, count);
			if (n == 0)
				return false;
			memcpy(buffer, rows, n * row_bytes);
			sink->take_rows(sink, own_keys, n);
		}
		first += n;
		count -= n;
	}
	return true;
}

/* Settles the sink, and releases all blocks, or else those that it took before it last settled. */
static void
SettleBlocks(InputReader *reader, bool all)
{
	RowSink    *sink = reader->sink;
	int			nfree = all ? reader->ntaken : reader->nsettling;

	if (sink != NULL && sink->wait_read != NULL)
		sink->wait_read(sink, all);
	for (int i = 0; i < nfree; i++)
		BlockRingRelease(RingOf(reader->shared), reader->taken[i]);
	reader->ntaken -= nfree;
	memmove(reader->taken, reader->taken + nfree, reader->ntaken * sizeof(int));
	reader->nsettling = reader->ntaken;
}

/* Passes the full blocks of the ring to the caller, until it refuses one.  Then returns false. */
static bool
PassFullBlocks(InputReader *reader)
{
	BlockRing  *ring = RingOf(reader->shared);
	bool		more = true;

	for (uint32 left = BlockRingFull(ring); left > 0 && more; left--)
	{
		int			number = BlockRingTakeFull(ring);
		InputBlock *block = BlockRingData(ring, number);

		CheckJoinInterrupts();
		for (int i = 0; i < block->natts; i++)
		{
			Datum	   *values = InputValues(block, i);

			for (uint32 row = 0; row < block->nrows && !reader->shared->types[i].byval; row++)
				values[row] = PointerGetDatum((char *) block + block->bytes - (Size) values[row]);
		}
		if (reader->sink != NULL)
		{
			reader->sink->nworkers = reader->pcxt->nworkers_launched;
			reader->sink->worker_rows += block->nrows;
		}
		more = reader->take_block(reader, block);
		reader->taken[reader->ntaken++] = number;
		if (reader->ntaken == reader->nsettling + BLOCKS_PER_WAIT)
			SettleBlocks(reader, false);
	}
	if (reader->ntaken > reader->nsettling)
		SettleBlocks(reader, false);
	return more;
}

/* Workers that failed to start, or exited, are counted as finished. */
static bool
WorkersHaveFinished(const InputReader *reader)
{
	const ParallelContext *pcxt = reader->pcxt;
	int			launched = pcxt->nworkers_launched;
	int			stopped = 0;

	if (BlockRingFinished(RingOf(reader->shared)) >= (uint32) launched)
		return true;
	for (int i = 0; i < launched; i++)
	{
		BackgroundWorkerHandle *handle = pcxt->worker[i].bgwhandle;
		pid_t		pid;

		stopped += handle == NULL || GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
	}
	return stopped == launched;
}

void
SetInputSink(InputReader *reader, RowSink *sink)
{
	if (reader->shared != NULL && reader->sink != NULL && reader->sink->unregister_memory != NULL)
		reader->sink->unregister_memory(reader->sink);
	reader->sink = sink;
	if (reader->shared != NULL && sink != NULL && sink->register_memory != NULL)
		sink->register_memory(sink, reader->shared,
							  SharedBytes(reader->pcxt->nworkers, reader->source));
}

void
InputEnd(InputReader *reader)
{
	if (reader->shared == NULL)
		return;
	BlockRingStop(RingOf(reader->shared));
	SetInputSink(reader, NULL);
	reader->shared = NULL;
}

/*
 * Returns a row of the leader's share, a null row when Gather has to fetch a worker's tuple or the
 * caller has refused a block, or NULL at the end.
 */
static TupleTableSlot *
NextInLeader(InputState *input)
{
	InputReader *reader = input->reader;
	BlockRing  *ring = reader->shared == NULL ? NULL : RingOf(reader->shared);
	int			launched = ring == NULL ? 0 : reader->pcxt->nworkers_launched;

	for (bool more = true;;)
	{
		if (ring != NULL && BlockRingFull(ring) > 0)
		{
			if (!PassFullBlocks(reader))
				return ExecStoreAllNullTuple(reader->nulls);
		}
		else if (reader->ntaken > 0)
			SettleBlocks(reader, true);
		if (ring != NULL && pg_atomic_read_u32(&reader->shared->ntuples) > reader->tuples_received)
		{
			if (reader->received_before == (int64) reader->tuples_received)
				BlockRingWait(ring, BlockRingFinished(ring), TUPLE_WAIT_MS);
			reader->received_before = reader->tuples_received;
			return ExecStoreAllNullTuple(reader->nulls);
		}
		if (!more)
			break;
		/* read a share of the plan, unless the workers' rows keep the leader busy */
		if (!reader->share_done &&
			(launched == 0 || (reader->participates && launched < BUSY_LEADER_WORKERS)))
		{
			TupleTableSlot *slot = NextOfPlan(input);

			if (!TupIsNull(slot))
				return reader->own = slot;
			reader->share_done = true;
		}
		else if (ring != NULL)
		{
			uint32		finished = BlockRingFinished(ring);

			more = !WorkersHaveFinished(reader);
			CheckJoinInterrupts();
			if (more)
				BlockRingWait(ring, finished, WAIT_MS);
		}
		else
			break;
	}
	return NULL;
}

bool
InputIsRow(InputReader *reader, const TupleTableSlot *slot)
{
	if (slot == reader->nulls)
		return false;
	reader->tuples_received += slot != reader->own;
	return true;
}

TupleTableSlot *
InputNext(InputReader *reader, PlanState *gather)
{
	int			nest_level;
	TupleTableSlot *slot;

	if (((GatherState *) gather)->initialized && gather->chgParam == NULL)
		return ExecProcNode(gather);
	reader->participates = parallel_leader_participation;
	/* Gather must execute the leader's node in any case */
	nest_level = NewGUCNestLevel();
	SetForThisQuery("parallel_leader_participation", "on");
	slot = ExecProcNode(gather);
	AtEOXact_GUC(true, nest_level);
	return slot;
}

/* --- the node */

static TupleTableSlot *
NextRow(CustomScanState *node)
{
	InputState *input = (InputState *) node;

	return input->reader == NULL ? NextInWorker(input) : NextInLeader(input);
}

static void
BeginInput(CustomScanState *node, EState *estate, int eflags)
{
	InputState *input = (InputState *) node;
	const CustomScan *plan = (CustomScan *) node->ss.ps.plan;

	/* JIT compilation in each worker would take longer than the expressions of a scan */
	if (IsParallelWorker())
		estate->es_jit_flags = PGJIT_NONE;
	outerPlanState(input) = ExecInitNode(outerPlan(plan), estate, eflags);
	/* the vector is computed from the slot of the partial plan or of a batch */
	node->ss.ps.scanops = NULL;
	node->ss.ps.scanopsfixed = false;
	node->ss.ps.scanopsset = true;
	input->vector = ExecInitExpr(linitial(plan->custom_exprs), &node->ss.ps);
	input->batch = RowBatchFor(linitial(plan->custom_exprs), ExecGetResultType(outerPlanState(input)), 0);
	if (IsParallelWorker())
		return;
	input->reader = plan->custom_private == NIL ? palloc0(sizeof(InputReader)) : (InputReader *)
		DatumGetPointer(linitial_node(Const, plan->custom_private)->constvalue);
	input->reader->nulls = ExecInitNullTupleSlot(estate, ExecGetResultType(outerPlanState(input)),
												 &TTSOpsVirtual);
}

static void
EndInput(CustomScanState *node)
{
	ExecEndNode(outerPlanState(node));
}

/* Shared memory and workers may exist already, so it changes neither. */
static void
RescanInput(CustomScanState *node)
{
	InputState *input = (InputState *) node;

	input->reader->share_done = false;
	if (input->batch != NULL)
		RowBatchReset(input->batch);
	if (outerPlanState(node)->chgParam == NULL)
		ExecReScan(outerPlanState(node));
}

static void
ShutdownInput(CustomScanState *node)
{
	if (((InputState *) node)->reader != NULL)
		InputEnd(((InputState *) node)->reader);
}

static Size
EstimateInput(CustomScanState *node, ParallelContext *pcxt)
{
	return SharedBytes(pcxt->nworkers, ((InputState *) node)->reader->source);
}

static void
InitializeInput(CustomScanState *node, ParallelContext *pcxt, void *memory)
{
	InputReader *reader = ((InputState *) node)->reader;
	TupleDesc	columns = ExecGetResultType(outerPlanState(node));
	SharedInput *shared = memory;

	shared->source = *reader->source;
	shared->vector_column = reader->vector_column;
	shared->all_rows = reader->all_rows;
	shared->natts = columns->natts;
	shared->capacity = Max(1, Min(MAX_BLOCK_ROWS, MAX_BLOCK_VALUES / columns->natts));
	for (int i = 0; i < columns->natts; i++)
	{
		shared->types[i].typlen = TupleDescAttr(columns, i)->attlen;
		shared->types[i].byval = TupleDescAttr(columns, i)->attbyval;
		shared->types[i].detoast = reader->detoast == NULL || reader->detoast[i];
	}
	pg_atomic_init_u32(&shared->dimensions, reader->dimensions);
	pg_atomic_init_u32(&shared->ntuples, 0);
	BlockRingInit(RingOf(shared), CountBlocks(pcxt->nworkers, reader->source),
				  BlockBytes(reader->source->element));
	/* set this early: workers' rows may arrive before the leader's node is first executed */
	reader->shared = shared;
	reader->pcxt = pcxt;
	reader->ntaken = reader->nsettling = 0;
	reader->tuples_received = 0;
	reader->received_before = -1;
	SetInputSink(reader, reader->sink);
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
	.ReScanCustomScan = RescanInput,
	.EstimateDSMCustomScan = EstimateInput,
	.InitializeDSMCustomScan = InitializeInput,
	.ReInitializeDSMCustomScan = InitializeInput,
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

InputReader *
InputReaderOf(PlanState *gather)
{
	const InputState *input = (InputState *) outerPlanState(gather);

	return IsA(gather, GatherState) && IsA(input, CustomScanState) &&
		input->css.methods == &exec_methods ? input->reader : NULL;
}

/* --- planning and running */

static CustomScan *
MakeInputPlan(Plan *below, List *tlist, Expr *vector)
{
	CustomScan *input = makeNode(CustomScan);

	input->scan.plan.lefttree = below;
	input->scan.plan.targetlist = tlist;
	input->custom_scan_tlist = copyObject(below->targetlist);
	input->custom_exprs = list_make1(vector);
	input->methods = &scan_methods;
	return input;
}

static Plan *
PlanInput(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
		  List *custom_plans)
{
	return &MakeInputPlan(linitial(custom_plans), tlist,
						  copyObject(linitial(path->custom_private)))->scan.plan;
}

static const CustomPathMethods path_methods = {
	.CustomName = "FastedParallelRead",
	.PlanCustomPath = PlanInput
};

Path *
InputPath(PlannerInfo *root, Path *partial, Expr *vector)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = *partial;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.parallel_aware = true;
	path->custom_paths = list_make1(partial);
	path->custom_private = list_make1(vector);
	path->methods = &path_methods;
	return (Path *) create_gather_path(root, partial->parent, &path->path, partial->pathtarget,
									   NULL, NULL);
}

/* Inserts the node below a Gather.  Workers must not follow the reader's address in the plan. */
static void
AddInputNode(PlannedStmt *plan, InputReader *reader)
{
	Plan	   *gather = plan->planTree;
	Plan	   *below = outerPlan(gather);
	TargetEntry *vector = list_nth(below->targetlist, reader->vector_column);
	CustomScan *input = MakeInputPlan(below, copyObject(gather->targetlist),
									  CastToVector((Expr *) makeVarFromTargetEntry(INDEX_VAR, vector),
												   reader->source->form));
	Plan	   *own = &input->scan.plan;
	ListCell   *cell;

	own->parallel_aware = own->parallel_safe = true;
	own->plan_node_id = INPUT_NODE_ID;
	own->extParam = below->extParam;
	own->allParam = below->allParam;
	foreach(cell, own->targetlist)
		castNode(Var, lfirst_node(TargetEntry, cell)->expr)->varno = INDEX_VAR;
	input->custom_private = list_make1(makeConst(INT8OID, -1, InvalidOid, sizeof(Datum),
												  PointerGetDatum(reader), false, true));
	gather->lefttree = own;
}

/* A source's rows: those of a block go to the taker's sink, except zero vectors to be skipped. */
static bool
TakeBlock(InputReader *reader, const InputBlock *block)
{
	RowTaker   *taker = reader->arg;
	bool		skip_zeros = taker->source->skip_zeros && block->has_zeros;
	bool		partitioned = taker->source->partition_column != NULL;
	const Datum *keys = InputValues(block, KEY_COLUMN);

	for (size_t begin = 0, end; begin < block->nrows; begin = end)
	{
		if (partitioned)
			taker->partition = InputValues(block, PARTITION_COLUMN)[begin];
		if (partitioned || begin == 0)
			CheckDimensions(taker, block->dimensions, keys[begin]);
		/* a run of rows up to the next zero vector; with partitions, a single row */
		for (end = begin; end < block->nrows && (!partitioned || end == begin); end++)
			if (skip_zeros && RowIsZero(InputRow(reader, block, end), taker->source->element, block->dimensions))
				break;
		taker->stopped = !PassVectors(reader, block, keys, begin, end - begin);
		if (taker->stopped)
			return false;
		if (end == begin)
			end++;				/* skip the zero vector */
	}
	return true;
}

/* Takes a row of Gather, after the full blocks: errors are reported in the order of reading. */
static bool
ReceiveTuple(void *arg, TupleTableSlot *slot)
{
	InputReader *reader = arg;
	RowTaker   *taker = reader->arg;

	if (!InputIsRow(reader, slot))
		return !taker->stopped;
	return (reader->shared == NULL || PassFullBlocks(reader)) && TakeSlot(taker, slot);
}

/* Withdraws registered memory; also called when the session ends, before its transaction does. */
static void
UnregisterMemory(int code, Datum arg)
{
	SetInputSink((InputReader *) DatumGetPointer(arg), NULL);
}

void
RunInputPlan(PlannedStmt *plan, RowTaker *taker)
{
	InputReader reader = {
		.source = taker->source,.vector_column = VECTOR_COLUMN,.sink = taker->sink,
		.take_block = TakeBlock,.arg = taker,.participates = parallel_leader_participation
	};

	AddInputNode(plan, &reader);
	/* Gather must execute the leader's node in any case */
	SetForThisQuery("parallel_leader_participation", "on");
	/* however this ends, nothing may read registered memory after it is freed */
	PG_ENSURE_ERROR_CLEANUP(UnregisterMemory, PointerGetDatum(&reader));
	{
		RunPlan(taker->source, plan, ReceiveTuple, &reader);
	}
	PG_END_ENSURE_ERROR_CLEANUP(UnregisterMemory, PointerGetDatum(&reader));
}
