/*-------------------------------------------------------------------------
 *
 * cpu_nearest.c
 *	  Nearest rows: first radii, before any pair is rechecked, and the filter goes by the radii.
 *
 * The largest distance of a row to any k others is an upper bound of its k-th distance.
 * The filter's products with rows that come next in order tell which others are near.
 * They enter no list: the join meets them again.
 *
 * A pair is of interest to the list of either of its rows, so that a tile is held
 * against two pairs of thresholds: those of a row's own list, which have the radius,
 * beside those of others' lists.  They are made for each strip, of the radii that there
 * are; of columns for some strips.  Old radii are safe: they are larger.
 *
 * That no neighbour is lost is proved in doc/internals/bound-nearest.md.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "cpu_filter.h"
#include "cpu_phases.h"

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

	if (!context->cosine)
		return recheck.rows(x, y, d);
	xx = recheck.rows(x, x, d);
	yy = recheck.rows(y, y, d);
	if (!fasted_has_direction(xx) || !fasted_has_direction(yy))
		return NAN;
	return fasted_exact_cosine_of(recheck.rows(x, y, d), xx, yy);
}

/* How far about the k-th neighbour of this row is, by some others; NaN: nobody knows. */
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
	cpu_sort_doubles(distances, count);
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
	cpu_sort_doubles(radii, count);
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
	cpu_sort_doubles(rho, count);
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
		(join->problem.groups == NULL || join->group_columns >= RADII_LEAST);
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

/* --- first radii */

/* Columns that a row looks at: for few neighbours, and at most. */
#define FEW_NEIGHBORS 32
#define COLUMNS 1024
#define MOST_COLUMNS 2048

/* Sums that there is room for. */
#define ROOM (FASTED_MAX_BLOCK * FASTED_MAX_BLOCK)

/* Columns that are looked at together: all tiles are so many wide, or some times that. */
#define LOOK_STEP 8

/* A block of rows and the columns that it looks at. */
typedef struct Look
{
	Worker	   *worker;
	const FastedSet *rows;
	const FastedSet *cols;
	bool		int8;
	size_t		first_row;
	uint32_t	nrows;			/* whole tiles */
	size_t		first_col;		/* goes on at the set's begin */
	uint32_t	ncols;			/* whole tiles */
	FastedSpan	meets;			/* places that the row at hand may meet */
} Look;

/* Where the column of this number is in its set. */
static size_t
col_place(const Look *look, uint32_t col)
{
	return (look->first_col + col) % look->cols->packed.layout.padded_rows;
}

/*
 * What a column's norm adds to the square of a distance, beside the product; infinite
 * where the column is not to be looked at.
 */
static void
prepare_columns(const Look *look)
{
	NearThresholds *near = &look->worker->near;
	const PackedRows *packed = &look->cols->packed;

	for (uint32_t col = 0; col < look->ncols; col++)
	{
		size_t		place = col_place(look, col);
		const RowTerms *terms = &packed->terms[place];
		bool		good = place < packed->rows && row_has_pairs(terms) && terms->rho <= DBL_MAX;

		near->norms[col] = good ? (float) terms->norm2 : INFINITY;
		near->more[col] = !look->int8 ? 0
			: ((const uint32_t *) packed->as_b.threshold)[place]
			- ((const uint32_t *) packed->as_a.threshold)[place];
	}
}

/* The sums of all rows with all columns, a column of tiles after the other. */
static bool
make_sums(const Look *look)
{
	const FastedContext *context = look->worker->context;
	const CpuKernel *kernel = context->kernel;
	const PackedRows *a = &look->rows->packed;
	const PackedRows *b = &look->cols->packed;
	TileSweep	sweep = {.tiles = look->nrows / kernel->tile_rows};

	for (uint32_t col = 0; col < look->ncols; col += kernel->tile_cols)
	{
		sweep.partial = (uint32_t *) look->worker->partial + (size_t) col * look->nrows;
		for (uint32_t k = 0; k < b->layout.words; k += b->layout.slice)
		{
			if (cpu_stopping(context))
				return false;
			cpu_point_at_slice(&sweep, kernel, a, look->first_row, b, col_place(look, col), k);
			sweep.last = false;	/* sums are not tested but looked at */
			cpu_sweep(kernel, b, &sweep);
		}
	}
	return true;
}

