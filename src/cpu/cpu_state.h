/*-------------------------------------------------------------------------
 *
 * cpu_state.h
 *	  What contexts, sets, joins and workers of the CPU engine have.
 *
 * The engine's modules, each above those that it calls.  A header declares the functions of
 * the source files named beside it, and of no other.
 *
 *	  cpu_engine.c                      the engine's interface: contexts, sets, joins
 *	  cpu_workers.h                     threads, the phases of a join, units of work
 *	  cpu_plan.h                        memory, and how a join is cut into work
 *	  cpu_phases.h   cpu_choice.c       which form and which filter, from a sample
 *	                 cpu_prune.c        pruning: when, and its phases
 *	                 cpu_radii.c        nearest rows: first radii
 *	  cpu_filter.h   cpu_filter.c       a strip is filtered
 *	                 cpu_nearest.c      nearest rows: thresholds by the rows' radii
 *	  cpu_recheck.h                     candidates are rechecked, pairs handed out
 *	  cpu_levels.h   cpu_levels.c       pruning: the order of a set's rows, level rows
 *	                 cpu_fit.c          a projection is found from a sample
 *	                 cpu_project.c      rows are projected
 *	  cpu_prepare.h  cpu_pack.c         rows and thresholds as the filter reads them
 *	                 cpu_form.c         forms: the centre and the scale, from a sample
 *	  cpu_groups.h                      joins within groups: their strips
 *	  cpu_state.h                       what a context, a set, a join and a worker have
 *	  neighbor_lists.h                  the nearest rows of each row
 *	  row_store.h                       rows as they came, and large memory
 *	  cpu_kernel.h   cpu_kernel.c       which kernel this processor can run
 *	                 kernel_*.c         the kernels
 *
 * A set's packed rows are of a form, which sets that are joined have in common, and of a
 * filter; thresholds are of an eps besides.  The caller's thread alone takes and returns
 * memory.
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
 * How rows become packed rows: found from a sample, then shared by all sets that
 * are packed so.  Only the caller's thread counts who has it.
 */
typedef struct Form
{
	int			holders;
	float	   *centre;
	double		scale;			/* a power of two */
	bool		has_int8;		/* the transform has been found */
	float	   *int8_centre;
	Int8Transform transform;
	float		fine_factor;	/* of fine rows: images are multiplied by it; 0: none */
} Form;

/* One side of a tile: packed rows, and a threshold each; no row reaches padding's. */
typedef struct Operand
{
	void	   *packed;
	void	   *threshold;
} Operand;

