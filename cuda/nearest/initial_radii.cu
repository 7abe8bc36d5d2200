/*-------------------------------------------------------------------------
 *
 * initial_radii.cu
 *	  Initial radii: upper bounds of the k-th distances, before the first round.
 *
 *	  C = kProbeColumns evenly distributed rows c of b, the centres
 *	  s(x, y) = |x|^2 + |y|^2 - 2 x.y, of quantised rows
 *	  key(x) = (argmin s(x, c), second argmin s(x, c))		rows are sorted by it: cells
 *	  N(x) = the k rows y with the least s(x, y), of kProbeColumns rows near x in this order
 *	  r(x) = max over y in N(x) of the canonical distance D(x, y)
 *
 * The proof is in doc/internals/bound-nearest.md, section 2.  The phases and their repetitions are
 * those of NearestSearch (schedule/nearest_search.h).  A probe without cells compares with a sample
 * of b, or with rows of the partition.
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
constexpr uint32_t kStride = kProbeColumns + 8;	/* of products in shared memory */
constexpr uint32_t kWarpColumns = kProbeColumns / kWarps;
constexpr uint32_t kFragments = kWarpColumns / 16;
constexpr uint32_t kEach = kProbeColumns / 32;	/* columns per lane */
constexpr uint32_t kMergedEach = kMostMerged / 32;	/* rows of earlier probes per lane */
constexpr uint32_t kSharedBytes = kRows * kStride * sizeof(uint32_t);

/* Approximate number of bytes of rows to multiply per launch, which takes 20 ms at most. */
constexpr double kBytesALaunch = 2e9;

/* Stored instead of the first neighbour, if fewer than k rows were found. */
constexpr uint32_t kTooFew = 0xffffffff;

/* A key consists of the numbers of the two nearest centres, the nearer one first. */
constexpr int kCentreBits = 10;
static_assert(1 << kCentreBits == kProbeColumns, "a centre number has kCentreBits bits");

/* Operands of a matrix product: rows of one side, and kProbeColumns columns of b in groups of 16. */
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
	uint32_t	spacing = task.b.table.rows / kProbeColumns;

	return {side.values, task.b.values, task.row_bytes, spacing / 2, 16 * spacing, spacing};
}

/* The type in which tensor cores add up products. */
template <class Number> struct SumOf;
template <> struct SumOf<signed char> { using Type = int; };
template <> struct SumOf<__half> { using Type = float; };

/* Multiplies 16 rows with kProbeColumns columns; each warp computes some of the columns. */
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

	for (uint32_t i = threadIdx.x; i < kRows * kProbeColumns; i += kBlock)
	{
		uint32_t	row = i / kProbeColumns;
		uint32_t	column = i % kProbeColumns;
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

/* --- cells: the two nearest centres of each row */

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

		for (uint32_t i = lane; i < kProbeColumns; i += 32)
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
	to = place == rows ? kProbeColumns : keys[place] >> kCentreBits;
	for (uint32_t cell = from; cell <= to; cell++)
		cells[cell] = place;
}

/* --- probe: the nearest k rows at nearby places, by the products of quantised rows */

struct ProbeParams
{
	NearTask	task;
	uint32_t	first;
};

/* Returns the first of kProbeColumns places of b near a place of a. */
__device__ uint32_t
window_of(const NearTask &task, uint32_t place)
{
	uint32_t	key = task.a.keys[place];
	uint32_t	begin = task.scalars->cells[key >> kCentreBits];
	uint32_t	end = task.scalars->cells[(key >> kCentreBits) + 1];
	uint32_t	middle = begin + (end - begin) / 2;

	if (end - begin > kProbeColumns)
	{
		middle = task.self ? place
			: find_place(begin, end, key, [&](uint32_t b) { return task.b.keys[b]; });
		middle = min(max(middle, begin + kProbeColumns / 2), end - kProbeColumns / 2);
	}
	middle = max(middle, kProbeColumns / 2);
	return min(middle - kProbeColumns / 2, task.b.table.rows - kProbeColumns);
}

/* Returns the first place of b whose label is not less than `label`. */
__device__ uint32_t
find_label(const NearTask &task, uint32_t label)
{
	return find_place(0, task.b.table.rows, label,
					  [&](uint32_t b) { return task.b.labels[task.b.table.number_at(b)]; });
}

