/*-------------------------------------------------------------------------
 *
 * filter_mma.cuh
 *	  The paper's kernel: inner products of all pairs of rows with mma.sync, in FP16 as in the
 *	  paper, in INT8, or in FP64 (filter_mma.cu).
 *
 *	  (x, y) is a candidate  <=>  x.y >= t_x + t_y		for all rows x of A and y of B
 *
 * For compute capability 8.0 and later.  A block of four warps computes tiles of 128 x 128 inner
 * products; a warp computes 64 x 64 of them in registers.  K blocks of 128 bytes (64 dimensions in
 * FP16) of both operands' rows pass through shared memory.  cp.async copies them some pipeline
 * stages ahead.  A row of a K block is eight units of 16 bytes.  Unit u of row r is stored at
 * position u xor (r mod 8) (the paper's Equation 2), so neither the copies nor ldmatrix have bank
 * conflicts.
 *
 * Blocks take tiles from a queue until it is empty.  Two blocks run on a multiprocessor, so that
 * the epilogue of one overlaps the products of the other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_FILTER_MMA_CUH
#define FASTED_CUDA_FILTER_MMA_CUH

#include "device/ptx.h"
#include "filter/epilogue.cuh"
#include "filter/filter.h"

namespace fasted
{

namespace mma
{

/* The shape of the INT8 and FP16 filters; filter_mma.cu derives that of the FP64 filter. */
struct MmaShape
{
	/* warps of a block, which share the K blocks in shared memory */
	static constexpr int kWarpsM = 2;
	static constexpr int kWarpsN = 2;
	static constexpr int kWarpRows = 64;	/* rows of a warp tile, which has 64 columns */

	/* bytes of a row multiplied per step */
	static constexpr int kStep = kStepBytes;

	/* Depth of the pipeline; three stages were slower on an H200 (313 against 326 TFLOPS at d = 4096). */
	static constexpr int kStages = 2;

	/* resident blocks per multiprocessor */
	static constexpr int kBlocksPerSm = 2;

	/* unit u of row r is stored at position u xor flip(r): the paper's Equation 2 */
	static __device__ __forceinline__ int flip(int row) { return row & 7; }
};

constexpr int kRowBytes = 128;	/* bytes of a row in a K block */
constexpr int kUnitBytes = 16;
constexpr int kUnits = kRowBytes / kUnitBytes;
constexpr int kWarpColumns = 64;

template <class S>
struct Shape
{
	static constexpr int kTileM = S::kWarpsM * S::kWarpRows;
	static constexpr int kTileN = S::kWarpsN * kWarpColumns;
	/* inner products per thread */
	static constexpr int kProducts = S::kWarpRows * kWarpColumns / 32;
	static constexpr int kSteps = kRowBytes / S::kStep; /* steps per K block */
	static constexpr int kThreads = S::kWarpsM * S::kWarpsN * 32;
	static constexpr int kBytesA = kTileM * kRowBytes;
	static constexpr int kStageBytes = (kTileM + kTileN) * kRowBytes;
	static constexpr int kSharedBytes = S::kStages * kStageBytes + 256;
};

/* Offset in bytes of unit u of row r of a K block in shared memory. */
template <class S>
__device__ __forceinline__ uint32_t
place(int r, int u)
{
	return r * kRowBytes + ((u ^ S::flip(r)) << 4);
}

/* Copies one operand's K block to shared memory; eight consecutive threads copy a row's 128 bytes. */
template <class S, int kRows>
__device__ __forceinline__ void
copy_k_block(uint32_t to, const QuantisedRows &side, uint32_t first_row,
		   uint32_t row_bytes, int k_block)
{
	constexpr int kRowsAtOnce = Shape<S>::kThreads / kUnits;
	int			unit = threadIdx.x % kUnits;
	uint32_t	byte = k_block * kRowBytes + unit * kUnitBytes;

	if (byte >= row_bytes)
		return;					/* not read by any thread */

#pragma unroll
	for (int r = threadIdx.x / kUnits; r < kRows; r += kRowsAtOnce)
	{
		uint32_t	row = first_row + r;
		bool		valid = row < side.rows;
		const char *from = (const char *) side.values
			+ (valid ? (size_t) row * row_bytes + byte : 0);

		ptx::copy_async_16(to + place<S>(r, unit), from, valid);
	}
}

/*
 * Multiplies one step of 32 bytes: 64 x 64 products of a warp.  filter_mma.cu has the FP64 version.
 */