/* What a row's threshold is made of, for any eps. */
typedef struct RowTerms
{
	double		norm2;			/* of the packed row; negative: it has no pairs */
	double		rho;			/* how far packing moved it; infinite: a wild row */
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

typedef struct PackedRows
{
	size_t		rows;
	size_t		row_bytes;		/* of a packed row, at most */
	size_t		room;			/* for so many, padding included */
	PackLayout	layout;
	void	   *packed;
	void	   *threshold;
	RowTerms   *terms;
	double	   *squares;		/* cosine: x.x of rows as they came, by place; or NULL */
	Operand		as_a;			/* rows of tiles; in FP32 the same as columns */
	Operand		as_b;			/* columns of tiles */
} PackedRows;

/*
 * Rows in INT16, row after row, behind packed rows in INT8: candidates are compared
 * in these before they are rechecked: cpu_recheck.c.
 */
typedef struct FineRows
{
	size_t		room;
	const int16_t *values;		/* cpu_padded of a row; NULL: there are none */
	double	   *threshold;		/* fasted_threshold_fine */
	RowTerms   *terms;
} FineRows;

/* Numbers of a level row. */
#define LEVEL_WORDS(level) (UINT32_C(32) << (level))
#define LEVEL_MOST_WORDS LEVEL_WORDS(FASTED_PRUNE_LEVELS - 1)

/* How rows become level rows: cpu_levels.h. */
typedef struct Projection
{
	int			holders;
	uint32_t	directions;
	uint32_t	levels;
	uint32_t	stride;			/* numbers of a projected row */
	float	   *centre;
	double		scale;			/* a power of two */
	double		eta;			/* bounds the Frobenius norm of P P' - I */
	PackLayout	layout;
	float	   *packed;			/* the directions, as columns of a product */
	float	   *level_centres;
	Form		forms[FASTED_PRUNE_LEVELS]; /* of level rows */
} Projection;

typedef struct SetLevels
{
	size_t		room;			/* for so many rows */
	uint32_t   *order;			/* the number of the row at each place */
	bool		ordered;		/* packed rows are in this order */
	uint64_t	order_hash;		/* of the order */
	float	   *projected;		/* NULL: they take the room of packed rows */
	Projection *projection;		/* of the level rows; NULL: there are none */
	PackedRows	packed[FASTED_PRUNE_LEVELS];
	double		eps;			/* of their thresholds; NaN: of none */
} SetLevels;

struct FastedSet
{
	struct FastedContext *context;
	FastedSet  *next;			/* of the context */
	FastedSetOptions options;
	bool		sealed;
	RowStore	rows;
	size_t		held;			/* the most rows that it ever had */

	/* What its last join left. */
	PackedRows	packed;
	FineRows	fine;
	Form	   *form;			/* NULL: nothing is packed */
	double		eps;			/* of the thresholds; NaN: of none */
	double		chosen_eps;		/* for which a sample chose the filter; NaN: none did */
	bool		suits_itself;	/* the form is good for a join of the set with itself */
	SetLevels	levels;

	_Atomic uint32_t *counts;	/* of the join at work, where it counts for rows */
	size_t		counts_room;
	NeighborLists lists;		/* of the last join that found neighbours */
};

/*
 * Blocks of pairs on their way from the workers to the caller.  Their number is fixed: a
 * worker that finds none waits until the caller has drained one, so that memory is bounded and
 * no pair is lost.  There must be more blocks than workers, plus one with the caller.
 */
typedef struct PairBlock
{
	struct PairBlock *next;
	FastedPair *pairs;
	size_t		npairs;
	uint64_t	since;			/* when the first pair came, nanoseconds */
} PairBlock;

typedef struct PairPool
{
	PairBlock  *blocks;
	FastedPair *pairs;
	size_t		nblocks;
	size_t		block_pairs;	/* room of one block */
	PairBlock  *free_list;
	PairBlock  *queue_head;		/* filled, oldest first */
	PairBlock  *queue_tail;
} PairPool;

/*
 * Rows looked at to find the centre and the scale: one in CENTRE_SHARE, but so many at
 * least, and at most.  A centre as good as that of many rows does not pay for few.
 */
#define CENTRE_ROWS_LEAST 12
#define CENTRE_ROWS 64
#define CENTRE_SHARE 16

/* Blocks along the side of a group at most: see tile_order.h. */
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

/* The last stage is that of all dimensions, after pruning's. */
#define FULL_STAGE FASTED_PRUNE_LEVELS

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

/*
 * Sets that are joined have one form, and are packed for one filter.  Where they are not
 * yet, the join begins with that; what the sets have already, it skips.
 */
typedef enum Phase
{
	PHASE_TRY,					/* is the larger set's form good for both?  If not: */
	PHASE_CENTRE,				/* a form is found from a sample of both: by coordinates */
	PHASE_CHOOSE,				/* INT8 or FP32, from a sample */
	PHASE_FIT,					/* a projection is found, if it promises anything */
	PHASE_PROJECT,				/* rows that are not of the projection: by slivers */
	PHASE_ORDER,				/* near rows come together: a thread a set */
	PHASE_LEVELS,				/* projected rows are packed, or thresholds only: by slivers */
	PHASE_TEST,					/* which levels pay, by a sample of tiles: one thread */
	PHASE_PACK,					/* rows that are not of the form, or thresholds: by slivers */
	PHASE_RADII,				/* nearest rows: first radii, by blocks */
	PHASE_JOIN,					/* units of work */
	PHASE_OVER
} Phase;

/* What a set needs to be of the join's form. */
typedef enum Packing
{
	PACKED_ALREADY,
	PACK_THRESHOLDS,
	PACK_ROWS
} Packing;

/*
 * Work in hand: one block of row_set against neighbouring blocks of col_set.  Rows
 * are numbers within the sets.
 */
typedef struct Strip
{
	size_t		first_a;
	uint32_t	rows_a;
	size_t		first_b;		/* of the first block */
	uint32_t	block_rows;		/* of all blocks but the last */
	uint32_t	blocks;
	bool		diagonal;		/* the first block is block A itself */
} Strip;

struct FastedJoin
{
	FastedContext *context;
	FastedProblem problem;
	FastedSet  *sets[2];		/* a and b, the same for one with itself */
	bool		self;
	FastedSet  *row_set;		/* whose rows are the rows of tiles: the smaller one */
	FastedSet  *col_set;
	Phase		phase;			/* the lock guards it */

	/* Form and filter: cpu_choice.c. */
	Form	   *tried;			/* the larger set's, or NULL */
	bool		common;			/* it is good for this join, whatever eps */
	bool		trial;			/* it has to be tried */
	bool		try_int8;
	bool		choosing;		/* a sample decides on the filter */
	Form	   *found;			/* to be found, or NULL */
	double		sample_peak[CENTRE_ROWS];	/* largest centred coordinate */
	Form	   *form;			/* the one that was taken */
	bool		int8;			/* and the filter */
	double		choice_eps;		/* for which it is chosen */
	double		choice_key;		/* and by which the choice is known */
	double		eps_upper;		/* in its scale */
	bool		fine_pays;		/* to pack fine rows; true where no sample said */
	bool		fine;			/* both sets have them */
	bool		laid_out;		/* packing has begun */
	bool		packed;			/* and ended */
	Packing		packing[2];		/* of each set */
	uint64_t	begun_at;

	/* Pruning: cpu_prune.c. */
	bool		pruning;		/* it may be worth it */
	Projection *projection;		/* what the sets have or will have, or NULL */
	bool		fitting;		/* which is to be found */
	bool		fitted;			/* and was */
	Packing		level_packing[2];	/* of each set */
	bool		projecting;		/* some rows are not of the projection */
	bool		leveled;		/* the sets' levels are complete */
	uint32_t	levels;			/* bits: those that tiles are tested at */

	/* Nearest rows: how far packing moved most rows of each set.  cpu_nearest.c */
	double		rho_most[FULL_STAGE + 1][2];

	/* Work: cpu_plan.c. */
	int			nworkers;
	uint32_t	block_rows;		/* rows of a block */
	size_t		hit_stride;		/* bytes of one row of a strip's hit map */
	FastedOrder order;
	FastedGroupTiles strips;	/* where only rows of one group meet */
	FastedSpan *spans;
	FastedStripe *stripes;
	uint64_t	first_claim;	/* of the slice */
	uint64_t	end_claim;
	bool		spread;			/* but only some of them: cpu_is_in_slice */
	uint64_t	number;			/* of the context's joins, from 1 on */
};

/* cpu_state.c */
extern FastedStatus cpu_fail(FastedContext *context, FastedStatus status,
							 const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern uint64_t cpu_now(void);
extern void cpu_rest_after(FastedContext *context, uint64_t ms);
extern void cpu_rest_if_alone(FastedContext *context);
extern uint32_t cpu_slice_length(const CpuKernel *kernel, uint32_t words, uint32_t step);
extern size_t cpu_packed_row_bytes(const FastedContext *context);
extern size_t cpu_threshold_row_bytes(const FastedContext *context);

/* Room for so many rows of so many bytes; what was packed is lost where it grows. */
extern bool cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows,
							   size_t row_bytes);

/* And for their x.x, where the distance is cosine. */
extern bool cpu_squares_reserve(FastedContext *context, PackedRows *packed);
extern void cpu_packed_free(FastedContext *context, PackedRows *packed);

/* Where so many packed rows and their thresholds will be. */
extern void cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t dimensions, bool int8);
extern bool cpu_fine_reserve(FastedContext *context, FineRows *fine, size_t rows);
extern void cpu_fine_free(FastedContext *context, FineRows *fine);

/* A form without holders, or NULL; the last holder frees it. */
extern Form *cpu_form_new(FastedContext *context);
extern Form *cpu_form_hold(Form *form);
extern void cpu_form_drop(FastedContext *context, Form *form);

/* The number of the row at this place among the packed rows. */
static inline size_t
cpu_row_at(const FastedSet *set, size_t place)
{
	return set->levels.ordered ? set->levels.order[place] : place;
}

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

static inline uint64_t
cpu_claim(FastedContext *context)
{
	return atomic_fetch_add_explicit(&context->next_claim, 1,
									 memory_order_relaxed);
}

static inline bool
cpu_finds_nearest(const FastedJoin *join)
{
	return join->problem.output == FASTED_OUTPUT_NEAREST;
}

/* Pairs of rows that are compared, slices aside. */
static inline double
cpu_join_area(const FastedJoin *join)
{
	double		a = (double) join->sets[0]->rows.rows;
	double		b = (double) join->sets[1]->rows.rows;

	if (join->problem.groups != NULL)
		return fasted_group_pairs(join->problem.groups, join->problem.ngroups, join->self);
	return join->self ? 0.5 * a * (a - 1.0) : a * b;
}

#endif							/* FASTED_CPU_STATE_H */
