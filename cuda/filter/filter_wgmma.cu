/*-------------------------------------------------------------------------
 *
 * filter_wgmma.cu
 *	  The filter for Hopper: TMA copies, warpgroup products.
 *
 * One block on a multiprocessor, of four warpgroups with parts of their own
 * (warp specialisation).  In the first, one thread says which tile comes next
 * (wgmma_schedule.cuh), and one keeps slices of both sides' rows and thresholds
 * on their way into shared memory (wgmma_schedule.cuh).  The other two compute 64 x 256
 * products each, straight from shared memory, and report the hits.
 *
 * Whoever of them has its epilogue leaves the tensor cores to the other, and so
 * gets ahead or behind until one's epilogue runs beside the other's products.
 *
 * The blocks of a cluster have the same B: each copies a part of every slice of
 * it into the shared memory of all.
 *
 * mma.sync reaches about 65% of a Hopper's tensor cores at best, since every
 * operand passes through registers; wgmma reads shared memory by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "device/ptx.h"
#include "filter/epilogue.cuh"
#include "filter/wgmma_schedule.cuh"

namespace fasted
{

namespace
{

using EncodeTiled = CUresult (*) (CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
								  const cuuint64_t *, const cuuint64_t *,
								  const cuuint32_t *, const cuuint32_t *,
								  CUtensorMapInterleave, CUtensorMapSwizzle,
								  CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's function, which this library does not link to. */
EncodeTiled
find_encode_tiled()
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

EncodeTiled
encode_tiled()
{
	static const EncodeTiled encode = find_encode_tiled();

	return encode;
}

CUtensorMap
tensor_map(const QuantisedRows &side, uint32_t row_bytes, uint32_t box_bytes,
		   uint32_t box_rows)
{
	CUtensorMap map;
	cuuint64_t	size[2] = {row_bytes, side.rows};
	cuuint64_t	strides[1] = {row_bytes};
	cuuint32_t	box[2] = {box_bytes, box_rows};
	cuuint32_t	steps[2] = {1, 1};

	if (encode_tiled()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *) side.values, size,
					   strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
					   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
					   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
		fail(FASTED_INTERNAL, "the driver refused to describe the quantised rows");
	return map;
}

}								/* namespace */

