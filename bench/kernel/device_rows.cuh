/*-------------------------------------------------------------------------
 *
 * device_rows.cuh
 *	  Generate random rows on the device, and find the eps at which a row has S
 *	  neighbours on average.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BENCH_DEVICE_ROWS_CUH
#define FASTED_BENCH_DEVICE_ROWS_CUH

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"
#include "rows/row_table.h"

namespace bench
{

using fasted::RowTable;

/* Hashes two numbers to 64 uniformly distributed bits. */
__device__ __forceinline__ uint64_t
mix(uint64_t a, uint64_t b)
{
	uint64_t	x = a * 0x9E3779B97F4A7C15ull + b * 0xD1B54A32D192ED03ull + 0x2545F4914F6CDD1Dull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return x ^ x >> 31;
}

/* Converts random bits to a number that is uniformly distributed in (0, 1). */
__device__ __forceinline__ float
uniform(uint64_t bits)
{
	return ((bits >> 40) + 0.5f) * 0x1p-24f;
}

/* Returns a normal random number for dimension k of the object "id". */
__device__ __forceinline__ float
normal(uint64_t id, uint32_t k)
{
	uint64_t	bits = mix(id, k);
	float		u = uniform(bits);
	float		v = uniform(bits << 24);

	return sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
}

/*
 * Generates rows that resemble embeddings, one warp per row.  The rows are unit
 * vectors in clusters of 200 rows on average.  Before it is scaled to norm 1, a
 * row is its cluster's centre plus 0.3 to 0.9 times normal noise.  Dimension k of
 * both has standard deviation (k + 1)^-1/4.
 */
static __global__ void
clustered_kernel(float *values, uint32_t n, uint32_t d, uint64_t seed)
{
	uint32_t	i = blockIdx.x * 8 + threadIdx.x / 32;
	uint32_t	lane = threadIdx.x % 32;

	if (i >= n)
		return;

	uint64_t	cluster = mix(seed, i) % (n / 200 + 1);
	float		radius = 0.3f + 0.6f * uniform(mix(seed + 1, i));
	float	   *row = values + (size_t) i * d;
	float		norm2 = 0;

	for (uint32_t k = lane; k < d; k += 32)
	{
		float		v = (normal(seed + 2 + cluster, k) + radius * normal(~(seed + i), k))
			* powf(k + 1.0f, -0.25f);

		row[k] = v;
		norm2 += v * v;
	}
	for (int o = 16; o > 0; o /= 2)
		norm2 += __shfl_xor_sync(0xffffffff, norm2, o);
	for (uint32_t k = lane; k < d; k += 32)
		row[k] *= rsqrtf(norm2);
}

/* Multiplies one row in a hundred by a factor of 3 to 30. */
static __global__ void
lengthen_kernel(float *values, uint32_t n, uint32_t d, uint64_t seed)
{
	uint32_t	i = blockIdx.x * 100 + mix(seed, blockIdx.x) % 100;
	float		factor = 3.0f * powf(10.0f, uniform(mix(seed + 1, blockIdx.x)));

	for (uint32_t k = threadIdx.x; i < n && k < d; k += blockDim.x)
		values[(size_t) i * d + k] *= factor;
}

/*
 * Generates independent normal numbers.  This is the worst case, because all pairs
 * of rows have nearly the same distance.
 */
static __global__ void
isotropic_kernel(float *values, uint32_t n, uint32_t d, uint64_t seed)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < (size_t) n * d;
		 i += (size_t) gridDim.x * blockDim.x)
		values[i] = normal(seed + i / d, (uint32_t) (i % d));
}

/* Number of histogram bins of the distances. */
constexpr uint32_t kBins = 1 << 20;

/* Number of latent dimensions of gist_kernel's rows. */
constexpr uint32_t kLatent = 192;

/* Generates normal random numbers. */
static __global__ void
normal_kernel(float *values, size_t count, uint64_t seed)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
		values[i] = normal(seed + (i >> 20), (uint32_t) (i & 0xfffff));
}

/*
 * Generates rows that resemble GIST descriptors (bench/datasets/generators.py), one
 * block per row.  A row is a profile times the exponential of a linear function of
 * latent numbers, whose variances decrease slowly.  bounds[] has the cumulative
 * fractions of the rows in each cluster.  "most" is the maximum distance from a
 * cluster's centre.
 */
static __global__ void
gist_kernel(float *values, uint32_t d, const float *basis, const float *bounds, uint32_t clusters,
			float most, uint64_t seed)
{
	__shared__ float latent[kLatent];
	uint32_t	i = blockIdx.x;
	float		u = uniform(mix(seed, i));
	float		radius = most * powf(uniform(mix(seed + 1, i)), 1 / 3.15f);
	uint32_t	low = 0;
	float		norm2 = 0;

	for (uint32_t high = clusters - 1; low < high;)
	{
		uint32_t	middle = (low + high) / 2;

		if (bounds[middle] < u)
			low = middle + 1;
		else
			high = middle;
	}
	for (uint32_t l = 0; l < kLatent; l++)
		norm2 += powf(l + 1.0f, -0.8f);
	for (uint32_t l = threadIdx.x; l < kLatent; l += blockDim.x)
		latent[l] = (normal(seed + 2 + low, l) + radius * normal(~(seed + i), l))
			* powf(l + 1.0f, -0.4f) * rsqrtf(norm2);
	__syncthreads();
	for (uint32_t k = threadIdx.x; k < d; k += blockDim.x)
	{
		float		sum = 0;

		for (uint32_t l = 0; l < kLatent; l++)
			sum += latent[l] * basis[(size_t) l * d + k];
		values[(size_t) i * d + k] = 0.05f * expf(0.4f * normal(seed + 3, k) + 0.5f * sum);
	}
}

