/*-------------------------------------------------------------------------
 *
 * test_multi_gpu.c
 *	  Multi-GPU joins return the same result as one device; the CPU engine acts as each device.
 *
 *-------------------------------------------------------------------------
 */
#include "cpu_devices.h"

/* A problem and its expected pairs. */
typedef struct Case
{
	PanelProblem problem;
	Rows		sides[2];
	PairList	expected;
} Case;

static Rows
clustered_rows(uint64_t n, uint32_t d)
{
	float	   *rows = must_alloc(n * d * sizeof(float));

	for (uint64_t i = 0; i < n * d; i++)
		rows[i] = (float) (0.05 * random_normal() + sin((double) (i / d % 40) * 7.0 + (double) (i % d)));
	return (Rows) {.rows = rows,.n = n};
}

static Case
make_case(int sides, uint64_t n, uint32_t d, double eps)
{
	Case		made = {.problem = {.sides = sides}};

	made.problem.options.dimensions = d;
	made.problem.problem.eps = eps;
	for (int side = 0; side < sides; side++)
		made.sides[side] = clustered_rows(side == 0 ? n : n / 2 + 3, d);
	if (sides == 1)
		near_pairs(made.sides[0].rows, (uint32_t) n, d, eps, &made.expected);
	else
		near_pairs_of_two(made.sides, d, eps, &made.expected);
	return made;
}

static void
drop_case(Case *made)
{
	free((float *) made->sides[0].rows);
	free((float *) made->sides[1].rows);
	free(made->expected.pairs);
}

/* Checks that the pairs are right and that all devices are closed. */
static bool
joins_right(const Case *made, const CallerHabits *habits, FastedStats *stats)
{
	PairList	list;
	FastedStatus status = run_join_once(&made->problem, made->sides, habits, &list, stats, NULL);
	bool		right = status == FASTED_DONE && pair_equal(&list, &made->expected) &&
		stats->pairs == list.count && play.closed == play.opened && play.after_failure == 0;

	if (!right)
		printf("# status %d, %zu pairs of %zu, counted %llu; %d of %d closed, %d calls after failure\n",
			   status, list.count, made->expected.count, (unsigned long long) stats->pairs, play.closed,
			   play.opened, play.after_failure);
	free(list.pairs);
	return right;
}

static bool
counts_right(const Case *made, const CallerHabits *habits)
{
	return check_count(&made->problem, made->sides, habits, FASTED_OUTPUT_COUNTS, &made->expected) &&
		play.after_failure == 0;
}

static const CallerHabits plain = {.timeout_ms = 100};
static const CallerHabits putting = {.timeout_ms = 100,.put = true,.stage_at_most = 333};

static void
check_numbers_of_devices(void)
{
	for (int sides = 1; sides <= 2; sides++)
	{
		Case		made = make_case(sides, 2000, 20, 0.3);

		for (int devices = quick() ? DEVICES - 1 : 1; devices <= DEVICES; devices++)
		{
			FastedStats stats;
			bool		right;

			reset_play(devices);
			right = joins_right(&made, &plain, &stats);
			reset_play(devices);
			right = joins_right(&made, &putting, &stats) && right;
			reset_play(devices);
			play.lends = false;
			right = joins_right(&made, &plain, &stats) && right;
			reset_play(devices);
			right = counts_right(&made, &plain) && right;
			ok(right && made.expected.count > 1000,
			   "%d devices, %d sides: all pairs once (%zu)", devices, sides, made.expected.count);
		}
		drop_case(&made);
	}
}

/* Tests fewer rows than slices, and no rows. */
static void
check_small(void)
{
	bool		right = true;

	for (uint64_t n = 0; n < 12; n++)
	{
		Case		made = make_case(1 + (int) (n % 2), n, 5, 1.0);
		FastedStats stats;

		reset_play(3);
		right = joins_right(&made, &plain, &stats) && right;
		reset_play(3);
		right = counts_right(&made, &plain) && right;
		drop_case(&made);
	}
	ok(right, "joins of few rows, or none, have all pairs");
}

/* Tests panels, which each device has. */
static void
check_panels(void)
{
	for (int sides = 1; sides <= 2; sides++)
	{
		Case		made = make_case(sides, 2500, 64, 0.5);
		FastedStats stats;
		bool		right;

		made.problem.options.memory_limit = 600 * 1024;
		reset_play(3);
		right = joins_right(&made, &plain, &stats) && stats.panels > 1;
		reset_play(3);
		ok(counts_right(&made, &plain) && right, "panels on several devices (%u), %d sides",
		   stats.panels, sides);
		drop_case(&made);
	}
}

