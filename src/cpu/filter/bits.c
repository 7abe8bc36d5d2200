/*-------------------------------------------------------------------------
 *
 * bits.c
 *	  Rows of bits: the fold, the order of rows, packed rows and thresholds.
 *
 * The filter computes the Hamming distance of folded rows.  A fold to few words is cheap, but has
 * more false candidates.  A sample of the pairs shows which fold costs least.  Rows are sorted by their
 * number of bits, because rows whose numbers differ much are in no pair: their tiles are skipped.
 * doc/internals/bound.md, section 10, proves that no pair is lost.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../rows/levels.h"
#include "../rows/filter_row.h"
#include "choice.h"
#include "filters.h"
#include "near_thresholds.h"

/* Most folds: to 1, 2, 4, ... words, and none. */
#define MOST_FOLDS 12

/* A sample: most words of pairs, least pairs per sampled pair, and numbers of rows per set. */
#define SAMPLED_WORDS (1 << 21)
#define SAMPLED_PART 512
#define SAMPLED_ROWS_LEAST 8
#define SAMPLED_ROWS_MOST 256

/* The order is computed digit by digit: number of values of the lower digit. */
#define DIGIT 512

/* Rows between two checks for a pause or stop. */
#define CHECK_EVERY 4096

/* Exceeds the rounding errors of a threshold from the rows' radii. */
#define BITS_SLACK 0x1p-30

/* Returns true unless no pair of a row is within eps. */
static bool
has_pairs(const FastedContext *context, const RowTerms *terms, double eps)
{
	return row_has_pairs(terms) && (!context->metric->of_union || terms->ones > 0.0 || eps >= 1.0);
}

/* --- the fold */

bool
cpu_begin_fold(FastedJoin *join)
{
	return join->context->metric->of_bits && join->choice.new_encoding != NULL;
}

/* Returns the number of sampled rows of a set. */
static uint32_t
sampled_rows(const FastedJoin *join, const FastedSet *set)
{
	double		pairs = fmin((double) SAMPLED_WORDS / cpu_filter_words(join->context),
							 cpu_join_area(join) / SAMPLED_PART);
	uint32_t	rows = cpu_clamp((uint64_t) sqrt(pairs), SAMPLED_ROWS_LEAST, SAMPLED_ROWS_MOST);

	return cpu_clamp(set->rows.rows, 0, rows);
}

/*
 * Counts a sampled pair as a candidate of each fold, to 1, 2, 4, ... words and none, that does not
 * exclude it.  Returns false if the numbers of bits exclude the pair.
 */
static bool
count_pair(const FastedJoin *join, const uint32_t *x, const uint32_t *y, int folds,
		   uint64_t *candidates)
{
	const FastedContext *context = join->context;
	RowFunction common = context->kernel->dot;
	double		xx = common(x, x, context->length);
	double		yy = common(y, y, context->length);
	double		reach = fasted_bits_reach(context->metric->of_union, join->choice.eps, (uint32_t) xx)
		+ fasted_bits_reach(context->metric->of_union, join->choice.eps, (uint32_t) yy);
	uint32_t	words = cpu_filter_words(context);
	uint64_t	buffer[FASTED_MAX_DIMENSIONS / 64];
	uint32_t   *differ = (uint32_t *) buffer;

	if (join->choice.sorts && fabs(xx - yy) > reach)
		return false;
	for (uint32_t w = 0; w < words; w++)
		differ[w] = x[w] ^ y[w];
	for (int fold = folds - 1;; fold--)
	{
		if (common(differ, differ, (words + 1) / 2) <= reach)
		{
			for (; fold >= 0; fold--)
				candidates[fold]++;
			return true;
		}
		if (fold == 0)
			return true;
		for (uint32_t w = UINT32_C(1) << (fold - 1); w < words; w++)
			differ[w % (UINT32_C(1) << (fold - 1))] ^= differ[w];
		words = UINT32_C(1) << (fold - 1);
		if (words == 1)
			differ[1] = 0;
	}
}

