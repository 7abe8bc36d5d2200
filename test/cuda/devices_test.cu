/*-------------------------------------------------------------------------
 *
 * devices_test.cu
 *	  Several GPUs in one join, compared bit for bit with a slow oracle.
 *
 *	devices_test
 *	devices_test --small	a subset for compute-sanitizer
 *
 * A single GPU is used as two devices.  A device can be made to fail at a call; the join then
 * fails with its name.
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
uint64_t	added;				/* neighbor lists added to those of another device */

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

FastedStatus
counted_add(FastedJoin *join, const FastedJoin *from, uint64_t first_row, size_t nrows)
{
	FastedStatus status = fasted_engine()->merge_lists(join, from, first_row, nrows);

	added += status == FASTED_OK ? nrows : 0;
	return status;
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

void
check_sides(const char *what, const Sides &sides, double share = 0.01)
{
	std::vector<double> distances = all_distances(*sides.a, sides.last());
	std::string why;

	for (const Mode &mode : modes)
	{
		for (double eps : interesting_eps(distances, share))
		{
			Outcome		outcome = run_group(sides, problem_of(eps, mode));

			if (!same_as_oracle(sides, distances, eps, outcome, &why)
				|| !counts_alike(sides, problem_of(eps, mode), outcome, &why))
			{
				tap::ok(false, "%s, %u x %u, d = %u, %s, eps = %.17g: %s", what, sides.a->n,
						sides.last().n, sides.a->d, mode.name, eps, why.c_str());
				return;
			}
		}
	}
	tap::ok(true, "%s, %u x %u, d = %u", what, sides.a->n, sides.last().n, sides.a->d);
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

/* The lists of k neighbors of each row, and their lengths. */
struct Lists
{
	std::vector<FastedNeighbor> neighbors;
	std::vector<uint32_t> lengths;
};

Lists
lists_by_oracle(const Sides &sides, double eps, uint32_t k)
{
	std::vector<double> distances = all_distances(*sides.a, sides.last());
	uint32_t	n = sides.last().n;
	Lists		lists = {std::vector<FastedNeighbor>((size_t) sides.a->n * k),
		std::vector<uint32_t>(sides.a->n)};

	parallel(sides.a->n, [&](uint32_t row)
	{
		std::vector<FastedNeighbor> all;

		for (uint32_t other = 0; other < n; other++)
		{
			double		dist = distances[(size_t) row * n + other];

			if (dist <= eps && (sides.b != nullptr || other != row))
				all.push_back({other, dist});
		}
		std::sort(all.begin(), all.end(), fasted::comes_before);
		lists.lengths[row] = (uint32_t) std::min<size_t>(k, all.size());
		std::copy_n(all.begin(), lists.lengths[row], lists.neighbors.begin() + (size_t) row * k);
	});
	return lists;
}

/* Compares the engine's lists with the expected ones; returns the error, or "". */
std::string
wrong_lists(const Sides &sides, PanelProblem problem, const Lists &expected, FastedStats *stats,
			int fail_at = 0)
{
	uint32_t	k = problem.problem.k;
	PanelJoin  *join = nullptr;
	FastedBatch batch;
	Outcome		outcome;
	uint64_t	staged;
	uint64_t	seen = 0;
	std::string why;

	opened = 0;
	calls_left = fail_at;
	problem.options.dimensions = sides.a->d;
	problem.sides = sides.count();
	problem.problem.output = FASTED_OUTPUT_NEAREST;
	FastedStatus status = panel_join_open(tested_engine, &problem, &join);
	if (status == FASTED_OK)
		status = fill_and_start(join, sides, &outcome);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		status = panel_join_next(join, 20, &batch);
		for (uint64_t row = batch.first_row; status == FASTED_OK
			 && row < batch.first_row + batch.row_count; row++, seen++)
		{
			uint32_t	length;
			const FastedNeighbor *list = panel_join_nearest(join, row, &length);
			bool		right = length == expected.lengths[row];

			for (uint32_t i = 0; i < length && right; i++)
				right = list[i].row == expected.neighbors[row * k + i].row
					&& list[i].dist == expected.neighbors[row * k + i].dist;
			if (!right)
				why = "the list of row " + std::to_string(row) + " is wrong";
		}
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, sides.side(batch.side), batch.first_row,
								batch.row_count, &staged);
	}
	if (FASTED_FAILED(status))
		why = panel_join_last_error(tested_engine, join);
	else if (seen != sides.a->n)
		why = std::to_string(seen) + " lists were returned";
	panel_join_stats(join, stats);
	panel_join_close(join);
	return why;
}

