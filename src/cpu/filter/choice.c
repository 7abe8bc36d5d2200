/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  Chooses the encoding and the filter of a join.
 *
 * INT8 multiplies four times as fast as FP32, but finds more false candidates, and so may an encoding
 * that was computed for other rows.  Their number is estimated by joining a sample of the rows.  The
 * larger set's encoding is retained if it is good enough, because packing the larger set costs more.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "../../engine/filter_bound.h"
#include "../rows/encoding.h"
#include "../rows/pack.h"
#include "choice.h"
#include "recheck.h"
#include "strip.h"

/* A sample is tested only if at least this many pairs are compared: a self-join of 4096 rows. */
#define CHOICE_AREA (0.5 * 4096 * 4095)

/*
 * INT16 rows pay if at least this many false candidates per row are expected, and if false
 * candidates are at least half as many as true pairs.
 */
#define WORTH_CANDIDATES 2.0
#define WORTH_SHARE 2

/* Rows sampled to estimate the distance of neighbours, and the rows each is compared with. */
#define EPS_ROWS 64
#define EPS_OTHERS 256

/*
 * Returns the least number of compared pairs per false candidate with which INT8 pays off.  It saves
 * about 11 ps per pair and dimension.  A recheck takes 40 ns and 0.25 ns per dimension, on a Xeon of
 * 2023; with INT16 rows 18 ns and 15 ps per dimension, on an EPYC, to which one half is added.
 */
static uint64_t
pairs_per_recheck(uint32_t dimensions, bool fine)
{
	return fine ? 2 + 2400 / dimensions : 24 + 4096 / dimensions;
}

/* Returns the set whose encoding is tested: the larger one; of equal sets, one that has an encoding. */
static const FastedSet *
larger_set(const FastedJoin *join)
{
	const FastedSet *a = join->sets[0];
	const FastedSet *b = join->sets[1];

	if (a->rows.rows != b->rows.rows)
		return a->rows.rows > b->rows.rows ? a : b;
	return a->encoding != NULL ? a : b;
}

static bool
have_common_encoding(const FastedJoin *join)
{
	const FastedSet *a = join->sets[0];
	const FastedSet *b = join->sets[1];

	return a->encoding != NULL &&
		(join->self ? a->suits_itself : a->encoding == b->encoding && a->packed.filter == b->packed.filter);
}

/* Allocates an encoding and the samples.  Returns false if out of memory. */
static bool
reserve_trial(FastedJoin *join)
{
	FastedContext *context = join->context;
	bool		tests = join->choice.encoding != ENCODING_NEW || join->choice.filter == FILTER_BY_SAMPLE;
	int			samples = tests ? join->nsets : 0;

	join->choice.new_encoding = cpu_encoding_new(context);
	for (int i = 0; i < samples; i++)
	{
		if (!cpu_packed_reserve(context, &context->samples[i], context->plan.sample_rows, FULL_STAGE))
			return false;
	}
	return join->choice.new_encoding != NULL;
}

bool
cpu_find_known_encoding(FastedJoin *join)
{
	const FastedSet *larger = larger_set(join);
	bool		open = join->choice.filter == FILTER_BY_SAMPLE;

	join->choice.eps = join->problem.eps;
	join->choice.key = (ChoiceKey) {
		.known = true,.k = join->nearest ? join->problem.k : 0,.eps = join->nearest ? 0.0 : join->problem.eps
	};
	open = open && !choice_keys_are_equal(larger->chosen_for, join->choice.key);
	join->choice.known_encoding = larger->encoding;
	if (larger->encoding != NULL)
	{
		larger->encoding->refcount++;
		join->choice.encoding = !have_common_encoding(join) ? ENCODING_TESTED
			: open ? ENCODING_COMMON_TESTED : ENCODING_COMMON;
	}
	return !open;
}

bool
cpu_prepare_choice_of_numbers(FastedJoin *join)
{
	const FastedContext *context = join->context;
	const FastedSet *larger = larger_set(join);
	bool		open;

	if (context->integer_filter != NULL && context->options.filter == FASTED_FILTER_INT8)
		join->choice.filter = FILTER_INTEGERS;
	else if (context->integer_filter != NULL && cpu_join_area(join) >= CHOICE_AREA)
		join->choice.filter = FILTER_BY_SAMPLE;
	open = !cpu_find_known_encoding(join);
	join->choice.known_filter = open ? context->integer_filter
		: larger->encoding != NULL ? larger->packed.filter : context->filter;
	if (join->choice.encoding != ENCODING_COMMON)
		return reserve_trial(join);
	/* no sample is tested: use the estimate of an earlier join */
	if (join->nearest && join->sets[0]->levels.eps < join->choice.eps)
		join->choice.eps = join->sets[0]->levels.eps;
	join->encoding = join->choice.known_encoding;
	join->filter = join->choice.known_filter;
	return true;
}

