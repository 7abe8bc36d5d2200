/*-------------------------------------------------------------------------
 *
 * engine_test.cu
 *	  The CUDA engine, compared bit for bit with a slow oracle.
 *
 *	engine_test				all tests
 *	engine_test --kernel K	all tests, for the modes of this kernel (cases.h)
 *	engine_test --dense		joins in which all pairs are within eps
 *	engine_test --small		a subset for compute-sanitizer
 *	engine_test --lost		for mutants: succeeds if pairs are lost
 *	engine_test --lost-fp64	the same for the FP64 filter only
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"

namespace
{

const char *only_kernel = nullptr;	/* null: all modes */

bool
left_out(const Mode &mode)
{
	return only_kernel != nullptr
		&& (mode.kernel == nullptr || strcmp(mode.kernel, only_kernel) != 0);
}

/* Tests one set of rows with every mode and several eps. */
bool
check_rows(const char *what, const Rows &rows, double share = 0.01)
{
	std::vector<double> distances = all_distances(rows);
	std::string why;

	for (const Mode &mode : modes)
	{
		if (left_out(mode))
			continue;
		for (double eps : interesting_eps(distances, share))
		{
			Outcome		outcome = run_join(rows, problem_of(eps, mode));

			if (!same_as_oracle(rows, distances, eps, outcome, &why)
				|| !counts_alike(rows, problem_of(eps, mode), outcome, &why))
				return tap::ok(false, "%s, n = %u, d = %u, %s, eps = %.17g: %s", what,
							   rows.n, rows.d, mode.name, eps, why.c_str());
		}
	}
	return tap::ok(true, "%s, n = %u, d = %u", what, rows.n, rows.d);
}

void
test_shapes(bool small)
{
	const uint32_t all_n[] = {0, 1, 2, 127, 128, 129, 1000, 3001};
	const uint32_t all_d[] = {1, 2, 15, 16, 17, 64, 65, 100, 128, 960, 1000, 4096};

	for (uint32_t n : all_n)
	{
		for (uint32_t d : all_d)
		{
			if (small && (n != 129 || d != 960))
				continue;
			if (n == 3001 && d != 17 && d != 100 && d != 1000)
				continue;
			check_rows("normal", normal_rows(n, d, n * 7919 + d), 0.003);
		}
	}
}

void
test_kinds()
{
	const uint32_t n = 1000;
	const uint32_t d = 100;
	Normal		normal(99);
	auto		scaled = [&](float factor, float offset)
	{
		Rows		rows = normal_rows(n, d, 5);

		for (float &v : rows.values)
			v = v * factor + offset;
		return rows;
	};

	check_rows("clustered", clustered_rows(n, d, 20, 0.01f, 3));

	Rows		copies = normal_rows(n, d, 4);

	for (uint32_t i = 0; i < n; i++)
		memcpy(copies.row(i), copies.row(i % 37), d * sizeof(float));
	check_rows("copies", copies);

	Rows		near = copies;

	for (float &v : near.values)
		v = normal.bits() % 50 == 0 ? std::nextafterf(v, 10.0f) : v;
	check_rows("copies that differ in one bit", near);

	Rows		same(n, d);

	for (float &v : same.values)
		v = 3.14f;
	check_rows("all equal", same);
	check_rows("zeros", Rows(n, d));
	check_rows("around 1e4", scaled(1.0f, 1e4f));
	check_rows("around 1e6, small differences", scaled(0.5f, 1e6f));
	check_rows("1e6", scaled(1e6f, 0));
	check_rows("1e30", scaled(1e30f, 0));
	check_rows("3e38", scaled(6e37f, 0));
	check_rows("1e-30", scaled(1e-30f, 0));
	check_rows("subnormal", scaled(1e-42f, 0));

	/* no centre is close, and differences are in the last bits of the coordinates */
	Rows		far = scaled(0.5f, 0);

	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			far.row(i)[k] += i % 2 ? 1e6f : -1e6f;
	}
	check_rows("around 1e6 and -1e6, small differences", far);
	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			far.row(i)[k] = normal.bits() % 50 == 0 ? std::nextafterf(far.row(i % 38)[k], 0.0f)
				: far.row(i % 38)[k];
	}
	check_rows("copies that differ in one bit, around 1e6 and -1e6", far);

	Rows		integers(n, d);

	for (float &v : integers.values)
		v = normal.bits() % 256;
	check_rows("integers", integers);

	Rows		binary(n, d);

	for (float &v : binary.values)
		v = normal.bits() % 2;
	check_rows("zeros and ones", binary);

	Rows		mixed = normal_rows(n, d, 6);

	for (uint32_t i = 0; i < n; i++)
	{
		float		factor = std::pow(10.0, normal.uniform() * 40 - 20);

		for (uint32_t k = 0; k < d; k++)
			mixed.row(i)[k] *= factor;
	}
	check_rows("rows of all magnitudes", mixed);

	Rows		columns = normal_rows(n, d, 7);

	for (uint32_t i = 0; i < n; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			columns.row(i)[k] *= std::ldexp(1.0f, -(int) (k % 40));
	}
	check_rows("columns of all magnitudes", columns);

	Rows		outlier = normal_rows(n, d, 8);

	outlier.row(500)[3] = 1e30f;
	outlier.row(501)[3] = -1e35f;
	outlier.row(502)[4] = 1e5f;
	check_rows("a few outliers", outlier);
}

