/*-------------------------------------------------------------------------
 *
 * switches_bench.cu
 *	  Time the mma.sync filter without each of its optimizations (the paper's
 *	  section 3.3 and Table 6), and with optimizations that the paper does not have.
 *
 *	switches_bench [N [D [FILE]]]
 *
 * The default N and D are those of the paper, 100000 and 4096.  Results are written
 * to FILE as JSON.  As in the paper, all n x n distances are computed, unless the
 * name of the variant says otherwise.  The rows are random, and no pair is within
 * eps.  TFLOPS are 2 n n d / t.
 *
 *-------------------------------------------------------------------------
 */
#include <cuda_fp16.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "device/device.h"
#include "filter/filter_mma.cuh"
#include "schedule/rounds.h"

using namespace fasted;

namespace
{

constexpr int kRuns = 5;

struct NoBlockTile : AllOn
{
	static constexpr int kWarpsM = 1;
	static constexpr int kWarpsN = 1;
	static constexpr int kBlocksPerSm = 6;	/* the maximum that shared memory permits */
};

struct NoAsyncCopy : AllOn
{
	static constexpr bool kAsyncCopy = false;
	static constexpr int kStages = 1;
};

struct NoPipeline : AllOn
{
	static constexpr int kStages = 1;
};

struct OneBlock : AllOn
{
	static constexpr int kBlocksPerSm = 1;
};

struct NoWarpTile : AllOn
{
	static constexpr bool kWarpTile = false;
};

struct NoSwizzle : AllOn
{
	static constexpr bool kSwizzle = false;
};

struct NotAligned : AllOn
{
	static constexpr bool kAligned = false;
};

struct PadTo64 : AllOn
{
	static constexpr bool kShortLastStep = false;
};

__global__ void
fill(__half *values, size_t count)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
	{
		uint64_t	x = i * 0x9E3779B97F4A7C15ull;
		float		sum = 0;

		/* approximately normal */
		for (int j = 0; j < 4; j++)
		{
			x ^= x >> 29;
			x *= 0xBF58476D1CE4E5B9ull;
			sum += (float) (x >> 40) * 0x1p-24f - 0.5f;
		}
		values[i] = __float2half(sum * 1.7f);
	}
}

__global__ void
fill_thresholds(float *t, size_t count)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
		t[i] = 1e9f;
}

struct Bench
{
	Device		device;
	Budget		budget;
	uint32_t	n;
	uint32_t	d;
	DeviceArray<__half> values;
	DeviceArray<float> thresholds;
	DeviceArray<WorkState> state;
	DeviceArray<uint2> pairs;
	DeviceArray<uint32_t> counts;
	DeviceArray<Work> lists;
	FilterParams params = {};
	FILE	   *json = nullptr;
	bool		first = true;

	Bench(uint32_t n_, uint32_t d_) : device(find_device()), n(n_), d(d_)
	{
		const char *doing = "setting up";
		uint32_t	bytes = row_bytes(d, Precision::kFp16);

		budget.limit = SIZE_MAX;
		values.allocate(budget, (size_t) n * bytes / 2, doing);
		thresholds.allocate(budget, n + 1024, doing);
		state.allocate(budget, 1, doing);
		pairs.allocate(budget, 1 << 20, doing);
		counts.allocate(budget, 1 << 15, doing);
		lists.allocate(budget, 3 * 16384, doing);
		fill<<<1024, 256>>>(values.get(), (size_t) n * bytes / 2);
		fill_thresholds<<<1024, 256>>>(thresholds.get(), n + 1024);
		check_launch(doing);
		params.a = params.b = {values.get(), (const uint32_t *) thresholds.get(),
			(const uint32_t *) thresholds.get(), n};
		params.row_bytes = bytes;
		params.candidates.pairs = pairs.get();
		params.candidates.counts = counts.get();
		params.candidates.chunks = 1 << 15;
		params.candidates.chunk_shift = kSmallChunkShift;
		params.candidates.state = state.get();
		params.candidates.lists[0] = lists.get();
		params.candidates.lists[1] = lists.get() + 16384;
		params.candidates.voided = lists.get() + 32768;
		params.candidates.list_size = 16384;
	}

