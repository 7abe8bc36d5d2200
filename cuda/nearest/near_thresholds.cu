/*-------------------------------------------------------------------------
 *
 * near_thresholds.cu
 *	  Thresholds computed from radii (doc/internals/bound-nearest.md, section 3), and a typical
 *	  radius.
 *
 *	  E_x = reach(r_x) + rho_x,  c = usual_rho,  F = max E_x
 *	  X_y = max(0, (rho_y - c) (2 F + rho_y + c))
 *	  own threshold of x = (|x|^2 - (E_x + c)^2) / 2,  of y for lists of x = (|y|^2 - X_y) / 2
 *
 * In a symmetric scan, a level M that ascends with the place moves from the row's threshold to the
 * column's: symmetric_kernel.  Additive metrics (inner products, bits): own_half and other_half.
 *
 *-------------------------------------------------------------------------
 */
#include <cmath>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <vector>

#include "filter/exact_distance.cuh"
#include "nearest/nearest.h"
#include "rows/filter_rows.h"

namespace fasted
{

namespace
{

constexpr int kBlock = 256;
static_assert(kThresholdPad % kBlock == 0, "whole blocks of padding");

/* usual_rho is a quantile of the quantisation errors of kRhoRows sampled rows. */
constexpr uint32_t kRhoRows = 1024;
constexpr uint32_t kRhoPart = 64;	/* one row in 64 exceeds it */

__device__ __forceinline__ bool
is_finite(double value)
{
	return fabs(value) <= DBL_MAX;
}

/* The ratio of H to |x| + |y| for two rows whose Jaccard distance is r < 1. */
__device__ __forceinline__ double
jaccard_share(double r)
{
	return r / (2.0 - r);
}

/* Jaccard distance: computes usual_rho, a typical share; one block of kRhoRows threads. */
__global__ void
__launch_bounds__(kRhoRows)
usual_share_kernel(const NearTask task)
{
	using Reduce = cub::BlockReduce<double, kRhoRows>;
	__shared__ typename Reduce::TempStorage room;
	uint32_t	sampled = min(task.a.table.rows, kRhoRows);
	double		radius = INFINITY;
	double		sum;
	int			count;

	if (threadIdx.x < sampled)
		radius = task.table.radii[fasted_sample_row(threadIdx.x, sampled, task.a.table.rows)];
	count = __syncthreads_count(radius >= 0.0 && radius < 1.0);
	sum = Reduce(room).Sum(radius >= 0.0 && radius < 1.0 ? jaccard_share(radius) : 0.0);
	if (threadIdx.x == 0)
		task.scalars->usual_rho = count == 0 ? 1.0 : sum / count;
}

/*
 * Inner products and rows of bits: the share of a row of a in the squared distance of a pair within
 * its radius, if the share of rows of b is other_half().
 *
 * Jaccard distance: let c = r / (2 - r) for the radius r, and w = usual_rho.  The number H of bits in
 * which the rows differ is at most c (|x| + |y|) = c |x| + (c - w) |y| + w |y|, and |y| lies between
 * (1 - r) |x| and |x| / (1 - r).  The last term is the share of y.
 */
__device__ __forceinline__ double
own_half(const NearTask &task, const RowNorm &norm, double radius)
{
	double		r = radius + 4.0 * FASTED_U64;
	double		c = jaccard_share(r) * (1.0 + 8.0 * FASTED_U64);
	double		more = c - task.scalars->usual_rho;
	double		share = c * norm.rho;

	if (task.form.metric != FASTED_METRIC_JACCARD)
		return task.form.half(norm, 2.0 * radius);
	if (!(r < 1.0))
		return INFINITY;
	more *= more > 0.0 ? norm.rho / (1.0 - r) : norm.rho * (1.0 - r);
	return 4.0 * (share + more) + 64.0 * FASTED_U64 * (share + fabs(more));
}

__device__ __forceinline__ double
other_half(const NearTask &task, const RowNorm &norm)
{
	return task.form.metric == FASTED_METRIC_JACCARD
		? 4.0 * (1.0 + 8.0 * FASTED_U64) * task.scalars->usual_rho * norm.rho
		: task.form.half(norm, 0.0);
}

/* Returns the half of a threshold whose reach has this square. */
__device__ __forceinline__ double
half_of_square(double square)
{
	return fasted_reach_half(0.0, sqrt(2.0 * square) * (1.0 + 16 * FASTED_U64));
}

/* Computes usual_rho; one block of kRhoRows threads. */
__global__ void
__launch_bounds__(kRhoRows)
usual_rho_kernel(const RowNorm *norms, uint32_t rows, NearScalars *scalars)
{
	using Sort = cub::BlockRadixSort<double, kRhoRows, 1>;
	__shared__ typename Sort::TempStorage room;
	__shared__ double sorted[kRhoRows];
	uint32_t	sampled = min(rows, kRhoRows);
	double		rho[1] = {INFINITY};
	int			count;

	if (threadIdx.x < sampled)
	{
		RowNorm		norm = norms[fasted_sample_row(threadIdx.x, sampled, rows)];

		if (norm.norm2 >= 0 && is_finite(norm.rho))
			rho[0] = norm.rho;
	}
	count = __syncthreads_count(is_finite(rho[0]));
	Sort(room).Sort(rho);
	sorted[threadIdx.x] = rho[0];
	__syncthreads();
	if (threadIdx.x == 0)
		scalars->usual_rho = count == 0 ? 0.0 : sorted[count - 1 - count / kRhoPart];
}

/* Returns (E + c)^2 for the row at a place, or infinity if its radius is infinite; *reach is E. */
__device__ __forceinline__ double
square_of_reach(const NearTask &task, uint32_t place, double *reach)
{
	double		r = task.form.reach(task.table.radii[task.a.table.number_at(place)])
		+ task.a.norms[place].rho;
	double		square = (r + task.scalars->usual_rho) * (r + task.scalars->usual_rho)
		* (1.0 + 8 * FASTED_U64);

	*reach = r;
	return is_finite(square) ? square : INFINITY;
}

/* Updates largest_reach.  Nonnegative numbers have the same order as their bits. */
__device__ __forceinline__ void
note_largest(const NearTask &task, double reach)
{
	reach = warp_max(reach);
	if (threadIdx.x % 32 == 0 && reach > task.scalars->largest_reach)
		atomicMax((unsigned long long *) &task.scalars->largest_reach,
				  (unsigned long long) __double_as_longlong(reach));
}

/* Computes the level of the block's places: the 7/8 quantile of their squares. */
__global__ void
__launch_bounds__(kBlock)
level_kernel(const NearTask task)
{
	constexpr int kEach = kLevelRows / kBlock;
	using Sort = cub::BlockRadixSort<float, kBlock, kEach>;
	__shared__ typename Sort::TempStorage room;
	__shared__ float sorted[kLevelRows];
	float		squares[kEach];
	double		largest = 0;
	int			count = 0;

	for (int i = 0; i < kEach; i++)
	{
		uint32_t	place = blockIdx.x * kLevelRows + i * kBlock + threadIdx.x;
		double		reach;

		squares[i] = INFINITY;
		if (place < task.a.table.rows && task.a.norms[place].norm2 >= 0)
		{
			squares[i] = (float) square_of_reach(task, place, &reach);
			if (is_finite(reach))
				largest = fmax(largest, reach);
		}
		count += __syncthreads_count(squares[i] <= FLT_MAX);
	}
	note_largest(task, largest);
	Sort(room).Sort(squares);
	for (int i = 0; i < kEach; i++)
		sorted[threadIdx.x * kEach + i] = squares[i];
	__syncthreads();
	if (threadIdx.x == 0)
		task.levels[blockIdx.x] = count == 0 ? 0.0f : sorted[count - 1 - count / 8];
}

/* Makes levels ascend, by a running maximum; one block. */
__global__ void
__launch_bounds__(kBlock)
raise_kernel(float *levels, uint32_t count)
{
	__shared__ float most[kBlock];
	uint32_t	each = (count + kBlock - 1) / kBlock;
	uint32_t	first = threadIdx.x * each;
	float		level = 0;

	for (uint32_t i = first; i < min(first + each, count); i++)
		level = fmaxf(level, levels[i]);
	most[threadIdx.x] = level;
	__syncthreads();
	level = 0;
	for (uint32_t i = 0; i < threadIdx.x; i++)
		level = fmaxf(level, most[i]);
	for (uint32_t i = first; i < min(first + each, count); i++)
		levels[i] = level = fmaxf(level, levels[i]);
}

/* Computes the thresholds of rows and columns if each pair is compared once, for both lists. */
__global__ void
__launch_bounds__(kBlock)
symmetric_kernel(const NearTask task)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		usual = task.scalars->usual_rho;
	double		largest = task.scalars->largest_reach;
	uint32_t	row = task.form.padding();
	uint32_t	column = row;

