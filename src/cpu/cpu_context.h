/*-------------------------------------------------------------------------
 *
 * cpu_context.h
 *	  What all joins of the CPU engine share: a plan of memory, threads, a pool.
 *
 *	  cpu_context.c	contexts of the engine's interface
 *	  cpu_set.c		sets: rows in
 *	  cpu_join.c	joins: pairs out
 *	  cpu_plan.c	what there is memory for, and how a join is cut into work
 *	  processors.c	how many threads there should be
 *	  cpu_workers.c	threads and the phases of a join
 *	  cpu_direction.c	rows as the filter sees them
 *	  cpu_form.c	forms: centre and scale
 *	  cpu_pack.c	packed rows and thresholds, in FP32
 *	  cpu_int8.c	the same in INT8
 *	  cpu_choice.c	which form and which filter
 *	  cpu_unit.c	units of work: the filter
 *	  cpu_radii.c	nearest rows: first radii
 *	  cpu_nearest.c	thresholds by the rows' radii
 *	  cpu_fine.c	candidates compared once more, in INT16
 *	  cpu_refine.c	the recheck
 *	  neighbor_lists.c	the nearest rows of each row
 *	  cpu_prune.h	pruning
 *
 * The caller's thread alone takes and returns memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_CONTEXT_H
#define FASTED_CPU_CONTEXT_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu_set.h"
#include "pair_pool.h"

/*
 * Rows looked at to find the centre and the scale: one in CENTRE_SHARE, but so many at
 * least, and at most.  A centre as good as that of many rows does not pay for few.
 */
#define CENTRE_ROWS_LEAST 12
#define CENTRE_ROWS 64
#define CENTRE_SHARE 16

/* Blocks along the side of a group at most: see host_device.h. */
#define GROUP_BLOCKS 8

/* A pair of rows of the strip at work: distances from its first ones. */
typedef struct Candidate
{
	uint16_t	row;
	uint16_t	col;
} Candidate;

#define CANDIDATE_LIST 1024

/* A worker's sums of a block pair, where slices are many, or for nearest rows. */
#define CPU_PARTIAL_BYTES (FASTED_MAX_BLOCK * FASTED_MAX_BLOCK * sizeof(float))

/* Rows that a strip has on a side at most, and padding. */
#define STRIP_ROWS (FASTED_MAX_BLOCK + FASTED_MAX_TILE)
#define STRIP_COLS (GROUP_BLOCKS * FASTED_MAX_BLOCK + FASTED_MAX_TILE)

/* Neighbours for which first radii are found. */
#define RADII_MOST 1024

/* A column that may be near a row: cpu_radii.c. */
typedef struct NearColumn
{
	float		square;			/* of the distance, the row's norm aside */
	uint32_t	col;
} NearColumn;

/*
 * Thresholds of the strip at work, in words of the filter: for the row's own list, and
 * for those of rows of the other side.
 */
typedef struct StageThresholds
{
	uint64_t	strip;			/* for which those of a were made */
	uint64_t	columns;		/* and those of b */
	double		reach_a;		/* for which largest finite reach of a's rows they are */
	double		reach_b;		/* the same of b's rows */
	uint32_t	a_own[STRIP_ROWS];
	uint32_t	a_other[STRIP_ROWS];
	uint32_t	b_own[STRIP_COLS];
	uint32_t	b_other[STRIP_COLS];
} StageThresholds;

/* The last stage is that of all dimensions, after pruning's. */
#define FULL_STAGE FASTED_PRUNE_LEVELS

/* Where neighbours are found: cpu_nearest.c. */
typedef struct NearThresholds
{
	size_t		first_a;		/* the strip */
	size_t		first_b;
	uint32_t	rows;			/* with padding */
	uint32_t	cols;
	uint64_t	strip;			/* its number; zero: none yet */
	uint64_t	columns;		/* raised with each change of columns */
	StageThresholds stages[FULL_STAGE + 1];
	double		reach[STRIP_COLS];
	float		norms[STRIP_COLS];	/* cpu_radii.c: of columns, and what products have more */
	uint32_t	more[STRIP_COLS];
	NearColumn	nearest[RADII_MOST];	/* a heap */
} NearThresholds;

