/*-------------------------------------------------------------------------
 *
 * epilogue.cuh
 *	  From a warp's accumulators to candidates.
 *
 * A thread holds 128 inner products, in the layout of the tensor cores: eight
 * groups of 16 in one row each, columns in pairs eight apart.  Few warps run on
 * a multiprocessor, so what counts is latency, not the number of instructions:
 * the sign of (product - threshold) is shifted into four masks, in four
 * independent chains and without a branch, and a warp without a hit is done.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_EPILOGUE_CUH
#define FASTED_CUDA_EPILOGUE_CUH

#include <cstdint>

#include "candidates.cuh"

namespace fasted
{

constexpr int kGroups = 8;
constexpr int kGroupSize = 16;

/* Where the accumulators of a tensor core tile belong in a warp tile. */
struct LayoutMma				/* mma.sync: 64 x 64 as 4 x 8 of 16 x 8 */
{
	static __device__ __forceinline__ int row(int group) { return (group >> 1) * 16 + (group & 1) * 8; }
	static __device__ __forceinline__ int column(int) { return 0; }
};

struct LayoutWgmma				/* wgmma: 16 x 256 as 32 of 16 x 8 */
{
	static __device__ __forceinline__ int row(int group) { return (group & 1) * 8; }
	static __device__ __forceinline__ int column(int group) { return (group >> 1) * 64; }
};

/* Element e of a group: its place among the 128, and its column. */
__device__ __forceinline__ constexpr int
element_index(int group, int e)
{
	return (group >> 1) * 32 + (e >> 1) * 4 + (group & 1) * 2 + (e & 1);
}

__device__ __forceinline__ constexpr int
element_column(int e)
{
	return (e >> 1) * 8 + (e & 1);
}

/*
 * The certified filter.  A pair of the result has g > fl(t_x + t_y), strictly
 * (doc/bound-fp16.md), so that the sign of a zero does not matter.
 */
struct CertifiedTest
{
	static constexpr bool kKeepsSquares = false;

	/* Negative: no hit. */
	__device__ __forceinline__ float
	margin(float g, float tx, float ty) const
	{
		return g - (tx + ty);
	}
	__device__ __forceinline__ float square(float, float, float) const { return 0; }
};

/* The paper's step 3: dist^2 = -2 a + s_i + s_j, in FP32. */
struct PaperTest
{
	static constexpr bool kKeepsSquares = true;

	float		eps2;

	__device__ __forceinline__ float
	square(float a, float si, float sj) const
	{
		return fmaf(-2.0f, a, si + sj);
	}
	__device__ __forceinline__ float
	margin(float a, float si, float sj) const
	{
		return eps2 - square(a, si, sj);
	}
};

/* A warp tile's place. */
struct WarpTile
{
	uint32_t	row;			/* of this lane's first accumulator */
	uint32_t	column;
	uint32_t	rows;			/* rows and columns of the whole matrix */
	uint32_t	columns;
	bool		triangle;		/* keep row < column only */
	bool		whole;			/* every element is a pair that is asked for */
};

/*
 * Element number i of word w: groups 2 w and 2 w + 1 in turns.  It is bit
 * 31 - i, so __clz finds it.
 */
constexpr int kWords = kGroups / 2;

__device__ __forceinline__ constexpr int
word_index(int w, int i)
{
	return element_index(2 * w + (i & 1), i >> 1);
}

template <class Layout>
__device__ __forceinline__ uint2
word_pair(const WarpTile &tile, int w, int i)
{
	return make_uint2(tile.row + Layout::row(2 * w + (i & 1)),
					  tile.column + Layout::column(2 * w) + element_column(i >> 1));
}

/* Clears what lies outside of the matrix, or below its diagonal. */
template <class Layout>
__device__ __forceinline__ uint32_t
wanted_hits(const WarpTile &tile, int w, uint32_t mask)
{
	uint32_t	wanted = 0;

	for (uint32_t left = mask; left != 0;)
	{
		int			i = __clz(left);
		uint32_t	bit = 0x80000000u >> i;
		uint2		pair = word_pair<Layout>(tile, w, i);

		if (pair.x < tile.rows && pair.y < tile.columns
			&& (!tile.triangle || pair.x < pair.y))
			wanted |= bit;
		left ^= bit;
	}
	return wanted;
}

/* This lane's first slot, from how many hits each lane has. */
__device__ __forceinline__ uint32_t
hits_before(uint32_t found, uint32_t total)
{
	uint32_t	lanes = __ballot_sync(0xffffffff, found > 0);

	/* mostly no lane has two */
	if (total == (uint32_t) __popc(lanes))
		return __popc(lanes & ((1u << threadIdx.x % 32) - 1));
	return warp_prefix(found);
}

/*
 * Reports the hits of one warp.  "tx" and "ty" point at this lane's thresholds
 * in shared memory: tx[Layout::row(group)], ty[Layout::column(group) +
 * element_column(e)].  False: no room, and nothing was written.
 */
template <class Layout, class Test>
__device__ __forceinline__ bool
report_hits(const float (&acc)[128], const float *tx, const float *ty,
			const Test &test, const WarpTile &tile,
			const CandidateBuffer &buffer, CandidateWriter &writer)
{
	float		rows[kGroups];
	uint32_t	masks[kWords] = {};

#pragma unroll
	for (int q = 0; q < kGroups; q++)
		rows[q] = tx[Layout::row(q)];

#pragma unroll
	for (int i = 0; i < 32; i += 4)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
		{
			float2		t = *(const float2 *) &ty[Layout::column(2 * w) + element_column(i >> 1)];

#pragma unroll
			for (int j = i; j < i + 4; j++)
			{
				float		margin = test.margin(acc[word_index(w, j)], rows[2 * w + (j & 1)],
												 j & 2 ? t.y : t.x);

				masks[w] = __funnelshift_l(__float_as_uint(margin), masks[w], 1);
			}
		}
	}

	/* a zero was shifted in for each hit */
	uint32_t	found = 0;

#pragma unroll
	for (int w = 0; w < kWords; w++)
		masks[w] = ~masks[w];
	if (!__any_sync(0xffffffff, (masks[0] | masks[1] | masks[2] | masks[3]) != 0))
		return true;

	if (!tile.whole)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
			masks[w] = wanted_hits<Layout>(tile, w, masks[w]);
	}
#pragma unroll
	for (int w = 0; w < kWords; w++)
		found += __popc(masks[w]);

	uint32_t	total = __reduce_add_sync(0xffffffff, found);

	if (total == 0)
		return true;
	if (!writer.reserve(buffer, total))
		return false;

	uint32_t	slot = writer.take(total) + hits_before(found, total);

	if (Test::kKeepsSquares)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
		{
#pragma unroll
			for (int i = 0; i < 32; i++)
			{
				if (masks[w] >> (31 - i) & 1)
				{
					buffer.pairs[slot] = word_pair<Layout>(tile, w, i);
					buffer.squares[slot++] =
						test.square(acc[word_index(w, i)], rows[2 * w + (i & 1)],
									ty[Layout::column(2 * w) + element_column(i >> 1)]);
				}
			}
		}
	}
	else if (found > 0)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
		{
			for (uint32_t left = masks[w]; left != 0;)
			{
				int			i = __clz(left);

				buffer.pairs[slot++] = word_pair<Layout>(tile, w, i);
				left ^= 0x80000000u >> i;
			}
		}
	}
	return true;
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_EPILOGUE_CUH */
