/*-------------------------------------------------------------------------
 *
 * epilogue.cuh
 *	  From a warp's accumulators to candidates.
 *
 * A thread holds 128 inner products, in the layout of the tensor cores: eight
 * groups of 16 in one row each, columns in pairs eight apart.  Hits are rare
 * (two in a tile of 128 x 256 at a million rows with 64 neighbours each), so
 * three looks get closer and closer:
 *
 *	  1. the largest product of each group, half an instruction a product, against
 *		 the row's threshold and the least one of 64 columns (may_have_hits; wgmma);
 *	  2. the largest of (product - threshold of the column) of each group, one or
 *		 two instructions a product, against the threshold of the row;
 *	  3. the elements of the groups with a hit in some lane of the warp, one by one.
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
 * A test folds the products of a group into one value and says whether there is
 * a hit among them.  kCoarse: the first look serves.
 *
 * The certified filter in FP16: a pair of the result has g >= t_x + t_y in exact
 * arithmetic (doc/bound.md, section 6), so fl(g - t_y) >= t_x.
 */
struct Fp16Test
{
	using Number = float;
	static constexpr bool kKeepsSquares = false;
	static constexpr bool kCoarse = true;

	__device__ __forceinline__ float start() const { return -INFINITY; }
	__device__ __forceinline__ float
	fold(float sum, float g, float, float ty) const
	{
		return fmaxf(sum, g - ty);
	}
	__device__ __forceinline__ bool hit(float sum, float tx) const { return sum >= tx; }
	__device__ __forceinline__ float square(float, float, float) const { return 0; }
};

/* The certified filter in INT8: p >= n_x + n_y, all of them integers. */
struct Int8Test
{
	using Number = int32_t;
	static constexpr bool kKeepsSquares = false;
	static constexpr bool kCoarse = true;

	__device__ __forceinline__ int32_t start() const { return INT32_MIN; }
	__device__ __forceinline__ int32_t
	fold(int32_t sum, int32_t p, int32_t, int32_t ny) const
	{
		return __viaddmax_s32(p, -ny, sum);
	}
	__device__ __forceinline__ bool hit(int32_t sum, int32_t nx) const { return sum >= nx; }
	__device__ __forceinline__ float square(int32_t, int32_t, int32_t) const { return 0; }
};

/* The paper's step 3: dist^2 = -2 a + s_i + s_j, in FP32. */
struct PaperTest
{
	using Number = float;
	static constexpr bool kKeepsSquares = true;
	static constexpr bool kCoarse = false;

	float		eps2;

