/*-------------------------------------------------------------------------
 *
 * refine.cu
 *	  The exact recheck of the candidates, and the end of a round.
 *
 *	  candidate (x, y)  -->  pair (x, y, D(x, y)) if D(x, y) <= eps
 *	  nearest neighbours: if D(x, y) <= r_x, or D(x, y) <= r_y in a symmetric scan
 *	  components: D(x, y) is replaced by max(D(x, y), core(x), core(y))
 *
 * D is the canonical distance (exact_distance.cuh).
 *
 *-------------------------------------------------------------------------
 */
#include <algorithm>

#include "engine/filter_bound.h"
#include "filter/exact_distance.cuh"
#include "filter/filter.h"
#include "rows/filter_rows.h"

namespace fasted
{

constexpr uint32_t kBlock = 256;
constexpr uint32_t kWarps = kBlock / 32;

/*
 * Number of candidates that a warp takes at a time.  It is small for rows of many dimensions, or some
 * warps would still read rows when the others have finished.
 */
constexpr uint32_t kFewDimensionsTake = 32;
constexpr uint32_t kManyDimensionsTake = 4;
constexpr uint32_t kManyDimensions = 512;

/* A pair of the result, with row numbers of the whole sets. */
static __device__ __forceinline__ FastedPair
numbered_pair(const RefineParams &p, uint2 pair, double dist)
{
	uint32_t	a = (uint32_t) (p.a.first_row + pair.x);
	uint32_t	b = (uint32_t) (p.b.first_row + pair.y);

	return {p.self ? min(a, b) : a, p.self ? max(a, b) : b, dist};
}

/* Stores a pair and counts it for both rows, as requested. */
static __device__ __forceinline__ void
put_pair(const RefineParams &p, unsigned long long at, uint2 pair, double dist)
{
	if (p.pairs != nullptr)
		p.pairs[at] = numbered_pair(p, pair, dist);
	if (p.a.counts != nullptr)
	{
		atomicAdd(&p.a.counts[pair.x], 1u);
		atomicAdd(&p.b.counts[pair.y], 1u);
	}
}

/* With components: the larger core distance of the two rows. */
static __device__ __forceinline__ double
larger_core(const RefineParams &p, uint2 pair)
{
	return fmax(p.a.cores[pair.x], p.b.cores[pair.y]);
}

/*
 * Returns whether the rows of a candidate are compared: they are in the same partition, in different
 * components, and their core distances are finite and within the radius.
 */
static __device__ __forceinline__ bool
are_compared(const RefineParams &p, uint2 pair)
{
	if (p.a.labels != nullptr)
	{
		uint32_t	label = p.a.labels[pair.x];

		if (!is_group(label) || label != p.b.labels[pair.y])
			return false;
	}
	if (p.a.components == nullptr)
		return true;
	if (p.a.components[pair.x] == p.b.components[pair.y])
		return false;

	double		core = larger_core(p, pair);

	return core < INFINITY && core <= p.radii[pair.x];
}

/* Moves the candidates that are compared to the warp's first lanes, and returns their number. */
static __device__ __forceinline__ uint32_t
keep_compared(const RefineParams &p, bool mine, uint2 *pair)
{
	uint32_t	lanes = __ballot_sync(0xffffffff, mine && are_compared(p, *pair));
	uint32_t	from = __fns(lanes, 0, threadIdx.x % 32 + 1) % 32;

	pair->x = __shfl_sync(0xffffffff, pair->x, from);
	pair->y = __shfl_sync(0xffffffff, pair->y, from);
	return __popc(lanes);
}

/*
 * Returns true if the candidate is a pair: within eps or, for nearest neighbors, within the radius
 * of a row.
 */
template <FastedMetric kMetric>
static __device__ __forceinline__ bool
is_near(const RefineParams &p, uint2 pair, double dist)
{
	if (p.radii == nullptr)
		return dist <= p.eps;
	if (p.exclude_self && pair.x == pair.y)
		return false;
	/* a row with an infinite radius also has candidates without a direction */
	if (has_direction(kMetric)
		&& !(fasted_has_direction(p.a.table.squares[pair.x])
			 && fasted_has_direction(p.b.table.squares[pair.y])))
		return false;
	return dist <= p.radii[pair.x] || (p.symmetric && dist <= p.radii[pair.y]);
}

/*
 * The number of blocks per multiprocessor for which the compiler must leave enough registers; with
 * zero, it chooses a number.  For inner products it would choose the same number, but schedule
 * instructions so that registers are spilled.
 */
template <FastedMetric kMetric, Summation kSummation>
constexpr int kBlocksAtOnce = is_negative_product(kMetric) && kSummation == Summation::kByEights ? 4 : 0;

/*
 * Rechecks all candidates of a round in FP64 and emits the pairs.  A warp takes kTake candidates at
 * a time.
 */
template <FastedMetric kMetric, Summation kSummation, uint32_t kTake, bool kConnect>
static __global__ void
__launch_bounds__(kBlock, kBlocksAtOnce<kMetric, kSummation>)
refine_kernel(const __grid_constant__ RefineParams p)
{
	WorkState  *state = p.candidates.state;
	uint32_t	shift = p.candidates.chunk_shift;
	uint32_t	used = min(state->chunks_used, p.candidates.chunks) << shift;

	unsigned long long candidates = 0;

	for (uint32_t first = (blockIdx.x * kWarps + threadIdx.x / 32) * kTake; first < used;
		 first += gridDim.x * kWarps * kTake)
	{
		/* the warp's candidates are in one chunk, which is filled from its start */
		uint32_t	within = first & ((1u << shift) - 1);
		uint32_t	count = p.candidates.counts[first >> shift];
		uint32_t	here = count > within ? min(count - within, kTake) : 0;
		uint32_t	slot = first + threadIdx.x % 32;
		bool		mine = threadIdx.x % 32 < here;
		uint2		pair = mine ? p.candidates.pairs[slot] : make_uint2(0, 0);

		if (here == 0)
			continue;
		if ((first & p.cancel_check_mask) < gridDim.x * kWarps * kTake
			&& *(volatile uint32_t *) &state->cancelled != 0)
			break;
		candidates += here;
		pair = make_uint2(p.a.table.number_at(pair.x), p.b.table.number_at(pair.y));
		if (p.a.labels != nullptr || p.a.components != nullptr)
		{
			here = keep_compared(p, mine, &pair);
			if (here == 0)
				continue;
			mine = threadIdx.x % 32 < here;
			if (!mine)
				pair = make_uint2(0, 0);
		}

		double		sum = sum_of_pair<kMetric, kSummation>(p.a.table, p.b.table, pair, here);
		double		dist = exact_distance<kMetric>(p.a.table, pair.x, p.b.table, pair.y, sum);

		/* an undefined distance remains NaN */
		if (p.a.components != nullptr && dist < larger_core(p, pair))
			dist = larger_core(p, pair);

		bool		keep = mine && is_near<kMetric>(p, pair, dist);
		unsigned long long at = place_for(keep, &state->pairs);

		if constexpr (kConnect)
			connect_pairs(p.connect, keep, pair, numbered_pair(p, pair, dist));
		else if (keep)
			put_pair(p, at, pair, dist);
	}
	if (threadIdx.x % 32 == 0 && candidates > 0)
		atomicAdd(&state->candidates, candidates);
}

template <bool kConnect>
static auto
kernel_for(const RowTable &rows)
{
	return for_summation(rows, [&](auto metric, auto summation)
	{
		return rows.dimensions < kManyDimensions
			? refine_kernel<metric, summation, kFewDimensionsTake, kConnect>
			: refine_kernel<metric, summation, kManyDimensionsTake, kConnect>;
	});
}

/*
 * Mask that makes each warp check for cancellation about once per megabyte of rows read, since all
 * warps read the same address.  Returns a power of two of candidates, minus one.  `turn` is the
 * number of candidates that all warps take in one loop iteration.
 */
static uint32_t
cancel_mask_for(uint32_t dimensions, uint32_t take, uint32_t turn)
{
	uint64_t	turns = std::max(1u, (1u << 18) / (2 * take * dimensions));
	uint64_t	candidates = 1;

	while (candidates < turns * turn && candidates < 1u << 31)
		candidates *= 2;
	return (uint32_t) (candidates - 1);
}

void
launch_refine(const RefineParams &refine, const Device &device, cudaStream_t stream)
{
	RefineParams params = refine;
	uint32_t	slots = params.candidates.chunks << params.candidates.chunk_shift;
	uint32_t	blocks = min((uint32_t) device.multiprocessors * 8, slots / kBlock);
	const RowTable &rows = params.a.table;
	uint32_t	take = rows.dimensions >= kManyDimensions ? kManyDimensionsTake : kFewDimensionsTake;
	auto		kernel = params.connect.selects() ? kernel_for<true>(rows) : kernel_for<false>(rows);

	params.cancel_check_mask = cancel_mask_for(rows.dimensions, take, blocks * kWarps * take);

	kernel<<<blocks, kBlock, 0, stream>>>(params);
	check_launch("launching the recheck");
}

/* Collects the unfinished work of the round in the other list, and updates the state; one block. */
static __global__ void
advance_kernel(const __grid_constant__ CandidateBuffer buffer, unsigned long long budget,
			   RoundReport *report)
{
	WorkState  *state = buffer.state;
	const Work *from = buffer.lists[state->list];
	Work	   *to = buffer.lists[state->list ^ 1];
	uint32_t	left = unfinished_left(*state);
	uint32_t	length = left + state->voided;
	__shared__ uint32_t numbers[2];

	if (threadIdx.x < 2)
		numbers[threadIdx.x] = 0;
	__syncthreads();
	/* a list that is too long is an error: Rounds::end_round */
	for (uint32_t i = threadIdx.x; i < length && length <= buffer.list_size; i += blockDim.x)
	{
		Work		work = i < left ? from[state->unfinished - left + i] : buffer.voided[i - left];

		to[place_of_unfinished(work, length, atomicAdd(&numbers[work.warp == kAllWarps], 1u))] = work;
	}
	__syncthreads();
	if (threadIdx.x == 0)
	{
		*report = advance_state(*state, budget);
		if (length > buffer.list_size)
			state->unfinished = 0;
	}
}

void
launch_advance(const CandidateBuffer &candidates, unsigned long long budget,
			   RoundReport *report, cudaStream_t stream)
{
	advance_kernel<<<1, 256, 0, stream>>>(candidates, budget, report);
	check_launch("completing a round of the filter");
}

}								/* namespace fasted */
