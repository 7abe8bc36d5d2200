/*-------------------------------------------------------------------------
 *
 * cpu_radii.c
 *	  Nearest rows: first radii, before any pair is rechecked.
 *
 * The largest distance of a row to any k others is an upper bound of its k-th distance.
 * The filter's products with rows that come next in order tell which others are near.
 * They enter no list: the join meets them again.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cpu_phases.h"
#include "cpu_prepare.h"
#include "cpu_recheck.h"

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
	void		(*sweep_tiles) (const TileSweep *sweep) =
		look->int8 ? kernel->int8->sweep : kernel->sweep;
	const PackedRows *a = &look->rows->packed;
	const PackedRows *b = &look->cols->packed;
	TileSweep	sweep = {.tiles = look->nrows / kernel->tile_rows,.last = false};

	for (uint32_t col = 0; col < look->ncols; col += kernel->tile_cols)
	{
		sweep.partial = (uint32_t *) look->worker->partial + (size_t) col * look->nrows;
		for (uint32_t k = 0; k < b->layout.words; k += b->layout.slice)
		{
			if (cpu_stopping(context))
				return false;
			sweep.depth = b->layout.words - k < b->layout.slice ? b->layout.words - k : b->layout.slice;
			sweep.first = k == 0;
			sweep.a = (const uint32_t *) a->as_a.packed
				+ pack_offset(&a->layout, kernel->width, look->first_row / kernel->width, k);
			sweep.b = (const uint32_t *) b->as_b.packed
				+ pack_offset(&b->layout, kernel->width, col_place(look, col) / kernel->width, k);
			sweep_tiles(&sweep);
		}
	}
	return true;
}

/* Puts a nearer column in the place of a heap's root, the farthest one. */
static void
replace_largest(NearColumn *heap, uint32_t k, NearColumn column)
{
	uint32_t	hole = 0;
	uint32_t	child;

	while ((child = 2 * hole + 1) < k)
	{
		child += child + 1 < k && heap[child + 1].square > heap[child].square;
		if (heap[child].square <= column.square)
			break;
		heap[hole] = heap[child];
		hole = child;
	}
	heap[hole] = column;
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
	float		best = near->nearest[0].square;
	float		squares[LOOK_STEP];

	if (!(look->int8 ? find_squares(sums, norms, more, true, best, squares)
		  : find_squares(sums, norms, more, false, best, squares)))
		return;
	for (uint32_t i = 0; i < LOOK_STEP; i++)
	{
		size_t		col = col_place(look, first + i);

		if (squares[i] < near->nearest[0].square && (look->rows != look->cols || col != place) &&
			col >= look->meets.first && col < look->meets.end)
			replace_largest(near->nearest, k, (NearColumn) {.square = squares[i],.col = first + i});
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
		look->worker->near.nearest[i].square = INFINITY;
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
	return look->worker->near.nearest[0].square < INFINITY;
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

	if (recheck.doubles == NULL)
		context->kernel->widen(x, d, worker->wide);
	for (uint32_t i = 0; i < k; i++)
	{
		size_t		col = col_place(look, worker->near.nearest[i].col);
		const float *other = row_store_row(&look->cols->rows, cpu_row_at(look->cols, col));
		double		value = recheck.doubles == NULL ? recheck.wide(worker->wide, other, d)
			: cpu_recheck_rows(&recheck, x, other, d);
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
	const FastedProblem *problem = &look->worker->join->problem;
	uint32_t	k = problem->k;
	const PackedRows *packed = &look->rows->packed;

	if (!make_sums(look))
		return false;
	for (uint32_t row = 0; row < look->nrows && look->first_row + row < packed->rows; row++)
	{
		const RowTerms *terms = &packed->terms[look->first_row + row];

		if (cpu_stopping(look->worker->context))
			return false;
		if (problem->groups != NULL)
			look->meets = fasted_columns_of_row(problem->groups, problem->ngroups, 0,
												(uint32_t) (look->first_row + row));
		if (row_has_pairs(terms) && terms->rho <= DBL_MAX && find_nearest(look, k, row))
			set_radius(look, k, row);
	}
	return true;
}

/* The first column that these rows look at. */
static size_t
first_column(const Look *look)
{
	const FastedProblem *problem = &look->worker->join->problem;
	size_t		step = look->worker->context->kernel->tile_cols;
	double		part;

	if (look->rows == look->cols)
	{
		/* about its middle: what is near lies on both sides */
		size_t		before = (look->ncols - look->nrows) / 2;

		return (look->first_row > before ? look->first_row - before : 0) / step * step;
	}
	if (problem->groups != NULL)
	{
		FastedSpan	meets = fasted_columns_of_row(problem->groups, problem->ngroups, 0,
												  (uint32_t) look->first_row);

		if (meets.first < meets.end)
			return meets.first / step * step;
	}
	part = (double) look->first_row / (double) look->rows->packed.layout.padded_rows;
	return (size_t) (part * (double) look->cols->packed.layout.padded_rows) / step * step;
}

/* Blocks of rows that have lists, until there are no more. */
void
cpu_find_radii(Worker *worker)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	uint32_t	most = join->problem.k <= FEW_NEIGHBORS ? COLUMNS : MOST_COLUMNS;
	uint32_t	step = context->kernel->tile_cols;
	size_t		padded;
	Look		look = {.worker = worker,.rows = join->sets[0],.cols = join->sets[1],.int8 = join->int8,
		.meets = {0, UINT32_MAX}};
	uint32_t	rows;

	padded = look.cols->packed.layout.padded_rows;
	look.ncols = most / step * step;
	if (look.ncols > padded)
		look.ncols = (uint32_t) padded;
	rows = ROOM / look.ncols / step * step;
	if (rows == 0)
		rows = ROOM / look.ncols / context->kernel->tile_rows * context->kernel->tile_rows;
	for (;;)
	{
		size_t		left;

		look.first_row = cpu_claim(worker->context) * rows;
		if (look.first_row >= look.rows->packed.rows)
			return;
		left = look.rows->packed.layout.padded_rows - look.first_row;
		look.nrows = left < rows ? (uint32_t) left : rows;
		look.first_col = first_column(&look);
		cpu_rest_if_alone(worker->context);
		prepare_columns(&look);
		if (!look_around(&look))
			return;
	}
}
