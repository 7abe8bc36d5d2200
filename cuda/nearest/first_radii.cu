/*-------------------------------------------------------------------------
 *
 * first_radii.cu
 *	  Computes first radii: upper bounds of the k-th distances, before the first round.
 *
 * There are two steps.  In the first one, an evenly distributed sample of b are centres.  For each
 * row, inner products of quantised rows determine the nearest centres, and rows are sorted by them.
 * In the second step, each row is compared with the rows of b at nearby places in this order.  The
 * canonical distances to the k rows that seem nearest are computed.  The largest of them is the
 * first radius of the row (doc/internals/bound-nearest.md, section 2).  Both steps are repeated with
 * other centres, and later among the rows whose radii are the largest.  Then the k rows are chosen
 * among all that were compared.  If a has few rows, b is not sorted; rows of a are then compared with
 * the sample only.
 *
 *-------------------------------------------------------------------------
 */
#include <mma.h>

#include "filter/exact_distance.cuh"
#include "nearest/nearest.h"
#include "rows/filter_rows.h"

namespace fasted
{

namespace
{

constexpr int kBlock = 256;
constexpr uint32_t kWarps = kBlock / 32;
constexpr uint32_t kRows = 16;	/* rows per block: one fragment */
constexpr uint32_t kStride = kLookColumns + 8;	/* of products in shared memory */
constexpr uint32_t kWarpColumns = kLookColumns / kWarps;
constexpr uint32_t kFragments = kWarpColumns / 16;
constexpr uint32_t kEach = kLookColumns / 32;	/* columns per lane */
constexpr uint32_t kMergedEach = kMostMerged / 32;	/* rows of earlier looks per lane */
constexpr uint32_t kSharedBytes = kRows * kStride * sizeof(uint32_t);

/* Approximate number of bytes of rows to multiply per launch, which takes 20 ms at most. */
constexpr double kBytesALaunch = 2e9;

/* Stored instead of the first neighbour, if fewer than k rows were found. */
constexpr uint32_t kTooFew = 0xffffffff;

/* A key consists of the numbers of the two nearest centres, the nearer one first. */
constexpr int kCentreBits = 10;
static_assert(1 << kCentreBits == kLookColumns, "a centre number has kCentreBits bits");

/* Operands of a matrix product: rows of one side, and kLookColumns columns of b in groups of 16. */
struct Operands
{
	const void *rows;
	const void *columns;
	uint32_t	row_bytes;
	uint32_t	first;			/* place of the first column */
	uint32_t	step;			/* distance between groups, in places */
	uint32_t	spacing = 1;	/* distance between columns of a group, in places */