	if (place < task.a.table.rows && task.a.norms[place].norm2 >= 0)
	{
		RowNorm		norm = task.a.norms[place];
		double		level = task.levels[place / kLevelRows];
		double		reach;
		double		more = fmax(0.0, square_of_reach(task, place, &reach) - level);

		if (!(norm.rho <= usual))
			more += (norm.rho - usual) * (2.0 * largest + norm.rho + usual);
		row = task.form.threshold(norm.norm2, half_of_square(more));
		column = task.form.threshold(norm.norm2, half_of_square(more + level));
	}
	task.a.thresholds[place] = row;
	task.b.thresholds[place] = column;
}

/* Rows are sorted by buckets of radii of equal size, then by the highest kNormBits of the norm. */
constexpr uint32_t kBuckets = 128;
constexpr int kNormBits = 24;

/* Computes the lower bound of each bucket from a sample; one block of kRhoRows threads. */
__global__ void
__launch_bounds__(kRhoRows)
bucket_kernel(const NearTask task)
{
	using Sort = cub::BlockRadixSort<float, kRhoRows, 1>;
	__shared__ typename Sort::TempStorage room;
	__shared__ float sorted[kRhoRows];
	uint32_t	sampled = min(task.a.table.rows, kRhoRows);
	float		square[1] = {INFINITY};
	double		reach;

	if (threadIdx.x < sampled)
		square[0] = (float) square_of_reach(
			task, fasted_sample_row(threadIdx.x, sampled, task.a.table.rows), &reach);
	Sort(room).Sort(square);
	sorted[threadIdx.x] = square[0];
	__syncthreads();
	if (threadIdx.x < kBuckets)
		task.levels[threadIdx.x] = sorted[threadIdx.x * sampled / kBuckets];
}

/* Computes sort keys: the bucket, then the norm. */
__global__ void
__launch_bounds__(kBlock)
key_kernel(const NearTask task, uint32_t *keys)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		reach;
	float		square;
	uint32_t	bucket = 0;