	/* Returns the seconds of a launch that processes the given number of work items. */
	double time(const std::function<void()> &launch, uint64_t items)
	{
		WorkState	first = first_state(0, items, items);
		Event		begin;
		Event		end;

		check_cuda(cudaMemcpy(state.get(), &first, sizeof(first), cudaMemcpyHostToDevice),
				   "setting up");
		begin.record(nullptr);
		launch();
		end.record(nullptr);
		end.wait("running the filter");
		return end.seconds_since(begin);
	}

	/* Times one variant of the filter, and prints a line. */
	template <class S>
	void row(const char *name, bool squares, bool triangle)
	{
		uint32_t	tile_m = S::kWarpsM * 64;
		uint32_t	tile_n = S::kWarpsN * 64;

		params.order = {n, n, tile_m, tile_n, triangle, squares};

		auto		launch = [&] { mma::launch<S>(params, Fp16Test{}, device, nullptr); };
		uint64_t	items = params.order.items();
		std::vector<double> seconds;

		time(launch, items / 10);
		for (int i = 0; i < kRuns; i++)
			seconds.push_back(time(launch, items));
		if (json != nullptr)
			print_json(name, seconds);
		std::sort(seconds.begin(), seconds.end());
		printf("%-44s %9.2f ms %8.1f TFLOPS\n", name, seconds[kRuns / 2] * 1e3,
			   2.0 * n * n * d / seconds[kRuns / 2] * 1e-12);
		fflush(stdout);
	}

	void print_json(const char *name, const std::vector<double> &seconds)
	{
		fprintf(json, "%s\n  {\"variant\": \"%s\", \"n\": %u, \"d\": %u, \"filter_s\": [",
				first ? "" : ",", name, n, d);
		for (size_t i = 0; i < seconds.size(); i++)
			fprintf(json, "%s%.9g", i ? ", " : "", seconds[i]);
		fprintf(json, "]}");
		first = false;
	}
};

}								/* namespace */

int
main(int argc, char **argv)
{
	try
	{
		uint32_t	n = argc > 1 ? atoi(argv[1]) : 100000;
		uint32_t	d = argc > 2 ? atoi(argv[2]) : 4096;
		Bench		bench(n, d);

		printf("%s, mma.sync filter, n = %u, d = %u, medians of %d\n", bench.device.name, n, d, kRuns);
		bench.json = argc > 3 ? fopen(argv[3], "w") : nullptr;
		if (bench.json != nullptr)
			fprintf(bench.json, "{\"device\": \"%s\", \"rows\": [", bench.device.name);
		bench.row<AllOn>("block tile ordering left out", false, false);
		bench.row<NoBlockTile>("block tile left out", true, false);
		bench.row<NoAsyncCopy>("memcpy async and pipeline left out", true, false);
		bench.row<NoPipeline>("multi-stage pipeline left out", true, false);
		bench.row<OneBlock>("SM block residency left out", true, false);
		bench.row<NoWarpTile>("warp tile left out", true, false);
		bench.row<NoSwizzle>("swizzled layout left out", true, false);
		bench.row<NotAligned>("shared memory alignment left out", true, false);
		bench.row<AllOn>("all of the paper's optimisations", true, false);
		bench.row<ThreeStages>("past the paper: three stages", true, false);
		bench.row<ThreeStages>("past the paper: and the upper triangle only", true, true);
		if (d % 64 != 0)
			bench.row<PadTo64>("d padded to a multiple of 64", true, false);
		if (bench.json != nullptr)
		{
			fprintf(bench.json, "\n]}\n");
			fclose(bench.json);
		}
	}
	catch (const Failure &failure)
	{
		fprintf(stderr, "%s\n", failure.text);
		return 1;
	}
	return 0;
}
