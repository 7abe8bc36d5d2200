/*-------------------------------------------------------------------------
 *
 * join.h
 *	  A join from its input rows to its result pairs of row numbers.
 *
 * This interface connects PostgreSQL code to a distance engine (engine.h).  Rows come from sources
 * (reader.h) or from the caller.  Implemented by join.c, panels.c and engines.c.  Another library may
 * distribute joins over other servers (JoinDistributor).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_JOIN_H
#define FASTED_JOIN_H

#include "base/interrupts.h"
#include "join/row_set.h"
#include "rows/vector.h"

typedef struct VectorJoin VectorJoin;

/* Joins up to these limits use no engine: row pairs, rows of a self-join, and floats of all rows. */
#define SMALL_JOIN_PAIRS 4096
#define SMALL_JOIN_ROWS 91		/* 91 rows have at most 4096 pairs */
#define SMALL_JOIN_FLOATS (256 * 1024)

/*
 * Input of a join. problem.eps is on the metric's scale.  If problem.partitions is set, only rows
 * of one partition are compared.  The partitions are an estimate without row offsets at first, and
 * must be exact when JoinStart is called.
 */
typedef struct JoinRequest
{
	const VectorSource *sources[2]; /* the second is NULL in a self-join */
	FastedProblem problem;

	/*
	 * Maximum number of rows of a self-join, or of each side if the join has no sources and its pairs
	 * are at most SMALL_JOIN_PAIRS; 0: not known.
	 */
	uint64		most_rows;

	/* Properties of the rows if the join has no sources.  Such rows have no keys. */
	Oid			relid;			/* InvalidOid: not of a single relation */
	int			sides;
	FastedMetric metric;
	FastedElement element;
	uint32		dimensions;
	uint64		expected_rows[2];

	bool		searches;		/* JoinSearch will be called: one process and one GPU at most */
	bool		finds_zeros;	/* fill in `zeros`; the join is then not distributed */
	uint64		caller_row_bytes;	/* host memory that the caller will use meanwhile, per row */

	/*
	 * Raise a NOTICE if more than half of all pairs of many rows are within a finite eps: the user may
	 * have passed a similarity as a distance.  Each statement raises at most one.
	 */
	bool		notices;
} JoinRequest;

/* The nearest rows of a row, or some of them, in ascending order of their distances. */
typedef struct NeighborList
{
	uint32		row;			/* of a; after JoinSearch, the position in search->rows */
	bool		copied;			/* the engine does not have this row, only copies of it */
	uint32		first_rank;		/* rank, from 1, of the first of these neighbors */
	uint32		length;
	const FastedNeighbor *neighbors;	/* the rows of b are given by their key rank (KeySetInOrder) */
} NeighborList;

/* A running join.  Callers may read the first fields. */
struct VectorJoin
{
	/* The rows' ids, and so the number of rows that take part.  The same pointer twice in a self-join. */
	KeySet	   *keys[2];

	/*
	 * Each row's position in the source's order, or NULL.  It is set only if the join is
	 * distributed or has partitions.  Allocated in the memory context of the keys.
	 */
	const uint32 *order;
	uint32		npartitions;	/* number of partitions that have rows on both sides */
	double		read_seconds;

	/* With finds_zeros: the rows of the first side whose vector is zero, in ascending order. */
	uint32	   *zeros;
	uint32		nzeros;
	uint32		zero_capacity;

	/* The output in use: pairs if the engine does not support _CONNECTIONS or _REPRESENTATIVES. */
	FastedOutput output;

	/*
	 * With FASTED_OUTPUT_COUNTS or _CONNECTIONS, after JoinNext has returned false: the number of
	 * pairs of each row.  NULL if there are no rows or the engine did not count.
	 */
	const uint32 *counts;

	const uint32 *copy_of;		/* with FASTED_OUTPUT_REPRESENTATIVES: see CopiesNoted; or NULL */

	/* What finds the pairs; and the state of a distributed join. */
	const struct JoinBackend *backend;
	void	   *distributed;

	/* The remaining fields are private to this folder. */
	MemoryContext context;
	Cleanup		cleanup;
	JoinRequest request;		/* a copy, whose sources have a common element type */
	EngineRun	run;			/* its problem is the request's, or includes partitions */
	const uint32 *ranks;		/* see JoinRank */
	CopiedRows	copied;			/* with FASTED_OUTPUT_NEAREST or _CONNECTIONS: which rows the engine has */
	FastedBatch batch;			/* what JoinNextList has not returned yet */
	NeighborList list;			/* its last result */
	uint32		next_copy;		/* the next row with this list, or NO_COPY */
	uint32		nlists;
	RowSet		rows[2];
	instr_time	begun;
	Progress	progress;
	bool		progress_stale; /* pairs found since progress was last shown */
	const uint32 *searched;		/* the engine rows of the last JoinSearch; NULL before */
	const uint32 *positions;	/* their positions in its `rows`; NULL: the same */
	MemoryContext searching;	/* holds these arrays; NULL before the first JoinSearch */
	FastedPair *few;			/* pairs found without an engine; NULL before the search */
	uint64		nfew;
};

/* --- a join is opened, fed with rows, started, read and closed, in this order */

/*
 * Opens a join.  With FASTED_OUTPUT_NEAREST, rows of b at equal distance are ordered by their keys.
 * The join's memory, threads and device memory belong to a child of the current memory context, and
 * are released with it, or before with the resource owner (base/interrupts.h).
 */
extern VectorJoin *JoinOpen(const JoinRequest *request);

/* Reads the rows of the sources, or has other servers do so. */
extern void JoinRead(VectorJoin *join);

