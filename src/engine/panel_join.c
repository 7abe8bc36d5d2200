/*-------------------------------------------------------------------------
 *
 * panel_join.c
 *	  The schedule of a panel join: the order in which panels are loaded and joined.
 *
 * With n rows and m rows per outer panel, a self-join loads about n^2 / 2m rows, and a join of
 * two relations about n_a n_b / m.  The outer panel therefore takes nearly all memory.  An inner
 * panel is just large enough to keep the engine busy while the next one is loaded.  The smaller
 * relation is the outer side, except in joins for nearest neighbours.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "panel_join.h"

/* Maximum number of neighbours in a batch, unless a single row has more. */
#define BATCH_NEIGHBORS 16384

FastedStatus
panels_fail(PanelJoin *join, FastedStatus status, const char *text)
{
	join->failed = status;
	snprintf(join->error, sizeof(join->error), "%s", text);
	return status;
}

/* --- arrays */

/*
 * Allocates an array of the join, instead of an earlier one.  If out of memory, the join fails, and the
 * result is NULL.
 */
static void *
allocate(PanelJoin *join, PanelArray which, size_t count, size_t element)
{
	free(join->arrays[which]);
	join->arrays[which] = malloc(count * element + 1);
	if (join->arrays[which] == NULL)
		panels_fail(join, FASTED_OUT_OF_MEMORY,
					"Could not allocate memory for the partitions, counts or neighbors of rows.");
	return join->arrays[which];
}

/* Returns a copy of an array of the caller; NULL of NULL, or if out of memory. */
static void *
copy_array(PanelJoin *join, PanelArray which, const void *array, size_t count, size_t element)
{
	void	   *copy = array != NULL ? allocate(join, which, count, element) : NULL;

	return copy != NULL ? memcpy(copy, array, count * element) : NULL;
}

/* Copies the arrays of the problem.  The number of rows must be known. */
static FastedStatus
copy_problem(PanelJoin *join)
{
	FastedProblem *problem = &join->problem.problem;

	problem->partitions = copy_array(join, ARRAY_PARTITIONS, problem->partitions, problem->npartitions,
									 sizeof(FastedPartition));
	problem->ranks = copy_array(join, ARRAY_RANKS, problem->ranks, join->rows[join->problem.sides - 1],
								sizeof(uint32_t));
	return join->failed;
}

/* --- statistics and progress over all panels */

/* Returns the number of row pairs that a join of two panels compares. */
static double
area(const Panel *a, const Panel *b)
{
	return a == b ? 0.5 * (double) a->count * ((double) a->count - 1.0)
		: (double) a->count * (double) b->count;
}

/* The same of all panels. */
static double
whole_area(const PanelJoin *join)
{
	double		n = (double) join->rows[0];
	double		outer = (double) join->outer_rows;
	double		panels = ceil(n / outer);
	double		last = n - (panels - 1.0) * outer;

	if (join->problem.sides == 2)
		return n * (double) join->rows[1];
	/* nearest neighbours: rows of different panels are compared twice */
	return panels_find_nearest(join) ? n * n - 0.5 * ((panels - 1.0) * outer * outer + last * last + n)
		: 0.5 * n * (n - 1.0);
}

/* Sets the progress: row pairs if the join is done in panels, else the engine's own units. */
static void
set_progress(const PanelJoin *join, FastedStats *stats)
{
	double		compared = join->compared;

	if (!join->started || join->resident)
		return;
	if (join->join != NULL && stats->units_total > join->units_total)
		compared += area(join->a, join->b) * (double) (stats->units_done - join->units_done)
			/ (double) (stats->units_total - join->units_total);
	stats->units_total = (uint64_t) whole_area(join);
	stats->units_done = join->done || compared > (double) stats->units_total ? stats->units_total
		: (uint64_t) compared;
}

void
panel_join_stats(const PanelJoin *join, FastedStats *stats)
{
	uint64_t	outer_total = join->searching ? join->rows[1] : join->rows[join->outer_side];

	*stats = (FastedStats) {0};
	if (join->context == NULL)
		return;
	join->engine->stats(join->context, stats);
	stats->rows = 0;
	for (int side = join->searching ? 1 : 0; side < join->problem.sides; side++)
		stats->rows += join->started ? join->rows[side] : join->sides[side].have;
	stats->dimensions = join->problem.options.dimensions;
	stats->panels = !join->started ? 0 : join->resident || join->outer_rows == 0 ? 1
		: (uint32_t) ceil_div(outer_total, join->outer_rows);
	set_progress(join, stats);
}

