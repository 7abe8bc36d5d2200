/*-------------------------------------------------------------------------
 *
 * row_table.h
 *	  Where the rows as staged (FP32 or FP64) lie, in chunks of 2^shift rows; and rows as
 *	  the filters read them.
 *
 * The number of rows is not known while they arrive, and a chunk more is
 * cheaper than moving what is there.
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

struct RowTable
{
	const float *const *chunks;
	uint32_t	shift;
	uint32_t	dimensions;
	uint32_t	rows;
	const uint32_t *order = nullptr;	/* which row is at each place; null: the same */
	const double *squares = nullptr;	/* cosine: x.x of each row as staged */
	bool		doubles = false;	/* rows are of doubles, each in the place of two floats */

#ifdef __CUDACC__
	/* Which of the rows as staged is at this place. */
	__device__ __forceinline__ uint32_t
	number_at(uint32_t place) const
	{
		return order == nullptr ? place : order[place];
	}

	/* A row as staged, of floats or of doubles: as it is. */
	template <class Number = float>
	__device__ __forceinline__ const Number *
	staged(uint32_t number) const
	{
		uint32_t	within = number & ((1u << shift) - 1);

		return (const Number *) chunks[number >> shift] + (size_t) within * dimensions;
	}

	/* The row at this place, and its x.x. */
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

/* Some rows of a table, from place `first` on. */
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

/* Some rows, evenly spread over one set of rows, or over two. */
struct SpreadRows
{
	RowTable	a;
	RowTable	b;
	uint32_t	from_a;			/* so many rows of it, then those of b */
	uint32_t	from_b;

	/* All rows of one set, or of two. */
	explicit SpreadRows(const RowTable &rows) : SpreadRows(rows, rows) { from_b = 0; }
	SpreadRows(const RowTable &a_, const RowTable &b_)
		: a(a_), b(b_), from_a(a_.rows), from_b(b_.rows)
	{
	}

	/* At most so many of them, two at least; half of that of each if there are two sets. */
	SpreadRows at_most(uint32_t most) const
	{
		SpreadRows	fewer = *this;

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
		return i < from_a ? a.row<Number>(fasted_spread_row(i, from_a, a.rows))
			: b.row<Number>(fasted_spread_row(i - from_a, from_b, b.rows));
	}

	/* Its x.x, where the tables have that. */
	__device__ __forceinline__ double
	square(uint32_t i) const
	{
		return i < from_a ? a.square(fasted_spread_row(i, from_a, a.rows))
			: b.square(fasted_spread_row(i - from_a, from_b, b.rows));
	}
#endif
};

/* What rows are quantised to. */
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
 * The K of one tensor core instruction, in bytes of a row: 16 numbers in FP16,
 * 32 in INT8, and a sector of the L2 cache.  Rows are padded to a multiple of
 * it, with zeros.  The paper aligns rows to 128 bytes; at d = 65 that costs 256
 * bytes a row instead of 160, and a copy that begins inside a line still moves
 * whole sectors.
 */
constexpr uint32_t kStepBytes = 32;

/* For FP64 products it is 16 FP32 numbers. */
constexpr uint32_t kStepBytesFp32 = 64;

/* Bytes of a quantised row. */
constexpr uint32_t
row_bytes(uint32_t dimensions, Precision precision)
{
	uint32_t	step = precision == Precision::kFp32 ? kStepBytesFp32 : kStepBytes;

	return (dimensions * element_bytes(precision) + step - 1) / step * step;
}

/*
 * Thresholds are padded with what no product reaches, to a multiple of this and
 * by as much again: no tile, and no pair of tiles, is higher.
 */
constexpr uint32_t kThresholdPad = 512;

constexpr uint32_t
padded_thresholds(uint64_t rows)
{
	return (uint32_t) ((rows + kThresholdPad - 1) / kThresholdPad * kThresholdPad
					   + kThresholdPad);
}

/* The least threshold of every 64 columns: four numbers for a tile's 256. */
constexpr uint32_t kMinimaColumns = 64;

constexpr uint32_t
minima_of(uint64_t rows)
{
	return padded_thresholds(rows) / kMinimaColumns;
}

/* A set of rows, quantised. */
struct QuantisedRows
{
	const void *values;			/* rows x row_bytes */
	const uint32_t *thresholds; /* t of filter_bound.h in FP32 or INT32, or the paper's s_i */
	const uint32_t *minima;		/* of the thresholds of 64 rows each (filter_rows.h) */
	uint32_t	rows;
	const uint8_t *folded_a = nullptr;	/* with thresholds, as a first or second operand */
	const uint8_t *folded_b = nullptr;	/* null: there are none */
};

/* What makes a product a hit (epilogue.cuh). */
enum class Criterion
{
	kFp16,						/* certified */
	kInt8,
	kFp64,						/* of rows in FP32 */
	kPaper						/* the paper's own, in FP16, approximate */
};

/*
 * INT8 rows with their thresholds among their numbers, for the folded filter.
 *
 * Of two rows, one of either kind, the product is n_x + n_y - p - 1: negative if and
 * only if they are a candidate (doc/internals/bound-int8.md, section 9).  So a kernel compares
 * nothing.
 *
 * A row's numbers lie in blocks of 8 rows x 16 bytes, as the tensor cores read them
 * without a swizzle; the blocks of eight rows lie together.  So any multiple of eight
 * rows is one plain copy.
 */

/* How many numbers a row has, and bytes with its threshold's. */
struct FoldShape
{
	uint32_t	numbers;
	uint32_t	bytes;

	/* On either side, a threshold's high parts; one low part follows them. */
	FASTED_HD constexpr uint32_t parts() const { return (bytes - numbers - 2) / 2; }

	/* That of padding, and what all others are brought below, by their size. */
	FASTED_HD constexpr int32_t most() const { return (int32_t) parts() * 127 * 127; }
};

/* Rows of up to so many bytes get a step more, for their thresholds. */
constexpr uint32_t kMostFolded = 256;

constexpr FoldShape
fold_shape(uint32_t row_bytes)
{
	return {row_bytes, row_bytes + kStepBytes};
}

/* Of either kind, for so many rows, padded to a multiple of what a tile has at most. */
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
 * Rows whose thresholds do not fit into their parts.  Where one is too low, the rows are
 * of no use.  One that is too high is lowered, which loses no pair, but such rows have
 * more candidates.
 */
struct Unfit
{
	uint32_t	low;
	uint32_t	high;

	/* So few are too high that the join is faster nevertheless. */
	bool few(uint32_t rows) const { return low == 0 && high <= rows / 64; }
};

#ifdef __CUDACC__
/* The sum of a warp's values, the same bits in all lanes. */
template <class Number>
__device__ __forceinline__ Number
warp_sum(Number value)
{
	for (int o = 16; o > 0; o /= 2)
		value += __shfl_xor_sync(0xffffffff, value, o);
	return value;
}

/* The largest of a warp's values. */
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
