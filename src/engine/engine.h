/*-------------------------------------------------------------------------
 *
 * engine.h
 *	  The interface between PostgreSQL and the distance engines.
 *
 * An engine finds every pair of rows whose distance (exact_distance.h) is at most eps.  The rows of a
 * pair come from two sets, or from the same set (self-join).  All engines return the same pairs with
 * bit-identical distances; only the order of the pairs differs.
 *
 * This header is plain C.  An engine never calls back into the caller, never throws, never calls exit,
 * and blocks all signals in the threads it starts.  The caller polls for results.
 *
 *	  context	the CPU cores or the GPU that an engine uses, with a memory limit;
 *				all rows of a context have the same number of dimensions
 *	  set		rows in the memory of a context, and data that the filter derived from them,
 *				which later joins use again
 *	  join		a join of two sets, or of one set with itself; a context has at most one
 *
 * The functions of a set, and those of a join, are called in this order:
 *
 *	  set_open
 *	  stage, commit, stage, put, ...		adds rows 0, 1, 2, ...
 *	  seal									ends the input; no rows can be added
 *	  set_reset								empties the set but keeps its memory
 *	  set_close
 *
 *	  join_open
 *	  next, next, ... until FASTED_DONE		return pairs
 *	  pause									at any time; suspends work until the next call
 *	  join_close							at any time; stops all work immediately
 *
 * While a join is running, other sets may be opened, filled, sealed and closed.  If an engine has
 * devices, several threads may call it at the same time, each with a context of its own.
 * panel_join.h joins sets that do not fit into memory together.
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

/* Other versions of this interface are rejected at load. */
#define FASTED_ENGINE_ABI 22

/* Largest number of rows in a set.  The caller checks it. */
#define FASTED_MAX_ROWS UINT32_C(0x7fffffff)

/* The error bounds are valid up to here. */
#define FASTED_MAX_DIMENSIONS UINT32_C(65536)

/* Largest number of nearest neighbours per row (k). */
#define FASTED_MAX_NEIGHBORS (UINT32_C(1) << 27)

typedef enum FastedStatus
{
	FASTED_OK = 0,
	FASTED_DONE,				/* next: all pairs have been returned */
	FASTED_AGAIN,				/* next: no pairs within the time limit; call again */
	FASTED_WANT_ROWS,			/* panel_join_next only: stage the rows that the batch names */
	FASTED_FULL,				/* stage, put: the set has no memory for another row */

	/*
	 * All following values are failures, with a message (last_error): a complete sentence unless it is
	 * FASTED_INTERNAL.  A second line is a hint for the user.
	 */
	FASTED_OUT_OF_MEMORY,		/* host memory is exhausted */
	FASTED_OUT_OF_DEVICE_MEMORY,
	FASTED_NO_DEVICE,			/* no driver, no device, or an unsupported old device */
	FASTED_UNKNOWN_DEVICE,		/* the device list names a device that does not exist */
	FASTED_DEVICE_FAILED,		/* the device reported an error */
	FASTED_UNSUPPORTED,			/* the engine does not support an option */
	FASTED_INTERNAL				/* an invariant is violated: a bug */
} FastedStatus;

#define FASTED_FAILED(status) ((status) >= FASTED_OUT_OF_MEMORY)

/*
 * Number format in which the filter finds candidate pairs.  The CPU engine has INT8 and FP32, and uses
 * FP32 if another format is requested or INT8 is not available.
 */
typedef enum FastedFilter
{
	FASTED_FILTER_AUTO = 0,
	FASTED_FILTER_FP16,
	FASTED_FILTER_FP64,
	FASTED_FILTER_INT8
} FastedFilter;

/* The distance function; exact_distance.h defines it. */
typedef enum FastedMetric
{
	FASTED_METRIC_L2 = 0,
	FASTED_METRIC_COSINE,		/* rows that are zero or not finite are in no pair */
	FASTED_METRIC_INNER_PRODUCT,	/* the negative inner product; eps may be negative */
	FASTED_METRIC_HAMMING,		/* rows of bits only, as the next one */
	FASTED_METRIC_JACCARD
} FastedMetric;

/*
 * Element type of the rows.  All are passed through the same float pointers.  A double, or a word of 64
 * bits, occupies the space of two floats.  For the cosine metric, the caller has applied
 * fasted_scale_direction (exact_distance.h) to rows of doubles.  The bits of the last word of a row that
 * belong to no dimension are zero.  Which bit belongs to which dimension does not matter, but must be
 * the same in all rows.
 */
