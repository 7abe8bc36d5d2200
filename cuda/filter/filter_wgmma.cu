/*-------------------------------------------------------------------------
 *
 * filter_wgmma.cu
 *	  The filter for Hopper GPUs: TMA copies and warpgroup matrix products (wgmma).
 *
 *	  (x, y) is a candidate  <=>  x.y >= t_x + t_y		for all rows x of A and y of B
 *
 * One block of three warpgroups runs per multiprocessor (warp specialization):
 *
 *		                   B: tiles of 256 rows, copied for each tile of a run
 *		                   +--------+--------+--------+---->  run
 *		A: 64 rows         | tile 0 | tile 1 | tile 2 |      consumer warpgroup 1
 *		   64 rows         |        |        |        |      consumer warpgroup 2
 *		                   +--------+--------+--------+
 *
 *		scheduler thread:  queue of runs --> stage of thresholds (kTilesAhead)
 *		producer thread:   TMA: K blocks of 128 bytes --> stages of ring A, stages of ring B
 *		consumers:         wait for "full", wgmma, arrive at "empty"; epilogue --> candidates
 *
 * While one consumer is in its epilogue, the other has the tensor cores to itself.  They drift
 * apart until the epilogue of one overlaps the products of the other.  The blocks of a cluster use
 * the same rows of B: each producer copies a part of every K block of B to all blocks.
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

/* Looks up the driver function once, since this library is not linked to the driver; null: not found. */
EncodeTiled
encode_tiled()
{
	static const EncodeTiled encode = []
	{
		void	   *function = nullptr;
		cudaDriverEntryPointQueryResult found;

		if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
											 cudaEnableDefault, &found) == cudaSuccess
			&& found == cudaDriverEntryPointSuccess)
			return (EncodeTiled) function;
		(void) cudaGetLastError();
		return (EncodeTiled) nullptr;
	}();

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
	int			full_k_blocks;
	int			steps_left;		/* steps of 32 bytes after the full K blocks */
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Addresses of the rings in shared memory, and the rank of this block in its cluster. */
struct Buffers
{
	uint32_t	a;
	uint32_t	b;
	uint32_t	rank;
};

/* Starts the copy of the thresholds of the tile of this stage. */
__device__ __forceinline__ void
copy_thresholds(const FilterParams &f, TileStage &stage, uint32_t rank, uint32_t full)
{
	uint32_t	row = stage.scheduled.row + rank * kTileM;

	ptx::barrier_arrive_expect(full, kThresholdBytes);
	ptx::copy_bulk(ptx::shared_address(stage.tx), f.a.thresholds + row, sizeof(stage.tx), full);
	ptx::copy_bulk(ptx::shared_address(stage.ty), f.b.thresholds + stage.scheduled.column,
				   sizeof(stage.ty), full);
	ptx::copy_bulk(ptx::shared_address(stage.minima),
				   f.b.minima + stage.scheduled.column / kMinimaColumns, sizeof(stage.minima), full);
}

/* Starts the copy of this block's part of a K block of B to all blocks of the cluster. */
template <int kCluster>
__device__ __forceinline__ void
copy_b(const Params &p, uint32_t stage, uint32_t rank, int byte, int row, uint32_t full)
{
	constexpr uint32_t kRows = kTileN / kCluster;
	uint32_t	to = stage + rank * (kRows * kBlockBytes);

	if (kCluster == 1)
		ptx::copy_tile(to, &p.map_b, byte, row, full);
	else
		ptx::copy_tile_to_all(to, &p.map_b, byte, row + rank * kRows, full,
							  (1u << kCluster) - 1);
}

