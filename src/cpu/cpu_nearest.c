/*-------------------------------------------------------------------------
 *
 * cpu_nearest.c
 *	  Nearest neighbors: initial radii, computed before any recheck, and filtering by the radii.
 *
 * The largest distance of a row to any k other rows is an upper bound of the distance of its k-th
 * neighbour.  The filter's products with rows adjacent in the order show which rows are near.
 * These rows do not enter the lists here, because the join finds them again.
 *
 * A pair may enter the list of either of its rows.  So a tile is tested with two pairs of
 * thresholds.  One uses the radii of the tile's rows, the other the radii of its columns.
 * Thresholds are computed for each strip from the current radii, those of columns only when
 * necessary.  Outdated radii are safe because they are larger.
 *
 * doc/internals/bound-nearest.md proves that no neighbour is lost.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "cpu_bits.h"
#include "cpu_filter.h"
#include "cpu_phases.h"

/* Rows sampled to estimate the packing error, and the fraction of them that the estimate covers. */
#define RHO_ROWS 256
#define RHO_PART 15 / 16

/* Rows sampled to estimate the distance of neighbours, and the rows each is compared with. */
#define EPS_ROWS 64
#define EPS_OTHERS 256

/* Within partitions, initial radii are computed only if a row is compared with this many others. */
#define RADII_LEAST 256

/* The thresholds of columns allow for a reach larger by this factor, so that they can be reused. */
#define REACH_ROOM 1.25

/* Rows of bits: exceeds the rounding errors of a threshold. */
#define BITS_SLACK 0x1p-30

/* --- which filter */

/* Returns the distance of two input rows; NaN if a row has no direction. */
static double
distance_of(const FastedContext *context, const float *x, const float *y)
{
	/* the squares of these samples are not used */
	const Recheck recheck = cpu_recheck(context, &context->samples[0], &context->samples[0]);
	uint32_t	d = context->length;
	double		xx;
	double		yy;

	if (recheck.of_squares == NULL)
		return cpu_distance(&recheck, recheck.rows(x, y, d), 0, 0);
	xx = recheck.rows(x, x, d);
	yy = recheck.rows(y, y, d);
	if (!fasted_has_direction(xx) || !fasted_has_direction(yy))
		return NAN;
	return recheck.of_squares(recheck.rows(x, y, d), xx, yy);
}

/*
 * Returns the row's bound, if it has a finite one.  Otherwise estimates the distance of its k-th
 * neighbour from a sample; NaN if that is not possible.
 */
static double
radius_by_sample(Worker *worker, uint32_t number)
{
	const FastedJoin *join = worker->join;
	const float *row = row_store_row(&join->sets[0]->rows, number);
	FastedSpan	span = cpu_rows_met(join, 0, number);
	uint32_t	all = span.end - span.first;
	uint32_t	others = all < EPS_OTHERS ? all : EPS_OTHERS;
	double	   *distances = worker->near.reach;
	uint32_t	count = 0;
	uint64_t	place;

	if (join->problem.components != NULL && isfinite(join->problem.components->bound[number]))
		return join->problem.components->bound[number];
	for (uint32_t s = 0; s < others; s++)
	{
		const float *other = row_store_row(&join->sets[1]->rows,
										   span.first + fasted_sample_row(s, others, all));
		double		dist = other == row ? NAN : distance_of(worker->context, row, other);

		if (!isnan(dist))
			distances[count++] = dist;
	}
	if (count == 0)
		return NAN;
	cpu_sort_doubles(distances, count);
	place = (uint64_t) join->problem.k * others / all;
	return distances[place < count ? place : count - 1];
}

/* Sets the eps for which the filter is chosen: the median radius of a sample of rows. */
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
		double		radius = radius_by_sample(worker, fasted_sample_row(s, nrows,
																		(uint32_t) rows->rows));

		if (!isnan(radius))
			radii[count++] = radius;
	}
	if (count == 0)
		return;
	cpu_sort_doubles(radii, count);
	join->choice_eps = fmin(join->problem.eps, join->context->product ? radii[count / 2]
							: fmax(radii[count / 2], 0.0));
}

/* --- before the units */

static const PackedRows *
packed_of(const FastedSet *set, int stage)
{
	return stage == FULL_STAGE ? &set->packed : &set->levels.packed[stage];
}

