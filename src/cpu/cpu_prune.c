/*-------------------------------------------------------------------------
 *
 * cpu_prune.c
 *	  When a join prunes, and the phases that it has for that.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>

#include "cpu_prune.h"

/*
 * Left alone, only joins of so many pairs a row are looked at: a set of 20000 rows with
 * itself, which takes a tenth of a second.
 */
#define AREA_A_ROW 10000

/* Long rows are left: their samples would be as large as all else. */
#define MOST_DIMENSIONS 8192

/* Fewer dimensions than two levels' are left. */
#define LEAST_DIMENSIONS LEVEL_WORDS(1)

#define CLAIM_SLIVERS 4

/*
 * Does the filter multiply so many bytes at once that rows of the first level are
 * padded?  The costs of cpu_prune_test.c are not such a kernel's: beside its products,
 * rechecks and comparisons of sums take several times as long.
 */
static bool
pads_levels(const FastedContext *context)
{
	const CpuKernel *kernel = context->kernel;

	return context->may_use_int8 &&
		cpu_int8_words(kernel, LEVEL_WORDS(0)) * 4 > LEVEL_WORDS(0) * kernel->int8->bytes;
}

/* Called by the plan of memory, when INT8 is decided on. */
bool
cpu_may_prune(const FastedContext *context)
{
	const FastedOptions *options = &context->options;

	if (options->prune == FASTED_PRUNE_OFF || options->dimensions > MOST_DIMENSIONS || context->product_kernel == NULL)
		return false;
	return options->prune == FASTED_PRUNE_FORCE ||
		(options->dimensions >= LEAST_DIMENSIONS && !pads_levels(context));
}

/* Could sets for which there is memory be worth it? */
bool
cpu_prune_suits(const FastedContext *context, uint64_t limit)
{
	return context->options.prune == FASTED_PRUNE_FORCE ||
		(context->row_limit >= 2 * AREA_A_ROW && context->fit_bytes <= limit / 16);
}

static bool
is_worth_it(const FastedJoin *join)
{
	double		rows = (double) join->sets[0]->rows.rows;

	if (!join->self)
		rows += (double) join->sets[1]->rows.rows;
	return join->context->options.prune == FASTED_PRUNE_FORCE ||
		cpu_join_area(join) >= AREA_A_ROW * (rows - 1.0);
}

/* The projection that the sets have, or the one that they may have. */
static Projection *
known_projection(const FastedJoin *join)
{
	const SetLevels *a = &join->sets[0]->levels;
	const SetLevels *b = &join->sets[1]->levels;
	bool		second = a->projection == NULL ||
		(b->projection != NULL && join->sets[1]->rows.rows > join->sets[0]->rows.rows);

	return second ? b->projection : a->projection;
}

static int
nsets(const FastedJoin *join)
{
	return join->self ? 1 : 2;
}

/*
 * Slices must be the same wherever they are joined, and the order depends on the kernel's
 * rounding; and rows of a group lie together.  There rows stay, or are again, in the order
 * that they came in.
 */
static bool
rows_may_move(const FastedJoin *join)
{
	return (join->problem.slices == 1 || join->problem.alike) && join->problem.groups == NULL;
}

/* Before work begins: memory, and what the sets have. */
bool
cpu_prepare_pruning(FastedJoin *join)
{
	FastedContext *context = join->context;

	for (int i = 0; i < nsets(join) && !rows_may_move(join); i++)
	{
		if (join->sets[i]->levels.ordered)
			cpu_set_forget_form(join->sets[i]);
	}
	join->pruning = context->may_prune && rows_may_move(join) && is_worth_it(join);
	if (!join->pruning)
		return true;
	for (int i = 0; i < nsets(join); i++)
	{
		if (!cpu_levels_reserve(context, &join->sets[i]->levels, join->sets[i]->rows.rows))
			return false;
	}
	join->projection = cpu_projection_hold(known_projection(join));
	if (join->projection != NULL)
		return true;
	if (context->fit_room == NULL)
		context->fit_room = fasted_cpu_map(context->fit_bytes, &context->memory);
	join->projection = cpu_projection_hold(cpu_projection_new(context));
	join->fitting = true;
	return context->fit_room != NULL && join->projection != NULL;
}

/* --- the phases; the lock is held where one begins */

/* A projection is found, or it turns out that there is no use in one. */
void
cpu_fit_projection(Worker *worker)
{
	FastedJoin *join = worker->join;
	bool		forced = join->context->options.prune == FASTED_PRUNE_FORCE;

	if (cpu_claim(join->context) != 0)
		return;					/* another thread's work */
	join->fitted = (forced || cpu_fit_promises(worker, join->projection)) &&
		cpu_fit(worker, join->projection);
}

