/*-------------------------------------------------------------------------
 *
 * cases.h
 *	  Filters, metrics, rows and values of eps that several engine tests use.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TEST_CASES_H
#define FASTED_TEST_CASES_H

#include <numeric>

#include "engine/exact_distance.h"
#include "join_helper.h"
#include "rows/row_table.h"
#include "tap.h"

using fasted::tuning;

struct Mode
{
	const char *name;
	FastedFilter filter;
	const char *kernel;
	FastedPrune prune = FASTED_PRUNE_AUTO;
};

inline const Mode modes[] = {
	{"wgmma", FASTED_FILTER_FP16, "wgmma"},
	{"mma.sync", FASTED_FILTER_FP16, "mma.sync"},
	{"fp64", FASTED_FILTER_FP64, nullptr},
	{"wgmma int8", FASTED_FILTER_INT8, "wgmma"},
	{"mma.sync int8", FASTED_FILTER_INT8, "mma.sync"},
	{"auto", FASTED_FILTER_AUTO, nullptr},
	{"wgmma projected", FASTED_FILTER_AUTO, "wgmma", FASTED_PRUNE_FORCE},
	{"mma.sync projected", FASTED_FILTER_AUTO, "mma.sync", FASTED_PRUNE_FORCE},
	{"folded int8", FASTED_FILTER_INT8, "folded"},
	{"folded projected", FASTED_FILTER_AUTO, "folded", FASTED_PRUNE_FORCE},
};

inline PanelProblem
problem_of(double eps, const Mode &mode)
{
	PanelProblem problem = {};

	problem.problem.eps = eps;
	problem.options.filter = mode.filter;
	problem.options.prune = mode.prune;
	tuning.kernel = mode.kernel;
	return problem;
}

/* Copies a row, because its alignment may be that of floats. */
template <class Number>
inline std::vector<Number>
row_as(const float *row, uint32_t floats)
{
	std::vector<Number> values(floats * sizeof(float) / sizeof(Number));

	memcpy(values.data(), row, floats * sizeof(float));
	return values;
}

inline double
jaccard(const float *x, const float *y, uint32_t d)
{
	return fasted_exact_jaccard(row_as<uint64_t>(x, d).data(), row_as<uint64_t>(y, d).data(), d / 2);
}

inline double
euclidean_double(const float *x, const float *y, uint32_t d)
{
	return fasted_exact_distance_double(row_as<double>(x, d).data(), row_as<double>(y, d).data(), d / 2);
}

/* A metric, the elements of rows, and the definition of the distance. */
struct Metric
{
	const char *name;
	FastedMetric metric;
	FastedElement element;
	Distance	distance;

	/* dimensions: number of bits; ignored for other rows. */
	PanelProblem problem(double eps, const Mode &mode, uint32_t dimensions) const
	{
		PanelProblem problem = problem_of(eps, mode);

		problem.options.metric = metric;
		problem.options.element = element;
		problem.options.dimensions = dimensions;
		return problem;
	}
};

inline const Metric euclidean_metric = {"Euclidean", FASTED_METRIC_L2, FASTED_ELEMENT_REAL,
	slow_distance};
inline const Metric euclidean_double_metric = {"Euclidean of doubles", FASTED_METRIC_L2,
	FASTED_ELEMENT_DOUBLE, euclidean_double};
inline const Metric cosine_metric = {"cosine", FASTED_METRIC_COSINE, FASTED_ELEMENT_REAL, slow_cosine};
inline const Metric jaccard_metric = {"Jaccard", FASTED_METRIC_JACCARD, FASTED_ELEMENT_BIT, jaccard};
/* Ways to join rows of bits; with FORCE, rows are folded to 64 bits. */
inline const Mode bit_modes[] = {
	{"wgmma", FASTED_FILTER_AUTO, "wgmma"},
	{"mma.sync", FASTED_FILTER_FP64, "mma.sync"},
	{"folded thresholds", FASTED_FILTER_AUTO, "folded"},
	{"wgmma, 64 bits", FASTED_FILTER_AUTO, "wgmma", FASTED_PRUNE_FORCE},
	{"mma.sync, 64 bits", FASTED_FILTER_INT8, "mma.sync", FASTED_PRUNE_FORCE},
	{"folded thresholds, 64 bits", FASTED_FILTER_AUTO, "folded", FASTED_PRUNE_FORCE},
};

/* Returns an amount of device memory slightly too small for `rows` rows (at least 1000). */
inline size_t
little_memory(const Mode &mode, uint64_t rows, uint32_t d)
{
	uint32_t	bytes = fasted::row_bytes(d, mode.filter == FASTED_FILTER_INT8 ? fasted::Precision::kInt8
										  : mode.filter == FASTED_FILTER_FP64 ? fasted::Precision::kFp32
										  : fasted::Precision::kFp16);
	size_t		form = fasted::Form::bytes(d);
	size_t		rounds = fasted::Rounds::bytes(fasted::find_device(), fasted::kMostAtOnce);

	/* encodings of three sets, and two that are tried */
	size_t		limit = rounds + 5 * form + (120 << 10) + rows * (d * 4 + bytes + 4) / 3;

	if (mode.kernel != nullptr && strcmp(mode.kernel, "folded") == 0)
	{
		uint32_t	int8 = fasted::row_bytes(d, fasted::Precision::kInt8);

		limit += 3 * 2 * fasted::folded_bytes(1, int8 <= fasted::kMostFolded ? int8
											  : fasted::kMostWidth);
	}
	if (mode.prune == FASTED_PRUNE_FORCE)
	{
		fasted::RoundSettings settings = {};

		settings.dimensions = d;
		settings.projected_bytes = limit / 32;	/* more than the real value */
		limit += fasted::FormChooser::projected_bytes(settings) + 3 * (fasted::Form::bytes(d, true) - form);
	}
	return limit;
}