/* Returns a bound of the packing error that holds for most rows of a set. */
static double
find_rho(const FastedSet *set, const PackedRows *packed)
{
	uint32_t	rows = set->rows.rows < RHO_ROWS ? (uint32_t) set->rows.rows : RHO_ROWS;
	double		rho[RHO_ROWS];
	uint32_t	count = 0;

	for (uint32_t s = 0; s < rows; s++)
	{
		const RowTerms *terms = &packed->terms[fasted_sample_row(s, rows, (uint32_t) set->rows.rows)];

		if (row_has_pairs(terms) && terms->rho <= DBL_MAX)
			rho[count++] = terms->rho;
	}
	if (count == 0)
		return 0.0;
	cpu_sort_doubles(rho, count);
	return rho[(count - 1) * RHO_PART];
}

/*
 * Called when rows are packed.  Returns true if initial radii are to be computed.  The caller holds
 * the lock.
 */
bool
cpu_begin_nearest(FastedJoin *join)
{
	for (int stage = 0; stage <= FULL_STAGE; stage++)
	{
		bool		there = stage == FULL_STAGE || (join->levels >> stage & 1) != 0;

		for (int i = 0; i < 2 && there; i++)
			join->rho_most[stage][i] = find_rho(join->sets[i], packed_of(join->sets[i], stage));
	}
	return !join->problem.continues && join->problem.k <= RADII_MOST &&
		(join->problem.components == NULL || join->unbounded) &&
		join->problem.k < join->sets[1]->rows.rows &&
		(join->problem.partitions == NULL || join->partition_columns >= RADII_LEAST);
}

/* --- thresholds of a strip */

/* One side of the strip. */
typedef struct Side
{
	const FastedJoin *join;
	const FastedSet *set;
	const PackedRows *packed;
	int			stage;
	bool		lists;			/* its rows have neighbor lists */
	bool		columns;
	double		rho_most;		/* bound of the packing error of most rows of this side */
	double		rho_other;		/* the same for the other side */
	double		gamma;
	double		alpha;
	double		slack;
	double		spread;
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
		.spread = cpu_product_spread(join->context, join->form, join->int8, join->choice_eps),
	};
}

/* Returns a row's threshold, where `half` is its share of the squared distance. */
static uint32_t
make_threshold(const Side *side, size_t place, double half)
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
										   half, side->gamma, side->alpha);
		return real.word;
	}
	if (row_has_pairs(terms))
		integer = fasted_threshold_int(terms->norm2, half);
	if (!side->columns)
		return (uint32_t) integer;
	/* the correction of columns if the rows are flipped */
	return (uint32_t) integer + ((const uint32_t *) packed->as_b.threshold)[place]
		- ((const uint32_t *) packed->as_a.threshold)[place];
}

/* Returns a row's radius, raised to the least one for which thresholds can be computed. */
static double
radius_at(const Side *side, size_t place)
{
	return fmax(neighbor_radius(&side->set->lists, cpu_row_at(side->set, place)),
				side->join->context->product ? -FLT_MAX : 0.0);
}

/* Returns the share of a row in the squared distance of a pair, if it is reach^2. */
static double
half_of_reach(double reach)
{
	return fasted_reach_half(0.0, sqrt(2.0) * reach * (1.0 + 16 * FASTED_U64));
}

/*
 * The same for inner products (doc/internals/bound.md, section 8).  The radius is zero
 * unless the row's own list is meant.
 */
static double
half_of_product(const Side *side, size_t place, double radius)
{
	const FastedJoin *join = side->join;

	return cpu_product_half(join->context, join->form, side->packed, place, 2.0 * radius,
							side->spread, false);
}

/*
 * Returns an upper bound of the distance of a neighbour's packed row, excluding the packing error
 * of that row.
 */
static double
reach_of(const Side *side, size_t place)
{
	const FastedJoin *join = side->join;
	double		radius = radius_at(side, place);
	double		upper = side->stage == FULL_STAGE
		? cpu_eps_upper(join, join->form, join->int8, radius)
		: cpu_level_eps_upper(join->context, join->projection, (uint32_t) side->stage, radius);

	return upper + side->packed->terms[place].rho;
}

