/*-------------------------------------------------------------------------
 *
 * cpu_join.c
 *	  The caller's side of a join: it begins, pairs come out, it ends.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu_join.h"

static FastedStatus
check_problem(FastedContext *context, const FastedProblem *problem, const FastedSet *a,
			  const FastedSet *b)
{
	if (!(problem->eps >= 0.0))
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"eps must be zero, positive or infinite");
	if ((uint64_t) problem->slice + problem->more_slices >= (problem->slices > 0 ? problem->slices : 1))
		return cpu_fail(context, FASTED_INTERNAL, "there is no slice %u of %u",
						problem->slice + problem->more_slices, problem->slices);
	if (problem->output == FASTED_OUTPUT_CONNECTIONS || problem->output == FASTED_OUTPUT_KEEPERS)
		return cpu_fail(context, FASTED_UNSUPPORTED,
						"the CPU engine hands out all pairs, not what they come to");
	if (problem->output == FASTED_OUTPUT_NEAREST)
	{
		if (problem->k < 1 || problem->k > FASTED_MAX_NEIGHBORS)
			return cpu_fail(context, FASTED_UNSUPPORTED,
							"the number of nearest neighbors must be between 1 and %u, not %u",
							FASTED_MAX_NEIGHBORS, problem->k);
		if (problem->slices > 1)
			return cpu_fail(context, FASTED_UNSUPPORTED,
							"nearest neighbors are not found in slices");
		if (problem->further && (a == b || a->lists.k != problem->k ||
								 !(a->lists.eps == problem->eps)))
			return cpu_fail(context, FASTED_INTERNAL, "there are no neighbors to go on with");
	}
	if (problem->groups != NULL &&
		!fasted_groups_are_valid(problem->groups, problem->ngroups, a->rows.rows, b->rows.rows,
								 a == b))
		return cpu_fail(context, FASTED_INTERNAL, "the groups are not in order");
	if (!a->sealed || !b->sealed || context->join != NULL)
		return cpu_fail(context, FASTED_INTERNAL,
						"a join was begun of sets that are not sealed, or beside another one");
	return FASTED_OK;
}

static FastedJoin *
make_join(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b)
{
	FastedJoin *join = calloc(1, sizeof(*join));
	bool		swap = a->rows.rows > b->rows.rows;

	if (join == NULL)
		return NULL;
	join->context = context;
	join->problem = *problem;
	if (join->problem.slices == 0)
		join->problem.slices = 1;
	join->sets[0] = a;
	join->sets[1] = b;
	join->self = a == b;
	/* tiles are wider than high, and the smaller set has less to fill them */
	join->row_set = swap ? b : a;
	join->col_set = swap ? a : b;
	join->fine_pays = true;
	join->phase = PHASE_OVER;
	return join;
}

static bool
zero_counts(FastedJoin *join)
{
	return join->problem.output != FASTED_OUTPUT_COUNTS || join->problem.further ||
		(cpu_set_zero_counts(join->sets[0]) &&
		 (join->self || cpu_set_zero_counts(join->sets[1])));
}

/* Lists of neighbours, empty or as the last join left them. */
static bool
begin_lists(FastedJoin *join)
{
	FastedSet  *set = join->sets[0];

	return !cpu_finds_nearest(join) || join->problem.further ||
		neighbor_lists_begin(&set->lists, set->rows.rows, join->problem.k, join->problem.eps,
							 &set->context->memory);
}

/* Room for pairs on their way. */
static bool
reserve_pool(FastedJoin *join)
{
	FastedContext *context = join->context;

	return join->problem.output != FASTED_OUTPUT_PAIRS ||
		pair_pool_reserve(&context->pool, cpu_pool_blocks(join->nworkers),
						  context->block_pairs, &context->memory);
}

static FastedStatus
start_work(FastedJoin *join)
{
	FastedContext *context = join->context;
	FastedStatus status;

	if (!cpu_plan_join(join))
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for a join");
	status = cpu_reserve_workers(context, join->nworkers);
	if (status != FASTED_OK)
		return status;
	if (join->nworkers > context->nthreads)
		join->nworkers = context->nthreads;
	if (!reserve_pool(join) || (cpu_finds_nearest(join) && !cpu_reserve_sums(context)) ||
		!cpu_prepare_pruning(join) || !cpu_prepare_choice(join))
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for a join");
	context->units_total += cpu_claims_of(join);
	cpu_begin_join(join);
	return FASTED_OK;
}