/* --- nearest neighbours, returned when the lists of an outer panel are complete */

/* Allocates buffers for a batch of lists, and resets the state. */
static FastedStatus
begin_lists(PanelJoin *join)
{
	uint32_t	k;

	join->ready_first = join->ready_end = join->batch_count = 0;
	join->has_lists = false;
	if (!panels_find_nearest(join))
		return FASTED_OK;
	k = join->problem.problem.k = panels_clip_neighbors(join, join->problem.problem.k);
	join->batch_most = k < BATCH_NEIGHBORS ? BATCH_NEIGHBORS / k : 1;
	join->batch_lists = allocate(join, ARRAY_LISTS, join->batch_most * k, sizeof(FastedNeighbor));
	join->batch_lengths = allocate(join, ARRAY_LENGTHS, join->batch_most, sizeof(uint32_t));
	if (join->done)
		join->ready_end = join->rows[0];
	return join->failed;
}

/* Returns the next batch of complete lists. */
static FastedStatus
return_lists(PanelJoin *join, FastedBatch *batch)
{
	uint64_t	left = join->ready_end - join->ready_first;
	FastedStatus status = FASTED_OK;

	join->batch_count = left < join->batch_most ? left : join->batch_most;
	batch->first_row = join->ready_first;
	batch->row_count = join->batch_count;
	join->ready_first += join->batch_count;
	if (join->join == NULL)
		memset(join->batch_lengths, 0, join->batch_count * sizeof(uint32_t));
	else
		status = join->engine->nearest(join->join, batch->first_row - join->a->first,
									   join->batch_count, join->batch_lengths, join->batch_lists);
	return status;
}

const FastedNeighbor *
panel_join_nearest(const PanelJoin *join, uint64_t row, uint32_t *length)
{
	uint64_t	place = row - (join->ready_first - join->batch_count);

	*length = place < join->batch_count ? join->batch_lengths[place] : 0;
	return *length > 0 ? join->batch_lists + place * join->problem.problem.k : NULL;
}

/* --- the schedule */

/* Checks that the engine supports nearest neighbours, and that k is valid. */
static FastedStatus
check_neighbors(PanelJoin *join, uint32_t k)
{
	if (join->engine->nearest == NULL)
		return panels_fail(join, FASTED_UNSUPPORTED, "The engine does not find nearest neighbors.");
	if (k < 1)
		return panels_fail(join, FASTED_UNSUPPORTED,
						   "The number of nearest neighbors must be at least 1.");
	return FASTED_OK;
}

FastedStatus
panel_join_open(const FastedEngine *engine, const PanelProblem *problem, PanelJoin **result)
{
	PanelJoin  *join = calloc(1, sizeof(*join));
	FastedStatus status;

	*result = join;
	if (join == NULL)
		return FASTED_OUT_OF_MEMORY;
	join->engine = engine;
	join->problem = *problem;
	join->resident = true;
	status = engine->open(&problem->options, &join->context);
	/* the caller may free these strings */
	join->problem.options.devices = join->problem.options.kernel = NULL;
	if (panels_find_nearest(join) && !FASTED_FAILED(status))
	{
		status = check_neighbors(join, problem->problem.k);
		join->list_length = problem->problem.k;
	}
	for (int side = 0; side < problem->sides && !FASTED_FAILED(status); side++)
	{
		FastedSetOptions options = {.expected_rows = problem->expected_rows[side],
		.neighbors = side == 0 ? join->list_length : 0};

		join->sides[side].side = side;
		status = engine->set_open(join->context, &options, &join->sides[side].set);
	}
	return status;
}

/* Allocates zeroed counts for all rows, if the join needs them. */
static FastedStatus
clear_counts(PanelJoin *join)
{
	join->counts[0] = join->counts[1] = NULL;
	for (int side = 0; side < join->problem.sides && fasted_counts_rows(&join->problem.problem); side++)
	{
		join->counts[side] = allocate(join, ARRAY_COUNTS + side, join->rows[side], sizeof(uint32_t));
		if (join->counts[side] == NULL)
			break;
		memset(join->counts[side], 0, join->rows[side] * sizeof(uint32_t));
	}
	return join->failed;
}

/* Returns whether there are too few rows for a pair. */
static bool
no_pair(const PanelJoin *join)
{
	return join->problem.sides == 2 ? join->rows[0] == 0 || join->rows[1] == 0
		: join->rows[0] < 2;
}

