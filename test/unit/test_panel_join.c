/*-------------------------------------------------------------------------
 *
 * test_panel_join.c
 *	  The schedule of panels: every pair of rows is compared once, whatever fits into memory.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/engine/panel_join.h"
#include "fake_engine.h"

#define MOST_ROWS 200

/* What the caller received. */
typedef struct Seen
{
	FastedStatus status;
	uint8_t		met[MOST_ROWS][MOST_ROWS];
	uint32_t	counts[2][MOST_ROWS];
	bool		strange;		/* an invalid pair, request or number was returned */
	FastedStats stats;
	uint64_t	panel_rows[2];	/* of an outer and an inner panel */
	char		error[64];
} Seen;

typedef struct Case
{
	int			sides;
	uint64_t	rows[2];
	uint64_t	limit;
	int			polls;
	FastedOutput output;
	bool		put;
	int			again;			/* restart after this many calls of next; 0: never */
} Case;

/* Returns row r of a side. */
static float
row_of(int side, uint64_t r)
{
	return (float) (1000 * side + (int) r);
}

/* Stages rows from `first` on: all of them, or a random number if !all. */
static FastedStatus
stage_some(PanelJoin *join, int side, uint64_t first, uint64_t count, bool all, uint64_t *staged)
{
	*staged = 0;
	while (*staged < count)
	{
		float	   *room;
		size_t		capacity;
		FastedStatus status = panel_join_stage(join, side, &room, &capacity);

		if (status != FASTED_OK)
			return status;
		if (capacity > count - *staged)
			capacity = count - *staged;
		for (size_t i = 0; i < capacity; i++)
			room[i] = row_of(side, first + *staged + i);
		status = panel_join_commit(join, side, capacity);
		if (status != FASTED_OK)
			return status;
		*staged += capacity;
		if (!all && random_below(3) == 0)
			break;
	}
	return FASTED_OK;
}

/* Puts the rows of a side from registered memory. */
static FastedStatus
put_all(PanelJoin *join, int side, uint64_t count, uint64_t *there)
{
	float		rows[MOST_ROWS];
	FastedStatus status = FASTED_OK;

	*there = 0;
	for (uint64_t i = 0; i < count; i++)
		rows[i] = row_of(side, i);
	if (!panel_join_register_memory(join, side, rows, sizeof(rows)))
		return FASTED_INTERNAL;
	while (*there < count && status == FASTED_OK)
	{
		size_t		taken;

		status = panel_join_put(join, side, rows + *there, count - *there, &taken);
		*there += taken;
	}
	if (status == FASTED_OK)
		status = panel_join_wait_read(join, side, true);
	panel_join_unregister_memory(join, side);
	return status;
}

/* Loads all rows, or those that fit and reads them back; then starts the join. */
static FastedStatus
begin(PanelJoin *join, const Case *c, Seen *seen)
{
	FastedStatus status = FASTED_OK;
	uint64_t	staged[2] = {0, 0};

	for (int side = 0; side < c->sides && status == FASTED_OK; side++)
		status = c->put ? put_all(join, side, c->rows[side], &staged[side])
			: stage_some(join, side, 0, c->rows[side], true, &staged[side]);
	if (FASTED_FAILED(status))
		return status;
	for (int side = 0; side < c->sides && status == FASTED_FULL; side++)
	{
		float		rows[MOST_ROWS];
		FastedStatus back = panel_join_read_back(join, side, 0, staged[side], rows);

		if (back != FASTED_OK)
			return back;
		for (uint64_t i = 0; i < staged[side]; i++)
			seen->strange = seen->strange || rows[i] != row_of(side, i);
	}
	return panel_join_start(join, c->rows);
}

