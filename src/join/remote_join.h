/*-------------------------------------------------------------------------
 *
 * remote_join.h
 *	  A join whose work is divided over the workers of a Citus cluster, for join.c.
 *	  Implemented by the files in citus/.
 *
 * Each worker reads all rows, in the order of their keys, and joins one slice of the
 * tiles; what it finds comes here as row numbers.  This session reads keys and hashes of
 * the same rows itself.  A result is given only if all of them have read the same.
 *
 * Of nearest rows a slice is a share of the rows of a: each worker reads all rows of
 * both relations, and finds those of b for its share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_REMOTE_JOIN_H
#define FASTED_REMOTE_JOIN_H

#include "engine/engine.h"
#include "join/keys.h"

/* What a worker is asked for, and how it is called on the way. */
typedef enum SliceOutput
{
	SLICE_PAIRS,
	SLICE_COUNT,				/* how many they are */
	SLICE_COUNTS,				/* of each row */
	SLICE_CONNECTIONS,			/* pairs, enough of them to connect what all connect */
	SLICE_NEAREST				/* pairs of rows of a and their nearest rows */
} SliceOutput;

/* By SliceOutput, but for the last one, which is asked for by another function. */
extern const char *const slice_output_names[4];

/* What is joined, and how. */
typedef struct RemoteProblem
{
	const VectorSource *sources[2]; /* the second one NULL: one relation with itself */
	SliceOutput output;
	double		eps;			/* or the largest distance of nearest rows */
	uint32		k;				/* nearest rows */
	bool		alike;			/* all workers have the same kernel: set by RemoteJoinBegin */
} RemoteProblem;

/*
 * Rows of a are dealt to slices in blocks of so many, by their numbers: so a worker knows
 * its own before it knows how many there are.
 */
#define SHARE_BLOCK_ROWS 64

static inline bool
IsInShare(uint32 row, uint32 slice, uint32 slices)
{
	return row / SHARE_BLOCK_ROWS % slices == slice;
}

typedef struct RemoteJoin RemoteJoin;

/* What one worker did, for EXPLAIN. */
typedef struct WorkerShare
{
	const char *name;
	double		read_seconds;
	FastedStats stats;
} WorkerShare;

/*
 * Begins to join if the sources are ones to divide, and reads their keys; NULL: they are
 * not.  The problem's sources stay.  Errors: a worker can't be reached, or refuses.  In the
 * current memory context, with which it goes: connections too.
 */
extern RemoteJoin *RemoteJoinBegin(const RemoteProblem *problem, KeySet *const *keys);

/*
 * Of a source with an order: the place of each row in it, by row number, in the memory
 * context of the keys; else NULL.
 */
extern const uint32 *RemoteJoinOrder(const RemoteJoin *remote);

/*
 * The next pairs, by row numbers, valid until the next call.  False: there are no more,
 * and all workers have read the same rows as this session.  If they have not, that is an
 * error (serialization failure), here or before.
 */
extern bool RemoteJoinNext(RemoteJoin *remote, const FastedPair **pairs, size_t *npairs);

/*
 * With SLICE_NEAREST: pairs of a row of a come one after the other, the nearest first, but
 * not always at once.  The rank of the first pair of the last ones, from 1 on.
 */
extern uint32 RemoteJoinRank(const RemoteJoin *remote);

/* After that: with SLICE_COUNT, of all; with SLICE_COUNTS, of each row. */
extern uint64 RemoteJoinPairs(const RemoteJoin *remote);
extern const uint32 *RemoteJoinCounts(const RemoteJoin *remote);

/* Sums over workers, as far as they have told; and what each did, a list of WorkerShare. */
extern FastedStats RemoteJoinStatistics(const RemoteJoin *remote);
extern List *RemoteJoinShares(const RemoteJoin *remote);
extern List *CopyShares(List *shares);

#endif							/* FASTED_REMOTE_JOIN_H */
