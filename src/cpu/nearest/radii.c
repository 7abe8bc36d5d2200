/*-------------------------------------------------------------------------
 *
 * radii.c
 *	  Nearest neighbors: initial radii, computed before any recheck.
 *
 * The largest distance of a row to any k other rows is an upper bound of the distance of its k-th
 * neighbour (doc/internals/bound-nearest.md).  The filter's products with rows adjacent in the order show
 * which rows are near.  These rows do not enter the lists here, because the join finds them again.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../filter/components.h"
#include "../filter/recheck.h"
#include "../filter/strip.h"
#include "../rows/pack.h"
#include "radii.h"

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
 * Returns the term that is added to minus twice a product to give the squared distance of a column
 * from a row, up to a term of the row: the squared norm of the packed row.  For inner products the
 * squared norm of the input row is subtracted, so that the sum is -2 x.y and a term of the row.  Rows
 * of bits have none: the product is minus the Hamming distance of folded rows, which takes the place
 * of the squared distance.
 */
static float
column_term(const FastedJoin *join, const PackedRows *cols, size_t place)
{
	double		norm2 = cols->terms[place].norm2;
	double		scale;

	if (join->context->metric->of_bits)
		return 0.0f;
	if (!join->context->metric->negative_product)
		return (float) norm2;
	scale = cpu_scale(cols->filter, join->encoding);
	return (float) (norm2 - scale * scale * cols->squares[place]);
}

/* Stores the terms of the columns.  The term is infinite if the column must be ignored. */
static void
prepare_columns(const RadiusSearch *search)
{
	NearThresholds *near = &search->worker->near;
	const PackedRows *packed = &search->cols->packed;

	for (uint32_t col = 0; col < search->ncols; col++)
	{
		size_t		place = col_place(search, col);
		const RowTerms *terms = &packed->terms[place];
		bool		good = place < packed->rows && row_has_pairs(terms) && terms->rho <= DBL_MAX;

		near->column_terms[col] = good ? column_term(search->worker->join, packed, place)
			: INFINITY;
		near->flip_sums[col] = packed->filter->transforms ? cpu_flip_sum(packed, place) : 0;
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
	const TileProduct *product = cpu_product(kernel, b->filter);
	TileSweep	sweep = {.tiles = search->nrows / kernel->tile_rows};

	for (uint32_t col = 0; col < search->ncols; col += kernel->tile_cols)
	{
		sweep.partial = (uint32_t *) search->worker->partial + (size_t) col * search->nrows;
		for (uint32_t k = 0; k < b->layout.words; k += b->layout.segment)
		{
			if (cpu_stopping(context))
				return false;
			cpu_point_at_segment(&sweep, kernel, a, search->first_row, b, col_place(search, col), k);
			sweep.last = false;	/* store the sums instead of testing them */
			product->sweep(&sweep);
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
	const float *norms = near->column_terms + first;
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

/* Finds the k columns whose packed rows are nearest to this row.  Returns false if there are fewer. */
static bool
find_nearest(const RadiusSearch *search, uint32_t k, uint32_t row)
{
	const CpuKernel *kernel = search->worker->context->kernel;
	uint32_t	side = cpu_product(kernel, search->cols->packed.filter)->part;
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
	size_t		place = search->first_row + row;
	size_t		number = cpu_row_at(search->rows, place);
	const float *x = row_store_row(&search->rows->rows, number);
	double		radius = -INFINITY;

	for (uint32_t i = 0; i < k; i++)
	{
		size_t		col = col_place(search, worker->near.nearest[i].row);
		double		dist = cpu_distance(worker->context, &search->rows->packed, &search->cols->packed,
										place, col, x, cpu_stored_row(search->cols, col));

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

/* Chooses at most `most` columns for a block of rows: if there are more, those near in the order. */
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

void
cpu_find_radii(Worker *worker)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	uint32_t	most = join->problem.k <= FEW_NEIGHBORS ? COLUMNS : MOST_COLUMNS;
	uint32_t	step = context->kernel->tile_cols;
	RadiusSearch search = {
		.worker = worker,.rows = join->sets[0],.cols = join->sets[1],.integer = join->filter->integer_sums,
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
