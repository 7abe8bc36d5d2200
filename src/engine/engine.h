/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  The border between PostgreSQL and the distance engines.
 *
 * An engine finds every pair of rows, of two sets or of one, whose distance is
 * at most eps.  "Distance" is a canonical FP64 form of exact_distance.h, so that every
 * engine gives the same pairs and the same bits, in an order of its own.
 *
 * This header is plain C: no PostgreSQL type and no CUDA type passes it.  An
 * engine never calls back, never throws, never calls exit, and blocks every
 * signal in the threads it starts.  Its caller polls.
 *
 *	  context	the processors or the GPU, and the memory that may be taken there,
 *				for rows of one number of dimensions
 *	  set		rows that lie there, with what the filter made of them
 *	  join		of two sets, or of one with itself
 *
 * The life of a set:
 *
 *	  set_open
 *	  stage, commit, stage, commit, ...		rows go in, in order 0, 1, 2, ...
 *	  seal									no more rows
 *	  set_reset								it is empty again, its memory stays
 *	  set_close
 *
 * Instead of stage and commit, also in turn with them, rows may be put: they
 * are read from memory of the caller's that was lent before.  That ends the
 * room that stage gave.
 *
 * The life of a join, of which a context has one at a time:
 *
 *	  join_open
 *	  next, next, ... until FASTED_DONE		pairs come out
 *	  pause									any time; work rests until the next call
 *	  join_close							any time; stops all work at once
 *
 * While a join is at work other sets may be opened, filled, sealed and closed.  Of an
 * engine with devices several threads may be in calls at the same time, each of another
 * context.
 * What the filter derives from rows stays with their set, so that a further join
 * of it only joins.  A join of sets that are too large together is panel_join.h's.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ENGINE_H
#define FASTED_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* Raised with every change of this header; a library that differs is refused. */
#define FASTED_ENGINE_ABI 16

/* Row numbers are 32 bits wide; a larger set is refused by the caller. */
#define FASTED_MAX_ROWS UINT32_C(0x7fffffff)

/* PostgreSQL's limit for vectors is lower; this one bounds the error terms. */
#define FASTED_MAX_DIMENSIONS UINT32_C(65536)

/* Neighbours of a row: more are refused. */
#define FASTED_MAX_NEIGHBORS (UINT32_C(1) << 27)

typedef enum FastedStatus
{
	FASTED_OK = 0,
	FASTED_DONE,				/* next: there is no further pair */
	FASTED_AGAIN,				/* next: nothing within the time limit */
	FASTED_WANT_ROWS,			/* panel_join_next only: the batch names rows to stage */
	FASTED_FULL,				/* stage, put: no further row fits */

	/*
	 * From here on: failures, with a text from last_error.  A second line of it,
	 * if there is one, says what the user can do.
	 */
	FASTED_OUT_OF_MEMORY,		/* host memory */
	FASTED_OUT_OF_DEVICE_MEMORY,
	FASTED_NO_DEVICE,			/* no driver, no device, or too old a one */
	FASTED_UNKNOWN_DEVICE,		/* a device that was named is not there */
	FASTED_DEVICE_FAILED,		/* the device reported an error */
	FASTED_UNSUPPORTED,			/* an option that this engine does not have */
	FASTED_INTERNAL				/* a broken invariant: a bug */
} FastedStatus;

#define FASTED_FAILED(status) ((status) >= FASTED_OUT_OF_MEMORY)

/*
 * How candidates are found.  The CPU engine filters in INT8 or FP32: FP32 is what
 * it takes for FP16 and FP64, and for INT8 where that can't be had.
 */
typedef enum FastedFilter
{
	FASTED_FILTER_AUTO = 0,
	FASTED_FILTER_FP16,
	FASTED_FILTER_FP64,
	FASTED_FILTER_INT8
} FastedFilter;

/* What "distance" is: exact_distance.h has both canonical forms. */
typedef enum FastedMetric
{
	FASTED_METRIC_L2 = 0,
	FASTED_METRIC_COSINE		/* what has no direction has no pair: zeros, NaN, infinity */
} FastedMetric;

