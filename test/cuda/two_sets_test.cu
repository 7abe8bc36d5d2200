/*-------------------------------------------------------------------------
 *
 * two_sets_test.cu
 *	  Joins of two sets, and slices of joins, compared bit for bit with a slow oracle.
 *
 *	two_sets_test			all tests
 *	two_sets_test --small	a subset for compute-sanitizer
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"

namespace
{

Rows
scaled(Rows rows, float factor, float offset = 0)
{
	for (float &v : rows.values)
		v = v * factor + offset;
	return rows;
}

/* Tests two sets with every mode and several eps, some of them exact distances. */
void
check_sides(const char *what, const Rows &a, const Rows &b, double share = 0.01)
{
	Sides		sides(a, b);
	std::vector<double> distances = all_distances(a, b);
	std::string why;

	for (const Mode &mode : modes)
	{
		for (double eps : interesting_eps(distances, share))
		{
			Outcome		outcome = run_join(sides, problem_of(eps, mode));

			if (!same_as_oracle(sides, distances, eps, outcome, &why)
				|| !counts_alike(sides, problem_of(eps, mode), outcome, &why))
			{
				tap::ok(false, "%s, %u x %u, d = %u, %s, eps = %.17g: %s", what, a.n, b.n, a.d,
						mode.name, eps, why.c_str());
				return;
			}
		}
	}
	tap::ok(true, "%s, %u x %u, d = %u", what, a.n, b.n, a.d);
}

void
test_shapes(bool small)
{
	const uint32_t sizes[][2] = {{0, 10}, {10, 0}, {0, 0}, {1, 1}, {1, 5000}, {5000, 1},
		{37, 4001}, {4001, 37}, {128, 129}, {1000, 1000}, {3001, 700}};

	for (const auto &size : sizes)
	{
		for (uint32_t d : {1, 17, 100, 960})
		{
			if (small && (size[0] != 128 || d != 100))
				continue;
			check_sides("normal", normal_rows(size[0], d, size[0] + d),
						normal_rows(size[1], d, size[1] * 7 + d + 1));
		}
	}
}

void
test_kinds()
{
	const uint32_t d = 100;
	Rows		a = normal_rows(900, d, 1);
	Rows		b = normal_rows(1100, d, 2);
	Rows		copies = normal_rows(700, d, 3);
	Rows		outlier = b;
	Rows		bytes(800, d);
	Normal		normal(4);

	check_sides("a set with itself", a, a);
	for (uint32_t i = 0; i < copies.n; i++)
		memcpy(copies.row(i), a.row(i % 41), d * sizeof(float));
	check_sides("copies of rows of the other side", a, copies);
	check_sides("copies on both sides", copies, copies);
	check_sides("1e30 and 1e-30", scaled(a, 1e30f), scaled(b, 1e-30f));
	check_sides("1e-30 and 1e30", scaled(a, 1e-30f), scaled(b, 1e30f));
	check_sides("3e38 and subnormal", scaled(a, 6e37f), scaled(b, 1e-42f));
	check_sides("side b a thousand times as large", a, scaled(b, 1000.0f));
	check_sides("far apart", scaled(a, 1.0f, 1e4f), scaled(b, 1.0f, -1e4f));
	check_sides("zeros", Rows(500, d), b);
	check_sides("zeros on both sides", Rows(500, d), Rows(300, d));

	outlier.row(500)[3] = 1e30f;
	outlier.row(501)[3] = -1e35f;
	outlier.row(502)[4] = 1e5f;
	check_sides("a few outliers on one side", a, outlier);
	check_sides("a few outliers on the other side", outlier, a);
	for (float &v : bytes.values)
		v = normal.bits() % 256;
	check_sides("bytes and fractions", bytes, scaled(a, 40.0f, 128.0f));
	check_sides("bytes", bytes, scaled(bytes, 1.0f, -1.0f));
}

