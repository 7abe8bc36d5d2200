/*-------------------------------------------------------------------------
 *
 * filter_wgmma.cu
 *	  The filter for Hopper: TMA copies, warpgroup products.
 *
 * One block of three warpgroups on a multiprocessor.  One thread of the first
 * takes tiles of 128 x 256 from the queue and keeps four stages of 64
 * dimensions of both sides in flight; the other two warpgroups compute 64 x 256
 * inner products each, straight from shared memory, and report the hits.  The
 * copying thread runs ahead over the end of a tile, so a tile's first slices
 * and thresholds are there when the last tile's epilogue ends.
 *
 * mma.sync reaches about 65% of a Hopper's tensor cores at best, since every
 * operand passes through registers; wgmma reads shared memory by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "check.h"
#include "epilogue.cuh"
#include "filter.h"
#include "ptx_sm90.h"

namespace fasted
{

namespace
{

constexpr int kTileM = 128;
constexpr int kTileN = 256;
constexpr int kSliceK = 64;		/* 128 bytes: the width of the swizzle */
[[maybe_unused]] constexpr int kSteps = kSliceK / (int) kStepK;
constexpr int kStages = 4;
constexpr int kTilesAhead = 4;	/* tiles whose thresholds are in memory */
constexpr int kBatch = 8;		/* tiles taken at once, where they are short */
constexpr int kThreads = 384;
[[maybe_unused]] constexpr int kConsumerWarps = 8;

constexpr uint32_t kBytesA = kTileM * kSliceK * 2;
constexpr uint32_t kBytesB = kTileN * kSliceK * 2;
constexpr uint32_t kStageBytes = kBytesA + kBytesB;
[[maybe_unused]] constexpr uint32_t kThresholdBytes = (kTileM + kTileN) * sizeof(float);

/* What the copying thread tells the others about a tile. */
struct TilePlace
{
	uint64_t	item;
	uint32_t	warp;
	uint32_t	tile_m;
	uint32_t	tile_n;
	uint32_t	whole;			/* every element is a pair */
	uint32_t	end;			/* no tile: the queue is empty */
};

/*
 * A multiprocessor voids at most what its warps have in hand and in the slots,
 * and gives back two batches.
 */
static_assert((1 + kTilesAhead) * 8 + 2 * kBatch <= kVoidedPerMultiprocessor,
			  "the list of voided work is too short");

struct alignas(16) TileSlot
{
	float		tx[kTileM];
	float		ty[kTileN];
	TilePlace	place;
};

struct Control
{
	alignas(16) TileSlot tiles[kTilesAhead];
	alignas(8) uint64_t slice_full[kStages];
	uint64_t	slice_empty[kStages];
	uint64_t	tile_full[kTilesAhead];
	uint64_t	tile_empty[kTilesAhead];
};

constexpr uint32_t kSharedBytes = kStages * kStageBytes + sizeof(Control) + 1024;

/* A position in a ring of barriers. */
template <int kSize>
struct Ring
{
	uint32_t	index = 0;
	uint32_t	parity = 0;

	__device__ __forceinline__ void next()
	{
		if (++index == kSize)
		{
			index = 0;
			parity ^= 1;
		}
	}
};

struct WgmmaParams
{
	CUtensorMap map_a;			/* boxes of 64 x kTileM and 64 x kTileN */
	CUtensorMap map_b;
	FilterParams filter;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/*
 * Takes the items of the queue in batches, the next one in good time, so that
 * nobody waits for the atomic.  One thread serves a whole multiprocessor, so its
 * instructions count where tiles are short.
 */
class WorkAhead
{
public:
	__device__ __forceinline__ WorkAhead(const CandidateBuffer &buffer, uint32_t batch)
		: buffer_(buffer), again_(buffer.state->again),
		length_(again_ + (buffer.state->fresh_end - buffer.state->fresh_first)),
		fresh_(buffer.state->fresh_first - again_),
		list_(buffer.lists[buffer.state->list]), batch_(batch)
	{
		ask();
	}

	__device__ __forceinline__ bool
	take(Work *work)
	{
		if (next_ == end_)
		{
			if (asked_ >= length_)
				return false;
			next_ = asked_;
			end_ = asked_ + batch_ < length_ ? asked_ + batch_ : length_;
			ask();
		}
		*work = at(next_++);
		return true;
	}