/* Computes the rows' thresholds for their own lists.  Returns the largest finite reach, or zero. */
static double
make_own(const Side *side, size_t first, uint32_t count, uint32_t *own)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		reach = INFINITY;
		double		half = INFINITY;

		if (first + i < side->packed->rows && row_has_pairs(&side->packed->terms[first + i]))
		{
			if (side->join->context->product)
				half = half_of_product(side, first + i, radius_at(side, first + i));
			else
			{
				reach = reach_of(side, first + i);
				half = half_of_reach(reach + side->rho_other);
			}
		}
		if (reach <= DBL_MAX && reach > most)
			most = reach;
		own[i] = make_threshold(side, first + i, half);
	}
	return most;
}

/*
 * Computes the rows' thresholds for lists of the other side, whose finite reaches are at most
 * `reach`.
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
		other[i] = make_threshold(side, first + i, side->join->context->product
								  ? half_of_product(side, first + i, 0.0)
								  : half_of_reach(sqrt(more)));
	}
}

/* --- thresholds of rows of bits: doc/internals/bound.md, section 10 */

/*
 * Returns a row's reach: the Hamming distance of its neighbours at most; of the Jaccard distance,
 * divided by the sum of both numbers of bits.
 */
static double
bits_reach(const Side *side, size_t place)
{
	bool		jaccard = side->join->context->jaccard;
	double		radius;

	if (place >= side->packed->rows)
		return 0.0;
	radius = radius_at(side, place);
	return jaccard ? fasted_bits_reach(true, radius, 1)
		: fmin(floor(radius), FASTED_MAX_DIMENSIONS);
}

static bool
bits_have_pairs(const Side *side, size_t place)
{
	const RowTerms *terms = &side->packed->terms[place];

	return row_has_pairs(terms) &&
		cpu_bits_have_pairs(side->join->context, terms->norm2, side->join->problem.eps);
}

/*
 * Computes the rows' thresholds for their own lists.  reach has the rows' reaches, none of which
 * exceeds `most`; rows of the other side have at least `least` bits.
 */
static void
make_bits_own(const Side *side, size_t first, uint32_t count, const double *reach, double most,
			  double least, uint32_t *own)
{
	bool		jaccard = side->join->context->jaccard;

	for (uint32_t i = 0; i < count; i++)
	{
		double		share = reach[i];

		if (jaccard)
			share = reach[i] * side->packed->terms[first + i].norm2 - (most - reach[i]) * least
				+ BITS_SLACK;
		own[i] = bits_have_pairs(side, first + i) ? (uint32_t) -(int32_t) floor(share)
			: FASTED_INT8_PADDING;
	}
}

/* Computes the rows' thresholds for lists of the other side, whose reaches are at most `most`. */
static void
make_bits_other(const Side *side, size_t first, uint32_t count, double most, uint32_t *other)
{
	bool		jaccard = side->join->context->jaccard;

	for (uint32_t i = 0; i < count; i++)
	{
		double		share = jaccard ? most * side->packed->terms[first + i].norm2 + BITS_SLACK : 0.0;

		other[i] = bits_have_pairs(side, first + i) ? (uint32_t) -(int32_t) ceil(share)
			: FASTED_INT8_PADDING;
	}
}

/* Returns the smallest number of bits of the rows from `first` on that may have pairs. */
static double
least_bits(const Side *side, size_t first, uint32_t count)
{
	double		least = INFINITY;

	for (uint32_t i = 0; i < count; i++)
	{
		if (bits_have_pairs(side, first + i))
			least = fmin(least, side->packed->terms[first + i].norm2);
	}
	return least < INFINITY ? least : 0.0;
}

static double
bits_reaches(const Side *side, size_t first, uint32_t count, double *reach)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		reach[i] = bits_reach(side, first + i);
		most = fmax(most, reach[i]);
	}
	return most;
}

/* Computes the strip's thresholds.  The columns' reaches are retained. */
static void
make_bits_thresholds(NearThresholds *near, const Side *a, const Side *b, StageThresholds *stage)
{
	if (b->lists)
	{
		if (stage->columns != near->columns)
			stage->reach_b = bits_reaches(b, near->first_b, near->cols, near->reach);
		make_bits_own(b, near->first_b, near->cols, near->reach, stage->reach_b,
					  least_bits(a, near->first_a, near->rows), stage->b_own);
		make_bits_other(a, near->first_a, near->rows, stage->reach_b, stage->a_other);
	}
	if (a->lists)
	{
		double		reach[STRIP_ROWS];

		stage->reach_a = bits_reaches(a, near->first_a, near->rows, reach);
		make_bits_own(a, near->first_a, near->rows, reach, stage->reach_a,
					  least_bits(b, near->first_b, near->cols), stage->a_own);
		make_bits_other(b, near->first_b, near->cols, stage->reach_a, stage->b_other);
	}
}