/* Runs in the producer thread: copies K blocks and thresholds until the schedule ends. */
template <int kCluster>
__device__ __forceinline__ void
produce(const Params &p, const Buffers &at, Control &control)
{
	Ring		tile;
	Ring		a;
	Ring		b;

	for (;;)
	{
		TileStage  &stage = control.tiles[tile.index];
		uint32_t	full = ptx::shared_address(&control.tile_full[tile.index]);
		uint32_t	ready = ptx::shared_address(&control.ready[tile.index]);

		if (kCluster == 1)
			ptx::barrier_wait(ready, tile.parity);
		else
			ptx::barrier_wait_cluster(ready, tile.parity);

		ScheduledTile scheduled = stage.scheduled;

		if (scheduled.flags & kEnd)
		{
			ptx::barrier_arrive(full);
			break;
		}
		copy_thresholds(p.filter, stage, at.rank, full);
		tile.next(kTilesAhead);

		for (int s = 0; s < p.full_k_blocks + (p.steps_left > 0); s++)
		{
			int			byte = s * kBlockBytes;

			if (scheduled.flags & kFirstOfRun)
			{
				uint32_t	there = ptx::shared_address(&control.a_full[a.index]);

				ptx::barrier_wait(ptx::shared_address(&control.a_empty[a.index]), a.parity ^ 1);
				ptx::barrier_arrive_expect(there, kStageBytesA);
				ptx::copy_tile(at.a + a.index * kStageBytesA, &p.map_a, byte,
							   scheduled.row + at.rank * kTileM, there);
				a.next(p.rings.stages_a);
			}

			uint32_t	there = ptx::shared_address(&control.b_full[b.index]);

			ptx::barrier_wait(ptx::shared_address(&control.b_empty[b.index]), b.parity ^ 1);
			ptx::barrier_arrive_expect(there, kStageBytesB);
			copy_b<kCluster>(p, at.b + b.index * kStageBytesB, at.rank, byte, scheduled.column, there);
			b.next(p.rings.stages_b);
		}
	}
}

/*
 * Called when this warp has read a K block: frees the stage of B and, at the end of the run, that
 * of A.
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

/* Ring positions of the K blocks that a consumer multiplies. */
struct Pipeline
{
	Ring		run;			/* first stage of A in this run */
	Ring		a;
	Ring		b;
	uint32_t	before_a;		/* stages of the previous K block */
	uint32_t	before_b;
};

/*
 * Starts the products of kCount steps of the next K block, and returns when those of the previous
 * K block are complete.
 */
template <int kCount, int kCluster, class Number>
__device__ __forceinline__ void
multiply(Number (&acc)[128], const Params &p, const Buffers &at, Control &control,
		 Pipeline &pipeline, uint32_t flags, bool first)
{
	constexpr int kUnits = kStepBytes / 16; /* of an operand's address */
	uint32_t	a_stage = pipeline.a.index;
	uint32_t	b_stage = pipeline.b.index;
	uint64_t	a = ptx::wgmma_operand(at.a + a_stage * kStageBytesA);
	uint64_t	b = ptx::wgmma_operand(at.b + b_stage * kStageBytesB);

	if (flags & kFirstOfRun)
		ptx::barrier_wait(ptx::shared_address(&control.a_full[a_stage]), pipeline.a.parity);
	ptx::barrier_wait(ptx::shared_address(&control.b_full[b_stage]), pipeline.b.parity);

	ptx::wgmma_fence(acc);
#pragma unroll
	for (int step = 0; step < kCount; step++)
		ptx::wgmma_step(acc, a + step * kUnits, b + step * kUnits, !first || step > 0);
	ptx::wgmma_commit();
	ptx::wgmma_wait<1>();
	if (!first)
		release<kCluster>(control, flags, pipeline.before_a, pipeline.before_b);
	pipeline.before_a = a_stage;
	pipeline.before_b = b_stage;
	pipeline.a.next(p.rings.stages_a);
	pipeline.b.next(p.rings.stages_b);
}

