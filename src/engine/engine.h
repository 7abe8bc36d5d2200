/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  The border between PostgreSQL and the distance engines.
 *
 * An engine finds every pair (a, b), a < b, of rows of one set whose
 * Euclidean distance is at most eps.  "Distance" is the canonical FP64 form of
 * exact_distance.h, so that every engine gives the same pairs and the same
 * bits, in an order of its own.
 *
 * This header is plain C: no PostgreSQL type and no CUDA type passes it.  An
 * engine never calls back, never throws, never calls exit, and blocks every
 * signal in the threads it starts.  Its caller polls.
 *
 * The life of a join:
 *
 *	  open
 *	  stage, commit, stage, commit, ...		rows go in, in order 0, 1, 2, ...
 *	  start									no more rows
 *	  next, next, ... until FASTED_DONE		pairs come out
 *	  pause									any time; work rests until the next call
 *	  close									any time; stops all work at once
 *
 * Instead of stage and commit, also in turn with them, rows may be put: they
 * are read from memory of the caller's that was lent before.  That ends the
 * room that stage gave.
 *
 * Rows that do not fit.  When stage (or put) answers FASTED_FULL, the engine
 * holds as many rows as its memory limit allows.  The caller then reads back what
 * it staged (read_back), stores all rows elsewhere, and calls start with the full
 * number of rows.  From then on next may answer FASTED_WANT_ROWS: the caller
 * stages and commits the named range of rows, from first_row on, and calls
 * next again.  The engine chooses the ranges ("panels"), so that only two of
 * them are in memory at a time.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_ENGINE_H
#define FASTED_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

/* Raised with every change of this header; a library that differs is refused. */
#define FASTED_ENGINE_ABI 5

/* Row numbers are 32 bits wide; a larger set is refused by the caller. */
#define FASTED_MAX_ROWS UINT32_C(0x7fffffff)

/* PostgreSQL's limit for vectors is lower; this one bounds the error terms. */
#define FASTED_MAX_DIMENSIONS UINT32_C(65536)