/* Tests partitions, also with panels. */
static void
check_partitions(void)
{
	static const FastedPartition partitions[] = {
		{0, 700, 0, 700}, {700, 1, 700, 1}, {800, 1900, 800, 1900}, {2700, 300, 2700, 300}
	};

	for (int panels = 0; panels < 2; panels++)
	{
		Case		made = make_case(1, 3000, 64, 0.5);
		size_t		all = made.expected.count;
		size_t		kept = 0;
		FastedStats stats;
		bool		right;

		for (size_t i = 0; i < all; i++)
		{
			FastedPair	pair = made.expected.pairs[i];

			for (int g = 0; g < 4; g++)
			{
				if (pair.a >= partitions[g].first_a && pair.b < partitions[g].first_a + partitions[g].rows_a)
					made.expected.pairs[kept++] = pair;
			}
		}
		made.expected.count = kept;
		made.problem.problem.partitions = partitions;
		made.problem.problem.npartitions = 4;
		made.problem.options.memory_limit = panels ? 700 * 1024 : 0;
		reset_play(3);
		right = joins_right(&made, &plain, &stats) && (stats.panels > 1) == (panels > 0);
		reset_play(3);
		ok(counts_right(&made, &plain) && right && kept > 100 && kept < all,
		   "partitions: %zu pairs of %zu, %u panels", kept, all, stats.panels);
		drop_case(&made);
	}
}

/* Divides a slice into slices; each pair must be in exactly one. */
static void
check_slices(void)
{
	Case		made = make_case(1, 3000, 20, 0.3);
	PairList	all = {0};

	for (uint32_t slice = 0; slice < 3; slice++)
	{
		PairList	list;

		made.problem.problem.slice = slice;
		made.problem.problem.slices = 3;
		reset_play(1 + (int) slice);
		if (run_join_once(&made.problem, made.sides, &plain, &list, NULL, NULL) == FASTED_DONE)
			pair_add(&all, list.pairs, list.count);
		free(list.pairs);
	}
	pair_sort(&all);
	ok(pair_equal(&all, &made.expected), "slices of 1, 2 and 3 devices together have all pairs");
	free(all.pairs);
	drop_case(&made);
}

/* A slow device does less work.  One of ten attempts suffices, because other processes may delay the other device. */
static void
check_uneven(void)
{
	Case		made = make_case(1, 6000, 20, 0.3);
	FastedStats stats;
	bool		right = true;
	int			share = 100;

	for (int i = 0; i < 10 && right && share >= 40; i++)
	{
		const char *at;

		reset_play(2);
		play.slow = 1;
		right = joins_right(&made, &plain, &stats);
		at = strstr(stats.device, "device 1, ");
		right = right && at != NULL && sscanf(at, "device 1, %d%%", &share) == 1;
	}
	ok(right && share >= 0 && share < 40, "a slow device does less work: %s", stats.device);
	drop_case(&made);
}

/* Returns whether all pairs of a sorted list are expected, without duplicates. */
static bool
pairs_among(const PairList *list, const PairList *expected)
{
	size_t		at = 0;

	for (size_t i = 0; i < list->count; i++)
	{
		while (at < expected->count && pair_compare(&expected->pairs[at], &list->pairs[i]) < 0)
			at++;
		if (at == expected->count || pair_compare(&expected->pairs[at++], &list->pairs[i]) != 0)
			return false;
	}
	return true;
}

/* Slices of devices with different row orders do not fit together. */
static void
check_orders(FastedOutput output)
{
	Case		made = make_case(1, 700, 16, 0.3);
	PairList	list = {0};
	PanelJoin  *join = NULL;
	FastedStatus status;

	made.problem.problem.output = output;
	reset_play(3);
	play.other_order = 1;
	status = panel_join_open(join_engine, &made.problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &made.problem, made.sides, &plain);
	if (status == FASTED_OK)
		status = drain_join(join, &made.problem, made.sides, &plain, &list);
	ok(status == FASTED_INTERNAL && strstr(panel_join_last_error(join_engine, join), "in another order") != NULL,
	   "output %d: different row orders are an error: %s", output,
	   panel_join_last_error(join_engine, join));
	panel_join_close(join);
	ok(play.closed == play.opened, "all devices are closed");
	free(list.pairs);
	drop_case(&made);
}