/*
 * What rows consist of.  Distances are those of the rows as they come.  Rows of doubles
 * pass this border by the same pointers, and a double takes the room of two floats.
 * Where the metric is cosine, fasted_scale_direction (exact_distance.h) has seen them.
 */
typedef enum FastedElement
{
	FASTED_ELEMENT_REAL = 0,
	FASTED_ELEMENT_DOUBLE
} FastedElement;

/* What becomes of a pair that passed the recheck. */
typedef enum FastedOutput
{
	FASTED_OUTPUT_PAIRS = 0,	/* next hands it out */
	FASTED_OUTPUT_COUNT,		/* it is counted: stats */
	FASTED_OUTPUT_COUNTS,		/* it is counted for each of its rows: counts */

	/*
	 * The row of a keeps it if it is among its k nearest: nearest.  They are the first
	 * ones by distance, then by the rank of the row of b, within eps; fewer where
	 * there are fewer.  Of a set with itself both rows keep it: no row is its own
	 * neighbour.
	 */
	FASTED_OUTPUT_NEAREST,

	/*
	 * next hands out what tells which rows belong together: not the pairs of two core rows
	 * (those with core_pairs pairs or more in this join) that other pairs of core rows
	 * connect already.  Which of them that are, is not always the same.  And all pairs are
	 * counted for each of their rows: counts; unless all rows are core rows.
	 */
	FASTED_OUTPUT_CONNECTIONS,

	/*
	 * Of a set with itself: next hands out what tells which rows are kept, and for each
	 * other one which kept row before it is the nearest.  In order of rank, a row is kept
	 * unless one that is kept is within eps.  A pair is left out only if both answers are
	 * the same without it, whatever else is left out.
	 */
	FASTED_OUTPUT_KEEPERS
} FastedOutput;

/* A device by a name that is good for FastedOptions.devices. */
#define FASTED_DEVICE_NAME 48

/*
 * Whether tiles are tested at few dimensions first: doc/internals/bound-pruning.md.  The CUDA
 * engine, whose filter is FASTED_FILTER_AUTO, then tests them at few dimensions only.
 */
typedef enum FastedPrune
{
	FASTED_PRUNE_AUTO = 0,		/* where it pays, which a sample tells */
	FASTED_PRUNE_OFF,
	FASTED_PRUNE_FORCE			/* for tests: always, at every number of dimensions */
} FastedPrune;

/* Parts of a spread set that each device has. */
#define FASTED_SPREAD_PARTS 4

/* Numbers of dimensions at which tiles may be tested: 32, 64, 128. */
#define FASTED_PRUNE_LEVELS 3

/*
 * Where and how to compute.  Zero means "the engine's own choice" in every field
 * but dimensions.
 */
typedef struct FastedOptions
{
	uint32_t	dimensions;		/* d, from 1 to FASTED_MAX_DIMENSIONS */
	FastedMetric metric;
	FastedElement element;

	uint64_t	memory_limit;	/* bytes of host memory for rows and tiles */
	uint64_t	device_memory_limit;	/* bytes of device memory */
	int			threads;		/* CPU threads at most */
	int			max_threads;	/* a limit for the engine's own choice, and for threads */

	FastedFilter filter;
	FastedPrune prune;
	bool		approximate;	/* no exact recheck: the paper's FP16-32 result */

	/* The GPUs to choose from, as device_list.h has it; NULL or empty: all. */
	const char *devices;

	/* For tests: a CPU kernel by name, such as "avx512vnni"; cpu_kernel.c has all. */
	const char *kernel;
} FastedOptions;

typedef struct FastedSetOptions
{
	uint64_t	first_row;		/* the number that row 0 has in results */
	uint64_t	expected_rows;	/* a guess; zero: there is none */
	uint64_t	most_rows;		/* it will not have more; zero: as memory allows */
	uint32_t	neighbors;		/* memory is kept for lists of so many for each row */
	bool		spread;			/* each device has some of its rows: width, below; needs most_rows */
} FastedSetOptions;

/*
 * Rows that may meet: so many of set a with so many of set b, by their places there.
 * Of a set with itself both are the same rows.
 */
typedef struct FastedRowGroup
{
	uint32_t	first_a;
	uint32_t	rows_a;
	uint32_t	first_b;
	uint32_t	rows_b;
} FastedRowGroup;

