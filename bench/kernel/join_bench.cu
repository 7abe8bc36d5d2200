/*-------------------------------------------------------------------------
 *
 * join_bench.cu
 *	  Compare the join on the device, including the recheck, with cuBLAS, on a
 *	  million rows.
 *
 *	join_bench [--n N,N,...] [--d D,D,...] [--runs R]
 *			   [--filters int8,fp16,auto,fp64,pruned,short64,short128]
 *			   [--data clustered|outliers|isotropic|gist|tiny] [--selectivity S]
 *			   [--gemm fp16,fp64|none] [--kernel mma.sync|wgmma] [--output count]
 *			   [--json FILE]
 *
 * The filter "auto" is chosen by the engine.  With "pruned", the engine may also
 * choose projected rows.  "short64" and "short128" are projected rows of 64 and 128
 * dimensions.
 *
 * The rows are generated on the device.  The time of a join runs from the first
 * kernel of the filter to the last kernel of the recheck.  Pairs are copied to the
 * host during this time.  The quantization of the rows has a column of its own.
 * TFLOPS are 2 n n d / t, where t is the sum of both times.
 *
 * For each D, with the last N, cuBLAS computes products of blocks of 32768 x 32768
 * rows.  The ratio compares the join with cuBLAS in FP16.  A hash of the pairs
 * checks that all filters give the same pairs.
 *
 *-------------------------------------------------------------------------
 */
#include <cublas_v2.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#include "device_rows.cuh"
#include "numbers.h"
#include "schedule/choice.h"
#include "schedule/context.h"
#include "schedule/rounds.h"

using namespace fasted;
using bench::median;
using bench::split;

namespace
{

struct Options
{
	std::vector<std::string> sizes = {"1000000"};
	std::vector<std::string> dims = {"128", "256", "512", "960", "1536", "2048"};
	std::vector<std::string> filters = {"int8", "fp16"};
	std::string gemm = "fp16";
	int			runs = 5;
	double		selectivity = 64;
	std::string data = "clustered";
	bool		count = false;	/* count the pairs on the device */
	FILE	   *json = nullptr;
};

/* The times of each run, in seconds, and facts about the last run. */
struct Result
{
	std::vector<double> choose;
	std::vector<double> quantise;
	std::vector<double> filter;
	std::vector<double> refine;
	std::vector<double> device;
	FastedStats totals;
	uint64_t	hash = 0;
	Choice		choice;			/* without its form */
	uint32_t	width = 0;		/* dimensions of projected rows */
	bool		chose_int8 = false;

	double seconds() const { return median(quantise) + median(device); }
};

/* Rates of cuBLAS in TFLOPS; zero if not measured. */
struct GemmRates
{
	double		fp16 = 0;
	double		fp64 = 0;
};

uint64_t
hash_pairs(const FastedBatch &batch)
{
	uint64_t	sum = 0;

	for (size_t i = 0; i < batch.npairs; i++)
	{
		const FastedPair &p = batch.pairs[i];
		uint64_t	x;

		memcpy(&x, &p.dist, 8);
		x ^= ((uint64_t) p.a << 32 | p.b) * 0x9E3779B97F4A7C15;
		sum += (x ^ x >> 31) * 0xBF58476D1CE4E5B9;
	}
	return sum;
}

struct OneRun
{
	double		choose = 0;		/* seconds of the first choice of a form */
	double		quantise = 0;	/* seconds of the quantization */
	FastedStats totals;
	uint64_t	hash = 0;
	Choice		choice;
	bool		chose_int8 = false;
	uint32_t	width = 0;		/* dimensions of projected rows */
};

/* One join, from the quantization to the last pair. */
class OneJoin
{
public:
	OneJoin(const bench::DeviceRows &rows, double eps, const std::string &filter, bool count)
		: rows_(rows.table()), eps_(eps), count_(count), settings_(settings_for(rows_, filter)),
		chooser_(budget_, settings_, true)
	{
		budget_.limit = SIZE_MAX;
		stream_.create();
		filter_.allocate(budget_, rows_.rows, settings_.row_bytes, kMostFolded);
		rounds_.allocate(budget_, settings_, (size_t) 8 << 20);
		choose_ = filter != "int8" && filter != "fp16" && filter != "fp64";
	}

