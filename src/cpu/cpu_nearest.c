/*-------------------------------------------------------------------------
 *
 * cpu_nearest.c
 *	  Nearest rows: the filter goes by the rows' radii.
 *
 * A pair is of interest to the list of either of its rows, so that a tile is held
 * against two pairs of thresholds: those of a row's own list, which have the radius,
 * beside those of others' lists.  They are made for each strip, of the radii that there
 * are; of columns for some strips.  Old radii are safe: they are larger.
 *
 * That no neighbour is lost is proved in doc/bound-nearest.md.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>

#include "../engine/filter_bound.h"
#include "cpu_filter.h"
#include "cpu_groups.h"
#include "cpu_recheck.h"

/* Sampled rows that tell how far packing moves rows: this part of them at most so far. */
#define RHO_ROWS 256
#define RHO_PART 15 / 16

/* Sampled rows that tell how far neighbours are, and others that they are sought among. */
#define EPS_ROWS 64
#define EPS_OTHERS 256

/* Where a row meets fewer others in its group, all of them are rechecked soon. */
#define RADII_LEAST 256

/* The largest reach may grow so much before thresholds of columns are made again. */
#define REACH_ROOM 1.25

static int
compare_doubles(const void *left, const void *right)
{
	double		x = *(const double *) left;
	double		y = *(const double *) right;

	return (x > y) - (x < y);
}

/* --- which filter */

/* The distance of two rows as they came; NaN: they have none. */
static double
distance_of(const FastedContext *context, const float *x, const float *y)
{
	/* its squares are not asked for */
	const Recheck recheck = cpu_recheck(context, &context->samples[0], &context->samples[0]);
	uint32_t	d = context->options.dimensions;
	double		xx;
	double		yy;

	if (!cpu_is_cosine(context))
		return cpu_recheck_rows(&recheck, x, y, d);
	xx = cpu_recheck_rows(&recheck, x, x, d);
	yy = cpu_recheck_rows(&recheck, y, y, d);
	if (!fasted_has_direction(xx) || !fasted_has_direction(yy))
		return NAN;
	return fasted_exact_cosine_of(cpu_recheck_rows(&recheck, x, y, d), xx, yy);
}

/* The rows of set b that a row of set a meets. */
static FastedSpan
others_of(const FastedJoin *join, uint32_t row)
{
	if (join->problem.groups != NULL)
		return fasted_columns_of_row(join->problem.groups, join->problem.ngroups, 0, row);
	return (FastedSpan) {.first = 0,.end = (uint32_t) join->sets[1]->rows.rows};
}

/* How far about the k-th neighbour of this row is, by some others; NaN: nobody knows. */
static double
radius_by_sample(Worker *worker, uint32_t number)
{
	const FastedJoin *join = worker->join;
	const float *row = row_store_row(&join->sets[0]->rows, number);
	FastedSpan	span = others_of(join, number);
	uint32_t	all = span.end - span.first;
	uint32_t	others = all < EPS_OTHERS ? all : EPS_OTHERS;
	double	   *distances = worker->near.reach;
	uint32_t	count = 0;
	uint64_t	place;

	for (uint32_t s = 0; s < others; s++)
	{
		const float *other = row_store_row(&join->sets[1]->rows,
										   span.first + fasted_spread_row(s, others, all));
		double		dist = other == row ? NAN : distance_of(worker->context, row, other);

		if (!isnan(dist))
			distances[count++] = dist;
	}
	if (count == 0)
		return NAN;
	qsort(distances, count, sizeof(double), compare_doubles);
	place = (uint64_t) join->problem.k * others / all;
	return distances[place < count ? place : count - 1];
}

/* An eps by which a filter can be chosen: some rows' radius, as far as a sample tells. */
void
cpu_find_choice_eps(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->sets[0]->rows;
	uint32_t	nrows = rows->rows < EPS_ROWS ? (uint32_t) rows->rows : EPS_ROWS;
	double		radii[EPS_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < nrows && !cpu_stopping(worker->context); s++)
	{
		double		radius = radius_by_sample(worker, fasted_spread_row(s, nrows,
																		(uint32_t) rows->rows));

		if (!isnan(radius))
			radii[count++] = radius;
	}
	if (count == 0)
		return;
	qsort(radii, count, sizeof(double), compare_doubles);
	join->choice_eps = fmin(join->problem.eps, radii[count / 2]);
}