/*
 * What to find.  The pairs of a join are in one of its slices, for each number of
 * slices: which one is the same for the same engine, options and rows.
 */
typedef struct FastedProblem
{
	double		eps;			/* >= 0, may be infinite, not NaN */
	FastedOutput output;
	uint32_t	slice;			/* < slices */
	uint32_t	slices;			/* 0 or 1: all of it */
	uint32_t	more_slices;	/* so many behind that one, too */

	/*
	 * All slices are joined by the same kernel, so that the CPU engine may put rows in an
	 * order of its own, as GPUs always do: then slices are of one whole if order_hash is
	 * the same too.
	 */
	bool		alike;

	/*
	 * FASTED_OUTPUT_NEAREST.  Only an engine that has devices has slices of it: a slice's
	 * lists are the first k of its pairs.
	 */
	uint32_t	k;				/* 1 to FASTED_MAX_NEIGHBORS */

	/*
	 * This join goes on from the last one, which was like it and is done.  Neighbours: those
	 * that set a has stay, rows of b are further ones, or this is another slice.  Counts and
	 * connections: both sets are the same, this is another slice, and each row's pairs are
	 * counted on, as are rows that pairs handed out then have connected.
	 */
	bool		further;

	/*
	 * Only rows of one group meet.  Groups are disjoint and ascend on both sides; a row may
	 * be in none, and a group may have rows on one side only.  They are the caller's, and
	 * stay until the join is closed.  NULL: all rows meet.
	 */
	const FastedRowGroup *groups;
	uint32_t	ngroups;

	uint32_t	core_pairs;		/* FASTED_OUTPUT_CONNECTIONS; 0: all rows are core rows */

	/*
	 * FASTED_OUTPUT_KEEPERS: of each row of the set, by its place; no two are the same.
	 * NULL: its place.  Valid as long as the join.
	 *
	 * FASTED_OUTPUT_NEAREST: likewise of each row of set b; none is that of a row of an
	 * earlier set b that this join goes on from.  NULL: the row's number in results.
	 */
	const uint32_t *ranks;
} FastedProblem;

/*
 * One pair of the result: the numbers of its rows and their distance.  Of a set
 * with itself each pair is found once, and a < b.
 */
typedef struct FastedPair
{
	uint32_t	a;
	uint32_t	b;
	double		dist;
} FastedPair;

/* One of the nearest rows of a row: its rank (FastedProblem), and how far it is. */
typedef struct FastedNeighbor
{
	uint32_t	row;
	double		dist;
} FastedNeighbor;

/*
 * What next found.  pairs belongs to the engine and is valid until the next
 * call for the same join, or the end of it.
 */
typedef struct FastedBatch
{
	const FastedPair *pairs;
	size_t		npairs;

	/*
	 * With FASTED_WANT_ROWS: of which side (0: a), from where, how many.  With FASTED_OK
	 * of panel_join_next and FASTED_OUTPUT_NEAREST: rows of a whose neighbours are known.
	 */
	int			side;
	uint64_t	first_row;
	uint64_t	row_count;
} FastedBatch;

/*
 * Readable at any time between open and close; of all joins of the context so far.
 * rows and panels are panel_join.c's to tell.
 */
