/*-------------------------------------------------------------------------
 *
 * test_pause.c
 *	  The CPU engine pauses while its caller is away, loses no pairs by pausing, and stops
 *	  quickly.
 *
 *-------------------------------------------------------------------------
 */
#include "../../src/cpu/kernels/kernel.h"
#include "join.h"

#define WINDOW_MS 200
#define STILL_MS 10				/* maximum CPU time in an idle window */
#define WINDOWS 50

static uint64_t
milliseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void
sleep_ms(int ms)
{
	nanosleep(&(struct timespec) {.tv_sec = ms / 1000,.tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Returns the CPU time of all threads while this one sleeps. */
static uint64_t
processor_ms(int ms)
{
	uint64_t	before = milliseconds(CLOCK_PROCESS_CPUTIME_ID);

	sleep_ms(ms);
	return milliseconds(CLOCK_PROCESS_CPUTIME_ID) - before;
}

/* Returns the number of windows until an idle one; WINDOWS: there was none. */
static int
windows_to_rest(void)
{
	int			n = 0;

	while (n < WINDOWS && processor_ms(WINDOW_MS) > STILL_MS)
		n++;
	return n;
}

static float *
make_rows(uint32_t n, uint32_t d)
{
	float	   *rows = must_alloc((size_t) n * d * sizeof(float));

	for (size_t i = 0; i < (size_t) n * d; i++)
		rows[i] = (float) (3.5 * random_uniform());
	return rows;
}

static PanelJoin *
begin_join(const PanelProblem *problem, const Rows *rows)
{
	const CallerHabits plain = {.timeout_ms = 100};
	PanelJoin  *join;

	if (panel_join_open(fasted_cpu_engine(), problem, &join) != FASTED_OK ||
		load_and_start(join, problem, rows, &plain) != FASTED_OK)
	{
		printf("Bail out! %s\n", panel_join_last_error(fasted_cpu_engine(), join));
		exit(EXIT_FAILURE);
	}
	return join;
}

static bool
is_unfinished(const PanelJoin *join)
{
	FastedStats stats;

	panel_join_stats(join, &stats);
	return stats.units_done < stats.units_total;
}

/* Workers of a long join work while next is called, and pause afterwards. */
static void
check_rest(uint32_t n, uint32_t d, int timeout_ms, bool tell)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 2,.kernel = "portable"},
		.problem = {.eps = 0.01},
		.sides = 1
	};
	float	   *rows = make_rows(n, d);
	PanelJoin  *join = begin_join(&problem, &(Rows) {.rows = rows,.n = n});
	FastedBatch batch;
	uint64_t	before;
	uint64_t	work;
	bool		good;
	int			windows;

	good = panel_join_next(join, timeout_ms, &batch) == FASTED_AGAIN;
	if (tell)
		panel_join_pause(join);
	windows = windows_to_rest();
	ok(good && windows < WINDOWS && is_unfinished(join),
	   "n = %u, d = %u: %s after %d ms of work, %d windows until idle", n, d,
	   tell ? "pause called" : "pause not called", timeout_ms, windows);

	before = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int i = 0; i < 100 && milliseconds(CLOCK_PROCESS_CPUTIME_ID) - before < 100; i++)
		good = good && panel_join_next(join, 100, &batch) == FASTED_AGAIN;
	ok(good && milliseconds(CLOCK_PROCESS_CPUTIME_ID) - before >= 100,
	   "work resumes with the following call of next");

	panel_join_pause(join);
	(void) windows_to_rest();
	before = milliseconds(CLOCK_MONOTONIC);
	work = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
	panel_join_close(join);
	before = milliseconds(CLOCK_MONOTONIC) - before;
	work = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - work;
	/* other processes may use the CPUs */
	ok(work < 500 && before < 10000, "closed while paused, in %d ms, of which %d of CPU time", (int) before, (int) work);
	free(rows);
}

/* Callers that pause receive the same pairs as others. */
static void
check_pairs(uint32_t n, uint32_t d, double eps, uint64_t limit, int pauses, int pause_ms)
{
	PanelProblem problem = {
		.options = {.dimensions = d,.threads = 3,.memory_limit = limit},
		.problem = {.eps = eps},
		.sides = 1
	};
	float	   *rows = make_rows(n, d);
	Rows		side = {.rows = rows,.n = n};
	PairList	expected;
	PairList	got = {0};
	PanelJoin  *join = begin_join(&problem, &side);
	FastedBatch batch;
	FastedStatus status = FASTED_OK;
	uint64_t	staged;
	uint64_t	shown = 0;
	bool		current = true;

	near_pairs(rows, n, d, eps, &expected);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		FastedStats stats;

		if (pauses-- > 0)
		{
			panel_join_pause(join);
			sleep_ms(pause_ms);
		}
		status = panel_join_next(join, 10, &batch);
		if (status == FASTED_OK)
			pair_add(&got, batch.pairs, batch.npairs);
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, 0, &side, batch.first_row, batch.row_count, d, 0, &staged);
		/* the statistics include all returned pairs */
		panel_join_stats(join, &stats);
		current = current && stats.pairs >= got.count && stats.pairs >= shown;
		shown = stats.pairs;
	}
	panel_join_close(join);
	pair_sort(&got);
	ok(status == FASTED_DONE && pair_equal(&got, &expected) && got.count > 0,
	   "%u x %u, pauses of %d ms: %zu of %zu pairs", n, d, pause_ms, got.count, expected.count);
	ok(current, "the statistics include all returned pairs");
	free(expected.pairs);
	free(got.pairs);
	free(rows);
}

/*
 * Packing a sliver of long rows takes long, because each slice touches a memory page.  Packing
 * therefore checks whether to stop.
 */
static void
check_stop(const CpuKernel *kernel)
{
	static const atomic_bool stop = true;
	uint32_t	d = 1000;
	PackLayout	layout = {.words = d,.segment = 8,.padded_rows = kernel->width};
	float	   *row = make_rows(1, d);
	float	   *packed = must_alloc(layout.padded_rows * d * sizeof(float));
	PackSliver	job = {.centre = row,.scale = 1.0,.layout = &layout,.packed = packed,.stop = &stop};
	bool		untouched = true;

	for (uint32_t i = 0; i < layout.padded_rows * d; i++)
		packed[i] = 7.0f;
	kernel->pack(&job);
	for (uint32_t i = 0; i < layout.padded_rows * d; i++)
		untouched = untouched && packed[i] == 7.0f;
	ok(untouched, "%s: packing can be stopped", kernel->name);
	free(packed);
	free(row);
}

int
main(void)
{
	random_seed();
	check_rest(30000, 100, 0, true);
	check_rest(60000, 100, 300, true);
	check_rest(2000, 20000, 500, true);
	check_rest(60000, 100, 300, false);
	check_pairs(3000, 3, 0.5, 0, 20, 60);
	check_pairs(3000, 3, 0.5, 0, 1000000, 0);
	for (int k = 0; fasted_cpu_kernel(k) != NULL; k++)
	{
		if (fasted_cpu_kernel(k)->available())
			check_stop(fasted_cpu_kernel(k));
	}
	check_pairs(1500, 200, 19.0, UINT64_C(1) << 20, 20, 60);
	return tap_done();
}