/* --- the distance of nearest neighbors */

/* Returns the distance of two input rows; NaN if a row has no direction. */
static double
distance_of(const FastedContext *context, const float *x, const float *y)
{
	double		squares[2] = {0.0, 0.0};
	const PackedRows sides[2] = {{.squares = &squares[0]}, {.squares = &squares[1]}};

	if (context->metric->of_squares != NULL)
	{
		squares[0] = context->dot(x, x, context->length);
		squares[1] = context->dot(y, y, context->length);
		if (!fasted_has_direction(squares[0]) || !fasted_has_direction(squares[1]))
			return NAN;
	}
	return cpu_distance(context, &sides[0], &sides[1], 0, 0, x, y);
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
	uint32_t	others = cpu_clamp(all, 0, EPS_OTHERS);
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

void
cpu_find_choice_eps(Worker *worker)
{
	FastedJoin *join = worker->join;
	const RowStore *rows = &join->sets[0]->rows;
	uint32_t	nrows = cpu_clamp(rows->rows, 0, EPS_ROWS);
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
	join->choice.eps = fmin(join->problem.eps, join->context->metric->negative_product ? radii[count / 2]
							: fmax(radii[count / 2], 0.0));
}

/* --- samples */

/* Returns the number of sampled rows of a set. */
static uint32_t
sampled_rows(const FastedSet *set)
{
	return cpu_clamp(set->rows.rows, 0, set->context->plan.sample_rows);
}

/* Packs a sample of the set's rows into its own buffer. */
static void
pack_sample(Worker *worker, const FastedSet *set, const PackJob *sample, const CpuFilter *filter)
{
	FastedContext *context = worker->context;
	uint32_t	width = context->kernel->width;
	uint32_t	count = sampled_rows(set);

	cpu_packed_lay_out(context, sample->to, count, context->options.dimensions, filter);
	for (size_t sliver = 0; sliver * width < sample->to->layout.padded_rows; sliver++)
	{
		PackJob		job = *sample;

		if (cpu_stopping(context))
			return;
		for (size_t place = sliver * width; place < (sliver + 1) * width && place < count; place++)
			cpu_load_row(worker, &job, place, cpu_sampled_row(&set->rows, (uint32_t) place, count));
		filter->pack(worker, &job, sliver);
	}
}

/* Counts the candidates in the sample's hit map, and those that are pairs. */
static void
count_sample(Worker *worker, const Strip *strip, uint64_t *candidates, uint64_t *pairs)
{
	FastedJoin *join = worker->join;
	const FastedContext *context = join->context;
	const PackedRows *samples = context->samples;
	uint32_t	count_a = strip->rows_a;
	uint32_t	count_b = sampled_rows(join->col_set);

	for (uint32_t row = 0; row < count_a && !cpu_stopping(context); row++)
	{
		const float *x = cpu_sampled_row(&join->row_set->rows, row, count_a);

		worker->listed = 0;
		cpu_list_row(worker, strip, row, 0);
		for (uint32_t c = 0; c < worker->listed; c++)
		{
			uint32_t	col = worker->list[c].col;
			const float *y = cpu_sampled_row(&join->col_set->rows, col, count_b);

			*pairs += cpu_distance(context, &samples[0], &samples[join->self ? 0 : 1], row, col, x, y)
				<= join->choice.eps;
		}
		*candidates += worker->listed;
	}
	worker->listed = 0;
}

/* Returns true if a sample of `area` pairs, `vain` of them false candidates, shows that INT16 rows pay. */
static bool
int16_may_pay(const FastedJoin *join, double vain, uint64_t pairs, uint64_t area)
{
	return vain * WORTH_SHARE >= (double) pairs &&
		vain / (double) area * cpu_join_area(join) >= WORTH_CANDIDATES * (double) cpu_join_rows(join);
}

/* Joins a sample with an encoding and a filter.  Returns true if it has few enough false candidates. */
static bool
encoding_is_good(Worker *worker, const Encoding *encoding, const CpuFilter *filter)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;
	PackedRows *samples = context->samples;
	uint64_t	rows = sampled_rows(join->row_set);
	uint64_t	cols = sampled_rows(join->col_set);
	uint64_t	area = join->self ? rows * (rows - 1) / 2 : rows * cols;
	Strip		strip = {.rows_a = (uint32_t) rows,.block_rows = context->plan.sample_rows,
	.blocks = 1,.diagonal = join->self};
	PackJob		job = cpu_pack_job(join, encoding, filter, join->choice.eps, &samples[0]);
	uint64_t	candidates = 0;
	uint64_t	pairs = 0;

	pack_sample(worker, join->row_set, &job, filter);
	job.to = &samples[1];
	if (!join->self)
		pack_sample(worker, join->col_set, &job, filter);
	cpu_filter_strip(worker, &samples[0], &samples[join->self ? 0 : 1], &strip, false);
	count_sample(worker, &strip, &candidates, &pairs);
	if (filter->transforms)
		join->choice.int16_pays = int16_may_pay(join, (double) (candidates - pairs), pairs, area);
	if (filter->transforms && context->options.filter == FASTED_FILTER_AUTO)
	{
		pthread_mutex_lock(&context->threads.lock);
		context->stats.sampled_candidates += candidates;
		context->stats.sampled_pairs += pairs;
		context->stats.filter_sampled = true;
		pthread_mutex_unlock(&context->threads.lock);
	}
	return (candidates - pairs) *
		pairs_per_recheck(context->options.dimensions, cpu_has_int16(join, encoding, filter)) <= area;
}