typedef enum FastedElement
{
	FASTED_ELEMENT_REAL = 0,
	FASTED_ELEMENT_DOUBLE,
	FASTED_ELEMENT_BIT			/* Hamming and Jaccard distance only */
} FastedElement;

/* The result of a join, which is made from the pairs that passed the exact recheck. */
typedef enum FastedOutput
{
	FASTED_OUTPUT_PAIRS = 0,	/* next returns all pairs */
	FASTED_OUTPUT_COUNT,		/* stats returns the number of pairs */
	FASTED_OUTPUT_COUNTS,		/* counts returns the number of pairs of each row */

	/*
	 * nearest returns, for each row of set a, its k nearest rows of set b within eps, or all of them if
	 * there are fewer, ordered by distance, then by rank.  In a self-join no row is its own neighbour.
	 */
	FASTED_OUTPUT_NEAREST,

	/*
	 * next returns enough pairs to determine connected components.  A core row has at least core_pairs
	 * pairs in this join.  A pair of two core rows may be omitted if other pairs of core rows connect
	 * them; which ones are omitted may vary.  counts returns the number of pairs of each row, unless
	 * all rows are core rows.
	 */
	FASTED_OUTPUT_CONNECTIONS,

	/*
	 * Self-joins only: next returns enough pairs to choose representatives, and to find the nearest
	 * representative of lower rank of every other row.  In the order of ranks, a row becomes a
	 * representative unless an earlier one is within eps.  A pair is omitted only if neither result
	 * depends on it, whichever other pairs are omitted.
	 */
	FASTED_OUTPUT_REPRESENTATIVES
} FastedOutput;

/* Size of a device name, including the final null; FastedOptions.devices accepts such names. */
#define FASTED_DEVICE_NAME 48

/*
 * Pruning: whether tiles (blocks of row pairs) are first tested in a reduced number of dimensions
 * (doc/internals/bound-pruning.md).  The CUDA engine does so only with FASTED_FILTER_AUTO, and then
 * filters in the reduced dimensions only.
 */
typedef enum FastedPrune
{
	FASTED_PRUNE_AUTO = 0,		/* if a sample of the rows shows that it is faster */
	FASTED_PRUNE_OFF,
	FASTED_PRUNE_FORCE			/* for tests: always, at all levels */
} FastedPrune;

/* Number of pruning levels; their reduced dimensions are 32, 64 and 128. */
#define FASTED_PRUNE_LEVELS 3

/* Resources and methods of a context.  Zero lets the engine choose, except for the dimensions. */
typedef struct FastedOptions
{
	uint32_t	dimensions;		/* of each row, from 1 to FASTED_MAX_DIMENSIONS */
	FastedMetric metric;
	FastedElement element;

	uint64_t	memory_limit;	/* bytes of host memory for rows and tiles */
	uint64_t	device_memory_limit;	/* bytes of device memory */
	int			threads;		/* maximum number of CPU threads; 0: the engine's choice */

	FastedFilter filter;
	FastedPrune prune;

	const char *devices;		/* usable GPUs (device_list.h); NULL or empty: all GPUs */
	int			idle_timeout;	/* ms from the end of the last context to the release of GPU memory; 0: never */
	const char *kernel;			/* for tests: name of a CPU kernel (src/cpu/kernels/kernel.c) */
} FastedOptions;

typedef struct FastedSetOptions
{
	uint64_t	first_row;		/* number of the set's first row in results */
	uint64_t	expected_rows;	/* estimated number of rows; zero if unknown */
	uint64_t	most_rows;		/* maximum number of rows; zero if only memory limits it */
	uint32_t	neighbors;		/* reserve memory for neighbour lists of this length per row */
} FastedSetOptions;

/*
 * A partition (in the sense of SQL's PARTITION BY): positions of the rows of set a and of set b that
 * are compared with each other.  In a self-join both ranges are the same.
 */
typedef struct FastedPartition
{
	uint32_t	first_a;
	uint32_t	rows_a;
	uint32_t	first_b;
	uint32_t	rows_b;
} FastedPartition;

/*
 * Restricts a join for nearest neighbours to rows of different components, and replaces the distance
 * of two rows by their mutual reachability distance: the maximum of the distance and of the two core
 * distances.  Boruvka's algorithm for minimum spanning trees asks for these neighbours.  Arrays are
 * indexed by position.
 */