namespace wgmma
{

struct Params
{
	CUtensorMap map_a;			/* boxes of kTileM rows */
	CUtensorMap map_b;			/* of kTileN / cluster rows */
	FilterParams filter;
	Rings		rings;
	int			full_slices;
	int			steps_left;		/* after them */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Where the rings lie in shared memory, and which block this is. */
struct Place
{
	uint32_t	a;				/* shared addresses of the first slots */
	uint32_t	b;
	uint32_t	rank;			/* in the cluster */
};

/* Copies the thresholds of the tile in this slot. */
__device__ __forceinline__ void
copy_thresholds(const FilterParams &f, TileSlot &slot, uint32_t rank, uint32_t full)
{
	uint32_t	row = slot.place.row + rank * kTileM;

	ptx::barrier_arrive_expect(full, kThresholdBytes);
	ptx::copy_bulk(ptx::shared_address(slot.tx), f.a.thresholds + row, sizeof(slot.tx), full);
	ptx::copy_bulk(ptx::shared_address(slot.ty), f.b.thresholds + slot.place.column,
				   sizeof(slot.ty), full);
	ptx::copy_bulk(ptx::shared_address(slot.minima),
				   f.b.minima + slot.place.column / kMinimaColumns, sizeof(slot.minima), full);
}

/* Copies this block's part of a slice of B to all blocks of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
copy_b(const Params &p, uint32_t slot, uint32_t rank, int byte, int row, uint32_t full)
{
	constexpr uint32_t kRows = kTileN / kCluster;
	uint32_t	to = slot + rank * (kRows * kSliceBytes);

	if (kCluster == 1)
		ptx::copy_tile(to, &p.map_b, byte, row, full);
	else
		ptx::copy_tile_to_all(to, &p.map_b, byte, row + rank * kRows, full,
							  (1u << kCluster) - 1);
}

/* The copying thread. */
template <int kCluster>
__device__ __forceinline__ void
copy(const Params &p, const Place &at, Control &control)
{
	Ring		tile;
	Ring		a;
	Ring		b;

	for (;;)
	{
		TileSlot   &slot = control.tiles[tile.index];
		uint32_t	full = ptx::shared_address(&control.tile_full[tile.index]);
		uint32_t	placed = ptx::shared_address(&control.placed[tile.index]);

		if (kCluster == 1)
			ptx::barrier_wait(placed, tile.parity);
		else
			ptx::barrier_wait_cluster(placed, tile.parity);

		TilePlace	place = slot.place;

		if (place.flags & kEnd)
		{
			ptx::barrier_arrive(full);
			break;
		}
		copy_thresholds(p.filter, slot, at.rank, full);
		tile.next(kTilesAhead);

		for (int s = 0; s < p.full_slices + (p.steps_left > 0); s++)
		{
			int			byte = s * kSliceBytes;

			if (place.flags & kFirstOfRun)
			{
				uint32_t	there = ptx::shared_address(&control.a_full[a.index]);

				ptx::barrier_wait(ptx::shared_address(&control.a_empty[a.index]), a.parity ^ 1);
				ptx::barrier_arrive_expect(there, kSlotBytesA);
				ptx::copy_tile(at.a + a.index * kSlotBytesA, &p.map_a, byte,
							   place.row + at.rank * kTileM, there);
				a.next(p.rings.slots_a);
			}

			uint32_t	there = ptx::shared_address(&control.b_full[b.index]);

			ptx::barrier_wait(ptx::shared_address(&control.b_empty[b.index]), b.parity ^ 1);
			ptx::barrier_arrive_expect(there, kSlotBytesB);
			copy_b<kCluster>(p, at.b + b.index * kSlotBytesB, at.rank, byte, place.column, there);
			b.next(p.rings.slots_b);
		}
	}
}

/* This warp has read a slice: A's slot is free if the run ends, B's anyway. */
template <int kCluster>
__device__ __forceinline__ void
release(Control &control, uint32_t flags, uint32_t a, uint32_t b)
{
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	empty = ptx::shared_address(&control.b_empty[b]);

	if ((flags & kLastOfRun) && lane == 0)
		ptx::barrier_arrive(ptx::shared_address(&control.a_empty[a]));
	if (kCluster == 1)
	{
		if (lane == 0)
			ptx::barrier_arrive(empty);
	}
	else if (lane < kCluster)
		ptx::barrier_arrive_read(ptx::cluster_address(empty, lane));
}

/* The slices that a warpgroup multiplies, one after the other. */
struct Slices
{
	Ring		run;			/* the run's first slot of A */
	Ring		a;
	Ring		b;
	uint32_t	before_a;		/* the slots of the slice before */
	uint32_t	before_b;
};

/*
 * Multiplies kCount steps of the next slice; returns when the slice before is
 * done, and leaves this one to the tensor cores.
 */
template <int kCount, int kCluster, class Number>
__device__ __forceinline__ void
multiply(Number (&acc)[128], const Params &p, const Place &at, Control &control,
		 Slices &slices, uint32_t flags, bool first)
{
	constexpr int kUnits = kStepBytes / 16; /* of an operand's address */
	uint32_t	a_slot = slices.a.index;
	uint32_t	b_slot = slices.b.index;
	uint64_t	a = ptx::wgmma_operand(at.a + a_slot * kSlotBytesA);
	uint64_t	b = ptx::wgmma_operand(at.b + b_slot * kSlotBytesB);

	if (flags & kFirstOfRun)
		ptx::barrier_wait(ptx::shared_address(&control.a_full[a_slot]), slices.a.parity);
	ptx::barrier_wait(ptx::shared_address(&control.b_full[b_slot]), slices.b.parity);

	ptx::wgmma_fence(acc);
#pragma unroll
	for (int step = 0; step < kCount; step++)
		ptx::wgmma_step(acc, a + step * kUnits, b + step * kUnits, !first || step > 0);
	ptx::wgmma_commit();
	ptx::wgmma_wait<1>();
	if (!first)
		release<kCluster>(control, flags, slices.before_a, slices.before_b);
	slices.before_a = a_slot;
	slices.before_b = b_slot;
	slices.a.next(p.rings.slots_a);
	slices.b.next(p.rings.slots_b);
}

/* The products of one tile. */
template <int kCluster, class Number>
__device__ __forceinline__ void
multiply_tile(Number (&acc)[128], const Params &p, const Place &at, Control &control,
			  Slices &slices, uint32_t flags)
{
	bool		none = p.full_slices == 0;

	slices.a = slices.run;
	for (int s = 0; s < p.full_slices; s++)
		multiply<kSteps, kCluster>(acc, p, at, control, slices, flags, s == 0);

	/* a block of code for each, or the compiler would serialise the products */
	switch (p.steps_left)
	{
		case 1:
			multiply<1, kCluster>(acc, p, at, control, slices, flags, none);
			break;
		case 2:
			multiply<2, kCluster>(acc, p, at, control, slices, flags, none);
			break;
		case 3:
			multiply<3, kCluster>(acc, p, at, control, slices, flags, none);
			break;
	}
	ptx::wgmma_finish(acc);
	release<kCluster>(control, flags, slices.before_a, slices.before_b);
	if (flags & kLastOfRun)
		slices.run = slices.a;
}

/* A warpgroup's share of the work, tile after tile. */
template <int kCluster, class Test>
__device__ __forceinline__ void
consume(const Params &p, const Test &test, Place at, Control &control)
{
	using Number = typename Test::Number;

	const FilterParams &f = p.filter;
	/* from one lane, so that the compiler knows that it is the same in all */
	uint32_t	warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0) - 4;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	x = warp * 16 + lane / 4;	/* of this lane's first product in the tile */
	uint32_t	y = lane % 4 * 2;
	uint32_t	warp_in_cluster = at.rank * kConsumerWarps + warp;
	Ring		tile;
	Slices		slices = {};
	CandidateWriter writer;

