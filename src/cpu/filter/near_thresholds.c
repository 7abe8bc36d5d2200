/*-------------------------------------------------------------------------
 *
 * near_thresholds.c
 *	  Thresholds of a strip in a nearest-neighbor join, from the radii of its rows.
 *
 * A pair may enter the list of either of its rows.  So a tile is tested with two pairs of thresholds,
 * by the radii of its rows and by those of its columns.  They are computed for each strip from the
 * current radii; outdated radii are safe because they are larger (doc/internals/bound-nearest.md).
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../rows/filter_row.h"
#include "../rows/levels.h"
#include "../rows/pack.h"
#include "near_thresholds.h"

/* Rows sampled to estimate the packing error, and the fraction of them that the estimate covers. */
#define RHO_ROWS 256
#define RHO_PART 15 / 16

/* Within partitions, initial radii are computed only if a row is compared with this many others. */
#define RADII_LEAST 256

/* The thresholds of columns allow for a reach larger by this factor, so that they can be reused. */
#define REACH_ROOM 1.25

static const PackedRows *
packed_of(const FastedSet *set, int stage)
{
	return stage == FULL_STAGE ? &set->packed : &set->levels.packed[stage];
}

/* Returns a bound of the packing error that holds for most rows of a set. */
static double
find_rho(const FastedSet *set, const PackedRows *packed)
{
	uint32_t	rows = cpu_clamp(set->rows.rows, 0, RHO_ROWS);
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

bool
cpu_begin_nearest(FastedJoin *join)
{
	for (int stage = 0; stage <= FULL_STAGE; stage++)
	{
		bool		there = stage == FULL_STAGE || (join->pruning.levels >> stage & 1) != 0;

		for (int i = 0; i < 2 && there; i++)
			join->rho_most[stage][i] = find_rho(join->sets[i], packed_of(join->sets[i], stage));
	}
	return !join->problem.continues && join->problem.k <= RADII_MOST &&
		(join->problem.components == NULL || join->unbounded) &&
		join->problem.k < join->sets[1]->rows.rows &&
		(join->problem.partitions == NULL || join->work.partition_columns >= RADII_LEAST);
}

/* --- thresholds of a strip */

static NearSide
side_of(const FastedJoin *join, const FastedSet *set, int stage, bool columns)
{
	const PackedRows *packed = packed_of(set, stage);
	bool		second = set != join->sets[0];

	return (NearSide) {
		.join = join,.set = set,.packed = packed,.stage = stage,.lists = !second,.columns = columns,
		.rho_most = join->rho_most[stage][second],
		.rho_other = join->rho_most[stage][join->self ? 0 : !second],
		.spread = cpu_product_spread(join, join->encoding, join->filter, join->choice.eps),
	};
}

double
cpu_radius_at(const NearSide *side, size_t place)
{
	return fmax(neighbor_radius(&side->set->lists, cpu_row_at(side->set, place)),
				side->join->context->metric->negative_product ? -FLT_MAX : 0.0);
}

/*
 * Returns the part of a row in the squared distance of a pair, if it is reach^2.  For inner products
 * (doc/internals/bound.md, section 8) it depends on the radius, which is zero unless the row's own list
 * is meant.
 */
static double
half_of(const NearSide *side, size_t place, double reach, double radius)
{
	const FastedJoin *join = side->join;

	if (!join->context->metric->negative_product)
		return fasted_reach_half(0.0, sqrt(2.0) * reach * (1.0 + 16 * FASTED_U64));
	return cpu_product_half(join->context, join->encoding, side->packed, place, 2.0 * radius,
							side->spread, false);
}

/*
 * Returns an upper bound of the distance of a neighbour's packed row, excluding the packing error
 * of that row.
 */
static double
reach_of(const NearSide *side, size_t place, double radius)
{
	const FastedJoin *join = side->join;

	if (join->context->metric->negative_product)
		return INFINITY;
	return side->packed->terms[place].rho + (side->stage == FULL_STAGE
											 ? cpu_eps_upper(join, join->encoding, join->filter, radius)
											 : cpu_level_eps_upper(join->context, join->pruning.projection,
																   (uint32_t) side->stage, radius));
}

/* Returns the threshold of a row, given its part in the squared distance. */
static uint32_t
threshold_of(const NearSide *side, size_t place, double half)
{
	return side->packed->filter->threshold(side->packed, place, half)
		+ (side->columns ? cpu_flip_sum(side->packed, place) : 0);
}

/* Computes the rows' thresholds for their own lists.  Returns the largest finite reach, or zero. */
static double
make_own(const NearSide *side, size_t first, uint32_t count, uint32_t *own)
{
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		half = INFINITY;

		if (first + i < side->packed->rows && row_has_pairs(&side->packed->terms[first + i]))
		{
			double		radius = cpu_radius_at(side, first + i);
			double		reach = reach_of(side, first + i, radius);

			half = half_of(side, first + i, reach + side->rho_other, radius);
			if (reach <= DBL_MAX && reach > most)
				most = reach;
		}
		own[i] = threshold_of(side, first + i, half);
	}
	return most;
}

/*
 * Computes the rows' thresholds for lists of the other side, whose finite reaches are at most
 * `reach`.
 */
static void
make_other(const NearSide *side, size_t first, uint32_t count, double reach, uint32_t *other)
{
	for (uint32_t i = 0; i < count; i++)
	{
		double		rho = side->packed->terms[first + i].rho;
		double		more = 0.0;

		if (row_has_pairs(&side->packed->terms[first + i]) && rho > side->rho_most)
			more = (rho - side->rho_most) * (2.0 * reach + rho + side->rho_most);
		other[i] = threshold_of(side, first + i, half_of(side, first + i, sqrt(more), 0.0));
	}
}

void
cpu_near_thresholds_of_numbers(NearThresholds *near, const NearSide *a, const NearSide *b,
							   StageThresholds *stage)
{
	bool		known = stage->columns == near->columns;
	double		reach;

	if (b->lists && !known)
		stage->reach_b = make_own(b, near->first_b, near->cols, stage->b_own);
	if (b->lists)
		make_other(a, near->first_a, near->rows, stage->reach_b, stage->a_other);
	if (!a->lists)
		return;
	reach = make_own(a, near->first_a, near->rows, stage->a_own);
	if (known && reach <= stage->reach_a)
		return;
	stage->reach_a = REACH_ROOM * reach;
	make_other(b, near->first_b, near->cols, stage->reach_a, stage->b_other);
}

/* Returns the thresholds of the strip at a stage.  They are computed when first needed. */
static const StageThresholds *
thresholds_of(Worker *worker, int number)
{
	FastedJoin *join = worker->join;
	NearThresholds *near = &worker->near;
	StageThresholds *stage = &near->stages[number];
	NearSide	a;
	NearSide	b;

	if (stage->strip == near->strip)
		return stage;
	a = side_of(join, join->row_set, number, false);
	b = side_of(join, join->col_set, number, true);
	a.packed->filter->near_thresholds(near, &a, &b, stage);
	stage->strip = near->strip;
	stage->columns = near->columns;
	return stage;
}

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

void
cpu_point_at_thresholds(Worker *worker, const PackedRows *a, size_t row, size_t col,
						TileSweep *sweep)
{
	const FastedJoin *join = worker->join;
	const StageThresholds *stage = thresholds_of(worker, a == &join->row_set->packed ? FULL_STAGE
												 : (int) (a - join->row_set->levels.packed));

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