/* Computes a histogram of the distances below "most" between a sample of rows and all rows. */
static __global__ void
distances_kernel(const float *values, uint32_t n, uint32_t d, uint32_t queries,
				 float most, unsigned int *bins)
{
	uint32_t	lane = threadIdx.x % 32;

	for (uint32_t i = blockIdx.x * 8 + threadIdx.x / 32; i < n; i += gridDim.x * 8)
	{
		const float *x = values + (size_t) i * d;

		for (uint32_t q = 0; q < queries; q++)
		{
			uint32_t	j = (uint32_t) ((uint64_t) q * n / queries);
			const float *y = values + (size_t) j * d;
			float		sum = 0;

			for (uint32_t k = lane; k < d; k += 32)
				sum += (x[k] - y[k]) * (x[k] - y[k]);
			for (int o = 16; o > 0; o /= 2)
				sum += __shfl_xor_sync(0xffffffff, sum, o);
			if (lane == 0 && i != j && sqrtf(sum) < most)
				atomicAdd(&bins[(uint32_t) (sqrtf(sum) / most * kBins)], 1u);
		}
	}
}

/* n generated rows of d dimensions in device memory. */
class DeviceRows
{
public:
	DeviceRows(const std::string &kind, uint32_t n, uint32_t d) : n_(n), d_(d)
	{
		const float *chunk;

		budget_.limit = SIZE_MAX;
		values_.allocate(budget_, (size_t) n * d, "making rows");
		chunks_.allocate(budget_, 1, "making rows");
		chunk = values_.get();
		fasted::check_cuda(cudaMemcpy(chunks_.get(), &chunk, sizeof(chunk),
									  cudaMemcpyHostToDevice), "making rows");
		if (kind == "gist" || kind == "tiny")
			make_gist(kind == "gist" ? 0.585f : 0.35f);
		else if (kind == "isotropic")
			isotropic_kernel<<<4096, 256>>>(values_.get(), n, d, 7);
		else
			clustered_kernel<<<(n + 7) / 8, 256>>>(values_.get(), n, d, 7);
		if (kind == "outliers")
			lengthen_kernel<<<n / 100, 256>>>(values_.get(), n, d, 99);
		fasted::check_cuda(cudaDeviceSynchronize(), "making rows");
		most_ = kind == "isotropic" ? 4.0f * sqrtf((float) d)
			: kind == "clustered" || kind == "outliers" ? 2.0f : 0.25f * sqrtf((float) d);
	}

	/* Returns the eps at which a row has about this many neighbours on average. */
	double eps_for(double neighbours)
	{
		uint32_t	queries = n_ < 256 ? n_ : 256;
		fasted::DeviceArray<unsigned int> bins;
		std::vector<unsigned int> counts(kBins);
		double		sum = 0;
		uint32_t	bin = 0;

		bins.allocate(budget_, kBins, "finding eps");
		fasted::check_cuda(cudaMemset(bins.get(), 0, kBins * sizeof(unsigned int)), "finding eps");
		distances_kernel<<<132 * 8, 256>>>(values_.get(), n_, d_, queries, most_, bins.get());
		fasted::check_cuda(cudaMemcpy(counts.data(), bins.get(), kBins * sizeof(unsigned int),
									  cudaMemcpyDeviceToHost), "finding eps");
		while (bin < kBins && sum < neighbours * queries)
			sum += counts[bin++];
		return (double) bin / kBins * most_;
	}

	RowTable table() const { return {chunks_.get(), 31, d_, n_}; }
	const float *values() const { return values_.get(); }

private:
	/* Generates clusters of 200 rows on average, with log-normally distributed sizes. */
	void make_gist(float most)
	{
		std::vector<float> bounds(n_ / 200 + 1);
		fasted::DeviceArray<float> device_bounds;
		fasted::DeviceArray<float> basis;
		std::mt19937_64 generator(5);
		std::normal_distribution<double> logarithm(0, sqrt(log(8.0)));
		std::vector<double> sums(bounds.size());
		double		sum = 0;

		for (double &each : sums)
			each = sum += exp(logarithm(generator));
		for (size_t i = 0; i < bounds.size(); i++)
			bounds[i] = (float) (sums[i] / sum);
		device_bounds.allocate(budget_, bounds.size(), "making rows");
		basis.allocate(budget_, (size_t) kLatent * d_, "making rows");
		fasted::check_cuda(cudaMemcpy(device_bounds.get(), bounds.data(),
									  bounds.size() * sizeof(float), cudaMemcpyHostToDevice),
						   "making rows");
		normal_kernel<<<256, 256>>>(basis.get(), (size_t) kLatent * d_, 1ull << 40);
		gist_kernel<<<n_, 256>>>(values_.get(), d_, basis.get(), device_bounds.get(),
								 (uint32_t) bounds.size(), most, 7);
		fasted::check_cuda(cudaDeviceSynchronize(), "making rows");
	}

	uint32_t	n_;
	uint32_t	d_;
	float		most_;
	fasted::Budget budget_;
	fasted::DeviceArray<float> values_;
	fasted::DeviceArray<const float *> chunks_;
};

}								/* namespace bench */

#endif							/* FASTED_BENCH_DEVICE_ROWS_CUH */