/* Resets the results and starts loading the first panels, if the join is done in panels. */
static FastedStatus
begin(PanelJoin *join)
{
	join->compared = 0.0;
	join->done = no_pair(join);
	if (clear_counts(join) != FASTED_OK || begin_lists(join) != FASTED_OK || join->done ||
		panels_all_resident(join))
		return join->failed;
	return panels_load_outer(join, 0);
}

static FastedStatus
seal_sides(PanelJoin *join)
{
	FastedStatus status = FASTED_OK;

	for (int side = 0; side < join->problem.sides && status == FASTED_OK; side++)
	{
		join->sides[side].count = join->rows[side];
		join->sides[side].sealed = true;
		status = join->engine->seal(join->sides[side].set);
	}
	return status;
}

static bool
partitions_are_valid(const PanelJoin *join)
{
	const FastedProblem *problem = &join->problem.problem;

	return problem->partitions == NULL ||
		fasted_partitions_are_valid(problem->partitions, problem->npartitions, join->rows[0],
								join->rows[join->problem.sides - 1], join->problem.sides == 1);
}

/* Returns to the self-join after a search. */
static void
end_search(PanelJoin *join)
{
	if (!join->searching)
		return;
	join->searching = false;
	join->problem.sides = 1;
	join->problem.problem = join->searched;
	join->rows[0] = join->rows[1];
	join->inner[0].side = join->inner[1].side = 0;
}

FastedStatus
panel_join_again(PanelJoin *join, const FastedProblem *problem)
{
	if (!join->started)
		return panels_fail(join, FASTED_INTERNAL, "panel_join_again was called before start");
	if (problem->output == FASTED_OUTPUT_NEAREST)
	{
		if (check_neighbors(join, problem->k) != FASTED_OK)
			return join->failed;
		if (problem->k > join->list_length)
			return panels_fail(join, FASTED_INTERNAL,
							   "no memory is reserved for so many neighbors");
	}
	join->engine->join_close(join->join);
	join->join = NULL;
	join->loading = NULL;
	end_search(join);
	join->problem.problem = *problem;
	return copy_problem(join) == FASTED_OK ? begin(join) : join->failed;
}

/* Copies the arrays of the search, and gathers those of the searched rows. */
static FastedStatus
copy_search(PanelJoin *join)
{
	PanelSearch *search = &join->search;
	size_t		n = search->nrows;

	search->rows = copy_array(join, ARRAY_SEARCH_ROWS, search->rows, n, sizeof(uint32_t));
	search->bound = copy_array(join, ARRAY_SEARCH_BOUND, search->bound, n, sizeof(double));
	search->component = copy_array(join, ARRAY_SEARCH_COMPONENT, search->component, join->rows[0],
								   sizeof(uint32_t));
	search->core = copy_array(join, ARRAY_SEARCH_CORE, search->core, join->rows[0], sizeof(double));
	join->search_component = allocate(join, ARRAY_COMPONENT, n, sizeof(uint32_t));
	join->search_core = allocate(join, ARRAY_CORE, n, sizeof(double));
	for (size_t i = 0; i < n && join->failed == FASTED_OK; i++)
	{
		join->search_component[i] = search->component[search->rows[i]];
		join->search_core[i] = search->core[search->rows[i]];
	}
	return join->failed;
}

/* Replaces the rows of partitions by positions of searched rows, on side 0. */
static FastedStatus
convert_partitions(PanelJoin *join)
{
	const PanelSearch *search = &join->search;
	FastedProblem *problem = &join->problem.problem;
	FastedPartition *partitions = copy_array(join, ARRAY_SEARCH_PARTITIONS, problem->partitions,
											 problem->npartitions, sizeof(FastedPartition));
	uint32_t	position = 0;

	problem->partitions = partitions;
	for (uint32_t g = 0; partitions != NULL && g < problem->npartitions; g++)
	{
		FastedSpan	rows = fasted_partition_rows(&partitions[g], 0);

		while (position < search->nrows && search->rows[position] < rows.first)
			position++;
		partitions[g].first_a = position;
		while (position < search->nrows && search->rows[position] < rows.end)
			position++;
		partitions[g].rows_a = position - partitions[g].first_a;
	}
	return join->failed;
}

