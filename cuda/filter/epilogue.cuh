/*-------------------------------------------------------------------------
 *
 * epilogue.cuh
 *	  Epilogue of the filters: finds candidates in a warp's accumulators (the paper's step 3).
 *
 * A hit is an inner product that passes the filter's test; its pair becomes a candidate.
 *
 * A thread holds 128 (or 64) inner products in the layout of the tensor cores: eight (four)
 * groups of 16 products.  The products of a group are in one row, at pairs of adjacent columns
 * eight columns apart.  Hits are rare: there are two per tile of 128 x 256 for a million rows
 * with 64 neighbors each.  The first test is therefore as short as possible.  It compares the
 * largest product of each group (half an instruction per product) with the row's threshold and
 * the minimum threshold of 64 columns.  Rows are ordered by their thresholds, so this test is
 * almost as selective as a test of every product.  Only groups in which some lane may have a hit
 * are tested product by product.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_EPILOGUE_CUH
#define FASTED_CUDA_EPILOGUE_CUH

#include <cstdint>

#include "filter/filter.h"

namespace fasted
{

constexpr int kGroupSize = 16;

/*
 * Number of groups, and of 32-bit masks (one per two groups), for a number of products per thread.
 */
__host__ __device__ constexpr int groups_of(int products) { return products / kGroupSize; }
__host__ __device__ constexpr int words_of(int products) { return products / 32; }

/* Row and column of each group of accumulators within a warp tile. */
struct LayoutMma				/* mma.sync: 64 x 64 as 4 x 8 tiles of 16 x 8, or 32 x 64 */
{
	static __device__ __forceinline__ int row(int group) { return (group >> 1) * 16 + (group & 1) * 8; }
	static __device__ __forceinline__ int column(int) { return 0; }
};

struct LayoutWgmma				/* wgmma: 16 x 256 as 32 tiles of 16 x 8 */
{
	static __device__ __forceinline__ int row(int group) { return (group & 1) * 8; }
	static __device__ __forceinline__ int column(int group) { return (group >> 1) * 64; }
};

/* Element e of a group: its index among all products, and its column. */
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
 * A test decides whether a product is a hit.  Number is the type of thresholds, Product that of
 * accumulators.  may_hit() decides whether the largest product of a group (as an integer, see
 * largest_of_group) may be a hit, given the minimum threshold of its columns.
 *
 * The certified FP16 filter: a pair of the result has g >= t_x + t_y in exact arithmetic
 * (doc/internals/bound.md, section 6), so fl(g - t_y) >= t_x.  Comparing floats as integers finds
 * the largest if any is positive, and otherwise some negative one.  This is correct if all hits are
 * positive.
 */
struct Fp16Test
{
	using Number = float;
	using Product = float;

	__device__ __forceinline__ bool hit(float g, float tx, float ty) const { return g - ty >= tx; }
	__device__ __forceinline__ bool
	may_hit(int32_t largest, float tx, float least) const
	{
		return hit(__int_as_float(largest), tx, least) || !(tx + least > 0.0f);
	}
};

/* FP64: products are rounded up to FP32, so they do not decrease (section 6 of bound.md). */
struct Fp64Test : Fp16Test
{
	using Product = double;
};

/* The certified INT8 filter: p >= n_x + n_y, in a form that does not overflow. */
struct Int8Test
{
	using Number = int32_t;
	using Product = int32_t;

	__device__ __forceinline__ bool
	hit(int32_t p, int32_t nx, int32_t ny) const
	{
		return p - ny >= nx;
	}
	__device__ __forceinline__ bool
	may_hit(int32_t largest, int32_t nx, int32_t least) const
	{
		return hit(largest, nx, least);
	}
};

/* Position of a warp tile in the distance matrix. */
struct WarpTile
{
	uint32_t	row;			/* row and column of this lane's first accumulator */
	uint32_t	column;
	uint32_t	rows;			/* size of the whole matrix */
	uint32_t	columns;
	bool		triangle;		/* only pairs with row < column */
	bool		whole;			/* every element is a requested pair */
};

/*
 * Index of element i of mask w, which interleaves groups 2 w and 2 w + 1. The element is bit 31 -
 * i, so that __clz finds it.
 */
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

/* Clears hits that are outside of the matrix or, if `triangle`, not above its diagonal. */
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

/* Exclusive prefix sum over the warp of the number of hits per lane. */
__device__ __forceinline__ uint32_t
hits_before(uint32_t found, uint32_t total)
{
	uint32_t	lanes = __ballot_sync(0xffffffff, found > 0);

	/* usually no lane has two hits */
	if (total == (uint32_t) __popc(lanes))
		return __popc(lanes & ((1u << threadIdx.x % 32) - 1));
	return warp_prefix(found);
}

