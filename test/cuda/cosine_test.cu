/*-------------------------------------------------------------------------
 *
 * cosine_test.cu
 *	  Joins by cosine distance, of one set and of two, compared bit for bit with a slow oracle.
 *
 *	cosine_test				all tests
 *	cosine_test --small		a subset for compute-sanitizer
 *
 *-------------------------------------------------------------------------
 */
#include <cfloat>

#include "cases.h"

namespace
{

PanelProblem
cosine_problem(double eps, const Mode &mode)
{
	PanelProblem problem = problem_of(eps, mode);

	problem.options.metric = FASTED_METRIC_COSINE;
	return problem;
}

std::vector<double>
cosines(const Sides &sides)
{
	return sides.b == nullptr ? all_distances(*sides.a, slow_cosine)
		: all_distances(*sides.a, *sides.b, slow_cosine);
}

/* Extreme and small values, and exact distances of pairs. */
std::vector<double>
cosine_eps(const std::vector<double> &distances)
{
	std::vector<double> eps = interesting_eps(distances, 0.01);

	if (few_eps)
		return eps;
	for (double more : {DBL_MIN, 1e-12, 1.0, 2.0})
		eps.push_back(more);
	return eps;
}

/* Tests every mode with several eps. */
void
check_sides(const char *what, const Sides &sides)
{
	std::vector<double> distances = cosines(sides);
	std::string why;

	for (const Mode &mode : modes)
	{
		for (double eps : cosine_eps(distances))
		{
			PanelProblem problem = cosine_problem(eps, mode);
			Outcome		outcome = run_join(sides, problem);

			if (!same_as_oracle(sides, distances, eps, outcome, &why)
				|| !counts_alike(sides, problem, outcome, &why))
			{
				tap::ok(false, "%s, %u x %u, d = %u, %s, eps = %.17g: %s", what, sides.a->n,
						sides.last().n, sides.a->d, mode.name, eps, why.c_str());
				return;
			}
		}
	}
	tap::ok(true, "%s, %u x %u, d = %u", what, sides.a->n, sides.last().n, sides.a->d);
}

/* Sets every ninth row to zero. */
Rows
with_zeros(Rows rows)
{
	for (uint32_t i = 4; i < rows.n; i += 9)
		memset(rows.row(i), 0, rows.d * sizeof(float));
	return rows;
}

/* Few directions, many lengths, and opposite directions. */
Rows
scaled_copies(uint32_t n, uint32_t d, uint32_t directions, uint64_t seed)
{
	const float factors[] = {1.0f, 2.0f, 3.0f, -1.0f, 0.1f, 1e30f, -1e-30f, 1e-43f};
	Rows		some = normal_rows(directions, d, seed);
	Rows		rows(n, d);
	Normal		normal(seed + 1);

	for (uint32_t i = 0; i < n; i++)
	{
		const float *from = some.row(normal.bits() % directions);
		float		factor = factors[normal.bits() % 8];

		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] = from[k] * factor;
	}
	return rows;
}

/* One direction, except for the last bits, and many lengths. */
Rows
tight_rows(uint32_t n, uint32_t d)
{
	Rows		first = normal_rows(1, d, 61);
	Rows		rows(n, d);
	Normal		normal(62);

	for (uint32_t i = 0; i < n; i++)
	{
		double		factor = std::exp((double) normal());
		double		spread = std::ldexp(1.0, -20 - (int) (normal.bits() % 6));

		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] = (float) (first.row(0)[k] * factor * (1 + spread * normal()));
	}
	return rows;
}

void
test_shapes(bool small)
{
	const uint32_t all_n[] = {0, 1, 2, 129, 1000, 3001};
	const uint32_t all_d[] = {1, 2, 17, 100, 960, 4099};

	for (uint32_t n : all_n)
	{
		for (uint32_t d : all_d)
		{
			if (small && (n != 129 || d != 100))
				continue;
			if ((n == 3001 && d != 100) || (n == 1000 && d == 4099))
				continue;
			check_sides("normal", with_zeros(normal_rows(n, d, n * 7919 + d)));
		}
	}
}

void
test_kinds()
{
	const uint32_t n = 800;
	const uint32_t d = 100;
	Normal		normal(7);
	Rows		offset = normal_rows(n, d, 1);
	Rows		integers(n, d);
	Rows		axes(n, d);
	Rows		mixed = normal_rows(n, d, 2);
	Rows		strange = normal_rows(n, d, 3);

	check_sides("scaled copies", with_zeros(scaled_copies(n, d, 37, 4)));
	check_sides("one direction", tight_rows(n, d));
	check_sides("one direction, few dimensions", tight_rows(n, 3));
	check_sides("zeros", Rows(n, d));
	for (float &v : offset.values)
		v += 5;
	check_sides("half of the sphere", offset);
	for (float &v : integers.values)
		v = (float) (normal.bits() % 4) - 1;
	check_sides("integers", integers);
	for (uint32_t i = 0; i < n; i++)
	{
		axes.row(i)[normal.bits() % d] = 1;
		axes.row(i)[normal.bits() % d] = -4;
	}
	check_sides("axes", axes);
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			mixed.row(i)[k] *= i % 3 == 0 ? 3e37f : i % 3 == 1 ? 1e-42f : 1.0f;
		if (i % 10 == 9)
			mixed.row(i)[5] = 3e38f;
	}
	check_sides("all magnitudes", with_zeros(mixed));
	for (uint32_t i = 0; i < n; i += 11)
		strange.row(i)[i % d] = i % 2 == 0 ? INFINITY : NAN;
	check_sides("not finite", strange);
}