/*
 * Runs a join in which a call may fail.  Returns whether the join failed exactly if a call failed,
 * with that device's name and message, and whether its pairs are right.
 */
static bool
ends_rightly(const Case *made, const CallerHabits *habits, FastedOutput output)
{
	PanelProblem problem = made->problem;
	PairList	list = {0};
	PanelJoin  *join = NULL;
	FastedStats stats;
	FastedStatus status;
	bool		right;

	problem.problem.output = output;
	status = panel_join_open(join_engine, &problem, &join);
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, made->sides, habits);
	if (status == FASTED_OK)
		status = drain_join(join, &problem, made->sides, habits, &list);
	pair_sort(&list);
	panel_join_stats(join, &stats);
	if (play.failed[0] || play.failed[1] || play.failed[2])
	{
		int			device = -1;

		right = status == FASTED_DEVICE_FAILED && pairs_among(&list, &made->expected) &&
			sscanf(panel_join_last_error(join_engine, join), "device %d: The device was told to fail.", &device) == 1 &&
			device >= 0 && device < 3 && play.failed[device];
	}
	else
		right = status == FASTED_DONE && stats.pairs == made->expected.count &&
			(output != FASTED_OUTPUT_PAIRS || pair_equal(&list, &made->expected));
	if (!right)
		printf("# status %d, %s\n", status, panel_join_last_error(join_engine, join));
	panel_join_close(join);
	free(list.pairs);
	return right && play.closed == play.opened && play.after_failure == 0;
}

/* Lets each call of a device fail in turn, alone or together with another device. */
static void
check_failures(int sides, FastedOutput output, const CallerHabits *habits, uint64_t memory, bool two)
{
	Case		made = make_case(sides, 700, 16, 0.3);
	bool		right = true;
	bool		reached = true;
	int			call = 2;

	made.problem.options.memory_limit = memory;
	for (; reached && right; call += call < 16 ? 1 : 1 + (int) random_below((uint32_t) call))
	{
		reset_play(3);
		play.fail_calls[call % 3] = call;
		play.fail_calls[(call + 1) % 3] = two ? call : 0;
		right = ends_rightly(&made, habits, output);
		reached = play.failed[call % 3] || play.failed[(call + 1) % 3];
	}
	ok(right && call > 12, "%d sides, output %d%s%s%s: each call fails, up to %d", sides, output,
	   habits->put ? ", put" : "", memory > 0 ? ", panels" : "", two ? ", of two devices" : "", call);
	drop_case(&made);
}

/* Devices that cannot be opened are not used.  If none can, the join fails. */
static void
check_open_failures(void)
{
	Case		made = make_case(1, 700, 16, 0.3);
	FastedStats stats;
	PanelJoin  *join = NULL;

	for (int device = 0; device < 3; device++)
	{
		reset_play(3);
		play.fail_calls[device] = 1;
		ok(joins_right(&made, &plain, &stats) && strstr(stats.device, "0%, not used") != NULL,
		   "a device that cannot be opened is not used: %s", stats.device);
	}
	reset_play(3);
	for (int device = 0; device < 3; device++)
		play.fail_calls[device] = 1;
	ok(panel_join_open(join_engine, &made.problem, &join) == FASTED_DEVICE_FAILED &&
	   strcmp(panel_join_last_error(join_engine, join), "The device was told to fail.") == 0,
	   "the join fails if no device can be opened");
	panel_join_close(join);
	ok(play.closed == play.opened && play.opened == 3, "all devices are closed");
	drop_case(&made);
}

/*
 * A device runs out of memory earlier than the first one.  While rows are loaded, it is then not
 * used; after a join was opened, the join fails.
 */
static void
check_full_device(const CallerHabits *habits, uint64_t memory)
{
	Case		made = make_case(1, 700, 16, 0.3);
	bool		right = true;
	int			left_out = 0;
	int			failed = 0;

	made.problem.options.memory_limit = memory;
	for (int call = 3; call < 60; call += call < 12 ? 1 : 9)
	{
		PairList	list;
		FastedStats stats = {0};
		FastedStatus status;

		reset_play(3);
		play.full_device = 1;
		play.full_call = call;
		status = run_join_once(&made.problem, made.sides, habits, &list, &stats, NULL);
		right = right && play.closed == play.opened &&
			(status == FASTED_DONE ? pair_equal(&list, &made.expected)
			 : status == FASTED_OUT_OF_DEVICE_MEMORY && pairs_among(&list, &made.expected));
		left_out += strstr(stats.device, "device 1, 0%, not used") != NULL;
		failed += status != FASTED_DONE;
		free(list.pairs);
	}
	ok(right && left_out > 0 && (failed > 0) == (memory > 0),
	   "less memory%s%s: not used %d times, %d joins failed", habits->put ? ", put" : "",
	   memory > 0 ? ", panels" : "", left_out, failed);
	drop_case(&made);
}