void
cpu_try_encoding(Worker *worker)
{
	FastedJoin *join = worker->join;

	if (join->nearest)
		cpu_find_choice_eps(worker);
	if (join->choice.known_filter->transforms && !join->choice.known_encoding->has_int8)
		cpu_int8_find_transform(worker, join->choice.known_encoding);
	if (cpu_stopping(join->context) ||
		!encoding_is_good(worker, join->choice.known_encoding, join->choice.known_filter))
		return;
	join->encoding = join->choice.known_encoding;
	join->filter = join->choice.known_filter;
}

void
cpu_choose_filter(Worker *worker)
{
	FastedJoin *join = worker->join;
	FastedContext *context = join->context;

	cpu_find_scale(join);
	if (join->nearest && (join->choice.filter == FILTER_BY_SAMPLE || join->pruning.state != PRUNING_OFF ||
						  join->choice.encoding != ENCODING_NEW))
		cpu_find_choice_eps(worker);
	if (join->choice.filter != FILTER_OF_CONTEXT)
		cpu_int8_find_transform(worker, join->choice.new_encoding);
	join->encoding = join->choice.new_encoding;
	if (cpu_stopping(context))
		return;
	if (join->choice.filter == FILTER_INTEGERS ||
		(join->choice.filter == FILTER_BY_SAMPLE &&
		 encoding_is_good(worker, join->choice.new_encoding, context->integer_filter)))
		join->filter = context->integer_filter;
	else if (join->choice.encoding == ENCODING_COMMON_TESTED ||
			 (join->choice.encoding == ENCODING_TESTED &&
			  encoding_is_good(worker, join->choice.known_encoding, context->filter)))
		join->encoding = join->choice.known_encoding;
}

/* Records the encoding and the choice of a join in one of its sets. */
static void
keep_encoding(const FastedJoin *join, FastedSet *set, Packing packing)
{
	bool		packed = join->packed == ROWS_PACKED;

	if (packing == PACK_ROWS)
	{
		cpu_encoding_drop(join->context, set->encoding);
		set->encoding = packed ? join->encoding : NULL;
		if (packed)
			join->encoding->refcount++;
		set->chosen_for.known = false;
		set->suits_itself = false;
	}
	if (packing != PACKED_ALREADY)
		set->eps = packed ? join->problem.eps : NAN;
	if (packed && join->self)
		set->suits_itself = true;
	if (packed && join->choice.filter == FILTER_BY_SAMPLE)
		set->chosen_for = join->choice.key;
}

void
cpu_keep_encodings(FastedJoin *join)
{
	for (int i = 0; i < join->nsets && join->packed != ROWS_NOT_LAID_OUT; i++)
		keep_encoding(join, join->sets[i], join->packing[i]);
	cpu_encoding_drop(join->context, join->choice.known_encoding);
	cpu_encoding_drop(join->context, join->choice.new_encoding);
}