typedef struct FastedStats
{
	char		engine[32];		/* "cpu" or "cuda" */
	char		device[512];	/* name of the processor or the GPUs */
	char		kernel[48];		/* instruction set or architecture */
	char		filter[16];		/* "fp32", "fp16", "fp64", "int8", "int16"; the last join's */
	int			threads;		/* CPU threads at work, or zero */

	uint64_t	rows;
	uint32_t	dimensions;
	uint32_t	panels;			/* 1: everything was resident */
	uint64_t	units_total;	/* units of work */
	uint64_t	units_done;

	uint64_t	candidates;		/* pairs that passed the filter */
	uint64_t	pairs;			/* pairs that passed the recheck */

	/*
	 * Whether a sample of the rows decided on the filter, and what it found: on
	 * a GPU with the filter that was taken, on a CPU with INT8, in all joins.
	 */
	bool		filter_sampled;
	uint64_t	sampled_candidates;
	uint64_t	sampled_pairs;

	/*
	 * Pruning: tiles that were tested at 32, 64, 128 dimensions, and those of them
	 * that came to be tested at all dimensions.  Of joins without it: none.
	 */
	uint64_t	pruned_tiles[FASTED_PRUNE_LEVELS];
	uint64_t	full_tiles;

	uint64_t	redone_units;	/* voided for want of buffer space, then redone */

	uint64_t	host_bytes;		/* peak of host memory */
	uint64_t	device_bytes;	/* peak of device memory */

	double		prepare_seconds;	/* centring, packing, norms */
	double		filter_seconds; /* the tile kernels; summed over threads */
	double		refine_seconds; /* the exact recheck; summed over threads */
	double		device_seconds; /* GPU: from the first kernel to the last */

	/* GPU: numbers of a row that the last join's filter saw; 0: all dimensions. */
	uint32_t	filter_dimensions;

	/*
	 * Of the orders of rows that slices depend on, of all joins, and of the last one alone
	 * on a GPU; 0: as they came in.
	 */
	uint64_t	order_hash;
	uint64_t	join_order;
} FastedStats;

typedef struct FastedContext FastedContext;
typedef struct FastedSet FastedSet;
typedef struct FastedJoin FastedJoin;

/*
 * An engine.  Functions that can fail return a status; after a failure only
 * last_error, stats, withdraw and the closes may be called, for anything in the
 * context.  A context is used by one thread at a time.
 */
