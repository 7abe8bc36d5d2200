/*-------------------------------------------------------------------------
 *
 * row_ring.h
 *	  Rows on their way from parallel workers to the leader, in shared memory.
 *
 * A few blocks of a fixed size that go round: a worker claims a free one, fills
 * it with rows and keys and publishes it; the leader takes them over and frees
 * it.  However large the table, the memory is the same and stays in the caches.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ROW_RING_H
#define FASTED_ROW_RING_H

#include "port/atomics.h"
#include "source.h"
#include "storage/condition_variable.h"

typedef enum BlockState
{
	BLOCK_FREE,
	BLOCK_FILLING,				/* a worker's */
	BLOCK_FULL					/* the leader's */
} BlockState;

typedef struct RingBlock
{
	pg_atomic_uint32 state;
	uint32		nrows;
	uint32		key_bytes;		/* of keys that are passed by reference */
} RingBlock;

typedef struct RowRing
{
	/* What is read, so that no other data gets in. */
	Oid			key_type;
	int16		key_typlen;
	bool		key_byval;
	VectorForm	form;

	uint32		nblocks;
	uint32		block_bytes;

	pg_atomic_uint32 dimensions;	/* of the first vector; zero before it */
	pg_atomic_uint32 nfull;		/* blocks that wait for the leader */
	pg_atomic_uint32 nwaiting;	/* workers that wait for a block */
	pg_atomic_uint32 nworkers;	/* processes that came to fill blocks */
	pg_atomic_uint32 ncalls;	/* rows that workers left to the leader */
	pg_atomic_uint32 nanswered; /* of those, how many it got */
	pg_atomic_uint32 stopped;	/* no further row is wanted */
	ConditionVariable freed;
	RingBlock	blocks[FLEXIBLE_ARRAY_MEMBER];
} RowRing;

/* Where things are in a block; the same for all, once dimensions are known. */
typedef struct BlockLayout
{
	uint32		row_bytes;
	uint32		max_rows;
	uint32		max_key_bytes;
	uint32		slots_offset;	/* one Datum a row: the key, or where it is */
	uint32		keys_offset;
} BlockLayout;

/* What a worker has of the ring. */
typedef struct RingWriter
{
	RowRing    *ring;
	BlockLayout layout;
	uint32		dimensions;		/* zero: layout is not known yet */
	int			block;			/* that it fills; -1: none */
} RingWriter;

/* For nprocesses that fill blocks beside the leader. */
extern Size RingSize(int nprocesses);
extern void RingInitialize(RowRing *ring, int nprocesses, const VectorSource *source);
extern BlockLayout RingLayout(const RowRing *ring, uint32 dimensions);

/* Sets the number of dimensions, unless that is done; returns what is valid. */
extern uint32 RingAgreeOnDimensions(RowRing *ring, uint32 dimensions);

/*
 * Room for a row whose key takes key_bytes (zero if passed by value).  NULL: the
 * leader should get this row as a tuple, since there is no room or so that it
 * wakes up.  Answers interrupts.
 */
extern float *RingRoom(RingWriter *writer, uint32 key_bytes);
extern void RingTake(RingWriter *writer, Datum key, uint32 key_bytes);

static inline char *
RingBlockData(RowRing *ring, uint32 block)
{
	return (char *) ring + MAXALIGN(offsetof(RowRing, blocks) + ring->nblocks * sizeof(RingBlock))
		+ (Size) block * ring->block_bytes;
}

/*
 * The leader's side.  RingKeys gives the keys of a block that the leader owns,
 * pointers for those that are passed by reference; call it once.
 */
extern Datum *RingKeys(RowRing *ring, const BlockLayout *layout, uint32 block);
extern void RingFree(RowRing *ring, uint32 block);

#endif							/* FASTED_ROW_RING_H */