void
cpu_choose_fold(Worker *worker)
{
	FastedJoin *join = worker->join;
	const FastedSet *a = join->sets[0];
	const FastedSet *b = join->sets[1];
	Encoding   *known = join->choice.known_encoding;
	uint32_t	words = cpu_filter_words(join->context);
	uint32_t	rows_a = sampled_rows(join, a);
	uint32_t	rows_b = sampled_rows(join, b);
	uint64_t	candidates[MOST_FOLDS] = {0};
	uint64_t	pairs = 0;
	double		least = INFINITY;
	int			folds = 1;

	if (join->nearest)
		cpu_find_choice_eps(worker);
	while (UINT32_C(1) << (folds - 1) < words)
		folds++;
	for (uint32_t i = 0; i < rows_a && !cpu_stopping(join->context); i++)
	{
		const float *x = cpu_sampled_row(&a->rows, i, rows_a);

		for (uint32_t j = join->self ? i + 1 : 0; j < rows_b; j++)
			pairs += count_pair(join, (const uint32_t *) x,
								(const uint32_t *) cpu_sampled_row(&b->rows, j, rows_b),
								folds, candidates);
	}
	for (int fold = 0; fold < folds; fold++)
	{
		uint32_t	folded = fold == folds - 1 ? words : UINT32_C(1) << fold;
		double		cost = folded + (double) join->context->kernel->recheck_words
			* (double) candidates[fold] / (double) (pairs > 0 ? pairs : 1);

		if (cost < least)
		{
			least = cost;
			join->choice.new_encoding->folded = folded;
		}
	}
	if (known != NULL && known->folded == join->choice.new_encoding->folded)
		join->encoding = known;
}

/* --- the order */

bool
cpu_begin_sort(FastedJoin *join)
{
	bool		sorting = false;

	for (int i = 0; i < join->nsets && join->choice.sorts; i++)
	{
		if (join->sets[i]->levels.sorted ||
			(join->problem.components != NULL && join->sets[i]->levels.ordered))
			continue;
		join->pruning.packing[i] = PACK_ROWS;
		sorting = true;
	}
	return sorting;
}

/*
 * Sorts row numbers by one digit of their rows' numbers of bits.  `from` lists the row numbers;
 * NULL: rows are in input order.  Returns false if the join is being closed.
 */
static bool
sort_by_digit(FastedContext *context, const uint32_t *ones, bool high, const uint32_t *from,
			  size_t rows, uint32_t *to)
{
	uint32_t	place[DIGIT + 1] = {0};

	for (size_t i = 0; i < rows; i++)
	{
		if (i % CHECK_EVERY == 0 && !cpu_may_continue(context))
			return false;
		place[(high ? ones[i] / DIGIT : ones[i] % DIGIT) + 1]++;
	}
	for (uint32_t d = 0; d < DIGIT; d++)
		place[d + 1] += place[d];
	for (size_t i = 0; i < rows; i++)
	{
		uint32_t	row = from != NULL ? from[i] : (uint32_t) i;

		if (i % CHECK_EVERY == 0 && !cpu_may_continue(context))
			return false;
		to[place[high ? ones[row] / DIGIT : ones[row] % DIGIT]++] = row;
	}
	return true;
}

/*
 * Sorts the rows of a set by their number of bits, then by row number.  The buffer of the packed
 * rows, of at least 8 bytes per row, holds the numbers of bits and the order by the lower digit.
 */
static void
sort_set(Worker *worker, int i)
{
	FastedContext *context = worker->context;
	FastedSet  *set = worker->join->sets[i];
	size_t		rows = set->rows.rows;
	uint32_t   *ones = set->packed.as_b.packed;
	uint32_t   *by_low = ones + rows;

	for (size_t r = 0; r < rows; r++)
	{
		const float *row = row_store_row(&set->rows, r);

		if (r % CHECK_EVERY == 0 && !cpu_may_continue(context))
			return;
		ones[r] = (uint32_t) context->kernel->dot(row, row, context->length);
	}
	set->levels.ordered = sort_by_digit(context, ones, false, NULL, rows, by_low) &&
		sort_by_digit(context, ones, true, by_low, rows, set->levels.order) &&
		cpu_hash_order(set);
	set->levels.sorted = set->levels.ordered;
}

void
cpu_sort_rows(Worker *worker)
{
	cpu_do_sets(worker, PACK_ROWS, sort_set);
}

