/*-------------------------------------------------------------------------
 *
 * cpu_prune.c
 *	  When a join prunes, and the phases that it has for that.
 *
 * Which levels a join has is decided by a sample of its tiles.  Costs are in bytes of a
 * tile's row, which take about as long to multiply whatever the filter: one an INT8 number,
 * two in 16 bits, four in FP32.  Nothing here depends on time or threads, so that the same
 * rows have the same levels.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <string.h>

#include "cpu_filter.h"
#include "cpu_phases.h"

#define CLAIM_SLIVERS 4

/* Rows of tiles that are looked at: one in so many, within limits. */
#define TESTED_PART 256
#define TESTED_LEAST 4
#define TESTED_MOST 32

/* Pruning must promise this part of the whole cost. */
#define WORTH 0.9

#define SEQUENCES (1U << FASTED_PRUNE_LEVELS)

static bool
is_worth_it(const FastedJoin *join)
{
	double		rows = (double) join->sets[0]->rows.rows;

	if (!join->self)
		rows += (double) join->sets[1]->rows.rows;
	return join->context->options.prune == FASTED_PRUNE_FORCE ||
		cpu_join_area(join) >= PRUNED_AREA_A_ROW * (rows - 1.0);
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

/* --- which levels */

/* What a tile costs with these levels, where so many pairs are left after each. */
static double
tile_cost(const FastedJoin *join, uint32_t levels, const uint32_t *hits)
{
	double		full = cpu_full_cost(join);
	double		recheck = cpu_recheck_cost(join->context);
	double		cost = 0.0;
	double		left = 0.0;

	for (uint32_t level = 0; level < FASTED_PRUNE_LEVELS; level++)
	{
		double		next = cpu_level_cost(join->context, level);

		if ((levels & 1U << level) == 0)
			continue;
		if (cost > 0.0 && left <= next)
			return cost + left;
		cost += next;
		left = hits[level] * recheck;
	}
	return cost + (left < full ? left : full);
}

/* Tests one tile at all levels. */
static void
test_tile(Worker *worker, size_t row, size_t col, uint32_t *hits)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	Tile		tile = {.row = row,.col = col,.hits = worker->hits,.hit_stride = FASTED_HIT_BYTES};

	for (uint32_t level = 0; level < join->projection->levels; level++)
	{
		memset(worker->hits, 0, kernel->tile_rows * FASTED_HIT_BYTES);
		cpu_sweep_tile(worker, &join->row_set->levels.packed[level],
					   &join->col_set->levels.packed[level], &tile);
		hits[level] = cpu_count_hits(kernel, &tile);
		if (hits[level] == 0)
			return;
	}
}

/* Adds what the tiles of one row of tiles cost, by each sequence; how many they are. */
static size_t
test_row(Worker *worker, size_t row, double *costs)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	size_t		first = join->self ? row / kernel->tile_cols * kernel->tile_cols : 0;
	size_t		tiles = 0;

	for (size_t col = first; col < join->col_set->rows.rows; col += kernel->tile_cols)
	{
		uint32_t	hits[FASTED_PRUNE_LEVELS] = {0};

		if (tiles++ % 64 == 0)
			cpu_rest_if_alone(join->context);
		if (cpu_stopping(join->context))
			break;
		test_tile(worker, row, col, hits);
		for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
			costs[levels] += tile_cost(join, levels, hits);
	}
	return tiles;
}

/* The levels, as bits; none: tiles are tested at all dimensions at once. */
static uint32_t
cpu_choose_levels(Worker *worker)
{
	FastedJoin *join = worker->join;
	const CpuKernel *kernel = join->context->kernel;
	uint32_t	rows = (uint32_t) (join->row_set->rows.rows / kernel->tile_rows);
	uint32_t	tested = rows / TESTED_PART;
	double		costs[SEQUENCES] = {0};
	uint32_t	best = 0;
	size_t		tiles = 0;

	if (tested < TESTED_LEAST)
		tested = TESTED_LEAST;
	if (tested > TESTED_MOST)
		tested = TESTED_MOST;
	if (tested > rows)
		tested = rows;
	for (uint32_t i = 0; i < tested && !cpu_stopping(join->context); i++)
		tiles += test_row(worker, (size_t) fasted_spread_row(i, tested, rows) * kernel->tile_rows,
						  costs);
	costs[0] = WORTH * cpu_full_cost(join) * tiles;
	for (uint32_t levels = 1; levels < 1U << join->projection->levels; levels++)
	{
		if (costs[levels] < costs[best])
			best = levels;
	}
	return best;
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
		cpu_rest_if_alone(join->context);
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
		cpu_rest_if_alone(join->context);
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