/* Neighbor lists that devices merge and longer ones, with all rows and in panels. */
void
check_nearest(const char *what, const Sides &sides, double eps)
{
	for (uint32_t k : {1, 10, 100, 1100})
	{
		Lists		expected = lists_by_oracle(sides, eps, k);

		for (const Mode &mode : {modes[0], modes[5], modes[6]})
		{
			for (bool panels : {false, true})
			{
				/* small panels take long */
				if (panels && (k == 1 || k == 100 || mode.kernel != nullptr))
					continue;

				PanelProblem problem = problem_of(eps, mode);
				FastedStats stats;

				problem.problem.k = k;
				added = 0;
				if (panels)
					problem.options.device_memory_limit =
						little_memory(mode, std::max(sides.a->n, sides.last().n), sides.a->d)
						+ (size_t) sides.a->n * k * 16 / 3;
				std::string why = wrong_lists(sides, problem, expected, &stats);

				if (!why.empty() || (k == 1100 && added > 0))
				{
					tap::ok(false, "nearest neighbors, %s, k = %u, %s, %u panels, %s: %s", what, k,
							mode.name, stats.panels, stats.device, why.c_str());
					return;
				}
				if (mode.kernel == nullptr)
					printf("# k = %u: %u panels, %llu lists added, %s\n", k, stats.panels,
						   (unsigned long long) added, stats.device);
			}
		}
	}
	tap::ok(true, "nearest neighbors, %s, %u x %u, d = %u", what, sides.a->n, sides.last().n,
			sides.a->d);
}

/* Makes rows with many duplicates. */
Rows
repeated_rows(uint32_t n, uint32_t d, uint32_t distinct)
{
	Rows		some = normal_rows(distinct, d, 21);
	Rows		rows(n, d);

	for (uint32_t i = 0; i < n; i++)
		std::copy_n(some.row(i * 7919u % distinct), d, rows.row(i));
	return rows;
}

/* The second device fails in different polls: lists are right, or the join fails. */
void
check_nearest_failures(bool panels)
{
	Rows		rows = clustered_rows(9000, 64, 50, 0.3f, 6);
	PanelProblem problem = problem_of(INFINITY, modes[5]);
	FastedStats stats;
	std::string why;
	int			failed = 0;

	problem.problem.k = 20;
	if (panels)
		problem.options.device_memory_limit = little_memory(modes[5], rows.n, rows.d)
			+ 6 * fasted::Form::bytes(rows.d) + (size_t) rows.n * 20 * 16 / 3;
	Lists		expected = lists_by_oracle(rows, INFINITY, 20);

	for (int call = 1; call <= 40 && why.empty(); call += call < 8 ? 1 : 8)
	{
		why = wrong_lists(rows, problem, expected, &stats, call);
		if (calls_left == 0 && !why.empty() && why.find("list of row") == std::string::npos)
		{
			failed++;
			why.clear();
		}
	}
	tap::ok(why.empty() && failed > 2, "nearest neighbors, %u panels: a device fails (%d times) %s",
			stats.panels, failed, why.c_str());
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
	base.merge_lists = counted_add;
	tested_engine = fasted_multi_gpu_engine(&base);

	if (argc > 1 && strcmp(argv[1], "--small") == 0)
	{
		check_orders(2600);
		return tap::done();
	}
	check_orders(6000);
	Rows		clustered = clustered_rows(5000, 24, 20, 0.3f, 13);
	Rows		others = clustered_rows(3000, 24, 20, 0.3f, 13);
	Rows		repeated = repeated_rows(4001, 17, 300);
	Rows		few = repeated_rows(65, 24, 40);

	check_nearest("one set", clustered, INFINITY);
	check_nearest("one set within eps", clustered, 1.4);
	check_nearest("two sets", Sides(clustered, others), INFINITY);
	check_nearest("few and many rows", Sides(few, clustered), INFINITY);
	check_nearest("equal rows", repeated, INFINITY);
	check_nearest_failures(false);
	check_nearest_failures(true);

	for (uint32_t n : {0, 1, 2, 127, 1000, 3001})
	{
		Rows		rows = clustered_rows(n, 33, 10, 0.3f, n + 1);

		check_sides("one set", rows);
	}
	for (const auto &size : {std::pair<uint32_t, uint32_t>(1, 3000), {3000, 1}, {1500, 2100}, {0, 5}})
	{
		Rows		a = normal_rows(size.first, 40, 11);
		Rows		b = normal_rows(size.second, 40, 12);

		check_sides("two sets", Sides(a, b));
	}
	check_ways_in();
	check_failures(false);
	check_failures(true);
	check_shares();
	return tap::done();
}