/* --- before the units */

static const PackedRows *
packed_of(const FastedSet *set, int stage)
{
	return stage == FULL_STAGE ? &set->packed : &set->levels.packed[stage];
}

/* How far packing moved most rows of a set. */
static double
find_rho(const FastedSet *set, const PackedRows *packed)
{
	uint32_t	rows = set->rows.rows < RHO_ROWS ? (uint32_t) set->rows.rows : RHO_ROWS;
	double		rho[RHO_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < rows; s++)
	{
		const RowTerms *terms = &packed->terms[fasted_spread_row(s, rows, (uint32_t) set->rows.rows)];

		if (row_has_pairs(terms) && terms->rho <= DBL_MAX)
			rho[count++] = terms->rho;
	}
	if (count == 0)
		return 0.0;
	qsort(rho, count, sizeof(double), compare_doubles);
	return rho[(count - 1) * RHO_PART];
}

/* Rows are packed; is it of use to look for first radii?  With the lock held. */
bool
cpu_begin_nearest(FastedJoin *join)
{
	for (int stage = 0; stage <= FULL_STAGE; stage++)
	{
		bool		there = stage == FULL_STAGE || (join->levels >> stage & 1) != 0;

		for (int i = 0; i < 2 && there; i++)
			join->rho_most[stage][i] = find_rho(join->sets[i], packed_of(join->sets[i], stage));
	}
	return !join->problem.further && join->problem.k <= RADII_MOST &&
		join->problem.k < join->sets[1]->rows.rows &&
		(join->problem.groups == NULL || cpu_group_columns(join) >= RADII_LEAST);
}

/* --- thresholds of a strip */

/* One side of the strip. */
typedef struct Side
{
	const FastedJoin *join;
	const FastedSet *set;
	const PackedRows *packed;
	int			stage;
	bool		lists;			/* its rows have lists */
	bool		columns;
	double		rho_most;		/* of this side */
	double		rho_other;		/* and of the other one */
	double		gamma;
	double		alpha;
	double		slack;
} Side;

static Side
side_of(const FastedJoin *join, const FastedSet *set, int stage, bool columns)
{
	const PackedRows *packed = packed_of(set, stage);
	uint32_t	words = packed->layout.words;
	bool		second = set != join->sets[0];

	return (Side) {
		.join = join,.set = set,.packed = packed,.stage = stage,.lists = !second,.columns = columns,
		.rho_most = join->rho_most[stage][second],
		.rho_other = join->rho_most[stage][join->self ? 0 : !second],
		.gamma = fasted_gamma32(words, 2),.alpha = fasted_alpha32(words),
		.slack = fasted_sum_slack(words),
	};
}

/* The threshold of a row whose part of the square of the reach is half of reach^2. */
static uint32_t
make_threshold(const Side *side, size_t place, double reach)
{
	const PackedRows *packed = side->packed;
	const RowTerms *terms = &packed->terms[place];
	int32_t		integer = FASTED_INT8_PADDING;
	union
	{
		float		number;
		uint32_t	word;
	}			real = {.number = INFINITY};

	if (!packed->layout.int8)
	{
		if (row_has_pairs(terms))
			real.number = fasted_threshold(terms->norm2 * (1.0 - side->slack),
										   terms->norm2 * (1.0 + side->slack),
										   0.0, reach, side->gamma, side->alpha);
		return real.word;
	}
	if (row_has_pairs(terms))
		integer = fasted_threshold_int(terms->norm2, 0.0, reach);
	if (!side->columns)
		return (uint32_t) integer;
	/* what columns have more where rows are flipped */
	return (uint32_t) integer + ((const uint32_t *) packed->as_b.threshold)[place]
		- ((const uint32_t *) packed->as_a.threshold)[place];
}

/* How far a neighbour's packed row is at most, less what packing moved that. */
static double
reach_of(const Side *side, size_t place)
{
	const FastedJoin *join = side->join;
	double		radius = neighbor_radius(&side->set->lists, cpu_row_at(side->set, place));
	double		upper = side->stage == FULL_STAGE
		? cpu_eps_upper(join, join->form, join->int8, radius)
		: cpu_level_eps_upper(join->context, join->projection, (uint32_t) side->stage, radius);

	return upper + side->packed->terms[place].rho;
}

