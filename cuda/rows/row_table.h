/*-------------------------------------------------------------------------
 *
 * row_table.h
 *	  Tables of staged rows (FP32 or FP64) in chunks of 2^shift rows, and quantized rows as
 *	  the filters read them.
 *
 * The number of rows is unknown while they arrive, and adding a chunk is cheaper than moving the
 * rows already present.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_ROW_TABLE_H
#define FASTED_CUDA_ROW_TABLE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/host_device.h"

namespace fasted
{

/*
 * The rules of engine/metric_rules.h that device code needs.  has_squares: rows are stored with a
 * number each, x.x or, for rows of bits, their number of set bits.  is_euclidean: the distance is a
 * function of |x - y|, of rows or of their directions.
 */
FASTED_HD constexpr bool has_direction(FastedMetric m) { return m == FASTED_METRIC_COSINE; }
FASTED_HD constexpr bool is_negative_product(FastedMetric m) { return m == FASTED_METRIC_INNER_PRODUCT; }
FASTED_HD constexpr bool is_of_union(FastedMetric m) { return m == FASTED_METRIC_JACCARD; }
FASTED_HD constexpr bool is_of_bits(FastedMetric m) { return m == FASTED_METRIC_HAMMING || is_of_union(m); }
FASTED_HD constexpr bool is_euclidean(FastedMetric m) { return m == FASTED_METRIC_L2 || has_direction(m); }
FASTED_HD constexpr bool
has_squares(FastedMetric m)
{
	return m != FASTED_METRIC_L2 && m != FASTED_METRIC_HAMMING;
}

struct RowTable
{
	const float *const *chunks;
	uint32_t	shift;
	uint32_t	dimensions;		/* number of values per row; rows of bits: number of words */
	uint32_t	rows;
	const uint32_t *order = nullptr;	/* row number at each place; null: identity */
	const double *squares = nullptr;	/* see has_squares, by row number */
	bool		doubles = false;	/* values are doubles, or words of 64 bits, instead of floats */
	FastedMetric metric = {};

#ifdef __CUDACC__
	/* Returns the number of the staged row at this place of the order. */
	__device__ __forceinline__ uint32_t
	number_at(uint32_t place) const
	{
		return order == nullptr ? place : order[place];
	}

	/* Returns the staged row with this number; Number must have the size of a value. */
	template <class Number = float>
	__device__ __forceinline__ const Number *
	staged(uint32_t number) const
	{
		uint32_t	within = number & ((1u << shift) - 1);

		return (const Number *) chunks[number >> shift] + (size_t) within * dimensions;
	}

	/* The same by place; square() returns x.x. */
	template <class Number = float>
	__device__ __forceinline__ const Number *
	row(uint32_t place) const
	{
		return staged<Number>(number_at(place));
	}

	__device__ __forceinline__ double
	square(uint32_t place) const
	{
		return squares[number_at(place)];
	}
#endif
};

/* `rows` rows of a table, beginning with place `first`. */
struct RowPiece
{
	RowTable	table;
	uint32_t	first;
	uint32_t	rows;

#ifdef __CUDACC__
	__host__ __device__ uint32_t count() const { return rows; }
	__host__ __device__ uint32_t dimensions() const { return table.dimensions; }
	__device__ bool doubles() const { return table.doubles; }
	template <class Number = float>
	__device__ const Number *row(uint32_t i) const { return table.row<Number>(first + i); }
	__device__ double square(uint32_t i) const { return table.square(first + i); }
#endif
};

/* A deterministic sample of evenly distributed rows of one set, or of two. */
struct SampledRows
{
	RowTable	a;
	RowTable	b;
	uint32_t	from_a;			/* number of sampled rows of a; those of b follow */
	uint32_t	from_b;

	/* All rows of one set, or of two. */
	explicit SampledRows(const RowTable &rows) : SampledRows(rows, rows) { from_b = 0; }
	SampledRows(const RowTable &a_, const RowTable &b_)
		: a(a_), b(b_), from_a(a_.rows), from_b(b_.rows)
	{
	}

	/*
	 * A sample of at most `most` rows, which must be at least 2; with two sets, at most half of
	 * them from each.
	 */
	SampledRows at_most(uint32_t most) const
	{
		SampledRows	fewer = *this;

		if (from_b > 0)
			most /= 2;
		fewer.from_a = std::min(from_a, most);
		fewer.from_b = std::min(from_b, most);
		return fewer;
	}

#ifdef __CUDACC__
	__host__ __device__ uint32_t count() const { return from_a + from_b; }
	__host__ __device__ uint32_t dimensions() const { return a.dimensions; }

	__host__ __device__ bool doubles() const { return a.doubles; }

	template <class Number = float>
	__device__ __forceinline__ const Number *
	row(uint32_t i) const
	{
		return i < from_a ? a.row<Number>(fasted_sample_row(i, from_a, a.rows))
			: b.row<Number>(fasted_sample_row(i - from_a, from_b, b.rows));
	}

	/* x.x of a sampled row; only if the tables have squares. */
	__device__ __forceinline__ double
	square(uint32_t i) const
	{
		return i < from_a ? a.square(fasted_sample_row(i, from_a, a.rows))
			: b.square(fasted_sample_row(i - from_a, from_b, b.rows));
	}
#endif
};

/* The type of a quantized row's values. */
enum class Precision
{
	kFp16,						/* products summed in FP32; thresholds in FP32 */
	kInt8,						/* products summed in INT32; thresholds in INT32 */
	kFp32						/* products summed in FP64; thresholds in FP32 */
};