void
test_two_sets()
{
	for (uint32_t d : {1, 17, 960})
	{
		Rows		a = with_zeros(scaled_copies(700, d, 90, 11));
		Rows		b = with_zeros(scaled_copies(900, d, 90, 11));

		check_sides("two sets", Sides(a, b));
	}
	check_sides("one row and many", Sides(normal_rows(1, 100, 12), normal_rows(4001, 100, 13)));
	check_sides("zeros and others", Sides(Rows(50, 100), normal_rows(500, 100, 14)));
}

/* Limits device memory, so that panels are needed. */
void
test_panels(uint32_t n, uint32_t d)
{
	Rows		rows = with_zeros(scaled_copies(n, d, 300, 21));
	std::vector<double> distances = cosines(rows);

	for (const Mode &mode : modes)
	{
		uint32_t	panels = 0;
		bool		good = true;
		std::string why;

		for (double eps : interesting_eps(distances, 0.01))
		{
			PanelProblem problem = cosine_problem(eps, mode);
			size_t		memory = little_memory(mode, n, d) + n * sizeof(double) / 3;

			tuning.staging_rows = 100;
			problem.options.device_memory_limit = memory + memory / 60;

			Outcome		outcome = run_join(rows, problem);

			good &= same_as_oracle(rows, distances, eps, outcome, &why)
				&& counts_alike(rows, problem, outcome, &why) && outcome.was_full
				&& outcome.read_back_right
				&& outcome.stats.device_bytes <= problem.options.device_memory_limit;
			panels = outcome.stats.panels;
		}
		tuning.staging_rows = 0;
		tap::ok(good && panels >= 2, "%u panels, n = %u, d = %u, %s %s", panels, n, d, mode.name,
				why.c_str());
	}
}

/* The filter is chosen by a sample, whose directions are computed in pieces. */
void
test_choice()
{
	Rows		rows = normal_rows(3001, 64, 31);
	Rows		wide = clustered_rows(300, 65536, 20, 0.2f, 32);
	std::vector<double> distances = cosines(rows);
	std::string why;

	tuning.always_choose = true;
	for (double eps : interesting_eps(distances, 0.001))
	{
		Outcome		outcome = run_join(rows, cosine_problem(eps, modes[5]));
		bool		same = same_as_oracle(rows, distances, eps, outcome, &why);

		tap::ok(same && outcome.stats.filter_sampled, "%s, sample: %llu candidates, %llu pairs %s",
				outcome.stats.filter, (unsigned long long) outcome.stats.sampled_candidates,
				(unsigned long long) outcome.stats.sampled_pairs, why.c_str());
	}
	tuning.always_choose = false;

	distances = cosines(wide);
	for (const Mode &mode : modes)
	{
		if (mode.filter == FASTED_FILTER_INT8)
			continue;

		Outcome		outcome = run_join(wide, cosine_problem(0.05, mode));

		tap::ok(same_as_oracle(wide, distances, 0.05, outcome, &why)
				&& outcome.pairs.size() > wide.n, "%s, d = 65536: %zu pairs %s", mode.name,
				outcome.pairs.size(), why.c_str());
	}
}

/* Joins the same rows again with other eps. */
void
test_again()
{
	Rows		rows = with_zeros(scaled_copies(1500, 45, 200, 41));
	std::vector<double> distances = cosines(rows);

	for (const Mode &mode : modes)
	{
		PanelProblem problem = cosine_problem(0.1, mode);
		PanelJoin  *join = nullptr;
		Outcome		filled;
		bool		good;
		std::string why;

		problem.options.dimensions = rows.d;
		problem.sides = 1;
		good = panel_join_open(fasted_engine(), &problem, &join) == FASTED_OK
			&& fill_and_start(join, rows, &filled) == FASTED_OK;
		for (double eps : {0.1, 0.1, 1e-7, 1.5, 0.0})
		{
			Outcome		outcome;
			FastedBatch batch;
			FastedStatus status;

			problem.problem.eps = eps;
			good = good && panel_join_again(join, &problem.problem) == FASTED_OK;
			if (!good)
				break;
			while ((status = panel_join_next(join, 20, &batch)) != FASTED_DONE
				   && !FASTED_FAILED(status))
				outcome.pairs.insert(outcome.pairs.end(), batch.pairs, batch.pairs + batch.npairs);
			good = status == FASTED_DONE && same_as_oracle(rows, distances, eps, outcome, &why);
		}
		tap::ok(good, "five joins of the same rows, %s %s", mode.name, why.c_str());
		panel_join_close(join);
	}
}

/* Unsupported options. */
void
test_refusals()
{
	Rows		rows = normal_rows(10, 5, 51);
	PanelProblem problem = cosine_problem(1, modes[0]);
	Outcome		outcome;

	problem.options.metric = (FastedMetric) 7;
	outcome = run_join(rows, problem);
	tap::ok(outcome.status == FASTED_UNSUPPORTED, "unknown metric: %s", outcome.error.c_str());
}

}								/* namespace */

int
main(int argc, char **argv)
{
	bool		small = argc > 1 && std::string(argv[1]) == "--small";
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	few_eps = small;
	test_shapes(small);
	if (small)
		return tap::done();
	test_kinds();
	test_two_sets();
	test_panels(1500, 100);
	test_choice();
	test_again();
	test_refusals();
	return tap::done();
}