/*
 * The squares of the distances to some columns; false: none is below the one that is to
 * be beaten.  Few are, so all are looked at together.
 */
static inline bool
find_squares(const uint32_t *sums, const float *norms, const uint32_t *more, bool int8, float best,
			 float *squares)
{
	uint32_t	below = 0;

	for (uint32_t i = 0; i < LOOK_STEP; i++)
	{
		float		product;

		if (int8)
			product = (float) (int32_t) (sums[i] - more[i]);
		else
			memcpy(&product, &sums[i], sizeof(product));
		squares[i] = norms[i] - 2.0f * product;
		below |= squares[i] < best;
	}
	return below != 0;
}

/* Some sums of a row, side by side, from a column on. */
static void
look_at_sums(const Look *look, uint32_t k, size_t place, const uint32_t *sums, uint32_t first)
{
	NearThresholds *near = &look->worker->near;
	const float *norms = near->norms + first;
	const uint32_t *more = near->more + first;
	float		best = (float) near->nearest[0].dist;
	float		squares[LOOK_STEP];

	if (!(look->int8 ? find_squares(sums, norms, more, true, best, squares)
		  : find_squares(sums, norms, more, false, best, squares)))
		return;
	for (uint32_t i = 0; i < LOOK_STEP; i++)
	{
		size_t		col = col_place(look, first + i);

		if (squares[i] < near->nearest[0].dist && (look->rows != look->cols || col != place) &&
			col >= look->meets.first && col < look->meets.end)
			neighbor_heap_replace(near->nearest, k, (FastedNeighbor) {.row = first + i,.dist = squares[i]});
	}
}

/* The k columns whose packed rows are nearest to this row; false: they are fewer. */
static bool
find_nearest(const Look *look, uint32_t k, uint32_t row)
{
	const CpuKernel *kernel = look->worker->context->kernel;
	uint32_t	side = look->int8 ? kernel->int8->part : 0;
	uint32_t	run = side > 0 ? side : kernel->tile_cols;
	uint32_t	in_tile = row % kernel->tile_rows;
	const uint32_t *tile = (const uint32_t *) look->worker->partial
		+ (size_t) (row / kernel->tile_rows) * kernel->tile_rows * kernel->tile_cols;

	for (uint32_t i = 0; i < k; i++)
		look->worker->near.nearest[i] = (FastedNeighbor) {.dist = INFINITY};
	for (uint32_t col = 0; col < look->ncols; col += run)
	{
		uint32_t	tile_col = col / kernel->tile_cols * kernel->tile_cols;
		const uint32_t *sums = tile + (size_t) tile_col * look->nrows;

		if (side == 0)
			sums += in_tile * run;
		else
			sums += (in_tile / side * (kernel->tile_cols / side) + (col - tile_col) / side)
				* side * side + in_tile % side * side;
		for (uint32_t i = 0; i < run; i += LOOK_STEP)
			look_at_sums(look, k, look->first_row + row, sums + i, col + i);
	}
	return look->worker->near.nearest[0].dist < INFINITY;
}

/* The row's radius: the largest distance to those rows. */
static void
set_radius(const Look *look, uint32_t k, uint32_t row)
{
	Worker	   *worker = look->worker;
	FastedContext *context = worker->context;
	Recheck		recheck = cpu_recheck(context, &look->rows->packed, &look->cols->packed);
	uint32_t	d = context->options.dimensions;
	size_t		place = look->first_row + row;
	size_t		number = cpu_row_at(look->rows, place);
	const float *x = row_store_row(&look->rows->rows, number);
	double		radius = 0.0;

	if (recheck.wide != NULL)
		context->kernel->widen(x, d, worker->wide);
	for (uint32_t i = 0; i < k; i++)
	{
		size_t		col = col_place(look, worker->near.nearest[i].row);
		const float *other = cpu_stored_row(look->cols, col);
		double		value = recheck.wide != NULL ? recheck.wide(worker->wide, other, d)
			: recheck.rows(x, other, d);
		double		dist = cpu_distance(&recheck, value, place, col);

		if (isnan(dist))
			return;
		radius = fmax(radius, dist);
	}
	neighbor_lists_bound(&worker->join->sets[0]->lists, number, radius);
}

