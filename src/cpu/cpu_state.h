/*-------------------------------------------------------------------------
 *
 * cpu_state.h
 *	  Data structures of the CPU engine: contexts, sets, joins and workers.
 *
 * The table lists the engine's modules.  Each module calls only modules below it.  A header
 * declares the functions of the source files named beside it, and of no others.
 *
 *	  cpu_engine.c                      engine interface: contexts, sets, joins
 *	  cpu_phases.h   cpu_workers.c      threads, phases of a join, units of work
 *	                 cpu_plan.c         memory planning, and partitioning of a join into work items
 *	                 cpu_choice.c       choice of encoding, filter and pruning levels, from samples
 *	                 cpu_nearest.c      nearest neighbors: initial radii, thresholds from the radii
 *	  cpu_filter.h   cpu_filter.c       filtering of a strip
 *	                 cpu_nearest.c
 *	                 cpu_recheck.c      recheck of candidates, output of pairs
 *	                 cpu_components.c   rows sorted by component; tiles of one component are skipped
 *	  cpu_levels.h   cpu_levels.c       pruning: order of a set's rows, level rows
 *	                 cpu_fit.c          computation of a projection from a sample
 *	                 cpu_project.c      projection of rows
 *	  cpu_prepare.h  cpu_pack.c         packed rows and thresholds, as the filter reads them
 *	                 cpu_form.c         encodings: centre and scale, from a sample
 *	  cpu_bits.h     cpu_bits.c         rows of bits: fold, order, packed rows, thresholds
 *	  cpu_state.h                       data structures of contexts, sets, joins and workers
 *	  neighbor_lists.h                  list of the nearest rows of each row
 *	  row_store.h                       unmodified input rows, and allocation of large memory
 *	  cpu_kernel.h   cpu_kernel.c       selection of a kernel that this CPU can run
 *	                 kernel_*.c         the kernels, with row_body.h and tile_kernel.inc.h
 *
 * The packed rows of a set depend on a form and a filter.  Sets that are joined share their form.
 * Thresholds also depend on eps.  Only the caller's thread allocates and frees memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_STATE_H
#define FASTED_CPU_STATE_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../engine/engine.h"
#include "../engine/host_device.h"
#include "cpu_kernel.h"
#include "neighbor_lists.h"
#include "row_store.h"

/*
 * A form: the encoding, that is, the parameters that turn rows into packed rows.  It is computed
 * from a sample, and shared by all sets whose rows are packed with it.  Only the caller's thread
 * changes the reference count.
 */
typedef struct Form
{
	int			refcount;
	float	   *centre;
	double		scale;			/* a power of two */
	bool		has_int8;		/* int8_centre and transform are valid */
	float	   *int8_centre;
	Int8Transform transform;
	float		int16_factor;	/* INT16 rows: images are multiplied by this; 0: no INT16 rows */
	uint32_t	folded;			/* rows of bits: words to which rows are folded; no centre */
	double		large_square;	/* INT8, inner product: x.x of a large row, outliers excluded */
} Form;

/*
 * One operand of a tile: packed rows and their thresholds.  No sum reaches the threshold of
 * padding.
 */
typedef struct Operand
{
	void	   *packed;
	void	   *threshold;
} Operand;

/* The values from which a row's threshold is computed, for any eps. */
typedef struct RowTerms
{
	double		norm2;			/* squared norm of the packed row; negative: the row has no pairs;
								 * number of bits that are set in a row of bits */
	double		rho;			/* bound of the packing error; infinite: out-of-range row */
} RowTerms;

static inline RowTerms
row_without_pairs(void)
{
	return (RowTerms) {.norm2 = -1.0};
}

static inline bool
row_has_pairs(const RowTerms *terms)
{
	return terms->norm2 >= 0.0;
}

/*
 * Rows in INT16, row-major, stored behind packed INT8 rows.  Candidates of the INT8 filter are
 * compared in INT16 before they are rechecked: see cpu_recheck.c.
 */