/* Returns the thresholds of the strip at a stage.  They are computed when first needed. */
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
	if (join->context->bits)
	{
		make_bits_thresholds(near, &a, &b, stage);
		stage->columns = near->columns;
		return stage;
	}
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

/* Begins a strip. */
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

/* Returns the stage of packed rows that are the rows of tiles. */
static int
stage_of(const FastedJoin *join, const PackedRows *a)
{
	return a == &join->row_set->packed ? FULL_STAGE : (int) (a - join->row_set->levels.packed);
}

/* Points a sweep at the thresholds of tiles that begin at this row and column. */
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

/* --- initial radii */

/* Columns that a row is compared with: COLUMNS for at most FEW_NEIGHBORS, or MOST_COLUMNS. */
#define FEW_NEIGHBORS 32
#define COLUMNS 1024
#define MOST_COLUMNS 2048

/* Number of sums that fit into the worker's buffer. */
#define ROOM (FASTED_MAX_BLOCK * FASTED_MAX_BLOCK)

/* Number of columns tested together.  The width of every tile is a multiple of it. */
#define SUMS_STEP 8

/* A block of rows and the columns that it is compared with. */
typedef struct RadiusSearch
{
	Worker	   *worker;
	const FastedSet *rows;
	const FastedSet *cols;
	bool		integer;		/* sums are integers */
	size_t		first_row;
	uint32_t	nrows;			/* whole tiles */
	size_t		first_col;		/* wraps around at the end of the set */
	uint32_t	ncols;			/* whole tiles */
	size_t		apart;			/* distance of consecutive tile columns, in tiles */
	FastedSpan	allowed;		/* places allowed for the current row */
} RadiusSearch;

/* Returns a column's place in its set. */
static size_t
col_place(const RadiusSearch *search, uint32_t col)
{
	size_t		step = search->worker->context->kernel->tile_cols;

	return (search->first_col + col + col / step * (search->apart - 1) * step)
		% search->cols->packed.layout.padded_rows;
}

/*
 * Stores the columns' squared norms, which are added to the squared distance besides the product.
 * For inner products the squared norm of the input row is subtracted, so that the sum is -2 x.y and
 * a term that depends on the row only.  The norm is infinite if the column must be ignored.  For rows
 * of bits, the product is minus the Hamming distance of folded rows, which takes the place of the
 * squared distance.
 */
static void
prepare_columns(const RadiusSearch *search)
{
	NearThresholds *near = &search->worker->near;
	bool		product = search->worker->context->product;
	const PackedRows *packed = &search->cols->packed;
	bool		bits = search->worker->context->bits;
	double		scale = bits ? 1.0 : cpu_form_scale(search->worker->join->form, search->integer);

	for (uint32_t col = 0; col < search->ncols; col++)
	{
		size_t		place = col_place(search, col);
		const RowTerms *terms = &packed->terms[place];
		bool		good = place < packed->rows && row_has_pairs(terms) && terms->rho <= DBL_MAX;

		near->norms[col] = !good ? INFINITY : bits ? 0.0f
			: (float) (terms->norm2 - (product ? scale * scale * packed->squares[place] : 0.0));
		near->flip_sums[col] = !search->integer || bits ? 0
			: ((const uint32_t *) packed->as_b.threshold)[place]
			- ((const uint32_t *) packed->as_a.threshold)[place];
	}
}

/*
 * Computes the products of all rows with all columns, one tile column after another.  Returns
 * false if the join is being closed.
 */
static bool
make_sums(const RadiusSearch *search)
{
	const FastedContext *context = search->worker->context;
	const CpuKernel *kernel = context->kernel;
	const PackedRows *a = &search->rows->packed;
	const PackedRows *b = &search->cols->packed;
	TileSweep	sweep = {.tiles = search->nrows / kernel->tile_rows};

	for (uint32_t col = 0; col < search->ncols; col += kernel->tile_cols)
	{
		sweep.partial = (uint32_t *) search->worker->partial + (size_t) col * search->nrows;
		for (uint32_t k = 0; k < b->layout.words; k += b->layout.slice)
		{
			if (cpu_stopping(context))
				return false;
			cpu_point_at_slice(&sweep, kernel, a, search->first_row, b, col_place(search, col), k);
			sweep.last = false;	/* store the sums instead of testing them */
			cpu_sweep(kernel, b, &sweep);
		}
	}
	return true;
}

