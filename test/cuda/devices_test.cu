/*-------------------------------------------------------------------------
 *
 * devices_test.cu
 *	  Several GPUs in one join, against a slow oracle, bit for bit.
 *
 *	devices_test
 *
 * On a machine with one GPU that one plays two.  A device can be told to fail at some
 * call: what it had not finished, the other one does.
 *
 *-------------------------------------------------------------------------
 */
#include "engine/device_group.h"

#include "cases.h"

namespace
{

FastedEngine base;
const FastedContext *doomed;	/* it fails */
int			calls_left;			/* of next, until then */
int			opened;
bool		one_device;
int			copies;				/* of rows from device to device */

int
two_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = fasted_engine()->devices(devices, names, most);

	one_device = count == 1;
	if (one_device)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

/* The second device of a group is the one that may fail. */
FastedStatus
note_open(const FastedOptions *options, FastedContext **context)
{
	FastedStatus status = fasted_engine()->open(options, context);

	if (++opened == 2)
		doomed = *context;
	return status;
}

/* A join's context, by its first member (engine.cu). */
const FastedContext *
context_of(const FastedJoin *join)
{
	return *(const FastedContext *const *) join;
}

FastedStatus
failing_next(FastedJoin *join, int timeout_ms, FastedBatch *batch)
{
	if (calls_left > 0 && context_of(join) == doomed && --calls_left == 0)
		return FASTED_DEVICE_FAILED;
	return fasted_engine()->next(join, timeout_ms, batch);
}

FastedStatus
counted_copy(FastedSet *set, const FastedSet *from, uint64_t first, size_t nrows)
{
	copies++;
	return fasted_engine()->copy_rows(set, from, first, nrows);
}

bool
pair_less(const FastedPair &p, const FastedPair &q)
{
	return p.a != q.a ? p.a < q.a : p.b < q.b;
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

/* Rows that are lent, which every device has, and panels, whose rows they divide. */
void
check_ways_in()
{
	Rows		rows = clustered_rows(6000, 100, 20, 0.3f, 5);
	std::vector<double> distances = all_distances(rows, rows);
	double		eps = interesting_eps(distances, 0.002)[1];

	for (const Mode &mode : modes)
	{
		for (bool lend : {false, true})
		{
			for (bool panels : {false, true})
			{
				PanelProblem problem = problem_of(eps, mode);
				std::string why;

				tuning.always_lend = lend;
				if (panels)
					problem.options.device_memory_limit = little_memory(mode, rows.n, rows.d);
				Outcome		outcome = run_group(rows, problem);
				bool		right = same_as_oracle(rows, distances, eps, outcome, &why);

				tap::ok(right && outcome.was_full == panels && outcome.lent == lend,
						"%s, %s, %u panels, %d devices lost: %s", mode.name,
						lend ? "lent" : "staged", outcome.stats.panels,
						outcome.stats.lost_devices, why.c_str());
			}
		}
	}
	tuning.always_lend = false;
}

/* The second device fails at one look after the other; in panels, its rows go with it. */
void
check_failures(bool panels)
{
	Rows		rows = clustered_rows(20000, 64, 50, 0.3f, 6);
	PanelProblem problem = problem_of(3.2, modes[5]);

	if (panels)
		problem.options.device_memory_limit = little_memory(modes[5], rows.n, rows.d)
			+ 6 * fasted::Form::bytes(rows.d);
	copies = 0;
	Outcome		whole = run_group(rows, problem);
	bool		divided = copies > 0;

	bool		right = true;
	int			lost = 0;

	std::sort(whole.pairs.begin(), whole.pairs.end(), pair_less);
	for (int call = 1; call <= 40 && right; call += call < 10 ? 1 : 5)
	{
		for (FastedOutput output : {FASTED_OUTPUT_PAIRS, FASTED_OUTPUT_COUNTS})
		{
			problem.problem.output = output;
			Outcome		outcome = run_group(rows, problem, call);

			std::sort(outcome.pairs.begin(), outcome.pairs.end(), pair_less);
			lost += outcome.stats.lost_devices;
			right = right && outcome.status == FASTED_OK && outcome.stats.pairs == whole.pairs.size()
				&& (output == FASTED_OUTPUT_COUNTS ? same_counts(rows, outcome, whole)
					: pairs_alike(outcome.pairs, whole.pairs));
		}
	}
	tap::ok(right && divided == panels && lost > 10 && whole.pairs.size() > 10000,
			"a device fails, %u panels: no pair is lost or doubled (%d times, %zu pairs)",
			whole.stats.panels, lost, whole.pairs.size());
}

void
check_shares()
{
	Rows		rows = clustered_rows(60000, 256, 50, 0.3f, 7);
	PanelProblem problem = problem_of(4.0, modes[5]);

	problem.problem.output = FASTED_OUTPUT_COUNT;
	Outcome		outcome = run_group(rows, problem);

	tap::ok(outcome.status == FASTED_OK && outcome.stats.lost_devices == 0
			&& strstr(outcome.stats.device, "%") != nullptr, "%s: %s",
			one_device ? "one GPU as two" : "several GPUs", outcome.stats.device);
}

}								/* namespace */

int
main()
{
	base = *fasted_engine();
	base.devices = two_devices;
	base.open = note_open;
	base.next = failing_next;
	base.copy_rows = counted_copy;
	tested_engine = fasted_device_group(&base);

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