/*
 * Pairs exactly on the bound.  FP16 represents the coordinates exactly, and the centre is zero, so
 * that rho is zero.  Norms are a thousand times the distance, and eps is exactly the distance.
 */
Rows
border_rows(uint32_t n, uint32_t d)
{
	Rows		rows(n, d);
	Normal		normal(11);

	for (uint32_t i = 0; i + 3 < n; i += 4)
	{
		for (uint32_t k = 0; k < d; k++)
		{
			float		v = (float) (normal.bits() % 2000) - 1000;

			rows.row(i)[k] = v;
			rows.row(i + 1)[k] = v + (k < 16 ? 1 : 0);
			rows.row(i + 2)[k] = -rows.row(i)[k];
			rows.row(i + 3)[k] = -rows.row(i + 1)[k];
		}
	}
	return rows;
}

void
test_border(bool lost)
{
	Rows		border = border_rows(1000, 4096);
	Rows		plain = normal_rows(1000, 128, 77);
	bool		all = true;

	for (const Rows *rows : {&border, &plain})
	{
		std::vector<double> distances = all_distances(*rows);
		double		eps = rows == &border ? 4.0 : interesting_eps(distances, 0.05)[1];

		for (const Mode &mode : modes)
		{
			if (left_out(mode))
				continue;

			std::string why;

			if (lost && mode.filter == FASTED_FILTER_FP64)
				continue;

			Outcome		outcome = run_join(*rows, problem_of(eps, mode));
			bool		same = same_as_oracle(*rows, distances, eps, outcome, &why);

			all &= same;
			if (!lost)
				tap::ok(same, "pairs on the bound, d = %u, %s: %s (%llu candidates)",
						rows->d, outcome.stats.kernel, same ? "all found" : why.c_str(),
						(unsigned long long) outcome.stats.candidates);
			else
				tap::note("d = %u, %s: %s", rows->d, mode.name,
						  same ? "all found" : why.c_str());
		}
	}
	if (lost)
		tap::ok(!all, "pairs are lost without a term of the bound");
}

/*
 * Vectors of length 1 and their opposites about a centre with lower bits than theirs, so that
 * FP32 rounds every difference.
 */