typedef struct Int16Rows
{
	int16_t    *values;			/* context->padded values per row; NULL: no INT16 rows */
	double	   *threshold;		/* fasted_threshold_int16 */
	RowTerms   *terms;
} Int16Rows;

/* Packed rows.  They are stored at the start of one allocation. */
typedef struct PackedRows
{
	size_t		rows;
	size_t		bytes;			/* size of the allocation */
	size_t		capacity;		/* capacity in rows, padding included */
	PackLayout	layout;
	void	   *packed;
	void	   *threshold;
	RowTerms   *terms;
	double	   *squares;		/* cosine, inner product, Jaccard: x.x of the input rows, by place */
	Int16Rows	fine;
	Operand		as_a;			/* operand for rows of tiles; in FP32 the same as as_b */
	Operand		as_b;			/* operand for columns of tiles */
} PackedRows;

/* Number of components of a level row. */
#define LEVEL_WORDS(level) (UINT32_C(32) << (level))
#define LEVEL_MOST_WORDS LEVEL_WORDS(FASTED_PRUNE_LEVELS - 1)

/* Number of sets of levels, and most rows of tiles with which they are tested. */
#define PRUNE_SEQUENCES (1U << FASTED_PRUNE_LEVELS)
#define TESTED_MOST 32

/* The parameters that turn rows into level rows: see cpu_levels.h. */
typedef struct Projection
{
	int			refcount;
	uint32_t	directions;
	uint32_t	levels;
	uint32_t	stride;			/* floats per projected row */
	float	   *centre;
	double		scale;			/* a power of two */
	double		eta;			/* upper bound of the Frobenius norm of P P' - I */
	PackLayout	layout;
	float	   *packed;			/* the directions, packed as columns of a product */
	Form		forms[FASTED_PRUNE_LEVELS]; /* encodings of the level rows */
} Projection;

typedef struct SetLevels
{
	size_t		capacity;		/* capacity in rows */
	size_t		bytes;			/* size of the allocation that begins with order */
	uint32_t   *order;			/* row number at each place */
	bool		ordered;		/* packed rows are stored in this order */
	bool		sorted;			/* rows of bits: this order is by number of bits */
	bool		moving;			/* packed rows are being moved to other places */
	size_t		grouped;		/* the components of this number of first places are contiguous */
	uint64_t	order_hash;		/* hash of the order */
	float	   *projected;		/* NULL: stored in the buffer of the packed rows */
	Projection *projection;		/* projection of the level rows; NULL: no level rows */
	PackedRows	packed[FASTED_PRUNE_LEVELS];
	double		eps;			/* eps of the level rows' thresholds; NaN: not set */
} SetLevels;

struct FastedSet
{
	struct FastedContext *context;
	FastedSet  *next;			/* next set of the context */
	FastedSetOptions options;
	bool		sealed;
	RowStore	rows;
	size_t		held;			/* largest number of rows that the set ever had */

	/* State retained from the set's last join. */
	PackedRows	packed;
	Form	   *form;			/* encoding of the packed rows; NULL: not packed */
	double		eps;			/* eps of the thresholds; NaN: not set */
	double		chosen_eps;		/* eps for which a sample chose the filter; NaN: none */
	bool		suits_itself;	/* the form suits a self-join of the set */
	SetLevels	levels;

	_Atomic uint32_t *counts;	/* counts of the current join, if it counts */
	size_t		counts_capacity;
	NeighborLists lists;		/* lists of the last nearest-neighbor join */
};

/*
 * Blocks of pairs, passed from the workers to the caller.  Their number is fixed: a worker that
 * finds no free block waits until the caller has drained one.  So memory is bounded and no pair is
 * lost.  There must be more blocks than workers, plus one held by the caller.
 */
typedef struct PairBlock
{
	struct PairBlock *next;
	FastedPair *pairs;
	size_t		npairs;
	uint64_t	since;			/* time of the first pair, in nanoseconds */
} PairBlock;

