/*-------------------------------------------------------------------------
 *
 * join.h
 *	  One join from beginning to end: rows in, pairs of row numbers out.
 *
 * Between PostgreSQL on one side and an engine on the other (engine.h).  The rows come from
 * sources (reader.h), or from whoever pushes them.  Belongs to join.c; what concerns engines is
 * in engines.c, and joins that the workers of a Citus cluster share are made by the files in
 * citus/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_H
#define FASTED_JOIN_H

#include "base/interrupts.h"
#include "join/row_set.h"
#include "rows/vector.h"

typedef struct VectorJoin VectorJoin;
typedef struct RemoteJoin RemoteJoin;

/*
 * Whoever has the rows: push gives them all to JoinPush or to JoinSink, or ends when these
 * take no more.  It is called once more where the CPU takes over from a GPU that failed.
 */
typedef struct RowPusher RowPusher;
struct RowPusher
{
	void		(*push) (RowPusher *pusher, VectorJoin *join);

	/* Without sources: of the rows, which have no keys then. */
	Oid			relid;			/* InvalidOid: of no one relation */
	int			sides;
	FastedMetric metric;
	FastedElement element;
	uint32		dimensions;
	uint64		expected_rows[2];
};

/*
 * What is joined.  The problem's eps is on the metric's scale.  Its groups, where only rows of
 * one group meet, are a guess at first (without first rows), and those of all rows that were
 * pushed when push returns.
 */
typedef struct JoinRequest
{
	const VectorSource *sources[2]; /* the second one NULL: one relation with itself */
	FastedProblem problem;
	RowPusher  *pusher;			/* instead of reading the sources; or NULL */
	uint32		few_rows;		/* of one source: it pushes no more, and they need no engine; or 0 */
	Fingerprint *print;			/* of a slice: of the rows that were read; the caller's */

	/*
	 * Raise a NOTICE when more than half of all pairs of many rows have been found within a
	 * finite eps, which may be a similarity that was taken for a distance.  A statement gets
	 * one such NOTICE at most.
	 */
	bool		notices;
} JoinRequest;

/* A join.  The first fields are for callers, who only read them. */
struct VectorJoin
{
	/*
	 * The rows' ids; their count is the number of rows that take part.  Of one relation with
	 * itself both are the same.
	 */
	KeySet	   *keys[2];

	/*
	 * The place of each row in the source's order, if that was read with the rows: of a join
	 * that is divided, or has partitions.  In the memory context of the keys; or NULL.
	 */
	const uint32 *order;
	uint32		npartitions;	/* of sources with partitions: those with rows on both sides */
	double		read_seconds;

	/* FASTED_OUTPUT_PAIRS in place of _CONNECTIONS or _KEEPERS, where the engine has none. */
	FastedOutput output;

	/*
	 * With FASTED_OUTPUT_COUNTS or _CONNECTIONS, when JoinNext has returned false: how many
	 * pairs each row has.  Valid until the join ends.  NULL: there are no rows, or the engine
	 * did not count.
	 */
	const uint32 *counts;

	/*
	 * The workers of a cluster that share the join; NULL: it is not divided.  Then neighbours
	 * come as pairs: a row of a with one of its nearest rows of b.  Those of a row come one
	 * after the other, the nearest first, not always at once: first_rank is the rank, from 1
	 * on, of the first of the last pairs.
	 */
	RemoteJoin *remote;
	uint32		first_rank;

	/* The rest is for join.c and row_set.c. */
	MemoryContext context;
	Cleanup		cleanup;
	JoinRequest request;		/* its sources as they are compared */
	EngineRun	run;			/* its problem is the request's, or has partitions */
	RowSet		rows[2];
	instr_time	begun;
	Progress	progress;
	bool		unseen;			/* pairs have come since progress was shown */
	FastedPair *few;			/* the pairs of few rows; NULL before they are found */
	uint64		nfew;
};

/*
 * Reads all rows and starts the engine.  Or the workers of a Citus cluster do so, which is no
 * matter to the caller.  With FASTED_OUTPUT_NEAREST, rows of b at the same distance are taken
 * in the order of their keys.  Error: fasted.refine is off, which is a matter of sources only,
 * and the metric is not L2.
 *
 * Everything the join owns hangs on a child of the current memory context, threads and device
 * memory too, and goes with it, on error and abort as well; what is not PostgreSQL's goes with
 * the resource owner, if that comes first (base/interrupts.h).
 */
extern VectorJoin *JoinBegin(const JoinRequest *request);

/*
 * Pushes a row: pairs (a, b) are of a row of side 0 and one of side 1, by the order of pushing;
 * or of one relation with itself, where there is one side.  False: the engine has failed.
 */
extern bool JoinPush(VectorJoin *join, int side, const float *row);

/*
 * Where the pusher's rows may go, with keys, instead: all of one side, then of the other.
 * The engine comes with the first of them.
 */
extern RowSink *JoinSink(VectorJoin *join, int side);

