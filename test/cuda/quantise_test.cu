/*-------------------------------------------------------------------------
 *
 * quantise_test.cu
 *	  INT8 rows made by the GPU satisfy doc/internals/bound-int8.md.
 *
 *	quantise_test			all checks, and the time that quantizing takes
 *	quantise_test --lost	succeeds if pairs are lost, for a build without rho
 *
 * All checks run on the host, with the returned rows and thresholds and the canonical distances.
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>
#include <cstring>
#include <string>

#include "filter/filter.h"
#include "oracle.h"
#include "rows/form.h"
#include "rows/filter_rows.h"
#include "tap.h"

using namespace fasted;

namespace
{

enum class Kind
{
	kNormal,
	kClustered,
	kOffset,
	kOutliers,
	kMixed,
	kHuge,
	kTiny,
	kEqual,
	kBytes,
	kSignedBytes,
	kAlmostBytes
};

struct Named
{
	Kind		kind;
	const char *name;
	bool		lossless;
};

constexpr Named kKinds[] = {
	{Kind::kNormal, "normal", false},
	{Kind::kClustered, "clustered", false},
	{Kind::kOffset, "offset", false},
	{Kind::kOutliers, "outliers", false},
	{Kind::kMixed, "mixed magnitudes", false},
	{Kind::kHuge, "huge", false},
	{Kind::kTiny, "tiny", false},
	{Kind::kEqual, "all equal", false},
	{Kind::kBytes, "bytes", true},
	{Kind::kSignedBytes, "signed bytes", true},
	{Kind::kAlmostBytes, "near bytes", false},
};

Rows
make_rows(Kind kind, uint32_t n, uint32_t d)
{
	Rows		rows(n, d);
	Normal		normal(n * 31 + d * 7 + (int) kind);

	for (uint32_t i = 0; i < n; i++)
	{
		float	   *row = rows.row(i);
		const float *hub = rows.row(i % 8);
		float		size = std::ldexp(1.0f, (int) (normal.bits() % 40) - 20);

		for (uint32_t k = 0; k < d; k++)
		{
			float		v = normal();

			switch (kind)
			{
				case Kind::kNormal: row[k] = v; break;
				case Kind::kClustered: row[k] = i < 8 ? v : hub[k] + 0.1f * v; break;
				case Kind::kOffset: row[k] = 1000.0f + k + (i < 8 ? v : 0.01f * v); break;
				case Kind::kOutliers: row[k] = i % 50 == 7 ? 1e6f * v : v; break;
				case Kind::kMixed: row[k] = v * size; break;
				case Kind::kHuge: row[k] = (v > 0 ? 1.0f : -1.0f) * 3.3e38f; break;
				case Kind::kTiny: row[k] = v * 1e-42f; break;
				case Kind::kEqual: row[k] = 0.3f; break;
				case Kind::kBytes:
					row[k] = i < 8 || normal.bits() % 4 == 0
						? (float) (normal.bits() % 256) : hub[k];
					break;
				case Kind::kSignedBytes:
					row[k] = (float) ((int) (normal.bits() % 256) - 128);
					break;
				case Kind::kAlmostBytes:
					row[k] = (float) (normal.bits() % 256);
					if (i == 11 && k == d / 2)
						row[k] = 17.25f;
					break;
			}
		}
	}
	return rows;
}

/* Rows on the device, in chunks. */
struct DeviceRows
{
	Budget		budget;
	DeviceArray<float> values;
	DeviceArray<const float *> chunks;
	RowTable	table;

	DeviceRows(uint32_t n, uint32_t d, uint32_t shift)
	{
		uint32_t	count = (n >> shift) + 1;
		std::vector<const float *> pointers(count);

		values.allocate(budget, (size_t) n * d, "testing");
		chunks.allocate(budget, count, "testing");
		for (uint32_t c = 0; c < count; c++)
			pointers[c] = values.get() + ((size_t) c << shift) * d;
		check_cuda(cudaMemcpy(chunks.get(), pointers.data(), count * sizeof(float *),
							  cudaMemcpyHostToDevice), "testing");
		table = RowTable{chunks.get(), shift, d, n};
	}

