/*-------------------------------------------------------------------------
 *
 * join_bench.cu
 *	  The join on the device, recheck included, beside cuBLAS, on a million rows.
 *
 *	join_bench [--n N] [--d D,D,...] [--runs R] [--filters int8,fp16,auto,fp64]
 *			   [--data clustered|isotropic] [--selectivity S]
 *			   [--kernel mma.sync] [--cluster 1|2] [--json FILE]
 *
 * Rows are made on the device.  A time is from the first kernel of the filter to
 * the last of the recheck, while pairs go to the host; quantising the rows is a
 * column of its own and counts too.  TFLOPS are 2 n n d / t.  cuBLAS computes
 * FP16 products of blocks of 32768 x 32768 rows in the same run, and nothing
 * else.  The pairs of all filters are compared by a hash.
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

#include "choice.h"
#include "device_rows.cuh"
#include "join.h"
#include "quantiser.h"
#include "rounds.h"

using namespace fasted;

namespace
{

struct Options
{
	uint32_t	n = 1000000;
	std::vector<std::string> dims = {"128", "256", "512", "960", "1536", "2048"};
	std::vector<std::string> filters = {"int8", "fp16"};
	int			runs = 5;
	double		selectivity = 64;
	std::string data = "clustered";
	FILE	   *json = nullptr;
};

struct Result
{
	double		quantise = 0;	/* seconds; medians */
	double		filter = 0;
	double		refine = 0;
	double		device = 0;
	double		least = 0;		/* of device */
	double		most = 0;
	RoundTotals totals;
	uint64_t	hash = 0;
	Choice		choice;

	double seconds() const { return quantise + device; }
};

double
median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

std::vector<std::string>
split(const char *text)
{
	std::vector<std::string> parts;
	std::string rest = text;

	while (!rest.empty())
	{
		size_t		comma = std::min(rest.find(','), rest.size());

		parts.push_back(rest.substr(0, comma));
		rest = comma < rest.size() ? rest.substr(comma + 1) : "";
	}
	return parts;
}

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

/* One join, from quantising to the last pair. */
class OneJoin
{
public:
	OneJoin(const bench::DeviceRows &rows, double eps, const std::string &filter)
		: rows_(rows.table())
	{
		settings_.device = find_device();
		settings_.kernel = filter == "fp64" ? Kernel::kFp64
			: filter_wgmma_available(settings_.device) && tuning.kernel == nullptr
			? Kernel::kWgmma : Kernel::kMma;
		settings_.eps = eps;
		settings_.dimensions = rows_.dimensions;
		settings_.criterion = filter == "int8" ? Criterion::kInt8 : Criterion::kFp16;
		budget_.limit = SIZE_MAX;
		stream_.create();
		quantiser_.allocate(budget_, rows_.dimensions);
		values_.allocate(budget_, (size_t) rows_.rows * row_bytes(rows_.dimensions, Precision::kFp16),
						 "setting up");
		thresholds_.allocate(budget_, padded_thresholds(rows_.rows), "setting up");
		minima_.allocate(budget_, minima_of(rows_.rows), "setting up");
		order_.allocate(budget_, rows_.rows);
		rounds_.allocate(budget_, settings_, (size_t) 8 << 20);
		choose_ = filter == "auto";
	}

	void run(Result *result)
	{
		JoinSide	side = {rows_, {values_.get(), thresholds_.get(), minima_.get(), rows_.rows}, 0};
		Event		begin;
		Event		end;
		FastedBatch batch;

		begin.record(stream_);
		if (choose_)
		{
			result->choice = choose_filter(budget_, settings_, quantiser_, rows_, stream_);
			settings_.criterion = result->choice.criterion;
		}
		settings_.row_bytes = row_bytes(rows_.dimensions, precision_of(settings_.criterion));
		rounds_.set_filter(settings_.criterion, settings_.row_bytes);
		if (settings_.kernel != Kernel::kFp64)
			quantiser_.quantise(settings_.criterion, rows_, settings_.eps,
								{values_.get(), thresholds_.get(), minima_.get(), &order_}, stream_);
		if (settings_.kernel != Kernel::kFp64)
			side.table.order = order_.get();
		end.record(stream_);
		rounds_.begin(side, side, true, stream_);
		while (!rounds_.finished())
		{
			bool		any = false;

			rounds_.pump();
			while (rounds_.take(&batch))
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
	RowTable	rows_;
	RoundSettings settings_ = {};
	Budget		budget_;
	Stream		stream_;
	Quantiser	quantiser_;
	DeviceArray<uint8_t> values_;
	DeviceArray<uint32_t> thresholds_;
	DeviceArray<uint32_t> minima_;
	RowOrder	order_;
	Rounds		rounds_;
	bool		choose_;
};

Result
time_join(const bench::DeviceRows &rows, double eps, const std::string &filter, int runs)
{
	std::vector<double> quantise, refine, device, filters;
	Result		result;
	bool		slow = filter == "fp64";

	for (int run = slow ? 1 : 0; run <= (slow ? 1 : runs); run++)
	{
		Result		one;

		OneJoin(rows, eps, filter).run(&one);
		if (run == 0 && runs > 1)
			continue;			/* warm-up */
		quantise.push_back(one.quantise);
		filters.push_back(one.totals.filter_seconds);
		refine.push_back(one.totals.refine_seconds);
		device.push_back(one.totals.device_seconds);
		result = one;
	}
	result.quantise = median(quantise);
	result.filter = median(filters);
	result.refine = median(refine);
	result.device = median(device);
	result.least = *std::min_element(device.begin(), device.end());
	result.most = *std::max_element(device.begin(), device.end());
	return result;
}

__global__ void
to_half(const float *from, __half *to, size_t count)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
		to[i] = __float2half(from[i]);
}

/* Products a second (2 flops each, in TFLOPS) of FP16 blocks by cuBLAS. */
double
cublas_tflops(const bench::DeviceRows &rows)
{
	RowTable	table = rows.table();
	uint32_t	block = std::min(32768u, table.rows);
	uint32_t	blocks = table.rows / block;
	uint32_t	d = table.dimensions;
	double		flop = 2.0 * block * block * d;
	int			products = std::max(5, (int) (0.5 * 600e12 / flop));
	Budget		budget;
	DeviceArray<__half> values;
	DeviceArray<__half> out;
	cublasHandle_t handle;
	std::vector<double> rates;
	float		one = 1;
	float		zero = 0;

	budget.limit = SIZE_MAX;
	values.allocate(budget, (size_t) blocks * block * d, "setting up cuBLAS");
	out.allocate(budget, (size_t) block * block, "setting up cuBLAS");
	to_half<<<4096, 256>>>(rows.values(), values.get(), (size_t) blocks * block * d);
	cublasCreate(&handle);
	for (int run = 0; run < 4; run++)
	{
		Event		begin;
		Event		end;

		begin.record(nullptr);
		for (int i = 0; i < products; i++)
			cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, block, block, d, &one,
						 values.get() + (size_t) (i % blocks) * block * d, CUDA_R_16F, d,
						 values.get() + (size_t) (i * 7 / 3 % blocks) * block * d, CUDA_R_16F, d,
						 &zero, out.get(), CUDA_R_16F, block, CUBLAS_COMPUTE_32F,
						 CUBLAS_GEMM_DEFAULT);
		end.record(nullptr);
		end.wait("computing products by cuBLAS");
		if (run > 0)
			rates.push_back(products * flop / end.seconds_since(begin) * 1e-12);
	}
	cublasDestroy(handle);
	return median(rates);
}

