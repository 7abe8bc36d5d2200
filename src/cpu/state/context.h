/*-------------------------------------------------------------------------
 *
 * context.h
 *	  Contexts of the CPU engine: options, memory plan and threads; errors and pauses.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CONTEXT_H
#define FASTED_CPU_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "../../engine/metric_rules.h"
#include "../store/pair_pool.h"
#include "set.h"

typedef struct Worker Worker;

/* How the memory of a context is divided; computed when it is opened: see memory_plan.c. */
typedef struct MemoryPlan
{
	uint32_t	longest_segment;	/* limit of the words per segment of a packed row */
	uint32_t	segment;		/* words per segment, for FP32 rows */
	bool		may_use_int16;	/* INT16 rows may be used */
	bool		may_prune;
	int			thread_limit;
	size_t		block_pairs;	/* pairs per block of the pool */
	uint64_t	row_limit;		/* limit for the rows of all sets together */
	uint64_t	row_bytes;		/* memory per row, neighbor lists excluded */
	size_t		chunk_bytes;	/* size of a chunk of input rows */
	uint32_t	sample_rows;	/* rows sampled per set to test an encoding */
	size_t		fit_bytes;		/* size of the buffer of fit.c */
} MemoryPlan;

/*
 * The threads of a context, from the first join that needs them on.  The lock guards these fields, the
 * last three excepted, the pool, and the statistics.
 */
typedef struct Threads
{
	Worker	   *workers;		/* array of thread_limit workers; NULL until needed */
	int			nthreads;		/* number of threads started */
	bool		quit;
	pthread_mutex_t lock;
	pthread_cond_t work_cond;	/* signalled when a phase begins */
	pthread_cond_t free_cond;	/* signalled when a block becomes free */
	pthread_cond_t out_cond;	/* signalled when a block is filled or work ends */
	pthread_cond_t rest_cond;	/* signalled when the caller is back */
	int			resting;		/* number of paused workers */
	uint64_t	phase_number;
	int			engaged;		/* number of workers that take part in the join */
	int			at_work;		/* number of these that have not finished the phase */

	/* Read and written without the lock. */
	atomic_bool stop;			/* the join is being closed */
	_Atomic uint64_t rest_at;	/* workers pause from this time on; see fasted_now */
	_Atomic uint64_t next_item; /* next work item of the phase */
} Threads;

struct FastedContext
{
	FastedOptions options;
	const MetricRules *metric;
	const CpuFilter *filter;	/* of FP32, or of bits */
	const CpuFilter *integer_filter;	/* may be used instead of FP32; or NULL */
	bool		doubles;		/* input rows are in FP64 */
	RowFunction dot;			/* x.y of two input rows */
	RowFunction distance;		/* canonical distance, or the value from which it is computed */
	uint32_t	length;			/* dimensions of a row; of rows of bits, 64-bit words */
	uint32_t	padded;			/* dimensions of integer rows, padded to 32 */
	const CpuKernel *kernel;
	const CpuKernel *product_kernel;	/* pruning: kernel for FP32 products; or NULL */
	char		error[256];
	FastedSet  *sets;
	FastedJoin *join;			/* NULL: no join is open */

	MemoryCount memory;
	MemoryPlan	plan;
	PackedRows	samples[2];		/* sampled rows, with which an encoding is tested */
	void	   *fit_buffer;		/* buffer of fit.c; NULL: not yet allocated */

	Threads		threads;
	PairPool	pool;			/* guarded by the lock */
	PairBlock  *caller_block;	/* block that the caller reads until its next call */

	FastedStats stats;			/* statistics of all joins; guarded by the lock */
	uint64_t	joins;			/* number of joins so far */
};

/* Returns the filter for level rows. */
static inline const CpuFilter *
cpu_level_filter(const FastedContext *context)
{
	return context->integer_filter != NULL ? context->integer_filter : context->filter;
}

/* Returns the number of words of the longest packed row. */
static inline uint32_t
cpu_filter_words(const FastedContext *context)
{
	return context->metric->of_bits ? 2 * context->length : context->options.dimensions;
}

/* Returns the number of rows, padded to whole tiles. */
static inline size_t
cpu_whole_tiles(const FastedContext *context, size_t rows)
{
	size_t		step = context->kernel->tile_cols;

	return (rows + step - 1) / step * step;
}

/* Returns the value, limited to least ... most. */
static inline uint32_t
cpu_clamp(uint64_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : (uint32_t) value;
}

/* Returns true if the join is being closed, so that workers must stop. */
static inline bool
cpu_stopping(const FastedContext *context)
{
	return atomic_load_explicit(&context->threads.stop, memory_order_relaxed);
}

/* Returns the number of a work item of the phase that no worker has begun.  It may not exist. */
static inline uint64_t
cpu_next_item(FastedContext *context)
{
	return atomic_fetch_add_explicit(&context->threads.next_item, 1,
									 memory_order_relaxed);
}

/* Stores the message of a failure in the context.  Returns the status. */
extern FastedStatus cpu_fail(FastedContext *context, FastedStatus status,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));

/*
 * Makes workers pause after `ms` milliseconds, unless this is called again; resumes those that
 * are paused.  The caller holds the lock.
 */
extern void cpu_rest_after(FastedContext *context, uint64_t ms);

/*
 * Pauses if the caller has not called next for some time, until it calls next or closes the join.
 * Workers call this at least every few milliseconds.  Returns false if the worker must stop.
 */
extern bool cpu_may_continue(FastedContext *context);

#endif							/* FASTED_CPU_CONTEXT_H */