/* Checks a pair and counts how often it was returned. */
static void
take_pair(const Case *c, const FastedPair *pair, Seen *seen)
{
	int			side_b = c->sides - 1;

	if (pair->a >= c->rows[0] || pair->b >= c->rows[side_b] ||
		pair->dist != row_of(0, pair->a) * 1e4 + row_of(side_b, pair->b))
	{
		seen->strange = true;
		return;
	}
	if (c->sides == 1 && pair->a > pair->b)
		seen->met[pair->b][pair->a]++;
	else
		seen->met[pair->a][pair->b]++;
}

/*
 * Returns whether the progress of a join in panels agrees with the number of pairs returned so far,
 * but for a rounding error of one.  The engine's progress is the number of rows of one side; in a
 * panel joined with itself, the first rows have more pairs than the last ones.
 */
static bool
is_right_progress(const Case *c, const Seen *seen, const FastedStats *stats, uint64_t pairs)
{
	uint64_t	panel = seen->panel_rows[0];
	uint64_t	most_behind = 1 + (c->sides == 1 ? panel * panel / 8 : 0);

	if (c->output != FASTED_OUTPUT_PAIRS || seen->panel_rows[1] == 0)
		return true;
	return stats->units_done <= pairs + 1 && pairs <= stats->units_done + most_behind;
}

static FastedStatus
drain(PanelJoin *join, const Case *c, Seen *seen)
{
	FastedStatus status = FASTED_AGAIN;
	uint64_t	shown = 0;
	uint64_t	pairs = 0;

	while (status != FASTED_DONE && !FASTED_FAILED(status))
	{
		FastedBatch batch;
		FastedStats stats;
		uint64_t	staged;

		if (random_below(10) == 0)
			panel_join_pause(join);
		status = panel_join_next(join, 77, &batch);
		for (size_t i = 0; i < batch.npairs; i++)
			take_pair(c, &batch.pairs[i], seen);
		pairs += batch.npairs;
		if (status == FASTED_WANT_ROWS)
		{
			seen->strange = seen->strange || batch.side < 0 || batch.side >= c->sides ||
				batch.row_count == 0 || batch.first_row + batch.row_count > c->rows[batch.side];
			if (!seen->strange)
				status = stage_some(join, batch.side, batch.first_row, batch.row_count, false,
									&staged);
		}
		else if (status == FASTED_AGAIN)
			/* there is nothing to load, so the engine gets the whole timeout */
			seen->strange = seen->strange || fake.last_timeout != 77;
		if (seen->strange)
			return FASTED_INTERNAL;
		panel_join_stats(join, &stats);
		seen->strange = stats.units_done < shown || stats.units_done > stats.units_total ||
			!is_right_progress(c, seen, &stats, pairs);
		shown = stats.units_done;
	}
	return status;
}

/* Starts another join, calls next a few times, and abandons it. */
static FastedStatus
begin_again(PanelJoin *join, const Case *c)
{
	FastedProblem problem = {.output = (FastedOutput) random_below(3)};
	FastedStatus status = panel_join_again(join, &problem);

	for (int i = 0; i < c->again && status != FASTED_DONE && !FASTED_FAILED(status); i++)
	{
		FastedBatch batch;
		uint64_t	staged;

		status = panel_join_next(join, 77, &batch);
		if (status == FASTED_WANT_ROWS)
			status = stage_some(join, batch.side, batch.first_row, batch.row_count, false, &staged);
	}
	problem.output = c->output;
	return FASTED_FAILED(status) ? status : panel_join_again(join, &problem);
}