	DeviceRows(const Rows &rows, uint32_t shift) : DeviceRows(rows.n, rows.d, shift)
	{
		check_cuda(cudaMemcpy(values.get(), rows.values.data(),
							  rows.values.size() * sizeof(float), cudaMemcpyHostToDevice),
				   "testing");
		/* the copy may still be running, and streams do not wait for it */
		check_cuda(cudaDeviceSynchronize(), "testing");
	}
};

/* The quantized rows on the host. */
struct Result
{
	uint32_t	row_bytes;
	std::vector<int8_t> values;
	std::vector<int32_t> thresholds;
	std::vector<float> centre;
	Int8Scale	scale;

	const int8_t *row(uint32_t i) const { return values.data() + (size_t) i * row_bytes; }
};

template <typename T>
std::vector<T>
copy_back(const void *from, size_t count)
{
	std::vector<T> to(count);

	check_cuda(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost),
			   "testing");
	return to;
}

FormBound
bound_of(const Int8Transform &transform, uint32_t dimensions)
{
	return {Precision::kInt8, dimensions, FASTED_METRIC_L2, nullptr, transform.scale(), 0};
}

Result
quantise(const DeviceRows &rows, const Int8Transform &transform, double eps)
{
	Budget		budget;
	Result		result;
	uint32_t	n = rows.table.rows;
	DeviceArray<int8_t> values;
	DeviceArray<RowNorm> norms;
	DeviceArray<uint32_t> thresholds;

	result.row_bytes = row_bytes(rows.table.dimensions, Precision::kInt8);
	values.allocate(budget, (size_t) n * result.row_bytes, "testing");
	norms.allocate(budget, n, "testing");
	thresholds.allocate(budget, padded_thresholds(n), "testing");
	check_cuda(cudaMemset(values.get(), 0x55, (size_t) n * result.row_bytes), "testing");
	launch_quantise_int8(rows.table, transform, result.row_bytes, values.get(), norms.get(), 0);
	launch_thresholds(norms.get(), n, bound_of(transform, rows.table.dimensions), eps,
					  thresholds.get(), 0);
	result.values = copy_back<int8_t>(values.get(), (size_t) n * result.row_bytes);
	result.thresholds = copy_back<int32_t>(thresholds.get(), padded_thresholds(n));
	result.centre = copy_back<float>(transform.centre(), rows.table.dimensions);
	result.scale = copy_back<Int8Scale>(transform.scale(), 1)[0];
	return result;
}

/* Returns products[a * n + b] for a < b. */
std::vector<int32_t>
all_products(const Result &result, uint32_t n)
{
	std::vector<int32_t> products((size_t) n * n);

	parallel(n, [&](uint32_t a)
	{
		for (uint32_t b = a + 1; b < n; b++)
		{
			int32_t		sum = 0;

			for (uint32_t k = 0; k < result.row_bytes; k++)
				sum += result.row(a)[k] * result.row(b)[k];
			products[(size_t) a * n + b] = sum;
		}
	});
	return products;
}

/* Returns zero, exact distances of pairs, and a value above all. */
std::vector<double>
some_eps(const std::vector<double> &distances)
{
	std::vector<double> sorted;
	std::vector<double> eps = {0.0};

	for (double distance : distances)
		if (std::isfinite(distance))
			sorted.push_back(distance);
	if (sorted.empty())
		return eps;
	std::sort(sorted.begin(), sorted.end());
	for (double part : {0.0, 0.001, 0.02, 0.3, 1.0})
		eps.push_back(sorted[(size_t) (part * (sorted.size() - 1))]);
	eps.push_back(sorted.back() * 10);
	return eps;
}

struct Count
{
	uint64_t	pairs = 0;
	uint64_t	candidates = 0;
	uint64_t	lost = 0;
	uint64_t	overflows = 0;
	uint64_t	needless = 0;	/* more than rounding down two thresholds explains */
};

Count
count_pairs(const Result &result, const std::vector<int32_t> &products,
			const std::vector<double> &distances, uint32_t n, double eps)
{
	Count		count;

	for (uint32_t a = 0; a < n; a++)
	{
		for (uint32_t b = a + 1; b < n; b++)
		{
			size_t		at = (size_t) a * n + b;
			int64_t		left = (int64_t) products[at] - result.thresholds[b];
			int64_t		right = (int64_t) products[at] - result.thresholds[a];
			bool		candidate = left >= result.thresholds[a];
			bool		pair = distances[at] <= eps;

			count.pairs += pair;
			count.candidates += candidate;
			count.lost += pair && !(candidate && right >= result.thresholds[b]);
			count.overflows += left != (int32_t) left || right != (int32_t) right;
			count.needless += candidate
				&& distances[at] * distances[at] > eps * eps * (1 + 1e-11) + 4;
		}
	}
	return count;
}