	__device__ __forceinline__ uint32_t
	place_of(uint32_t column) const
	{
		return first + column / 16 * step + column % 16 * spacing;
	}
};

/* Returns the operands for centres: rows of b with equal distances, in places. */
Operands
centre_operands(const NearTask &task, const NearSide &side)
{
	uint32_t	spacing = task.b.table.rows / kLookColumns;

	return {side.values, task.b.values, task.row_bytes, spacing / 2, 16 * spacing, spacing};
}

/* The type in which tensor cores add up products. */
template <class Number> struct SumOf;
template <> struct SumOf<signed char> { using Type = int; };
template <> struct SumOf<__half> { using Type = float; };

/* Multiplies 16 rows with kLookColumns columns; each warp computes some of the columns. */
template <class Number>
__device__ void
multiply(const Operands &p, uint32_t place, uint32_t *products)
{
	namespace wmma = nvcuda::wmma;
	using Sum = typename SumOf<Number>::Type;
	uint32_t	numbers = p.row_bytes / sizeof(Number);
	uint32_t	column = threadIdx.x / 32 * kWarpColumns;
	const Number *a = (const Number *) p.rows + (size_t) place * numbers;
	const Number *b = (const Number *) p.columns;
	wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> sums[kFragments];

#pragma unroll
	for (uint32_t f = 0; f < kFragments; f++)
		wmma::fill_fragment(sums[f], (Sum) 0);
	for (uint32_t k = 0; k < numbers; k += 16)
	{
		wmma::fragment<wmma::matrix_a, 16, 16, 16, Number, wmma::row_major> x;

		wmma::load_matrix_sync(x, a + k, numbers);
#pragma unroll
		for (uint32_t f = 0; f < kFragments; f++)
		{
			wmma::fragment<wmma::matrix_b, 16, 16, 16, Number, wmma::col_major> y;

			wmma::load_matrix_sync(y, b + (size_t) p.place_of(column + f * 16) * numbers + k,
								   p.spacing * numbers);
			wmma::mma_sync(sums[f], x, y, sums[f]);
		}
	}
#pragma unroll
	for (uint32_t f = 0; f < kFragments; f++)
		wmma::store_matrix_sync((Sum *) products + column + f * 16, sums[f], kStride,
								wmma::mem_row_major);
}

/* The same for rows in FP32: computed in FP64 and rounded up to FP32. */
template <>
__device__ void
multiply<float>(const Operands &p, uint32_t place, uint32_t *products)
{
	uint32_t	numbers = p.row_bytes / sizeof(float);

	for (uint32_t i = threadIdx.x; i < kRows * kLookColumns; i += kBlock)
	{
		uint32_t	row = i / kLookColumns;
		uint32_t	column = i % kLookColumns;
		const float4 *x = (const float4 *) ((const float *) p.rows
											+ (size_t) (place + row) * numbers);
		const float4 *y = (const float4 *) ((const float *) p.columns
											+ (size_t) p.place_of(column) * numbers);
		double		sum = 0;

		for (uint32_t k = 0; k < numbers / 4; k++)
			sum += (double) x[k].x * y[k].x + (double) x[k].y * y[k].y
				+ (double) x[k].z * y[k].z + (double) x[k].w * y[k].w;
		products[row * kStride + column] = __float_as_uint(__double2float_ru(sum));
	}
}

template <class Number>
__device__ __forceinline__ double
product_of(uint32_t product)
{
	return sizeof(Number) == 1 ? (double) (int32_t) product : (double) __uint_as_float(product);
}

/* Returns the approximate squared distance of two quantised rows; infinity for unusable rows. */
template <class Number>
__device__ __forceinline__ float
square_of(const RowNorm &norm, const RowNorm &other, uint32_t product)
{
	if (other.norm2 < 0 || !(other.rho <= DBL_MAX))
		return INFINITY;
	return (float) fmax(norm.norm2 + other.norm2 - 2.0 * product_of<Number>(product), 0.0);
}

/* --- first step: the nearest centres of each row */

struct CellParams
{
	Operands	operands;
	const RowNorm *norms;		/* of the rows */
	const RowNorm *norms_b;
	uint32_t	rows;
	uint32_t	first;
	uint32_t   *keys;
};

struct Centre
{
	float		square;
	uint32_t	number;
};

__device__ __forceinline__ void
note_centre(Centre (&nearest)[2], const Centre &centre)
{
	if (centre.square < nearest[0].square)
	{
		nearest[1] = nearest[0];
		nearest[0] = centre;
	}
	else if (centre.square < nearest[1].square)
		nearest[1] = centre;
}

template <class Number>
__global__ void
__launch_bounds__(kBlock)
cell_kernel(const __grid_constant__ CellParams p)
{
	extern __shared__ uint32_t products[];
	uint32_t	lane = threadIdx.x % 32;
	/* the last block starts earlier, so that it has kRows rows; computing some twice is harmless */
	uint32_t	first = min(p.first + blockIdx.x * kRows, p.rows - kRows);

	multiply<Number>(p.operands, first, products);
	__syncthreads();
	for (uint32_t row = threadIdx.x / 32; row < kRows; row += kWarps)
	{
		RowNorm		norm = p.norms[first + row];
		Centre		nearest[2] = {{INFINITY, 0}, {INFINITY, 0}};

		for (uint32_t i = lane; i < kLookColumns; i += 32)
			note_centre(nearest, {square_of<Number>(norm, p.norms_b[p.operands.place_of(i)],
													products[row * kStride + i]), i});
		for (int o = 16; o > 0; o /= 2)
		{
			Centre		others[2];

			for (int i = 0; i < 2; i++)
				others[i] = {__shfl_xor_sync(0xffffffff, nearest[i].square, o),
					__shfl_xor_sync(0xffffffff, nearest[i].number, o)};
			note_centre(nearest, others[0]);
			note_centre(nearest, others[1]);
		}
		if (lane == 0)
			p.keys[first + row] = nearest[0].number << kCentreBits | nearest[1].number;
	}
}

/* Computes the first place of each centre's rows, from sorted keys. */
__global__ void
__launch_bounds__(kBlock)
border_kernel(const uint32_t *keys, uint32_t rows, uint32_t *cells)
{
	uint32_t	place = blockIdx.x * kBlock + threadIdx.x;
	uint32_t	from;
	uint32_t	to;

	if (place > rows)
		return;
	from = place == 0 ? 0 : (keys[place - 1] >> kCentreBits) + 1;
	to = place == rows ? kLookColumns : keys[place] >> kCentreBits;
	for (uint32_t cell = from; cell <= to; cell++)
		cells[cell] = place;
}

/* --- second step: the k rows at nearby places that seem nearest */

struct LookParams
{
	NearTask	task;
	uint32_t	first;
};

/* Binary search: returns the first place whose value is not less than `value`. */
template <class ValueAt>
__device__ __forceinline__ uint32_t
find_place(uint32_t begin, uint32_t end, uint32_t value, const ValueAt &value_at)
{
	while (begin < end)
	{
		uint32_t	middle = begin + (end - begin) / 2;

		if (value_at(middle) < value)
			begin = middle + 1;
		else
			end = middle;
	}
	return begin;
}

/* Returns the first of kLookColumns places of b near a place of a. */
__device__ uint32_t
window_of(const NearTask &task, uint32_t place)
{
	uint32_t	key = task.a.keys[place];
	uint32_t	begin = task.scalars->cells[key >> kCentreBits];
	uint32_t	end = task.scalars->cells[(key >> kCentreBits) + 1];
	uint32_t	middle = begin + (end - begin) / 2;

	if (end - begin > kLookColumns)
	{
		middle = task.self ? place
			: find_place(begin, end, key, [&](uint32_t b) { return task.b.keys[b]; });
		middle = min(max(middle, begin + kLookColumns / 2), end - kLookColumns / 2);
	}
	middle = max(middle, kLookColumns / 2);
	return min(middle - kLookColumns / 2, task.b.table.rows - kLookColumns);
}

/* Returns the first place of b whose label is not less than `label`. */
__device__ uint32_t
find_label(const NearTask &task, uint32_t label)
{
	return find_place(0, task.b.table.rows, label,
					  [&](uint32_t b) { return task.b.labels[task.b.table.number_at(b)]; });
}

/* Partitioned join: returns the first of kLookColumns places of b for 16 places of a. */
__device__ uint32_t
window_of_groups(const NearTask &task, uint32_t place)
{
	uint32_t	begin = find_label(task, task.a.labels[task.a.table.number_at(place)]);
	uint32_t	end = find_label(task, task.a.labels[task.a.table.number_at(place + kRows - 1)] + 1);

	if (end - begin > kLookColumns)
	{
		uint32_t	middle = task.self ? place + kRows / 2 : begin + (end - begin) / 2;

		middle = min(max(middle, begin + kLookColumns / 2), end - kLookColumns / 2);
		begin = middle - kLookColumns / 2;
	}
	return min(begin, task.b.table.rows - kLookColumns);
}

/* Lowest bit of numbers that least_but considers; lower bits are rounded up. */
constexpr int kLowestBit = 12;

/* Returns the k-th smallest of a warp's numbers, slightly rounded up.  None may be negative. */
template <uint32_t kCount>
__device__ float
least_but(const float (&squares)[kCount], uint32_t k)
{
	uint32_t	answer = 0;

	for (int bit = 30; bit >= kLowestBit; bit--)
	{
		/* set this bit if fewer than k numbers are below the result */
		uint32_t	middle = answer | 1u << bit;
		uint32_t	below = 0;

#pragma unroll
		for (uint32_t i = 0; i < kCount; i++)
			below += __float_as_uint(squares[i]) < middle;
		if (__reduce_add_sync(0xffffffff, below) < k)
			answer = middle;
	}
	return __uint_as_float(answer | ((1u << kLowestBit) - 1));
}

/* Rows of b that are compared with one row of a, some for each lane of a warp. */
template <uint32_t kCount>
struct Seen
{
	float		squares[kCount];	/* approximate squared distances; infinity: no row */
	uint32_t	numbers[kCount];
};

/* Adds the rows in the list of an earlier look, except those that have been seen again. */
__device__ __forceinline__ void
add_earlier(const FastedNeighbor *list, uint32_t k, Seen<kEach + kMergedEach> *seen)
{
	uint32_t	lane = threadIdx.x % 32;
	bool		some = list[0].row != kTooFew;

#pragma unroll
	for (uint32_t e = 0; e < kMergedEach; e++)
	{
		uint32_t	at = e * 32 + lane;
		bool		there = some && at < k;
		uint32_t	number = there ? list[at].row : 0;
		uint32_t	again = there ? 0 : 1;

		for (uint32_t from = 0; some && from < 32 && e * 32 + from < k; from++)
		{
			uint32_t	wanted = __shfl_sync(0xffffffff, number, from);
			bool		found = false;

#pragma unroll
			for (uint32_t i = 0; i < kEach; i++)
				found = found || seen->numbers[i] == wanted;
			found = __any_sync(0xffffffff, found);
			again |= found && from == lane;
		}
		seen->squares[kEach + e] = again ? INFINITY : (float) list[at].dist;
		seen->numbers[kEach + e] = number;
	}
	__syncwarp();
}

/* Stores the k rows of b that seem nearest in a row's list, with their approximate squares. */
template <uint32_t kCount>
__device__ void
note_rows(FastedNeighbor *list, uint32_t k, const Seen<kCount> &seen)
{
	float		largest = least_but(seen.squares, k);
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	before = 0;

	if (!(largest <= FLT_MAX))
	{
		if (lane == 0)
			list[0].row = kTooFew;
		return;
	}
#pragma unroll
	for (uint32_t i = 0; i < kCount; i++)
	{
		uint32_t	lanes = __ballot_sync(0xffffffff, seen.squares[i] <= largest);
		uint32_t	at = before + __popc(lanes & ((1u << lane) - 1));

		if (seen.squares[i] <= largest && at < k)
			list[at] = {seen.numbers[i], seen.squares[i]};
		before += __popc(lanes);
	}
}

template <class Number, bool kAgain>
__global__ void
__launch_bounds__(kBlock)
look_kernel(const __grid_constant__ LookParams p)
{
	extern __shared__ uint32_t products[];
	const NearTask &task = p.task;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	first = min(p.first + blockIdx.x * kRows, task.a.table.rows - kRows);
	Operands	looked = {task.a.values, task.b.values, task.row_bytes, 0,
		task.b.table.rows / (kLookColumns / 16)};

	if (task.a.keys != nullptr)
	{
		looked.first = window_of(task, first + kRows / 2);
		looked.step = 16;
	}
	else if (task.a.labels != nullptr)
	{
		looked.first = window_of_groups(task, first);
		looked.step = 16;
	}
	multiply<Number>(looked, first, products);
	__syncthreads();
	for (uint32_t row = threadIdx.x / 32; row < kRows; row += kWarps)
	{
		uint32_t	place = first + row;
		RowNorm		norm = task.a.norms[place];
		uint32_t	label = task.a.labels != nullptr ? task.a.labels[task.a.table.number_at(place)] : 1;
		FastedNeighbor *list = task.table.lists + (size_t) task.a.table.number_at(place) * task.table.k;
		Seen<kEach + (kAgain ? kMergedEach : 0)> seen;

		/* the previous block computes this row, possibly with other columns */
		if (place < p.first + blockIdx.x * kRows)
			continue;
#pragma unroll
		for (uint32_t i = 0; i < kEach; i++)
		{
			uint32_t	other = looked.place_of(i * 32 + lane);

			seen.squares[i] = square_of<Number>(norm, task.b.norms[other],
												products[row * kStride + i * 32 + lane]);
			seen.numbers[i] = task.b.table.number_at(other);
			if (task.self && other == place)
				seen.squares[i] = INFINITY;
			if (task.a.labels != nullptr
				&& (!is_group(label) || task.b.labels[seen.numbers[i]] != label))
				seen.squares[i] = INFINITY;
		}
		if constexpr (kAgain)
			add_earlier(list, task.table.k, &seen);
		note_rows(list, task.table.k, seen);
	}
}

/* --- the canonical distances of these k rows */

/* Element type and alignment of rows. */
enum class Stored
{
	kFloats,
	kAlignedFloats,
	kDoubles,
	kBits
};

/* Computes the squared distance or x.y of two rows with a warp. */
template <FastedMetric kMetric, class Number>
__device__ __forceinline__ double
sum_by_warp(const Number *x, const Number *y, uint32_t dimensions)
{
	double		sums[1] = {0};

#pragma unroll 4
	for (uint32_t k = threadIdx.x % 32; k < dimensions; k += 32)
		sums[0] = exact_add<kMetric>(sums[0], x[k], y[k]);
	return exact_fold<1>(sums);
}

/* The number of bits in which two rows differ. */
__device__ __forceinline__ double
bits_by_warp(const uint64_t *x, const uint64_t *y, uint32_t words)
{
	uint32_t	differ = 0;

	for (uint32_t w = threadIdx.x % 32; w < words; w += 32)
		differ += bits_that_differ(x[w], y[w]);
	return __reduce_add_sync(0xffffffff, differ);
}

/*
 * The same as sum_by_warp for aligned floats: a warp compares one row with four others, with eight
 * lanes each.
 */
template <FastedMetric kMetric>
__device__ __forceinline__ double
sum_by_eight(const float *x, const float *y, uint32_t dimensions)
{
	ExactSums<kMetric> sums;

#pragma unroll 4
	for (uint32_t k = threadIdx.x % 8 * 4; k < dimensions; k += 32)
		sums.add(*(const float4 *) &x[k], *(const float4 *) &y[k]);
	return sums.fold();
}

template <FastedMetric kMetric, Stored kStored>
__device__ __forceinline__ double
sum_of(const NearTask &task, uint32_t row, uint32_t other)
{
	uint32_t	dimensions = task.a.table.dimensions;

	if constexpr (kStored == Stored::kBits)
		return bits_by_warp(task.a.table.staged<uint64_t>(row), task.b.table.staged<uint64_t>(other),
							dimensions);
	else if constexpr (kStored == Stored::kDoubles)
		return sum_by_warp<kMetric>(task.a.table.staged<double>(row), task.b.table.staged<double>(other),
									dimensions);
	else if constexpr (kStored == Stored::kAlignedFloats)
		return sum_by_eight<kMetric>(task.a.table.staged(row), task.b.table.staged(other), dimensions);
	else
		return sum_by_warp<kMetric>(task.a.table.staged(row), task.b.table.staged(other), dimensions);
}

/* Computes radii, with one warp per row: the largest of k distances, unless one is not finite. */
template <FastedMetric kMetric, Stored kStored>
__global__ void
__launch_bounds__(kBlock)
radius_kernel(const __grid_constant__ LookParams p, uint32_t end)
{
	constexpr uint32_t kPairs = kStored == Stored::kAlignedFloats ? 4 : 1;
	const NearTask &task = p.task;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	place = p.first + blockIdx.x * kWarps + threadIdx.x / 32;
	double		largest = -INFINITY;
	bool		known = true;

	if (place >= end)
		return;

	uint32_t	row = task.a.table.number_at(place);
	const FastedNeighbor *list = task.table.lists + (size_t) row * task.table.k;

	if (list[0].row == kTooFew)
		return;
	for (uint32_t i = 0; i < task.table.k; i += kPairs)
	{
		uint32_t	other = list[min(i + lane * kPairs / 32, task.table.k - 1)].row;
		double		dist = exact_distance<kMetric>(task.a.table, row, task.b.table, other,
												   sum_of<kMetric, kStored>(task, row, other));

		known = known && dist <= DBL_MAX;
		largest = fmax(largest, dist);
	}
	known = __all_sync(0xffffffff, known);
	largest = warp_max(largest);
	if (lane == 0 && known)
		task.table.radii[row] = fmin(task.table.radii[row], largest);
}

/* --- estimate of the number of candidates with these radii */

constexpr uint32_t kCountGroups = 64;	/* number of samples of 16 rows */
constexpr uint32_t kCountLooks = 8;	/* number of samples of kLookColumns columns */

/* Counts the sampled pairs that pass the thresholds of either_kernel. */
template <class Number>
__global__ void
__launch_bounds__(kBlock)
count_kernel(const __grid_constant__ NearTask task)
{
	extern __shared__ uint32_t products[];
	__shared__ uint32_t hits[kCountParts];
	uint32_t	step = task.b.table.rows / (kLookColumns / 16);
	uint32_t	first = task.a.table.rows / kCountGroups * blockIdx.x;
	Operands	operands = {task.a.values, task.b.values, task.row_bytes,
		step / kCountLooks * blockIdx.y, step};

	if (threadIdx.x < kCountParts)
		hits[threadIdx.x] = 0;
	multiply<Number>(operands, first, products);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < kRows * kLookColumns; i += kBlock)
	{
		uint32_t	place = first + i / kLookColumns;
		uint32_t	other = operands.place_of(i % kLookColumns);
		uint32_t	product = products[i / kLookColumns * kStride + i % kLookColumns];
		uint32_t	row = task.a.thresholds[min(place, other)];
		uint32_t	column = task.b.thresholds[max(place, other)];

		bool		hit = sizeof(Number) == 1
			? (int32_t) product - (int32_t) column >= (int32_t) row
			: __uint_as_float(product) - __uint_as_float(column) >= __uint_as_float(row);

		if (hit && place != other)
			atomicAdd(&hits[(uint64_t) max(place, other) * kCountParts / task.a.table.rows], 1u);
	}
	__syncthreads();
	if (threadIdx.x < kCountParts && hits[threadIdx.x] > 0)
		atomicAdd(&task.scalars->hits[threadIdx.x], hits[threadIdx.x]);
}

/* Launches a kernel that needs kSharedBytes of shared memory. */
template <class Params>
void
launch(void (*kernel) (Params), const Params &params, dim3 blocks, cudaStream_t stream)
{
	allow_shared_memory(kernel, kSharedBytes);
	kernel<<<blocks, kBlock, kSharedBytes, stream>>>(params);
	check_launch("looking for near rows");
}

template <class Params>
using KernelOf = void (*) (Params);

template <class Params>
KernelOf<Params>
by_precision(Precision precision, KernelOf<Params> int8, KernelOf<Params> fp16,
			 KernelOf<Params> fp32)
{
	return precision == Precision::kInt8 ? int8 : precision == Precision::kFp16 ? fp16 : fp32;
}

uint32_t
groups_of(uint32_t rows)
{
	return (rows + kRows - 1) / kRows;
}

template <FastedMetric kMetric>
auto
radius_kernel_for(const RowTable &rows)
{
	if constexpr (is_of_bits(kMetric))
		return radius_kernel<kMetric, Stored::kBits>;
	else
		return rows.doubles ? radius_kernel<kMetric, Stored::kDoubles>
			: rows.dimensions % 4 == 0 ? radius_kernel<kMetric, Stored::kAlignedFloats>
			: radius_kernel<kMetric, Stored::kFloats>;
}

template <FastedMetric kMetric>
void
launch_radii(const LookParams &params, uint32_t end, cudaStream_t stream)
{
	auto		kernel = radius_kernel_for<kMetric>(params.task.a.table);

	kernel<<<(end - params.first + kWarps - 1) / kWarps, kBlock, 0, stream>>>(params, end);
	check_launch("finding the rows' first radii");
}

}								/* namespace */

