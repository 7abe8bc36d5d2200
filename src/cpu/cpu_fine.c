/*-------------------------------------------------------------------------
 *
 * cpu_fine.c
 *	  Candidates compared once more, in INT16, before they are rechecked.
 *
 * Of many dimensions INT8 finds several candidates a pair, and the recheck of one
 * waits for its rows: 4 bytes a coordinate.  Fine rows have 2, their products cost
 * next to nothing, and few that pass are too far apart.  No pair is lost:
 * doc/bound-int8.md, section 10.
 *
 *-------------------------------------------------------------------------
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "../engine/filter_bound.h"
#include "cpu_join.h"

/* A typical row's coordinate may be so many times its root mean square, at least, unclamped. */
#define FINE_ROOM 4.0

/* Candidates whose rows are fetched ahead. */
#define FETCH_AHEAD 4

/*
 * Rows for each of which so many candidates in vain are expected are worth packing
 * once more; and one in this many of all pairs.
 */
#define WORTH_CANDIDATES 2.0
#define WORTH_SHARE 2

bool
cpu_fine_reserve(FastedContext *context, FineRows *fine, size_t rows)
{
	size_t		room = cpu_whole_tiles(context, rows);

	if (!context->may_use_fine || room <= fine->room)
		return true;
	cpu_fine_free(context, fine);
	fine->room = room;
	fine->threshold = fasted_cpu_map(room * sizeof(double), &context->memory);
	fine->terms = fasted_cpu_map(room * sizeof(RowTerms), &context->memory);
	return fine->threshold != NULL && fine->terms != NULL;
}

void
cpu_fine_free(FastedContext *context, FineRows *fine)
{
	fasted_cpu_unmap(fine->threshold, fine->room * sizeof(double), &context->memory);
	fasted_cpu_unmap(fine->terms, fine->room * sizeof(RowTerms), &context->memory);
	memset(fine, 0, sizeof(*fine));
}

/* Are rows of this form to have fine ones, if their filter is INT8? */
bool
cpu_has_fine(const FastedJoin *join, const Form *form)
{
	return join->fine_pays && form->fine_factor > 0.0f && !cpu_finds_nearest(join);
}

/* Where a set's fine rows will be, if it is to have any: behind its packed rows. */
void
cpu_fine_lay_out(const FastedJoin *join, FastedSet *set)
{
	const PackLayout *layout = &set->packed.layout;

	set->fine.values = NULL;
	if (join->int8 && cpu_has_fine(join, join->form))
		set->fine.values = (int16_t *) ((char *) set->packed.packed + layout->padded_rows
										* cpu_int8_row_bytes(join->context->kernel,
															 join->context->options.dimensions));
}

/*
 * Do so many candidates of a sample, of so many pairs of rows, say that fine rows pay?
 */
bool
cpu_fine_may_pay(const FastedJoin *join, uint64_t candidates, uint64_t pairs, uint64_t area)
{
	double		vain = (double) (candidates - pairs);
	double		rows = (double) join->row_set->rows.rows
		+ (join->self ? 0.0 : (double) join->col_set->rows.rows);

	return vain * WORTH_SHARE >= (double) pairs &&
		vain / (double) area * cpu_join_area(join) >= WORTH_CANDIDATES * rows;
}

/*
 * The factor for images: a power of two, so that products with it are exact.  Norms
 * stay below that of FASTED_FINE_NORM2 for rows of typical norm.
 */
float
cpu_fine_factor(float typical)
{
	int			exponent;

	if (!(typical > 0x1p-100f && typical < 0x1p100f))
		return 0.0f;
	frexp(sqrt((double) FASTED_FINE_NORM2) / FINE_ROOM / (double) typical, &exponent);
	return (float) ldexp(1.0, exponent - 1);
}

static double
fine_eps_upper(const PackJob *job)
{
	return job->eps_upper * (double) job->form->fine_factor;
}

/* Row r of the sliver, whose image the worker has. */
void
cpu_fine_pack_row(Worker *worker, const PackJob *job, size_t row, uint32_t r)
{
	const Int8Kernel *int8 = worker->context->kernel->int8;
	uint32_t	padded = cpu_padded(worker->context);
	RowTerms   *terms = &job->fine->terms[row];
	int16_t    *values = (int16_t *) (uintptr_t) job->fine->values + row * padded;
	Int8Sums	sums;

	int8->round_fine(worker->image, job->form->fine_factor, padded, values, &sums);
	terms->norm2 = sums.norm2;
	terms->rho = fasted_rho_clamped(sums.rounding2, sums.error2, sums.norm2, padded)
		+ cpu_moved(job, r, (double) job->form->transform.scale * job->form->fine_factor);
	job->fine->threshold[row] = fasted_threshold_fine(terms->norm2, terms->rho,
													  fine_eps_upper(job));
}

/* Thresholds of these rows for another eps. */
void
cpu_fine_set_thresholds(const PackJob *job, size_t first, size_t end)
{
	for (size_t row = first; row < end; row++)
		job->fine->threshold[row] = fasted_threshold_fine(job->fine->terms[row].norm2,
														  job->fine->terms[row].rho,
														  fine_eps_upper(job));
}

static void
fetch(const int16_t *row, uint32_t padded)
{
	for (uint32_t k = 0; k < padded; k += 32)
		__builtin_prefetch(row + k);
}

/*
 * Drops the worker's candidates, from the first one that is not compared yet, that are
 * too far apart; how many there are then.
 */
uint32_t
cpu_fine_keep(Worker *worker, const Strip *strip, uint32_t first)
{
	const FastedJoin *join = worker->join;
	int32_t		(*dot) (const int16_t *x, const int16_t *y, uint32_t padded) =
		join->context->kernel->int8->dot_fine;
	const FineRows *a = &join->row_set->fine;
	const FineRows *b = &join->col_set->fine;
	uint32_t	padded = cpu_padded(join->context);
	const int16_t *rows = a->values + strip->first_a * padded;
	const int16_t *cols = b->values + strip->first_b * padded;
	Candidate  *list = worker->list;
	uint32_t	kept = first;

	for (uint32_t c = first; c < worker->listed; c++)
	{
		Candidate	pair = list[c];
		int32_t		product;

		if (c + FETCH_AHEAD < worker->listed)
			fetch(cols + (size_t) list[c + FETCH_AHEAD].col * padded, padded);
		product = dot(rows + (size_t) pair.row * padded, cols + (size_t) pair.col * padded, padded);
		list[kept] = pair;
		kept += product >= a->threshold[strip->first_a + pair.row]
			+ b->threshold[strip->first_b + pair.col];
	}
	return worker->listed = kept;
}

/* Puts the worker's candidates in the order of their rows, by counting. */
void
cpu_sort_candidates(Worker *worker)
{
	Candidate	sorted[CANDIDATE_LIST];
	uint16_t	place[FASTED_MAX_BLOCK + 1] = {0};

	for (uint32_t c = 0; c < worker->listed; c++)
		place[worker->list[c].row + 1]++;
	for (uint32_t row = 0; row < FASTED_MAX_BLOCK; row++)
		place[row + 1] += place[row];
	for (uint32_t c = 0; c < worker->listed; c++)
		sorted[place[worker->list[c].row]++] = worker->list[c];
	memcpy(worker->list, sorted, worker->listed * sizeof(Candidate));
}
