/*-------------------------------------------------------------------------
 *
 * cpu_join.h
 *	  One join of two sets, or of one with itself, and its phases.
 *
 * Sets that are joined have one form, and are packed for one filter.  Where they
 * are not yet, the join begins with that; what the sets have already, it skips.
 *
 *	  TRY		is the larger set's form good for both?  If not:
 *	  CENTRE	a form is found from a sample of both: by coordinates
 *	  CHOOSE	INT8 or FP32, from a sample
 *	  FIT		pruning: a projection is found from a sample, if it promises anything
 *	  PROJECT	rows that are not of the projection
 *	  ORDER		near rows come together
 *	  LEVELS	projected rows are packed; or thresholds only
 *	  TEST		which levels pay, by a sample of tiles
 *	  PACK		rows that are not of the form; or thresholds only
 *	  JOIN		units of work
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CPU_JOIN_H
#define FASTED_CPU_JOIN_H

#include <float.h>

#include "../engine/exact_distance.h"
#include "../engine/row_groups.h"
#include "../engine/host_device.h"
#include "cpu_context.h"

/*
 * How long workers go on after the caller's last call: after pause, which is long
 * enough for callers that come in quick turns, such as the loops of PL/pgSQL; and
 * without it, where nobody told us that pairs are not wanted for now.
 */
#define PAUSE_MS 25
#define CALLER_AWAY_MS 1000

typedef enum Phase
{
	PHASE_TRY,					/* one thread */
	PHASE_CENTRE,
	PHASE_CHOOSE,				/* one thread */
	PHASE_FIT,					/* one thread */
	PHASE_PROJECT,				/* by slivers */
	PHASE_ORDER,				/* a thread a set */
	PHASE_LEVELS,				/* by slivers */
	PHASE_TEST,					/* one thread */
	PHASE_PACK,					/* by slivers */
	PHASE_RADII,				/* by blocks */
	PHASE_JOIN,
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

/* The golden ratio's share of 2^32. */
#define SPREAD_STEP UINT32_C(2654435769)

/*
 * Where rows may be in an order, near ones together, tiles on the diagonal have most of
 * the work, so a slice has claims here and there: multiples of the golden ratio fall evenly
 * into all slices, whichever numbers the diagonal's are.
 */
static inline bool
cpu_is_in_slice(const FastedJoin *join, uint64_t claim)
{
	uint32_t	place = (uint32_t) (claim + join->number) * SPREAD_STEP;

	return !join->spread ||
		(((uint64_t) place * join->problem.slices) >> 32) - join->problem.slice <= join->problem.more_slices;
}

/* What is engine.h's. */
extern FastedStatus cpu_join_open(FastedContext *context, const FastedProblem *problem,
								  FastedSet *a, FastedSet *b, FastedJoin **join);
extern FastedStatus cpu_next(FastedJoin *join, int timeout_ms, FastedBatch *batch);
extern void cpu_pause(FastedJoin *join);
extern FastedStatus cpu_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows,
							   uint32_t *counts);
extern FastedStatus cpu_nearest(FastedJoin *join, uint64_t first_row, size_t nrows,
								uint32_t *lengths, FastedNeighbor *neighbors);
extern void cpu_join_close(FastedJoin *join);

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

/* cpu_plan.c: false where memory runs out */
extern bool cpu_plan_join(FastedJoin *join);
extern uint64_t cpu_claims_of(const FastedJoin *join);

/* cpu_workers.c */
extern void cpu_begin_join(FastedJoin *join);
extern void cpu_stop_join(FastedJoin *join);

/* Rows of both sets, half of each: spread over them, so many from each. */
typedef struct Sample
{
	const RowStore *rows[2];
	uint32_t	counts[2];
} Sample;

static inline const float *
cpu_spread_row(const RowStore *rows, uint32_t s, uint32_t count)
{
	return row_store_row(rows, fasted_spread_row(s, count, (uint32_t) rows->rows));
}

static inline uint32_t
cpu_sample_size(const Sample *sample)
{
	return sample->counts[0] + sample->counts[1];
}

static inline const float *
cpu_stored_sample_row(const Sample *sample, uint32_t s)
{
	return s < sample->counts[0] ? cpu_spread_row(sample->rows[0], s, sample->counts[0])
		: cpu_spread_row(sample->rows[1], s - sample->counts[0], sample->counts[1]);
}