/* Runs a join from open to close with a new fake engine that fails at fail_at. */
static void
run_case(const Case *c, int fail_at, Seen *seen)
{
	PanelProblem problem = {
		.options = {.dimensions = 1},.problem = {.output = c->output},.sides = c->sides
	};
	PanelJoin  *join;

	memset(seen, 0, sizeof(*seen));
	fake = (Fake) {.limit = c->limit,.polls = c->polls,.fail_at = fail_at};
	seen->status = panel_join_open(&fake_engine, &problem, &join);
	if (seen->status == FASTED_OK)
		seen->status = begin(join, c, seen);
	if (seen->status == FASTED_OK)
	{
		panel_join_sizes(join, &seen->panel_rows[0], &seen->panel_rows[1]);
		seen->status = drain(join, c, seen);
	}
	if (seen->status == FASTED_DONE && c->again > 0)
	{
		seen->status = begin_again(join, c);
		memset(seen->met, 0, sizeof(seen->met));
		if (seen->status == FASTED_OK)
			seen->status = drain(join, c, seen);
	}
	snprintf(seen->error, sizeof(seen->error), "%s", panel_join_last_error(&fake_engine, join));
	if (seen->status == FASTED_DONE)
		panel_join_stats(join, &seen->stats);
	for (int side = 0; seen->status == FASTED_DONE && side < c->sides; side++)
	{
		const uint32_t *counts = panel_join_counts(join, side);

		if ((counts != NULL) != (c->output == FASTED_OUTPUT_COUNTS))
			seen->strange = true;
		else if (counts != NULL)
			memcpy(seen->counts[side], counts, c->rows[side] * sizeof(uint32_t));
	}
	panel_join_close(join);
}

/* Checks that each pair was returned once, or counted once for each of its rows. */
static bool
all_met(const Case *c, const Seen *seen)
{
	int			side_b = c->sides - 1;

	for (uint64_t a = 0; a < c->rows[0] && c->output == FASTED_OUTPUT_PAIRS; a++)
	{
		for (uint64_t b = side_b == 0 ? a + 1 : 0; b < c->rows[side_b]; b++)
		{
			if (seen->met[a][b] != 1)
				return false;
		}
	}
	for (int side = 0; side < c->sides && c->output == FASTED_OUTPUT_COUNTS; side++)
	{
		uint64_t	partners = c->sides == 2 ? c->rows[!side] : c->rows[0] - 1;

		for (uint64_t r = 0; r < c->rows[side]; r++)
		{
			if (seen->counts[side][r] != partners)
				return false;
		}
	}
	return true;
}

/* Returns the number of rows to load; with panels, inner rows are loaded repeatedly. */
static uint64_t
rows_to_load(const Case *c, const FastedStats *stats)
{
	uint64_t	outer_total = c->rows[c->sides == 2 && c->rows[1] < c->rows[0]];
	uint64_t	inner_total = c->rows[0] + (c->sides == 2 ? c->rows[1] : 0) - outer_total;
	uint64_t	outer = (outer_total + stats->panels - 1) / stats->panels;
	uint64_t	loaded = outer_total;

	if (c->sides == 2)
		return loaded + stats->panels * inner_total;
	for (uint64_t end = outer; end < outer_total; end += outer)
		loaded += outer_total - end;
	return loaded;
}

static void
check_case(const Case *c)
{
	Seen	   *seen = must_alloc(sizeof(*seen));
	uint64_t	total = c->rows[0] + (c->sides == 2 ? c->rows[1] : 0);
	bool		resident = total <= c->limit;
	double		area = c->sides == 2 ? (double) (c->rows[0] * c->rows[1])
		: 0.5 * (double) c->rows[0] * ((double) c->rows[0] - 1.0);
	bool		good;

	run_case(c, 0, seen);
	good = seen->status == FASTED_DONE && !seen->strange && all_met(c, seen) &&
		(double) seen->stats.pairs == area && seen->stats.rows == total &&
		seen->stats.units_done == seen->stats.units_total &&
		(resident ? seen->panel_rows[0] == c->rows[0] && seen->panel_rows[1] == 0
		 : (double) seen->stats.units_total == area);
	ok(good && fake.wrong == 0 && fake.contexts == 0 && fake.resident <= c->limit &&
	   (fake.joins < 2 || !resident),
	   "%llu%s%llu rows, %llu fit: %u panels, %d joins%s%s", (unsigned long long) c->rows[0],
	   c->sides == 2 ? " x " : ", ", (unsigned long long) c->rows[1],
	   (unsigned long long) c->limit, seen->stats.panels, fake.joins,
	   fake.wrong > 0 ? ": " : "", fake.wrong > 0 ? fake.what : "");
	if (good && !resident && area > 0)
	{
		uint64_t	after = fake.staged_busy + fake.staged_idle - c->limit;

		ok(after == rows_to_load(c, &seen->stats), "%llu rows loaded, expected %llu",
		   (unsigned long long) after, (unsigned long long) rows_to_load(c, &seen->stats));
	}
	free(seen);
}

