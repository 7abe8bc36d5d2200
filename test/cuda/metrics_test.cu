/*-------------------------------------------------------------------------
 *
 * metrics_test.cu
 *	  Joins by inner product, Hamming and Jaccard distance, compared bit for bit with
 *	  engine/exact_distance.h.
 *
 *	metrics_test			all tests
 *	metrics_test --bits		rows of bits only
 *	metrics_test --product	inner products only
 *	metrics_test --small	a subset for compute-sanitizer
 *	metrics_test --time		the time of a join of 1,000,000 rows of 2048 bits
 *
 *-------------------------------------------------------------------------
 */
#include <chrono>

#include "cases.h"

namespace
{

/* Returns all distances, and NaN for pairs of one set that are in different partitions. */
std::vector<double>
distances_of(const Metric &metric, const Sides &sides,
			 const std::vector<FastedPartition> &partitions = {})
{
	std::vector<double> all = all_distances(*sides.a, sides.last(), metric.distance);
	std::vector<uint32_t> label(sides.a->n);

	if (partitions.empty())
		return all;
	for (uint32_t g = 0; g < partitions.size(); g++)
		std::fill_n(label.begin() + partitions[g].first_a, partitions[g].rows_a, g + 1);
	for (uint32_t i = 0; i < sides.a->n; i++)
	{
		for (uint32_t j = 0; j < sides.a->n; j++)
		{
			if (label[i] == 0 || label[i] != label[j])
				all[(size_t) i * sides.a->n + j] = NAN;
		}
	}
	return all;
}

/* Exact distances of pairs, their neighbours, and special values. */
std::vector<double>
some_eps(const Metric &metric, const std::vector<double> &distances)
{
	std::vector<double> sorted = distances;
	std::vector<double> eps;

	sorted.erase(std::remove_if(sorted.begin(), sorted.end(), [](double x) { return !std::isfinite(x); }),
				 sorted.end());
	std::sort(sorted.begin(), sorted.end());
	if (!sorted.empty())
	{
		double		low = sorted[(size_t) (sorted.size() * 0.01)];

		if (few_eps)
			return {low};
		eps = {low, std::nextafter(low, -INFINITY), sorted[sorted.size() / 3]};
	}
	eps.insert(eps.end(), {0.0, INFINITY});
	if (metric.metric == FASTED_METRIC_JACCARD)
		eps.insert(eps.end(), {1.0 / 3, std::nextafter(1.0 / 3, 0), 0.2, 0.5, 1 - 1.0 / 3, 1.0,
							   std::nextafter(1.0, 0.0)});
	else if (metric.metric == FASTED_METRIC_HAMMING)
		eps.insert(eps.end(), {1.0, 2.5, 1e300});
	else
		eps.insert(eps.end(), {-1.0, -1e300, -INFINITY});
	if (metric.metric != FASTED_METRIC_INNER_PRODUCT)
		eps.erase(std::remove_if(eps.begin(), eps.end(), [](double x) { return x < 0; }), eps.end());
	return eps;
}

/* Compares the lists of the k nearest rows; returns the error, or "". */
std::string
wrong_lists(const Sides &sides, PanelProblem problem, const std::vector<double> &distances)
{
	const uint32_t nb = sides.last().n;
	PanelJoin  *join = nullptr;
	FastedBatch batch;
	Outcome		outcome;
	uint64_t	staged;
	uint64_t	seen = 0;
	std::string why;

	auto		check_row = [&](uint64_t row)
	{
		uint32_t	length;
		const FastedNeighbor *list = panel_join_nearest(join, row, &length);
		std::vector<std::pair<double, uint32_t>> near;

		for (uint32_t j = 0; j < nb; j++)
		{
			double		dist = distances[row * nb + j];

			if (dist <= problem.problem.eps && (sides.b != nullptr || j != row))
				near.push_back({dist, j});
		}
		size_t		most = std::min<size_t>(problem.problem.k, near.size());

		std::partial_sort(near.begin(), near.begin() + most, near.end());
		near.resize(most);
		for (uint32_t i = 0; i < length && i < near.size() && why.empty(); i++)
		{
			if (list[i].row != near[i].second || memcmp(&list[i].dist, &near[i].first, sizeof(double)) != 0)
				why = "neighbour " + std::to_string(i) + " of row " + std::to_string(row) + " is wrong";
		}
		if (length != near.size())
			why = "row " + std::to_string(row) + " has " + std::to_string(length) + " neighbours, not "
				+ std::to_string(near.size());
	};

	if (problem.options.dimensions == 0)
		problem.options.dimensions = sides.a->d / (problem.options.element == FASTED_ELEMENT_DOUBLE ? 2 : 1);
	problem.sides = sides.count();
	problem.problem.output = FASTED_OUTPUT_NEAREST;

	FastedStatus status = panel_join_open(tested_engine, &problem, &join);

	if (status == FASTED_OK)
		status = fill_and_start(join, sides, &outcome);
	while (!FASTED_FAILED(status) && status != FASTED_DONE)
	{
		status = panel_join_next(join, 20, &batch);
		for (uint64_t row = batch.first_row; status == FASTED_OK && why.empty()
			 && row < batch.first_row + batch.row_count; row++, seen++)
			check_row(row);
		if (status == FASTED_WANT_ROWS)
			status = stage_rows(join, batch.side, sides.side(batch.side), batch.first_row,
								batch.row_count, &staged);
	}
	if (FASTED_FAILED(status))
		why = panel_join_last_error(tested_engine, join);
	else if (why.empty() && seen != sides.a->n && problem.problem.partitions == nullptr)
		why = std::to_string(seen) + " lists were returned";
	panel_join_close(join);
	return why;
}

/* Tests pairs, counts and neighbour lists in every mode with several eps. */
void
check_sides(const char *what, const Metric &metric, const Sides &sides, uint32_t dimensions,
			const std::vector<FastedPartition> &partitions = {}, size_t memory = 0)
{
	std::vector<double> distances = distances_of(metric, sides, partitions);
	std::string why;
	uint32_t	panels = 1;

	for (const Mode &mode : modes_of(metric))
	{
		int			joins = 0;

		for (double eps : some_eps(metric, distances))
		{
			PanelProblem problem = metric.problem(eps, mode, dimensions);
			Outcome		outcome;

			problem.options.device_memory_limit = memory;
			problem.problem.partitions = partitions.empty() ? nullptr : partitions.data();
			problem.problem.npartitions = (uint32_t) partitions.size();
			if (metric.element == FASTED_ELEMENT_DOUBLE)
				problem.options.dimensions = sides.a->d / 2;
			outcome = run_join(sides, problem);
			panels = outcome.stats.panels;
			if (same_as_oracle(sides, distances, eps, outcome, &why)
				&& counts_alike(sides, problem, outcome, &why)
				&& (joins++ == 0 || eps == INFINITY))
			{
				problem.problem.k = few_eps ? 5 : eps < INFINITY ? 10 : 3;
				why = wrong_lists(sides, problem, distances);
			}
			if (!why.empty())
			{
				tap::ok(false, "%s, %s, %u x %u, %u dimensions, %s, eps = %.17g: %s", metric.name, what,
						sides.a->n, sides.last().n, dimensions, mode.name, eps, why.c_str());
				return;
			}
		}
	}
	tap::ok(memory == 0 || panels > 1, "%s, %s, %u x %u, %u dimensions, %u panels", metric.name, what,
			sides.a->n, sides.last().n, dimensions, panels);
}

/* Partitions of growing size, with gaps between them. */
std::vector<FastedPartition>
some_partitions(uint32_t rows)
{
	std::vector<FastedPartition> partitions;

	for (uint32_t first = 3, size = 1; first + size < rows; first += size + size % 3, size = size * 3 / 2 + 1)
		partitions.push_back({first, size, first, size});
	return partitions;
}

/* Returns a limit with which about a third of the rows fit, given the bytes of a row. */
size_t
memory_for_panels(const Metric &metric, uint32_t dimensions, size_t bytes)
{
	PanelProblem problem = metric.problem(0, {"", FASTED_FILTER_AUTO, nullptr}, dimensions);
	FastedStatus status = FASTED_OUT_OF_DEVICE_MEMORY;
	size_t		limit = 1 << 20;

	while (status == FASTED_OUT_OF_DEVICE_MEMORY)
	{
		FastedContext *context = nullptr;

		limit += limit / 50;
		problem.options.device_memory_limit = limit;
		status = fasted_engine()->open(&problem.options, &context);
		fasted_engine()->close(context);
	}
	return limit + limit / 10 + bytes / 3;
}

void
test_bits(bool small)
{
	for (const Metric *metric : {&hamming_metric, &jaccard_metric})
	{
		for (uint32_t bits : {1, 7, 63, 64, 65, 127, 128, 129, 300, 2048, 16000})
		{
			if (small && bits != 129)
				continue;
			for (double density : {0.02, 0.5})
			{
				Rows		rows = bit_rows(small ? 130 : bits > 2048 ? 300 : 700, bits, density, bits);

				check_sides(density < 0.5 ? "sparse" : "dense", *metric, rows, bits);
			}
		}
		if (small)
			continue;
		check_sides("two sets", *metric, Sides(bit_rows(700, 500, 0.1, 1), bit_rows(1200, 500, 0.1, 1)), 500);
		check_sides("one row and many", *metric, Sides(bit_rows(1, 100, 0.3, 1), bit_rows(3001, 100, 0.3, 1)),
					100);
		check_sides("many rows", *metric, bit_rows(4001, 200, 0.1, 2), 200);
		check_sides("partitions", *metric, bit_rows(2000, 200, 0.1, 3), 200, some_partitions(2000));
		check_sides("no rows", *metric, bit_rows(0, 100, 0.1, 4), 100);

		Rows		rows = bit_rows(2500, 512, 0.1, 5);

		tuning.candidates = fasted::kMostAtOnce;
		tuning.staging_rows = 100;
		check_sides("panels", *metric, rows, 512, {},
					memory_for_panels(*metric, 512, rows.n * (size_t) (512 + 512 / 8)));
		tuning.staging_rows = tuning.candidates = 0;
	}
}

/* Rows of 1 to 200 bits: the distances are quotients, and limits with three decimals include them. */
void
test_decimals()
{
	Rows		rows(200, fasted_element_floats(FASTED_ELEMENT_BIT, 200));
	std::vector<double> distances;
	std::string why;
	bool		same = true;

	for (uint32_t i = 0; i < 200; i++)
		for (uint32_t k = 0; k <= i; k++)
			((uint32_t *) rows.row(i))[k / 32] |= UINT32_C(1) << k % 32;
	distances = distances_of(jaccard_metric, rows);
	for (int i = 0; i <= 1000 && same; i += 5)
		same = same_as_oracle(rows, distances, i / 1000.0,
							  run_join(rows, jaccard_metric.problem(i / 1000.0, bit_modes[0], 200)), &why);
	tap::ok(same, "Jaccard distances at decimal limits %s", why.c_str());
}

/* The number of bits is chosen by a sample; more candidates need more bits. */
void
test_choice()
{
	Rows		rows = bit_rows(3001, 2048, 0.02, 6);
	std::string why;

	tuning.always_choose = true;
	for (const Metric *metric : {&hamming_metric, &jaccard_metric})
	{
		std::vector<double> distances = distances_of(*metric, rows);

		for (double share : {0.001, 0.01, 0.1, 0.3, 0.6})
		{
			double		eps = metric == &jaccard_metric ? share : std::floor(share * 80);
			Outcome		outcome = run_join(rows, metric->problem(eps, bit_modes[0], 2048));
			bool		same = same_as_oracle(rows, distances, eps, outcome, &why);

			tap::ok(same && outcome.stats.filter_sampled,
					"%s, choice for eps = %g: %u bits, %llu candidates, %llu pairs %s", metric->name, eps,
					outcome.stats.filter_dimensions, (unsigned long long) outcome.stats.candidates,
					(unsigned long long) outcome.stats.pairs, why.c_str());
		}
	}
	tuning.always_choose = false;
}

/* Scales rows to length 1. */
Rows
normalized(Rows rows)
{
	for (uint32_t i = 0; i < rows.n; i++)
	{
		double		length = std::sqrt(fasted_exact_dot(rows.row(i), rows.row(i), rows.d));

		for (uint32_t k = 0; k < rows.d; k++)
			rows.row(i)[k] = (float) (rows.row(i)[k] / length);
	}
	return rows;
}

void
check_product(const char *what, const Rows &rows)
{
	check_sides(what, product_metric, rows, rows.d);
	check_sides(what, product_double_metric, as_doubles(rows, 1), rows.d);
}

void
test_product(bool small)
{
	Normal		normal(17);

	for (uint32_t d : {1, 2, 17, 64, 100, 384, 1000, 4099})
	{
		if (!small || d == 100)
			check_product("normal", normal_rows(small ? 130 : d > 1000 ? 300 : 700, d, d));
	}
	if (small)
		return;
	check_product("normalized", normalized(clustered_rows(1500, 96, 30, 0.5f, 1)));
	check_product("normalized, tight", normalized(clustered_rows(1200, 64, 10, 1e-4f, 2)));

	Rows		lengths = normal_rows(1200, 64, 3);
	Rows		offset = normal_rows(1000, 64, 4);
	Rows		integers(1000, 40);
	Rows		strange = normal_rows(700, 50, 5);

	for (uint32_t i = 0; i < lengths.n; i++)
	{
		float		factor = (float) std::exp(4.0 * normal());

		for (uint32_t k = 0; k < lengths.d; k++)
			lengths.row(i)[k] *= i % 40 == 3 ? 0 : factor;
	}
	check_product("lengths from 1e-5 to 1e5, and zeros", lengths);
	for (float &v : offset.values)
		v = 0.01f * v + 30;
	check_product("far from the origin", offset);
	for (float &v : integers.values)
		v = (float) (normal.bits() % 8) - 2;
	check_product("integers", integers);
	check_product("zeros", Rows(300, 30));
	for (uint32_t i = 0; i < strange.n; i += 11)
		strange.row(i)[i % strange.d] = i % 3 == 0 ? INFINITY : i % 3 == 1 ? NAN : 3e38f;
	check_product("not finite", strange);
	for (double factor : {1e-170, 1e30, 1e120, 1e160})
		check_sides("magnitudes", product_double_metric, as_doubles(normal_rows(500, 33, 6), factor), 33);
	check_sides("two sets", product_metric, Sides(clustered_rows(700, 48, 20, 0.5f, 7),
												  clustered_rows(1300, 48, 20, 0.5f, 7)), 48);
	check_sides("partitions", product_metric, clustered_rows(2000, 32, 20, 0.5f, 8), 32,
				some_partitions(2000));

	Rows		rows = clustered_rows(2000, 100, 20, 0.5f, 9);

	tuning.candidates = fasted::kMostAtOnce;
	tuning.staging_rows = 100;
	check_sides("panels", product_metric, rows, rows.d, {},
				memory_for_panels(product_metric, rows.d, rows.n * (size_t) 600));
	tuning.staging_rows = tuning.candidates = 0;

	tuning.always_choose = true;
	check_product("choice", normalized(clustered_rows(3001, 64, 60, 0.5f, 10)));
	tuning.always_choose = false;
}

FastedEngine base;

int
three_devices(const char *devices, char (*names)[FASTED_DEVICE_NAME], int most)
{
	int			count = fasted_engine()->devices(devices, names, 1);

	while (count > 0 && count < 3 && count < most)
		memcpy(names[count++], names[0], FASTED_DEVICE_NAME);
	return count;
}

/* Several devices, which merge neighbour lists. */
void
test_devices()
{
	const FastedEngine *one = tested_engine;
	Rows		bits = bit_rows(6001, 300, 0.1, 7);
	Rows		reals = normalized(clustered_rows(6001, 64, 60, 0.5f, 11));

	base = *fasted_engine();
	base.devices = three_devices;
	tested_engine = fasted_multi_gpu_engine(&base);
	few_eps = true;
	check_sides("three devices", hamming_metric, bits, 300);
	check_sides("three devices", jaccard_metric, bits, 300);
	check_product("three devices", reals);
	few_eps = false;
	tested_engine = one;
}

/* Options that do not suit the metric. */
void
test_refusals()
{
	Rows		rows = normal_rows(10, 6, 51);
	PanelProblem problem = hamming_metric.problem(1, modes[0], 100);
	Outcome		outcome;

	problem.options.element = FASTED_ELEMENT_REAL;
	outcome = run_join(rows, problem);
	tap::ok(FASTED_FAILED(outcome.status), "Hamming distance of floats: %s", outcome.error.c_str());
	outcome = run_join(bit_rows(10, 100, 0.5, 1), hamming_metric.problem(-1, modes[0], 100));
	tap::ok(FASTED_FAILED(outcome.status), "negative Hamming distance: %s", outcome.error.c_str());
}

/* 1,000,000 rows of 2048 bits: how many bits are compared, and how long it takes. */
void
test_time()
{
	const uint32_t n = 1000000;
	Rows		rows = bit_rows(n, 2048, 0.018, 8);

	for (const Metric *metric : {&jaccard_metric, &hamming_metric})
	{
		for (int turn = 0; turn < 3; turn++)
		{
			PanelProblem problem = metric->problem(metric == &jaccard_metric ? 0.2 : 8.0,
												   {"", FASTED_FILTER_AUTO, nullptr}, 2048);
			auto		begin = std::chrono::steady_clock::now();
			Outcome		outcome;

			problem.problem.output = FASTED_OUTPUT_COUNT;
			outcome = run_join(rows, problem);
			tap::ok(outcome.status == FASTED_OK, "%s: %.3f s, on the device %.3f s, prepare %.3f s, %s, "
					"%u bits, %llu candidates, %llu pairs %s", metric->name,
					std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
					outcome.stats.device_seconds, outcome.stats.prepare_seconds, outcome.stats.kernel,
					outcome.stats.filter_dimensions, (unsigned long long) outcome.stats.candidates,
					(unsigned long long) outcome.stats.pairs, outcome.error.c_str());
		}
	}
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
	few_eps = mode == "--small";
	if (mode == "--time")
		test_time();
	else
	{
		if (mode != "--product")
			test_bits(few_eps);
		if (mode != "--bits")
			test_product(few_eps);
	}
	if (mode == "")
	{
		test_decimals();
		test_choice();
		test_refusals();
		test_devices();
	}
	return tap::done();
}
