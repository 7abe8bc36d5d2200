/*-------------------------------------------------------------------------
 *
 * filter_folded.cu
 *	  The filter for INT8 rows of few dimensions on Hopper GPUs, with thresholds folded into the rows.
 *
 *	  (x, y) is a candidate  <=>  x'.y' < 0		for folded rows x' of A and y' of B (row_table.h)
 *
 * For rows of about 100 dimensions, the other steps of filter_wgmma.cu take as long as a tile's
 * products: copying thresholds, scheduling, and finding hits.  Here, one instruction tests two sums.
 *
 *		                      ring B: stages of 256 columns (whole rows)
 *		                      +---------+---------+---------+
 *		A, resident           | stage 0 | stage 1 |  . . .  |	tiles of 64 x 128 products
 *		 consumer 1: strips   |         |         |         |
 *		 consumer 2: strips   |         |         |         |	strip: 64 rows; kStrips (1 or 2)
 *		 consumer 3: strips   |         |         |         |	for each consumer warpgroup
 *		 consumer 4: strips   |         |         |         |
 *		                      +---------+---------+---------+
 *
 * One block runs per multiprocessor; a seventeenth warp has the producer thread, which also takes
 * runs from the queue.  Consumers synchronize only with the producer, when a stage is full and when
 * it is empty.  While one of them searches for hits, the others use the tensor cores.
 *
 *-------------------------------------------------------------------------
 */
#include "device/ptx.h"
#include "filter/epilogue.cuh"
#include "filter/wgmma_schedule.cuh"

namespace fasted
{

namespace folded
{

using wgmma::Ring;
using wgmma::ScheduledTile;
using wgmma::kEnd;
using wgmma::kFirstOfRun;
using wgmma::kLastOfRun;
using wgmma::kTileN;
using wgmma::kWhole;

constexpr int kGroups = 4;		/* warpgroups that compute products */
constexpr uint32_t kGroupRows = 64; /* M of one wgmma instruction */
constexpr int kColumns = 128;	/* N of one wgmma instruction */
constexpr uint32_t kMostStrips = 8;
constexpr uint32_t kMostStages = 6;
constexpr uint32_t kAlignment = 128;

struct Control
{
	alignas(16) ScheduledTile tiles[kMostStages];
	alignas(8) uint64_t b_full[kMostStages];
	uint64_t	b_empty[kMostStages];
	uint64_t	a_full[kMostStrips];
	uint64_t	a_empty[kMostStrips];
};

static_assert(wgmma::kMostSide % (kGroups * 2 * kGroupRows) == 0, "tiles divide squares");

constexpr uint32_t kSharedBytes = 227 * 1024;

/* Number of stages for columns that fit into shared memory beside `rows` rows of A. */
constexpr uint32_t
stages_for(uint32_t rows, uint32_t row_bytes)
{
	uint32_t	left = kSharedBytes - kAlignment - sizeof(Control) - rows * row_bytes;
	uint32_t	stages = left / (kTileN * row_bytes);

	return stages < kMostStages ? stages : kMostStages;
}

/* Strips of 64 rows per warpgroup; long rows leave space for one only. */
constexpr uint32_t
strips_for(uint32_t row_bytes)
{
	return row_bytes <= 160 ? 2 : 1;
}

constexpr uint32_t
rows_for(uint32_t row_bytes)
{
	return kGroups * strips_for(row_bytes) * kGroupRows;
}

/* Sizes for rows of kSteps steps of 32 bytes, including the folded threshold. */
template <int kSteps_>
struct Shape
{
	static constexpr int kSteps = kSteps_;
	static constexpr int kWarps = kGroups * 4;
	static constexpr int kThreads = kWarps * 32 + 32;
	static constexpr int kTiles = kTileN / kColumns;	/* tiles per strip and stage */
	static constexpr int kSums = kColumns / 2;	/* accumulators per thread */
	static constexpr uint32_t kRowBytes = kSteps * kStepBytes;
	static constexpr uint32_t kStrips = strips_for(kRowBytes);
	static constexpr uint32_t kStripsAll = kStrips * kGroups;
	static constexpr uint32_t kRows = rows_for(kRowBytes);
	static constexpr uint32_t kStripBytes = kGroupRows * kRowBytes;
	static constexpr uint32_t kStageBytes = kTileN * kRowBytes;
	static constexpr uint32_t kStages = stages_for(kRows, kRowBytes);