	/* After "stop": what was taken, but not begun, is to be done again. */
	__device__ __forceinline__ void
	give_back()
	{
		for (; next_ < end_; next_++)
			give_back(at(next_));
		for (uint32_t i = 0; i < batch_ && asked_ + i < length_; i++)
			give_back(at(asked_ + i));
	}

	__device__ __forceinline__ bool
	stopped()
	{
		bool		stopped = stop_ != 0;

		stop_ = *(volatile uint32_t *) &buffer_.state->stop;
		return stopped;
	}

private:
	__device__ __forceinline__ Work
	at(unsigned long long number) const
	{
		if (number < again_)
			return list_[number];
		return {fresh_ + number, kAllWarps, 0};
	}

	__device__ __forceinline__ void
	give_back(const Work &work)
	{
		uint32_t	to = atomicAdd(&buffer_.state->voided, 1u);

		if (to < buffer_.list_size)
			buffer_.voided[to] = work;
	}

	__device__ __forceinline__ void
	ask()
	{
		asked_ = atomicAdd(&buffer_.state->taken, (unsigned long long) batch_);
	}

	const CandidateBuffer &buffer_;
	unsigned long long again_;
	unsigned long long length_;
	unsigned long long fresh_;	/* the item of number 0, if all were fresh */
	const Work *list_;
	uint32_t	batch_;
	unsigned long long next_ = 0;	/* the batch in hand */
	unsigned long long end_ = 0;
	unsigned long long asked_ = 0;	/* the one after it */
	uint32_t	stop_ = 0;		/* as seen some time ago */
};

/* The copying thread. */
__device__ __forceinline__ void
produce(const WgmmaParams &p, uint32_t stages, Control &control)
{
	const FilterParams &f = p.filter;
	int			slices = (f.k_steps + kSteps - 1) / kSteps;
	Ring<kStages> slice;
	Ring<kTilesAhead> tile;
	WorkAhead	queue(f.candidates, slices <= kStages ? kBatch : 1);
	Work		work;
	Square		square;
	bool		more = true;

	while (more)
	{
		uint32_t	tile_m = 0;
		uint32_t	tile_n = 0;

		do
			more = !queue.stopped() && queue.take(&work);
		while (more && !f.order.locate(work.item, &tile_m, &tile_n, &square));

		TileSlot   &slot = control.tiles[tile.index];
		uint32_t	full = ptx::shared_address(&control.tile_full[tile.index]);

		ptx::barrier_wait(ptx::shared_address(&control.tile_empty[tile.index]),
						  tile.parity ^ 1);
		slot.place = {work.item, work.warp, tile_m, tile_n,
			f.order.whole(tile_m, tile_n), !more};
		if (!more)
		{
			ptx::barrier_arrive(full);
			queue.give_back();
			break;
		}
		ptx::barrier_arrive_expect(full, kThresholdBytes);
		ptx::copy_bulk(ptx::shared_address(slot.tx), f.a.thresholds + tile_m * kTileM,
					   sizeof(slot.tx), full);
		ptx::copy_bulk(ptx::shared_address(slot.ty), f.b.thresholds + tile_n * kTileN,
					   sizeof(slot.ty), full);
		tile.next();

		for (int s = 0; s < slices; s++)
		{
			uint32_t	to = stages + slice.index * kStageBytes;
			uint32_t	there = ptx::shared_address(&control.slice_full[slice.index]);

			ptx::barrier_wait(ptx::shared_address(&control.slice_empty[slice.index]),
							  slice.parity ^ 1);
			ptx::barrier_arrive_expect(there, kStageBytes);
			ptx::copy_tile(to, &p.map_a, s * kSliceK, tile_m * kTileM, there);
			ptx::copy_tile(to + kBytesA, &p.map_b, s * kSliceK, tile_n * kTileN, there);
			slice.next();
		}
	}
}

/* Starts the products of kCount steps of a slice, as soon as it is there. */
template <int kCount>
__device__ __forceinline__ void
multiply_slice(float (&acc)[128], uint32_t stages, Control &control,
			   const Ring<kStages> &slice, uint32_t group, bool add)
{
	uint32_t	at = stages + slice.index * kStageBytes;
	uint64_t	a = ptx::wgmma_operand(at + group * (kBytesA / 2));
	uint64_t	b = ptx::wgmma_operand(at + kBytesA);

	ptx::barrier_wait(ptx::shared_address(&control.slice_full[slice.index]), slice.parity);
	ptx::wgmma_fence();
	/* 16 dimensions are 32 bytes: two units of an operand's address */
#pragma unroll
	for (int step = 0; step < kCount; step++)
		ptx::wgmma_64x256x16(acc, a + step * 2, b + step * 2, add || step > 0);
	ptx::wgmma_commit();
}

/* A warpgroup's share of the products, tile after tile. */
template <class Test>
__device__ __forceinline__ void
consume(const WgmmaParams &p, const Test &test, uint32_t stages, Control &control)
{
	const FilterParams &f = p.filter;
	int			full = f.k_steps / kSteps;	/* slices */
	int			rest = f.k_steps % kSteps;	/* steps after them */
	uint32_t	warp = threadIdx.x / 32 - 4;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	group = warp / 4;
	Ring<kStages> slice;
	Ring<kTilesAhead> tile;
	CandidateWriter writer;

	/*
	 * Short rows: the two warpgroups multiply in turns, so that one's epilogue
	 * runs beside the other's products.  All slices of a tile must be in shared
	 * memory, or one would wait for a stage and the other one for its turn.
	 */
	bool		turns = full + (rest > 0) <= kStages;

	if (turns && group == 1)
		ptx::named_barrier_arrive(1, 256);

	for (;;)
	{
		TileSlot   &slot = control.tiles[tile.index];
		float		acc[128];
		uint32_t	last = 0;

		ptx::barrier_wait(ptx::shared_address(&control.tile_full[tile.index]), tile.parity);

		TilePlace	place = slot.place;

		if (place.end)
			break;
		if (turns)
			ptx::named_barrier_wait(1 + group, 256);

		for (int s = 0; s < full; s++)
		{
			multiply_slice<kSteps>(acc, stages, control, slice, group, s > 0);

			/* the slice before this one has been read */
			ptx::wgmma_wait<1>();
			if (s > 0 && lane == 0)
				ptx::barrier_arrive(last);
			last = ptx::shared_address(&control.slice_empty[slice.index]);
			slice.next();
		}
		ptx::wgmma_wait<0>();
		if (full > 0 && lane == 0)
			ptx::barrier_arrive(last);
		if (rest > 0)
		{
			switch (rest)
			{
				case 1:
					multiply_slice<1>(acc, stages, control, slice, group, full > 0);
					break;
				case 2:
					multiply_slice<2>(acc, stages, control, slice, group, full > 0);
					break;
				default:
					multiply_slice<3>(acc, stages, control, slice, group, full > 0);
					break;
			}
			ptx::wgmma_wait<0>();
			if (lane == 0)
				ptx::barrier_arrive(ptx::shared_address(&control.slice_empty[slice.index]));
			slice.next();
		}

		if (turns)
			ptx::named_barrier_arrive(1 + (group ^ 1), 256);

		if (place.warp == kAllWarps || place.warp == warp)
		{
			int			x = group * 64 + warp % 4 * 16 + lane / 4;
			int			y = lane % 4 * 2;
			WarpTile	part = {place.tile_m * kTileM + x, place.tile_n * kTileN + y,
				f.a.rows, f.b.rows, f.order.triangle, place.whole != 0};

			if (!report_hits<LayoutWgmma>(acc, slot.tx + x, slot.ty + y, test, part,
										  f.candidates, writer))
				writer.give_up(f.candidates, place.item, warp, 0);
		}
		/* every lane read thresholds, so every lane says that it has */
		ptx::barrier_arrive(ptx::shared_address(&control.tile_empty[tile.index]));
		tile.next();
	}
	writer.close(f.candidates);
}

#endif							/* sm_90a */

template <class Test>
__global__ void
__launch_bounds__(kThreads, 1)
wgmma_kernel(const __grid_constant__ WgmmaParams p, const Test test)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
	extern __shared__ unsigned char shared[];
	uint32_t	skip = (1024 - ptx::shared_address(shared) % 1024) % 1024;
	uint32_t	stages = ptx::shared_address(shared) + skip;
	Control    &control = *(Control *) (shared + skip + kStages * kStageBytes);