/* Coordinate k of a row as it came. */
static inline double
cpu_coordinate(const FastedContext *context, const float *row, uint32_t k)
{
	return cpu_has_doubles(context) ? ((const double *) row)[k] : (double) row[k];
}

/* cpu_direction.c: rows as the filter sees them */
extern const float *cpu_row_to_pack(Worker *worker, const PackedRows *to, size_t place,
									const float *row);
extern const float *cpu_filter_row(const Worker *worker, const float *row, float *to);
extern const float *cpu_sample_row(Worker *worker, const Sample *sample, uint32_t s);
extern double cpu_row_scale(const Worker *worker, const float *row);
extern double cpu_row_moved(const FastedContext *context, const float *row);

/* cpu_form.c */
extern Sample cpu_take_sample(const FastedJoin *join, uint32_t coordinates, uint32_t least,
							  uint32_t most);
extern void cpu_find_centre(Worker *worker);
extern void cpu_find_scale(FastedJoin *join);

/* Rows to be packed: in which form, for which eps, to where. */
typedef struct PackJob
{
	const Form *form;
	double		eps_upper;
	PackedRows *to;
	const double *moved;		/* how far the sliver's rows may be from exact ones; NULL: not */
	FineRows   *fine;			/* the same rows; NULL: not */
} PackJob;

/* The same in the scale of packed rows, no less. */
static inline double
cpu_moved(const PackJob *job, uint32_t r, double scale)
{
	return job->moved == NULL ? 0.0 : job->moved[r] * scale * (1.0 + DBL_EPSILON);
}

/*
 * The largest squared norm of a packed row that is not wild.  Inner products
 * and thresholds are at most that, well within FP32.
 */
#define NORM2_LIMIT 0x1p120

/* Has a row of a packed sliver too large a norm, or NaN for one? */
static inline bool
cpu_is_wild(const PackSliver *pack, uint32_t r)
{
	return !(pack->norm2[r] <= NORM2_LIMIT && pack->error2[r] <= NORM2_LIMIT);
}

/* cpu_pack.c: one sliver; a missing row, NULL, has no pairs. */
extern void cpu_pack_sliver(Worker *worker, const PackJob *job, size_t sliver,
							const float *const *rows);
/* How far rows of a pair within eps may be apart as the filter sees them. */
extern double cpu_reach(const FastedContext *context, double eps);
extern double cpu_eps_upper(const FastedJoin *join, const Form *form, bool int8, double eps);
extern void cpu_set_thresholds(Worker *worker, const PackJob *job, size_t sliver);
extern void cpu_begin_packing(FastedJoin *join);
extern void cpu_pack(Worker *worker);

/* Rows that a scale of integers is from, at most. */
#define FASTED_INT8_SCALE_ROWS 256

/* cpu_int8.c */
extern void cpu_int8_find_transform(Worker *worker, Form *form);
extern float cpu_int8_find_factor(Worker *worker, const Int8Transform *transform,
								  const float *const *rows, uint32_t count);
extern void cpu_int8_pack(Worker *worker, const PackJob *job, size_t sliver,
						  const float *const *rows);
extern void cpu_int8_set_thresholds(const PackJob *job, uint32_t width, size_t sliver);

/* cpu_fine.c */
extern bool cpu_fine_reserve(FastedContext *context, FineRows *fine, size_t rows);
extern void cpu_fine_free(FastedContext *context, FineRows *fine);
extern void cpu_fine_lay_out(const FastedJoin *join, FastedSet *set);
extern bool cpu_has_fine(const FastedJoin *join, const Form *form);
extern bool cpu_fine_may_pay(const FastedJoin *join, uint64_t candidates, uint64_t pairs,
							 uint64_t area);
extern float cpu_fine_factor(float typical);
extern void cpu_fine_pack_row(Worker *worker, const PackJob *job, size_t row,
							  uint32_t r);
extern void cpu_fine_set_thresholds(const PackJob *job, size_t first, size_t end);
extern uint32_t cpu_fine_keep(Worker *worker, const Strip *strip, uint32_t first);
extern void cpu_sort_candidates(Worker *worker);

/* cpu_choice.c */
extern bool cpu_prepare_choice(FastedJoin *join);
extern void cpu_try_form(Worker *worker);
extern void cpu_choose_filter(Worker *worker);
extern void cpu_keep_forms(FastedJoin *join);

/* cpu_unit.c */
extern void cpu_filter_strip(Worker *worker, const PackedRows *a, const PackedRows *b,
							 const Strip *strip);
