/*-------------------------------------------------------------------------
 *
 * panel_join.c
 *	  The schedule: which panel is loaded, and which two are joined, when.
 *
 * With n rows and outer panels of m, about n^2 / 2m rows are loaded, or n_a n_b / m
 * for two relations.  So the outer panel takes nearly all memory, and the inner ones
 * are just large enough for an engine to be busy with one while the next one comes.
 * Of two relations the smaller one is the outer one, unless neighbours are wanted.
 *
 * Several devices have an outer panel together, which is larger by their number, and
 * each inner one on all of them.  What a join of such a panel left out, since a device
 * was lost, is joined at the end.
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair_log.h"
#include "panel_join.h"
#include "row_groups.h"

/* The outer panel is so many times as large as each of the inner ones. */
#define OUTER_TO_INNER 8

/* Rows that are asked for at once while a join is at work, in bytes. */
#define LOAD_BYTES ((uint64_t) 4 << 20)

/* Neighbours that are handed out at once, unless a row has more. */
#define GIVEN_NEIGHBORS 16384

/* A set, and the rows of a side that it has or is to have. */
typedef struct Panel
{
	FastedSet  *set;
	int			side;
	uint64_t	first;
	uint64_t	count;
	uint64_t	have;
	bool		sealed;			/* all of them are there */
} Panel;

/* Rows of the outer side that are still to meet some of the inner side, or each other. */
typedef struct Rest
{
	uint64_t	first;
	uint64_t	end;
	uint64_t	inner_first;
	uint64_t	inner_end;
	bool		itself;
} Rest;

struct PanelJoin
{
	const FastedEngine *engine;
	FastedContext *context;
	PanelProblem problem;
	FastedStatus failed;		/* FASTED_OK until something here did */
	char		error[128];

	bool		started;
	bool		resident;		/* each side is one panel: sides[] */
	uint64_t	rows[2];
	Panel		sides[2];

	/* Panels, once rows did not fit. */
	int			outer_side;
	uint64_t	outer_rows;		/* of one panel, but the last */
	bool		spread;			/* on several devices */
	uint64_t	devices;		/* so many, at first */
	uint64_t	outer_end;		/* of the rows that outer panels are made of now */
	uint64_t	inner_rows;
	uint64_t	inner_next;		/* the first row that no inner panel has had yet */
	uint64_t	inner_end;		/* and behind the last one that the outer panel has to meet */
	FastedRowGroup *groups;		/* those of the panels that are joined; NULL: all rows meet */
	Panel		outer;
	Panel		inner[2];
	int			turn;			/* the inner panel that is joined next */
	Panel	   *loading;		/* NULL: none */

	/* What was left out. */
	Rest	   *rests;
	uint32_t	nrests;
	uint32_t	rests_room;
	bool		in_rest;		/* the outer panel is of rest */
	Rest		rest;
	PairLog		skip;			/* pairs that come once more there */
	uint64_t	skipped;
	FastedPair *kept;			/* of a batch, others */
	size_t		kept_room;

	/* The join at work, or to come. */
	FastedJoin *join;			/* NULL: none is at work */
	Panel	   *a;
	Panel	   *b;
	bool		met_itself;		/* the outer panel, in a self-join */
	bool		done;

	uint32_t   *counts[2];

	/* FASTED_OUTPUT_NEAREST. */
	uint32_t	list_length;	/* that lists have memory for */
	bool		further;		/* the outer panel has lists */
	uint64_t	give_first;		/* rows whose lists are to be handed out */
	uint64_t	give_end;
	uint64_t	given_first;	/* and those of the last batch */
	uint64_t	given_count;
	uint64_t	given_most;
	uint32_t   *given_lengths;
	FastedNeighbor *given;

	FastedStats before;			/* of the context, when it was restarted */

	/* Pairs of rows compared so far, and units of the engine when a join began. */
	double		compared;
	uint64_t	units_done;
	uint64_t	units_total;
};

static FastedStatus
fail_here(PanelJoin *join, FastedStatus status, const char *text)
{
	join->failed = status;
	snprintf(join->error, sizeof(join->error), "%s", text);
	return status;
}

static bool
finds_nearest(const PanelJoin *join)
{
	return join->problem.problem.output == FASTED_OUTPUT_NEAREST;
}

/* Is this a number of neighbours that the engine finds? */
static FastedStatus
check_neighbors(PanelJoin *join, uint32_t k)
{
	if (join->engine->nearest == NULL)
		return fail_here(join, FASTED_UNSUPPORTED, "this engine does not find nearest neighbors");
	if (k < 1)
		return fail_here(join, FASTED_UNSUPPORTED,
						 "the number of nearest neighbors must be at least 1");
	return FASTED_OK;
}