/* A single device finds the representatives. */
static void
check_keepers(void)
{
	Case		made = make_case(1, 1500, 16, 0.3);
	FastedStats stats;

	made.problem.problem.output = FASTED_OUTPUT_REPRESENTATIVES;
	reset_play(3);
	ok(join_engine->chooses_representatives && joins_right(&made, &plain, &stats) &&
	   strstr(stats.device, "device 0, 100%") != NULL,
	   "representatives: one device has all pairs: %s", stats.device);
	drop_case(&made);
}

/* --- nearest neighbors */

/* The neighbor lists of all rows. */
typedef struct Lists
{
	FastedNeighbor *lists;		/* k entries for each row */
	uint32_t   *lengths;
} Lists;

/* Runs one join and copies its neighbor lists; returns false if it failed. */
static bool
find_lists(const FastedEngine *engine, const Case *made, Lists *found, FastedStats *stats)
{
	static const CallerHabits habits = {0};
	PanelProblem problem = made->problem;
	PanelJoin  *join;
	FastedBatch batch;
	FastedStatus status = panel_join_open(engine, &problem, &join);

	found->lists = must_alloc(made->sides[0].n * problem.problem.k * sizeof(FastedNeighbor));
	found->lengths = must_alloc(made->sides[0].n * sizeof(uint32_t));
	if (status == FASTED_OK)
		status = load_and_start(join, &problem, made->sides, &habits);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		status = panel_join_next(join, 100, &batch);
		for (uint64_t row = batch.first_row;
			 status == FASTED_OK && row < batch.first_row + batch.row_count; row++)
		{
			const FastedNeighbor *list = panel_join_nearest(join, row, &found->lengths[row]);

			if (found->lengths[row] > 0)
				memcpy(found->lists + row * problem.problem.k, list, found->lengths[row] * sizeof(*list));
		}
		if (status == FASTED_WANT_ROWS)
		{
			uint64_t	staged;

			status = stage_rows(join, batch.side, &made->sides[batch.side], batch.first_row,
								batch.row_count, made->problem.options.dimensions, 0, &staged);
		}
	}
	panel_join_stats(join, stats);
	panel_join_close(join);
	return status == FASTED_DONE;
}

static void
free_lists(Lists *found)
{
	free(found->lists);
	free(found->lengths);
}

/* Finds the neighbor lists of a case with one engine. */
static Lists
expect_lists(const Case *made)
{
	FastedStats stats;
	Lists		expected;

	if (!find_lists(fasted_cpu_engine(), made, &expected, &stats))
		exit(EXIT_FAILURE);
	return expected;
}

/* Compares the neighbor lists of several devices with the expected ones. */
static bool
lists_right(const Case *made, const Lists *expected, FastedStats *stats)
{
	uint32_t	k = made->problem.problem.k;
	Lists		found;
	bool		right = find_lists(join_engine, made, &found, stats) && play.after_failure == 0 &&
		play.closed == play.opened;

	for (uint64_t row = 0; row < made->sides[0].n && right; row++)
	{
		right = found.lengths[row] == expected->lengths[row];
		for (uint32_t i = 0; i < expected->lengths[row] && right; i++)
			right = found.lists[row * k + i].row == expected->lists[row * k + i].row &&
				found.lists[row * k + i].dist == expected->lists[row * k + i].dist;
	}
	free_lists(&found);
	return right;
}

/*
 * Tests devices of equal speed, and each device as a slow one; with panels, some devices and one number
 * of neighbors.  If devices cannot merge lists, the first one finds them.
 */