/* Adds a row, numbered in the order of the calls.  Returns false if the engine has failed. */
extern bool JoinPush(VectorJoin *join, int side, const float *row);

/*
 * Returns a sink that accepts rows with keys, as an alternative to JoinPush.  All rows of one side
 * must precede those of the other.  The first row opens the engine.
 */
extern RowSink *JoinSink(VectorJoin *join, int side);

/* With FASTED_OUTPUT_REPRESENTATIVES: sets the rows' ranks (engine.h), after the last row. */
extern void JoinRank(VectorJoin *join, const uint32 *ranks);

/*
 * Ends the input and starts the join.  Returns false if a GPU that was chosen automatically has
 * failed until now.  The join is then empty again, and the caller passes all rows to it once more,
 * for the CPU.  After JoinStart has returned true, a failure is an error.
 */
extern bool JoinStart(VectorJoin *join);

/* Opens, reads and starts a join of sources. */
extern VectorJoin *JoinBegin(const JoinRequest *request);

/* Writes to text what is known of the engine properties that determine which pairs belong to a slice. */
extern void JoinDescribeCut(const VectorJoin *join, char *text, size_t size);

/*
 * Returns the next pairs of row numbers in arbitrary order, each pair once.  In a self-join a < b.
 * Returns false at the end.  *pairs is valid until the next call.  Processes interrupts.
 */
extern bool JoinNext(VectorJoin *join, const FastedPair **pairs, size_t *npairs);

/*
 * With FASTED_OUTPUT_NEAREST: returns the next list, valid until the next call; NULL at the end.  All
 * lists of a row are consecutive.  If wait is false, also returns NULL if no list is ready.  Processes
 * interrupts.
 */
extern const NeighborList *JoinNextList(VectorJoin *join, bool wait);

/*
 * After JoinNextList has returned NULL: searches for neighbours of some rows in other components
 * (panel_join_search), which JoinNextList then returns.  The rows and arrays of the search refer to key
 * ranks.  search->rows must remain valid until then.  The request must have been one with `searches`.
 */
extern void JoinSearch(VectorJoin *join, const PanelSearch *search);

/*
 * With FASTED_OUTPUT_CONNECTIONS, the engine does not have all copies of a row (copies.c).  JoinNext and
 * `counts` then refer to engine rows.  Returns their number after the start.  Sets *row_of to the row
 * by engine row, and *engine_row to the engine row that is equal to each row, both allocated in the
 * current memory context; or both to NULL if they are the same.
 */
extern uint32 JoinEngineRows(const VectorJoin *join, uint32 **row_of, uint32 **engine_row);

/* With FASTED_OUTPUT_COUNT: computes and returns the number of pairs. */
extern uint64 JoinCount(VectorJoin *join);

/*
 * Pauses the engine until the next call, because the caller may never ask for more pairs.  Updates
 * the progress view.  This call is cheap.
 */
extern void JoinPause(VectorJoin *join);

/* Updates the progress view, if enough time has passed; or in any case. */
extern void JoinUpdateProgress(VectorJoin *join, ProgressPhase phase);
extern void JoinShowProgress(VectorJoin *join, ProgressPhase phase);

/* Returns the engine's statistics so far.  Its name is empty if no engine ran. */
extern FastedStats JoinStatistics(const VectorJoin *join);

/* Returns a List of String that describe each server's share if the join is distributed, else NIL. */
extern List *JoinShares(const VectorJoin *join);

extern void JoinEnd(VectorJoin *join);

/* For the files of this folder: opens the engine at the first vector of either side. */
extern void JoinOpenEngine(VectorJoin *join);

/* --- what finds the pairs of a join */

/*
 * An engine or the comparison of few rows in this process (panels.c), or other servers.
 *
 * next: waits for a short time.  Returns FASTED_OK and the next batch, FASTED_AGAIN if there is none
 * yet, or FASTED_DONE at the end.  It then sets the join's `counts`.
 * next_list: removes the next list from join->batch and sets join->list to it.  Returns false if there
 * is none.  NULL: there are pairs instead of lists.
 * statistics: returns the statistics so far.  The engine's name is empty if no engine ran.
 * shares, pause: see JoinShares and JoinPause; or NULL.
 */
typedef struct JoinBackend
{
	FastedStatus (*next) (VectorJoin *join, FastedBatch *batch);
	bool		(*next_list) (VectorJoin *join);
	FastedStats (*statistics) (const VectorJoin *join);
	List	   *(*shares) (const VectorJoin *join);
	void		(*pause) (VectorJoin *join);
} JoinBackend;

extern const JoinBackend panels;
extern const JoinBackend few_rows;

/* panels.c: starts the engine after the last row.  Sets run.failed if the CPU is to take over. */
extern void StartPanels(VectorJoin *join);

/* --- engines.c: choice of an engine */

/*
 * Returns the reason why the CUDA engine cannot be used, or NULL if it can.  Creates no GPU context
 * and raises no error.
 */
extern const char *CudaProblem(void);

/* Starts to initialize the GPU, if a join of rows_a with rows_b rows will probably use it. */
extern void WarmEngine(double rows_a, double rows_b);

/* Describes a GPU in a text of at most size bytes.  Returns false if no GPU has this ordinal. */
extern bool DescribeGpu(int ordinal, char *text, size_t size);

/*
 * Returns a conservative estimate of the number of rows, on both sides together, that fit into the
 * memory of the engine.  row_pairs is the expected number of row pairs, which determines the
 * engine.  Sets *orders if that engine reorders rows for each join.
 */
extern uint64 JoinCapacity(double row_pairs, FastedElement element, uint32 dimensions, bool *orders);

#endif							/* FASTED_JOIN_H */