/* Limits device memory, so that panels of either side are needed. */
void
test_panels(uint32_t na, uint32_t nb, uint32_t d, float factor)
{
	Rows		a = normal_rows(na, d, 31);
	Rows		b = normal_rows(nb, d, 32);

	for (uint32_t i = nb / 2; i < nb; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			b.row(i)[k] *= factor;
	}

	Sides		sides(a, b);
	std::vector<double> distances = all_distances(a, b);

	tuning.staging_rows = 100;
	for (const Mode &mode : modes)
	{
		uint32_t	panels = 0;
		bool		good = true;
		std::string why;

		for (double eps : interesting_eps(distances, 0.01))
		{
			PanelProblem problem = problem_of(eps, mode);

			problem.options.device_memory_limit = little_memory(mode, std::min(na, nb), d);

			Outcome		outcome = run_join(sides, problem);

			good &= same_as_oracle(sides, distances, eps, outcome, &why)
				&& counts_alike(sides, problem, outcome, &why) && outcome.was_full
				&& outcome.read_back_right
				&& outcome.stats.device_bytes <= problem.options.device_memory_limit;
			panels = outcome.stats.panels;
		}
		tap::ok(good && panels >= 2, "%u panels, %u x %u, d = %u, %s, half of b %g times as large %s",
				panels, na, nb, d, mode.name, factor, why.c_str());
	}
	tuning.staging_rows = 0;
}

/* Slices together have all pairs, and no pair twice. */
void
check_slices(const char *what, const Sides &sides, const std::vector<double> &distances,
			 double eps, bool panels)
{
	for (const Mode &mode : modes)
	{
		bool		good = true;
		std::string why;
		std::string sizes;

		for (uint32_t slices : {1, 2, 3, 7})
		{
			Outcome		all;

			for (uint32_t slice = 0; slice < slices; slice++)
			{
				PanelProblem problem = problem_of(eps, mode);

				problem.problem.slice = slice;
				problem.problem.slices = slices;
				if (panels)
					problem.options.device_memory_limit = little_memory(mode, sides.a->n, sides.a->d);

				Outcome		outcome = run_join(sides, problem);

				good &= outcome.status == FASTED_OK && counts_alike(sides, problem, outcome, &why)
					&& (outcome.stats.panels > 1) == panels;
				why += outcome.error;
				all.pairs.insert(all.pairs.end(), outcome.pairs.begin(), outcome.pairs.end());
				if (slices == 3)
					sizes += " " + std::to_string(outcome.pairs.size());
			}
			/* pairs of several slices would be duplicates */
			good &= same_as_oracle(sides, distances, eps, all, &why);
		}
		tap::ok(good, "slices of %s, %s: three of%s pairs %s", what, mode.name, sizes.c_str(),
				why.c_str());
	}
}

void
test_slices()
{
	Rows		a = normal_rows(5000, 64, 61);
	Rows		b = normal_rows(1777, 64, 62);
	std::vector<double> cross = all_distances(a, b);
	std::vector<double> within = all_distances(b);

	check_slices("two sets", {a, b}, cross, interesting_eps(cross, 0.02)[1], false);
	check_slices("one", b, within, interesting_eps(within, 0.02)[1], false);
	tuning.always_choose = true;
	check_slices("two sets, filter chosen", {a, b}, cross, interesting_eps(cross, 0.02)[1],
				 false);
	tuning.always_choose = false;
	tuning.candidates = fasted::kMostAtOnce;
	check_slices("two sets, tiny buffers", {a, b}, cross, interesting_eps(cross, 0.02)[1], false);
	tuning.candidates = 0;
	tuning.staging_rows = 100;
	check_slices("one set, panels", b, within, interesting_eps(within, 0.02)[1], true);
	tuning.staging_rows = 0;
}

/* A sample chooses INT8 or FP16, and the pairs are right. */
void
test_choice()
{
	tuning.always_choose = true;
	check_sides("filter chosen", normal_rows(1500, 64, 71), normal_rows(2500, 64, 72));
	check_sides("filter chosen", normal_rows(1, 64, 73), normal_rows(2500, 64, 74));
	check_sides("filter chosen, different magnitudes", normal_rows(1500, 300, 75),
				scaled(normal_rows(700, 300, 76), 1e6f));
	tuning.always_choose = false;
}

/* The smallest candidate buffer: work is discarded and redone often. */
void
test_redo(uint32_t na, uint32_t nb)
{
	Rows		a = normal_rows(na, 64, 21);
	Rows		b = normal_rows(nb, 64, 22);

	tuning.candidates = fasted::kMostAtOnce;
	check_sides("tiny buffers", a, b, 0.1);
	tuning.candidates = 0;
}

}								/* namespace */

int
main(int argc, char **argv)
{
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	if (argc > 1 && std::string(argv[1]) == "--small")
	{
		few_eps = true;
		test_shapes(true);
		test_redo(130, 90);
	}
	else
	{
		test_shapes(false);
		test_kinds();
		test_redo(2500, 1200);
		test_panels(1500, 3000, 100, 1);
		test_panels(3000, 1500, 100, 1);
		test_panels(1400, 2000, 33, 1e6f);
		test_slices();
		test_choice();
	}
	return tap::done();
}