static void
check_nearest(int sides, bool merge, uint64_t memory)
{
	static const uint32_t ks[] = {1, 7, 40};

	for (int i = memory > 0 ? (int) random_below(3) : 0; i < 3; i += memory > 0 ? 3 : 1)
	{
		Case		made = make_case(sides, MOST_NEAR, memory > 0 ? 100 : 5, 0.1);
		Lists		expected;
		FastedStats stats = {0};
		bool		right = true;
		int			adds = 0;

		made.problem.options.memory_limit = memory;
		made.problem.problem = (FastedProblem) {
			.eps = i == 1 ? 0.3 : INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = ks[i]
		};
		expected = expect_lists(&made);
		for (int devices = 1; devices <= DEVICES; devices++)
		{
			for (int slow = -1; slow < devices;
				 slow += memory > 0 ? 1 + (int) random_below((uint32_t) devices) : 1)
			{
				reset_play(devices);
				base.most_merged = merge ? UINT32_MAX : 0;
				play.slow = slow;
				right = lists_right(&made, &expected, &stats) && right;
				adds += play.adds;
			}
		}
		ok(right && (adds > 0) == merge && (stats.panels > 1) == (memory > 0),
		   "nearest, %d sides, k %u, merge %d, %u panels", sides, ks[i], merge, stats.panels);
		free_lists(&expected);
		drop_case(&made);
	}
}

/*
 * Each call of the second of three devices fails in turn.  The join must then fail, unless that
 * device could not be opened.  With `order`, the device's row order differs from that call on.  The
 * join must then fail, unless the device's last slice was finished before.
 */
static void
check_nearest_failures(int sides, uint64_t memory, bool order)
{
	Case		made = make_case(sides, MOST_NEAR, memory > 0 ? 100 : 5, 0.1);
	Lists		expected;
	bool		reached = true;
	int			call = 1;
	int			failed = 0;
	int			wrong = 0;

	made.problem.options.memory_limit = memory;
	made.problem.problem = (FastedProblem) {.eps = INFINITY,.output = FASTED_OUTPUT_NEAREST,.k = 9};
	expected = expect_lists(&made);
	for (; reached; call += memory > 0 ? 1 + (int) random_below(2 * (uint32_t) call) : quick() && call > 12 ? 1 + (int) random_below(5) : 1)
	{
		FastedStats stats = {0};
		bool		found;

		reset_play(3);
		*(order ? &play.other_order : &play.fail_device) = 1;
		*(order ? &play.order_from : &play.fail_call) = call;
		found = lists_right(&made, &expected, &stats);
		reached = play.calls[1] >= call;
		failed += !found;
		wrong += (order ? !found && !reached : found != (call == 1 || !reached)) || play.after_failure > 0;
	}
	ok(wrong == 0 && call > 10 && failed > 0,
	   "nearest neighbors, %d sides%s: a device %s at calls 1 to %d", sides,
	   memory > 0 ? ", panels" : "", order ? "has another order" : "fails", call);
	free_lists(&expected);
	drop_case(&made);
}

int
main(void)
{
	int			first;
	int			last;

	random_seed();
	first = quick() ? 1 + (int) random_below(2) : 1;
	last = quick() ? first : 2;
	make_base();
	check_numbers_of_devices();
	check_small();
	check_panels();
	check_slices();
	check_partitions();
	check_uneven();
	check_orders(FASTED_OUTPUT_PAIRS);
	check_orders(FASTED_OUTPUT_COUNTS);
	for (int sides = first; sides <= last; sides++)
	{
		check_failures(sides, FASTED_OUTPUT_PAIRS, &plain, 0, random_below(2));
		check_failures(sides, FASTED_OUTPUT_COUNTS, &plain, 0, random_below(2));
		check_failures(sides, FASTED_OUTPUT_COUNTS, &plain, 150 * 1024, random_below(2));
		check_failures(sides, FASTED_OUTPUT_PAIRS, &putting, 0, random_below(2));
		check_failures(sides, FASTED_OUTPUT_PAIRS, &plain, 150 * 1024, random_below(2));
	}
	check_open_failures();
	check_full_device(&plain, 0);
	check_full_device(&plain, 150 * 1024);
	check_keepers();
	for (int sides = first; sides <= last; sides++)
	{
		check_nearest(sides, false, 0);
		check_nearest(sides, true, 0);
		check_nearest_failures(sides, 0, random_below(2));
		/* lists are merged once, for any number of panels */
		check_nearest(sides, true, 150 * 1024);
		check_nearest_failures(sides, 150 * 1024, false);
		check_nearest_failures(sides, 150 * 1024, true);
	}
	return tap_done();
}