/* --- rows in */

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
	/* the caller's strings need not live on */
	join->problem.options.devices = join->problem.options.kernel = NULL;
	if (finds_nearest(join) && !FASTED_FAILED(status))
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

static void
close_panel(PanelJoin *join, Panel *panel)
{
	join->engine->set_close(panel->set);
	memset(panel, 0, sizeof(*panel));
}

/* The side has no rows; its set has gone where there were panels. */
static FastedStatus
empty_side(PanelJoin *join, int side)
{
	FastedSetOptions options = {.neighbors = side == 0 ? join->list_length : 0};
	FastedSet  *set = join->sides[side].set;
	FastedStatus status;

	if (set != NULL)
		status = join->engine->set_reset(set, 0);
	else
		status = join->engine->set_open(join->context, &options, &set);
	join->sides[side] = (Panel) {.set = set,.side = side};
	return status;
}

FastedStatus
panel_join_restart(PanelJoin *join)
{
	FastedStatus status = join->failed;

	if (status != FASTED_OK)
		return status;
	join->engine->join_close(join->join);
	join->join = NULL;
	join->loading = NULL;
	close_panel(join, &join->outer);
	close_panel(join, &join->inner[0]);
	close_panel(join, &join->inner[1]);
	for (int side = 0; side < join->problem.sides && status == FASTED_OK; side++)
		status = empty_side(join, side);
	join->started = join->done = false;
	join->resident = true;
	join->outer_rows = join->inner_rows = 0;
	/* what few rows have clipped */
	if (finds_nearest(join))
		join->problem.problem.k = join->list_length;
	join->problem.problem.ranks = NULL;
	join->engine->stats(join->context, &join->before);
	return status;
}

/* The panel that takes rows of this side; NULL: none does. */
static Panel *
filling(PanelJoin *join, int side)
{
	if (side < 0 || side >= join->problem.sides)
		return NULL;
	if (!join->started)
		return &join->sides[side];
	return join->loading != NULL && join->loading->side == side ? join->loading : NULL;
}

FastedStatus
panel_join_stage(PanelJoin *join, int side, float **rows, size_t *capacity)
{
	Panel	   *panel = filling(join, side);
	FastedStatus status;

	if (join->failed != FASTED_OK)
		return join->failed;
	if (panel == NULL || panel->sealed)
		return fail_here(join, FASTED_INTERNAL, "no row is wanted");
	status = join->engine->stage(panel->set, rows, capacity);
	if (status == FASTED_OK && join->started && *capacity > panel->count - panel->have)
		*capacity = panel->count - panel->have;
	return status;
}

FastedStatus
panel_join_commit(PanelJoin *join, int side, size_t nrows)
{
	Panel	   *panel = filling(join, side);
	FastedStatus status;

	if (join->failed != FASTED_OK)
		return join->failed;
	if (panel == NULL || (join->started && nrows > panel->count - panel->have))
		return fail_here(join, FASTED_INTERNAL, "rows were committed that are not wanted");
	status = join->engine->commit(panel->set, nrows);
	if (status == FASTED_OK)
		panel->have += nrows;
	return status;
}

bool
panel_join_lend(PanelJoin *join, int side, void *memory, size_t bytes)
{
	return join->failed == FASTED_OK && !join->started &&
		join->engine->lend(join->sides[side].set, memory, bytes);
}

void
panel_join_withdraw(PanelJoin *join, int side)
{
	if (join->sides[side].set != NULL)
		join->engine->withdraw(join->sides[side].set);
}

FastedStatus
panel_join_put(PanelJoin *join, int side, const float *rows, size_t nrows, size_t *taken)
{
	FastedStatus status;

	*taken = 0;
	if (join->failed != FASTED_OK)
		return join->failed;
	if (join->started)
		return fail_here(join, FASTED_INTERNAL, "rows are put before the start");
	status = join->engine->put(join->sides[side].set, rows, nrows, taken);
	join->sides[side].have += *taken;
	return status;
}

FastedStatus
panel_join_settle(PanelJoin *join, int side)
{
	if (join->failed != FASTED_OK || join->sides[side].set == NULL)
		return join->failed;
	return join->engine->settle(join->sides[side].set);
}

FastedStatus
panel_join_read_back(PanelJoin *join, int side, uint64_t first_row, size_t nrows, float *rows)
{
	const Panel *panel = &join->sides[side];

	if (join->failed != FASTED_OK)
		return join->failed;
	if (join->started || first_row > panel->have || nrows > panel->have - first_row)
		return fail_here(join, FASTED_INTERNAL, "rows that are not staged were to be read back");
	return join->engine->read_back(panel->set, first_row, nrows, rows);
}

/* --- panels */