FastedStatus
panel_join_search(PanelJoin *join, const PanelSearch *search)
{
	FastedStatus status = FASTED_OK;

	if (!join->problem.searches || !join->started || !join->done ||
		join->ready_first < join->ready_end || !panels_find_nearest(join))
		return panels_fail(join, FASTED_INTERNAL,
						   "panel_join_search was called before the end of a join");
	if (join->engine->select_rows == NULL)
		return panels_fail(join, FASTED_UNSUPPORTED,
						   "The engine does not find nearest neighbors in other components.");
	end_search(join);
	join->search = *search;
	join->searched = join->problem.problem;
	if (copy_search(join) != FASTED_OK || convert_partitions(join) != FASTED_OK)
		return join->failed;
	join->searching = true;
	join->problem.sides = 2;
	join->problem.problem.k = 1;
	join->rows[1] = join->rows[0];
	join->rows[0] = search->nrows;
	join->inner[0].side = join->inner[1].side = 1;
	if (join->resident && !no_pair(join))
		status = panels_open_searched(join);
	return status == FASTED_OK ? begin(join) : status;
}

/* Sets the panels to join next.  Returns false if they are not loaded yet. */
static bool
next_panels(PanelJoin *join)
{
	if (panels_all_resident(join))
	{
		join->a = &join->sides[0];
		join->b = &join->sides[join->problem.sides - 1];
		return true;
	}
	if (!join->outer.sealed)
		return false;
	join->a = join->b = &join->outer;
	if (!join->met_itself)
		return true;
	if (join->resident)
	{
		join->b = &join->sides[0];
		return true;
	}
	*(join->outer_side == 0 ? &join->b : &join->a) = &join->inner[join->turn];
	return join->inner[join->turn].sealed;
}

/* Makes partitions relative to the panels that are joined. */
static FastedStatus
clip_partitions(PanelJoin *join, FastedProblem *problem)
{
	uint64_t	first[2] = {join->a->first, join->b->first};
	uint64_t	rows[2] = {join->a->count, join->b->count};
	FastedPartition *clipped;

	if (problem->partitions == NULL || panels_all_resident(join))
		return FASTED_OK;
	clipped = allocate(join, ARRAY_CLIPPED, problem->npartitions, sizeof(FastedPartition));
	if (clipped != NULL)
		fasted_clip_partitions(problem->partitions, problem->npartitions, first, rows, clipped);
	problem->partitions = clipped;
	return join->failed;
}

static FastedStatus
begin_join(PanelJoin *join)
{
	FastedProblem problem = join->problem.problem;
	FastedStats stats;

	problem.continues = panels_find_nearest(join) && join->has_lists;
	if (panels_find_nearest(join) && problem.ranks != NULL)
		problem.ranks += join->b->first;
	if (join->searching)
	{
		join->components = (FastedComponents) {
			.component = {join->search_component + join->a->first, join->search.component + join->b->first},
			.core = {join->search_core + join->a->first, join->search.core + join->b->first},
			.bound = join->search.bound + join->a->first
		};
		problem.components = &join->components;
	}
	/* representatives depend on the pairs of all panels */
	if (problem.output == FASTED_OUTPUT_REPRESENTATIVES && !join->resident)
		problem.output = FASTED_OUTPUT_PAIRS;
	join->has_lists = true;
	if (clip_partitions(join, &problem) != FASTED_OK)
		return join->failed;
	join->engine->stats(join->context, &stats);
	join->units_done = stats.units_done;
	join->units_total = stats.units_total;
	return join->engine->join_open(join->context, &problem, join->a->set, join->b->set,
								   &join->join);
}

void
panel_join_rank(PanelJoin *join, const uint32_t *ranks)
{
	join->problem.problem.ranks = ranks;
}

FastedStatus
panel_join_start(PanelJoin *join, const uint64_t *rows)
{
	FastedStatus status;

	for (int side = 0; side < join->problem.sides; side++)
	{
		if (join->started || rows[side] < join->sides[side].have || rows[side] > FASTED_MAX_ROWS)
			return panels_fail(join, FASTED_INTERNAL, "invalid number of rows");
		join->resident = join->resident && rows[side] == join->sides[side].have;
		join->rows[side] = rows[side];
	}
	if (!partitions_are_valid(join))
		return panels_fail(join, FASTED_INTERNAL, "partitions are not in ascending order");
	if (copy_problem(join) != FASTED_OK)
		return join->failed;
	join->started = true;
	join->resident = join->resident || no_pair(join);
	if (join->resident)
		status = seal_sides(join);
	else
	{
		panels_choose(join);
		status = panels_open(join);
	}
	if (status == FASTED_OK)
		status = begin(join);
	/* memory that the first join needs is allocated here */
	if (status == FASTED_OK && join->resident && !join->done && next_panels(join))
		status = begin_join(join);
	return status;
}