typedef struct FastedEngine
{
	uint32_t	abi;			/* FASTED_ENGINE_ABI */
	const char *name;

	/*
	 * Can this engine work here, on these devices (see FastedOptions)?
	 * FASTED_OK, FASTED_NO_DEVICE or FASTED_UNKNOWN_DEVICE; reason gets a text,
	 * as that of last_error, of at most size bytes when not.
	 */
	FastedStatus (*probe) (const char *devices, char *reason, size_t size);

	/*
	 * The devices to choose from (see FastedOptions) that are like the first of them,
	 * so that they cut a join into the same slices: their number, at most most.  NULL:
	 * this engine has no such devices.
	 */
	int			(*devices) (const char *devices, char (*names)[FASTED_DEVICE_NAME], int most);

	/*
	 * Describes the device with this ordinal, usable or not, in a text of at most size
	 * bytes: name, memory, compute capability.  Returns false if there is no such device.
	 * NULL: this engine has no devices.
	 */
	bool		(*describe) (int ordinal, char *text, size_t size);

	/* Sets *context even when it fails, unless memory ran out: close it. */
	FastedStatus (*open) (const FastedOptions *options, FastedContext **context);

	void		(*stats) (const FastedContext *context, FastedStats *stats);

	/* The last failure in this context, or of an open that gave none (NULL). */
	const char *(*last_error) (const FastedContext *context);

	/*
	 * Stops all work and frees everything, sets and joins too; NULL is allowed.
	 * Never fails.
	 */
	void		(*close) (FastedContext *context);

	/*
	 * Would sets of so many rows each be there together, were there no others?
	 * For up to three sets of one row always.
	 */
	bool		(*fits) (const FastedContext *context, const uint64_t *rows, int nsets);

	/* Sets *set to NULL when it fails. */
	FastedStatus (*set_open) (FastedContext *context, const FastedSetOptions *options,
							  FastedSet **set);

	/*
	 * Room for up to *capacity rows of fasted_row_floats floats each, tightly packed
	 * row after row.  FASTED_OK (capacity >= 1) or FASTED_FULL.  The room is
	 * the caller's until commit, which takes over its first nrows rows.
	 */
	FastedStatus (*stage) (FastedSet *set, float **rows, size_t *capacity);
	FastedStatus (*commit) (FastedSet *set, size_t nrows);

	/*
	 * An engine with devices: takes the first nrows rows of the room of another context's
	 * set, whose commit comes after this.  FASTED_OK, or FASTED_FULL with none.
	 */
	FastedStatus (*take_staged) (FastedSet *set, const FastedSet *from, size_t nrows);

	/*
	 * Memory from which rows will be put.  The pages may be locked: withdraw,
	 * which waits for what still reads them, comes before they go.  False: to
	 * stage rows is as good here.  Before seal only, one piece of memory at a
	 * time; withdraw may be called without lend too.
	 */
	bool		(*lend) (FastedSet *set, void *memory, size_t bytes);
	void		(*withdraw) (FastedSet *set);

	/*
	 * Takes the first *taken >= 1 of nrows >= 1 rows, tightly packed in lent
	 * memory; FASTED_OK, or FASTED_FULL with none.  They may still be read until
	 * settle: all of them, or else those that were put before its last call.
	 */
	FastedStatus (*put) (FastedSet *set, const float *rows, size_t nrows,
						 size_t *taken);
	FastedStatus (*settle) (FastedSet *set, bool all);

	/* Copies rows back, before seal: exactly what was committed. */
	FastedStatus (*read_back) (FastedSet *set, uint64_t first_row,
							   size_t nrows, float *rows);

	/* No further rows. */
	FastedStatus (*seal) (FastedSet *set);

	/* Empty and open again, for rows whose first one has this number. */
	FastedStatus (*set_reset) (FastedSet *set, uint64_t first_row);

	/* Of a set that no join uses; NULL is allowed.  Never fails. */
	void		(*set_close) (FastedSet *set);

	/*
	 * Begins to join two sealed sets, a == b: one with itself.  Sets *join to NULL
	 * when it fails.
	 */
	FastedStatus (*join_open) (FastedContext *context, const FastedProblem *problem,
							   FastedSet *a, FastedSet *b, FastedJoin **join);

	/*
	 * The next batch of pairs, after at most about timeout_ms milliseconds:
	 * FASTED_OK (npairs >= 1; with _PAIRS, _CONNECTIONS or _KEEPERS only), FASTED_AGAIN
	 * or FASTED_DONE.
	 */
	FastedStatus (*next) (FastedJoin *join, int timeout_ms, FastedBatch *batch);

	/*
	 * The caller turns to something else, for it does not know how long.  All
	 * work comes to rest within some 50 ms and goes on with the next call of next;
	 * nothing is lost.  Until then next may be called as if nothing had been.
	 */
	void		(*pause) (FastedJoin *join);

	/*
	 * After FASTED_DONE, with FASTED_OUTPUT_COUNTS or _CONNECTIONS: for rows first_row ...
	 * of set a (side 0) or b (side 1), by their places in it, the number of their pairs.
	 * Of a set with itself both rows of a pair have it, in side 0.
	 */
	FastedStatus (*counts) (FastedJoin *join, int side, uint64_t first_row,
							size_t nrows, uint32_t *counts);

	/*
	 * FASTED_OUTPUT_NEAREST.  NULL: this engine does not have it, and join_open answers
	 * FASTED_UNSUPPORTED.
	 *
	 * After FASTED_DONE, for rows first_row ... of set a, by their places in it: how many
	 * neighbours each has, and these, the nearest first.  Those of the first row begin
	 * at neighbors[0], of the next one at neighbors[k], and so on.  Of no rows: what comes
	 * before the first one is done.
	 */
	FastedStatus (*nearest) (FastedJoin *join, uint64_t first_row, size_t nrows,
							 uint32_t *lengths, FastedNeighbor *neighbors);

	/*
	 * An engine with devices: adds to these rows' lists what a join of another context has for
	 * the same rows; both are done, and from has been asked for neighbours, if of no rows.
	 * What both have counts once.  FASTED_OK, or FASTED_FULL with none: its lists are too long
	 * for that.  NULL: it has no such function.
	 */
	FastedStatus (*add_lists) (FastedJoin *join, const FastedJoin *from, uint64_t first_row,
							   size_t nrows);

	/* For fits: lists of k for so many rows take the memory of how many rows?  Or NULL. */
	uint64_t	(*list_rows) (const FastedContext *context, uint64_t rows, uint32_t k);

	/*
	 * Several devices in one context: over how many a set may be spread.  NULL: over one.
	 * Each has FASTED_SPREAD_PARTS parts of the set, of the same size, and room for one more.
	 */
	int			(*width) (const FastedContext *context);

	/* An engine with devices: rows of a sealed set of another context, which stays until settle. */
	FastedStatus (*copy_rows) (FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows);

	/* Stops all its work; NULL is allowed.  Never fails. */
	void		(*join_close) (FastedJoin *join);

	/* Whether it has FASTED_OUTPUT_CONNECTIONS; else join_open answers FASTED_UNSUPPORTED. */
	bool		connects;
	bool		keeps;			/* FASTED_OUTPUT_KEEPERS, likewise */
} FastedEngine;