uint32_t
look_rows(const NearTask &task)
{
	double		bytes = std::max(task.row_bytes * (double) kLookColumns / kRows,
								 (double) task.table.k * task.a.table.dimensions * sizeof(float));

	return (uint32_t) (kBytesALaunch * 64 / bytes) / kRows * kRows + kRows;
}

void
launch_cell_keys(const NearTask &task, bool of_b, uint32_t first, uint32_t count, uint32_t *keys,
				 cudaStream_t stream)
{
	const NearSide &side = of_b ? task.b : task.a;
	CellParams	params = {centre_operands(task, side), side.norms, task.b.norms, side.table.rows,
		first, keys};

	launch(by_precision<const CellParams>(task.form.precision, cell_kernel<signed char>,
										  cell_kernel<__half>, cell_kernel<float>),
		   params, groups_of(count), stream);
}

void
launch_cells(const NearTask &task, cudaStream_t stream)
{
	border_kernel<<<task.b.table.rows / kBlock + 1, kBlock, 0, stream>>>(task.b.keys, task.b.table.rows,
																	task.scalars->cells);
	check_launch("finding the rows of each centre");
}

void
launch_look(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream)
{
	LookParams	params = {task, first};
	auto		look = task.again
		? by_precision<const LookParams>(task.form.precision, look_kernel<signed char, true>,
										 look_kernel<__half, true>, look_kernel<float, true>)
		: by_precision<const LookParams>(task.form.precision, look_kernel<signed char, false>,
										 look_kernel<__half, false>, look_kernel<float, false>);

	launch(look, params, groups_of(count), stream);
}

