/*-------------------------------------------------------------------------
 *
 * cpu_state.h
 *	  What contexts, sets, joins and workers of the CPU engine have.
 *
 * The engine's modules, each above those that it calls.  A header declares the functions of
 * the source files named beside it, and of no other.
 *
 *	  cpu_engine.c                      the engine's interface: contexts, sets, joins
 *	  cpu_phases.h   cpu_workers.c      threads, the phases of a join, units of work
 *	                 cpu_plan.c         memory, and how a join is cut into work
 *	                 cpu_choice.c       which form, filter and levels, from a sample
 *	                 cpu_nearest.c      nearest rows: first radii, and thresholds by the radii
 *	  cpu_filter.h   cpu_filter.c       a strip is filtered
 *	                 cpu_nearest.c
 *	                 cpu_recheck.c      candidates are rechecked, pairs handed out
 *	  cpu_levels.h   cpu_levels.c       pruning: the order of a set's rows, level rows
 *	                 cpu_fit.c          a projection is found from a sample
 *	                 cpu_project.c      rows are projected
 *	  cpu_prepare.h  cpu_pack.c         rows and thresholds as the filter reads them
 *	                 cpu_form.c         forms: the centre and the scale, from a sample
 *	  cpu_state.h                       what a context, a set, a join and a worker have
 *	  neighbor_lists.h                  the nearest rows of each row
 *	  row_store.h                       rows as they came, and large memory
 *	  cpu_kernel.h   cpu_kernel.c       which kernel this processor can run
 *	                 kernel_*.c         the kernels, with row_body.h and tile_kernel.inc.h
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

/*
 * Rows in INT16, row after row, behind packed rows in INT8: candidates are compared
 * in these before they are rechecked: cpu_recheck.c.
 */
typedef struct FineRows
{
	int16_t    *values;			/* context->padded of a row; NULL: there are none */
	double	   *threshold;		/* fasted_threshold_fine */
	RowTerms   *terms;
} FineRows;

/* Packed rows, in one piece of memory that begins with them. */
typedef struct PackedRows
{
	size_t		rows;
	size_t		bytes;			/* of the piece */
	size_t		room;			/* for so many rows, padding included */
	PackLayout	layout;
	void	   *packed;
	void	   *threshold;
	RowTerms   *terms;
	double	   *squares;		/* cosine: x.x of rows as they came, by place */
	FineRows	fine;
	Operand		as_a;			/* rows of tiles; in FP32 the same as columns */
	Operand		as_b;			/* columns of tiles */
} PackedRows;

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
	Form		forms[FASTED_PRUNE_LEVELS]; /* of level rows */
} Projection;

typedef struct SetLevels
{
	size_t		room;			/* for so many rows */
	size_t		bytes;			/* of the piece of memory that begins with order */
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
	PairBlock  *blocks;			/* and after them their pairs, in one piece of memory */
	size_t		nblocks;
	size_t		block_pairs;	/* room of one block */
	PairBlock  *free_list;
	PairBlock  *queue_head;		/* filled, oldest first */
	PairBlock  *queue_tail;		/* of no meaning while the queue is empty */
} PairPool;

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

/* Rows that a strip has on a side at most, and padding. */
#define STRIP_ROWS (FASTED_MAX_BLOCK + FASTED_MAX_TILE)
#define STRIP_COLS (GROUP_BLOCKS * FASTED_MAX_BLOCK + FASTED_MAX_TILE)

/* Neighbours for which first radii are found. */
#define RADII_MOST 1024

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
	float		norms[STRIP_COLS];	/* first radii: of columns, and what products have more */
	uint32_t	more[STRIP_COLS];
	FastedNeighbor nearest[RADII_MOST]; /* a heap of columns and squares of distances */
} NearThresholds;