/* Adds the counts of the panels that were joined to the total counts. */
static FastedStatus
add_counts(PanelJoin *join)
{
	Panel	   *panels[2] = {join->a, join->b};
	FastedStatus status = FASTED_OK;

	for (int side = 0; side < (join->a == join->b ? 1 : 2) && status == FASTED_OK; side++)
		status = fasted_add_counts(join->engine, join->join, side, 0, panels[side]->count,
								   join->counts[panels[side]->side] + panels[side]->first);
	return status;
}

/* Returns whether the outer panel will have been joined with all rows after the current join. */
static bool
outer_will_be_done(const PanelJoin *join)
{
	const Panel *inner = join->inner;

	if (join->resident)
		return true;
	return join->inner_next >= join->inner_end && join->loading == NULL &&
		!inner[!join->turn].sealed && (join->met_itself || !inner[join->turn].sealed);
}

/* Ends the current join and starts loading the next panel. */
static FastedStatus
end_join(PanelJoin *join)
{
	bool		through = outer_will_be_done(join);
	FastedStatus status = FASTED_OK;

	if (fasted_counts_rows(&join->problem.problem))
		status = add_counts(join);
	join->engine->join_close(join->join);
	join->join = NULL;
	join->compared += area(join->a, join->b);
	if (status != FASTED_OK)
		return status;
	join->done = panels_all_resident(join);
	if (join->done)
		return FASTED_OK;
	if (join->met_itself)
	{
		join->inner[join->turn].sealed = false;
		join->turn = !join->turn;
	}
	join->met_itself = true;
	/* in a self-join, the last outer panel is joined only with itself */
	return through ? panels_load_outer(join, join->outer.first + join->outer.count)
		: panels_load_inner(join);
}

FastedStatus
panel_join_next(PanelJoin *join, int timeout_ms, FastedBatch *batch)
{
	memset(batch, 0, sizeof(*batch));
	if (!join->started)
		return panels_fail(join, FASTED_INTERNAL, "panel_join_next was called before start");
	for (;;)
	{
		FastedStatus status = panels_finish_loading(join);

		if (status != FASTED_OK)
			return status;
		if (join->ready_first < join->ready_end)
			return return_lists(join, batch);
		join->batch_count = 0;
		if (join->done)
			return FASTED_DONE;

		/* continue the current join, unless it is complete and its lists were just returned */
		if (join->ready_end == 0)
		{
			if (join->join == NULL && !next_panels(join))
				return panels_want_rows(join, batch) ? FASTED_WANT_ROWS
					: panels_fail(join, FASTED_INTERNAL, "there is no panel to load");
			if (join->join == NULL)
				status = begin_join(join);
			/* do not wait for pairs if rows for the next panel can be loaded meanwhile */
			if (status == FASTED_OK)
				status = join->engine->next(join->join, join->loading != NULL ? 0 : timeout_ms, batch);
			if (status == FASTED_AGAIN && panels_want_rows(join, batch))
				return FASTED_WANT_ROWS;
			if (status != FASTED_DONE)
				return status;
			if (panels_find_nearest(join) && outer_will_be_done(join))
			{
				join->ready_first = join->a->first;
				join->ready_end = join->a->first + join->a->count;
				continue;
			}
		}
		join->ready_first = join->ready_end = 0;
		status = end_join(join);
		if (status != FASTED_OK)
			return status;
	}
}

void
panel_join_pause(PanelJoin *join)
{
	if (join->join != NULL && join->ready_end == 0)
		join->engine->pause(join->join);
}

const uint32_t *
panel_join_counts(const PanelJoin *join, int side)
{
	return join->counts[side];
}

const char *
panel_join_last_error(const FastedEngine *engine, const PanelJoin *join)
{
	if (join != NULL && join->failed != FASTED_OK)
		return join->error;
	return engine->last_error(join != NULL ? join->context : NULL);
}

void
panel_join_close(PanelJoin *join)
{
	if (join == NULL)
		return;
	join->engine->close(join->context);
	for (int i = 0; i < ARRAYS; i++)
		free(join->arrays[i]);
	free(join);
}
