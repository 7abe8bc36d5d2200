/*-------------------------------------------------------------------------
 *
 * oracle.h
 *	  Sets of rows, and all their distances, computed slowly.
 *
 * Written from the definition of the canonical distance, independent of the code under test:
 * partial sum k mod 32, folded in halves.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_TEST_ORACLE_H
#define FASTED_TEST_ORACLE_H

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <vector>

struct Rows
{
	uint32_t	n;
	uint32_t	d;
	std::vector<float> values;

	Rows(uint32_t n_, uint32_t d_) : n(n_), d(d_), values((size_t) n_ * d_) {}
	float	   *row(uint32_t i) { return values.data() + (size_t) i * d; }
	const float *row(uint32_t i) const { return values.data() + (size_t) i * d; }
};

/* Sums terms of x and y, in the order of the definition. */
template <class AddTerm>
inline double
slow_sum(const float *x, const float *y, uint32_t d, const AddTerm &add)
{
	double		part[32];

	for (int l = 0; l < 32; l++)
		part[l] = 0;
	for (uint32_t k = 0; k < d; k += 32)
	{
		uint32_t	end = d - k < 32 ? d - k : 32;

		for (uint32_t l = 0; l < end; l++)
			part[l] = add(x[k + l], y[k + l], part[l]);
	}
	for (int half = 16; half >= 1; half /= 2)
	{
		for (int l = 0; l < half; l++)
			part[l] = part[l] + part[l + half];
	}
	return part[0];
}

inline double
slow_distance(const float *x, const float *y, uint32_t d)
{
	return std::sqrt(slow_sum(x, y, d, [](double p, double q, double sum)
	{
		return std::fma(p - q, p - q, sum);
	}));
}

/* Returns NaN if a row has no direction. */
inline double
slow_cosine(const float *x, const float *y, uint32_t d)
{
	auto		dot = [d](const float *p, const float *q)
	{
		return slow_sum(p, q, d, [](double r, double s, double sum)
		{
			return std::fma(r, s, sum);
		});
	};
	double		length = std::sqrt(dot(x, x) * dot(y, y));
	double		similarity = dot(x, y) / length;

	return similarity > 1 ? 0 : similarity < -1 ? 2 : 1 - similarity;
}

using Distance = double (*)(const float *, const float *, uint32_t);

inline void
parallel(uint32_t n, const std::function<void(uint32_t)> &body)
{
	uint32_t	threads = std::max(1u, std::thread::hardware_concurrency());
	std::vector<std::thread> pool;

	for (uint32_t t = 0; t < threads; t++)
		pool.emplace_back([=, &body]
		{
			for (uint32_t i = t; i < n; i += threads)
				body(i);
		});
	for (auto &thread : pool)
		thread.join();
}

/* Returns distances[a * n + b] for a < b. */
inline std::vector<double>
all_distances(const Rows &rows, Distance distance = slow_distance)
{
	std::vector<double> distances((size_t) rows.n * rows.n, INFINITY);

	parallel(rows.n, [&](uint32_t a)
	{
		for (uint32_t b = a + 1; b < rows.n; b++)
			distances[(size_t) a * rows.n + b] =
				distance(rows.row(a), rows.row(b), rows.d);
	});
	return distances;
}

/* Returns distances[a * nb + b] of two sets. */
inline std::vector<double>
all_distances(const Rows &a, const Rows &b, Distance distance = slow_distance)
{
	std::vector<double> distances((size_t) a.n * b.n);

	parallel(a.n, [&](uint32_t i)
	{
		for (uint32_t j = 0; j < b.n; j++)
			distances[(size_t) i * b.n + j] = distance(a.row(i), b.row(j), a.d);
	});
	return distances;
}

/* Fast normal random numbers that depend only on the seed. */
class Normal
{
public:
	explicit Normal(uint64_t seed) : generator_(seed) {}
	float operator()() { return distribution_(generator_); }
	double uniform() { return (generator_() >> 11) * 0x1p-53; }
	uint64_t bits() { return generator_(); }

private:
	std::mt19937_64 generator_;
	std::normal_distribution<float> distribution_;
};

#endif							/* FASTED_TEST_ORACLE_H */
