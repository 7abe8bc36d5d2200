/*-------------------------------------------------------------------------
 *
 * folded_bench.cu
 *	  Time the filter for projected INT8 rows, on generated rows.
 *
 *	folded_bench [--n N] [--runs R] [--bytes B]
 *
 * The rows consist of rounded normal numbers.  The thresholds give S neighbours per
 * row.  First, the program checks the candidates of a small number of rows against
 * a direct computation.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "device/device.h"
#include "device_rows.cuh"
#include "filter/filter.h"
#include "numbers.h"
#include "rows/filter_rows.h"
#include "rows/row_table.h"

using namespace fasted;

namespace
{

constexpr uint64_t kSeed = 77;
constexpr uint32_t kSampled = 4096;

__global__ void
rows_kernel(int8_t *values, uint32_t n, uint32_t d, uint32_t stride, float size)
{
	uint32_t	i = blockIdx.x * blockDim.x + threadIdx.x;

	for (uint32_t k = 0; i < n && k < stride; k++)
		values[(size_t) i * stride + k] = k < d
			? (int8_t) fminf(127, fmaxf(-128, rintf(size * bench::normal(kSeed + i, k)))) : 0;
}

__device__ int32_t
product(const int8_t *x, const int8_t *y, uint32_t stride)
{
	int32_t		sum = 0;

	for (uint32_t k = 0; k < stride; k += 4)
		sum = __dp4a(*(const int32_t *) (x + k), *(const int32_t *) (y + k), sum);
	return sum;
}

__global__ void
thresholds_kernel(const int8_t *values, uint32_t n, uint32_t stride, int32_t reach2,
				  int32_t *thresholds)
{
	uint32_t	i = blockIdx.x * blockDim.x + threadIdx.x;
	const int8_t *row = values + (size_t) i * stride;

	thresholds[i] = i < n ? (product(row, row, stride) - reach2 / 2) >> 1 : 1400000000;
}

__global__ void
distances_kernel(const int8_t *values, uint32_t n, uint32_t stride, int32_t *distances)
{
	uint32_t	i = blockIdx.x;

	for (uint32_t j = threadIdx.x; j < n; j += blockDim.x)
	{
		const int8_t *x = values + (size_t) i * stride;
		const int8_t *y = values + (size_t) j * stride;

		distances[(size_t) i * n + j] = i == j ? 1 << 30
			: product(x, x, stride) + product(y, y, stride) - 2 * product(x, y, stride);
	}
}

__device__ unsigned long long
hash_of(uint32_t x, uint32_t y)
{
	return bench::mix(x, y);
}

__global__ void
expected_kernel(const int8_t *values, const int32_t *thresholds, uint32_t n, uint32_t stride,
				unsigned long long *found)
{
	uint32_t	i = blockIdx.x;

	for (uint32_t j = i + 1 + threadIdx.x; j < n; j += blockDim.x)
	{
		if (product(values + (size_t) i * stride, values + (size_t) j * stride, stride)
			- thresholds[j] >= thresholds[i])
		{
			atomicAdd(&found[0], 1ULL);
			atomicAdd(&found[1], hash_of(i, j));
		}
	}
}

__global__ void
found_kernel(CandidateBuffer buffer, unsigned long long *found)
{
	for (uint32_t c = blockIdx.x; c < buffer.state->chunks_used; c += gridDim.x)
	{
		for (uint32_t i = threadIdx.x; i < buffer.counts[c]; i += blockDim.x)
		{
			uint2		pair = buffer.pairs[((size_t) c << buffer.chunk_shift) + i];

			atomicAdd(&found[0], 1ULL);
			atomicAdd(&found[1], hash_of(pair.x, pair.y));
		}
	}
}

struct Bench
{
	Budget		budget;
	Device		device = find_device();
	Stream		stream;
	DeviceArray<uint8_t> values, folded_a, folded_b;
	DeviceArray<int32_t> thresholds, distances;
	DeviceArray<Unfit> unfit;
	DeviceArray<uint32_t> counts;
	DeviceArray<uint2> pairs;
	DeviceArray<WorkState> state;
	DeviceArray<Work> lists;
	DeviceArray<unsigned long long> found;
	uint32_t	n;
	uint32_t	stride;

	Bench(uint32_t most, uint64_t candidates)
	{
		uint64_t	room = padded_thresholds(most);

		budget.limit = SIZE_MAX;
		stream.create();
		values.allocate(budget, room * 288, "benchmarking");
		folded_a.allocate(budget, room * 288, "benchmarking");
		folded_b.allocate(budget, room * 288, "benchmarking");
		thresholds.allocate(budget, room, "benchmarking");
		distances.allocate(budget, (size_t) kSampled * kSampled, "benchmarking");
		unfit.allocate(budget, 1, "benchmarking");
		pairs.allocate(budget, candidates, "benchmarking");
		counts.allocate(budget, candidates >> kLargeChunkShift, "benchmarking");
		state.allocate(budget, 1, "benchmarking");
		lists.allocate(budget, 3 * device.multiprocessors * kVoidedPerMultiprocessor,
					   "benchmarking");
		found.allocate(budget, 2, "benchmarking");
	}

	/* Returns the squared distance within which a row has S neighbours on average. */
	int32_t reach2_for(double selectivity)
	{
		std::vector<int32_t> all((size_t) kSampled * kSampled);
		size_t		rank = (size_t) (all.size() * selectivity / n);

		distances_kernel<<<kSampled, 256>>>((int8_t *) values.get(), kSampled, stride,
											distances.get());
		check_cuda(cudaMemcpy(all.data(), distances.get(), all.size() * 4, cudaMemcpyDeviceToHost),
				   "reading distances");
		std::nth_element(all.begin(), all.begin() + rank, all.end());
		return all[rank];
	}

	QuantisedRows quantised() const
	{
		return {values.get(), (const uint32_t *) thresholds.get(), nullptr, n, folded_a.get(),
			folded_b.get()};
	}

	void make(uint32_t n_, const FoldShape &shape)
	{
		n = n_;
		stride = shape.numbers;
		rows_kernel<<<n / 256 + 1, 256>>>((int8_t *) values.get(), n, shape.numbers, stride, 20);
	}

	/* Folds the thresholds into the rows; returns false if a threshold is out of range. */
	bool fold(const FoldShape &shape, int32_t reach2)
	{
		Unfit		no = {};

		thresholds_kernel<<<padded_thresholds(n) / 256, 256>>>((int8_t *) values.get(), n, stride,
															   reach2, thresholds.get());
		check_cuda(cudaMemcpy(unfit.get(), &no, sizeof(no), cudaMemcpyHostToDevice), "benchmarking");
		launch_fold(quantised(), shape, folded_a.get(), folded_b.get(), unfit.get(),
					nullptr);
		check_cuda(cudaMemcpy(&no, unfit.get(), sizeof(no), cudaMemcpyDeviceToHost), "benchmarking");
		return no.low == 0 && no.high == 0;
	}

	/* Runs the filter over all pairs once; returns the seconds. */
	double filter(const FoldShape &shape, CandidateBuffer *buffer)
	{
		TileShape	tiles = folded_tiles(shape.bytes, n, n, true, device);
		TileOrder	order = {n, n, tiles.tile_m, tiles.tile_n, true, tiles.side};
		uint32_t	list = device.multiprocessors * kVoidedPerMultiprocessor;
		WorkState	first = first_state(0, order.items(), order.items());
		Event		begin;
		Event		end;

		*buffer = {pairs.get(), counts.get(), (uint32_t) (pairs.size() >> kLargeChunkShift),
			kLargeChunkShift, state.get(), {lists.get(), lists.get() + list}, list,
			lists.get() + 2 * list};
		check_cuda(cudaMemcpy(state.get(), &first, sizeof(first), cudaMemcpyHostToDevice),
				   "benchmarking");
		check_cuda(cudaMemset(counts.get(), 0, counts.size() * 4), "benchmarking");
		check_cuda(cudaDeviceSynchronize(), "benchmarking");

		FilterParams params = {quantised(), quantised(), stride, order, *buffer};

		begin.record(stream);
		launch_filter_folded(params, shape.bytes, device, stream);
		end.record(stream);
		end.wait("filtering");
		return end.seconds_since(begin);
	}

	void count(const CandidateBuffer &buffer, unsigned long long (&to)[2])
	{
		check_cuda(cudaMemset(found.get(), 0, 16), "benchmarking");
		found_kernel<<<1024, 256>>>(buffer, found.get());
		check_cuda(cudaMemcpy(to, found.get(), 16, cudaMemcpyDeviceToHost), "benchmarking");
	}

	/* Prints wrong and missing candidates of a small number of rows. */
	void tell(const CandidateBuffer &buffer)
	{
		std::vector<int8_t> v((size_t) n * stride);
		std::vector<int32_t> t(n);
		WorkState	end;
		std::vector<char> there((size_t) n * n, 0);
		int			told[2] = {0, 0};
		size_t		counts_of[3] = {0, 0, 0};

		cudaMemcpy(v.data(), values.get(), v.size(), cudaMemcpyDeviceToHost);
		cudaMemcpy(t.data(), thresholds.get(), n * 4, cudaMemcpyDeviceToHost);
		cudaMemcpy(&end, state.get(), sizeof(end), cudaMemcpyDeviceToHost);
		std::vector<uint32_t> c(end.chunks_used);
		std::vector<uint2> p((size_t) end.chunks_used << kLargeChunkShift);

		cudaMemcpy(c.data(), counts.get(), c.size() * 4, cudaMemcpyDeviceToHost);
		cudaMemcpy(p.data(), pairs.get(), p.size() * 8, cudaMemcpyDeviceToHost);
		for (size_t i = 0; i < c.size(); i++)
			for (uint32_t j = 0; j < c[i]; j++)
			{
				uint2		x = p[(i << kLargeChunkShift) + j];

				if (x.x < n && x.y < n)
					there[(size_t) x.x * n + x.y]++;
				else
					counts_of[0]++;
			}
		for (uint32_t i = 0; i < n; i++)
			for (uint32_t j = i + 1; j < n; j++)
			{
				int32_t		sum = 0;

				for (uint32_t k = 0; k < stride; k++)
					sum += v[(size_t) i * stride + k] * v[(size_t) j * stride + k];

				int			hit = sum - t[j] >= t[i];
				int			is = there[(size_t) i * n + j];

				if (hit != is)
				{
					counts_of[1 + hit]++;
					if (told[hit]++ < 6)
						printf("  %s %u %u: %d times, sum %d, thresholds %d %d\n",
							   hit ? "missing" : "wrong", i, j, is, sum, t[i], t[j]);
				}
			}
		printf("  outside %zu, wrong %zu, missing %zu; voided %u\n", counts_of[0], counts_of[1],
			   counts_of[2], end.voided);
	}

	void expect(unsigned long long (&to)[2])
	{
		check_cuda(cudaMemset(found.get(), 0, 16), "benchmarking");
		expected_kernel<<<n, 256>>>((int8_t *) values.get(), thresholds.get(), n, stride,
									found.get());
		check_cuda(cudaMemcpy(to, found.get(), 16, cudaMemcpyDeviceToHost), "benchmarking");
	}
};

}								/* namespace */

