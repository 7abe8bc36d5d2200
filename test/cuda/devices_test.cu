/*-------------------------------------------------------------------------
 *
 * devices_test.cu
 *	  Several GPUs in one join: how rows reach them, and failures of one of them.
 *
 *	devices_test
 *	devices_test --small	a subset for compute-sanitizer
 *
 * A single GPU is used as two devices.  A device can be made to fail at a call; the join then
 * fails with its name.  ../unit/test_joins.c and test_nearest.c compare joins of several devices with
 * brute force.
 *
 *-------------------------------------------------------------------------
 */
#include <map>
#include <mutex>

#include "engine/engine.h"

#include "cases.h"

namespace
{

FastedEngine base;
const FastedContext *doomed;	/* the device that fails */
std::map<const FastedJoin *, const FastedContext *> contexts;	/* the context of each join */
std::mutex	joins_lock;
int			calls_left;			/* calls of next until it fails */
int			opened;
bool		one_device;

int
two_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = fasted_engine()->devices(devices, names, most);

	one_device = count == 1;
	if (one_device)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

/* The second device is the one that may fail. */
FastedStatus
note_open(const FastedOptions *options, FastedContext **context)
{
	FastedStatus status = fasted_engine()->open(options, context);

	if (++opened == 2)
		doomed = *context;
	return status;
}

/* Devices open their joins in parallel threads. */
FastedStatus
note_join_open(FastedContext *context, const FastedProblem *problem, FastedSet *a, FastedSet *b,
			   FastedJoin **join)
{
	FastedStatus status = fasted_engine()->join_open(context, problem, a, b, join);
	std::lock_guard<std::mutex> guard(joins_lock);

	contexts[*join] = context;
	return status;
}

bool
is_doomed(const FastedJoin *join)
{
	std::lock_guard<std::mutex> guard(joins_lock);

	return contexts[join] == doomed;
}

FastedStatus
failing_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	if (calls_left > 0 && is_doomed(join) && --calls_left == 0)
		return FASTED_DEVICE_FAILED;
	return fasted_engine()->next(join, timeout_ms, batch);
}

bool
pair_less(const FastedPair &p, const FastedPair &q)
{
	return p.a != q.a ? p.a < q.a : p.b < q.b;
}

bool
pairs_equal(const FastedPair &p, const FastedPair &q)
{
	return p.a == q.a && p.b == q.b;
}

bool
pairs_alike(const std::vector<FastedPair> &p, const std::vector<FastedPair> &q)
{
	return p.size() == q.size()
		&& (p.empty() || memcmp(p.data(), q.data(), p.size() * sizeof(FastedPair)) == 0);
}

Outcome
run_group(const Sides &sides, const PanelProblem &problem, int fail_at = 0)
{
	opened = 0;
	calls_left = fail_at;
	return run_join(sides, problem);
}

/* Tests registered and staged rows, also in panels. */
void
check_ways_in()
{
	Rows		rows = clustered_rows(6000, 100, 20, 0.3f, 5);
	std::vector<double> distances = all_distances(rows, rows);
	double		eps = interesting_eps(distances, 0.002)[1];

	for (const Mode &mode : modes)
	{
		for (bool register_memory : {false, true})
		{
			for (bool panels : {false, true})
			{
				PanelProblem problem = problem_of(eps, mode);
				std::string why;

				tuning.always_register = register_memory;
				if (panels)
					problem.options.device_memory_limit = little_memory(mode, rows.n, rows.d);
				Outcome		outcome = run_group(rows, problem);
				bool		right = same_as_oracle(rows, distances, eps, outcome, &why);

				tap::ok(right && outcome.was_full == panels && outcome.registered == register_memory,
						"%s, %s, %u panels: %s", mode.name,
						register_memory ? "registered" : "staged", outcome.stats.panels,
						why.c_str());
			}
		}
	}
	tuning.always_register = false;
}

/*
 * Memory suffices for an odd number of projected rows at a time.  From samples of two sets, all
 * devices must compute the same encoding, and all take part in each join.
 */
void
check_orders(uint32_t n)
{
	Rows		rows = clustered_rows(n, 100, 20, 0.3f, 5);
	PanelProblem problem = problem_of(3.7, modes[6]);
	size_t		limit = little_memory(modes[6], rows.n, rows.d);
	size_t		step = 64 * fasted::kMostWidth * sizeof(float); /* bytes for one more row */

	limit += limit / step % 2 == 0 ? step : 0;
	problem.problem.output = FASTED_OUTPUT_COUNT;
	problem.options.device_memory_limit = limit;
	Outcome		outcome = run_group(rows, problem);

	problem.options.device_memory_limit = 0;
	Outcome		whole = run_group(rows, problem);

	tap::ok(outcome.status == FASTED_OK && outcome.was_full
			&& outcome.stats.pairs == whole.stats.pairs && whole.stats.pairs > 1000,
			"projected rows, %u panels: same row order on all devices, %llu pairs",
			outcome.stats.panels, (unsigned long long) outcome.stats.pairs);
}