/*
 * Computes the squared distances to SUMS_STEP columns.  Returns false if none is below `best`,
 * which is the usual case.
 */
static inline bool
find_squares(const uint32_t *sums, const float *norms, const uint32_t *flip_sums, bool int8,
			 float best, float *squares)
{
	uint32_t	below = 0;

	for (uint32_t i = 0; i < SUMS_STEP; i++)
	{
		float		product;

		if (int8)
			product = (float) (int32_t) (sums[i] - flip_sums[i]);
		else
			memcpy(&product, &sums[i], sizeof(product));
		squares[i] = norms[i] - 2.0f * product;
		below |= squares[i] < best;
	}
	return below != 0;
}

/* Offers SUMS_STEP columns from `first` on to the heap of nearest columns. */
static void
offer_columns(const RadiusSearch *search, uint32_t k, size_t place, const uint32_t *sums,
			  uint32_t first)
{
	NearThresholds *near = &search->worker->near;
	const float *norms = near->norms + first;
	const uint32_t *flip_sums = near->flip_sums + first;
	float		best = (float) near->nearest[0].dist;
	float		squares[SUMS_STEP];

	if (!(search->integer ? find_squares(sums, norms, flip_sums, true, best, squares)
		  : find_squares(sums, norms, flip_sums, false, best, squares)))
		return;
	for (uint32_t i = 0; i < SUMS_STEP; i++)
	{
		size_t		col = col_place(search, first + i);

		if (squares[i] < near->nearest[0].dist && (search->rows != search->cols || col != place) &&
			col >= search->allowed.first && col < search->allowed.end &&
			(search->worker->join->problem.components == NULL ||
			 cpu_are_components_apart(search->worker->join, place, col)))
			neighbor_heap_replace(near->nearest, k, (FastedNeighbor) {.row = first + i,.dist = squares[i]});
	}
}

/*
 * Finds the k columns whose packed rows are nearest to this row.  Returns false if there are
 * fewer.
 */
static bool
find_nearest(const RadiusSearch *search, uint32_t k, uint32_t row)
{
	const CpuKernel *kernel = search->worker->context->kernel;
	uint32_t	side = search->worker->join->int8 ? kernel->int8->part : 0;
	uint32_t	run = side > 0 ? side : kernel->tile_cols;
	uint32_t	in_tile = row % kernel->tile_rows;
	const uint32_t *tile = (const uint32_t *) search->worker->partial
		+ (size_t) (row / kernel->tile_rows) * kernel->tile_rows * kernel->tile_cols;

	for (uint32_t i = 0; i < k; i++)
		search->worker->near.nearest[i] = (FastedNeighbor) {.dist = INFINITY};
	for (uint32_t col = 0; col < search->ncols; col += run)
	{
		uint32_t	tile_col = col / kernel->tile_cols * kernel->tile_cols;
		const uint32_t *sums = tile + (size_t) tile_col * search->nrows;

		if (side == 0)
			sums += in_tile * run;
		else
			sums += (in_tile / side * (kernel->tile_cols / side) + (col - tile_col) / side)
				* side * side + in_tile % side * side;
		for (uint32_t i = 0; i < run; i += SUMS_STEP)
			offer_columns(search, k, search->first_row + row, sums + i, col + i);
	}
	return search->worker->near.nearest[0].dist < INFINITY;
}

/* Sets the row's radius to the largest distance to those k columns. */
static void
set_radius(const RadiusSearch *search, uint32_t k, uint32_t row)
{
	Worker	   *worker = search->worker;
	FastedContext *context = worker->context;
	Recheck		recheck = cpu_recheck(context, &search->rows->packed, &search->cols->packed);
	uint32_t	d = context->length;
	size_t		place = search->first_row + row;
	size_t		number = cpu_row_at(search->rows, place);
	const float *x = row_store_row(&search->rows->rows, number);
	double		radius = -INFINITY;

	if (recheck.wide != NULL)
		context->kernel->widen(x, d, worker->wide);
	for (uint32_t i = 0; i < k; i++)
	{
		size_t		col = col_place(search, worker->near.nearest[i].row);
		const float *other = cpu_stored_row(search->cols, col);
		double		value = recheck.wide != NULL ? recheck.wide(worker->wide, other, d)
			: recheck.rows(x, other, d);
		double		dist = cpu_distance(&recheck, value, place, col);

		if (isnan(dist))
			return;
		if (worker->join->problem.components != NULL)
			dist = cpu_mutual_reachability(worker->join, number, cpu_row_at(search->cols, col), dist);
		radius = fmax(radius, dist);
	}
	neighbor_lists_bound(&worker->join->sets[0]->lists, number, radius);
}

