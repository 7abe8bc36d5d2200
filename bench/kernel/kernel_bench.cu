/*-------------------------------------------------------------------------
 *
 * kernel_bench.cu
 *	  Compare the engine's kernels with cuBLAS, on 100000 random rows.
 *
 *	kernel_bench [--n N] [--runs R] [--d D,D,...] [--kernel mma.sync|wgmma]
 *				 [--selectivity S] [--json FILE]
 *
 * TFLOPS are 2 n n d / t, although a self-join computes each pair only once.  The
 * paper counts in the same way, for a kernel that computes each pair twice.
 *
 *-------------------------------------------------------------------------
 */
#include <cublas_v2.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "../../test/cuda/join_helper.h"
#include "numbers.h"

using bench::median;

namespace
{

Rows
random_rows(uint32_t n, uint32_t d)
{
	Rows		rows(n, d);

	parallel(64, [&](uint32_t part)
	{
		Normal		normal(part + 1);

		for (uint32_t i = part; i < n; i += 64)
		{
			for (uint32_t k = 0; k < d; k++)
				rows.row(i)[k] = normal();
		}
	});
	return rows;
}

/* Estimates the eps at which a row has S neighbours on average. */
double
eps_for(const Rows &rows, double selectivity)
{
	uint32_t	sample = std::min(rows.n, 1500u);
	std::vector<double> distances((size_t) sample * sample, INFINITY);

	parallel(sample, [&](uint32_t a)
	{
		for (uint32_t b = a + 1; b < sample; b++)
			distances[(size_t) a * sample + b] =
				slow_distance(rows.row(a), rows.row(b), rows.d);
	});

	size_t		rank = (size_t) (sample * (sample - 1.0) / 2 * selectivity / rows.n);

	std::nth_element(distances.begin(), distances.begin() + rank, distances.end());
	return distances[rank];
}

/* Medians, in seconds. */
struct Timing
{
	double		filter;
	double		refine;
	double		prepare;
	double		stage;			/* from the start to the first pair */
	double		wall;			/* from the start to the last pair */
	Outcome		outcome;
};

Timing
time_join(const Rows &rows, double eps, int runs)
{
	std::vector<double> filter, refine, prepare, stage, wall;
	Timing		t;

	for (int run = 0; run <= runs; run++)
	{
		PanelProblem problem = {};
		auto		begin = std::chrono::steady_clock::now();
		auto		first = begin;
		bool		seen = false;

		problem.problem.eps = eps;
		problem.expected_rows[0] = rows.n;
		t.outcome = run_join(rows, problem, [&](const FastedPair *, size_t)
		{
			if (!seen)
				first = std::chrono::steady_clock::now();
			seen = true;
			return true;
		});
		auto		end = std::chrono::steady_clock::now();

		if (t.outcome.status != FASTED_OK)
		{
			fprintf(stderr, "%s\n", t.outcome.error.c_str());
			exit(1);
		}
		if (run == 0)
			continue;			/* warm-up */
		filter.push_back(t.outcome.stats.filter_seconds);
		refine.push_back(t.outcome.stats.refine_seconds);
		prepare.push_back(t.outcome.stats.prepare_seconds);
		stage.push_back(std::chrono::duration<double>(first - begin).count());
		wall.push_back(std::chrono::duration<double>(end - begin).count());
	}
	t.filter = median(filter);
	t.refine = median(refine);
	t.prepare = median(prepare);
	t.stage = median(stage);
	t.wall = median(wall);
	return t;
}

/* Returns the seconds in which cuBLAS computes all n x n inner products, in blocks. */
double
time_cublas(const Rows &rows, int runs)
{
	const uint32_t block = 32768;
	uint32_t	d = rows.d;
	cublasHandle_t handle;
	__half	   *values;
	__half	   *products;
	std::vector<__half> half(rows.values.size());
	std::vector<double> seconds;
	cudaEvent_t begin;
	cudaEvent_t end;
	float		one = 1;
	float		zero = 0;

	parallel(rows.n, [&](uint32_t i)
	{
		for (uint32_t k = 0; k < d; k++)
			half[(size_t) i * d + k] = __float2half(rows.row(i)[k]);
	});
	fasted::check_cuda(cudaMalloc(&values, half.size() * 2), "allocating");
	fasted::check_cuda(cudaMalloc(&products, (size_t) block * block * 2), "allocating");
	cudaMemcpy(values, half.data(), half.size() * 2, cudaMemcpyHostToDevice);
	cublasCreate(&handle);
	cudaEventCreate(&begin);
	cudaEventCreate(&end);
	for (int run = 0; run <= runs; run++)
	{
		float		ms;

		cudaEventRecord(begin);
		for (uint32_t i = 0; i < rows.n; i += block)
		{
			for (uint32_t j = 0; j < rows.n; j += block)
				cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N,
							 std::min(block, rows.n - i), std::min(block, rows.n - j), d,
							 &one, values + (size_t) i * d, CUDA_R_16F, d,
							 values + (size_t) j * d, CUDA_R_16F, d, &zero, products,
							 CUDA_R_16F, block, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
		}
		cudaEventRecord(end);
		cudaEventSynchronize(end);
		cudaEventElapsedTime(&ms, begin, end);
		if (run > 0)
			seconds.push_back(ms * 1e-3);
	}
	fasted::check_cuda(cudaGetLastError(), "running cuBLAS");
	cublasDestroy(handle);
	cudaFree(values);
	cudaFree(products);
	return median(seconds);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	uint32_t	n = 100000;
	int			runs = 5;
	double		selectivity = 64;
	std::vector<uint32_t> dims = {64, 128, 256, 512, 1024, 2048, 4096};
	FILE	   *json = nullptr;

	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string key = argv[i];

		if (key == "--n")
			n = atoi(argv[i + 1]);
		else if (key == "--runs")
			runs = atoi(argv[i + 1]);
		else if (key == "--selectivity")
			selectivity = atof(argv[i + 1]);
		else if (key == "--kernel")
			fasted::tuning.kernel = argv[i + 1];
		else if (key == "--json")
			json = fopen(argv[i + 1], "w");
		else if (key == "--d")
		{
			dims.clear();
			for (char *p = strtok(argv[i + 1], ","); p; p = strtok(nullptr, ","))
				dims.push_back(atoi(p));
		}
	}