	static_assert(kGroupRows == 4 * 16, "a warp has 16 rows of its group's");
	at.a += warp / 4 * (kGroupRows * kSliceBytes);
	for (;;)
	{
		TileSlot   &slot = control.tiles[tile.index];
		const Number *tx = (const Number *) slot.tx + x;
		Number		acc[128];

		ptx::barrier_wait(ptx::shared_address(&control.tile_full[tile.index]), tile.parity);

		TilePlace	place = slot.place;

		if (place.flags & kEnd)
			break;
		multiply_tile<kCluster>(acc, p, at, control, slices, place.flags);

		if (place.warp == kAllWarps || place.warp == warp_in_cluster)
		{
			WarpTile	part = {place.row + at.rank * kTileM + x, place.column + y,
				f.a.rows, f.b.rows, f.order.triangle, (place.flags & kWhole) != 0};

			if (!report_hits<LayoutWgmma>(acc, tx, (const Number *) slot.ty + y,
										  (const Number *) slot.minima, test, part,
										  f.candidates, writer))
				writer.give_up(f.candidates, place.item, warp_in_cluster, place.number);
		}
		/* every lane read thresholds, so every lane says that it has */
		ptx::barrier_arrive(ptx::shared_address(&control.tile_empty[tile.index]));
		tile.next(kTilesAhead);
	}
	writer.close(f.candidates);
}

template <int kCluster>
__device__ __forceinline__ void
initialise(Control &control)
{
	for (uint32_t i = 0; i < kTilesAhead; i++)
	{
		ptx::barrier_init(ptx::shared_address(&control.placed[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.tile_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.tile_empty[i]), kConsumerThreads);
		if (kCluster > 1)
			ptx::barrier_init(ptx::shared_address(&control.peer_empty[i]), kCluster - 1);
	}
	for (uint32_t i = 0; i < kMostSlots; i++)
	{
		ptx::barrier_init(ptx::shared_address(&control.a_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.a_empty[i]), kConsumerWarps);
		ptx::barrier_init(ptx::shared_address(&control.b_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.b_empty[i]), kCluster * kConsumerWarps);
	}
	ptx::barrier_init_fence();
}

#endif							/* sm_90a */

template <int kCluster, class Test>
__global__ void
__launch_bounds__(kThreads, 1)
wgmma_kernel(const __grid_constant__ Params p, const Test test)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
	extern __shared__ unsigned char shared[];
	uint32_t	skip = (kAlignment - ptx::shared_address(shared) % kAlignment) % kAlignment;
	uint32_t	rings = ptx::shared_address(shared) + skip;
	Control    &control = *(Control *) (shared + skip + kRingBytes);
	Place		at = {rings, rings + p.rings.slots_a * kSlotBytesA,
		kCluster == 1 ? 0 : ptx::cluster_rank()};

	if (threadIdx.x == 0)
	{
		initialise<kCluster>(control);
		ptx::prefetch_map(&p.map_a);
		ptx::prefetch_map(&p.map_b);
	}
	__syncthreads();
	if (kCluster > 1)
		ptx::cluster_sync();

	if (threadIdx.x < 128)
	{
		ptx::registers_release<kProducerRegisters>();
		if (threadIdx.x == 0)
			copy<kCluster>(p, at, control);
		else if (threadIdx.x == 32 && at.rank == 0)
			schedule<kCluster>(p.filter, control);
		else if (threadIdx.x == 32)
			forward_free_slots(control);
	}
	else
	{
		ptx::registers_acquire<kConsumerRegisters>();
		consume<kCluster>(p, test, at, control);
	}

	/* no block leaves while another one may still write to it */
	if (kCluster > 1)
		ptx::cluster_sync();
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

/* Blocks of a cluster. */
static uint32_t
cluster_size(uint32_t row_bytes)
{
	if (wgmma_cluster > 0)
		return wgmma_cluster;
	return slices_of(row_bytes) >= 4 ? 2 : 1;
}

template <int kCluster, class Test>
static void
launch(const FilterParams &params, const Test &test, const Device &device,
	   cudaStream_t stream)
{
	auto		kernel = wgmma_kernel<kCluster, Test>;
	Params		p = {tensor_map(params.a, params.row_bytes, kSliceBytes, kTileM),
		tensor_map(params.b, params.row_bytes, kSliceBytes, kTileN / kCluster), params,
		rings_for(params.row_bytes), (int) (params.row_bytes / kSliceBytes),
		(int) (params.row_bytes % kSliceBytes / kStepBytes)};
	cudaLaunchAttribute cluster = {};
	cudaLaunchConfig_t config = {};

	allow_shared_memory(kernel, kSharedBytes);
	cluster.id = cudaLaunchAttributeClusterDimension;
	cluster.val.clusterDim.x = kCluster;
	cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
	config.gridDim = device.multiprocessors / kCluster * kCluster;
	config.blockDim = kThreads;
	config.dynamicSmemBytes = kSharedBytes;
	config.stream = stream;
	config.attrs = &cluster;
	config.numAttrs = kCluster > 1 ? 1 : 0;
	check_cuda(cudaLaunchKernelEx(&config, kernel, p, test), "launching the wgmma filter");
}

template <class Test>
static void
launch(const FilterParams &params, const Test &test, const Device &device,
	   cudaStream_t stream)
{
	if (params.order.tile_m == kTileM)
		launch<1>(params, test, device, stream);
	else
		launch<2>(params, test, device, stream);
}

}								/* namespace wgmma */

uint32_t	wgmma_cluster = 0;

bool
filter_wgmma_available(const Device &device)
{
	cudaFuncAttributes attributes;

	if (device.capability != 90)
		return false;

	check_cuda(cudaFuncGetAttributes(&attributes, wgmma::built_for_hopper),
			   "looking for the wgmma filter");
	return attributes.sharedSizeBytes >= 64 * sizeof(int) && encode_tiled() != nullptr;
}

TileShape
wgmma_tiles(uint32_t row_bytes, uint32_t rows_a, uint32_t rows_b, bool self,
			const Device &device)
{
	uint32_t	tile_m = wgmma::cluster_size(row_bytes) * wgmma::kTileM;
	uint32_t	side = wgmma::side_for(tile_m, wgmma::kLeastSide, rows_a, rows_b, self, device);

	return {tile_m, wgmma::resident(row_bytes) ? side : wgmma::kTileN, side};
}

void
launch_filter_wgmma(const FilterParams &params, Criterion criterion, const Device &device,
					cudaStream_t stream)
{
	if (criterion == Criterion::kInt8)
		wgmma::launch(params, Int8Test{}, device, stream);
	else if (criterion == Criterion::kPaper)
		wgmma::launch(params, PaperTest{params.eps2}, device, stream);
	else
		wgmma::launch(params, Fp16Test{}, device, stream);
}

}								/* namespace fasted */
