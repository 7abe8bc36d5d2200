/*-------------------------------------------------------------------------
 *
 * quantised.h
 *	  Rows as the filters read them: their precision, layout and thresholds.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_CUDA_QUANTISED_H
#define FASTED_CUDA_QUANTISED_H

#include <cstdint>

#include "engine/host_device.h"

namespace fasted
{

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
 * only if they are a candidate (doc/bound-int8.md, section 9).  So a kernel compares
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

/* Fills both kinds, padding included.  *unfit has zeros, and becomes how many there are. */
void launch_fold(const QuantisedRows &rows, const FoldShape &shape, uint8_t *folded_a,
				 uint8_t *folded_b, Unfit *unfit, cudaStream_t stream);

}								/* namespace fasted */

#endif							/* FASTED_CUDA_QUANTISED_H */