/* The rows that panels of the outer one are joined with. */
static int
inner_side(const PanelJoin *join)
{
	return join->problem.sides == 2 ? !join->outer_side : 0;
}

/* No row has more neighbours than there are rows. */
static uint32_t
clip_neighbors(const PanelJoin *join, uint32_t k)
{
	uint64_t	rows = join->problem.sides == 2 ? join->rows[1]
		: join->rows[0] > 0 ? join->rows[0] - 1 : 0;

	if (rows < 1)
		rows = 1;
	return k < rows ? k : (uint32_t) rows;
}

static bool
panels_fit(const PanelJoin *join, uint64_t outer, uint64_t inner)
{
	uint64_t	rows[3] = {outer, inner, inner};

	if (join->list_length > 0)
		rows[0] += join->engine->list_rows(join->context, outer,
										   clip_neighbors(join, join->list_length));
	return (join->spread ? join->engine->fits_spread : join->engine->fits) (join->context, rows, 3);
}

/* Over so many devices an outer panel may be spread. */
static uint64_t
width(const PanelJoin *join)
{
	return join->engine->width == NULL ? 1 : (uint64_t) join->engine->width(join->context);
}

static uint64_t
divide_up(uint64_t n, uint64_t by)
{
	return (n + by - 1) / by;
}

static uint64_t
inner_of(const PanelJoin *join, uint64_t outer)
{
	return divide_up(join->spread ? divide_up(outer, width(join)) : outer, OUTER_TO_INNER);
}