/* The second device fails in different polls. */
void
check_failures(bool panels)
{
	Rows		rows = clustered_rows(20000, 64, 50, 0.3f, 6);
	PanelProblem problem = problem_of(3.2, modes[5]);

	if (panels)
		problem.options.device_memory_limit = little_memory(modes[5], rows.n, rows.d)
			+ 6 * fasted::Form::bytes(rows.d);
	Outcome		whole = run_group(rows, problem);
	bool		right = true;
	int			failed = 0;

	std::sort(whole.pairs.begin(), whole.pairs.end(), pair_less);
	for (int call = 1; call <= 40 && right; call += call < 10 ? 1 : 5)
	{
		for (FastedOutput output : {FASTED_OUTPUT_PAIRS, FASTED_OUTPUT_COUNTS})
		{
			problem.problem.output = output;
			Outcome		outcome = run_group(rows, problem, call);

			std::sort(outcome.pairs.begin(), outcome.pairs.end(), pair_less);
			if (outcome.status == FASTED_DEVICE_FAILED)
			{
				failed++;
				right = right && std::includes(whole.pairs.begin(), whole.pairs.end(),
											   outcome.pairs.begin(), outcome.pairs.end(), pair_less)
					&& std::adjacent_find(outcome.pairs.begin(), outcome.pairs.end(), pairs_equal)
					== outcome.pairs.end();
			}
			else
				right = right && outcome.status == FASTED_OK && outcome.stats.pairs == whole.pairs.size()
					&& (output == FASTED_OUTPUT_COUNTS ? same_counts(rows, outcome, whole)
						: pairs_alike(outcome.pairs, whole.pairs));
		}
	}
	tap::ok(right && failed > 5 && whole.pairs.size() > 10000,
			"join fails with a device, %u panels, no duplicate pairs (%d times, %zu pairs)",
			whole.stats.panels, failed, whole.pairs.size());
}

/* The lists of neighbors of all rows; empty if a join fails. */
using Lists = std::vector<std::vector<FastedNeighbor>>;

Lists
nearest_lists(const Rows &rows, PanelProblem problem, int fail_at)
{
	PanelJoin  *join = nullptr;
	FastedBatch batch;
	Outcome		outcome;
	uint64_t	staged;
	Lists		lists(rows.n);

	opened = 0;
	calls_left = fail_at;
	problem.options.dimensions = rows.d;
	problem.sides = 1;
	problem.problem.output = FASTED_OUTPUT_NEAREST;
	FastedStatus status = panel_join_open(tested_engine, &problem, &join);
	if (status == FASTED_OK)
		status = fill_and_start(join, rows, &outcome);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		status = panel_join_next(join, 20, &batch);
		for (uint64_t row = batch.first_row; status == FASTED_OK
			 && row < batch.first_row + batch.row_count; row++)
		{
			uint32_t	length;
			const FastedNeighbor *list = panel_join_nearest(join, row, &length);

			lists[row].assign(list, list + length);
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, rows, batch.first_row, batch.row_count, &staged);
	}
	panel_join_close(join);
	return FASTED_FAILED(status) ? Lists() : lists;
}

bool
lists_equal(const Lists &p, const Lists &q)
{
	return p.size() == q.size() && std::equal(p.begin(), p.end(), q.begin(), [](const auto &x, const auto &y)
	{
		return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](auto &m, auto &n)
		{
			return m.row == n.row && m.dist == n.dist;
		});
	});
}

/* The second device fails in different polls: lists are those of one device, or the join fails. */
void
check_nearest_failures(bool panels)
{
	Rows		rows = clustered_rows(9000, 64, 50, 0.3f, 6);
	PanelProblem problem = problem_of(INFINITY, modes[5]);
	const FastedEngine *several = tested_engine;
	bool		right = true;
	int			failed = 0;

	problem.problem.k = 20;
	tested_engine = fasted_engine();
	Lists		expected = nearest_lists(rows, problem, 0);

	tested_engine = several;
	if (panels)
		problem.options.device_memory_limit = little_memory(modes[5], rows.n, rows.d)
			+ 6 * fasted::Form::bytes(rows.d) + (size_t) rows.n * 20 * 16 / 3;
	for (int call = 1; call <= 40 && right; call += call < 8 ? 1 : 8)
	{
		Lists		lists = nearest_lists(rows, problem, call);

		if (calls_left == 0 && lists.empty())
			failed++;
		else
			right = lists_equal(lists, expected);
	}
	tap::ok(right && expected[0].size() == 20 && failed > 2,
			"nearest neighbors%s: a device fails (%d times)", panels ? ", panels" : "", failed);
}

void
check_shares()
{
	Rows		rows = clustered_rows(60000, 256, 50, 0.3f, 7);
	PanelProblem problem = problem_of(4.0, modes[5]);

	problem.problem.output = FASTED_OUTPUT_COUNT;
	Outcome		outcome = run_group(rows, problem);

	tap::ok(outcome.status == FASTED_OK && strstr(outcome.stats.device, "not used") == nullptr
			&& strstr(outcome.stats.device, "%") != nullptr, "%s: %s",
			one_device ? "one GPU used as two" : "several GPUs", outcome.stats.device);
}

/* The description of the first GPU in fasted_info(); negative numbers are rejected. */
void
check_description()
{
	char		text[256] = "";
	bool		found = fasted_engine()->describe(0, text, sizeof(text));

	tap::ok(found && strstr(text, " GiB, compute capability ") != nullptr
			&& !fasted_engine()->describe(-1, text, sizeof(text)), "GPU 0: %s", text);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	check_description();
	base = *fasted_engine();
	base.devices = two_devices;
	base.open = note_open;
	base.join_open = note_join_open;
	base.next = failing_next;
	tested_engine = fasted_multi_gpu_engine(&base);

	if (argc > 1 && strcmp(argv[1], "--small") == 0)
	{
		check_orders(2600);
		return tap::done();
	}
	check_orders(6000);
	check_nearest_failures(false);
	check_nearest_failures(true);
	check_ways_in();
	check_failures(false);
	check_failures(true);
	check_shares();
	return tap::done();
}