/* Returns zero, two exact distances, the double below one of them, and infinity. */
inline std::vector<double>
interesting_eps(const std::vector<double> &distances, double share)
{
	std::vector<double> sorted;

	for (double x : distances)
	{
		if (x < INFINITY)
			sorted.push_back(x);
	}
	if (sorted.empty())
		return {0.0, 1.0, INFINITY};

	size_t		few = (size_t) (sorted.size() * share);
	size_t		half = sorted.size() / 2;

	std::nth_element(sorted.begin(), sorted.begin() + few, sorted.end());
	double		low = sorted[few];

	std::nth_element(sorted.begin(), sorted.begin() + half, sorted.end());
	return {0.0, low, std::nextafter(low, 0.0), sorted[half], INFINITY};
}

inline Rows
normal_rows(uint32_t n, uint32_t d, uint64_t seed)
{
	Rows		rows(n, d);
	Normal		normal(seed);

	for (float &v : rows.values)
		v = normal();
	return rows;
}

inline Rows
clustered_rows(uint32_t n, uint32_t d, uint32_t clusters, float spread, uint64_t seed)
{
	Rows		centres = normal_rows(clusters, d, seed);
	Rows		rows(n, d);

	parallel(n, [&](uint32_t i)
	{
		Normal		normal(seed * 1000003 + i);
		const float *centre = centres.row(normal.bits() % clusters);

		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] = centre[k] + spread * normal();
	});
	return rows;
}

/* The same rows as doubles, with other low bits; d becomes the number of floats. */
inline Rows
as_doubles(const Rows &rows, double factor)
{
	Rows		doubles(rows.n, 2 * rows.d);
	Normal		normal(rows.n);

	for (size_t i = 0; i < rows.values.size(); i++)
	{
		double		value = rows.values[i] * (1 + 1e-12 * normal()) * factor;

		memcpy(&doubles.values[2 * i], &value, sizeof(value));
	}
	return doubles;
}

/*
 * Rows of bits: copies of a few rows in which some bits are changed, rows without bits, and rows of
 * ones.  density is the share of set bits in the copied rows.
 */
inline Rows
bit_rows(uint32_t n, uint32_t bits, double density, uint64_t seed)
{
	Rows		rows(n, fasted_element_floats(FASTED_ELEMENT_BIT, bits));

	parallel(n, [&](uint32_t i)
	{
		Normal		own(seed * 1000003 + i);
		Normal		copied(seed + own.bits() % (n / 10 + 1));
		std::vector<uint64_t> words(rows.d / 2);
		uint32_t	changed = (uint32_t) (own.uniform() * (density * bits * 0.4 + 2));

		for (uint32_t k = 0; k < bits; k++)
		{
			bool		one = copied.uniform() < density;

			words[k / 64] |= (uint64_t) (i % 29 == 5 ? 0 : i % 31 == 7 ? 1 : one) << k % 64;
		}
		for (; changed > 0 && i % 29 != 5 && i % 31 != 7; changed--)
		{
			uint32_t	k = (uint32_t) (own.bits() % bits);

			words[k / 64] ^= UINT64_C(1) << k % 64;
		}
		memcpy(rows.row(i), words.data(), rows.d * sizeof(float));
	});
	return rows;
}

inline PanelProblem
bits_problem(double eps, const Mode &mode, FastedMetric metric, uint32_t bits)
{
	PanelProblem problem = problem_of(eps, mode);

	problem.options.metric = metric;
	problem.options.element = FASTED_ELEMENT_BIT;
	problem.options.dimensions = bits;
	return problem;
}

/* Points on a line at distance 1: in order, reversed, or shuffled. */
inline Rows
chain(uint32_t n, int order)
{
	Rows		rows(n, 5);
	std::vector<uint32_t> place(n);
	std::mt19937_64 random(n);

	std::iota(place.begin(), place.end(), 0);
	if (order == 1)
		std::reverse(place.begin(), place.end());
	if (order == 2)
		std::shuffle(place.begin(), place.end(), random);
	for (uint32_t i = 0; i < n; i++)
		rows.row(i)[3] = (float) place[i];
	return rows;
}

inline uint64_t
pair_key(const FastedPair &p)
{
	return (uint64_t) p.a << 32 | p.b;
}

inline void
sort_pairs(std::vector<FastedPair> *pairs)
{
	std::sort(pairs->begin(), pairs->end(), [](const FastedPair &p, const FastedPair &q)
	{
		return pair_key(p) < pair_key(q);
	});
}

#endif							/* FASTED_TEST_CASES_H */