/* Computes the products of one tile. */
template <int kCluster, class Number>
__device__ __forceinline__ void
multiply_tile(Number (&acc)[128], const Params &p, const Buffers &at, Control &control,
			  Pipeline &pipeline, uint32_t flags)
{
	bool		none = p.full_k_blocks == 0;

	pipeline.a = pipeline.run;
	for (int s = 0; s < p.full_k_blocks; s++)
		multiply<kSteps, kCluster>(acc, p, at, control, pipeline, flags, s == 0);

	/* separate code for each count, or the compiler would serialize the products */
	switch (p.steps_left)
	{
		case 1:
			multiply<1, kCluster>(acc, p, at, control, pipeline, flags, none);
			break;
		case 2:
			multiply<2, kCluster>(acc, p, at, control, pipeline, flags, none);
			break;
		case 3:
			multiply<3, kCluster>(acc, p, at, control, pipeline, flags, none);
			break;
	}
	ptx::wgmma_finish(acc);
	release<kCluster>(control, flags, pipeline.before_a, pipeline.before_b);
	if (flags & kLastOfRun)
		pipeline.run = pipeline.a;
}

/* Runs in the consumer warpgroups: multiplies tiles and writes candidates. */
template <int kCluster, class Test>
__device__ __forceinline__ void
consume(const Params &p, const Test &test, Buffers at, Control &control)
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
	Pipeline	pipeline = {};
	CandidateWriter writer;

	static_assert(kGroupRows == 4 * 16, "each of four warps has 16 rows");
	at.a += warp / 4 * (kGroupRows * kBlockBytes);
	for (;;)
	{
		TileStage  &stage = control.tiles[tile.index];
		const Number *tx = (const Number *) stage.tx + x;
		Number		acc[128];

		ptx::barrier_wait(ptx::shared_address(&control.tile_full[tile.index]), tile.parity);

		ScheduledTile scheduled = stage.scheduled;

		if (scheduled.flags & kEnd)
			break;
		multiply_tile<kCluster>(acc, p, at, control, pipeline, scheduled.flags);

		if (scheduled.warp == kAllWarps || scheduled.warp == warp_in_cluster)
		{
			WarpTile	part = {scheduled.row + at.rank * kTileM + x, scheduled.column + y,
				f.a.rows, f.b.rows, f.order.triangle, (scheduled.flags & kWhole) != 0};

			if (!report_hits<LayoutWgmma>(acc, tx, (const Number *) stage.ty + y,
										  (const Number *) stage.minima, test, part,
										  f.candidates, writer))
				writer.save_unfinished(f.candidates, scheduled.item, warp_in_cluster, scheduled.number);
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
		ptx::barrier_init(ptx::shared_address(&control.ready[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.tile_full[i]), 1);
		ptx::barrier_init(ptx::shared_address(&control.tile_empty[i]), kConsumerThreads);
		if (kCluster > 1)
			ptx::barrier_init(ptx::shared_address(&control.peer_empty[i]), kCluster - 1);
	}
	for (uint32_t i = 0; i < kMostStages; i++)
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
	Buffers		at = {rings, rings + p.rings.stages_a * kStageBytesA,
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
			produce<kCluster>(p, at, control);
		else if (threadIdx.x == 32 && at.rank == 0)
			schedule<kCluster>(p.filter, control);
		else if (threadIdx.x == 32)
			forward_free_stages(control);
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
	return k_blocks_of(row_bytes) >= 4 ? 2 : 1;
}

template <int kCluster, class Test>
static void
launch(const FilterParams &params, const Test &test, const Device &device,
	   cudaStream_t stream)
{
	auto		kernel = wgmma_kernel<kCluster, Test>;
	Params		p = {tensor_map(params.a, params.row_bytes, kBlockBytes, kTileM),
		tensor_map(params.b, params.row_bytes, kBlockBytes, kTileN / kCluster), params,
		rings_for(params.row_bytes), (int) (params.row_bytes / kBlockBytes),
		(int) (params.row_bytes % kBlockBytes / kStepBytes)};
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
launch_filter_wgmma(const FilterParams &params, Precision precision, const Device &device,
					cudaStream_t stream)
{
	if (precision == Precision::kInt8)
		wgmma::launch(params, Int8Test{}, device, stream);
	else
		wgmma::launch(params, Fp16Test{}, device, stream);
}

}								/* namespace fasted */