typedef struct Worker
{
	FastedContext *context;
	FastedJoin *join;			/* the one at work */
	pthread_t	thread;
	int			number;
	uint64_t	seen;			/* the phase that it did last */

	void	   *partial;		/* unfinished sums of a block pair, or NULL */
	size_t		bytes;			/* of the piece of memory that begins with hits */
	uint8_t    *hits;			/* hit_stride bytes for each row of a block */
	bool		has_hits[FASTED_MAX_BLOCK + FASTED_MAX_WIDTH];	/* of a row; may be true for none */
	double	   *wide;			/* one row in FP64 */
	float	   *image;			/* INT8: room for two rows, padded; or NULL */
	void	   *project_room;	/* pruning: cpu_project.c; or NULL */
	float	   *directions;		/* room for a sliver's rows as the filter sees them; or NULL */
	double		sample[CENTRE_ROWS];	/* values of one coordinate, of FP32 */
	NearThresholds near;
	Candidate	list[CANDIDATE_LIST];
	uint32_t	listed;

	PairBlock  *block;			/* being filled, or NULL */
	FastedStats work;			/* what the context's do not have yet */
	uint64_t	tell_at;		/* when it is told; see cpu_now */
} Worker;

struct FastedContext
{
	FastedOptions options;
	bool		cosine;			/* the metric */
	bool		doubles;		/* the rows' numbers */
	uint32_t	padded;			/* dimensions of rows in integers */
	const CpuKernel *kernel;
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

	FastedStats stats;			/* of all joins; the lock guards them */
	uint64_t	joins;			/* so far */
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

/* What a set needs to be of the join's form; the least first. */
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
	int			nsets;			/* without the same one again */
	bool		nearest;		/* neighbours are found */
	int			row_side;		/* the smaller set: its rows are the rows of tiles */
	FastedSet  *row_set;
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

	/* Pruning: cpu_choice.c. */
	bool		pruning;		/* it may be worth it, and a projection is of use */
	Projection *projection;		/* what the sets have or will have, or NULL */
	bool		fitting;		/* which is to be found */
	Packing		level_packing[2];	/* of each set */
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
	double		group_columns;	/* that a row meets there, in the mean */
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
extern void cpu_tell_work(Worker *worker);
extern void cpu_rest_after(FastedContext *context, uint64_t ms);
extern bool cpu_goes_on(FastedContext *context);
extern void cpu_sort_doubles(double *values, size_t count);
extern void cpu_do_slivers(Worker *worker, const Packing packing[2], Packing least,
						   void (*work) (Worker *worker, int set, size_t sliver));
extern uint32_t cpu_slice_length(const CpuKernel *kernel, uint32_t words, uint32_t step);
extern size_t cpu_packed_row_bytes(const FastedContext *context, uint32_t level);

/*
 * Room for so many rows, of a level or FULL_STAGE; what was packed is lost where it grows.
 * Level rows have no squares and no fine rows: only rows as they came are rechecked.
 */
extern bool cpu_packed_reserve(FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t level);
extern size_t cpu_packed_side_bytes(const FastedContext *context, uint32_t level);
extern void cpu_packed_free(FastedContext *context, PackedRows *packed);

/* Where so many packed rows and their thresholds will be. */
extern void cpu_packed_lay_out(const FastedContext *context, PackedRows *packed, size_t rows,
							   uint32_t dimensions, bool int8);

/* A form with one holder, or NULL; the last holder frees it. */
extern Form *cpu_form_new(FastedContext *context);
extern void cpu_form_drop(FastedContext *context, Form *form);

/* The number of the row at this place among the packed rows. */
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

/* The room of a row as the filter sees it, one of a sliver; NULL where the distance needs none. */
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
cpu_claim(FastedContext *context)
{
	return atomic_fetch_add_explicit(&context->next_claim, 1,
									 memory_order_relaxed);
}

/* The rows of the other set that a row of this side meets. */
static inline FastedSpan
cpu_rows_met(const FastedJoin *join, int side, uint32_t row)
{
	if (join->problem.groups != NULL)
		return fasted_columns_of_row(join->problem.groups, join->problem.ngroups, side, row);
	return (FastedSpan) {.first = 0,.end = (uint32_t) join->sets[1 - side]->rows.rows};
}

/* Rows of all sets. */
static inline uint64_t
cpu_join_rows(const FastedJoin *join)
{
	return join->sets[0]->rows.rows + (join->self ? 0 : join->sets[1]->rows.rows);
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