	if (threadIdx.x == 0)
	{
		for (int i = 0; i < kStages; i++)
		{
			ptx::barrier_init(ptx::shared_address(&control.slice_full[i]), 1);
			ptx::barrier_init(ptx::shared_address(&control.slice_empty[i]), kConsumerWarps);
		}
		for (int i = 0; i < kTilesAhead; i++)
		{
			ptx::barrier_init(ptx::shared_address(&control.tile_full[i]), 1);
			ptx::barrier_init(ptx::shared_address(&control.tile_empty[i]), kConsumerWarps * 32);
		}
		ptx::barrier_init_fence();
		ptx::prefetch_map(&p.map_a);
		ptx::prefetch_map(&p.map_b);
	}
	__syncthreads();

	/* 65536 registers: 128 threads with 56 and 256 with 224 */
	if (threadIdx.x < 128)
	{
		ptx::registers_release<56>();
		if (threadIdx.x == 0)
			produce(p, stages, control);
	}
	else
	{
		ptx::registers_acquire<224>();
		consume(p, test, stages, control);
	}
#else
	__trap();					/* filter_wgmma_available says no */
#endif
}

/*
 * Never run.  How much shared memory it has says whether the code that the
 * driver chose for this device was compiled for sm_90a: sm_90 is not enough,
 * and nothing else tells the two apart.
 */