	static_assert(kStages >= 2 && kStages <= kMostStages, "at least one stage of columns ahead");
	static_assert(list_is_long_enough(kStages, kStripsAll * kTiles * 4),
				  "the list of unfinished work is too short");
};

struct Params
{
	const uint8_t *a;
	const uint8_t *b;
	FilterParams filter;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct Buffers
{
	uint32_t	a;				/* shared-memory addresses */
	uint32_t	b;
};

/* Runs in the producer thread, which also takes work from the queue. */
template <class S>
class Producer
{
public:
	__device__ __forceinline__ Producer(const Params &p, const Buffers &at, Control &control)
		: p_(p), at_(at), control_(control), queue_(p.filter.candidates)
	{
	}

	__device__ __forceinline__ void
	run()
	{
		Work		work;
		Square		square;
		wgmma::Run	run;
		bool		stopped = false;

		while (!stopped && queue_.next(&work))
		{
			if (wgmma::locate_run(p_.filter.order, work.item, &square, &run))
				stopped = !send_run(work, run);
		}
		control_.tiles[acquire_stage()].flags = kEnd;
		ptx::barrier_arrive(ptx::shared_address(&control_.b_full[b_.index]));
		queue_.save_unfinished();
	}

private:
	/* Waits until the next stage is free and returns its index. */
	__device__ __forceinline__ uint32_t
	acquire_stage()
	{
		ptx::barrier_wait(ptx::shared_address(&control_.b_empty[b_.index]), b_.parity ^ 1);
		return b_.index;
	}

	/*
	 * Schedules and copies one run; returns false if the queue is stopped.  The first columns are
	 * copied before the rows of A, because these have to wait for the end of the previous run.
	 */
	__device__ __forceinline__ bool
	send_run(const Work &work, const wgmma::Run &run)
	{
		bool		resumed = work.warp != kAllWarps;
		uint32_t	first = max(run.first, work.resume);
		uint32_t	end = resumed ? work.resume + 1 : run.end;
		uint32_t	n = first;
		bool		stopped = false;

		for (; n < end; n++)
		{
			stopped = queue_.stopped();
			if (stopped)
			{
				add_unfinished(p_.filter.candidates, {work.item, work.warp, n});
				break;
			}
			if (n == first + S::kStages - 1)
				send_rows(run.row);
			send_columns(work, run, n, (n == first ? kFirstOfRun : 0)
						 | (n + 1 == end ? kLastOfRun : 0));
		}
		if (n > first && n < first + S::kStages)
			send_rows(run.row);
		return !stopped;
	}

	__device__ __forceinline__ void
	send_rows(uint32_t row)
	{
		for (uint32_t s = 0; s < S::kStripsAll; s++)
		{
			uint32_t	there = ptx::shared_address(&control_.a_full[s]);

			ptx::barrier_wait(ptx::shared_address(&control_.a_empty[s]), a_parity_ ^ 1);
			ptx::barrier_arrive_expect(there, S::kStripBytes);
			ptx::copy_bulk(at_.a + s * S::kStripBytes,
						   p_.a + (size_t) (row + s * kGroupRows) * S::kRowBytes,
						   S::kStripBytes, there);
		}
		a_parity_ ^= 1;
	}

	__device__ __forceinline__ void
	send_columns(const Work &work, const wgmma::Run &run, uint32_t n, uint32_t flags)
	{
		uint32_t	column = run.column + n * kTileN;
		uint32_t	index = acquire_stage();
		uint32_t	there = ptx::shared_address(&control_.b_full[index]);

		if (wgmma::whole_tile(p_.filter.order, run.row, column))
			flags |= kWhole;
		control_.tiles[index] = {work.item, n, work.warp, run.row, column, flags, 0};
		ptx::barrier_arrive_expect(there, S::kStageBytes);
		ptx::copy_bulk(at_.b + index * S::kStageBytes, p_.b + (size_t) column * S::kRowBytes,
					   S::kStageBytes, there);
		b_.next(S::kStages);
	}