	void run(OneRun *result)
	{
		Event		begin;
		Event		end;
		FastedBatch batch;

		/* Choose once before the timed part, as in a context that has joined before. */
		auto		before = std::chrono::steady_clock::now();

		chooser_.choose(request(), stream_);
		check_cuda(cudaStreamSynchronize(stream_), "choosing a form");
		result->choose = std::chrono::duration<double>(std::chrono::steady_clock::now()
													   - before).count();
		begin.record(stream_);
		quantise(result);
		end.record(stream_);
		rounds_.begin(task(), stream_);
		while (!rounds_.finished())
		{
			bool		any = false;

			rounds_.pump();
			while (rounds_.next_batch(&batch))
			{
				result->hash += hash_pairs(batch);
				rounds_.pump();
				any = true;
			}
			if (!any)
				usleep(10);
		}
		result->totals = rounds_.totals();
		result->quantise = end.seconds_since(begin);
	}

private:
	static RoundSettings settings_for(const RowTable &rows, const std::string &filter)
	{
		RoundSettings settings = {};

		settings.device = find_device();
		settings.kernel = filter != "fp64" && filter_wgmma_available(settings.device)
			&& (tuning.kernel == nullptr || strcmp(tuning.kernel, "wgmma") == 0) ? Kernel::kWgmma : Kernel::kMma;
		settings.dimensions = rows.dimensions;
		settings.precision = filter == "int8" ? Precision::kInt8
			: filter == "fp64" ? Precision::kFp32 : Precision::kFp16;

		/* If the filter is not chosen yet, use the row size of FP16, which is larger. */
		settings.row_bytes = row_bytes(rows.dimensions, filter == "fp64" ? Precision::kFp32
									   : Precision::kFp16);
		if (filter == "pruned" || filter == "short64" || filter == "short128")
			settings.projected_bytes = (size_t) 32 << 20;
		settings.forced_width = filter == "short64" ? 64 : filter == "short128" ? 128 : 0;
		return settings;
	}

	bool folds() const
	{
		return settings_.kernel == Kernel::kWgmma && tuning.kernel == nullptr;
	}

	FormRequest request() const
	{
		FormedRows	rows = {rows_, 1, nullptr};

		FormRequest request = {rows, rows, true, false, eps_, choose_,
			settings_.precision};

		request.folds = folds();
		return request;
	}

	void quantise(OneRun *result)
	{
		result->choice = chooser_.choose(request(), stream_);
		settings_.precision = result->choice.form->precision();
		settings_.row_bytes = result->choice.form->row_bytes(rows_.dimensions);
		result->width = result->choice.form->kind().width;
		rounds_.set_filter(settings_.precision, settings_.row_bytes);
		filter_.quantise(result->choice.form, rows_, true, stream_);
		filter_.set_eps(eps_, stream_);
		if (folds())
			filter_.fold(stream_);
		/* the form is released with this join */
		result->choice.form.reset();
		result->chose_int8 = choose_ && settings_.precision == Precision::kInt8;
	}

	JoinTask task() const
	{
		JoinTask	task = {};

		task.a = {rows_, filter_.get()};
		task.a.table.order = filter_.order();
		task.b = task.a;
		task.self = true;
		task.eps = eps_;
		task.keep_pairs = !count_;
		return task;
	}

	RowTable	rows_;
	double		eps_;
	bool		count_;
	RoundSettings settings_;
	Budget		budget_;
	Stream		stream_;
	FormChooser chooser_;
	FilterRows	filter_;
	Rounds		rounds_;
	bool		choose_;
};

Result
time_join(const bench::DeviceRows &rows, double eps, const std::string &filter, int runs,
		  bool count)
{
	Result		result;

	for (int run = 0; run <= runs; run++)
	{
		OneRun		one;

		OneJoin(rows, eps, filter, count).run(&one);
		if (run == 0 && runs > 1)
			continue;			/* warm-up */
		result.choose.push_back(one.choose);
		result.quantise.push_back(one.quantise);
		result.filter.push_back(one.totals.filter_seconds);
		result.refine.push_back(one.totals.refine_seconds);
		result.device.push_back(one.totals.device_seconds);
		result.totals = one.totals;
		result.hash = count ? one.totals.pairs : one.hash;
		result.choice = one.choice;
		result.chose_int8 = one.chose_int8;
		result.width = one.width;
	}
	return result;
}

template <class T>
__global__ void
convert(const float *from, T *to, size_t count)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
		to[i] = (T) from[i];
}

/*
 * Returns the rate at which cuBLAS multiplies blocks, in TFLOPS.  T is the type of
 * the input and of the result, and Scale is that of the scaling factors.
 */