/* What the sets need to be of the projection; false: there is none. */
bool
cpu_begin_levels(FastedJoin *join)
{
	if (join->fitting && !join->fitted)
		return false;
	for (int i = 0; i < nsets(join); i++)
	{
		FastedSet  *set = join->sets[i];

		join->level_packing[i] = PACK_ROWS;
		if (set->levels.projection == join->projection)
			join->level_packing[i] = set->levels.eps == join->choice_eps ? PACKED_ALREADY
				: PACK_THRESHOLDS;
		else
			set->levels.ordered = false;
	}
	join->projecting = join->level_packing[0] == PACK_ROWS || join->level_packing[1] == PACK_ROWS;
	return true;
}

/* Slivers of a set that this phase has work in. */
static size_t
slivers_of(const FastedJoin *join, int i, bool thresholds_too)
{
	uint32_t	step = join->context->kernel->width;

	if (i >= nsets(join) || join->level_packing[i] == PACKED_ALREADY ||
		(join->level_packing[i] == PACK_THRESHOLDS && !thresholds_too))
		return 0;
	return thresholds_too ? cpu_whole_tiles(join->context, join->sets[i]->rows.rows) / step
		: (join->sets[i]->rows.rows + step - 1) / step;
}

/* Rows of the sets that are not of the projection. */
void
cpu_project(Worker *worker)
{
	FastedJoin *join = worker->join;
	size_t		slivers[2] = {slivers_of(join, 0, false), slivers_of(join, 1, false)};
	uint64_t	first;

	while ((first = cpu_claim(join->context) * CLAIM_SLIVERS) < slivers[0] + slivers[1])
	{
		cpu_rest_if_alone(join->context, cpu_now());
		for (uint64_t s = first; s < first + CLAIM_SLIVERS && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];

			if (!cpu_project_set(worker, join->sets[i], i == 0 ? s : s - slivers[0]))
				return;
		}
	}
}

/* A set each. */
void
cpu_order(Worker *worker)
{
	FastedJoin *join = worker->join;
	uint64_t	i;

	while ((i = cpu_claim(join->context)) < (uint64_t) nsets(join))
	{
		if (join->level_packing[i] == PACK_ROWS && !cpu_order_set(worker, join->sets[i]))
			return;
	}
}

/* Sets have their order now, and what was packed in another one is void. */
void
cpu_begin_level_packing(FastedJoin *join)
{
	for (int i = 0; i < nsets(join); i++)
	{
		if (join->level_packing[i] != PACK_ROWS)
			continue;
		join->sets[i]->levels.ordered = true;
		cpu_lay_out_levels(join->context, join->sets[i], join->projection->levels);
	}
}

void
cpu_pack_set_levels(Worker *worker)
{
	FastedJoin *join = worker->join;
	size_t		slivers[2] = {slivers_of(join, 0, true), slivers_of(join, 1, true)};
	uint64_t	first;

	while ((first = cpu_claim(join->context) * CLAIM_SLIVERS) < slivers[0] + slivers[1])
	{
		cpu_rest_if_alone(join->context, cpu_now());
		for (uint64_t s = first; s < first + CLAIM_SLIVERS && s < slivers[0] + slivers[1]; s++)
		{
			int			i = s >= slivers[0];
			size_t		sliver = i == 0 ? s : s - slivers[0];

			if (cpu_stopping(join->context))
				return;
			if (join->level_packing[i] == PACK_ROWS)
				cpu_pack_levels(worker, join->sets[i], sliver);
			else
				cpu_set_level_thresholds(worker, join->sets[i], sliver);
		}
	}
}

/* Which levels, or none. */
void
cpu_test_levels(Worker *worker)
{
	FastedJoin *join = worker->join;

	if (cpu_claim(join->context) != 0)
		return;					/* another thread's work */
	if (join->context->options.prune == FASTED_PRUNE_FORCE)
		join->levels = (1U << join->projection->levels) - 1;
	else
		join->levels = cpu_choose_levels(worker);
	join->leveled = !cpu_stopping(join->context);
}

/*
 * At the end of a join, however it ended: what it leaves in its sets.  A set that was
 * not projected to the end is in no order, and nothing of it is packed.
 */
void
cpu_keep_levels(FastedJoin *join)
{
	for (int i = 0; i < nsets(join); i++)
	{
		FastedSet  *set = join->sets[i];

		if (join->level_packing[i] == PACKED_ALREADY)
			continue;
		if (join->leveled && (join->laid_out || join->level_packing[i] == PACK_THRESHOLDS))
		{
			if (join->level_packing[i] == PACK_ROWS)
			{
				cpu_projection_drop(join->context, set->levels.projection);
				set->levels.projection = cpu_projection_hold(join->projection);
			}
			set->levels.eps = join->choice_eps;
		}
		else if (join->level_packing[i] == PACK_ROWS)
			cpu_set_forget_form(set);
		else
			set->levels.eps = NAN;
	}
	cpu_projection_drop(join->context, join->projection);
}