typedef struct FastedComponents
{
	const uint32_t *component[2];	/* rows of equal component are in no pair */
	const double *core[2];		/* core distance of each row; infinite: the row is in no pair */
	const double *bound;		/* for each row of set a: the largest mutual reachability distance
								 * of a neighbour; may be infinite, not NaN */
} FastedComponents;

/*
 * Parameters of a join.  A join can be divided into any number of slices.  Each pair belongs to exactly
 * one slice, which depends only on the engine, the options and the rows.  The caller must keep all
 * arrays until the join is closed.
 */
typedef struct FastedProblem
{
	double		eps;			/* may be infinite, not NaN; >= 0 except for inner products */
	FastedOutput output;
	uint32_t	slice;			/* < slices */
	uint32_t	slices;			/* number of slices; 0 or 1: the whole join */
	uint32_t	more_slices;	/* number of slices to join after `slice`, in addition to it */

	/*
	 * All slices are joined by an identical kernel.  The CPU engine may then reorder rows, as GPUs do.
	 * Slices of different processes are parts of the same join only if their order_hash is equal, too.
	 */
	bool		identical_kernels;

	/*
	 * FASTED_OUTPUT_NEAREST: number of neighbours per row, from 1 to FASTED_MAX_NEIGHBORS.  The lists
	 * of a slice, which only engines with devices support, are the k nearest among its pairs.
	 */
	uint32_t	k;

	/*
	 * This join continues the previous one, which had the same kind of output and was completed.
	 * Nearest neighbours: set a keeps its lists, and set b has different rows or this is another slice.
	 * Counts and connections: this is another slice of the same sets; counts are accumulated, and rows
	 * remain connected.
	 */
	bool		continues;

	/*
	 * Compare only rows of the same partition; NULL: all rows.  Partitions are disjoint and in
	 * ascending order on both sides.  A row may belong to none, and a partition may have rows on one
	 * side only.
	 */
	const FastedPartition *partitions;
	uint32_t	npartitions;

	/* FASTED_OUTPUT_NEAREST of two sets, of one slice, or NULL; in a continued join the same for set a. */
	const FastedComponents *components;

	uint32_t	core_pairs;		/* FASTED_OUTPUT_CONNECTIONS; 0: all rows are core rows */

	/*
	 * The distinct ranks of the rows, by position.  FASTED_OUTPUT_REPRESENTATIVES; NULL: the positions.
	 * FASTED_OUTPUT_NEAREST: of the rows of set b, also distinct from those of an earlier set b whose
	 * join is continued; NULL: the rows' numbers in results.
	 */
	const uint32_t *ranks;
} FastedProblem;

/* One pair of the result: the numbers of its rows, a < b in a self-join, and their distance. */
typedef struct FastedPair
{
	uint32_t	a;
	uint32_t	b;
	double		dist;
} FastedPair;

/* A nearest neighbour. */
typedef struct FastedNeighbor
{
	uint32_t	row;			/* its rank, see FastedProblem.ranks */
	double		dist;			/* its distance */
} FastedNeighbor;

/* The result of next.  The pairs are valid until the next call for the join. */
typedef struct FastedBatch
{
	const FastedPair *pairs;
	size_t		npairs;

	/*
	 * panel_join_next only.  With FASTED_WANT_ROWS: the rows to stage, of side 0 (a) or 1 (b).  With
	 * FASTED_OK for FASTED_OUTPUT_NEAREST: the rows of side 0 whose neighbours are complete.
	 */
	int			side;
	uint64_t	first_row;
	uint64_t	row_count;
} FastedBatch;

/*
 * Statistics, summed over all joins of a context, which can be read at any time.  panel_join.c sets rows
 * and panels.
 */
