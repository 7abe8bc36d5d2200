/*-------------------------------------------------------------------------
 *
 * epilogue.cuh
 *	  From a warp's accumulators to candidates.
 *
 * A thread holds 128 inner products, in the layout of the tensor cores: eight
 * groups of 16 in one row each, columns in pairs eight apart.  Hits are rare,
 * so the fast path costs one addition and one comparison a product and keeps
 * one bit a group; only a group in which some lane of the warp found something
 * is looked at again.
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

/* The certified filter: g >= fl(t_x + t_y), see filter_bound.h. */
struct CertifiedTest
{
	static constexpr bool kKeepsSquares = false;

	__device__ __forceinline__ bool
	operator()(float g, float tx, float ty) const
	{
		return g >= tx + ty;
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
	__device__ __forceinline__ bool
	operator()(float a, float si, float sj) const
	{
		return square(a, si, sj) <= eps2;
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
};

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
	uint32_t	groups = 0;

#pragma unroll
	for (int q = 0; q < kGroups; q += 2)
	{
		float		t0 = tx[Layout::row(q)];
		float		t1 = tx[Layout::row(q + 1)];
		bool		any0 = false;
		bool		any1 = false;

#pragma unroll
		for (int e = 0; e < kGroupSize; e += 2)
		{
			float2		t = *(const float2 *) &ty[Layout::column(q) + element_column(e)];

			any0 |= test(acc[element_index(q, e)], t0, t.x);
			any0 |= test(acc[element_index(q, e + 1)], t0, t.y);
			any1 |= test(acc[element_index(q + 1, e)], t1, t.x);
			any1 |= test(acc[element_index(q + 1, e + 1)], t1, t.y);
		}
		groups |= (any0 ? 1u << q : 0) | (any1 ? 2u << q : 0);
	}
	groups = __reduce_or_sync(0xffffffff, groups);
	if (groups == 0)
		return true;

	/* Which elements?  Pairs of groups share a word of masks. */
	uint32_t	masks[kGroups / 2];
	uint32_t	found = 0;

#pragma unroll
	for (int q = 0; q < kGroups; q++)
	{
		uint32_t	mask = 0;

		if (groups >> q & 1)
		{
			float		t = tx[Layout::row(q)];
			uint32_t	row = tile.row + Layout::row(q);
			uint32_t	column = tile.column + Layout::column(q);

#pragma unroll
			for (int e = 0; e < kGroupSize; e++)
			{
				bool		hit = test(acc[element_index(q, e)], t,
									   ty[Layout::column(q) + element_column(e)]);
				uint32_t	c = column + element_column(e);

				hit = hit && c < tile.columns && (!tile.triangle || row < c);
				mask |= hit ? 1u << e : 0;
			}
			if (row >= tile.rows)
				mask = 0;
		}
		if (q % 2 == 0)
			masks[q / 2] = mask;
		else
			masks[q / 2] |= mask << 16;
	}
#pragma unroll
	for (int i = 0; i < kGroups / 2; i++)
		found += __popc(masks[i]);

	uint32_t	total;
	uint32_t	slot = warp_prefix(found, &total);

	if (total == 0)
		return true;
	if (!writer.reserve(buffer, total))
		return false;
	slot += writer.take(total);

#pragma unroll
	for (int q = 0; q < kGroups; q++)
	{
		uint32_t	mask = masks[q / 2] >> (q % 2 * 16) & 0xffff;
		uint32_t	row = tile.row + Layout::row(q);
		uint32_t	column = tile.column + Layout::column(q);

		if (Test::kKeepsSquares)
		{
#pragma unroll
			for (int e = 0; e < kGroupSize; e++)
			{
				if (mask >> e & 1)
				{
					buffer.pairs[slot] = make_uint2(row, column + element_column(e));
					buffer.squares[slot++] =
						test.square(acc[element_index(q, e)], tx[Layout::row(q)],
									ty[Layout::column(q) + element_column(e)]);
				}
			}
		}
		else
		{
			for (; mask != 0; mask &= mask - 1)
			{
				int			e = __ffs(mask) - 1;

				buffer.pairs[slot++] = make_uint2(row, column + element_column(e));
			}
		}
	}
	return true;
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_EPILOGUE_CUH */