/* Partitioned join: returns the first of kProbeColumns places of b for 16 places of a. */
__device__ uint32_t
window_of_groups(const NearTask &task, uint32_t place)
{
	uint32_t	begin = find_label(task, task.a.labels[task.a.table.number_at(place)]);
	uint32_t	end = find_label(task, task.a.labels[task.a.table.number_at(place + kRows - 1)] + 1);

	if (end - begin > kProbeColumns)
	{
		uint32_t	middle = task.self ? place + kRows / 2 : begin + (end - begin) / 2;

		middle = min(max(middle, begin + kProbeColumns / 2), end - kProbeColumns / 2);
		begin = middle - kProbeColumns / 2;
	}
	return min(begin, task.b.table.rows - kProbeColumns);
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
struct Probed
{
	float		squares[kCount];	/* approximate squared distances; infinity: no row */
	uint32_t	numbers[kCount];
};

/* Adds the rows in the list of an earlier probe, except those that this probe has found again. */
__device__ __forceinline__ void
add_earlier(const FastedNeighbor *list, uint32_t k, Probed<kEach + kMergedEach> *probed)
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
				found = found || probed->numbers[i] == wanted;
			found = __any_sync(0xffffffff, found);
			again |= found && from == lane;
		}
		probed->squares[kEach + e] = again ? INFINITY : (float) list[at].dist;
		probed->numbers[kEach + e] = number;
	}
	__syncwarp();
}

/* Stores the k nearest of the probed rows in a row's list, with their approximate squares. */
template <uint32_t kCount>
__device__ void
note_rows(FastedNeighbor *list, uint32_t k, const Probed<kCount> &probed)
{
	float		largest = least_but(probed.squares, k);
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
		uint32_t	lanes = __ballot_sync(0xffffffff, probed.squares[i] <= largest);
		uint32_t	at = before + __popc(lanes & ((1u << lane) - 1));

		if (probed.squares[i] <= largest && at < k)
			list[at] = {probed.numbers[i], probed.squares[i]};
		before += __popc(lanes);
	}
}

template <class Number, bool kMerge>
__global__ void
__launch_bounds__(kBlock)
probe_kernel(const __grid_constant__ ProbeParams p)
{
	extern __shared__ uint32_t products[];
	const NearTask &task = p.task;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	first = min(p.first + blockIdx.x * kRows, task.a.table.rows - kRows);
	Operands	columns = {task.a.values, task.b.values, task.row_bytes, 0,
		task.b.table.rows / (kProbeColumns / 16)};

	if (task.a.keys != nullptr)
	{
		columns.first = window_of(task, first + kRows / 2);
		columns.step = 16;
	}
	else if (task.a.labels != nullptr)
	{
		columns.first = window_of_groups(task, first);
		columns.step = 16;
	}
	multiply<Number>(columns, first, products);
	__syncthreads();
	for (uint32_t row = threadIdx.x / 32; row < kRows; row += kWarps)
	{
		uint32_t	place = first + row;
		RowNorm		norm = task.a.norms[place];
		uint32_t	label = task.a.labels != nullptr ? task.a.labels[task.a.table.number_at(place)] : 1;
		FastedNeighbor *list = task.table.lists + (size_t) task.a.table.number_at(place) * task.table.k;
		Probed<kEach + (kMerge ? kMergedEach : 0)> probed;

		/* the previous block computes this row, possibly with other columns */
		if (place < p.first + blockIdx.x * kRows)
			continue;
#pragma unroll
		for (uint32_t i = 0; i < kEach; i++)
		{
			uint32_t	other = columns.place_of(i * 32 + lane);

			probed.squares[i] = square_of<Number>(norm, task.b.norms[other],
												products[row * kStride + i * 32 + lane]);
			probed.numbers[i] = task.b.table.number_at(other);
			if (task.self && other == place)
				probed.squares[i] = INFINITY;
			if (task.a.labels != nullptr
				&& (!is_group(label) || task.b.labels[probed.numbers[i]] != label))
				probed.squares[i] = INFINITY;
		}
		if constexpr (kMerge)
			add_earlier(list, task.table.k, &probed);
		note_rows(list, task.table.k, probed);
	}
}