typedef struct FastedStats
{
	char		engine[32];		/* "cpu" or "cuda" */
	char		device[512];	/* name of the CPU or of the GPUs */
	char		kernel[48];		/* instruction set or architecture */
	char		filter[16];		/* "fp32", "fp16", "fp64", "int8", "int16"; the last join's */
	int			threads;		/* number of CPU threads in use, or zero */
	uint64_t	rows;
	uint32_t	dimensions;
	uint32_t	panels;			/* number of outer panels; 1 if all rows were resident */
	uint64_t	units_total;	/* units of work */
	uint64_t	units_done;
	uint64_t	candidates;		/* pairs that passed the filter */
	uint64_t	pairs;			/* pairs that passed the recheck */

	/* Candidates and pairs in all samples: of the chosen filter (GPU), or of the INT8 filter (CPU). */
	bool		filter_sampled;	/* the filter was chosen by joining a sample of the rows */
	uint64_t	sampled_candidates;
	uint64_t	sampled_pairs;

	/* Pruning: number of tiles tested in 32, 64 and 128 dimensions, and then in all dimensions. */
	uint64_t	pruned_tiles[FASTED_PRUNE_LEVELS];
	uint64_t	full_tiles;
	uint64_t	redone_units;	/* discarded because a buffer was full, then repeated */
	uint64_t	host_bytes;		/* peak of host memory */
	uint64_t	device_bytes;	/* peak of device memory */
	double		prepare_seconds;	/* centring and encoding rows, computing norms */
	double		filter_seconds; /* the filter kernels; summed over threads */
	double		refine_seconds; /* the exact recheck; summed over threads */
	double		device_seconds; /* GPU: from the first kernel to the last */

	/* What the last join's filter compared.  GPU: dimensions; 0: all.  CPU: bits of folded rows, or 0. */
	uint32_t	filter_dimensions;

	/*
	 * Hashes of the orders into which rows were sorted, on which slices depend; zero: the original
	 * order.  order_hash covers all joins.  join_order covers the last join and is set by GPUs only.
	 */
	uint64_t	order_hash;
	uint64_t	join_order;
} FastedStats;

typedef struct FastedContext FastedContext;
typedef struct FastedSet FastedSet;
typedef struct FastedJoin FastedJoin;

/*
 * An engine.  Functions that can fail return a status.  After a failure, only last_error, stats,
 * unregister_memory and the close functions may be called for the context, its sets and its join.  Only
 * one thread at a time may use a context.
 */