	__device__ __forceinline__ float start() const { return -INFINITY; }
	__device__ __forceinline__ float
	square(float a, float si, float sj) const
	{
		return fmaf(-2.0f, a, si + sj);
	}
	__device__ __forceinline__ float
	fold(float sum, float a, float si, float sj) const
	{
		return fmaxf(sum, eps2 - square(a, si, sj));
	}
	__device__ __forceinline__ bool hit(float sum, float) const { return sum >= 0.0f; }
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

template <class Number>
struct alignas(8) Two
{
	Number		first;
	Number		second;
};

/* The thresholds of elements e and e + 1 of word w, e even. */
template <class Layout, class Number>
__device__ __forceinline__ Two<Number>
column_thresholds(const Number *ty, int w, int e)
{
	return *(const Two<Number> *) &ty[Layout::column(2 * w) + element_column(e)];
}

__device__ __forceinline__ int32_t as_integer(int32_t value) { return value; }
__device__ __forceinline__ int32_t as_integer(float value) { return __float_as_int(value); }
__device__ __forceinline__ void from_bits(uint32_t bits, int32_t *value) { *value = (int32_t) bits; }
__device__ __forceinline__ void from_bits(uint32_t bits, float *value) { *value = __uint_as_float(bits); }

/* The largest product of a group as an integer: bits of a float, if it is one. */
template <class Number>
__device__ __forceinline__ int32_t
largest_of_group(const Number (&acc)[128], int group)
{
	auto		bits = [&](int e) { return as_integer(acc[element_index(group, e)]); };
	int32_t		largest = bits(0);

#pragma unroll
	for (int e = 1; e + 1 < kGroupSize; e += 2)
		largest = __vimax3_s32(largest, bits(e), bits(e + 1));
	return max(largest, bits(kGroupSize - 1));
}

/* Has this lane a row whose group of 64 columns may hold a hit? */
__device__ __forceinline__ bool
may_hit(const int32_t (&largest)[kGroups], const int32_t *rows, const int32_t (&least)[4])
{
	int32_t		even = INT32_MIN;
	int32_t		odd = INT32_MIN;

#pragma unroll
	for (int c = 0; c < 4; c++)
	{
		even = __viaddmax_s32(largest[2 * c], -least[c], even);
		odd = __viaddmax_s32(largest[2 * c + 1], -least[c], odd);
	}
	return even >= rows[0] || odd >= rows[8];
}

/*
 * Among floats, the largest as integers is the largest if that is positive, and
 * some negative one if it is not: right as long as hits are positive.
 */
__device__ __forceinline__ bool
may_hit(const int32_t (&largest)[kGroups], const float *rows, const float (&least)[4])
{
	float		even = -INFINITY;
	float		odd = -INFINITY;
	float		all = fminf(fminf(least[0], least[1]), fminf(least[2], least[3]));
	bool		positive = all + rows[0] > 0.0f && all + rows[8] > 0.0f;

#pragma unroll
	for (int c = 0; c < 4; c++)
	{
		even = fmaxf(even, __int_as_float(largest[2 * c]) - least[c]);
		odd = fmaxf(odd, __int_as_float(largest[2 * c + 1]) - least[c]);
	}
	return !positive || even >= rows[0] || odd >= rows[8];
}

/*
 * The first look, at a warp's 16 x 256 products: false if no lane has a hit.
 * "rows" points at this lane's thresholds, "minima" at the least thresholds of
 * the tile's columns, 64 each.
 */
template <class Number>
__device__ __forceinline__ bool
may_have_hits(const Number (&acc)[128], const Number *rows, const uint32_t *minima)
{
	uint4		four = *(const uint4 *) minima;
	const uint32_t bits[4] = {four.x, four.y, four.z, four.w};
	Number		least[4];
	int32_t		largest[kGroups];

#pragma unroll
	for (int c = 0; c < 4; c++)
		from_bits(bits[c], &least[c]);
#pragma unroll
	for (int g = 0; g < kGroups; g++)
		largest[g] = largest_of_group(acc, g);
	return __any_sync(0xffffffff, may_hit(largest, rows, least));
}

/* Which groups have a hit in any lane: bit g for group g. */
template <class Layout, class Test>
__device__ __forceinline__ uint32_t
groups_with_hits(const typename Test::Number (&acc)[128],
				 const typename Test::Number (&rows)[kGroups],
				 const typename Test::Number *ty, const Test &test)
{
	typename Test::Number sums[kGroups];
	uint32_t	groups = 0;

#pragma unroll
	for (int g = 0; g < kGroups; g++)
		sums[g] = test.start();
#pragma unroll
	for (int e = 0; e < kGroupSize; e += 2)
	{
#pragma unroll
		for (int w = 0; w < kWords; w++)
		{
			auto		t = column_thresholds<Layout>(ty, w, e);

#pragma unroll
			for (int g = 2 * w; g < 2 * w + 2; g++)
			{
				sums[g] = test.fold(sums[g], acc[element_index(g, e)], rows[g], t.first);
				sums[g] = test.fold(sums[g], acc[element_index(g, e + 1)], rows[g], t.second);
			}
		}
	}
#pragma unroll
	for (int g = 0; g < kGroups; g++)
		groups |= test.hit(sums[g], rows[g]) ? 1u << g : 0;
	return __reduce_or_sync(0xffffffff, groups);
}

/*
 * This lane's hits in word w.  Reads the thresholds again, or 128 differences
 * would wait in registers for the case that they are wanted.
 */
template <class Layout, class Test>
__device__ __forceinline__ uint32_t
hits_of_word(const typename Test::Number (&acc)[128],
			 const typename Test::Number (&rows)[kGroups],
			 const typename Test::Number *ty, const Test &test, int w)
{
	uint32_t	mask = 0;

#pragma unroll
	for (int e = 0; e < kGroupSize; e++)
	{
		typename Test::Number t =
			*(const volatile typename Test::Number *) &ty[Layout::column(2 * w) + element_column(e)];

#pragma unroll
		for (int j = 0; j < 2; j++)
		{
			auto		value = test.fold(test.start(), acc[word_index(w, 2 * e + j)],
										  rows[2 * w + j], t);

			mask |= test.hit(value, rows[2 * w + j]) ? 0x80000000u >> (2 * e + j) : 0;
		}
	}
	return mask;
}

/*
 * Reports the hits of one warp.  "tx" and "ty" point at this lane's thresholds
 * in shared memory: tx[Layout::row(group)], ty[Layout::column(group) +
 * element_column(e)].  False: no room, and nothing was written.
 */
template <class Layout, class Test>
__device__ __forceinline__ bool
report_hits(const typename Test::Number (&acc)[128], const typename Test::Number *tx,
			const typename Test::Number *ty, const Test &test, const WarpTile &tile,
			const CandidateBuffer &buffer, CandidateWriter &writer)
{
	typename Test::Number rows[kGroups];
	uint32_t	masks[kWords] = {};
	uint32_t	found = 0;

#pragma unroll
	for (int g = 0; g < kGroups; g++)
		rows[g] = tx[Layout::row(g)];

	uint32_t	groups = groups_with_hits<Layout>(acc, rows, ty, test);

	if (groups == 0)
		return true;
#pragma unroll
	for (int w = 0; w < kWords; w++)
	{
		if (groups >> (2 * w) & 3)
			masks[w] = hits_of_word<Layout>(acc, rows, ty, test, w);
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
