/*-------------------------------------------------------------------------
 *
 * intake_ring.c
 *	  Blocks of rows in shared memory, each with one owner at a time.
 *
 * No lock: a block belongs to whoever set its state.  Free blocks are looked for
 * from the first on, so that a leader who keeps up sees only a few of them, and
 * those stay in the caches.
 *
 * The leader empties blocks between the rows of its own share of the scan, and when
 * that is over, until all workers have finished (intake_node.c).  A worker that
 * finds no free block waits for it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "engine/engine.h"
#include "pgstat.h"
#include "rows/intake_ring.h"
#include "utils/lsyscache.h"

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

/* Between two looks of a worker that waits, should a signal have been missed. */
#define LOOK_AGAIN_MS 20

StaticAssertDecl(BLOCK_BYTES >= FASTED_MAX_DIMENSIONS * sizeof(float) + 2 * MIN_KEY_AREA,
				 "a block holds the longest vector");
StaticAssertDecl(BLOCK_BYTES_OF_DOUBLES >= FASTED_MAX_DIMENSIONS * sizeof(double) + 2 * MIN_KEY_AREA,
				 "a block holds the longest vector of doubles");

static Size
BlocksOffset(uint32 nblocks)
{
	return MAXALIGN(offsetof(IntakeRing, blocks) + nblocks * sizeof(IntakeBlock));
}

static Size
BlockBytes(const VectorSource *source)
{
	return source->element == FASTED_ELEMENT_DOUBLE ? BLOCK_BYTES_OF_DOUBLES : BLOCK_BYTES;
}

/* Each process fills one; a few must wait for the leader meanwhile. */
static uint32
IntakeBlocks(int nprocesses, const VectorSource *source)
{
	Size		bytes = Min(Max((Size) nprocesses * RING_BYTES_EACH, RING_MIN_BYTES), RING_MAX_BYTES);

	return Max(bytes / BlockBytes(source), nprocesses + 8);
}

Size
IntakeSize(int nprocesses, const VectorSource *source)
{
	uint32		nblocks = IntakeBlocks(nprocesses, source);

	return BlocksOffset(nblocks) + nblocks * BlockBytes(source);
}

void
IntakeInitialize(IntakeRing *ring, int nprocesses, const VectorSource *source)
{
	memset(ring, 0, sizeof(IntakeRing));
	ring->key_type = source->key_type;
	get_typlenbyval(source->key_type, &ring->key_typlen, &ring->key_byval);
	ring->kind = RowKindOf(source);
	ring->nblocks = IntakeBlocks(nprocesses, source);
	ring->block_bytes = BlockBytes(source);

	pg_atomic_init_u32(&ring->dimensions, 0);
	pg_atomic_init_u32(&ring->nfull, 0);
	pg_atomic_init_u32(&ring->nwaiting, 0);
	pg_atomic_init_u32(&ring->nworkers, 0);
	pg_atomic_init_u32(&ring->nfinished, 0);
	pg_atomic_init_u32(&ring->ntuples, 0);
	pg_atomic_init_u32(&ring->stopped, 0);
	ConditionVariableInit(&ring->freed);
	ConditionVariableInit(&ring->filled);
	for (uint32 i = 0; i < ring->nblocks; i++)
	{
		pg_atomic_init_u32(&ring->blocks[i].state, INTAKE_FREE);
		ring->blocks[i].nrows = 0;
		ring->blocks[i].key_bytes = 0;
		ring->blocks[i].has_zeros = false;
	}
}

IntakeLayout
IntakeLayoutOf(const IntakeRing *ring, uint32 dimensions)
{
	IntakeLayout layout = {0};
	uint32		key_bytes = ring->key_byval ? 0 :
		(ring->key_typlen > 0 ? MAXALIGN(ring->key_typlen) : MEAN_KEY_BYTES);
	uint32		each;

	layout.dimensions = dimensions;
	layout.row_bytes = RowBytes(ring->kind.element, dimensions);
	each = layout.row_bytes + sizeof(Datum) + key_bytes;
	layout.max_rows = (ring->block_bytes - MIN_KEY_AREA - MAXIMUM_ALIGNOF) / each;
	layout.max_rows = Min(Max(layout.max_rows, 1), MAX_BLOCK_ROWS);
	layout.slots_offset = MAXALIGN(layout.max_rows * layout.row_bytes);
	layout.keys_offset = layout.slots_offset + layout.max_rows * sizeof(Datum);
	layout.max_key_bytes = ring->block_bytes - layout.keys_offset;
	return layout;
}

uint32
IntakeAgreeOnDimensions(IntakeRing *ring, uint32 dimensions)
{
	uint32		set = 0;

	return pg_atomic_compare_exchange_u32(&ring->dimensions, &set, dimensions) ? dimensions : set;
}

void
IntakeBeginWriting(IntakeWriter *writer, IntakeRing *ring)
{
	memset(writer, 0, sizeof(*writer));
	writer->ring = ring;
	writer->block = -1;
	pg_atomic_fetch_add_u32(&ring->nworkers, 1);
}

static void
PublishBlock(IntakeWriter *writer)
{
	IntakeRing *ring = writer->ring;

	/* atomic operations with a result are full barriers: rows first, then state */
	pg_atomic_exchange_u32(&ring->blocks[writer->block].state, INTAKE_FULL);
	pg_atomic_fetch_add_u32(&ring->nfull, 1);
	writer->block = -1;
	ConditionVariableSignal(&ring->filled);
}