bool
padding_is_good(const Result &result, uint32_t n)
{
	for (size_t i = n; i < result.thresholds.size(); i++)
		if (result.thresholds[i] != kInt8Padding)
			return false;
	for (uint32_t i = 0; i < n; i++)
		if (result.thresholds[i] < kInt8Every || result.thresholds[i] > 1 << 28)
			return false;
	return true;
}

/* Checks that q = x - c, followed by zeros. */
bool
is_exact(const Result &result, const Rows &rows)
{
	for (uint32_t i = 0; i < rows.n; i++)
	{
		for (uint32_t k = 0; k < result.row_bytes; k++)
		{
			float		expected = k < rows.d ? rows.row(i)[k] - result.centre[k] : 0;

			if (result.row(i)[k] != expected)
				return false;
		}
	}
	return true;
}

/* Mean of ||q_x - q_y||^2 / (s distance)^2: about 1, because of the rounding. */
double
stretch(const Result &result, const std::vector<double> &distances, uint32_t n)
{
	double		sum = 0;
	uint64_t	count = 0;

	for (uint32_t a = 0; a < n; a++)
	{
		for (uint32_t b = a + 1; b < n; b += 7)
		{
			double		square = 0;
			double		distance = distances[(size_t) a * n + b] * result.scale.scale;

			for (uint32_t k = 0; k < result.row_bytes; k++)
			{
				double		difference = result.row(a)[k] - result.row(b)[k];

				square += difference * difference;
			}
			sum += square / (distance * distance);
			count++;
		}
	}
	return sum / count;
}

/* Runs all checks on one set of rows; returns the number of lost pairs. */
uint64_t
check_rows(const Named &named, uint32_t n, uint32_t d)
{
	Rows		rows = make_rows(named.kind, n, d);
	DeviceRows	on_device(rows, 5);
	Budget		budget;
	Int8Transform transform;
	std::vector<double> distances = all_distances(rows);
	std::vector<int32_t> products;
	Count		total;
	Result		first;
	bool		same = true;
	bool		padding = true;
	double		eps_in_hand = 0;
	double		ratio = 0;

	transform.allocate(budget, d);
	same = same && budget.used == bytes_of<Int8Transform>(d);
	transform.find(SampledRows(on_device.table), 0);
	for (double eps : some_eps(distances))
	{
		Result		result = quantise(on_device, transform, eps);
		Count		count;

		if (products.empty())
		{
			first = result;
			products = all_products(result, n);
		}
		same = same && result.values == first.values;
		padding = padding && padding_is_good(result, n);
		count = count_pairs(result, products, distances, n, eps);
		total.lost += count.lost;
		total.overflows += count.overflows;
		total.needless += count.needless;
		if (count.pairs > 0 && count.pairs < (uint64_t) n * n / 20)
		{
			eps_in_hand = eps;
			ratio = (double) count.candidates / count.pairs;
		}
	}

	/* computed again from the same rows */
	transform.find(SampledRows(on_device.table), 0);
	same = same && quantise(on_device, transform, 0).values == first.values;

	tap::ok(total.lost == 0, "d = %u, %s: %llu pairs lost (scale %g, at eps %g %.2f per pair)",
			d, named.name, (unsigned long long) total.lost, first.scale.scale, eps_in_hand, ratio);
	if (total.overflows > 0 || !padding || !same)
		tap::ok(false, "d = %u, %s: %llu overflows, padding %d, deterministic %d", d,
				named.name, (unsigned long long) total.overflows, padding, same);
	if (named.lossless != (first.scale.lossless != 0))
		tap::ok(false, "d = %u, %s: lossless %u", d, named.name, first.scale.lossless);
	if (named.lossless)
		tap::ok(is_exact(first, rows) && total.needless == 0 && first.scale.scale == 1,
				"d = %u, %s: exact, and %llu needless candidates", d, named.name,
				(unsigned long long) total.needless);
	if (named.kind == Kind::kNormal && d >= 31 && n >= 50)
	{
		double		stretched = stretch(first, distances, n);

		tap::ok(stretched > 0.97 && stretched < 1.03,
				"d = %u: squared distances are scaled by %.4f on average", d, stretched);
	}
	return total.lost;
}