typedef struct Worker
{
	FastedContext *context;
	FastedJoin *join;			/* the one at work */
	pthread_t	thread;
	int			number;
	uint64_t	seen;			/* the phase that it did last */

	void	   *partial;		/* unfinished sums of a block pair */
	uint8_t    *hits;			/* hit_stride bytes for each row of a block */
	bool		has_hits[FASTED_MAX_BLOCK + FASTED_MAX_WIDTH];	/* of a row; may be true for none */
	double	   *wide;			/* one row in FP64 */
	float	   *image;			/* INT8: room for two rows, padded; or NULL */
	void	   *project_room;	/* pruning: cpu_project.c; or NULL */
	float	   *directions;		/* room for a sliver's rows as the filter sees them; or NULL */
	float		sample[CENTRE_ROWS];	/* values of one coordinate */
	NearThresholds near;
	Candidate	list[CANDIDATE_LIST];
	uint32_t	listed;

	PairBlock  *block;			/* being filled, or NULL */
	uint64_t	candidates;		/* of the strip at work */
	uint64_t	counted;		/* pairs of it, where they are not handed out */
	uint64_t	tiles[FASTED_PRUNE_LEVELS]; /* tested at each level */
	uint64_t	full_tiles;		/* and then at all dimensions */
} Worker;

struct FastedContext
{
	FastedOptions options;
	const CpuKernel *kernel;
	char		device[96];		/* the processor's name */
	char		error[256];
	FastedSet  *sets;
	FastedJoin *join;			/* NULL: none is open */

	/* Plan: cpu_plan.c. */
	MemoryCount memory;
	uint32_t	slice;			/* words of a slice, in FP32 */
	bool		may_use_int8;
	bool		may_use_fine;	/* fine rows */
	int			thread_limit;
	size_t		block_pairs;
	uint64_t	row_limit;		/* rows of all sets */
	uint64_t	row_bytes;		/* that each takes, lists aside */
	size_t		chunk_bytes;
	uint32_t	sample_rows;	/* of a set, at most, to try a form with */
	PackedRows	samples[2];
	bool		may_prune;
	const CpuKernel *product_kernel;	/* pruning: for products in FP32; or NULL */
	size_t		fit_bytes;
	void	   *fit_room;		/* to find a projection; NULL: none was looked for */

	/* Threads.  The lock guards all of this and the pool. */
	Worker	   *workers;		/* thread_limit of them, once there are any */
	int			nthreads;		/* of them started */
	bool		quit;
	pthread_mutex_t lock;
	pthread_cond_t work_cond;	/* a phase begins */
	pthread_cond_t free_cond;	/* a block was drained */
	pthread_cond_t out_cond;	/* a block is filled, or work has ended */
	pthread_cond_t rest_cond;	/* the caller is back */
	int			resting;		/* workers that wait for it */
	uint64_t	phase_number;
	int			engaged;		/* workers of the join, the first ones */
	int			at_work;		/* of them, have not finished the phase */
	PairPool	pool;
	PairBlock  *handed_out;		/* the caller's until its next call */

	/* Read and written without the lock. */
	atomic_bool stop;
	_Atomic uint64_t rest_at;	/* from then on workers rest; see cpu_now */
	_Atomic uint64_t next_claim;	/* of the phase */

	/* Of all joins, for stats. */
	atomic_bool int8;			/* of the last one */
	atomic_bool filter_sampled;
	_Atomic uint64_t sampled_candidates;
	_Atomic uint64_t sampled_pairs;
	_Atomic uint64_t candidates;
	_Atomic uint64_t pairs;
	_Atomic uint64_t units_done;
	_Atomic uint64_t tiles[FASTED_PRUNE_LEVELS];
	_Atomic uint64_t full_tiles;
	_Atomic uint64_t filter_ns;
	_Atomic uint64_t refine_ns;
	_Atomic uint64_t prepare_ns;
	uint64_t	units_total;
	uint64_t	joins;			/* so far */
	_Atomic uint64_t order_hash;
};

extern FastedStatus cpu_fail(FastedContext *context, FastedStatus status,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));

/* cpu_plan.c */
extern void cpu_plan_memory(FastedContext *context);
extern bool cpu_fits(const FastedContext *context, const uint64_t *rows, int nsets);
extern uint64_t cpu_list_rows(const FastedContext *context, uint64_t rows, uint32_t k);
extern uint64_t cpu_rows_with_lists(const FastedContext *context, uint64_t rows, uint32_t k);
extern uint32_t cpu_slice_length(const CpuKernel *kernel, uint32_t words, uint32_t step);
extern size_t cpu_packed_row_bytes(const FastedContext *context);
extern size_t cpu_threshold_row_bytes(const FastedContext *context);
extern size_t cpu_pool_blocks(int threads);

