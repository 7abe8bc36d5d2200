/*-------------------------------------------------------------------------
 *
 * partitions_test.cu
 *	  Joins within partitions, compared bit for bit with a slow oracle.
 *
 *	partitions_test				all tests
 *	partitions_test --small		a subset for compute-sanitizer
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"

namespace
{

/* Rows of a partition on both sides, and rows without a partition after it. */
struct Size
{
	uint32_t	a;
	uint32_t	b;
	uint32_t	gap_a = 0;
	uint32_t	gap_b = 0;
};

struct Layout
{
	std::vector<FastedPartition> partitions;
	uint32_t	rows[2] = {0, 0};

	explicit Layout(const std::vector<Size> &sizes)
	{
		for (const Size &size : sizes)
		{
			partitions.push_back({rows[0], size.a, rows[1], size.b});
			rows[0] += size.a + size.gap_a;
			rows[1] += size.b + size.gap_b;
		}
	}
};

/* Partition sizes of a self-join. */
std::vector<Size>
alike(const std::vector<uint32_t> &sizes, uint32_t gap = 0)
{
	std::vector<Size> all;

	for (uint32_t size : sizes)
		all.push_back({size, size, gap, gap});
	return all;
}

/* Distances of rows in different partitions are NaN. */
std::vector<double>
group_distances(const Sides &sides, const Layout &layout)
{
	std::vector<double> all = sides.b == nullptr ? all_distances(*sides.a)
		: all_distances(*sides.a, *sides.b);
	size_t		columns = sides.last().n;
	std::vector<bool> meets(all.size());

	for (const FastedPartition &g : layout.partitions)
	{
		for (size_t i = g.first_a; i < g.first_a + g.rows_a; i++)
		{
			for (size_t j = g.first_b; j < g.first_b + g.rows_b; j++)
				meets[i * columns + j] = true;
		}
	}
	for (size_t i = 0; i < all.size(); i++)
	{
		if (!meets[i])
			all[i] = NAN;
	}
	return all;
}

PanelProblem
grouped(double eps, const Mode &mode, const Layout &layout)
{
	PanelProblem problem = problem_of(eps, mode);

	problem.problem.partitions = layout.partitions.data();
	problem.problem.npartitions = (uint32_t) layout.partitions.size();
	return problem;
}

/*
 * Tests every mode with exact eps; limit_rows, unless zero, limits memory to this number of rows.
 */
void
check_groups(const char *what, const Sides &sides, const Layout &layout, double share = 0.02,
			 uint32_t limit_rows = 0)
{
	std::vector<double> distances = group_distances(sides, layout);

	for (const Mode &mode : modes)
	{
		uint32_t	panels = 0;
		size_t		most = 0;
		bool		good = true;
		std::string why;

		for (double eps : interesting_eps(distances, share))
		{
			PanelProblem problem = grouped(eps, mode, layout);

			if (limit_rows > 0)
				problem.options.device_memory_limit = little_memory(mode, limit_rows, sides.a->d);

			Outcome		outcome = run_join(sides, problem);

			good = good && same_as_oracle(sides, distances, eps, outcome, &why)
				&& counts_alike(sides, problem, outcome, &why)
				&& outcome.was_full == (limit_rows > 0)
				&& (limit_rows == 0
					|| outcome.stats.device_bytes <= problem.options.device_memory_limit);
			panels = outcome.stats.panels;
			most = std::max(most, outcome.pairs.size());
		}
		tap::ok(good && (limit_rows == 0 || panels >= 2), "%s, %u x %u, d = %u, %s: at most %zu pairs, %u panels %s",
				what, sides.a->n, sides.last().n, sides.a->d, mode.name, most, panels, why.c_str());
	}
}

void
check_self(const char *what, const std::vector<Size> &sizes, uint32_t d)
{
	Layout		layout(sizes);
	Rows		rows = normal_rows(layout.rows[0], d, layout.rows[0] + d);

	check_groups(what, rows, layout);
}

void
check_two(const char *what, const std::vector<Size> &sizes, uint32_t d)
{
	Layout		layout(sizes);
	Rows		a = normal_rows(layout.rows[0], d, layout.rows[0] + d);
	Rows		b = normal_rows(layout.rows[1], d, layout.rows[1] + 7 * d);

	check_groups(what, {a, b}, layout);
}

const std::vector<uint32_t> odd_sizes = {3, 0, 1, 2, 127, 128, 129, 0, 255, 257, 1, 1000, 5};

void
test_sizes()
{
	std::vector<Size> apart;
	std::vector<uint32_t> tiny(700, 3);

	check_self("one set", alike(odd_sizes), 37);
	check_self("one set, gaps between partitions", alike(odd_sizes, 70), 64);
	check_self("one partition", alike({1500}), 20);
	check_self("no partition of two rows", alike({1, 0, 1, 1}, 99), 20);
	tiny.insert(tiny.begin() + 300, 1700);
	check_self("one large and many small", alike(tiny), 24);
	check_two("two sets, equal sizes", alike(odd_sizes), 100);
	for (size_t i = 0; i < odd_sizes.size(); i++)
		apart.push_back({odd_sizes[i], odd_sizes[odd_sizes.size() - 1 - i], (uint32_t) i * 9,
			(uint32_t) (i * 31 % 40)});
	check_two("two sets, different sizes", apart, 48);
	check_two("some on one side only", {{500, 0}, {0, 300}, {40, 50}, {300, 0}, {0, 900}}, 30);
	check_two("no common partition", {{500, 0}, {0, 700}}, 30);
	check_two("large on one side", {{1, 2000}, {1, 3}, {2, 100, 900}}, 960);
}