/* CpuFilter.useful_tiles: those whose numbers of bits allow a pair with the column tile. */
static FastedSpan
useful_tiles(const FastedJoin *join, const Strip *strip, size_t col, FastedSpan tiles)
{
	const CpuKernel *kernel = join->context->kernel;
	const RowTerms *a = join->row_set->packed.terms + strip->first_a;
	const PackedRows *b = &join->col_set->packed;
	size_t		end = col + kernel->tile_cols < b->rows ? col + kernel->tile_cols : b->rows;
	double		least = b->terms[col].ones;
	double		most = b->terms[end - 1].ones;
	double		eps = join->problem.eps;

	if (!join->row_set->levels.sorted || !join->col_set->levels.sorted)
		return tiles;
	if (join->context->metric->of_union)
	{
		double		part = (1.0 - (eps + 4.0 * FASTED_U64)) * (1.0 - 8.0 * FASTED_U64);

		least = part > 0.0 ? least * part : 0.0;
		most = part > 0.0 ? most / part : INFINITY;
	}
	else
	{
		least -= floor(eps);
		most += floor(eps);
	}
	while (tiles.first < tiles.end)
	{
		uint32_t	next = (tiles.first + 1) * kernel->tile_rows;

		if (a[(next < strip->rows_a ? next : strip->rows_a) - 1].ones >= least)
			break;
		tiles.first++;
	}
	while (tiles.first < tiles.end && a[(tiles.end - 1) * kernel->tile_rows].ones > most)
		tiles.end--;
	return tiles;
}

/* --- packed rows */

/* Folds and interleaves one row, or packs zeros if there is no row at this place. */
static void
pack_row(const FastedContext *context, const FastedSet *set, size_t place)
{
	const PackedRows *to = &set->packed;
	const PackLayout *layout = &to->layout;
	uint32_t	width = context->kernel->width;
	const float *row = NULL;

	to->terms[place] = row_without_pairs();
	if (place < set->rows.rows)
	{
		row = cpu_stored_row(set, place);
		to->terms[place] = (RowTerms) {.ones = context->kernel->dot(row, row, context->length)};
	}
	if (to->squares != NULL)
		to->squares[place] = to->terms[place].ones;
	for (uint32_t first = 0; first < layout->words; first += layout->segment)
	{
		uint32_t	depth = segment_words(layout, first);
		uint32_t   *out = (uint32_t *) to->as_b.packed
			+ pack_offset(layout, width, place / width, first) + place % width;

		for (uint32_t k = 0; k < depth; k++)
			out[(size_t) k * width] = row == NULL ? 0
				: fasted_fold_bits((const uint32_t *) row, cpu_filter_words(context), layout->words,
								   first + k);
	}
}

/*
 * Sets a row's thresholds: minus its part of the largest Hamming distance, rounded down for a and up for
 * b, which does not reduce the integer part of their sum.
 */
static void
set_threshold(const FastedContext *context, const PackedRows *to, size_t place, double eps)
{
	double		ones = to->terms[place].ones;
	int32_t		down = FASTED_INT8_PADDING;
	int32_t		up = FASTED_INT8_PADDING;

	if (has_pairs(context, &to->terms[place], eps))
	{
		double		reach = fmin(fasted_bits_reach(context->metric->of_union, eps, (uint32_t) ones),
								 FASTED_MAX_DIMENSIONS);

		down = -(int32_t) floor(reach);
		up = -(int32_t) ceil(reach);
	}
	((int32_t *) to->as_a.threshold)[place] = down;
	((int32_t *) to->as_b.threshold)[place] = up;
}

/* CpuFilter.pack_set. */
static void
pack_set(Worker *worker, int i, size_t sliver)
{
	const FastedJoin *join = worker->join;
	const FastedSet *set = join->sets[i];
	uint32_t	width = join->context->kernel->width;

	for (size_t place = sliver * width; place < (sliver + 1) * width; place++)
	{
		if (join->packing[i] == PACK_ROWS)
			pack_row(join->context, set, place);
		set_threshold(join->context, &set->packed, place, join->problem.eps);
	}
}

/* --- nearest neighbors */

/* Returns a row's threshold: minus its part of the Hamming distance, an integer, if it may have pairs. */
static uint32_t
threshold_of(const NearSide *side, size_t place, double part)
{
	return has_pairs(side->join->context, &side->packed->terms[place], side->join->problem.eps)
		? (uint32_t) -(int32_t) part : FASTED_INT8_PADDING;
}

/*
 * Computes the rows' thresholds for their own lists.  reach has the rows' reaches, none of which
 * exceeds `most`; rows of the other side have at least `least` bits.
 */