/* Sets the radii of a block of rows.  Returns false if the join is being closed. */
static bool
find_block_radii(RadiusSearch *search)
{
	const FastedJoin *join = search->worker->join;
	uint32_t	k = join->problem.k;
	const PackedRows *packed = &search->rows->packed;

	if (!make_sums(search))
		return false;
	for (uint32_t row = 0; row < search->nrows && search->first_row + row < packed->rows; row++)
	{
		const RowTerms *terms = &packed->terms[search->first_row + row];

		if (cpu_stopping(search->worker->context))
			return false;
		if (join->problem.partitions != NULL)
			search->allowed = cpu_rows_met(join, 0, (uint32_t) (search->first_row + row));
		if (row_has_pairs(terms) && terms->rho <= DBL_MAX && find_nearest(search, k, row))
			set_radius(search, k, row);
	}
	return true;
}

/* Returns the span of columns with which any of these rows may be compared. */
static FastedSpan
columns_met(const RadiusSearch *search)
{
	const FastedJoin *join = search->worker->join;
	FastedSpan	all = {0, (uint32_t) search->cols->packed.layout.padded_rows};
	size_t		end = search->first_row + search->nrows;

	if (join->problem.partitions == NULL)
		return all;
	if (end > search->rows->packed.rows)
		end = search->rows->packed.rows;
	all = cpu_rows_met(join, 0, (uint32_t) search->first_row);
	for (size_t row = search->first_row + 1; row < end; row++)
	{
		FastedSpan	span = cpu_rows_met(join, 0, (uint32_t) row);

		if (span.first == span.end)
			continue;
		if (all.first == all.end)
			all.first = span.first;
		all.end = span.end;
	}
	return all;
}

/*
 * Chooses at most `most` columns for a block of rows.  If there are more, columns near in the
 * order are chosen.
 */
static void
choose_columns(RadiusSearch *search, uint32_t most)
{
	size_t		step = search->worker->context->kernel->tile_cols;
	FastedSpan	met = columns_met(search);
	size_t		first = met.first / step * step;
	double		part = (double) search->first_row
		/ (double) search->rows->packed.layout.padded_rows;

	search->first_col = first;
	search->apart = 1;
	search->ncols = (uint32_t) ((met.end - first + step - 1) / step * step);
	if (search->ncols <= most)
		return;
	search->ncols = most;
	/* columns near in the order may all be of the rows' component */
	if (search->worker->join->problem.components != NULL)
		search->apart = (met.end - first) / most;
	else if (search->rows == search->cols)
	{
		/* centred at the rows: near rows lie on both sides */
		size_t		before = (search->ncols - search->nrows) / 2;

		if (search->first_row > first + before)
			search->first_col = (search->first_row - before) / step * step;
	}
	else if (search->worker->join->problem.partitions == NULL)
		search->first_col = (size_t) (part * met.end) / step * step;
}

/* Sets the radii of all blocks of rows, shared with the other workers. */
void
cpu_find_radii(Worker *worker)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	uint32_t	most = join->problem.k <= FEW_NEIGHBORS ? COLUMNS : MOST_COLUMNS;
	uint32_t	step = context->kernel->tile_cols;
	RadiusSearch search = {
		.worker = worker,.rows = join->sets[0],.cols = join->sets[1],.integer = join->int8 || context->bits,
		.allowed = {0, UINT32_MAX}
	};
	uint32_t	rows;

	most = most / step * step;
	rows = ROOM / most / step * step;
	if (rows == 0)
		rows = ROOM / most / context->kernel->tile_rows * context->kernel->tile_rows;
	for (;;)
	{
		size_t		left;

		search.first_row = cpu_next_item(worker->context) * rows;
		if (search.first_row >= search.rows->packed.rows)
			return;
		left = search.rows->packed.layout.padded_rows - search.first_row;
		search.nrows = left < rows ? (uint32_t) left : rows;
		choose_columns(&search, most);
		(void) cpu_may_continue(worker->context);
		prepare_columns(&search);
		if (!find_block_radii(&search))
			return;
	}
}