typedef struct PairPool
{
	PairBlock  *blocks;			/* the blocks and then their pairs, in one allocation */
	size_t		nblocks;
	size_t		block_pairs;	/* capacity of one block in pairs */
	PairBlock  *free_list;
	PairBlock  *queue_head;		/* filled blocks, oldest first */
	PairBlock  *queue_tail;		/* undefined while the queue is empty */
} PairPool;

/*
 * Number of rows sampled to compute the centre and the scale: one row in CENTRE_SHARE, between
 * CENTRE_ROWS_LEAST and CENTRE_ROWS.  For small joins a better centre does not pay.
 */
#define CENTRE_ROWS_LEAST 12
#define CENTRE_ROWS 64
#define CENTRE_SHARE 16

/* Largest number of blocks per side of a square of blocks: see host_device.h. */
#define SQUARE_BLOCKS 8

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

/* The stage that follows the pruning levels: filtering at all dimensions. */
#define FULL_STAGE FASTED_PRUNE_LEVELS

/*
 * Thresholds of the current strip at one stage, as FP32 or INT32 words. "own" thresholds test a
 * pair for the row's own list, "other" thresholds for the list of the other row.
 */
typedef struct StageThresholds
{
	uint64_t	strip;			/* strip number for which a's thresholds were computed */
	uint64_t	columns;		/* version of the columns for which b's were computed */
	double		reach_a;		/* largest finite reach of a's rows that is allowed for */
	double		reach_b;		/* the same for b's rows */
	uint32_t	a_own[STRIP_ROWS];
	uint32_t	a_other[STRIP_ROWS];
	uint32_t	b_own[STRIP_COLS];
	uint32_t	b_other[STRIP_COLS];
} StageThresholds;

/* State of a nearest-neighbor join: see cpu_nearest.c. */
typedef struct NearThresholds
{
	size_t		first_a;		/* first row of the strip */
	size_t		first_b;
	uint32_t	rows;			/* padding included */
	uint32_t	cols;
	uint64_t	strip;			/* strip number; zero: no strip yet */
	uint64_t	columns;		/* incremented when the columns change */
	StageThresholds stages[FULL_STAGE + 1];
	double		reach[STRIP_COLS];	/* buffer for sampled distances */
	float		norms[STRIP_COLS];	/* initial radii: squared norms of the columns */
	uint32_t	flip_sums[STRIP_COLS];	/* what flipping the rows of a adds to the columns' sums */
	FastedNeighbor nearest[RADII_MOST]; /* heap of columns and their squared distances */
} NearThresholds;

typedef struct Worker
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
	double	   *wide;			/* buffer for one row in FP64 */
	float	   *image;			/* INT8: buffer for two padded rows; or NULL */
	void	   *project_buffer;	/* pruning: buffer, see cpu_project.c; or NULL */
	float	   *directions;		/* buffer for a sliver's filter rows; or NULL */
	double		sample[CENTRE_ROWS];	/* sampled FP32 values of one coordinate */
	NearThresholds near;
	Candidate	list[CANDIDATE_LIST];
	uint32_t	listed;

	PairBlock  *block;			/* the block being filled, or NULL */
	FastedStats work;			/* statistics not yet added to the context's */
	uint64_t	report_at;		/* when to add them to the context's; see cpu_now */
} Worker;

struct FastedContext
{
	FastedOptions options;
	bool		cosine;			/* the metric is cosine distance */
	bool		product;		/* the metric is the negative inner product */
	bool		doubles;		/* input rows are in FP64 */
	bool		bits;			/* input rows are bits; the metric is Hamming or Jaccard */
	bool		jaccard;
	uint32_t	length;			/* dimensions of a row; of rows of bits, 64-bit words */
	uint32_t	padded;			/* dimensions of integer rows, padded to 32 */
	const CpuKernel *kernel;
	char		error[256];
	FastedSet  *sets;
	FastedJoin *join;			/* NULL: no join is open */