/* Radii of some rows; false: it is to stop. */
static bool
look_around(Look *look)
{
	const FastedJoin *join = look->worker->join;
	uint32_t	k = join->problem.k;
	const PackedRows *packed = &look->rows->packed;

	if (!make_sums(look))
		return false;
	for (uint32_t row = 0; row < look->nrows && look->first_row + row < packed->rows; row++)
	{
		const RowTerms *terms = &packed->terms[look->first_row + row];

		if (cpu_stopping(look->worker->context))
			return false;
		if (join->problem.groups != NULL)
			look->meets = cpu_rows_met(join, 0, (uint32_t) (look->first_row + row));
		if (row_has_pairs(terms) && terms->rho <= DBL_MAX && find_nearest(look, k, row))
			set_radius(look, k, row);
	}
	return true;
}

/* The columns that any of these rows may meet. */
static FastedSpan
columns_met(const Look *look)
{
	const FastedJoin *join = look->worker->join;
	FastedSpan	all = {0, (uint32_t) look->cols->packed.layout.padded_rows};
	size_t		end = look->first_row + look->nrows;

	if (join->problem.groups == NULL)
		return all;
	if (end > look->rows->packed.rows)
		end = look->rows->packed.rows;
	all = cpu_rows_met(join, 0, (uint32_t) look->first_row);
	for (size_t row = look->first_row + 1; row < end; row++)
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

/* Chooses at most so many columns for these rows to look at: where there are more, near ones. */
static void
choose_columns(Look *look, uint32_t most)
{
	size_t		step = look->worker->context->kernel->tile_cols;
	FastedSpan	met = columns_met(look);
	size_t		first = met.first / step * step;
	double		part = (double) look->first_row / (double) look->rows->packed.layout.padded_rows;

	look->first_col = first;
	look->ncols = (uint32_t) ((met.end - first + step - 1) / step * step);
	if (look->ncols <= most)
		return;
	look->ncols = most;
	if (look->rows == look->cols)
	{
		/* about the rows themselves: what is near lies on both sides */
		size_t		before = (look->ncols - look->nrows) / 2;

		if (look->first_row > first + before)
			look->first_col = (look->first_row - before) / step * step;
	}
	else if (look->worker->join->problem.groups == NULL)
		look->first_col = (size_t) (part * met.end) / step * step;
}

/* Blocks of rows that have lists, until there are no more. */
void
cpu_find_radii(Worker *worker)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	uint32_t	most = join->problem.k <= FEW_NEIGHBORS ? COLUMNS : MOST_COLUMNS;
	uint32_t	step = context->kernel->tile_cols;
	Look		look = {.worker = worker,.rows = join->sets[0],.cols = join->sets[1],.int8 = join->int8,
		.meets = {0, UINT32_MAX}};
	uint32_t	rows;

	most = most / step * step;
	rows = ROOM / most / step * step;
	if (rows == 0)
		rows = ROOM / most / context->kernel->tile_rows * context->kernel->tile_rows;
	for (;;)
	{
		size_t		left;

		look.first_row = cpu_claim(worker->context) * rows;
		if (look.first_row >= look.rows->packed.rows)
			return;
		left = look.rows->packed.layout.padded_rows - look.first_row;
		look.nrows = left < rows ? (uint32_t) left : rows;
		choose_columns(&look, most);
		(void) cpu_goes_on(worker->context);
		prepare_columns(&look);
		if (!look_around(&look))
			return;
	}
}