constexpr uint32_t
element_bytes(Precision precision)
{
	return precision == Precision::kInt8 ? 1 : precision == Precision::kFp16 ? 2 : 4;
}

/*
 * Bytes of a row that one tensor core instruction multiplies (its K): 16 values in FP16, 32 in
 * INT8. It is also a sector of the L2 cache.  Rows are padded to a multiple of it, with zeros.  The
 * paper aligns rows to 128 bytes, which at d = 65 takes 256 bytes per row instead of 160. A copy
 * that begins inside a cache line still moves whole sectors.
 */
constexpr uint32_t kStepBytes = 32;

/* For FP64 products: 16 FP32 values. */
constexpr uint32_t kStepBytesFp32 = 64;

/* Bytes of a quantized row. */
constexpr uint32_t
row_bytes(uint32_t dimensions, Precision precision)
{
	uint32_t	step = precision == Precision::kFp32 ? kStepBytesFp32 : kStepBytes;

	return (dimensions * element_bytes(precision) + step - 1) / step * step;
}

/*
 * Thresholds are padded to a multiple of this, plus as much again, with a value that no product
 * reaches.  No tile, and no pair of tiles, has more rows.
 */
constexpr uint32_t kThresholdPad = 512;

constexpr uint32_t
padded_thresholds(uint64_t rows)
{
	return (uint32_t) ((rows + kThresholdPad - 1) / kThresholdPad * kThresholdPad
					   + kThresholdPad);
}

/* Columns per threshold minimum: a tile of 256 columns has four minima. */
constexpr uint32_t kMinimaColumns = 64;

constexpr uint32_t
minima_of(uint64_t rows)
{
	return padded_thresholds(rows) / kMinimaColumns;
}

/* A set of quantized rows; device pointers. */
struct QuantisedRows
{
	const void *values;			/* rows x row_bytes bytes */
	const uint32_t *thresholds; /* t of filter_bound.h in FP32 or INT32 */
	const uint32_t *minima;		/* minimum threshold per 64 rows (filter_rows.h) */
	uint32_t	rows;
	const uint8_t *folded_a = nullptr;	/* folded rows as first or second operand */
	const uint8_t *folded_b = nullptr;	/* null: rows are not folded */
	const uint32_t *components = nullptr;	/* component of each row, if rows are sorted by it */
};

/*
 * Folded rows: INT8 rows with their thresholds appended as further components, for the folded
 * filter.
 *
 * The product of two folded rows, one of each kind (first and second operand), is n_x + n_y - p -
 * 1. It is negative if and only if the pair is a candidate (doc/internals/bound-int8.md, section
 * 9). The kernel therefore needs no comparison with thresholds.
 *
 * A row's values lie in blocks of 8 rows x 16 bytes, as the tensor cores read them without a
 * swizzle.  The blocks of eight rows are contiguous, so any multiple of eight rows is a single
 * contiguous copy.
 */

/* Components of a row, and its bytes including the folded threshold. */
struct FoldShape
{
	uint32_t	numbers;
	uint32_t	bytes;

	/* Number of high parts of a threshold, for each operand; one low part follows them. */
	FASTED_HD constexpr uint32_t parts() const { return (bytes - numbers - 2) / 2; }

	/* The threshold of padding; the absolute values of all other folded thresholds are smaller. */
	FASTED_HD constexpr int32_t most() const { return (int32_t) parts() * 127 * 127; }
};

/* Maximum bytes of a row that can be folded; one step is added for its threshold. */
constexpr uint32_t kMostFolded = 256;

constexpr FoldShape
fold_shape(uint32_t row_bytes)
{
	return {row_bytes, row_bytes + kStepBytes};
}

/* Number of folded rows of each kind, padded to a multiple of the largest tile. */
constexpr uint32_t
padded_folded(uint64_t rows)
{
	return (uint32_t) ((rows + kThresholdPad - 1) / kThresholdPad * kThresholdPad);
}

constexpr size_t
folded_bytes(uint64_t rows, uint32_t row_bytes)
{
	return (size_t) padded_folded(rows) * fold_shape(row_bytes).bytes;
}

/*
 * Numbers of rows whose thresholds are out of range for folding.  If any threshold is too low, the
 * folded rows are unusable.  A threshold that is too high is lowered, which loses no pair but gives
 * the row more candidates.
 */
struct Unfit
{
	uint32_t	low;
	uint32_t	high;

	/* Returns true if so few thresholds are too high that folding still makes the join faster. */
	bool few(uint32_t rows) const { return low == 0 && high <= rows / 64; }
};

#ifdef __CUDACC__
/* Sum over a warp; all lanes get the same bits. */
template <class Number>
__device__ __forceinline__ Number
warp_sum(Number value)
{
	for (int o = 16; o > 0; o /= 2)
		value += __shfl_xor_sync(0xffffffff, value, o);
	return value;
}

/* Binary search: returns the first place whose value is not less than `value`. */
template <class ValueAt>
__device__ __forceinline__ uint32_t
find_place(uint32_t begin, uint32_t end, uint32_t value, const ValueAt &value_at)
{
	while (begin < end)
	{
		uint32_t	middle = begin + (end - begin) / 2;

		if (value_at(middle) < value)
			begin = middle + 1;
		else
			end = middle;
	}
	return begin;
}

/* Maximum over a warp. */
__device__ __forceinline__ double
warp_max(double value)
{
	for (int o = 16; o > 0; o /= 2)
		value = fmax(value, __shfl_xor_sync(0xffffffff, value, o));
	return value;
}
#endif

}								/* namespace fasted */

#endif							/* FASTED_CUDA_ROW_TABLE_H */