	/* Memory plan: see cpu_plan.c. */
	MemoryCount memory;
	uint32_t	longest_slice;	/* limit of the words per slice */
	uint32_t	slice;			/* words per slice, for FP32 rows */
	bool		may_use_int8;
	bool		may_use_int16;	/* INT16 rows may be used */
	int			thread_limit;
	size_t		block_pairs;
	uint64_t	row_limit;		/* limit for the rows of all sets together */
	uint64_t	row_bytes;		/* memory per row, neighbor lists excluded */
	size_t		chunk_bytes;
	uint32_t	sample_rows;	/* rows sampled per set to test an encoding */
	PackedRows	samples[2];
	bool		may_prune;
	const CpuKernel *product_kernel;	/* pruning: kernel for FP32 products; or NULL */
	size_t		fit_bytes;
	void	   *fit_buffer;		/* buffer of cpu_fit.c; NULL: not yet allocated */

	/* Threads.  The lock guards these fields and the pool. */
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
	PairPool	pool;
	PairBlock  *caller_block;	/* block that the caller reads until its next call */

	/* Read and written without the lock. */
	atomic_bool stop;
	_Atomic uint64_t rest_at;	/* workers pause from this time on; see cpu_now */
	_Atomic uint64_t next_item;		/* next work item of the phase */

	FastedStats stats;			/* statistics of all joins; guarded by the lock */
	uint64_t	joins;			/* number of joins so far */
};

/*
 * Phases of a join.  Sets that are joined must share a form and be packed for one filter.  The
 * first phases establish that.  A phase is skipped if the sets already have its result.
 */
typedef enum Phase
{
	PHASE_TRY,					/* test the larger set's form; if it does not suit both sets: */
	PHASE_CENTRE,				/* compute a form from a sample of both sets, by coordinates */
	PHASE_CHOOSE,				/* choose INT8 or FP32, from a sample */
	PHASE_FIT,					/* compute a projection, if it is likely to help */
	PHASE_PROJECT,				/* project rows that are not yet projected: by slivers */
	PHASE_ORDER,				/* order rows so that near rows are adjacent: one thread per set */
	PHASE_LEVELS,				/* pack level rows, or compute their thresholds: by slivers */
	PHASE_TEST,					/* test a sample of tiles, to choose the levels: by rows of tiles */
	PHASE_FOLD,					/* rows of bits: choose the fold, from a sample */
	PHASE_SORT,					/* rows of bits: sort rows by their number of bits: one thread per set */
	PHASE_PACK,					/* pack rows, or compute their thresholds: by slivers */
	PHASE_GROUP,				/* components: move rows of a component together: one thread per set */
	PHASE_RADII,				/* nearest neighbors: compute initial radii, by blocks */
	PHASE_JOIN,					/* join the strips */
	PHASE_OVER
} Phase;

/* Preparation that a set needs for the join, in increasing order of work. */
typedef enum Packing
{
	PACKED_ALREADY,
	PACK_THRESHOLDS,
	PACK_ROWS
} Packing;

/*
 * A strip: one block of row_set against consecutive blocks of col_set.  Rows are identified by
 * their places within the sets.
 */
typedef struct Strip
{
	size_t		first_a;
	uint32_t	rows_a;
	size_t		first_b;		/* first column of the first block */
	uint32_t	block_rows;		/* columns per block, the last block excepted */
	uint32_t	blocks;
	bool		diagonal;		/* the first block of columns is the block of rows */
} Strip;

struct FastedJoin
{
	FastedContext *context;
	FastedProblem problem;
	FastedSet  *sets[2];		/* a and b; the same set for a self-join */
	bool		self;
	int			nsets;			/* number of distinct sets */
	bool		nearest;		/* the output is nearest neighbors */
	int			row_side;		/* index of the smaller set, which gives the rows of tiles */
	FastedSet  *row_set;
	FastedSet  *col_set;
	Phase		phase;			/* guarded by the lock */

