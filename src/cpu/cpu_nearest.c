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
#include "cpu_join.h"

/* Sampled rows that tell how far packing moves rows: this part of them at most so far. */
#define RHO_ROWS 256
#define RHO_PART 15 / 16

/* Sampled rows that tell how far neighbours are, and others that they are sought among. */
#define EPS_ROWS 64
#define EPS_OTHERS 256

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
	const CpuKernel *kernel = context->kernel;
	uint32_t	d = context->options.dimensions;
	double		xx;
	double		yy;

	if (!cpu_is_cosine(context))
		return kernel->distance(x, y, d);
	xx = kernel->dot(x, x, d);
	yy = kernel->dot(y, y, d);
	if (!fasted_has_direction(xx) || !fasted_has_direction(yy))
		return NAN;
	return fasted_exact_cosine_of(kernel->dot(x, y, d), xx, yy);
}

/* How far about the k-th neighbour of this row is, by some others; NaN: nobody knows. */
static double
radius_by_sample(Worker *worker, const float *row, uint32_t others)
{
	const FastedJoin *join = worker->join;
	const FastedSet *set = join->sets[1];
	double	   *distances = worker->near.reach;
	uint32_t	count = 0;
	uint64_t	place;

	for (uint32_t s = 0; s < others; s++)
	{
		const float *other = cpu_spread_row(&set->rows, s, others);
		double		dist = other == row ? NAN : distance_of(worker->context, row, other);

		if (!isnan(dist))
			distances[count++] = dist;
	}
	if (count == 0)
		return NAN;
	qsort(distances, count, sizeof(double), compare_doubles);
	place = (uint64_t) join->problem.k * others / set->rows.rows;
	return distances[place < count ? place : count - 1];
}

/* An eps by which a filter can be chosen: some rows' radius, as far as a sample tells. */
void
cpu_find_choice_eps(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->sets[0]->rows;
	const RowStore *others = &join->sets[1]->rows;
	uint32_t	nrows = rows->rows < EPS_ROWS ? (uint32_t) rows->rows : EPS_ROWS;
	uint32_t	nothers = others->rows < EPS_OTHERS ? (uint32_t) others->rows : EPS_OTHERS;
	double		radii[EPS_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < nrows && !cpu_stopping(worker->context); s++)
	{
		double		radius = radius_by_sample(worker, cpu_spread_row(rows, s, nrows), nothers);

		if (!isnan(radius))
			radii[count++] = radius;
	}
	if (count == 0)
		return;
	qsort(radii, count, sizeof(double), compare_doubles);
	join->choice_eps = fmin(join->problem.eps, radii[count / 2]);
}

/* --- before the units */

/* How far packing moved most rows of a set. */
static double
find_rho(const FastedSet *set)
{
	uint32_t	rows = set->rows.rows < RHO_ROWS ? (uint32_t) set->rows.rows : RHO_ROWS;
	double		rho[RHO_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < rows; s++)
	{
		const RowTerms *terms = &set->packed.terms[fasted_spread_row(s, rows, (uint32_t) set->rows.rows)];

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
	for (int i = 0; i < 2; i++)
		join->rho_most[i] = find_rho(join->sets[i]);
	return !join->problem.further && join->problem.k <= RADII_MOST &&
		join->problem.k < join->sets[1]->rows.rows;
}

/* --- thresholds of a strip */

/* One side of the strip. */
typedef struct Side
{
	const FastedJoin *join;
	const FastedSet *set;
	bool		lists;			/* its rows have lists */
	bool		columns;
	double		scale;
	double		rho_most;		/* of this side */
	double		rho_other;		/* and of the other one */
	double		gamma;
	double		alpha;
	double		slack;
} Side;

static Side
side_of(const FastedJoin *join, const FastedSet *set, bool columns)
{
	uint32_t	words = set->packed.layout.words;
	bool		second = set != join->sets[0];

	return (Side) {
		.join = join,.set = set,.lists = !second,.columns = columns,
		.scale = join->int8 ? (double) join->form->transform.scale : join->form->scale,
		.rho_most = join->rho_most[second],
		.rho_other = join->rho_most[join->self ? 0 : !second],
		.gamma = fasted_gamma32(words, 2),.alpha = fasted_alpha32(words),
		.slack = fasted_sum_slack(words),
	};
}

/* The threshold of a row whose part of the square of the reach is half of reach^2. */
static uint32_t
make_threshold(const Side *side, size_t place, double reach)
{
	const PackedRows *packed = &side->set->packed;
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
	const FastedContext *context = side->join->context;
	uint32_t	d = context->options.dimensions;
	double		radius = neighbor_radius(&side->set->lists, cpu_row_at(side->set, place));

	if (cpu_is_cosine(context))
		radius = fasted_direction_reach(radius, d);
	return fasted_eps_upper(radius, side->scale, d) + side->set->packed.terms[place].rho;
}

/* The rows' own thresholds; the largest finite reach, or zero. */
static double
make_own(const Side *side, size_t first, uint32_t count, uint32_t *own)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		reach = INFINITY;

		if (first + i < side->set->packed.rows && row_has_pairs(&side->set->packed.terms[first + i]))
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
		double		rho = side->set->packed.terms[first + i].rho;
		double		more = 0.0;

		if (row_has_pairs(&side->set->packed.terms[first + i]) && rho > side->rho_most)
			more = (rho - side->rho_most) * (2.0 * reach + rho + side->rho_most);
		other[i] = make_threshold(side, first + i, sqrt(2.0 * more) * (1.0 + 16 * FASTED_U64));
	}
}

void
cpu_set_near_thresholds(Worker *worker, const Strip *strip)
{
	FastedJoin *join = worker->join;
	NearThresholds *near = &worker->near;
	uint32_t	step = join->context->kernel->tile_rows;
	Side		a = side_of(join, join->row_set, false);
	Side		b = side_of(join, join->col_set, true);
	uint32_t	rows = (strip->rows_a + step - 1) / step * step;
	uint64_t	left = b.set->packed.layout.padded_rows - strip->first_b;
	uint64_t	most = (uint64_t) strip->blocks * strip->block_rows;
	uint32_t	cols = (uint32_t) (left < most ? left : most);
	bool		known = near->blocks == strip->blocks && near->first_b == strip->first_b;
	double		reach_a = 0.0;

	near->blocks = strip->blocks;
	near->first_b = strip->first_b;
	if (b.lists && !known)
		near->reach_b = make_own(&b, strip->first_b, cols, near->b_own);
	if (b.lists)
		make_other(&a, strip->first_a, rows, near->reach_b, near->a_other);
	if (!a.lists)
		return;
	reach_a = make_own(&a, strip->first_a, rows, near->a_own);
	if (known && reach_a <= near->reach_a)
		return;
	near->reach_a = REACH_ROOM * reach_a;
	make_other(&b, strip->first_b, cols, near->reach_a, near->b_other);
}

/* Those of a column of tiles, so many columns from the strip's first one on. */
void
cpu_point_at_thresholds(const Worker *worker, const Strip *strip, uint32_t number, TileSweep *sweep)
{
	const FastedJoin *join = worker->join;
	const NearThresholds *near = &worker->near;

	(void) strip;
	if (join->row_set != join->sets[0])
	{
		sweep->a_threshold = near->a_other;
		sweep->b_threshold = near->b_own + number;
		return;
	}
	sweep->a_threshold = near->a_own;
	sweep->b_threshold = near->b_other + number;
	if (!join->self)
		return;
	sweep->a_second = near->a_other;
	sweep->b_second = near->b_own + number;
}