/* Floats that a row takes the room of. */
static inline uint32_t
fasted_row_floats(const FastedOptions *options)
{
	return (options->element == FASTED_ELEMENT_DOUBLE ? 2 : 1) * options->dimensions;
}

static inline size_t
fasted_row_bytes(const FastedOptions *options)
{
	return fasted_row_floats(options) * sizeof(float);
}

/* Hashes orders of rows: see order_hash. */
#ifdef __CUDACC__
__host__ __device__
#endif
static inline uint64_t
fasted_mix_order(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/*
 * Adds what an engine did that works at the same time: work, memory and the threads' time are
 * summed up, other time is that of whichever took longest.
 */
static inline void
fasted_add_stats(FastedStats *sum, const FastedStats *one)
{
	sum->threads += one->threads;
	if (sum->panels < one->panels)
		sum->panels = one->panels;
	sum->units_total += one->units_total;
	sum->units_done += one->units_done;
	sum->candidates += one->candidates;
	sum->pairs += one->pairs;
	sum->sampled_candidates += one->sampled_candidates;
	sum->sampled_pairs += one->sampled_pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		sum->pruned_tiles[level] += one->pruned_tiles[level];
	sum->full_tiles += one->full_tiles;
	sum->redone_units += one->redone_units;
	sum->host_bytes += one->host_bytes;
	sum->device_bytes += one->device_bytes;
	sum->filter_seconds += one->filter_seconds;
	sum->refine_seconds += one->refine_seconds;
	if (sum->prepare_seconds < one->prepare_seconds)
		sum->prepare_seconds = one->prepare_seconds;
	if (sum->device_seconds < one->device_seconds)
		sum->device_seconds = one->device_seconds;
}

/*
 * Adds the counts of the rows of a side, all that there are, to totals.  Returns the status of
 * the engine's counts.
 */
static inline FastedStatus
fasted_add_counts(const FastedEngine *engine, FastedJoin *join, int side, uint64_t rows,
				  uint32_t *totals)
{
	uint32_t	some[4096];

	for (uint64_t first = 0; first < rows; first += 4096)
	{
		size_t		n = rows - first < 4096 ? (size_t) (rows - first) : 4096;
		FastedStatus status = engine->counts(join, side, first, n, some);

		if (status != FASTED_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			totals[first + i] += some[i];
	}
	return FASTED_OK;
}

/* Does a join like this one count each row's pairs? */
static inline bool
fasted_counts_rows(const FastedProblem *problem)
{
	return problem->output == FASTED_OUTPUT_COUNTS ||
		(problem->output == FASTED_OUTPUT_CONNECTIONS && problem->core_pairs > 0);
}

/* Does it hand out pairs? */
static inline bool
fasted_hands_out_pairs(const FastedProblem *problem)
{
	return problem->output == FASTED_OUTPUT_PAIRS || problem->output == FASTED_OUTPUT_CONNECTIONS ||
		problem->output == FASTED_OUTPUT_KEEPERS;
}

/*
 * Starts a thread as engines have them (thread.c): all signals are blocked in it, for a handler
 * of the host program must not run there.  Its stack is of that size, or larger where the system
 * wants it; 0: of the usual size.  Returns false if no thread can be had.
 */
extern bool fasted_start_thread(pthread_t *thread, size_t stack_bytes, void *(*work) (void *),
								void *argument);

/* The engine in the extension's own library. */
extern const FastedEngine *fasted_cpu_engine(void);

/* The engine of groups of base's devices (multi_gpu.c); in one process always of the same base. */
extern const FastedEngine *fasted_device_group(const FastedEngine *base);

/* What a library with a further engine exports, under this name. */
#define FASTED_ENGINE_ENTRY "fasted_engine"
typedef const FastedEngine *(*FastedEngineEntry) (void);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_ENGINE_H */