/* --- the canonical distances of these k rows */

/* Computes radii, with one warp per row: the largest of k distances, unless one is not finite. */
template <FastedMetric kMetric, Summation kSummation>
__global__ void
__launch_bounds__(kBlock)
radius_kernel(const __grid_constant__ ProbeParams p, uint32_t end)
{
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
	for (uint32_t i = 0; i < task.table.k; i += 32)
	{
		uint2		pair = make_uint2(row, list[min(i + lane, task.table.k - 1)].row);
		double		sum = sum_of_pair<kMetric, kSummation>(task.a.table, task.b.table, pair,
														   min(task.table.k - i, 32u));
		double		dist = exact_distance<kMetric>(task.a.table, pair.x, task.b.table, pair.y, sum);

		if (i + lane >= task.table.k)
			continue;
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
constexpr uint32_t kCountProbes = 8;	/* number of samples of kProbeColumns columns */

/* Counts the sampled pairs that pass the thresholds of symmetric_kernel. */
template <class Number>
__global__ void
__launch_bounds__(kBlock)
count_kernel(const __grid_constant__ NearTask task)
{
	extern __shared__ uint32_t products[];
	__shared__ uint32_t hits[kCountParts];
	uint32_t	step = task.b.table.rows / (kProbeColumns / 16);
	uint32_t	first = task.a.table.rows / kCountGroups * blockIdx.x;
	Operands	operands = {task.a.values, task.b.values, task.row_bytes,
		step / kCountProbes * blockIdx.y, step};

	if (threadIdx.x < kCountParts)
		hits[threadIdx.x] = 0;
	multiply<Number>(operands, first, products);
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < kRows * kProbeColumns; i += kBlock)
	{
		uint32_t	place = first + i / kProbeColumns;
		uint32_t	other = operands.place_of(i % kProbeColumns);
		uint32_t	product = products[i / kProbeColumns * kStride + i % kProbeColumns];
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
	check_launch("probing for near rows");
}

/* Calls visit with a value of the type of quantised rows, and returns its result. */
template <class Visit>
auto
for_precision(Precision precision, const Visit &visit)
{
	return precision == Precision::kInt8 ? visit((signed char) 0)
		: precision == Precision::kFp16 ? visit(__half()) : visit(0.0f);
}

uint32_t
groups_of(uint32_t rows)
{
	return (rows + kRows - 1) / kRows;
}

}								/* namespace */

uint32_t
rows_per_launch(const NearTask &task)
{
	double		bytes = std::max(task.row_bytes * (double) kProbeColumns / kRows,
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

	launch(for_precision(task.form.precision, [](auto number) { return cell_kernel<decltype(number)>; }),
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
launch_probe(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream)
{
	ProbeParams	params = {task, first};
	auto		kernel = for_precision(task.form.precision, [&](auto number)
	{
		return task.merges ? probe_kernel<decltype(number), true> : probe_kernel<decltype(number), false>;
	});

	launch(kernel, params, groups_of(count), stream);
}

void
launch_initial_radii(const NearTask &task, uint32_t first, uint32_t count, cudaStream_t stream)
{
	ProbeParams	params = {task, first};

	auto		kernel = for_summation(task.a.table, [](auto metric, auto summation)
	{
		return radius_kernel<metric, summation>;
	});

	kernel<<<(count + kWarps - 1) / kWarps, kBlock, 0, stream>>>(params, first + count);
	check_launch("computing initial radii");
}

void
launch_count(const NearTask &task, cudaStream_t stream)
{
	check_cuda(cudaMemsetAsync(task.scalars->hits, 0, sizeof(task.scalars->hits), stream),
			   "counting candidates of a sample");
	launch(for_precision(task.form.precision, [](auto number) { return count_kernel<decltype(number)>; }),
		   task, dim3(kCountGroups, kCountProbes), stream);
}

CandidateCounts
candidates_of(const uint32_t *hits, uint32_t rows)
{
	constexpr double kPairs = kCountGroups * kRows * kCountProbes * (double) kProbeColumns;
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