/* cpu_prune.c, cpu_project.c, cpu_fit.c */
extern bool cpu_may_prune(const FastedContext *context);
extern bool cpu_prune_suits(const FastedContext *context, uint64_t limit);
extern size_t cpu_project_room_bytes(const FastedContext *context);
extern size_t cpu_projection_bytes(const FastedContext *context);
extern size_t cpu_fit_bytes(const FastedContext *context);

/* cpu_product.c */
extern const CpuKernel *cpu_product_kernel(const CpuKernel *kernel);

/* cpu_workers.c */
extern FastedStatus cpu_reserve_workers(FastedContext *context, int nworkers);
extern bool cpu_reserve_sums(FastedContext *context);
extern void cpu_end_workers(FastedContext *context);
extern uint64_t cpu_now(void);
extern void cpu_rest_after(FastedContext *context, uint64_t ms);
extern void cpu_rest(FastedContext *context);

/* Dimensions of rows in INT8. */
static inline uint32_t
cpu_padded(const FastedContext *context)
{
	return (context->options.dimensions + 31) / 32 * 32;
}

/* Words of so many dimensions in integers, packed. */
static inline uint32_t
cpu_int8_words(const CpuKernel *kernel, uint32_t dimensions)
{
	const Int8Kernel *int8 = kernel->int8;
	uint32_t	words = (dimensions + 31) / 32 * 32 * int8->bytes / 4;

	return (words + int8->word_step - 1) / int8->word_step * int8->word_step;
}

/* Bytes of a packed row of so many dimensions in integers, as row and as column of a tile. */
static inline size_t
cpu_int8_row_bytes(const CpuKernel *kernel, uint32_t dimensions)
{
	return (int8_sides_alike(kernel->int8) ? 1 : 2)
		* cpu_int8_words(kernel, dimensions) * sizeof(uint32_t);
}

/* Bytes of a fine row; and of what belongs to it beside it. */
static inline size_t
cpu_fine_row_bytes(const FastedContext *context)
{
	return context->may_use_fine ? cpu_padded(context) * sizeof(int16_t) : 0;
}

static inline size_t
cpu_fine_side_bytes(const FastedContext *context)
{
	return context->may_use_fine ? sizeof(double) + sizeof(RowTerms) : 0;
}

/* Bytes of a worker's image: two rows, padded, or two of a level. */
static inline size_t
cpu_image_bytes(const FastedContext *context)
{
	uint32_t	padded = cpu_padded(context);

	return 2 * (padded < 128 ? 128 : padded) * sizeof(float);
}

static inline bool
cpu_is_cosine(const FastedContext *context)
{
	return context->options.metric == FASTED_METRIC_COSINE;
}

static inline bool
cpu_has_doubles(const FastedContext *context)
{
	return context->options.element == FASTED_ELEMENT_DOUBLE;
}

/* Does the filter see other rows than those that came? */
static inline bool
cpu_changes_rows(const FastedContext *context)
{
	return cpu_is_cosine(context) || cpu_has_doubles(context);
}

/* Bytes of a worker's directions: a sliver of rows. */
static inline size_t
cpu_direction_bytes(const FastedContext *context)
{
	return (size_t) context->kernel->width * context->options.dimensions * sizeof(float);
}

/* The room of one row of them; NULL where the distance needs none. */
static inline float *
cpu_direction_room(const Worker *worker, size_t place)
{
	return worker->directions == NULL ? NULL
		: worker->directions + place * worker->context->options.dimensions;
}

/* So many rows, and padding to whole tiles. */
static inline size_t
cpu_whole_tiles(const FastedContext *context, size_t rows)
{
	size_t		step = context->kernel->tile_cols;

	return (rows + step - 1) / step * step;
}

static inline bool
cpu_stopping(const FastedContext *context)
{
	return atomic_load_explicit(&context->stop, memory_order_relaxed);
}

/*
 * Between pieces of work of some milliseconds at most; now is cpu_now.  Waits
 * where the caller has not asked for pairs for a while.
 */
static inline void
cpu_rest_if_alone(FastedContext *context, uint64_t now)
{
	if (now >= atomic_load_explicit(&context->rest_at, memory_order_relaxed))
		cpu_rest(context);
}

static inline uint64_t
cpu_claim(FastedContext *context)
{
	return atomic_fetch_add_explicit(&context->next_claim, 1,
									 memory_order_relaxed);
}

#endif							/* FASTED_CPU_CONTEXT_H */