	const Params &p_;
	const Buffers &at_;
	Control    &control_;
	wgmma::WorkAhead queue_;
	Ring		b_;
	uint32_t	a_parity_ = 0;
};

/* Row and column of accumulator i. */
__device__ __forceinline__ uint2
pair_of(uint32_t row, uint32_t column, int i)
{
	return make_uint2(row + (i >> 1 & 1) * 8, column + (i >> 2) * 8 + (i & 1));
}

/*
 * Writes the candidates of a warp that has at least one.  Returns false, without writing anything,
 * if the buffer is full.
 */
template <int kSums>
__device__ __forceinline__ bool
report(const int32_t (&sums)[kSums], uint32_t row, uint32_t column, bool whole,
	   const FilterParams &f, CandidateWriter &writer)
{
	constexpr int kWords = kSums / 32;
	uint32_t	masks[kWords];
	uint32_t	found = 0;

	/* accumulator i of a mask is bit 31 - i, for __clz; two independent halves */
#pragma unroll
	for (int w = 0; w < kWords; w++)
	{
		uint32_t	low = 0;

		masks[w] = 0;
#pragma unroll
		for (int i = 0; i < 16; i++)
		{
			masks[w] = __funnelshift_l(sums[w * 32 + i], masks[w], 1);
			low = __funnelshift_l(sums[w * 32 + 16 + i], low, 1);
		}
		masks[w] = masks[w] << 16 | low;
	}
	if (!whole)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
		{
			for (uint32_t left = masks[w]; left != 0;)
			{
				int			i = __clz(left);
				uint2		pair = pair_of(row, column, w * 32 + i);
				bool		wanted = pair.x < f.a.rows && pair.y < f.b.rows
					&& (!f.order.triangle || pair.x < pair.y);

				left ^= 0x80000000u >> i;
				if (!wanted)
					masks[w] ^= 0x80000000u >> i;
			}
		}
	}
#pragma unroll
	for (int w = 0; w < kWords; w++)
		found += __popc(masks[w]);

	uint32_t	total = __reduce_add_sync(0xffffffff, found);

	if (total == 0)
		return true;
	if (!writer.reserve(f.candidates, total))
		return false;