Rows
rows_about_centre(uint32_t n, uint32_t d)
{
	Rows		rows(n, d);
	Normal		normal(91);
	std::vector<double> centre(d);

	for (double &c : centre)
		c = 0.003 * normal();
	for (uint32_t i = 0; i + 1 < n; i += 2)
	{
		std::vector<double> v(d);
		double		norm2 = 0;

		for (double &x : v)
		{
			x = normal();
			norm2 += x * x;
		}
		for (uint32_t k = 0; k < d; k++)
		{
			rows.row(i)[k] = centre[k] + v[k] / sqrt(norm2);
			rows.row(i + 1)[k] = centre[k] - v[k] / sqrt(norm2);
		}
	}
	return rows;
}

/*
 * Rounding rows to FP32 is most of the FP64 filter's error bound.  The rounding of thresholds hides
 * it, except for thresholds near zero, which rows at right angles have.  Each eps is exactly the
 * distance of such a pair.
 */
void
test_right_angles(bool lost)
{
	Rows		rows = rows_about_centre(400, 100);
	Mode		mode = {"fp64", FASTED_FILTER_FP64, nullptr};
	std::vector<double> distances = all_distances(rows);
	std::vector<double> nearest = distances;
	uint32_t	wrong = 0;
	uint32_t	joins = 40;
	std::string why;

	std::partial_sort(nearest.begin(), nearest.begin() + joins, nearest.end(),
					  [](double x, double y) { return fabs(x - sqrt(2.0)) < fabs(y - sqrt(2.0)); });
	for (uint32_t i = 0; i < joins; i++)
	{
		Outcome		outcome = run_join(rows, problem_of(nearest[i], mode));

		wrong += !same_as_oracle(rows, distances, nearest[i], outcome, &why);
	}
	tap::ok(lost ? wrong > 0 : wrong == 0, "pairs at a right angle on the bound, fp64: "
			"%u of %u joins are wrong %s", wrong, joins, why.c_str());
}

/* The smallest candidate buffer: work is discarded and redone often. */
void
test_redo(uint32_t n)
{
	Rows		rows = normal_rows(n, 64, 21);
	std::vector<double> distances = all_distances(rows);

	for (const Mode &mode : modes)
	{
		if (left_out(mode))
			continue;
		for (double eps : interesting_eps(distances, 0.01))
		{
			std::string why;

			tuning.candidates = fasted::kMostAtOnce;

			Outcome		outcome = run_join(rows, problem_of(eps, mode));
			bool		same = same_as_oracle(rows, distances, eps, outcome, &why)
				&& counts_alike(rows, problem_of(eps, mode), outcome, &why);

			tuning.candidates = 0;
			tap::ok(same && (outcome.stats.redone_units > 0 || outcome.pairs.size() < 5000),
					"tiny buffers, %s, eps = %g: %zu pairs, %llu units redone %s",
					mode.name, eps, outcome.pairs.size(),
					(unsigned long long) outcome.stats.redone_units, why.c_str());
		}
	}
}

/* Bytes around a mean, with a few extreme ones: up to -128 after subtraction. */
Rows
rows_of_bytes(uint32_t n, uint32_t d, double spread, uint64_t seed)
{
	Rows		rows = normal_rows(n, d, seed);

	for (size_t i = 0; i < rows.values.size(); i++)
	{
		float		x = std::rint(127.5f + (float) spread * rows.values[i]);

		rows.values[i] = i % 97 == 0 ? 0 : i % 89 == 0 ? 255 : std::min(std::max(x, 0.0f), 255.0f);
	}
	return rows;
}

/* Rows of which one in a hundred is 20 times as long. */
Rows
rows_with_long_ones(uint32_t n, uint32_t d, uint32_t seed)
{
	Rows		rows = normal_rows(n, d, seed);

	for (uint32_t i = 50; i < n; i += 100)
	{
		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] *= 20;
	}
	return rows;
}

/*
 * Thresholds are stored in the rows if most of them fit, otherwise all of them outside.
 */
