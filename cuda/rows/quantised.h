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

/* A set of rows, quantised. */
struct QuantisedRows
{
	const void *values;			/* rows x row_bytes */
	const uint32_t *thresholds; /* t of filter_bound.h in FP32 or INT32, or the paper's s_i */
	const uint32_t *minima;		/* of the thresholds of 64 rows each (row_order.h) */
	uint32_t	rows;
	const uint8_t *folded_a = nullptr;	/* with thresholds, as a first or second operand */
	const uint8_t *folded_b = nullptr;	/* (folded_rows.h); null: there are none */
};

/* What makes a product a hit (epilogue.cuh). */
enum class Criterion
{
	kFp16,						/* certified */
	kInt8,
	kFp64,						/* of rows in FP32 */
	kPaper						/* the paper's own, in FP16, approximate */
};

}								/* namespace fasted */

#endif							/* FASTED_CUDA_QUANTISED_H */