	if (place >= task.a.table.rows)
		return;
	square = (float) square_of_reach(task, place, &reach);
	for (uint32_t step = kBuckets / 2; step > 0; step /= 2)
	{
		if (task.levels[bucket + step] <= square)
			bucket += step;
	}
	keys[place] = bucket << kNormBits
		| __float_as_uint((float) fmax(0.0, task.a.norms[place].norm2)) >> (31 - kNormBits);
}

/*
 * Returns whether the core distance of a row allows mutual reachability distances up to `radius`.
 * Without components, every row is allowed.
 */
__device__ __forceinline__ bool
core_allows(const NearSide &side, uint32_t place, double radius)
{
	double		core = side.cores == nullptr ? -INFINITY : side.cores[side.table.number_at(place)];

	return core < INFINITY && core <= radius;
}

/* Computes the thresholds of rows for their own lists, and the largest finite reach. */
__global__ void
__launch_bounds__(kBlock)
own_kernel(const NearTask task)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		usual = task.scalars->usual_rho;
	double		largest = 0;
	uint32_t	threshold = task.form.padding();
	double		radius = -INFINITY;

	if (place < task.a.table.rows)
		radius = task.table.radii[task.a.table.number_at(place)];
	if (place < task.a.table.rows && task.a.norms[place].norm2 >= 0
		&& core_allows(task.a, place, radius))
	{
		RowNorm		norm = task.a.norms[place];
		double		half;

		if (task.form.is_additive())
			half = own_half(task, norm, radius);
		else
		{
			double		reach = task.form.reach(radius) + norm.rho;

			if (is_finite(reach))
				largest = reach;
			half = fasted_reach_half(0.0, sqrt(2.0) * (reach + usual) * (1.0 + 16 * FASTED_U64));
		}
		threshold = task.form.threshold(norm.norm2, half);
	}
	task.a.thresholds[place] = threshold;

	note_largest(task, largest);
}