static void
make_bits_own(const NearSide *side, size_t first, uint32_t count, const double *reach, double most,
			  double least, uint32_t *own)
{
	bool		jaccard = side->join->context->metric->of_union;

	for (uint32_t i = 0; i < count; i++)
	{
		double		part = reach[i];

		if (jaccard)
			part = reach[i] * side->packed->terms[first + i].ones - (most - reach[i]) * least
				+ BITS_SLACK;
		own[i] = threshold_of(side, first + i, floor(part));
	}
}

/* Computes the rows' thresholds for lists of the other side, whose reaches are at most `most`. */
static void
make_bits_other(const NearSide *side, size_t first, uint32_t count, double most, uint32_t *other)
{
	bool		jaccard = side->join->context->metric->of_union;

	for (uint32_t i = 0; i < count; i++)
	{
		double		part = jaccard ? most * side->packed->terms[first + i].ones + BITS_SLACK : 0.0;

		other[i] = threshold_of(side, first + i, ceil(part));
	}
}

/* Returns the smallest number of bits of the rows from `first` on that may have pairs. */
static double
least_bits(const NearSide *side, size_t first, uint32_t count)
{
	double		least = INFINITY;

	for (uint32_t i = 0; i < count; i++)
	{
		if (has_pairs(side->join->context, &side->packed->terms[first + i], side->join->problem.eps))
			least = fmin(least, side->packed->terms[first + i].ones);
	}
	return least < INFINITY ? least : 0.0;
}

/*
 * Computes the rows' reaches: the Hamming distance of their neighbours at most; of the Jaccard distance,
 * divided by the sum of both numbers of bits.  Returns the largest one.
 */
static double
find_reaches(const NearSide *side, size_t first, uint32_t count, double *reach)
{
	bool		jaccard = side->join->context->metric->of_union;
	double		most = 0.0;

	for (uint32_t i = 0; i < count; i++)
	{
		double		radius = first + i < side->packed->rows ? cpu_radius_at(side, first + i) : 0.0;

		reach[i] = jaccard ? fasted_bits_reach(true, radius, 1) : fmin(floor(radius), FASTED_MAX_DIMENSIONS);
		most = fmax(most, reach[i]);
	}
	return most;
}

/* CpuFilter.near_thresholds.  The reaches of the columns are retained. */
static void
near_thresholds(NearThresholds *near, const NearSide *a, const NearSide *b, StageThresholds *stage)
{
	if (b->lists)
	{
		if (stage->columns != near->columns)
			stage->reach_b = find_reaches(b, near->first_b, near->cols, near->reach);
		make_bits_own(b, near->first_b, near->cols, near->reach, stage->reach_b,
					  least_bits(a, near->first_a, near->rows), stage->b_own);
		make_bits_other(a, near->first_a, near->rows, stage->reach_b, stage->a_other);
	}
	if (a->lists)
	{
		double		reach[STRIP_ROWS];

		stage->reach_a = find_reaches(a, near->first_a, near->rows, reach);
		make_bits_own(a, near->first_a, near->rows, reach, stage->reach_a,
					  least_bits(b, near->first_b, near->cols), stage->a_own);
		make_bits_other(b, near->first_b, near->cols, stage->reach_a, stage->b_other);
	}
}

/* --- the filter */

/* CpuFilter.prepare_choice: prepares the fold and the order of rows. */
static bool
prepare_choice(FastedJoin *join)
{
	FastedContext *context = join->context;

	join->filter = &cpu_filter_bits;
	join->choice.filter = FILTER_BY_SAMPLE;
	join->choice.sorts = cpu_rows_may_move(join);
	(void) cpu_find_known_encoding(join);
	if (join->choice.encoding == ENCODING_COMMON)
		join->encoding = join->choice.known_encoding;
	else
		join->choice.encoding = ENCODING_NEW;
	if (join->choice.sorts && !cpu_reserve_orders(join))
		return false;
	if (join->encoding == NULL)
		join->encoding = join->choice.new_encoding = cpu_encoding_new(context);
	return join->encoding != NULL;
}

const CpuFilter cpu_filter_bits = {
	.name = "bits",
	.integer_sums = true,
	.pack_set = pack_set,
	.useful_tiles = useful_tiles,
	.near_thresholds = near_thresholds,
	.prepare_choice = prepare_choice,
};