/* Rows out of the sample's range are clamped, and not lost. */
void
check_beyond_sample()
{
	Rows		sampled = make_rows(Kind::kBytes, 300, 100);
	Rows		later = make_rows(Kind::kOutliers, 300, 100);
	std::vector<double> distances;
	Budget		budget;
	Int8Transform transform;

	for (uint32_t i = 0; i < 300; i++)
		for (uint32_t k = 0; k < 100; k++)
			later.row(i)[k] = i < 100 ? sampled.row(i)[k] + (i % 3 == 0 ? 0.25f * (k == i) : 0)
				: i < 200 ? sampled.row(i)[k] * 1.5f : later.row(i)[k];
	later.row(299)[3] = 3.4e38f;
	later.row(298)[3] = -3.4e38f;
	distances = all_distances(later);

	DeviceRows	first(sampled, 5);
	DeviceRows	second(later, 5);
	Count		total;

	transform.allocate(budget, 100);
	transform.find(SampledRows(first.table), 0);
	for (double eps : some_eps(distances))
	{
		Result		result = quantise(second, transform, eps);

		total.lost += count_pairs(result, all_products(result, 300), distances, 300, eps).lost;
	}
	tap::ok(total.lost == 0, "rows unlike the sample: %llu pairs lost",
			(unsigned long long) total.lost);
}

/* The sample has the expected number of rows, one per stratum, in order. */
void
check_sample(uint32_t n, uint32_t d, uint32_t expected)
{
	Rows		rows(n, d);
	bool		good;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < d; k++)
			rows.row(i)[k] = (float) ((double) i + (double) k / d);

	DeviceRows	on_device(rows, 7);
	Budget		budget;
	RowSample	sample;

	sample.allocate(budget, d);
	sample.take(SampledRows(on_device.table), 0);

	RowTable	table = sample.table(0);

	good = table.rows == expected && table.dimensions == d
		&& budget.used == bytes_of<RowSample>(d);
	if (good)
	{
		const float *chunk = copy_back<const float *>(table.chunks, 1)[0];
		std::vector<float> values = copy_back<float>(chunk, (size_t) expected * d);

		for (uint32_t i = 0; i < expected; i++)
		{
			uint32_t	from = (uint32_t) values[(size_t) i * d];

			good = good && from >= (uint64_t) i * n / expected
				&& from < (uint64_t) (i + 1) * n / expected
				&& memcmp(&values[(size_t) i * d], rows.row(from), d * sizeof(float)) == 0;
		}
	}
	tap::ok(good, "sample of %u of %u rows, %u dimensions", table.rows, n, d);
}

/* A sample of two sets: half from each, or all rows of a small set. */
void
check_sample_of_two(uint32_t na, uint32_t nb, uint32_t from_a, uint32_t from_b)
{
	Rows		a(na, 3);
	Rows		b(nb, 3);
	Budget		budget;
	RowSample	sample;
	bool		good;

	for (uint32_t i = 0; i < std::max(na, nb); i++)
		for (uint32_t k = 0; k < 3; k++)
		{
			if (i < na)
				a.row(i)[k] = 10.0f * i + k;
			if (i < nb)
				b.row(i)[k] = -10.0f * i - k - 1;
		}

	DeviceRows	first(a, 7);
	DeviceRows	second(b, 7);

	sample.allocate(budget, 3);
	sample.take(SampledRows(first.table, second.table), 0);
	good = sample.table(0).rows == from_a && sample.table(1).rows == from_b;
	for (int side = 0; side < 2 && good; side++)
	{
		uint32_t	count = sample.table(side).rows;
		const float *chunk = copy_back<const float *>(sample.table(side).chunks, 1)[0];
		std::vector<float> values = copy_back<float>(chunk, (size_t) count * 3);

		for (uint32_t i = 0; i < count; i++)
		{
			uint32_t	from = (uint32_t) (std::fabs(values[i * 3]) / 10);

			good = good && from < (side == 0 ? na : nb)
				&& memcmp(&values[i * 3], (side == 0 ? a : b).row(from), 3 * sizeof(float)) == 0;
		}
	}
	tap::ok(good, "sample of %u and %u rows: %u and %u", na, nb, sample.table(0).rows,
			sample.table(1).rows);
}