typedef struct FastedEngine
{
	uint32_t	abi;			/* FASTED_ENGINE_ABI */
	const char *name;

	/*
	 * Checks whether the engine can run on this host with these devices, a list as in FastedOptions.
	 * Returns FASTED_OK, or else FASTED_NO_DEVICE or FASTED_UNKNOWN_DEVICE, with a message in `reason`.
	 */
	FastedStatus (*probe) (const char *devices, char *reason, size_t size);

	/*
	 * Writes the names of those listed devices that are of the same kind as the first one, and so
	 * divide a join into the same slices.  Returns their number, at most `most`.  NULL if the engine
	 * has no devices; so are describe and warm.
	 */
	int			(*devices) (const char *devices, char (*names)[FASTED_DEVICE_NAME], int most);

	/*
	 * Describes the device with this ordinal, usable or not: name, memory and compute capability.
	 * Returns false if there is no such device.
	 */
	bool		(*describe) (int ordinal, char *text, size_t size);

	/*
	 * Starts to initialize the device that open would choose, in a thread.  Returns true once open
	 * need not wait for it, even if the initialization failed.
	 */
	bool		(*warm) (const FastedOptions *options);

	/*
	 * Opens a context.  Sets *context even if it fails, unless host memory is exhausted; the caller
	 * must close the context in both cases.
	 */
	FastedStatus (*open) (const FastedOptions *options, FastedContext **context);

	void		(*stats) (const FastedContext *context, FastedStats *stats);

	/* Returns the message of the last failure; NULL: of an open that returned no context. */
	const char *(*last_error) (const FastedContext *context);

	/* Stops all work and frees the context with its sets and its join.  NULL is allowed. */
	void		(*close) (FastedContext *context);

	/* Ends the thread that warm or close has started.  Must be called before the process exits. */
	void		(*stop) (void);

	/*
	 * Returns whether nsets sets of these numbers of rows would fit into memory together if the context
	 * had no other sets.  Up to three sets of one row always fit.
	 */
	bool		(*fits) (const FastedContext *context, const uint64_t *rows, int nsets);

	/* Opens an empty set.  Sets *set to NULL if it fails. */
	FastedStatus (*set_open) (FastedContext *context, const FastedSetOptions *options,
							  FastedSet **set);

	/*
	 * stage returns a staging buffer for up to *capacity >= 1 rows of fasted_row_floats floats each, or
	 * FASTED_FULL.  The caller may write to it until the next call of put or of commit, which adds the
	 * first nrows rows to the set.
	 */
	FastedStatus (*stage) (FastedSet *set, float **rows, size_t *capacity);
	FastedStatus (*commit) (FastedSet *set, size_t nrows);

	/*
	 * register_memory registers memory from which put will read rows; its pages may be page-locked.
	 * Returns false if that would not be faster than staging.  It must be called before seal, for one
	 * memory range at a time.
	 *
	 * unregister_memory waits until the engine has read all rows, and unregisters the memory, if any.
	 * It must be called before the memory is freed.
	 */
	bool		(*register_memory) (FastedSet *set, void *memory, size_t bytes);
	void		(*unregister_memory) (FastedSet *set);

	/*
	 * put adds rows that are stored contiguously in registered memory.  Of nrows >= 1 rows it adds the
	 * first *taken >= 1, or none and returns FASTED_FULL.  The engine may read them after put has
	 * returned.  wait_read waits until it has read all rows; or, unless `all` is true, those that were
	 * put before the previous wait_read.
	 */
	FastedStatus (*put) (FastedSet *set, const float *rows, size_t nrows,
						 size_t *taken);
	FastedStatus (*wait_read) (FastedSet *set, bool all);

	/* Copies rows of an unsealed set to `rows`, bit for bit as they were added. */
	FastedStatus (*read_back) (FastedSet *set, uint64_t first_row,
							   size_t nrows, float *rows);

	/* Declares that no more rows will be added. */
	FastedStatus (*seal) (FastedSet *set);

	/*
	 * Engines with devices: adds all rows of a sealed set of another context to an empty set, and
	 * seals it.  Returns FASTED_OK, or FASTED_FULL without adding any row.  The caller must not reset or
	 * close `from` before it has called unregister_memory for `set`, which ends the copy.
	 */
	FastedStatus (*copy_set) (FastedSet *set, const FastedSet *from);

	/* Empties the set so that rows can be added again, the first one with number first_row. */
	FastedStatus (*set_reset) (FastedSet *set, uint64_t first_row);

	/* Frees a set that no open join uses; NULL is allowed. */
	void		(*set_close) (FastedSet *set);

	/*
	 * Starts to join two sealed sets, or a set with itself if a == b.  Sets *join to NULL if it fails.
	 * FASTED_UNSUPPORTED: nearest or select_rows is NULL, or the last two fields are false, and the
	 * problem needs them.
	 */
	FastedStatus (*join_open) (FastedContext *context, const FastedProblem *problem,
							   FastedSet *a, FastedSet *b, FastedJoin **join);

	/*
	 * Waits for the next batch of pairs, for at most about timeout_ms milliseconds.  Returns FASTED_OK
	 * with npairs >= 1 if the output has pairs, FASTED_AGAIN if the time is over, or FASTED_DONE.
	 */
	FastedStatus (*next) (FastedJoin *join, int timeout_ms, FastedBatch *batch);

	/*
	 * Suspends the join, for a caller that does not know when it will call next again.  All work stops
	 * within about 50 ms.  The next call of next resumes it.
	 */
	void		(*pause) (FastedJoin *join);

	/*
	 * After FASTED_DONE: returns the number of pairs of each of nrows rows of set a (side 0) or b (side
	 * 1), from position first_row on.  In a self-join, a pair counts for both of its rows, and side must
	 * be 0.
	 */
	FastedStatus (*counts) (FastedJoin *join, int side, uint64_t first_row,
							size_t nrows, uint32_t *counts);

	/*
	 * After FASTED_DONE: returns the neighbour lists of nrows rows of set a, from position first_row on:
	 * the length of each list, and its neighbours in ascending order.  The list of the i-th of these
	 * rows begins at neighbors[i * k].  If nrows is zero, it only sorts the lists for later calls.
	 */
	FastedStatus (*nearest) (FastedJoin *join, uint64_t first_row, size_t nrows,
							 uint32_t *lengths, FastedNeighbor *neighbors);

	/*
	 * Engines with devices: merges the neighbour lists that `from`, a join in another context, has for
	 * the same rows into the lists of `join`.  A neighbour in both lists remains once.  Both joins must
	 * be done, and nearest must have been called for `from`.  k is at most most_merged.
	 */
	FastedStatus (*merge_lists) (FastedJoin *join, const FastedJoin *from, uint64_t first_row,
								 size_t nrows);
	uint32_t	most_merged;

	/*
	 * Returns the number of rows that need as much memory as neighbour lists of length k for `rows`
	 * rows, as an input of fits.  NULL if nearest is NULL.
	 */
	uint64_t	(*rows_for_lists) (const FastedContext *context, uint64_t rows, uint32_t k);

	/*
	 * Adds the rows of a sealed set of the same context that have these positions, which are ascending,
	 * to an unsealed set.  Returns FASTED_OK, or FASTED_FULL without adding any row.  NULL if the engine
	 * does not support FastedProblem.components.
	 */
	FastedStatus (*select_rows) (FastedSet *set, const FastedSet *from, const uint32_t *positions,
								 size_t nrows);

	/* Stops all work of the join and frees it; NULL is allowed. */
	void		(*join_close) (FastedJoin *join);

	/* Support for FASTED_OUTPUT_CONNECTIONS and _REPRESENTATIVES. */
	bool		connects;
	bool		chooses_representatives;
} FastedEngine;