/* Joins the same rows twice, and abandons a join in between. */
static void
check_again(const Case *c)
{
	Seen	   *seen = must_alloc(sizeof(*seen));
	Case		twice = *c;

	twice.again = 1 + (int) random_below(60);
	run_case(&twice, 0, seen);
	ok(seen->status == FASTED_DONE && !seen->strange && all_met(c, seen) && fake.wrong == 0 &&
	   fake.contexts == 0 && fake.resident <= c->limit, "joined again, and abandoned after %d calls%s%s",
	   twice.again, fake.wrong > 0 ? ": " : "", fake.wrong > 0 ? fake.what : "");
	free(seen);
}

static void
check_cases(void)
{
	static const uint64_t sizes[] = {0, 1, 2, 3, 10, 57, 100, 173};
	static const uint64_t limits[] = {3, 4, 7, 10, 13, 29, 60, 99, 174, 400};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
	{
		for (size_t l = 0; l < sizeof(limits) / sizeof(limits[0]); l++)
		{
			Case		c = {
				.sides = 1,.rows = {sizes[i], 0},.limit = limits[l],
				.polls = (int) random_below(4),.output = (FastedOutput) random_below(3),
				.put = random_below(2) == 0
			};

			check_case(&c);
			check_again(&c);
			c.sides = 2;
			for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++)
			{
				c.rows[1] = sizes[j];
				c.output = (FastedOutput) random_below(3);
				check_case(&c);
				check_again(&c);
			}
		}
	}
}

/* The next panel is loaded during a join; only the first ones are loaded while none runs. */
static void
check_overlap(int sides)
{
	Case		c = {.sides = sides,.rows = {150, 120},.limit = 50,.polls = 1000};
	Seen	   *seen = must_alloc(sizeof(*seen));
	uint64_t	idle;
	uint64_t	outer = c.rows[sides == 2];

	run_case(&c, 0, seen);
	idle = fake.staged_idle - c.limit;
	/* each outer panel; of two sides also the first inner one */
	outer += sides == 2 ? seen->stats.panels * (c.limit - 2) / 2 : 0;
	ok(seen->status == FASTED_DONE && seen->stats.panels > 1 && idle <= outer &&
	   fake.staged_busy > idle, "%d sides: %llu rows are loaded while panels are joined, %llu not",
	   sides, (unsigned long long) fake.staged_busy, (unsigned long long) idle);
	ok(fake.pauses > 0, "pause is passed to the engine");
	free(seen);
}

/* A failing call fails the join with its message, and all resources are freed. */
static void
check_failures(int sides, uint64_t limit, FastedOutput output, bool put)
{
	Case		c = {
		.sides = sides,.rows = {23, 18},.limit = limit,.polls = 2,.output = output,.put = put,
		.again = 10
	};
	Seen	   *seen = must_alloc(sizeof(*seen));
	uint64_t	seed = random_bits();
	bool		good = true;
	int			calls = 0;

	for (int fail_at = 1; good; fail_at++)
	{
		/* the same sequence of calls each time */
		random_state = seed;
		run_case(&c, fail_at, seen);
		if (seen->status == FASTED_DONE)
			break;
		calls = fail_at;
		good = fake.failed && fake.wrong == 0 && fake.contexts == 0 && !seen->strange &&
			seen->status == (fail_at == 1 ? FASTED_OUT_OF_MEMORY : FASTED_OUT_OF_DEVICE_MEMORY) &&
			strcmp(seen->error, "as it was told") == 0;
		if (!good)
			printf("# call %d: status %d, %s, %s\n", fail_at, seen->status, seen->error,
				   fake.wrong > 0 ? fake.what : "");
	}
	ok(good && calls > 10, "%d sides, %llu fit, output %d: each of %d calls fails in turn",
	   sides, (unsigned long long) limit, output, calls);
	free(seen);
}