template <class T, class Scale>
double
cublas_tflops(const bench::DeviceRows &rows, cudaDataType type, cublasComputeType_t compute,
			  double expected_tflops)
{
	RowTable	table = rows.table();
	uint32_t	block = std::min(32768u, table.rows);
	uint32_t	blocks = std::min(table.rows / block, 8u);
	uint32_t	d = table.dimensions;
	double		flop = 2.0 * block * block * d;
	int			products = std::max(1, (int) (0.2 * expected_tflops * 1e12 / flop));
	Budget		budget;
	DeviceArray<T> values;
	DeviceArray<T> out;
	cublasHandle_t handle;
	std::vector<double> rates;
	Scale		one = 1;
	Scale		zero = 0;

	budget.limit = SIZE_MAX;
	values.allocate(budget, (size_t) blocks * block * d, "setting up cuBLAS");
	out.allocate(budget, (size_t) block * block, "setting up cuBLAS");
	convert<<<4096, 256>>>(rows.values(), values.get(), (size_t) blocks * block * d);
	cublasCreate(&handle);
	for (int run = 0; run < 6; run++)
	{
		Event		begin;
		Event		end;

		begin.record(nullptr);
		for (int i = 0; i < products; i++)
		{
			cublasStatus_t status =
				cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, block, block, d, &one,
							 values.get() + (size_t) (i % blocks) * block * d, type, d,
							 values.get() + (size_t) (i * 7 / 3 % blocks) * block * d, type, d,
							 &zero, out.get(), type, block, compute, CUBLAS_GEMM_DEFAULT);

			if (status != CUBLAS_STATUS_SUCCESS)
			{
				fprintf(stderr, "cuBLAS failed: %d\n", (int) status);
				exit(1);
			}
		}
		end.record(nullptr);
		end.wait("computing products by cuBLAS");
		if (run > 0)
			rates.push_back(products * flop / end.seconds_since(begin) * 1e-12);
	}
	cublasDestroy(handle);
	return median(rates);
}

GemmRates
gemm_rates(const Options &o, const bench::DeviceRows &rows)
{
	GemmRates	rates;

	if (o.gemm.find("fp16") != std::string::npos)
		rates.fp16 = cublas_tflops<__half, float>(rows, CUDA_R_16F, CUBLAS_COMPUTE_32F, 600);
	if (o.gemm.find("fp64") != std::string::npos)
		rates.fp64 = cublas_tflops<double, double>(rows, CUDA_R_64F, CUBLAS_COMPUTE_64F, 60);
	return rates;
}

void
print_seconds(FILE *file, const char *name, const std::vector<double> &seconds)
{
	fprintf(file, ", \"%s\": [", name);
	for (size_t i = 0; i < seconds.size(); i++)
		fprintf(file, "%s%.9g", i ? ", " : "", seconds[i]);
	fprintf(file, "]");
}

/* One line of the results. */
struct Row
{
	uint32_t	n;
	uint32_t	d;
	double		eps;
	std::string filter;
	GemmRates	gemm;
	bool		same;			/* same pairs as the previous filter */
};

void
print_json(FILE *file, const Row &row, const Result &r, bool first)
{
	double		tflops = 2.0 * row.n * row.n * row.d * 1e-12 / r.seconds();

	fprintf(file, "%s\n  {\"n\": %u, \"d\": %u, \"eps\": %.9g, \"filter\": \"%s\"", first ? "" : ",",
			row.n, row.d, row.eps, row.filter.c_str());
	print_seconds(file, "quantise_s", r.quantise);
	print_seconds(file, "device_s", r.device);
	print_seconds(file, "filter_s", r.filter);
	print_seconds(file, "refine_s", r.refine);
	fprintf(file, ", \"tflops\": %.1f, \"cublas_tflops\": %.1f, \"cublas_fp64_tflops\": %.1f, "
			"\"ratio\": %.3f, \"pairs\": %llu, \"candidates\": %llu, \"redone_units\": %llu, "
			"\"same_pairs\": %s}", tflops, row.gemm.fp16, row.gemm.fp64,
			row.gemm.fp16 > 0 ? tflops / row.gemm.fp16 : 0,
			(unsigned long long) r.totals.pairs, (unsigned long long) r.totals.candidates,
			(unsigned long long) r.totals.redone_units, row.same ? "true" : "false");
	fflush(file);
}