/* Returns the number of 64-bit words of a row of bits. */
static inline uint32_t
fasted_bit_words(uint32_t dimensions)
{
	return (dimensions + 63) / 64;
}

/* Return the size of a row. */
static inline uint32_t
fasted_element_floats(FastedElement element, uint32_t dimensions)
{
	return element == FASTED_ELEMENT_BIT ? 2 * fasted_bit_words(dimensions)
		: element == FASTED_ELEMENT_DOUBLE ? 2 * dimensions : dimensions;
}

static inline uint32_t
fasted_row_floats(const FastedOptions *options)
{
	return fasted_element_floats(options->element, options->dimensions);
}

static inline size_t
fasted_row_bytes(const FastedOptions *options)
{
	return fasted_row_floats(options) * sizeof(float);
}

/* Adds a value to a hash of row orders (FastedStats.order_hash). */
#ifdef __CUDACC__
__host__ __device__
#endif
static inline uint64_t
fasted_hash_order(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Adds the statistics of an engine that runs in parallel.  Elapsed times: takes the maximum. */
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

/* Adds the results of the engine's counts function to totals[].  Returns its status. */
static inline FastedStatus
fasted_add_counts(const FastedEngine *engine, FastedJoin *join, int side, uint64_t first_row,
				  uint64_t rows, uint32_t *totals)
{
	uint32_t	some[4096];

	for (uint64_t done = 0; done < rows; done += 4096)
	{
		size_t		n = rows - done < 4096 ? (size_t) (rows - done) : 4096;
		FastedStatus status = engine->counts(join, side, first_row + done, n, some);

		if (status != FASTED_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			totals[done + i] += some[i];
	}
	return FASTED_OK;
}

/* Returns whether a join with these parameters counts the pairs of each row. */
static inline bool
fasted_counts_rows(const FastedProblem *problem)
{
	return problem->output == FASTED_OUTPUT_COUNTS ||
		(problem->output == FASTED_OUTPUT_CONNECTIONS && problem->core_pairs > 0);
}

/* Returns whether a join with these parameters returns pairs from next. */
static inline bool
fasted_returns_pairs(const FastedProblem *problem)
{
	return problem->output == FASTED_OUTPUT_PAIRS || problem->output == FASTED_OUTPUT_CONNECTIONS ||
		problem->output == FASTED_OUTPUT_REPRESENTATIVES;
}

/*
 * Starts a thread in which all signals are blocked, because signal handlers of the host program must not
 * run in it.  The stack has stack_bytes bytes or more; 0: the default.  Returns false if it cannot.
 */
extern bool fasted_start_thread(pthread_t *thread, size_t stack_bytes, void *(*work) (void *),
								void *argument);

/* Returns the time of the monotonic clock in timeout_ms milliseconds; a negative number counts as 0. */
extern struct timespec fasted_deadline(int timeout_ms);

/* Returns the CPU engine, which is part of the extension's library. */
extern const FastedEngine *fasted_cpu_engine(void);

/*
 * Returns an engine that uses several devices of the engine `base` together.  All calls in a process
 * must pass the same base.
 */
extern const FastedEngine *fasted_multi_gpu_engine(const FastedEngine *base);

/* Name and type of the function that a library with another engine exports. */
#define FASTED_ENGINE_ENTRY "fasted_engine"
typedef const FastedEngine *(*FastedEngineEntry) (void);

#ifdef __cplusplus
}
#endif

#endif							/* FASTED_ENGINE_H */