void
test_folded()
{
	const Mode	mode = {"folded int8", FASTED_FILTER_INT8, "folded"};
	struct
	{
		const char *what;
		Rows		rows;
		bool		fits_zero;	/* eps = 0, for which thresholds are largest */
		bool		fits;		/* other finite eps */
	}			cases[] = {
		{"normal", normal_rows(2500, 128, 61), true, true},
		{"clustered", clustered_rows(2500, 64, 20, 0.3f, 62), true, true},
		{"bytes", rows_of_bytes(1500, 96, 20, 63), true, true},
		{"bytes of large norms", rows_of_bytes(1500, 128, 80, 64), false, true},
		{"a few long rows", rows_with_long_ones(2500, 128, 68), true, true},
		{"200 dimensions", normal_rows(1500, 200, 65), true, true},
		{"256 dimensions", normal_rows(1100, 256, 66), true, true},
		{"257 dimensions", normal_rows(600, 257, 67), false, false},
	};

	for (const auto &each : cases)
	{
		std::vector<double> distances = all_distances(each.rows);

		for (double eps : interesting_eps(distances, 0.002))
		{
			Outcome		outcome = run_join(each.rows, problem_of(eps, mode));
			bool		folded = strstr(outcome.stats.kernel, "folded") != nullptr;
			bool		fits = eps == 0 ? each.fits_zero : each.fits && eps < INFINITY;
			bool		hopper = strstr(outcome.stats.kernel, "wgmma") != nullptr;
			std::string why;
			bool		same = same_as_oracle(each.rows, distances, eps, outcome, &why);

			tap::ok(same && (!hopper || folded == fits),
					"folded thresholds, %s, eps = %g: %s, %zu pairs %s", each.what, eps,
					outcome.stats.kernel, outcome.pairs.size(), why.c_str());
		}
	}
}

/* Every pair is within eps, so that all running tiles are redone repeatedly. */
void
test_dense()
{
	for (uint32_t d : {64, 100, 128, 256, 300})
	{
		Rows		rows = normal_rows(60000, d, 70 + d);

		for (float &x : rows.values)
			x = std::rint(std::min(std::max(x + 1.5f, 0.0f), 3.0f));
		for (const char *kernel : {"folded", "mma.sync"})
		{
			PanelProblem problem = problem_of(3 * sqrt(d) + 1, {kernel, FASTED_FILTER_INT8, kernel});

			problem.problem.output = FASTED_OUTPUT_COUNTS;

			Outcome		outcome = run_join(rows, problem);
			const std::vector<uint32_t> &counts = outcome.counts[0];
			bool		all = counts.size() == rows.n
				&& std::all_of(counts.begin(), counts.end(), [&](uint32_t c) { return c == rows.n - 1; });
			bool		hopper = strstr(outcome.stats.kernel, "wgmma") != nullptr;
			bool		folded = strstr(outcome.stats.kernel, "folded") != nullptr;

			tap::ok(all && outcome.stats.redone_units > 0 && (!hopper || folded == (d <= 256)),
					"all pairs of %u rows of %u dimensions, %s: %llu units redone %s", rows.n, d,
					outcome.stats.kernel, (unsigned long long) outcome.stats.redone_units,
					outcome.error.c_str());
		}
	}
}