__global__ void
fill_kernel(float *values, size_t count, bool bytes)
{
	for (size_t i = blockIdx.x * (size_t) blockDim.x + threadIdx.x; i < count;
		 i += (size_t) gridDim.x * blockDim.x)
	{
		uint32_t	hash = (uint32_t) i * 0x9e3779b1u;

		hash = (hash ^ hash >> 15) * 0x85ebca77u;
		hash ^= hash >> 13;
		values[i] = bytes ? (float) (hash >> 24) : (float) (int32_t) hash * 0x1p-31f;
	}
}

/* Measures how long quantizing takes, and its memory throughput. */
void
time_quantising(uint32_t n, uint32_t d, bool bytes)
{
	DeviceRows	rows(n, d, 16);
	Budget		budget;
	Int8Transform transform;
	DeviceArray<int8_t> values;
	DeviceArray<RowNorm> norms;
	DeviceArray<uint32_t> thresholds;
	uint32_t	size = row_bytes(d, Precision::kInt8);
	double		moved = (double) n * (4.0 * d + size);
	double		best = 1e9;
	double		finding = 1e9;
	Event		begin;
	Event		found;
	Event		end;

	values.allocate(budget, (size_t) n * size, "testing");
	norms.allocate(budget, n, "testing");
	thresholds.allocate(budget, padded_thresholds(n), "testing");
	transform.allocate(budget, d);
	fill_kernel<<<4096, 256>>>(rows.values.get(), (size_t) n * d, bytes);
	for (int i = 0; i < 6; i++)
	{
		begin.record(0);
		transform.find(SampledRows(rows.table), 0);
		found.record(0);
		launch_quantise_int8(rows.table, transform, size, values.get(), norms.get(), 0);
		launch_thresholds(norms.get(), n, bound_of(transform, d), 0.1, thresholds.get(), 0);
		end.record(0);
		end.wait("testing");
		if (i == 0)
			continue;
		finding = std::min(finding, found.seconds_since(begin));
		best = std::min(best, end.seconds_since(found));
	}
	tap::note("%u x %u%s: %.3f ms, %.0f GB/s; centre and scale %.3f ms", n, d,
			  bytes ? " bytes" : "", best * 1e3, moved / best * 1e-9, finding * 1e3);
}

void
time_all()
{
	time_quantising(1000000, 32, false);
	time_quantising(1000000, 128, false);
	time_quantising(1000000, 128, true);
	time_quantising(1000000, 384, false);
	time_quantising(1000000, 960, false);
	time_quantising(1000000, 960, true);
	time_quantising(1000000, 958, false);
	time_quantising(1000000, 1536, false);
	time_quantising(500000, 2048, false);
	time_quantising(250000, 4096, false);
	time_quantising(30000, 32768, false);
}

int
check_lost()
{
	uint64_t	lost = 0;

	for (uint32_t d : {64, 960, 4096})
		lost += check_rows(kKinds[0], 100, d);
	tap::note("%llu pairs lost", (unsigned long long) lost);
	return lost > 0 ? 0 : 1;
}

void
check_all()
{
	for (uint32_t d : {1, 2, 31, 32, 33, 64, 96, 100, 128, 160, 384, 960, 1000, 1536, 2048,
			4064, 4096, 5000, 20000, 32768})
	{
		for (const Named &named : kKinds)
			check_rows(named, d > 5000 ? 64 : d > 1000 ? 150 : 300, d);
	}
	check_rows(kKinds[0], 1, 100);
	check_rows(kKinds[0], 2, 100);
	check_rows(kKinds[0], 513, 100);
	check_beyond_sample();
	check_sample(1, 3, 1);
	check_sample(4096, 2, 4096);
	check_sample(4097, 2, 4096);
	check_sample(100000, 16, 4096);
	check_sample(3000, 4096, 2048);
	check_sample_of_two(10000, 5000, 2048, 2048);
	check_sample_of_two(1, 5000, 1, 2048);
	check_sample_of_two(300, 200, 300, 200);
}

}								/* namespace */

int
main(int argc, char **argv)
{
	try
	{
		if (argc > 1 && std::string(argv[1]) == "--lost")
			return check_lost();
		check_all();
		time_all();
	}
	catch (const Failure &failure)
	{
		tap::ok(false, "%s", failure.text);
	}
	return tap::done();
}