template <class Number>
struct alignas(8) Two
{
	Number		first;
	Number		second;
};

__device__ __forceinline__ int32_t as_integer(int32_t value) { return value; }
__device__ __forceinline__ int32_t as_integer(float value) { return __float_as_int(value); }

/* Largest product of a group as an integer; a float is compared by its bits. */
template <class Number, int kProducts>
__device__ __forceinline__ int32_t
largest_of_group(const Number (&acc)[kProducts], int group)
{
	auto		bits = [&](int e) { return as_integer(acc[element_index(group, e)]); };
	int32_t		largest = bits(0);

#pragma unroll
	for (int e = 1; e + 1 < kGroupSize; e += 2)
		largest = __vimax3_s32(largest, bits(e), bits(e + 1));
	return max(largest, bits(kGroupSize - 1));
}

/* Groups that may have a hit in some lane of the warp, as a mask: bit g for group g. */
template <class Layout, class Test, class Number, int kProducts>
__device__ __forceinline__ uint32_t
groups_to_test(const Number (&acc)[kProducts], const Number *tx, const Number *minima,
				  const Test &test)
{
	constexpr int kGroups = groups_of(kProducts);
	int32_t		largest[kGroups];
	bool		any = false;
	uint32_t	groups = 0;

#pragma unroll
	for (int g = 0; g < kGroups; g++)
		largest[g] = largest_of_group(acc, g);

	auto		may_hit = [&](int g)
	{
		return test.may_hit(largest[g], tx[Layout::row(g)],
							minima[Layout::column(g) / 64]);
	};

#pragma unroll
	for (int g = 0; g < kGroups; g++)
		any = any | may_hit(g);
	if (!__any_sync(0xffffffff, any))
		return 0;
#pragma unroll
	for (int g = 0; g < kGroups; g++)
		groups |= may_hit(g) ? 1u << g : 0;
	return __reduce_or_sync(0xffffffff, groups);
}

/* This lane's hits in group g, as bits of the group's mask. */
template <class Layout, class Test, class Number, int kProducts>
__device__ __forceinline__ uint32_t
hits_of_group(const Number (&acc)[kProducts], const Number *tx, const Number *ty,
			  const Test &test, int g)
{
	Number		t = tx[Layout::row(g)];
	uint32_t	mask = 0;

#pragma unroll
	for (int e = 0; e < kGroupSize; e += 2)
	{
		auto		two = *(const Two<Number> *) &ty[Layout::column(g) + element_column(e)];

		if (test.hit(acc[element_index(g, e)], t, two.first))
			mask |= 0x80000000u >> (2 * e + (g & 1));
		if (test.hit(acc[element_index(g, e + 1)], t, two.second))
			mask |= 0x80000000u >> (2 * e + 2 + (g & 1));
	}
	return mask;
}

/* Writes this lane's hits, beginning with `slot`. */
template <class Layout, int kWords>
__device__ __forceinline__ void
write_hits(const WarpTile &tile, const uint32_t (&masks)[kWords], const CandidateBuffer &buffer,
		   uint32_t slot)
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

/*
 * Writes the hits of one warp to the candidate buffer; called by all lanes.  `tx` and `ty` point to
 * this lane's thresholds in shared memory: tx[Layout::row(group)], ty[Layout::column(group) +
 * element_column(e)]. `minima` points to the minimum thresholds of 64 columns each.  Returns false,
 * without writing anything, if the buffer is full.
 */
template <class Layout, class Test, int kProducts>
__device__ __forceinline__ bool
report_hits(const typename Test::Number (&acc)[kProducts], const typename Test::Number *tx,
			const typename Test::Number *ty, const typename Test::Number *minima,
			const Test &test, const WarpTile &tile,
			const CandidateBuffer &buffer, CandidateWriter &writer)
{
	constexpr int kWords = words_of(kProducts);
	uint32_t	groups = groups_to_test<Layout>(acc, tx, minima, test);
	uint32_t	masks[kWords] = {};
	uint32_t	found = 0;

	if (groups == 0)
		return true;
#pragma unroll
	for (int g = 0; g < groups_of(kProducts); g++)
	{
		if (groups >> g & 1)
			masks[g / 2] |= hits_of_group<Layout>(acc, tx, ty, test, g);
	}

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

	uint32_t	slot = writer.next_slots(total) + hits_before(found, total);

	if (found > 0)
		write_hits<Layout>(tile, masks, buffer, slot);
	return true;
}

}								/* namespace fasted */

#endif							/* FASTED_CUDA_EPILOGUE_CUH */
