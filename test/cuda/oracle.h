/*-------------------------------------------------------------------------
 *
 * oracle.h
 *	  Every distance, the slow way, and a set of rows to compute them of.
 *
 * Written from the definition of the canonical distance, apart from the code
 * under test: partial sum k mod 32, folded in halves.
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

inline double
slow_distance(const float *x, const float *y, uint32_t d)
{
	double		part[32];

	for (int l = 0; l < 32; l++)
		part[l] = 0;
	for (uint32_t k = 0; k < d; k += 32)
	{
		uint32_t	end = d - k < 32 ? d - k : 32;

		for (uint32_t l = 0; l < end; l++)
		{
			double		difference = (double) x[k + l] - (double) y[k + l];

			part[l] = std::fma(difference, difference, part[l]);
		}
	}
	for (int half = 16; half >= 1; half /= 2)
	{
		for (int l = 0; l < half; l++)
			part[l] = part[l] + part[l + half];
	}
	return std::sqrt(part[0]);
}

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

/* distances[a * n + b] for a < b. */
inline std::vector<double>
all_distances(const Rows &rows)
{
	std::vector<double> distances((size_t) rows.n * rows.n, INFINITY);

	parallel(rows.n, [&](uint32_t a)
	{
		for (uint32_t b = a + 1; b < rows.n; b++)
			distances[(size_t) a * rows.n + b] =
				slow_distance(rows.row(a), rows.row(b), rows.d);
	});
	return distances;
}

/* distances[a * nb + b] of two sets. */
inline std::vector<double>
all_distances(const Rows &a, const Rows &b)
{
	std::vector<double> distances((size_t) a.n * b.n);

	parallel(a.n, [&](uint32_t i)
	{
		for (uint32_t j = 0; j < b.n; j++)
			distances[(size_t) i * b.n + j] = slow_distance(a.row(i), b.row(j), a.d);
	});
	return distances;
}

/* Fast normal numbers, the same everywhere for the same seed. */
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