	uint32_t	slot = writer.next_slots(total) + hits_before(found, total);

#pragma unroll
	for (int w = 0; w < kWords; w++)
	{
		for (uint32_t left = masks[w]; left != 0;)
		{
			int			i = __clz(left);

			f.candidates.pairs[slot++] = pair_of(row, column, w * 32 + i);
			left ^= 0x80000000u >> i;
		}
	}
	return true;
}

/* Runs in the consumer warpgroups: multiplies runs and writes candidates. */
template <class S>
__device__ __forceinline__ void
consume(const FilterParams &f, const Buffers &at, Control &control)
{
	/* broadcast from one lane, so that the compiler knows that it is uniform */
	uint32_t	warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	group = warp / 4;
	/* position of this lane's first accumulator in a tile */
	uint32_t	x = warp % 4 * 16 + lane / 4;
	uint32_t	y = lane % 4 * 2;
	Ring		b;
	uint32_t	a_parity = 0;
	CandidateWriter writer;
	int32_t		sums[S::kSums];

	for (;;)
	{
		ptx::barrier_wait(ptx::shared_address(&control.b_full[b.index]), b.parity);

		ScheduledTile tile = control.tiles[b.index];

		if (tile.flags & kEnd)
			break;
#pragma unroll 1
		for (uint32_t s = 0; s < S::kStrips; s++)
		{
			uint32_t	strip = group * S::kStrips + s;
			uint64_t	from_a = ptx::wgmma_blocks(at.a + strip * S::kStripBytes, S::kRowBytes);
			uint64_t	from_b = ptx::wgmma_blocks(at.b + b.index * S::kStageBytes, S::kRowBytes);

			if (tile.flags & kFirstOfRun)
				ptx::barrier_wait(ptx::shared_address(&control.a_full[strip]), a_parity);
#pragma unroll
			for (uint32_t t = 0; t < S::kTiles; t++)
			{
				ptx::wgmma_fence(sums);
#pragma unroll
				for (int k = 0; k < S::kSteps; k++)
					ptx::wgmma_step(sums, from_a + k * (256 / 16), from_b + k * (256 / 16), k > 0);
				ptx::wgmma_commit();
				ptx::wgmma_finish(sums);
				from_b += kColumns * S::kRowBytes / 16;

				if (t + 1 == S::kTiles && lane == 0)
				{
					if (tile.flags & kLastOfRun)
						ptx::barrier_arrive(ptx::shared_address(&control.a_empty[strip]));
					if (s + 1 == S::kStrips)
						ptx::barrier_arrive(ptx::shared_address(&control.b_empty[b.index]));
				}
				if (__any_sync(0xffffffff, ptx::any_negative(sums)))
				{
					uint32_t	part = (strip * S::kTiles + t) * 4 + warp % 4;

					if ((tile.warp == kAllWarps || tile.warp == part)
						&& !report(sums, tile.row + strip * kGroupRows + x,
								   tile.column + t * kColumns + y,
								   (tile.flags & kWhole) != 0, f, writer))
						writer.save_unfinished(f.candidates, tile.item, part, tile.number);
					__syncwarp();
				}
			}
		}
		if (tile.flags & kLastOfRun)
			a_parity ^= 1;
		b.next(S::kStages);
	}
	writer.close(f.candidates);
}

template <class S>
__device__ __forceinline__ void
initialise(Control &control)
{
	for (uint32_t i = 0; i < S::kStages; i++)
	{
		ptx::barrier_init(ptx::shared_address(&control.b_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.b_empty[i]), S::kWarps);
	}
	for (uint32_t i = 0; i < S::kStripsAll; i++)
	{
		ptx::barrier_init(ptx::shared_address(&control.a_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.a_empty[i]), 4);
	}
	ptx::barrier_init_fence();
}

#endif							/* sm_90a */

/*
 * Computes the products of all folded rows p.a with all p.b and writes the pairs whose product is
 * negative.  Grid: one block per multiprocessor, of 16 warps that compute and one that copies.
 */
template <class S>
__global__ void
__launch_bounds__(S::kThreads, 1)
folded_kernel(const __grid_constant__ Params p)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
	extern __shared__ unsigned char shared[];
	uint32_t	skip = (kAlignment - ptx::shared_address(shared) % kAlignment) % kAlignment;
	uint32_t	rows = ptx::shared_address(shared) + skip;
	Buffers		at = {rows, rows + S::kStripsAll * S::kStripBytes};
	Control    &control = *(Control *) (shared + skip + S::kStripsAll * S::kStripBytes
										+ S::kStages * S::kStageBytes);

	if (threadIdx.x == 0)
		initialise<S>(control);
	__syncthreads();
	if (threadIdx.x < S::kWarps * 32)
		consume<S>(p.filter, at, control);
	else if (threadIdx.x == S::kWarps * 32)
		Producer<S>(p, at, control).run();
#else
	__trap();					/* not reached: see filter_wgmma_available */
#endif
}

template <int kSteps>
static void
launch(const FilterParams &params, const Device &device, cudaStream_t stream)
{
	using S = Shape<kSteps>;
	auto		kernel = folded_kernel<S>;
	Params		p = {params.a.folded_a, params.b.folded_b, params};
	uint32_t	bytes = kAlignment + S::kStripsAll * S::kStripBytes + S::kStages * S::kStageBytes
		+ (uint32_t) sizeof(Control);

	allow_shared_memory(kernel, bytes);
	kernel<<<device.multiprocessors, S::kThreads, bytes, stream>>>(p);
	check_launch("launching the folded filter");
}

}								/* namespace folded */

TileShape
folded_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self, const Device &device)
{
	uint32_t	rows = folded::rows_for(row_bytes);
	uint32_t	side = wgmma::side_for(rows, rows, rows_a, rows_b, self, device);

	return {rows, side, side};
}

/* row_bytes: bytes of a row including its threshold. */
void
launch_filter_folded(const FilterParams &params, uint32_t row_bytes, const Device &device,
					 cudaStream_t stream)
{
	using namespace folded;

	static constexpr decltype(&launch<1>) launches[] = {
		launch<1>, launch<2>, launch<3>, launch<4>, launch<5>, launch<6>, launch<7>, launch<8>,
		launch<9>};

	static_assert(sizeof(launches) / sizeof(launches[0])
				  == fold_shape(kMostFolded).bytes / kStepBytes, "one for every number of steps");
	launches[row_bytes / kStepBytes - 1](params, device, stream);
}

}								/* namespace fasted */