/* Computes the thresholds of rows of b, for lists of a. */
__global__ void
__launch_bounds__(kBlock)
other_kernel(const NearTask task)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	double		usual = task.scalars->usual_rho;
	double		largest = task.scalars->largest_reach;
	uint32_t	threshold = task.form.padding();

	if (place < task.b.table.rows && task.b.norms[place].norm2 >= 0
		&& core_allows(task.b, place, INFINITY))
	{
		RowNorm		norm = task.b.norms[place];
		double		more = 0;

		/* this is also true if rho is NaN; the row is then a candidate in every pair */
		if (!(norm.rho <= usual))
			more = (norm.rho - usual) * (2.0 * largest + norm.rho + usual);
		threshold = task.form.threshold(norm.norm2, task.form.is_additive() ? other_half(task, norm)
										: half_of_square(more));
	}
	task.b.thresholds[place] = threshold;
}

/* Estimate of the distance of k-th neighbours, for choosing a filter; it need not be exact. */
constexpr int kEach = 8;
constexpr uint32_t kOthers = kBlock * kEach;
constexpr uint32_t kFarther = 4;	/* ratio of the two ranks for extrapolation */

/* Returns the approximate distance of two rows; NaN if they have none. */
__device__ float
distance_of(const RowTable &a, uint32_t row, const RowTable &b, uint32_t other)
{
	bool		of_products = a.metric != FASTED_METRIC_L2;
	double		sum = 0;

	if (is_of_bits(a.metric))
	{
		for (uint32_t k = 0; k < a.dimensions; k++)
			sum += bits_that_differ(a.staged<uint64_t>(row)[k], b.staged<uint64_t>(other)[k]);
		return (float) (a.metric == FASTED_METRIC_HAMMING ? sum
						: exact_jaccard(a.squares[row], b.squares[other], sum));
	}
	for (uint32_t k = 0; k < a.dimensions; k++)
	{
		double		x = a.doubles ? a.staged<double>(row)[k] : (double) a.staged(row)[k];
		double		y = b.doubles ? b.staged<double>(other)[k] : (double) b.staged(other)[k];
		double		diff = x - y;

		sum += of_products ? x * y : diff * diff;
	}
	if (a.metric == FASTED_METRIC_INNER_PRODUCT)
		return (float) -sum;
	if (a.metric == FASTED_METRIC_COSINE)
		return (float) fmax(0.0, 1.0 - sum / sqrt(a.squares[row] * b.squares[other]));
	return (float) sqrt(sum);
}

/* Finds the distances of two ranks (ranks.x and ranks.y) in a sample, with one block per row. */
__global__ void
__launch_bounds__(kBlock)
radius_kernel(const RowTable a, const RowTable b, bool self, uint2 ranks, uint32_t rows,
			  uint32_t others, float *radii)
{
	using Sort = cub::BlockRadixSort<float, kBlock, kEach>;
	__shared__ typename Sort::TempStorage room;
	uint32_t	row = fasted_sample_row(blockIdx.x, rows, a.rows);
	float		dist[kEach];

	for (int i = 0; i < kEach; i++)
	{
		uint32_t	number = i * kBlock + threadIdx.x;
		uint32_t	other = number < others ? fasted_sample_row(number, others, b.rows) : 0;

		dist[i] = INFINITY;
		if (number < others && !(self && other == row))
			dist[i] = distance_of(a, row, b, other);
		if (isnan(dist[i]))
			dist[i] = INFINITY;
	}
	Sort(room).Sort(dist);
	for (int i = 0; i < kEach; i++)
	{
		if (threadIdx.x * kEach + i + 1 == ranks.x)
			radii[blockIdx.x] = dist[i];
		if (threadIdx.x * kEach + i + 1 == ranks.y)
			radii[rows + blockIdx.x] = dist[i];
	}
}