extern void cpu_join_units(Worker *worker);

/* cpu_groups.c */
/* Rows of a block, a multiple of step, that groups are worth. */
extern uint32_t cpu_group_block(const FastedJoin *join, uint32_t step);
extern bool cpu_plan_strips(FastedJoin *join);
extern void cpu_forget_strips(FastedJoin *join);
extern bool cpu_locate_group_strip(const FastedJoin *join, uint64_t claim, Strip *strip);
extern void cpu_keep_group(Worker *worker, const Strip *strip, uint32_t row, uint32_t first);

/* cpu_nearest.c */
extern void cpu_find_choice_eps(Worker *worker);
extern bool cpu_begin_nearest(FastedJoin *join);
extern void cpu_set_near_strip(Worker *worker, const Strip *strip);
extern void cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
									TileSweep *sweep);

/* Does the filter go by the rows' radii now?  Not while a sample is looked at. */
static inline bool
cpu_goes_by_radii(const FastedJoin *join)
{
	return join->phase == PHASE_JOIN && cpu_finds_nearest(join);
}

/* cpu_radii.c */
extern void cpu_find_radii(Worker *worker);

/* cpu_levels.c */
extern bool cpu_project_set(Worker *worker, FastedSet *set, size_t sliver);
extern bool cpu_order_set(Worker *worker, FastedSet *set);
extern void cpu_lay_out_levels(const FastedContext *context, FastedSet *set, uint32_t levels);
extern void cpu_pack_levels(Worker *worker, FastedSet *set, size_t sliver);
extern void cpu_set_level_thresholds(Worker *worker, FastedSet *set, size_t sliver);

/* cpu_prune.c */
extern bool cpu_prepare_pruning(FastedJoin *join);
extern void cpu_fit_projection(Worker *worker);
extern bool cpu_begin_levels(FastedJoin *join);
extern void cpu_project(Worker *worker);
extern void cpu_order(Worker *worker);
extern void cpu_begin_level_packing(FastedJoin *join);
extern void cpu_pack_set_levels(Worker *worker);
extern void cpu_test_levels(Worker *worker);
extern void cpu_keep_levels(FastedJoin *join);

/* cpu_prune_tile.c */
extern void cpu_prune_strip(Worker *worker, const Strip *strip);

/*
 * How candidates are rechecked: rows as they came, or the first one widened, go into
 * a number, that and the rows' squares into the distance.  Doubles are never widened.
 */
typedef struct Recheck
{
	double		(*rows) (const float *x, const float *y, uint32_t dimensions);
	double		(*wide) (const double *x, const float *y, uint32_t dimensions);
	double		(*doubles) (const double *x, const double *y, uint32_t dimensions); /* or NULL */
	const double *squares_a;	/* NULL: the number is the distance */
	const double *squares_b;
} Recheck;

static inline Recheck
cpu_recheck(const FastedContext *context, const PackedRows *a, const PackedRows *b)
{
	const CpuKernel *kernel = context->kernel;

	bool		doubles = cpu_has_doubles(context);

	if (!cpu_is_cosine(context))
		return (Recheck) {.rows = kernel->distance,.wide = kernel->distance_wide,
			.doubles = doubles ? kernel->distance_double : NULL};
	return (Recheck) {.rows = kernel->dot,.wide = kernel->dot_wide,
		.doubles = doubles ? kernel->dot_double : NULL,
		.squares_a = a->squares,.squares_b = b->squares};
}

/* The number of two rows as they came. */
static inline double
cpu_recheck_rows(const Recheck *recheck, const float *x, const float *y, uint32_t dimensions)
{
	return recheck->doubles == NULL ? recheck->rows(x, y, dimensions)
		: recheck->doubles((const double *) x, (const double *) y, dimensions);
}

/* The canonical distance of the rows at these places, whose number this is. */
static inline double
cpu_distance(const Recheck *recheck, double number, size_t row, size_t col)
{
	return recheck->squares_a == NULL ? number
		: fasted_exact_cosine_of(number, recheck->squares_a[row], recheck->squares_b[col]);
}

/* cpu_refine.c */
extern void cpu_list_row(Worker *worker, const Strip *strip, uint32_t row, uint32_t number);
extern bool cpu_refine_strip(Worker *worker, const Strip *strip);
extern void cpu_flush_block(Worker *worker);

#endif							/* FASTED_CPU_JOIN_H */