/* What decides which pairs are in a slice, beside the rows; as far as it is known by now. */
extern void JoinDescribeCut(const VectorJoin *join, char *text, size_t size);

/*
 * The same rows once more, for the pairs within another eps: only the join is
 * computed.  The pairs of the last one that were not taken are gone.
 */
extern void JoinAgain(VectorJoin *join, double eps);

/*
 * The next pairs, each once (of one relation with a < b; row numbers), in no order.  False: there
 * are no more.  Valid until the next call.  Answers interrupts.
 */
extern bool JoinNext(VectorJoin *join, const FastedPair **pairs, size_t *npairs);

/* With FASTED_OUTPUT_NEAREST, instead: the next rows of a whose neighbours are known. */
extern bool JoinNextRows(VectorJoin *join, uint64 *first, uint64 *count);

/* The neighbours of one of them, the nearest first: their ranks by key (KeySetInOrder). */
extern const FastedNeighbor *JoinNearest(const VectorJoin *join, uint64 row, uint32 *length);

/* With FASTED_OUTPUT_COUNT, instead: the number of pairs, none of which comes here. */
extern uint64 JoinCount(VectorJoin *join);

/* The number of pairs that the engine has found so far. */
extern uint64 JoinPairs(const VectorJoin *join);

/*
 * With FASTED_OUTPUT_KEEPERS, before JoinNext: the rows' ranks (engine.h), which stay until
 * that returns false.
 */
extern void JoinRank(VectorJoin *join, const uint32 *ranks);

/*
 * Nobody knows when the next pairs will be asked for, if ever: the engine comes
 * to rest until then.  Cheap; what it has done so far is shown.
 */
extern void JoinPause(VectorJoin *join);

/* The engine's statistics and the seconds it took to read; false: no engine ran. */
extern bool JoinStatistics(const VectorJoin *join, FastedStats *stats, double *read_seconds);

/* What each server did, if several share it (a list of WorkerShare, below); else NIL. */
extern List *JoinShares(const VectorJoin *join);

extern void JoinEnd(VectorJoin *join);

/* For row_set.c: a side's first vector has come, or some rows. */
extern void JoinOpenEngine(VectorJoin *join);
extern void JoinShowProgress(VectorJoin *join, ProgressPhase phase);

/* --- engines.c: which engines there are, and what needs none */

/*
 * Why the CUDA engine cannot compute a join here, or NULL if it can.  Creates no context on
 * a GPU and raises no error.
 */
extern const char *CudaProblem(void);

/* Describes a GPU in a text of at most size bytes; returns false if there is none with this ordinal. */
extern bool DescribeGpu(int ordinal, char *text, size_t size);

/*
 * Rows, of both sides together, for which there is memory in the engine that is chosen for a
 * join of about so many pairs of rows; a guess on the safe side.  orders: it puts rows in
 * order where that pays.
 */
extern uint64 JoinRoom(double row_pairs, FastedElement element, uint32 dimensions, bool *orders);

/* An engine is not begun for so few pairs of rows, if their vectors are not long. */
#define SMALL_JOIN_PAIRS 4096
#define SMALL_JOIN_ROWS 91		/* which have no more pairs with each other */
#define SMALL_JOIN_FLOATS (256 * 1024)

/* Few rows, one behind the other as engines have them, that the calling process compares. */
typedef struct SmallJoin
{
	FastedMetric metric;
	FastedElement element;
	uint32_t	dimensions;
	double		eps;
	const float *a;
	const float *b;				/* NULL: a itself, of whose pairs each comes once, with a < b */
} SmallJoin;

/*
 * The pairs of a group that are within eps, by the canonical distance, in the order of their
 * rows.  There must be room for all pairs of the group.  Returns the number of pairs.
 */
extern size_t SmallJoinPairs(const SmallJoin *join, const FastedRowGroup *group, FastedPair *pairs);

/*
 * --- citus/: a join whose work is divided over the workers of a Citus cluster, for join.c
 *
 * Each worker reads all rows, in the order of their keys, and joins one slice of the
 * tiles; what it finds comes here as row numbers.  This session reads keys and hashes of
 * the same rows itself.  A result is given only if all of them have read the same.
 *
 * Of nearest rows a slice is a share of the rows of a: each worker reads all rows of
 * both relations, and finds those of b for its share.
 */

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

/* With SLICE_NEAREST: first_rank of a join. */
extern uint32 RemoteJoinRank(const RemoteJoin *remote);

/* After that: with SLICE_COUNT, of all; with SLICE_COUNTS, of each row. */
extern uint64 RemoteJoinPairs(const RemoteJoin *remote);
extern const uint32 *RemoteJoinCounts(const RemoteJoin *remote);

/* Sums over workers, as far as they have told; and what each did, a list of WorkerShare. */
extern FastedStats RemoteJoinStatistics(const RemoteJoin *remote);
extern List *RemoteJoinShares(const RemoteJoin *remote);
extern List *CopyShares(List *shares);

#endif							/* FASTED_JOIN_H */