/* Returns the median; reorders the numbers. */
double
median(float *begin, uint32_t count)
{
	std::nth_element(begin, begin + count / 2, begin + count);
	return begin[count / 2];
}

}								/* namespace */

void
launch_usual_rho(const NearTask &task, cudaStream_t stream)
{
	usual_rho_kernel<<<1, kRhoRows, 0, stream>>>(task.b.norms, task.b.table.rows, task.scalars);
	check_launch("computing a typical quantisation error");
}

void
launch_near_thresholds(const NearTask &task, cudaStream_t stream)
{
	check_cuda(cudaMemsetAsync(&task.scalars->largest_reach, 0, sizeof(double), stream),
			   "clearing the largest reach");
	if (task.form.metric == FASTED_METRIC_JACCARD)
		usual_share_kernel<<<1, kRhoRows, 0, stream>>>(task);
	if (task.symmetric)
	{
		uint32_t	levels = levels_of(task.a.table.rows);

		level_kernel<<<levels, kBlock, 0, stream>>>(task);
		raise_kernel<<<1, kBlock, 0, stream>>>(task.levels, levels);
		symmetric_kernel<<<padded_thresholds(task.a.table.rows) / kBlock, kBlock, 0, stream>>>(task);
	}
	else
	{
		own_kernel<<<padded_thresholds(task.a.table.rows) / kBlock, kBlock, 0, stream>>>(task);
		other_kernel<<<padded_thresholds(task.b.table.rows) / kBlock, kBlock, 0, stream>>>(task);
	}
	check_launch("finding the rows' thresholds");
	launch_minima(task.b.thresholds, task.b.table.rows, task.form.precision, task.minima_b, stream);
}

/* The bounds of buckets are stored in task.levels. */
void
launch_radius_keys(const NearTask &task, uint32_t *keys, cudaStream_t stream)
{
	bucket_kernel<<<1, kRhoRows, 0, stream>>>(task);
	key_kernel<<<(task.a.table.rows + kBlock - 1) / kBlock, kBlock, 0, stream>>>(task, keys);
	check_launch("ordering rows by their radii");
}

/*
 * The rank in the sample that corresponds to k may be less than 1, or not an integer.  The distance
 * is then extrapolated from the growth of distances between two ranks.  It is at least half the
 * distance of the nearer rank.
 */
double
find_typical_radius(const RowTable &a, const RowTable &b, bool self, uint32_t k, float *room,
					cudaStream_t stream)
{
	uint32_t	rows = std::min(a.rows, kSampledRadii);
	uint32_t	others = std::min(b.rows, kOthers);
	double		rank = std::min((double) k * others / b.rows, (double) others);
	uint32_t	near = std::max(1u, (uint32_t) std::ceil(rank));
	uint32_t	far = std::min(near * kFarther, others);
	std::vector<float> radii(2 * rows);

	radius_kernel<<<rows, kBlock, 0, stream>>>(a, b, self, make_uint2(near, far), rows, others,
											   room);
	check_launch("computing distances in a sample");
	copy_and_wait(radii.data(), room, 2 * rows, cudaMemcpyDeviceToHost, stream,
				  "reading a sample");

	double		radius = median(radii.data(), rows);
	double		farther = median(radii.data() + rows, rows);

	if (!std::isfinite(radius))
		return NAN;
	if (radius > 0 && std::isfinite(farther) && farther > radius && far > near && rank < near)
		radius *= std::max(0.5, std::pow(rank / near, std::log(farther / radius)
										 / std::log((double) far / near)));
	return radius;
}

}								/* namespace fasted */