int
main(int argc, char **argv)
{
	const FoldShape shapes[] = {{16, 32}, {48, 64}, {112, 128}, {64, 96}, {128, 160}, {256, 288}};
	uint32_t	n = 1 << 20;
	int			runs = 3;
	int			wrong = 0;
	uint32_t	bytes = 288;

	for (int i = 1; i + 1 < argc; i += 2)
	{
		if (strcmp(argv[i], "--n") == 0)
			n = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--runs") == 0)
			runs = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--bytes") == 0)
			bytes = atoi(argv[i + 1]);
	}
	try
	{
		Bench		bench(n, (uint64_t) n * 40 + (1 << 22));
		CandidateBuffer buffer;
		unsigned long long found[2];
		unsigned long long expected[2];

		for (const FoldShape &shape : shapes)
		{
			if (shape.bytes > bytes)
				continue;
			bench.make(20011, shape);
			if (!bench.fold(shape, bench.reach2_for(30)))
				printf("%u dimensions: thresholds are out of range\n", shape.numbers);
			bench.filter(shape, &buffer);
			bench.count(buffer, found);
			bench.expect(expected);

			bool		right = found[0] == expected[0] && found[1] == expected[1];

			wrong += !right;
			printf("%u dimensions in %u bytes: %llu candidates, %s\n", shape.numbers, shape.bytes, found[0],
				   right ? "correct" : "WRONG");
			if (!right)
			{
				bench.make(2000, shape);
				bench.fold(shape, bench.reach2_for(30));
				bench.filter(shape, &buffer);
				bench.tell(buffer);
			}
			fflush(stdout);
		}
		printf("n = %u, ms\n", n);
		for (const FoldShape &shape : shapes)
		{
			if (shape.bytes > bytes)
				continue;
			bench.make(n, shape);
			for (double selectivity : {1.0, 64.0})
			{
				bool		fits = bench.fold(shape, bench.reach2_for(selectivity));
				std::vector<double> seconds;

				bench.filter(shape, &buffer);	/* warm-up */
				for (int run = 0; run < runs; run++)
					seconds.push_back(bench.filter(shape, &buffer));
				bench.count(buffer, found);
				printf("%3u dimensions in %3u bytes, S = %2g: %.2f ms, %llu candidates%s\n",
					   shape.numbers, shape.bytes, selectivity, bench::median(seconds) * 1e3,
					   found[0], fits ? "" : ", some thresholds are out of range");
				fflush(stdout);
			}
		}
	}
	catch (const Failure &failure)
	{
		fprintf(stderr, "%s\n", failure.text);
		return 1;
	}
	return wrong != 0;
}