void
print_row(const Options &o, uint32_t d, double eps, const std::string &filter,
		  const Result &r, double cublas, bool same, bool *first)
{
	double		flop = 2.0 * o.n * o.n * d * 1e-12;
	double		tflops = flop / r.seconds();

	printf("%6u %6s %9.2f %9.2f %9.2f %9.2f  %7.1f %7.1f %6.2f  %llu pairs, %.2f candidates each, "
		   "%llu redone, %.2f to %.2f ms, %s%s", d, filter.c_str(), r.quantise * 1e3,
		   r.device * 1e3, r.filter * 1e3, r.refine * 1e3, tflops, cublas, tflops / cublas,
		   (unsigned long long) r.totals.pairs,
		   (double) r.totals.candidates / std::max<uint64_t>(1, r.totals.pairs),
		   (unsigned long long) r.totals.redone_units, r.least * 1e3, r.most * 1e3,
		   same ? "same pairs" : "DIFFERENT PAIRS",
		   r.choice.criterion == Criterion::kInt8 ? ", chose int8" : "");
	if (r.choice.sampled)
		printf(" (sample: %llu pairs, candidates %llu int8, %llu fp16)",
			   (unsigned long long) r.choice.pairs,
			   (unsigned long long) r.choice.candidates_int8,
			   (unsigned long long) r.choice.candidates_fp16);
	printf("\n");
	fflush(stdout);
	if (o.json == nullptr)
		return;
	fprintf(o.json, "%s\n  {\"d\": %u, \"eps\": %.9g, \"filter\": \"%s\", \"quantise_ms\": %.4f, "
			"\"device_ms\": %.4f, \"device_ms_least\": %.4f, \"device_ms_most\": %.4f, "
			"\"filter_ms\": %.4f, \"refine_ms\": %.4f, \"tflops\": %.1f, \"cublas_tflops\": %.1f, "
			"\"ratio\": %.3f, \"pairs\": %llu, \"candidates\": %llu, \"redone_units\": %llu, "
			"\"same_pairs\": %s}", *first ? "" : ",", d, eps, filter.c_str(), r.quantise * 1e3,
			r.device * 1e3, r.least * 1e3, r.most * 1e3, r.filter * 1e3, r.refine * 1e3, tflops,
			cublas, tflops / cublas, (unsigned long long) r.totals.pairs,
			(unsigned long long) r.totals.candidates, (unsigned long long) r.totals.redone_units,
			same ? "true" : "false");
	fflush(o.json);
	*first = false;
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
			o.n = atoi(value);
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
		else if (key == "--kernel")
			tuning.kernel = value;
		else if (key == "--cluster")
			wgmma_cluster = atoi(value);
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

		printf("%s, n = %u, %s, S = %g; times in ms, medians of %d\n", device.name, o.n,
			   o.data.c_str(), o.selectivity, o.runs);
		printf("%6s %6s %9s %9s %9s %9s  %7s %7s %6s\n", "d", "", "quantise", "join", "filter",
			   "recheck", "TFLOPS", "cuBLAS", "ratio");
		if (o.json)
			fprintf(o.json, "{\"device\": \"%s\", \"n\": %u, \"data\": \"%s\", "
					"\"selectivity\": %g, \"runs\": %d, \"rows\": [", device.name, o.n,
					o.data.c_str(), o.selectivity, o.runs);
		for (const std::string &dimension : o.dims)
		{
			uint32_t	d = atoi(dimension.c_str());
			bench::DeviceRows rows(o.data, o.n, d);
			double		eps = rows.eps_for(o.selectivity);
			double		cublas = cublas_tflops(rows);
			uint64_t	hash = 0;

			for (const std::string &filter : o.filters)
			{
				Result		result = time_join(rows, eps, filter, o.runs);
				bool		same = hash == 0 || hash == result.hash;

				hash = result.hash;
				all_same &= same;
				print_row(o, d, eps, filter, result, cublas, same, &first);
			}
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