__global__ void
built_for_hopper(int *out)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
	__shared__ volatile int marker[64];
#else
	__shared__ volatile int marker[1];
#endif

	marker[0] = out[0];
	__syncthreads();
	out[0] = marker[0] + 1;
}

using EncodeTiled = CUresult (*) (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
								  const cuuint64_t *, const cuuint64_t *,
								  const cuuint32_t *, const cuuint32_t *,
								  CUtensorMapInterleave, CUtensorMapSwizzle,
								  CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, which this library does not link to. */
EncodeTiled
encode_tiled()
{
	void	   *function = nullptr;
	cudaDriverEntryPointQueryResult found;

	if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
										 cudaEnableDefault, &found) != cudaSuccess
		|| found != cudaDriverEntryPointSuccess)
	{
		(void) cudaGetLastError();
		return nullptr;
	}
	return (EncodeTiled) function;
}

/* Boxes of 64 dimensions of box_rows rows; zeros beyond the rows' ends. */
CUtensorMap
tensor_map(const QuantisedRows &side, uint32_t stride, uint32_t box_rows)
{
	static const EncodeTiled encode = encode_tiled();
	CUtensorMap map;
	cuuint64_t	size[2] = {stride, side.rows};
	cuuint64_t	row_bytes[1] = {stride * sizeof(__half)};
	cuuint32_t	box[2] = {kSliceK, box_rows};
	cuuint32_t	steps[2] = {1, 1};

	if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *) side.values, size,
			   row_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
			   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
			   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
		fail(FASTED_INTERNAL, "the driver refused to describe the quantised rows");
	return map;
}

template <class Test>
void
launch(const FilterParams &params, const Test &test, const Device &device,
	   cudaStream_t stream)
{
	auto		kernel = wgmma_kernel<Test>;
	WgmmaParams p = {tensor_map(params.a, params.stride, kTileM),
		tensor_map(params.b, params.stride, kTileN), params};

	check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
									kSharedBytes),
			   "sizing the filter's shared memory");
	kernel<<<device.multiprocessors, kThreads, kSharedBytes, stream>>>(p, test);
	check_launch("launching the wgmma filter");
}

}								/* namespace */

bool
filter_wgmma_available(const Device &device)
{
	cudaFuncAttributes attributes;

	if (device.capability != 90)
		return false;

	check_cuda(cudaFuncGetAttributes(&attributes, built_for_hopper),
			   "looking for the wgmma filter");
	return attributes.sharedSizeBytes >= 64 * sizeof(int) && encode_tiled() != nullptr;
}

void
launch_filter_wgmma(const FilterParams &params, bool approximate,
					const Device &device, cudaStream_t stream)
{
	if (approximate)
		launch(params, PaperTest{params.eps2}, device, stream);
	else
		launch(params, CertifiedTest{}, device, stream);
}

}								/* namespace fasted */