void
launch_first_radii(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream)
{
	LookParams	params = {task, first};

	switch (task.form.metric)
	{
		case FASTED_METRIC_L2:
			return launch_radii<FASTED_METRIC_L2>(params, first + count, stream);
		case FASTED_METRIC_COSINE:
			return launch_radii<FASTED_METRIC_COSINE>(params, first + count, stream);
		case FASTED_METRIC_INNER_PRODUCT:
			return launch_radii<FASTED_METRIC_INNER_PRODUCT>(params, first + count, stream);
		case FASTED_METRIC_HAMMING:
			return launch_radii<FASTED_METRIC_HAMMING>(params, first + count, stream);
		case FASTED_METRIC_JACCARD:
			return launch_radii<FASTED_METRIC_JACCARD>(params, first + count, stream);
	}
}

void
launch_count(const NearTask &task, cudaStream_t stream)
{
	check_cuda(cudaMemsetAsync(task.scalars->hits, 0, sizeof(task.scalars->hits), stream),
			   "counting candidates of a sample");
	launch(by_precision<const NearTask>(task.form.precision, count_kernel<signed char>,
										count_kernel<__half>, count_kernel<float>),
		   task, dim3(kCountGroups, kCountLooks), stream);
}

CandidateCounts
candidates_of(const uint32_t *hits, uint32_t rows)
{
	constexpr double kPairs = kCountGroups * kRows * kCountLooks * (double) kLookColumns;
	CandidateCounts counts;

	for (uint32_t part = 0; part < kCountParts; part++)
		counts.of_part[part] = hits[part] / kPairs * 0.5 * rows;
	return counts;
}

CandidateCounts
all_candidates(uint32_t rows)
{
	CandidateCounts counts;

	for (uint32_t part = 0; part < kCountParts; part++)
		counts.of_part[part] = CandidateCounts::share(part) * rows;
	return counts;
}

}								/* namespace fasted */