	try
	{
		fasted::Device device = fasted::find_device();

		printf("%s, n = %u, S = %g; times in ms, medians of %d\n", device.name, n,
			   selectivity, runs);
		printf("%6s %9s %8s %8s %8s %8s %8s %9s %8s %6s  %s\n", "d", "filter", "TFLOPS",
			   "refine", "prepare", "stage", "wall", "cuBLAS", "TFLOPS", "ratio",
			   "pairs, candidates, redone, kernel");
		if (json)
			fprintf(json, "{\"device\": \"%s\", \"n\": %u, \"selectivity\": %g, "
					"\"runs\": %d, \"rows\": [", device.name, n, selectivity, runs);
		for (size_t i = 0; i < dims.size(); i++)
		{
			uint32_t	d = dims[i];
			Rows		rows = random_rows(n, d);
			double		eps = eps_for(rows, selectivity);
			Timing		t = time_join(rows, eps, runs);
			double		cublas = time_cublas(rows, runs);
			double		flop = 2.0 * n * n * d * 1e-12;
			const FastedStats &s = t.outcome.stats;

			printf("%6u %9.3f %8.1f %8.3f %8.3f %8.1f %8.1f %9.3f %8.1f %6.2f  "
				   "%llu, %llu, %llu, %s\n", d, t.filter * 1e3, flop / t.filter,
				   t.refine * 1e3, t.prepare * 1e3, t.stage * 1e3, t.wall * 1e3,
				   cublas * 1e3, flop / cublas, cublas / t.filter,
				   (unsigned long long) s.pairs, (unsigned long long) s.candidates,
				   (unsigned long long) s.redone_units, s.kernel);
			fflush(stdout);
			if (json)
				fprintf(json, "%s\n  {\"d\": %u, \"eps\": %.9g, \"filter_ms\": %.4f, "
						"\"filter_tflops\": %.1f, \"refine_ms\": %.4f, \"prepare_ms\": %.4f, "
						"\"stage_ms\": %.2f, \"wall_ms\": %.2f, \"cublas_ms\": %.4f, "
						"\"cublas_tflops\": %.1f, \"ratio\": %.3f, \"pairs\": %llu, "
						"\"candidates\": %llu, \"redone_units\": %llu, \"kernel\": \"%s\"}",
						i ? "," : "", d, eps, t.filter * 1e3, flop / t.filter,
						t.refine * 1e3, t.prepare * 1e3, t.stage * 1e3, t.wall * 1e3,
						cublas * 1e3, flop / cublas, cublas / t.filter,
						(unsigned long long) s.pairs, (unsigned long long) s.candidates,
						(unsigned long long) s.redone_units, s.kernel);
		}
		if (json)
		{
			fprintf(json, "\n]}\n");
			fclose(json);
		}
	}
	catch (const fasted::Failure &failure)
	{
		fprintf(stderr, "%s\n", failure.text);
		return 1;
	}
	return 0;
}