static bool
ClaimBlock(IntakeWriter *writer)
{
	IntakeRing *ring = writer->ring;

	for (uint32 i = 0; i < ring->nblocks; i++)
	{
		uint32		state = INTAKE_FREE;

		if (pg_atomic_read_u32(&ring->blocks[i].state) == INTAKE_FREE &&
			pg_atomic_compare_exchange_u32(&ring->blocks[i].state, &state, INTAKE_FILLING))
		{
			ring->blocks[i].nrows = 0;
			ring->blocks[i].key_bytes = 0;
			ring->blocks[i].has_zeros = false;
			writer->block = i;
			return true;
		}
	}
	return false;
}

/* Answers interrupts.  False: no further row is wanted. */
static bool
WaitForBlock(IntakeWriter *writer)
{
	IntakeRing *ring = writer->ring;
	bool		claimed;

	if (ClaimBlock(writer))
		return true;

	pg_atomic_fetch_add_u32(&ring->nwaiting, 1);
	ConditionVariablePrepareToSleep(&ring->freed);
	while (!(claimed = ClaimBlock(writer)) && !IntakeIsStopped(ring))
		(void) ConditionVariableTimedSleep(&ring->freed, LOOK_AGAIN_MS, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
	pg_atomic_fetch_sub_u32(&ring->nwaiting, 1);
	return claimed;
}

float *
IntakeRoom(IntakeWriter *writer, uint32 key_bytes)
{
	IntakeRing *ring = writer->ring;
	IntakeBlock *block;

	if (IntakeIsStopped(ring) || key_bytes > writer->layout.max_key_bytes)
		return NULL;
	if (writer->block >= 0)
	{
		block = &ring->blocks[writer->block];
		if (block->nrows == writer->layout.max_rows ||
			block->key_bytes + key_bytes > writer->layout.max_key_bytes)
			PublishBlock(writer);
	}
	if (writer->block < 0 && !WaitForBlock(writer))
		return NULL;
	block = &ring->blocks[writer->block];
	return (float *) (IntakeBlockData(ring, writer->block) + block->nrows * writer->layout.row_bytes);
}

void
IntakePut(IntakeWriter *writer, Datum key, uint32 key_bytes, bool zero)
{
	IntakeRing *ring = writer->ring;
	IntakeBlock *block = &ring->blocks[writer->block];
	char	   *data = IntakeBlockData(ring, writer->block);
	Datum	   *slots = (Datum *) (data + writer->layout.slots_offset);

	if (ring->key_byval)
		slots[block->nrows] = key;
	else
	{
		memcpy(data + writer->layout.keys_offset + block->key_bytes, DatumGetPointer(key), key_bytes);
		slots[block->nrows] = (Datum) block->key_bytes;
		block->key_bytes += MAXALIGN(key_bytes);
	}
	block->nrows++;
	block->has_zeros |= zero;
}

void
IntakeLeaveTuple(IntakeWriter *writer)
{
	if (writer->block >= 0)
		PublishBlock(writer);
	pg_atomic_fetch_add_u32(&writer->ring->ntuples, 1);
	ConditionVariableSignal(&writer->ring->filled);
}

void
IntakeFinish(IntakeWriter *writer)
{
	if (writer->block >= 0)
		PublishBlock(writer);
	pg_atomic_fetch_add_u32(&writer->ring->nfinished, 1);
	ConditionVariableSignal(&writer->ring->filled);
}

Datum *
IntakeKeys(IntakeRing *ring, const IntakeLayout *layout, uint32 block)
{
	char	   *data = IntakeBlockData(ring, block);
	Datum	   *slots = (Datum *) (data + layout->slots_offset);

	if (!ring->key_byval)
		for (uint32 i = 0; i < ring->blocks[block].nrows; i++)
			slots[i] = PointerGetDatum(data + layout->keys_offset + (Size) slots[i]);
	return slots;
}

bool
IntakeTake(IntakeRing *ring, uint32 block)
{
	if (pg_atomic_read_u32(&ring->blocks[block].state) != INTAKE_FULL)
		return false;
	/* with a barrier: state first, then rows */
	pg_atomic_exchange_u32(&ring->blocks[block].state, INTAKE_TAKEN);
	pg_atomic_fetch_sub_u32(&ring->nfull, 1);
	return true;
}

void
IntakeFree(IntakeRing *ring, uint32 block)
{
	pg_atomic_exchange_u32(&ring->blocks[block].state, INTAKE_FREE);
	if (pg_atomic_read_u32(&ring->nwaiting) > 0)
		ConditionVariableBroadcast(&ring->freed);
}

void
IntakeWait(IntakeRing *ring, uint32 finished, int timeout_ms)
{
	ConditionVariablePrepareToSleep(&ring->filled);
	/* who came before that is not told of any more */
	if (!IntakeHasBlocks(ring) && IntakeFinished(ring) == finished)
		(void) ConditionVariableTimedSleep(&ring->filled, timeout_ms, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

void
IntakeStop(IntakeRing *ring)
{
	pg_atomic_write_u32(&ring->stopped, 1);
	ConditionVariableBroadcast(&ring->freed);
}