template <class S, class Number>
__device__ __forceinline__ void
multiply_step(Number (&acc)[128], uint32_t a_rows, uint32_t b_rows, int step)
{
	int			lane = threadIdx.x % 32;
	int			a_row = lane & 15;
	int			a_unit = step * 2 + (lane >> 4);
	int			b_row = (lane & 7) + ((lane >> 4) << 3);
	int			b_unit = step * 2 + ((lane >> 3) & 1);
	uint32_t	a_at = a_rows + place<S>(a_row, a_unit);
	uint32_t	b_at = b_rows + place<S>(b_row, b_unit);
	Number		(*tiles)[4] = reinterpret_cast<Number (*)[4]>(acc);

	uint32_t	a[4][4];
	uint32_t	b[4][4];

#pragma unroll
	for (int n = 0; n < 4; n++)
		ptx::load_matrix_x4(b[n], b_at + n * 16 * kRowBytes);
#pragma unroll
	for (int m = 0; m < 4; m++)
		ptx::load_matrix_x4(a[m], a_at + m * 16 * kRowBytes);
#pragma unroll
	for (int m = 0; m < 4; m++)
	{
#pragma unroll
		for (int n = 0; n < 8; n++)
			ptx::mma_step(tiles[m * 8 + n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
	}
}

/* Multiplies one step of 64 bytes of FP32 rows: 32 x 64 products of a warp (filter_mma.cu). */
template <class S>
__device__ __forceinline__ void
multiply_step(double (&acc)[64], uint32_t a_rows, uint32_t b_rows, int step);

/* The next tile, passed from one thread to the block. */
struct NextTile
{
	Work		work;
	uint32_t	m;
	uint32_t	n;
	bool		end;			/* there is no next tile */
};

__device__ __forceinline__ NextTile
next_tile(const FilterParams &p)
{
	NextTile	next;

	do
		next.end = !next_work(p.candidates, &next.work);
	while (!next.end && !p.order.locate(next.work.item, &next.m, &next.n));
	return next;
}

/* A block's tile: its position in the matrix, its pipeline in shared memory, and its depth. */
struct TileAt
{
	uint32_t	row;
	uint32_t	column;
	uint32_t	stages;			/* shared-memory address of the pipeline */
	int			k_steps;
};

/* Copies one K block of both operands' rows. */
template <class S>
__device__ __forceinline__ void
copy_k_blocks(const FilterParams &p, const TileAt &at, int k_block)
{
	using Tile = Shape<S>;

	uint32_t	to = at.stages + k_block % S::kStages * Tile::kStageBytes;

	copy_k_block<S, Tile::kTileM>(to, p.a, at.row, p.row_bytes, k_block);
	copy_k_block<S, Tile::kTileN>(to + Tile::kBytesA, p.b, at.column, p.row_bytes, k_block);
}

/* Thresholds of a tile, in shared memory. */
template <class S>
struct TileThresholds
{
	alignas(16) uint32_t x[Shape<S>::kTileM];
	alignas(16) uint32_t y[Shape<S>::kTileN];
	uint32_t	minima[Shape<S>::kTileN / kMinimaColumns];	/* minimum per 64 columns */

	__device__ __forceinline__ void
	read(const FilterParams &p, const TileAt &at)
	{
		using Tile = Shape<S>;

		for (int i = threadIdx.x; i < Tile::kTileM; i += Tile::kThreads)
			x[i] = p.a.thresholds[at.row + i];
		for (int i = threadIdx.x; i < Tile::kTileN; i += Tile::kThreads)
			y[i] = p.b.thresholds[at.column + i];
		if (threadIdx.x < Tile::kTileN / kMinimaColumns)
			minima[threadIdx.x] = p.b.minima[at.column / kMinimaColumns + threadIdx.x];
	}
};

template <class S>
__device__ __forceinline__ int
k_blocks_of(int k_steps)
{
	return (k_steps + Shape<S>::kSteps - 1) / Shape<S>::kSteps;
}

/* Starts the pipeline, which runs kStages - 1 K blocks ahead. */
template <class S>
__device__ __forceinline__ void
fill_pipeline(const FilterParams &p, const TileAt &at)
{
#pragma unroll
	for (int s = 0; s < S::kStages - 1; s++)
	{
		if (s < k_blocks_of<S>(at.k_steps))
			copy_k_blocks<S>(p, at, s);
		ptx::copy_async_commit();
	}
}

/* Waits for a K block, and starts the copy of the one kStages - 1 later. */
template <class S>
__device__ __forceinline__ void
advance_pipeline(const FilterParams &p, const TileAt &at, int k_block)
{
	ptx::copy_async_wait<S::kStages - 2>();
	__syncthreads();
	if (k_block + S::kStages - 1 < k_blocks_of<S>(at.k_steps))
		copy_k_blocks<S>(p, at, k_block + S::kStages - 1);
	ptx::copy_async_commit();
}

/* Computes a warp's products of a tile. */
template <class S, class Number, int kProducts>
__device__ __forceinline__ void
multiply_tile(Number (&acc)[kProducts], const FilterParams &p, const TileAt &at, int warp_row,
			  int warp_column)
{
	using Tile = Shape<S>;
	constexpr int kSteps = Tile::kSteps;

	int			k_blocks = k_blocks_of<S>(at.k_steps);

	for (int k_block = 0; k_block < k_blocks; k_block++)
	{
		advance_pipeline<S>(p, at, k_block);

		uint32_t	stage = at.stages + k_block % S::kStages * Tile::kStageBytes;
		uint32_t	a_rows = stage + warp_row * kRowBytes;
		uint32_t	b_rows = stage + Tile::kBytesA + warp_column * kRowBytes;
		int			left = at.k_steps - k_block * kSteps;

		if (left >= kSteps)
		{
#pragma unroll
			for (int step = 0; step < kSteps; step++)
				multiply_step<S>(acc, a_rows, b_rows, step);
		}
		else
		{
			for (int step = 0; step < left; step++)
				multiply_step<S>(acc, a_rows, b_rows, step);
		}
	}
}

/* Thresholds of this lane's rows and columns, and the minimum of the warp's columns. */
template <class Number>
struct LaneThresholds
{
	const Number *x;
	const Number *y;
	const Number *minimum;
};

/* Writes a warp's candidates; returns false if the buffer is full. */
template <class Test, int kProducts>
__device__ __forceinline__ bool
report_tile(const typename Test::Product (&acc)[kProducts],
			const LaneThresholds<typename Test::Number> &t, const Test &test,
			const WarpTile &tile, const CandidateBuffer &buffer, CandidateWriter &writer)
{
	if constexpr (sizeof(typename Test::Product) > sizeof(typename Test::Number))
	{
		float		rounded[kProducts];

#pragma unroll
		for (int i = 0; i < kProducts; i++)
			rounded[i] = __double2float_ru(acc[i]);
		return report_hits<LayoutMma>(rounded, t.x, t.y, t.minimum, test, tile, buffer, writer);
	}
	else
		return report_hits<LayoutMma>(acc, t.x, t.y, t.minimum, test, tile, buffer, writer);
}

/*
 * Computes the inner products of all rows of p.a with all rows of p.b, tile by tile, and writes the
 * candidates (the paper's section 3.3). Grid: kBlocksPerSm blocks per multiprocessor; each warp
 * computes kWarpRows x 64 products of a tile.
 */
template <class S, class Test>
__global__ void
__launch_bounds__(Shape<S>::kThreads, S::kBlocksPerSm)
filter_kernel(const __grid_constant__ FilterParams p, const Test test)
{
	using Number = typename Test::Number;
	using Product = typename Test::Product;

	extern __shared__ unsigned char shared[];
	__shared__ TileThresholds<S> thresholds;
	__shared__ NextTile next;

	uint32_t	stages = (ptx::shared_address(shared) + 127) / 128 * 128;
	int			warp = threadIdx.x / 32;
	int			lane = threadIdx.x % 32;
	int			warp_row = warp / S::kWarpsN * S::kWarpRows;
	int			warp_column = warp % S::kWarpsN * kWarpColumns;
	int			x = warp_row + lane / 4;	/* position of this lane's first product in the tile */
	int			y = warp_column + lane % 4 * 2;
	CandidateWriter writer;

	if (threadIdx.x == 0)
		next = next_tile(p);
	for (;;)
	{
		__syncthreads();
		if (next.end)
			break;

		Work		work = next.work;
		TileAt		at = {next.m * Shape<S>::kTileM, next.n * Shape<S>::kTileN, stages,
			(int) (p.row_bytes / S::kStep)};
		WarpTile	tile = {at.row + x, at.column + y, p.a.rows, p.b.rows, p.order.triangle,
			p.order.whole(next.m, next.n)};
		NextTile	after;
		Product		acc[Shape<S>::kProducts] = {};

		thresholds.read(p, at);
		fill_pipeline<S>(p, at);
		if (threadIdx.x == 0)
			after = next_tile(p);
		multiply_tile<S>(acc, p, at, warp_row, warp_column);
		if (threadIdx.x == 0)
			next = after;

		if ((work.warp == kAllWarps || work.warp == (uint32_t) warp)
			&& !report_tile<Test>(acc, {(const Number *) thresholds.x + x,
								  (const Number *) thresholds.y + y,
								  (const Number *) thresholds.minima + warp % S::kWarpsN},
								  test, tile, p.candidates, writer))
			writer.save_unfinished(p.candidates, work.item, warp, 0);
	}
	writer.close(p.candidates);
}

template <class S, class Test>
void
launch(const FilterParams &params, const Test &test, const Device &device,
	   cudaStream_t stream)
{
	auto		kernel = filter_kernel<S, Test>;
	int			blocks = device.multiprocessors * S::kBlocksPerSm;

	allow_shared_memory(kernel, Shape<S>::kSharedBytes);
	check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
									cudaSharedmemCarveoutMaxShared),
			   "setting the size of shared memory");
	kernel<<<blocks, Shape<S>::kThreads, Shape<S>::kSharedBytes, stream>>>(params, test);
	check_launch("launching the mma.sync filter");
}

}								/* namespace mma */

}								/* namespace fasted */

#endif							/* FASTED_CUDA_FILTER_MMA_CUH */
