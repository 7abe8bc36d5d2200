/*-------------------------------------------------------------------------
 *
 * intake_ring.h
 *	  Rows on their way from parallel workers to the leader, in shared memory.
 *
 * A few blocks of a fixed size that go round: a worker claims a free one, fills
 * it with rows and keys and publishes it; the leader takes them over and frees
 * it.  However large the table, the memory is the same and stays in the caches.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_INTAKE_RING_H
#define FASTED_INTAKE_RING_H

#include "port/atomics.h"
#include "rows/source.h"
#include "rows/vector.h"
#include "storage/condition_variable.h"

typedef enum IntakeBlockState
{
	INTAKE_FREE,
	INTAKE_FILLING,				/* a worker's */
	INTAKE_FULL,				/* the leader's */
	INTAKE_TAKEN				/* the same, and taken: it may be read still */
} IntakeBlockState;

/* Written with every row, so no two are in one cache line. */
typedef struct IntakeBlock
{
	pg_atomic_uint32 state;
	uint32		nrows;
	uint32		key_bytes;		/* of keys that are passed by reference */
	bool		has_zeros;		/* there is a zero vector among the rows */
	char		unused[PG_CACHE_LINE_SIZE - 16];
} IntakeBlock;

typedef struct IntakeRing
{
	/* What is read, so that no other data gets in. */
	Oid			key_type;
	int16		key_typlen;
	bool		key_byval;
	RowKind		kind;

	uint32		nblocks;
	uint32		block_bytes;

	pg_atomic_uint32 dimensions;	/* of the first vector; zero before it */
	pg_atomic_uint32 stopped;	/* no further row is wanted */

	/* What is above is read with every row; below are a block's comings and goings. */
	char		unused[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 nfull;		/* blocks that wait for the leader */
	pg_atomic_uint32 nwaiting;	/* workers that wait for a block */
	pg_atomic_uint32 nworkers;	/* processes that came to fill blocks */
	pg_atomic_uint32 nfinished; /* of those, how many have no further row */
	pg_atomic_uint32 ntuples;	/* rows that workers leave to the leader as tuples */
	ConditionVariable freed;	/* workers wait for a block */
	ConditionVariable filled;	/* the leader waits for blocks, tuples, an end */
	char		unused_too[PG_CACHE_LINE_SIZE];
	IntakeBlock	blocks[FLEXIBLE_ARRAY_MEMBER];
} IntakeRing;

/* Where things are in a block; the same for all, once dimensions are known. */
typedef struct IntakeLayout
{
	uint32		dimensions;
	uint32		row_bytes;
	uint32		max_rows;
	uint32		max_key_bytes;
	uint32		slots_offset;	/* one Datum a row: the key, or where it is */
	uint32		keys_offset;
} IntakeLayout;

/* What a worker has of the ring. */
typedef struct IntakeWriter
{
	IntakeRing *ring;
	IntakeLayout layout;
	uint32		dimensions;		/* zero: layout is not known yet */
	int			block;			/* that it fills; -1: none */
} IntakeWriter;

/* For nprocesses that fill blocks beside the leader. */
extern Size IntakeSize(int nprocesses, const VectorSource *source);
extern void IntakeInitialize(IntakeRing *ring, int nprocesses, const VectorSource *source);
extern IntakeLayout IntakeLayoutOf(const IntakeRing *ring, uint32 dimensions);

/* Sets the number of dimensions, unless that is done; returns what is valid. */
extern uint32 IntakeAgreeOnDimensions(IntakeRing *ring, uint32 dimensions);

/* --- a worker's side */

extern void IntakeBeginWriting(IntakeWriter *writer, IntakeRing *ring);

/*
 * Room for a row whose key takes key_bytes (zero if passed by value); waits for it
 * and answers interrupts.  NULL: a block has no room for such a key, or no further
 * row is wanted.
 */
extern float *IntakeRoom(IntakeWriter *writer, uint32 key_bytes);
extern void IntakePut(IntakeWriter *writer, Datum key, uint32 key_bytes, bool zero);

/* A row will come to the leader as a tuple; those before it come before it. */
extern void IntakeLeaveTuple(IntakeWriter *writer);

/* There are no further rows. */
extern void IntakeFinish(IntakeWriter *writer);

static inline bool
IntakeIsStopped(IntakeRing *ring)
{
	return pg_atomic_read_u32(&ring->stopped) != 0;
}

/* --- the leader's side */

static inline char *
IntakeBlockData(IntakeRing *ring, uint32 block)
{
	return (char *) ring + MAXALIGN(offsetof(IntakeRing, blocks) + ring->nblocks * sizeof(IntakeBlock))
		+ (Size) block * ring->block_bytes;
}

/*
 * The keys of a block that the leader owns, pointers for those that are passed by
 * reference; call it once.
 */
extern Datum *IntakeKeys(IntakeRing *ring, const IntakeLayout *layout, uint32 block);
extern void IntakeFree(IntakeRing *ring, uint32 block);

/* Takes a block that is full; false: it is not. */
extern bool IntakeTake(IntakeRing *ring, uint32 block);

/* For a while, unless there are blocks, or other than so many workers have finished. */
extern void IntakeWait(IntakeRing *ring, uint32 finished, int timeout_ms);

/* No further row is wanted. */
extern void IntakeStop(IntakeRing *ring);

static inline bool
IntakeHasBlocks(IntakeRing *ring)
{
	return pg_atomic_read_u32(&ring->nfull) > 0;
}

static inline uint32
IntakeTuples(IntakeRing *ring)
{
	return pg_atomic_read_u32(&ring->ntuples);
}

static inline uint32
IntakeWorkers(IntakeRing *ring)
{
	return pg_atomic_read_u32(&ring->nworkers);
}

/* Whatever they put into blocks or left as tuples, this process sees it then. */
static inline uint32
IntakeFinished(IntakeRing *ring)
{
	return pg_atomic_fetch_add_u32(&ring->nfinished, 0);
}

#endif							/* FASTED_INTAKE_RING_H */