/* The same rows in every partition: pairs of different partitions must not be returned. */
void
test_copies()
{
	Layout		layout(alike({130, 400, 1, 260, 33, 700}, 3));
	Rows		some = normal_rows(41, 50, 5);
	Rows		rows(layout.rows[0], 50);

	for (uint32_t i = 0; i < rows.n; i++)
		memcpy(rows.row(i), some.row(i % 41), 50 * sizeof(float));
	check_groups("copies in all partitions", rows, layout);
	check_groups("two sets, copies in all partitions", {rows, rows}, layout);
	tuning.candidates = fasted::kMostAtOnce;
	check_groups("copies, tiny buffers", rows, layout);
	tuning.candidates = 0;
}

void
test_panels()
{
	Layout		layout(alike({300, 1, 900, 2, 700, 0, 64, 128, 500, 600, 40, 1300}, 11));
	Layout		two({{300, 20}, {10, 1700, 100, 0}, {900, 900}, {700, 10}, {30, 400}, {1200, 200}});
	Rows		rows = normal_rows(layout.rows[0], 64, 31);
	Rows		a = normal_rows(two.rows[0], 64, 32);
	Rows		b = normal_rows(two.rows[1], 64, 33);

	tuning.staging_rows = 100;
	check_groups("panels of one set", rows, layout, 0.02, rows.n);
	check_groups("panels of two sets", {a, b}, two, 0.02, std::min(a.n, b.n));
	tuning.staging_rows = 0;
}

/* Slices together have all pairs, and no pair twice. */
void
test_slices()
{
	Layout		layout(alike({300, 900, 2, 700, 64, 500}, 5));
	Rows		rows = normal_rows(layout.rows[0], 64, 51);
	std::vector<double> distances = group_distances(rows, layout);
	double		eps = interesting_eps(distances, 0.05)[1];

	for (const Mode &mode : modes)
	{
		Outcome		all;
		bool		good = true;
		std::string why;

		/* the second and the third slice together */
		for (uint32_t slice : {0, 1, 3, 4})
		{
			PanelProblem problem = grouped(eps, mode, layout);

			problem.problem.slice = slice;
			problem.problem.more_slices = slice == 1;
			problem.problem.slices = 5;

			Outcome		outcome = run_join(rows, problem);

			good &= outcome.status == FASTED_OK;
			all.pairs.insert(all.pairs.end(), outcome.pairs.begin(), outcome.pairs.end());
		}
		good &= same_as_oracle(rows, distances, eps, all, &why);
		tap::ok(good, "slices, %s: %zu pairs %s", mode.name, all.pairs.size(), why.c_str());
	}
}

/* Joins one set with different partitions, without them, and with descending ones. */
void
test_again()
{
	Rows		rows = normal_rows(1200, 40, 81);
	Layout		layouts[2] = {Layout(alike({500, 3, 697})), Layout(alike({100, 900, 10}, 60))};
	std::vector<double> distances[3] = {group_distances(rows, layouts[0]),
		group_distances(rows, layouts[1]), all_distances(rows)};
	double		eps = interesting_eps(distances[2], 0.02)[1];
	FastedOptions options = {};
	FastedSetOptions set_options = {};
	FastedContext *context = nullptr;
	FastedSet  *set = nullptr;
	float	   *room;
	size_t		capacity;
	bool		good = true;

	tuning.kernel = nullptr;
	options.dimensions = rows.d;
	good &= tested_engine->open(&options, &context) == FASTED_OK
		&& tested_engine->set_open(context, &set_options, &set) == FASTED_OK;
	for (uint32_t there = 0; good && there < rows.n; there += capacity)
	{
		good &= tested_engine->stage(set, &room, &capacity) == FASTED_OK;
		capacity = std::min<size_t>(capacity, rows.n - there);
		memcpy(room, rows.row(there), capacity * rows.d * sizeof(float));
		good &= tested_engine->commit(set, capacity) == FASTED_OK;
	}
	good &= tested_engine->seal(set) == FASTED_OK;
	for (int turn : {0, 2, 1, 0, 0, 2, 3})
	{
		std::vector<FastedPartition> partitions = layouts[turn % 2].partitions;
		FastedProblem problem = {};
		FastedJoin *join = nullptr;
		Outcome		outcome;
		FastedBatch batch;
		std::string why;

		problem.eps = eps;
		if (turn == 3)
			std::swap(partitions[0], partitions[1]);
		if (turn != 2)
		{
			problem.partitions = partitions.data();
			problem.npartitions = (uint32_t) partitions.size();
		}
		outcome.status = tested_engine->join_open(context, &problem, set, set, &join);
		if (turn == 3)
		{
			tap::ok(outcome.status == FASTED_INTERNAL, "descending partitions are rejected");
			break;
		}
		while (outcome.status == FASTED_OK || outcome.status == FASTED_AGAIN)
		{
			outcome.status = tested_engine->next(join, 20, &batch);
			if (outcome.status == FASTED_OK)
				outcome.pairs.insert(outcome.pairs.end(), batch.pairs, batch.pairs + batch.npairs);
		}
		tested_engine->join_close(join);
		good &= same_as_oracle(rows, distances[turn], eps, outcome, &why);
		tap::ok(good, "one set joined again, partitions %d: %zu pairs %s", turn, outcome.pairs.size(),
				why.c_str());
	}
	tested_engine->close(context);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	bool		small = argc > 1 && strcmp(argv[1], "--small") == 0;

	if (small)
	{
		test_again();
		few_eps = true;
		check_self("one set", alike({3, 100, 1, 130, 40}, 9), 33);
		check_two("two sets", {{40, 90, 3, 0}, {0, 30}, {130, 1}, {20, 150}}, 20);
		return tap::done();
	}
	test_again();
	test_sizes();
	test_copies();
	test_slices();
	test_panels();
	return tap::done();
}