FastedStatus
cpu_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a,
			  FastedSet *b, FastedJoin **result)
{
	FastedStatus status = check_problem(context, problem, a, b);
	FastedJoin *join;

	*result = NULL;
	if (status != FASTED_OK)
		return status;
	join = make_join(context, problem, a, b);
	if (join == NULL || !zero_counts(join) || !begin_lists(join))
	{
		free(join);
		return cpu_fail(context, FASTED_OUT_OF_MEMORY, "out of memory for a join");
	}
	context->join = join;
	if (cpu_join_area(join) > 0.0)
		status = start_work(join);
	if (status != FASTED_OK)
		cpu_join_close(join);
	else
		*result = join;
	return status;
}

static struct timespec
deadline_after(int timeout_ms)
{
	uint64_t	when = cpu_now()
		+ (uint64_t) (timeout_ms > 0 ? timeout_ms : 0) * UINT64_C(1000000);

	return (struct timespec) {
		.tv_sec = (time_t) (when / UINT64_C(1000000000)),
		.tv_nsec = (long) (when % UINT64_C(1000000000)),
	};
}

/* The caller is done with the last batch. */
static void
take_back(FastedContext *context)
{
	if (context->handed_out == NULL)
		return;
	pair_pool_release(&context->pool, context->handed_out);
	context->handed_out = NULL;
	pthread_cond_signal(&context->free_cond);
}

FastedStatus
cpu_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	FastedContext *context = join->context;
	struct timespec deadline = deadline_after(timeout_ms);
	FastedStatus status = FASTED_OK;
	int			rc = 0;

	memset(batch, 0, sizeof(*batch));
	pthread_mutex_lock(&context->lock);
	cpu_rest_after(context, CALLER_AWAY_MS + (uint64_t) (timeout_ms > 0 ? timeout_ms : 0));
	take_back(context);
	while ((context->handed_out = pair_pool_pop(&context->pool)) == NULL)
	{
		if (join->phase == PHASE_OVER)
			status = FASTED_DONE;
		else if (rc != 0)
			status = FASTED_AGAIN;
		else
		{
			rc = pthread_cond_timedwait(&context->out_cond, &context->lock, &deadline);
			continue;
		}
		break;
	}
	pthread_mutex_unlock(&context->lock);
	if (status == FASTED_OK)
	{
		batch->pairs = context->handed_out->pairs;
		batch->npairs = context->handed_out->npairs;
	}
	return status;
}

void
cpu_pause(FastedJoin *join)
{
	pthread_mutex_lock(&join->context->lock);
	cpu_rest_after(join->context, PAUSE_MS);
	pthread_mutex_unlock(&join->context->lock);
}

FastedStatus
cpu_counts(FastedJoin *join, int side, uint64_t first_row, size_t nrows, uint32_t *counts)
{
	const FastedSet *set = join->sets[side == 1];
	uint64_t	rows = set->rows.rows;

	if (join->problem.output != FASTED_OUTPUT_COUNTS || side < 0 || side > (join->self ? 0 : 1) ||
		first_row > rows || nrows > rows - first_row)
		return cpu_fail(join->context, FASTED_INTERNAL,
						"counts were asked for that the join does not have");
	for (size_t i = 0; i < nrows; i++)
		counts[i] = atomic_load_explicit(&set->counts[first_row + i], memory_order_relaxed);
	return FASTED_OK;
}

FastedStatus
cpu_nearest(FastedJoin *join, uint64_t first_row, size_t nrows, uint32_t *lengths,
			FastedNeighbor *neighbors)
{
	const NeighborLists *lists = &join->sets[0]->lists;

	if (!cpu_finds_nearest(join) || first_row > lists->rows || nrows > lists->rows - first_row)
		return cpu_fail(join->context, FASTED_INTERNAL,
						"neighbors were asked for that the join does not have");
	for (size_t i = 0; i < nrows; i++)
		lengths[i] = neighbor_lists_sorted(lists, first_row + i, neighbors + i * lists->k);
	return FASTED_OK;
}

void
cpu_join_close(FastedJoin *join)
{
	FastedContext *context;

	if (join == NULL)
		return;
	context = join->context;
	cpu_stop_join(join);
	cpu_keep_forms(join);
	cpu_keep_levels(join);
	pair_pool_reset(&context->pool);
	context->handed_out = NULL;
	context->join = NULL;
	cpu_forget_strips(join);
	free(join);
}
