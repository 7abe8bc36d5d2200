/*-------------------------------------------------------------------------
 *
 * filter_wgmma.cu
 *	  The filter for Hopper GPUs: TMA copies and warpgroup matrix products (wgmma).
 *
 * One block of three warpgroups runs per multiprocessor, with a role for each (warp
 * specialization). In the first warpgroup, one thread schedules tiles (wgmma_schedule.cuh), and
 * one copies slices of both operands' rows and the thresholds to shared memory.  The other two
 * warpgroups compute 64 x 256 products each, directly from shared memory, and write the
 * candidates.
 *
 * While one of these two is in its epilogue, the other has the tensor cores to itself.  They
 * drift apart until the epilogue of one overlaps the products of the other.
 *
 * The blocks of a cluster use the same rows of B. Each block copies a part of every slice of B to
 * the shared memory of all blocks.
 *
 * mma.sync reaches at most about 65% of the throughput of Hopper's tensor cores, because every
 * operand passes through registers.  wgmma reads shared memory directly.
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

/*
 * Looks up the driver function, since this library is not linked to the driver.  Returns null if
 * not found.
 */
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
		fail(FASTED_INTERNAL, "CUDA driver could not create a tensor map of the quantized rows");
	return map;
}

}								/* namespace */

namespace wgmma
{

struct Params
{
	CUtensorMap map_a;			/* TMA boxes of kTileM rows */
	CUtensorMap map_b;			/* TMA boxes of kTileN / cluster size rows */
	FilterParams filter;
	Rings		rings;
	int			full_slices;
	int			steps_left;		/* steps of 32 bytes after the full slices */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Addresses of the rings in shared memory, and the rank of this block in its cluster. */
struct Place
{
	uint32_t	a;				/* shared-memory addresses of the rings */
	uint32_t	b;
	uint32_t	rank;			/* rank in the cluster */
};

/* Starts the copy of the thresholds of the tile in this slot. */
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

/* Starts the copy of this block's part of a slice of B to all blocks of the cluster. */
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

/* Runs in the copying thread: copies slices and thresholds until the schedule ends. */
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

/*
 * Called when this warp has read a slice: frees the slot of B and, at the end of the run, that of
 * A.
 */
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

/* Ring positions of the slices that a warpgroup multiplies. */
struct Slices
{
	Ring		run;			/* first slot of A in this run */
	Ring		a;
	Ring		b;
	uint32_t	before_a;		/* slots of the previous slice */
	uint32_t	before_b;
};

/*
 * Starts the products of kCount steps of the next slice, and returns when those of the previous
 * slice are complete.
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

/* Computes the products of one tile. */
template <int kCluster, class Number>
__device__ __forceinline__ void
multiply_tile(Number (&acc)[128], const Params &p, const Place &at, Control &control,
			  Slices &slices, uint32_t flags)
{
	bool		none = p.full_slices == 0;

	slices.a = slices.run;
	for (int s = 0; s < p.full_slices; s++)
		multiply<kSteps, kCluster>(acc, p, at, control, slices, flags, s == 0);

	/* separate code for each count, or the compiler would serialize the products */
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

/* Runs in the warpgroups that compute: multiplies tiles and writes candidates. */
template <int kCluster, class Test>
__device__ __forceinline__ void
consume(const Params &p, const Test &test, Place at, Control &control)
{
	using Number = typename Test::Number;

	const FilterParams &f = p.filter;
	/* broadcast from one lane, so that the compiler knows that it is uniform */
	uint32_t	warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0) - 4;
	uint32_t	lane = threadIdx.x % 32;
	uint32_t	x = warp * 16 + lane / 4;	/* position of this lane's first product in the tile */
	uint32_t	y = lane % 4 * 2;
	uint32_t	warp_in_cluster = at.rank * kConsumerWarps + warp;
	Ring		tile;
	Slices		slices = {};
	CandidateWriter writer;

	static_assert(kGroupRows == 4 * 16, "each of four warps has 16 rows");
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
				writer.save_unfinished(f.candidates, place.item, warp_in_cluster, place.number);
		}
		/* every lane has read thresholds, so every lane arrives */
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

/*
 * Computes the inner products of all rows of p.filter.a with all rows of p.filter.b and writes the
 * candidates.  Grid: one block of kThreads threads per multiprocessor, in clusters of kCluster
 * blocks.
 */
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

	/* no block may exit while another block may still write to its shared memory */
	if (kCluster > 1)
		ptx::cluster_sync();
#else
	__trap();					/* not reached: see filter_wgmma_available */
#endif
}

/*
 * Never launched.  The size of its shared memory shows whether the driver has chosen code compiled
 * for sm_90a for this device.  Code for sm_90 is not sufficient, and there is no other way to tell
 * the two apart.
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

/* Number of blocks in a cluster. */
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
			   "checking for the wgmma filter");
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
	else
		wgmma::launch(params, Fp16Test{}, device, stream);
}

}								/* namespace fasted */