void
print_row(const Row &row, const Result &r)
{
	double		tflops = 2.0 * row.n * row.n * row.d * 1e-12 / r.seconds();

	printf("%8u %6u %6s %9.2f %9.2f %9.2f %9.2f  %7.1f %7.1f %6.2f  %llu pairs, %.2f candidates per pair, "
		   "%llu repeated units, %.2f to %.2f ms, first choice %.2f ms, %s%s", row.n, row.d, row.filter.c_str(), median(r.quantise) * 1e3,
		   median(r.device) * 1e3, median(r.filter) * 1e3, median(r.refine) * 1e3, tflops,
		   row.gemm.fp16, row.gemm.fp16 > 0 ? tflops / row.gemm.fp16 : 0,
		   (unsigned long long) r.totals.pairs,
		   (double) r.totals.candidates / std::max<uint64_t>(1, r.totals.pairs),
		   (unsigned long long) r.totals.redone_units,
		   *std::min_element(r.device.begin(), r.device.end()) * 1e3,
		   *std::max_element(r.device.begin(), r.device.end()) * 1e3, median(r.choose) * 1e3,
		   row.same ? "same pairs" : "DIFFERENT PAIRS",
		   r.chose_int8 ? ", chose int8" : "");
	if (r.width > 0)
		printf(", projected to %u dimensions", r.width);
	if (r.choice.sampled)
		printf(" (sample: %llu pairs, %llu candidates)", (unsigned long long) r.choice.pairs,
			   (unsigned long long) r.choice.candidates);
	printf("\n");
	fflush(stdout);
}

Options
read_options(int argc, char **argv)
{
	Options		o;

	for (int i = 1; i + 1 < argc; i += 2)
	{
		std::string key = argv[i];
		const char *value = argv[i + 1];

		if (key == "--n")
			o.sizes = split(value);
		else if (key == "--runs")
			o.runs = atoi(value);
		else if (key == "--d")
			o.dims = split(value);
		else if (key == "--filters")
			o.filters = split(value);
		else if (key == "--data")
			o.data = value;
		else if (key == "--selectivity")
			o.selectivity = atof(value);
		else if (key == "--gemm")
			o.gemm = value;
		else if (key == "--output")
			o.count = strcmp(value, "count") == 0;
		else if (key == "--kernel")
			tuning.kernel = value;
		else if (key == "--json")
			o.json = fopen(value, "w");
		else
		{
			fprintf(stderr, "unknown option %s\n", argv[i]);
			exit(2);
		}
	}
	return o;
}

/* Joins rows of one shape with all filters; returns whether all gave the same pairs. */
bool
join_shape(const Options &o, uint32_t n, uint32_t d, bool with_gemm, bool *first)
{
	bench::DeviceRows rows(o.data, n, d);
	double		eps = rows.eps_for(o.selectivity);
	GemmRates	gemm = with_gemm ? gemm_rates(o, rows) : GemmRates{};
	uint64_t	hash = 0;
	bool		all_same = true;

	for (const std::string &filter : o.filters)
	{
		Result		result = time_join(rows, eps, filter, o.runs, o.count);
		Row			row = {n, d, eps, filter, gemm, hash == 0 || hash == result.hash};

		hash = result.hash;
		all_same &= row.same;
		print_row(row, result);
		if (o.json)
			print_json(o.json, row, result, *first);
		*first = false;
	}
	return all_same;
}

}								/* namespace */

int
main(int argc, char **argv)
{
	Options		o = read_options(argc, argv);
	bool		first = true;
	bool		all_same = true;

	try
	{
		Device		device = find_device();

		printf("%s, %s, S = %g; times in ms, medians of %d\n", device.name, o.data.c_str(),
			   o.selectivity, o.runs);
		printf("%8s %6s %6s %9s %9s %9s %9s  %7s %7s %6s\n", "n", "d", "", "quantize", "join", "filter",
			   "recheck", "TFLOPS", "cuBLAS", "ratio");
		if (o.json)
			fprintf(o.json, "{\"device\": \"%s\", \"data\": \"%s\", \"selectivity\": %g, "
					"\"runs\": %d, \"rows\": [", device.name, o.data.c_str(), o.selectivity, o.runs);
		/* The rate of cuBLAS does not depend on the number of rows, so it is measured only with the last one. */
		for (const std::string &size : o.sizes)
		{
			for (const std::string &dimension : o.dims)
				all_same &= join_shape(o, atoi(size.c_str()), atoi(dimension.c_str()),
									   size == o.sizes.back(), &first);
		}
		if (o.json)
		{
			fprintf(o.json, "\n]}\n");
			fclose(o.json);
		}
	}
	catch (const Failure &failure)
	{
		fprintf(stderr, "%s\n", failure.text);
		return 1;
	}
	return all_same ? 0 : 1;
}