/* The rows' own thresholds; the largest finite reach, or zero. */
static double
make_own(const Side *side, size_t first, uint32_t count, uint32_t *own)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		reach = INFINITY;

		if (first + i < side->packed->rows && row_has_pairs(&side->packed->terms[first + i]))
			reach = reach_of(side, first + i);
		if (reach <= DBL_MAX && reach > most)
			most = reach;
		own[i] = make_threshold(side, first + i,
								sqrt(2.0) * (reach + side->rho_other) * (1.0 + 16 * FASTED_U64));
	}
	return most;
}

/*
 * The rows' thresholds for lists of the other side, whose reaches are at most this, or
 * infinite.
 */
static void
make_other(const Side *side, size_t first, uint32_t count, double reach, uint32_t *other)
{
	for (uint32_t i = 0; i < count; i++)
	{
		double		rho = side->packed->terms[first + i].rho;
		double		more = 0.0;

		if (row_has_pairs(&side->packed->terms[first + i]) && rho > side->rho_most)
			more = (rho - side->rho_most) * (2.0 * reach + rho + side->rho_most);
		other[i] = make_threshold(side, first + i, sqrt(2.0 * more) * (1.0 + 16 * FASTED_U64));
	}
}

/* The thresholds of the strip at this stage, made when they are wanted first. */
static const StageThresholds *
thresholds_of(Worker *worker, int number)
{
	FastedJoin *join = worker->join;
	NearThresholds *near = &worker->near;
	StageThresholds *stage = &near->stages[number];
	bool		known = stage->columns == near->columns;
	double		reach;
	Side		a;
	Side		b;

	if (stage->strip == near->strip)
		return stage;
	a = side_of(join, join->row_set, number, false);
	b = side_of(join, join->col_set, number, true);
	stage->strip = near->strip;
	stage->columns = near->columns;
	if (b.lists && !known)
		stage->reach_b = make_own(&b, near->first_b, near->cols, stage->b_own);
	if (b.lists)
		make_other(&a, near->first_a, near->rows, stage->reach_b, stage->a_other);
	if (!a.lists)
		return stage;
	reach = make_own(&a, near->first_a, near->rows, stage->a_own);
	if (known && reach <= stage->reach_a)
		return stage;
	stage->reach_a = REACH_ROOM * reach;
	make_other(&b, near->first_b, near->cols, stage->reach_a, stage->b_other);
	return stage;
}

/* This strip is next. */
void
cpu_set_near_strip(Worker *worker, const Strip *strip)
{
	const FastedJoin *join = worker->join;
	NearThresholds *near = &worker->near;
	uint32_t	step = join->context->kernel->tile_rows;
	uint64_t	left = join->col_set->packed.layout.padded_rows - strip->first_b;
	uint64_t	most = (uint64_t) strip->blocks * strip->block_rows;
	uint32_t	cols = (uint32_t) (left < most ? left : most);

	if (near->cols != cols || near->first_b != strip->first_b)
		near->columns++;
	near->strip++;
	near->first_a = strip->first_a;
	near->rows = (strip->rows_a + step - 1) / step * step;
	near->first_b = strip->first_b;
	near->cols = cols;
}

/* The stage that these rows, of the side of rows, are packed for. */
static int
stage_of(const FastedJoin *join, const PackedRows *a)
{
	return a == &join->row_set->packed ? FULL_STAGE : (int) (a - join->row_set->levels.packed);
}

/* The thresholds of tiles that begin there. */
void
cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
						TileSweep *sweep)
{
	const FastedJoin *join = worker->join;
	const StageThresholds *stage = thresholds_of(worker, stage_of(join, a));

	row -= worker->near.first_a;
	col -= worker->near.first_b;
	if (join->row_set != join->sets[0])
	{
		sweep->a_threshold = stage->a_other + row;
		sweep->b_threshold = stage->b_own + col;
		return;
	}
	sweep->a_threshold = stage->a_own + row;
	sweep->b_threshold = stage->b_other + col;
	if (!join->self)
		return;
	sweep->a_second = stage->a_other + row;
	sweep->b_second = stage->b_own + col;
}