/* Number of the first wrong call after the start. */
#define STARTED 7

/* Calls a function in the wrong order or with wrong numbers, on a join with 5 staged rows. */
static FastedStatus
misuse(PanelJoin *join, int number, const char **expected)
{
	FastedProblem problem = {.output = FASTED_OUTPUT_PAIRS};
	uint64_t	rows[] = {5, 4, (uint64_t) FASTED_MAX_ROWS + 1};
	float		row[2] = {0};
	float	   *room;
	size_t		n;
	FastedBatch batch;

	if (number >= STARTED && panel_join_start(join, rows) != FASTED_OK)
		return FASTED_OK;
	switch (number)
	{
		case 0:
		case 1:
			*expected = "invalid number of rows";
			return panel_join_start(join, &rows[1 + number]);
		case 2:
			*expected = "panel_join_next was called before start";
			return panel_join_next(join, 0, &batch);
		case 3:
			*expected = "panel_join_again was called before start";
			return panel_join_again(join, &problem);
		case 4:
			*expected = "row numbers out of range in read_back";
			return panel_join_read_back(join, 0, 4, 2, row);
		case 5:
			*expected = "row numbers out of range in read_back";
			return panel_join_read_back(join, 0, 6, 0, row);
		case 6:
			*expected = "rows were staged that were not requested";
			return panel_join_stage(join, 1, &room, &n);
		case STARTED:
			*expected = "invalid number of rows";
			return panel_join_start(join, rows);
		case STARTED + 1:
			*expected = "panel_join_put was called after start";
			n = 1;
			return panel_join_put(join, 0, row, 1, &n) == FASTED_INTERNAL && n == 0 ? FASTED_INTERNAL : FASTED_OK;
		case STARTED + 2:
			*expected = "rows were staged that were not requested";
			return panel_join_stage(join, 0, &room, &n);
		case STARTED + 3:
			*expected = "rows were committed that were not requested";
			return panel_join_commit(join, 0, 1);
		default:
			*expected = NULL;
			return FASTED_OK;
	}
}

static void
check_misuse(void)
{
	PanelProblem problem = {.options = {.dimensions = 1},.sides = 1};
	const char *expected = "";

	for (int number = 0; expected != NULL; number++)
	{
		PanelJoin  *join;
		uint64_t	staged;
		FastedStatus status;

		fake = (Fake) {.limit = 100};
		status = panel_join_open(&fake_engine, &problem, &join);
		if (status == FASTED_OK)
			status = stage_some(join, 0, 0, 5, true, &staged);
		if (status == FASTED_OK)
			status = misuse(join, number, &expected);
		if (expected != NULL)
			ok(status == FASTED_INTERNAL && strcmp(panel_join_last_error(&fake_engine, join), expected) == 0,
			   "wrong call: %s", expected);
		panel_join_close(join);
	}
}

int
main(void)
{
	random_seed();
	check_misuse();
	check_cases();
	check_overlap(1);
	check_overlap(2);
	for (int sides = 1; sides <= 2; sides++)
	{
		check_failures(sides, 100, FASTED_OUTPUT_PAIRS, true);
		check_failures(sides, 100, FASTED_OUTPUT_COUNTS, false);
		check_failures(sides, 13, FASTED_OUTPUT_PAIRS, false);
		check_failures(sides, 13, FASTED_OUTPUT_COUNTS, true);
	}
	return tap_done();
}
