/*-------------------------------------------------------------------------
 *
 * join.h
 *	  One join from beginning to end: rows in, pairs of row numbers out.
 *
 * Between PostgreSQL on one side (reader.c, self_join.c) and an engine on the
 * other (engine.h).  The rows come from a source, or are in memory already.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_H
#define FASTED_JOIN_H

#include "engine/engine.h"
#include "join/keys.h"
#include "join/row_set.h"
#include "rows/source.h"

typedef struct Join Join;

/*
 * Reads the whole source and starts the engine; eps is on the metric's scale.  Or the
 * workers of a Citus cluster do so, which is no matter to the caller.  Error:
 * fasted.refine is off, and the metric is not L2.  Everything the join owns hangs
 * on a child of the current memory context, threads and device memory too, and
 * goes with it, on error and abort as well; what is not PostgreSQL's goes with the
 * resource owner, if that comes first (base/interrupts.h).
 */
extern Join *JoinBegin(const VectorSource *source, double eps, FastedOutput output);

/* The same; what the engine finds is JoinOutput's to say, when JoinNext has been called. */
extern Join *JoinBeginProblem(const VectorSource *source, const FastedProblem *problem);

/*
 * Of such a join: raises a NOTICE when more than half of all pairs of many rows have been
 * found within a finite eps, which may be a similarity that was taken for a distance.  A
 * statement gets one such NOTICE at most.
 */
extern void JoinNoticeManyPairs(Join *join);

/* One of the slices of a join, for which rows come in an order of their own: row_set.h. */
typedef struct JoinSlice
{
	uint32		slice;			/* < slices */
	uint32		slices;
	bool		alike;			/* all are joined by the same kernel */
	Fingerprint *print;			/* of the rows that were read; the caller's */
} JoinSlice;

extern Join *JoinBeginSlice(const VectorSource *source, double eps, FastedOutput output,
							const JoinSlice *slice);

/* What decides which pairs are in a slice, beside the rows; as far as it is known by now. */
extern void JoinDescribeCut(const Join *join, char *text, size_t size);

/*
 * Whoever has the rows of two relations, sides 0 and 1: push gives them all to
 * JoinPush, or ends when that returns false.  It is called once more where the CPU
 * takes over from a GPU that failed.
 */
typedef struct RowPusher RowPusher;
struct RowPusher
{
	void		(*push) (RowPusher *pusher, Join *join);

	/*
	 * If only rows of one group meet: the groups of FastedProblem.  At first they are a guess
	 * (without first rows); those of all rows that were pushed when push returns.
	 */
	const FastedRowGroup *groups;
	uint32		ngroups;
};

/*
 * Pairs (a, b) of a row of side 0 and one of side 1, by the order of pushing; or of one
 * relation with itself, where there is one side.
 */
extern Join *JoinBeginPushed(RowPusher *pusher, int sides, FastedElement element,
							 uint32 dimensions, const uint64 *expected_rows,
							 FastedMetric metric, double eps, FastedOutput output);
extern bool JoinPush(Join *join, int side, const float *row);

/*
 * Where the pusher's rows may go, with keys, instead: all of one side, then of the other.
 * The engine comes with the first of them.
 */
extern RowSink *JoinSink(Join *join, int side);

/*
 * The nearest rows of b for each row of a, or of a's other rows.  Both sources are read,
 * unless there is a pusher for JoinSink.  Rows of b at the same distance are taken in the
 * order of their keys.  Or workers of a Citus cluster do so, unless there is a pusher.
 */
typedef struct NearestProblem
{
	const VectorSource *a;
	const VectorSource *b;		/* NULL: a itself */
	uint32		k;				/* how many, at most */
	double		most;			/* the largest distance, on the metric's scale */
	RowPusher  *pusher;			/* or NULL */
} NearestProblem;

extern Join *JoinBeginNearest(const NearestProblem *nearest);

/* The same for rows in memory, of the source that messages name; it has no keys. */
extern Join *JoinBeginRows(const VectorSource *source, const RowArray *rows, double eps);

/*
 * The same rows once more, for the pairs within another eps: only the join is
 * computed.  The pairs of the last one that were not taken are gone.
 */
extern void JoinAgain(Join *join, double eps);

/*
 * The next pairs, each once (of one relation with a < b; row numbers), in no order.  False: there
 * are no more.  Valid until the next call.  Answers interrupts.
 */
extern bool JoinNext(Join *join, const FastedPair **pairs, size_t *npairs);

/* Of JoinBeginNearest, instead: the next rows of a whose neighbours are known. */
extern bool JoinNextRows(Join *join, uint64 *first, uint64 *count);

/* The neighbours of one of them, the nearest first: their ranks by key (KeySetInOrder). */
extern const FastedNeighbor *JoinNearest(const Join *join, uint64 row, uint32 *length);

/* Of sources with partitions: how many there are that have rows on both sides. */
extern uint32 JoinPartitions(const Join *join);

/*
 * Have workers of a cluster divided it?  Then neighbours come as pairs instead: a row of a
 * with one of its nearest rows of b.  Those of a row come one after the other, the nearest
 * first, not always at once: JoinFirstRank has the rank, from 1 on, of the first of the last
 * pairs.
 */
extern bool JoinIsDivided(const Join *join);
extern uint32 JoinFirstRank(const Join *join);

/* With FASTED_OUTPUT_COUNT, instead: the number of pairs, none of which comes here. */
extern uint64 JoinCount(Join *join);

/* The number of pairs that the engine has found so far. */
extern uint64 JoinPairs(const Join *join);

/*
 * With FASTED_OUTPUT_COUNTS or _CONNECTIONS, when JoinNext has returned false: how many
 * pairs each row has.  Valid until the join ends.  NULL: there are no rows, or the engine
 * did not count.
 */
extern const uint32 *JoinCounts(const Join *join);

/* FASTED_OUTPUT_PAIRS in place of _CONNECTIONS or _KEEPERS, where the engine has none. */
extern FastedOutput JoinOutput(const Join *join);

/*
 * With FASTED_OUTPUT_KEEPERS, before JoinNext: the rows' ranks (engine.h), which stay until
 * that returns false.
 */
extern void JoinRank(Join *join, const uint32 *ranks);

/*
 * The place of each row in the source's order, if that was read with the rows: of a join
 * that is divided, or has partitions.  In the memory context of JoinKeys; or NULL.
 */
extern const uint32 *JoinOrder(const Join *join);

/*
 * Nobody knows when the next pairs will be asked for, if ever: the engine comes
 * to rest until then.  Cheap; what it has done so far is shown.
 */
extern void JoinPause(Join *join);

/* The rows' ids; their count is the number of rows that take part. */
extern const KeySet *JoinKeys(const Join *join);

/* Those of a side; of one relation with itself both are the same. */
extern KeySet *JoinKeysOf(const Join *join, int side);

/* The engine's statistics and the seconds it took to read; false: no engine ran. */
extern bool JoinStatistics(const Join *join, FastedStats *stats, double *read_seconds);

/* What each server did, if several share it (a list of WorkerShare: remote_join.h); else NIL. */
extern List *JoinShares(const Join *join);

extern void JoinEnd(Join *join);

/*
 * Whoever wants every pair: take is called with each batch, in the memory context
 * in which JoinRun was called.
 */
typedef struct PairSink PairSink;
struct PairSink
{
	void		(*take) (PairSink *sink, const FastedPair *pairs, size_t npairs);
};

/* Gives all pairs to the sink. */
extern void JoinRun(Join *join, PairSink *sink);

#endif							/* FASTED_JOIN_H */
