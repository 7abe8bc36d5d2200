/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  Workers: the threads of a context, and their buffers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_WORKER_H
#define FASTED_CPU_WORKER_H

#include "../../engine/processors.h"
#include "join.h"

/* A candidate pair: offsets from the first row and the first column of the current strip. */
typedef struct Candidate
{
	uint16_t	row;
	uint16_t	col;
} Candidate;

#define CANDIDATE_LIST 1024

/* Largest number of rows and columns of a strip, padding included. */
#define STRIP_ROWS (FASTED_MAX_BLOCK + FASTED_MAX_TILE)
#define STRIP_COLS (SQUARE_BLOCKS * FASTED_MAX_BLOCK + FASTED_MAX_TILE)

/* Largest k for which initial radii are computed. */
#define RADII_MOST 1024

/*
 * Thresholds of the current strip at one stage, as FP32 or INT32 words: "own" ones test a pair for the
 * row's own list, "other" ones for the list of the other row.
 */
struct StageThresholds
{
	uint64_t	strip;			/* strip number for which a's thresholds were computed */
	uint64_t	columns;		/* version of the columns for which b's were computed */
	double		reach_a;		/* largest finite reach of a's rows that is allowed for */
	double		reach_b;		/* the same for b's rows */
	uint32_t	a_own[STRIP_ROWS];
	uint32_t	a_other[STRIP_ROWS];
	uint32_t	b_own[STRIP_COLS];
	uint32_t	b_other[STRIP_COLS];
};

/* State of a nearest-neighbor join: see near_thresholds.c. */
struct NearThresholds
{
	size_t		first_a;		/* first row of the strip */
	size_t		first_b;
	uint32_t	rows;			/* padding included */
	uint32_t	cols;
	uint64_t	strip;			/* strip number; zero: no strip yet */
	uint64_t	columns;		/* incremented when the columns change */
	StageThresholds stages[FULL_STAGE + 1];
	double		reach[STRIP_COLS];	/* buffer for sampled distances */
	float		column_terms[STRIP_COLS];	/* initial radii: see radii.c */
	uint32_t	flip_sums[STRIP_COLS];	/* what flipping the rows of a adds to the columns' sums */
	FastedNeighbor nearest[RADII_MOST]; /* heap of columns and their squared distances */
};

struct Worker
{
	FastedContext *context;
	FastedJoin *join;			/* the current join */
	pthread_t	thread;
	int			number;
	uint64_t	seen;			/* number of the last phase that it took part in */

	void	   *partial;		/* partial sums of a block pair, or NULL */
	size_t		bytes;			/* size of the allocation that begins with hits */
	uint8_t    *hits;			/* hit_stride bytes for each row of a block */
	/* false: the row has no hits; true: it may have */
	bool		has_hits[FASTED_MAX_BLOCK + FASTED_MAX_WIDTH];
	float	   *image;			/* INT8: buffer for two padded rows; or NULL */
	void	   *project_buffer;	/* pruning: buffer, see projection.c; or NULL */
	float	   *directions;		/* buffer for a sliver's filter rows; or NULL */
	NearThresholds near;
	Candidate	list[CANDIDATE_LIST];
	uint32_t	listed;

	PairBlock  *block;			/* the block being filled, or NULL */
	FastedStats work;			/* statistics not yet added to the context's */
	uint64_t	report_at;		/* when to add them to the context's; see fasted_now */
};

/* Returns the buffer for the filter row at a place of a sliver; NULL if none is needed. */
static inline float *
cpu_direction_buffer(const Worker *worker, size_t place)
{
	return worker->directions == NULL ? NULL
		: worker->directions + place * worker->context->options.dimensions;
}

/*
 * Adds a worker's statistics to the context's, and clears them.  `flush`: also passes the block being
 * filled to the caller's queue.
 */
extern void cpu_report(Worker *worker, bool flush);

/* Calls `work` for each distinct set that needs at least this preparation.  Workers share the sets. */
extern void cpu_do_sets(Worker *worker, Packing least, void (*work) (Worker *worker, int set));

/*
 * Calls `work` for all slivers of set a, then of set b.  Sets that need less preparation than
 * `least` are skipped.  Workers share the slivers.  Returns early if the join is being closed.
 */
extern void cpu_do_slivers(Worker *worker, const Packing packing[2], Packing least,
						   void (*work) (Worker *worker, int set, size_t sliver));

#endif							/* FASTED_CPU_WORKER_H */