/* Rows that an outer panel may have. */
static uint64_t
most_outer(const PanelJoin *join)
{
	uint64_t	low = 1;
	uint64_t	high = join->rows[join->outer_side];

	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (panels_fit(join, middle, inner_of(join, middle)))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/*
 * An outer panel on several devices, if it is larger than that of one.  Slices are those of
 * one device's panels: other processes may have fewer.
 */
static uint64_t
most_spread(PanelJoin *join, uint64_t most)
{
	uint64_t	spread;

	if (width(join) < 2 || join->list_length > 0 || join->problem.problem.slices > 1)
		return most;
	join->spread = true;
	spread = most_outer(join);
	join->spread = spread > most;
	join->devices = width(join);
	return join->spread ? spread : most;
}

/* The sizes of panels: of even size, as large as they may be. */
static void
choose_panels(PanelJoin *join)
{
	uint64_t	outer_total;
	uint64_t	inner_total;
	uint64_t	low;
	uint64_t	high;

	join->outer_side = join->problem.sides == 2 && join->list_length == 0 &&
		join->rows[1] < join->rows[0];
	outer_total = join->rows[join->outer_side];
	inner_total = join->rows[inner_side(join)];

	low = most_spread(join, most_outer(join));
	join->outer_rows = divide_up(outer_total, divide_up(outer_total, low));

	/* what even sizes leave is the inner panels' */
	low = inner_of(join, low);
	high = inner_total;
	while (low < high)
	{
		uint64_t	middle = low + (high - low + 1) / 2;

		if (panels_fit(join, join->outer_rows, middle))
			low = middle;
		else
			high = middle - 1;
	}
	join->inner_rows = divide_up(inner_total, divide_up(inner_total, low));
}

static FastedStatus
open_panel(PanelJoin *join, Panel *panel, int side, uint64_t rows, uint32_t neighbors)
{
	FastedSetOptions options = {
		.expected_rows = rows,.most_rows = rows,.neighbors = neighbors
	};

	options.spread = join->spread && panel == &join->outer;
	panel->side = side;
	return join->engine->set_open(join->context, &options, &panel->set);
}

/* The sets of sides go, those of panels come. */
static FastedStatus
open_panels(PanelJoin *join)
{
	uint32_t	neighbors = join->list_length > 0 ? clip_neighbors(join, join->list_length) : 0;
	FastedStatus status;

	for (int side = 0; side < join->problem.sides; side++)
	{
		join->engine->set_close(join->sides[side].set);
		join->sides[side].set = NULL;
	}
	status = open_panel(join, &join->outer, join->outer_side, join->outer_rows, neighbors);
	for (int i = 0; i < 2 && status == FASTED_OK; i++)
		status = open_panel(join, &join->inner[i], inner_side(join), join->inner_rows, 0);
	return status;
}

/* Names the rows that this panel is to have. */
static FastedStatus
load(PanelJoin *join, Panel *panel, uint64_t first, uint64_t most)
{
	uint64_t	left = join->rows[panel->side] - first;
	FastedStatus status;

	panel->first = first;
	panel->count = left < most ? left : most;
	panel->have = 0;
	panel->sealed = false;
	join->loading = panel;
	status = join->engine->set_reset(panel->set, first);
	if (status == FASTED_OK && join->spread && panel == &join->outer)
		status = join->engine->spread(panel->set, panel->count, &panel->count);
	return status;
}

/*
 * The rows from here on that no inner panel has had yet.  Rows of one relation whose
 * neighbours are wanted meet those before them too, but not themselves once more.
 */
static void
set_inner_next(PanelJoin *join, uint64_t next)
{
	uint64_t	end = join->outer.first + join->outer.count;

	if (join->problem.sides == 1 && next >= join->outer.first && next < end)
		next = end;
	join->inner_next = next;
}

/* Rows of the inner panel that begins there, at most. */
static uint64_t
inner_most(const PanelJoin *join)
{
	uint64_t	first = join->outer.first;

	if (join->problem.sides == 1 && join->inner_next < first &&
		first - join->inner_next < join->inner_rows)
		return first - join->inner_next;
	if (join->inner_end - join->inner_next < join->inner_rows)
		return join->inner_end - join->inner_next;
	return join->inner_rows;
}

/* Rows of a side of a group. */
static FastedSpan
group_rows(const PanelJoin *join, uint32_t g, int side)
{
	return fasted_group_rows(&join->problem.problem.groups[g], side);
}

/* The inner side's rows that the outer panel from there on has to meet; false: there are none. */
static bool
find_inner_rows(const PanelJoin *join, uint64_t outer_first, uint64_t *first, uint64_t *end)
{
	int			side = inner_side(join);
	bool		found = false;

	*first = join->problem.sides == 2 || finds_nearest(join) ? 0 : outer_first;
	*end = join->rows[side];
	if (join->in_rest)
	{
		*first = join->rest.itself ? outer_first : join->rest.inner_first;
		*end = join->rest.inner_end;
	}
	if (join->in_rest || join->groups == NULL)
		return true;
	for (uint32_t g = 0; g < join->problem.problem.ngroups; g++)
	{
		FastedSpan	outer = group_rows(join, g, join->outer_side);
		FastedSpan	inner = group_rows(join, g, side);

		if (outer.end <= outer_first || outer.first == outer.end || inner.first == inner.end)
			continue;
		if (outer.first >= outer_first + join->outer_rows)
			break;
		if (!found && inner.first > *first)
			*first = inner.first;
		*end = inner.end;
		found = true;
	}
	return found;
}

/* Turns to rows that were left out.  False: there are no more. */
static bool
take_rest(PanelJoin *join)
{
	if (join->nrests == 0)
		return false;
	join->rest = join->rests[--join->nrests];
	join->in_rest = true;
	join->outer_end = join->rest.end;
	return true;
}

/*
 * The outer panel is next, if one has rows to meet; the inner ones start over behind it, or
 * at the first row.  Behind the last one come those that were left out.
 */
static FastedStatus
load_outer(PanelJoin *join, uint64_t first)
{
	uint64_t	inner_first = 0;
	uint64_t	left;
	FastedStatus status;

	while (first < join->outer_end &&
		   !find_inner_rows(join, first, &inner_first, &join->inner_end))
		first += join->outer_rows;
	if (first >= join->outer_end)
	{
		join->done = !take_rest(join);
		if (join->done)
			return FASTED_OK;
		first = join->rest.first;
		(void) find_inner_rows(join, first, &inner_first, &join->inner_end);
	}
	left = join->outer_end - first;
	status = load(join, &join->outer, first, left < join->outer_rows ? left : join->outer_rows);
	join->met_itself = join->problem.sides == 2 || (join->in_rest && !join->rest.itself);
	join->further = false;
	set_inner_next(join, inner_first);
	join->inner[0].sealed = join->inner[1].sealed = false;
	join->turn = 0;
	return status;
}

/*
 * Begins to load the next inner panel, if there is one and its set is free.  One that
 * is being joined is still sealed.
 */
static FastedStatus
load_inner(PanelJoin *join)
{
	Panel	   *panel = &join->inner[join->turn];
	FastedStatus status;

	if (join->loading != NULL || !join->outer.sealed)
		return FASTED_OK;
	/* the one whose turn it is, or the other one if that is there */
	if (panel->sealed)
		panel = &join->inner[!join->turn];
	if (panel->sealed || join->inner_next >= join->inner_end)
		return FASTED_OK;
	status = load(join, panel, join->inner_next, inner_most(join));
	set_inner_next(join, panel->first + panel->count);
	return status;
}

/* --- pairs out */

/* Pairs of rows that a join of two panels compares, and that all of them do. */
static double
area(const Panel *a, const Panel *b)
{
	return a == b ? 0.5 * (double) a->count * ((double) a->count - 1.0)
		: (double) a->count * (double) b->count;
}

static double
whole_area(const PanelJoin *join)
{
	double		n = (double) join->rows[0];
	double		outer = (double) join->outer_rows;
	double		panels = ceil(n / outer);
	double		last = n - (panels - 1.0) * outer;

	/* rows of different panels meet twice */
	if (finds_nearest(join) && join->problem.sides == 1)
		return n * n - 0.5 * ((panels - 1.0) * outer * outer + last * last) - 0.5 * n;
	return join->problem.sides == 2 ? n * (double) join->rows[1] : 0.5 * n * (n - 1.0);
}

/* Room for the counts of all rows, which are zero. */
static bool
clear_counts(PanelJoin *join)
{
	for (int side = 0; side < join->problem.sides; side++)
	{
		free(join->counts[side]);
		join->counts[side] = NULL;
		if (!fasted_counts_rows(&join->problem.problem))
			continue;
		join->counts[side] = calloc(join->rows[side] > 0 ? join->rows[side] : 1, sizeof(uint32_t));
		if (join->counts[side] == NULL)
			return false;
	}
	return true;
}

/* Room for the neighbours of some rows, and what there is to know of them now. */
static bool
begin_lists(PanelJoin *join)
{
	uint32_t	k;

	free(join->given);
	free(join->given_lengths);
	join->given = NULL;
	join->given_lengths = NULL;
	join->give_first = join->give_end = join->given_count = 0;
	join->further = false;
	if (!finds_nearest(join))
		return true;
	k = join->problem.problem.k = clip_neighbors(join, join->problem.problem.k);
	join->given_most = k < GIVEN_NEIGHBORS ? GIVEN_NEIGHBORS / k : 1;
	join->given = malloc(join->given_most * k * sizeof(FastedNeighbor));
	join->given_lengths = malloc(join->given_most * sizeof(uint32_t));
	if (join->done)
		join->give_end = join->rows[0];
	return join->given != NULL && join->given_lengths != NULL;
}

/* Too few rows for a pair. */
static bool
no_pair(const PanelJoin *join)
{
	return join->problem.sides == 2 ? join->rows[0] == 0 || join->rows[1] == 0
		: join->rows[0] < 2;
}

/* Room for the groups of two panels, if there are groups. */
static bool
make_groups(PanelJoin *join)
{
	const FastedProblem *problem = &join->problem.problem;

	free(join->groups);
	join->groups = NULL;
	if (problem->groups == NULL)
		return true;
	join->groups = malloc(((size_t) problem->ngroups + 1) * sizeof(FastedRowGroup));
	return join->groups != NULL;
}

/* What a panel has of a side of a group: places in it. */
static FastedSpan
clip_group(const PanelJoin *join, uint32_t g, const Panel *panel)
{
	FastedSpan	span = group_rows(join, g, panel->side);
	uint64_t	ends[2] = {span.first, span.end};

	for (int i = 0; i < 2; i++)
		ends[i] = ends[i] < panel->first ? 0
			: ends[i] - panel->first < panel->count ? ends[i] - panel->first : panel->count;
	span.first = (uint32_t) ends[0];
	span.end = (uint32_t) ends[1];
	return span;
}

/*
 * The groups of the panels that are joined.  All are there, also those without rows in
 * either: so a set's groups are the same in all its joins, and stay what they are.
 */
static void
clip_groups(PanelJoin *join)
{
	for (uint32_t g = 0; g < join->problem.problem.ngroups; g++)
	{
		FastedSpan	a = clip_group(join, g, join->a);
		FastedSpan	b = clip_group(join, g, join->b);

		join->groups[g] = (FastedRowGroup) {
			.first_a = a.first,.rows_a = a.end - a.first,
			.first_b = b.first,.rows_b = b.end - b.first
		};
	}
}

/* Begins with the first panels, when rows have come and places are chosen. */
static FastedStatus
begin(PanelJoin *join)
{
	join->compared = 0.0;
	join->nrests = 0;
	join->in_rest = false;
	pair_log_clear(&join->skip);
	join->outer_end = join->rows[join->outer_side];
	join->done = no_pair(join);
	if (!clear_counts(join))
		return fail_here(join, FASTED_OUT_OF_MEMORY, "out of memory for the rows' counts");
	if (!begin_lists(join))
		return fail_here(join, FASTED_OUT_OF_MEMORY, "out of memory for the rows' neighbors");
	if (join->done || join->resident)
		return FASTED_OK;
	if (!make_groups(join))
		return fail_here(join, FASTED_OUT_OF_MEMORY, "out of memory for groups of rows");
	return load_outer(join, 0);
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
groups_are_valid(const PanelJoin *join)
{
	const FastedProblem *problem = &join->problem.problem;

	return problem->groups == NULL ||
		fasted_groups_are_valid(problem->groups, problem->ngroups, join->rows[0],
								join->rows[join->problem.sides - 1], join->problem.sides == 1);
}

FastedStatus
panel_join_start(PanelJoin *join, const uint64_t *rows)
{
	FastedStatus status;

	if (join->failed != FASTED_OK)
		return join->failed;
	for (int side = 0; side < join->problem.sides; side++)
	{
		if (join->started || rows[side] < join->sides[side].have || rows[side] > FASTED_MAX_ROWS)
			return fail_here(join, FASTED_INTERNAL, "the number of rows is wrong");
		join->resident = join->resident && rows[side] == join->sides[side].have;
		join->rows[side] = rows[side];
	}
	if (!groups_are_valid(join))
		return fail_here(join, FASTED_INTERNAL, "the groups are not in order");
	join->started = true;
	join->resident = join->resident || no_pair(join);
	if (join->resident)
		status = seal_sides(join);
	else
	{
		choose_panels(join);
		status = open_panels(join);
	}
	return status == FASTED_OK ? begin(join) : status;
}

FastedStatus
panel_join_again(PanelJoin *join, const FastedProblem *problem)
{
	if (join->failed != FASTED_OK)
		return join->failed;
	if (!join->started)
		return fail_here(join, FASTED_INTERNAL, "a join was to begin again before its start");
	if (problem->output == FASTED_OUTPUT_NEAREST)
	{
		if (check_neighbors(join, problem->k) != FASTED_OK)
			return join->failed;
		if (problem->k > join->list_length)
			return fail_here(join, FASTED_INTERNAL, "there is no room for so many neighbors");
	}
	join->engine->join_close(join->join);
	join->join = NULL;
	join->loading = NULL;
	join->problem.problem = *problem;
	return begin(join);
}

void
panel_join_rank(PanelJoin *join, const uint32_t *ranks)
{
	join->problem.problem.ranks = ranks;
}

/* The rows that are missing; false: none are, for now. */
static bool
want_rows(PanelJoin *join, FastedBatch *batch)
{
	const Panel *panel = join->loading;
	uint64_t	most = LOAD_BYTES / fasted_row_bytes(&join->problem.options);

	if (panel == NULL)
		return false;
	batch->side = panel->side;
	batch->first_row = panel->first + panel->have;
	batch->row_count = panel->count - panel->have;
	if (batch->row_count > most && most > 0)
		batch->row_count = most;
	return true;
}

/* The panel that was loaded is complete: the next one. */
static FastedStatus
finish_loading(PanelJoin *join)
{
	Panel	   *panel = join->loading;
	FastedStatus status;

	if (panel == NULL || panel->have < panel->count)
		return FASTED_OK;
	join->loading = NULL;
	panel->sealed = true;
	status = join->engine->seal(panel->set);
	return status == FASTED_OK ? load_inner(join) : status;
}

/*
 * Which panels are joined next, if they are there.  False: they are not yet, or
 * there are none (done).
 */
static bool
next_panels(PanelJoin *join)
{
	if (join->resident)
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
	*(join->outer_side == 0 ? &join->b : &join->a) = &join->inner[join->turn];
	return join->inner[join->turn].sealed;
}

/* What was counted since then. */
static void
subtract_stats(FastedStats *stats, const FastedStats *before)
{
	stats->units_total -= before->units_total;
	stats->units_done -= before->units_done;
	stats->candidates -= before->candidates;
	stats->pairs -= before->pairs;
	stats->sampled_candidates -= before->sampled_candidates;
	stats->sampled_pairs -= before->sampled_pairs;
	for (int level = 0; level < FASTED_PRUNE_LEVELS; level++)
		stats->pruned_tiles[level] -= before->pruned_tiles[level];
	stats->full_tiles -= before->full_tiles;
	stats->redone_units -= before->redone_units;
	stats->prepare_seconds -= before->prepare_seconds;
	stats->filter_seconds -= before->filter_seconds;
	stats->refine_seconds -= before->refine_seconds;
	stats->device_seconds -= before->device_seconds;
}

static FastedStatus
begin_join(PanelJoin *join)
{
	FastedProblem problem = join->problem.problem;
	FastedStats stats;

	problem.further = finds_nearest(join) && join->further;
	if (finds_nearest(join) && problem.ranks != NULL)
		problem.ranks += join->b->first;
	/* which rows are kept takes all pairs together */
	if (problem.output == FASTED_OUTPUT_KEEPERS && !join->resident)
		problem.output = FASTED_OUTPUT_PAIRS;
	join->further = true;
	if (join->groups != NULL)
	{
		clip_groups(join);
		problem.groups = join->groups;
	}

	join->engine->stats(join->context, &stats);
	subtract_stats(&stats, &join->before);
	join->units_done = stats.units_done;
	join->units_total = stats.units_total;
	return join->engine->join_open(join->context, &problem, join->a->set, join->b->set,
								   &join->join);
}

/* Adds the counts of the panels that were joined. */
static FastedStatus
add_counts(PanelJoin *join)
{
	Panel	   *panels[2] = {join->a, join->b};

	for (int side = 0; side < (join->a == join->b ? 1 : 2); side++)
	{
		const Panel *panel = panels[side];
		uint32_t   *total = join->counts[panel->side] + panel->first;

		for (uint64_t first = 0; first < panel->count;)
		{
			uint32_t	some[1024];
			uint64_t	left = panel->count - first;
			size_t		n = left < 1024 ? (size_t) left : 1024;
			FastedStatus status = join->engine->counts(join->join, side, first, n, some);

			if (status != FASTED_OK)
				return status;
			for (size_t i = 0; i < n; i++)
				total[first + i] += some[i];
			first += n;
		}
	}
	return FASTED_OK;
}

/* Has the outer panel met all rows, after the join at work? */
static bool
outer_is_through(const PanelJoin *join)
{
	const Panel *inner = join->inner;

	if (join->resident)
		return true;
	return join->inner_next >= join->inner_end && join->loading == NULL &&
		!inner[!join->turn].sealed && (join->met_itself || !inner[join->turn].sealed);
}

/* The neighbours of some rows that are complete, until there are no more of these. */
static FastedStatus
give_lists(PanelJoin *join, FastedBatch *batch)
{
	uint64_t	left = join->give_end - join->give_first;
	FastedStatus status = FASTED_OK;

	join->given_first = join->give_first;
	join->given_count = left < join->given_most ? left : join->given_most;
	join->give_first += join->given_count;
	if (join->join == NULL)
		memset(join->given_lengths, 0, join->given_count * sizeof(uint32_t));
	else
		status = join->engine->nearest(join->join, join->given_first - join->a->first,
									   join->given_count, join->given_lengths, join->given);
	batch->first_row = join->given_first;
	batch->row_count = join->given_count;
	return status;
}

/* Adds it, or makes another one longer: the outer rows meet what comes next, too. */
static bool
add_rest(PanelJoin *join, const FastedBlock *block)
{
	Rest		rest = {
		.first = block->first,.end = block->first + block->count,
		.inner_first = block->other_first,.inner_end = block->other_first + block->other_count,
		.itself = block->itself
	};

	for (uint32_t i = 0; i < join->nrests && !rest.itself; i++)
	{
		Rest	   *before = &join->rests[i];

		if (before->itself || before->first != rest.first || before->end != rest.end ||
			before->inner_end != rest.inner_first)
			continue;
		before->inner_end = rest.inner_end;
		return true;
	}
	if (join->nrests == join->rests_room)
	{
		uint32_t	room = 2 * join->rests_room + 16;
		Rest	   *rests = realloc(join->rests, room * sizeof(Rest));

		if (rests == NULL)
			return false;
		join->rests = rests;
		join->rests_room = room;
	}
	join->rests[join->nrests++] = rest;
	return true;
}

/* What the join at work left out. */
static FastedStatus
note_rests(PanelJoin *join)
{
	FastedBlock block;

	if (!join->spread)
		return FASTED_OK;
	for (uint32_t i = 0; join->engine->left_out(join->join, i, &block); i++)
	{
		if (block.given != NULL)
			pair_log_append(&join->skip, block.given);
		if (join->skip.incomplete || !add_rest(join, &block))
			return fail_here(join, FASTED_OUT_OF_MEMORY,
							 "out of memory for what a lost GPU left to others");
	}
	return FASTED_OK;
}

/* Leaves out of a batch what was handed out before.  False: nothing is left. */
static bool
skip_given(PanelJoin *join, FastedBatch *batch)
{
	size_t		kept = 0;

	if (!join->in_rest || join->skip.count == 0)
		return true;
	if (join->kept_room < batch->npairs)
	{
		free(join->kept);
		join->kept = malloc(batch->npairs * sizeof(FastedPair));
		join->kept_room = join->kept != NULL ? batch->npairs : 0;
		if (join->kept == NULL)
		{
			fail_here(join, FASTED_OUT_OF_MEMORY, "out of memory for pairs");
			return false;
		}
	}
	for (size_t i = 0; i < batch->npairs; i++)
	{
		if (!pair_log_has(&join->skip, &batch->pairs[i]))
			join->kept[kept++] = batch->pairs[i];
	}
	join->skipped += batch->npairs - kept;
	batch->pairs = join->kept;
	batch->npairs = kept;
	return kept > 0;
}

/* The join at work is over: what comes next? */
static FastedStatus
end_join(PanelJoin *join)
{
	FastedStatus status = FASTED_OK;
	uint64_t	end = join->outer.first + join->outer.count;

	if (fasted_counts_rows(&join->problem.problem))
		status = add_counts(join);
	if (status == FASTED_OK)
		status = note_rests(join);
	join->engine->join_close(join->join);
	join->join = NULL;
	join->compared += area(join->a, join->b);
	if (status != FASTED_OK)
		return status;
	if (join->resident)
	{
		join->done = true;
		return FASTED_OK;
	}
	if (!join->met_itself)
		join->met_itself = true;
	else
	{
		join->inner[join->turn].sealed = false;
		join->turn = !join->turn;
	}

	/* has the outer panel met all rows? */
	if (join->inner_next < join->inner_end || join->loading != NULL ||
		join->inner[0].sealed || join->inner[1].sealed)
		return load_inner(join);
	/* in a self-join the last one has only itself to meet */
	return load_outer(join, end);
}

FastedStatus
panel_join_next(PanelJoin *join, int timeout_ms, FastedBatch *batch)
{
	memset(batch, 0, sizeof(*batch));
	if (join->failed != FASTED_OK)
		return join->failed;
	if (!join->started)
		return fail_here(join, FASTED_INTERNAL, "pairs were asked for before the start");
	for (;;)
	{
		FastedStatus status = finish_loading(join);

		if (status != FASTED_OK)
			return status;
		if (join->give_first < join->give_end)
			return give_lists(join, batch);
		join->given_count = 0;
		if (join->done)
			return FASTED_DONE;
		if (join->give_end > 0)
		{
			/* those of the outer panel have been given */
			join->give_first = join->give_end = 0;
			status = end_join(join);
			if (status != FASTED_OK)
				return status;
			continue;
		}
		if (join->join == NULL && next_panels(join))
			status = begin_join(join);
		else if (join->join == NULL)
			return want_rows(join, batch) ? FASTED_WANT_ROWS
				: fail_here(join, FASTED_INTERNAL, "there is no panel to load");
		if (status != FASTED_OK)
			return status;

		/* rows for the next panel rather than idle time */
		status = join->engine->next(join->join, join->loading != NULL ? 0 : timeout_ms, batch);
		if (status == FASTED_AGAIN && want_rows(join, batch))
			return FASTED_WANT_ROWS;
		if (status == FASTED_OK && !skip_given(join, batch))
		{
			if (join->failed != FASTED_OK)
				return join->failed;
			continue;
		}
		if (status != FASTED_DONE)
			return status;
		if (finds_nearest(join) && outer_is_through(join))
		{
			join->give_first = join->a->first;
			join->give_end = join->a->first + join->a->count;
			continue;
		}
		status = end_join(join);
		if (status != FASTED_OK)
			return status;
	}
}

void
panel_join_pause(PanelJoin *join)
{
	if (join->join != NULL && join->give_end == 0)
		join->engine->pause(join->join);
}

const uint32_t *
panel_join_counts(const PanelJoin *join, int side)
{
	return join->counts[side];
}

const FastedNeighbor *
panel_join_nearest(const PanelJoin *join, uint64_t row, uint32_t *length)
{
	uint64_t	place = row - join->given_first;

	*length = place < join->given_count ? join->given_lengths[place] : 0;
	return *length > 0 ? join->given + place * join->problem.problem.k : NULL;
}

/* Without panels the engine's own units, else pairs of rows. */
static void
tell_progress(const PanelJoin *join, FastedStats *stats)
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
panel_join_sizes(const PanelJoin *join, uint64_t *outer, uint64_t *inner)
{
	*outer = join->resident ? join->rows[0] : join->outer_rows;
	*inner = join->resident ? 0 : join->inner_rows;
}

void
panel_join_stats(const PanelJoin *join, FastedStats *stats)
{
	uint64_t	outer_total = join->rows[join->outer_side];

	join->engine->stats(join->context, stats);
	subtract_stats(stats, &join->before);
	stats->pairs -= join->skipped;
	stats->rows = 0;
	for (int side = 0; side < join->problem.sides; side++)
		stats->rows += join->started ? join->rows[side] : join->sides[side].have;
	stats->dimensions = join->problem.options.dimensions;
	stats->panels = !join->started ? 0 : join->resident || join->outer_rows == 0 ? 1
		: (uint32_t) divide_up(outer_total, join->spread ? divide_up(join->outer_rows, join->devices)
							   : join->outer_rows);
	tell_progress(join, stats);
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
	free(join->groups);
	free(join->rests);
	pair_log_free(&join->skip);
	free(join->kept);
	free(join->counts[0]);
	free(join->counts[1]);
	free(join->given);
	free(join->given_lengths);
	free(join);
}
