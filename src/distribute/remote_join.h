/*-------------------------------------------------------------------------
 *
 * remote_join.h
 *	  A join whose work is divided over the workers of a Citus cluster.
 *
 * Each worker reads all rows, in the order of their keys, and joins one slice of the
 * tiles; what it finds comes here as row numbers.  This session reads keys and hashes of
 * the same rows itself.  A result is given only if all of them have read the same.
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
	SLICE_CONNECTIONS			/* pairs, enough of them to connect what all connect */
} SliceOutput;

/* By SliceOutput. */
extern const char *const slice_output_names[4];

typedef struct RemoteJoin RemoteJoin;

/* What one worker did, for EXPLAIN. */
typedef struct WorkerShare
{
	const char *name;
	double		read_seconds;
	FastedStats stats;
} WorkerShare;

/*
 * Begins to join if the source is one to divide, and reads its keys; NULL: it is not.
 * Errors: a worker can't be reached, or refuses.  In the current memory context, with
 * which it goes: connections too.
 */
extern RemoteJoin *RemoteJoinBegin(const VectorSource *source, FastedMetric metric, double eps,
								   SliceOutput output, KeySet *keys);

/*
 * The next pairs, by row numbers, valid until the next call.  False: there are no more,
 * and all workers have read the same rows as this session.  If they have not, that is an
 * error (serialization failure), here or before.
 */
extern bool RemoteJoinNext(RemoteJoin *remote, const FastedPair **pairs, size_t *npairs);

/* After that: with SLICE_COUNT, of all; with SLICE_COUNTS, of each row. */
extern uint64 RemoteJoinPairs(const RemoteJoin *remote);
extern const uint32 *RemoteJoinCounts(const RemoteJoin *remote);

/* Sums over workers, as far as they have told; and what each did, a list of WorkerShare. */
extern FastedStats RemoteJoinStatistics(const RemoteJoin *remote);
extern List *RemoteJoinShares(const RemoteJoin *remote);
extern List *CopyShares(List *shares);

#endif							/* FASTED_REMOTE_JOIN_H */