	/* Form and filter: see cpu_choice.c. */
	Form	   *tried;			/* form of the larger set, or NULL */
	bool		common;			/* both sets have it, and it suits this join for any eps */
	bool		trial;			/* it has to be tested on a sample */
	bool		try_int8;
	bool		choosing;		/* a sample decides the filter */
	Form	   *found;			/* form to be computed, or NULL */
	double		sample_peak[CENTRE_ROWS];	/* largest centred coordinate of each sampled row */
	Form	   *form;			/* the form chosen */
	bool		int8;			/* the filter chosen: INT8 instead of FP32 */
	double		choice_eps;		/* eps for which the filter is chosen */
	double		choice_key;		/* key under which the sets remember the choice */
	bool		sorts;			/* rows of bits may be sorted */
	bool		int16_pays;		/* INT16 rows pay; true if no sample was taken */
	bool		fine;			/* both sets have INT16 rows */
	bool		laid_out;		/* packing has started */
	bool		packed;			/* packing has finished */
	Packing		packing[2];		/* of each set */
	uint64_t	begun_at;

	/* Pruning: see cpu_choice.c. */
	bool		pruning;		/* pruning may pay, and a projection helps */
	Projection *projection;		/* projection of the sets, or the one to be computed; or NULL */
	bool		fitting;		/* the projection has to be computed */
	Packing		level_packing[2];	/* of each set */
	bool		leveled;		/* the sets' level rows are complete, and the levels are chosen */
	uint32_t	levels;			/* bit mask of the levels at which tiles are tested */

	/* Tested rows of tiles: their tiles, and their cost with each set of levels. */
	uint32_t	tested_rows;
	size_t		tested_tiles[TESTED_MOST];
	double		tested_costs[TESTED_MOST][PRUNE_SEQUENCES];

	/* Nearest neighbors: packing error of most rows of each set, by stage.  See cpu_nearest.c. */
	double		rho_most[FULL_STAGE + 1][2];

	/* Components: whether a row has no finite bound. */
	bool		unbounded;

	/* Components: buffers for the order of each set; NULL: rows are not moved. */
	uint32_t   *keys[2];

	/* Work: see cpu_plan.c. */
	int			nworkers;
	uint32_t	block_rows;		/* rows per block */
	size_t		hit_stride;		/* bytes per row of a strip's hit map */
	FastedOrder order;
	FastedPartitionTiles strips;	/* strips, for a join within partitions */
	double		partition_columns;	/* mean number of columns per row within its partition */
	FastedSpan *spans;
	FastedStripe *stripes;
	uint64_t	first_item;		/* first work item of the slice */
	uint64_t	end_item;
	bool		interleaved;	/* the slice has interleaved work items: cpu_is_in_slice */
	uint64_t	number;			/* number of the join within the context, from 1 */
};

/* cpu_state.c */
extern FastedStatus cpu_fail(FastedContext *context, FastedStatus status,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern void cpu_add_work_stats(Worker *worker);
extern void cpu_rest_after(FastedContext *context, uint64_t ms);
extern bool cpu_may_continue(FastedContext *context);
extern void cpu_sort_doubles(double *values, size_t count);
extern void cpu_do_slivers(Worker *worker, const Packing packing[2], Packing least,
						   void (*work) (Worker *worker, int set, size_t sliver));
extern uint32_t cpu_longest_slice(const CpuKernel *kernel);
extern uint32_t cpu_slice_length(const FastedContext *context, uint32_t words, uint32_t step);
extern size_t cpu_packed_row_bytes(const FastedContext *context, uint32_t level);

/*
 * Ensures capacity for packed rows of a level or of FULL_STAGE.  If the buffer grows, the rows
 * packed before are lost.  Level rows have neither squares nor INT16 rows, because only input rows
 * are rechecked.  Returns false if out of memory.
 */
extern bool cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t level);
extern size_t cpu_packed_side_bytes(const FastedContext *context, uint32_t level);
extern void cpu_packed_free(FastedContext *context, PackedRows *packed);