/* Limits device memory, so that panels are needed. */
void
test_panels(uint32_t n, uint32_t d, bool later_panels_larger)
{
	Rows		rows = normal_rows(n, d, 31);

	/* the first outer panel's encoding was computed for rows a million times smaller */
	for (uint32_t i = n / 2; later_panels_larger && i < n; i++)
	{
		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] *= i % 2 ? 1e6f : 300.0f;
	}

	std::vector<double> distances = all_distances(rows);

	for (const Mode &mode : modes)
	{
		if (left_out(mode))
			continue;
		uint32_t	panels = 0;
		bool		good = true;
		std::string why;

		for (double eps : interesting_eps(distances, 0.01))
		{
			PanelProblem problem = problem_of(eps, mode);

			tuning.staging_rows = 100;
			problem.options.device_memory_limit = little_memory(mode, n, d);

			Outcome		outcome = run_join(rows, problem);

			good &= same_as_oracle(rows, distances, eps, outcome, &why)
				&& counts_alike(rows, problem, outcome, &why) && outcome.was_full && outcome.read_back_right
				&& outcome.stats.device_bytes <= problem.options.device_memory_limit;
			panels = outcome.stats.panels;
		}
		tuning.staging_rows = 0;
		tap::ok(good && panels >= 2, "%u panels, n = %u, d = %u, %s%s %s", panels, n, d,
				mode.name, later_panels_larger ? ", larger rows in later panels" : "", why.c_str());
	}
}

/* Returns whether the engine registers memory; closes the context without withdrawing it. */
bool
lends(Rows &rows, uint64_t expected_rows)
{
	const FastedEngine *engine = fasted_engine();
	FastedOptions options = {};
	FastedSetOptions set_options = {};
	FastedContext *context = nullptr;
	FastedSet  *set = nullptr;
	size_t		taken;
	bool		registered;

	options.dimensions = rows.d;
	set_options.expected_rows = expected_rows;
	engine->open(&options, &context);
	engine->set_open(context, &set_options, &set);
	registered = engine->register_memory(set, rows.values.data(), rows.values.size() * sizeof(float));
	if (registered)
		engine->put(set, rows.row(0), rows.n, &taken);
	engine->close(context);
	return registered;
}

/* Rows that the engine reads from registered memory. */
void
test_registered()
{
	PanelProblem problem = problem_of(1, modes[0]);
	PanelJoin  *join = nullptr;
	Rows		rows = normal_rows(2000, 100, 51);
	size_t		taken;

	tap::ok(!lends(rows, rows.n), "memory for few rows is not registered");
	tap::ok(lends(rows, 1 << 20) && lends(rows, 1 << 20), "memory for many rows is registered");
	tuning.always_register = true;
	tap::ok(run_join(rows, problem).registered, "rows are read from registered memory");
	for (uint32_t d : {1, 17, 960})
		check_rows("registered", normal_rows(3001, d, d), 0.003);
	test_panels(1300, 100, false);
	tuning.always_register = false;

	problem.options.dimensions = rows.d;
	problem.sides = 1;
	panel_join_open(fasted_engine(), &problem, &join);
	tap::ok(panel_join_put(join, 0, rows.row(0), 1, &taken) == FASTED_INTERNAL,
			"put without registered memory: %s", panel_join_last_error(fasted_engine(), join));
	panel_join_unregister_memory(join, 0);
	panel_join_close(join);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	std::string mode = argc > 1 ? argv[1] : "";
	char		reason[300] = "";

	if (fasted_engine()->probe(nullptr, reason, sizeof(reason)) != FASTED_OK)
	{
		tap::ok(false, "a GPU is available: %s", reason);
		return tap::done();
	}
	if (mode == "--lost")
		test_border(true);
	else if (mode == "--lost-fp64")
		test_right_angles(true);
	else if (mode == "--dense")
		test_dense();
	else if (mode == "--small")
	{
		few_eps = true;
		test_shapes(true);
		test_redo(130);
		tuning.always_register = true;
		check_rows("registered", normal_rows(130, 100, 50), 0.003);
		tuning.always_register = false;
	}
	else
	{
		if (mode == "--kernel" && argc > 2)
			only_kernel = argv[2];
		/* in two parts, which may run in parallel */
		if (mode != "--shapes")
		{
			test_folded();
			test_dense();
			test_redo(3001);
			test_panels(1500, 100, false);
			test_panels(3000, 33, true);
			test_kinds();
			test_border(false);
			test_right_angles(false);
			test_registered();
		}
		if (mode != "--all-but-shapes")
			test_shapes(false);
	}
	return tap::done();
}