typedef enum FastedStatus
{
	FASTED_OK = 0,
	FASTED_DONE,				/* next: there is no further pair */
	FASTED_AGAIN,				/* next: nothing within the time limit */
	FASTED_WANT_ROWS,			/* next: stage the rows that the batch names */
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

/* What becomes of a pair that passed the recheck. */
typedef enum FastedOutput
{
	FASTED_OUTPUT_PAIRS = 0,	/* next hands it out */
	FASTED_OUTPUT_COUNT			/* it is counted: stats, after FASTED_DONE */
} FastedOutput;

/*
 * What to do.  Zero means "the engine's own choice" in every field but
 * dimensions and eps.
 */
typedef struct FastedProblem
{
	uint32_t	dimensions;		/* d, from 1 to FASTED_MAX_DIMENSIONS */
	double		eps;			/* >= 0, may be infinite, not NaN */

	uint64_t	memory_limit;	/* bytes of host memory for rows and tiles */
	uint64_t	device_memory_limit;	/* bytes of device memory */
	int			threads;		/* CPU threads at most */
	int			max_threads;	/* a limit for the engine's own choice, and for threads */

	/* The caller's guess at the number of rows; zero: it has none. */
	uint64_t	expected_rows;

	FastedOutput output;
	FastedFilter filter;
	bool		approximate;	/* no exact recheck: the paper's FP16-32 result */

	/* The GPUs to choose from, as device_list.h has it; NULL or empty: all. */
	const char *devices;

	/* For tests: a CPU kernel by name ("avx512vnni", "avx512", "avx2", "portable"). */
	const char *kernel;
} FastedProblem;

/* One pair of the result: row numbers a < b and their distance. */
typedef struct FastedPair
{
	uint32_t	a;
	uint32_t	b;
	double		dist;
} FastedPair;

/*
 * What next found.  pairs belongs to the engine and is valid until the next
 * call for the same join.  first_row and row_count are set with
 * FASTED_WANT_ROWS, pairs and npairs with FASTED_OK.
 */
typedef struct FastedBatch
{
	const FastedPair *pairs;
	size_t		npairs;
	uint64_t	first_row;
	uint64_t	row_count;
} FastedBatch;

/* Readable at any time between open and close. */
typedef struct FastedStats
{
	char		engine[32];		/* "cpu" or "cuda" */
	char		device[96];		/* name of the processor or the GPU */
	char		kernel[48];		/* instruction set or architecture */
	char		filter[16];		/* "fp32", "fp16", "fp64", "int8"; the last panel's */
	int			threads;		/* CPU threads at work, or zero */

	uint64_t	rows;
	uint32_t	dimensions;
	uint32_t	panels;			/* 1: everything was resident */
	uint64_t	units_total;	/* units of work, by the symmetric tiling */
	uint64_t	units_done;

	uint64_t	candidates;		/* pairs that passed the filter */
	uint64_t	pairs;			/* pairs that passed the recheck */

	/*
	 * Whether a sample of the rows decided on the filter, and what it found: on
	 * a GPU with the filter that was taken, on a CPU with INT8, in all panels.
	 */
	bool		filter_sampled;
	uint64_t	sampled_candidates;
	uint64_t	sampled_pairs;

	uint64_t	redone_units;	/* voided for want of buffer space, then redone */

	uint64_t	host_bytes;		/* peak of host memory */
	uint64_t	device_bytes;	/* peak of device memory */

	double		prepare_seconds;	/* centring, packing, norms */
	double		filter_seconds; /* the tile kernels; summed over threads */
	double		refine_seconds; /* the exact recheck; summed over threads */
	double		device_seconds; /* GPU: from the first kernel to the last */
} FastedStats;

typedef struct FastedJoin FastedJoin;

/*
 * An engine.  Functions that can fail return a status; after a failure only
 * last_error, stats, withdraw and close may be called.  A join is used by one
 * thread at a time.
 */
typedef struct FastedEngine
{
	uint32_t	abi;			/* FASTED_ENGINE_ABI */
	const char *name;

	/*
	 * Can this engine work here, on these devices (see FastedProblem)?
	 * FASTED_OK, FASTED_NO_DEVICE or FASTED_UNKNOWN_DEVICE; reason gets a text,
	 * as that of last_error, of at most size bytes when not.
	 */
	FastedStatus (*probe) (const char *devices, char *reason, size_t size);

	/* Sets *join even when it fails, unless memory ran out: close it. */
	FastedStatus (*open) (const FastedProblem *problem, FastedJoin **join);

	/*
	 * Room for up to *capacity rows of dimensions floats each, tightly packed
	 * row after row.  FASTED_OK (capacity >= 1) or FASTED_FULL.  The room is
	 * the caller's until commit, which takes over its first nrows rows.
	 */
	FastedStatus (*stage) (FastedJoin *join, float **rows, size_t *capacity);
	FastedStatus (*commit) (FastedJoin *join, size_t nrows);

	/*
	 * Memory from which rows will be put.  The pages may be locked: withdraw,
	 * which waits for what still reads them, comes before they go.  False: to
	 * stage rows is as good here.  Before start only, one piece of memory at a
	 * time; withdraw may be called without lend too.
	 */
	bool		(*lend) (FastedJoin *join, void *memory, size_t bytes);
	void		(*withdraw) (FastedJoin *join);

	/*
	 * Takes the first *taken >= 1 of nrows >= 1 rows, tightly packed in lent
	 * memory; FASTED_OK, or FASTED_FULL with none.  They may still be read until
	 * settle.
	 */
	FastedStatus (*put) (FastedJoin *join, const float *rows, size_t nrows,
						 size_t *taken);
	FastedStatus (*settle) (FastedJoin *join);

	/*
	 * Copies staged rows back, after FASTED_FULL and before start only.
	 * Exactly the floats that were committed.
	 */
	FastedStatus (*read_back) (FastedJoin *join, uint64_t first_row,
							   size_t nrows, float *rows);

	/* The input is complete.  More than were committed: see "panels" above. */
	FastedStatus (*start) (FastedJoin *join, uint64_t total_rows);

	/*
	 * The next batch of pairs, after at most about timeout_ms milliseconds:
	 * FASTED_OK (npairs >= 1; never with FASTED_OUTPUT_COUNT), FASTED_AGAIN,
	 * FASTED_WANT_ROWS or FASTED_DONE.
	 */
	FastedStatus (*next) (FastedJoin *join, int timeout_ms, FastedBatch *batch);

	/*
	 * The caller turns to something else, for it does not know how long.  All
	 * work comes to rest within some 50 ms and goes on with the next call of next;
	 * nothing is lost.  Until then next may be called as if nothing had been.
	 */
	void		(*pause) (FastedJoin *join);

	void		(*stats) (const FastedJoin *join, FastedStats *stats);

	/* The last failure of this join, or of an open that gave no join (NULL). */
	const char *(*last_error) (const FastedJoin *join);

	/* Stops all work, frees everything; NULL is allowed.  Never fails. */
	void		(*close) (FastedJoin *join);
} FastedEngine;

/* The engine in the extension's own library. */
extern const FastedEngine *fasted_cpu_engine(void);

/* What a library with a further engine exports, under this name. */
#define FASTED_ENGINE_ENTRY "fasted_engine"
typedef const FastedEngine *(*FastedEngineEntry) (void);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_ENGINE_H */