/* Sets the layout of packed rows and of their thresholds within their buffer. */
extern void cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t dimensions, bool int8);

/* Forms are reference counted. cpu_form_new returns NULL if out of memory. */
extern Form *cpu_form_new(FastedContext *context);
extern void cpu_form_drop(FastedContext *context, Form *form);

/* Returns the number of words of the longest packed row. */
static inline uint32_t
cpu_filter_words(const FastedContext *context)
{
	return context->bits ? 2 * context->length : context->options.dimensions;
}

/* Returns the row number at a place of the packed rows. */
static inline size_t
cpu_row_at(const FastedSet *set, size_t place)
{
	return set->levels.ordered ? set->levels.order[place] : place;
}

static inline const float *
cpu_stored_row(const FastedSet *set, size_t place)
{
	return row_store_row(&set->rows, cpu_row_at(set, place));
}

/* Returns the number of words of a packed integer row. */
static inline uint32_t
cpu_int8_words(const CpuKernel *kernel, uint32_t dimensions)
{
	const Int8Kernel *int8 = kernel->int8;
	uint32_t	words = (dimensions + 31) / 32 * 32 * int8->bytes / 4;

	return (words + int8->word_step - 1) / int8->word_step * int8->word_step;
}

/* Returns the bytes of a packed integer row, for both sides of a tile together. */
static inline size_t
cpu_int8_row_bytes(const CpuKernel *kernel, uint32_t dimensions)
{
	return (int8_sides_identical(kernel->int8) ? 1 : 2)
		* cpu_int8_words(kernel, dimensions) * sizeof(uint32_t);
}

/* Returns the buffer for the filter row at a place of a sliver; NULL if none is needed. */
static inline float *
cpu_direction_buffer(const Worker *worker, size_t place)
{
	return worker->directions == NULL ? NULL
		: worker->directions + place * worker->context->options.dimensions;
}

/* Returns the number of rows, padded to whole tiles. */
static inline size_t
cpu_whole_tiles(const FastedContext *context, size_t rows)
{
	size_t		step = context->kernel->tile_cols;

	return (rows + step - 1) / step * step;
}

static inline uint32_t
cpu_clamp(uint64_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : (uint32_t) value;
}

static inline bool
cpu_stopping(const FastedContext *context)
{
	return atomic_load_explicit(&context->stop, memory_order_relaxed);
}

static inline uint64_t
cpu_next_item(FastedContext *context)
{
	return atomic_fetch_add_explicit(&context->next_item, 1,
									 memory_order_relaxed);
}

/* Returns the span of rows of the other set with which a row of this side is compared. */
static inline FastedSpan
cpu_rows_met(const FastedJoin *join, int side, uint32_t row)
{
	if (join->problem.partitions != NULL)
		return fasted_columns_of_row(join->problem.partitions, join->problem.npartitions, side, row);
	return (FastedSpan) {.first = 0,.end = (uint32_t) join->sets[1 - side]->rows.rows};
}

/* Returns the number of rows of the distinct sets. */
static inline uint64_t
cpu_join_rows(const FastedJoin *join)
{
	return join->sets[0]->rows.rows + (join->self ? 0 : join->sets[1]->rows.rows);
}

/* Returns the number of pairs to compare, in all slices together. */
static inline double
cpu_join_area(const FastedJoin *join)
{
	double		a = (double) join->sets[0]->rows.rows;
	double		b = (double) join->sets[1]->rows.rows;

	if (join->problem.partitions != NULL)
		return fasted_partition_pairs(join->problem.partitions, join->problem.npartitions, join->self);
	return join->self ? 0.5 * a * (a - 1.0) : a * b;
}

#endif							/* FASTED_CPU_STATE_H */
